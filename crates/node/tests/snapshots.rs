//! Snapshots of a node's own, on a disk in memory: when they are made, what a start makes of them,
//! and what becomes of one that cannot be written or read.

#![allow(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test ends where a fact is missing; what a test does not name it does not expect"
)]

use quorate_base::{Offset, OffsetEpoch, ReplicaId, Span, Time, Uuid};
use quorate_log::{Disk, MemoryDisk, Meta, Reserved, Store, format};
use quorate_machine::kv::{Condition, Query, Reply, Write};
use quorate_machine::{Answer, Kv, Machine, Request, Sessioned};
use quorate_node::config::{Cleanup, Config, HostPort, Voter};
use quorate_node::start::{Started, log_options, start};
use quorate_node::{ClientId, Errand, Lane, Out, Replica};
use quorate_raft::Endpoint;
use std::path::PathBuf;

type Kvs = Sessioned<Kv>;

fn config() -> Config {
    let at = || HostPort { host: "self".into(), port: 9093 };
    let voters = vec![Voter { id: ReplicaId(1), at: at() }];
    Config {
        snapshot_bytes: 1_000,
        snapshot_interval: Span::ZERO,
        // Nothing may come out of memory that should come from the disk.
        tail_max_bytes: 0,
        ..Config::new(Some(ReplicaId(1)), PathBuf::new(), voters, at())
    }
}

fn disk() -> MemoryDisk {
    let mut disk = MemoryDisk::default();
    let directory = Uuid::from_random([1; 16]);
    let meta = Meta { cluster: "test".into(), node: ReplicaId(1), directory };
    format(&mut disk, "__cluster_metadata-0", &meta, Uuid::METADATA_TOPIC).unwrap();
    disk
}

/// A node that is its own quorum.
struct Solo {
    replica: Replica<Kvs>,
    store: Store<Reserved<MemoryDisk>>,
    reserved: Reserved<MemoryDisk>,
    lane: Lane<Kvs, MemoryDisk>,
    disk: MemoryDisk,
    now: Time,
    answered: u64,
    replies: Vec<Reply>,
    /// The snapshots that were asked for, to write and to load.
    written: Vec<OffsetEpoch>,
    loaded: Vec<OffsetEpoch>,
    /// How many records and pieces were read back from the disk.
    reads: u64,
    next: u64,
}

impl Solo {
    fn start(disk: MemoryDisk) -> Solo {
        Solo::start_with(disk, config())
    }

    fn start_with(disk: MemoryDisk, config: Config) -> Solo {
        let now = Time(1);
        let own = Endpoint { listener: "CONTROLLER".into(), host: "self".into(), port: 9093 };
        let machine = Sessioned::new(Kv::new());
        let Started { replica, store, disk: reserved, .. } =
            start(&config, own, disk.clone(), machine, 1, now).unwrap();
        let lane = Lane::new(&reserved, &log_options(&config).partition);
        let (written, loaded, replies) = (Vec::new(), Vec::new(), Vec::new());
        let mut solo = Solo {
            replica,
            store,
            reserved,
            lane,
            disk,
            now,
            answered: 0,
            replies,
            written,
            loaded,
            reads: 0,
            next: 0,
        };
        solo.settle();
        solo
    }

    /// Lets the node work until nothing follows any more.
    fn settle(&mut self) {
        let mut outs = Vec::new();
        for _ in 0..10_000 {
            self.replica.turn(self.now, 1_700_000_000_000);
            self.replica.check();
            self.replica.take_out(&mut outs);
            if outs.is_empty() && self.lane.is_idle() && self.replica.deadline() > self.now {
                return;
            }
            for out in outs.drain(..) {
                self.carry_out(out);
            }
            if let Some(report) = self.lane.step() {
                self.replica.on_lane(self.now, report);
            }
        }
        panic!("the node never rests");
    }

    fn carry_out(&mut self, out: Out<Kvs>) {
        match out {
            Out::Disk { id, job } => {
                self.store.run(&mut vec![job]).unwrap();
                self.replica.on_room(self.now, self.reserved.is_full());
                self.replica.on_durable(self.now, id);
            }
            Out::Read { id, read } => {
                self.reads += 1;
                let read = read.run(&mut self.disk);
                self.replica.on_read(self.now, id, read);
            }
            Out::Lane(errand) => {
                match &errand {
                    Errand::Write { id, .. } => self.written.push(*id),
                    Errand::Load { id, .. } => self.loaded.push(*id),
                    _ => {}
                }
                self.lane.push(errand);
            }
            Out::Answer { answer, .. } => {
                assert!(matches!(answer, Ok(Answer::Done(_))), "{answer:?}");
                self.answered += 1;
            }
            Out::Reply { reply, .. } => self.replies.push(reply.unwrap().0),
            Out::StartOver => panic!("nothing is cleaned"),
            Out::TooOld { why } | Out::Fatal { why } | Out::BeginAnew { why } => panic!("{why}"),
            _ => panic!("a node alone has no peers"),
        }
    }

    fn put(&mut self, key: &str, value: &str) {
        let (key, value, condition) = (key.as_bytes(), value.as_bytes(), Condition::Always);
        let write = Write::Put { key, value, condition }.encode().unwrap();
        self.next += 1;
        let (client, before) = (ClientId(self.next), self.answered);
        self.replica.write(self.now, client, Request::write(write), Span::ms(1_000));
        self.settle();
        assert_eq!(self.answered, before + 1);
    }

