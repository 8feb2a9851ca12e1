//! The only place that prints: facts to stdout, everything else to stderr, colours only to
//! terminals.

#![allow(clippy::print_stderr, reason = "a command talks to its terminal")]

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

/// Why something could not be printed, once it could not.
static FAULT: OnceLock<io::Error> = OnceLock::new();

/// A line of what was asked for. A reader that has seen enough and closed the pipe is no error.
pub(crate) fn line(text: &str) {
    bytes(format!("{text}\n").as_bytes());
}

/// Bytes as they are.
pub(crate) fn bytes(bytes: &[u8]) {
    let mut stdout = io::stdout().lock();
    if let Err(error) = stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        // Only the first one counts.
        let _ = FAULT.set(error);
    }
}

/// Whether nothing can be printed any more: a command that would go on printing ends.
pub(crate) fn closed() -> bool {
    FAULT.get().is_some()
}

/// Why not all could be printed, unless who read it has seen enough.
pub(crate) fn fault() -> Option<String> {
    let error = FAULT.get().filter(|error| error.kind() != io::ErrorKind::BrokenPipe)?;
    Some(format!(
        "not all could be printed: stdout takes no more ({error}); make room, or send it elsewhere"
    ))
}

/// Facts for programs, on one line.
pub(crate) fn json(value: &serde_json::Value) {
    line(&value.to_string());
}

/// What a person at the terminal should know.
pub(crate) fn note(text: &str) {
    eprintln!("{text}");
}

/// What may not be meant so, though the command goes on.
pub(crate) fn warning(text: &str) {
    marked("\x1b[1;33m", "warning:", text);
}

/// Why the command failed.
pub(crate) fn error(text: &str) {
    marked("\x1b[1;31m", "error:", text);
}

fn marked(colour: &str, word: &str, text: &str) {
    match io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        true => eprintln!("{colour}{word}\x1b[0m {text}"),
        false => eprintln!("{word} {text}"),
    }
}

/// Whether a person reads stdout.
pub(crate) fn to_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Columns as wide as their widest cell, the last one unpadded.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |at: usize| {
        let cells = rows.iter().map(|row| row[at].chars().count());
        cells.chain([head[at].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let head: Vec<String> = head.iter().map(|&name| name.to_owned()).collect();
    let render = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    std::iter::once(&head).chain(rows).map(render).collect::<Vec<_>>().join("\n")
}
