//! A node's settings as values, with Kafka's defaults.
//!
//! Reading them from a property file, and saying what is wrong with one, is the work of the crate
//! `quorate`; what is here has passed that.

use crate::leading::{BATCH_BYTES, WRITE_BYTES_MAX};
use quorate_base::{FormatLevel, ReplicaId, Span, Uuid};
use quorate_log::part_for_votes;
use quorate_wire::Served;
use std::path::PathBuf;

/// Which versions a node announces, takes and asks in. For rolling upgrades and their tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Generation {
    /// All that there are.
    #[default]
    Now,
    /// What Apache Kafka 3.9 speaks: no pre-votes, no high watermark in fetches, and nothing that
    /// is ours alone, so no read rounds in fetches and no forwarded requests.
    BeforePreVotes,
}

impl Generation {
    /// The newest version that it speaks of an API; `None` if it does not know the API.
    pub fn newest(self, served: Served) -> Option<i16> {
        let newest = served.api().newest();
        let before = match served {
            Served::Fetch => 17,
            Served::Vote | Served::DescribeCluster => 1,
            Served::UpdateFeatures => 1,
            Served::AddRaftVoter => 0,
            Served::Forward => return (self == Generation::Now).then_some(newest),
            Served::ApiVersions
            | Served::BeginQuorumEpoch
            | Served::EndQuorumEpoch
            | Served::DescribeQuorum
            | Served::FetchSnapshot
            | Served::RemoveRaftVoter
            | Served::UpdateRaftVoter => newest,
        };
        match self {
            Generation::Now => Some(newest),
            Generation::BeforePreVotes => Some(before),
        }
    }
}

/// A host name or address and a port; the name is resolved anew at each connect.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HostPort {
    /// Name or address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// One of `controller.quorum.voters`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Voter {
    /// `node.id` of the voter.
    pub id: ReplicaId,
    /// Where its controller listener is.
    pub at: HostPort,
}

/// What becomes of the log's old end: KIP-630's two ways, of which a log has one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Cleanup {
    /// What a snapshot covers is removed by retention, and who needs it is given the snapshot.
    Delete,
    /// The log stays whole, and snapshots only shorten the start.
    #[default]
    Compact,
}

/// All that a node must know before it starts.
#[derive(Clone, Debug)]
pub struct Config {
    /// `node.id`; `None` for an observer without one.
    pub id: Option<ReplicaId>,
    /// `log.dirs` (the metadata directory): holds `meta.properties`, `.lock` and the partition's
    /// folder.
    pub directory: PathBuf,
    /// `controller.quorum.voters`.
    pub voters: Vec<Voter>,
    /// `controller.quorum.bootstrap.servers`.
    pub bootstrap: Vec<HostPort>,
    /// Name of the controller listener, the first of `controller.listener.names`.
    pub listener: String,
    /// Where the controller listener binds; port 0 takes a free one.
    pub bind: HostPort,
    /// What peers are told; the bound address when `None`.
    pub advertised: Option<HostPort>,
    /// Where HTTP binds, told to other nodes' clients in the status; `None` when it is off.
    pub http: Option<HostPort>,
    /// The raft partition's topic.
    pub topic: String,
    /// The raft partition's topic id.
    pub topic_id: Uuid,
    /// `controller.quorum.election.timeout.ms`.
    pub election_timeout: Span,
    /// `controller.quorum.fetch.timeout.ms`.
    pub fetch_timeout: Span,
    /// `controller.quorum.election.backoff.max.ms`.
    pub election_backoff_max: Span,
    /// `controller.quorum.request.timeout.ms`.
    pub request_timeout: Span,
    /// `controller.quorum.retry.backoff.ms`.
    pub retry_backoff: Span,
    /// `controller.quorum.fetch.max.bytes`.
    pub fetch_max_bytes: u32,
    /// `metadata.log.segment.bytes`.
    pub segment_bytes: u64,
    /// `metadata.log.segment.ms`.
    pub segment_ms: u64,
    /// `socket.request.max.bytes`: a longer frame closes its connection.
    pub request_max_bytes: u32,
    /// `quorate.uncommitted.max.bytes`: at this many bytes proposed and not yet committed, client
    /// sockets wait.
    pub uncommitted_max_bytes: u64,
    /// At this many bytes committed that the leader's own disk does not have yet, it hands over; at
    /// fewer if less room is put aside.
    pub unstored_max_bytes: u64,
    /// `quorate.reserve.bytes`: so much room is put aside for when the disk is full; 0 for none.
    pub reserve_bytes: u64,
    /// `quorate.tail.max.bytes`: recent records kept in memory for fetches and for applying.
    pub tail_max_bytes: u64,
    /// `controller.quorum.fetch.snapshot.max.bytes`: how much of a snapshot one answer brings.
    pub snapshot_max_bytes: u32,
    /// `metadata.log.max.record.bytes.between.snapshots`.
    pub snapshot_bytes: u64,
    /// `metadata.log.max.snapshot.interval.ms`; zero: only `snapshot_bytes` counts.
    pub snapshot_interval: Span,
    /// `metadata.max.retention.bytes`, of the log and its snapshots together; `None`: no limit.
    pub retention_bytes: Option<u64>,
    /// `metadata.max.retention.ms`, by the time of a snapshot's last record; `None`: no limit.
    pub retention_ms: Option<u64>,
    /// `quorate.cleanup.policy`.
    pub cleanup: Cleanup,
    /// `quorate.election.never.lead`: leaves leading to the other voters while one of them can
    /// (rule P66).
    pub never_lead: bool,
    /// `controller.quorum.auto.join.enable`: asks to be a voter (rule P76).
    pub auto_join: bool,
    /// Which versions it speaks.
    pub speaks: Generation,
    /// The newest format level that it speaks: that of the build, but for tests.
    pub newest_level: FormatLevel,
    /// The rule that this node breaks.
    #[cfg(mutants)]
    pub mutant: Option<crate::Mutant>,
}

