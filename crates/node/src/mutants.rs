//! Rule breakers of the node, compiled only with `--cfg mutants`: a checker of the simulator must
//! notice each.

/// A rule to break.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// One of the protocol's.
    Core(quorate_raft::Mutant),
    /// One of the log's.
    Log(quorate_log::Mutant),
    /// The machine forgets the stamps of writes. The embedder's machine breaks this one.
    ForgetStamps,
    /// A batch is applied by half.
    ApplyHalfBatch,
    /// A write is acknowledged when it is in the leader's log.
    AnswerUncommitted,
    /// The machine is not told that leadership is lost, and keeps the tail it judged on.
    KeepTail,
    /// An answer that appends nothing is given without proof of leadership, and before what it was
    /// judged on is committed.
    AnswerRefusalsAtOnce,
}

impl Mutant {
    /// All of them.
    pub fn all() -> Vec<Mutant> {
        let core = quorate_raft::Mutant::ALL.into_iter().map(Mutant::Core);
        let log = quorate_log::Mutant::ALL.into_iter().map(Mutant::Log);
        let own = [
            Mutant::ForgetStamps,
            Mutant::ApplyHalfBatch,
            Mutant::AnswerUncommitted,
            Mutant::KeepTail,
            Mutant::AnswerRefusalsAtOnce,
        ];
        core.chain(log).chain(own).collect()
    }

    /// Its name without the layer, as `sim --mutant` takes it.
    pub fn name(self) -> String {
        match self {
            Mutant::Core(mutant) => format!("{mutant:?}"),
            Mutant::Log(mutant) => format!("{mutant:?}"),
            Mutant::ForgetStamps
            | Mutant::ApplyHalfBatch
            | Mutant::AnswerUncommitted
            | Mutant::KeepTail
            | Mutant::AnswerRefusalsAtOnce => format!("{self:?}"),
        }
    }

    /// The protocol's, if it is one.
    pub(crate) fn core(self) -> Option<quorate_raft::Mutant> {
        match self {
            Mutant::Core(mutant) => Some(mutant),
            Mutant::Log(_)
            | Mutant::ForgetStamps
            | Mutant::ApplyHalfBatch
            | Mutant::AnswerUncommitted
            | Mutant::KeepTail
            | Mutant::AnswerRefusalsAtOnce => None,
        }
    }

    /// The log's, if it is one.
    pub(crate) fn log(self) -> Option<quorate_log::Mutant> {
        match self {
            Mutant::Log(mutant) => Some(mutant),
            Mutant::Core(_)
            | Mutant::ForgetStamps
            | Mutant::ApplyHalfBatch
            | Mutant::AnswerUncommitted
            | Mutant::KeepTail
            | Mutant::AnswerRefusalsAtOnce => None,
        }
    }
}
