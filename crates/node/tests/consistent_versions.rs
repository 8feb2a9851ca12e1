//! The worked example of consistent versions (docs/PROTOCOL.md, cleaned logs), step by step, with
//! an observer of ours and leaders that the test plays: what is told with the records, what the
//! observer makes of it, and which version its readers see.
//!
//! ```text
//! offset   0    1    2    3    4    5    6    7    8   | 9      10
//! key      k1   k2   k3   k4   k5   k5   k5   k1   k2  | k3     k6
//! value    a    b    c    d    e    f    g    A    B   | (none) h
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test ends where a fact is missing; what a test does not name it does not expect"
)]

use bytes::Bytes;
use quorate_base::{Cleaned, Epoch, Offset, OffsetEpoch, ReplicaId, Span, Time, Uuid};
use quorate_log::{BatchBuilder, MemoryDisk, Meta, Reserved, Store, format, recover, start_over};
use quorate_machine::kv::{Query, Reply};
use quorate_machine::{Kv, Sessioned};
use quorate_node::config::{Config, HostPort, Voter};
use quorate_node::handle::Error;
use quorate_node::start::{Started, log_options, start};
use quorate_node::{ClientId, ConnId, Out, Replica};
use quorate_raft::{Endpoint, RoleName};
use quorate_wire::message::{
    ApiVersionsResponse, FetchRequest, FetchResponse, FetchResponsePartition, FetchTopic,
    LeaderIdAndEpoch, LeaderMarks,
};
use quorate_wire::{ApiKey, RequestFrame, Served, encode_response};
use std::path::PathBuf;

type Kvs = Sessioned<Kv>;

/// The example, and what readers of a version see of it: the state at each end from 0 to 11.
const RECORDS: [(&str, Option<&str>); 11] = [
    ("k1", Some("a")),
    ("k2", Some("b")),
    ("k3", Some("c")),
    ("k4", Some("d")),
    ("k5", Some("e")),
    ("k5", Some("f")),
    ("k5", Some("g")),
    ("k1", Some("A")),
    ("k2", Some("B")),
    ("k3", None),
    ("k6", Some("h")),
];

/// The true state below `end`, as one line.
fn truth(end: u64) -> String {
    let mut state = std::collections::BTreeMap::new();
    for (key, value) in &RECORDS[..end as usize] {
        match value {
            Some(value) => state.insert(*key, *value),
            None => state.remove(key),
        };
    }
    state.iter().map(|(key, value)| format!("{key}={value} ")).collect()
}

/// Batches of one record each; what is gone left a record of nobody's key in its place.
fn batches(range: std::ops::Range<u64>, there: &[u64]) -> Bytes {
    let batch = |at: u64| {
        let mut batch = BatchBuilder::new(Offset(at), Epoch(5), 0);
        let (key, value) = RECORDS[at as usize];
        match there.contains(&at) {
            true => batch.record(Some(key.as_bytes()), value.map(str::as_bytes), &[]),
            false => batch.record(Some(b"gone"), None, &[]),
        }
        batch.finish().to_vec()
    };
    range.flat_map(batch).collect::<Vec<u8>>().into()
}

fn cleaned(dirty: u64, clean: u64, horizon: u64) -> Cleaned {
    Cleaned { dirty: Offset(dirty), clean: Offset(clean), horizon: Offset(horizon) }
}

/// A fetch of the observer that waits for its answer.
struct Asked {
    conn: ConnId,
    frame: RequestFrame,
    from: u64,
}

/// The observer, node 4; the test is its leader, node 1 of epoch 5.
struct Observer {
    replica: Replica<Kvs>,
    store: Store<Reserved<MemoryDisk>>,
    disk: MemoryDisk,
    now: Time,
    conns: u64,
    asked: Option<Asked>,
    replies: Vec<Result<(Reply, Offset), Error>>,
    starts_over: u32,
}

fn config() -> Config {
    let at = || HostPort { host: "leader".into(), port: 9093 };
    let voters = vec![Voter { id: ReplicaId(1), at: at() }];
    Config::new(Some(ReplicaId(4)), PathBuf::new(), voters, at())
}

