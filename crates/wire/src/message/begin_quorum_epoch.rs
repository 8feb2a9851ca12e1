//! BeginQuorumEpoch (KIP-595): a new leader tells the voters of itself. Version 1 names directories
//! and endpoints (KIP-853).

use super::quorum::LeadershipPartition;
use super::{LeaderEndpoint, QuorumResponse, Topic, messages};
use crate::coder::{Coder, Tags, Walk};
use crate::{ApiKey, Error};
use quorate_base::Uuid;

/// Tells one voter of the new leader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BeginQuorumEpochRequest {
    /// The sender's cluster; null skips the check.
    pub cluster_id: Option<String>,
    /// Version 1: who is told; -1 unknown.
    pub voter_id: i32,
    /// The new leaderships.
    pub topics: Vec<Topic<BeginQuorumEpochRequestPartition>>,
    /// Version 1: where the leader can be reached.
    pub leader_endpoints: Vec<LeaderEndpoint>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for BeginQuorumEpochRequest {
    fn default() -> BeginQuorumEpochRequest {
        BeginQuorumEpochRequest {
            cluster_id: None,
            voter_id: -1,
            topics: Vec::new(),
            leader_endpoints: Vec::new(),
            tags: Tags::new(),
        }
    }
}

impl Walk for BeginQuorumEpochRequest {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.nullable_string("ClusterId", &mut self.cluster_id)?;
        if version >= 1 {
            c.i32("VoterId", &mut self.voter_id)?;
        }
        c.array("Topics", &mut self.topics, version)?;
        if version >= 1 {
            c.array("LeaderEndpoints", &mut self.leader_endpoints, version)?;
        }
        c.unknown_tags(&mut self.tags)
    }
}

/// One new leadership.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BeginQuorumEpochRequestPartition {
    /// The partition.
    pub partition_index: i32,
    /// Version 1: the directory of the voter that is told.
    pub voter_directory_id: Uuid,
    /// The leader.
    pub leader_id: i32,
    /// Its epoch.
    pub leader_epoch: i32,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for BeginQuorumEpochRequestPartition {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("PartitionIndex", &mut self.partition_index)?;
        if version >= 1 {
            c.uuid("VoterDirectoryId", &mut self.voter_directory_id)?;
        }
        c.i32("LeaderId", &mut self.leader_id)?;
        c.i32("LeaderEpoch", &mut self.leader_epoch)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// The leaders that the voter knows now.
pub type BeginQuorumEpochResponse = QuorumResponse<BeginQuorumEpochResponsePartition>;

/// What the voter says of one partition.
pub type BeginQuorumEpochResponsePartition =
    LeadershipPartition<{ ApiKey::BeginQuorumEpoch.key() }>;

messages!(BeginQuorumEpoch: BeginQuorumEpochRequest, BeginQuorumEpochResponse);
