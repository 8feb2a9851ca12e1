//! Random walks over a cluster: one seed, one walk. After every step all laws of `cluster/laws.rs`
//! hold.
//!
//! In the honest walk machines, disks, links and strangers fail, and peers are what they say; in
//! the hostile one everybody may say anything, and each node must keep what it owes to itself and
//! to its disk.

#![allow(dead_code, reason = "each test file uses its part")]

use crate::cluster::{Cluster, Message, Record, Shape, endpoints, key};
use quorate_base::{
    Cleaned, Epoch, FormatLevel, Offset, OffsetEpoch, ReplicaId, ReplicaKey, Rng, Span, Uuid,
};
use quorate_raft::*;
use std::collections::BTreeSet;

/// What nodes of today speak.
const ALL: Features = Features {
    pre_vote: true,
    rounds: true,
    updates: true,
    joins: true,
    kraft_versions: Some(KRAFT_VERSIONS),
};

/// What the voter set says of a node.
fn voter(id: ReplicaId) -> Voter {
    Voter { key: key(id), endpoints: endpoints(id, 1), versions: KRAFT_VERSIONS }
}

/// The directory of a disk that was lost.
const OLD_DISK: Uuid = Uuid([0xdd; 16]);

/// None of our nodes.
const STRANGER: ReplicaId = ReplicaId(9);

pub struct Walk {
    pub cluster: Cluster,
    rng: Rng,
    nodes: u64,
    /// Whether somebody asks for other voters.
    changing: bool,
    hostile: bool,
    /// Whose disk was replaced: the first voters have it with another directory.
    replaced: Option<ReplicaId>,
    /// Those that were asked to stop: they take no part any more until they start anew.
    stopping: BTreeSet<ReplicaId>,
}

/// Walks, then lets the cluster heal: it must elect a leader, commit a record everywhere and answer
/// a read.
pub fn honest(seed: u64, shape: &Shape) {
    let mut walk = Walk::new(seed, shape, false);
    for _ in 0..600 {
        walk.step();
    }
    walk.heal();
    walk.converge(seed);
}

/// Walks among liars. Nobody panics.
pub fn hostile(seed: u64, shape: &Shape) {
    let mut walk = Walk::new(seed, shape, true);
    walk.cluster.laws.peers_are_honest = false;
    for _ in 0..600 {
        walk.step();
    }
}

impl Walk {
    fn new(seed: u64, shape: &Shape, hostile: bool) -> Walk {
        let mut rng = Rng::new(seed);
        let voters = if rng.one_in(6) { 1 + rng.below(2) } else { 3 + rng.below(3) } as u32;
        let mut shape = shape.clone();
        shape.voters = (1..=voters).collect();
        shape.observers = if rng.one_in(2) { vec![voters + 1] } else { Vec::new() };
        let named = voters + shape.observers.len() as u32;
        shape.nameless = if rng.one_in(4) { vec![named + 1] } else { Vec::new() };
        shape.old = if rng.one_in(3) { vec![2] } else { Vec::new() };
        shape.bootstrap = if rng.one_in(4) { vec![1, voters] } else { Vec::new() };
        shape.directories = rng.one_in(2);
        shape.endpoints = rng.below(2) as usize;
        let changing = shape.changing;
        let mut replaced = None;
        if changing {
            replaced = (voters > 2 && rng.one_in(3)).then_some(ReplicaId(voters));
            // Those of the log, whom everybody finds and who name where they listen.
            shape.bootstrap = (1..=named).collect();
            shape.endpoints = 1;
            let mut voters: Vec<_> = (1..=voters).map(|id| voter(ReplicaId(id))).collect();
            for voter in voters.iter_mut().filter(|voter| Some(voter.key.id) == replaced) {
                voter.key.directory = Some(OLD_DISK);
            }
            shape.founding = Some(Decree { version: Some(1), voters: Some(voters.into()) });
            shape.auto_join = if rng.one_in(2) { vec![2, named] } else { Vec::new() };
        }
        let nodes = u64::from(named) + shape.nameless.len() as u64;
        let founding = shape.founding.clone();
        let cluster = Cluster::new(shape, rng.next());
        let stopping = BTreeSet::new();
        let mut walk = Walk { cluster, rng, nodes, changing, hostile, replaced, stopping };
        for id in walk.ids() {
            let founds = id.0 <= voters;
            walk.cluster.node(id).founding = founding.clone().filter(|_| founds);
            walk.open(id);
        }
        // Most of the walk is to happen around a leader.
        for _ in 0..40 {
            walk.wake();
            walk.cluster.settle();
        }
        walk
    }

