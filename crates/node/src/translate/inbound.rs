//! Requests of peers into the protocol's words, and its answers into the version that was asked
//! for.

use super::{
    Names, PARTITION, changes, decrees, error_code, features, key, replica, snapshot, wire_id,
};
use crate::replica::Asked;
use bytes::Bytes;
use quorate_base::{Epoch, FormatLevel, Offset, OffsetEpoch, Span, Uuid};
use quorate_raft as raft;
use quorate_raft::{FetchHighWatermark, Fetched, LeaderView};
use quorate_wire::message as wire;
use quorate_wire::{Error, ErrorCode, Frame, RequestFrame, Served, encode_response};

/// The most that one fetch is answered with, whatever it asks for, but for a batch that is larger:
/// Kafka's limit. What a peer asks for is memory of ours.
const FETCH_BYTES_MAX: u32 = 8 << 20;

/// Why a request does not reach the core.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Its bytes are no such request: Kafka closes the connection.
    Close(String),
    /// It has an answer all the same.
    Answer(Refusal),
}

/// An error answer that needs no state but who leads.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The request is meant for this other cluster.
    Cluster(String),
    /// The request speaks of another partition, or of several.
    TopLevel(ErrorCode),
    /// A field is out of range.
    Partition(ErrorCode),
    /// The request speaks of this partition, and none is ours.
    UnknownPartition { topic: String, partition: i32 },
}

pub(super) fn close(error: Error) -> Refused {
    Refused::Close(error.to_string())
}

pub(super) fn partition_error(code: ErrorCode) -> Refused {
    Refused::Answer(Refusal::Partition(code))
}

/// A request of the protocol.
pub(crate) fn request(
    request: RequestFrame,
    api: Served,
    names: &Names,
) -> Result<raft::Request, Refused> {
    match api {
        Served::Vote => vote(request.decode().map_err(close)?, names).map(raft::Request::Vote),
        Served::BeginQuorumEpoch => {
            begin(request.decode().map_err(close)?, names).map(raft::Request::BeginQuorumEpoch)
        }
        Served::EndQuorumEpoch => {
            end(request.decode().map_err(close)?, names).map(raft::Request::EndQuorumEpoch)
        }
        Served::Fetch => {
            let version = request.header.version;
            fetch(request.decode().map_err(close)?, version, names).map(raft::Request::Fetch)
        }
        Served::FetchSnapshot => {
            snapshot::request(request, names).map(raft::Request::FetchSnapshot)
        }
        Served::UpdateRaftVoter => {
            decrees::update(request.decode().map_err(close)?, names).map(raft::Request::UpdateVoter)
        }
        Served::AddRaftVoter => {
            changes::add(request.decode().map_err(close)?, names).map(raft::Request::AddVoter)
        }
        Served::RemoveRaftVoter => {
            changes::remove(request.decode().map_err(close)?, names).map(raft::Request::RemoveVoter)
        }
        Served::ApiVersions
        | Served::Forward
        | Served::UpdateFeatures
        | Served::DescribeQuorum
        | Served::DescribeCluster => Err(Refused::Close("not a request of the protocol".into())),
    }
}

pub(super) fn check_cluster(theirs: Option<String>, names: &Names) -> Result<(), Refused> {
    match theirs {
        Some(theirs) if theirs != names.cluster => Err(Refused::Answer(Refusal::Cluster(theirs))),
        Some(_) | None => Ok(()),
    }
}

/// The one partition that a request may speak of.
fn only<T>(items: Vec<T>, is_ours: impl FnOnce(&T) -> bool) -> Result<T, Refused> {
    let mut items = items.into_iter();
    match (items.next(), items.next()) {
        (Some(item), None) if is_ours(&item) => Ok(item),
        (_, _) => Err(Refused::Answer(Refusal::TopLevel(ErrorCode::InvalidRequest))),
    }
}

fn only_partition<P>(
    topics: Vec<wire::Topic<P>>,
    names: &Names,
    index: impl FnOnce(&P) -> i32,
) -> Result<P, Refused> {
    let topic = only(topics, |topic| topic.topic_name == names.topic)?;
    only(topic.partitions, |partition| index(partition) == PARTITION)
}

/// A negative epoch is below every epoch there is.
pub(super) fn epoch(number: i32) -> Result<Epoch, Refused> {
    u32::try_from(number).map(Epoch).map_err(|_| partition_error(ErrorCode::FencedLeaderEpoch))
}

fn position(offset: i64, last_epoch: i32) -> Result<OffsetEpoch, Refused> {
    match (u64::try_from(offset), u32::try_from(last_epoch)) {
        (Ok(offset), Ok(epoch)) => Ok(OffsetEpoch::new(Offset(offset), Epoch(epoch))),
        (_, _) => Err(partition_error(ErrorCode::InvalidRequest)),
    }
}

