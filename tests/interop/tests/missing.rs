//! A piece that is missing fails the run and is named: nothing is skipped.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

use std::process::Command;

/// Before anything is fetched, built or mounted.
#[test]
fn a_program_that_is_missing_fails_the_run_and_is_named() {
    for (scenarios, missing, install) in [
        ("kafkas_dump_tool", "java", "a Java runtime"),
        ("an_independent_checker", "go", "Go"),
        ("full_disks", "mount", "util-linux"),
    ] {
        let name = format!("quorate-{scenarios}-{}", std::process::id());
        let target = std::env::temp_dir().join(name);
        let output = Command::new(env!("CARGO_BIN_EXE_quorate-interop"))
            .arg(scenarios)
            .env("PATH", "")
            .env("CARGO_TARGET_DIR", &target)
            .output()
            .unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{printed}");
        let says = format!("interop cannot run: `{missing}` is missing: install {install}");
        assert!(printed.starts_with(&says), "{printed}");
        assert!(!target.exists(), "nothing was fetched, built or mounted");
    }
}

#[test]
fn a_scenario_that_there_is_not_is_no_success() {
    let output = Command::new(env!("CARGO_BIN_EXE_quorate-interop"))
        .arg("no_such_scenario")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}
