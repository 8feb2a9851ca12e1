//! Snapshots in the log: written, damaged, downloaded, adopted, trimmed behind, and the repair of a
//! damaged log; with the power cut at every step of each.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

mod common;

use common::{Node, PARTITION, formatted, kafka};
use quorate_base::{Epoch, Offset, OffsetEpoch, Rng};
use quorate_log::{
    Damage, Disk, Error, Job, MemoryDisk, Note, Operation, Options, PartialSnapshot, Recovery,
    Retention, Snapshot, SnapshotReader, SnapshotRecord, SnapshotRefusal, SnapshotWriter,
    check_snapshot, glance_at_snapshot, kept_offset, read_chunk, recover, repair, set_aside,
    snapshot_name,
};

fn id(offset: u64, epoch: u32) -> OffsetEpoch {
    OffsetEpoch::new(Offset(offset), Epoch(epoch))
}

fn options() -> Options {
    Options { index_interval_bytes: 100, ..common::options(400, 1 << 20) }
}

fn path(id: OffsetEpoch) -> String {
    format!("{PARTITION}/{}", snapshot_name(id))
}

/// Writes a snapshot of so many records, the last of them at the end.
fn write(disk: &MemoryDisk, id: OffsetEpoch, records: u64) -> Result<Snapshot, Error> {
    let time = 1_000 + id.offset.0 as i64;
    let mut writer = SnapshotWriter::create(disk.clone(), PARTITION, id, time, &[])?;
    for number in 0..records {
        let key = format!("key {number}");
        writer.record(&SnapshotRecord {
            offset: Some(Offset((id.offset.0 + number).saturating_sub(records))),
            timestamp_ms: 1_000 + number as i64 % 7,
            key: Some(key.as_bytes()),
            value: Some(b"value"),
            headers: 1,
            encoded_headers: b"\x02h\x02x",
        })?;
    }
    writer.freeze()
}

fn bytes_of(id: OffsetEpoch, records: u64) -> Vec<u8> {
    let disk = formatted();
    write(&disk, id, records).unwrap();
    disk.contents(&path(id)).unwrap()
}

#[test]
fn what_was_written_is_read_with_offsets_times_and_headers() {
    let disk = formatted();
    let id = id(5_000, 3);
    let written = write(&disk, id, 3_000).unwrap();
    assert_eq!(written.timestamp_ms, 6_000);
    assert_eq!(written.bytes, disk.contents(&path(id)).unwrap().len() as u64);
    let mut reader = SnapshotReader::open(&disk, PARTITION, id).unwrap();
    assert_eq!((reader.timestamp_ms(), reader.voters()), (6_000, &[][..]));
    let (mut number, mut batches) = (0, 0);
    while let Some(batch) = reader.next().unwrap() {
        assert!(batch.header.records <= 1_024);
        assert_eq!((batch.base(), batch.epoch()), (Offset(1 + number), Epoch(3)));
        for record in batch.records() {
            let record = record.unwrap();
            let (offset, mut headers) = kept_offset(&record).unwrap();
            assert_eq!(offset, Offset(2_000 + number));
            assert_eq!(record.timestamp_ms, 1_000 + number as i64 % 7);
            assert_eq!(record.key, Some(format!("key {number}").as_bytes()));
            assert_eq!(headers.next(), Some((&b"h"[..], Some(&b"x"[..]))));
            assert_eq!(headers.next(), None);
            number += 1;
        }
        batches += 1;
    }
    assert_eq!((number, batches), (3_000, 3));
    assert_eq!(check_snapshot(&disk, PARTITION, id).unwrap(), written);
    assert_eq!(glance_at_snapshot(&disk, PARTITION, id).unwrap(), written);
}

#[test]
fn an_empty_state_is_a_header_and_a_footer_and_a_second_freeze_replaces_the_first() {
    let disk = formatted();
    let id = id(9, 1);
    write(&disk, id, 4).unwrap();
    let written = write(&disk, id, 0).unwrap();
    assert_eq!(check_snapshot(&disk, PARTITION, id).unwrap(), written);
    let mut reader = SnapshotReader::open(&disk, PARTITION, id).unwrap();
    assert!(reader.next().unwrap().is_none());
    disk.lose_unsynced();
    assert_eq!(check_snapshot(&disk, PARTITION, id).unwrap(), written);
}

