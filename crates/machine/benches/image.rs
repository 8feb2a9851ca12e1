//! What a picture of the key-value store costs: to take, to write beside, and to load from a file.
//!
//! A million keys, in two sizes. Memory is what the allocator was asked for, its own rounding not
//! counted; the counting is on while times are taken, too. Run with
//! `cargo bench -p quorate-machine`; one thread does it all.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    missing_docs,
    reason = "a test ends where a fact is missing; a test may use files, threads and clocks; the macro of the benches makes functions without"
)]

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use peak_alloc::PeakAlloc;
use quorate_base::{Epoch, Offset, OffsetEpoch, Rng};
use quorate_log::{OsDisk, SnapshotReader, SnapshotRecord, SnapshotWriter, kept_offset};
use quorate_machine::kv::{Query, Reply};
use quorate_machine::{Batch, Headers, Kv, Machine, OwnedRecord, Record, Sessioned};
use std::hint::black_box;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const KEYS: u64 = 1_000_000;
const END: OffsetEpoch = OffsetEpoch { offset: Offset(KEYS), epoch: Epoch(1) };

type Store = Sessioned<Kv>;

/// How long keys and values are.
#[derive(Clone, Copy)]
struct Sizes {
    key: usize,
    value: usize,
}

/// 100 bytes in all, and values of 100 bytes.
const SIZES: [Sizes; 2] = [Sizes { key: 16, value: 84 }, Sizes { key: 24, value: 100 }];

impl Sizes {
    fn name(self) -> String {
        format!("{} B keys, {} B values", self.key, self.value)
    }

    fn raw(self) -> usize {
        KEYS as usize * (self.key + self.value)
    }

    fn record(self, number: u64) -> OwnedRecord {
        let key = format!("k{number:0width$}", width = self.key - 1);
        OwnedRecord::new(Offset(number), key.into(), vec![b'v'; self.value].into())
    }

    /// As a snapshot brings them: in the order of keys.
    fn records(self) -> Vec<OwnedRecord> {
        (0..KEYS).map(|number| self.record(number)).collect()
    }
}

fn restored(records: impl Iterator<Item = OwnedRecord>) -> Store {
    let mut store = Sessioned::new(Kv::new());
    store.restore(END, &mut { records }).unwrap();
    store
}

fn apply(store: &mut Store, record: &OwnedRecord) {
    let record: Record<'_> = record.as_record();
    assert!(record.headers == Headers::NONE);
    let (base, end) = (record.offset, record.offset + 1);
    store.apply(&Batch { base, end, epoch: Epoch(1), timestamp_ms: 0, records: &[record] });
}

/// Numbers below `KEYS`, each once, in no order.
fn shuffled() -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..KEYS).collect();
    let mut rng = Rng::new(1);
    for at in (1..numbers.len()).rev() {
        numbers.swap(at, rng.below(at as u64 + 1) as usize);
    }
    numbers
}

/// Prints what a key takes, by how the store came to be.
fn memory(_: &mut Criterion) {
    for sizes in SIZES {
        let tell = |what: &str, before: usize| {
            let held = ALLOCATOR.current_usage() - before;
            let (per_key, share) = (held as f64 / KEYS as f64, held as f64 / sizes.raw() as f64);
            println!("{}: {per_key:.0} B a key {what}, {share:.2} of the raw bytes", sizes.name());
            assert!(share <= 2.5, "a key takes at most 2.5 times its bytes");
        };
        let before = ALLOCATOR.current_usage();
        ALLOCATOR.reset_peak_usage();
        let mut store = restored((0..KEYS).map(|number| sizes.record(number)));
        tell("restored", before);
        let peak = (ALLOCATOR.peak_usage() - before) as f64 / sizes.raw() as f64;
        println!("{}: {peak:.2} of the raw bytes at the peak of a restore", sizes.name());
        assert_eq!(store.snapshot().count() as u64, KEYS);
        tell("once pictured and written out", before);
        let image = store.snapshot();
        for number in 0..KEYS {
            apply(&mut store, &sizes.record(number));
        }
        // The old state, the new one and the picture.
        let both = (ALLOCATOR.current_usage() - before) as f64 / sizes.raw() as f64;
        println!("{}: {both:.2} while a picture is held and every key written", sizes.name());
        drop(image);
        drop(store);

        let order = shuffled();
        let before = ALLOCATOR.current_usage();
        let mut store = Sessioned::new(Kv::new());
        order.iter().for_each(|number| apply(&mut store, &sizes.record(*number)));
        tell("applied in no order", before);
        assert_eq!(store.snapshot().count() as u64, KEYS);
        tell("applied in no order, pictured and written out", before);
    }
}

