//! What a node answers to FetchSnapshot, code by code and byte by byte, to whoever asks.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

mod world;

use quorate_base::{OffsetEpoch, Span};
use quorate_node::config::{Cleanup, Config};
use quorate_wire::ErrorCode;
use quorate_wire::message::{
    FetchSnapshotRequest, FetchSnapshotRequestPartition, FetchSnapshotResponse,
    FetchSnapshotResponsePartition, SnapshotId, SnapshotTopic,
};
use world::World;

fn trims(config: &mut Config) {
    config.cleanup = Cleanup::Delete;
    config.snapshot_bytes = 3_000;
    config.snapshot_interval = Span::ZERO;
    config.retention_bytes = Some(0);
}

/// Two nodes whose log is trimmed: the world, the leader, its epoch and its newest snapshot.
fn trimmed() -> (World, u32, i32, OffsetEpoch) {
    let mut world = World::new(2, trims);
    (1..=2).for_each(|id| world.start(id).unwrap());
    world.until("somebody leads", |world| world.leader().is_some());
    let leader = world.leader().unwrap();
    (0..60).for_each(|number| world.put(leader, number));
    world.until("the log is trimmed", |world| {
        world.nodes[&leader].replica.view().start.0 > 0
            && !world.files(leader, ".checkpoint").is_empty()
    });
    let view = world.nodes[&leader].replica.view();
    let epoch = view.epoch;
    let name = world.files(leader, ".checkpoint").pop().unwrap();
    let (offset, of_epoch) = name.strip_suffix(".checkpoint").unwrap().split_once('-').unwrap();
    let id = OffsetEpoch::new(
        quorate_base::Offset(offset.parse().unwrap()),
        quorate_base::Epoch(of_epoch.parse().unwrap()),
    );
    (world, leader, epoch.0 as i32, id)
}

fn partition(epoch: i32, id: OffsetEpoch) -> FetchSnapshotRequestPartition {
    FetchSnapshotRequestPartition {
        current_leader_epoch: epoch,
        snapshot_id: SnapshotId {
            end_offset: id.offset.0 as i64,
            epoch: id.epoch.0 as i32,
            ..Default::default()
        },
        ..Default::default()
    }
}

fn request(topic: &str, partitions: Vec<FetchSnapshotRequestPartition>) -> FetchSnapshotRequest {
    FetchSnapshotRequest {
        cluster_id: Some("test".into()),
        replica_id: 9,
        max_bytes: 1 << 20,
        topics: vec![SnapshotTopic { name: topic.into(), partitions, ..Default::default() }],
        ..Default::default()
    }
}

const TOPIC: &str = "__cluster_metadata";

/// Asks about one partition and returns what is said of it.
fn ask(
    world: &mut World,
    of: u32,
    partition: FetchSnapshotRequestPartition,
) -> FetchSnapshotResponsePartition {
    let answer: FetchSnapshotResponse = world.exchange(of, request(TOPIC, vec![partition]));
    assert_eq!(answer.error_code, ErrorCode::None);
    only(answer)
}

fn only(mut answer: FetchSnapshotResponse) -> FetchSnapshotResponsePartition {
    let mut partitions = answer.topics.pop().unwrap().partitions;
    assert_eq!((answer.topics.len(), partitions.len()), (0, 1));
    partitions.pop().unwrap()
}

#[test]
fn the_pieces_together_are_the_file_whatever_their_size() {
    let (mut world, leader, epoch, id) = trimmed();
    let file = world.disks[leader as usize - 1]
        .contents(&format!("{}/{}", world::PARTITION, quorate_log::snapshot_name(id)))
        .unwrap();
    for max_bytes in [1 << 30, 1_000, 61, i32::MAX] {
        let mut copied = Vec::new();
        while copied.len() < file.len() {
            let asked = FetchSnapshotRequestPartition {
                position: copied.len() as i64,
                ..partition(epoch, id)
            };
            let question = FetchSnapshotRequest { max_bytes, ..request(TOPIC, vec![asked]) };
            let piece = only(world.exchange(leader, question));
            assert_eq!(piece.error_code, ErrorCode::None);
            assert_eq!((piece.size, piece.position), (file.len() as i64, copied.len() as i64));
            let bytes = piece.unaligned_records.len();
            assert!((1..=max_bytes as usize).contains(&bytes), "{bytes} of {max_bytes}");
            let of = piece.current_leader.unwrap();
            assert_eq!((of.leader_id, of.leader_epoch), (leader as i32, epoch));
            copied.extend_from_slice(&piece.unaligned_records);
        }
        assert_eq!(copied, file, "in pieces of {max_bytes}");
    }
}

