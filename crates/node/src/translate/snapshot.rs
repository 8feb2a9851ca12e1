//! FetchSnapshot (KIP-630), both ways. Unlike the other messages of the protocol it answers for
//! each partition that it is asked, so one that is not ours is named in the answer.

use super::inbound::{
    Refusal, Refused, check_cluster, close, epoch, node_endpoints, partition_error,
};
use super::outbound::{leader_view, top_level};
use super::{Names, PARTITION, error_code, key, wire_directory, wire_id};
use crate::replica::Asked;
use bytes::Bytes;
use quorate_base::{Epoch, Offset, OffsetEpoch};
use quorate_raft as raft;
use quorate_raft::LeaderView;
use quorate_wire::message as wire;
use quorate_wire::{Error, ErrorCode, Frame, RequestFrame, encode_response};

/// The most that one answer carries, whatever is asked for: what a peer asks for is memory of ours.
const PIECE_BYTES_MAX: u32 = 8 << 20;

/// A request of a peer.
pub(super) fn request(frame: RequestFrame, names: &Names) -> Result<raft::FetchSnapshot, Refused> {
    let request: wire::FetchSnapshotRequest = frame.decode().map_err(close)?;
    check_cluster(request.cluster_id, names)?;
    let mut first = None;
    let mut found = None;
    for topic in request.topics {
        for asked in topic.partitions {
            first.get_or_insert_with(|| (topic.name.clone(), asked.partition));
            if topic.name == names.topic && asked.partition == PARTITION {
                found.get_or_insert(asked);
            }
        }
    }
    let Some(asked) = found else {
        return Err(Refused::Answer(match first {
            Some((topic, partition)) => Refusal::UnknownPartition { topic, partition },
            None => Refusal::TopLevel(ErrorCode::InvalidRequest),
        }));
    };
    let number = |number: i64| u64::try_from(number).ok();
    let id = &asked.snapshot_id;
    let (Some(offset), Ok(of_epoch)) = (number(id.end_offset), u32::try_from(id.epoch)) else {
        return Err(partition_error(ErrorCode::SnapshotNotFound));
    };
    Ok(raft::FetchSnapshot {
        epoch: epoch(asked.current_leader_epoch)?,
        replica: key(request.replica_id, asked.replica_directory_id),
        snapshot: OffsetEpoch::new(Offset(offset), Epoch(of_epoch)),
        // No snapshot has that byte: refused as out of range once the rest is right.
        position: number(asked.position).unwrap_or(u64::MAX),
        max_bytes: u32::try_from(request.max_bytes).unwrap_or(0).min(PIECE_BYTES_MAX),
    })
}

/// The answer to a peer, with the piece that the core let it have.
pub(crate) fn piece_response(
    asked: Asked,
    answer: raft::SnapshotAnswer,
    piece: Bytes,
    names: &Names,
) -> Result<Frame, Error> {
    let error = error_code(answer.view.error);
    let partition = wire::FetchSnapshotResponsePartition {
        index: PARTITION,
        error_code: error,
        snapshot_id: wire_snapshot(answer.snapshot),
        current_leader: Some(wire::FetchSnapshotCurrentLeader {
            leader_id: wire_id(answer.view.leader),
            leader_epoch: answer.view.epoch.0 as i32,
            ..wire::FetchSnapshotCurrentLeader::default()
        }),
        size: match answer.piece {
            raft::Piece::Received { size, .. } => size as i64,
            raft::Piece::Nothing | raft::Piece::Served { .. } => 0,
        },
        position: answer.position as i64,
        unaligned_records: piece,
        ..wire::FetchSnapshotResponsePartition::default()
    };
    respond(asked, names.topic.clone(), partition, &answer.view)
}

