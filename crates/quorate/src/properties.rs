//! Java's property files, the form of Kafka's `server.properties`.
//!
//! Knows the form and nothing of what the keys mean. Every entry keeps the line that it starts on,
//! so that whoever reads the values can say where a wrong one stands. One difference to Java: the
//! text is UTF-8, not Latin-1.

use std::fmt;
use std::iter::Peekable;
use std::str::Chars;

/// One `key=value`, its escapes resolved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Before the first `=`, `:` or blank that no backslash precedes.
    pub key: String,
    /// The rest, without blanks at its start.
    pub value: String,
    /// The line it starts on; the first line is 1.
    pub line: u32,
}

/// A `\u` that four hexadecimal digits do not follow: the one thing that is no property file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadEscape {
    /// The line that the entry starts on.
    pub line: u32,
}

impl fmt::Display for BadEscape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: four hexadecimal digits must follow \\u", self.line)
    }
}

impl std::error::Error for BadEscape {}

/// All entries in the order of the file; equal keys stay separate.
///
/// # Errors
/// The lines whose escapes are broken, all of them.
pub fn parse(text: &str) -> Result<Vec<Entry>, Vec<BadEscape>> {
    let (mut entries, mut bad) = (Vec::new(), Vec::new());
    for (line, logical) in logical_lines(text) {
        match entry(line, &logical) {
            Ok(entry) => entries.push(entry),
            Err(escape) => bad.push(escape),
        }
    }
    if bad.is_empty() { Ok(entries) } else { Err(bad) }
}

/// Joins lines that end in an odd number of backslashes with the next; drops blanks and comments.
fn logical_lines(text: &str) -> Vec<(u32, String)> {
    let mut lines = Vec::new();
    let mut open: Option<(u32, String)> = None;
    for (number, natural) in (1..).zip(text.lines()) {
        let natural = natural.trim_start_matches(blank);
        let (start, mut logical) = match open.take() {
            Some(begun) => begun,
            // A comment never continues, and nothing continues into a comment.
            None if natural.is_empty() || natural.starts_with(['#', '!']) => continue,
            None => (number, String::new()),
        };
        let slashes = natural.len() - natural.trim_end_matches('\\').len();
        if slashes % 2 == 1 {
            logical.push_str(&natural[..natural.len() - 1]);
            open = Some((start, logical));
        } else {
            logical.push_str(natural);
            lines.push((start, logical));
        }
    }
    lines.extend(open);
    lines
}

fn entry(line: u32, logical: &str) -> Result<Entry, BadEscape> {
    let mut rest = logical.chars().peekable();
    let key =
        unescape(&mut rest, |c| blank(c) || c == '=' || c == ':').ok_or(BadEscape { line })?;
    while rest.next_if(|c| blank(*c)).is_some() {}
    if rest.next_if(|c| *c == '=' || *c == ':').is_some() {
        while rest.next_if(|c| blank(*c)).is_some() {}
    }
    let value = unescape(&mut rest, |_| false).ok_or(BadEscape { line })?;
    Ok(Entry { key, value, line })
}

/// Takes characters up to, not including, the first plain one that `ends`.
fn unescape(rest: &mut Peekable<Chars<'_>>, ends: impl Fn(char) -> bool) -> Option<String> {
    let mut text = String::new();
    while let Some(c) = rest.next_if(|c| !ends(*c)) {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match rest.next() {
            Some('t') => text.push('\t'),
            Some('n') => text.push('\n'),
            Some('r') => text.push('\r'),
            Some('f') => text.push('\u{c}'),
            Some('u') => {
                let digits: String = rest.by_ref().take(4).collect();
                // `from_str_radix` alone would take a sign.
                let hexadecimal =
                    digits.len() == 4 && digits.bytes().all(|d| d.is_ascii_hexdigit());
                let code = hexadecimal.then(|| u32::from_str_radix(&digits, 16).ok())??;
                text.push(char::from_u32(code)?);
            }
            Some(other) => text.push(other),
            None => {}
        }
    }
    Some(text)
}

fn blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{c}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &[(u32, &str, &str)]) {
        let entries = parse(text).expect("well-formed");
        let entries: Vec<_> =
            entries.iter().map(|e| (e.line, e.key.as_str(), e.value.as_str())).collect();
        assert_eq!(entries, expect, "{text:?}");
    }

    #[test]
    fn keys_end_at_equals_colon_or_blank() {
        check(
            "a=1\nb:2\nc 3\nd = 4\n e\t:\t5",
            &[(1, "a", "1"), (2, "b", "2"), (3, "c", "3"), (4, "d", "4"), (5, "e", "5")],
        );
        check(
            "k==v\nalone\nurl=http://h:1/?a=b ",
            &[(1, "k", "=v"), (2, "alone", ""), (3, "url", "http://h:1/?a=b ")],
        );
    }

    #[test]
    fn comments_and_blank_lines_count_as_lines_only() {
        check("# a\n\n  ! b \\\nx=1\r\n#y=2\n", &[(4, "x", "1")]);
    }

    #[test]
    fn a_backslash_at_the_end_goes_on_in_the_next_line() {
        check(
            "a=1,\\\n   2,\\\n#3\nb=\\\\\nc=\\",
            &[(1, "a", "1,2,#3"), (4, "b", "\\"), (5, "c", "")],
        );
    }

    #[test]
    fn escapes() {
        check(r"a\ b\=\:=\t\u00e9\q", &[(1, "a b=:", "\t\u{e9}q")]);
    }

    #[test]
    fn every_broken_escape_is_named() {
        assert_eq!(
            parse("a=\\u00\nb=ok\nc=\\u+123\nd=\\ud800"),
            Err([1, 3, 4].map(|line| BadEscape { line }).to_vec())
        );
    }
}
