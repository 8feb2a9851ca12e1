//! The test of the tests: each rule that the protocol can be made to break must be noticed within a
//! stated number of seeds. Runs only with `--cfg mutants`; docs/TESTING.md has the command.
#![cfg(mutants)]

use quorate_node::Mutant;
use quorate_sim::{How, Plan, run};

/// Seeds within which each broken rule must show.
const SEEDS: u64 = 300;

#[test]
fn every_broken_rule_is_noticed() {
    let mut unnoticed = Vec::new();
    for mutant in Mutant::all() {
        let how = How { mutant: Some(mutant), ..How::default() };
        let found = (0..SEEDS).find_map(|seed| {
            run(&Plan::of_seed(seed), &how).failure.map(|failure| (seed, failure.checker))
        });
        match found {
            Some((seed, checker)) => println!("{mutant:?}: {checker}, seed {seed:x}"),
            None => unnoticed.push(mutant),
        }
    }
    assert!(unnoticed.is_empty(), "{SEEDS} seeds do not notice {unnoticed:?}");
}
