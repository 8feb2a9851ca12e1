//! `cargo xtask interop [--minutes N] [NAME…]`: Kafka's own programs judge what we write and say,
//! and a checker of others the histories of the kill loop.
//!
//! Needs Java and Maven, Go, and root to mount a file system, besides Rust, so `cargo test` does
//! not run it; CI does. A piece that is missing fails the run and is named: nothing here is ever
//! skipped. What a failing scenario left is kept.

mod histories;
mod java;
mod mounts;
mod porcupine;
mod recorder;
mod scenario;
mod scenarios;
mod values;

use java::{ELDER, Kafka, NEWEST, OLDEST};
use porcupine::Porcupine;
use quorate_processes::{Profile, binary};
use scenario::{Failure, Run, Scenario, Stage};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

/// Each may run a handful of processes of Kafka's.
const MOST_AT_ONCE: usize = 3;

fn main() -> ExitCode {
    let mut wanted: Vec<String> = std::env::args().skip(1).collect();
    // How a scenario starts a node that it will kill.
    if let [node, file] = wanted.as_slice()
        && node == "node"
    {
        return match values::serve(Path::new(file)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                println!("the node ends: {failure}");
                ExitCode::FAILURE
            }
        };
    }
    if let [record, rest @ ..] = wanted.as_slice()
        && record == "record"
    {
        return match recorder::main(rest) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                println!("{failure}");
                ExitCode::from(2)
            }
        };
    }
    let Some(minutes) = take_minutes(&mut wanted) else {
        println!("write --minutes N: how long the scenario with random kills runs");
        return ExitCode::from(2);
    };
    let picked: Vec<&Scenario> = scenarios::ALL
        .iter()
        .filter(|scenario| {
            wanted.is_empty() || wanted.iter().any(|name| scenario.name.contains(name.as_str()))
        })
        .collect();
    if picked.is_empty() {
        let names: Vec<&str> = scenarios::ALL.iter().map(|scenario| scenario.name).collect();
        println!("no scenario is called {}; there are: {}", wanted.join(" or "), names.join(", "));
        return ExitCode::from(2);
    }
    match prepare(&picked, minutes) {
        Ok(prepared) => run(&prepared, &picked),
        Err(failure) => {
            println!("interop cannot run: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// `--minutes N` in front of the names; 1 without it.
fn take_minutes(wanted: &mut Vec<String>) -> Option<u64> {
    if wanted.first().is_none_or(|first| first != "--minutes") {
        return Some(1);
    }
    let minutes = wanted.get(1)?.parse().ok()?;
    wanted.drain(..2);
    Some(minutes)
}

/// What the scenarios need, each if one of them does.
struct Prepared {
    stage: Option<Stage>,
    porcupine: Option<Porcupine>,
    binary: PathBuf,
    /// Where the scenarios' directories go.
    runs: PathBuf,
}

fn prepare(picked: &[&Scenario], minutes: u64) -> Result<Prepared, Failure> {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let target = std::path::absolute(target)?.join("interop");
    let needs = |wanted: fn(&Run) -> bool| picked.iter().any(|scenario| wanted(&scenario.run));
    // What is missing shows before anything is built or fetched for long.
    if needs(|run| matches!(run, Run::Disks(_))) {
        mounts::enter()?;
    }
    let porcupine = match needs(|run| matches!(run, Run::Porcupine(_))) {
        true => Some(Porcupine::build(&target)?),
        false => None,
    };
    let kafka = match needs(|run| matches!(run, Run::Kafka(_))) {
        true => {
            let fetch = |release| Kafka::fetch(release, &target);
            Some((fetch(NEWEST)?, fetch(ELDER)?, fetch(OLDEST)?))
        }
        false => None,
    };
    let binary = binary(Profile::Dev)?;
    let stage = kafka.map(|(kafka, elder, older)| {
        let binary = binary.clone();
        Stage { kafka, elder, older, binary, minutes }
    });
    Ok(Prepared { stage, porcupine, binary, runs: target.join("runs") })
}

impl Prepared {
    fn run(&self, scenario: &Scenario, directory: &Path) -> Result<(), Failure> {
        match (scenario.run, &self.stage, &self.porcupine) {
            (Run::Kafka(run), Some(stage), _) => run(stage, directory),
            (Run::Disks(run), _, _) => run(&self.binary, directory),
            (Run::Porcupine(run), _, Some(checker)) => run(checker, &self.binary, directory),
            (Run::Kafka(_), None, _) | (Run::Porcupine(_), _, None) => {
                Err(Failure("what it needs was not prepared".into()))
            }
        }
    }
}

/// Several at a time: most of a scenario is waiting for Kafka's programs to start.
fn run(prepared: &Prepared, picked: &[&Scenario]) -> ExitCode {
    println!("\nrunning {} tests", picked.len());
    let at_once = thread::available_parallelism().map_or(1, usize::from).min(MOST_AT_ONCE);
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(scenario) = picked.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let failures = usize::from(!told(prepared, scenario));
                    failed.fetch_add(failures, Ordering::Relaxed);
                }
            });
        }
    });
    let failed = failed.into_inner();
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {word}. {} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out\n",
        picked.len() - failed
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether it went well, which is printed.
fn told(prepared: &Prepared, scenario: &Scenario) -> bool {
    let directory = prepared.runs.join(scenario.name);
    let _ = std::fs::remove_dir_all(&directory);
    let begin = Instant::now();
    let result = prepared.run(scenario, &directory);
    println!("{} took {} s", scenario.name, begin.elapsed().as_secs());
    match result {
        Ok(()) => {
            println!("test {} ... ok", scenario.name);
            let _ = std::fs::remove_dir_all(&directory);
            true
        }
        Err(failure) => {
            println!(
                "test {} ... FAILED\n{failure}\nlogs and data are kept in {}",
                scenario.name,
                directory.display()
            );
            false
        }
    }
}