/// T16, T3: every flipped bit, every cut and every byte too many is found, but in what the first
/// batches' checksums leave out and that must be as it is.
#[test]
fn any_damage_to_a_snapshot_is_found() {
    let id = id(9, 1);
    let whole = bytes_of(id, 3);
    let judge = |bytes: &[u8]| {
        let disk = formatted();
        disk.put(&path(id), bytes);
        (check_snapshot(&disk, PARTITION, id), glance_at_snapshot(&disk, PARTITION, id))
    };
    assert!(judge(&whole).0.is_ok());
    for bit in 0..whole.len() * 8 {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let error = judge(&flipped).0.unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "bit {bit}: {error}");
    }
    for cut in 0..whole.len() {
        let (full, glance) = judge(&whole[..cut]);
        assert!(matches!(full, Err(Error::Damaged { .. })), "cut at {cut}");
        assert!(matches!(glance, Err(Error::Damaged { .. })), "cut at {cut}");
    }
    let (full, glance) = judge(&[&whole[..], b"x"].concat());
    assert!(full.is_err() && glance.is_err());
    assert!(judge(&[&whole[..], &whole[..]].concat()).0.is_err());
}

#[test]
fn a_writer_that_is_dropped_or_fails_leaves_nothing() {
    for operation in [Operation::Write, Operation::Sync, Operation::Rename, Operation::SyncDir] {
        let disk = formatted();
        let before = disk.list(PARTITION).unwrap();
        let writer = SnapshotWriter::create(disk.clone(), PARTITION, id(5, 1), 0, &[]).unwrap();
        assert_ne!(disk.list(PARTITION).unwrap(), before);
        disk.fail_next(operation);
        writer.freeze().unwrap_err();
        assert_eq!(disk.list(PARTITION).unwrap(), before, "{operation:?}");
        drop(SnapshotWriter::create(disk.clone(), PARTITION, id(5, 1), 0, &[]).unwrap());
        assert_eq!(disk.list(PARTITION).unwrap(), before);
    }
}

#[test]
fn the_snapshots_of_kafka_are_read() {
    let mut snapshots = 0;
    for name in ["dynamic/c1", "dynamic/c3", "dynamic/c4"] {
        let disk = kafka(name);
        for file in disk.list(PARTITION).unwrap() {
            let Some(quorate_log::SnapshotName::Whole(id)) =
                quorate_log::SnapshotName::parse(&file)
            else {
                continue;
            };
            let snapshot = check_snapshot(&disk, PARTITION, id).unwrap();
            assert_eq!(glance_at_snapshot(&disk, PARTITION, id).unwrap(), snapshot, "{file}");
            snapshots += 1;
        }
    }
    assert!(snapshots > 3, "{snapshots} snapshots");
}

/// A log of twelve batches over several segments, three epochs.
fn grown(disk: &MemoryDisk) -> Node<MemoryDisk> {
    let (mut node, _) = Node::open(disk.clone(), options()).unwrap();
    for number in 0..12 {
        node.append(1, 1 + number / 4, 20);
        node.run();
    }
    node
}

/// T9: one may end where a batch ends, in that batch's epoch, at what is committed, and not below
/// the start of the log.
#[test]
fn a_place_for_a_snapshot_is_judged() {
    let disk = formatted();
    let mut node = grown(&disk);
    node.append(3, 3, 20);
    let end = Offset(15);
    let judge = |offset, epoch, committed| node.log.can_snapshot_at(id(offset, epoch), committed);
    assert_eq!(judge(12, 3, end), Ok(()));
    assert_eq!(judge(4, 1, end), Ok(()));
    assert_eq!(judge(0, 0, end), Err(SnapshotRefusal::Empty));
    let committed = Offset(11);
    assert_eq!(judge(12, 3, committed), Err(SnapshotRefusal::NotCommitted { committed }));
    let durable = Offset(12);
    assert_eq!(judge(15, 3, end), Err(SnapshotRefusal::NotDurable { durable }));
    for (offset, epoch, expected) in [(12, 4, 3), (4, 2, 1), (5, 1, 2)] {
        let expected = Epoch(expected);
        assert_eq!(judge(offset, epoch, end), Err(SnapshotRefusal::WrongEpoch { expected }));
    }
    node.run();
    let base = Offset(12);
    let within = node.log.can_snapshot_at(id(14, 3), end);
    assert_eq!(within, Err(SnapshotRefusal::WithinBatch { base }));
    for offset in [4, 12] {
        let epoch = if offset == 4 { 1 } else { 3 };
        let snapshot = write(&disk, id(offset, epoch), 2).unwrap();
        assert_eq!(node.log.frozen(snapshot), None);
    }
    assert_eq!(node.log.can_snapshot_at(id(12, 3), end), Err(SnapshotRefusal::Exists));
    let job = node.log.trim(Offset(12), &[]);
    node.jobs.push(job);
    node.run();
    let start = Offset(12);
    assert_eq!(node.log.can_snapshot_at(id(8, 2), end), Err(SnapshotRefusal::BelowStart { start }));
}

