//! Positions in the log and the leadership periods that wrote them.
//!
//! "Unknown" is never a number here: Kafka's -1 becomes `Option` at the wire and at the files.

use std::fmt;
use std::ops::{Add, Sub};

/// The position of a record in the log. Ranges of offsets are half-open.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Offset(pub u64);

impl Offset {
    /// The first offset of every log.
    pub const ZERO: Offset = Offset(0);
}

impl Add<u64> for Offset {
    type Output = Offset;
    fn add(self, records: u64) -> Offset {
        Offset(self.0 + records)
    }
}

impl Sub<Offset> for Offset {
    type Output = u64;
    /// How many offsets lie between; the right side must not be the larger one.
    fn sub(self, earlier: Offset) -> u64 {
        self.0 - earlier.0
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A leadership period; Raft's term. 0 is the epoch of a log that never had a leader.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(pub u32);

impl Epoch {
    /// The epoch before the first election.
    pub const ZERO: Epoch = Epoch(0);

    /// The epoch that an election in this one leads to.
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An end offset and the epoch of the record before it. Not `Ord`: logs compare by epoch first,
/// see [`OffsetEpoch::log_order`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct OffsetEpoch {
    /// Exclusive end of what is described.
    pub offset: Offset,
    /// Epoch of the last record below `offset`.
    pub epoch: Epoch,
}

impl OffsetEpoch {
    /// Pairs the two.
    pub fn new(offset: Offset, epoch: Epoch) -> OffsetEpoch {
        OffsetEpoch { offset, epoch }
    }

    /// How up to date the log that ends here is: by epoch first, then by offset.
    pub fn log_order(self) -> (Epoch, Offset) {
        (self.epoch, self.offset)
    }
}

impl fmt::Display for OffsetEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.offset, self.epoch)
    }
}

impl fmt::Debug for OffsetEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
