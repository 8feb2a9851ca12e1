//! Vote (KIP-595): asks the other voters for their vote. Version 1 names directories (KIP-853),
//! version 2 can ask for a pre-vote (KIP-996).

use super::{QuorumResponse, Topic, messages};
use crate::coder::{Coder, Tags, Walk};
use crate::{Error, ErrorCode};
use quorate_base::Uuid;

/// Asks one voter for its vote.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VoteRequest {
    /// The sender's cluster; null skips the check.
    pub cluster_id: Option<String>,
    /// Version 1: who is asked; -1 unknown.
    pub voter_id: i32,
    /// The candidacies.
    pub topics: Vec<Topic<VoteRequestPartition>>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for VoteRequest {
    fn default() -> VoteRequest {
        VoteRequest { cluster_id: None, voter_id: -1, topics: Vec::new(), tags: Tags::new() }
    }
}

impl Walk for VoteRequest {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.nullable_string("ClusterId", &mut self.cluster_id)?;
        if version >= 1 {
            c.i32("VoterId", &mut self.voter_id)?;
        }
        c.array("Topics", &mut self.topics, version)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// One candidacy.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VoteRequestPartition {
    /// The partition.
    pub partition_index: i32,
    /// The candidate's epoch.
    pub replica_epoch: i32,
    /// The candidate.
    pub replica_id: i32,
    /// Version 1: the candidate's directory.
    pub replica_directory_id: Uuid,
    /// Version 1: the directory of the voter that is asked.
    pub voter_directory_id: Uuid,
    /// The epoch of the candidate's last record.
    pub last_offset_epoch: i32,
    /// The candidate's log end.
    pub last_offset: i64,
    /// Version 2: asks how the vote would be, without effect. Older versions refuse to encode it:
    /// they would ask for a vote in earnest.
    pub pre_vote: bool,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for VoteRequestPartition {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("PartitionIndex", &mut self.partition_index)?;
        c.i32("ReplicaEpoch", &mut self.replica_epoch)?;
        c.i32("ReplicaId", &mut self.replica_id)?;
        if version >= 1 {
            c.uuid("ReplicaDirectoryId", &mut self.replica_directory_id)?;
            c.uuid("VoterDirectoryId", &mut self.voter_directory_id)?;
        }
        c.i32("LastOffsetEpoch", &mut self.last_offset_epoch)?;
        c.i64("LastOffset", &mut self.last_offset)?;
        if version >= 2 {
            c.bool("PreVote", &mut self.pre_vote)?;
        } else {
            c.lacks("PreVote", self.pre_vote, version)?;
        }
        c.unknown_tags(&mut self.tags)
    }
}

/// The votes.
pub type VoteResponse = QuorumResponse<VoteResponsePartition>;

/// One vote.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VoteResponsePartition {
    /// The partition.
    pub partition_index: i32,
    /// Why the request was not considered.
    pub error_code: ErrorCode,
    /// The leader, if the voter knows one; else -1.
    pub leader_id: i32,
    /// The voter's epoch.
    pub leader_epoch: i32,
    /// Whether the vote is granted.
    pub vote_granted: bool,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for VoteResponsePartition {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i32("PartitionIndex", &mut self.partition_index)?;
        c.error_code("ErrorCode", &mut self.error_code)?;
        c.i32("LeaderId", &mut self.leader_id)?;
        c.i32("LeaderEpoch", &mut self.leader_epoch)?;
        c.bool("VoteGranted", &mut self.vote_granted)?;
        c.unknown_tags(&mut self.tags)
    }
}

messages!(Vote: VoteRequest, VoteResponse);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ApiKey, RequestHeader, encode_request};

    #[test]
    fn a_pre_vote_never_becomes_a_vote_in_earnest() {
        let partition = VoteRequestPartition { pre_vote: true, ..VoteRequestPartition::default() };
        let topic = Topic { partitions: vec![partition], ..Topic::default() };
        let request = VoteRequest { topics: vec![topic], ..VoteRequest::default() };
        let encode = |version| {
            encode_request(RequestHeader::new(ApiKey::Vote, version, 0, None), request.clone())
        };
        assert_eq!(encode(1), Err(Error::NotInVersion { field: "PreVote", version: 1 }));
        assert!(encode(2).is_ok());
    }
}
