//! EndQuorumEpoch (KIP-595): a leader gives up its epoch and proposes who should stand next.
//! Version 1 names directories and endpoints (KIP-853).

use super::quorum::LeadershipPartition;
use super::{LeaderEndpoint, QuorumResponse, Topic, messages};
use crate::coder::{Coder, Tags, Walk};
use crate::{ApiKey, Error};
use quorate_base::Uuid;

/// Tells one voter that its leader resigns.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EndQuorumEpochRequest {
    /// The sender's cluster; null skips the check.
    pub cluster_id: Option<String>,
    /// The leaderships that end.
    pub topics: Vec<Topic<EndQuorumEpochRequestPartition>>,
    /// Version 1: where the leader can be reached.
    pub leader_endpoints: Vec<LeaderEndpoint>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for EndQuorumEpochRequest {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.nullable_string("ClusterId", &mut self.cluster_id)?;
        c.array("Topics", &mut self.topics, version)?;
        if version >= 1 {
            c.array("LeaderEndpoints", &mut self.leader_endpoints, version)?;
        }
        c.unknown_tags(&mut self.tags)
    }
}

/// One leadership that ends.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EndQuorumEpochRequestPartition {
    /// The partition.
    pub partition_index: i32,
    /// The leader that resigns.
    pub leader_id: i32,
    /// Its epoch.
    pub leader_epoch: i32,
    /// Version 0 only: the ids that should stand, the best first.
    pub preferred_successors: Vec<i32>,
    /// Version 1: the replicas that should stand, the best first.
    pub preferred_candidates: Vec<PreferredCandidate>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for EndQuorumEpochRequestPartition {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("PartitionIndex", &mut self.partition_index)?;
        c.i32("LeaderId", &mut self.leader_id)?;
        c.i32("LeaderEpoch", &mut self.leader_epoch)?;
        if version >= 1 {
            c.array("PreferredCandidates", &mut self.preferred_candidates, version)?;
        } else {
            c.array("PreferredSuccessors", &mut self.preferred_successors, version)?;
        }
        c.unknown_tags(&mut self.tags)
    }
}

/// A replica that should stand.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PreferredCandidate {
    /// The node.
    pub candidate_id: i32,
    /// Its directory.
    pub candidate_directory_id: Uuid,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for PreferredCandidate {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i32("CandidateId", &mut self.candidate_id)?;
        c.uuid("CandidateDirectoryId", &mut self.candidate_directory_id)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// The leaders that the voter knows now.
pub type EndQuorumEpochResponse = QuorumResponse<EndQuorumEpochResponsePartition>;

/// What the voter says of one partition.
pub type EndQuorumEpochResponsePartition = LeadershipPartition<{ ApiKey::EndQuorumEpoch.key() }>;

messages!(EndQuorumEpoch: EndQuorumEpochRequest, EndQuorumEpochResponse);
