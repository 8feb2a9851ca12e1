//! The format level of a store, in words: why it stays where it is, and why a node stops before it.
//!
//! docs/decisions/0010-format-level.md has the reasons. Nothing here decides.

use quorate_base::{FormatLevel, Offset, OffsetEpoch, ReplicaId};
use quorate_wire::ErrorCode;
use std::fmt;

/// The feature by which Kafka's tools know it.
pub const FORMAT_FEATURE: &str = "quorate.format";

/// Why a level is not raised (rule P79).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Unraised {
    /// The machine's records have no level.
    NoLevels,
    /// The request wants it lower, or would have it so.
    NotUp,
    /// This node does not lead.
    NotLeading { leader: Option<ReplicaId> },
    /// It has not applied yet what earlier leaders left, or takes no writes.
    NotReady,
    /// The level in force, or asked for already, is higher.
    Lower { asked: FormatLevel, now: FormatLevel },
    /// This build does not speak it.
    Unknown { asked: FormatLevel, newest: FormatLevel },
    /// Somebody waits for other voters.
    Changing,
    /// Voters that do not speak it, and those that have not told what they speak.
    Voters { asked: FormatLevel, old: Vec<(ReplicaId, FormatLevel)>, untold: Vec<ReplicaId> },
    /// Too many wait for an answer already.
    Crowded,
    /// It is in the log and not committed in time.
    Uncommitted { asked: FormatLevel },
    /// The leader lost its leadership.
    LeadershipLost { appended: bool },
}

impl Unraised {
    /// Kafka's code for it. INVALID_UPDATE_VERSION of what may be otherwise in a moment, and of
    /// what a person has to change first, as for `kraft.version`.
    pub fn code(&self) -> ErrorCode {
        match self {
            Unraised::NoLevels | Unraised::NotUp => ErrorCode::InvalidRequest,
            // So Kafka's tools look for the leader anew.
            Unraised::NotLeading { .. } | Unraised::LeadershipLost { .. } => {
                ErrorCode::NotController
            }
            Unraised::Lower { .. } | Unraised::Unknown { .. } => ErrorCode::FeatureUpdateFailed,
            Unraised::Voters { .. } => ErrorCode::InvalidUpdateVersion,
            Unraised::NotReady
            | Unraised::Changing
            | Unraised::Crowded
            | Unraised::Uncommitted { .. } => ErrorCode::RequestTimedOut,
        }
    }
}

impl fmt::Display for Unraised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unraised::NoLevels => write!(
                f,
                "the state of this quorum has no {FORMAT_FEATURE}: its records are Kafka's, or an embedder's own; nothing to raise"
            ),
            Unraised::NotUp => write!(
                f,
                "{FORMAT_FEATURE} goes up only, and never back: what is in the log at a level cannot be read at a lower one; ask for an upgrade"
            ),
            Unraised::NotLeading { leader: Some(leader) } => {
                write!(f, "this node does not lead the quorum; ask node {leader}")
            }
            Unraised::NotLeading { leader: None } => {
                f.write_str("this node does not lead the quorum and knows no leader; ask again later")
            }
            Unraised::NotReady => f.write_str(
                "the leader takes no writes yet or at present: it was elected just now, or its disk is full; nothing was changed, ask again",
            ),
            Unraised::Lower { asked, now } => write!(
                f,
                "{FORMAT_FEATURE} is {now} and never goes back to {asked}: what is in the log at a level cannot be read at a lower one"
            ),
            Unraised::Unknown { asked, newest } => write!(
                f,
                "this leader does not speak {FORMAT_FEATURE} {asked}, its newest is {newest}; start a newer build on all nodes first"
            ),
            Unraised::Changing => f.write_str(
                "a change of the voters is not finished; nothing was changed, ask again once it is",
            ),
            Unraised::Voters { asked, old, untold } => {
                let old = old.iter().map(|(id, newest)| format!("node {id} speaks {FORMAT_FEATURE} up to {newest}"));
                let untold = untold.iter().map(|id| format!("node {id} has not told this leader what it speaks"));
                let voters: Vec<String> = old.chain(untold).collect();
                write!(
                    f,
                    "every voter has to speak {FORMAT_FEATURE} {asked} first: {}; start a newer build on those that are older; one that \
                     runs tells within a few seconds, voters of Kafka's never do",
                    voters.join(", ")
                )
            }
            Unraised::Crowded => f.write_str("too many ask for a level at once; ask again later"),
            Unraised::Uncommitted { asked } => write!(
                f,
                "{FORMAT_FEATURE} {asked} is in the leader's log, but a majority has not stored that in time; it may still be committed: \
                 look at the level before asking again"
            ),
            Unraised::LeadershipLost { appended: true } => f.write_str(
                "the leader lost its leadership before the level was committed; look at the level before asking the next leader",
            ),
            Unraised::LeadershipLost { appended: false } => {
                f.write_str("the leader lost its leadership; nothing was changed, ask the next one")
            }
        }
    }
}

/// Where a level is that this node does not speak.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// In the batch that begins here.
    Batch(Offset),
    /// In this snapshot.
    Snapshot(OffsetEpoch),
}

/// Why a node stops, and what to do.
pub(crate) fn too_old(level: FormatLevel, newest: FormatLevel, found: Found) -> String {
    let place = match found {
        Found::Batch(base) => format!("the log moves the store to it at offset {base}"),
        Found::Snapshot(id) => format!("the snapshot {id} has it"),
    };
    format!(
        "this store is at {FORMAT_FEATURE} {level} and this build speaks up to {newest} ({place}): it does not know what the records \
         from there on mean, so the node stops before them; its files are as they were. Start a build that speaks {FORMAT_FEATURE} {level} \
         on this directory, such as the other nodes run; there is no way back to this one"
    )
}
