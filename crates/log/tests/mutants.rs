//! The test of the tests: each rule of cleaning that the log can be made to break is noticed by a
//! test of this crate. Runs only with `RUSTFLAGS='--cfg mutants'`, and a target directory of its
//! own. Prints who noticed.
#![cfg(mutants)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "it runs itself as a program")]

#[path = "cleaning.rs"]
mod cleaning;
#[path = "cleaning_crash.rs"]
mod cleaning_crash;
#[path = "consistency.rs"]
mod consistency;

use quorate_log::Mutant;
use std::process::Command;

/// The cheap ones first.
const TESTS: [&str; 4] =
    ["cleaning::", "consistency::row_9", "consistency::row_7", "cleaning_crash::"];

#[test]
fn every_broken_rule_is_noticed() {
    let mut unnoticed = Vec::new();
    for mutant in Mutant::OF_CLEANING {
        match TESTS.into_iter().find_map(|tests| failed(*mutant, tests)) {
            Some(by) => println!("{mutant:?}: {by}"),
            None => unnoticed.push(mutant),
        }
    }
    assert!(unnoticed.is_empty(), "no test notices {unnoticed:?}");
}

/// Runs these tests of this program with the rule broken; the first one that fails.
fn failed(mutant: Mutant, tests: &str) -> Option<String> {
    let output = Command::new(std::env::current_exe().unwrap())
        .arg(tests)
        .env("QUORATE_LOG_MUTANT", format!("{mutant:?}"))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("test result: "), "{tests}: {text}");
    let failed =
        |line: &str| Some(line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?.to_owned());
    text.lines().find_map(failed)
}
