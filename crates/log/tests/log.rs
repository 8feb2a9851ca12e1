//! The log and its store from outside: what reads return, where segments begin, what a group costs,
//! and what is refused at start.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

mod common;

use bytes::Bytes;
use common::{Node, PARTITION, batch, check_indexes, election, formatted, meta, options};
use quorate_base::{Epoch, Offset, Rng, Uuid};
use quorate_log::{
    BatchBuilder, Batches, ControlType, Disk, Error, Founding, Log, MemoryDisk, Meta, Mode,
    Operation, Options, Read, Written, begin_log, complete_format, format, found, is_without_log,
    lost_or_new, read_cold, read_topic, recover,
};
use std::path::Path;

/// The ranges of the batches that a read returns, and whether memory served it.
fn ranges(
    node: &mut Node<MemoryDisk>,
    from: u64,
    end: u64,
    max_bytes: u32,
) -> (bool, Vec<(u64, u64)>) {
    let (hot, bytes) = match node.log.read(Offset(from), Offset(end), max_bytes) {
        Read::Hot(batches, _) => (true, Bytes::from(batches.concat())),
        Read::Cold(plan) => (false, read_cold(&mut node.disk, &plan).unwrap()),
        Read::Nothing => (true, Bytes::new()),
    };
    let ranges = Batches::new(bytes).map(|batch| batch.unwrap());
    (hot, ranges.map(|batch| (batch.base().0, batch.end().0)).collect())
}

#[test]
fn reads_return_whole_batches_from_memory_and_from_disk_alike() {
    for (tail_bytes, hot) in [(1 << 20, true), (0, false)] {
        let (mut node, _) = Node::open(formatted(), options(1 << 20, tail_bytes)).unwrap();
        for records in [1, 3, 2, 4] {
            node.append(records, 1, 10);
        }
        node.run();
        let mut check = |from, end, max_bytes, expect: &[(u64, u64)]| {
            let found = ranges(&mut node, from, end, max_bytes);
            assert_eq!(
                found,
                (hot || from >= end.min(10), expect.to_vec()),
                "{from}..{end} {max_bytes}"
            );
        };
        check(0, 10, 1 << 20, &[(0, 1), (1, 4), (4, 6), (6, 10)]);
        check(2, 10, 1 << 20, &[(1, 4), (4, 6), (6, 10)]);
        check(3, 6, 1 << 20, &[(1, 4), (4, 6)]);
        check(4, 9, 1 << 20, &[(4, 6)]);
        check(0, 10, 0, &[(0, 1)]);
        check(5, 10, 1, &[(4, 6)]);
        check(6, 9, 1 << 20, &[]);
        check(10, 10, 1 << 20, &[]);
        check(10, 99, 1 << 20, &[]);
        let bytes = batch(Offset(0), 1, Epoch(1), 10).len() as u32;
        check(0, 10, bytes, &[(0, 1)]);
        check(0, 10, bytes + batch(Offset(1), 3, Epoch(1), 10).len() as u32, &[(0, 1), (1, 4)]);
    }
}

#[test]
fn batches_stay_in_memory_until_they_are_durable() {
    let (mut node, _) = Node::open(formatted(), options(1 << 20, 0)).unwrap();
    node.append(1, 1, 10);
    node.append(1, 1, 10);
    assert_eq!(ranges(&mut node, 0, 2, 1 << 20), (true, vec![(0, 1), (1, 2)]));
    node.run();
    assert_eq!(ranges(&mut node, 0, 2, 1 << 20), (false, vec![(0, 1), (1, 2)]));
    // A range that begins on disk ends where memory begins.
    node.append(1, 1, 10);
    assert_eq!(ranges(&mut node, 0, 3, 1 << 20), (false, vec![(0, 1), (1, 2)]));
    assert_eq!(ranges(&mut node, 2, 3, 1 << 20), (true, vec![(2, 3)]));
}

