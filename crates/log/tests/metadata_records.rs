//! Every metadata record that Kafka 4.3.1 wrote is read whole, shows as Kafka's own dump tool
//! showed it, and is written back byte for byte.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test ends where a fact is missing; a test may use files, threads and clocks"
)]

mod common;

use bytes::Bytes;
use common::{KAFKA_DIRECTORIES, files_below, kafka};
use quorate_log::{Fact, dump};
use quorate_wire::record::metadata::MetadataRecord;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Checks the records of one file against the text beside it, and counts them by type and version.
fn check(directory: &str, path: &str, text: &str, seen: &mut BTreeMap<(u32, i16), u64>) {
    let mut kafkas = text.lines().filter_map(|line| line.split_once(" payload: "));
    let mut disk = kafka(directory);
    dump(&mut disk, path, &mut |fact| {
        let Fact::Record { record, control: None, .. } = fact else { return };
        let place = format!("{directory}/{path} at offset {}", record.offset);
        let value = Bytes::copy_from_slice(record.value.unwrap());
        let (read, version) = MetadataRecord::decode(value.clone()).unwrap();
        assert!(record.key.is_none(), "{place}");
        let (head, shown) = kafkas.next().unwrap();
        assert!(head.starts_with(&format!("| offset: {} ", record.offset)), "{place}: {head}");
        assert_eq!(read.json(version), shown, "{place}");
        *seen.entry((read.api_key(), version)).or_default() += 1;
        assert_eq!(read.encode(version).unwrap(), value, "{place}");
    })
    .unwrap();
    assert_eq!(kafkas.next(), None, "{directory}/{path}");
}

#[test]
fn kafkas_metadata_records_are_read_shown_and_written_as_kafka_does() {
    let root = PathBuf::from(format!("{}/tests/fixtures/kafka-4.3.1", env!("CARGO_MANIFEST_DIR")));
    let mut seen = BTreeMap::new();
    let mut texts = 0;
    for directory in KAFKA_DIRECTORIES {
        for text in files_below(&root.join(directory)) {
            let path = text.strip_prefix(root.join(directory)).unwrap().to_str().unwrap();
            let Some(path) = path.strip_suffix(".dump") else { continue };
            check(directory, path, &std::fs::read_to_string(&text).unwrap(), &mut seen);
            texts += 1;
        }
    }
    assert_eq!(texts, 25);
    assert!(seen.values().sum::<u64>() > 2_000, "{seen:?}");
    // Kafka 4.3.1 writes no others in what the directories went through.
    let types: Vec<(u32, i16)> = seen.into_keys().collect();
    let expect = [
        (0, 4),
        (1, 0),
        (2, 0),
        (3, 2),
        (4, 0),
        (5, 2),
        (9, 0),
        (11, 0),
        (12, 0),
        (14, 0),
        (15, 0),
        (17, 0),
        (17, 1),
        (17, 3),
        (18, 0),
        (19, 0),
        (20, 0),
        (22, 0),
        (23, 0),
        (24, 0),
        (27, 0),
    ];
    assert_eq!(types, expect);
}
