//! Seeded damage: whatever is done to the bytes, nothing panics, what is accepted is a prefix of
//! what was written, and an error names a place in the file.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

mod common;

use bytes::Bytes;
use common::{Node, PARTITION, formatted, options};
use quorate_base::{Epoch, Offset, Rng};
use quorate_log::{BatchBuilder, Batches, Disk, Error, MemoryDisk, Mode, recover};

/// Flips, cuts, zeroes or inserts, somewhere.
fn damage(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let at = rng.below(bytes.len() as u64 + 1) as usize;
    match rng.below(6) {
        0 => bytes.truncate(at),
        1 => bytes.extend((0..rng.below(100)).map(|_| 0)),
        2 => {
            let end = (at + rng.below(600) as usize).min(bytes.len());
            bytes[at..end].fill(0);
        }
        3 => bytes.insert(at, rng.next() as u8),
        4 if at + 4 <= bytes.len() => bytes[at..at + 4].fill(0xff),
        _ if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
        _ => {}
    }
}

fn sample() -> Bytes {
    let mut bytes = Vec::new();
    let mut base = Offset(0);
    for records in [1, 3, 2] {
        let mut batch = BatchBuilder::new(base, Epoch(1), 1_000);
        for _ in 0..records {
            batch.record(Some(b"key"), Some(&[7; 30]), &[(b"header", Some(b"x")), (b"none", None)]);
        }
        base = batch.end();
        bytes.extend_from_slice(&batch.finish());
    }
    bytes.into()
}

#[test]
fn damaged_batches() {
    let (mut rejected, mut whole) = (0, 0);
    for seed in 0..20_000 {
        let mut rng = Rng::new(seed);
        let mut bytes = sample().to_vec();
        for _ in 0..1 + rng.below(3) {
            damage(&mut bytes, &mut rng);
        }
        let bytes = Bytes::from(bytes);
        for batch in Batches::new(bytes.clone()) {
            match batch {
                Ok(batch) => {
                    assert_eq!(batch.records().filter(|record| record.is_err()).count(), 0);
                    whole += 1;
                }
                Err(bad) => {
                    assert!(bad.position < bytes.len() as u64, "seed {seed}: {bad}");
                    rejected += 1;
                }
            }
        }
    }
    assert!(rejected > 5_000 && whole > 5_000, "{rejected} rejected, {whole} whole");
}

/// The checksum made right again, so that the records themselves are what is damaged.
#[test]
fn damaged_records_under_a_right_checksum() {
    let mut bad = 0;
    for seed in 0..20_000 {
        let mut rng = Rng::new(seed);
        let mut bytes = sample().to_vec();
        let at = 61 + rng.below(40) as usize;
        bytes[at] = rng.next() as u8;
        let first = 12 + u32::from_be_bytes(*bytes[8..].first_chunk().unwrap()) as usize;
        let checksum = crc32c::crc32c(&bytes[21..first]);
        bytes[17..21].copy_from_slice(&checksum.to_be_bytes());
        let batch = Batches::new(bytes.into()).next().unwrap().unwrap();
        let records: Vec<_> = batch.records().collect();
        assert!(records.len() <= 2, "seed {seed}: {records:?}");
        bad += records.iter().filter(|record| record.is_err()).count();
        for record in records.iter().flatten() {
            assert!(record.headers().count() <= 40, "seed {seed}");
        }
    }
    assert!(bad > 2_000, "{bad} malformed records");
}

fn written() -> (MemoryDisk, Vec<u8>) {
    let (mut node, _) = Node::open(formatted(), options(700, 0)).unwrap();
    for epoch in 1..4 {
        node.elect(epoch);
        node.append(1, epoch, 30);
        node.append(3, epoch, 30);
        node.run();
    }
    let all = node.read(0, 12, 100);
    (node.disk, all)
}

fn replace(disk: &mut MemoryDisk, path: &str, bytes: Vec<u8>) {
    let mut file = disk.open(path, Mode::Create).unwrap();
    disk.append(&mut file, &[bytes.into()]).unwrap();
    disk.sync(&file).unwrap();
}

