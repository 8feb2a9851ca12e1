//! Rule breakers of the log, compiled only with `--cfg mutants`: a checker of the simulator, or a
//! test of this crate, must notice each.

/// Whether a rule is to be broken; `false` without `--cfg mutants`.
macro_rules! mutant {
    ($options:expr, $name:ident) => {{
        #[cfg(mutants)]
        let broken = $options.mutant == Some(crate::Mutant::$name);
        #[cfg(not(mutants))]
        let broken = false;
        broken
    }};
}

pub(crate) use mutant;

/// A rule to break.
#[cfg(mutants)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// Appends are reported before they are synced.
    SkipSync,
    /// The synced mark is not lowered before a truncation.
    KeepMark,
    /// The epoch table is not written when an epoch begins or is cut off.
    KeepEpochs,
    /// What a swap is about to make true is told by the files only after it (H5).
    LateNumbers,
    /// The log says that it is clean from the first swap of a round on (H16).
    EarlyClean,
    /// Memory keeps what is older than a swap.
    KeepTail,
    /// A read that was planned before a swap counts after it (H4).
    KeepGeneration,
    /// Collected tombstones are not told (H3).
    ForgetHorizon,
    /// Tombstones go that not every voter has (H14).
    CollectUnbound,
    /// Tombstones go as soon as they are seen a second time.
    CollectAtOnce,
    /// Files are swapped without intent.
    SkipIntent,
    /// What a leader says of its log is not passed on (H13).
    ForgetInherited,
    /// Snapshots stay that lack a deletion.
    KeepSnapshots,
    /// Rounds go beyond what is committed.
    CleanUncommitted,
    /// A log that is clean below its horizon waits for its turn (I8).
    StayBelowHorizon,
}

#[cfg(mutants)]
impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 15] = [
        Mutant::SkipSync,
        Mutant::KeepMark,
        Mutant::KeepEpochs,
        Mutant::LateNumbers,
        Mutant::EarlyClean,
        Mutant::KeepTail,
        Mutant::KeepGeneration,
        Mutant::ForgetHorizon,
        Mutant::CollectUnbound,
        Mutant::CollectAtOnce,
        Mutant::SkipIntent,
        Mutant::ForgetInherited,
        Mutant::KeepSnapshots,
        Mutant::CleanUncommitted,
        Mutant::StayBelowHorizon,
    ];

    /// Those of them that are about cleaning.
    pub const OF_CLEANING: &[Mutant] = Mutant::ALL.split_at(3).1;
}