#[test]
fn cold_reads_find_their_batch_in_large_segments() {
    let (mut node, _) = Node::open(formatted(), options(20_000, 0)).unwrap();
    for n in 0..600 {
        node.append(1 + n % 3, 1, (n * 7 % 90) as usize);
        if n % 50 == 0 {
            node.append(1, 1, 9_000);
        }
        node.run();
    }
    let end = node.log.end().0;
    for from in 0..end {
        let (hot, found) = ranges(&mut node, from, end, 1);
        assert_eq!((hot, found.len()), (false, 1));
        assert!(found[0].0 <= from && from < found[0].1, "{from} is not in {found:?}");
    }
    // The index that recovery builds finds the same.
    let all = node.read(0, end, 3_000);
    let (mut again, _) = Node::open(node.disk.clone(), options(20_000, 0)).unwrap();
    assert_eq!(again.read(0, end, 5_000), all);
}

#[test]
fn a_cold_read_of_damaged_bytes_serves_what_is_before_them_and_then_fails() {
    let (mut node, _) = Node::open(formatted(), options(1 << 20, 0)).unwrap();
    node.append(1, 1, 10);
    let second = batch(Offset(0), 1, Epoch(1), 10).len();
    node.append(1, 1, 10);
    node.run();
    node.disk.flip_bit(&format!("{PARTITION}/00000000000000000000.log"), second + 70, 0);
    assert_eq!(ranges(&mut node, 0, 2, 1 << 20), (false, vec![(0, 1)]));
    let Read::Cold(plan) = node.log.read(Offset(1), Offset(2), 1 << 20) else { panic!("hot") };
    let error = read_cold(&mut node.disk, &plan).unwrap_err();
    let Error::Damaged { position, .. } = error else { panic!("{error}") };
    assert_eq!(position, second as u64);
}

#[test]
fn a_group_is_one_write_one_sync_and_one_mark() {
    let (mut node, _) = Node::open(formatted(), options(1 << 20, 1 << 20)).unwrap();
    node.append(1, 1, 10);
    node.run();
    let disk = node.disk.clone();
    let before = [Operation::Write, Operation::Sync, Operation::SyncDir].map(|op| disk.count(op));
    for _ in 0..10 {
        node.append(2, 1, 10);
    }
    let sizes = (0..10).map(|n| batch(Offset(1 + 2 * n), 2, Epoch(1), 10).len() as u64);
    let bytes = sizes.sum();
    assert_eq!(node.run(), Written { bytes, writes: 1, syncs: 1, ..Written::default() });
    let after = [Operation::Write, Operation::Sync, Operation::SyncDir].map(|op| disk.count(op));
    assert_eq!([after[0] - before[0], after[1] - before[1], after[2] - before[2]], [2, 1, 0]);
}

#[test]
fn an_election_state_is_durable_before_and_after_what_surrounds_it() {
    let (mut node, _) = Node::open(formatted(), options(1 << 20, 1 << 20)).unwrap();
    node.append(1, 1, 10);
    node.elect(2);
    node.append(1, 2, 10);
    // Two groups of records, each with a new epoch (sync of records; file and name of the table),
    // and the election state between them (file and name).
    assert_eq!(node.run().syncs, 3 + 2 + 3);
}

#[test]
fn a_segment_begins_where_the_old_one_would_grow_too_large() {
    let size = batch(Offset(0), 1, Epoch(1), 10).len() as u64;
    let (mut node, _) = Node::open(formatted(), options(2 * size, 1 << 20)).unwrap();
    for _ in 0..5 {
        node.append(1, 1, 10);
    }
    node.append(1, 1, 1_000);
    node.append(1, 1, 10);
    node.run();
    let names = node.disk.list(PARTITION).unwrap();
    let bases: Vec<&str> = names.iter().filter_map(|name| name.strip_suffix(".log")).collect();
    assert_eq!(bases, [0, 2, 4, 5, 6].map(|base| format!("{base:020}")));
}

