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
mod voters;
mod words;

pub use carry_out::{Done, carry_out, recovered};
pub use plan::{Chosen, Plan, Wish, plan};
use quorate_base::{ReplicaId, Uuid};
use quorate_log::Error;
use std::path::PathBuf;
pub use survey::{Copied, Facts, survey};
pub use voters::{BadVoter, NewVoter};

/// The log's topic, as the settings of its nodes have it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topic {
    /// `quorate.topic`.
    pub name: String,
    /// `quorate.topic.id`, for where the directory does not say it.
    pub id: Uuid,
}

/// Offsets and epochs that are passed over where lost nodes may have given out more than is known.
pub const LEAP: u64 = 1_000_000;

/// Why nothing is recovered.
#[derive(Debug)]
pub enum RecoverError {
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
    /// The copies of a new voter are of several directories.
    SeveralDirectories {
        /// The voter.
        node: ReplicaId,
        /// Each copy with its directory id.
        found: Vec<(PathBuf, String)>,
    },
    /// Two new voters share something.
    SameVoter {
        /// What they share.
        what: &'static str,
        /// One.
        one: String,
        /// The other.
        other: String,
    },
    /// There is no epoch left behind those that are known.
    NoEpoch,
    /// A file cannot be read or written.
    Files {
        /// The directory.
        directory: PathBuf,
        /// What is wrong.
        error: Error,
        /// Whether the log may be changed in part: no node starts on it then.
        begun: bool,
    },
}
