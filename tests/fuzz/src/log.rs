//! The log: batches and their records, whole directories, and the small files beside the segments.

use crate::damage::{damage, noise};
use bytes::Bytes;
use quorate_base::{Epoch, Offset, ReplicaId, Rng, Uuid};
use quorate_log::{
    BatchBuilder, Batches, Disk, Election, Fact, HEADER_BYTES, Log, MemoryDisk, Meta, Note,
    Operation, Options, Read, Store, dump, format, read_cold, read_topic, recover, verify,
};
use std::sync::OnceLock;

/// Batches that Kafka compressed in each way.
const COMPRESSED: [&[u8]; 4] = [
    include_bytes!("../../../crates/log/tests/fixtures/compressed/gzip.log"),
    include_bytes!("../../../crates/log/tests/fixtures/compressed/snappy.log"),
    include_bytes!("../../../crates/log/tests/fixtures/compressed/lz4.log"),
    include_bytes!("../../../crates/log/tests/fixtures/compressed/zstd.log"),
];

/// Where the checksum lies in a batch, and what it covers begins.
const CHECKSUM: usize = 17;
const CHECKED_FROM: usize = 21;

fn options() -> Options {
    Options { segment_bytes: 700, tail_bytes: 0, ..Options::default() }
}

/// A batch of a few records.
pub(crate) fn batch(base: Offset, epoch: Epoch, rng: &mut Rng) -> (Offset, Bytes) {
    let time = 1_700_000_000_000 + rng.below(1_000) as i64;
    let mut batch = BatchBuilder::new(base, epoch, time);
    for _ in 0..=rng.below(4) {
        let key = (!rng.one_in(5)).then(|| noise(rng, 12));
        let value = (!rng.one_in(5)).then(|| noise(rng, 60));
        let header = noise(rng, 5);
        let headers = [(&b"name"[..], Some(&header[..])), (&b"none"[..], None)];
        let headers = &headers[..rng.below(3) as usize];
        batch.record(key.as_deref(), value.as_deref(), headers);
    }
    (batch.end(), batch.finish())
}

/// A run of batches, now and then with checksums that fit the damage.
pub fn make_batches(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    if rng.one_in(64) {
        bytes.extend_from_slice(COMPRESSED[rng.below(4) as usize]);
    } else {
        let mut base = Offset(rng.below(100));
        for _ in 0..=rng.below(3) {
            let (end, batch) = batch(base, Epoch(rng.below(3) as u32), rng);
            base = end;
            bytes.extend_from_slice(&batch);
        }
    }
    if rng.one_in(8) {
        return bytes;
    }
    // Another codec makes noise of the records.
    if rng.one_in(8) {
        bytes[CHECKED_FROM + 1] = rng.below(8) as u8;
    }
    damage(&mut bytes, rng);
    if !rng.one_in(3) {
        mend_checksum(&mut bytes);
    }
    bytes
}

/// Makes the first batch's length and checksum right, so that what is wrong lies deeper.
fn mend_checksum(bytes: &mut [u8]) {
    if bytes.len() < HEADER_BYTES {
        return;
    }
    let announced = bytes[8..].first_chunk().map_or(0, |length| u32::from_be_bytes(*length));
    let mut end = (announced as usize).saturating_add(12);
    if end < HEADER_BYTES || end > bytes.len() {
        end = bytes.len();
        bytes[8..12].copy_from_slice(&(end as u32 - 12).to_be_bytes());
    }
    bytes[16] = 2;
    let checksum = crc32c::crc32c(&bytes[CHECKED_FROM..end]);
    bytes[CHECKSUM..CHECKED_FROM].copy_from_slice(&checksum.to_be_bytes());
}

