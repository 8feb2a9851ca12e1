//! Cuts the power at every call and every byte of a round of cleaning, and of the recovery that
//! follows: whatever is found is a log that says the truth of itself (I9), and can be cleaned on.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

mod common;

use common::keyed::{Records, TIME, check_sound, fold, keyed, leftovers, now, settings, sweep};
use common::{Node, PARTITION, check_indexes, formatted};
use quorate_base::{Cleaned, Epoch, Offset, Rng};
use quorate_log::{
    Batches, Came, CleanSettings, Disk, Error, Finding, MemoryDisk, Note, Operation, Options,
    ToClean, recover, repair, verify,
};

fn options(tail_bytes: u64) -> Options {
    Options { index_interval_bytes: 100, ..common::options(400, tail_bytes) }
}

fn all() -> CleanSettings {
    CleanSettings { max_lag_ms: Some(0), ..settings() }
}

/// A log of three epochs that was cleaned once, so that its tombstones have horizons, and has grown
/// since; and every record that it ever had.
fn grown(tail_bytes: u64) -> (MemoryDisk, Records) {
    let disk = formatted();
    let (mut node, _) = Node::open(disk.clone(), options(tail_bytes)).unwrap();
    let mut truth = Records::new();
    node.elect(1);
    for number in 0..26u32 {
        let base = node.log.end();
        let key = format!("k{}", number % 4);
        let value = format!("v{number}");
        let value = (number % 5 != 3 && number != 6).then_some(value.as_str());
        // One that is deleted for good.
        let key = if [2, 6].contains(&number) { "gone".to_owned() } else { key };
        node.put(1 + number / 9, &[(&key, value)]);
        truth.insert(base.0, (Some(key), value.map(str::to_owned)));
        node.run();
        if number == 14 {
            node.clean(&now(TIME + 100, 15), &all()).unwrap();
        }
    }
    (disk, truth)
}

/// One round more, tombstones collected, until the power fails. `Err` if it does.
fn round(node: &mut Node<MemoryDisk>) -> Result<(), Error> {
    let at = now(TIME + 1_000, 26);
    while let Some(to_clean) = node.log.to_clean(&at, &all()) {
        match to_clean {
            ToClean::Roll(job) => node.jobs.push(*job),
            ToClean::Round(round) => {
                let (groups, swept) = sweep(&node.disk, *round)?;
                for group in groups {
                    let job = node.log.swap(group).unwrap();
                    node.jobs.push(job);
                }
                node.jobs.extend(node.log.finish_round(&swept));
            }
        }
        node.try_run()?;
    }
    Ok(())
}

/// What a start finds is sound, durable, whole, and what it was before in all but records.
fn check(disk: &MemoryDisk, tail_bytes: u64, truth: &Records, before: Cleaned) -> Node<MemoryDisk> {
    let options = options(tail_bytes);
    let (mut node, recovery) = Node::open(disk.clone(), options.clone()).unwrap();
    assert!(recovery.notes.iter().all(|note| !note.is_damage()), "{:?}", recovery.notes);
    assert_eq!((recovery.start, recovery.end), (Offset(0), Offset(26)));
    let epochs: Vec<_> = [(1, 0), (2, 9), (3, 18)].map(|(e, at)| (Epoch(e), Offset(at))).to_vec();
    assert_eq!(recovery.epochs.entries(), epochs);
    let numbers = node.log.numbers();
    let grown = (numbers.dirty, numbers.horizon, numbers.clean);
    assert!(grown.0 >= before.dirty && grown.1 >= before.horizon && grown.2 >= before.clean);
    check_sound(truth, &node.records(), numbers, 26);
    assert_eq!(leftovers(disk), [""; 0]);
    check_indexes(disk, 100);
    let lost = disk.fork();
    lost.lose_unsynced();
    // Indexes need not be durable; nothing else is mended twice.
    let (mut again, recovery) = Node::open(lost, options).unwrap();
    let mended = |note: &Note| !matches!(note, Note::IndexRebuilt { .. });
    assert!(!recovery.notes.iter().any(mended), "{:?}", recovery.notes);
    assert_eq!((again.records(), again.log.numbers()), (node.records(), numbers));
    node
}

fn fail(disk: &MemoryDisk, seed: u64) {
    match seed % 6 {
        0 => disk.kill(),
        1 => disk.lose_unsynced(),
        _ => disk.crash(&mut Rng::new(seed)),
    }
}

