//! A few replicas and nothing else: frames arrive at once, disks take no time, and a test may cut
//! connections, hold a snapshot lane up, see every question for a piece of a snapshot and answer it
//! in the leader's place.
//!
//! One thread, no chance but the replicas' own seeds: the same test gives the same run. After each
//! round every machine is held against what machines were at that offset before.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]
#![allow(
    dead_code,
    reason = "every test binary has a copy of its own, and needs its own part of it"
)]

use bytes::Bytes;
use quorate_base::{FormatLevel, Offset, OffsetEpoch, ReplicaId, Span, Time, Uuid};
use quorate_log::{Disk, MemoryDisk, Meta, Reserved, Store, format};
use quorate_machine::kv::{Condition, Query, Reply, Write};
use quorate_machine::{Kv, Machine, Request, Sessioned};
use quorate_node::config::{Config, HostPort, Voter};
use quorate_node::start::{StartError, Started, log_options, start};
use quorate_node::{ClientId, ConnId, ConnectError, Errand, Lane, Out, Replica};
use quorate_raft::{Endpoint, RoleName};
use quorate_wire::message::{
    FetchSnapshotCurrentLeader, FetchSnapshotRequest, FetchSnapshotResponse,
    FetchSnapshotResponsePartition, Message, SnapshotTopic,
};
use quorate_wire::{
    ApiKey, ErrorCode, RequestFrame, RequestHeader, ResponseFrame, encode_request, encode_response,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

pub type Kvs = Sessioned<Kv>;
pub const PARTITION: &str = "__cluster_metadata-0";
pub const SEGMENT: &str = "__cluster_metadata-0/00000000000000000000.log";

/// Who asks and is no node.
const STRANGER: u32 = 0;

pub struct Node {
    pub replica: Replica<Kvs>,
    store: Store<Reserved<MemoryDisk>>,
    lane: Lane<Kvs, MemoryDisk>,
}

/// A question for a piece of a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    pub by: u32,
    pub of: u32,
    pub snapshot: OffsetEpoch,
    pub position: u64,
}

/// Nodes whose frames arrive at once and whose disks take no time.
pub struct World {
    voters: u32,
    tune: fn(&mut Config),
    pub nodes: BTreeMap<u32, Node>,
    pub disks: Vec<MemoryDisk>,
    pub now: Time,
    /// Of each connection: whose it is, and the other end. Who made it has the lower number.
    conns: BTreeMap<ConnId, (u32, ConnId)>,
    /// Node, connection, and a frame or the end.
    wire: VecDeque<(u32, ConnId, Option<Bytes>)>,
    /// Nobody can connect to these, nor they to anybody.
    cut: BTreeSet<u32>,
    /// The snapshot lanes of these stand still.
    pub held: BTreeSet<u32>,
    /// Questions for pieces, without those that only keep the leader awake.
    pub asked: Vec<Asked>,
    /// The question with this number, from 1, is answered with this error, not by the leader.
    pub refuse: Option<(usize, ErrorCode)>,
    /// The digest of the machines at each offset.
    states: BTreeMap<Offset, u64>,
    /// Bytes of each value that is put.
    pub value_bytes: usize,
    /// Whose process ended because its disk failed, and how.
    pub failed: Vec<(u32, String)>,
    /// Who wanted to begin anew, and why.
    pub anew: Vec<(u32, String)>,
    /// Who stopped at a format level that is above what it speaks, and its words.
    pub too_old: Vec<(u32, String)>,
    /// The newest level that each node speaks, where it is not the build's.
    pub levels: BTreeMap<u32, FormatLevel>,
    /// What the last start had to mend.
    pub notes: Vec<String>,
    /// What the stranger of `exchange` was answered.
    told: Option<Bytes>,
    /// The same of `exchange_all`, by connection.
    heard: BTreeMap<ConnId, Bytes>,
    answered: usize,
    next: u64,
}

fn config(id: u32, voters: u32) -> Config {
    let at = |id: u32| HostPort { host: format!("n{id}"), port: 9093 };
    let voters = (1..=voters).map(|id| Voter { id: ReplicaId(id), at: at(id) }).collect();
    Config {
        // Nothing may come out of memory that should come from the disk.
        tail_max_bytes: 0,
        ..Config::new(Some(ReplicaId(id)), PathBuf::new(), voters, at(id))
    }
}

