//! The machine that only listens: whatever it is fed, and wherever a snapshot cuts what it is fed,
//! it comes to the same state.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test ends where a fact is missing; a test may use files, threads and clocks"
)]

use bytes::Bytes;
use quorate_base::{Epoch, Offset, OffsetEpoch, Rng, Time, Uuid};
use quorate_log::{Fact, OsDisk, dump};
use quorate_machine::kafka::{Counts, Fault, Loader, Mirror, Refused};
use quorate_machine::{
    Answer, Batch, Headers, Machine, OwnedRecord, Proposal, Record, Request, kv,
};
use quorate_wire::record::metadata as record;
use quorate_wire::record::metadata::MetadataRecord;
use quorate_wire::{Tags, arbitrary};
use std::path::Path;

/// The values of a log that Kafka 4.3.1 wrote.
fn kafkas_log(node: &str) -> Vec<Bytes> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../log/tests/fixtures/kafka-4.3.1");
    let mut disk = OsDisk::new(fixtures.join(node).join("__cluster_metadata-0"));
    let mut values = Vec::new();
    dump(&mut disk, "00000000000000000000.log", &mut |fact| {
        if let Fact::Record { record, control: None, .. } = fact {
            values.push(Bytes::copy_from_slice(record.value.unwrap()));
        }
    })
    .unwrap();
    values
}

/// Applies the values as one batch.
fn feed(mirror: &mut Mirror, base: usize, values: &[Bytes]) {
    let record = |(at, value): (usize, &Bytes)| OwnedRecord {
        key: None,
        ..OwnedRecord::new(Offset((base + at) as u64), Bytes::new(), value.clone())
    };
    let owned: Vec<OwnedRecord> = values.iter().enumerate().map(record).collect();
    let records: Vec<Record<'_>> = owned.iter().map(OwnedRecord::as_record).collect();
    mirror.apply(&Batch {
        base: Offset(base as u64),
        end: Offset((base + values.len()) as u64),
        epoch: Epoch(1),
        timestamp_ms: 0,
        records: &records,
    });
}

/// One that loads what the other writes.
fn reloaded(mirror: &Mirror) -> Mirror {
    let mut again = mirror.fresh();
    again.restore(OffsetEpoch::new(Offset(0), Epoch(0)), &mut mirror.snapshot()).unwrap();
    assert_eq!(again.counts().left_out, 0, "{:?}", again.counts().last_left_out);
    again
}

#[track_caller]
fn same(a: &Mirror, b: &Mirror, why: &str) {
    assert_eq!(a.image(), b.image(), "{why}");
    assert_eq!(a.digest(), b.digest(), "{why}");
    assert_eq!(a.query(&()).in_transaction, b.query(&()).in_transaction, "{why}");
}

/// Feeds the values in batches of any size to three machines: one that goes through, one that
/// starts anew from snapshots, one that goes on from them while the first is not touched.
fn fed_in_pieces(values: &[Bytes], rng: &mut Rng) -> (Mirror, u64) {
    let (mut whole, mut anew) = (Mirror::new(), Mirror::new());
    let (mut at, mut in_transaction) = (0, 0);
    while at < values.len() {
        let end = (at + 1 + rng.below(7) as usize).min(values.len());
        feed(&mut whole, at, &values[at..end]);
        feed(&mut anew, at, &values[at..end]);
        at = end;
        if rng.one_in(3) {
            let (kept, digest) = (whole.snapshot(), whole.digest());
            anew = reloaded(&anew);
            in_transaction += u64::from(anew.query(&()).in_transaction);
            // A picture stays what it was.
            let rest = &values[at..(at + 3).min(values.len())];
            feed(&mut anew.clone(), at, rest);
            let mut then = Mirror::new();
            then.restore(OffsetEpoch::new(Offset(0), Epoch(0)), &mut { kept }).unwrap();
            assert_eq!(then.digest(), digest);
        }
        same(&whole, &anew, &format!("at {at}"));
    }
    (whole, in_transaction)
}

