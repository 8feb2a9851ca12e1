//! Fetch: copies records, and by its offset acknowledges those copied before (KIP-227, KIP-595).
//! Topics have names up to version 12, ids from version 13 (KIP-516).
//! Quorate adds one tagged field, number 10595, to the partition of request and response: numbers
//! that keep reads of a compacted log consistent, the round that proves leadership for reads. Who
//! does not know it skips it; a leader sends it only to fetchers that sent theirs.

use super::marks::{FetcherMarks, LeaderMarks, MARKS_TAG};
use super::messages;
use crate::coder::{Coder, Tags, Walk};
use crate::{Error, ErrorCode};
use bytes::Bytes;
use quorate_base::Uuid;

/// Asks for records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchRequest {
    /// Version 12: the sender's cluster; null skips the check.
    pub cluster_id: Option<String>,
    /// Who fetches; `None` is a consumer. Up to version 14 only its id is carried.
    pub replica_state: Option<ReplicaState>,
    /// How long the answer may wait for `min_bytes`, in milliseconds.
    pub max_wait_ms: i32,
    /// Fewer bytes are worth waiting for more.
    pub min_bytes: i32,
    /// The most bytes wanted; one batch may be larger (KIP-74).
    pub max_bytes: i32,
    /// 1 hides records of open and aborted transactions.
    pub isolation_level: i8,
    /// Version 7: the fetch session; 0 none.
    pub session_id: i32,
    /// Version 7: the session's epoch; -1 no session.
    pub session_epoch: i32,
    /// What to fetch.
    pub topics: Vec<FetchTopic<FetchRequestPartition>>,
    /// Version 7: which partitions the session shall forget.
    pub forgotten_topics_data: Vec<FetchTopic<i32>>,
    /// Version 11: where the consumer stands.
    pub rack_id: String,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for FetchRequest {
    fn default() -> FetchRequest {
        FetchRequest {
            cluster_id: None,
            replica_state: None,
            max_wait_ms: 0,
            min_bytes: 0,
            max_bytes: i32::MAX,
            isolation_level: 0,
            session_id: 0,
            session_epoch: -1,
            topics: Vec::new(),
            forgotten_topics_data: Vec::new(),
            rack_id: String::new(),
            tags: Tags::new(),
        }
    }
}

impl Walk for FetchRequest {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        if version <= 14 {
            let mut state = self.replica_state.take().unwrap_or_default();
            c.i32("ReplicaId", &mut state.replica_id)?;
            self.replica_state = Some(state).filter(|state| state.replica_id != -1);
        }
        c.i32("MaxWaitMs", &mut self.max_wait_ms)?;
        c.i32("MinBytes", &mut self.min_bytes)?;
        c.i32("MaxBytes", &mut self.max_bytes)?;
        c.i8("IsolationLevel", &mut self.isolation_level)?;
        if version >= 7 {
            c.i32("SessionId", &mut self.session_id)?;
            c.i32("SessionEpoch", &mut self.session_epoch)?;
        }
        c.array("Topics", &mut self.topics, version)?;
        if version >= 7 {
            c.array("ForgottenTopicsData", &mut self.forgotten_topics_data, version)?;
        } else {
            c.lacks("ForgottenTopicsData", !self.forgotten_topics_data.is_empty(), version)?;
        }
        if version >= 11 {
            c.string("RackId", &mut self.rack_id)?;
        }
        c.tags(&mut self.tags, |c, open| {
            c.tag(open, 0, &mut self.cluster_id, None, |c, cluster_id| {
                c.nullable_string("ClusterId", cluster_id)
            })?;
            if version >= 15 {
                c.tagged_struct(open, 1, "ReplicaState", &mut self.replica_state, version)?;
            }
            Ok(())
        })
    }
}

/// The replica that fetches (KIP-903).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplicaState {
    /// The node; -1 none.
    pub replica_id: i32,
    /// A broker's epoch; -1 none.
    pub replica_epoch: i64,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for ReplicaState {
    fn default() -> ReplicaState {
        ReplicaState { replica_id: -1, replica_epoch: -1, tags: Tags::new() }
    }
}

