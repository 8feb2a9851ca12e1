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
    /// A connection on which nothing can be asked is kept, dead or not [P63].
    KeepDeadConnections,
    /// With its disk full a leader says of writes that are in its log that they were not done.
    RefuseWhatIsLogged,
    /// A follower whose disk is full stores on.
    StoreWhileFull,
    /// A level is raised without regard to what the voters speak [P79].
    RaiseUnheard,
    /// What is above the newest level of a node is applied all the same [P79].
    ApplyAboveLevel,
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
            Mutant::KeepDeadConnections,
            Mutant::RefuseWhatIsLogged,
            Mutant::StoreWhileFull,
            Mutant::RaiseUnheard,
            Mutant::ApplyAboveLevel,
        ];
        core.chain(log).chain(own).collect()
    }

    /// Its name without the layer, as `sim --mutant` takes it.
    pub fn name(self) -> String {
        match (self.core(), self.log()) {
            (Some(mutant), _) => format!("{mutant:?}"),
            (None, Some(mutant)) => format!("{mutant:?}"),
            (None, None) => format!("{self:?}"),
        }
    }

    /// The protocol's, if it is one.
    pub(crate) fn core(self) -> Option<quorate_raft::Mutant> {
        if let Mutant::Core(mutant) = self { Some(mutant) } else { None }
    }

    /// The log's, if it is one.
    pub(crate) fn log(self) -> Option<quorate_log::Mutant> {
        if let Mutant::Log(mutant) = self { Some(mutant) } else { None }
    }
}