    fn open(&mut self, id: ReplicaId) {
        self.cluster.open(id).expect("what a node wrote, it can read");
        for other in self.ids() {
            if self.changing && other != id {
                self.cluster.step(id, Input::Peer { id: other, speaks: ALL });
            }
        }
    }

    fn ids(&self) -> Vec<ReplicaId> {
        self.cluster.nodes.keys().copied().collect()
    }

    fn some_id(&mut self) -> ReplicaId {
        ReplicaId(1 + self.rng.below(self.nodes) as u32)
    }

    fn token(&mut self) -> Token {
        Token(self.cluster.serial())
    }

    fn wake(&mut self) {
        let until = self.cluster.now + Span::ms(self.rng.below(400));
        self.cluster.wake(until);
    }

    fn step(&mut self) {
        self.cluster.events.clear();
        let id = self.some_id();
        let runs = self.cluster.runs(id);
        match self.rng.below(100) {
            0..50 => self.deliver(),
            50..62 => self.wake(),
            62..66 => self.spoil_the_network(),
            66..70 => self.cut_or_join(id),
            70..76 if runs => self.use_disk(id),
            76..80 => self.crash_or_open(id),
            80..86 if runs => {
                let (token, epoch) = (self.token(), self.epoch(id));
                let records = 1 + self.rng.below(3) as u32;
                self.cluster.step(id, Input::Propose { token, epoch, records });
            }
            86..91 => {
                let token = self.token();
                if runs {
                    self.cluster.step(id, Input::Read { token });
                }
            }
            91 if runs && self.rng.one_in(2) => {
                let told = self.cluster.picture(id).told;
                let at = Offset(self.rng.below(told.0 + 1));
                if self.rng.one_in(2) {
                    self.cluster.freeze(id, at);
                }
                let kept = &self.cluster.nodes[&id].kept.snapshots;
                let some = self.rng.below(kept.len() as u64) as usize;
                if let Some(snapshot) = kept.get(some).copied() {
                    if self.rng.one_in(8) {
                        let voters_too = self.rng.one_in(2);
                        self.cluster.step(id, Input::GiveUpHolds { voters_too });
                    }
                    self.cluster.step(id, Input::Trim { snapshot });
                }
            }
            91 if runs => {
                let epoch = self.epoch(id);
                let input = match self.rng.one_in(2) {
                    true => Input::Resign { epoch },
                    false => Input::HandOver { epoch },
                };
                self.cluster.step(id, input);
            }
            92 if runs && self.rng.one_in(4) => {
                let until = self.cluster.time(id) + Span::ms(self.rng.below(4_000));
                self.stopping.insert(id);
                self.cluster.step(id, Input::Shutdown { until });
            }
            92 => {
                let (pre_vote, rounds) = (self.rng.one_in(2), self.rng.one_in(2));
                let speaks = Features { pre_vote, rounds, updates: rounds, ..ALL };
                self.cluster.step(id, Input::Peer { id: ReplicaId(1), speaks });
            }
            93..100 if runs => self.stranger(id),
            _ => {}
        }
    }

    fn epoch(&mut self, id: ReplicaId) -> Epoch {
        let epoch = self.cluster.picture(id).epoch.0;
        if self.hostile && self.rng.one_in(40) {
            let far = [0, i32::MAX as u32 - 1, i32::MAX as u32, u32::MAX];
            return Epoch(far[self.rng.below(4) as usize]);
        }
        match self.rng.below(6) {
            0 => Epoch(epoch.saturating_add(1)),
            1 => Epoch(epoch.saturating_sub(1)),
            _ => Epoch(epoch),
        }
    }

    fn offset(&mut self, id: ReplicaId) -> Offset {
        if self.hostile && self.rng.one_in(40) {
            let far = [u64::MAX, i64::MAX as u64, i64::MAX as u64 - 1];
            return Offset(far[self.rng.below(3) as usize]);
        }
        let end = self.cluster.picture(id).end.0;
        match self.rng.below(4) {
            0 => Offset(self.rng.below(end + 3)),
            1 => Offset(end + 1),
            _ => Offset(end),
        }
    }

