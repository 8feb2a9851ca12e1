//! Faults of other systems around snapshots, by their numbers in docs/TESTING.md, tried on whole
//! replicas: from the files on their disks to what their machines hold.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

mod world;

use quorate_base::{Epoch, Offset, Span};
use quorate_log::{Disk, Operation};
use quorate_machine::Machine;
use quorate_node::config::{Cleanup, Config};
use quorate_raft::RoleName;
use world::{PARTITION, World};

/// Snapshots come often, and everything is kept.
fn keeps(config: &mut Config) {
    config.cleanup = Cleanup::Delete;
    config.snapshot_bytes = 6_000;
    config.snapshot_interval = Span::ZERO;
    config.retention_bytes = None;
    config.retention_ms = None;
    config.snapshot_max_bytes = 1_000;
}

/// Snapshots come often, and the log is cut behind them at once.
fn trims(config: &mut Config) {
    keeps(config);
    config.retention_bytes = Some(0);
}

/// As many voters, so many writes, a leader.
fn running(voters: u32, tune: fn(&mut Config), writes: u32) -> (World, u32) {
    let mut world = World::new(voters, tune);
    (1..=voters).for_each(|id| world.start(id).unwrap());
    world.until("somebody leads", |world| world.leader().is_some());
    let leader = world.leader().unwrap();
    (0..writes).for_each(|number| world.put(leader, number));
    (world, leader)
}

/// Until all nodes hold what the leader holds.
fn level(world: &mut World, nodes: usize) -> u64 {
    world.until("all are level", |world| {
        let Some(leader) = world.leader().map(|id| &world.nodes[&id].replica) else { return false };
        let same = |node: &world::Node| {
            node.replica.applied() == leader.view().end
                && node.replica.machine().digest() == leader.machine().digest()
        };
        world.nodes.len() == nodes && world.nodes.values().all(same)
    });
    world.nodes[&world.leader().unwrap()].replica.machine().digest()
}

/// The path of the node's newest snapshot.
fn newest(world: &World, id: u32) -> String {
    format!("{PARTITION}/{}", world.files(id, ".checkpoint").pop().unwrap())
}

#[test]
fn t3_a_short_empty_or_footerless_checkpoint_is_set_aside_for_an_older_one() {
    let (mut world, _) = running(1, keeps, 100);
    let digest = level(&mut world, 1);
    world.stop(1);
    let path = newest(&world, 1);
    let (whole, disk) = (world.disks[0].contents(&path).unwrap(), world.disks[0].clone());
    let footer = 75;
    for len in [0, 1, 60, whole.len() / 2, whole.len() - footer, whole.len() - 1] {
        world.disks[0] = disk.fork();
        world.disks[0].put(&path, &whole[..len]);
        world.start(1).unwrap();
        assert_eq!(level(&mut world, 1), digest, "cut to {len} of {}", whole.len());
        assert_eq!(world.files(1, ".damaged").len(), 1, "kept for a human");
        assert!(!world.files(1, ".checkpoint").is_empty(), "an older one");
        world.stop(1);
    }
}

#[test]
fn t7_nothing_beyond_the_newest_snapshot_is_ever_cut() {
    // Without any snapshot nothing goes, however little is to be kept.
    let no_snapshot = |config: &mut Config| {
        trims(config);
        config.snapshot_bytes = u64::MAX;
        config.segment_bytes = 2_000;
    };
    let (world, leader) = running(1, no_snapshot, 100);
    let logs = world.files(leader, ".log");
    assert!(logs.len() > 5 && logs[0].starts_with("00000000000000000000."), "{logs:?}");

    // With some the log begins at one that is there, after every step and on the disk as well.
    let segments = |config: &mut Config| {
        trims(config);
        config.segment_bytes = 2_000;
    };
    let (mut world, leader) = running(1, segments, 0);
    let (mut starts, mut last) = (0, 0);
    for number in 0..200 {
        world.put(leader, number);
        let start = world.nodes[&leader].replica.view().start.0;
        let of = |name: &String| name[..20].parse::<u64>().unwrap();
        let ends: Vec<u64> = world.files(leader, ".checkpoint").iter().map(of).collect();
        assert!(start == 0 || ends.contains(&start), "begins at {start}, snapshots at {ends:?}");
        let first = world.files(leader, ".log").iter().map(of).min().unwrap();
        assert!(first <= start, "the first file begins at {first}, the log at {start}");
        starts += u32::from(start != last);
        last = start;
    }
    assert!(starts > 5, "the log was cut {starts} times");
}

