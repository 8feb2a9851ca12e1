//! A round of cleaning as values: what it is to do, and what it brings. [`crate::Log`] makes the
//! one and takes the other, [`crate::Cleaner`] does the work between.

use crate::epoch_file::EpochTable;
use crate::segment::Segment;
use quorate_base::Offset;

/// When and how a log is cleaned, by Kafka's property names.
#[derive(Clone, PartialEq, Debug)]
pub struct CleanSettings {
    /// `log.cleaner.dedupe.buffer.size`: memory of a round for keys, 48 bytes each.
    pub dedupe_buffer_bytes: u64,
    /// `min.cleanable.dirty.ratio`: so much of what can be cleaned must not have been, in bytes.
    pub min_dirty_ratio: f64,
    /// `min.compaction.lag.ms`: younger records stay as they are.
    pub min_lag_ms: u64,
    /// `max.compaction.lag.ms`: older records are cleaned whatever the ratio; `None`: never only
    /// for that.
    pub max_lag_ms: Option<u64>,
    /// `delete.retention.ms`: how long a tombstone stays after it was seen first.
    pub delete_retention_ms: u64,
}

impl Default for CleanSettings {
    /// Kafka's.
    fn default() -> CleanSettings {
        CleanSettings {
            dedupe_buffer_bytes: 128 << 20,
            min_dirty_ratio: 0.5,
            min_lag_ms: 0,
            max_lag_ms: None,
            delete_retention_ms: 24 * 3_600 * 1_000,
        }
    }
}

/// What a round depends on besides the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CleanNow {
    /// The time of day, Unix milliseconds.
    pub wall_ms: i64,
    /// All below is committed, as this replica knows it in the present epoch, and applied by the
    /// machine of this node.
    pub applied: Offset,
    /// All below is acknowledged by each voter (contract: H14), and applied by the machine of this
    /// node: tombstones below may be collected. 0 collects none.
    pub tombstone_bound: Offset,
    /// Two words that nobody can guess and that were not used before.
    pub seed: [u64; 2],
}

/// What [`crate::Log::to_clean`] wants to be done.
#[derive(Clone, Debug)]
pub enum ToClean {
    /// A job for the disk: the last segment is full as it is, so that it can be cleaned. Ask again
    /// when what is in it is committed and applied.
    Roll(Box<crate::Job>),
    /// Long work: give it to a [`crate::Cleaner`].
    Round(Box<Round>),
}

/// What one round is to do; a plan, made of the log as it was.
#[derive(Clone, Debug)]
pub struct Round {
    pub(crate) number: u64,
    pub(crate) dir: String,
    /// All segments below `upto`.
    pub(crate) parts: Vec<Part>,
    /// Where the keys are taken from: the end of the last round, and that of this one unless the
    /// keys are too many.
    pub(crate) from: Offset,
    pub(crate) upto: Offset,
    pub(crate) tombstones_below: Offset,
    pub(crate) now_ms: i64,
    pub(crate) horizon_ms: i64,
    pub(crate) seed: [u64; 2],
    pub(crate) map_bytes: u64,
    /// A cleaned segment is to be no larger, if it is made of more than one.
    pub(crate) segment_bytes: u64,
    pub(crate) index_interval_bytes: u64,
    pub(crate) epochs: EpochTable,
}

/// A segment that a round reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub base: Offset,
    pub end: Offset,
    pub bytes: u64,
    pub cleaned_by: Option<u64>,
    /// Where to begin to take keys: a batch that begins at `from` or below, and its first offset.
    pub keys_from: (Offset, u64),
}

impl Round {
    /// Bytes of the segments that the round looks at.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }
}

/// Segments that were cleaned into one, durable under a temporary name. For [`crate::Log::swap`].
#[derive(Clone, Debug)]
pub struct CleanedGroup {
    pub(crate) round: u64,
    /// The end of the range whose keys the round knows.
    pub(crate) upto: Offset,
    /// Base offsets of the segments that go.
    pub(crate) segments: Vec<Offset>,
    /// Where the last of them ends.
    pub(crate) end: Offset,
    /// What takes their place.
    pub(crate) segment: Segment,
    /// One past the highest tombstone that is missing in it and was there before.
    pub(crate) horizon: Offset,
    pub(crate) bytes_before: u64,
    /// The paths of its files.
    pub(crate) paths: Vec<String>,
}

impl CleanedGroup {
    /// Bytes of its segments before and after.
    pub fn bytes(&self) -> (u64, u64) {
        (self.bytes_before, self.segment.size)
    }
}

/// What a round came to. For [`crate::Log::finish_round`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Swept {
    pub(crate) round: u64,
    /// All below has been cleaned.
    pub upto: Offset,
    /// Records that went.
    pub removed: u64,
    /// Bytes of the segments before and after.
    pub bytes_before: u64,
    /// See `bytes_before`.
    pub bytes_after: u64,
    /// When the first tombstone that is left may go.
    pub(crate) next_ms: Option<i64>,
    /// The first tombstone that waits for its bound.
    pub(crate) held_up: Option<Offset>,
}
