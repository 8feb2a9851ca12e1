//! Disks that fill up under nodes in one thread: writes are refused and nothing else, and they come
//! back by themselves.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

use quorate_base::{Offset, ReplicaId, Span, Time, Uuid};
use quorate_log::{MemoryDisk, Meta, Reserved, Store, format};
use quorate_machine::kv::{Condition, Query, Reply, Write};
use quorate_machine::{Answer, Kv, Operation, Request, SessionId, Sessioned, Stamp};
use quorate_node::config::{Config, HostPort, Voter};
use quorate_node::handle::Error;
use quorate_node::start::{StartError, Started, start};
use quorate_node::{ClientId, ConnId, Out, Replica};
use quorate_raft::{Endpoint, RoleName};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;

type Kvs = Sessioned<Kv>;
type Decided = Result<Answer, Error>;
const RESERVE: u64 = 1 << 20;

struct Node {
    replica: Replica<Kvs>,
    store: Store<Reserved<MemoryDisk>>,
    disk: Reserved<MemoryDisk>,
    full: bool,
    refill_at: Time,
}

/// Nodes whose frames arrive at once and whose disks take no time.
struct World {
    voters: u32,
    nodes: BTreeMap<u32, Node>,
    disks: Vec<MemoryDisk>,
    now: Time,
    /// Of each connection: whose it is, and the other end.
    conns: BTreeMap<ConnId, (u32, ConnId)>,
    /// Node, connection, and a frame or the end.
    wire: VecDeque<(u32, ConnId, Option<bytes::Bytes>)>,
    answers: BTreeMap<ClientId, Decided>,
    replies: BTreeMap<ClientId, Result<Reply, Error>>,
    rounds: u64,
    next: u64,
}

impl World {
    /// All voters, and somebody leads.
    fn new(voters: u32) -> World {
        let mut disks = Vec::new();
        for id in 1..=voters {
            let mut disk = MemoryDisk::default();
            let directory = Uuid::from_random([id as u8; 16]);
            let meta = Meta { cluster: "test".into(), node: ReplicaId(id), directory };
            format(&mut disk, "__cluster_metadata-0", &meta, Uuid::METADATA_TOPIC).unwrap();
            disks.push(disk);
        }
        let mut world = World {
            voters,
            nodes: BTreeMap::new(),
            disks,
            now: Time(1),
            conns: BTreeMap::new(),
            wire: VecDeque::new(),
            answers: BTreeMap::new(),
            replies: BTreeMap::new(),
            rounds: 0,
            next: 0,
        };
        (1..=voters).for_each(|id| world.start(id));
        world.until("somebody leads", |world| world.leader().is_some());
        world
    }

    fn start(&mut self, id: u32) {
        self.try_start(id).unwrap();
    }

    fn try_start(&mut self, id: u32) -> Result<(), StartError> {
        let own = Endpoint { listener: "CONTROLLER".into(), host: format!("n{id}"), port: 9093 };
        let at = |id: u32| HostPort { host: format!("n{id}"), port: 9093 };
        let voters = (1..=self.voters).map(|id| Voter { id: ReplicaId(id), at: at(id) }).collect();
        let config = Config {
            reserve_bytes: RESERVE,
            ..Config::new(Some(ReplicaId(id)), PathBuf::new(), voters, at(id))
        };
        let disk = self.disks[id as usize - 1].clone();
        let machine = Sessioned::new(Kv::new());
        let Started { replica, store, disk, .. } =
            start(&config, own, disk, machine, u64::from(id), self.now)?;
        let (full, refill_at) = (disk.is_full(), self.now);
        self.nodes.insert(id, Node { replica, store, disk, full, refill_at });
        Ok(())
    }

    /// The node's disk takes nothing more, or anything.
    fn fill(&self, id: u32, full: bool) {
        self.disks[id as usize - 1].limit_room(full.then_some(0));
    }