#[test]
fn snapshots_between_one_that_is_copied_and_the_newest_go_alone() {
    let disk = formatted();
    let mut node = grown(&disk);
    let ids = [id(4, 1), id(8, 2), id(12, 3)];
    for id in ids {
        let snapshot = write(&disk, id, 2).unwrap();
        assert_eq!(node.log.frozen(snapshot), None);
    }
    let sizes: Vec<u64> = node.log.snapshots().iter().map(|held| held.bytes).collect();
    let left = |node: &Node<MemoryDisk>| {
        node.log.snapshots().iter().map(|held| held.id).collect::<Vec<_>>()
    };
    assert_eq!(node.log.bytes_below(Offset(0)), 0);
    let before = node.log.sizes();
    let below = node.log.bytes_below(Offset(12));
    assert!(below > sizes[0] + sizes[1], "segments too: {below}");
    // To the oldest, and without the one in the middle.
    let job = node.log.trim(Offset(4), &[ids[1]]);
    node.jobs.push(job);
    node.run();
    assert_eq!((node.log.start(), left(&node)), (Offset(4), vec![ids[0], ids[2]]));
    let generation = node.log.generation();
    let snapshot = write(&disk, id(10, 3), 2).unwrap();
    assert_eq!(node.log.frozen(snapshot), None);
    let job = node.log.trim(Offset(4), &[id(10, 3)]);
    assert!(matches!(&job, Job::Trim(trim) if trim.epochs.is_none() && trim.segments.is_empty()));
    node.jobs.push(job);
    node.run();
    assert_eq!((node.log.start(), left(&node)), (Offset(4), vec![ids[0], ids[2]]));
    assert_eq!(node.log.generation(), generation, "records are where they were");
    node.log.check();
    let job = node.log.trim(Offset(12), &[ids[0]]);
    node.jobs.push(job);
    node.run();
    assert_eq!(left(&node), [ids[2]]);
    let after = node.log.sizes();
    assert_eq!(below, before.0 + before.1 - after.0 - after.1);
    assert_eq!(node.log.bytes_below(Offset(12)), 0);
}

#[test]
fn a_chunk_is_read_at_any_byte() {
    let disk = formatted();
    let mut node = grown(&disk);
    let snapshot = write(&disk, id(12, 3), 5).unwrap();
    assert_eq!(node.log.frozen(snapshot), None);
    let whole = disk.contents(&path(snapshot.id)).unwrap();
    let mut got = Vec::new();
    while got.len() < whole.len() {
        let plan = node.log.snapshot_chunk(snapshot.id, got.len() as u64, 7).unwrap();
        got.extend(read_chunk(&mut disk.clone(), &plan).unwrap());
    }
    assert_eq!(got, whole);
    assert_eq!(node.log.snapshot_chunk(id(4, 1), 0, 7), None);
}

/// T7: retention against a plain model: drop the oldest while two are left and a limit is passed.
/// Nothing beyond the newest snapshot goes, and a log that starts late has one that covers it.
/// Found where a log that was cut once is to stay whole from then on: its snapshots were never
/// removed.
#[test]
fn of_a_log_that_stays_whole_the_newest_snapshots_stay_and_that_at_its_start() {
    for (start, stay, gone) in [(0, vec![10, 12], vec![4, 8]), (4, vec![4, 10, 12], vec![8])] {
        let disk = formatted();
        let mut node = grown(&disk);
        for (end, epoch) in [(4, 1), (8, 2), (10, 3), (12, 3)] {
            assert_eq!(node.log.frozen(write(&disk, id(end, epoch), 1).unwrap()), None);
        }
        if start > 0 {
            node.jobs.push(node.log.trim(Offset(start), &[]));
            node.run();
        }
        let removed = node.log.keep_newest_snapshots(2);
        let named = |end: &u64| path(id(*end, 1 + (*end as u32 - 1) / 4));
        assert_eq!(removed, gone.iter().map(named).collect::<Vec<_>>());
        let held: Vec<u64> = node.log.snapshots().iter().map(|held| held.id.offset.0).collect();
        assert_eq!(held, stay);
        node.log.check();
    }
}