impl World {
    /// Formats voters `1..=voters`; starts none. Each gets the settings that `tune` leaves.
    pub fn new(voters: u32, tune: fn(&mut Config)) -> World {
        let disks = (1..=voters).map(empty_disk).collect();
        World {
            voters,
            tune,
            nodes: BTreeMap::new(),
            disks,
            now: Time(1),
            conns: BTreeMap::new(),
            wire: VecDeque::new(),
            cut: BTreeSet::new(),
            held: BTreeSet::new(),
            asked: Vec::new(),
            refuse: None,
            states: BTreeMap::new(),
            value_bytes: 200,
            failed: Vec::new(),
            anew: Vec::new(),
            too_old: Vec::new(),
            levels: BTreeMap::new(),
            notes: Vec::new(),
            told: None,
            heard: BTreeMap::new(),
            answered: 0,
            next: 0,
        }
    }

    /// A node that observes, not started.
    pub fn add_observer(&mut self) -> u32 {
        let id = self.disks.len() as u32 + 1;
        self.disks.push(empty_disk(id));
        id
    }

    pub fn start(&mut self, id: u32) -> Result<(), StartError> {
        let own = Endpoint { listener: "CONTROLLER".into(), host: format!("n{id}"), port: 9093 };
        let (mut config, disk) = (config(id, self.voters), self.disks[id as usize - 1].clone());
        (self.tune)(&mut config);
        config.newest_level = self.levels.get(&id).copied().unwrap_or(config.newest_level);
        let machine = Sessioned::new(Kv::new());
        let Started { replica, store, disk, notes } =
            start(&config, own, disk.clone(), machine, u64::from(id), self.now)?;
        let lane = Lane::new(&disk, &log_options(&config).partition);
        self.nodes.insert(id, Node { replica, store, lane });
        self.notes = notes.iter().map(ToString::to_string).collect();
        Ok(())
    }

    /// The process dies; what it wrote stays.
    pub fn stop(&mut self, id: u32) {
        self.nodes.remove(&id);
        self.disks[id as usize - 1].kill();
        self.reset(id);
    }

    /// The disk is replaced by an empty one.
    pub fn wipe(&mut self, id: u32) {
        assert!(!self.nodes.contains_key(&id), "node {id} runs");
        self.disks[id as usize - 1] = empty_disk(id);
    }

    /// All connections of the node break.
    pub fn reset(&mut self, id: u32) {
        let own = self.conns.iter().filter(|(_, (of, _))| *of == id).map(|(own, _)| *own);
        for own in own.collect::<Vec<_>>() {
            if let Some((_, other)) = self.conns.get(&own).copied() {
                self.wire.push_back((id, own, None));
                self.close(own, other);
            }
        }
    }

    /// Nothing passes between the node and the others until `join`.
    pub fn cut(&mut self, id: u32) {
        self.cut.insert(id);
        self.reset(id);
    }

    pub fn join(&mut self, id: u32) {
        self.cut.remove(&id);
    }

    fn close(&mut self, own: ConnId, other: ConnId) {
        self.conns.remove(&own);
        if let Some((peer, _)) = self.conns.remove(&other) {
            self.wire.push_back((peer, other, None));
        }
    }

    /// Runs until it is so, for a minute of the world at most.
    pub fn until(&mut self, what: &str, done: impl Fn(&World) -> bool) {
        let end = self.now + Span::ms(60_000);
        while !done(self) {
            assert!(self.now < end, "never: {what}; asked {:?}", self.asked);
            self.round();
        }
    }

    pub fn round(&mut self) {
        let ids: Vec<u32> = self.nodes.keys().copied().collect();
        let mut busy = false;
        for id in ids {
            let mut outs = Vec::new();
            let node = self.nodes.get_mut(&id).unwrap();
            node.replica.turn(self.now, 1_700_000_000_000);
            node.replica.check();
            node.replica.take_out(&mut outs);
            busy |= !outs.is_empty();
            for out in outs {
                self.carry_out(id, out);
            }
            busy |= self.work_on_snapshots(id);
        }
        while let Some((id, conn, frame)) = self.wire.pop_front() {
            busy = true;
            if id == STRANGER {
                if let Some(frame) = &frame {
                    self.heard.insert(conn, frame.clone());
                }
                self.told = frame.or(self.told.take());
                continue;
            }
            let Some(node) = self.nodes.get_mut(&id) else { continue };
            match frame {
                Some(frame) => node.replica.on_frame(self.now, conn, frame),
                None => node.replica.on_closed(self.now, conn),
            }
        }
        self.compare();
        if !busy {
            let due = self.nodes.values().map(|node| node.replica.deadline()).min().unwrap();
            self.now = due.max(self.now + Span(1)).min(self.now + Span::ms(1_000));
        }
    }

    fn work_on_snapshots(&mut self, id: u32) -> bool {
        let Some(node) = self.nodes.get_mut(&id) else { return false };
        if self.held.contains(&id) || node.lane.is_idle() {
            return false;
        }
        if let Some(report) = node.lane.step() {
            node.replica.on_lane(self.now, report);
        }
        true
    }