fn begin(disk: &MemoryDisk, now: Time) -> (Replica<Kvs>, Store<Reserved<MemoryDisk>>) {
    let own = Endpoint { listener: "CONTROLLER".into(), host: "own".into(), port: 9094 };
    let machine = Sessioned::new(Kv::new());
    let Started { replica, store, .. } =
        start(&config(), own, disk.clone(), machine, 1, now).unwrap();
    (replica, store)
}

impl Observer {
    fn start() -> Observer {
        let mut disk = MemoryDisk::default();
        let directory = Uuid::from_random([4; 16]);
        let meta = Meta { cluster: "test".into(), node: ReplicaId(4), directory };
        format(&mut disk, "__cluster_metadata-0", &meta, Uuid::METADATA_TOPIC).unwrap();
        let now = Time(1);
        let (replica, store) = begin(&disk, now);
        let mut observer = Observer {
            replica,
            store,
            disk,
            now,
            conns: 0,
            asked: None,
            replies: Vec::new(),
            starts_over: 0,
        };
        observer.settle();
        observer
    }

    fn settle(&mut self) {
        let mut outs = Vec::new();
        for _ in 0..1_000 {
            self.replica.turn(self.now, 1_700_000_000_000);
            self.replica.check();
            self.replica.take_out(&mut outs);
            if outs.is_empty() && self.replica.deadline() > self.now {
                return;
            }
            for out in outs.drain(..) {
                self.carry_out(out);
            }
        }
        panic!("the observer never rests");
    }

    fn carry_out(&mut self, out: Out<Kvs>) {
        match out {
            Out::Connect { link, .. } => {
                self.conns += 1;
                self.replica.on_connect(self.now, link, Ok(ConnId(self.conns)));
            }
            Out::Frame { conn, frame } => {
                let frame = RequestFrame::parse(frame.into_payload()).unwrap();
                match frame.header.api {
                    ApiKey::ApiVersions => self.greet(conn, &frame),
                    ApiKey::Fetch => {
                        let asked: FetchRequest = frame.clone().decode().unwrap();
                        let partition = &asked.topics[0].partitions[0];
                        assert!(partition.marks.is_some(), "it says that it knows the numbers");
                        let from = partition.fetch_offset as u64;
                        self.asked = Some(Asked { conn, frame, from });
                    }
                    other => panic!("an observer asks {other:?}"),
                }
            }
            Out::Disk { id, job } => {
                self.store.run(&mut vec![job]).unwrap();
                self.replica.on_durable(self.now, id);
            }
            Out::Reply { reply, .. } => self.replies.push(reply),
            Out::StartOver => self.start_over(),
            Out::Close { .. } => {}
            _ => panic!("not expected of an observer"),
        }
    }

    fn greet(&mut self, conn: ConnId, frame: &RequestFrame) {
        let api_keys = Served::ALL.iter().map(|one| one.api().into()).collect();
        let hello = ApiVersionsResponse { api_keys, ..ApiVersionsResponse::default() };
        let header = &frame.header;
        let hello = encode_response(hello, header.version, header.correlation_id).unwrap();
        self.replica.on_frame(self.now, conn, hello.into_payload());
    }

    /// As the server's loop does it.
    fn start_over(&mut self) {
        self.starts_over += 1;
        let held = self.replica.log().last();
        let reach = start_over(&mut self.disk, &log_options(&config())).unwrap();
        assert_eq!(reach, held, "what it held is not forgotten");
        let (replica, store) = begin(&self.disk, self.now);
        let shown = std::mem::replace(&mut self.replica, replica).into_published();
        self.replica.go_on_showing(shown);
        (self.store, self.asked) = (store, None);
    }

