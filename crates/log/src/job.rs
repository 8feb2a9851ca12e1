//! Planned work on files: plain values that [`crate::Log`] makes and [`crate::Store`] carries out.

use crate::numbers::Carried;
use crate::{EpochTable, IndexBytes, numbers_file};
use bytes::Bytes;
use quorate_base::{Offset, OffsetEpoch};

/// One change of the directory. Jobs are carried out in the order in which they were planned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Job {
    /// Add batches to the end of the log.
    Append(Append),
    /// Cut the log back.
    Truncate(Truncate),
    /// Give up the whole log for a snapshot that is durable and checked, see [`crate::Log::adopt`].
    Adopt(Adopt),
    /// Forget what lies below a snapshot, see [`crate::Log::trim`].
    Trim(Trim),
    /// Begin a segment, so that the one before can be cleaned.
    Roll(Roll),
    /// Put a cleaned file in the place of segments, see [`crate::Log::swap`].
    Swap(Swap),
    /// Keep what the log says of itself, durably before anything that follows.
    Carry(Carry),
    /// Take a small file of the partition away, durably before anything that follows; no error if
    /// it is not there.
    Remove {
        /// Its name.
        name: &'static str,
    },
    /// Give a small file of the partition new contents, durably before anything that follows.
    Replace {
        /// Its name.
        name: &'static str,
        /// All its bytes.
        bytes: Bytes,
    },
}

/// See [`Job::Append`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Append {
    /// The segment that takes them.
    pub segment: Offset,
    /// Whether that segment begins with them.
    pub rolls: bool,
    /// Whole batches.
    pub bytes: Bytes,
    /// The end of the log after them.
    pub end: Offset,
    /// The epoch table after them, if they begin an epoch.
    pub epochs: Option<EpochTable>,
    /// What they add to the segment's indexes.
    pub index: IndexBytes,
    /// Where they begin a segment: what the one before adds to its indexes, now that it is whole.
    pub closing: IndexBytes,
}

/// See [`Job::Truncate`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Truncate {
    /// The segment that is the last one afterwards.
    pub segment: Offset,
    /// Where it is cut.
    pub cut: Cut,
    /// The segments that go, newest first.
    pub removed: Vec<Offset>,
    /// The end of the log afterwards.
    pub end: Offset,
    /// The epoch table afterwards, if epochs go.
    pub epochs: Option<EpochTable>,
    /// The segment's indexes afterwards.
    pub index: IndexBytes,
}

/// See [`Job::Adopt`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Adopt {
    /// The snapshot at whose end the log begins and ends afterwards. Its file may still be `.part`.
    pub snapshot: OffsetEpoch,
    /// The segments that go, newest first: all.
    pub segments: Vec<Offset>,
    /// The snapshots that go.
    pub snapshots: Vec<OffsetEpoch>,
}

/// See [`Job::Trim`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trim {
    /// The epoch table afterwards, which says where the log begins; `None` if that stays.
    pub epochs: Option<EpochTable>,
    /// The segments that go, oldest first.
    pub segments: Vec<Offset>,
    /// The snapshots that go.
    pub snapshots: Vec<OffsetEpoch>,
}

/// See [`Job::Roll`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Roll {
    /// The new segment: the end of the log.
    pub segment: Offset,
    /// What the one before adds to its indexes.
    pub closing: IndexBytes,
}

/// See [`Job::Carry`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carry {
    /// What the log says of itself from now on.
    pub(crate) carried: Carried,
}

/// See [`Job::Swap`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Swap {
    /// What the log says of itself from before the first file changes.
    pub(crate) carried: Carried,
    /// The segments and the round.
    pub(crate) swap: numbers_file::Swap,
    /// Snapshots that go first.
    pub(crate) snapshots: Vec<OffsetEpoch>,
}

/// Where in its file a segment is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// At this byte.
    At(u64),
    /// At the batch that begins at the new end, to be found from this byte on, where a batch
    /// begins.
    Find {
        /// Where to begin the search.
        from: u64,
    },
}