impl Walk for ReplicaState {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i32("ReplicaId", &mut self.replica_id)?;
        c.i64("ReplicaEpoch", &mut self.replica_epoch)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// Partitions of one topic; `P` is what is said of each.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FetchTopic<P> {
    /// Up to version 12: its name.
    pub topic: String,
    /// From version 13: its id.
    pub topic_id: Uuid,
    /// Its partitions.
    pub partitions: Vec<P>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl<P: Walk> Walk for FetchTopic<P> {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        if version <= 12 {
            c.string("Topic", &mut self.topic)?;
        } else {
            c.uuid("TopicId", &mut self.topic_id)?;
        }
        c.array("Partitions", &mut self.partitions, version)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// What to fetch of one partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchRequestPartition {
    /// The partition.
    pub partition: i32,
    /// Version 9: the fetcher's idea of the leader's epoch; -1 none.
    pub current_leader_epoch: i32,
    /// From where.
    pub fetch_offset: i64,
    /// Version 12: the epoch of the last record the fetcher has; -1 none.
    pub last_fetched_epoch: i32,
    /// Version 5: where the follower's log starts; -1 for a consumer.
    pub log_start_offset: i64,
    /// The most bytes wanted of this partition.
    pub partition_max_bytes: i32,
    /// Version 17: the follower's directory.
    pub replica_directory_id: Uuid,
    /// Version 18: the high watermark that the follower knows (KIP-1166). -1: it knows none;
    /// `i64::MAX`: it does not say.
    pub high_watermark: i64,
    /// Version 12, ours: asks for [`LeaderMarks`].
    pub marks: Option<FetcherMarks>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for FetchRequestPartition {
    fn default() -> FetchRequestPartition {
        FetchRequestPartition {
            partition: 0,
            current_leader_epoch: -1,
            fetch_offset: 0,
            last_fetched_epoch: -1,
            log_start_offset: -1,
            partition_max_bytes: 0,
            replica_directory_id: Uuid::ZERO,
            high_watermark: i64::MAX,
            marks: None,
            tags: Tags::new(),
        }
    }
}

impl Walk for FetchRequestPartition {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("Partition", &mut self.partition)?;
        if version >= 9 {
            c.i32("CurrentLeaderEpoch", &mut self.current_leader_epoch)?;
        }
        c.i64("FetchOffset", &mut self.fetch_offset)?;
        if version >= 12 {
            c.i32("LastFetchedEpoch", &mut self.last_fetched_epoch)?;
        } else {
            c.lacks("LastFetchedEpoch", self.last_fetched_epoch != -1, version)?;
        }
        if version >= 5 {
            c.i64("LogStartOffset", &mut self.log_start_offset)?;
        }
        c.i32("PartitionMaxBytes", &mut self.partition_max_bytes)?;
        c.tags(&mut self.tags, |c, open| {
            if version >= 17 {
                c.tag(open, 0, &mut self.replica_directory_id, Uuid::ZERO, |c, id| {
                    c.uuid("ReplicaDirectoryId", id)
                })?;
            }
            if version >= 18 {
                c.tag(open, 1, &mut self.high_watermark, i64::MAX, |c, offset| {
                    c.i64("HighWatermark", offset)
                })?;
            }
            c.tagged_struct(open, MARKS_TAG, "FetcherMarks", &mut self.marks, version)
        })
    }
}

/// Records.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FetchResponse {
    /// How long the answer was held back, in milliseconds.
    pub throttle_time_ms: i32,
    /// Version 7: what is wrong with the request as a whole.
    pub error_code: ErrorCode,
    /// Version 7: the fetch session; 0 none.
    pub session_id: i32,
    /// What was fetched.
    pub responses: Vec<FetchTopic<FetchResponsePartition>>,
    /// Version 16: where the leaders named below can be reached.
    pub node_endpoints: Vec<FetchNodeEndpoint>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for FetchResponse {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("ThrottleTimeMs", &mut self.throttle_time_ms)?;
        if version >= 7 {
            c.error_code("ErrorCode", &mut self.error_code)?;
            c.i32("SessionId", &mut self.session_id)?;
        } else {
            c.lacks("SessionId", self.session_id != 0, version)?;
        }
        c.array("Responses", &mut self.responses, version)?;
        c.tags(&mut self.tags, |c, open| {
            if version >= 16 {
                c.tag(open, 0, &mut self.node_endpoints, Vec::new(), |c, endpoints| {
                    c.array("NodeEndpoints", endpoints, version)
                })?;
            }
            Ok(())
        })
    }
}

/// What was fetched of one partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchResponsePartition {
    /// The partition.
    pub partition_index: i32,
    /// Why there is nothing.
    pub error_code: ErrorCode,
    /// The high watermark; -1 unknown.
    pub high_watermark: i64,
    /// The end of what no open transaction touches; -1 unknown.
    pub last_stable_offset: i64,
    /// Version 5: where the leader's log starts; -1 unknown.
    pub log_start_offset: i64,
    /// Version 12: the logs diverge at the latest here.
    pub diverging_epoch: Option<DivergingEpoch>,
    /// Version 12: who leads.
    pub current_leader: Option<LeaderIdAndEpoch>,
    /// Version 12: the offset lies before the log; fetch this snapshot.
    pub snapshot_id: Option<SnapshotId>,
    /// Transactions whose records a reader must skip.
    pub aborted_transactions: Option<Vec<AbortedTransaction>>,
    /// Version 11: from whom to fetch instead; -1 nobody.
    pub preferred_read_replica: i32,
    /// Record batches, the last possibly cut short.
    pub records: Option<Bytes>,
    /// Version 12, ours: only for fetchers that asked with [`FetcherMarks`].
    pub marks: Option<LeaderMarks>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for FetchResponsePartition {
    fn default() -> FetchResponsePartition {
        FetchResponsePartition {
            partition_index: 0,
            error_code: ErrorCode::None,
            high_watermark: 0,
            last_stable_offset: -1,
            log_start_offset: -1,
            diverging_epoch: None,
            current_leader: None,
            snapshot_id: None,
            aborted_transactions: Some(Vec::new()),
            preferred_read_replica: -1,
            records: None,
            marks: None,
            tags: Tags::new(),
        }
    }
}

