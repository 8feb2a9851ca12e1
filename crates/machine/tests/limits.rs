//! What happens at the limits, and with records that this version does not write.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

mod harness;

use bytes::Bytes;
use harness::{Logged, Quorum, apply, locks::Locks};
use quorate_base::{Epoch, Offset, OffsetEpoch, Span, Time};
use quorate_machine::kv::{
    Condition, MAX_LIST_BYTES, MAX_LIST_KEYS, MAX_VALUE_BYTES, Query, Reply, Stat, Write,
};
use quorate_machine::{
    Answer, Kv, MAX_SESSION_SLOTS, MAX_SESSIONS, Machine, OwnedRecord, Proposal, Request,
    SessionId, SessionRefusal, Sessioned, Stamp,
};

type Store = Quorum<Sessioned<Kv>>;

fn store() -> Store {
    Quorum::new(|| Sessioned::new(Kv::new()))
}

fn put(key: &[u8], value: &[u8]) -> Bytes {
    Write::Put { key, value, condition: Condition::Always }.encode().unwrap()
}

type Part = Option<&'static [u8]>;

fn logged(base: u64, records: &[(Part, Part)]) -> Logged {
    let records = (base..).zip(records).map(|(offset, (key, value))| OwnedRecord {
        offset: Offset(offset),
        key: key.map(Bytes::from_static),
        value: value.map(Bytes::from_static),
        header_count: 0,
        headers: Bytes::new(),
    });
    let records: Vec<_> = records.collect();
    let end = Offset(base) + records.len() as u64;
    Logged { base: Offset(base), end, epoch: Epoch(1), timestamp_ms: 0, records, groups: 1 }
}

#[test]
fn one_session_too_many_is_refused_until_one_is_closed() {
    let mut store = store();
    let open = Request::open_session(Span::ms(60_000));
    let opened = store.turn(&vec![open.clone(); MAX_SESSIONS as usize]);
    assert!(opened.iter().all(|answer| matches!(answer, Answer::Opened(_))));
    let full = Answer::Session(SessionRefusal::TooManySessions { limit: MAX_SESSIONS });
    assert_eq!(store.propose(&open), full);
    store.elect(1, 1);
    assert_eq!(store.propose(&open), full, "a new leader counts them too");
    let Answer::Opened(session) = opened[17] else { panic!("it opened") };
    store.propose(&Request::close_session(session));
    assert!(matches!(store.propose(&open), Answer::Opened(_)));
}

#[test]
fn many_sessions_end_in_batches_of_bounded_size_and_all_of_them_end() {
    let mut store = store();
    let open = Request::open_session(Span::ms(2_000));
    let opened = store.turn(&vec![open; 9]);
    for answer in &opened {
        let Answer::Opened(session) = *answer else { panic!("it opened") };
        let write = |slot| {
            let stamp = Stamp { session, slot, sequence: 1 };
            Request::stamped(stamp, put(b"k", b"v"))
        };
        store.turn(&(0..MAX_SESSION_SLOTS).map(write).collect::<Vec<_>>());
    }
    store.settle();
    assert_eq!(store.machine().session_records(), 9 * 1_025);
    let before = store.log.len();
    store.wait(Span::ms(2_000));
    let ends = store.log[before..].iter().map(|batch| (batch.groups, batch.records.len()));
    assert!(ends.eq([(4, 4 * 1_025), (4, 4 * 1_025), (1, 1_025)]), "a group a session");
    store.settle();
    assert_eq!(store.machine().session_records(), 0);
    store.check();
}

#[test]
fn a_list_is_bounded_by_entries_and_by_bytes_and_pages_miss_nothing() {
    let mut kv = Kv::new();
    kv.lead(Time(0), Some((Epoch(1), Offset::ZERO)));
    let mut out = Proposal::new();
    let mut records = Vec::new();
    let big = vec![7; MAX_VALUE_BYTES];
    for number in 0..2_500u64 {
        let key = format!("{number:04}");
        let value = if number < 6 { &big[..] } else { b"small" };
        kv.propose(Time(0), Offset(number), &Request::write(put(key.as_bytes(), value)), &mut out);
        out.finish();
        records.push(OwnedRecord::new(Offset(number), key.into(), Bytes::copy_from_slice(value)));
    }
    let end = Offset(2_500);
    apply(
        &mut kv,
        &Logged { base: Offset::ZERO, end, epoch: Epoch(1), timestamp_ms: 0, records, groups: 1 },
    );

    let (mut after, mut seen, mut sizes) = (None, 0, Vec::new());
    loop {
        let query = Query::List { prefix: Bytes::new(), after, limit: usize::MAX };
        let Reply::List { items, more } = kv.query(&query) else { panic!("a list") };
        for item in &items {
            assert_eq!(item.version, Offset(seen));
            seen += 1;
        }
        let but_last = &items[..items.len() - 1];
        let bytes: usize = but_last.iter().map(|item| item.key.len() + item.value.len()).sum();
        assert!(items.len() <= MAX_LIST_KEYS && bytes < MAX_LIST_BYTES);
        sizes.push(items.len());
        if !more {
            break;
        }
        after = items.last().map(|item| item.key.clone());
    }
    assert_eq!(seen, 2_500);
    // Four values of 1 MiB fill the first page.
    assert_eq!(sizes, [4, 1_000, 1_000, 496]);
}

