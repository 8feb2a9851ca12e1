//! Our dump of every file that Kafka 4.3.1 wrote says what Kafka's own dump tool said of it, line
//! by line; the texts of that tool lie beside the files.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test ends where a fact is missing; a test may use files, threads and clocks"
)]

mod common;

use common::{KAFKA_DIRECTORIES, PARTITION, files_below, kafka};
use quorate_log::{Disk, Fact, FileKind, MemoryDisk, dump, files};
use std::path::PathBuf;

fn lines<D: Disk>(disk: &mut D, path: &str) -> Vec<String> {
    let mut lines = Vec::new();
    dump(disk, path, &mut |fact| lines.push(fact.to_string())).unwrap();
    lines
}

/// The part of a line of Kafka's that ours has too: of records of the metadata log Kafka prints the
/// decoded value, which is not for the log to know.
fn comparable(line: &str) -> String {
    let line = line.replace(" deleteHorizonMs: OptionalLong.empty", "");
    line.split(" payload: ").next().unwrap().to_owned()
}

#[test]
fn every_batch_record_and_control_record_is_told_as_kafka_tells_it() {
    let root = PathBuf::from(format!("{}/tests/fixtures/kafka-4.3.1", env!("CARGO_MANIFEST_DIR")));
    let (mut texts, mut batches, mut records, mut controls) = (0, 0, 0, 0);
    for name in KAFKA_DIRECTORIES {
        let mut disk = kafka(name);
        for text in files_below(&root.join(name)) {
            let path = text.strip_prefix(root.join(name)).unwrap().to_str().unwrap();
            let Some(path) = path.strip_suffix(".dump") else { continue };
            let text = std::fs::read_to_string(&text).unwrap();
            // The first line of each names the file.
            let kafkas: Vec<String> = text.lines().skip(1).map(comparable).collect();
            let ours: Vec<String> =
                lines(&mut disk, path)[1..].iter().map(|line| comparable(line)).collect();
            assert_eq!(ours.len(), kafkas.len(), "{name}/{path}");
            for (ours, kafkas) in ours.iter().zip(&kafkas) {
                assert_eq!(ours, kafkas, "{name}/{path}");
            }
            texts += 1;
            batches += kafkas.iter().filter(|line| line.starts_with("baseOffset: ")).count();
            records += kafkas.iter().filter(|line| line.starts_with("| offset: ")).count();
            controls += kafkas.iter().filter(|line| line.ends_with('}')).count();
        }
    }
    assert_eq!((texts, controls), (25, 85));
    assert!(batches > 1_000 && records > 2_000, "{batches} batches, {records} records");
}

#[test]
fn all_other_files_are_told_too() {
    let mut disk = kafka("dynamic/c4");
    let mut all = Vec::new();
    for path in files(&disk, "").unwrap() {
        let told = lines(&mut disk, &path);
        if !matches!(FileKind::of(&path), FileKind::Segment(_) | FileKind::Checkpoint) {
            all.extend(told);
        }
    }
    let expect = "\
file: __cluster_metadata-0/00000000000000000000.log.deleted kind: other size: 0
file: __cluster_metadata-0/00000000000000000154.index kind: offset index size: 16
offset: 217 position: 4139
offset: 271 position: 8283
file: __cluster_metadata-0/00000000000000000154.timeindex kind: time index size: 36
timestamp: 1795995075129 offset: 217
timestamp: 1795995094197 offset: 271
timestamp: 1795995113810 offset: 324
file: __cluster_metadata-0/00000000000000000325.snapshot kind: other size: 10
file: __cluster_metadata-0/leader-epoch-checkpoint kind: epochs size: 16
epoch: 1 firstOffset: 154
epoch: 2 firstOffset: 288
file: __cluster_metadata-0/partition.metadata kind: topic id size: 43
topicId: AAAAAAAAAAAAAAAAAAAAAQ
file: __cluster_metadata-0/quorum-state kind: election state size: 104
epoch: 2 leader: 4 voted: none voters: []";
    let meta = all.iter().position(|line| line.starts_with("file: meta.properties")).unwrap();
    assert_eq!(all[..meta].join("\n"), expect);
    assert!(all[meta + 1].contains("nodeId: 4 directoryId: czfJg4CDwHwVJjbT8tBdAg"), "{all:?}");
}

/// Damage is told, and what comes after it as well.
#[test]
fn damage_is_a_fact_among_others() {
    let mut disk = kafka("static/c2");
    let path = format!("{PARTITION}/00000000000000000000.log");
    let whole = lines(&mut disk, &path);
    disk.flip_bit(&path, 200, 1);
    let damaged = lines(&mut disk, &path);
    // The second batch, with its eleven records.
    assert_eq!(damaged.len(), whole.len() - 11);
    assert!(damaged[3].contains("isvalid: false fault: expected checksum 0x"), "{}", damaged[3]);
    assert_eq!(damaged[4..], whole[15..]);

    let bytes = disk.contents(&path).unwrap();
    let cut = MemoryDisk::default();
    cut.put("x.checkpoint", &bytes[..150]);
    let told = lines(&mut cut.clone(), "x.checkpoint");
    let last = "damaged at byte 106: expected a batch, found 44 bytes of 61";
    assert_eq!(told.last().unwrap(), last);
}

/// Every file of every directory, and every byte of the small ones: no file makes the walk fail.
#[test]
fn nothing_in_a_file_makes_a_dump_fail() {
    for name in KAFKA_DIRECTORIES {
        let disk = kafka(name);
        for path in files(&disk, "").unwrap() {
            let len = disk.contents(&path).unwrap().len();
            let step = (len / 150).max(1);
            for at in (0..len).step_by(step) {
                let mut disk = disk.fork();
                disk.flip_bit(&path, at, (at % 8) as u32);
                let mut facts = 0;
                dump(&mut disk, &path, &mut |fact| {
                    facts += usize::from(!matches!(fact, Fact::File { .. }));
                    assert!(!fact.to_string().is_empty());
                })
                .unwrap();
                assert!(facts > 0 || FileKind::of(&path) == FileKind::Other, "{path} at {at}");
            }
        }
    }
}
