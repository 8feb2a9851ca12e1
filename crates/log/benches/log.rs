//! How fast the log is on its own: appends of 256-byte records through [`Log`] and [`Store`], and
//! recovery of a log of 1 GiB.
//!
//! An append here is a batch that is durable: built, planned, written, synced and marked. The disk
//! in memory shows what the code costs, the operating system's what a sync adds. Run with
//! `cargo bench -p quorate-log`; `TMPDIR` says which disk is measured.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a test ends where a fact is missing; a test may use files, threads and clocks; the macro of the benches makes functions without"
)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use quorate_base::{Epoch, Offset, ReplicaId, Uuid};
use quorate_log::{
    BatchBuilder, Disk, Job, Log, MemoryDisk, Meta, Options, OsDisk, Store, format, recover,
};
use std::hint::black_box;
use std::path::PathBuf;

const PARTITION: &str = "__cluster_metadata-0";
const VALUE: [u8; 256] = [0x5a; 256];
const GIB: u64 = 1 << 30;

/// A directory that goes with the benchmark.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path =
            std::env::temp_dir().join(format!("quorate-bench-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Node<D: Disk> {
    log: Log,
    store: Store<D>,
    jobs: Vec<Job>,
}

impl<D: Disk> Node<D> {
    fn new(mut disk: D) -> Node<D> {
        let meta = Meta { cluster: "bench".to_owned(), node: ReplicaId(1), directory: None };
        format(&mut disk, PARTITION, &meta, Uuid::METADATA_TOPIC).unwrap();
        let options = Options::default();
        let recovery = recover(&mut disk, &options).unwrap();
        let store = Store::open(disk, &options, &recovery).unwrap();
        Node { log: Log::open(options, &recovery), store, jobs: Vec::new() }
    }

    fn plan(&mut self, records: u64) {
        let base = self.log.end();
        let mut batch = BatchBuilder::new(base, Epoch(1), 1_700_000_000_000);
        for record in 0..records {
            batch.record(Some(&record.to_be_bytes()), Some(&VALUE), &[]);
        }
        let job = self.log.append(base, base + records, Epoch(1), batch.finish());
        self.jobs.push(job);
    }

    fn run(&mut self) {
        self.store.run(&mut self.jobs).unwrap();
        self.log.durable(self.log.end());
    }
}

fn append<D: Disk>(criterion: &mut Criterion, name: &str, new: impl Fn() -> Node<D>) {
    let mut group = criterion.benchmark_group(name);
    for records in [1, 16, 256] {
        group.throughput(Throughput::Elements(records));
        group.bench_function(format!("{records} records a batch"), |bencher| {
            let mut node = new();
            bencher.iter(|| {
                node.plan(records);
                node.run();
                black_box(node.log.end())
            });
        });
    }
    group.finish();
}

fn appends_in_memory(criterion: &mut Criterion) {
    append(criterion, "append of 256 B records, disk in memory", || {
        Node::new(MemoryDisk::default())
    });
}

fn appends_on_disk(criterion: &mut Criterion) {
    let scratch = Scratch::new("append");
    append(criterion, "append of 256 B records, operating system's disk", || {
        let _ = std::fs::remove_dir_all(&scratch.0);
        std::fs::create_dir_all(&scratch.0).unwrap();
        Node::new(OsDisk::new(&scratch.0))
    });
}

/// Batches of 16 records, as a busy leader writes them.
fn recovery(criterion: &mut Criterion) {
    let scratch = Scratch::new("recovery");
    let mut disk = OsDisk::new(&scratch.0);
    let mut node = Node::new(disk.clone());
    let mut bytes = 0;
    while bytes < GIB {
        (0..1_000).for_each(|_| node.plan(16));
        let Job::Append(append) = &node.jobs[0] else { panic!("an append") };
        bytes += 1_000 * append.bytes.len() as u64;
        node.run();
    }
    let end = node.log.end();
    drop(node);
    let mut group = criterion.benchmark_group("recovery");
    group.sample_size(10).throughput(Throughput::Bytes(bytes));
    group.bench_function("1 GiB, in the page cache", |bencher| {
        bencher.iter(|| {
            let recovery = recover(&mut disk, &Options::default()).unwrap();
            assert!(recovery.end == end && end > Offset::ZERO);
        });
    });
    group.finish();
}

criterion_group!(benches, appends_in_memory, appends_on_disk, recovery);
criterion_main!(benches);
