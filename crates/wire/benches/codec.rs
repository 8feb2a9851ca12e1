//! How fast the codec is on what it is asked most: a Fetch answer full of records.
//!
//! Records are shared, not copied, on both ways, so three numbers tell more than one: decoding,
//! encoding into parts as a socket takes them, and encoding into one buffer, which copies.

#![allow(missing_docs, reason = "the macro of the benches makes functions without")]

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use quorate_wire::message::{FetchResponse, FetchResponsePartition, FetchTopic};
use quorate_wire::{ApiKey, ResponseFrame, encode_response};
use std::hint::black_box;

/// Records of one answer.
const RECORDS_BYTES: usize = 1 << 20;

fn answer(records_bytes: usize) -> FetchResponse {
    let records = Some(Bytes::from(vec![7; records_bytes]));
    let partition = FetchResponsePartition { records, ..FetchResponsePartition::default() };
    let topic = FetchTopic { partitions: vec![partition], ..FetchTopic::default() };
    FetchResponse { responses: vec![topic], ..FetchResponse::default() }
}

fn fetch_answers(c: &mut Criterion) {
    let version = ApiKey::Fetch.newest();
    for (name, records_bytes) in [("fetch answer 1 MiB", RECORDS_BYTES), ("fetch answer empty", 0)]
    {
        let message = answer(records_bytes);
        let encode = |message| encode_response(message, version, 7).expect("it fits");
        let payload = encode(message.clone()).into_payload();

        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Bytes(payload.len() as u64));
        group.bench_function("decode", |b| {
            b.iter(|| {
                let frame = ResponseFrame::parse(black_box(payload.clone())).expect("valid");
                frame.decode::<FetchResponse>(version).expect("valid")
            });
        });
        group.bench_function("encode into parts", |b| {
            b.iter_batched(|| message.clone(), encode, BatchSize::SmallInput);
        });
        group.bench_function("encode into one buffer", |b| {
            b.iter_batched(
                || message.clone(),
                |message| encode(message).into_payload(),
                BatchSize::SmallInput,
            );
        });
        group.finish();
    }
}

criterion_group!(benches, fetch_answers);
criterion_main!(benches);
