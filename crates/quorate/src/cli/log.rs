//! `quorate log`: look into the files of a data directory, Quorate's or Kafka's, in use or not.
//!
//! Reads only: no lock, no recovery. What the files say comes from the crate `quorate-log`;
//! `facts.rs` makes lines or JSON of it, one object a line.

mod tail;

use super::metadata::Shape;
use super::{Failure, Outcome, directory, failed, out, there};
use clap::{Parser, Subcommand};
use quorate_log::{Fact, FileKind, Finding, OsDisk, Remedy};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Look into the files of a node: what they say, and whether they are whole
#[derive(Parser)]
#[command(after_help = "\
Examples:
  quorate log dump data/__cluster_metadata-0/00000000000000000000.log
  quorate log dump data --json | jq 'select(.type == \"record\") | .key'
  quorate log dump data --json | jq 'select(.metadata.type == \"TOPIC_RECORD\") | .metadata.data'
  quorate log tail data
  quorate log verify data

A log does not say what its records are. One without a key that begins like Kafka's metadata records
is shown as such, as kafka-dump-log --cluster-metadata-decoder does; --decoder says otherwise.
All only read. They work beside a running node, whose newest batch may look cut short to `dump`.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print what a file says, or every file of a directory: batches, records, marks; exit code 1
    /// if something in them is damaged
    #[command(after_help = "\
Examples:
  quorate log dump data/__cluster_metadata-0/00000000000000000000.log
  quorate log dump data --json | jq 'select(.type == \"record\") | .key'")]
    Dump {
        /// A data directory, one of its partitions, or one file
        #[arg(value_name = "DIR|FILE")]
        path: PathBuf,
        #[command(flatten)]
        shape: Shape,
    },
    Tail(tail::Args),
    /// Check every file of a directory; exit code 1 if something is damaged or missing
    #[command(after_help = "\
Examples:
  quorate log verify data
  quorate log verify data --json | jq -r 'select(.remedy != \"start\") | .path'")]
    Verify {
        /// A data directory or one of its partitions
        dir: PathBuf,
        /// Print findings as JSON, one object a line
        #[arg(long)]
        json: bool,
    },
}

/// Runs `quorate log …`.
pub(crate) fn log(args: Args) -> Outcome {
    match args.command {
        Command::Dump { path, shape } => dump(&path, shape),
        Command::Tail(args) => tail::tail(&args),
        Command::Verify { dir, json } => verify(&dir, json),
    }
}

/// Lines on their way out; printed in pieces, since a log has many.
struct Lines(String);

impl Lines {
    fn push(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
        if self.0.len() > 64 << 10 {
            self.flush();
        }
    }

    fn flush(&mut self) {
        out::bytes(self.0.as_bytes());
        self.0.clear();
    }
}

/// Prints what a file says, or every file of a directory.
pub(super) fn dump(path: &Path, shape: Shape) -> Outcome {
    there(path)?;
    let (root, mut disk, names) = match path.is_dir() {
        true => {
            let disk = OsDisk::new(path);
            let names = quorate_log::files(&disk, "").or_else(|error| unread(path, &error))?;
            if known(&names) == 0 {
                return none_known(path);
            }
            (path, disk, names)
        }
        false => {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                return Err(Failure::Usage(format!("{} is no file's name", path.display())));
            };
            let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
            let dir = dir.unwrap_or(Path::new("."));
            (dir, OsDisk::new(dir), vec![name.to_owned()])
        }
    };
    let (mut lines, mut damage) = (Lines(String::new()), Damage::default());
    for name in names {
        let shown = quorate_log::dump(&mut disk, &name, &mut |fact| {
            damage.note(&fact);
            lines.push(&shape.of(&fact));
        });
        lines.flush();
        shown.or_else(|error| unread(root, &error))?;
        damage.file_ends();
    }
    damage.outcome(path)
}

/// What of the files could not be shown as it was written.
#[derive(Default)]
struct Damage {
    /// The file that is being read, and where its batch is.
    path: String,
    position: u64,
    /// What of a snapshot came last, if it is one.
    snapshot: Option<Last>,
    first: Option<String>,
    places: u64,
}

