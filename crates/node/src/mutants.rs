//! Rule breakers of the node, compiled only with `--cfg mutants`: a checker of the simulator must
//! notice each.

/// A rule to break.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// One of the protocol's.
    Core(quorate_raft::Mutant),
    /// An answer that appends nothing is given without proof of leadership, and before what it was
    /// judged on is committed.
    AnswerRefusalsAtOnce,
}

impl Mutant {
    /// All of them.
    pub fn all() -> Vec<Mutant> {
        let core = quorate_raft::Mutant::ALL.into_iter().map(Mutant::Core);
        core.chain([Mutant::AnswerRefusalsAtOnce]).collect()
    }

    /// The protocol's, if it is one.
    pub(crate) fn core(self) -> Option<quorate_raft::Mutant> {
        match self {
            Mutant::Core(mutant) => Some(mutant),
            Mutant::AnswerRefusalsAtOnce => None,
        }
    }
}
