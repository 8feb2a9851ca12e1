//! What the tests of the log share: small batches, a formatted disk, a log with its store.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "each test file uses its part; a test ends where a fact is missing; a test may use files, threads and clocks"
)]

pub mod keyed;
pub mod model;

use bytes::Bytes;
use quorate_base::{Epoch, Offset, OffsetEpoch, ReplicaId, Uuid};
use quorate_log::{
    BatchBuilder, Disk, Election, Error, Job, Log, MemoryDisk, Meta, Options, Read, Recovery,
    Snapshot, SnapshotRecord, SnapshotWriter, Store, format, read_cold, recover,
};
use std::path::{Path, PathBuf};

pub const PARTITION: &str = "__cluster_metadata-0";

/// The directories of Kafka's that have logs or snapshots, for [`kafka`].
pub const KAFKA_DIRECTORIES: [&str; 7] = [
    "static/c1",
    "static/c2",
    "dynamic/c1",
    "dynamic/c3",
    "dynamic/c4",
    "dynamic/b1/d1",
    "dynamic/b1/d2",
];

/// A snapshot of one record, the last one below its end.
pub fn snapshot(disk: &MemoryDisk, id: OffsetEpoch) -> Snapshot {
    let mut writer = SnapshotWriter::create(disk.clone(), PARTITION, id, 1_000, &[]).unwrap();
    writer
        .record(&SnapshotRecord {
            offset: Some(Offset(id.offset.0 - 1)),
            timestamp_ms: 1_000,
            key: Some(b"key"),
            value: Some(b"value"),
            headers: 0,
            encoded_headers: b"",
        })
        .unwrap();
    writer.freeze().unwrap()
}

pub fn options(segment_bytes: u64, tail_bytes: u64) -> Options {
    Options {
        segment_bytes,
        tail_bytes,
        #[cfg(mutants)]
        mutant: broken(),
        ..Options::default()
    }
}

/// The rule that `tests/mutants.rs` wants to be broken.
#[cfg(mutants)]
fn broken() -> Option<quorate_log::Mutant> {
    let name = std::env::var("QUORATE_LOG_MUTANT").ok()?;
    quorate_log::Mutant::ALL.into_iter().find(|mutant| format!("{mutant:?}") == name)
}

pub fn meta() -> Meta {
    Meta {
        cluster: "U7HrM6vDTwWK2XclkAu2_g".to_owned(),
        node: ReplicaId(1),
        directory: Some("dP9DCmJHzi2tQ-b3VuMiuw".parse().unwrap()),
    }
}

pub fn formatted() -> MemoryDisk {
    let mut disk = MemoryDisk::default();
    format(&mut disk, PARTITION, &meta(), Uuid::METADATA_TOPIC).unwrap();
    disk
}

/// A batch whose one key tells it from every other of its offset and epoch.
pub fn batch(base: Offset, records: u64, epoch: Epoch, value_bytes: usize) -> Bytes {
    let mut batch = BatchBuilder::new(base, epoch, 1_700_000_000_000 + base.0 as i64);
    let key = format!("{base}@{epoch}");
    for _ in 0..records {
        batch.record(Some(key.as_bytes()), Some(&vec![b'v'; value_bytes]), &[]);
    }
    batch.finish()
}

pub fn election(epoch: u32) -> Election {
    let voters = vec![ReplicaId(1), ReplicaId(2), ReplicaId(3)];
    Election { epoch: Epoch(epoch), leader: Some(ReplicaId(2)), voted: None, voters }
}

/// A log and the store that follows it.
pub struct Node<D: Disk> {
    pub disk: D,
    pub log: Log,
    pub store: Store<D>,
    pub jobs: Vec<Job>,
}

impl<D: Disk> Node<D> {
    pub fn open(mut disk: D, options: Options) -> Result<(Node<D>, Recovery), Error> {
        let recovery = recover(&mut disk, &options)?;
        let store = Store::open(disk.clone(), &options, &recovery)?;
        let log = Log::open(options, &recovery);
        log.check();
        Ok((Node { disk, log, store, jobs: Vec::new() }, recovery))
    }