    /// The leader answers the fetch that waits; returns from where that was.
    fn answer(&mut self, records: Bytes, high_watermark: u64, told: Option<Cleaned>) -> u64 {
        if self.asked.is_none() {
            // It paused after an answer that it did not take.
            self.now += Span::ms(1_000);
            self.settle();
        }
        let Asked { conn, frame, from } = self.asked.take().expect("it fetches");
        let number = |offset: Offset| offset.0 as i64;
        let partition = FetchResponsePartition {
            high_watermark: high_watermark as i64,
            log_start_offset: 0,
            current_leader: Some(LeaderIdAndEpoch {
                leader_id: 1,
                leader_epoch: 5,
                ..LeaderIdAndEpoch::default()
            }),
            records: Some(records),
            marks: Some(LeaderMarks {
                dirty: told.map_or(-1, |told| number(told.dirty)),
                clean: told.map_or(-1, |told| number(told.clean)),
                tombstone_horizon: told.map_or(-1, |told| number(told.horizon)),
                read_round: 0,
                ..LeaderMarks::default()
            }),
            ..FetchResponsePartition::default()
        };
        let topic = FetchTopic {
            topic_id: Uuid::METADATA_TOPIC,
            partitions: vec![partition],
            ..FetchTopic::default()
        };
        let response = FetchResponse { responses: vec![topic], ..FetchResponse::default() };
        let header = &frame.header;
        let frame = encode_response(response, header.version, header.correlation_id).unwrap();
        self.replica.on_frame(self.now, conn, frame.into_payload());
        self.settle();
        from
    }

    /// The version that a reader sees, and what it finds there.
    fn shows(&self) -> Option<(u64, String)> {
        let list = Query::List { prefix: Bytes::new(), after: None, limit: 100 };
        let (reply, version) = self.replica.read_local(&list, Offset::ZERO)?;
        let Reply::List { items, .. } = reply else { panic!("{reply:?}") };
        let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        let items = items.iter();
        let line = items.map(|item| format!("{}={} ", text(&item.key), text(&item.value)));
        Some((version.0, line.collect()))
    }

    fn shows_the_truth_at(&self, version: u64) {
        assert_eq!(self.shows(), Some((version, truth(version))));
    }
}

/// The rounds have removed what a later record below their ends supersedes.
const FIRST_ROUND: [u64; 5] = [2, 3, 6, 7, 8];
const COLLECTED: [u64; 5] = [3, 6, 7, 8, 10];

/// A leader answers with 0 first, as whoever leads from the beginning.
fn follows() -> Observer {
    let mut observer = Observer::start();
    assert_eq!(observer.shows(), Some((0, String::new())), "the empty log is a version");
    // It asks somebody first, who says who leads.
    observer.answer(Bytes::new(), 0, Some(Cleaned::NEVER));
    assert_eq!(observer.replica.view().role, RoleName::Observer);
    observer
}

#[test]
fn p84_a_version_is_shown_once_all_below_dirty_is_applied() {
    let mut observer = follows();
    assert_eq!(observer.answer(batches(0..7, &FIRST_ROUND), 9, Some(cleaned(9, 9, 0))), 0);
    assert_eq!(observer.replica.applied(), Offset(7));
    assert_eq!(
        observer.shows(),
        Some((0, String::new())),
        "k1 and k2 are missing: the old version"
    );
    assert_eq!(observer.answer(batches(7..9, &FIRST_ROUND), 9, Some(cleaned(9, 9, 0))), 7);
    observer.shows_the_truth_at(9);
    assert_eq!(observer.answer(batches(9..11, &[9, 10]), 11, Some(cleaned(9, 9, 0))), 9);
    observer.shows_the_truth_at(11);
}

#[test]
fn p84_another_leader_that_has_cleaned_less_does_not_make_it_right() {
    let mut observer = follows();
    observer.answer(batches(0..7, &FIRST_ROUND), 9, Some(cleaned(9, 9, 0)));
    // It never cleaned, and sends one record.
    observer.answer(batches(7..8, &[7]), 9, Some(Cleaned::NEVER));
    assert_eq!(observer.replica.applied(), Offset(8));
    assert_eq!(observer.shows(), Some((0, String::new())), "k2 is missing still");
    observer.answer(batches(8..9, &[8]), 9, Some(Cleaned::NEVER));
    observer.shows_the_truth_at(9);
}

