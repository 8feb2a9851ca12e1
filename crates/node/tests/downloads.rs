//! A follower behind a trimmed log copies a snapshot, piece by piece: whatever happens meanwhile it
//! catches up, and who reads from it sees its old state until the new one is there, whole.
//!
//! The second half of that is looked at after every step, by the world ([`World::round`]).

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

mod world;

use quorate_base::{Offset, OffsetEpoch, Span};
use quorate_machine::Machine;
use quorate_node::config::{Cleanup, Config};
use quorate_raft::RoleName;
use quorate_wire::ErrorCode;
use std::collections::BTreeSet;
use world::{Asked, World};

/// Snapshots come often, are cut behind at once, and are copied in many pieces.
fn trims(config: &mut Config) {
    config.cleanup = Cleanup::Delete;
    config.snapshot_bytes = 6_000;
    config.snapshot_interval = Span::ZERO;
    config.retention_bytes = Some(0);
    config.snapshot_max_bytes = 500;
}

/// Three nodes, one of them cut off, whose own state is old, and whose leader's log begins beyond
/// its end. Returns the leader and the late one.
fn late() -> (World, u32, u32) {
    late_with(trims, 200)
}

fn late_with(tune: fn(&mut Config), value_bytes: usize) -> (World, u32, u32) {
    let mut world = World::new(3, tune);
    world.value_bytes = value_bytes;
    (1..=3).for_each(|id| world.start(id).unwrap());
    world.until("somebody leads", |world| world.leader().is_some());
    let leader = world.leader().unwrap();
    let late = (1..=3).find(|id| *id != leader).unwrap();
    (0..10).for_each(|number| world.put(leader, number));
    let end = world.nodes[&leader].replica.view().high_watermark;
    world.until("all have applied it", |world| {
        world.nodes.values().all(|node| Some(node.replica.applied()) == end)
    });
    world.cut(late);
    let behind = world.nodes[&late].replica.view().end;
    let mut number = 10;
    while start(&world, leader) <= behind {
        world.put(leader, number);
        number += 1;
        assert!(number < 1_000, "no log is ever trimmed");
    }
    // Something is left to be fetched as records.
    (number..number + 3).for_each(|number| world.put(leader, number));
    assert_eq!(world.asked, []);
    (world, leader, late)
}

fn start(world: &World, id: u32) -> Offset {
    world.nodes[&id].replica.view().start
}

/// Until the node has all that is committed now and a machine equal to the leader's.
fn catch_up(world: &mut World, late: u32) {
    world.until("the late one is level with a leader", |world| {
        let Some(leader) = world.leader().map(|id| &world.nodes[&id].replica) else { return false };
        let late = &world.nodes[&late].replica;
        late.view().role == RoleName::Follower
            && late.applied() == leader.applied()
            && late.view().end == leader.view().end
            && late.machine().digest() == leader.machine().digest()
    });
    assert!(start(world, late) > Offset(0), "its log begins with a snapshot");
    // One may be there of a snapshot that it makes itself.
    world.until("nothing is left half done", |world| world.files(late, ".part").is_empty());
}

/// The questions of a download that was not disturbed: from 0 on without a gap or a second time.
fn in_order(asked: &[Asked]) -> bool {
    let positions = asked.iter().map(|asked| asked.position);
    positions.eq((0..asked.len() as u64).map(|piece| piece * 500))
        && asked.iter().all(|other| other.snapshot == asked[0].snapshot)
}

