//! `kill-loop`: the long form of what the test does in short.

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use quorate_kill::{Options, Voters, json, run};
use quorate_processes::{Profile, binary};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Kill nodes of a running quorum at random, and judge what its clients were told
///
/// Processes on loopback, clients that record every call, kill -9 and restarts. Exit code 1
/// if a write was lost or any answer cannot be explained; the directories are then kept.
#[derive(Parser)]
struct Args {
    /// How many processes to kill
    #[arg(long, default_value_t = 200)]
    kills: u32,
    /// Fixes who is killed and what is asked, not how the system schedules it; random without it
    #[arg(long)]
    seed: Option<u64>,
    /// How many nodes there are
    #[arg(long, default_value_t = 3)]
    nodes: u32,
    /// Change who votes all the while: the voters are in the log, node 1 alone at first
    #[arg(long)]
    change_voters: bool,
    /// How many clients call at once
    #[arg(long, default_value_t = 12)]
    clients: u32,
    /// How many keys they share at a time
    #[arg(long, default_value_t = 4)]
    keys: u32,
    /// Test the binary as users run it, not the one with all checks on
    #[arg(long)]
    release: bool,
    /// Where the nodes' directories go: on a real disk
    #[arg(long, default_value = "target/kill")]
    dir: PathBuf,
    /// Write what the clients were told into this file, as JSON lines: see docs/TESTING.md
    #[arg(long)]
    history: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let seed = args.seed.unwrap_or(clock as u64 % 1_000_000_000);
    match kill(&args, seed) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "kill-loop: {error}");
            ExitCode::FAILURE
        }
    }
}

fn kill(args: &Args, seed: u64) -> Result<bool, Box<dyn std::error::Error>> {
    let profile = if args.release { Profile::Release } else { Profile::Dev };
    let root = std::path::absolute(&args.dir)?.join(format!("{seed}-{}", std::process::id()));
    let options = Options {
        clients: args.clients,
        keys: args.keys,
        nodes: args.nodes,
        voters: if args.change_voters { Voters::Wander } else { Voters::Fixed },
        ..Options::new(binary(profile)?, root, seed, args.kills)
    };
    let bar = ProgressBar::new(u64::from(args.kills))
        .with_style(ProgressStyle::with_template("{bar:40} {pos}/{len} kills  {elapsed}")?);
    let summary = run(&options, |kills| bar.set_position(u64::from(kills)))?;
    bar.finish_and_clear();
    write!(std::io::stdout(), "{summary}")?;
    if let Some(file) = &args.history {
        std::fs::write(file, json::lines(&summary.history))
            .map_err(|error| format!("the history cannot go into {}: {error}", file.display()))?;
    }
    Ok(summary.failures.is_empty())
}