#[test]
fn t8_a_log_whose_beginning_is_gone_is_refused_with_both_offsets() {
    let segments = |config: &mut Config| {
        trims(config);
        config.segment_bytes = 2_000;
    };
    let (mut world, _) = running(1, segments, 40);
    let early = world.files(1, ".checkpoint").pop().unwrap();
    let bytes = world.contents(1, &early);
    (40..140).for_each(|number| world.put(1, number));
    world.stop(1);
    let of = |name: &String| name[..20].parse::<u64>().unwrap();
    let first = world.files(1, ".log").iter().map(of).min().unwrap();
    assert!(of(&early) < first, "{early}, {first}");
    for name in world.files(1, ".checkpoint") {
        world.disks[0].remove(&format!("{PARTITION}/{name}")).unwrap();
    }
    let why = world.start(1).unwrap_err().to_string();
    assert!(why.contains(&format!("begins at offset {first}")), "{why}");
    assert!(why.contains("there is no snapshot"), "{why}");

    // Nor does one help that ends before.
    world.disks[0].put(&format!("{PARTITION}/{early}"), &bytes);
    let why = world.start(1).unwrap_err().to_string();
    assert!(why.contains(&format!("begins at offset {first}")), "{why}");
    let (_, ends) = why.split_once("the newest snapshot ends at offset ").expect(&why);
    let digits = ends.split(|letter: char| !letter.is_ascii_digit()).next();
    assert_eq!(digits.and_then(|digits| digits.parse().ok()), Some(of(&early)), "{why}");
}

#[test]
fn t10_an_empty_follower_is_given_the_snapshot_also_by_a_log_that_is_whole() {
    let (mut world, leader) = running(3, keeps, 60);
    let late = (1..=3).find(|id| *id != leader).unwrap();
    let digest = level(&mut world, 3);
    world.stop(late);
    world.wipe(late);
    let end = world.nodes[&leader].replica.view().end;
    assert_eq!(world.nodes[&leader].replica.view().start, Offset(0));
    world.start(late).unwrap();
    assert_eq!(level(&mut world, 3), digest);
    assert!(world.asked.len() > 2, "{:?}", world.asked);
    assert!(world.nodes[&late].replica.view().start > Offset(0));
    assert_eq!(world.nodes[&leader].replica.view().end, end, "nothing was appended for it");
}

#[test]
fn t16_a_flipped_bit_of_a_snapshot_is_never_applied() {
    let (mut world, _) = running(1, keeps, 100);
    let digest = level(&mut world, 1);
    world.stop(1);
    let path = newest(&world, 1);
    let (whole, disk) = (world.disks[0].contents(&path).unwrap(), world.disks[0].clone());
    let mut passed_over = 0;
    for at in (0..whole.len()).step_by(61) {
        world.disks[0] = disk.fork();
        world.disks[0].flip_bit(&path, at, at as u32 % 8);
        world.start(1).unwrap();
        assert_eq!(level(&mut world, 1), digest, "a bit of byte {at}");
        passed_over += world.files(1, ".damaged").len();
        world.stop(1);
    }
    assert!(passed_over > 50, "{passed_over} were found damaged");
}

/// The snapshot that a leader would serve is damaged on its disk, and nothing more is written: no
/// follower loads it, and the leader makes a new one, so that they need not wait for ever.
#[test]
fn t16_a_leader_replaces_a_damaged_snapshot_that_it_is_asked_for() {
    for (more, at) in [(0, 700), (3, 700), (0, 20)] {
        let (mut world, leader) = running(3, trims, 10);
        let late = (1..=3).find(|id| *id != leader).unwrap();
        world.cut(late);
        // Until the log is nothing but a snapshot, so that a new one has the old one's name.
        let mut number = 10;
        let behind = world.nodes[&late].replica.view().end;
        loop {
            world.put(leader, number);
            number += 1;
            (0..10).for_each(|_| world.round());
            let view = world.nodes[&leader].replica.view();
            if view.start > behind && view.start == view.end {
                break;
            }
            assert!(number < 1_000, "no snapshot ends where the log does");
        }
        (0..more).for_each(|number| world.put(leader, number));
        let (path, digest) =
            (newest(&world, leader), world.nodes[&leader].replica.machine().digest());
        world.disks[leader as usize - 1].flip_bit(&path, at, 5);
        let end = world.nodes[&leader].replica.view().end;
        world.join(late);
        assert_eq!(level(&mut world, 3), digest, "{more} more, byte {at}");
        assert_eq!(world.nodes[&leader].replica.view().end, end, "nothing was appended for it");
        let begun = world.asked.iter().filter(|asked| asked.position == 0).count();
        assert!((2..10).contains(&begun), "it began {begun} times");
        // The leader's own next start has a snapshot that can be read.
        world.stop(leader);
        world.start(leader).unwrap();
        level(&mut world, 3);
        assert_eq!(world.files(leader, ".damaged"), [""; 0]);
    }
}

