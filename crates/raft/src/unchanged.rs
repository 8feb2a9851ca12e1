//! Why a voter set was not changed, in words for whoever asked (KIP-853).
//!
//! Each reason has Kafka's code, so that Kafka's tools understand it as far as a code can say it,
//! and a sentence of what happened and what to do.

use crate::message::ErrorKind;
use crate::voters::KRAFT_VERSIONS;
use quorate_base::{ReplicaId, ReplicaKey};
use std::fmt;

/// Why a request for other voters was refused, or not answered with success.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unchanged {
    /// This replica does not lead.
    NotLeading {
        /// Who does, if known.
        leader: Option<ReplicaId>,
    },
    /// The request names no directory.
    NoDirectory,
    /// The request does not say where the replica listens by the name by which the voters reach
    /// each other.
    NoEndpoint {
        /// That name, if this leader listens itself.
        listener: Option<String>,
    },
    /// The leader has not committed a record of its epoch yet.
    NotReady,
    /// The voters are static.
    Static,
    /// An earlier change is not finished.
    Pending,
    /// The set names the id already.
    Known {
        /// As whom.
        known: ReplicaKey,
    },
    /// The set does not name this replica.
    Unknown {
        /// What it names under the same id.
        known: Option<ReplicaKey>,
    },
    /// Nobody would be left.
    LastVoter,
    /// It is this leader whose place another directory is to take.
    Leads {
        /// As whom the set names it.
        known: ReplicaKey,
    },
    /// It follows the leader now, and so does another directory of the same node.
    RunsTwice {
        /// The one that counts.
        known: ReplicaKey,
    },
    /// Of a replacement the first half is done, and the second is not (rule P80).
    Halfway {
        /// Who counts no more.
        gone: ReplicaKey,
    },
    /// The replica that is to be added does not show that it can be a voter.
    Unfit {
        /// Who.
        key: ReplicaKey,
        /// What it lacks.
        lacks: Unfit,
    },
    /// Of the voters that there would be too few follow this leader.
    TooFew {
        /// How many do.
        follow: usize,
        /// Of so many.
        voters: usize,
    },
    /// `kraft.version` cannot be what was asked for.
    Version(NoUpgrade),
    /// The new voters are in the log, and not committed in time.
    Uncommitted,
    /// The leader lost its leadership.
    LeadershipLost {
        /// Whether the new voters were in its log already.
        appended: bool,
    },
}

/// What a replica lacks that is to be added (rule P73).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfit {
    /// It has not answered so far.
    Silent,
    /// Another replica answers there: it has another id or another directory.
    AnotherReplica,
    /// It does not speak the version in force.
    Version {
        /// What it speaks, least and greatest; `None` if it tells nothing.
        speaks: Option<(u16, u16)>,
        /// The version in force.
        needed: u16,
    },
    /// It has not fetched from this leader.
    NotObserved,
    /// It does not hold what the leader holds.
    Behind {
        /// By how many records.
        records: u64,
    },
}

/// Why `kraft.version` stays (rule P78).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoUpgrade {
    /// The version that was asked for cannot follow the one in force.
    Level {
        /// The one that was asked for.
        asked: u16,
        /// The one in force.
        now: u16,
    },
    /// A voter has not told the leader its directory yet.
    Unreported {
        /// Which.
        id: ReplicaId,
    },
    /// A voter does not speak the version that was asked for.
    TooOld {
        /// Which.
        id: ReplicaId,
        /// What it speaks, least and greatest.
        speaks: (u16, u16),
        /// The one that was asked for.
        asked: u16,
    },
}

impl Unchanged {
    /// Kafka's code for it.
    pub fn error(&self) -> ErrorKind {
        match self {
            Unchanged::NotLeading { .. } | Unchanged::LeadershipLost { .. } => {
                ErrorKind::NotLeaderOrFollower
            }
            Unchanged::NoDirectory | Unchanged::NoEndpoint { .. } | Unchanged::Leads { .. } => {
                ErrorKind::InvalidRequest
            }
            Unchanged::Static => ErrorKind::UnsupportedVersion,
            Unchanged::Version(_) => ErrorKind::InvalidUpdateVersion,
            Unchanged::Known { .. } => ErrorKind::DuplicateVoter,
            Unchanged::Unknown { .. } | Unchanged::LastVoter => ErrorKind::VoterNotFound,
            Unchanged::Unfit { lacks, .. } => match lacks {
                Unfit::AnotherReplica => ErrorKind::InvalidVoterKey,
                Unfit::Version { .. } => ErrorKind::InvalidRequest,
                Unfit::Silent | Unfit::NotObserved | Unfit::Behind { .. } => {
                    ErrorKind::RequestTimedOut
                }
            },
            Unchanged::NotReady
            | Unchanged::Pending
            | Unchanged::RunsTwice { .. }
            | Unchanged::Halfway { .. }
            | Unchanged::TooFew { .. }
            | Unchanged::Uncommitted => ErrorKind::RequestTimedOut,
        }
    }
}