    /// The process dies and another one starts, on a disk as full as before.
    fn restart(&mut self, id: u32, full: bool) {
        self.nodes.remove(&id);
        let ends: Vec<_> = self.conns.iter().filter(|(_, (of, _))| *of == id).collect();
        let gone: Vec<_> = ends.into_iter().map(|(own, (_, other))| (*own, *other)).collect();
        for (own, other) in gone {
            self.close(own, other);
        }
        self.disks[id as usize - 1].kill();
        self.fill(id, full);
        self.start(id);
    }

    fn close(&mut self, own: ConnId, other: ConnId) {
        self.conns.remove(&own);
        if let Some((peer, _)) = self.conns.remove(&other) {
            self.wire.push_back((peer, other, None));
        }
    }

    /// Runs until it is so, for a minute of the world at most.
    fn until(&mut self, what: &str, done: impl Fn(&World) -> bool) {
        let end = self.now + Span::ms(60_000);
        while !done(self) {
            assert!(self.now < end, "never: {what}");
            self.round();
        }
    }

    fn run(&mut self, span: Span) {
        let end = self.now + span;
        self.until("time passes", |world| world.now >= end);
    }

    fn round(&mut self) {
        self.rounds += 1;
        let ids: Vec<u32> = self.nodes.keys().copied().collect();
        let mut busy = false;
        for id in ids {
            let mut outs = Vec::new();
            let (node, now) = (self.nodes.get_mut(&id).unwrap(), self.now);
            if node.full && node.refill_at <= now {
                node.refill_at = now + Span::ms(1_000);
                node.full = !node.disk.refill().unwrap();
                node.replica.on_room(now, node.full);
            }
            node.replica.turn(now, 1_700_000_000_000);
            node.replica.check();
            node.replica.take_out(&mut outs);
            busy |= !outs.is_empty();
            for out in outs {
                self.carry_out(id, out);
            }
        }
        while let Some((id, conn, frame)) = self.wire.pop_front() {
            busy = true;
            let Some(node) = self.nodes.get_mut(&id) else { continue };
            match frame {
                Some(frame) => node.replica.on_frame(self.now, conn, frame),
                None => node.replica.on_closed(self.now, conn),
            }
        }
        if !busy {
            let due = |node: &Node| match node.full {
                true => node.replica.deadline().min(node.refill_at),
                false => node.replica.deadline(),
            };
            let due = self.nodes.values().map(due).min().unwrap();
            self.now = due.max(self.now + Span(1)).min(self.now + Span::ms(1_000));
        }
    }

    fn carry_out(&mut self, id: u32, out: Out<Kvs>) {
        let (now, disk) = (self.now, &mut self.disks[id as usize - 1]);
        let Some(node) = self.nodes.get_mut(&id) else { return };
        match out {
            Out::Disk { id, job } => {
                node.store.run(&mut vec![job]).unwrap();
                if !node.full && node.disk.is_full() {
                    (node.full, node.refill_at) = (true, now + Span::ms(1_000));
                    node.replica.on_room(now, true);
                }
                node.replica.on_durable(now, id);
            }
            Out::Read { id, read } => {
                node.replica.on_read(now, id, read.run(disk));
            }
            Out::Connect { link, to } => {
                let peer = to.host[1..].parse().unwrap();
                self.next += 1;
                let next = self.next;
                let made = self.nodes.contains_key(&peer).then_some((ConnId(next), ConnId(!next)));
                if let Some((own, other)) = made {
                    self.conns.insert(own, (id, other));
                    self.conns.insert(other, (peer, own));
                }
                let made = made.map(|(own, _)| own).ok_or(quorate_node::ConnectError::Refused);
                self.nodes.get_mut(&id).unwrap().replica.on_connect(now, link, made);
            }
            Out::Frame { conn, frame } => {
                if let Some((_, other)) = self.conns.get(&conn)
                    && let Some((peer, _)) = self.conns.get(other)
                {
                    self.wire.push_back((*peer, *other, Some(frame.into_payload())));
                }
            }
            Out::Close { conn, .. } => {
                if let Some((_, other)) = self.conns.get(&conn).copied() {
                    self.close(conn, other);
                }
            }
            Out::Answer { client, answer } => drop(self.answers.insert(client, answer)),
            Out::Reply { client, reply } => {
                self.replies.insert(client, reply.map(|(reply, _)| reply));
            }
            Out::StartOver => panic!("node {id} starts over, and nothing is cleaned"),
            Out::BeginAnew { why } | Out::TooOld { why } | Out::Fatal { why } => {
                panic!("node {id} gives up: {why}")
            }
            // These snapshots are never written.
            Out::Lane(_) => {}
            Out::Pause { .. } | Out::Resume { .. } | Out::Stopped => {}
        }
    }

