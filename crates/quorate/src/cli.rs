//! The command line: which commands there are, and what their end means to a shell.
//!
//! Exit codes: 0 done, 1 failed, 2 used wrongly. A command returns what went wrong as a
//! [`Failure`]; only `out` prints.

mod client;
mod cluster_tree;
mod controllers;
mod dev;
mod facts;
mod format;
mod kv;
mod log;
mod metadata;
mod observe;
mod out;
mod quorum;
mod run;
mod snapshot;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line or a file of settings is wrong: exit code 2.
    Usage(String),
    /// Anything else: exit code 1.
    Failed(String),
}

/// Answers of a command that can fail.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// A failure at run time.
pub(crate) fn failed<T>(what: impl Into<String>) -> Outcome<T> {
    Err(Failure::Failed(what.into()))
}

/// Kafka's metadata quorum in Rust: a replicated, versioned key-value store in one binary.
#[derive(Parser)]
#[command(
    name = "quorate",
    version,
    max_term_width = 100,
    after_help = "\
Try it:
  quorate dev                       three nodes on this machine, from nothing
  quorate kv put greeting hello     write, through whichever node answers
  quorate kv get greeting           read what was written
  quorate quorum status             who leads, who lags
  quorate observe --bootstrap 127.0.0.1:7201    the same of any quorum, from outside

Exit codes: 0 done, 1 failed, 2 used wrongly."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Dev(dev::Args),
    Format(format::Args),
    Run(run::Args),
    Kv(kv::Args),
    Quorum(quorum::Args),
    Observe(observe::Args),
    Log(log::Args),
    Snapshot(snapshot::Args),
    /// Print an id for a new cluster
    #[command(after_help = "\
Every node of a cluster is formatted with the same id:
  ID=$(quorate random-uuid)
  quorate format --cluster-id $ID --config node1.properties
  quorate format --cluster-id $ID --config node2.properties")]
    RandomUuid,
}

/// Runs the command that the process was started with.
pub(crate) fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Dev(args) => dev::dev(args),
        Command::Format(args) => format::format(args),
        Command::Run(args) => run::run(args),
        Command::Kv(args) => kv::kv(args),
        Command::Quorum(args) => quorum::quorum(args),
        Command::Observe(args) => observe::observe(args),
        Command::Log(args) => log::log(args),
        Command::Snapshot(args) => snapshot::snapshot(args),
        Command::RandomUuid => random_uuid().map(|id| out::line(&id.to_string())),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Failed(what)) => {
            out::error(&what);
            ExitCode::FAILURE
        }
        Err(Failure::Usage(what)) => {
            out::error(&what);
            ExitCode::from(2)
        }
    }
}

/// A random id in Kafka's form.
pub(crate) fn random_uuid() -> Outcome<quorate::Uuid> {
    quorate::random_uuid().or_else(|error| failed(error.to_string()))
}

/// A runtime for a command that talks to nodes.
pub(crate) fn block_on<T>(future: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(future),
        Err(error) => failed(format!("the operating system gives no event queue: {error}")),
    }
}
