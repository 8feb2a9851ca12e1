//! How fast the log is on its own: appends of 256-byte records through [`Log`] and [`Store`], and
//! recovery of a log of 1 GiB; and rounds of cleaning over half of that, on one core, with what the
//! disk adds.
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
    BatchBuilder, CleanNow, CleanSettings, CleanStep, Cleaner, Disk, Job, Log, MemoryDisk, Meta,
    Options, OsDisk, Store, ToClean, format, recover, remove_deleted,
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
    fn new(disk: D) -> Node<D> {
        Node::with(disk, Options::default())
    }

    fn with(mut disk: D, options: Options) -> Node<D> {
        let meta = Meta { cluster: "bench".to_owned(), node: ReplicaId(1), directory: None };
        format(&mut disk, PARTITION, &meta, Uuid::METADATA_TOPIC).unwrap();
        let recovery = recover(&mut disk, &options).unwrap();
        let store = Store::open(disk, &options, &recovery).unwrap();
        Node { log: Log::open(options, &recovery), store, jobs: Vec::new() }
    }

    fn plan(&mut self, records: u64) {
        self.plan_keys(0..records);
    }

    fn plan_keys(&mut self, keys: impl Iterator<Item = u64>) {
        let base = self.log.end();
        let mut batch = BatchBuilder::new(base, Epoch(1), 1_700_000_000_000);
        for key in keys {
            batch.record(Some(&key.to_be_bytes()), Some(&VALUE), &[]);
        }
        let end = batch.end();
        let job = self.log.append(base, end, Epoch(1), batch.finish());
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

/// One round over a log of which nothing is clean: keys taken in, segments written anew and synced.
/// The swap is some renames more. Throughput is of the bytes that were there before.
fn cleaning(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cleaning of 256 B records, 16 a batch");
    group.sample_size(10);
    for (keys, what) in [(100_000, "100,000 keys"), (u64::MAX, "all keys differ")] {
        let scratch = Scratch::new("cleaning");
        let options = Options { segment_bytes: 128 << 20, ..Options::default() };
        let mut node = Node::with(OsDisk::new(&scratch.0), options);
        let mut random = quorate_base::Rng::new(7);
        while node.log.sizes().0 < GIB / 2 {
            for _ in 0..1_000 {
                node.plan_keys((0..16).map(|_| random.below(keys)));
            }
            node.run();
        }
        let settings = CleanSettings { min_dirty_ratio: 0.0, ..CleanSettings::default() };
        let now = CleanNow {
            wall_ms: 1_700_000_000_000,
            applied: node.log.end(),
            tombstone_bound: node.log.end(),
            seed: [1, 2],
        };
        let mut bytes = None;
        let mut sweep = |node: &mut Node<OsDisk>| {
            let Some(ToClean::Round(round)) = node.log.to_clean(&now, &settings) else {
                panic!("a round is due")
            };
            bytes = Some(round.bytes());
            let mut cleaner = Cleaner::new(OsDisk::new(&scratch.0), *round);
            let mut groups = Vec::new();
            loop {
                match cleaner.step().unwrap() {
                    CleanStep::Going => {}
                    CleanStep::Group(group) => groups.push(*group),
                    CleanStep::Done(swept) => {
                        // Not put in force: the next one finds the same log.
                        node.log.abandon_round();
                        for group in groups {
                            let paths = node.log.swap(group).unwrap_err();
                            remove_deleted(&mut OsDisk::new(&scratch.0), &paths);
                        }
                        return swept;
                    }
                }
            }
        };
        let swept = sweep(&mut node);
        println!("{what}: {} -> {} bytes", swept.bytes_before, swept.bytes_after);
        group.throughput(Throughput::Bytes(swept.bytes_before));
        group.bench_function(what, |bencher| bencher.iter(|| black_box(sweep(&mut node))));
    }
    group.finish();
}

criterion_group!(benches, appends_in_memory, appends_on_disk, recovery, cleaning);
criterion_main!(benches);