    fn last(&mut self, id: ReplicaId) -> OffsetEpoch {
        let offset = self.offset(id);
        let last = self.cluster.picture(id).last_epoch;
        let epoch = if self.rng.one_in(3) { self.epoch(id) } else { last };
        OffsetEpoch::new(offset, epoch)
    }

    // --- The world

    fn deliver(&mut self) {
        let count = self.cluster.network.len() as u64;
        let at = self.rng.below(count) as usize;
        // Mostly in order, now and then not.
        let at = if self.rng.one_in(4) { at } else { 0 };
        let Some(flight) = self.cluster.network.get(at) else { return };
        let chosen =
            (flight.from, flight.to, flight.call, matches!(flight.message, Message::Ask(_)));
        if self.hostile && self.rng.one_in(3) && !chosen.3 {
            return self.lie(chosen.1, chosen.0);
        }
        self.cluster.deliver(|flight| {
            let ask = matches!(flight.message, Message::Ask(_));
            (flight.from, flight.to, flight.call, ask) == chosen
        });
    }

    fn spoil_the_network(&mut self) {
        let count = self.cluster.network.len() as u64;
        let at = self.rng.below(count) as usize;
        match self.rng.below(3) {
            0 => drop(self.cluster.network.remove(at)),
            1 => {
                if let Some(flight) = self.cluster.network.get(at).cloned() {
                    self.cluster.network.push_back(flight);
                }
            }
            _ => {
                let (from, to) = (self.some_id(), self.some_id());
                let how = [Loss::TimedOut, Loss::Closed, Loss::Refused, Loss::Dropped];
                self.cluster.lose(from, to, how[self.rng.below(4) as usize]);
            }
        }
    }

    fn cut_or_join(&mut self, id: ReplicaId) {
        match self.rng.below(3) {
            0 => self.cluster.cuts.clear(),
            1 if self.rng.one_in(2) => self.cluster.isolate(id),
            _ => {
                let other = self.some_id();
                self.cluster.cuts.insert((id, other));
            }
        }
    }

    fn use_disk(&mut self, id: ReplicaId) {
        match self.rng.below(3) {
            0 => self.cluster.node(id).held = true,
            1 => self.cluster.sync(id, 1),
            _ => self.cluster.release(id),
        }
    }

    fn crash_or_open(&mut self, id: ReplicaId) {
        if self.cluster.runs(id) {
            if self.rng.one_in(4) {
                self.cluster.crash(id);
            }
        } else {
            self.open(id);
        }
    }

    // --- Those who are none of ours, or lie

    fn stranger(&mut self, to: ReplicaId) {
        if self.changing && self.rng.one_in(2) {
            return self.change_voters(to);
        }
        let from = match self.hostile {
            true if self.rng.one_in(2) => self.some_id(),
            true | false => STRANGER,
        };
        let kinds = if self.hostile { 4 } else { 2 };
        // An observer that a vote request takes beyond the epoch of the quorum stays alone until
        // the quorum gets there; see `observer_ahead_of_the_quorum.txt`.
        let seats = self.cluster.nodes[&to].quorum.as_ref().expect("it runs").view().voters;
        let voter = seats.iter().any(|voter| voter.key.names(key(to)));
        let epoch =
            if self.hostile || voter { self.epoch(to) } else { self.cluster.picture(to).epoch };
        let body = match self.rng.below(kinds) {
            0 => Request::Vote(Vote {
                epoch,
                candidate: key(from),
                voter: self.rng.one_in(2).then(|| key(to)),
                last: self.last(to),
                pre_vote: self.rng.one_in(2),
            }),
            1 => Request::Fetch(Fetch {
                epoch,
                replica: (self.hostile || self.rng.one_in(2)).then(|| key(from)),
                from: self.last(to),
                high_watermark: match self.rng.below(3) {
                    0 => FetchHighWatermark::Unsaid,
                    1 => FetchHighWatermark::Known(None),
                    _ => FetchHighWatermark::Known(Some(self.offset(to))),
                },
                max_wait: Span::ms(self.rng.below(2) * 500),
                max_bytes: 1_000,
                round: self.rng.one_in(2).then(|| self.rng.below(4)),
                no_room: false,
                format_level: FormatLevel::ZERO,
                history: None,
                never_leads: false,
            }),
            2 => Request::BeginQuorumEpoch(BeginQuorumEpoch {
                epoch,
                leader: from,
                voter: self.rng.one_in(2).then(|| key(to)),
                endpoints: endpoints(from, self.rng.below(3) as usize),
            }),
            _ => {
                let count = self.rng.below(4);
                let successors = (0..count).map(|_| ReplicaKey::new(self.some_id(), None));
                Request::EndQuorumEpoch(EndQuorumEpoch {
                    epoch,
                    leader: from,
                    successors: successors.collect(),
                    endpoints: endpoints(from, 0),
                })
            }
        };
        self.cluster.ask(to, from, body);
    }