    fn get(&mut self, key: &str) -> Option<String> {
        self.next += 1;
        let query = Query::Get { key: key.as_bytes().to_vec().into() };
        self.replica.read(self.now, ClientId(self.next), query, Span::ms(1_000));
        self.settle();
        let Some(Reply::Get(found)) = self.replies.pop() else { panic!("no reply") };
        found.map(|found| String::from_utf8(found.value.to_vec()).unwrap())
    }

    /// Where the machine stands, and its digest.
    fn state(&self) -> (Offset, u64) {
        (self.replica.applied(), self.replica.machine().digest())
    }

    fn files(&self, ending: &str) -> Vec<String> {
        let names = self.disk.list("__cluster_metadata-0").unwrap();
        names.into_iter().filter(|name| name.ends_with(ending)).collect()
    }

    /// The node's process dies and another one starts.
    fn restart(self) -> Solo {
        let disk = self.disk.clone();
        drop(self);
        disk.kill();
        Solo::start(disk)
    }
}

fn filled() -> Solo {
    let mut solo = Solo::start(disk());
    for number in 0..60 {
        solo.put(&format!("key-{}", number % 7), &format!("value-{number}"));
    }
    solo
}

#[test]
fn a_snapshot_is_made_after_so_many_bytes_at_what_is_applied() {
    let solo = filled();
    assert!(solo.written.len() >= 4, "{:?}", solo.written);
    let offsets: Vec<Offset> = solo.written.iter().map(|id| id.offset).collect();
    assert!(offsets.is_sorted_by(|a, b| a < b), "{offsets:?}");
    assert!(solo.written.iter().all(|id| id.offset <= solo.replica.applied()));
    assert_eq!(solo.files(".checkpoint").len(), 2, "an older one is of no use");
    assert_eq!(solo.files(".part"), Vec::<String>::new());
    assert_eq!(solo.loaded, []);
}

#[test]
fn a_full_disk_has_room_for_a_snapshot_where_that_may_shorten_the_log() {
    for (cleanup, written) in [(Cleanup::Delete, true), (Cleanup::Compact, false)] {
        // The log gives up a KiB more of it than it needs, which anybody may have.
        let reserve_bytes = 32 << 10;
        let mut solo = Solo::start_with(disk(), Config { cleanup, reserve_bytes, ..config() });
        solo.put("key", "value");
        solo.disk.limit_room(Some(0));
        solo.put("key", &"value".repeat(400));
        assert!(solo.reserved.is_full());
        assert_eq!(solo.written.len(), 1, "it is tried");
        let kept = solo.files(".checkpoint").len();
        assert_eq!(kept == 1, written, "{cleanup:?}: {:?}", solo.files(""));
        assert_eq!(solo.files(".part"), Vec::<String>::new());
        assert_eq!(solo.get("key").map(|value| value.len()), Some(2_000));
    }
}

#[test]
fn a_start_loads_the_newest_snapshot_and_applies_the_rest() {
    let solo = filled();
    let (newest, (applied, digest)) = (*solo.written.last().unwrap(), solo.state());
    assert!(newest.offset < applied, "something is left to apply");
    let mut solo = solo.restart();
    assert_eq!(solo.loaded, [newest]);
    assert_eq!(solo.get("key-3").as_deref(), Some("value-59"));
    // Its own LeaderChange is all that came since.
    assert_eq!(solo.state(), (applied + 1, digest));
    solo.put("after", "it goes on");
    assert_eq!(solo.get("after").as_deref(), Some("it goes on"));
}

#[test]
fn a_damaged_snapshot_is_passed_over_for_an_older_one() {
    let solo = filled();
    let digest = solo.state().1;
    let [.., before, _] = solo.written[..] else { panic!("{:?}", solo.written) };
    let file = solo.files(".checkpoint").last().unwrap().clone();
    solo.disk.flip_bit(&format!("__cluster_metadata-0/{file}"), 150, 3);
    let mut solo = solo.restart();
    assert_eq!(solo.loaded, [before]);
    assert_eq!(solo.files(".checkpoint.damaged"), [format!("{file}.damaged")], "kept for a human");
    assert_eq!(solo.get("key-0").as_deref(), Some("value-56"));
    assert_eq!(solo.state().1, digest);
}

#[test]
fn without_a_snapshot_that_can_be_read_the_log_is_applied() {
    let solo = filled();
    let digest = solo.state().1;
    for file in solo.files(".checkpoint") {
        solo.disk.flip_bit(&format!("__cluster_metadata-0/{file}"), 150, 3);
    }
    let all = solo.files(".checkpoint").len();
    let mut solo = solo.restart();
    assert_eq!(solo.loaded, []);
    assert_eq!(solo.files(".checkpoint.damaged").len(), all, "kept for a human");
    assert_eq!(solo.get("key-0").as_deref(), Some("value-56"));
    assert_eq!(solo.state().1, digest);
}

#[test]
fn a_leader_has_never_loaded_anything_when_it_serves() {
    let solo = filled().restart();
    assert!(solo.replica.serves());
    assert!(solo.replica.applied() >= solo.loaded[0].offset);
}
