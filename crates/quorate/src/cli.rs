//! The command line: which commands there are, and what their end means to a shell.
//!
//! Exit codes: 0 done, 1 failed, 2 used wrongly. A command returns what went wrong as a
//! [`Failure`]; only `out` prints.

mod client;
mod cluster_tree;
mod controllers;
mod dev;
mod ending;
mod facts;
mod format;
mod kv;
mod log;
mod metadata;
mod observe;
mod out;
mod quorum;
mod recover;
mod run;
mod snapshot;

use clap::{Parser, Subcommand};
use std::path::Path;
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
    Recover(recover::Args),
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
        Command::Recover(args) => recover::recover(args),
        Command::RandomUuid => random_uuid().map(|id| out::line(&id.to_string())),
    };
    // What was asked for is not there if it could not be printed.
    let outcome = match (outcome, out::fault()) {
        (Ok(()), Some(fault)) => failed(fault),
        (outcome, _) => outcome,
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

/// What a command line names to be read has to be there; whatever does not fit about it later is
/// no matter of the command line.
pub(crate) fn there(path: &Path) -> Outcome {
    match path.try_exists() {
        Ok(false) => {
            Err(Failure::Usage(format!("{} is not there; check the path", path.display())))
        }
        Ok(true) | Err(_) => Ok(()),
    }
}

/// A directory that has to be there.
pub(crate) fn directory(path: &Path) -> Outcome {
    there(path)?;
    match path.is_dir() {
        true => Ok(()),
        false => Err(Failure::Usage(format!(
            "{} is not a directory; name the data directory",
            path.display()
        ))),
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// The words of a line as a shell would give them to the command, without what is for the
    /// shell: pipes, redirections, and what stands behind two spaces to explain it.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut quoted) = (Vec::new(), false);
        let mut word: Option<String> = None;
        let mut letters = line.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '\'' => {
                    quoted = !quoted;
                    word.get_or_insert_default();
                }
                ' ' if !quoted => {
                    words.extend(word.take());
                    if letters.peek() == Some(&' ') {
                        break;
                    }
                }
                '|' | '<' | '>' | '&' if !quoted => break,
                letter => word.get_or_insert_default().push(letter),
            }
        }
        assert!(!quoted, "{line}");
        words.into_iter().chain(word).collect()
    }

    /// Every command and what is below it, with the words that lead there.
    fn commands(path: &[String], command: &clap::Command) -> Vec<(Vec<String>, clap::Command)> {
        let mut all = vec![(path.to_vec(), command.clone())];
        for inner in command.get_subcommands() {
            all.extend(commands(&[path, &[inner.get_name().to_owned()]].concat(), inner));
        }
        all
    }

    #[test]
    fn every_command_shows_examples_that_it_understands() {
        let (mut examples, mut seen) = (0, 0);
        for (path, command) in commands(&["quorate".to_owned()], &Cli::command()) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let lines = help.lines().filter_map(|line| {
                let line = line.strip_prefix("  ")?;
                let line = line
                    .strip_prefix("ID=$(")
                    .and_then(|line| line.strip_suffix(')'))
                    .unwrap_or(line);
                line.starts_with("quorate ").then_some(line)
            });
            let mut own = 0;
            for line in lines {
                let given = words(&line.replace("$ID", "U7HrM6vDTwWK2XclkAu2_g"));
                if let Err(error) = Cli::try_parse_from(&given) {
                    panic!("{}: {line}: {error}", path.join(" "));
                }
                own += usize::from(given.starts_with(&path));
                examples += 1;
            }
            assert!(own > 0, "{} has no example of its own", path.join(" "));
            seen += 1;
        }
        assert!(seen > 15 && examples > 40, "{seen} commands, {examples} examples");
    }

    #[test]
    fn an_example_is_read_as_a_shell_would() {
        let line = "quorate kv put k 'good  day' --if-version 5   only | if < changed";
        assert_eq!(words(line), ["quorate", "kv", "put", "k", "good  day", "--if-version", "5"]);
        assert_eq!(words("quorate log dump data --json | jq '.x'").len(), 5);
    }
}