    /// Somebody asks for one more, or for one less.
    fn change_voters(&mut self, to: ReplicaId) {
        let leads = |id: &ReplicaId| {
            self.cluster.runs(*id) && self.cluster.picture(*id).role == RoleName::Leader
        };
        let leader = self.ids().into_iter().find(leads);
        let (to, mut id) = (leader.unwrap_or(to), self.some_id());
        let replaced = self.replaced.filter(|_| self.rng.one_in(2));
        id = replaced.unwrap_or(id);
        let old = [OLD_DISK, OLD_DISK, Uuid([0xee; 16])];
        let replaces = replaced.map(|_| old[self.rng.below(3) as usize]);
        let wrong = self.rng.one_in(10);
        let key = if wrong { ReplicaKey::new(id, Some(Uuid([0xee; 16]))) } else { key(id) };
        let removes = self.rng.one_in(if replaced.is_some() { 8 } else { 2 });
        let body = match removes {
            true if replaced.is_some() && self.rng.one_in(4) => {
                let key = ReplicaKey::new(id, Some(OLD_DISK));
                Request::RemoveVoter(RemoveVoter { key })
            }
            true => Request::RemoveVoter(RemoveVoter { key }),
            false => Request::AddVoter(AddVoter {
                key,
                endpoints: endpoints(id, 1),
                when_committed: self.rng.one_in(2),
                replaces,
            }),
        };
        self.cluster.ask(to, STRANGER, body);
    }

    /// Any answer to an open question.
    fn lie(&mut self, to: ReplicaId, from: ReplicaId) {
        if !self.cluster.runs(to) || self.cluster.open_calls(to, from).is_empty() {
            return;
        }
        let errors = [
            ErrorKind::None,
            ErrorKind::None,
            ErrorKind::None,
            ErrorKind::FencedLeaderEpoch,
            ErrorKind::UnknownLeaderEpoch,
            ErrorKind::NotLeaderOrFollower,
            ErrorKind::InvalidRequest,
            ErrorKind::InvalidVoterKey,
            ErrorKind::BrokerNotAvailable,
            ErrorKind::UnsupportedVersion,
            ErrorKind::InconsistentClusterId,
            ErrorKind::SnapshotNotFound,
            ErrorKind::PositionOutOfRange,
            ErrorKind::Other(77),
        ];
        let view = LeaderView {
            error: errors[self.rng.below(errors.len() as u64) as usize],
            epoch: self.epoch(to),
            leader: match self.rng.below(4) {
                0 => None,
                1 => Some(self.some_id()),
                _ => Some(from),
            },
            endpoints: endpoints(from, self.rng.below(2) as usize),
        };
        let mut records = Vec::new();
        let body = match self.rng.below(8) {
            6 | 7 => Response::FetchSnapshot(SnapshotAnswer {
                view,
                snapshot: self.last(to),
                position: self.rng.below(12),
                piece: match self.rng.below(4) {
                    0 => Piece::Nothing,
                    1 => Piece::Served { max_bytes: 7 },
                    _ => Piece::Received { size: 10, bytes: self.rng.below(11) as u32 },
                },
            }),
            0 => Response::Vote(VoteAnswer { view, granted: self.rng.one_in(2) }),
            1 => Response::BeginQuorumEpoch(view),
            2 => Response::EndQuorumEpoch(view),
            _ => {
                let fetched = match self.rng.below(5) {
                    0 => Fetched::Nothing,
                    1 => Fetched::Diverging(self.last(to)),
                    2 => Fetched::Snapshot(self.last(to)),
                    _ => Fetched::Batches(self.batches(to, &mut records)),
                };
                Response::Fetch(FetchAnswer {
                    view,
                    high_watermark: self.rng.one_in(2).then(|| self.offset(to)),
                    start: Offset::ZERO,
                    fetched,
                    round: self.rng.one_in(2).then(|| self.rng.below(4)),
                    cleaned: self.rng.one_in(3).then(|| Cleaned {
                        dirty: self.offset(to),
                        clean: self.offset(to),
                        horizon: self.offset(to),
                    }),
                    bound: self.rng.one_in(2).then(|| self.offset(to)),
                    history: None,
                })
            }
        };
        self.cluster.forge(to, from, body, records);
    }

