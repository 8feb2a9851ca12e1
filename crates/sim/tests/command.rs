//! The command `sim` as a person meets it: what it refuses and why, what it prints of a failure,
//! and that it leaves files alone.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Nodes that elect sooner than a vote arrives: no version of the code makes these agree.
const FAILS: &str = "# mine\nseed c\nset election_ms 20\nset latency_us 50000\n\
                     set recover_ms 5000\n1s kill 2 for 1s\n2s reset 1 3\n";

/// An empty folder to work in.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("command-{name}"));
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Exit status, stdout and stderr.
fn sim(folder: &PathBuf, words: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sim"));
    let out = command.current_dir(folder).args(words).output().unwrap();
    let [stdout, stderr] = [out.stdout, out.stderr].map(|out| String::from_utf8(out).unwrap());
    (out.status.code().unwrap(), stdout, stderr)
}

#[test]
fn what_makes_no_sense_is_refused_with_the_reason() {
    let folder = folder("refuses");
    fs::write(folder.join("good.plan"), "seed 1\n").unwrap();
    fs::write(folder.join("bad.plan"), "seed 1\n\n1s power 2\n").unwrap();
    fs::write(folder.join("empty.plan"), "").unwrap();
    for (words, tells) in [
        (&["0", "--seeds", "0"][..], "expected how many seeds"),
        (&["0", "--seeds", "abc"], "expected how many seeds, such as 2000"),
        (&["0", "--plan", "--seeds", "3"], "cannot be used with"),
        (&["0", "--plan", "--trace", "all"], "cannot be used with"),
        (&["0", "--trace", "200"], "such as `tail=200`"),
        (&["0", "--until", "soon"], "expected seconds, such as 12.4"),
        (&["11112222333344445"], "11112222333344445 has 17 digits, and a seed 1 to 16"),
        (&["none.plan"], "none.plan is no seed (1 to 16 hexadecimal digits), and as a plan: "),
        (&["good.plan", "--seeds", "3"], "good.plan is a plan, which is one run"),
        (&["bad.plan"], "bad.plan: line 3: 1s power 2\n  it ends where this is expected: `for`\n"),
        (&["empty.plan"], "empty.plan: no line gives the seed"),
        (&["0", "--mutant", "NoSuchRule"], "--mutant"),
    ] {
        let (status, out, err) = sim(&folder, words);
        assert_eq!((status, out.as_str()), (2, ""), "{words:?}: {err}");
        assert!(err.contains(tells), "{words:?}: {err}");
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 3, "nothing was written");
}

#[cfg(not(mutants))]
#[test]
fn a_build_that_keeps_all_rules_says_how_to_make_one_that_does_not() {
    for words in [&["--mutant"][..], &["c", "--mutant", "SkipTruncate"]] {
        let (status, _, err) = sim(&folder("rules"), words);
        assert_eq!(status, 2);
        assert!(err.contains("RUSTFLAGS='--cfg mutants' cargo run"), "{err}");
    }
}

#[cfg(mutants)]
#[test]
fn rules_are_listed_and_one_that_was_meant_is_named() {
    let folder = folder("rules");
    let (status, out, _) = sim(&folder, &["--mutant"]);
    assert_eq!(status, 0);
    assert!(out.lines().any(|line| line == "SkipTruncate"), "{out}");
    let (status, _, err) = sim(&folder, &["c", "--mutant", "SkipTruncat"]);
    assert_eq!(status, 2);
    assert!(err.contains("is SkipTruncate meant?"), "{err}");
}

#[test]
fn a_plan_that_fails_is_left_as_it_is_and_its_smaller_one_replays() {
    let folder = folder("fails");
    fs::write(folder.join("x.plan"), FAILS).unwrap();
    let (status, _, err) = sim(&folder, &["x.plan"]);
    assert_eq!(status, 1);
    assert!(err.starts_with("FAILED  recovers   plan=x.plan t="), "{err}");
    assert!(err.contains("quorate-sim -- x.plan --trace tail=200\nplan    x.plan   (2 steps)\n"));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing was written");

    let (status, _, err) = sim(&folder, &["x.plan", "--shrink", "50"]);
    assert_eq!(status, 1);
    assert_eq!(fs::read_to_string(folder.join("x.plan")).unwrap(), FAILS);
    let small = "target/sim/x.min.plan";
    let replay = format!("-p quorate-sim -- {small} --trace tail=200\n");
    assert!(err.contains(&replay), "{err}");
    assert!(err.contains(&format!("plan    {small}   (0 of 2 steps: it fails without any)")));
    let text = fs::read_to_string(folder.join(small)).unwrap();
    assert!(text.starts_with("# mine\n# recovers: "), "{text}");

    // What is said of the smaller plan is true of it.
    let told = |err: &str| {
        let line = err.lines().rfind(|line| line.starts_with("FAILED  ")).map(str::to_owned);
        line.unwrap()
    };
    let (_, _, again) = sim(&folder, &[small]);
    assert_eq!(told(&again), told(&err));
}

#[test]
fn a_sweep_says_how_far_it_came() {
    let (status, out, err) = sim(&folder("sweep"), &["0", "--seeds", "2", "--until", "0.1"]);
    assert_eq!((status, out.as_str()), (0, ""));
    assert!(err.starts_with("2 runs, 0 failed, 0 simulated seconds, "), "{err}");
}

#[test]
fn a_trace_ends_with_the_failure_and_a_reader_may_leave() {
    let folder = folder("trace");
    fs::write(folder.join("x.plan"), FAILS).unwrap();
    let (_, out, _) = sim(&folder, &["x.plan", "--trace", "tail=20"]);
    assert_eq!(out.lines().count(), 20);
    assert!(out.lines().last().unwrap().contains("FAILED  recovers: "), "{out}");

    let mut child = Command::new(env!("CARGO_BIN_EXE_sim"))
        .current_dir(&folder)
        .args(["0", "--trace", "all"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    assert!(child.wait().unwrap().success(), "what was judged is well");
}
