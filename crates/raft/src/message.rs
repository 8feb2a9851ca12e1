//! What replicas say to each other, without versions, bytes, topics or cluster ids.
//!
//! The node translates Kafka's messages into these and back; a check that needs only the wire form
//! (cluster id, topic, negative numbers) is made there and never reaches the core. Records are
//! marks here, never bytes.

use crate::effect::BatchMark;
use crate::unchanged::Unchanged;
use crate::voters::Voter;
use quorate_base::{
    Cleaned, Epoch, FormatLevel, Offset, OffsetEpoch, ReplicaId, ReplicaKey, Span, Uuid,
};
use std::sync::Arc;

/// A place where a replica listens, as the voter set and the answers of its peers name it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Endpoint {
    /// The listener's name, e.g. `CONTROLLER`.
    pub listener: String,
    /// Host name or address; resolved anew at each connect.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl Endpoint {
    /// Whether somebody could connect there.
    pub(crate) fn is_place(&self) -> bool {
        !self.host.is_empty() && self.port > 0
    }
}

/// One peer asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// A vote or, with `pre_vote`, a question whether one would be given (KIP-996).
    Vote(Vote),
    /// A leader announces itself.
    BeginQuorumEpoch(BeginQuorumEpoch),
    /// A leader resigns and names who should stand first.
    EndQuorumEpoch(EndQuorumEpoch),
    /// Replication, acknowledgement and discovery in one.
    Fetch(Fetch),
    /// A piece of a snapshot (KIP-630).
    FetchSnapshot(FetchSnapshot),
    /// A voter tells the leader of itself (KIP-853).
    UpdateVoter(UpdateVoter),
    /// One more is to count (KIP-853).
    AddVoter(AddVoter),
    /// One less is to count (KIP-853).
    RemoveVoter(RemoveVoter),
    /// The log is to name the voters (KIP-853).
    Upgrade(Upgrade),
}

/// One peer answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Response {
    /// To [`Request::Vote`].
    Vote(VoteAnswer),
    /// To [`Request::BeginQuorumEpoch`].
    BeginQuorumEpoch(LeaderView),
    /// To [`Request::EndQuorumEpoch`].
    EndQuorumEpoch(LeaderView),
    /// To [`Request::Fetch`].
    Fetch(FetchAnswer),
    /// To [`Request::FetchSnapshot`].
    FetchSnapshot(SnapshotAnswer),
    /// To [`Request::UpdateVoter`].
    UpdateVoter(LeaderView),
    /// To [`Request::AddVoter`].
    AddVoter(ChangeAnswer),
    /// To [`Request::RemoveVoter`].
    RemoveVoter(ChangeAnswer),
    /// To [`Request::Upgrade`].
    Upgrade(ChangeAnswer),
}

/// A candidate's question, or a prospective's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vote {
    /// The candidate's epoch; a prospective's present one.
    pub epoch: Epoch,
    /// Who stands.
    pub candidate: ReplicaKey,
    /// Who is asked, when the sender knows the key; `None` from old versions.
    pub voter: Option<ReplicaKey>,
    /// End offset and last epoch of the candidate's log.
    pub last: OffsetEpoch,
    /// Whether this is only a pre-vote.
    pub pre_vote: bool,
}

/// What the answering replica knows of the leadership; part of every answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaderView {
    /// Why not, or [`ErrorKind::None`].
    pub error: ErrorKind,
    /// The sender's epoch.
    pub epoch: Epoch,
    /// The leader of `epoch`, if known.
    pub leader: Option<ReplicaId>,
    /// Where that leader listens, if known and if the version can say so.
    pub endpoints: Arc<[Endpoint]>,
}

/// The answer to a vote request of either kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VoteAnswer {
    /// The sender's view.
    pub view: LeaderView,
    /// Whether the vote was given.
    pub granted: bool,
}

/// A new leader's announcement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BeginQuorumEpoch {
    /// The epoch that began.
    pub epoch: Epoch,
    /// Its leader, the sender.
    pub leader: ReplicaId,
    /// Who is told, when the sender knows the key.
    pub voter: Option<ReplicaKey>,
    /// Where the leader listens.
    pub endpoints: Arc<[Endpoint]>,
}