    fn batches(&mut self, to: ReplicaId, records: &mut Vec<Record>) -> Vec<BatchMark> {
        let mut base = match self.rng.one_in(5) {
            true => self.offset(to),
            false => self.cluster.picture(to).end,
        };
        let mut marks = Vec::new();
        for _ in 0..self.rng.below(4) {
            let last = match self.rng.below(12) {
                0 => Offset(base.0.saturating_sub(1)),
                1 => Offset(u64::MAX),
                more => Offset(base.0.saturating_add(more % 3)),
            };
            let epoch = self.epoch(to);
            marks.push(BatchMark { base, last, epoch, control: false, decree: None });
            let nonce = base.0.wrapping_add(1_000_000);
            let count = last.0.saturating_sub(base.0).saturating_add(1).min(4);
            records.extend((0..count).map(|_| Record::plain(epoch, nonce)));
            base = Offset(last.0.saturating_add(1));
        }
        marks
    }

    // --- The end

    fn heal(&mut self) {
        self.cluster.cuts.clear();
        for id in self.ids() {
            if self.cluster.runs(id) {
                self.cluster.release(id);
            }
            if self.stopping.contains(&id) && self.cluster.runs(id) {
                self.cluster.crash(id);
            }
            if !self.cluster.runs(id) {
                self.cluster.open(id).expect("what a node wrote, it can read");
            }
            // Whatever was said of it.
            for other in self.ids() {
                self.cluster.step(other, Input::Peer { id, speaks: ALL });
            }
        }
    }

    fn run(&mut self, span: Span) {
        let until = self.cluster.now + span;
        let mut steps = 0;
        self.cluster.settle();
        while self.cluster.wake(until) {
            self.cluster.settle();
            self.cluster.events.clear();
            steps += 1;
            assert!(steps < 20_000, "the cluster spins");
        }
    }

    /// All nodes, for whoever reads why a walk failed.
    fn tell(&self) -> String {
        let line = |id: ReplicaId| {
            let view = self.cluster.nodes[&id].quorum.as_ref().expect("it runs").view();
            let voters: Vec<u32> = view.voters.iter().map(|voter| voter.key.id.0).collect();
            format!("{id} of {voters:?}: {:?}\n", self.cluster.picture(id))
        };
        self.ids().into_iter().map(line).collect()
    }

    fn converge(&mut self, seed: u64) {
        self.run(Span::ms(15_000));
        let leads = |id: &ReplicaId| {
            let picture = self.cluster.picture(*id);
            picture.role == RoleName::Leader && picture.high_watermark.is_some()
        };
        let leader = self.ids().into_iter().find(leads);
        let leader = leader.unwrap_or_else(|| panic!("no leader, seed {seed}:\n{}", self.tell()));
        let (token, read) = (self.token(), self.token());
        let before = self.cluster.picture(leader);
        let proposal = Input::Propose { token, epoch: before.epoch, records: 1 };
        self.cluster.step(leader, proposal);
        self.cluster.step(leader, Input::Read { token: read });
        // Long before anything expires: news must not wait for timers, except at peers that cannot
        // say what they know already [P31], and at one that asks to be a voter.
        let shape = &self.cluster.shape;
        let waits = !shape.old.is_empty() || !shape.auto_join.is_empty();
        let soon = if waits { 600 } else { 100 };
        self.run(Span::ms(soon));
        for id in self.ids() {
            let told = self.cluster.picture(id).told;
            let all = self.tell();
            assert!(told > before.end, "node {id} was told {told}, not {}:\n{all}", before.end);
        }
        assert_eq!(self.cluster.picture(leader).reads, 0, "a read waits, seed {seed}");
    }
}
