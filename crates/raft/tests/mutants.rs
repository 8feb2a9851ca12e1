//! The test of the tests: each rule breaker of the core is caught by some script and by some random
//! walk, but for those that walks are too short for.
//!
//! Only built with `RUSTFLAGS='--cfg mutants'` (and a target directory of its own). Prints who
//! caught whom.
#![cfg(mutants)]
#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]
#![allow(clippy::disallowed_methods, reason = "scripts are files")]
#![allow(clippy::print_stderr, reason = "tests tell on stderr")]

mod cluster;
mod script;
mod walk;

use cluster::Shape;
use quorate_raft::Mutant;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::path::Path;

/// How many walks may look for a mutant.
const WALKS: u64 = 1_500;

/// Not for walks. For the first the simulator has plans that aim at it (`deaf_leader` in its
/// `tests/mutants.rs`); no honest leader offers a snapshot that is not ahead; disks of walks are
/// not damaged, nobody in them is not to lead, and their voters are static. A copy that begins anew
/// breaks no law of walks; and they hardly ever cut a log while it is copied, as the simulator
/// does. Two leaders that each change the same old voters need four elections to disagree; and
/// voters that stop their quorum, or let nobody win, break no law, only its users' patience; nor
/// does a leader that hands over in bad order, or one that takes the wrong directory's vote. Logs
/// of walks have no keys and are not cleaned.
const NO_WALK: [Mutant; 21] = [
    Mutant::LetTwinsSwap,
    Mutant::KeepGhosts,
    Mutant::TakeUnnumbered,
    Mutant::CollectUnheld,
    Mutant::ReplaceUnnamed,
    Mutant::StopAtOnce,
    Mutant::TakeWhileLeaving,
    Mutant::LeaveAtOnce,
    Mutant::HearTheSilent,
    Mutant::JoinBehind,
    Mutant::ChangeWithoutHighWatermark,
    Mutant::AddUnseen,
    Mutant::RemoveTheLiving,
    Mutant::ForgetCopies,
    Mutant::TrimBelowCopies,
    Mutant::CountAnyRound,
    Mutant::AdoptStale,
    Mutant::VoteWhileDamaged,
    Mutant::ServeAsCaretaker,
    Mutant::StandAsideForever,
    Mutant::UpdateWhileChanging,
];

#[test]
fn every_mutant_is_caught_by_a_script_and_by_a_walk() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut scripts: Vec<_> =
        folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    scripts.sort();
    let hook = take_hook();
    set_hook(Box::new(|_| {})); // Panics are what is asked for.
    let mut lines = Vec::new();
    for mutant in Mutant::ALL {
        let shape = Shape { mutant: Some(mutant), ..Shape::default() };
        let by_script: Vec<_> = scripts
            .iter()
            .filter(|path| {
                let text = std::fs::read_to_string(path).unwrap();
                let told = catch_unwind(AssertUnwindSafe(|| script::run(&text, shape.clone())));
                told.map_or(true, |told| told != text)
            })
            .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        let changing = Shape { changing: true, ..shape.clone() };
        let fails = |shape: &Shape, seed: u64| {
            catch_unwind(AssertUnwindSafe(|| walk::honest(seed, shape))).is_err()
        };
        let walks = if NO_WALK.contains(&mutant) { 0 } else { WALKS };
        let by_walk = (0..walks).find(|seed| fails(&shape, *seed) || fails(&changing, *seed));
        lines.push((mutant, by_script, by_walk));
    }
    set_hook(hook);
    for (mutant, by_script, by_walk) in &lines {
        let walk = by_walk.map_or("no walk".to_owned(), |seed| format!("walk {seed}"));
        eprintln!("{mutant:?}: {walk}, {}", by_script.join(", "));
    }
    for (mutant, by_script, by_walk) in lines {
        assert!(!by_script.is_empty(), "{mutant:?} goes unnoticed by all scripts");
        assert!(
            by_walk.is_some() || NO_WALK.contains(&mutant),
            "{mutant:?} goes unnoticed by {WALKS} walks"
        );
    }
}