#[test]
fn retention_takes_the_oldest_first_and_never_the_newest() {
    let mut rng = Rng::new(7);
    let (mut moved, mut stayed) = (0, 0);
    for _ in 0..300 {
        let disk = formatted();
        let mut node = grown(&disk);
        let mut ends: Vec<u64> = (1..=12).filter(|_| rng.one_in(3)).collect();
        ends.dedup();
        for end in &ends {
            let epoch = 1 + (*end as u32 - 1) / 4;
            let snapshot = write(&disk, id(*end, epoch), 1).unwrap();
            assert_eq!(node.log.frozen(snapshot), None);
        }
        let limit = Retention {
            bytes: rng.one_in(2).then(|| rng.below(4_000)),
            ms: rng.one_in(2).then(|| rng.below(15)),
        };
        let wall = 1_000 + rng.below(15) as i64;
        let names = disk.list(PARTITION).unwrap();
        let size = |name: &str| disk.contents(&format!("{PARTITION}/{name}")).unwrap().len() as u64;
        let mut logs: Vec<(u64, u64)> = names
            .iter()
            .filter_map(|name| Some((name.strip_suffix(".log")?.parse().unwrap(), size(name))))
            .collect();
        let mut held: Vec<(u64, u64)> = names
            .iter()
            .filter(|name| name.ends_with(".checkpoint"))
            .map(|name| (name[..20].parse().unwrap(), size(name)))
            .collect();
        let mut expected = None;
        while held.len() >= 2 {
            let total: u64 = logs.iter().chain(&held).map(|(_, bytes)| bytes).sum();
            let large = limit.bytes.is_some_and(|bytes| total > bytes);
            let age = wall - 1_000 - held[0].0 as i64;
            let old = limit.ms.is_some_and(|ms| age > ms as i64);
            if !large && !old {
                break;
            }
            held.remove(0);
            while logs.get(1).is_some_and(|(base, _)| *base <= held[0].0) {
                logs.remove(0);
            }
            expected = Some(held[0].0);
        }
        let found = node.log.overdue(wall, &limit).map(|id| id.offset.0);
        assert_eq!(found, expected, "{ends:?} {limit:?} {wall}");
        match found {
            Some(start) => {
                let job = node.log.trim(Offset(start), &[]);
                node.jobs.push(job);
                node.run();
                assert_eq!(node.log.overdue(wall, &limit), None);
                moved += 1;
            }
            None => stayed += 1,
        }
    }
    assert!(moved > 50 && stayed > 50, "{moved} moved, {stayed} stayed");
}

fn sound(disk: &MemoryDisk) -> Result<Recovery, Error> {
    recover(&mut disk.clone(), &options())
}

fn repaired(disk: &MemoryDisk) -> Result<Recovery, Error> {
    repair(&mut disk.clone(), &options(), |_| true)
}

/// Cuts the power after each step of `act`, in several ways; `judge` looks at what `start` makes of
/// the rest, which must succeed.
fn cut_everywhere(
    prepare: impl Fn(&MemoryDisk),
    act: impl Fn(&MemoryDisk) -> Result<(), Error>,
    start: impl Fn(&MemoryDisk) -> Result<Recovery, Error>,
    judge: impl Fn(&MemoryDisk, Recovery, bool),
) {
    let prepared = formatted();
    prepare(&prepared);
    let mut cuts = 0;
    for power in 0.. {
        let disk = prepared.fork();
        disk.kill();
        disk.limit_power(Some(power));
        let finished = act(&disk).is_ok();
        for seed in 0..6 {
            let disk = disk.fork();
            match seed {
                0 => disk.kill(),
                1 => disk.lose_unsynced(),
                _ => disk.crash(&mut Rng::new(power * 6 + seed)),
            }
            let recovery = start(&disk);
            let recovery = recovery.unwrap_or_else(|error| panic!("{power} {seed}: {error}"));
            let again = recover(&mut disk.clone(), &options()).unwrap();
            assert_eq!(again.notes, [], "power {power}, seed {seed}");
            assert_eq!((again.start, again.end), (recovery.start, recovery.end));
            assert_eq!(again.snapshots, recovery.snapshots);
            // It goes on from there.
            let (mut node, _) = Node::open(disk.clone(), options()).unwrap();
            node.append(1, 9, 20);
            node.run();
            disk.lose_unsynced();
            let end = recover(&mut disk.clone(), &options()).unwrap().end;
            assert_eq!(end, recovery.end + 1, "power {power}, seed {seed}");
            judge(&disk, recovery, finished);
        }
        cuts += 1;
        if finished {
            break;
        }
    }
    assert!(cuts > 10, "{cuts} cuts only");
}

