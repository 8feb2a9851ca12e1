//! `quorate snapshot`: look into the snapshots of a data directory, Quorate's or Kafka's, in use or
//! not.
//!
//! Reads only: no lock, nothing removed. Which file is meant is decided here; `contents.rs` reads
//! it as a node that loads it would, `tree.rs` and `diff.rs` say what is in it. `dump` shows
//! damaged files too, for it is the dump of `quorate log`.

mod cluster;
mod contents;
mod diff;
mod tree;

pub(super) use contents::{Entry, is_reserved, shown};
pub(super) use tree::KeyTree;

use super::log::{self, unread};
use super::metadata::Shape;
use super::{Failure, Outcome, failed, there};
use clap::{Parser, Subcommand};
use quorate_base::OffsetEpoch;
use quorate_log::{FileKind, OsDisk, SnapshotName};
use std::path::{Path, PathBuf};

/// Look into snapshots: what state they hold, and how two differ
#[derive(Parser)]
#[command(after_help = "\
Examples:
  quorate snapshot tree data                    what the newest snapshot is, and its keys
  quorate snapshot tree data --depth 1          its keys, counted by what lies before the first '/'
  quorate snapshot diff data                    what the newest changed against the one before
  quorate snapshot tree kafka --depth 2         a Kafka cluster: brokers, topics, configs, counted
  quorate snapshot diff node1/data node2/data   how the newest of two nodes differ
  quorate snapshot dump data --json | jq 'select(.type == \"record\") | .key'

All only read, and work beside a running node. For a directory the newest snapshot in it or below is
taken. A snapshot does not say what its records are: those without a key that begin like Kafka's
metadata records are shown as the state of a Kafka cluster; --decoder says otherwise.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print batches and records, as `quorate log dump` does
    #[command(after_help = "\
Examples:
  quorate snapshot dump data
  quorate snapshot dump data/__cluster_metadata-0/00000000000000000008-0000000003.checkpoint")]
    Dump {
        /// A snapshot, or a directory whose newest is taken
        #[arg(value_name = "FILE|DIR")]
        path: PathBuf,
        #[command(flatten)]
        shape: Shape,
    },
    /// Print what a snapshot is, and its keys as a tree split at '/', with counts and bytes; of
    /// Kafka's, the cluster's state
    #[command(after_help = "\
Examples:
  quorate snapshot tree data --depth 1
  quorate snapshot tree kafka-data --json")]
    Tree {
        /// A snapshot, or a directory whose newest is taken
        #[arg(value_name = "FILE|DIR")]
        path: PathBuf,
        /// Show so many levels; what lies deeper is only counted
        #[arg(long, value_name = "LEVELS", value_parser = clap::value_parser!(u8).range(1..=64))]
        depth: Option<u8>,
        #[command(flatten)]
        shape: Shape,
    },
    /// Print which keys were added, removed and changed, with their versions; of Kafka's, which
    /// facts of the cluster
    #[command(after_help = "\
Examples:
  quorate snapshot diff data
  quorate snapshot diff node1/data node2/data --json")]
    Diff {
        /// A snapshot, or a directory whose newest is taken. Alone, it is compared with the one
        /// before it in its directory
        #[arg(value_name = "FILE|DIR")]
        path: PathBuf,
        /// The snapshot that it is compared with, as the newer of the two
        #[arg(value_name = "FILE|DIR")]
        with: Option<PathBuf>,
        #[command(flatten)]
        shape: Shape,
    },
}

/// Runs `quorate snapshot …`.
pub(crate) fn snapshot(args: Args) -> Outcome {
    match args.command {
        Command::Dump { path, shape } => dump(&path, shape),
        Command::Tree { path, depth, shape } => tree::tree(&Place::of(&path)?, depth, shape),
        Command::Diff { path, with: Some(with), shape } => {
            diff::diff(&Place::of(&path)?, &Place::of(&with)?, shape)
        }
        Command::Diff { path, with: None, shape } => {
            let newer = Place::of(&path)?;
            diff::diff(&newer.before()?, &newer, shape)
        }
    }
}