fn vote(request: wire::VoteRequest, names: &Names) -> Result<raft::Vote, Refused> {
    check_cluster(request.cluster_id, names)?;
    let asked = only_partition(request.topics, names, |partition| partition.partition_index)?;
    let last = position(asked.last_offset, asked.last_offset_epoch)?;
    let candidate = key(asked.replica_id, asked.replica_directory_id);
    Ok(raft::Vote {
        epoch: epoch(asked.replica_epoch)?,
        candidate: candidate.ok_or_else(|| partition_error(ErrorCode::InvalidRequest))?,
        voter: key(request.voter_id, asked.voter_directory_id),
        last,
        pre_vote: asked.pre_vote,
    })
}

fn leader_endpoints(endpoints: Vec<wire::LeaderEndpoint>) -> std::sync::Arc<[raft::Endpoint]> {
    let endpoint = |at: wire::LeaderEndpoint| raft::Endpoint {
        listener: at.name,
        host: at.host,
        port: at.port,
    };
    endpoints.into_iter().map(endpoint).collect()
}

fn begin(
    request: wire::BeginQuorumEpochRequest,
    names: &Names,
) -> Result<raft::BeginQuorumEpoch, Refused> {
    check_cluster(request.cluster_id, names)?;
    let told = only_partition(request.topics, names, |partition| partition.partition_index)?;
    Ok(raft::BeginQuorumEpoch {
        epoch: epoch(told.leader_epoch)?,
        leader: replica(told.leader_id)
            .ok_or_else(|| partition_error(ErrorCode::InvalidRequest))?,
        voter: key(request.voter_id, told.voter_directory_id),
        endpoints: leader_endpoints(request.leader_endpoints),
    })
}

fn end(
    request: wire::EndQuorumEpochRequest,
    names: &Names,
) -> Result<raft::EndQuorumEpoch, Refused> {
    check_cluster(request.cluster_id, names)?;
    let told = only_partition(request.topics, names, |partition| partition.partition_index)?;
    let candidates = told.preferred_candidates.iter();
    let mut successors: Vec<_> =
        candidates.filter_map(|c| key(c.candidate_id, c.candidate_directory_id)).collect();
    // Version 0 names ids only.
    successors.extend(told.preferred_successors.iter().filter_map(|id| key(*id, Uuid::ZERO)));
    Ok(raft::EndQuorumEpoch {
        epoch: epoch(told.leader_epoch)?,
        leader: replica(told.leader_id)
            .ok_or_else(|| partition_error(ErrorCode::InvalidRequest))?,
        successors,
        endpoints: leader_endpoints(request.leader_endpoints),
    })
}

fn fetch(request: wire::FetchRequest, version: i16, names: &Names) -> Result<raft::Fetch, Refused> {
    check_cluster(request.cluster_id, names)?;
    let topic = only(request.topics, |topic| match version {
        ..=12 => topic.topic == names.topic,
        _ => topic.topic_id == names.topic_id,
    })?;
    let asked = only(topic.partitions, |partition| partition.partition == PARTITION)?;
    let from = position(asked.fetch_offset, asked.last_fetched_epoch)?;
    let Ok(max_wait_ms) = u64::try_from(request.max_wait_ms) else {
        return Err(partition_error(ErrorCode::InvalidRequest));
    };
    let marks = asked.marks.filter(|_| names.knows_marks());
    Ok(raft::Fetch {
        epoch: epoch(asked.current_leader_epoch)?,
        replica: request
            .replica_state
            .and_then(|state| key(state.replica_id, asked.replica_directory_id)),
        from,
        high_watermark: match asked.high_watermark {
            // The default, for versions that cannot say.
            i64::MAX => FetchHighWatermark::Unsaid,
            told => FetchHighWatermark::Known(u64::try_from(told).ok().map(Offset)),
        },
        max_wait: Span::ms(max_wait_ms),
        max_bytes: u32::try_from(request.max_bytes).unwrap_or(0).min(FETCH_BYTES_MAX),
        never_leads: marks.as_ref().is_some_and(|marks| marks.understands & wire::NEVER_LEADS != 0),
        no_room: marks.as_ref().is_some_and(|marks| marks.understands & wire::NO_ROOM != 0),
        format_level: FormatLevel(marks.as_ref().map_or(0, |marks| marks.format_level)),
        history: marks.as_ref().and_then(|marks| super::history(marks.history)),
        round: marks.map(|marks| u64::try_from(marks.read_round).unwrap_or(0)),
    })
}