#[test]
fn a_crash_while_a_snapshot_is_written_leaves_all_of_it_or_nothing() {
    cut_everywhere(
        |disk| drop(grown(disk)),
        |disk| write(disk, id(8, 2), 3).map(drop),
        sound,
        |_, recovery, finished| {
            assert_eq!((recovery.start, recovery.end), (Offset(0), Offset(12)));
            assert!(recovery.snapshots.len() <= 1);
            assert!(!finished || recovery.snapshots.len() == 1);
        },
    );
}

#[test]
fn a_crash_within_a_trim_leaves_the_old_start_or_the_new_one() {
    for start in [6, 8, 12] {
        cut_everywhere(
            |disk| {
                drop(grown(disk));
                write(disk, id(3, 1), 1).unwrap();
                write(disk, id(start, 1 + (start as u32 - 1) / 4), 1).unwrap();
            },
            |disk| {
                let (mut node, _) = Node::open(disk.clone(), options())?;
                node.jobs.push(node.log.trim(Offset(start), &[]));
                node.store.run(&mut node.jobs).map(drop)
            },
            sound,
            |_, recovery, finished| {
                assert_eq!(recovery.end, Offset(12));
                assert!([0, start].contains(&recovery.start.0), "{}", recovery.start);
                assert!(!finished || recovery.start.0 == start);
                let held = if recovery.start.0 == 0 { 2 } else { 1 };
                assert_eq!(recovery.snapshots.len(), held);
                assert_eq!(recovery.last(), id(12, 3));
            },
        );
    }
}

fn download(disk: &MemoryDisk, id: OffsetEpoch) -> Result<Snapshot, Error> {
    let mut part = PartialSnapshot::create(disk.clone(), PARTITION, id)?;
    for piece in bytes_of(id, 3).chunks(50) {
        part.write(part.bytes(), piece.to_vec().into())?;
    }
    part.check().map(|(snapshot, _)| snapshot)
}

/// T35: epoch and end are the snapshot's. Ahead by offset, by epoch, and by epoch only.
#[test]
fn a_crash_within_an_adopt_leaves_the_old_log_or_the_snapshot() {
    for to in [id(40, 3), id(40, 7), id(10, 7), id(2, 7)] {
        cut_everywhere(
            |disk| {
                drop(grown(disk));
                write(disk, id(2, 1), 1).unwrap();
            },
            |disk| {
                let (mut node, _) = Node::open(disk.clone(), options())?;
                let snapshot = download(disk, to)?;
                node.jobs.push(node.log.adopt(snapshot));
                node.store.run(&mut node.jobs)?;
                node.log.check();
                assert_eq!(node.log.last(), to);
                Ok(())
            },
            sound,
            |disk, recovery, finished| {
                if recovery.start == Offset(0) {
                    assert!(!finished);
                    assert_eq!(recovery.last(), id(12, 3), "{to}");
                } else {
                    assert_eq!((recovery.start, recovery.last()), (to.offset, to));
                    let held: Vec<_> = recovery.snapshots.iter().map(|held| held.id).collect();
                    assert_eq!(held, [to]);
                    check_snapshot(disk, PARTITION, to).unwrap();
                }
            },
        );
    }
}

#[test]
fn a_download_that_is_not_what_it_should_be_is_refused_and_goes() {
    let disk = formatted();
    let before = disk.list(PARTITION).unwrap();
    let mut bytes = bytes_of(id(5, 1), 3);
    bytes[100] ^= 1;
    let mut part = PartialSnapshot::create(disk.clone(), PARTITION, id(5, 1)).unwrap();
    part.write(0, bytes.into()).unwrap();
    assert!(matches!(part.check(), Err(Error::Damaged { .. })));
    assert_eq!(disk.list(PARTITION).unwrap(), before);
}