    /// Whoever reads sees a state that the machines had at that offset, and no other.
    fn compare(&mut self) {
        for (id, node) in &self.nodes {
            let (at, digest) = (node.replica.applied(), node.replica.machine().digest());
            let known = *self.states.entry(at).or_insert(digest);
            assert_eq!(digest, known, "node {id} differs at {at}");
        }
    }

    fn carry_out(&mut self, id: u32, out: Out<Kvs>) {
        let (now, disk) = (self.now, &mut self.disks[id as usize - 1]);
        let Some(node) = self.nodes.get_mut(&id) else { return };
        match out {
            Out::Disk { id: write, job } => match node.store.run(&mut vec![job]) {
                Ok(written) => {
                    node.replica.on_durable(now, write);
                    let paths = written.deleted;
                    if !paths.is_empty() {
                        node.lane.push(Errand::Remove { paths });
                    }
                }
                Err(error) => {
                    self.failed.push((id, error.to_string()));
                    self.stop(id);
                }
            },
            Out::Read { id, read } => {
                node.replica.on_read(now, id, read.run(disk));
            }
            Out::Lane(errand) => node.lane.push(errand),
            Out::Connect { link, to } => {
                let peer = to.host[1..].parse().unwrap();
                self.next += 1;
                let made = match self.nodes.contains_key(&peer) {
                    _ if self.cut.contains(&id) || self.cut.contains(&peer) => {
                        Err(ConnectError::Unreachable)
                    }
                    true => Ok((ConnId(self.next), ConnId(!self.next))),
                    false => Err(ConnectError::Refused),
                };
                if let Ok((own, other)) = made {
                    self.conns.insert(own, (id, other));
                    self.conns.insert(other, (peer, own));
                }
                let node = self.nodes.get_mut(&id).unwrap();
                node.replica.on_connect(now, link, made.map(|(own, _)| own));
            }
            Out::Frame { conn, frame } => self.pass(id, conn, frame.into_payload()),
            Out::Close { conn, .. } => {
                if let Some((_, other)) = self.conns.get(&conn).copied() {
                    self.close(conn, other);
                }
            }
            Out::Answer { answer, .. } => self.answered += usize::from(answer.is_ok()),
            Out::BeginAnew { why } => {
                self.anew.push((id, why));
                self.stop(id);
            }
            Out::StartOver => panic!("node {id} starts over, and nothing is cleaned"),
            Out::TooOld { why } => {
                self.too_old.push((id, why));
                self.stop(id);
            }
            Out::Fatal { why } => panic!("node {id} gives up: {why}"),
            Out::Pause { .. } | Out::Resume { .. } | Out::Reply { .. } | Out::Stopped => {}
        }
    }

    fn pass(&mut self, from: u32, conn: ConnId, frame: Bytes) {
        let Some((_, other)) = self.conns.get(&conn).copied() else { return };
        let Some((peer, _)) = self.conns.get(&other).copied() else { return };
        // Who made the connection asks.
        let asks = conn.0 < u64::MAX / 2;
        if asks && let Some(answer) = self.look(from, peer, &frame) {
            self.wire.push_back((from, conn, Some(answer)));
            return;
        }
        self.wire.push_back((peer, other, Some(frame)));
    }

    /// Notes a question for a piece; returns its answer if it is not to be the leader's.
    fn look(&mut self, by: u32, of: u32, frame: &Bytes) -> Option<Bytes> {
        let frame = RequestFrame::parse(frame.clone()).ok()?;
        let (version, correlation) = (frame.header.version, frame.header.correlation_id);
        if frame.header.api != ApiKey::FetchSnapshot {
            return None;
        }
        let request: FetchSnapshotRequest = frame.decode().unwrap();
        let (topic, max_bytes) = (&request.topics[0], request.max_bytes);
        let part = &topic.partitions[0];
        if max_bytes == 1 {
            return None;
        }
        let (offset, epoch) = (part.snapshot_id.end_offset as u64, part.snapshot_id.epoch as u32);
        let snapshot = OffsetEpoch::new(Offset(offset), quorate_base::Epoch(epoch));
        self.asked.push(Asked { by, of, snapshot, position: part.position as u64 });
        let (_, error_code) = self.refuse.take_if(|(nth, _)| *nth == self.asked.len())?;
        let refused = FetchSnapshotResponsePartition {
            error_code,
            snapshot_id: part.snapshot_id.clone(),
            current_leader: Some(FetchSnapshotCurrentLeader {
                leader_id: of as i32,
                leader_epoch: part.current_leader_epoch,
                ..Default::default()
            }),
            ..Default::default()
        };
        let topics = vec![SnapshotTopic {
            name: topic.name.clone(),
            partitions: vec![refused],
            ..Default::default()
        }];
        let response = FetchSnapshotResponse { topics, ..Default::default() };
        Some(encode_response(response, version, correlation).unwrap().into_payload())
    }

