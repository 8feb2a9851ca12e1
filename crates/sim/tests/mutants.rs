//! The test of the tests: each rule that the protocol can be made to break must be noticed within a
//! stated number of seeds. Runs only with `--cfg mutants`; docs/TESTING.md has the command.
#![cfg(mutants)]
#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

use quorate_base::{Span, Time};
use quorate_node::Mutant;
use quorate_sim::{Ask, How, Options, Plan, Step, When, run};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Seeds within which each broken rule must show.
const SEEDS: u64 = 300;

/// Of the plans that aim at reads, each of which is as long as five others.
const DEAF_SEEDS: u64 = SEEDS / 10;

/// Rules which only the core's scripts watch. Since whoever knows no leader asks the voters of its
/// log too, a follower that takes a silent leader for a living one finds the next one all the same.
/// That a copy begins anew harms nothing that a run looks at. Who asks too early to join is
/// refused, and asks again. A leader that hands over in bad order leaves writes of unknown outcome,
/// which is what any lost leader may do. And no honest leader offers a snapshot that is not ahead,
/// to a damaged log neither: it names one only to a log that ends below its start, or in an earlier
/// epoch, and every snapshot of its own is beyond both. Whoever has a disk replaced names the one
/// that is gone, and no two nodes have one id. The others are of cleaned logs, and no node cleans
/// its log yet: `crates/log/tests/mutants.rs` has those of the log.
const ELSEWHERE: [&str; 24] = [
    "HearTheSilent",
    "LetTwinsSwap",
    "AdoptStale",
    "ForgetCopies",
    "JoinBehind",
    "TakeWhileLeaving",
    "LeaveAtOnce",
    "StopAtOnce",
    "ReplaceUnnamed",
    "KeepGhosts",
    "TakeUnnumbered",
    "CollectUnheld",
    "LateNumbers",
    "EarlyClean",
    "KeepTail",
    "KeepGeneration",
    "ForgetHorizon",
    "CollectUnbound",
    "CollectAtOnce",
    "SkipIntent",
    "ForgetInherited",
    "KeepSnapshots",
    "CleanUncommitted",
    "StayBelowHorizon",
];

#[test]
fn every_broken_rule_is_noticed() {
    let watched = |rule: &Mutant| !ELSEWHERE.contains(&rule.name().as_str());
    let rules: Vec<Mutant> = Mutant::all().into_iter().filter(watched).collect();
    let (next, unnoticed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(rule) = rules.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match noticed(*rule) {
                        Some(by) => println!("{}: {by}", rule.name()),
                        None => unnoticed.lock().unwrap().push(rule.name()),
                    }
                }
            });
        }
    });
    let unnoticed = unnoticed.into_inner().unwrap();
    assert!(unnoticed.is_empty(), "{SEEDS} seeds do not notice {unnoticed:?}");
}

/// By which checker, and in which world.
fn noticed(mutant: Mutant) -> Option<String> {
    let how = How { mutant: Some(mutant), ..How::default() };
    let fails = |plan: Plan| run(&plan, &how).failure.map(|failure| failure.checker);
    let seed = |seed| Some(format!("{}, seed {seed:x}", fails(Plan::of_seed(seed))?));
    let aimed = |seed| Some(format!("{}, deaf leader {seed}", fails(deaf_leader(seed))?));
    let kept = |(name, plan)| Some(format!("{}, {name}", fails(plan)?));
    (0..SEEDS)
        .find_map(seed)
        .or_else(|| (0..DEAF_SEEDS).find_map(aimed))
        .or_else(|| regressions().into_iter().find_map(kept))
}

/// The plans that once failed, by the names of their files.
fn regressions() -> Vec<(String, Plan)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let plan = |path: std::path::PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, Plan::parse(&std::fs::read_to_string(path).unwrap()).unwrap())
    };
    let mut plans: Vec<_> =
        folder.read_dir().unwrap().map(|file| plan(file.unwrap().path())).collect();
    plans.sort_by(|one, other| one.0.cmp(&other.0));
    plans
}

/// In turn nothing reaches one of three nodes, for a little longer than the others wait for it,
/// while they are written to and it is read from. What was on its way to it arrives once the others
/// have a new leader: an answer to a read must not rest on that.
fn deaf_leader(seed: u64) -> Plan {
    let options = Options { voters: 3, clients: 4, heal_ms: 21_000, ..Options::default() };
    let mut steps = Vec::new();
    for (at_ms, round) in (1_000..20_000).step_by(1_700).zip(seed..) {
        let deaf = 1 + (round % 3) as u32;
        let from = (1..=3).filter(|node| *node != deaf).collect();
        let lasts = Span::ms(options.fetch_ms + 20 + round * 37 % 200);
        steps.push((Time(at_ms * 1_000), Step::Cut { from, to: vec![deaf], both: false, lasts }));
    }
    for (at_ms, number) in (500..21_000).step_by(4).zip(0_u32..) {
        let (client, patience) = (1 + number % 4, Span::ms(300));
        let (ask, node) = match client {
            4 => (Ask::Put { key: 1, when: When::Always, stamped: false }, 1 + number / 4 % 3),
            reader => (Ask::Get { key: 1 }, reader),
        };
        steps.push((Time(at_ms * 1_000), Step::Ask { client, ask, node, patience }));
    }
    steps.sort_by_key(|(at, _)| *at);
    Plan { seed, options, steps }
}

#[test]
fn a_leader_that_hears_nothing_answers_no_stale_read() {
    for seed in 0..DEAF_SEEDS {
        assert_eq!(run(&deaf_leader(seed), &How::default()).failure, None, "seed {seed}");
    }
}

/// What a failing run prints is taken as it is, and shows the same failure again.
#[test]
fn the_line_that_replays_a_failure_works_as_printed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let told = |command: &mut Command| {
        let out = command.current_dir(&root).output().unwrap();
        assert!(!out.status.success(), "{command:?} fails");
        String::from_utf8(out.stderr).unwrap()
    };
    let sweep = ["7", "--seeds", "300", "--mutant", "CountUnsyncedLeader"];
    let first = told(Command::new(env!("CARGO_BIN_EXE_sim")).args(sweep));
    let line = |text: &str, begin: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(begin)).map(str::to_owned);
        found.unwrap_or_else(|| panic!("no line begins with {begin:?}: {text}"))
    };
    let count = first.lines().find_map(|line| line.split_once(" of 300 runs, 1 failed, "));
    assert!(count.is_some_and(|(done, _)| done.parse::<u64>().unwrap() < 300), "{first}");
    assert!(first.contains("\nstopped at the first failure; --keep-going goes on\n"), "{first}");
    let again = line(&first, "replay  ");
    let second = told(Command::new("sh").args(["-c", &again]));
    assert_eq!(line(&first, "FAILED  "), line(&second, "FAILED  "));

    // With --shrink a second such line follows, of the smaller plan.
    let last = |text: &str, begin: &str| {
        let found = text.lines().filter_map(|line| line.strip_prefix(begin)).next_back();
        found.unwrap_or_else(|| panic!("no line begins with {begin:?}: {text}")).to_owned()
    };
    let shrinks = ["0", "--seeds", "300", "--mutant", "SkipTruncate", "--shrink", "60"];
    let first = told(Command::new(env!("CARGO_BIN_EXE_sim")).args(shrinks));
    assert!(last(&first, "FAILED  ").contains(".SkipTruncate.min"), "{first}");
    let second = told(Command::new("sh").args(["-c", &last(&first, "replay  ")]));
    assert_eq!(last(&first, "FAILED  "), last(&second, "FAILED  "));
}