/// `metadata.log.segment.ms`; times are those of the batches, so every replica rolls alike.
#[test]
fn a_segment_begins_where_the_old_one_would_grow_too_old() {
    let options = Options { segment_ms: 1_000, ..options(1 << 20, 1 << 20) };
    let (mut node, _) = Node::open(formatted(), options.clone()).unwrap();
    let append = |node: &mut Node<MemoryDisk>, time_ms: i64| {
        let base = node.log.end();
        let mut batch = BatchBuilder::new(base, Epoch(1), time_ms);
        batch.record(None, Some(b"x"), &[]);
        node.jobs.push(node.log.append(base, base + 1, Epoch(1), batch.finish()));
        node.run();
    };
    // Clocks may go back; that begins nothing.
    for time_ms in [5_000, 5_500, 6_000, 4_000, 6_001, 7_001] {
        append(&mut node, time_ms);
    }
    let mut node = Node::open(node.disk, options).unwrap().0;
    for time_ms in [7_001, 7_002] {
        append(&mut node, time_ms);
    }
    let names = node.disk.list(PARTITION).unwrap();
    let bases: Vec<&str> = names.iter().filter_map(|name| name.strip_suffix(".log")).collect();
    assert_eq!(bases, [0, 4, 7].map(|base| format!("{base:020}")));
}

/// Whatever is in them, the log opens as it is, and they are right afterwards.
#[test]
fn an_index_that_the_log_does_not_bear_out_is_written_anew() {
    let fresh = || {
        let (mut node, _) = Node::open(formatted(), options(1 << 20, 0)).unwrap();
        for _ in 0..10 {
            node.append(1, 1, 2_500);
        }
        node.run();
        node.disk
    };
    let check = |name: &str, damage: fn(&mut Vec<u8>), note: Option<&str>| {
        let mut disk = fresh();
        let path = format!("{PARTITION}/00000000000000000000.{name}");
        let mut bytes = disk.contents(&path).unwrap();
        damage(&mut bytes);
        let mut file = disk.open(&path, Mode::Create).unwrap();
        disk.append(&mut file, &[bytes.into()]).unwrap();
        let recovery = recover(&mut disk, &options(1 << 20, 0)).unwrap();
        assert_eq!(recovery.end, Offset(10));
        let notes: Vec<String> = recovery.notes.iter().map(ToString::to_string).collect();
        let expect = note.map(|note| {
            let written = "written anew from the log";
            format!("file={path} {note}: {written}")
        });
        assert_eq!(notes, Vec::from_iter(expect));
        check_indexes(&disk, 4_096);
    };
    // What a crash may leave, or a node of Kafka that ran or was stopped.
    check("index", |bytes| bytes.truncate(8), None);
    check("index", |bytes| bytes.truncate(13), None);
    check("index", Vec::clear, None);
    check("index", |bytes| bytes.resize(10_485_760, 0), None);
    check("timeindex", |bytes| bytes.resize(10_485_756, 0), None);
    check("timeindex", |bytes| bytes.resize(60 << 20, 0), None);
    // What neither leaves.
    let place = "position=0 expected the place of a batch, such as offset 1 at byte 2573, found \
                 offset 2 at byte 21";
    check("index", |bytes| bytes[6..8].copy_from_slice(&[0, 21]), Some(place));
    let time = "position=12 expected time 1700000000004 at offset 4, found time 1700000000014 at \
                offset 4";
    check("timeindex", |bytes| bytes[19] ^= 10, Some(time));
    let end = "position=32 expected no more entries, as the segment ends at offset 10, found offset \
               99 at byte 99999";
    check("index", |bytes| bytes.extend([0, 0, 0, 99, 0, 1, 0x86, 0x9f]), Some(end));
}

#[test]
fn a_cut_within_a_batch_takes_the_whole_batch_if_memory_has_it() {
    let (mut node, _) = Node::open(formatted(), options(1 << 20, 1 << 20)).unwrap();
    node.append(2, 1, 10);
    node.append(4, 2, 10);
    node.run();
    node.truncate(4);
    assert_eq!((node.log.end(), node.log.generation()), (Offset(2), 1));
    assert_eq!(node.log.epochs().entries(), [(Epoch(1), Offset(0))]);
    node.append(1, 3, 10);
    node.run();
    let (node, recovery) = Node::open(node.disk, options(1 << 20, 1 << 20)).unwrap();
    assert_eq!(node.log.end(), Offset(3));
    assert_eq!(recovery.epochs.entries(), [(Epoch(1), Offset(0)), (Epoch(3), Offset(2))]);
    assert_eq!(recovery.last().epoch, Epoch(3));
}

