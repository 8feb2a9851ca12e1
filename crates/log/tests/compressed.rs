//! Compressed batches that Kafka's own classes (4.3.1) wrote: each file of `fixtures/compressed`
//! holds the same four records, compressed in one of the four ways.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test ends where a fact is missing; a test may use files, threads and clocks"
)]

mod common;

use common::{Node, PARTITION, formatted, options};
use quorate_base::{Epoch, Offset, OffsetEpoch};
use quorate_log::{
    Batch, Batches, Codec, Disk, Error, Fault, MemoryDisk, Mode, SnapshotWriter, recover,
};

const ALL: [Codec; 4] = [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

fn file(codec: Codec) -> Vec<u8> {
    let root = env!("CARGO_MANIFEST_DIR");
    std::fs::read(format!("{root}/tests/fixtures/compressed/{}.log", codec.name())).unwrap()
}

fn batches(codec: Codec) -> Vec<Batch> {
    Batches::new(file(codec).into()).collect::<Result<_, _>>().unwrap()
}

#[test]
fn the_records_are_those_that_were_compressed() {
    let mut long = String::new();
    for line in 0.. {
        long.push_str(&format!("line {line}\n"));
        if long.len() >= 150_000 {
            break;
        }
    }
    for codec in ALL {
        let batches = batches(codec);
        let ranges: Vec<_> = batches.iter().map(|batch| (batch.base().0, batch.end().0)).collect();
        assert_eq!(ranges, [(7, 10), (10, 11)], "{}", codec.name());
        assert_eq!(batches[0].header.codec, codec as u8);
        assert_eq!(batches[0].header.max_timestamp_ms, 1_795_995_000_005);

        let records: Vec<_> = batches[0].records().collect::<Result<_, _>>().unwrap();
        let times: Vec<_> = records.iter().map(|record| record.timestamp_ms).collect();
        assert_eq!(times, [1_795_995_000_000, 1_795_995_000_005, 1_795_995_000_003]);
        assert_eq!(records[0].key, Some(&b"color"[..]));
        assert_eq!(records[0].value, Some(&b"green"[..]));
        let headers: Vec<_> = records[0].headers().collect();
        assert_eq!(headers, [(&b"lease"[..], Some(&b"7"[..])), (&b"none"[..], None)]);
        assert_eq!((records[1].key, records[1].value), (None, None));
        assert_eq!(records[2].key, Some(&b"long"[..]));
        assert_eq!(records[2].value, Some(long.as_bytes()), "{}", codec.name());

        let records: Vec<_> = batches[1].records().collect::<Result<_, _>>().unwrap();
        assert_eq!((records[0].key, records[0].value), (Some(&b"k"[..]), Some(&b"v"[..])));
    }
}

/// A formatted directory whose log is this one, from offset 7 on.
fn directory(log: &[u8]) -> MemoryDisk {
    let mut disk = formatted();
    for name in ["00000000000000000000.log", "quorate-synced"] {
        disk.remove(&format!("{PARTITION}/{name}")).unwrap();
    }
    let path = format!("{PARTITION}/00000000000000000007.log");
    let mut file = disk.open(&path, Mode::Create).unwrap();
    disk.append(&mut file, &[log.to_vec().into()]).unwrap();
    let below = OffsetEpoch::new(Offset(7), Epoch(2));
    SnapshotWriter::create(disk.clone(), PARTITION, below, 0, &[]).unwrap().freeze().unwrap();
    disk
}

#[test]
fn a_log_with_compressed_batches_opens_serves_and_grows() {
    for codec in ALL {
        let disk = directory(&file(codec));
        let (mut node, recovery) = Node::open(disk, options(1 << 30, 0)).unwrap();
        assert_eq!((recovery.start, recovery.end), (Offset(7), Offset(11)));
        node.append(2, 4, 10);
        node.run();
        let served = node.read(7, 13, 1);
        assert!(served.starts_with(&file(codec)), "{}: byte for byte", codec.name());
        let epochs: Vec<_> = Batches::checked_before(served.into()).map(|b| b.epoch()).collect();
        assert_eq!(epochs, [Epoch(3), Epoch(3), Epoch(4)]);
    }
}

/// The checksum is right and the batch whole: no crash left this, so it is not cut off.
#[test]
fn a_batch_that_does_not_inflate_is_damage_and_no_torn_tail() {
    for codec in ALL {
        let mut bytes = file(codec);
        let end = batches(codec)[0].bytes.len();
        bytes[end - 40..end].fill(0xee);
        let checksum = crc32c::crc32c(&bytes[21..end]);
        bytes[17..21].copy_from_slice(&checksum.to_be_bytes());
        let bad = Batches::new(bytes.clone().into()).next().unwrap().unwrap_err();
        assert_eq!(bad.fault, Fault::Garbled { codec });
        let error = recover(&mut directory(&bytes), &options(1 << 30, 0)).unwrap_err();
        let Error::Damaged { position: 0, found, .. } = &error else { panic!("{error}") };
        assert!(found.contains(codec.name()), "{found}");
    }
}
