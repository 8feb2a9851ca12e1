//! The example is a test, and it can fail: a counter that answers from a batch too few is found.

#[path = "../examples/own_machine.rs"]
#[allow(dead_code, reason = "its main is not run here")]
mod example;

use example::{Counter, Counting};
use quorate_machine::Sessioned;
use quorate_sim::linear::Model;
use quorate_sim::{How, Plan, Said, Subject, run_own};

#[test]
fn a_counter_counts_in_every_world() {
    for seed in 0..20 {
        let failure = run_own(Counting, &Plan::of_seed(seed), &How::default()).failure;
        let again = "cargo run -p quorate-sim --example own_machine --";
        assert_eq!(failure, None, "to see it again: {again} {seed:x} --trace tail=200");
    }
}

/// Expects a counter that counts by two.
struct Wrong;

impl Model for Wrong {
    type State = u64;
    type Call = Said<(), u64>;

    fn after(&self, count: &u64, said: &Self::Call) -> Option<u64> {
        match said {
            Said::Wrote { .. } => Some(count + 2),
            Said::Read { reply, .. } => (reply == count).then_some(*count),
        }
    }
}

impl Subject for Wrong {
    type Machine = Sessioned<Counter>;

    fn machine(&self) -> Sessioned<Counter> {
        Sessioned::new(Counter::default())
    }

    fn write(&self, rng: &mut quorate_base::Rng) -> bytes::Bytes {
        Counting.write(rng)
    }

    fn read(&self, _rng: &mut quorate_base::Rng) {}

    fn initial(&self) -> u64 {
        0
    }
}

#[test]
fn answers_that_the_model_does_not_give_are_found() {
    let failed =
        (0..20).filter_map(|seed| run_own(Wrong, &Plan::of_seed(seed), &How::default()).failure);
    assert!(failed.into_iter().any(|failure| failure.checker == "linear"));
}
