//! What a quorum is opened with: its settings, and what start-up found on disk.

use crate::decrees::Decree;
use crate::message::Endpoint;
use quorate_base::{Epoch, Offset, OffsetEpoch, ReplicaId, ReplicaKey, Span, Uuid};
use std::sync::Arc;

/// Settings, under the names and with the defaults of Kafka's `controller.quorum.*`.
#[derive(Clone, Debug)]
pub struct Config {
    /// This node; `None` for one without `node.id`, which can only observe.
    pub id: Option<ReplicaId>,
    /// This node's directory.
    pub directory: Uuid,
    /// The static voters and where they listen. Sorted by id, no id twice. They count as long as
    /// the log names no voters itself (rule P64).
    pub voters: Vec<(ReplicaKey, Arc<[Endpoint]>)>,
    /// How many bootstrap servers the caller can reach as [`crate::Destination::Bootstrap`]. With
    /// none, the voters serve as such.
    pub bootstrap: usize,
    /// Where this node listens.
    pub endpoints: Arc<[Endpoint]>,
    /// `election.timeout.ms`: T of the random `[T, 2T)`.
    pub election_timeout: Span,
    /// `fetch.timeout.ms`: a follower that hears nothing valid for so long becomes prospective.
    pub fetch_timeout: Span,
    /// `election.backoff.max.ms`: bound of the wait by rank after EndQuorumEpoch.
    pub election_backoff_max: Span,
    /// `request.timeout.ms`; the caller's timer gives [`crate::Loss::TimedOut`], this one is the
    /// core's own net.
    pub request_timeout: Span,
    /// `retry.backoff.ms`: pause before a peer that failed is asked again.
    pub retry_backoff: Span,
    /// How long our fetches may be parked at the leader.
    pub fetch_max_wait: Span,
    /// How many bytes our fetches ask for.
    pub fetch_max_bytes: u32,
    /// `controller.quorum.fetch.snapshot.max.bytes`: how many bytes of a snapshot we ask for at
    /// once.
    pub snapshot_max_bytes: u32,
    /// `cleanup.policy=delete`: the log begins at a snapshot, and whoever lacks what was before
    /// gets that. Otherwise snapshots are the node's own, and all records are served.
    pub serve_snapshots: bool,
    /// Does not stand while another voter may win, and leads as a caretaker only (rule P66).
    pub never_lead: bool,
    /// `controller.quorum.auto.join.enable`: an observer asks to be a voter, once the log names the
    /// voters (rule P76).
    pub auto_join: bool,
    /// Fail-over on process death (rule P50): base delay before the first rank pre-votes; each
    /// later rank waits one more.
    pub death_stagger: Span,
}

impl Config {
    /// Kafka's defaults for a node and its static voters.
    pub fn new(
        id: Option<ReplicaId>,
        directory: Uuid,
        voters: Vec<(ReplicaKey, Arc<[Endpoint]>)>,
    ) -> Config {
        Config {
            id,
            directory,
            voters,
            bootstrap: 0,
            endpoints: Arc::from([]),
            election_timeout: Span::ms(1_000),
            fetch_timeout: Span::ms(2_000),
            election_backoff_max: Span::ms(1_000),
            request_timeout: Span::ms(2_000),
            retry_backoff: Span::ms(20),
            fetch_max_wait: Span::ms(500),
            fetch_max_bytes: 1_048_576,
            snapshot_max_bytes: 1_048_576,
            serve_snapshots: true,
            never_lead: false,
            auto_join: false,
            death_stagger: Span::ms(20),
        }
    }
}

/// What the quorum-state file says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ElectionState {
    /// The newest epoch this node has seen.
    pub epoch: Epoch,
    /// Its leader, if known.
    pub leader: Option<ReplicaId>,
    /// Whom this node voted for in it. A key without a directory stands for every directory of its
    /// id.
    pub voted: Option<ReplicaKey>,
}

/// What start-up read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recovered {
    /// The quorum-state file; the default when there is none.
    pub election: ElectionState,
    /// First offset of the log.
    pub start: Offset,
    /// End of the log; all of it is durable.
    pub end: Offset,
    /// `(epoch, first offset)` of each epoch in the log, both ascending.
    pub epochs: Vec<(Epoch, Offset)>,
    /// The least of what leaders said to be clean with the records that the log was built from
    /// (rule P82); an own record counts as its offset. `None` if it was built from none.
    pub clean: Option<Offset>,
    /// The snapshots that are whole, oldest first; none beyond the end of the log. The end of each
    /// is committed.
    pub snapshots: Vec<OffsetEpoch>,
    /// What the head of the newest snapshot says of version and voters; without a snapshot, that of
    /// the bootstrap snapshot, which ends at 0.
    pub founded: Decree,
    /// What control batches of the log say of that, with their base offsets, ascending. Those below
    /// the newest snapshot's end may be left out.
    pub decrees: Vec<(Offset, Decree)>,
    /// What the log held before damage was set aside: until it holds that much again this replica
    /// does not stand, and votes only for who holds as much (rule P62).
    pub must_reach: Option<OffsetEpoch>,
}
