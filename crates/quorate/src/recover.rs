//! A way back where a majority of the voters is lost for ever, or none of them can be reached where
//! the log says: the best copy of the log gets new voters, in a new epoch.
//!
//! Offline, in three steps: [`survey`] looks at directories and changes nothing, [`plan`] decides,
//! [`carry_out`] keeps a copy of every file that changes and changes it. Who calls has made sure
//! that no leader is left. What may be lost by it is said, and kept beside the log: the records
//! that only the lost nodes had. Their offsets are not given out again, nor their epochs.

mod carry_out;
mod plan;
mod survey;
mod words;

pub use carry_out::{Done, carry_out, recovered};
pub use plan::{Chosen, NewVoter, Plan, Wish, plan};
use quorate_base::ReplicaId;
use quorate_log::{Error, LockError};
use std::path::PathBuf;
pub use survey::{Copied, Facts, survey};

/// Offsets and epochs that are passed over where lost nodes may have given out more than is known.
pub const LEAP: u64 = 1_000_000;

/// Why nothing is recovered.
#[derive(Debug)]
pub enum RecoverError {
    /// A process uses a directory.
    Lock(LockError),
    /// None of the copies can be used; each with the reason.
    NoCopy(Vec<(PathBuf, String)>),
    /// The directory that is to be used is none of the copies, or cannot be used.
    NotUsable {
        /// The directory.
        directory: PathBuf,
        /// Why not.
        why: String,
    },
    /// The copies are of several clusters.
    Clusters {
        /// One: directory and `cluster.id`.
        one: (PathBuf, String),
        /// Another.
        other: (PathBuf, String),
    },
    /// A damaged copy holds more than the best of those that are whole.
    Undecided {
        /// The best whole one, and its end.
        whole: (PathBuf, u64),
        /// The damaged one, and the end of what is right in it.
        damaged: (PathBuf, u64),
    },
    /// The directory has no id, by which voters in the log are known.
    NoDirectoryId {
        /// The directory.
        directory: PathBuf,
    },
    /// Nothing says where the node of the chosen copy shall be reached.
    NoAddress {
        /// The node.
        node: ReplicaId,
    },
    /// The new voters do not name the node of the chosen copy with its directory.
    NotAVoter {
        /// The node.
        node: ReplicaId,
        /// Its directory id.
        directory: String,
    },
    /// Nothing says which directory a new voter has.
    UnknownDirectory {
        /// The voter.
        node: ReplicaId,
    },
    /// Two new voters share something.
    SameVoter(crate::FormatError),
    /// There is no epoch left behind those that are known.
    NoEpoch,
    /// A file cannot be read or written.
    Files {
        /// The directory.
        directory: PathBuf,
        /// What is wrong.
        error: Error,
    },
}
