//! What goes into a step and what comes out of it.
//!
//! Every input is legal in every state. Effects are to be executed in order; of the writes the
//! caller promises only two things: they happen in order, and [`Input::Durable`] is true.

use crate::decrees::{BadDecree, Decree};
use crate::message::{Endpoint, ErrorKind, Request, Response};
use quorate_base::{Epoch, Offset, OffsetEpoch, ReplicaId, Time};
use std::sync::Arc;

/// Names a request that waits for [`Effect::Reply`]; chosen by the caller, never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ticket(pub u64);

/// Names a request that the core sent; chosen by the core, never reused by one [`crate::Quorum`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Call(pub u64);

/// Names a proposal or a read; chosen by the caller, never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Token(pub u64);

/// Numbers the writes of a node, in the order in which they must happen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct WriteId(pub u64);

/// How a sent request came to have no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// No answer within the request timeout.
    TimedOut,
    /// The connection was closed or reset while the answer was awaited.
    Closed,
    /// The connection was closed or reset, and connecting again was refused: the process is gone.
    Refused,
    /// We dropped the answer ourselves: no room, or its bytes were no valid message.
    Dropped,
}

/// What a peer's ApiVersions answer allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features {
    /// Vote v2: the peer answers pre-votes.
    pub pre_vote: bool,
    /// The peer knows our tagged field on Fetch, so read rounds travel both ways.
    pub rounds: bool,
    /// UpdateRaftVoter: as a leader the peer takes what voters say of themselves.
    pub updates: bool,
    /// AddRaftVoter 1: as a leader the peer adds whoever asks for itself, and answers before the
    /// commit.
    pub joins: bool,
    /// The versions of `kraft.version` that it speaks, least and greatest; `None` if it tells none.
    pub kraft_versions: Option<(u16, u16)>,
}

/// Something happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// Time passed.
    Wake,
    /// A peer asks; the answer names the ticket.
    Request {
        /// What the answer will name.
        ticket: Ticket,
        /// The question.
        body: Request,
    },
    /// A peer answered one of our [`Effect::Send`].
    Response {
        /// Which one.
        call: Call,
        /// The answer.
        body: Response,
    },
    /// One of our [`Effect::Send`] will have no answer.
    Lost {
        /// Which one.
        call: Call,
        /// How that is known.
        how: Loss,
    },
    /// A connection told what its peer speaks.
    Peer {
        /// The peer.
        id: ReplicaId,
        /// What it speaks.
        speaks: Features,
    },
    /// One batch, all that was ready this turn; its bytes stay with the caller.
    Propose {
        /// What a refusal or the append will name.
        token: Token,
        /// The epoch in which the caller believes to lead.
        epoch: Epoch,
        /// How many offsets the batch takes; at least one.
        records: u32,
    },
    /// A read, or an answer that appends nothing: prove leadership from now on.
    Read {
        /// What the proof or the refusal will name.
        token: Token,
    },
    /// Every write up to and with `upto` survives a crash.
    Durable {
        /// The newest write of the prefix.
        upto: WriteId,
    },
    /// A snapshot of this node's own machine is whole and durable. It ends at a batch boundary, at
    /// or below what is committed and durable here.
    Frozen {
        /// Its id.
        snapshot: OffsetEpoch,
    },
    /// Retention asks that the log begin at the end of this snapshot. Nothing happens unless it is
    /// known and allowed (rule P57).
    Trim {
        /// Its id.
        snapshot: OffsetEpoch,
    },
    /// What is kept for replicas that copy a snapshot costs too much: no longer for observers, and
    /// perhaps for nobody (rule P67). To be followed by [`Input::Trim`].
    GiveUpHolds {
        /// Not for voters either.
        voters_too: bool,
    },
    /// The bytes of this [`Effect::Store`], and of all before it, are durable. If they were the
    /// last of the snapshot, the file was checked as a whole.
    Stored {
        /// Whose.
        source: Call,
        /// With the last: what the head of the snapshot says of version and voters.
        founded: Decree,
    },
    /// The bytes of this [`Effect::Store`] could not be stored, or the file they complete is no
    /// snapshot. The caller has dropped the file.
    Spoiled {
        /// Whose.
        source: Call,
    },
    /// Give up leadership if `epoch` is the current one.
    Resign {
        /// The epoch that the caller means.
        epoch: Epoch,
    },
    /// Commit what was taken, take nothing new, and then give up leadership, if `epoch` is the
    /// current one and another voter may lead (rule P77).
    HandOver {
        /// The epoch that the caller means.
        epoch: Epoch,
    },
    /// Hand over and stop: [`Effect::Stopped`] follows at the latest at `until`.
    Shutdown {
        /// When to stop waiting for a successor.
        until: Time,
    },
}