    fn leader(&self) -> Option<u32> {
        let serves = |node: &Node| {
            let view = node.replica.view();
            view.role == RoleName::Leader && view.high_watermark.is_some()
        };
        self.nodes.iter().find(|(_, node)| serves(node)).map(|(id, _)| *id)
    }

    fn other(&self) -> u32 {
        let leader = self.leader().unwrap();
        (1..=self.voters).find(|id| *id != leader).unwrap()
    }

    fn ask(&mut self, id: u32, request: Request, patience: Span) -> ClientId {
        self.next += 1;
        let (client, now) = (ClientId(self.next), self.now);
        self.nodes.get_mut(&id).unwrap().replica.write(now, client, request, patience);
        client
    }

    /// A write's end, and how much time it took.
    fn write(&mut self, id: u32, request: Request) -> (Decided, Span) {
        let begun = self.now;
        let client = self.ask(id, request, Span::ms(5_000));
        self.until("a write is decided", |world| world.answers.contains_key(&client));
        (self.answers.remove(&client).unwrap(), self.now.since(begun))
    }

    fn put(&mut self, id: u32, key: &str) -> Decided {
        self.write(id, put(key)).0
    }

    fn get(&mut self, id: u32, key: &str) -> Result<bool, Error> {
        self.next += 1;
        let (client, now) = (ClientId(self.next), self.now);
        let query = Query::Get { key: key.as_bytes().to_vec().into() };
        let replica = &mut self.nodes.get_mut(&id).unwrap().replica;
        replica.read(now, client, query, Span::ms(5_000));
        self.until("a read is answered", |world| world.replies.contains_key(&client));
        let reply = self.replies.remove(&client).unwrap()?;
        let Reply::Get(found) = reply else { panic!("{reply:?}") };
        Ok(found.is_some())
    }

    fn end(&self, id: u32) -> Offset {
        self.nodes[&id].replica.view().end
    }
}

fn put(key: &str) -> Request {
    let (key, value, condition) = (key.as_bytes(), &[7; 200][..], Condition::Always);
    Request::write(Write::Put { key, value, condition }.encode().unwrap())
}

fn stamped(session: SessionId, sequence: u64, key: &str) -> Request {
    let Operation::Write(body) = put(key).operation else { panic!("a write") };
    Request::stamped(Stamp { session, slot: 0, sequence }, body)
}

#[test]
fn a_full_leader_refuses_writes_at_once_serves_reads_and_takes_writes_again_by_itself() {
    let mut world = World::new(3);
    let (leader, follower) = (world.leader().unwrap(), world.other());
    world.put(leader, "before").unwrap();
    (1..=3).for_each(|id| world.fill(id, true));
    world.put(leader, "found").expect("what was promised is stored");
    for id in [leader, follower, leader] {
        let (refused, took) = world.write(id, put("refused"));
        assert_eq!(refused, Err(Error::OutOfRoom), "at node {id}");
        assert!(took < Span::ms(100), "{took:?} at node {id}");
        assert_eq!(world.get(id, "found"), Ok(true), "at node {id}");
        assert_eq!(world.get(id, "refused"), Ok(false), "at node {id}");
    }
    let status = world.nodes[&leader].replica.status();
    assert!(status.ready && status.disk_full.unwrap().contains("writes are refused"));
    world.run(Span::ms(3_000));
    assert_eq!(world.leader(), Some(leader), "nobody has room, so it leads on");
    (1..=3).for_each(|id| world.fill(id, false));
    world.run(Span::ms(1_100));
    world.put(follower, "after").unwrap();
    assert_eq!(world.get(leader, "after"), Ok(true));
    assert_eq!(world.nodes[&leader].replica.status().disk_full, None);
}

