//! Kafka's messages to the protocol's and back: the only place that knows versions, -1, topics and
//! cluster ids.
//!
//! Requests are judged here as far as their form goes (cluster id, topic, partition); what needs
//! the state of the quorum is left to the core. Nothing here has state or touches a connection.

mod changes;
mod decrees;
mod describe;
mod features;
mod forwarding;
mod inbound;
mod outbound;
mod snapshot;
mod versions;

pub(crate) use changes::too_old_to_vote;
pub(crate) use decrees::{decree_of, founded, head};
pub(crate) use describe::{Moment, describe_cluster, describe_quorum};
pub(crate) use features::{Wanted, raised, wanted};
pub(crate) use forwarding::{
    ForwardAnswer, ForwardedRequest, Passed, forward_answer, forward_refusal, forward_request,
    forward_response, forwarded,
};
pub(crate) use inbound::{Refusal, Refused, refusal, request, response};
pub(crate) use outbound::{Payload, answer, hello};
pub(crate) use versions::{Format, api_versions, unsupported};

use crate::config::Generation;
use bytes::Bytes;
use quorate_base::{Epoch, Offset, ReplicaId, ReplicaKey, Uuid};
use quorate_log::{ControlType, Election, control_batch};
use quorate_raft::{ControlRecord, ElectionState, Endpoint, ErrorKind};
use quorate_wire::ErrorCode;
use quorate_wire::record::control;
use std::sync::Arc;

/// What every message of this node has in common.
#[derive(Clone, Debug)]
pub struct Names {
    /// `cluster.id`.
    pub cluster: String,
    /// The raft partition's topic; its partition is 0.
    pub topic: String,
    /// The topic's id.
    pub topic_id: Uuid,
    /// Name of the controller listener.
    pub listener: String,
    /// The versions that they are in.
    pub speaks: Generation,
}

/// The partition that all messages speak of.
const PARTITION: i32 = 0;

/// The feature whose levels say whether the log names the voters.
const KRAFT_VERSION: &str = "kraft.version";

/// -1 is nobody.
fn replica(id: i32) -> Option<ReplicaId> {
    u32::try_from(id).ok().map(ReplicaId)
}

fn wire_id(id: Option<ReplicaId>) -> i32 {
    id.map_or(-1, |id| id.0 as i32)
}

fn key(id: i32, directory: Uuid) -> Option<ReplicaKey> {
    replica(id).map(|id| ReplicaKey::new(id, directory.known()))
}

fn wire_directory(key: Option<ReplicaKey>) -> Uuid {
    key.and_then(|key| key.directory).unwrap_or_default()
}

fn error_code(kind: ErrorKind) -> ErrorCode {
    match kind {
        ErrorKind::None => ErrorCode::None,
        ErrorKind::FencedLeaderEpoch => ErrorCode::FencedLeaderEpoch,
        ErrorKind::UnknownLeaderEpoch => ErrorCode::UnknownLeaderEpoch,
        ErrorKind::NotLeaderOrFollower => ErrorCode::NotLeaderOrFollower,
        ErrorKind::InvalidRequest => ErrorCode::InvalidRequest,
        ErrorKind::InvalidVoterKey => ErrorCode::InvalidVoterKey,
        ErrorKind::BrokerNotAvailable => ErrorCode::BrokerNotAvailable,
        ErrorKind::UnsupportedVersion => ErrorCode::UnsupportedVersion,
        ErrorKind::InconsistentClusterId => ErrorCode::InconsistentClusterId,
        ErrorKind::SnapshotNotFound => ErrorCode::SnapshotNotFound,
        ErrorKind::PositionOutOfRange => ErrorCode::PositionOutOfRange,
        ErrorKind::RequestTimedOut => ErrorCode::RequestTimedOut,
        ErrorKind::VoterNotFound => ErrorCode::VoterNotFound,
        ErrorKind::DuplicateVoter => ErrorCode::DuplicateVoter,
        ErrorKind::InvalidUpdateVersion => ErrorCode::InvalidUpdateVersion,
        ErrorKind::Other(code) => ErrorCode::from_code(code),
    }
}

fn error_kind(code: ErrorCode) -> ErrorKind {
    let known = [
        ErrorKind::None,
        ErrorKind::FencedLeaderEpoch,
        ErrorKind::UnknownLeaderEpoch,
        ErrorKind::NotLeaderOrFollower,
        ErrorKind::InvalidRequest,
        ErrorKind::InvalidVoterKey,
        ErrorKind::BrokerNotAvailable,
        ErrorKind::UnsupportedVersion,
        ErrorKind::InconsistentClusterId,
        ErrorKind::SnapshotNotFound,
        ErrorKind::PositionOutOfRange,
        ErrorKind::RequestTimedOut,
        ErrorKind::VoterNotFound,
        ErrorKind::DuplicateVoter,
        ErrorKind::InvalidUpdateVersion,
    ];
    known
        .into_iter()
        .find(|kind| error_code(*kind) == code)
        .unwrap_or(ErrorKind::Other(code.code()))
}

fn endpoints(listener: &str, host: &str, port: u16) -> Arc<[Endpoint]> {
    Arc::from([Endpoint { listener: listener.to_owned(), host: host.to_owned(), port }])
}

/// What the quorum-state file is to say.
pub(crate) fn election(
    state: &ElectionState,
    voters: impl IntoIterator<Item = ReplicaId>,
) -> Election {
    Election {
        epoch: state.epoch,
        leader: state.leader,
        voted: state.voted,
        voters: voters.into_iter().collect(),
    }
}

/// The batch of a record that the quorum writes about itself.
pub(crate) fn control(
    record: &ControlRecord,
    base: Offset,
    epoch: Epoch,
    timestamp_ms: i64,
) -> Bytes {
    match record {
        ControlRecord::LeaderChange { leader, voters, granting, decree } => {
            let voter = |key: &ReplicaKey| control::Voter {
                voter_id: key.id.0 as i32,
                ..control::Voter::default()
            };
            let record = control::LeaderChange {
                // Without directories, as Kafka 4.3 writes it.
                version: 0,
                leader_id: leader.0 as i32,
                voters: voters.iter().map(voter).collect(),
                granting_voters: granting.iter().map(voter).collect(),
                ..control::LeaderChange::default()
            };
            let value = record.encode().expect("a voter set fits in a record");
            let mut records = vec![(ControlType::LeaderChange, value)];
            records.extend(decree.iter().flat_map(head));
            control_batch(base, epoch, timestamp_ms, &records)
        }
        ControlRecord::Voters { decree } => control_batch(base, epoch, timestamp_ms, &head(decree)),
    }
}

/// 0 is none.
fn history(told: i64) -> Option<u64> {
    u64::try_from(told).ok().filter(|told| *told > 0)
}
