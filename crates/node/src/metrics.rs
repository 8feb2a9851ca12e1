//! How long the stages of a commit, of a change of voters and of an election take on this node, and
//! what it has copied and led.
//!
//! Counts what the replica and its driver tell, with the times that came with it; reads no clock
//! and decides nothing. All room is taken at the start: counting a commit allocates nothing, and
//! what finds no room is not counted. `/metrics` and `/status` show it.

mod election;
mod picture;
mod timing;

pub use picture::{Bucket, Latency, Picture, RaftPicture, StagePicture};
pub use quorate_raft::RoleName;

use crate::replica::Replica;
use election::Election;
use quorate_base::{Offset, ReplicaKey, Span, Time};
use quorate_machine::Machine;
use quorate_raft::{ControlRecord, Effect, ErrorKind, Response, Source, Ticket, Write};
use std::collections::VecDeque;
use timing::Timing;

/// Something of which it is told how long it takes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// A client's write, from when this node was asked until it is committed, or judged on what is.
    Write,
    /// A change of voters, from when this leader was asked until its last record is committed.
    VoterChange,
    /// A batch, from when this leader appends it until it is committed.
    Commit,
    /// Writing new records and syncing them, on this node's disk.
    Sync,
    /// From when this node knows records to be committed until its machine has applied them.
    Apply,
    /// From when this leader's high watermark moves until a follower's first fetch that tells it.
    Propagation,
    /// From when the leader was last heard until this node asks for votes.
    Detection,
    /// From then until a majority would vote for it.
    PreVote,
    /// From then until a majority has.
    Vote,
    /// From then until it has committed a record of its epoch, and serves.
    FirstCommit,
    /// All of an election that this node won.
    Election,
}

impl Stage {
    /// All of them.
    pub const ALL: [Stage; 11] = [
        Stage::Write,
        Stage::VoterChange,
        Stage::Commit,
        Stage::Sync,
        Stage::Apply,
        Stage::Propagation,
        Stage::Detection,
        Stage::PreVote,
        Stage::Vote,
        Stage::FirstCommit,
        Stage::Election,
    ];

    /// Its name in `/status`, and in `/metrics` with `quorate_` before it.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Write => "write",
            Stage::VoterChange => "voter_change",
            Stage::Commit => "commit",
            Stage::Sync => "log_sync",
            Stage::Apply => "apply",
            Stage::Propagation => "high_watermark_propagation",
            Stage::Detection => "election_detection",
            Stage::PreVote => "election_pre_vote",
            Stage::Vote => "election_vote",
            Stage::FirstCommit => "election_first_commit",
            Stage::Election => "election",
        }
    }

    /// What is measured, in words.
    pub fn help(self) -> &'static str {
        match self {
            Stage::Write => "From a client's write until it is committed",
            Stage::VoterChange => {
                "On the leader, from a request for other voters until they are committed"
            }
            Stage::Commit => "On the leader, from appending a batch until it is committed",
            Stage::Sync => "Writing new records to this node's disk and syncing them",
            Stage::Apply => "From knowing records to be committed until they are applied",
            Stage::Propagation => {
                "On the leader, from a move of the high watermark until a follower's first fetch that tells it"
            }
            Stage::Detection => "From last hearing the leader until asking for votes",
            Stage::PreVote => "From asking for votes until a majority would give them",
            Stage::Vote => "From standing for election until it is won",
            Stage::FirstCommit => "From winning until a record of the epoch is committed",
            Stage::Election => "From last hearing the old leader until serving as the new one",
        }
    }
}

/// So much is followed at a time, of each kind.
const FOLLOWED: usize = 1_024;
/// So many followers.
const FOLLOWERS: usize = 64;

/// All that a node counts.
pub(crate) struct Metrics {
    timings: [Timing; Stage::ALL.len()],
    election: Election,
    /// What this leader appended and has not committed: ends of batches and when.
    appended: VecDeque<(Offset, Time)>,
    /// What is committed and not applied.
    committed: VecDeque<(Offset, Time)>,
    /// Moves of this leader's high watermark.
    moves: VecDeque<(Offset, Time)>,
    /// How far each follower has told this leader that it knows.
    told: Vec<(ReplicaKey, Offset)>,
    /// A change of voters that is in the log and not committed: who asked and when, and the end of
    /// its last record.
    voters: Option<(Ticket, Time, Offset)>,
    /// Records appended as leader, and copied from one.
    pub(crate) appended_records: u64,
    pub(crate) fetched_records: u64,
    /// How long the loop had nothing to do.
    pub(crate) idle: Span,
}

impl Metrics {
    pub fn new() -> Metrics {
        Metrics {
            timings: std::array::from_fn(|_| Timing::new()),
            election: Election::default(),
            appended: VecDeque::with_capacity(FOLLOWED),
            committed: VecDeque::with_capacity(FOLLOWED),
            moves: VecDeque::with_capacity(FOLLOWED),
            told: Vec::with_capacity(FOLLOWERS),
            voters: None,
            appended_records: 0,
            fetched_records: 0,
            idle: Span::ZERO,
        }
    }

    /// It took so long.
    pub fn took(&mut self, stage: Stage, span: Span) {
        self.timings[stage as usize].record(span);
    }

    /// Whatever this node followed as leader is over.
    pub fn leads_no_more(&mut self) {
        self.appended.clear();
        self.moves.clear();
        self.told.clear();
        self.voters = None;
    }

