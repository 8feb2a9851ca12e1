//! docs/FORMATS.md shows every file as the log writes it: each example there is made here and
//! looked for, line by line. On a mismatch the test prints what belongs into the page.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test ends where a fact is missing; a test may use files, threads and clocks"
)]

mod common;

use bytes::Bytes;
use common::keyed::{TIME, now, open, settings, sweep};
use common::{PARTITION, formatted, options};
use quorate_base::{Epoch, Offset, OffsetEpoch, ReplicaId};
use quorate_log::{
    BatchBuilder, Batches, CleanSettings, ControlType, Election, Log, MemoryDisk, SnapshotRecord,
    SnapshotWriter, Store, ToClean, control_batch, recover, repair, snapshot_name,
};
use std::fmt::Write;

/// Sixteen bytes a line: position, hex, text. Runs of zero lines become one `*`.
fn dump(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut skipped = false;
    for (line, chunk) in bytes.chunks(16).enumerate() {
        if chunk.len() == 16 && chunk.iter().all(|byte| *byte == 0) && line > 0 {
            if !skipped {
                text.push_str("*\n");
            }
            skipped = true;
            continue;
        }
        skipped = false;
        write!(text, "{:04x} ", line * 16).unwrap();
        for pair in chunk.chunks(2) {
            text.push(' ');
            pair.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
        }
        let printable =
            |byte: &u8| if (0x20..0x7f).contains(byte) { char::from(*byte) } else { '.' };
        let letters: String = chunk.iter().map(printable).collect();
        let gap = 7 + 40 - (text.len() - text.rfind('\n').map_or(0, |at| at + 1));
        writeln!(text, "{:gap$}{letters}", "").unwrap();
    }
    text
}

fn page() -> String {
    std::fs::read_to_string(format!("{}/../../docs/FORMATS.md", env!("CARGO_MANIFEST_DIR")))
        .unwrap()
}

fn shown(name: &str, text: &str) {
    let block = format!("```text\n{}\n```", text.trim_end());
    assert!(page().contains(&block), "docs/FORMATS.md lacks this for {name}:\n{block}");
}

/// A directory after an election and one record.
fn directory() -> MemoryDisk {
    let mut disk = formatted();
    let options = options(1 << 30, 1 << 20);
    let recovery = recover(&mut disk, &options).unwrap();
    let mut store = Store::open(disk.clone(), &options, &recovery).unwrap();
    let mut log = Log::open(options, &recovery);
    let voters = vec![ReplicaId(1), ReplicaId(2), ReplicaId(3)];
    let election = Election { epoch: Epoch(4), leader: Some(ReplicaId(2)), voted: None, voters };
    let value = [
        0, 0, 0, 0, 0, 2, 4, 0, 0, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 3, 0, 3, 0, 0, 0, 2, 0, 0, 0,
        0, 1, 0, 0,
    ];
    let records = [(ControlType::LeaderChange, Bytes::copy_from_slice(&value))];
    let time = 1_795_994_907_365;
    let change = control_batch(Offset(0), Epoch(4), time, &records);
    let mut batch = BatchBuilder::new(Offset(1), Epoch(4), time + 1);
    batch.record(Some(b"color"), Some(b"green"), &[(b"lease", Some(b"7"))]);
    let mut jobs = vec![
        log.election(&election),
        log.append(Offset(0), Offset(1), Epoch(4), change),
        log.append(Offset(1), Offset(2), Epoch(4), batch.finish()),
    ];
    store.run(&mut jobs).unwrap();
    disk
}

/// A snapshot of the one record.
fn snapshot(id: OffsetEpoch) -> Vec<u8> {
    let disk = formatted();
    let time = 1_795_994_907_366;
    let mut writer = SnapshotWriter::create(disk.clone(), PARTITION, id, time, &[]).unwrap();
    let record = SnapshotRecord {
        offset: Some(Offset(1)),
        timestamp_ms: time,
        key: Some(b"color"),
        value: Some(b"green"),
        headers: 0,
        encoded_headers: b"",
    };
    writer.record(&record).unwrap();
    writer.freeze().unwrap();
    disk.contents(&format!("{PARTITION}/{}", snapshot_name(id))).unwrap()
}

/// What is noted when the record is damaged: the log ended at 2, in epoch 4.
fn must_reach(whole: &MemoryDisk) -> Vec<u8> {
    let disk = whole.fork();
    let mark = format!("{PARTITION}/quorate-synced");
    disk.put(&mark, &disk.contents(&mark).unwrap());
    disk.flip_bit(&format!("{PARTITION}/00000000000000000000.log"), 180, 0);
    repair(&mut disk.clone(), &options(1 << 30, 1 << 20), |_| true).unwrap();
    disk.contents(&format!("{PARTITION}/quorate-must-reach")).unwrap()
}

