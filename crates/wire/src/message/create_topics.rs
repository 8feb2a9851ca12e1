//! CreateTopics: new topics. Brokers pass on what clients ask inside of an envelope.
//!
//! Version 2 is the oldest that Kafka 4 speaks; 4 may leave partitions and replicas to the cluster
//! (KIP-464), 5 says how a topic was configured (KIP-525), 7 which id it has (KIP-516).

use super::messages;
use crate::coder::{Coder, Tags, Walk};
use crate::{Error, ErrorCode};
use quorate_base::Uuid;

/// Asks for topics.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreateTopicsRequest {
    /// Which.
    pub topics: Vec<CreatableTopic>,
    /// How long the asker waits, in milliseconds.
    pub timeout_ms: i32,
    /// Whether they shall only be judged, not created.
    pub validate_only: bool,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for CreateTopicsRequest {
    fn default() -> CreateTopicsRequest {
        let (topics, tags) = (Vec::new(), Tags::new());
        CreateTopicsRequest { topics, timeout_ms: 60_000, validate_only: false, tags }
    }
}

impl Walk for CreateTopicsRequest {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.array("Topics", &mut self.topics, version)?;
        c.i32("TimeoutMs", &mut self.timeout_ms)?;
        c.bool("ValidateOnly", &mut self.validate_only)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// A topic to be created.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CreatableTopic {
    /// Its name.
    pub name: String,
    /// How many partitions; -1 as many as are usual, or as are assigned.
    pub num_partitions: i32,
    /// How many replicas each has; -1 as many as are usual, or as are assigned.
    pub replication_factor: i16,
    /// Where partitions go; empty leaves it to the controller.
    pub assignments: Vec<CreatableReplicaAssignment>,
    /// What is configured.
    pub configs: Vec<CreatableTopicConfig>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for CreatableTopic {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.string("Name", &mut self.name)?;
        c.i32("NumPartitions", &mut self.num_partitions)?;
        c.i16("ReplicationFactor", &mut self.replication_factor)?;
        c.array("Assignments", &mut self.assignments, version)?;
        c.array("Configs", &mut self.configs, version)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// Where a partition goes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CreatableReplicaAssignment {
    /// The partition.
    pub partition_index: i32,
    /// Its replicas' brokers, the preferred leader first.
    pub broker_ids: Vec<i32>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for CreatableReplicaAssignment {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("PartitionIndex", &mut self.partition_index)?;
        c.array("BrokerIds", &mut self.broker_ids, version)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// A setting of a topic to be created.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CreatableTopicConfig {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Option<String>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for CreatableTopicConfig {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.string("Name", &mut self.name)?;
        c.nullable_string("Value", &mut self.value)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CreateTopicsResponse {
    /// How long the answer was held back, in milliseconds.
    pub throttle_time_ms: i32,
    /// One for each topic.
    pub topics: Vec<CreatableTopicResult>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for CreateTopicsResponse {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("ThrottleTimeMs", &mut self.throttle_time_ms)?;
        c.array("Topics", &mut self.topics, version)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// What came of one topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreatableTopicResult {
    /// Its name.
    pub name: String,
    /// Version 7: its id.
    pub topic_id: Uuid,
    /// Why it does not exist.
    pub error_code: ErrorCode,
    /// The same in words.
    pub error_message: Option<String>,
    /// Version 5, tag 0: why its configuration is not told.
    pub topic_config_error_code: ErrorCode,
    /// Version 5: how many partitions it has; -1 unknown.
    pub num_partitions: i32,
    /// Version 5: how many replicas each has; -1 unknown.
    pub replication_factor: i16,
    /// Version 5: its configuration; null if it is not told.
    pub configs: Option<Vec<CreatableTopicConfigs>>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for CreatableTopicResult {
    fn default() -> CreatableTopicResult {
        CreatableTopicResult {
            name: String::new(),
            topic_id: Uuid::ZERO,
            error_code: ErrorCode::None,
            error_message: None,
            topic_config_error_code: ErrorCode::None,
            num_partitions: -1,
            replication_factor: -1,
            configs: Some(Vec::new()),
            tags: Tags::new(),
        }
    }
}

impl Walk for CreatableTopicResult {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.string("Name", &mut self.name)?;
        if version >= 7 {
            c.uuid("TopicId", &mut self.topic_id)?;
        }
        c.error_code("ErrorCode", &mut self.error_code)?;
        c.nullable_string("ErrorMessage", &mut self.error_message)?;
        if version >= 5 {
            c.i32("NumPartitions", &mut self.num_partitions)?;
            c.i16("ReplicationFactor", &mut self.replication_factor)?;
            c.nullable_array("Configs", &mut self.configs, version)?;
        }
        c.tags(&mut self.tags, |c, open| {
            c.tag(open, 0, &mut self.topic_config_error_code, ErrorCode::None, |c, code| {
                c.error_code("TopicConfigErrorCode", code)
            })
        })
    }
}

/// A setting of a topic that was created.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreatableTopicConfigs {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Option<String>,
    /// Whether nobody may change it.
    pub read_only: bool,
    /// Where the value comes from; -1 unknown.
    pub config_source: i8,
    /// Whether its value is a secret.
    pub is_sensitive: bool,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for CreatableTopicConfigs {
    fn default() -> CreatableTopicConfigs {
        CreatableTopicConfigs {
            name: String::new(),
            value: None,
            read_only: false,
            config_source: -1,
            is_sensitive: false,
            tags: Tags::new(),
        }
    }
}

impl Walk for CreatableTopicConfigs {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.string("Name", &mut self.name)?;
        c.nullable_string("Value", &mut self.value)?;
        c.bool("ReadOnly", &mut self.read_only)?;
        c.i8("ConfigSource", &mut self.config_source)?;
        c.bool("IsSensitive", &mut self.is_sensitive)?;
        c.unknown_tags(&mut self.tags)
    }
}

messages!(CreateTopics: CreateTopicsRequest, CreateTopicsResponse);
