//! What can go wrong with the files, with the facts to act on.
//!
//! Paths are relative to the disk's root, like those of [`crate::Disk`]; who prints an error knows
//! the root. None of these is retried: after an error of a write or a sync the state of the file is
//! unknown, and only a restart, which reads everything again, may go on.

use crate::disk::Operation;
use crate::{meta_file, partition_file};
use std::{fmt, io};

/// The crate's error.
#[derive(Debug)]
pub enum Error {
    /// The disk refused a call.
    Io {
        /// Which call.
        operation: Operation,
        /// On what.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// A file that `format` makes is not there.
    NotFormatted {
        /// The file or directory.
        path: String,
    },
    /// A file that a formatted directory has is not there, though others of the same node are.
    Lost {
        /// The file, or the partition's folder.
        path: String,
        /// What is there.
        beside: String,
    },
    /// `format` found a directory that is in use.
    AlreadyFormatted {
        /// What was found.
        path: String,
    },
    /// A small file cannot be understood.
    Malformed {
        /// The file.
        path: String,
        /// Byte from which it makes no sense.
        position: u64,
        /// What belongs there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// Bytes of the log that were durable are not what was written. Never cut away silently: this
    /// replica may have promised them to others.
    Damaged {
        /// The file.
        path: String,
        /// Byte at which the damaged batch begins.
        position: u64,
        /// What belongs there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// The log does not begin at 0, and no snapshot stands for what lay below (T8, KAFKA-14240).
    Uncovered {
        /// The partition's directory.
        path: String,
        /// Where the log begins.
        start: quorate_base::Offset,
        /// The end of the newest snapshot that can be read; `None` if there is none.
        newest: Option<quorate_base::Offset>,
        /// The name of the snapshot that would do, were it not damaged and set aside.
        aside: Option<Box<str>>,
        /// The segment that the log began with, if the epoch table speaks of one that is not there.
        missing: Option<Box<str>>,
    },
    /// The directory belongs to another cluster or node.
    Foreign {
        /// The file that says so.
        path: String,
        /// Which property: `cluster.id` or `node.id`.
        property: &'static str,
        /// What was configured.
        expected: String,
        /// What the file says.
        found: String,
    },
    /// The log was to be cut within a batch.
    NotABoundary {
        /// The file.
        path: String,
        /// Byte at which the batch around it begins.
        position: u64,
        /// The offset at which it was to be cut.
        offset: quorate_base::Offset,
    },
}

/// A voter with an empty directory has forgotten what it confirmed. With another voter that lags it
/// makes a majority that has not seen all that is committed.
const REPLACE: &str = "keep the directory, and give the node a newly formatted one, but only while \
                       all other voters run and none lags (`quorate quorum status`): what this \
                       node confirmed must be on them, and is copied from them";

/// Neither file knows what was confirmed.
const IDENTITY: &str = "it says whose the directory is, and nothing that this node confirmed: put it \
                        back from a copy, or write it again, as docs/OPERATING.md shows under \
                        \"A file is missing\"";

const NEVER_USED: &str = "a directory that Kafka's tool formatted for static voters and that was never used has \
                          no log yet: let `quorate format` make an empty one for it";

/// Whether a file only says whose the directory is.
fn is_identity(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    [meta_file::NAME, partition_file::NAME].contains(&name)
}

impl Error {
    /// What is wrong, without what to do about it.
    pub fn fault(&self) -> String {
        match self {
            Error::Io { operation, path, source } => {
                format!("cannot {} {path}: {source}", operation.verb())
            }
            Error::NotFormatted { path } => format!("{path} does not exist"),
            Error::Lost { path, beside } => format!("{path} is missing, though {beside} is there"),
            Error::AlreadyFormatted { path } => format!("{path} exists"),
            Error::Malformed { path, position, expected, found }
            | Error::Damaged { path, position, expected, found } => {
                format!("{path} is damaged at byte {position}: expected {expected}, found {found}")
            }
            Error::Uncovered { path, start, newest, aside, missing } => {
                let newest = match newest {
                    Some(newest) => format!("the newest snapshot ends at offset {newest}"),
                    None => "there is no snapshot".to_owned(),
                };
                let aside = aside.as_ref().map_or(String::new(), |name| {
                    format!(" (the one that is needed is damaged and was renamed to {name})")
                });
                let missing = missing.as_ref().map_or(String::new(), |file| {
                    format!("; {file} is missing, of whose records the epoch table speaks")
                });
                format!("{path}: the log begins at offset {start}, but {newest}{aside}{missing}")
            }
            Error::Foreign { path, property, expected, found } => {
                format!("{path} has {property}={found}, but {expected} is configured")
            }
            Error::NotABoundary { path, position, offset } => format!(
                "{path} cannot be cut at offset {offset}: it lies within the batch at byte {position}"
            ),
        }
    }

    /// For `map_err` on a call of the disk.
    pub(crate) fn io(operation: Operation, path: &str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io { operation, path: path.to_owned(), source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fault())?;
        match self {
            Error::Io { .. } => f.write_str(
                "; what reached the disk is unknown, so the node stops; check the disk, then start the \
                 node again: it reads everything anew",
            ),
            Error::NotFormatted { .. } => f.write_str(
                ": the directory is not formatted, or not mounted; check the path, and run \
                 `quorate format` for a new node",
            ),
            Error::AlreadyFormatted { .. } => f.write_str(
                ": the directory is in use and is left as it is; name an empty directory to format",
            ),
            Error::Malformed { path, .. } | Error::Lost { path, .. } if is_identity(path) => {
                write!(f, "; {IDENTITY}")
            }
            // The folder of the log as a whole.
            Error::Lost { path, .. } if !path.contains('/') => {
                write!(f, "; {REPLACE}; {NEVER_USED}")
            }
            Error::Malformed { .. } | Error::Lost { .. } => write!(f, "; {REPLACE}"),
            Error::Damaged { .. } => f.write_str(
                "; this was on disk and may be promised to others, so it is not cut off. Where other \
                 nodes vote, a start sets it aside and copies it again; a node that votes alone needs \
                 the file back from a copy",
            ),
            Error::Uncovered { start, .. } => write!(
                f,
                ": what lay below offset {start} is not here, so the state cannot be built; put back a \
                 snapshot file that ends at {start} or behind it, or {REPLACE}"
            ),
            Error::Foreign { property, .. } => write!(
                f,
                ": the directory belongs to another node or cluster; check the configured directory \
                 and {property}"
            ),
            Error::NotABoundary { .. } => f.write_str(
                "; the leader's log has other batches than this one, so compare the versions of both",
            ),
        }
    }
}

impl Error {
    /// Whether the files are not as this node wrote them, as far as the error can tell: start-up,
    /// which reads every byte, knows what to do about that.
    pub fn is_of_the_files(&self) -> bool {
        match self {
            Error::Damaged { .. } | Error::NotABoundary { .. } => true,
            Error::Io { .. }
            | Error::NotFormatted { .. }
            | Error::Lost { .. }
            | Error::AlreadyFormatted { .. }
            | Error::Malformed { .. }
            | Error::Uncovered { .. }
            | Error::Foreign { .. } => false,
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            Error::NotFormatted { .. }
            | Error::Lost { .. }
            | Error::AlreadyFormatted { .. }
            | Error::Malformed { .. }
            | Error::Damaged { .. }
            | Error::Uncovered { .. }
            | Error::Foreign { .. }
            | Error::NotABoundary { .. } => None,
        }
    }
}

/// A text that is not of its form; becomes [`Error::Malformed`] once the path is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct BadText {
    pub position: usize,
    pub expected: String,
    pub found: String,
}

impl BadText {
    pub fn new(position: usize, expected: impl Into<String>, found: impl Into<String>) -> BadText {
        BadText { position, expected: expected.into(), found: found.into() }
    }

    pub fn at(self, path: &str) -> Error {
        let BadText { position, expected, found } = self;
        Error::Malformed { path: path.to_owned(), position: position as u64, expected, found }
    }
}