/// What came last of a snapshot; it is whole if that is its footer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Nothing,
    Record,
    Footer,
    Damage,
}

impl Damage {
    fn note(&mut self, fact: &Fact<'_>) {
        let why = match fact {
            Fact::File { path, kind, .. } => {
                self.snapshot = (*kind == FileKind::Checkpoint).then_some(Last::Nothing);
                self.position = 0;
                return (*path).clone_into(&mut self.path);
            }
            Fact::Batch { position, fault, .. } => {
                self.position = *position;
                fault.map(|fault| format!("{fault}; its records are not shown"))
            }
            Fact::BadRecord(bad) => Some(format!("{bad}; the rest of its batch is not shown")),
            Fact::Bad { position, expected, found } => {
                self.position = *position;
                Some(format!(
                    "expected {expected}, found {found}; what follows in this file is not shown"
                ))
            }
            Fact::Record { control, .. } => {
                let footer = matches!(control, Some(Ok(text)) if text.kind == "SnapshotFooter");
                self.last(if footer { Last::Footer } else { Last::Record });
                None
            }
            Fact::Offset(_)
            | Fact::Time(_)
            | Fact::Epoch(..)
            | Fact::Election(_)
            | Fact::Topic(_)
            | Fact::Numbers { .. }
            | Fact::CleanerEnd { .. }
            | Fact::Meta(_)
            | Fact::Mark { .. }
            | Fact::MustReach(_) => None,
        };
        if let Some(why) = why {
            self.last(Last::Damage);
            self.found(&why);
        }
    }

    fn last(&mut self, last: Last) {
        if let Some(before) = self.snapshot.as_mut().filter(|before| **before != Last::Damage) {
            *before = last;
        }
    }

    /// A snapshot that ends before its footer was cut, or never written to its end.
    fn file_ends(&mut self) {
        match self.snapshot.take() {
            Some(Last::Nothing) => self.found("expected a snapshot, found an empty file"),
            Some(Last::Record) => self.found(
                "a batch begins here and no footer comes behind it: the snapshot is not whole",
            ),
            Some(Last::Footer | Last::Damage) | None => {}
        }
    }

    fn found(&mut self, why: &str) {
        self.places += 1;
        let place = format!("{} at byte {}: {why}", self.path, self.position);
        self.first.get_or_insert(place);
    }

    fn outcome(self, path: &Path) -> Outcome {
        let Some(first) = self.first else { return Ok(()) };
        let more = match self.places - 1 {
            0 => String::new(),
            more => format!("\n  and {more} more"),
        };
        failed(format!(
            "not all of {} could be shown\n  {first}{more}\nThe end of a log that a running node is writing may look so for a moment; else quorate log verify says what to do.",
            path.display()
        ))
    }
}

fn verify(dir: &Path, as_json: bool) -> Outcome {
    directory(dir)?;
    let mut disk = OsDisk::new(dir);
    let names = quorate_log::files(&disk, "").or_else(|error| unread(dir, &error))?;
    let findings = quorate_log::verify(&mut disk, "").or_else(|error| unread(dir, &error))?;
    if let [only] = &findings[..]
        && only.path.is_empty()
    {
        return none_known(dir);
    }
    for finding in &findings {
        match as_json {
            true => out::json(&json!({
                "path": finding.path, "position": finding.position, "expected": finding.expected,
                "found": finding.found, "mends": finding.mends(), "remedy": name(finding.remedy),
            })),
            false => out::line(&finding.to_string()),
        }
    }
    match findings.iter().filter(|finding| !finding.mends()).count() {
        0 if as_json => Ok(()),
        0 => {
            let mends =
                if findings.is_empty() { "" } else { ", and the next start mends the above" };
            let files = match known(&names) {
                1 => "1 file".to_owned(),
                count => format!("{count} files"),
            };
            let log =
                if names.iter().any(|name| is_log(name)) { "" } else { ", no log among them" };
            out::line(&format!("{} is whole{mends}: {files} looked at{log}", dir.display()));
            Ok(())
        }
        damaged => {
            let places = if damaged == 1 { "place" } else { "places" };
            let what = format!("{} is damaged in {damaged} {places}", dir.display());
            failed(format!("{what}: {}", advice(&findings)))
        }
    }
}

