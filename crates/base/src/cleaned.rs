//! How far a log has been cleaned by key, and what it therefore lacks.
//!
//! The log carries it and the protocol tells it with the records; who reads a cleaned log knows by
//! it when what it has is a consistent version.

use crate::Offset;

/// Three numbers that belong to the records of one log, as they are at one moment (rule P81).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Cleaned {
    /// Below it a record may be missing that a later one below it supersedes.
    pub dirty: Offset,
    /// Below it every record that a later one below it supersedes is gone.
    pub clean: Offset,
    /// One past the highest tombstone that is missing.
    pub horizon: Offset,
}

impl Cleaned {
    /// Of a log that was never cleaned, nor copied from one that was.
    pub const NEVER: Cleaned =
        Cleaned { dirty: Offset::ZERO, clean: Offset::ZERO, horizon: Offset::ZERO };
}