/// Found by the simulator: the second cut took the place of the batch in the segment that goes,
/// byte 0, for a place in the segment that stays, and emptied that.
#[test]
fn two_cuts_at_one_offset_keep_what_is_below_it() {
    let (mut node, _) = Node::open(formatted(), options(1 << 20, 1 << 20)).unwrap();
    for _ in 0..3 {
        node.append(1, 1, 10);
    }
    node.run();
    // Opened anew, memory has none of it: only the disk knows where offset 1 lies.
    let (mut node, _) = Node::open(node.disk, options(1 << 20, 1 << 20)).unwrap();
    node.truncate(1);
    node.append(1, 2, 10);
    node.run();
    node.truncate(1);
    node.append(1, 3, 10);
    node.run();
    let recovery = recover(&mut node.disk, &options(1 << 20, 1 << 20)).unwrap();
    assert_eq!(recovery.epochs.entries(), [(Epoch(1), Offset(0)), (Epoch(3), Offset(1))]);
}

#[test]
fn a_cut_within_a_batch_that_only_the_disk_has_is_refused() {
    let (mut node, _) = Node::open(formatted(), options(1 << 20, 0)).unwrap();
    node.append(2, 1, 10);
    node.append(4, 1, 10);
    node.run();
    node.truncate(4);
    let error = node.store.run(&mut node.jobs).unwrap_err();
    let Error::NotABoundary { position, offset, .. } = error else { panic!("{error}") };
    assert_eq!((position, offset), (batch(Offset(0), 2, Epoch(1), 10).len() as u64, Offset(4)));
    let (node, _) = Node::open(node.disk, options(1 << 20, 0)).unwrap();
    assert_eq!(node.log.end(), Offset(6), "nothing was cut");
}

#[test]
#[should_panic(expected = "an append begins at the end of the log")]
fn b118_an_append_elsewhere_is_a_programmers_error() {
    let recovery = recover(&mut formatted(), &options(1 << 20, 0)).unwrap();
    let mut log = Log::open(options(1 << 20, 0), &recovery);
    log.append(Offset(5), Offset(6), Epoch(1), batch(Offset(5), 1, Epoch(1), 10));
}

#[test]
fn only_an_unused_directory_is_formatted() {
    let mut disk = formatted();
    let again = format(&mut disk, PARTITION, &meta(), Uuid::METADATA_TOPIC).unwrap_err();
    assert!(again.to_string().starts_with("meta.properties exists"), "{again}");

    let mut used = MemoryDisk::default();
    used.put(&format!("{PARTITION}/00000000000000000000.log"), b"x");
    let refused = format(&mut used, PARTITION, &meta(), Uuid::METADATA_TOPIC).unwrap_err();
    let Error::Lost { path, beside } = &refused else { panic!("{refused}") };
    assert_eq!(path, "meta.properties");
    assert_eq!(*beside, format!("{PARTITION}/00000000000000000000.log"));
    let own = ["quorum-state", "quorate-must-reach", "quorate-recovering"];
    for name in own.into_iter().chain(["00000000000000000009-0000000001.checkpoint"]) {
        let mut used = formatted();
        used.remove("meta.properties").unwrap();
        used.put(&format!("{PARTITION}/{name}"), b"");
        let refused = format(&mut used, PARTITION, &meta(), Uuid::METADATA_TOPIC).unwrap_err();
        assert!(matches!(refused, Error::Lost { .. }), "{name}: {refused}");
    }

    let empty = recover(&mut MemoryDisk::default(), &options(1, 1)).unwrap_err();
    assert!(empty.to_string().starts_with("__cluster_metadata-0 does not exist"), "{empty}");
}

