//! The format level of a store, as a number (docs/decisions/0010-format-level.md).

use std::fmt;

/// What the records of a store may mean: 0 is what was so before there were levels, and each level
/// adds to the one below. Here because the protocol carries it in fetches and the machine keeps it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct FormatLevel(pub u16);

impl FormatLevel {
    /// A store without a record of its level.
    pub const ZERO: FormatLevel = FormatLevel(0);
}

impl fmt::Display for FormatLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