#[test]
fn a_round_can_be_cut_short_anywhere() {
    for tail_bytes in [0, 1 << 20] {
        let (grown, truth) = grown(tail_bytes);
        let (mut cuts, mut found) = (0, std::collections::BTreeSet::new());
        for power in 0.. {
            let disk = grown.fork();
            let (mut node, _) = Node::open(disk.clone(), options(tail_bytes)).unwrap();
            let before = node.log.numbers();
            disk.limit_power(Some(power));
            let finished = round(&mut node).is_ok();
            for seed in power * 6..power * 6 + 6 {
                let disk = disk.fork();
                fail(&disk, seed);
                let findings = verify(&mut disk.clone(), "").unwrap();
                assert!(findings.iter().all(Finding::mends), "power {power}: {findings:?}");
                let mut node = check(&disk, tail_bytes, &truth, before);
                let numbers = node.log.numbers();
                found.insert((numbers.dirty, numbers.clean, numbers.horizon));
                if seed % 6 == power % 6 {
                    round(&mut node).unwrap();
                    assert_eq!(node.log.cleaner_end(), Offset(26));
                    let left = node.records();
                    check_sound(&truth, &left, node.log.numbers(), 26);
                    let values = left.values().filter(|record| record.1.is_some()).count();
                    assert_eq!(values, fold(&truth, 26).len(), "{left:?}");
                }
            }
            cuts += 1;
            if finished {
                break;
            }
        }
        assert!(cuts > 900, "{cuts} cuts");
        // Before, in the middle of it, and after.
        let horizons: Vec<u64> = found.iter().map(|(.., horizon)| horizon.0).collect();
        assert!(found.len() >= 3 && horizons.contains(&7), "{found:?}");
    }
}

/// Power fails again while a start ends what the first failure left.
#[test]
fn a_start_can_be_cut_short_anywhere() {
    let (grown, truth) = grown(0);
    let mut again = 0;
    for power in (0..5_000).step_by(23) {
        let disk = grown.fork();
        let (mut node, _) = Node::open(disk.clone(), options(0)).unwrap();
        let before = node.log.numbers();
        disk.limit_power(Some(power));
        let finished = round(&mut node).is_ok();
        fail(&disk, power);
        for second in 0.. {
            let disk = disk.fork();
            disk.limit_power(Some(second));
            let started = recover(&mut disk.clone(), &options(0)).is_ok();
            fail(&disk, second);
            check(&disk, 0, &truth, before);
            again += 1;
            if started {
                break;
            }
        }
        if finished {
            break;
        }
    }
    assert!(again > 2_000, "{again} second cuts");
}

/// A call that fails, for want of room or else, ends a round; nothing is lost and nothing left.
#[test]
fn a_round_without_room_leaves_the_log_as_it_was() {
    let (grown, truth) = grown(0);
    for operation in [Operation::Write, Operation::Sync, Operation::SyncDir, Operation::Open] {
        let disk = grown.fork();
        let (mut node, _) = Node::open(disk.clone(), options(0)).unwrap();
        let (numbers, records) = (node.log.numbers(), node.records());
        let at = now(TIME + 1_000, 26);
        let Some(ToClean::Roll(job)) = node.log.to_clean(&at, &all()) else { panic!("a roll") };
        node.jobs.push(*job);
        node.run();
        let Some(ToClean::Round(round)) = node.log.to_clean(&at, &all()) else { panic!("a round") };
        if operation == Operation::Write {
            disk.limit_room(Some(100));
        } else {
            disk.fail_next(operation);
        }
        sweep(&disk, *round).unwrap_err();
        disk.heal();
        node.log.abandon_round();
        assert_eq!((node.log.numbers(), node.records()), (numbers, records), "{operation:?}");
        assert_eq!(leftovers(&disk), [""; 0], "{operation:?}");
        self::round(&mut node).unwrap();
        check_sound(&truth, &node.records(), node.log.numbers(), 26);
    }
}

/// Damage is found by the round that reads it, and is not copied as if it were right.
#[test]
fn a_damaged_batch_ends_a_round() {
    let (grown, _) = grown(0);
    let names = grown.fork();
    let (mut node, _) = Node::open(names.clone(), options(0)).unwrap();
    let first = format!("{PARTITION}/00000000000000000000.log");
    let bytes = names.contents(&first).unwrap();
    let at = now(TIME + 1_000, 26);
    let Some(ToClean::Roll(job)) = node.log.to_clean(&at, &all()) else { panic!("a roll") };
    node.jobs.push(*job);
    node.run();
    let Some(ToClean::Round(round)) = node.log.to_clean(&at, &all()) else { panic!("a round") };
    for byte in 0..bytes.len() {
        let disk = names.fork();
        disk.flip_bit(&first, byte, (byte % 8) as u32);
        let error = sweep(&disk, (*round).clone()).unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "byte {byte}: {error}");
        assert_eq!(leftovers(&disk), [""; 0]);
    }
}