/// The core's answer in the version of its request; `records` fill the range of a fetch answer.
pub(crate) fn response(
    asked: Asked,
    body: raft::Response,
    records: Vec<Bytes>,
    names: &Names,
) -> Result<Frame, Error> {
    match body {
        raft::Response::Vote(answer) => {
            let partition = wire::VoteResponsePartition {
                partition_index: PARTITION,
                error_code: error_code(answer.view.error),
                leader_id: wire_id(answer.view.leader),
                leader_epoch: answer.view.epoch.0 as i32,
                vote_granted: answer.granted,
                ..wire::VoteResponsePartition::default()
            };
            quorum_response(asked, partition, &answer.view, names)
        }
        raft::Response::BeginQuorumEpoch(view) => {
            let partition = wire::BeginQuorumEpochResponsePartition {
                partition_index: PARTITION,
                error_code: error_code(view.error),
                leader_id: wire_id(view.leader),
                leader_epoch: view.epoch.0 as i32,
                ..wire::BeginQuorumEpochResponsePartition::default()
            };
            quorum_response(asked, partition, &view, names)
        }
        raft::Response::EndQuorumEpoch(view) => {
            let partition = wire::EndQuorumEpochResponsePartition {
                partition_index: PARTITION,
                error_code: error_code(view.error),
                leader_id: wire_id(view.leader),
                leader_epoch: view.epoch.0 as i32,
                ..wire::EndQuorumEpochResponsePartition::default()
            };
            quorum_response(asked, partition, &view, names)
        }
        raft::Response::Fetch(answer) => fetch_response(asked, answer, records, names),
        raft::Response::FetchSnapshot(answer) => {
            snapshot::piece_response(asked, answer, join(records), names)
        }
        raft::Response::UpdateVoter(view) => {
            let response = decrees::updated(error_code(view.error), &view);
            encode_response(response, asked.version, asked.correlation)
        }
        raft::Response::AddVoter(answer) | raft::Response::RemoveVoter(answer) => {
            changes::answer(asked, &answer)
        }
        raft::Response::Upgrade(answer) => features::answer(asked, &answer),
    }
}

/// Where the leader listens, in the versions that can say so.
pub(super) fn node_endpoints(asked: Asked, view: &LeaderView) -> Vec<wire::NodeEndpoint> {
    match (view.leader, view.endpoints.first(), asked.version) {
        (Some(leader), Some(at), 1..) => vec![wire::NodeEndpoint {
            node_id: leader.0 as i32,
            host: at.host.clone(),
            port: at.port,
            ..wire::NodeEndpoint::default()
        }],
        (_, _, _) => Vec::new(),
    }
}

fn quorum_response<P>(
    asked: Asked,
    partition: P,
    view: &LeaderView,
    names: &Names,
) -> Result<Frame, Error>
where
    wire::QuorumResponse<P>: wire::Message,
{
    let node_endpoints = node_endpoints(asked, view);
    let topic = wire::Topic {
        topic_name: names.topic.clone(),
        partitions: vec![partition],
        tags: Default::default(),
    };
    let response = wire::QuorumResponse {
        error_code: ErrorCode::None,
        topics: vec![topic],
        node_endpoints,
        tags: Default::default(),
    };
    encode_response(response, asked.version, asked.correlation)
}

fn fetch_response(
    asked: Asked,
    answer: raft::FetchAnswer,
    records: Vec<Bytes>,
    names: &Names,
) -> Result<Frame, Error> {
    let mut partition = wire::FetchResponsePartition {
        partition_index: PARTITION,
        error_code: error_code(answer.view.error),
        high_watermark: answer.high_watermark.map_or(-1, |offset| offset.0 as i64),
        log_start_offset: answer.start.0 as i64,
        current_leader: Some(wire::LeaderIdAndEpoch {
            leader_id: wire_id(answer.view.leader),
            leader_epoch: answer.view.epoch.0 as i32,
            ..wire::LeaderIdAndEpoch::default()
        }),
        records: Some(join(records)),
        ..wire::FetchResponsePartition::default()
    };
    match answer.fetched {
        Fetched::Diverging(end) => {
            partition.diverging_epoch = Some(wire::DivergingEpoch {
                epoch: end.epoch.0 as i32,
                end_offset: end.offset.0 as i64,
                ..wire::DivergingEpoch::default()
            });
        }
        Fetched::Snapshot(id) => {
            partition.snapshot_id = Some(wire::SnapshotId {
                end_offset: id.offset.0 as i64,
                epoch: id.epoch.0 as i32,
                ..wire::SnapshotId::default()
            });
        }
        Fetched::Nothing | Fetched::Range { .. } | Fetched::Batches(_) => {}
    }
    if let Some(round) = answer.round {
        let number = |offset: Option<Offset>| offset.map_or(-1, |offset| offset.0 as i64);
        partition.marks = Some(wire::LeaderMarks {
            dirty: number(answer.cleaned.map(|cleaned| cleaned.dirty)),
            clean: number(answer.cleaned.map(|cleaned| cleaned.clean)),
            tombstone_horizon: number(answer.cleaned.map(|cleaned| cleaned.horizon)),
            tombstone_bound: number(answer.bound),
            read_round: round as i64,
            history: answer.history.map_or(0, |history| history as i64),
            ..wire::LeaderMarks::default()
        });
    }
    let mut topic = wire::FetchTopic { partitions: vec![partition], ..wire::FetchTopic::default() };
    match asked.version {
        ..=12 => topic.topic.clone_from(&names.topic),
        _ => topic.topic_id = names.topic_id,
    }
    let mut response =
        wire::FetchResponse { responses: vec![topic], ..wire::FetchResponse::default() };
    if let (Some(leader), 16.., Some(at)) =
        (answer.view.leader, asked.version, answer.view.endpoints.first())
    {
        response.node_endpoints.push(wire::FetchNodeEndpoint {
            node_id: leader.0 as i32,
            host: at.host.clone(),
            port: i32::from(at.port),
            ..wire::FetchNodeEndpoint::default()
        });
    }
    encode_response(response, asked.version, asked.correlation)
}