/// A leader's resignation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndQuorumEpoch {
    /// The epoch that ends.
    pub epoch: Epoch,
    /// Its leader, the sender.
    pub leader: ReplicaId,
    /// The other voters, most caught up first.
    pub successors: Vec<ReplicaKey>,
    /// Where the leader listens.
    pub endpoints: Arc<[Endpoint]>,
}

/// A replica asks for records from `from` on and thereby says that all below is durable here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fetch {
    /// The fetcher's epoch (`CurrentLeaderEpoch`).
    pub epoch: Epoch,
    /// Who fetches; `None` for a client without an id.
    pub replica: Option<ReplicaKey>,
    /// The fetcher's end and the epoch of its last record.
    pub from: OffsetEpoch,
    /// The high watermark that the fetcher knows (KIP-1166).
    pub high_watermark: FetchHighWatermark,
    /// How long the answer may be held back when there is nothing to say.
    pub max_wait: Span,
    /// How many bytes of records the answer may carry; at least one batch is sent.
    pub max_bytes: u32,
    /// The last read round this replica received from this leader in this epoch; `None` from a peer
    /// that does not know our tag, `Some(0)` from one that does and has received none (rule P47).
    pub round: Option<u64>,
    /// Whether the sender's disk is full, so that it stores no more records. Told by whoever sends
    /// this; a leader decides nothing on it, but names its successors accordingly.
    pub no_room: bool,
    /// The newest format level that the sender speaks. Told by whoever sends this; the core only
    /// keeps it (rule P79).
    pub format_level: FormatLevel,
    /// What the first batch of the sender's log is known by. Told by whoever sends this, and judged
    /// by whoever takes it (rule P86).
    pub history: Option<u64>,
    /// Whether the sender is not to lead (rule P66).
    pub never_leads: bool,
}

/// The high watermark in a fetch request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FetchHighWatermark {
    /// The version cannot say (before Fetch 18): never a reason to answer early.
    Unsaid,
    /// What the fetcher knows, possibly nothing.
    Known(Option<Offset>),
}

/// The answer to a fetch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchAnswer {
    /// The sender's view.
    pub view: LeaderView,
    /// The leader's high watermark.
    pub high_watermark: Option<Offset>,
    /// First offset of the leader's log.
    pub start: Offset,
    /// What was found.
    pub fetched: Fetched,
    /// The leader's current read round; `None` from a peer that does not know our tag, or to one.
    pub round: Option<u64>,
    /// What the leader's log lacks. Received: with all records of whoever tells a round. Served:
    /// `None`; the caller fills in the numbers of the log from which it takes the records, both of
    /// one moment (rule P81).
    pub cleaned: Option<Cleaned>,
    /// Below which tombstones may be collected; `None` where no log is to be cleaned (rule P83).
    pub bound: Option<Offset>,
    /// What the first batch of the leader's log is known by. Told and judged as in [`Fetch`].
    pub history: Option<u64>,
}

impl FetchAnswer {
    /// One that says why not, of a log that begins there.
    pub fn refusal(view: LeaderView, start: Offset) -> FetchAnswer {
        FetchAnswer {
            view,
            high_watermark: None,
            start,
            fetched: Fetched::Nothing,
            round: None,
            cleaned: None,
            bound: None,
            history: None,
        }
    }
}

/// What a fetch found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fetched {
    /// Nothing: an error, or, received, no records.
    Nothing,
    /// Served: records of this range, which may be empty, as many as `max_bytes` allows; the caller
    /// fills in the bytes, up to its present end if that is larger and it still leads.
    Range {
        /// First offset to send.
        start: Offset,
        /// One past the last offset that may be sent.
        end: Offset,
        /// How many bytes may be sent, but at least one batch.
        max_bytes: u32,
    },
    /// Received: what the caller found in the bytes, checked (CRC, format, contiguous inside a
    /// batch).
    Batches(Vec<BatchMark>),
    /// The fetcher's log leaves the leader's: here is the leader's end of that epoch.
    Diverging(OffsetEpoch),
    /// The fetcher must start from this snapshot.
    Snapshot(OffsetEpoch),
}

