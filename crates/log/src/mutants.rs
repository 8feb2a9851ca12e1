//! Rule breakers of the log, compiled only with `--cfg mutants`: a checker of the simulator must
//! notice each.

/// A rule to break.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// Appends are reported before they are synced.
    SkipSync,
    /// The synced mark is not lowered before a truncation.
    KeepMark,
    /// The epoch table is not written when an epoch begins or is cut off.
    KeepEpochs,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 3] = [Mutant::SkipSync, Mutant::KeepMark, Mutant::KeepEpochs];
}
