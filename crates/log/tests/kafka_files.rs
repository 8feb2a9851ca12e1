//! Directories that Apache Kafka 4.3.1 wrote: they open, and what we write from the same facts is
//! byte for byte what Kafka wrote.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test ends where a fact is missing; a test may use files, threads and clocks"
)]

mod common;

use bytes::Bytes;
use common::{KAFKA_DIRECTORIES, PARTITION, check_indexes, indexes, kafka as fixture, options};
use quorate_base::{Epoch, Offset, ReplicaId, ReplicaKey, Uuid};
use quorate_log::{
    Batch, BatchBuilder, Batches, ControlType, HEADER_BYTES, MemoryDisk, Meta, control_batch,
    read_topic, recover,
};

fn first_segment(disk: &MemoryDisk) -> Bytes {
    disk.contents(&format!("{PARTITION}/00000000000000000000.log")).unwrap().into()
}

#[test]
fn each_directory_opens_with_the_marks_that_kafka_left() {
    let check = |name: &str, node: u32, range: (u64, u64), epochs: &[(u32, u64)]| {
        let mut disk = fixture(name);
        let meta = Meta::read(&mut disk).unwrap();
        meta.check(None, ReplicaId(node)).unwrap();
        assert!(meta.directory.is_some());
        assert_eq!(read_topic(&mut disk, PARTITION).unwrap(), Uuid::METADATA_TOPIC);

        let recovery = recover(&mut disk, &options(1 << 30, 1 << 20)).unwrap();
        assert_eq!(recovery.notes, [], "{name}");
        check_indexes(&disk, 4_096);
        assert_eq!((recovery.start, recovery.end), (Offset(range.0), Offset(range.1)), "{name}");
        let expect: Vec<_> = epochs.iter().map(|(e, first)| (Epoch(*e), Offset(*first))).collect();
        assert_eq!(recovery.epochs.entries(), expect, "{name}");
    };
    check("static/c1", 1, (0, 284), &[(1, 0), (2, 260)]);
    check("static/c2", 2, (0, 260), &[(1, 0)]);
    check("dynamic/b1/d1", 101, (0, 325), &[(1, 0), (2, 288)]);
    check("dynamic/c1", 1, (0, 288), &[(1, 0)]);
    check("dynamic/c3", 3, (0, 325), &[(1, 0), (2, 288)]);
    check("dynamic/c4", 4, (154, 325), &[(1, 154), (2, 288)]);
}

/// A segment that Kafka closed has one more time, that of its end.
#[test]
fn the_index_files_that_kafka_wrote_follow_from_its_log() {
    for (name, base) in
        [("static/c1", 0), ("dynamic/b1/d1", 0), ("dynamic/c3", 0), ("dynamic/c4", 154)]
    {
        let disk = fixture(name);
        let file = |ending| disk.contents(&format!("{PARTITION}/{base:020}{ending}")).unwrap();
        let expect = indexes(base, &file(".log"), 4_096, true);
        assert_eq!((file(".index"), file(".timeindex")), expect, "{name}");
    }
}

#[test]
fn election_states_of_both_versions_are_read_and_written_alike() {
    let election = |name: &str| {
        let recovery = recover(&mut fixture(name), &options(1 << 30, 1 << 20)).unwrap();
        recovery.election.unwrap()
    };
    for name in ["static/c1", "static/c2"] {
        let written = fixture(name).contents(&format!("{PARTITION}/quorum-state")).unwrap();
        assert_eq!(election(name).encode(), written, "{name}");
    }
    for name in ["dynamic/c1", "dynamic/c3", "dynamic/c4", "dynamic/b1/d1"] {
        let written = fixture(name).contents(&format!("{PARTITION}/quorum-state")).unwrap();
        assert_eq!(election(name).encode_dynamic(), written, "{name}");
    }
    let state = election("dynamic/c3");
    assert_eq!((state.epoch, state.leader), (Epoch(2), Some(ReplicaId(4))));
    let directory = "czfJg4CDwHwVJjbT8tBdAg".parse().unwrap();
    assert_eq!(state.voted, Some(ReplicaKey::new(ReplicaId(4), Some(directory))));
}

/// Every log and every snapshot of every directory, the log that was being deleted too.
#[test]
fn every_batch_is_written_alike_from_its_records() {
    let (mut files, mut batches, mut records) = (0, 0, 0);
    for name in KAFKA_DIRECTORIES {
        let disk = fixture(name);
        let paths = quorate_log::files(&disk, "").unwrap();
        let is_log = |path: &&String| {
            [".log", ".checkpoint", ".log.deleted"].iter().any(|ending| path.ends_with(ending))
        };
        for path in paths.iter().filter(is_log) {
            for batch in Batches::new(disk.contents(path).unwrap().into()) {
                let batch = batch.unwrap();
                let copy = if batch.control() {
                    BatchBuilder::control(batch.base(), batch.epoch(), batch.timestamp_ms())
                } else {
                    BatchBuilder::new(batch.base(), batch.epoch(), batch.timestamp_ms())
                };
                records += check_rewritten(&batch, copy, &format!("{name}/{path}"));
                batches += 1;
            }
            files += 1;
        }
    }
    assert_eq!((files, batches, records), (26, 1_193, 2_138));
}

/// Returns how many records were written.
fn check_rewritten(batch: &Batch, mut copy: BatchBuilder, what: &str) -> usize {
    for record in batch.records() {
        let record = record.unwrap();
        assert_eq!(record.timestamp_ms, batch.timestamp_ms(), "{what}");
        copy.record(record.key, record.value, &record.headers().collect::<Vec<_>>());
    }
    let records = copy.records() as usize;
    let copy = copy.finish();
    assert_eq!(copy[..HEADER_BYTES], batch.bytes[..HEADER_BYTES], "{what}");
    assert_eq!(copy, batch.bytes, "{what}");
    records
}

/// The example of docs/FORMATS.md.
#[test]
fn a_leader_change_is_written_alike() {
    let kafka = Batches::new(first_segment(&fixture("static/c2"))).next().unwrap().unwrap();
    let record = kafka.records().next().unwrap().unwrap();
    assert_eq!(ControlType::of_key(record.key.unwrap()), Ok(ControlType::LeaderChange));
    let value = [
        0, 0, // version
        0, 0, 0, 2, // leader
        4, 0, 0, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 3, 0, // voters 1, 2, 3
        3, 0, 0, 0, 2, 0, 0, 0, 0, 1, 0, // granted by 2 and 1
        0,
    ];
    assert_eq!(record.value, Some(&value[..]));
    let time = 1_795_994_907_365;
    let records = [(ControlType::LeaderChange, Bytes::copy_from_slice(&value))];
    let ours = control_batch(Offset(0), Epoch(1), time, &records);
    assert_eq!(ours, kafka.bytes);
}
