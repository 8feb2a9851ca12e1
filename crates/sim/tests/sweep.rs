//! Seeds in a row: each is a world of its own, and nothing may be wrong in any. Together they must
//! have met everything that the simulator is there to meet.

use quorate_sim::{How, Marks, Plan, marks, run};

/// How many; `SEEDS` in the environment asks for another number.
const SEEDS: u64 = 150;

#[test]
fn no_seed_breaks_a_rule_and_together_they_meet_everything() {
    let seeds = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
    let mut all = Marks::default();
    for seed in 0..seeds {
        let outcome = run(&Plan::of_seed(seed), &How::default());
        if let Some(failure) = outcome.failure {
            panic!(
                "{}: {}\nreplay: cargo run -p quorate-sim -- {seed:x} --trace tail=200",
                failure.checker, failure.what
            );
        }
        all.join(&outcome.marks);
    }
    let missing = all.missing();
    assert!(missing.is_empty(), "{seeds} seeds never met: {missing:?}");
    let undecided = all.count(marks::UNDECIDED);
    assert!(undecided * 20 <= seeds, "{undecided} histories of {seeds} seeds were not judged");
}

#[test]
fn a_plan_runs_the_same_each_time_whether_or_not_it_is_traced() {
    for seed in [1, 7, 18] {
        let plan = Plan::of_seed(seed);
        let plain = run(&plan, &How::default());
        let traced = run(&plan, &How { lines: 50, ..How::default() });
        assert_eq!((plain.hash, plain.events), (traced.hash, traced.events), "seed {seed}");
        assert_eq!(traced.lines.len(), 50, "seed {seed}");
        let other = run(&Plan { seed: seed + 1, ..plan }, &How::default());
        assert_ne!(plain.hash, other.hash, "seed {seed}");
    }
}