    pub fn append(&mut self, records: u64, epoch: u32, value_bytes: usize) {
        let (base, epoch) = (self.log.end(), Epoch(epoch));
        let bytes = batch(base, records, epoch, value_bytes);
        self.jobs.push(self.log.append(base, base + records, epoch, bytes));
        self.log.check();
    }

    pub fn truncate(&mut self, end: u64) {
        self.jobs.push(self.log.truncate(Offset(end)));
        self.log.check();
    }

    pub fn elect(&mut self, epoch: u32) {
        self.jobs.push(self.log.election(&election(epoch)));
    }

    /// Brings the files after the log.
    pub fn run(&mut self) -> quorate_log::Written {
        let written = self.store.run(&mut self.jobs).unwrap();
        self.log.durable(self.log.end());
        self.log.check();
        written
    }

    /// All bytes in a range, read piece by piece.
    pub fn read(&mut self, from: u64, end: u64, max_bytes: u32) -> Vec<u8> {
        let mut all = Vec::new();
        let mut from = Offset(from);
        loop {
            let bytes = match self.log.read(from, Offset(end), max_bytes) {
                Read::Hot(batches, _) => batches.concat(),
                Read::Cold(plan) => read_cold(&mut self.disk, &plan).unwrap().to_vec(),
                Read::Nothing => return all,
            };
            let last = quorate_log::Batches::new(bytes.clone().into()).last();
            let Some(last) = last else { return all };
            from = last.unwrap().end();
            all.extend(bytes);
        }
    }
}

/// A directory that Kafka 4.3.1 wrote, such as `static/c1`, on a disk in memory. Without the texts
/// of Kafka's dump tool.
pub fn kafka(name: &str) -> MemoryDisk {
    let root = PathBuf::from(format!("{}/tests/fixtures/kafka-4.3.1", env!("CARGO_MANIFEST_DIR")));
    let disk = MemoryDisk::default();
    for path in files_below(&root.join(name)) {
        let relative = path.strip_prefix(root.join(name)).unwrap().to_str().unwrap().to_owned();
        if !relative.ends_with(".dump") {
            disk.put(&relative, &std::fs::read(&path).unwrap());
        }
    }
    disk
}

/// Every file below a directory of the operating system, sorted.
pub fn files_below(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

/// What the index files of a segment must hold, by Kafka's rule: an entry for a batch that begins
/// more than `interval` bytes after the one before that has one; times only where they grow, and,
/// once the segment is closed, the last one.
pub fn indexes(base: u64, log: &[u8], interval: u64, closed: bool) -> (Vec<u8>, Vec<u8>) {
    let (mut offsets, mut times) = (Vec::new(), Vec::new());
    let (mut before, mut position) = (0, 0);
    let (mut latest, mut noted) = ((-1, 0), -1);
    let relative = |offset: Offset| ((offset.0 - base) as u32).to_be_bytes();
    let mut time = |latest: (i64, u32)| {
        if latest.0 > noted {
            noted = latest.0;
            times.extend(latest.0.to_be_bytes());
            times.extend(latest.1.to_be_bytes());
        }
    };
    for batch in quorate_log::Batches::new(Bytes::copy_from_slice(log)) {
        let header = batch.unwrap().header;
        if header.max_timestamp_ms > latest.0 {
            latest = (header.max_timestamp_ms, (header.last.0 - base) as u32);
        }
        if position - before > interval {
            offsets.extend(relative(header.last));
            offsets.extend((position as u32).to_be_bytes());
            time(latest);
            before = position;
        }
        position += header.bytes;
    }
    if closed {
        time(latest);
    }
    (offsets, times)
}

/// The index files of every segment of the partition are what its batches say.
pub fn check_indexes(disk: &MemoryDisk, interval: u64) {
    let names = disk.list(PARTITION).unwrap();
    let logs: Vec<&str> = names.iter().filter_map(|name| name.strip_suffix(".log")).collect();
    for (at, name) in logs.iter().enumerate() {
        let file = |ending| disk.contents(&format!("{PARTITION}/{name}{ending}")).unwrap();
        let closed = at + 1 < logs.len();
        let expect = indexes(name.parse().unwrap(), &file(".log"), interval, closed);
        assert_eq!((file(".index"), file(".timeindex")), expect, "{name}, closed: {closed}");
    }
}