/// What is safe where the numbers are lost: others hold the log, and it is copied again; or nobody
/// does, and then the end is the most that can be true.
#[test]
fn lost_numbers_are_damage_of_a_log_that_shows_that_it_was_cleaned() {
    let (grown, truth) = grown(0);
    let path = format!("{PARTITION}/quorate-cleaned");
    let whole = grown.contents(&path).unwrap();
    let mut judged = 0;
    for flipped in (0..whole.len()).map(Some).chain([None]) {
        let disk = grown.fork();
        match flipped {
            Some(byte) => disk.flip_bit(&path, byte, (byte % 8) as u32),
            None => quorate_log::remove_deleted(&mut disk.clone(), std::slice::from_ref(&path)),
        }
        let error = recover(&mut disk.clone(), &options(0)).unwrap_err();
        assert!(error.to_string().contains("quorate-cleaned is damaged at byte"), "{error}");
        let findings = verify(&mut disk.clone(), "").unwrap();
        assert!(findings.iter().any(|one| one.path == path && !one.mends()), "{findings:?}");

        let copied = disk.fork();
        let recovery = repair(&mut copied.clone(), &options(0), |_| true).unwrap();
        assert_eq!((recovery.start, recovery.end), (Offset(0), Offset(0)));
        assert_eq!(recovery.must_reach.unwrap().offset, Offset(26));
        let (node, again) = Node::open(copied, options(0)).unwrap();
        assert_eq!((node.log.numbers(), again.notes), (Cleaned::default(), vec![]));

        let recovery = repair(&mut disk.clone(), &options(0), |_| false).unwrap();
        assert!(recovery.notes.iter().any(Note::is_damage), "{:?}", recovery.notes);
        let (mut node, again) = Node::open(disk, options(0)).unwrap();
        assert_eq!(again.notes, []);
        let most = Cleaned { dirty: Offset(26), clean: Offset(0), horizon: Offset(26) };
        assert_eq!(node.log.numbers(), most);
        check_sound(&truth, &node.records(), most, 26);
        judged += 1;
    }
    assert!(judged > 60);
    // A log that was never cleaned has none, and needs none.
    let plain = formatted();
    let (mut node, _) = Node::open(plain.clone(), options(0)).unwrap();
    node.put_each(1, &[("a", Some("1")), ("a", Some("2"))]);
    node.run();
    assert_eq!(plain.contents(&path), None);
    let (node, recovery) = Node::open(plain, options(0)).unwrap();
    assert_eq!((node.log.numbers(), recovery.notes), (Cleaned::default(), vec![]));
}

/// The numbers are durable before the records that they came with, wherever the power fails.
#[test]
fn numbers_are_there_before_their_records() {
    let told = Cleaned { dirty: Offset(9), clean: Offset(5), horizon: Offset(4) };
    let mut with_records = 0;
    for power in 0.. {
        let disk = formatted();
        let (mut node, _) = Node::open(disk.clone(), options(0)).unwrap();
        disk.limit_power(Some(power));
        node.jobs.extend(node.log.inherit(Came::Fetched(told)));
        let bytes = keyed(Offset(0), 1, &[("a", Some("1"))]);
        node.copy(&Batches::new(bytes).next().unwrap().unwrap());
        let finished = node.try_run().is_ok();
        for seed in power * 6..power * 6 + 6 {
            let disk = disk.fork();
            fail(&disk, seed);
            let (node, _) = Node::open(disk, options(0)).unwrap();
            if node.log.end() > Offset(0) {
                assert_eq!(node.log.numbers(), told, "power {power}");
                assert_eq!(node.log.reading().required, Offset(9));
                with_records += 1;
            }
        }
        if finished {
            break;
        }
    }
    assert!(with_records > 5, "{with_records}");
}

/// A snapshot of one's own of a cleaned log may be no version, so a repair does not begin there.
#[test]
fn a_repair_of_a_cleaned_log_begins_at_no_snapshot() {
    let (grown, truth) = grown(0);
    let id = quorate_base::OffsetEpoch::new(Offset(26), Epoch(3));
    let writer = quorate_log::SnapshotWriter::create(grown.clone(), PARTITION, id, TIME, &[]);
    writer.unwrap().freeze().unwrap();
    let logs = grown.list(PARTITION).unwrap();
    let mut ends = std::collections::BTreeSet::new();
    for name in logs.iter().filter(|name| name.ends_with(".log")) {
        let disk = grown.fork();
        let path = format!("{PARTITION}/{name}");
        if disk.contents(&path).unwrap().is_empty() {
            continue;
        }
        disk.flip_bit(&path, 70, 0);
        let recovery = repair(&mut disk.clone(), &options(0), |_| true).unwrap();
        assert_eq!((recovery.start, &recovery.snapshots[..]), (Offset(0), &[][..]), "{name}");
        assert_eq!(recovery.must_reach.unwrap().offset, Offset(26));
        let (mut node, again) = Node::open(disk, options(0)).unwrap();
        assert_eq!((again.end, again.notes), (recovery.end, vec![]));
        let numbers = node.log.numbers();
        assert!(node.log.cleaner_end() <= node.log.end());
        let end = node.log.end().0;
        if end > 0 {
            // It lags behind what it says of itself, as any log that is copied.
            assert_eq!(numbers.dirty, Offset(15));
        }
        let left = node.records();
        assert!(left.iter().all(|(at, record)| truth[at] == *record));
        ends.insert(end);
    }
    assert!(ends.len() > 3, "{ends:?}");
}