/// Walks batches and records.
pub fn check_batches(input: &[u8]) {
    let (mut position, mut failed) = (0, false);
    for batch in Batches::new(Bytes::copy_from_slice(input)) {
        assert!(!failed, "the walk goes on after an error");
        match batch {
            Ok(batch) => {
                let end = position + batch.bytes.len();
                assert_eq!(batch.bytes, input[position..end], "not the bytes at {position}");
                position = end;
                assert!(batch.base() <= batch.last() && batch.end() == batch.last() + 1);
                let (mut next, mut bad) = (batch.base(), false);
                for record in batch.records() {
                    assert!(!bad, "the walk goes on after an error");
                    match record {
                        Ok(record) => {
                            assert!(record.offset >= next && record.offset <= batch.last());
                            next = record.offset + 1;
                            let headers = record.headers();
                            assert_eq!(headers.left() as usize, headers.count());
                        }
                        Err(error) => {
                            assert!(!error.to_string().is_empty());
                            bad = true;
                        }
                    }
                }
            }
            Err(error) => {
                assert_eq!(error.position, position as u64, "{error}");
                assert!(!error.to_string().is_empty());
                failed = true;
            }
        }
    }
    assert!(failed || position == input.len(), "ends at {position} of {}", input.len());
}

fn meta() -> Meta {
    Meta { cluster: "fuzzed".to_owned(), node: ReplicaId(1), directory: Some(Uuid([7; 16])) }
}

fn formatted() -> MemoryDisk {
    let mut disk = MemoryDisk::default();
    format(&mut disk, &options().partition, &meta(), Uuid::METADATA_TOPIC)
        .expect("the disk is new");
    disk
}

/// A directory with a few segments and epochs, always the same.
fn written() -> &'static [(String, Vec<u8>)] {
    static WRITTEN: OnceLock<Vec<(String, Vec<u8>)>> = OnceLock::new();
    WRITTEN.get_or_init(|| {
        let (mut disk, options, mut rng) = (formatted(), options(), Rng::new(1));
        let recovery = recover(&mut disk, &options).expect("just formatted");
        let mut store = Store::open(disk.clone(), &options, &recovery).expect("just recovered");
        let mut log = Log::open(options, &recovery);
        for epoch in 1..5 {
            let voters = vec![ReplicaId(1), ReplicaId(2)];
            let election =
                Election { epoch: Epoch(epoch), leader: Some(ReplicaId(1)), voted: None, voters };
            let mut jobs = vec![log.election(&election)];
            for _ in 0..3 {
                let base = log.end();
                let (end, bytes) = batch(base, Epoch(epoch), &mut rng);
                jobs.push(log.append(base, end, Epoch(epoch), bytes));
            }
            store.run(&mut jobs).expect("the disk has room");
            log.durable(log.end());
        }
        files(&disk)
    })
}

/// The files of the partition.
fn files(disk: &MemoryDisk) -> Vec<(String, Vec<u8>)> {
    let dir = options().partition;
    let names = disk.list(&dir).expect("it is there");
    let content = |name: &String| disk.contents(&format!("{dir}/{name}")).expect("listed");
    names.iter().map(|name| (name.clone(), content(name))).collect()
}

/// Files one after the other: length of the name, name, length of the content, content.
fn pack(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut packed = Vec::new();
    for (name, content) in files {
        packed.push(name.len() as u8);
        packed.extend(name.as_bytes());
        packed.extend((content.len() as u32).to_be_bytes());
        packed.extend(content);
    }
    packed
}

/// What [`pack`] made; ends where the input makes no sense.
fn unpack(mut packed: &[u8]) -> Vec<(String, &[u8])> {
    let mut files = Vec::new();
    while let Some((length, rest)) = packed.split_first()
        && let Some((name, rest)) = rest.split_at_checked(usize::from(*length))
        && let Some((length, rest)) = rest.split_first_chunk()
        && let Some((content, rest)) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)
    {
        let name = String::from_utf8_lossy(name).replace('/', "_");
        files.push((name, content));
        packed = rest;
    }
    files
}

