//! A bit of an old record flips on the disk of a running leader: the follower that asks for it gets
//! it all the same, from the next leader, and the old one begins anew.

#![allow(clippy::unwrap_used)]

use quorate_base::{ReplicaId, Span, Time, Uuid};
use quorate_log::{MemoryDisk, Meta, Store, format};
use quorate_machine::kv::{Condition, Write};
use quorate_machine::{Kv, Machine, Request, Sessioned};
use quorate_node::config::{Config, HostPort, Voter};
use quorate_node::start::{StartError, Started, start};
use quorate_node::{ClientId, ConnId, Out, Replica};
use quorate_raft::{Endpoint, RoleName};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;

type Kvs = Sessioned<Kv>;
const SEGMENT: &str = "__cluster_metadata-0/00000000000000000000.log";

struct Node {
    replica: Replica<Kvs>,
    store: Store<MemoryDisk>,
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
    /// Who wanted to begin anew, and why.
    anew: Vec<(u32, String)>,
    answered: usize,
    next: u64,
}

impl World {
    fn new(voters: u32) -> World {
        let mut disks = Vec::new();
        for id in 1..=voters {
            let mut disk = MemoryDisk::default();
            let directory = Uuid::from_random([id as u8; 16]);
            let meta = Meta { cluster: "test".into(), node: ReplicaId(id), directory };
            format(&mut disk, "__cluster_metadata-0", &meta, Uuid::METADATA_TOPIC).unwrap();
            disks.push(disk);
        }
        let (conns, wire, anew) = (BTreeMap::new(), VecDeque::new(), Vec::new());
        let (nodes, now, answered) = (BTreeMap::new(), Time(1), 0);
        World { voters, nodes, disks, now, conns, wire, anew, answered, next: 0 }
    }

    fn start(&mut self, id: u32) -> Result<(), StartError> {
        let own = Endpoint { listener: "CONTROLLER".into(), host: format!("n{id}"), port: 9093 };
        let (config, disk) = (config(id, self.voters), self.disks[id as usize - 1].clone());
        let machine = Sessioned::new(Kv::new());
        let Started { replica, store, .. } =
            start(&config, own, disk, machine, u64::from(id), self.now)?;
        self.nodes.insert(id, Node { replica, store });
        Ok(())
    }

    fn stop(&mut self, id: u32) {
        self.nodes.remove(&id);
        let ends: Vec<_> = self.conns.iter().filter(|(_, (of, _))| *of == id).collect();
        let gone: Vec<_> = ends.into_iter().map(|(own, (_, other))| (*own, *other)).collect();
        for (own, other) in gone {
            self.close(own, other);
        }
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

    fn round(&mut self) {
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
            let due = self.nodes.values().map(|node| node.replica.deadline()).min().unwrap();
            self.now = due.max(self.now + Span(1)).min(self.now + Span::ms(1_000));
        }
    }

    fn carry_out(&mut self, id: u32, out: Out<Kvs>) {
        let (now, disk) = (self.now, &mut self.disks[id as usize - 1]);
        let Some(node) = self.nodes.get_mut(&id) else { return };
        match out {
            Out::Disk { id, job } => {
                node.store.run(&mut vec![job]).unwrap();
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
            Out::Answer { answer, .. } => self.answered += usize::from(answer.is_ok()),
            Out::BeginAnew { why } => {
                self.anew.push((id, why));
                self.stop(id);
            }
            Out::Fatal { why } => panic!("node {id} gives up: {why}"),
            // These snapshots are never written.
            Out::Lane(_) => {}
            Out::Pause { .. } | Out::Resume { .. } | Out::Reply { .. } | Out::Stopped => {}
        }
    }

    fn leader(&self) -> Option<u32> {
        let serves = |node: &Node| {
            let view = node.replica.view();
            view.role == RoleName::Leader && view.high_watermark.is_some()
        };
        self.nodes.iter().find(|(_, node)| serves(node)).map(|(id, _)| *id)
    }

    fn put(&mut self, leader: u32, number: u32) {
        let key = format!("key-{number}");
        let (key, value, condition) = (key.as_bytes(), &[7; 200][..], Condition::Always);
        let write = Write::Put { key, value, condition }.encode().unwrap();
        let node = self.nodes.get_mut(&leader).unwrap();
        let client = ClientId(u64::from(number));
        node.replica.write(self.now, client, Request::write(write), Span::ms(5_000));
        let before = self.answered;
        self.until("a write is acknowledged", |world| world.answered > before);
    }
}

#[test]
fn a_leader_with_a_damaged_record_hands_over_and_the_follower_gets_it_from_the_next() {
    let mut world = World::new(3);
    (1..=3).for_each(|id| world.start(id).unwrap());
    world.until("somebody leads", |world| world.leader().is_some());
    let old = world.leader().unwrap();
    let late = (1..=3).find(|id| *id != old).unwrap();
    world.stop(late);
    for number in 0..20 {
        world.put(old, number);
    }
    let end = world.nodes[&old].replica.view().end;
    world.disks[old as usize - 1].flip_bit(SEGMENT, 2_000, 0);
    world.start(late).unwrap();
    world.until("the late one has all", |world| {
        world.nodes[&late].replica.applied() >= end && world.leader().is_some()
    });
    assert_eq!(world.anew.len(), 1, "{:?}", world.anew);
    let (who, why) = &world.anew[0];
    assert_eq!(*who, old);
    assert!(why.contains(SEGMENT) && why.contains("checksum"), "{why}");
    assert_ne!(world.leader(), Some(old));
    let digests: Vec<u64> =
        world.nodes.values().map(|node| node.replica.machine().digest()).collect();
    assert_eq!(digests.len(), 2);
    assert_eq!(digests[0], digests[1]);
    // Its start reads everything, and says what is damaged.
    let refused = world.start(old).unwrap_err().to_string();
    assert!(refused.contains(SEGMENT), "{refused}");
}