impl Config {
    /// Kafka's defaults, for a node whose data lies in `directory` and whose listener binds at
    /// `bind`.
    pub fn new(
        id: Option<ReplicaId>,
        directory: PathBuf,
        voters: Vec<Voter>,
        bind: HostPort,
    ) -> Config {
        Config {
            id,
            directory,
            voters,
            bootstrap: Vec::new(),
            listener: "CONTROLLER".into(),
            bind,
            advertised: None,
            http: None,
            topic: "__cluster_metadata".into(),
            topic_id: Uuid::METADATA_TOPIC,
            election_timeout: Span::ms(1_000),
            fetch_timeout: Span::ms(2_000),
            election_backoff_max: Span::ms(1_000),
            request_timeout: Span::ms(2_000),
            retry_backoff: Span::ms(20),
            fetch_max_bytes: 1 << 20,
            segment_bytes: 8 << 20,
            segment_ms: 7 * 24 * 3_600 * 1_000,
            request_max_bytes: 100 << 20,
            uncommitted_max_bytes: 32 << 20,
            unstored_max_bytes: 32 << 20,
            reserve_bytes: 32 << 20,
            never_lead: false,
            auto_join: false,
            tail_max_bytes: 16 << 20,
            snapshot_max_bytes: 1 << 20,
            snapshot_bytes: 20 << 20,
            snapshot_interval: Span::ms(3_600 * 1_000),
            retention_bytes: Some(100 << 20),
            retention_ms: Some(7 * 24 * 3_600 * 1_000),
            cleanup: Cleanup::Compact,
            speaks: Generation::Now,
            newest_level: quorate_machine::NEWEST_FORMAT_LEVEL,
            #[cfg(mutants)]
            mutant: None,
        }
    }

    /// How many bytes may be promised and not be on the own disk yet: what is put aside, but for
    /// its last part, which is for votes, and for the batch that goes beyond the limit.
    pub fn promised_max_bytes(&self) -> u64 {
        let batch = (BATCH_BYTES + WRITE_BYTES_MAX) as u64;
        let reserve = self.reserve_bytes;
        match reserve {
            0 => u64::MAX,
            // A reserve of less than a few batches is one of tests, and so are their batches.
            _ => reserve - part_for_votes(reserve) - batch.min(reserve / 4),
        }
    }
}