/// A format that lost power anywhere can be run again, and then all of it is there; a start says
/// that there is no node yet. So it is with the first voters, of whose file a part may be left.
#[test]
fn a_format_that_was_cut_short_is_run_again() {
    let voters = Founding {
        voters: vec![(ControlType::KRaftVersion, Bytes::from_static(&[0, 0, 0, 1, 0]))],
        bootstrap: vec![Bytes::from_static(b"a record")],
        timestamp_ms: 1,
    };
    for founding in [Founding::default(), voters] {
        let (mut cuts, mut parts) = (0, 0);
        let make = |disk: &mut MemoryDisk| {
            found(disk, PARTITION, &meta(), Uuid::METADATA_TOPIC, &founding)
        };
        for power in 0.. {
            let mut disk = MemoryDisk::default();
            disk.limit_power(Some(power));
            let finished = make(&mut disk).is_ok();
            for seed in 0..6 {
                let mut disk = after_power_loss(&disk, power, seed);
                if let Err(error) = Meta::read(&mut disk) {
                    let means = lost_or_new(&mut disk, PARTITION, error);
                    assert!(matches!(means, Error::NotFormatted { .. }), "power {power}: {means}");
                }
                let left = disk.list(PARTITION).unwrap_or_default();
                parts += usize::from(left.iter().any(|name| name.ends_with(".part")));
                match make(&mut disk) {
                    Ok(()) => assert!(!finished),
                    Err(Error::AlreadyFormatted { path }) => assert_eq!(path, "meta.properties"),
                    Err(error) => panic!("power {power}: {error}"),
                }
                let recovery = recover(&mut disk, &options(1, 1)).unwrap();
                assert_eq!((recovery.end, recovery.election), (Offset(0), None));
                assert_eq!(recovery.head, founding.voters);
            }
            if finished {
                break;
            }
            cuts += 1;
        }
        assert!(cuts > 100, "{cuts} cuts");
        assert_eq!(parts > 20, !founding.voters.is_empty(), "{parts} with a part of a snapshot");
    }
}

/// What Kafka's storage tool leaves of an initial controller's partition: the bootstrap snapshot.
#[allow(clippy::disallowed_methods, reason = "fixtures are files")]
fn kafkas_format(without: &str) -> MemoryDisk {
    let disk = MemoryDisk::default();
    let name = "00000000000000000000-0000000000.checkpoint";
    let theirs = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/kafka-4.3.1/dynamic/c3/__cluster_metadata-0")
        .join(name);
    if name != without {
        disk.put(&format!("{PARTITION}/{name}"), &std::fs::read(theirs).unwrap());
    }
    disk
}

/// What is left of a disk: all that was written, all that was synced, or anything between.
fn after_power_loss(disk: &MemoryDisk, power: u64, seed: u64) -> MemoryDisk {
    let disk = disk.fork();
    match seed {
        0 => disk.lose_unsynced(),
        1 => disk.kill(),
        _ => disk.crash(&mut Rng::new(power * 6 + seed)),
    }
    disk
}

/// However often the power goes meanwhile.
#[test]
fn a_format_of_kafkas_tool_is_completed() {
    let mut cuts = 0;
    for power in 0.. {
        let mut disk = kafkas_format("");
        disk.limit_power(Some(power));
        let finished = complete_format(&mut disk, PARTITION, Uuid::METADATA_TOPIC).is_ok();
        for seed in 0..6 {
            let mut disk = after_power_loss(&disk, power, seed);
            complete_format(&mut disk, PARTITION, Uuid::METADATA_TOPIC).unwrap();
            let recovery = recover(&mut disk, &options(1, 1)).unwrap();
            assert_eq!((recovery.end, recovery.election), (Offset(0), None));
            assert_eq!(recovery.head.len(), 2, "a version and voters");
            assert_eq!(read_topic(&mut disk, PARTITION).unwrap(), Uuid::METADATA_TOPIC);
        }
        if finished {
            break;
        }
        cuts += 1;
    }
    assert!(cuts > 100, "{cuts} cuts");
}

/// What it leaves of any other node: nothing of the partition.
fn kafkas_format_without_log() -> MemoryDisk {
    let disk = MemoryDisk::default();
    disk.put("meta.properties", b"version=1");
    disk.put("bootstrap.checkpoint", b"x");
    disk
}