/// T8: both offsets are named.
#[test]
fn a_log_whose_beginning_is_missing_is_refused() {
    let disk = formatted();
    let mut node = grown(&disk);
    assert_eq!(node.log.frozen(write(&disk, id(8, 2), 1).unwrap()), None);
    node.jobs.push(node.log.trim(Offset(8), &[]));
    node.run();
    disk.kill();
    let without = disk.fork();
    without.clone().remove(&path(id(8, 2))).unwrap();
    let error = recover(&mut without.clone(), &options()).unwrap_err();
    let Error::Uncovered { start, newest: None, .. } = &error else { panic!("{error}") };
    assert!(error.to_string().contains(&format!("begins at offset {start}, but there is no")));

    // The repair leaves nothing, and does not forget.
    let damage = Damage::of(&error).unwrap();
    set_aside(&mut without.clone(), &options(), &damage).unwrap();
    let recovery = recover(&mut without.clone(), &options()).unwrap();
    assert_eq!((recovery.start, recovery.end), (Offset(0), Offset(0)));
    assert_eq!(recovery.must_reach, Some(id(12, 3)));
}

/// T3: a short or empty checkpoint is set aside, and an older one serves.
#[test]
fn a_damaged_snapshot_is_set_aside_and_an_older_one_serves() {
    let disk = formatted();
    drop(grown(&disk));
    write(&disk, id(4, 1), 1).unwrap();
    let whole = bytes_of(id(8, 2), 2);
    disk.kill();
    for cut in [0, 1, 60, whole.len() - 75, whole.len() - 1] {
        let disk = disk.fork();
        disk.put(&path(id(8, 2)), &whole[..cut]);
        let recovery = recover(&mut disk.clone(), &options()).unwrap();
        let held: Vec<_> = recovery.snapshots.iter().map(|held| held.id).collect();
        assert_eq!((held, recovery.end), (vec![id(4, 1)], Offset(12)));
        let [Note::SnapshotSetAside { path: named, .. }] = &recovery.notes[..] else {
            panic!("{:?}", recovery.notes)
        };
        assert_eq!(*named, path(id(8, 2)));
        assert_eq!(disk.contents(&format!("{named}.damaged")).unwrap(), whole[..cut]);
    }
}

/// T16: damage in each segment, with and without a snapshot beyond, with the power cut in between.
#[test]
fn a_damaged_log_is_set_aside_and_what_it_had_is_not_forgotten() {
    for (segment, at, snapshot) in
        [(0, 30, None), (0, 130, None), (0, 130, Some(id(8, 2))), (9, 110, Some(id(8, 2)))]
    {
        let damaged = |disk: &MemoryDisk| {
            drop(grown(disk));
            if let Some(id) = snapshot {
                write(disk, id, 1).unwrap();
            }
            // The mark is not synced by itself; a system writes it within half a minute.
            let mark = format!("{PARTITION}/quorate-synced");
            disk.put(&mark, &disk.contents(&mark).unwrap());
            let names = disk.list(PARTITION).unwrap();
            let logs: Vec<_> = names.iter().filter(|name| name.ends_with(".log")).collect();
            assert!(logs.len() == 3, "{logs:?}");
            let name = logs.iter().rfind(|name| name[..20].parse::<u64>().unwrap() <= segment);
            disk.flip_bit(&format!("{PARTITION}/{}", name.unwrap()), at, 3);
        };
        cut_everywhere(
            damaged,
            |disk| repaired(disk).map(drop),
            repaired,
            |_, recovery, _| {
                assert_eq!(recovery.must_reach, Some(id(12, 3)));
                assert!(recovery.end < Offset(12));
                if let Some(id) = snapshot {
                    assert!(recovery.end >= id.offset);
                }
            },
        );
    }
}

#[test]
fn must_reach_is_taken_away_when_it_was_reached() {
    let disk = formatted();
    drop(grown(&disk));
    disk.kill();
    disk.flip_bit(&format!("{PARTITION}/{:020}.log", 0), 130, 1);
    let error = recover(&mut disk.clone(), &options()).unwrap_err();
    set_aside(&mut disk.clone(), &options(), &Damage::of(&error).unwrap()).unwrap();
    let (mut node, recovery) = Node::open(disk.clone(), options()).unwrap();
    assert_eq!(recovery.must_reach, Some(id(12, 3)));
    while node.log.end() < Offset(12) {
        node.append(1, 3, 20);
    }
    node.jobs.push(node.log.clear_must_reach());
    node.run();
    disk.lose_unsynced();
    let recovery = recover(&mut disk.clone(), &options()).unwrap();
    assert_eq!((recovery.must_reach, recovery.end), (None, Offset(12)));
}
