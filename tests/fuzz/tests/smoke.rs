//! A few seconds of every target, and the proof that a target that must fail does.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

use quorate_fuzz::{CANARY, Options, TARGETS, check_one, find, run};
use std::time::Duration;

fn options(inputs: u64) -> Options {
    Options { seed: 1, first: 0, inputs, patience: Duration::from_secs(60) }
}

#[test]
fn every_target_holds() {
    for target in TARGETS {
        let inputs = match target.name {
            "node-frames" | "server-file" => 500,
            _ => 2_000,
        };
        match run(*target, options(inputs), |_| {}) {
            Ok(report) => {
                assert_eq!(report.inputs, inputs, "{}", target.name);
                assert!(report.bytes > 0 && report.memory > 0, "{}", target.name);
            }
            Err(failure) => panic!("{failure}: {:02x?}", failure.input),
        }
    }
}

#[test]
fn the_canary_fails_where_it_must_and_again_when_replayed() {
    let failure = run(CANARY, options(100_000), |_| {}).unwrap_err();
    assert_eq!(failure.why, "panicked: the canary sings");
    assert_eq!(failure.input.first(), Some(&7));
    assert!(check_one(&CANARY, &failure.input).is_err());

    // Its number is enough to find it again.
    let only = Options { first: failure.index, inputs: 1, ..options(1) };
    assert_eq!(run(CANARY, only, |_| {}), Err(failure));
}

#[test]
fn what_holds_too_much_and_what_hangs_fails() {
    let hungry = quorate_fuzz::Target {
        check: |input| assert!(vec![1u8; 1 << 20].len() > input.len()),
        ..CANARY
    };
    let failure = run(hungry, options(10), |_| {}).unwrap_err();
    assert!(failure.why.starts_with("made us hold 10"), "{}", failure.why);

    let stuck = quorate_fuzz::Target {
        check: |_| {
            std::thread::park();
        },
        ..CANARY
    };
    let impatient = Options { patience: Duration::from_millis(200), ..options(10) };
    let failure = run(stuck, impatient, |_| {}).unwrap_err();
    assert_eq!((failure.index, failure.why.as_str()), (0, "no end within 0 s"));
}

#[test]
fn targets_are_found_by_name() {
    let names = |name| find(name).iter().map(|target| target.name).collect::<Vec<_>>();
    assert_eq!(names("wire-re"), ["wire-request", "wire-response"]);
    assert_eq!(names("canary"), ["canary"]);
    assert_eq!(names("all").len(), TARGETS.len());
    assert_eq!(names("nothing"), Vec::<&str>::new());
}

/// Inputs that once failed, named `TARGET.what_was_wrong.input`.
#[test]
fn what_once_failed_holds() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/regressions");
    let mut replayed = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let target = name.split('.').next().unwrap();
        let [target] = find(target)[..] else { panic!("{name} names no single target") };
        let input = std::fs::read(&path).unwrap();
        assert!(check_one(&target, &input).is_ok(), "{name} fails again");
        replayed += 1;
    }
    assert!(replayed > 0, "{folder} is empty");
}
