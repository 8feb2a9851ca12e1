//! A log that is given up, to be copied anew: nothing of it is left, nothing confirmed is
//! forgotten, and the power may go at every step.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test ends where a fact is missing"
)]

mod common;

use common::{Node, PARTITION, formatted, options, snapshot};
use quorate_base::{Epoch, Offset, OffsetEpoch, Rng};
use quorate_log::{Disk, MemoryDisk, recover, repair, start_over, verify};

fn id(offset: u64, epoch: u32) -> OffsetEpoch {
    OffsetEpoch::new(Offset(offset), Epoch(epoch))
}

/// Twelve records of three epochs in several segments, with a snapshot; `trimmed` begins there.
fn used(trimmed: bool) -> MemoryDisk {
    let disk = formatted();
    let (mut node, _) = Node::open(disk.clone(), options(400, 1 << 20)).unwrap();
    for number in 0..12 {
        if number % 4 == 0 {
            node.elect(1 + number / 4);
        }
        node.append(1, 1 + number / 4, 20);
        node.run();
    }
    let held = snapshot(&disk, id(6, 2));
    assert_eq!(node.log.frozen(held), None);
    if trimmed {
        node.jobs.push(node.log.trim(Offset(6), &[]));
        node.run();
    }
    disk
}

/// What must hold of a log that was given up.
fn judge(disk: &MemoryDisk, what: &str) {
    let options = options(400, 1 << 20);
    let recovery = recover(&mut disk.clone(), &options).unwrap();
    assert_eq!((recovery.start, recovery.end), (Offset(0), Offset(0)), "{what}");
    assert!(recovery.snapshots.is_empty() && recovery.epochs.entries().is_empty(), "{what}");
    assert_eq!(recovery.must_reach, Some(id(12, 3)), "{what}");
    let verified = verify(&mut disk.fork(), "").unwrap();
    let paths: Vec<&str> = verified.iter().map(|found| found.path.as_str()).collect();
    assert_eq!(paths, ["__cluster_metadata-0/quorate-must-reach"], "{what}: {verified:?}");
    // It goes on as a new one.
    let (mut node, _) = Node::open(disk.clone(), options.clone()).unwrap();
    node.append(2, 3, 20);
    node.run();
    disk.lose_unsynced();
    assert_eq!(recover(&mut disk.clone(), &options).unwrap().end, Offset(2), "{what}");
}

#[test]
fn p82_nothing_is_left_and_nothing_confirmed_is_forgotten() {
    for trimmed in [false, true] {
        let disk = used(trimmed);
        let reach = start_over(&mut disk.clone(), &options(400, 1 << 20)).unwrap();
        assert_eq!(reach, id(12, 3));
        judge(&disk, "once");
        // Again, before it is back there: what it held at first counts.
        let reach = start_over(&mut disk.clone(), &options(400, 1 << 20)).unwrap();
        assert_eq!(reach, id(12, 3));
        let left = disk.list(PARTITION).unwrap();
        assert!(left.iter().all(|name| !name.contains(".deleted")), "{left:?}");
    }
}

#[test]
fn p82_cut_short_anywhere_it_is_a_shorter_log_and_can_be_done_again() {
    let mut rng = Rng::new(11);
    for trimmed in [false, true] {
        let before = used(trimmed);
        for power in 0.. {
            let disk = before.fork();
            disk.limit_power(Some(power));
            let finished = start_over(&mut disk.clone(), &options(400, 1 << 20)).is_ok();
            for way in 0..3 {
                let disk = disk.fork();
                match way {
                    0 => disk.kill(),
                    _ => disk.crash(&mut rng),
                }
                let what = format!("trimmed {trimmed}, cut at {power}, way {way}");
                let opened = repair(&mut disk.clone(), &options(400, 1 << 20), |_| true);
                let recovery = opened.unwrap_or_else(|error| panic!("{what}: {error}"));
                let knows = recovery.must_reach == Some(id(12, 3));
                let whole = recovery.last() == id(12, 3);
                assert!(knows || whole, "{what}: {recovery:?}");
                start_over(&mut disk.clone(), &options(400, 1 << 20)).unwrap();
                judge(&disk, &what);
            }
            if finished {
                assert!(power > 5, "{power} steps only");
                break;
            }
        }
    }
}
