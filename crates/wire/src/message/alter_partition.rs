//! AlterPartition (KIP-497): a leader of partitions tells the active controller which replicas are
//! in sync. Version 2 names topics by id (KIP-841), version 3 replicas with the epochs of their
//! brokers (KIP-903).

use super::messages;
use crate::coder::{Coder, Tags, Walk};
use crate::{Error, ErrorCode};
use quorate_base::Uuid;

/// Who is in sync.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AlterPartitionRequest {
    /// The broker that leads.
    pub broker_id: i32,
    /// Of its registration; -1 unknown.
    pub broker_epoch: i64,
    /// Of which topics.
    pub topics: Vec<AlterPartitionRequestTopic>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for AlterPartitionRequest {
    fn default() -> AlterPartitionRequest {
        let (topics, tags) = (Vec::new(), Tags::new());
        AlterPartitionRequest { broker_id: 0, broker_epoch: -1, topics, tags }
    }
}

impl Walk for AlterPartitionRequest {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("BrokerId", &mut self.broker_id)?;
        c.i64("BrokerEpoch", &mut self.broker_epoch)?;
        c.array("Topics", &mut self.topics, version)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// Who is in sync, of one topic.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AlterPartitionRequestTopic {
    /// The topic.
    pub topic_id: Uuid,
    /// Its partitions.
    pub partitions: Vec<AlterPartitionRequestPartition>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for AlterPartitionRequestTopic {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.uuid("TopicId", &mut self.topic_id)?;
        c.array("Partitions", &mut self.partitions, version)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// Who is in sync, of one partition.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AlterPartitionRequestPartition {
    /// The partition.
    pub partition_index: i32,
    /// The epoch of the broker's leadership of it.
    pub leader_epoch: i32,
    /// Up to version 2: the brokers whose replicas are in sync.
    pub new_isr: Vec<i32>,
    /// Version 3: the same with the epochs of their registrations.
    pub new_isr_with_epochs: Vec<BrokerState>,
    /// 1 while the leader recovers from an unclean election, otherwise 0.
    pub leader_recovery_state: i8,
    /// The state of the partition that the change starts from.
    pub partition_epoch: i32,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for AlterPartitionRequestPartition {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("PartitionIndex", &mut self.partition_index)?;
        c.i32("LeaderEpoch", &mut self.leader_epoch)?;
        if version >= 3 {
            c.lacks("NewIsr", !self.new_isr.is_empty(), version)?;
            c.array("NewIsrWithEpochs", &mut self.new_isr_with_epochs, version)?;
        } else {
            c.array("NewIsr", &mut self.new_isr, version)?;
            c.lacks("NewIsrWithEpochs", !self.new_isr_with_epochs.is_empty(), version)?;
        }
        c.i8("LeaderRecoveryState", &mut self.leader_recovery_state)?;
        c.i32("PartitionEpoch", &mut self.partition_epoch)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// A broker whose replica is in sync.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BrokerState {
    /// The broker.
    pub broker_id: i32,
    /// Of its registration; -1 if it shall not be compared.
    pub broker_epoch: i64,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for BrokerState {
    fn default() -> BrokerState {
        BrokerState { broker_id: 0, broker_epoch: -1, tags: Tags::new() }
    }
}

impl Walk for BrokerState {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i32("BrokerId", &mut self.broker_id)?;
        c.i64("BrokerEpoch", &mut self.broker_epoch)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AlterPartitionResponse {
    /// How long the answer was held back, in milliseconds.
    pub throttle_time_ms: i32,
    /// Why nothing was considered.
    pub error_code: ErrorCode,
    /// The topics that were asked about.
    pub topics: Vec<AlterPartitionResponseTopic>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for AlterPartitionResponse {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("ThrottleTimeMs", &mut self.throttle_time_ms)?;
        c.error_code("ErrorCode", &mut self.error_code)?;
        c.array("Topics", &mut self.topics, version)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// What came of one topic.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AlterPartitionResponseTopic {
    /// The topic.
    pub topic_id: Uuid,
    /// Its partitions.
    pub partitions: Vec<AlterPartitionResponsePartition>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for AlterPartitionResponseTopic {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.uuid("TopicId", &mut self.topic_id)?;
        c.array("Partitions", &mut self.partitions, version)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// A partition as it is now.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AlterPartitionResponsePartition {
    /// The partition.
    pub partition_index: i32,
    /// Why it is not as was asked.
    pub error_code: ErrorCode,
    /// The broker that leads it.
    pub leader_id: i32,
    /// The epoch of its leadership.
    pub leader_epoch: i32,
    /// The brokers whose replicas are in sync.
    pub isr: Vec<i32>,
    /// 1 while the leader recovers from an unclean election, otherwise 0.
    pub leader_recovery_state: i8,
    /// Grows with each change of the partition.
    pub partition_epoch: i32,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for AlterPartitionResponsePartition {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("PartitionIndex", &mut self.partition_index)?;
        c.error_code("ErrorCode", &mut self.error_code)?;
        c.i32("LeaderId", &mut self.leader_id)?;
        c.i32("LeaderEpoch", &mut self.leader_epoch)?;
        c.array("Isr", &mut self.isr, version)?;
        c.i8("LeaderRecoveryState", &mut self.leader_recovery_state)?;
        c.i32("PartitionEpoch", &mut self.partition_epoch)?;
        c.unknown_tags(&mut self.tags)
    }
}

messages!(AlterPartition: AlterPartitionRequest, AlterPartitionResponse);