impl Walk for FetchResponsePartition {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("PartitionIndex", &mut self.partition_index)?;
        c.error_code("ErrorCode", &mut self.error_code)?;
        c.i64("HighWatermark", &mut self.high_watermark)?;
        c.i64("LastStableOffset", &mut self.last_stable_offset)?;
        if version >= 5 {
            c.i64("LogStartOffset", &mut self.log_start_offset)?;
        }
        c.nullable_array("AbortedTransactions", &mut self.aborted_transactions, version)?;
        if version >= 11 {
            c.i32("PreferredReadReplica", &mut self.preferred_read_replica)?;
        } else {
            c.lacks("PreferredReadReplica", self.preferred_read_replica != -1, version)?;
        }
        c.nullable_bytes("Records", &mut self.records)?;
        if version < 12 {
            c.lacks("DivergingEpoch", self.diverging_epoch.is_some(), version)?;
            c.lacks("SnapshotId", self.snapshot_id.is_some(), version)?;
        }
        c.tags(&mut self.tags, |c, open| {
            c.tagged_struct(open, 0, "DivergingEpoch", &mut self.diverging_epoch, version)?;
            c.tagged_struct(open, 1, "CurrentLeader", &mut self.current_leader, version)?;
            c.tagged_struct(open, 2, "SnapshotId", &mut self.snapshot_id, version)?;
            c.tagged_struct(open, MARKS_TAG, "LeaderMarks", &mut self.marks, version)
        })
    }
}

/// The largest epoch that both logs may share and where it ends in the leader's (KIP-595).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DivergingEpoch {
    /// The epoch; -1 none.
    pub epoch: i32,
    /// Its end offset; -1 none.
    pub end_offset: i64,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for DivergingEpoch {
    fn default() -> DivergingEpoch {
        DivergingEpoch { epoch: -1, end_offset: -1, tags: Tags::new() }
    }
}

impl Walk for DivergingEpoch {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i32("Epoch", &mut self.epoch)?;
        c.i64("EndOffset", &mut self.end_offset)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// Who leads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaderIdAndEpoch {
    /// The leader; -1 unknown.
    pub leader_id: i32,
    /// The latest epoch known; -1 none.
    pub leader_epoch: i32,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for LeaderIdAndEpoch {
    fn default() -> LeaderIdAndEpoch {
        LeaderIdAndEpoch { leader_id: -1, leader_epoch: -1, tags: Tags::new() }
    }
}

impl Walk for LeaderIdAndEpoch {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i32("LeaderId", &mut self.leader_id)?;
        c.i32("LeaderEpoch", &mut self.leader_epoch)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// A snapshot (KIP-630).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotId {
    /// Where its content ends, exclusive.
    pub end_offset: i64,
    /// The epoch of the last record in it.
    pub epoch: i32,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for SnapshotId {
    fn default() -> SnapshotId {
        SnapshotId { end_offset: -1, epoch: -1, tags: Tags::new() }
    }
}

impl Walk for SnapshotId {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i64("EndOffset", &mut self.end_offset)?;
        c.i32("Epoch", &mut self.epoch)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// A transaction whose records a reader must skip.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AbortedTransaction {
    /// Whose.
    pub producer_id: i64,
    /// Its first record.
    pub first_offset: i64,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for AbortedTransaction {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i64("ProducerId", &mut self.producer_id)?;
        c.i64("FirstOffset", &mut self.first_offset)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// Where a node can be reached.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FetchNodeEndpoint {
    /// The node.
    pub node_id: i32,
    /// Its name or address.
    pub host: String,
    /// Its port; wider here than in the quorum's other messages.
    pub port: i32,
    /// Where it stands.
    pub rack: Option<String>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for FetchNodeEndpoint {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i32("NodeId", &mut self.node_id)?;
        c.string("Host", &mut self.host)?;
        c.i32("Port", &mut self.port)?;
        c.nullable_string("Rack", &mut self.rack)?;
        c.unknown_tags(&mut self.tags)
    }
}

messages!(Fetch: FetchRequest, FetchResponse);