#[test]
fn each_refusal_has_its_code() {
    let (mut world, leader, epoch, id) = trimmed();
    let good = || partition(epoch, id);
    let size = ask(&mut world, leader, good()).size;
    let other = |offset: i64, of_epoch: i32| FetchSnapshotRequestPartition {
        snapshot_id: SnapshotId { end_offset: offset, epoch: of_epoch, ..Default::default() },
        ..good()
    };
    let (end, of_epoch) = (id.offset.0 as i64, id.epoch.0 as i32);
    let at = |position| FetchSnapshotRequestPartition { position, ..good() };
    let in_epoch = |epoch| partition(epoch, id);
    for (asked, code) in [
        (at(size - 1), ErrorCode::None),
        (at(size), ErrorCode::PositionOutOfRange),
        (at(i64::MAX), ErrorCode::PositionOutOfRange),
        (at(-1), ErrorCode::PositionOutOfRange),
        (other(end + 1, of_epoch), ErrorCode::SnapshotNotFound),
        (other(end, of_epoch + 1), ErrorCode::SnapshotNotFound),
        (other(0, 0), ErrorCode::SnapshotNotFound),
        (other(-1, -1), ErrorCode::SnapshotNotFound),
        // As in Kafka: it is asked for, not left open.
        (in_epoch(-1), ErrorCode::FencedLeaderEpoch),
        (in_epoch(epoch - 1), ErrorCode::FencedLeaderEpoch),
        (in_epoch(epoch + 1), ErrorCode::UnknownLeaderEpoch),
    ] {
        let said = ask(&mut world, leader, asked.clone());
        assert_eq!(said.error_code, code, "{asked:?}");
        assert_eq!(said.unaligned_records.is_empty(), code != ErrorCode::None, "{said:?}");
    }
    let follower = 3 - leader;
    let said = ask(&mut world, follower, good());
    assert_eq!(said.error_code, ErrorCode::NotLeaderOrFollower);
    assert_eq!(said.current_leader.map(|leads| leads.leader_id), Some(leader as i32));
}

#[test]
fn what_is_not_our_log_is_said_of_that_partition_or_of_all() {
    let (mut world, leader, epoch, id) = trimmed();
    let good = || partition(epoch, id);
    for (topic, number) in [("another", 0), (TOPIC, 1)] {
        let asked = FetchSnapshotRequestPartition { partition: number, ..good() };
        let said = only(world.exchange(leader, request(topic, vec![asked])));
        assert_eq!(said.error_code, ErrorCode::UnknownTopicOrPartition, "{topic}-{number}");
        assert_eq!(said.index, number);
    }
    // T17: nothing at all, and no partition of a topic.
    let nothing = FetchSnapshotRequest { topics: Vec::new(), ..request(TOPIC, Vec::new()) };
    for question in [nothing, request(TOPIC, Vec::new())] {
        let said: FetchSnapshotResponse = world.exchange(leader, question);
        assert_eq!(said.error_code, ErrorCode::InvalidRequest);
    }
    let stranger = FetchSnapshotRequest {
        cluster_id: Some("another cluster".into()),
        ..request(TOPIC, vec![good()])
    };
    let said: FetchSnapshotResponse = world.exchange(leader, stranger);
    assert_eq!(said.error_code, ErrorCode::InconsistentClusterId);
    let unsaid = FetchSnapshotRequest { cluster_id: None, ..request(TOPIC, vec![good()]) };
    assert_eq!(only(world.exchange(leader, unsaid)).error_code, ErrorCode::None);
}

#[test]
fn a_leader_that_stops_serves_no_pieces() {
    let (mut world, leader, epoch, id) = trimmed();
    let until = world.now + Span::ms(60_000);
    // Nobody can take over, so its process stays until its time is up.
    world.stop(3 - leader);
    world.nodes.get_mut(&leader).unwrap().replica.shutdown(until);
    let said = ask(&mut world, leader, partition(epoch, id));
    assert_eq!(said.error_code, ErrorCode::NotLeaderOrFollower, "it has resigned");
    assert!(said.unaligned_records.is_empty());
}
