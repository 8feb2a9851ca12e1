//! What Quorate adds to Fetch, in one tagged field of request and response: numbers that keep reads
//! of a compacted log consistent, the round that proves leadership for reads, and what a fetcher
//! says of itself. Who does not know the tag skips it.

use crate::Error;
use crate::coder::{Coder, Tags, Walk};

/// The tag of our additions: far above Kafka's own, which count up from 0.
pub(super) const MARKS_TAG: u32 = 10595;

/// A bit of [`FetcherMarks::understands`]: the fetcher reads [`LeaderMarks`].
pub const UNDERSTANDS_MARKS: i8 = 1;
/// Another: the fetcher's disk is full, and it stores no more records.
pub const NO_ROOM: i8 = 2;
/// Another: the fetcher is not to lead (`quorate.election.never.lead`).
pub const NEVER_LEADS: i8 = 4;

/// Ours: what a fetcher tells the leader beyond Kafka's fields.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetcherMarks {
    /// Bits: what the fetcher reads in answers, [`UNDERSTANDS_MARKS`], and [`NO_ROOM`],
    /// [`NEVER_LEADS`].
    pub understands: i8,
    /// The offset that the fetcher must have applied before its state is consistent, as it has it
    /// durably; -1 none.
    pub required: i64,
    /// The last read round it saw from this leader in this epoch; -1 none. An echo proves that the
    /// sender still followed when the round was opened.
    pub read_round: i64,
    /// Tag 0: the newest format level that the fetcher speaks
    /// (docs/decisions/0010-format-level.md); absent: 0.
    pub format_level: u16,
    /// Tag 1: what the first batch of the fetcher's log is known by; 0 unknown.
    pub history: i64,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for FetcherMarks {
    fn default() -> FetcherMarks {
        FetcherMarks {
            understands: 0,
            required: -1,
            read_round: -1,
            format_level: 0,
            history: 0,
            tags: Tags::new(),
        }
    }
}

impl Walk for FetcherMarks {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i8("Understands", &mut self.understands)?;
        c.i64("Required", &mut self.required)?;
        c.i64("ReadRound", &mut self.read_round)?;
        c.tags(&mut self.tags, |c, open| {
            c.tag(open, 0, &mut self.format_level, 0, |c, level| c.u16("FormatLevel", level))?;
            c.tag(open, 1, &mut self.history, 0, |c, history| c.i64("History", history))
        })
    }
}

/// Ours: what a leader tells a fetcher beyond Kafka's fields. Numbers are -1 when unknown. The
/// first three are those of the log generation that the records were read from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaderMarks {
    /// Below it a record may be missing that a later one below it supersedes.
    pub dirty: i64,
    /// Below it every record that a later one below it supersedes is gone.
    pub clean: i64,
    /// One past the highest tombstone that is missing.
    pub tombstone_horizon: i64,
    /// Only tombstones below it may be collected: every voter has acknowledged those.
    pub tombstone_bound: i64,
    /// The newest read round; the fetcher echoes it.
    pub read_round: i64,
    /// Tag 0: what the first batch of the leader's log is known by; 0 unknown.
    pub history: i64,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for LeaderMarks {
    fn default() -> LeaderMarks {
        LeaderMarks {
            dirty: -1,
            clean: -1,
            tombstone_horizon: -1,
            tombstone_bound: -1,
            read_round: -1,
            history: 0,
            tags: Tags::new(),
        }
    }
}

impl Walk for LeaderMarks {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i64("Dirty", &mut self.dirty)?;
        c.i64("Clean", &mut self.clean)?;
        c.i64("TombstoneHorizon", &mut self.tombstone_horizon)?;
        c.i64("TombstoneBound", &mut self.tombstone_bound)?;
        c.i64("ReadRound", &mut self.read_round)?;
        c.tags(&mut self.tags, |c, open| {
            c.tag(open, 0, &mut self.history, 0, |c, history| c.i64("History", history))
        })
    }
}