#[test]
fn p84_a_version_stays_while_the_next_one_is_on_its_way() {
    let mut observer = follows();
    observer.answer(batches(0..5, &[0, 1, 2, 3, 4]), 5, Some(Cleaned::NEVER));
    observer.shows_the_truth_at(5);
    // Meanwhile all was cleaned: 5 is gone, which does not show at 5, and 0 and 1 are superseded.
    observer.answer(batches(5..8, &[6, 7]), 9, Some(cleaned(9, 9, 0)));
    assert_eq!(observer.replica.applied(), Offset(8));
    observer.shows_the_truth_at(5);
    // Who needs a later one waits for it, or until it is too late.
    let key = || Query::Get { key: "k2".into() };
    assert_eq!(observer.replica.read_local(&key(), Offset(6)), None);
    let (now, patience) = (observer.now, Span::ms(10_000));
    observer.replica.read_from(now, ClientId(1), key(), Offset(6), patience);
    observer.replica.read_from(now, ClientId(2), key(), Offset(12), Span::ms(100));
    observer.settle();
    assert_eq!(observer.replies, []);
    observer.now += Span::ms(200);
    observer.settle();
    let late = Err(Error::NotYet { asked: Offset(12), has: Some(Offset(5)) });
    assert_eq!(std::mem::take(&mut observer.replies), [late]);
    observer.answer(batches(8..9, &[8]), 9, Some(cleaned(9, 9, 0)));
    observer.shows_the_truth_at(9);
    let Some(Ok((Reply::Get(Some(found)), Offset(9)))) = observer.replies.pop() else {
        panic!("{:?}", observer.replies)
    };
    assert_eq!((found.value, found.version), (Bytes::from("B"), Offset(8)));
}

#[test]
fn p82_a_reader_that_was_away_too_long_starts_over_and_shows_the_old_version_until_then() {
    let mut observer = follows();
    observer.answer(batches(0..9, &FIRST_ROUND), 9, Some(cleaned(9, 9, 0)));
    observer.shows_the_truth_at(9);
    // The tombstone at 9 is collected: what it deletes is still here.
    assert_eq!(observer.answer(batches(9..11, &[10]), 11, Some(cleaned(11, 11, 10))), 9);
    assert_eq!(observer.starts_over, 1);
    assert_eq!(observer.replica.log().end(), Offset::ZERO);
    assert_eq!(observer.replica.view().must_reach, Some(OffsetEpoch::new(Offset(9), Epoch(5))));
    observer.shows_the_truth_at(9);
    // Again from the start, in two chunks; at 7 it is no version, and nobody sees it.
    observer.answer(Bytes::new(), 11, Some(cleaned(11, 11, 10)));
    assert_eq!(observer.answer(batches(0..7, &COLLECTED), 11, Some(cleaned(11, 11, 10))), 0);
    observer.shows_the_truth_at(9);
    assert_eq!(observer.answer(batches(7..11, &COLLECTED), 11, Some(cleaned(11, 11, 10))), 7);
    assert_eq!(observer.starts_over, 1, "a fresh reader is not sent back");
    observer.shows_the_truth_at(11);
    assert_eq!(observer.replica.view().must_reach, None);
    let files = recover(&mut observer.disk.clone(), &log_options(&config())).unwrap();
    assert_eq!((files.end, files.must_reach), (Offset(11), None));
}

#[test]
fn p82_what_is_shown_never_becomes_older() {
    let mut observer = follows();
    observer.answer(batches(0..9, &FIRST_ROUND), 9, Some(cleaned(9, 9, 0)));
    observer.answer(batches(9..11, &[10]), 11, Some(cleaned(11, 11, 10)));
    assert_eq!(observer.starts_over, 1);
    // A leader that never cleaned: each end is a version, and the first ones are old.
    observer.answer(Bytes::new(), 11, Some(Cleaned::NEVER));
    observer.answer(batches(0..4, &[0, 1, 2, 3]), 11, Some(Cleaned::NEVER));
    observer.shows_the_truth_at(9);
    observer.answer(batches(4..10, &[4, 5, 6, 7, 8, 9]), 11, Some(Cleaned::NEVER));
    observer.shows_the_truth_at(10);
}

#[test]
fn p81_records_without_numbers_are_dropped() {
    let mut observer = follows();
    assert_eq!(observer.answer(batches(0..9, &FIRST_ROUND), 9, None), 0);
    assert_eq!(observer.replica.log().end(), Offset::ZERO);
    assert_eq!(observer.answer(batches(0..9, &FIRST_ROUND), 9, Some(cleaned(9, 9, 0))), 0);
    observer.shows_the_truth_at(9);
}