#[test]
fn a_directory_that_kafkas_tool_left_without_a_log_gets_one() {
    let mut cuts = 0;
    for power in 0.. {
        let mut disk = kafkas_format_without_log();
        assert!(is_without_log(&mut disk, PARTITION).unwrap());
        // What takes the lock says that it formats.
        disk.put(".lock", b"pid 1 (format of node 1)");
        disk.limit_power(Some(power));
        let finished = begin_log(&mut disk, PARTITION, Uuid::METADATA_TOPIC).is_ok();
        for seed in 0..6 {
            let mut disk = after_power_loss(&disk, power, seed);
            if is_without_log(&mut disk, PARTITION).unwrap() {
                begin_log(&mut disk, PARTITION, Uuid::METADATA_TOPIC).unwrap();
            }
            let recovery = recover(&mut disk, &options(1, 1)).unwrap();
            assert_eq!((recovery.end, recovery.election), (Offset(0), None));
            assert_eq!(read_topic(&mut disk, PARTITION).unwrap(), Uuid::METADATA_TOPIC);
            assert!(!is_without_log(&mut disk, PARTITION).unwrap());
        }
        if finished {
            break;
        }
        cuts += 1;
    }
    assert!(cuts > 100, "{cuts} cuts");
}

/// Whoever ran there and finds no log has lost it: Kafka's node leaves the lock's file empty, ours
/// writes its name.
#[test]
fn a_directory_that_was_used_and_has_no_log_gets_none() {
    for lock in [&b""[..], b"pid 7 (quorate node 1)"] {
        let mut disk = kafkas_format_without_log();
        disk.put(".lock", lock);
        assert!(!is_without_log(&mut disk, PARTITION).unwrap());
    }
    for missing in ["meta.properties", "bootstrap.checkpoint"] {
        let mut disk = kafkas_format_without_log();
        disk.remove(missing).unwrap();
        assert!(!is_without_log(&mut disk, PARTITION).unwrap());
    }
    let mut begun = kafkas_format_without_log();
    begun.create_dir(PARTITION).unwrap();
    assert!(!is_without_log(&mut begun, PARTITION).unwrap());
}

/// A node that has lost its log must not begin anew under the same name.
#[test]
fn a_directory_that_was_used_is_not_completed() {
    let mut nothing = kafkas_format("00000000000000000000-0000000000.checkpoint");
    nothing.create_dir(PARTITION).unwrap();
    let mut voted = kafkas_format("");
    voted.put(&format!("{PARTITION}/quorum-state"), b"{}");
    let mut known = kafkas_format("");
    known.put(&format!("{PARTITION}/partition.metadata"), b"version: 0");
    let mut written = kafkas_format("");
    written.put(&format!("{PARTITION}/00000000000000000000.log"), b"x");
    for disk in [&mut nothing, &mut voted, &mut known, &mut written] {
        let before = disk.list(PARTITION).unwrap();
        complete_format(disk, PARTITION, Uuid::METADATA_TOPIC).unwrap();
        assert_eq!(disk.list(PARTITION).unwrap(), before);
    }
}

/// Two segments and two epochs, all durable.
fn two_segments() -> MemoryDisk {
    let (mut node, _) = Node::open(formatted(), options(150, 0)).unwrap();
    node.elect(1);
    node.append(1, 1, 10);
    node.append(1, 1, 10);
    node.append(1, 2, 10);
    node.run();
    assert_eq!(node.disk.list(PARTITION).unwrap().len(), 13);
    node.disk
}

fn refused(disk: &mut MemoryDisk) -> String {
    recover(disk, &options(150, 0)).unwrap_err().to_string()
}

#[test]
fn what_was_synced_and_is_gone_is_refused() {
    let path = |name: &str| format!("{PARTITION}/{name}");
    let mut disk = two_segments();
    disk.remove(&path("00000000000000000002.log")).unwrap();
    let error = refused(&mut disk);
    assert!(error.contains("expected records up to offset 3, which were synced"), "{error}");

    let mut disk = two_segments();
    disk.remove(&path("00000000000000000001.log")).unwrap();
    let error = refused(&mut disk);
    assert!(
        error.contains("expected a segment that begins at offset 1, found offset 2"),
        "{error}"
    );
}