fn name(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::NextStart => "start",
        Remedy::Leader => "leader",
        Remedy::Identity => "identity",
        Remedy::Replace => "replace",
        Remedy::Recover => "recover",
    }
}

/// What others have as well.
const OF_RECORDS: &str = "where other nodes vote, start the node: it sets this aside and copies it \
                          again. A node that votes alone needs the files back from a copy";

/// What follows from the log.
const OF_EPOCHS: &str = "where other nodes vote, start the node: it copies again what is in doubt. The log itself is \
                         whole, so for a node that votes alone remove leader-epoch-checkpoint: the next start makes \
                         it anew from the log";

/// What can be said again.
const OF_IDENTITY: &str = "meta.properties and partition.metadata say whose the directory is, and nothing that the \
                           node confirmed: put them back from a copy, or write them again, as \
                           docs/OPERATING.md shows under \"A file is missing\"";

/// What nobody else knows.
const OF_PROMISES: &str = "keep the directory as it is, and give the node a newly formatted one, but \
                           only while all other voters run and none lags (`quorate quorum status`): \
                           what this node confirmed must be on them";

/// What to do about all of it.
fn advice(findings: &[Finding]) -> String {
    let needs = |remedy| findings.iter().any(|finding| finding.remedy == remedy);
    if needs(Remedy::Recover) {
        return "run the same `quorate recover` again: it goes on where it was cut short"
            .to_owned();
    }
    if needs(Remedy::Replace) {
        return OF_PROMISES.to_owned();
    }
    let mut records = findings.iter().filter(|finding| finding.remedy == Remedy::Leader);
    if records.all(|finding| FileKind::of(&finding.path) == FileKind::Epochs)
        && needs(Remedy::Leader)
        && !needs(Remedy::Identity)
    {
        return OF_EPOCHS.to_owned();
    }
    let identity = needs(Remedy::Identity).then_some(OF_IDENTITY);
    let records = needs(Remedy::Leader).then_some(OF_RECORDS);
    identity.into_iter().chain(records).collect::<Vec<_>>().join("; then, ")
}

/// Whether a file is a segment of a log.
fn is_log(name: &str) -> bool {
    matches!(FileKind::of(name), FileKind::Segment(_))
}

/// How many of the files are a node's.
fn known(names: &[String]) -> usize {
    names.iter().filter(|name| FileKind::of(name) != FileKind::Other).count()
}

fn none_known<T>(dir: &Path) -> Outcome<T> {
    failed(format!(
        "{} holds no file of a node: name a data directory, or one of its partitions",
        dir.display()
    ))
}

/// The disk's fault, in words. The paths of the error lie in `root`.
pub(super) fn unread<T>(root: &Path, error: &quorate_log::Error) -> Outcome<T> {
    let why = std::error::Error::source(error).map_or(error.to_string(), ToString::to_string);
    let mut path = root.to_owned();
    if let quorate_log::Error::Io { path: below, .. } = error
        && !below.is_empty()
    {
        path.push(below);
    }
    failed(format!("cannot read {}: {why}; check the path and its permissions", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_log::{Disk, Mode, Operation};

    #[test]
    fn what_cannot_be_read_is_named_by_its_file() {
        let root = Path::new("/proc/self");
        let absent = "task/none.log";
        let source = OsDisk::new(root).open(absent, Mode::Read).err();
        let source = source.expect("it is not there");
        let error =
            quorate_log::Error::Io { operation: Operation::Open, path: absent.into(), source };
        let Err(Failure::Failed(text)) = unread::<()>(root, &error) else { panic!("it fails") };
        assert!(text.starts_with("cannot read /proc/self/task/none.log: No such file"), "{text}");
    }
}