#[test]
fn a_full_leader_makes_way_where_a_majority_has_room() {
    let mut world = World::new(3);
    let (old, follower) = (world.leader().unwrap(), world.other());
    world.fill(old, true);
    world.put(old, "found").unwrap();
    world.until("another leads", |world| world.leader().is_some_and(|leader| leader != old));
    world.put(follower, "after").unwrap();
    world.put(old, "through the full one").unwrap();
    assert!(world.nodes[&old].replica.status().disk_full.is_some());
}

#[test]
fn a_leader_with_room_refuses_writes_that_too_few_can_store() {
    let mut world = World::new(3);
    let leader = world.leader().unwrap();
    let others: Vec<u32> = (1..=3).filter(|id| *id != leader).collect();
    others.iter().for_each(|id| world.fill(*id, true));
    world.put(leader, "found").unwrap();
    world.until("it knows", |world| world.nodes[&leader].replica.status().too_many_full.is_some());
    let status = world.nodes[&leader].replica.status();
    assert!(status.ready && status.disk_full.is_none());
    assert!(status.too_many_full.unwrap().contains(&format!("{others:?}")));
    let end = world.end(leader);
    assert_eq!(world.put(leader, "refused"), Err(Error::OutOfRoom));
    assert_eq!(world.end(leader), end, "nothing is proposed");
    assert_eq!(world.get(leader, "found"), Ok(true));
    world.fill(others[0], false);
    world.run(Span::ms(2_000));
    world.put(leader, "after").expect("one of the two is enough");
}

#[test]
fn sessions_outlive_a_full_disk_and_the_loop_does_not_spin_on_their_ends() {
    let mut world = World::new(1);
    let (opened, _) = world.write(1, Request::open_session(Span::ms(5_000)));
    let Ok(Answer::Opened(session)) = opened else { panic!("{opened:?}") };
    world.write(1, stamped(session, 1, "a")).0.unwrap();
    world.fill(1, true);
    world.put(1, "found").unwrap();
    assert_eq!(world.write(1, Request::renew_session(session)).0, Err(Error::OutOfRoom));
    let before = world.rounds;
    world.run(Span::ms(10_000));
    assert!(world.rounds - before < 200, "{} rounds in 10 s", world.rounds - before);
    world.fill(1, false);
    world.run(Span::ms(1_100));
    let (answer, _) = world.write(1, stamped(session, 2, "b"));
    assert!(matches!(answer, Ok(Answer::Done(_))), "{answer:?}");
    world.run(Span::ms(6_000));
    let (answer, _) = world.write(1, stamped(session, 3, "c"));
    assert!(matches!(answer, Ok(Answer::Session(_))), "time runs again: {answer:?}");
}

#[test]
fn a_full_follower_stores_nothing_keeps_its_leader_and_catches_up() {
    let mut world = World::new(3);
    let (leader, full) = (world.leader().unwrap(), world.other());
    let epoch = world.nodes[&leader].replica.view().epoch;
    world.fill(full, true);
    world.put(leader, "found").unwrap();
    world.until("it knows", |world| world.nodes[&full].replica.status().disk_full.is_some());
    let end = world.end(full);
    let before = world.rounds;
    for number in 0..30 {
        world.put(leader, &format!("key-{number}")).unwrap();
        world.run(Span::ms(300));
    }
    assert!(world.rounds - before < 3_000, "{} rounds", world.rounds - before);
    assert_eq!(world.end(full), end, "nothing is stored");
    assert_eq!(world.nodes[&leader].replica.view().epoch, epoch, "nobody stood for election");
    // What it lacks it cannot show; it says so at once, and to load balancers too.
    assert_eq!(world.get(full, "key-29"), Err(Error::LeftBehind));
    let why = world.nodes[&full].replica.status().not_ready_because.unwrap();
    assert!(why.contains("the disk is full"), "{why}");
    world.put(full, "through it").expect("the leader has room");
    world.fill(full, false);
    world.until("it has caught up", |world| world.end(full) == world.end(leader));
    assert_eq!(world.get(full, "key-29"), Ok(true));
}

