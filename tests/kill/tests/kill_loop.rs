//! The kill loop in short: what CI runs of it. `cargo run -p quorate-kill -- --kills 200` is the
//! long form.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

use quorate_kill::{Options, Voters, run};
use quorate_processes::{Profile, binary};
use std::path::Path;

/// A run of its own directory; random where nothing is asked for, since many runs see more than one
/// run often.
fn options(name: &str) -> Options {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seed = number("QUORATE_SEED").unwrap_or(u64::from(std::process::id()));
    let kills = number("QUORATE_KILLS").unwrap_or(20) as u32;
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{seed}"));
    let _ = std::fs::remove_dir_all(&root);
    Options::new(binary(Profile::Dev).unwrap(), root, seed, kills)
}

#[test]
fn no_acknowledged_write_is_lost_and_every_answer_can_be_explained() {
    let options = options("kill");
    let summary = run(&options, |_| {}).unwrap();
    assert!(summary.failures.is_empty(), "{summary}");
    assert!(summary.kills >= options.kills, "{summary}");
    assert!(summary.acknowledged > 0 && summary.digests > 0, "{summary}");
}

/// The test of the test: all nodes lose all their data, once.
#[test]
fn nodes_that_forget_what_they_acknowledged_are_found_out() {
    let options = Options { kills: 3, amnesia: true, ..options("amnesia") };
    let summary = run(&options, |_| {}).unwrap();
    for wanted in ["no order of its calls explains", "an acknowledged write is lost"] {
        let found = summary.failures.iter().any(|failure| failure.contains(wanted));
        assert!(found, "nobody says '{wanted}': {summary}");
    }
    std::fs::remove_dir_all(&options.root).unwrap();
}

/// From one voter to three, to five, and back to one, which is another one: each change takes
/// effect under load, nothing is lost, and no linearizable read fails.
#[test]
fn voters_come_and_go_under_load_and_no_read_fails() {
    let goals = [vec![1, 2, 3], vec![1, 2, 3, 4, 5], vec![2, 4, 5], vec![4]];
    let voters = Voters::Reach(goals.to_vec());
    let options = Options { kills: 0, nodes: 5, voters, ..options("voters") };
    let summary = run(&options, |_| {}).unwrap();
    assert!(summary.failures.is_empty(), "{summary}");
    assert_eq!(summary.changed.refused, Vec::<String>::new(), "{summary}");
    assert_eq!(summary.changed.steps.len(), 8, "{summary}");
    // Each is counted by the leader that made it, those that made themselves none included.
    assert_eq!(summary.changed.counted.count, 8, "{summary}");
    println!("{summary}");
    assert!(summary.acknowledged > 0 && summary.digests > 0, "{summary}");
    assert_eq!((summary.failed_reads.len(), summary.unknown), (0, 0), "{summary}");
}

/// The same at random, while nodes are killed.
#[test]
fn voters_that_change_while_nodes_are_killed_lose_nothing() {
    let options = Options { kills: 10, nodes: 4, voters: Voters::Wander, ..options("wander") };
    let summary = run(&options, |_| {}).unwrap();
    assert!(summary.failures.is_empty(), "{summary}");
    assert!(summary.acknowledged > 0 && !summary.changed.steps.is_empty(), "{summary}");
}