/// A partition's directory with something done to it.
pub fn make_directory(rng: &mut Rng) -> Vec<u8> {
    let mut files = written().to_vec();
    for _ in 0..=rng.below(2) {
        let at = rng.below(files.len() as u64) as usize;
        match rng.below(8) {
            0 => drop(files.remove(at)),
            1 => {
                let offset = [0, 1, rng.below(40), u64::MAX, 1 << 63][rng.below(5) as usize];
                let ending = ["log", "log.deleted", "index", "checkpoint"][rng.below(4) as usize];
                let content = match rng.one_in(2) {
                    true => files[at].1.clone(),
                    false => noise(rng, 100),
                };
                files.push((format!("{offset:020}.{ending}"), content));
            }
            2 => {
                let name = format!("{}.tmp", files[at].0);
                let content = files[at].1.clone();
                files.push((name, content));
            }
            3 => {
                let other = rng.below(files.len() as u64) as usize;
                let content = files[other].1.clone();
                files[at].1 = content;
            }
            4 => {
                files[at].1.extend([0; 700]);
            }
            _ => damage(&mut files[at].1, rng),
        }
        if files.is_empty() {
            break;
        }
    }
    pack(&files)
}

fn unpacked(input: &[u8]) -> MemoryDisk {
    let mut disk = MemoryDisk::default();
    let options = options();
    disk.create_dir(&options.partition).expect("the disk is new");
    for (name, content) in unpack(input) {
        disk.put(&format!("{}/{name}", options.partition), content);
    }
    disk
}

/// Recovers a directory; what was accepted is whole, and recovers again as it is.
pub fn check_directory(input: &[u8]) {
    check_recovery(&mut unpacked(input));
}

/// What reading must leave alone.
const CHANGES: [Operation; 6] = [
    Operation::Write,
    Operation::Truncate,
    Operation::Rename,
    Operation::Remove,
    Operation::CreateDir,
    Operation::Sync,
];

/// Shows every file of a directory: damage is told, and nothing is changed.
pub fn check_dump(input: &[u8]) {
    let mut disk = unpacked(input);
    let before = CHANGES.map(|change| disk.count(change));
    for path in quorate_log::files(&disk, "").expect("a disk in memory lists") {
        let (mut position, mut shown) = (0, 0);
        let size = disk.contents(&path).expect("listed").len() as u64;
        let dumped = dump(&mut disk, &path, &mut |fact| {
            assert!(!fact.to_string().is_empty());
            if let Fact::Batch { position: at, .. } = &fact {
                assert!(*at >= position && *at < size, "{path}: a batch at {at} of {size}");
                position = *at;
            }
            shown += 1;
        });
        dumped.expect("what is wrong with a file is a fact");
        assert!(shown > 0, "{path}");
    }
    assert_eq!(CHANGES.map(|change| disk.count(change)), before, "it changes something");
}

/// Verifies a directory: nothing is changed, and where it finds no damage a node starts.
pub fn check_verify(input: &[u8]) {
    let mut disk = unpacked(input);
    let before = CHANGES.map(|change| disk.count(change));
    let findings = verify(&mut disk, "").expect("what is wrong with a file is a finding");
    assert_eq!(CHANGES.map(|change| disk.count(change)), before, "it changes something");
    for finding in &findings {
        assert!(!finding.to_string().is_empty());
    }
    if findings.iter().all(|finding| finding.mends())
        && let Err(error) = recover(&mut disk, &options())
    {
        panic!("no damage found, and yet: {error}");
    }
}