/// Something must be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Write, in order, and report [`Input::Durable`].
    Write {
        /// The number to report.
        id: WriteId,
        /// The write.
        write: Write,
    },
    /// Ask a peer; report [`Input::Response`] or [`Input::Lost`].
    Send {
        /// The number to report.
        call: Call,
        /// Whom.
        to: Destination,
        /// What.
        body: Request,
    },
    /// Answer a request. A range of a fetch answer is filled in from the log as it is now.
    Reply {
        /// Which request.
        ticket: Ticket,
        /// The answer.
        body: Response,
    },
    /// A proposal or a read was not taken. For a proposal nothing was appended.
    Refuse {
        /// Which one.
        token: Token,
        /// Why.
        why: Refusal,
    },
    /// Leadership was proved: answer from the state at this offset or a later one.
    ReadAt {
        /// Which read.
        token: Token,
        /// The least end of the state to answer from.
        offset: Offset,
    },
    /// All below is committed: apply up to here (exclusive).
    Commit {
        /// The new bound; grows.
        upto: Offset,
    },
    /// The leader or the epoch changed. `leader == self` comes only once all that earlier epochs
    /// left in the log is committed (the high watermark passed this epoch's start) (rule P40).
    Lead {
        /// The epoch.
        epoch: Epoch,
        /// Its leader, if known.
        leader: Option<ReplicaId>,
    },
    /// Store the bytes of this answer at this position of a download. At 0 the file begins anew. No
    /// write waits for it and it waits for none: report [`Input::Stored`] or [`Input::Spoiled`].
    Store {
        /// The snapshot.
        snapshot: OffsetEpoch,
        /// The first byte's place.
        at: u64,
        /// Whose bytes.
        source: Call,
        /// Whether the file is complete with them, and to be checked as a whole.
        last: bool,
    },
    /// The download is given up: drop its file, if there is one.
    Abandon {
        /// The snapshot.
        snapshot: OffsetEpoch,
        /// Whether the leader has it no more. Another one is begun then, from its first byte.
        gone: bool,
    },
    /// The log of this observer, or of a voter whose log was damaged, may hold records that the
    /// leader's log lacks the tombstones of: begin anew with an empty one, which must reach what
    /// this one holds (rule P82). The answer's records were dropped.
    StartOver,
    /// The shutdown that was asked for is complete.
    Stopped,
    /// A peer broke the protocol or is misconfigured: its message was refused, nothing was
    /// truncated or applied. A human must look (rule P8).
    Complain {
        /// What it did.
        what: Complaint,
    },
}

/// What a peer did that no correct peer of this quorum does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Complaint {
    /// Two replicas are named as leaders of one epoch.
    TwoLeaders {
        /// The epoch.
        epoch: Epoch,
        /// Whom this node knows.
        known: ReplicaId,
        /// Whom the message names.
        told: ReplicaId,
    },
    /// This node is named as leader of an epoch in which it does not lead.
    NamedAsLeader {
        /// The epoch.
        epoch: Epoch,
    },
    /// Another node uses this node's id.
    SharesOurId {
        /// The id.
        id: ReplicaId,
    },
    /// Two directories of one node run at the same time, and each wants the place of the other.
    RunsTwice {
        /// The node's id.
        id: ReplicaId,
    },
    /// A voter says in turn that it is here and there.
    CopiedDirectory {
        /// The node's id.
        id: ReplicaId,
    },
    /// The peer refused a vote because it has another key than our voter set says.
    WrongVoterKey {
        /// The peer.
        id: ReplicaId,
    },
    /// A voter took back the vote it gave, or gave one it had refused.
    ChangedVote {
        /// The voter.
        id: ReplicaId,
        /// In which epoch.
        epoch: Epoch,
    },
    /// Following the leader would remove committed records.
    DivergedBelowCommitted {
        /// Where the log would be cut.
        cut: Offset,
        /// What is committed.
        committed: Offset,
    },
    /// The leader says that the logs differ, but what it says would not change ours.
    DivergedNowhere {
        /// The leader's end of the epoch.
        told: OffsetEpoch,
        /// Our end and last epoch.
        ours: OffsetEpoch,
    },
    /// Records do not continue our log.
    RecordGap {
        /// Where our log ends.
        end: Offset,
        /// Where the records begin.
        base: Offset,
    },
    /// Records came without saying what the leader's log lacks.
    Unnumbered,
    /// Tombstones of records that this voter holds are gone, though it had not confirmed them.
    TombstonesGone {
        /// Where our log ends.
        end: Offset,
        /// One past the highest tombstone that is missing.
        horizon: Offset,
    },
    /// Records carry an older epoch than those before them.
    EpochFell {
        /// The epoch before.
        last: Epoch,
        /// The epoch after.
        next: Epoch,
    },
    /// The leader's high watermark is below one that is known already.
    HighWatermarkFell {
        /// What is known.
        known: Offset,
        /// What was told.
        told: Offset,
    },
    /// The peer says that our message is malformed.
    CalledInvalid,
    /// The leader does not make a voter of this node, which asks for it, and asking again will not
    /// help.
    NotAdded {
        /// Why not.
        error: ErrorKind,
    },
    /// The leader asks us to start from a snapshot that is not ahead of our log, or that would take
    /// back what is committed.
    Snapshot {
        /// The snapshot's id.
        id: OffsetEpoch,
        /// Our end and last epoch.
        ours: OffsetEpoch,
    },
    /// A control record, or the head of a snapshot, says of the quorum what this replica cannot
    /// obey.
    Decree {
        /// What.
        bad: BadDecree,
    },
    /// The answer does not fit the question, or a field is out of its range.
    Malformed,
}

