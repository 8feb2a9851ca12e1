//! The shape of source files: an opening that says what the file is for, lines that fit a page,
//! files and functions that a reader can hold in mind, and no unfinished work.

use crate::source::{closing_brace, code, tokens, without_literals, without_tests};
use crate::{File, Finding, Tree};

/// Columns of a line, as in rustfmt.toml.
pub const WIDTH: usize = 100;
/// Lines of a file without its tests.
const FILE_LINES: usize = 500;
/// Lines of a function without its tests.
const FUNCTION_LINES: usize = 80;

/// Words of comments that say that something is left to do.
const UNFINISHED: [&str; 4] = ["TODO", "FIXME", "XXX", "HACK"];

/// Files that may be longer, and why.
const LONG_FILES: [(&str, &str); 0] = [];
/// Functions that may be longer, and why.
const LONG_FUNCTIONS: [(&str, &str, &str); 0] = [];

/// Files that break one of these rules.
pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.files.iter().filter(|file| file.is("rs")).flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let (code, without_literals) = (code(&file.text), without_literals(&file.text));
    let mut findings = Vec::new();
    findings.extend(opening(file));
    findings.extend(width(file, &without_literals));
    findings.extend(unfinished(file, &code, &without_literals));
    if !file.is_test() {
        let kept = without_tests(&code);
        findings.extend(long_file(file, &kept));
        findings.extend(long_functions(file, &kept));
    }
    findings
}

fn opening(file: &File) -> Option<Finding> {
    let what = "begins without `//!`: say what the file is for and what it must never do";
    (!file.text.starts_with("//! ")).then(|| Finding::at(file, 1, what))
}

/// Comments that are too wide. Code is rustfmt's business: it leaves only lines that cannot be
/// broken, and the text of a message shall not be, so that who searches for what was printed finds
/// it.
fn width(file: &File, without_literals: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, (line, bare)) in file.text.lines().zip(without_literals.lines()).enumerate() {
        let columns = line.chars().count();
        if columns > WIDTH && bare.contains("//") {
            let what = format!("a comment ends in column {columns}, at most {WIDTH} fit");
            findings.push(Finding::at(file, index + 1, what));
        }
    }
    findings
}

fn unfinished(file: &File, code: &str, without_literals: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in without_literals.lines().enumerate() {
        let Some(slashes) = line.find("//") else { continue };
        let words = line[slashes..].split(|c: char| !c.is_alphanumeric());
        for word in words.filter(|word| UNFINISHED.contains(word)) {
            if !is_numbered(line, word) {
                let what = format!("{word} without an issue: write `TODO(#n)` or do it");
                findings.push(Finding::at(file, index + 1, what));
            }
        }
    }
    let tokens = tokens(code);
    for pair in tokens.windows(2) {
        let (line, word) = pair[0];
        if matches!(word, "todo" | "dbg" | "unimplemented") && pair[1].1 == "!" {
            findings.push(Finding::at(file, line, format!("`{word}!` is unfinished work")));
        }
    }
    findings
}

/// Whether the line has `TODO(#12)`.
fn is_numbered(line: &str, word: &str) -> bool {
    let Some((_, rest)) = line.split_once(&format!("{word}(#")) else { return false };
    word == "TODO"
        && rest.split_once(')').is_some_and(|(number, _)| {
            !number.is_empty() && number.chars().all(|c| c.is_ascii_digit())
        })
}

fn long_file(file: &File, kept: &str) -> Option<Finding> {
    let written = |(line, kept): &(&str, &str)| !kept.trim().is_empty() || line.contains("//");
    let lines = file.text.lines().zip(kept.lines()).filter(written).count();
    let allowed = LONG_FILES.iter().any(|(path, _)| *path == file.path);
    (lines > FILE_LINES && !allowed).then(|| {
        let what = format!("{lines} lines besides tests, at most {FILE_LINES}: one file, one job");
        Finding::about(&file.path, what)
    })
}

fn long_functions(file: &File, kept: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, _) in kept.match_indices("fn ") {
        let starts_word = kept[..at].chars().next_back().is_none_or(|c| !c.is_alphanumeric());
        let Some(open) = kept[at..].find(['{', ';']).map(|found| at + found) else { continue };
        if !starts_word || kept[open..].starts_with(';') {
            continue;
        }
        let name = kept[at + 3..].split(|c: char| !(c.is_alphanumeric() || c == '_')).next();
        let name = name.unwrap_or_default();
        let lines = kept[at..closing_brace(kept, open)].lines().count();
        let allowed = LONG_FUNCTIONS.iter().any(|(path, f, _)| *path == file.path && *f == name);
        if lines > FUNCTION_LINES && !allowed {
            let line = kept[..at].lines().count().max(1);
            let what = format!("`fn {name}` has {lines} lines, at most {FUNCTION_LINES}");
            findings.push(Finding::at(file, line, what));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        let tree = Tree::of(&[("crates/raft/src/a.rs", text)]);
        check(&tree).iter().map(|finding| finding.what.clone()).collect()
    }

    #[test]
    fn a_file_that_does_not_say_what_it_is_for_is_found() {
        assert_eq!(findings("use a::b;\n").len(), 1);
        assert_eq!(findings("//! Why.\n\nuse a::b;\n"), Vec::<String>::new());
    }

    #[test]
    fn wide_comments_are_found_and_messages_are_not() {
        let wide = "a".repeat(95);
        assert_eq!(findings(&format!("//! Why.\n// {wide} {wide}\n")).len(), 1);
        assert_eq!(findings(&format!("//! Why.\nlet a = 1; // {wide}\n")).len(), 1);
        assert_eq!(findings(&format!("//! Why.\nlet a = \"// {wide}\";\n")).len(), 0);
        // Columns, not bytes.
        assert_eq!(findings(&format!("//! {}\n", "é".repeat(90))).len(), 0);
    }

    #[test]
    fn unfinished_work_is_found() {
        for text in [
            "// TODO: later",
            "// TODO(me): later",
            "// TODO(#): later",
            "let a = 1; // FIXME",
            "todo!();",
            "dbg!(a);",
            "unimplemented!(\"x\")",
        ] {
            assert_eq!(findings(&format!("//! Why.\n{text}\n")).len(), 1, "{text}");
        }
        for text in ["// TODO(#12): later", "let todo = 1;", "let a = \"todo!\";"] {
            assert_eq!(findings(&format!("//! Why.\n{text}\n")).len(), 0, "{text}");
        }
    }

    #[test]
    fn long_files_are_found_and_their_tests_do_not_count() {
        let lines = |n: usize| "use a;\n".repeat(n);
        assert_eq!(findings(&format!("//! Why.\n{}", lines(FILE_LINES - 1))).len(), 0);
        assert_eq!(findings(&format!("//! Why.\n{}", lines(FILE_LINES))).len(), 1);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", lines(FILE_LINES));
        assert_eq!(findings(&format!("//! Why.\n{tests}")).len(), 0);
    }

    #[test]
    fn long_functions_are_found() {
        let f = |n: usize| format!("//! Why.\nfn f() {{\n{}}}\n", "a();\n".repeat(n));
        assert_eq!(findings(&f(FUNCTION_LINES - 2)).len(), 0);
        let found = findings(&f(FUNCTION_LINES - 1));
        assert_eq!(found, ["`fn f` has 81 lines, at most 80"]);
    }
}