#[test]
fn every_file_is_shown_as_it_is_written() {
    let disk = directory();
    let file = |name: &str| disk.contents(&format!("{PARTITION}/{name}")).unwrap();
    let log = file("00000000000000000000.log");
    shown("the LeaderChange batch", &dump(&log[..106]));
    shown("the record batch", &dump(&log[106..]));
    shown("leader-epoch-checkpoint", &dump(&file("leader-epoch-checkpoint")));
    shown("quorum-state", &String::from_utf8(file("quorum-state")).unwrap());
    shown("quorate-synced", &dump(&file("quorate-synced")));
    shown("quorate-must-reach", &dump(&must_reach(&disk)));
    let id = OffsetEpoch::new(Offset(2), Epoch(4));
    let name = snapshot_name(id);
    assert!(page().contains(&format!("`{name}`")), "docs/FORMATS.md lacks the name {name}");
    shown("a snapshot", &dump(&snapshot(id)));
    shown("partition.metadata", &String::from_utf8(file("partition.metadata")).unwrap());
    let meta = disk.contents("meta.properties").unwrap();
    shown("meta.properties", &String::from_utf8(meta).unwrap());
}

/// A log of which offsets 1 to 6 are cleaned away, or about to be when the power fails.
fn cleaned(power: Option<u64>) -> MemoryDisk {
    let disk = formatted();
    let mut node = open(&disk, &options(600, 1 << 20));
    node.put(4, &[("b", Some("1"))]);
    (1..7).for_each(|_| node.put(4, &[("a", Some("1"))]));
    node.put_each(4, &[("a", None), ("c", Some("2"))]);
    node.run();
    let settings = CleanSettings { max_lag_ms: Some(0), ..settings() };
    let at = now(TIME + 100, 9);
    let Some(ToClean::Roll(job)) = node.log.to_clean(&at, &settings) else { panic!("a roll") };
    node.jobs.push(*job);
    node.run();
    let Some(ToClean::Round(round)) = node.log.to_clean(&at, &settings) else { panic!("a round") };
    let (groups, swept) = sweep(&disk, *round).unwrap();
    disk.limit_power(power);
    for group in groups {
        let job = node.log.swap(group).unwrap();
        node.jobs.push(job);
    }
    node.jobs.extend(node.log.finish_round(&swept));
    let _ = node.try_run();
    disk
}

#[test]
fn a_cleaned_log_is_shown_as_it_is_written() {
    let disk = cleaned(None);
    let log = disk.contents(&format!("{PARTITION}/00000000000000000000.log")).unwrap();
    let first = Batches::new(log.clone().into()).next().unwrap().unwrap().bytes.len();
    shown("an empty batch", &dump(&log[first..first + 61]));
    let checkpoint = disk.contents("cleaner-offset-checkpoint").unwrap();
    shown("cleaner-offset-checkpoint", &String::from_utf8(checkpoint).unwrap());
    let numbers = |power| cleaned(Some(power)).contents(&format!("{PARTITION}/quorate-cleaned"));
    let under_way = (0..1_000).filter_map(numbers).find(|bytes| bytes.len() > 64).unwrap();
    shown("quorate-cleaned", &dump(&under_way));
}

/// The second batch begins more than 4096 bytes into the segment.
#[test]
fn both_indexes_are_shown_as_they_are_written() {
    let mut disk = formatted();
    let options = options(1 << 30, 1 << 20);
    let recovery = recover(&mut disk, &options).unwrap();
    let mut store = Store::open(disk.clone(), &options, &recovery).unwrap();
    let mut log = Log::open(options, &recovery);
    let time = 1_795_994_907_365;
    let mut jobs = Vec::new();
    for (base, value_bytes) in [(Offset(0), 5_000), (Offset(1), 10)] {
        let mut batch = BatchBuilder::new(base, Epoch(4), time + base.0 as i64);
        batch.record(Some(b"color"), Some(&vec![b'x'; value_bytes]), &[]);
        jobs.push(log.append(base, base + 1, Epoch(4), batch.finish()));
    }
    store.run(&mut jobs).unwrap();
    let file = |name: &str| disk.contents(&format!("{PARTITION}/{name}")).unwrap();
    shown(".index", &dump(&file("00000000000000000000.index")));
    shown(".timeindex", &dump(&file("00000000000000000000.timeindex")));
}
