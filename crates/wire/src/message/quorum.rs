//! What the quorum's messages have in common: they speak of partitions by topic name and say where
//! nodes can be reached; Vote, BeginQuorumEpoch and EndQuorumEpoch answer in one form, AddRaftVoter
//! and RemoveRaftVoter in another.

use crate::coder::{Coder, Tags, Walk};
use crate::{Error, ErrorCode};

/// Partitions of one topic; `P` is what is said of each.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Topic<P> {
    /// `__cluster_metadata`, unless configured otherwise.
    pub topic_name: String,
    /// One, in practice: index 0.
    pub partitions: Vec<P>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl<P: Walk> Walk for Topic<P> {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.string("TopicName", &mut self.topic_name)?;
        c.array("Partitions", &mut self.partitions, version)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// The answer to all three; `P` is what is said of each partition.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QuorumResponse<P> {
    /// What is wrong with the request as a whole.
    pub error_code: ErrorCode,
    /// The partitions asked about.
    pub topics: Vec<Topic<P>>,
    /// Version 1: where the leaders named above can be reached.
    pub node_endpoints: Vec<NodeEndpoint>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl<P: Walk> Walk for QuorumResponse<P> {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.error_code("ErrorCode", &mut self.error_code)?;
        c.array("Topics", &mut self.topics, version)?;
        c.tags(&mut self.tags, |c, open| {
            if version >= 1 {
                c.tag(open, 0, &mut self.node_endpoints, Vec::new(), |c, endpoints| {
                    c.array("NodeEndpoints", endpoints, version)
                })?;
            }
            Ok(())
        })
    }
}

/// Where a node's controller listener can be reached.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeEndpoint {
    /// The node.
    pub node_id: i32,
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for NodeEndpoint {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i32("NodeId", &mut self.node_id)?;
        c.string("Host", &mut self.host)?;
        c.u16("Port", &mut self.port)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// One listener of a node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Listener {
    /// Its name, such as `CONTROLLER`.
    pub name: String,
    /// The node's name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for Listener {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.string("Name", &mut self.name)?;
        c.string("Host", &mut self.host)?;
        c.u16("Port", &mut self.port)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// One listener of the leader.
pub type LeaderEndpoint = Listener;

/// The levels of `kraft.version` that a voter supports, both inclusive (KIP-853).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KRaftVersionFeature {
    /// The lowest.
    pub min_supported_version: i16,
    /// The highest.
    pub max_supported_version: i16,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for KRaftVersionFeature {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i16("MinSupportedVersion", &mut self.min_supported_version)?;
        c.i16("MaxSupportedVersion", &mut self.max_supported_version)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// What the answers to BeginQuorumEpoch and EndQuorumEpoch say of one partition. The same fields in
/// both; `API`, the key, keeps the two apart.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LeadershipPartition<const API: i16> {
    /// The partition.
    pub partition_index: i32,
    /// Why the request had no effect.
    pub error_code: ErrorCode,
    /// The leader, if the voter knows one; else -1.
    pub leader_id: i32,
    /// The voter's epoch.
    pub leader_epoch: i32,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl<const API: i16> Walk for LeadershipPartition<API> {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i32("PartitionIndex", &mut self.partition_index)?;
        c.error_code("ErrorCode", &mut self.error_code)?;
        c.i32("LeaderId", &mut self.leader_id)?;
        c.i32("LeaderEpoch", &mut self.leader_epoch)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// The answer to AddRaftVoter and to RemoveRaftVoter. The same fields in both; `API`, the key,
/// keeps the two apart.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VoterChangeResponse<const API: i16> {
    /// How long the answer was held back, in milliseconds.
    pub throttle_time_ms: i32,
    /// Why the voters did not change.
    pub error_code: ErrorCode,
    /// The same in words.
    pub error_message: Option<String>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl<const API: i16> Walk for VoterChangeResponse<API> {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i32("ThrottleTimeMs", &mut self.throttle_time_ms)?;
        c.error_code("ErrorCode", &mut self.error_code)?;
        c.nullable_string("ErrorMessage", &mut self.error_message)?;
        c.unknown_tags(&mut self.tags)
    }
}