fn restore(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("restore a million keys");
    group.sample_size(10).throughput(Throughput::Elements(KEYS));
    for sizes in SIZES {
        let records = sizes.records();
        group.bench_function(sizes.name(), |bencher| {
            bencher.iter_batched(
                || records.clone(),
                |records| restored(records.into_iter()),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

/// From a file in the page cache, as a node loads it: read, checked, decoded and restored.
fn load(criterion: &mut Criterion) {
    let dir = std::env::temp_dir().join(format!("quorate-bench-image-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let disk = OsDisk::new(&dir);
    let mut group = criterion.benchmark_group("load a million keys from a file");
    group.sample_size(10).throughput(Throughput::Elements(KEYS));
    for sizes in SIZES {
        let mut writer = SnapshotWriter::create(OsDisk::new(&dir), "", END, 0, &[]).unwrap();
        for record in (0..KEYS).map(|number| sizes.record(number)) {
            let record = SnapshotRecord {
                offset: Some(record.offset),
                timestamp_ms: 0,
                key: record.key.as_deref(),
                value: record.value.as_deref(),
                headers: 0,
                encoded_headers: &[],
            };
            writer.record(&record).unwrap();
        }
        writer.freeze().unwrap();
        let digest = restored((0..KEYS).map(|number| sizes.record(number))).digest();
        group.bench_function(sizes.name(), |bencher| {
            bencher.iter_with_large_drop(|| {
                let mut reader = SnapshotReader::open(&disk, "", END).unwrap();
                let batches = std::iter::from_fn(|| reader.next().unwrap());
                let store = restored(batches.flat_map(|batch| {
                    let records = batch.records().map(|record| {
                        let record = record.unwrap();
                        let (offset, _) = kept_offset(&record).unwrap();
                        let own = |bytes: Option<&[u8]>| Bytes::copy_from_slice(bytes.unwrap());
                        OwnedRecord::new(offset, own(record.key), own(record.value))
                    });
                    records.collect::<Vec<_>>()
                }));
                assert_eq!(store.digest(), digest);
                store
            });
        });
    }
    group.finish();
    std::fs::remove_dir_all(&dir).unwrap();
}

fn pictures(criterion: &mut Criterion) {
    let sizes = SIZES[1];
    let mut store = restored((0..KEYS).map(|number| sizes.record(number)));
    let mut group = criterion.benchmark_group("a million keys");
    group.bench_function("take a picture", |bencher| {
        bencher.iter_batched(|| (), |()| store.snapshot(), BatchSize::PerIteration);
    });
    group.sample_size(10).throughput(Throughput::Elements(KEYS));
    group.bench_function("walk a picture", |bencher| {
        bencher.iter(|| black_box(store.snapshot().map(|record| record.offset.0).sum::<u64>()));
    });
    group.throughput(Throughput::Elements(1));
    let mut rng = Rng::new(2);
    group.bench_function("put", |bencher| {
        let records = sizes.records();
        bencher.iter(|| apply(&mut store, &records[rng.below(KEYS) as usize]));
    });
    // The first put of its leaf since the picture: the dearest.
    group.bench_function("put beside a picture", |bencher| {
        let records = sizes.records();
        bencher.iter_custom(|times| {
            let one = |_| {
                let image = store.snapshot();
                let record = &records[rng.below(KEYS) as usize];
                let begin = Instant::now();
                apply(&mut store, record);
                let took = begin.elapsed();
                drop(image);
                took
            };
            (0..times).map(one).sum()
        });
    });
    group.finish();
    let found = store.query(&Query::Get { key: Bytes::from_static(b"k00000000000000000000007") });
    assert!(matches!(found, Reply::Get(Some(_))));
}

criterion_group!(benches, memory, restore, load, pictures);
criterion_main!(benches);