    /// A batch is appended that ends here.
    fn append(&mut self, now: Time, base: Offset, end: Offset, source: &Source) {
        let records = end.0 - base.0;
        match source {
            Source::Fetched(_) => self.fetched_records += records,
            Source::Control(_) => self.appended_records += records,
            Source::Proposed(_) => {
                self.appended_records += records;
                push(&mut self.appended, (end, now));
            }
        }
    }

    /// Everything below is committed, as this node knows from now on. `waits`: whether somebody
    /// still waits for the change of voters that is followed.
    fn commit(&mut self, now: Time, leads: bool, waits: bool, upto: Offset) {
        push(&mut self.committed, (upto, now));
        if !leads {
            return;
        }
        if self.moves.len() == FOLLOWED {
            self.moves.pop_front();
        }
        self.moves.push_back((upto, now));
        while let Some((_, at)) = self.appended.front().copied().filter(|(end, _)| *end <= upto) {
            self.appended.pop_front();
            self.took(Stage::Commit, now.since(at));
        }
        // While its asker waits, another record of it may follow [P80].
        if let Some((_, asked, _)) = self.voters.filter(|(.., end)| *end <= upto && !waits) {
            self.voters = None;
            self.took(Stage::VoterChange, now.since(asked));
        }
    }

    /// Everything below is applied.
    pub fn applied(&mut self, now: Time, upto: Offset) {
        while let Some((_, at)) = self.committed.front().copied().filter(|(end, _)| *end <= upto) {
            self.committed.pop_front();
            self.took(Stage::Apply, now.since(at));
        }
    }

    /// A follower tells this leader the high watermark that it knows.
    pub fn told(&mut self, now: Time, follower: ReplicaKey, knows: Offset) {
        let Some((_, before)) = self.told.iter_mut().find(|(key, _)| *key == follower) else {
            if self.told.len() < FOLLOWERS {
                self.told.push((follower, knows));
            }
            return;
        };
        let from = self.moves.partition_point(|(offset, _)| offset <= before);
        *before = knows.max(*before);
        for at in from..self.moves.len() {
            let (offset, at) = self.moves[at];
            if offset > knows {
                return;
            }
            self.took(Stage::Propagation, now.since(at));
        }
    }

    /// This node is something else than before.
    fn became(&mut self, now: Time, role: RoleName, heard_at: Time) {
        for (stage, span) in self.election.became(now, role, heard_at).into_iter().flatten() {
            self.took(stage, span);
        }
        if role != RoleName::Leader {
            self.leads_no_more();
        }
    }

    /// This leader serves from now on.
    pub fn serves(&mut self, now: Time) {
        for (stage, span) in self.election.serves(now).into_iter().flatten() {
            self.took(stage, span);
        }
    }
}

fn push(queue: &mut VecDeque<(Offset, Time)>, entry: (Offset, Time)) {
    if queue.len() < FOLLOWED {
        queue.push_back(entry);
    }
}

impl<M: Machine> Replica<M> {
    /// The protocol has taken a step; what it wants done is not done yet, or is `done`. What it
    /// gains counts before that and what it loses behind it: a leader that resigns has committed.
    pub(crate) fn count_step(&mut self, done: bool) {
        let role = self.quorum.view().role;
        if role != self.metrics.election.role() && (done || role == RoleName::Leader) {
            self.metrics.became(self.now, role, self.heard_at);
        }
    }

    /// The protocol wants something done.
    pub(crate) fn count(&mut self, effect: &Effect) {
        match effect {
            Effect::Write { write: Write::Append { base, end, source, .. }, .. } => {
                self.metrics.append(self.now, *base, *end, source);
                if let Source::Control(ControlRecord::Voters { .. }) = source
                    && let Some((ticket, asked)) = self.change_asked()
                {
                    self.metrics.voters = Some((ticket, asked, *end));
                }
            }
            Effect::Commit { upto } => {
                let leads = self.metrics.election.role() == RoleName::Leader;
                let waits = self.metrics.voters.is_some_and(|(ticket, ..)| self.is_open(ticket));
                self.metrics.commit(self.now, leads, waits, *upto);
            }
            // Half of a replacement is committed, and no more comes of it.
            Effect::Reply { ticket, body: Response::AddVoter(answer) }
                if answer.error != ErrorKind::None =>
            {
                let over = |(asked, _, end): &(Ticket, Time, Offset)| {
                    asked == ticket && *end <= self.applied.commit
                };
                self.metrics.voters = self.metrics.voters.filter(|voters| !over(voters));
            }
            Effect::Write { .. }
            | Effect::Send { .. }
            | Effect::Reply { .. }
            | Effect::Refuse { .. }
            | Effect::ReadAt { .. }
            | Effect::Lead { .. }
            | Effect::Store { .. }
            | Effect::Abandon { .. }
            | Effect::StartOver
            | Effect::Stopped
            | Effect::Complain { .. } => {}
        }
    }

    /// What the driver did since: a turn ended at this time.
    pub fn turned(&mut self, now: Time) {
        self.metrics.applied(now, self.applied.upto);
    }

    /// New records were written and synced, which took so long.
    pub fn synced(&mut self, took: Span) {
        self.metrics.took(Stage::Sync, took);
    }

    /// A caller's write ended well, so long after it was asked.
    pub fn write_done(&mut self, took: Span) {
        self.metrics.took(Stage::Write, took);
    }

    /// The driver had nothing to do for so long.
    pub fn idled(&mut self, span: Span) {
        self.metrics.idle.0 += span.0;
    }
}
