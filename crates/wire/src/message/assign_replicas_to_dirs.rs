//! AssignReplicasToDirs (KIP-858): a broker tells the active controller which of its directories
//! hold which replicas. The answer has the same form with an error for each partition.

use super::messages;
use crate::coder::{Coder, Tags, Walk};
use crate::{Error, ErrorCode};
use quorate_base::Uuid;

/// Where the broker's replicas are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AssignReplicasToDirsRequest {
    /// The broker.
    pub broker_id: i32,
    /// Of its registration; -1 unknown.
    pub broker_epoch: i64,
    /// Its directories.
    pub directories: Vec<AssignedDirectory<AssignedPartition>>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for AssignReplicasToDirsRequest {
    fn default() -> AssignReplicasToDirsRequest {
        let (directories, tags) = (Vec::new(), Tags::new());
        AssignReplicasToDirsRequest { broker_id: 0, broker_epoch: -1, directories, tags }
    }
}

impl Walk for AssignReplicasToDirsRequest {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("BrokerId", &mut self.broker_id)?;
        c.i64("BrokerEpoch", &mut self.broker_epoch)?;
        c.array("Directories", &mut self.directories, version)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AssignReplicasToDirsResponse {
    /// How long the answer was held back, in milliseconds.
    pub throttle_time_ms: i32,
    /// Why nothing was considered.
    pub error_code: ErrorCode,
    /// The directories that were told.
    pub directories: Vec<AssignedDirectory<AssignedPartitionResult>>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for AssignReplicasToDirsResponse {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("ThrottleTimeMs", &mut self.throttle_time_ms)?;
        c.error_code("ErrorCode", &mut self.error_code)?;
        c.array("Directories", &mut self.directories, version)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// A directory and what it holds; `P` is what is said of a partition.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AssignedDirectory<P> {
    /// The directory.
    pub id: Uuid,
    /// Topics of which it holds replicas.
    pub topics: Vec<AssignedTopic<P>>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl<P: Walk> Walk for AssignedDirectory<P> {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.uuid("Id", &mut self.id)?;
        c.array("Topics", &mut self.topics, version)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// A topic and its partitions in the directory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AssignedTopic<P> {
    /// The topic.
    pub topic_id: Uuid,
    /// The partitions.
    pub partitions: Vec<P>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl<P: Walk> Walk for AssignedTopic<P> {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.uuid("TopicId", &mut self.topic_id)?;
        c.array("Partitions", &mut self.partitions, version)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// A partition whose replica is in the directory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AssignedPartition {
    /// The partition.
    pub partition_index: i32,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for AssignedPartition {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i32("PartitionIndex", &mut self.partition_index)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// What came of one partition.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AssignedPartitionResult {
    /// The partition.
    pub partition_index: i32,
    /// Why it was not noted.
    pub error_code: ErrorCode,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for AssignedPartitionResult {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i32("PartitionIndex", &mut self.partition_index)?;
        c.error_code("ErrorCode", &mut self.error_code)?;
        c.unknown_tags(&mut self.tags)
    }
}

messages!(AssignReplicasToDirs: AssignReplicasToDirsRequest, AssignReplicasToDirsResponse);
