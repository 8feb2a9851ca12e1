//! AddRaftVoter and RemoveRaftVoter (KIP-853): who is to count, to the core's words and back.
//!
//! Both are an administrator's, or those of a node that adds itself. Their answers show nothing of
//! the leadership, and say in words why a change was refused: Kafka's tools print that.

use super::inbound::{self, Refusal, Refused, check_cluster};
use super::{Names, decrees, error_code, error_kind, features, key, wire_directory};
use crate::level::FORMAT_FEATURE;
use crate::replica::Asked;
use quorate_base::{FormatLevel, ReplicaKey};
use quorate_raft::{AddVoter, ChangeAnswer, RemoveVoter};
use quorate_wire::message::{
    AddRaftVoterRequest, AddRaftVoterResponse, RemoveRaftVoterRequest, RemoveRaftVoterResponse,
    VoterChangeResponse,
};
use quorate_wire::{Error, ErrorCode, Frame, Served, encode_response};

/// How long we say that a leader may take; Kafka's leaders go by their own setting.
const TIMEOUT_MS: i32 = 5_000;

/// A request for one more.
pub(super) fn add(request: AddRaftVoterRequest, names: &Names) -> Result<AddVoter, Refused> {
    check_cluster(request.cluster_id, names)?;
    let key = key(request.voter_id, request.voter_directory_id)
        .ok_or_else(|| inbound::partition_error(ErrorCode::InvalidRequest))?;
    let endpoints = request.listeners.iter().map(decrees::endpoint).collect();
    let replaces = request.replaces.known().filter(|_| names.knows_marks());
    Ok(AddVoter { key, endpoints, when_committed: request.ack_when_committed, replaces })
}

/// A request for one less.
pub(super) fn remove(
    request: RemoveRaftVoterRequest,
    names: &Names,
) -> Result<RemoveVoter, Refused> {
    check_cluster(request.cluster_id, names)?;
    let key = key(request.voter_id, request.voter_directory_id)
        .ok_or_else(|| inbound::partition_error(ErrorCode::InvalidRequest))?;
    Ok(RemoveVoter { key })
}

/// The core's answer.
pub(super) fn answer(asked: Asked, answer: &ChangeAnswer) -> Result<Frame, Error> {
    let words = answer.why.as_ref().map(ToString::to_string);
    refuse(asked, error_code(answer.error), words)
}

/// The answer to a request that did not reach the core; `None` to one of no administrator.
pub(super) fn refusal(
    asked: Asked,
    refusal: &Refusal,
    names: &Names,
) -> Option<Result<Frame, Error>> {
    if asked.api == Served::UpdateFeatures {
        return Some(features::refusal(asked, refusal));
    }
    if !asked.is_change() {
        return None;
    }
    let (code, words) = match refusal {
        Refusal::Cluster(theirs) => {
            let ours = &names.cluster;
            let words = format!(
                "the request is for the cluster {theirs}, and this node is of {ours}; ask a node of that one"
            );
            (ErrorCode::InconsistentClusterId, words)
        }
        Refusal::TopLevel(code) | Refusal::Partition(code) => {
            (*code, "the request names no node id of a voter; name one from 0 up".to_owned())
        }
        Refusal::UnknownPartition { topic, .. } => {
            (ErrorCode::UnknownTopicOrPartition, format!("the request speaks of {topic}"))
        }
    };
    Some(refuse(asked, code, Some(words)))
}

/// The answer to a request for a voter that does not speak the format level of the store, or has
/// not told what it speaks.
pub(crate) fn too_old_to_vote(
    asked: Asked,
    key: ReplicaKey,
    needed: FormatLevel,
    told: Option<FormatLevel>,
) -> Result<Frame, Error> {
    let (code, words) = match told {
        Some(newest) => (
            ErrorCode::InvalidRequest,
            format!(
                "{key} speaks {FORMAT_FEATURE} up to {newest}, and this store is at {needed}: as a voter it would stop itself; start a \
                 newer build there first"
            ),
        ),
        None => (
            ErrorCode::RequestTimedOut,
            format!(
                "{key} has not told this leader which {FORMAT_FEATURE} it speaks, and this store is at {needed}; nothing was changed, \
                 start it as an observer of this quorum and ask again once it has all (a node of Kafka's never tells)"
            ),
        ),
    };
    refuse(asked, code, Some(words))
}

/// An answer with this code and these words; of success, with none.
fn refuse(asked: Asked, code: ErrorCode, words: Option<String>) -> Result<Frame, Error> {
    match asked.api {
        Served::RemoveRaftVoter => {
            let response: RemoveRaftVoterResponse = changed(code, words);
            encode_response(response, asked.version, asked.correlation)
        }
        Served::AddRaftVoter
        | Served::Fetch
        | Served::ApiVersions
        | Served::Vote
        | Served::BeginQuorumEpoch
        | Served::EndQuorumEpoch
        | Served::DescribeQuorum
        | Served::FetchSnapshot
        | Served::DescribeCluster
        | Served::UpdateRaftVoter
        | Served::UpdateFeatures
        | Served::Forward => {
            let response: AddRaftVoterResponse = changed(code, words);
            encode_response(response, asked.version, asked.correlation)
        }
    }
}

fn changed<const API: i16>(
    error_code: ErrorCode,
    error_message: Option<String>,
) -> VoterChangeResponse<API> {
    VoterChangeResponse { error_code, error_message, ..VoterChangeResponse::default() }
}

/// Our own request for one more.
pub(super) fn add_question(add: &AddVoter, names: &Names) -> AddRaftVoterRequest {
    AddRaftVoterRequest {
        cluster_id: Some(names.cluster.clone()),
        timeout_ms: TIMEOUT_MS,
        voter_id: add.key.id.0 as i32,
        voter_directory_id: wire_directory(Some(add.key)),
        listeners: add.endpoints.iter().map(decrees::listener).collect(),
        ack_when_committed: add.when_committed,
        replaces: add.replaces.unwrap_or_default(),
        ..AddRaftVoterRequest::default()
    }
}

/// Our own request for one less.
pub(super) fn remove_question(remove: &RemoveVoter, names: &Names) -> RemoveRaftVoterRequest {
    RemoveRaftVoterRequest {
        cluster_id: Some(names.cluster.clone()),
        voter_id: remove.key.id.0 as i32,
        voter_directory_id: wire_directory(Some(remove.key)),
        ..RemoveRaftVoterRequest::default()
    }
}

/// The answer to either of ours.
pub(super) fn heard<const API: i16>(response: &VoterChangeResponse<API>) -> ChangeAnswer {
    ChangeAnswer { error: error_kind(response.error_code), why: None }
}
