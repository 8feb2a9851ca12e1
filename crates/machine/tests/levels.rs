//! The format level: proposed once, never lower, the same from the log, a compacted log and a
//! snapshot, and to be seen in a record before anything is made of it.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

mod harness;

use bytes::Bytes;
use harness::{Quorum, locks::Locks};
use quorate_base::{FormatLevel, Offset, OffsetEpoch, Span};
use quorate_machine::kv::{Condition, Write};
use quorate_machine::{Answer, Kv, Machine, OwnedRecord, Request, Sessioned};

type Store = Sessioned<Kv>;

fn put(key: &[u8]) -> Request {
    let write = Write::Put { key, value: b"1", condition: Condition::Always };
    Request::write(write.encode().unwrap())
}

fn level(store: &Store) -> Option<FormatLevel> {
    store.format_level()
}

#[test]
fn a_store_without_a_record_has_level_zero_and_other_machines_have_none() {
    assert_eq!(level(&Sessioned::new(Kv::new())), Some(FormatLevel::ZERO));
    assert_eq!(Kv::new().format_level(), None);
    assert_eq!(Locks::default().format_level(), None);
}

#[test]
fn a_level_is_in_force_once_applied_and_asked_for_once() {
    let mut store = Quorum::new(|| Sessioned::new(Kv::new()));
    store.propose(&put(b"a"));
    assert!(store.raise(FormatLevel(1)));
    assert!(!store.raise(FormatLevel(1)), "it is on the tail");
    assert_eq!(level(store.machine()), Some(FormatLevel::ZERO), "not applied yet");
    store.settle();
    for (replica, _) in &store.replicas {
        assert_eq!(level(replica), Some(FormatLevel(1)));
    }
    for below in [0, 1] {
        assert!(!store.raise(FormatLevel(below)), "never lower");
    }
    assert!(store.raise(FormatLevel(7)));
    store.settle();
    assert_eq!(level(store.machine()), Some(FormatLevel(7)));
    store.check();
}

#[test]
fn a_level_that_was_not_committed_can_be_asked_for_again() {
    let mut store = Quorum::new(|| Sessioned::new(Kv::new()));
    assert!(store.raise(FormatLevel(1)));
    store.elect(1, 0);
    assert!(store.raise(FormatLevel(1)), "it was cut off with the tail");
    store.settle();
    assert_eq!(level(store.machine()), Some(FormatLevel(1)));
    store.check();
}

#[test]
fn the_record_is_the_first_of_a_snapshot_and_no_session() {
    let mut store = Quorum::new(|| Sessioned::new(Kv::new()));
    store.propose(&put(b"a"));
    let opened = store.propose(&Request::open_session(Span::ms(5_000)));
    assert!(matches!(opened, Answer::Opened(_)));
    store.raise(FormatLevel(1));
    assert_eq!(store.machine().pending_session_records(), 1);
    store.settle();
    assert_eq!(store.machine().session_records(), 1);
    let levels = |store: &Store| -> Vec<Option<FormatLevel>> {
        store.snapshot().map(|record| Store::level_in(&record.as_record())).collect()
    };
    assert_eq!(levels(store.machine()), [Some(FormatLevel(1)), None, None]);

    let mut restored = Sessioned::new(Kv::new());
    let at = OffsetEpoch::new(store.end(), store.epoch);
    restored.restore(at, &mut store.machine().snapshot()).unwrap();
    assert_eq!(level(&restored), Some(FormatLevel(1)));
    assert_eq!(restored.digest(), store.machine().digest());
}

#[test]
fn what_cannot_be_read_is_above_every_level() {
    let told = |key: &'static [u8], value: Option<&'static [u8]>| {
        let record = OwnedRecord {
            value: value.map(Bytes::from_static),
            ..OwnedRecord::new(Offset(1), Bytes::from_static(key), Bytes::new())
        };
        Store::level_in(&record.as_record())
    };
    assert_eq!(told(b"\0f", Some(&[0, 1, 2])), Some(FormatLevel(0x102)));
    for unread in [&b""[..], &[0], &[0, 1], &[1, 0, 1], &[0, 0, 1, 0]] {
        assert_eq!(told(b"\0f", Some(unread)), Some(FormatLevel(u16::MAX)), "{unread:?}");
    }
    assert_eq!(told(b"\0f", None), Some(FormatLevel::ZERO));
    for other in [&b"\0"[..], b"f", b"\0ff", b"\0s", b""] {
        assert_eq!(told(other, Some(&[0, 0, 1])), None, "{other:?}");
    }
}