#[test]
fn kafkas_logs_make_one_state_wherever_a_snapshot_cuts_them() {
    for node in ["dynamic/c1", "dynamic/c3"] {
        let values = kafkas_log(node);
        let mut loader = Loader::default();
        values.iter().for_each(|value| loader.apply_value(Some(value.clone())).unwrap());
        for seed in 0..10 {
            let (mirror, _) = fed_in_pieces(&values, &mut Rng::new(seed));
            assert_eq!(mirror.image(), loader.image(), "{node}, seed {seed}");
            let taken = values.len() as u64;
            assert_eq!(*mirror.counts(), Counts { taken, ..Counts::default() });
        }
    }
}

#[test]
fn any_history_with_transactions_makes_one_state_wherever_a_snapshot_cuts_it() {
    let (mut cut, mut left_out) = (0, 0);
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let values: Vec<Bytes> = (0..300).map(|_| any_value(&mut rng)).collect();
        let (mirror, in_transaction) = fed_in_pieces(&values, &mut rng);
        cut += in_transaction;
        left_out += mirror.counts().left_out;
        assert_eq!(mirror.counts().taken + mirror.counts().left_out, 300, "seed {seed}");
    }
    assert!(cut > 100, "{cut} snapshots were cut out of a transaction");
    assert!(left_out > 100, "{left_out} records made no sense");
}

fn any_value(rng: &mut Rng) -> Bytes {
    let marks: [MetadataRecord; 3] = [
        record::BeginTransaction::default().into(),
        record::EndTransaction::default().into(),
        record::AbortTransaction::default().into(),
    ];
    if rng.one_in(8) {
        return marks[rng.below(3) as usize].clone().encode(0).unwrap();
    }
    if rng.one_in(50) {
        return Bytes::from_static(b"no record");
    }
    let types = MetadataRecord::TYPES;
    let (api_key, _, newest) = types[rng.below(types.len() as u64) as usize];
    let version = rng.below(newest as u64 + 1) as i16;
    arbitrary::narrow_metadata(api_key, version, rng).unwrap().encode(version).unwrap()
}

#[test]
fn what_is_left_out_is_counted_and_the_last_one_kept() {
    let id = Uuid([7; 16]);
    let removal: MetadataRecord = record::RemoveTopic { topic_id: id, tags: Tags::new() }.into();
    let removal = removal.encode(0).unwrap();
    let mut mirror = Mirror::new();
    feed(&mut mirror, 5, &[Bytes::from_static(&[9]), removal]);
    let why = Fault::Refused { record: "REMOVE_TOPIC_RECORD", why: Refused::UnknownTopic { id } };
    let expect = Counts { left_out: 2, last_left_out: Some((Offset(6), why)), ..Counts::default() };
    assert_eq!(*mirror.counts(), expect);
    assert_eq!(mirror.digest(), Mirror::new().digest(), "it is not state");

    // A log of another machine: its records have keys.
    let put = Record {
        offset: Offset(7),
        key: Some(b"key"),
        value: Some(b"value"),
        headers: Headers::NONE,
    };
    let (base, end) = (Offset(7), Offset(8));
    mirror.apply(&Batch { base, end, epoch: Epoch(1), timestamp_ms: 0, records: &[put] });
    assert_eq!(*mirror.counts(), Counts { keyed: 1, ..expect });
}

#[test]
fn it_takes_no_request() {
    let put = kv::Write::Put { key: b"k", value: b"v", condition: Default::default() };
    let mut out = Proposal::new();
    let request = Request::write(put.encode().unwrap());
    Mirror::new().propose(Time(0), Offset(3), &request, &mut out);
    assert!(matches!(out.finish(), Some(Answer::Refused(why)) if why.starts_with(b"this node")));
    assert!(out.is_empty());
}