impl fmt::Display for Unchanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unchanged::NotLeading { leader: Some(leader) } => {
                write!(f, "this node does not lead the quorum; ask node {leader}")
            }
            Unchanged::NotLeading { leader: None } => {
                f.write_str("this node does not lead the quorum and knows no leader; ask again later")
            }
            Unchanged::NoDirectory => f.write_str(
                "the request names no directory id, and a voter is known by its node id and its \
                 directory id; name the one in the meta.properties of that node",
            ),
            Unchanged::NoEndpoint { listener: Some(listener) } => write!(
                f,
                "the request does not say where the node listens as {listener}, by which name the \
                 voters reach each other, with a host and a port; add that listener"
            ),
            Unchanged::NoEndpoint { listener: None } => {
                f.write_str("the request does not say where the node listens; add its listener, with host and port")
            }
            Unchanged::NotReady => f.write_str(
                "the leader was elected just now and has not committed a record of its epoch yet; \
                 nothing was changed, ask again",
            ),
            Unchanged::Static => f.write_str(
                "the voters of this quorum are static (kraft.version 0): controller.quorum.voters of each \
                 node names them; upgrade kraft.version to 1 first",
            ),
            Unchanged::Pending => f.write_str(
                "another change of the voters is not finished, and there is one at a time; nothing was \
                 changed, ask again once it is",
            ),
            Unchanged::Known { known } => write!(
                f,
                "the voters include node {} already, as {known}; remove that one first if its disk was \
                 replaced",
                known.id
            ),
            Unchanged::Unknown { known: Some(known) } => write!(
                f,
                "the voters include node {} with another directory, as {known}; name that one",
                known.id
            ),
            Unchanged::Unknown { known: None } => {
                f.write_str("the voters do not include that node; nothing to remove")
            }
            Unchanged::LastVoter => f.write_str(
                "it is the only voter, and without any there is no quorum; add another one first",
            ),
            Unchanged::Leads { known } => write!(f, "{known} {LEADS}"),
            Unchanged::RunsTwice { known } => runs_twice(*known, f),
            Unchanged::Halfway { gone } => write!(
                f,
                "{gone} is no voter any more, and the new directory is none yet, since it fell behind \
                 meanwhile or does not answer; ask the same again, and the rest is done"
            ),
            Unchanged::Version(why) => why.fmt(f),
            Unchanged::Unfit { key, lacks } => write!(f, "{key} {lacks}"),
            Unchanged::TooFew { follow, voters } => write!(
                f,
                "of the {voters} voters that there would be only {follow} follow this leader, too few to \
                 commit anything; nothing was changed, bring back a voter that is away, or remove that \
                 one first"
            ),
            Unchanged::Uncommitted => f.write_str(
                "the new voters are in the leader's log and count, but a majority of them has not stored \
                 that in time; it may still be committed: look at the voters before asking again",
            ),
            Unchanged::LeadershipLost { appended: true } => f.write_str(
                "the leader lost its leadership before the new voters were committed; look at the voters \
                 before asking the next leader",
            ),
            Unchanged::LeadershipLost { appended: false } => f.write_str(
                "the leader lost its leadership; nothing was changed, ask the next one",
            ),
        }
    }
}

const LEADS: &str = "leads the quorum, so its disk is there; let another voter lead before a new \
    directory takes its place";

fn runs_twice(known: ReplicaKey, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(
        f,
        "{known} is alive, and another directory of node {} copies the log at the same time: two \
         machines have one node.id; stop the one that is not to vote, or give it its own, then ask \
         again",
        known.id
    )
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Silent => f.write_str(
                "did not answer where the request says that it listens; nothing was changed, see that it \
                 runs and can be reached from the leader",
            ),
            Unfit::AnotherReplica => f.write_str(
                "is not who answers there: that one has another node id or another directory id; look at \
                 its meta.properties",
            ),
            Unfit::Version { speaks: Some((least, greatest)), needed } => write!(
                f,
                "speaks kraft.version {least} to {greatest}, and this quorum is at {needed}; start a \
                 version that speaks it (this leader speaks {} to {})",
                KRAFT_VERSIONS.0, KRAFT_VERSIONS.1
            ),
            Unfit::Version { speaks: None, needed } => write!(
                f,
                "does not tell which versions of kraft.version it speaks, so it is too old for this \
                 quorum, which is at {needed}; start a newer one"
            ),
            Unfit::NotObserved => f.write_str(
                "does not copy the log of this leader; nothing was changed, start it as an observer of \
                 this quorum and wait until it has all",
            ),
            Unfit::Behind { records } => write!(
                f,
                "is behind the leader by {records} records; nothing was changed, ask again once it has \
                 them"
            ),
        }
    }
}

impl fmt::Display for NoUpgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoUpgrade::Level { asked, now } if asked < now => write!(
                f,
                "kraft.version is {now} and never goes back to {asked}: the log names the voters from now on"
            ),
            NoUpgrade::Level { asked, now } => write!(
                f,
                "kraft.version is {now}, and this leader does not know {asked}: it speaks {} to {}; start a \
                 newer version on all nodes first",
                KRAFT_VERSIONS.0, KRAFT_VERSIONS.1
            ),
            NoUpgrade::Unreported { id } => write!(
                f,
                "node {id} has not told this leader its directory and what it speaks, which a voter does \
                 within a few seconds of following it; see that it runs, and ask again"
            ),
            NoUpgrade::TooOld { id, speaks: (least, greatest), asked } => write!(
                f,
                "node {id} speaks kraft.version {least} to {greatest} and not {asked}; start a newer \
                 version there first"
            ),
        }
    }
}
