//! The contract's model over real logs (`common/model.rs`), a row of its table each: rules that are
//! not enough are caught, the contract's own never claims what is not so, and always arrives.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test ends where a fact is missing; a test may read its environment"
)]

mod common;

use common::model::{Collect, Counts, Rule, World, runs};

/// So many runs a row, each with cuts of power in rounds, and starts; `QUORATE_MODEL_RUNS` takes
/// another number.
const RUNS: u64 = 400;

fn row(rule: Rule, collect: Collect) -> Counts {
    let count = std::env::var("QUORATE_MODEL_RUNS").map_or(RUNS, |count| count.parse().unwrap());
    let counts = runs(rule, collect, 0..count);
    println!("{rule:?}, tombstones {collect:?}: {counts:?}");
    let Counts { claims, voters, rounds, crashes, .. } = counts;
    assert!(claims > 10 * count && voters > 50 * count, "{counts:?}");
    assert!(rounds > 10 * count && crashes > 3 * count, "{counts:?}");
    counts
}

/// H1, H2, H13: the highest `dirty` counts, not the last.
#[test]
fn row_1_the_sentence_of_the_specification_is_not_enough() {
    let counts = row(Rule::Sentence, Collect::Never);
    assert!(counts.wrong > 0 && counts.voters_wrong == 0);
}

/// H3, H14: a tombstone that nobody sees again.
#[test]
fn row_2_the_sentence_with_tombstones_collected_freely() {
    let counts = row(Rule::Sentence, Collect::Freely);
    assert!(counts.wrong > 0 && counts.voters_wrong > 0);
}

#[test]
fn row_3_the_sentence_with_tombstones_that_every_voter_has() {
    let counts = row(Rule::Sentence, Collect::Bounded);
    assert!(counts.wrong > 0 && counts.voters_wrong == 0);
}

/// H13: a follower that copied a cleaned log has not cleaned itself.
#[test]
fn row_4_the_highest_local_dirty_offset_is_not_enough() {
    let counts = row(Rule::Local, Collect::Never);
    assert!(counts.wrong > 0 && counts.voters_wrong == 0);
}

#[test]
fn row_5_local_numbers_with_tombstones_collected_freely() {
    let counts = row(Rule::Local, Collect::Freely);
    assert!(counts.wrong > 0 && counts.voters_wrong > 0 && counts.restarts > 0);
}

#[test]
fn row_6_local_numbers_with_tombstones_that_every_voter_has() {
    let counts = row(Rule::Local, Collect::Bounded);
    assert!(counts.wrong > 0 && counts.voters_wrong == 0);
}

#[test]
fn row_7_numbers_that_the_log_carries_and_every_tombstone_kept() {
    let counts = row(Rule::Inherited, Collect::Never);
    assert!(counts.wrong == 0 && counts.voters_wrong == 0 && counts.restarts == 0);
}

/// H14: then a voter's own state is wrong.
#[test]
fn row_8_numbers_that_the_log_carries_and_tombstones_collected_freely() {
    let counts = row(Rule::Inherited, Collect::Freely);
    assert!(counts.voters_wrong > 0);
}

/// The contract.
#[test]
fn row_9_numbers_that_the_log_carries_and_tombstones_that_every_voter_has() {
    let counts = row(Rule::Inherited, Collect::Bounded);
    assert!(counts.wrong == 0 && counts.voters_wrong == 0 && counts.restarts > 0);
}

/// H13 by hand: k1=a k2=b k1=A k2=B; A cleans, empty C copies what is left and leads, without
/// having cleaned; a reader of the first of it must not claim.
#[test]
fn a_copy_of_a_cleaned_log_says_so_when_it_leads() {
    for (rule, wrong) in [(Rule::Inherited, false), (Rule::Local, true)] {
        let mut world = World::small(rule, Collect::Never);
        for (key, value) in [(1, 10), (2, 20), (1, 11), (2, 21), (3, 30)] {
            world.append(key, Some(value));
        }
        (0..5).for_each(|_| world.copy(1, 1 << 20));
        world.clean_all(0);
        assert_eq!(world.voters[0].node.log.cleaner_end().0, 5);
        (0..5).for_each(|_| world.copy(2, 1 << 20));
        world.lead(2);
        assert_eq!(world.voters[2].node.log.cleaner_end().0, 0);
        // One batch at a time: empty ones, then k1.
        while world.observer.position.0 < 3 {
            world.observe(1);
        }
        assert_eq!(world.counts.wrong > 0, wrong, "{rule:?}: {:?}", world.counts);
        let dirty = world.voters[2].node.log.numbers().dirty.0;
        assert_eq!((dirty, world.observer.reading.required.0), (5, if wrong { 0 } else { 5 }));
        (0..3).for_each(|_| world.observe(1));
        assert_eq!((world.observer.position.0, world.observer.state.len()), (5, 3));
    }
}

/// Found by these: a cut left the end of what was cleaned within a segment, and a round that was
/// due for a tombstone alone took keys in up to the end of that segment, beyond its own.
#[test]
fn a_round_for_a_tombstone_takes_no_keys_beyond_what_it_says() {
    for seed in [3_180, 7_682] {
        let counts = runs(Rule::Inherited, Collect::Never, seed..seed + 1);
        assert!(counts.claims > 0 && counts.wrong == 0, "seed {seed}: {counts:?}");
    }
}