fn dump(path: &Path, shape: Shape) -> Outcome {
    let file = match path.is_dir() {
        true => Place::newest(path)?.path(),
        false => path.to_owned(),
    };
    let kind = file.file_name().and_then(|name| name.to_str()).map(FileKind::of);
    match kind {
        Some(FileKind::Checkpoint) => log::dump(&file, shape),
        Some(_) | None => no_snapshot(&file),
    }
}

/// Where a snapshot lies.
struct Place {
    dir: PathBuf,
    id: OffsetEpoch,
}

impl Place {
    /// What a person named: a snapshot, or a directory.
    fn of(path: &Path) -> Outcome<Place> {
        there(path)?;
        if path.is_dir() {
            return Place::newest(path);
        }
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match SnapshotName::parse(name) {
            Some(SnapshotName::Whole(id)) => {
                let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
                Ok(Place { dir: dir.unwrap_or(Path::new(".")).to_owned(), id })
            }
            Some(SnapshotName::Part(_)) => failed(format!(
                "{} is still being written, or was left by a crash: no state is read from it. Name a snapshot that is whole, or the directory",
                path.display()
            )),
            Some(SnapshotName::Deleted(_)) => failed(format!(
                "{} is about to be removed: a newer snapshot has taken its place. Name that one, or the directory",
                path.display()
            )),
            None => no_snapshot(path),
        }
    }

    /// The newest snapshot in or below a directory.
    fn newest(dir: &Path) -> Outcome<Place> {
        let mut places = Place::all(dir)?;
        let Some(newest) = places.pop() else {
            return failed(format!(
                "{} holds no snapshot: its node has not written one yet, or it is no data directory. The log may still be there: quorate log dump {0}",
                dir.display()
            ));
        };
        match places.iter().find(|place| place.dir != newest.dir) {
            None => Ok(newest),
            Some(other) => Err(Failure::Usage(format!(
                "{} holds snapshots of several logs, in {} and in {}; name one of these",
                dir.display(),
                other.dir.display(),
                newest.dir.display(),
            ))),
        }
    }

    /// The snapshot before this one in its directory.
    fn before(&self) -> Outcome<Place> {
        let mut all = Place::all(&self.dir)?;
        all.retain(|place| place.dir == self.dir);
        let others = all.len() - all.iter().filter(|place| place.id == self.id).count();
        all.retain(|place| place.id.log_order() < self.id.log_order());
        let (dir, path) = (self.dir.display(), self.path());
        match (all.pop(), others) {
            (Some(before), _) => Ok(before),
            (None, 0) => failed(format!(
                "{dir} holds only one snapshot, so there is nothing to compare it with: name two, such as those of two nodes, quorate snapshot diff {dir} OTHER; or see what is in it, quorate snapshot tree {dir}"
            )),
            (None, _) => failed(format!(
                "{} has no older one beside it to be compared with: name two snapshots",
                path.display()
            )),
        }
    }

    /// All snapshots in or below a directory, the newest last.
    fn all(dir: &Path) -> Outcome<Vec<Place>> {
        let files = quorate_log::files(&OsDisk::new(dir), "").or_else(|bad| unread(dir, &bad))?;
        let places = files.iter().filter_map(|file| {
            let (below, name) = file.rsplit_once('/').unwrap_or(("", file));
            match SnapshotName::parse(name)? {
                SnapshotName::Whole(id) => {
                    let dir = if below.is_empty() { dir.to_owned() } else { dir.join(below) };
                    Some(Place { dir, id })
                }
                SnapshotName::Part(_) | SnapshotName::Deleted(_) => None,
            }
        });
        let mut places: Vec<Place> = places.collect();
        places.sort_by_key(|place| place.id.log_order());
        Ok(places)
    }

    fn path(&self) -> PathBuf {
        self.dir.join(quorate_log::snapshot_name(self.id))
    }
}

fn no_snapshot<T>(path: &Path) -> Outcome<T> {
    there(path)?;
    Err(Failure::Usage(format!(
        "{} is no snapshot by its name, which would be END-EPOCH.checkpoint with 20 and 10 digits; quorate snapshot dump takes any .checkpoint, quorate log dump any file of a node",
        path.display()
    )))
}