#[test]
fn a_follower_behind_a_trimmed_leader_copies_its_snapshot_and_follows_again() {
    let (mut world, leader, late) = late();
    let (old, behind) = world.peek(late, 3);
    assert!(old.is_some());
    world.join(late);
    world.until("it copies", |world| world.asked.len() >= 4);
    assert_eq!(
        world.peek(late, 3),
        (old, behind),
        "the old state can be read until it is replaced"
    );
    catch_up(&mut world, late);
    assert!(world.asked.len() >= 8, "{:?}", world.asked);
    assert!(in_order(&world.asked), "{:?}", world.asked);
    assert!(world.asked.iter().all(|asked| (asked.by, asked.of) == (late, leader)));
    assert_eq!(world.peek(late, 3), world.peek(leader, 3));
    // It counts again: with the third one gone nothing is committed without it.
    let third = (1..=3).find(|id| ![leader, late].contains(id)).unwrap();
    world.cut(third);
    let before = world.asked.len();
    (0..5).for_each(|number| world.put(leader, number));
    catch_up(&mut world, late);
    assert_eq!(world.asked.len(), before);
}

#[test]
fn t10_a_wiped_node_is_given_the_snapshot_of_an_idle_leader() {
    // There is no new record, and none is needed.
    let (mut world, leader, late) = late();
    world.stop(late);
    world.wipe(late);
    world.join(late);
    let end = world.nodes[&leader].replica.view().end;
    world.start(late).unwrap();
    catch_up(&mut world, late);
    assert!(in_order(&world.asked), "{:?}", world.asked);
    assert_eq!(world.nodes[&leader].replica.view().end, end, "nothing was appended for it");
}

#[test]
fn a_connection_that_breaks_does_not_begin_the_copy_anew() {
    let (mut world, _, late) = late();
    world.join(late);
    let mut last = 0;
    for upto in [3, 5, 7] {
        world.until("some pieces are asked for", |world| world.asked.len() >= upto + last);
        world.reset(late);
        last = world.asked.len() - upto + 1;
    }
    catch_up(&mut world, late);
    let again = world.asked.iter().filter(|asked| asked.position == 0).count();
    assert_eq!(again, 1, "from the beginning once: {:?}", world.asked);
    let mut positions: Vec<u64> = world.asked.iter().map(|asked| asked.position).collect();
    assert!(positions.is_sorted(), "{positions:?}");
    positions.dedup();
    assert!(positions.len() >= 8 && positions.len() < world.asked.len(), "{positions:?}");
}

#[test]
fn another_leader_gives_its_own_snapshot_from_the_beginning() {
    let (mut world, first, late) = late();
    world.join(late);
    world.until("it copies", |world| world.asked.len() >= 4);
    world.stop(first);
    let before = world.asked.len();
    world.until("another one leads", |world| world.leader().is_some());
    let second = world.leader().unwrap();
    assert_ne!(second, late, "it has not all that is committed");
    catch_up(&mut world, late);
    let (of_first, of_second) = world.asked.split_at(before);
    assert!(of_first.iter().all(|asked| asked.of == first), "{of_first:?}");
    assert!(of_second.iter().all(|asked| asked.of == second), "{of_second:?}");
    assert!(in_order(of_second) && of_second.len() >= 8, "{of_second:?}");
}

#[test]
fn the_same_leader_in_a_later_epoch_is_another_leader() {
    let (mut world, leader, late) = late();
    world.join(late);
    world.until("it copies", |world| world.asked.len() >= 4);
    let epoch = world.nodes[&leader].replica.view().epoch;
    // Alone it must resign; of the two that know what is committed it is elected again or the
    // other.
    world.cut(leader);
    world.until("it leads no longer", |world| {
        world.nodes[&leader].replica.view().role != RoleName::Leader
    });
    world.join(leader);
    let before = world.asked.len();
    world.until("somebody leads", |world| {
        world.leader().is_some_and(|id| world.nodes[&id].replica.view().epoch > epoch)
    });
    catch_up(&mut world, late);
    let again: Vec<Asked> = world.asked[before..].to_vec();
    assert!(in_order(&again) && again.len() >= 8, "{again:?}");
}