/// The epoch of a batch is outside its checksum; the epoch table stands guard.
#[test]
fn a_changed_epoch_below_the_mark_is_refused() {
    let mut disk = two_segments();
    disk.flip_bit(&format!("{PARTITION}/00000000000000000002.log"), 15, 3);
    let error = refused(&mut disk);
    assert!(error.contains("the epochs of the log (1 from 0, 10 from 2)"), "{error}");
    assert!(error.contains("found (1 from 0, 2 from 2)"), "{error}");
}

/// behaviours.md 16, T5: a replica never forgets its vote.
#[test]
fn an_unreadable_election_state_is_refused_and_a_missing_one_is_none() {
    let mut disk = two_segments();
    let recovery = recover(&mut disk, &options(150, 0)).unwrap();
    assert_eq!(recovery.election, Some(election(1)));
    disk.flip_bit(&format!("{PARTITION}/quorum-state"), 0, 0);
    let error = refused(&mut disk);
    assert!(error.contains("quorum-state is damaged at byte 0: expected a value"), "{error}");
}

/// Its checksum leaves a batch's base offset out, and all the same no read shows a batch at another
/// offset than its own.
#[test]
fn a_batch_whose_offset_or_epoch_rotted_is_never_read_as_another() {
    let (mut node, _) = Node::open(formatted(), options(1 << 20, 0)).unwrap();
    for _ in 0..20 {
        node.append(1, 1, 10);
    }
    node.run();
    let segment = format!("{PARTITION}/{:020}.log", 0);
    let whole = node.disk.contents(&segment).unwrap();
    let mut positions = Vec::new();
    let mut at = 0;
    for batch in Batches::new(whole.into()) {
        positions.push(at);
        at += batch.unwrap().bytes.len();
    }
    for (number, at) in positions.into_iter().enumerate() {
        // The offset and the epoch, which the checksum leaves out.
        for bit in (0..64).chain(96..128) {
            node.disk.flip_bit(&segment, at + bit / 8, (bit % 8) as u32);
            for max_bytes in [1, 150, 1 << 20] {
                let mut from = Offset(0);
                let refused = loop {
                    let Read::Cold(plan) = node.log.read(from, Offset(20), max_bytes) else {
                        break false;
                    };
                    let Ok(bytes) = read_cold(&mut node.disk, &plan) else { break true };
                    for batch in Batches::new(bytes) {
                        let batch = batch.unwrap();
                        assert_eq!(batch.base(), from, "batch {number}, bit {bit}");
                        from = batch.end();
                    }
                };
                assert!(refused, "batch {number}, bit {bit}");
                assert_eq!(from, Offset(number as u64), "batch {number}, bit {bit}");
            }
            node.disk.flip_bit(&segment, at + bit / 8, (bit % 8) as u32);
        }
    }
}

/// Whatever bit of a header rotted, a cut falls where it should or is refused as damage.
#[test]
fn a_cut_never_falls_elsewhere_because_a_batch_rotted() {
    let grown = || {
        let (mut node, _) = Node::open(formatted(), options(1 << 20, 0)).unwrap();
        for _ in 0..6 {
            node.append(1, 1, 10);
        }
        node.run();
        node
    };
    let segment = format!("{PARTITION}/{:020}.log", 0);
    let whole = grown().disk.contents(&segment).unwrap();
    let sizes: Vec<usize> =
        Batches::new(whole.into()).map(|batch| batch.unwrap().bytes.len()).collect();
    let (at, mut refused) = (sizes[..4].iter().sum::<usize>() as u64, 0);
    for number in [2, 3, 4] {
        let position: usize = sizes[..number].iter().sum();
        for bit in 0..61 * 8 {
            let mut node = grown();
            node.disk.flip_bit(&segment, position + bit / 8, (bit % 8) as u32);
            node.truncate(4);
            match node.store.run(&mut node.jobs) {
                Ok(_) => assert_eq!(node.disk.contents(&segment).unwrap().len() as u64, at),
                Err(error) => {
                    assert!(error.is_of_the_files(), "batch {number}, bit {bit}: {error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 100, "{refused}");
}
