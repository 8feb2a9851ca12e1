//! The walls of the pure crates: no clock, thread, socket, file, environment, async code, chance,
//! or anything whose order differs from run to run.
//!
//! Clippy's `disallowed-*` lists say the same to an editor; this scan also sees what they cannot
//! name, and covers files of crates that are pure only in part. Test code is free.

use crate::source::{code, tokens, without_tests};
use crate::{File, Finding, Tree};

/// Files of these crates are pure, but for those named.
const PURE: [(&str, &[&str]); 7] = [
    ("base", &[]),
    ("raft", &[]),
    ("wire", &[]),
    // The one file of the log that touches the operating system.
    ("log", &["os_disk.rs"]),
    ("machine", &[]),
    // Threads and sockets live below runtime/; a handle is how other threads talk to the replica.
    ("node", &["runtime.rs", "runtime/", "handle.rs"]),
    // The command prints, measures and reads files; the world does not.
    ("sim", &["bin/", "main.rs", "command.rs", "command/"]),
];

/// Words that are never pure, and why.
const WORDS: [(&str, &str); 10] = [
    ("Instant", "time is an argument"),
    ("SystemTime", "time is an argument"),
    ("HashMap", "its order differs from run to run: take a BTreeMap or a sorted Vec"),
    ("HashSet", "its order differs from run to run: take a BTreeSet or a sorted Vec"),
    ("RandomState", "its numbers differ from run to run"),
    ("tokio", "sockets and timers belong to node/src/runtime"),
    ("async", "pure code does not wait: queue the work and return"),
    ("rand", "chance comes from a seeded base::Rng"),
    ("getrandom", "chance comes from a seeded base::Rng"),
    ("unsafe", "no crate of this workspace has unsafe code"),
];

/// Modules of `std` that are never pure, and why.
const MODULES: [(&str, &str); 5] = [
    ("thread", "the runtime owns the threads"),
    ("net", "the runtime owns the sockets"),
    ("fs", "files belong to log/src/os_disk.rs"),
    ("env", "settings are arguments"),
    ("process", "a pure crate does not know its process"),
];

/// Impure words in pure files.
pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.files.iter().filter(|file| is_pure(file)).flat_map(check_file).collect()
}

fn is_pure(file: &File) -> bool {
    let Some((name, below)) = file.source() else { return false };
    let Some((_, exempt)) = PURE.iter().find(|(pure, _)| *pure == name) else { return false };
    let exempt = exempt.iter().any(|path| match path.ends_with('/') {
        true => below.starts_with(path),
        false => below == *path,
    });
    !exempt && !file.is_test()
}

fn check_file(file: &File) -> Vec<Finding> {
    let code = without_tests(&code(&file.text));
    let tokens = tokens(&code);
    let mut findings = Vec::new();
    for (at, (line, word)) in tokens.iter().enumerate() {
        let named = WORDS.iter().find(|(impure, _)| impure == word);
        if let Some((impure, why)) = named {
            findings.push(Finding::at(file, *line, format!("{impure} in a pure file: {why}")));
        }
        if *word == "std" {
            findings.extend(modules_of_std(file, &tokens[at..]));
        }
    }
    findings
}

/// Impure modules behind `std::` or in the group `std::{…}`.
fn modules_of_std(file: &File, tokens: &[(usize, &str)]) -> Vec<Finding> {
    let text = |at: usize| tokens.get(at).map(|(_, text)| *text);
    if text(1) != Some(":") || text(2) != Some(":") {
        return Vec::new();
    }
    let named: Vec<(usize, &str)> = match text(3) {
        Some("{") => first_names(&tokens[4..]),
        Some(_) => vec![tokens[3]],
        None => Vec::new(),
    };
    let mut findings = Vec::new();
    for (line, name) in named {
        if let Some((module, why)) = MODULES.iter().find(|(module, _)| *module == name) {
            findings.push(Finding::at(file, line, format!("std::{module} in a pure file: {why}")));
        }
    }
    findings
}

/// The first name of each path in a group of imports, after its opening brace.
fn first_names<'a>(group: &[(usize, &'a str)]) -> Vec<(usize, &'a str)> {
    let (mut names, mut depth, mut fresh) = (Vec::new(), 1, true);
    for (line, token) in group {
        match *token {
            "{" => depth += 1,
            "}" => depth -= 1,
            "," if depth == 1 => fresh = true,
            name if depth == 1 && fresh => {
                names.push((*line, name));
                fresh = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_impure_word_is_found_with_its_line_and_reason() {
        for (word, why) in WORDS {
            let found = findings("crates/raft/src/a.rs", &format!("\nlet a = {word}::new();\n"));
            assert_eq!(found, [format!("crates/raft/src/a.rs:2: {word} in a pure file: {why}")]);
        }
    }

    #[test]
    fn each_impure_module_is_found_however_it_is_named() {
        for (module, why) in MODULES {
            for use_ in [
                format!("use std::{module}::x;"),
                format!("use std::{{io::{{self, x}}, {module}}};"),
                format!("use std::{{{module}::{{a, b}}, io}};"),
                format!("let a = std::{module}::x();"),
            ] {
                let found = findings("crates/log/src/a.rs", &use_);
                let expected =
                    format!("crates/log/src/a.rs:1: std::{module} in a pure file: {why}");
                assert_eq!(found, [expected], "{use_}");
            }
        }
    }

    #[test]
    fn words_in_comments_strings_and_tests_do_not_count() {
        let text =
            "//! No HashMap.\nlet a = \"tokio\";\n#[cfg(test)]\nmod tests { use std::fs; }\n";
        assert_eq!(findings("crates/node/src/a.rs", text), Vec::<String>::new());
        let test = "use std::net::TcpListener;";
        assert_eq!(findings("crates/node/src/tests/a.rs", test), Vec::<String>::new());
    }

    #[test]
    fn only_the_named_files_are_exempt() {
        let text = "use std::fs;";
        for pure in ["log/src/disk.rs", "node/src/replica.rs", "sim/src/world.rs"] {
            assert_eq!(findings(&format!("crates/{pure}"), text).len(), 1, "{pure}");
        }
        for free in ["log/src/os_disk.rs", "node/src/runtime/net.rs", "sim/src/bin/sim.rs"] {
            assert_eq!(findings(&format!("crates/{free}"), text).len(), 0, "{free}");
        }
    }
}