/// A snapshot larger than any frame, any buffer and five of Kafka's largest batches.
#[test]
fn t30_a_snapshot_of_many_times_the_largest_batch_costs_nobody_anything() {
    let large = |config: &mut Config| {
        trims(config);
        config.snapshot_bytes = 10 << 20;
        config.snapshot_max_bytes = 1 << 20;
        config.segment_bytes = 8 << 20;
    };
    let (mut world, leader) = running(3, large, 0);
    world.value_bytes = 1 << 20;
    let late = (1..=3).find(|id| *id != leader).unwrap();
    world.cut(late);
    // 20 keys of 1 MiB each, and each once more.
    (0..41).for_each(|number| world.put(leader, number));
    world.until("the log is cut", |world| {
        world.nodes[&leader].replica.view().start > world.nodes[&late].replica.view().end
    });
    let size = world.contents(leader, &newest(&world, leader)[PARTITION.len() + 1..]).len();
    assert!(size > 10 << 20, "{size}");
    let epoch = world.nodes[&leader].replica.view().epoch;
    world.join(late);
    level(&mut world, 3);
    assert!(world.asked.len() > 10, "{:?}", world.asked);
    let view = world.nodes[&leader].replica.view();
    assert_eq!((view.role, view.epoch), (RoleName::Leader, epoch));
}

/// Each call of a follower's disk fails once while it copies a snapshot: it goes on or its process
/// ends, and after the next start everything is there.
#[test]
fn t32_a_disk_error_amid_a_copy_leaves_no_hole() {
    let operations = [
        Operation::Open,
        Operation::Read,
        Operation::Write,
        Operation::Sync,
        Operation::Truncate,
        Operation::Rename,
        Operation::Remove,
        Operation::SyncDir,
    ];
    let (mut ended, mut went_on) = (0, 0);
    for operation in operations {
        for pieces in [1, 3, 5] {
            let (mut world, leader) = running(3, trims, 10);
            let late = (1..=3).find(|id| *id != leader).unwrap();
            world.cut(late);
            (10..120).for_each(|number| world.put(leader, number));
            world.join(late);
            world.until("it copies", |world| world.asked.len() >= pieces);
            world.disks[late as usize - 1].fail_next(operation);
            world.until("it has all, or its process has ended", |world| {
                let leader = world.nodes[&leader].replica.applied();
                !world.failed.is_empty() || world.nodes[&late].replica.applied() == leader
            });
            world.disks[late as usize - 1].heal();
            assert_eq!(world.anew, [], "{operation:?}");
            match world.failed.is_empty() {
                true => went_on += 1,
                false => {
                    ended += 1;
                    world.start(late).unwrap();
                }
            }
            level(&mut world, 3);
            // And what was written is read again by a start.
            world.stop(late);
            world.start(late).unwrap();
            level(&mut world, 3);
        }
    }
    assert!(ended > 0 && went_on > 0, "{ended} ended, {went_on} went on");
}

/// The epoch of a log that is nothing but a snapshot is the snapshot's, whatever else is lost.
#[test]
fn t35_no_epoch_goes_backward_after_a_start_with_nothing_but_a_snapshot() {
    let (mut world, first) = running(3, trims, 10);
    // Some epochs.
    let mut leader = first;
    for _ in 0..3 {
        world.stop(leader);
        world.until("another one leads", |world| world.leader().is_some());
        world.start(leader).unwrap();
        leader = world.leader().unwrap();
        world.put(leader, 1);
    }
    let late = (1..=3).find(|id| *id != leader).unwrap();
    world.cut(late);
    (10..120).for_each(|number| world.put(leader, number));
    world.stop(late);
    world.wipe(late);
    world.join(late);
    world.start(late).unwrap();
    world.until("the snapshot is in place", |world| {
        world.nodes[&late].replica.view().start > Offset(0)
    });
    let view = world.nodes[&late].replica.view();
    let (start, epoch) = (view.start, view.epoch);
    assert!(epoch > Epoch(2), "{epoch}");
    world.stop(late);
    world.cut(late);
    for lost in ["quorum-state", "leader-epoch-checkpoint"] {
        world.disks[late as usize - 1].remove(&format!("{PARTITION}/{lost}")).unwrap();
    }
    world.start(late).unwrap();
    let of_snapshot: u32 = {
        let name = world.files(late, ".checkpoint").pop().unwrap();
        name[21..31].parse().unwrap()
    };
    let view = world.nodes[&late].replica.view();
    assert!(view.epoch >= Epoch(of_snapshot), "{} < {of_snapshot}", view.epoch);
    assert_eq!((view.start, view.end.min(start)), (start, start));
    world.join(late);
    level(&mut world, 3);
    let before = world.nodes[&leader].replica.view().end;
    let leader = world.leader().unwrap();
    world.put(leader, 7);
    assert!(world.nodes[&leader].replica.view().end > before);
    level(&mut world, 3);
}