/// A copy that stands still while others write on, until retention has wanted to overtake it more
/// than once. Returns what is copied.
fn overtaken(world: &mut World, leader: u32, late: u32) -> OffsetEpoch {
    // The pieces are not stored, so that the copy stands still while the leader goes on.
    world.held.insert(late);
    world.join(late);
    world.until("it copies", |world| world.asked.len() >= 2);
    let first = world.asked[0].snapshot;
    let newest = |world: &World| {
        let replica = &world.nodes[&leader].replica;
        replica.log().snapshots().last().map(|newest| newest.id.offset)
    };
    let (mut number, mut seen) = (0, BTreeSet::from([first.offset]));
    while seen.len() < 4 {
        world.put(leader, number);
        seen.extend(newest(world));
        number += 1;
        assert!(number < 1_000, "no snapshot is made");
    }
    first
}

#[test]
fn a_leader_keeps_what_is_copied_and_the_log_behind_it_until_its_replica_needs_it_no_more() {
    let (mut world, leader, late) = late();
    let first = overtaken(&mut world, leader, late);
    assert_eq!(start(&world, leader), first.offset);
    assert_eq!(world.nodes[&leader].replica.status().copied_by, [i64::from(late)]);
    let kept = world.files(leader, ".checkpoint");
    assert_eq!(kept.len(), 2, "what is copied and the newest one: {kept:?}");
    // So slow that it is told to be alive many times over.
    for _ in 0..6 {
        let patience = world.now + Span::ms(10_000);
        world.until("ten seconds have passed", |world| world.now > patience);
    }
    assert_eq!(start(&world, leader), first.offset);
    world.held.clear();
    catch_up(&mut world, late);
    assert!(in_order(&world.asked) && world.asked[0].snapshot == first, "{:?}", world.asked);
    assert_eq!(start(&world, late), first.offset, "it went on from the log behind its snapshot");
    assert_eq!(world.nodes[&leader].replica.status().copied_by, [0_i64; 0]);
    // From now on retention is as before.
    let mut number = 0;
    while start(&world, leader) <= first.offset {
        world.put(leader, number);
        number += 1;
        assert!(number < 1_000, "the log is never trimmed again");
    }
    assert_eq!(world.files(leader, ".checkpoint").len(), 1);
}

#[test]
fn one_that_no_longer_asks_is_not_waited_for() {
    let (mut world, leader, late) = late();
    let first = overtaken(&mut world, leader, late);
    world.cut(late);
    let until = world.now + Span::ms(10_000);
    world.until("ten seconds have passed", |world| world.now > until);
    let mut number = 0;
    while start(&world, leader) <= first.offset {
        world.put(leader, number);
        number += 1;
        assert!(number < 1_000, "the log is never trimmed again");
    }
    assert_eq!(world.nodes[&leader].replica.status().copied_by, [0_i64; 0]);
    world.held.clear();
    world.join(late);
    catch_up(&mut world, late);
}

#[test]
fn a_full_disk_of_the_leader_ends_the_copy_which_is_followed_by_a_newer_one() {
    let (mut world, leader, late) = late();
    let first = overtaken(&mut world, leader, late);
    let full = |world: &mut World, full| {
        let now = world.now;
        world.nodes.get_mut(&leader).unwrap().replica.on_room(now, full);
    };
    full(&mut world, true);
    world.until("what was kept is gone", |world| start(world, leader) > first.offset);
    full(&mut world, false);
    world.held.clear();
    let told = |world: &World| world.nodes[&late].replica.status();
    world.until("it begins anew", |world| told(world).download.is_some_and(|it| it.begun_anew > 0));
    let why = told(&world).not_ready_because;
    assert!(why.as_ref().is_none_or(|why| why.contains("begun anew 1 times")), "{why:?}");
    catch_up(&mut world, late);
    let newer: Vec<Asked> =
        world.asked.iter().copied().filter(|asked| asked.snapshot != first).collect();
    assert!(newer[0].snapshot.offset > first.offset, "{newer:?}");
    assert!(in_order(&newer) && newer.len() >= 8, "{newer:?}");
}