#[test]
fn reserved_keys_of_a_newer_version_are_kept_and_hidden() {
    let batch = logged(
        5,
        &[
            (Some(b"\0zthing"), Some(b"1")),
            (Some(b"\0sshort"), Some(b"2")),
            (Some(b"\0s\0\0\0\0\0\0\0\x07"), Some(b"\xffnewer format")),
            (Some(b"key"), Some(b"3")),
            (None, Some(b"4")),
            (Some(b"\0zgone"), Some(b"5")),
            (Some(b"\0zgone"), None),
            (Some(b"\0znever"), None),
        ],
    );
    let mut store = Sessioned::new(Kv::new());
    apply(&mut store, &batch);
    let stat = Stat { keys: 1, bytes: 12, reserved_keys: 1, keyless_records: 1 };
    assert_eq!(store.query(&Query::Stat), Reply::Stat(stat));
    assert_eq!(store.query(&Query::Get { key: "\0zthing".into() }), Reply::Get(None));
    for prefix in ["", "\0", "\0z"] {
        let query = Query::List { prefix: prefix.into(), after: None, limit: 9 };
        let Reply::List { items, more } = store.query(&query) else { panic!("a list") };
        let expected: &[&str] = if prefix.is_empty() { &["key"] } else { &[] };
        assert!(
            items.iter().map(|item| &item.key[..]).eq(expected.iter().map(|key| key.as_bytes()))
        );
        assert!(!more);
    }
    // A snapshot that left them out would make this replica differ once it understands them.
    let kept: Vec<_> = store.snapshot().map(|record| record.offset.0).collect();
    assert_eq!(kept, [7, 6, 5, 8], "in the order of keys, sessions first");

    // A session of a newer format is no session here: refused, never applied.
    store.lead(Time(0), Some((Epoch(2), Offset(20))));
    let mut out = Proposal::new();
    let stamp = Stamp { session: SessionId(Offset(7)), slot: 0, sequence: 1 };
    store.propose(Time(0), Offset(20), &Request::stamped(stamp, put(b"k", b"v")), &mut out);
    assert_eq!(out.finish(), Some(Answer::Session(SessionRefusal::Unknown)));
    assert!(out.is_empty());
}

#[test]
fn a_slot_of_a_newer_format_is_refused_rather_than_applied_again() {
    let mut store = store();
    let Answer::Opened(session) = store.propose(&Request::open_session(Span::ms(2_000))) else {
        panic!("it opens");
    };
    store.settle();
    assert_eq!(session, SessionId(Offset(1)));
    let slot = logged(2, &[(Some(b"\0s\0\0\0\0\0\0\0\x01\0\0"), Some(b"\xffnewer format"))]);
    store.log.push(slot);
    store.elect(0, 1);
    let write = |slot| {
        let stamp = Stamp { session, slot, sequence: 9 };
        Request::stamped(stamp, put(b"k", b"v"))
    };
    assert_eq!(store.propose(&write(0)), Answer::Session(SessionRefusal::Unknown));
    assert!(matches!(store.propose(&write(1)), Answer::Done(_)), "other slots are as ever");
}

#[test]
fn a_bad_record_anywhere_fails_the_restore() {
    let session = OwnedRecord::new(
        Offset(1),
        Bytes::from_static(b"\0s\0\0\0\0\0\0\0\x01"),
        Bytes::from_static(b"\0\0\0\0\0\0\0\x07\xd0"),
    );
    let key = OwnedRecord::new(Offset(2), "k".into(), "v".into());
    let at = OffsetEpoch::new(Offset(9), Epoch(1));
    let restore = |records: Vec<OwnedRecord>| {
        let mut store = Sessioned::new(Kv::new());
        store.restore(at, &mut records.into_iter()).map_err(|corrupt| corrupt.offset.0)
    };
    let moved = |record: &OwnedRecord| OwnedRecord { offset: Offset(9), ..record.clone() };
    assert_eq!(restore(vec![session.clone(), key.clone()]), Ok(()));
    assert_eq!(restore(vec![key.clone(), session.clone()]), Ok(()), "order does not matter");
    assert_eq!(restore(vec![session.clone(), moved(&key)]), Err(9));
    assert_eq!(restore(vec![moved(&session), key.clone()]), Err(9));
    assert_eq!(restore(vec![moved(&session), session.clone(), key]), Err(9), "not forgotten later");
    assert_eq!(restore(vec![session.clone(), session]), Err(1));
}

#[test]
fn a_machine_without_sessions_says_so() {
    let open = Request::open_session(Span::ms(2_000));
    let unsupported = Answer::Session(SessionRefusal::Unsupported);
    assert_eq!(Quorum::new(Kv::new).propose(&open), unsupported);
    assert_eq!(Quorum::new(Locks::default).propose(&open), unsupported);
}
