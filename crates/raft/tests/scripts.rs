//! The protocol as its scripts tell it: `tests/scripts/*.txt`, each one behaviour.
//!
//! A script is blocks of commands and, below `---`, the lines that they bring about.
//! `UPDATE=1 cargo test` writes what comes out now; read it against the rules before you keep it,
//! line by line: the scripts are the proof. How to write one: `tests/README.md`.
#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]
#![allow(clippy::disallowed_methods, reason = "scripts are files")]

mod cluster;
mod script;

use cluster::Shape;
use std::path::{Path, PathBuf};

fn scripts() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut paths: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no scripts in {}", folder.display());
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        (path, text)
    };
    paths.into_iter().map(read).collect()
}

#[test]
fn scripts_tell_what_they_say() {
    let mut wrong = String::new();
    for (path, text) in scripts() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let told = match std::panic::catch_unwind(|| script::run(&text, Shape::default())) {
            Ok(told) => told,
            Err(_) => {
                wrong += &format!("{name}: breaks off, see the panic above\n");
                continue;
            }
        };
        if told == text {
            continue;
        }
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, told).unwrap();
        } else {
            wrong += &format!("{name} (- expected, + came out):\n{}", difference(&text, &told));
        }
    }
    assert!(wrong.is_empty(), "UPDATE=1 rewrites the expectations\n{wrong}");
}

/// What changed, line by line, with two lines around it.
fn difference(expected: &str, told: &str) -> String {
    let (a, b): (Vec<_>, Vec<_>) = (expected.lines().collect(), told.lines().collect());
    // The longest common lines stay.
    let mut common = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            common[i][j] = match a[i] == b[j] {
                true => common[i + 1][j + 1] + 1,
                false => common[i + 1][j].max(common[i][j + 1]),
            };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            lines.push((' ', a[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == b.len() || i < a.len() && common[i + 1][j] >= common[i][j + 1] {
            lines.push(('-', a[i]));
            i += 1;
        } else {
            lines.push(('+', b[j]));
            j += 1;
        }
    }
    let changed = |at: usize| lines.get(at).is_some_and(|(mark, _)| *mark != ' ');
    let shown = |at: &usize| (at.saturating_sub(2)..=at + 2).any(changed);
    let shown = (0..lines.len()).filter(shown);
    shown.map(|at| format!("  {} {}\n", lines[at].0, lines[at].1)).collect()
}

#[test]
fn a_difference_shows_what_changed_and_what_is_around() {
    let expected = "a\nb\nc\nd\ne\nf\ng";
    assert_eq!(difference(expected, expected), "");
    let told = difference(expected, "a\nb\nc\nd\nE\nf\ng");
    assert_eq!(told, "    c\n    d\n  - e\n  + E\n    f\n    g\n");
    assert_eq!(difference("a", "a\nb"), "    a\n  + b\n");
}
