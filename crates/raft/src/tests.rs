//! Whole quorums in memory: messages are lost, doubled never, delayed and reordered at random;
//! nodes crash and lose what was not durable. After every event each replica checks itself and the
//! world checks what takes more than one replica to see. The real simulator has bytes and disks;
//! this one finds faults of the core alone.
#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

mod garbage;
mod rules;
mod world;

use quorate_base::{Rng, Span};
use world::{Faults, World};

#[test]
fn a_quorum_elects_a_leader_commits_and_proves_reads() {
    for voters in 1..=5 {
        quiet_run(voters);
    }
}

#[test]
fn random_faults_break_no_invariant_and_the_quorum_recovers() {
    for seed in 0..300 {
        faulty_run(seed);
    }
}

#[test]
fn when_the_leaders_process_dies_another_leads_long_before_the_timers_end() {
    for seed in 0..50 {
        let mut world = World::new(seed, 3, 0, Faults::NONE);
        world.run(Span::ms(8_000));
        let leader = world.leader().unwrap();
        world.kill(leader);
        world.run(Span::ms(400));
        let next = world.leader().unwrap_or_else(|| panic!("no leader, seed {seed}"));
        assert_ne!(next, leader, "seed {seed}");
    }
}

/// No faults: what was proposed is committed everywhere, and a read proved, long before a parked
/// fetch expires.
fn quiet_run(voters: usize) {
    let mut world = World::new(7, voters, 1, Faults::NONE);
    world.run(Span::ms(8_000));
    let leader = world.leader().expect("a leader");
    let before = world.end(leader);
    let soon = Span::ms(50);
    assert!(world.propose(leader));
    world.run(soon);
    assert!(world.committed_everywhere() > before, "{voters} voters");
    let read = world.read(leader);
    world.run(soon);
    assert!(world.answered(read), "{voters} voters");
    assert!(world.prospective_seen() <= voters, "an idle quorum stays as it is");
}

fn faulty_run(seed: u64) {
    let mut rng = Rng::new(seed);
    let voters = 1 + rng.below(5) as usize;
    let observers = rng.below(3) as usize;
    let mut world = World::new(seed, voters, observers, Faults::random(&mut rng));
    world.run_with_clients(Span::ms(20_000));
    world.heal();
    world.run(Span::ms(12_000));
    let leader = world.leader().unwrap_or_else(|| panic!("no leader, seed {seed}"));
    let before = world.end(leader);
    assert!(world.propose(leader), "seed {seed}");
    let read = world.read(leader);
    world.run(Span::ms(3_000));
    assert!(world.committed_everywhere() > before, "seed {seed}");
    assert!(world.answered(read), "seed {seed}");
}

#[cfg(mutants)]
thread_local! {
    /// Which rule the replicas of this thread's worlds break.
    static MUTANT: std::cell::Cell<Option<crate::Mutant>> = const { std::cell::Cell::new(None) };
}

#[cfg(mutants)]
#[test]
fn every_mutant_is_caught() {
    for mutant in crate::Mutant::ALL {
        MUTANT.set(Some(mutant));
        let caught = std::panic::catch_unwind(|| quiet_run(3)).is_err()
            || (0..4_000).any(|seed| std::panic::catch_unwind(|| faulty_run(seed)).is_err());
        MUTANT.set(None);
        assert!(caught, "{mutant:?} goes unnoticed");
    }
}