/// An error answer about any partition.
pub(super) fn refuse(
    asked: Asked,
    topic: String,
    index: i32,
    code: ErrorCode,
    view: &LeaderView,
) -> Result<Frame, Error> {
    let partition = wire::FetchSnapshotResponsePartition {
        index,
        error_code: code,
        current_leader: Some(wire::FetchSnapshotCurrentLeader {
            leader_id: wire_id(view.leader),
            leader_epoch: view.epoch.0 as i32,
            ..wire::FetchSnapshotCurrentLeader::default()
        }),
        ..wire::FetchSnapshotResponsePartition::default()
    };
    respond(asked, topic, partition, view)
}

/// An error answer to the request as a whole.
pub(super) fn refuse_whole(asked: Asked, error_code: ErrorCode) -> Result<Frame, Error> {
    let response = wire::FetchSnapshotResponse { error_code, ..Default::default() };
    encode_response(response, asked.version, asked.correlation)
}

fn respond(
    asked: Asked,
    name: String,
    partition: wire::FetchSnapshotResponsePartition,
    view: &LeaderView,
) -> Result<Frame, Error> {
    let partitions = vec![partition];
    let response = wire::FetchSnapshotResponse {
        topics: vec![wire::SnapshotTopic { name, partitions, tags: Default::default() }],
        node_endpoints: node_endpoints(asked, view),
        ..wire::FetchSnapshotResponse::default()
    };
    encode_response(response, asked.version, asked.correlation)
}

fn wire_snapshot(id: OffsetEpoch) -> wire::SnapshotId {
    wire::SnapshotId {
        end_offset: id.offset.0 as i64,
        epoch: id.epoch.0 as i32,
        ..wire::SnapshotId::default()
    }
}

/// Our question.
pub(super) fn question(fetch: &raft::FetchSnapshot, names: &Names) -> wire::FetchSnapshotRequest {
    let partition = wire::FetchSnapshotRequestPartition {
        partition: PARTITION,
        current_leader_epoch: fetch.epoch.0 as i32,
        snapshot_id: wire_snapshot(fetch.snapshot),
        position: fetch.position as i64,
        replica_directory_id: wire_directory(fetch.replica),
        ..wire::FetchSnapshotRequestPartition::default()
    };
    wire::FetchSnapshotRequest {
        cluster_id: Some(names.cluster.clone()),
        replica_id: wire_id(fetch.replica.map(|replica| replica.id)),
        max_bytes: i32::try_from(fetch.max_bytes).unwrap_or(i32::MAX),
        topics: vec![wire::SnapshotTopic {
            name: names.topic.clone(),
            partitions: vec![partition],
            tags: Default::default(),
        }],
        ..wire::FetchSnapshotRequest::default()
    }
}

/// A peer's answer to it, and the piece.
pub(super) fn answer(
    response: wire::FetchSnapshotResponse,
    names: &Names,
) -> Result<(raft::SnapshotAnswer, Bytes), String> {
    top_level(response.error_code)?;
    let nodes = response.node_endpoints;
    let partition = response.topics.into_iter().flat_map(|topic| topic.partitions).next();
    let partition = partition.ok_or("the answer speaks of no partition")?;
    let current = partition.current_leader.unwrap_or_default();
    let node = nodes.iter().find(|node| node.node_id == current.leader_id);
    let at = node.map(|node| (node.host.as_str(), node.port));
    let view =
        leader_view(partition.error_code, current.leader_id, current.leader_epoch, at, names)?;
    let number = |name: &str, number: i64| {
        u64::try_from(number).map_err(|_| format!("the answer has the {name} {number}"))
    };
    let id = OffsetEpoch::new(
        Offset(number("offset", partition.snapshot_id.end_offset)?),
        Epoch(number("epoch", partition.snapshot_id.epoch.into())? as u32),
    );
    let piece = partition.unaligned_records;
    let bytes = u32::try_from(piece.len()).map_err(|_| "the piece is too long")?;
    let (size, position) =
        (number("size", partition.size)?, number("position", partition.position)?);
    let received = match view.error == raft::ErrorKind::None {
        true => raft::Piece::Received { size, bytes },
        false => raft::Piece::Nothing,
    };
    Ok((raft::SnapshotAnswer { view, snapshot: id, position, piece: received }, piece))
}
