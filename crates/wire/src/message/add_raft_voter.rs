//! AddRaftVoter (KIP-853): makes a voter of an observer. Version 1 can be answered before the
//! change is committed (KIP-1186).
//! Quorate adds one tagged field, number 10595: the directory of the same node whose place the new
//! one takes. A leader that does not know it refuses the id as a voter's already.

use super::marks::MARKS_TAG;
use super::quorum::VoterChangeResponse;
use super::{Listener, messages};
use crate::coder::{Coder, Tags, Walk};
use crate::{ApiKey, Error};
use quorate_base::Uuid;

/// Asks the leader to add a voter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddRaftVoterRequest {
    /// The sender's cluster; null skips the check.
    pub cluster_id: Option<String>,
    /// How long the leader may take, in milliseconds.
    pub timeout_ms: i32,
    /// The new voter.
    pub voter_id: i32,
    /// Its directory.
    pub voter_directory_id: Uuid,
    /// Where it can be reached.
    pub listeners: Vec<Listener>,
    /// Version 1: whether the answer waits until the change is committed. Version 0 always waits.
    pub ack_when_committed: bool,
    /// Ours: the directory of the same node that goes; zero none.
    pub replaces: Uuid,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for AddRaftVoterRequest {
    fn default() -> AddRaftVoterRequest {
        AddRaftVoterRequest {
            cluster_id: None,
            timeout_ms: 0,
            voter_id: 0,
            voter_directory_id: Uuid::ZERO,
            listeners: Vec::new(),
            ack_when_committed: true,
            replaces: Uuid::ZERO,
            tags: Tags::new(),
        }
    }
}

impl Walk for AddRaftVoterRequest {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.nullable_string("ClusterId", &mut self.cluster_id)?;
        c.i32("TimeoutMs", &mut self.timeout_ms)?;
        c.i32("VoterId", &mut self.voter_id)?;
        c.uuid("VoterDirectoryId", &mut self.voter_directory_id)?;
        c.array("Listeners", &mut self.listeners, version)?;
        if version >= 1 {
            c.bool("AckWhenCommitted", &mut self.ack_when_committed)?;
        } else {
            c.lacks("AckWhenCommitted", !self.ack_when_committed, version)?;
        }
        c.tags(&mut self.tags, |c, open| {
            c.tag(open, MARKS_TAG, &mut self.replaces, Uuid::ZERO, |c, replaces| {
                c.uuid("Replaces", replaces)
            })
        })
    }
}

/// Whether the voter was added.
pub type AddRaftVoterResponse = VoterChangeResponse<{ ApiKey::AddRaftVoter.key() }>;

messages!(AddRaftVoter: AddRaftVoterRequest, AddRaftVoterResponse);
