//! `cargo xtask interop [NAME…]`: Kafka's own programs judge what we write and say.
//!
//! Needs Java and Maven besides Rust, so `cargo test` does not run it; CI does. A piece that is
//! missing fails the run and is named: nothing here is ever skipped. What a failing scenario left
//! is kept.

mod java;
mod scenario;
mod scenarios;
mod values;

use java::{Kafka, NEWEST, OLDEST};
use quorate_processes::{Profile, binary};
use scenario::{Failure, Scenario, Stage};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
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
    match prepare() {
        Ok(stage) => run(&stage, &picked),
        Err(failure) => {
            println!("interop cannot run: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn prepare() -> Result<Stage, Failure> {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let target = std::path::absolute(target)?.join("interop");
    Ok(Stage {
        kafka: Kafka::fetch(NEWEST, &target)?,
        older: Kafka::fetch(OLDEST, &target)?,
        binary: binary(Profile::Dev)?,
        root: target.join("runs"),
    })
}

fn run(stage: &Stage, picked: &[&Scenario]) -> ExitCode {
    println!("\nrunning {} tests", picked.len());
    let mut failed = 0;
    for scenario in picked {
        let directory = stage.root.join(scenario.name);
        let _ = std::fs::remove_dir_all(&directory);
        match (scenario.run)(stage, &directory) {
            Ok(()) => {
                println!("test {} ... ok", scenario.name);
                let _ = std::fs::remove_dir_all(&directory);
            }
            Err(failure) => {
                failed += 1;
                println!(
                    "test {} ... FAILED\n{failure}\nlogs and data are kept in {}",
                    scenario.name,
                    directory.display()
                );
            }
        }
    }
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {word}. {} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out\n",
        picked.len() - failed
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