#[test]
fn full_voters_elect_a_leader_and_serve_reads() {
    let mut world = World::new(3);
    let old = world.leader().unwrap();
    world.put(old, "before").unwrap();
    world.until("all have it", |world| (1..=3).all(|id| world.end(id) == world.end(old)));
    (1..=3).for_each(|id| world.fill(id, true));
    world.put(old, "found").unwrap();
    world.until("all know", |world| {
        world.nodes.values().all(|node| node.replica.status().disk_full.is_some())
    });
    let epoch = world.nodes[&old].replica.view().epoch;
    world.restart(old, true);
    world.until("another leads", |world| {
        world.leader().is_some_and(|id| world.nodes[&id].replica.view().epoch > epoch)
    });
    world.run(Span::ms(3_000));
    for id in 1..=3 {
        assert_eq!(world.get(id, "found"), Ok(true), "at node {id}");
        assert_eq!(world.put(id, "refused"), Err(Error::OutOfRoom), "at node {id}");
    }
    (1..=3).for_each(|id| world.fill(id, false));
    world.run(Span::ms(1_100));
    world.put(old, "after").unwrap();
}

#[test]
fn writes_behind_a_session_that_is_not_opened_are_refused_with_it() {
    let mut world = World::new(3);
    let (leader, follower) = (world.leader().unwrap(), world.other());
    (1..=3).for_each(|id| world.fill(id, true));
    world.put(leader, "found").unwrap();
    let begun = world.now;
    // The first of them makes the node ask for a session of its own.
    let clients: Vec<ClientId> =
        (0..5).map(|_| world.ask(follower, put("key"), Span::ms(5_000))).collect();
    world.until("all are told", |world| {
        clients.iter().all(|client| world.answers.contains_key(client))
    });
    assert!(world.now.since(begun) < Span::ms(100), "{:?}", world.now.since(begun));
    for client in clients {
        assert_eq!(world.answers[&client], Err(Error::OutOfRoom));
    }
}

#[test]
fn a_node_that_starts_on_a_full_disk_knows_it() {
    let mut world = World::new(1);
    world.put(1, "before").unwrap();
    world.fill(1, true);
    world.put(1, "found").unwrap();
    world.restart(1, true);
    assert!(world.nodes[&1].replica.status().disk_full.is_some());
    world.until("it leads", |world| world.leader().is_some());
    assert_eq!(world.put(1, "refused"), Err(Error::OutOfRoom));
    assert_eq!((world.get(1, "found"), world.get(1, "refused")), (Ok(true), Ok(false)));
    world.fill(1, false);
    world.run(Span::ms(1_100));
    world.put(1, "after").unwrap();
}

#[test]
fn a_node_without_any_room_put_aside_does_not_start_on_a_full_disk_and_says_why() {
    let mut world = World::new(1);
    world.disks[0].kill();
    let mut disk = MemoryDisk::default();
    let directory = Uuid::from_random([9; 16]);
    let meta = Meta { cluster: "test".into(), node: ReplicaId(1), directory };
    format(&mut disk, "__cluster_metadata-0", &meta, Uuid::METADATA_TOPIC).unwrap();
    world.disks[0] = disk;
    world.fill(1, true);
    let why = world.try_start(1).unwrap_err().to_string();
    assert!(why.contains("has no room to put 1048576 bytes aside (0 are)"), "{why}");
    world.fill(1, false);
    world.start(1);
}