/// Where a request goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Destination {
    /// A replica and where the core believes that it listens.
    Replica {
        /// Its id.
        id: ReplicaId,
        /// Its endpoints, from the voter set or from an answer.
        endpoints: Arc<[Endpoint]>,
    },
    /// One of [`crate::Config::bootstrap`], by index.
    Bootstrap(usize),
}

/// Why a proposal or a read was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// This node does not lead, or not in that epoch, or it is about to stop.
    NotLeader {
        /// Who does, if known.
        leader: Option<ReplicaId>,
        /// In which epoch.
        epoch: Epoch,
    },
}

/// A write to the disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Write {
    /// Replace the quorum-state file.
    Election(crate::ElectionState),
    /// Append to the log.
    Append {
        /// First offset.
        base: Offset,
        /// One past the last offset.
        end: Offset,
        /// The leader epoch that the batches carry (of the last one, when fetched).
        epoch: Epoch,
        /// Where the bytes are.
        source: Source,
    },
    /// Cut the log back to this end.
    Truncate {
        /// The new end.
        end: Offset,
    },
    /// A downloaded snapshot replaces the log, which begins and ends at its end from now on.
    Adopt {
        /// Its id; all its bytes are durable.
        snapshot: OffsetEpoch,
    },
    /// The log begins here, at the end of a snapshot: what lies before may go.
    Trim {
        /// The start from now on; it may be the old one.
        start: Offset,
        /// The snapshots that go, oldest first: all that end below the start, and such as end
        /// between one that a replica copies and those that retention keeps (rule P67).
        snapshots: Vec<OffsetEpoch>,
    },
    /// The log holds again all that it held before it was damaged (rule P62): forget
    /// [`crate::Recovered::must_reach`].
    Reached,
}

/// Where the bytes of an append are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// With the caller of [`Input::Propose`].
    Proposed(Token),
    /// Made by the core; the caller encodes it.
    Control(ControlRecord),
    /// In the answer to this call: its batches with offsets in `[base, end)` of the write.
    Fetched(Call),
}

/// A record that speaks of the quorum itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ControlRecord {
    /// First record of each epoch.
    LeaderChange {
        /// The leader.
        leader: ReplicaId,
        /// All voters.
        voters: Vec<quorate_base::ReplicaKey>,
        /// Those that granted their vote.
        granting: Vec<quorate_base::ReplicaKey>,
        /// Version and voters, where the log does not hold them yet, or not as they are now: in the
        /// same batch, behind the first record, a record each. `None` takes no record.
        decree: Option<Decree>,
    },
    /// The voters, with something else said of one of them. One record.
    Voters {
        /// Has voters, and no version.
        decree: Decree,
    },
}

/// One batch of a fetch answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BatchMark {
    /// First offset.
    pub base: Offset,
    /// Last offset, inclusive.
    pub last: Offset,
    /// The leader epoch it carries.
    pub epoch: Epoch,
    /// Whether it holds control records.
    pub control: bool,
    /// What those say of version and voters; mostly nothing.
    pub decree: Option<Box<Decree>>,
}
