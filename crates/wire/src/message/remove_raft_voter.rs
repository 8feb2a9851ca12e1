//! RemoveRaftVoter (KIP-853): takes its vote from a voter.

use super::messages;
use super::quorum::VoterChangeResponse;
use crate::coder::{Coder, Tags, Walk};
use crate::{ApiKey, Error};
use quorate_base::Uuid;

/// Asks the leader to remove a voter.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RemoveRaftVoterRequest {
    /// The sender's cluster; null skips the check.
    pub cluster_id: Option<String>,
    /// The voter.
    pub voter_id: i32,
    /// Its directory.
    pub voter_directory_id: Uuid,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for RemoveRaftVoterRequest {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.nullable_string("ClusterId", &mut self.cluster_id)?;
        c.i32("VoterId", &mut self.voter_id)?;
        c.uuid("VoterDirectoryId", &mut self.voter_directory_id)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// Whether the voter was removed.
pub type RemoveRaftVoterResponse = VoterChangeResponse<{ ApiKey::RemoveRaftVoter.key() }>;

messages!(RemoveRaftVoter: RemoveRaftVoterRequest, RemoveRaftVoterResponse);