/// Values so large that what is kept beyond retention comes to its limit, of 32 MiB and a segment.
#[test]
fn what_is_kept_for_a_copy_that_takes_too_long_is_given_up_at_its_limit() {
    fn large(config: &mut Config) {
        trims(config);
        config.snapshot_bytes = 4 << 20;
        config.snapshot_max_bytes = 50_000;
    }
    let (mut world, leader, late) = late_with(large, 400_000);
    let first = overtaken(&mut world, leader, late);
    let (mut number, mut most) = (0, 0);
    while start(&world, leader) <= first.offset {
        world.put(leader, number);
        let (segments, snapshots) = world.nodes[&leader].replica.log().sizes();
        most = most.max(segments + snapshots);
        number += 1;
        assert!(number < 300, "it is kept for ever");
    }
    let limit = (32 << 20) + (8 << 20);
    // Beside what is kept: the segment being written, the newest snapshot, what is not looked at.
    assert!(most > limit && most < limit + (40 << 20), "{most}");
    world.held.clear();
    catch_up(&mut world, late);
}

#[test]
fn a_damaged_copy_is_given_up_and_made_anew() {
    let (mut world, leader, late) = late();
    let snapshot = world.files(leader, ".checkpoint").pop().unwrap();
    world.join(late);
    world.until("it copies", |world| world.asked.len() >= 4);
    let path = format!("{}/{snapshot}.part", world::PARTITION);
    world.disks[late as usize - 1].flip_bit(&path, 700, 2);
    catch_up(&mut world, late);
    let begun = world.asked.iter().filter(|asked| asked.position == 0).count();
    assert_eq!(begun, 2, "{:?}", world.asked);
}

#[test]
fn a_process_that_dies_on_the_way_begins_anew_and_leaves_nothing_behind() {
    let (mut world, leader, late) = late();
    world.join(late);
    world.until("it copies", |world| world.asked.len() >= 4);
    assert_eq!(world.files(late, ".checkpoint.part").len(), 1);
    world.stop(late);
    let before = world.asked.len();
    world.start(late).unwrap();
    assert_eq!(world.files(late, ".part"), [""; 0], "removed by the start");
    catch_up(&mut world, late);
    let again = &world.asked[before..];
    assert!(in_order(again) && again.len() >= 8 && again[0].of == leader, "{again:?}");
}

/// Every code with which a FetchSnapshot can be refused, and some that nobody should send: where
/// the leader is the same one the copy goes on or begins anew, and in the end all is there.
#[test]
fn no_error_code_keeps_a_follower_from_its_snapshot() {
    let codes = [
        ErrorCode::SnapshotNotFound,
        ErrorCode::PositionOutOfRange,
        ErrorCode::FencedLeaderEpoch,
        ErrorCode::UnknownLeaderEpoch,
        ErrorCode::NotLeaderOrFollower,
        ErrorCode::BrokerNotAvailable,
        ErrorCode::UnknownTopicOrPartition,
        ErrorCode::InvalidRequest,
        ErrorCode::InconsistentClusterId,
        ErrorCode::KafkaStorageError,
        ErrorCode::UnknownServerError,
        ErrorCode::RequestTimedOut,
        ErrorCode::Unknown(12_345),
    ];
    for code in codes {
        for nth in [1, 4] {
            let (mut world, _, late) = late();
            world.refuse = Some((nth, code));
            world.join(late);
            catch_up(&mut world, late);
            assert_eq!(world.refuse, None, "{code:?} was told");
            let gone = [ErrorCode::SnapshotNotFound, ErrorCode::PositionOutOfRange].contains(&code);
            let begun = world.asked.iter().filter(|asked| asked.position == 0).count();
            match gone {
                true => assert_eq!(begun, 2, "{code:?} ends the copy: {:?}", world.asked),
                false => assert!(begun <= 2, "{code:?}: {:?}", world.asked),
            }
        }
    }
}
