//! DescribeQuorum (KIP-595): who leads, who votes, who observes, and how far each of them is.
//! Version 1 adds times (KIP-836), version 2 directories, listeners and errors in words (KIP-853).

use super::{Listener, Topic, messages};
use crate::coder::{Coder, Tags, Walk};
use crate::{Error, ErrorCode};
use quorate_base::Uuid;

/// Asks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DescribeQuorumRequest {
    /// Of which partitions.
    pub topics: Vec<Topic<DescribeQuorumRequestPartition>>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for DescribeQuorumRequest {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.array("Topics", &mut self.topics, version)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// One partition.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DescribeQuorumRequestPartition {
    /// The partition.
    pub partition_index: i32,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for DescribeQuorumRequestPartition {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i32("PartitionIndex", &mut self.partition_index)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// Answers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DescribeQuorumResponse {
    /// What is wrong with the request as a whole.
    pub error_code: ErrorCode,
    /// Version 2: the same in words; Kafka sends an empty string where nothing is wrong.
    pub error_message: Option<String>,
    /// The partitions asked about.
    pub topics: Vec<Topic<DescribeQuorumResponsePartition>>,
    /// Version 2: where the voters can be reached.
    pub nodes: Vec<QuorumNode>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for DescribeQuorumResponse {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.error_code("ErrorCode", &mut self.error_code)?;
        if version >= 2 {
            c.nullable_string("ErrorMessage", &mut self.error_message)?;
        }
        c.array("Topics", &mut self.topics, version)?;
        if version >= 2 {
            c.array("Nodes", &mut self.nodes, version)?;
        }
        c.unknown_tags(&mut self.tags)
    }
}

/// One partition.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DescribeQuorumResponsePartition {
    /// The partition.
    pub partition_index: i32,
    /// Why there is no answer.
    pub error_code: ErrorCode,
    /// Version 2: the same in words; Kafka sends an empty string where nothing is wrong.
    pub error_message: Option<String>,
    /// The leader; -1 unknown.
    pub leader_id: i32,
    /// The latest epoch known.
    pub leader_epoch: i32,
    /// The high watermark; -1 unknown.
    pub high_watermark: i64,
    /// The voters.
    pub current_voters: Vec<QuorumReplica>,
    /// The observers that the leader has heard of lately.
    pub observers: Vec<QuorumReplica>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for DescribeQuorumResponsePartition {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("PartitionIndex", &mut self.partition_index)?;
        c.error_code("ErrorCode", &mut self.error_code)?;
        if version >= 2 {
            c.nullable_string("ErrorMessage", &mut self.error_message)?;
        }
        c.i32("LeaderId", &mut self.leader_id)?;
        c.i32("LeaderEpoch", &mut self.leader_epoch)?;
        c.i64("HighWatermark", &mut self.high_watermark)?;
        c.array("CurrentVoters", &mut self.current_voters, version)?;
        c.array("Observers", &mut self.observers, version)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// How far one replica is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuorumReplica {
    /// The node.
    pub replica_id: i32,
    /// Version 2: its directory.
    pub replica_directory_id: Uuid,
    /// Its log end as the leader knows it; -1 unknown.
    pub log_end_offset: i64,
    /// Version 1: when it fetched last, in milliseconds since 1970 by the leader's clock; -1
    /// unknown.
    pub last_fetch_timestamp: i64,
    /// Version 1: when it last had all that the leader had, likewise; -1 unknown.
    pub last_caught_up_timestamp: i64,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for QuorumReplica {
    fn default() -> QuorumReplica {
        QuorumReplica {
            replica_id: 0,
            replica_directory_id: Uuid::ZERO,
            log_end_offset: 0,
            last_fetch_timestamp: -1,
            last_caught_up_timestamp: -1,
            tags: Tags::new(),
        }
    }
}

impl Walk for QuorumReplica {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("ReplicaId", &mut self.replica_id)?;
        if version >= 2 {
            c.uuid("ReplicaDirectoryId", &mut self.replica_directory_id)?;
        }
        c.i64("LogEndOffset", &mut self.log_end_offset)?;
        if version >= 1 {
            c.i64("LastFetchTimestamp", &mut self.last_fetch_timestamp)?;
            c.i64("LastCaughtUpTimestamp", &mut self.last_caught_up_timestamp)?;
        }
        c.unknown_tags(&mut self.tags)
    }
}

/// Where one voter can be reached.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QuorumNode {
    /// The node.
    pub node_id: i32,
    /// Its listeners.
    pub listeners: Vec<Listener>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for QuorumNode {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("NodeId", &mut self.node_id)?;
        c.array("Listeners", &mut self.listeners, version)?;
        c.unknown_tags(&mut self.tags)
    }
}

messages!(DescribeQuorum: DescribeQuorumRequest, DescribeQuorumResponse);
