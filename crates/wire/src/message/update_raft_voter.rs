//! UpdateRaftVoter (KIP-853): a voter tells the leader where it can be reached and which levels of
//! `kraft.version` it supports.

use super::{KRaftVersionFeature, Listener, messages};
use crate::coder::{Coder, Tags, Walk};
use crate::{Error, ErrorCode};
use quorate_base::Uuid;

/// What the voter says of itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UpdateRaftVoterRequest {
    /// The sender's cluster; null skips the check.
    pub cluster_id: Option<String>,
    /// The voter's epoch; -1 skips the check.
    pub current_leader_epoch: i32,
    /// The voter.
    pub voter_id: i32,
    /// Its directory.
    pub voter_directory_id: Uuid,
    /// Where it can be reached.
    pub listeners: Vec<Listener>,
    /// What it supports.
    pub kraft_version_feature: KRaftVersionFeature,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for UpdateRaftVoterRequest {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.nullable_string("ClusterId", &mut self.cluster_id)?;
        c.i32("CurrentLeaderEpoch", &mut self.current_leader_epoch)?;
        c.i32("VoterId", &mut self.voter_id)?;
        c.uuid("VoterDirectoryId", &mut self.voter_directory_id)?;
        c.array("Listeners", &mut self.listeners, version)?;
        c.nested("KRaftVersionFeature", &mut self.kraft_version_feature, version)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// Whether the leader took note.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UpdateRaftVoterResponse {
    /// How long the answer was held back, in milliseconds.
    pub throttle_time_ms: i32,
    /// Why not.
    pub error_code: ErrorCode,
    /// Who leads.
    pub current_leader: Option<UpdateRaftVoterCurrentLeader>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for UpdateRaftVoterResponse {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("ThrottleTimeMs", &mut self.throttle_time_ms)?;
        c.error_code("ErrorCode", &mut self.error_code)?;
        c.tags(&mut self.tags, |c, open| {
            c.tagged_struct(open, 0, "CurrentLeader", &mut self.current_leader, version)
        })
    }
}

/// Who leads, and where it can be reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpdateRaftVoterCurrentLeader {
    /// The leader; -1 unknown.
    pub leader_id: i32,
    /// The latest epoch known; -1 none.
    pub leader_epoch: i32,
    /// The leader's name or address.
    pub host: String,
    /// Its port.
    pub port: i32,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for UpdateRaftVoterCurrentLeader {
    fn default() -> UpdateRaftVoterCurrentLeader {
        let (host, tags) = (String::new(), Tags::new());
        UpdateRaftVoterCurrentLeader { leader_id: -1, leader_epoch: -1, host, port: 0, tags }
    }
}

impl Walk for UpdateRaftVoterCurrentLeader {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i32("LeaderId", &mut self.leader_id)?;
        c.i32("LeaderEpoch", &mut self.leader_epoch)?;
        c.string("Host", &mut self.host)?;
        c.i32("Port", &mut self.port)?;
        c.unknown_tags(&mut self.tags)
    }
}

messages!(UpdateRaftVoter: UpdateRaftVoterRequest, UpdateRaftVoterResponse);