fn check_recovery(disk: &mut MemoryDisk) {
    let options = options();
    let recovery = match recover(disk, &options) {
        Ok(recovery) => recovery,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    recovery.notes.iter().for_each(|note| assert!(!note.to_string().is_empty()));
    assert!(recovery.start <= recovery.end);

    // It leaves nothing to mend, and what it reports is durable: the power may fail now. Only the
    // indexes need not be; they are made from the log.
    let recover_again = |disk: &mut MemoryDisk| {
        recover(disk, &options).unwrap_or_else(|error| panic!("not again: {error}"))
    };
    disk.kill();
    assert_eq!(recover_again(disk).notes, [], "it mends twice");
    disk.lose_unsynced();
    let again = recover_again(disk);
    let is_index = |note: &Note| matches!(note, Note::IndexRebuilt { .. });
    assert!(again.notes.iter().all(is_index), "was not durable: {:?}", again.notes);
    let same = (recovery.start, recovery.end, recovery.election, recovery.epochs);
    assert_eq!((again.start, again.end, again.election.clone(), again.epochs.clone()), same);

    let mut store = Store::open(disk.clone(), &options, &again).expect("recovered");
    let mut log = Log::open(options, &again);
    log.check();
    read_all(disk, &log);
    let (base, epoch) = (log.end(), Epoch(again.last().epoch.0.saturating_add(1)));
    if base.0 < 1 << 60 && epoch.0 < 1 << 30 {
        let (end, bytes) = batch(base, epoch, &mut Rng::new(2));
        let mut jobs = vec![log.append(base, end, epoch, bytes)];
        store.run(&mut jobs).expect("the disk has room");
        log.durable(end);
        log.check();
        let third = recover(disk, &self::options()).expect("written by ourselves");
        assert_eq!((third.start, third.end), (log.start(), end));
    }
}

/// Every offset from the start to the end can be read.
fn read_all(disk: &mut MemoryDisk, log: &Log) {
    let mut from = log.start();
    while from < log.end() {
        let bytes = match log.read(from, log.end(), 500) {
            Read::Hot(batches, _) => batches.concat().into(),
            Read::Cold(plan) => read_cold(disk, &plan).expect("recovery has read it"),
            Read::Nothing => panic!("nothing at {from} of a log to {}", log.end()),
        };
        let last = Batches::new(bytes).last().expect("a batch at least");
        let end = last.expect("recovery has checked it").end();
        assert!(end > from, "reading does not move on from {from}");
        from = end;
    }
}

const FILES: [&str; 5] = [
    "meta.properties",
    "__cluster_metadata-0/partition.metadata",
    "__cluster_metadata-0/quorum-state",
    "__cluster_metadata-0/leader-epoch-checkpoint",
    "__cluster_metadata-0/quorate-synced",
];

/// Which of the small files, and what is in it.
pub fn make_file(rng: &mut Rng) -> Vec<u8> {
    let which = rng.below(FILES.len() as u64) as usize;
    let (_, name) = FILES[which].rsplit_once('/').unwrap_or(("", FILES[which]));
    let valid = match written().iter().find(|(file, _)| file == name) {
        Some((_, content)) => content.clone(),
        None => formatted().contents(name).expect("formatted"),
    };
    let mut content = match (which, rng.below(6)) {
        // As Kafka writes them at kraft.version 1 and with empty fields.
        (2, 0) => br#"{"leaderId":3,"leaderEpoch":2,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}"#.to_vec(),
        (2, 1) => br#"{"clusterId":"","leaderId":-1,"leaderEpoch":5,"votedId":1,"appliedOffset":0,"currentVoters":[{"voterId":1}],"data_version":0}"#.to_vec(),
        (3, 0) => b"0\n2\n0 0\n1 5\n".to_vec(),
        _ => valid,
    };
    if !rng.one_in(8) {
        damage(&mut content, rng);
        // A digit more leads further than a byte of noise.
        if rng.one_in(2) {
            let at = rng.below(content.len() as u64 + 1) as usize;
            content.insert(at, b'0' + rng.below(10) as u8);
        }
    }
    content.insert(0, which as u8);
    content
}

/// Reads it where it belongs, beside files that are right.
pub fn check_file(input: &[u8]) {
    let Some((which, content)) = input.split_first() else { return };
    let Some(path) = FILES.get(usize::from(*which)) else { return };
    let mut disk = formatted();
    for (name, content) in written() {
        disk.put(&format!("{}/{name}", options().partition), content);
    }
    disk.put(path, content);
    match Meta::read(&mut disk) {
        Ok(meta) => drop(meta.check(Some("fuzzed"), ReplicaId(1))),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Err(error) = read_topic(&mut disk, &options().partition) {
        assert!(!error.to_string().is_empty());
    }
    check_recovery(&mut disk);
}
