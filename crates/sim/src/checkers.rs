//! What must be true whatever happens: one idea a file. Each checker sees every turn of every node
//! and says in words what it found, with the numbers.

mod acknowledged_never_lost;
mod caretaker_takes_nothing;
mod change_is_safe_when_made;
mod changes_as_answered;
mod committed_never_changes;
mod epoch_table_matches_log;
mod files_reopen;
mod high_watermark_never_falls;
mod levels_are_spoken;
mod linear;
mod logs_match;
mod machines_equal_at_equal_offset;
mod no_message_before_durable;
mod one_leader_per_epoch;
mod remembered;
mod voters_change_by_one;
mod votes_as_itself;

pub(crate) use acknowledged_never_lost::{AcknowledgedNeverLost, key_name};
pub(crate) use caretaker_takes_nothing::caretaker_takes_nothing;
pub(crate) use change_is_safe_when_made::{Making, change_is_safe_when_made};
pub(crate) use changes_as_answered::{change_is_committed, changes_as_answered};
pub(crate) use committed_never_changes::CommittedNeverChanges;
pub(crate) use epoch_table_matches_log::epoch_table_matches_log;
pub(crate) use files_reopen::{Written, files_reopen};
pub(crate) use high_watermark_never_falls::HighWatermarkNeverFalls;
pub(crate) use levels_are_spoken::{LevelsAreSpoken, level_is_safe_when_raised, levels_rise};
pub(crate) use linear::{Judgement, linear};
pub(crate) use logs_match::LogsMatch;
pub(crate) use machines_equal_at_equal_offset::MachinesEqualAtEqualOffset;
pub(crate) use no_message_before_durable::NoMessageBeforeDurable;
pub(crate) use one_leader_per_epoch::OneLeaderPerEpoch;
pub(crate) use remembered::Remembered;
pub(crate) use voters_change_by_one::VotersChangeByOne;
pub(crate) use votes_as_itself::VotesAsItself;

use crate::book::{Book, Lost};
use crate::network::Process;
use crate::seats::Seats;
use quorate_base::{Offset, ReplicaKey};
use quorate_raft::View;
use std::collections::BTreeMap;

/// What a checker found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Which checker.
    pub checker: &'static str,
    /// What it found.
    pub what: String,
}

impl Failure {
    pub(crate) fn new(checker: &'static str, what: impl Into<String>) -> Failure {
        Failure { checker, what: what.into() }
    }
}

/// One node after one of its turns.
pub(crate) struct Sight<'a> {
    pub process: Process,
    pub view: View<'a>,
    /// End of what its machine holds, and the machine's digest.
    pub applied: Offset,
    pub digest: u64,
}

/// What the world knows of every node's log, up or down.
pub(crate) struct Logs<'a> {
    pub books: &'a [Book],
    /// What of each survives a crash, for certain.
    pub durable: &'a [Offset],
    /// What each had before it was damaged: until it has that again it votes only for who has it.
    pub lost: &'a [Option<Lost>],
    /// Who each node is now.
    pub keys: &'a [ReplicaKey],
    /// What those had that came back as others, with an empty disk.
    pub gone: &'a BTreeMap<ReplicaKey, Lost>,
    pub seats: &'a Seats,
}