/// A replica asks for bytes of a snapshot, which it was told of in a fetch answer (rule P58).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchSnapshot {
    /// The fetcher's epoch (`CurrentLeaderEpoch`).
    pub epoch: Epoch,
    /// Who fetches; `None` for a client without an id.
    pub replica: Option<ReplicaKey>,
    /// Which snapshot.
    pub snapshot: OffsetEpoch,
    /// From which byte on.
    pub position: u64,
    /// How many bytes the answer may carry; at least one is sent.
    pub max_bytes: u32,
}

/// The answer to [`FetchSnapshot`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotAnswer {
    /// The sender's view.
    pub view: LeaderView,
    /// The snapshot that was asked for.
    pub snapshot: OffsetEpoch,
    /// The byte that was asked for.
    pub position: u64,
    /// What there is.
    pub piece: Piece,
}

/// A voter says where it listens and what it speaks (rule P70).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpdateVoter {
    /// The voter's epoch (`CurrentLeaderEpoch`).
    pub epoch: Epoch,
    /// What the voter set should say of it.
    pub voter: Voter,
}

/// Somebody wants a replica to count (rule P71).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddVoter {
    /// Who. A request without a directory is refused.
    pub key: ReplicaKey,
    /// Where it listens.
    pub endpoints: Arc<[Endpoint]>,
    /// Whether the answer waits for the commit; else for the append only.
    pub when_committed: bool,
    /// The directory of the same node whose place it takes, if the set names one (rule P80).
    pub replaces: Option<Uuid>,
}

/// Somebody wants a replica not to count any more (rule P72).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemoveVoter {
    /// Who. A request without a directory is refused.
    pub key: ReplicaKey,
}

/// Somebody wants another `kraft.version` (rule P78).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Upgrade {
    /// Which.
    pub version: u16,
    /// Only to know whether it would be taken.
    pub validate_only: bool,
}

/// The answer to each of these. Unlike all others it does not show who leads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangeAnswer {
    /// Why not, or [`ErrorKind::None`].
    pub error: ErrorKind,
    /// The same in detail; `None` without an error, and in what others answer.
    pub why: Option<Unchanged>,
}

/// Bytes of a snapshot, as numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece {
    /// Nothing: an error.
    Nothing,
    /// Served: the caller fills in the size of the file and its bytes from the position on, or
    /// answers with [`ErrorKind::SnapshotNotFound`] or [`ErrorKind::PositionOutOfRange`].
    Served {
        /// How many bytes may be sent.
        max_bytes: u32,
    },
    /// Received.
    Received {
        /// The size of the whole file.
        size: u64,
        /// How many bytes came.
        bytes: u32,
    },
}

/// Kafka's error codes as far as the core gives or understands them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// No error.
    None,
    /// The request's epoch is older than the receiver's.
    FencedLeaderEpoch,
    /// The request's epoch is newer than the receiver's.
    UnknownLeaderEpoch,
    /// The receiver does not lead.
    NotLeaderOrFollower,
    /// A field is out of its range.
    InvalidRequest,
    /// The request names another voter than the receiver.
    InvalidVoterKey,
    /// The leader shuts down.
    BrokerNotAvailable,
    /// The peer does not speak this request or this version.
    UnsupportedVersion,
    /// The peer belongs to another cluster.
    InconsistentClusterId,
    /// The leader has no such snapshot (any more).
    SnapshotNotFound,
    /// The snapshot ends at or before this position.
    PositionOutOfRange,
    /// The leader cannot do it now; asked again, it may.
    RequestTimedOut,
    /// The voter set does not name this replica.
    VoterNotFound,
    /// The voter set names this id already.
    DuplicateVoter,
    /// The level of a feature cannot be what was asked for.
    InvalidUpdateVersion,
    /// Another code that the core only backs off from.
    Other(i16),
}