#[test]
fn damaged_directories() {
    let (disk, all) = written();
    let files = disk.list(PARTITION).unwrap();
    assert_eq!(files.iter().filter(|name| name.ends_with(".log")).count(), 2);
    assert_eq!(files.len(), 10, "{files:?}");
    let (mut refused, mut mended, mut same) = (0, 0, 0);
    for seed in 0..6_000 {
        let mut rng = Rng::new(seed);
        let mut disk = disk.fork();
        let path = format!("{PARTITION}/{}", files[rng.below(10) as usize]);
        let mut bytes = disk.contents(&path).unwrap();
        let before = bytes.clone();
        damage(&mut bytes, &mut rng);
        let changed = bytes != before;
        replace(&mut disk, &path, bytes);
        match recover(&mut disk, &options(700, 0)) {
            Ok(recovery) => {
                let notes = recovery.notes.len();
                // All of it was synced, so none of it may go.
                assert_eq!(recovery.end, Offset(12), "seed {seed}: {path}");
                let (mut node, recovery) = Node::open(disk, options(700, 0)).unwrap();
                assert_eq!(recovery.notes, [], "seed {seed}: mended at once");
                assert_eq!(node.read(0, 12, 100), all, "seed {seed}: {path}");
                (mended, same) = if notes > 0 { (mended + 1, same) } else { (mended, same + 1) };
            }
            Err(error) => {
                assert!(changed, "seed {seed}: {error}");
                let (Error::Damaged { path: named, .. } | Error::Malformed { path: named, .. }) =
                    &error
                else {
                    panic!("seed {seed}: {error}")
                };
                // A hole in one segment may show where the next one begins.
                assert!(*named == path || path.ends_with(".log"), "seed {seed}: {path}: {error}");
                assert!(error.to_string().contains("at byte"), "seed {seed}: {error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 1_500, "{refused} refused");
    assert!(mended > 200, "{mended} mended");
    assert!(same > 500, "{same} without effect");
}

/// Damage above the synced mark is a torn tail; the same damage below it is not.
#[test]
fn the_mark_tells_a_torn_tail_from_damage() {
    let path = format!("{PARTITION}/00000000000000000000.log");
    let disk = formatted();
    let (mut node, _) = Node::open(disk.clone(), options(1 << 20, 1 << 20)).unwrap();
    node.append(1, 1, 30);
    node.run();
    let firm = disk.contents(&path).unwrap().len();
    // A group whose sync did not return.
    disk.fail_next(quorate_log::Operation::Sync);
    node.append(1, 1, 30);
    node.append(1, 1, 30);
    node.store.run(&mut node.jobs).unwrap_err();
    disk.kill();
    let len = disk.contents(&path).unwrap().len();
    for at in 0..len {
        let mut disk = disk.fork();
        disk.flip_bit(&path, at, 0);
        match recover(&mut disk, &options(1 << 20, 1 << 20)) {
            Ok(recovery) if recovery.notes.is_empty() => panic!("byte {at}: not noticed"),
            Ok(recovery) => {
                assert!(at >= firm, "byte {at} was synced");
                assert!(recovery.end >= Offset(1), "byte {at}");
                // The epoch of the last batch is the one field that neither its checksum nor the
                // next batch guards, and the epoch table only once the batch was synced.
                let last_epoch = 2 * firm + 12..2 * firm + 16;
                assert!(recovery.end < Offset(3) || last_epoch.contains(&at), "byte {at}");
            }
            Err(Error::Damaged { position, .. }) => {
                // A batch that is right but for its offset or its epoch, which the checksum leaves
                // out, was not cut short; nor was one that comes behind such an epoch.
                let unchecked = [0..8, 12..16].iter().any(|bytes| bytes.contains(&(at % firm)));
                assert!(at < firm || unchecked, "byte {at} of {firm} was never synced");
                let shows_later = at >= firm || (12..16).contains(&at);
                assert!(shows_later || position == 0, "byte {at}");
            }
            Err(error) => panic!("byte {at}: {error}"),
        }
    }
}
