//! A piece that is missing fails the run and is named: nothing is skipped.

#![allow(clippy::unwrap_used)]

use std::process::Command;

/// Runs scenarios with no program to be found; `begins` is what must be said, before anything is
/// fetched, built or mounted.
fn fails_without(scenarios: &str, begins: &str) {
    let target = std::env::temp_dir().join(format!("quorate-{scenarios}-{}", std::process::id()));
    let output = Command::new(env!("CARGO_BIN_EXE_quorate-interop"))
        .arg(scenarios)
        .env("PATH", "")
        .env("CARGO_TARGET_DIR", &target)
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.starts_with(begins), "{printed}");
    assert!(!target.exists(), "nothing was fetched, built or mounted");
}

#[test]
fn without_java_the_run_fails_and_says_so() {
    fails_without("kafkas_dump_tool", "interop cannot run: `java` is missing: install");
}

#[test]
fn a_scenario_that_there_is_not_is_no_success() {
    let output = Command::new(env!("CARGO_BIN_EXE_quorate-interop"))
        .arg("no_such_scenario")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn without_go_the_scenarios_of_the_checker_fail_and_say_so() {
    fails_without("an_independent_checker", "interop cannot run: `go` is missing: install Go");
}

#[test]
fn without_mount_the_scenario_of_the_full_disks_fails_and_says_so() {
    fails_without("full_disks", "interop cannot run: `mount` is missing: install");
}
