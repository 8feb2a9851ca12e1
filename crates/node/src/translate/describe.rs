//! What Kafka's tools ask: who leads, votes and observes (DescribeQuorum), and which nodes there
//! are (DescribeCluster, asked of controllers directly since KIP-919). Answers only; nothing
//! changes.

use super::inbound::Refused;
use super::{Names, PARTITION, wire_id};
use crate::replica::Asked;
use quorate_base::{Offset, ReplicaKey, Time};
use quorate_raft::{Endpoint, Progress, RoleName, View};
use quorate_wire::message as wire;
use quorate_wire::{Error, ErrorCode, Frame, RequestFrame, encode_response};

/// The moment of an answer by both clocks: Kafka's tools want the time of day.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    pub now: Time,
    pub wall_ms: i64,
}

impl Moment {
    fn wall(self, at: Option<Time>) -> i64 {
        at.map_or(-1, |at| self.wall_ms - self.now.since(at).as_ms() as i64)
    }
}

/// Only the leader knows how far the others are; the rest of the quorum says so.
pub(crate) fn describe_quorum(
    request: RequestFrame,
    asked: Asked,
    view: &View<'_>,
    own: Option<ReplicaKey>,
    at: Moment,
    names: &Names,
) -> Result<Frame, Refused> {
    let request: wire::DescribeQuorumRequest = request.decode().map_err(close)?;
    let ours = |name: &str, index: i32| name == names.topic && index == PARTITION;
    let topics = request.topics.into_iter().map(|topic| {
        let partition = |asked: wire::DescribeQuorumRequestPartition| {
            let index = asked.partition_index;
            match ours(&topic.topic_name, index) {
                true => quorum(view, own, at),
                false => refusal(index, ErrorCode::UnknownTopicOrPartition),
            }
        };
        wire::Topic {
            partitions: topic.partitions.into_iter().map(partition).collect(),
            topic_name: topic.topic_name.clone(),
            tags: Default::default(),
        }
    });
    let response = wire::DescribeQuorumResponse {
        topics: topics.collect(),
        nodes: view.voters.iter().map(|voter| node(voter.key, &voter.endpoints)).collect(),
        error_message: nothing_wrong(),
        ..wire::DescribeQuorumResponse::default()
    };
    encode_response(response, asked.version, asked.correlation).map_err(close)
}

/// Kafka's words where there is no error: none, but not null.
fn nothing_wrong() -> Option<String> {
    Some(String::new())
}

fn close(error: Error) -> Refused {
    Refused::Close(error.to_string())
}

fn refusal(index: i32, code: ErrorCode) -> wire::DescribeQuorumResponsePartition {
    wire::DescribeQuorumResponsePartition {
        partition_index: index,
        error_code: code,
        error_message: code.name().map(str::to_owned),
        ..wire::DescribeQuorumResponsePartition::default()
    }
}

fn quorum(
    view: &View<'_>,
    own: Option<ReplicaKey>,
    at: Moment,
) -> wire::DescribeQuorumResponsePartition {
    let (RoleName::Leader, Some(own)) = (view.role, own) else {
        return refusal(PARTITION, ErrorCode::NotLeaderOrFollower);
    };
    let now = Some(at.now);
    let leader = replica(own, Some(view.durable), now, now, at);
    // A removed leader leads until that is committed, and votes no more.
    let votes = view.voters.iter().any(|voter| voter.key.names(own));
    let followers = view.followers.iter().map(|progress| progressed(progress, at));
    let mut voters: Vec<wire::QuorumReplica> = followers.chain(votes.then_some(leader)).collect();
    voters.sort_by_key(|voter| voter.replica_id);
    wire::DescribeQuorumResponsePartition {
        partition_index: PARTITION,
        error_message: nothing_wrong(),
        leader_id: wire_id(view.leader),
        leader_epoch: view.epoch.0 as i32,
        high_watermark: view.high_watermark.map_or(-1, |offset| offset.0 as i64),
        current_voters: voters,
        observers: view.observers.iter().map(|progress| progressed(progress, at)).collect(),
        ..wire::DescribeQuorumResponsePartition::default()
    }
}

fn progressed(progress: &Progress, at: Moment) -> wire::QuorumReplica {
    let key = progress.key;
    replica(key, progress.end, progress.fetched_at, progress.caught_up_at, at)
}

fn replica(
    key: ReplicaKey,
    end: Option<Offset>,
    fetched: Option<Time>,
    caught_up: Option<Time>,
    at: Moment,
) -> wire::QuorumReplica {
    wire::QuorumReplica {
        replica_id: key.id.0 as i32,
        replica_directory_id: key.directory.unwrap_or_default(),
        log_end_offset: end.map_or(-1, |end| end.0 as i64),
        last_fetch_timestamp: at.wall(fetched),
        last_caught_up_timestamp: at.wall(caught_up),
        ..wire::QuorumReplica::default()
    }
}

fn node(key: ReplicaKey, endpoints: &[Endpoint]) -> wire::QuorumNode {
    wire::QuorumNode {
        node_id: key.id.0 as i32,
        listeners: endpoints.iter().map(super::decrees::listener).collect(),
        ..wire::QuorumNode::default()
    }
}

/// The controllers of the cluster. A client that takes this node for a broker is told so.
pub(crate) fn describe_cluster(
    request: RequestFrame,
    asked: Asked,
    view: &View<'_>,
    names: &Names,
) -> Result<Frame, Refused> {
    let request: wire::DescribeClusterRequest = request.decode().map_err(close)?;
    let response = match request.endpoint_type {
        wire::CONTROLLERS => wire::DescribeClusterResponse {
            endpoint_type: wire::CONTROLLERS,
            cluster_id: names.cluster.clone(),
            controller_id: wire_id(view.leader),
            brokers: view
                .voters
                .iter()
                .filter_map(|voter| controller(voter.key, &voter.endpoints))
                .collect(),
            ..wire::DescribeClusterResponse::default()
        },
        wire::BROKERS => mismatch(
            ErrorCode::MismatchedEndpointType,
            "this is a controller: ask it as one (--bootstrap-controller)",
        ),
        _ => mismatch(
            ErrorCode::UnsupportedEndpointType,
            "endpoint types are 1, brokers, and 2, controllers",
        ),
    };
    encode_response(response, asked.version, asked.correlation).map_err(close)
}

fn mismatch(code: ErrorCode, why: &str) -> wire::DescribeClusterResponse {
    wire::DescribeClusterResponse {
        error_code: code,
        error_message: Some(why.to_owned()),
        ..wire::DescribeClusterResponse::default()
    }
}

fn controller(key: ReplicaKey, endpoints: &[Endpoint]) -> Option<wire::DescribeClusterBroker> {
    let at = endpoints.first()?;
    Some(wire::DescribeClusterBroker {
        broker_id: key.id.0 as i32,
        host: at.host.clone(),
        port: i32::from(at.port),
        ..wire::DescribeClusterBroker::default()
    })
}