    /// Asks a node as a stranger would, in the newest version.
    pub fn exchange<Q: Message, A: Message>(&mut self, of: u32, question: Q) -> A {
        self.next += 1;
        let (own, other) = (ConnId(self.next), ConnId(!self.next));
        self.conns.insert(own, (STRANGER, other));
        self.conns.insert(other, (of, own));
        let version = Q::API.newest();
        let header = RequestHeader::new(Q::API, version, 7, None);
        let frame = encode_request(header, question).unwrap().into_payload();
        self.wire.push_back((of, other, Some(frame)));
        self.told = None;
        self.until("the stranger is answered", |world| world.told.is_some());
        let answer = ResponseFrame::parse(self.told.take().unwrap()).unwrap();
        assert_eq!(answer.correlation_id, 7);
        answer.decode(version).unwrap()
    }

    /// Asks a node all of this at once, on a connection each; the answers in their order.
    pub fn exchange_all<Q: Message, A: Message, const N: usize>(
        &mut self,
        of: u32,
        questions: [Q; N],
    ) -> Vec<A> {
        let mut asked = Vec::new();
        for question in questions {
            self.next += 1;
            let (own, other) = (ConnId(self.next), ConnId(!self.next));
            self.conns.insert(own, (STRANGER, other));
            self.conns.insert(other, (of, own));
            let header = RequestHeader::new(Q::API, Q::API.newest(), 7, None);
            let frame = encode_request(header, question).unwrap().into_payload();
            self.wire.push_back((of, other, Some(frame)));
            asked.push(own);
        }
        self.heard.clear();
        self.until("the stranger is answered", |world| {
            asked.iter().all(|own| world.heard.contains_key(own))
        });
        let answer = |own: &ConnId| {
            let answer = ResponseFrame::parse(self.heard[own].clone()).unwrap();
            answer.decode(Q::API.newest()).unwrap()
        };
        asked.iter().map(answer).collect()
    }

    pub fn leader(&self) -> Option<u32> {
        let serves = |node: &Node| {
            let view = node.replica.view();
            view.role == RoleName::Leader && view.high_watermark.is_some()
        };
        let leaders = self.nodes.iter().filter(|(_, node)| serves(node));
        leaders.max_by_key(|(_, node)| node.replica.view().epoch).map(|(id, _)| *id)
    }

    pub fn put(&mut self, leader: u32, number: u32) {
        let value = vec![number as u8; self.value_bytes];
        let key = format!("key-{}", number % 20);
        let (key, value, condition) = (key.as_bytes(), &value[..], Condition::Always);
        let write = Write::Put { key, value, condition }.encode().unwrap();
        self.next += 1;
        let (client, before) = (ClientId(self.next), self.answered);
        let node = self.nodes.get_mut(&leader).unwrap();
        node.replica.write(self.now, client, Request::write(write), Span::ms(5_000));
        self.until("a write is acknowledged", |world| world.answered > before);
    }

    /// A key as this node's own state has it, however old, and where that state ends.
    pub fn peek(&self, id: u32, number: u32) -> (Option<Vec<u8>>, Offset) {
        let key = format!("key-{}", number % 20).into_bytes().into();
        let (reply, at) = self.nodes[&id]
            .replica
            .read_local(&Query::Get { key }, Offset::ZERO)
            .expect("no log is cleaned");
        let Reply::Get(found) = reply else { panic!("{reply:?}") };
        (found.map(|found| found.value.to_vec()), at)
    }

    /// What a file of the partition holds.
    pub fn contents(&self, id: u32, name: &str) -> Vec<u8> {
        self.disks[id as usize - 1].contents(&format!("{PARTITION}/{name}")).unwrap()
    }

    pub fn files(&self, id: u32, ending: &str) -> Vec<String> {
        let names = self.disks[id as usize - 1].clone().list(PARTITION).unwrap();
        names.into_iter().filter(|name| name.ends_with(ending)).collect()
    }
}

fn empty_disk(id: u32) -> MemoryDisk {
    let mut disk = MemoryDisk::default();
    let directory = Uuid::from_random([id as u8; 16]);
    let meta = Meta { cluster: "test".into(), node: ReplicaId(id), directory };
    format(&mut disk, PARTITION, &meta, Uuid::METADATA_TOPIC).unwrap();
    disk
}