/// One buffer for the message. Nearly always there is one batch or none: then nothing is copied.
fn join(mut records: Vec<Bytes>) -> Bytes {
    match records.len() {
        0 => Bytes::new(),
        1 => records.remove(0),
        _ => records.concat().into(),
    }
}

/// An error answer to a request that did not reach the core.
pub(crate) fn refusal(
    asked: Asked,
    refusal: Refusal,
    view: &LeaderView,
    names: &Names,
) -> Result<Frame, Error> {
    if let Some(answer) = changes::refusal(asked, &refusal, names) {
        return answer;
    }
    let code = match refusal {
        Refusal::Cluster(_) => ErrorCode::InconsistentClusterId,
        Refusal::TopLevel(code) => code,
        Refusal::UnknownPartition { topic, partition } => {
            let code = ErrorCode::UnknownTopicOrPartition;
            return snapshot::refuse(asked, topic, partition, code, view);
        }
        Refusal::Partition(code) if asked.api == Served::FetchSnapshot => {
            return snapshot::refuse(asked, names.topic.clone(), PARTITION, code, view);
        }
        Refusal::Partition(code) => {
            let view = LeaderView { error: super::error_kind(code), ..view.clone() };
            let body = match asked.api {
                Served::Vote => raft::Response::Vote(raft::VoteAnswer { view, granted: false }),
                Served::BeginQuorumEpoch => raft::Response::BeginQuorumEpoch(view),
                Served::EndQuorumEpoch => raft::Response::EndQuorumEpoch(view),
                Served::UpdateRaftVoter => raft::Response::UpdateVoter(view),
                Served::Fetch
                | Served::ApiVersions
                | Served::Forward
                | Served::DescribeQuorum
                | Served::FetchSnapshot
                | Served::AddRaftVoter
                | Served::RemoveRaftVoter
                | Served::UpdateFeatures
                | Served::DescribeCluster => {
                    raft::Response::Fetch(raft::FetchAnswer::refusal(view, Offset::ZERO))
                }
            };
            return response(asked, body, Vec::new(), names);
        }
    };
    let (version, correlation) = (asked.version, asked.correlation);
    match asked.api {
        Served::Vote => {
            let response = wire::VoteResponse { error_code: code, ..wire::VoteResponse::default() };
            encode_response(response, version, correlation)
        }
        Served::BeginQuorumEpoch => {
            let response =
                wire::BeginQuorumEpochResponse { error_code: code, ..Default::default() };
            encode_response(response, version, correlation)
        }
        Served::EndQuorumEpoch => {
            let response = wire::EndQuorumEpochResponse { error_code: code, ..Default::default() };
            encode_response(response, version, correlation)
        }
        Served::FetchSnapshot => snapshot::refuse_whole(asked, code),
        Served::UpdateRaftVoter => {
            encode_response(decrees::updated(code, view), version, correlation)
        }
        Served::Fetch
        | Served::ApiVersions
        | Served::Forward
        | Served::DescribeQuorum
        | Served::AddRaftVoter
        | Served::RemoveRaftVoter
        | Served::UpdateFeatures
        | Served::DescribeCluster => {
            let response =
                wire::FetchResponse { error_code: code, ..wire::FetchResponse::default() };
            encode_response(response, version, correlation)
        }
    }
}
