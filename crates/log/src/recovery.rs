//! What start-up finds in a partition's directory, as a value: everything that a replica is opened
//! with. Found by [`crate::recover()`]; nothing here reads or decides.

use crate::numbers::Carried;
use crate::segment::Segment;
use crate::{Election, EpochTable, Head, Note, Snapshot};
use quorate_base::{Offset, OffsetEpoch};

/// What a directory holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovery {
    /// What this replica knew of elections; `None` if it has seen none.
    pub election: Option<Election>,
    /// First offset of the log.
    pub start: Offset,
    /// One past its last offset; all below is durable.
    pub end: Offset,
    /// Where each epoch begins.
    pub epochs: EpochTable,
    /// The snapshots, oldest first; the newest was read whole. Without the bootstrap one at 0.
    pub snapshots: Vec<Snapshot>,
    /// What the head of the newest snapshot says of version and voters; without a snapshot, that
    /// of the bootstrap one.
    pub head: Head,
    /// Where control batches begin, ascending.
    pub controls: Vec<Offset>,
    /// The log went up to here once and has lost a part since: until it is there again this replica
    /// must not stand, nor vote for who holds less (see [`crate::set_aside`]).
    pub must_reach: Option<OffsetEpoch>,
    /// What had to be mended, for one line of the node's log each.
    pub notes: Vec<Note>,
    /// What the log says of itself.
    pub(crate) carried: Carried,
    /// When the first tombstone may go that has a horizon.
    pub(crate) next_ms: Option<i64>,
    pub(crate) segments: Vec<Segment>,
}

impl Recovery {
    /// The end of the log and the epoch of its last record, or of the snapshot that it begins and
    /// ends behind.
    pub fn last(&self) -> OffsetEpoch {
        OffsetEpoch::new(self.end, self.epochs.last_epoch().unwrap_or_default())
    }
}
