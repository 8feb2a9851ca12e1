//! Rule breakers, compiled only with `--cfg mutants`: each breaks one rule, and a checker must
//! notice.
//!
//! `mutant!(self, Name)` is the constant `false` without the cfg.

/// A rule to break.
#[cfg(mutants)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// The leader counts its end instead of its durable end towards the high watermark [P36].
    CountUnsyncedLeader,
    /// A second vote is given in an epoch [P14].
    GrantTwice,
    /// A diverging log is not truncated on disk [P28].
    SkipTruncate,
    /// Messages leave before what they promise is durable [P43].
    ReplyBeforeDurable,
    /// One voter fewer than a majority suffices for the high watermark [P36].
    MajorityOffByOne,
    /// The high watermark counts records of earlier epochs [P37].
    CommitOldEpoch,
    /// Neither appends nor news complete a parked fetch [P32].
    ForgetParkedFetches,
    /// Reads are answered without proof of leadership [P46].
    ReadWithoutProof,
    /// A leader shows itself, and serves records, before "leader: I" is durable [P44].
    ShowLeadershipEarly,
    /// A vote is kept when the epoch ends [P14].
    KeepVote,
    /// A log that lacks records gets the vote as well [P14].
    GrantToShorterLog,
    /// A vote is given and not written down [P43].
    VoteInMemory,
    /// Questions outlive the role that asked them, and so do their answers.
    AcceptStaleAnswers,
    /// A new leader takes over what it was told to be committed as a follower [P13].
    InheritHighWatermark,
    /// Every fetch proves the newest read round, also one that was sent before the read came [P46].
    CountAnyRound,
    /// A replica whose log was damaged judges others by what is left of it [P62].
    VoteWhileDamaged,
    /// A snapshot counts as the replica's log before it is durable [P60].
    AcknowledgeBeforeAdopted,
    /// A snapshot that is not ahead of the log takes its place [P59].
    AdoptStale,
    /// Whoever asks for what was trimmed is served as if it were there [P56].
    ServeBelowStart,
    /// The log is cut behind a snapshot though a replica copies an older one [P67].
    TrimBelowCopies,
    /// Nothing is kept for a replica that copies a snapshot [P67].
    ForgetCopies,
    /// One that is not to lead serves as any other once it leads [P66].
    ServeAsCaretaker,
    /// One that is not to lead never stands, whoever needs it [P66].
    StandAsideForever,
    /// What a voter says of itself is written while the latest voters are not committed [P70].
    UpdateWhileChanging,
    /// A leader that is not in the voter set counts itself [P74].
    CountRemovedLeader,
    /// Who holds records whose tombstones are gone goes on [P82].
    KeepGhosts,
    /// Records are taken though their leader does not say what its log lacks [P81].
    TakeUnnumbered,
    /// Of two machines with one id each may take the other's place [P85].
    LetTwinsSwap,
    /// Tombstones may go that a voter has not confirmed [P83].
    CollectUnheld,
    /// A second change of voters is taken while the first is not committed [P71].
    ChangeBeforeCommit,
    /// Voters are changed before the leader has committed a record of its epoch [P71].
    ChangeWithoutHighWatermark,
    /// Who is added need not hold what the leader holds [P73].
    AddUnseen,
    /// Voters go though those that are left do not follow [P72].
    RemoveTheLiving,
    /// Whoever appended its own removal never stands again, committed or not [P75].
    ForgetTheLeaving,
    /// An observer asks to be a voter though it lacks what is committed [P76].
    JoinBehind,
    /// A leader that is to hand over takes new records all the same [P77].
    TakeWhileLeaving,
    /// A leader that is to hand over leaves what it has taken to its successors [P77].
    LeaveAtOnce,
    /// Contact with a leader never ends for a replica that does not stand [P15].
    HearTheSilent,
    /// A leader knows its voters as they were when its epoch began [P74].
    KeepSeats,
    /// A directory takes the place of another in one record, also where majorities of the two sets
    /// may miss each other [P80].
    SwapAtOnce,
    /// A directory takes the place of any other, whichever was named [P80].
    ReplaceUnnamed,
    /// A leader that is to stop leaves what it has taken to its successors [P53].
    StopAtOnce,
}

#[cfg(mutants)]
impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 42] = [
        Mutant::LetTwinsSwap,
        Mutant::KeepGhosts,
        Mutant::TakeUnnumbered,
        Mutant::CollectUnheld,
        Mutant::CountUnsyncedLeader,
        Mutant::GrantTwice,
        Mutant::SkipTruncate,
        Mutant::ReplyBeforeDurable,
        Mutant::MajorityOffByOne,
        Mutant::CommitOldEpoch,
        Mutant::ForgetParkedFetches,
        Mutant::ReadWithoutProof,
        Mutant::ShowLeadershipEarly,
        Mutant::KeepVote,
        Mutant::GrantToShorterLog,
        Mutant::VoteInMemory,
        Mutant::AcceptStaleAnswers,
        Mutant::InheritHighWatermark,
        Mutant::VoteWhileDamaged,
        Mutant::AcknowledgeBeforeAdopted,
        Mutant::AdoptStale,
        Mutant::ServeBelowStart,
        Mutant::TrimBelowCopies,
        Mutant::ForgetCopies,
        Mutant::ServeAsCaretaker,
        Mutant::StandAsideForever,
        Mutant::CountAnyRound,
        Mutant::UpdateWhileChanging,
        Mutant::CountRemovedLeader,
        Mutant::ChangeBeforeCommit,
        Mutant::ChangeWithoutHighWatermark,
        Mutant::AddUnseen,
        Mutant::RemoveTheLiving,
        Mutant::HearTheSilent,
        Mutant::KeepSeats,
        Mutant::ForgetTheLeaving,
        Mutant::JoinBehind,
        Mutant::TakeWhileLeaving,
        Mutant::LeaveAtOnce,
        Mutant::SwapAtOnce,
        Mutant::ReplaceUnnamed,
        Mutant::StopAtOnce,
    ];
}

#[cfg(mutants)]
macro_rules! mutant {
    ($quorum:expr, $name:ident) => {
        $quorum.mutant == Some($crate::mutants::Mutant::$name)
    };
}

#[cfg(not(mutants))]
macro_rules! mutant {
    ($quorum:expr, $name:ident) => {
        false
    };
}

pub(crate) use mutant;
