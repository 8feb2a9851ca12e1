//! The world of the tests: replicas without bytes, a network and disks of marks.

use crate::*;
use quorate_base::{Cleaned, Epoch, Offset, ReplicaId, ReplicaKey, Rng, Span, Time, Uuid};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Record: what lies at an offset. The nonce tells apart what two leaders wrote.
type Record = (Epoch, u64);

#[derive(Clone, Copy)]
pub(super) struct Faults {
    /// One message in so many is lost; 0 for none.
    lose: u64,
    /// Most time a message takes.
    delay: Span,
    /// Most time a sync takes.
    sync: Span,
    /// A node crashes, or returns, once in so many events; 0 for never.
    crash: u64,
    /// One link is cut or joined once in so many events; 0 for never.
    cut: u64,
    /// Whether some nodes know no rounds and no high watermark in fetches.
    old: bool,
}

impl Faults {
    pub(super) const NONE: Faults =
        Faults { lose: 0, delay: Span::ms(2), sync: Span::ms(1), crash: 0, cut: 0, old: false };

    pub(super) fn random(rng: &mut Rng) -> Faults {
        let mut pick = |all: &[u64]| all[rng.below(all.len() as u64) as usize];
        Faults {
            lose: pick(&[0, 5, 20, 100]),
            delay: Span::ms(pick(&[2, 20, 200])),
            sync: Span::ms(pick(&[1, 10, 300])),
            crash: pick(&[0, 200, 1_000]),
            cut: pick(&[0, 100, 500]),
            old: pick(&[0, 1]) == 1,
        }
    }
}

struct Node {
    id: ReplicaId,
    /// Counts restarts, so that what was meant for an earlier life is not delivered.
    life: u64,
    quorum: Option<Quorum>,
    election: ElectionState,
    log: Vec<Record>,
    durable_election: ElectionState,
    durable_log: Vec<Record>,
    /// Writes not yet durable.
    queue: VecDeque<(WriteId, Disk)>,
    old: bool,
    answers: BTreeMap<u64, Vec<Record>>,
}

#[derive(Clone)]
enum Disk {
    Election(ElectionState),
    Append(Vec<Record>),
    Truncate(usize),
}

enum Event {
    Ask { from: usize, life: u64, call: Call, to: usize, body: Request },
    Answer { to: usize, life: u64, call: Call, body: Response, records: Vec<Record> },
    Lost { to: usize, life: u64, call: Call, how: Loss },
    Synced { at: usize, life: u64, upto: WriteId },
}

pub(super) struct World {
    pub(super) now: Time,
    rng: Rng,
    faults: Faults,
    voters: usize,
    nodes: Vec<Node>,
    events: BTreeMap<(Time, u64), Event>,
    serial: u64,
    /// Tickets: who asked, in which life, with which call.
    tickets: BTreeMap<u64, (usize, usize, u64, Call)>,
    cuts: Vec<(usize, usize)>,
    leaders: BTreeMap<Epoch, ReplicaId>,
    /// All that was ever committed.
    committed: Vec<Record>,
    /// Reads: what was committed when they came, whether they were answered.
    reads: BTreeMap<u64, (Offset, bool)>,
    prospective: usize,
    #[cfg(mutants)]
    mutant: Option<Mutant>,
}

fn key(node: usize) -> ReplicaKey {
    ReplicaKey::new(ReplicaId(node as u32), Some(Uuid([node as u8 + 1; 16])))
}

impl World {
    pub(super) fn new(seed: u64, voters: usize, observers: usize, faults: Faults) -> World {
        let mut world = World {
            now: Time(1),
            rng: Rng::new(seed),
            faults,
            voters,
            nodes: Vec::new(),
            events: BTreeMap::new(),
            serial: 0,
            tickets: BTreeMap::new(),
            cuts: Vec::new(),
            leaders: BTreeMap::new(),
            committed: Vec::new(),
            reads: BTreeMap::new(),
            prospective: 0,
            #[cfg(mutants)]
            mutant: super::MUTANT.get(),
        };
        for node in 0..voters + observers {
            world.nodes.push(Node {
                id: ReplicaId(node as u32),
                life: 0,
                quorum: None,
                election: ElectionState::default(),
                log: Vec::new(),
                durable_election: ElectionState::default(),
                durable_log: Vec::new(),
                queue: VecDeque::new(),
                old: faults.old && node % 2 == 1,
                answers: BTreeMap::new(),
            });
            world.start(node);
        }
        world
    }

    fn start(&mut self, at: usize) {
        let voters = (0..self.voters)
            .map(|node| {
                (ReplicaKey::new(ReplicaId(node as u32), None), Arc::<[Endpoint]>::from([]))
            })
            .collect();
        let own = key(at);
        let config = Config::new(Some(own.id), own.directory.unwrap(), voters);
        let seed = self.rng.next();
        let node = &mut self.nodes[at];
        node.life += 1;
        node.log = node.durable_log.clone();
        node.election = node.durable_election.clone();
        node.queue.clear();
        node.answers.clear();
        let mut epochs: Vec<(Epoch, Offset)> = Vec::new();
        for (offset, record) in node.log.iter().enumerate() {
            if epochs.last().is_none_or(|last| last.0 < record.0) {
                epochs.push((record.0, Offset(offset as u64)));
            }
        }
        let recovered = Recovered {
            election: node.election.clone(),
            start: Offset::ZERO,
            end: Offset(node.log.len() as u64),
            epochs,
            ..Recovered::default()
        };
        #[cfg(not(mutants))]
        let quorum = Quorum::open(config, recovered, seed, self.now);
        #[cfg(mutants)]
        let quorum = Quorum::open_mutant(config, recovered, seed, self.now, self.mutant);
        node.quorum = Some(quorum.unwrap());
        self.step(at, Input::Wake);
    }

    pub(super) fn kill(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        node.quorum = None;
        node.life += 1;
        // Whoever waits for its answer sees the connection close, and nothing to connect to.
        let waiting: Vec<_> = self
            .tickets
            .iter()
            .filter(|(_, waits)| waits.1 == at)
            .map(|(ticket, waits)| (*ticket, *waits))
            .collect();
        for (ticket, (asker, _, life, call)) in waiting {
            self.tickets.remove(&ticket);
            self.later(Span::ms(1), Event::Lost { to: asker, life, call, how: Loss::Refused });
        }
    }

    fn later(&mut self, span: Span, event: Event) {
        self.serial += 1;
        self.events.insert((self.now + span, self.serial), event);
    }

    fn some(&mut self, most: Span) -> Span {
        Span(1 + self.rng.below(most.0))
    }

    fn cut(&self, a: usize, b: usize) -> bool {
        self.cuts.contains(&(a, b))
    }

    fn lost(&mut self, from: usize, to: usize) -> bool {
        self.rng.one_in(self.faults.lose) || self.cut(from, to)
    }

    fn step(&mut self, at: usize, input: Input) {
        let mut effects = Vec::new();
        let node = &mut self.nodes[at];
        let Some(quorum) = &mut node.quorum else { return };
        let was = quorum.view().role;
        quorum.step(self.now, input, &mut effects);
        quorum.check();
        let view = quorum.view();
        if view.role == RoleName::Prospective && was != view.role {
            self.prospective += 1;
        }
        if view.role == RoleName::Leader {
            let first = self.leaders.entry(view.epoch).or_insert(node.id);
            assert_eq!(*first, node.id, "two leaders of epoch {}", view.epoch);
        }
        for effect in effects {
            self.execute(at, effect);
        }
        let node = &self.nodes[at];
        let view = node.quorum.as_ref().unwrap().view();
        assert_eq!(view.end, Offset(node.log.len() as u64), "the log follows the core");
        assert!(view.durable.0 <= node.durable_log.len() as u64, "durable is true");
        assert_eq!(view.last_epoch, node.log.last().map_or(Epoch::ZERO, |record| record.0));
    }

    fn execute(&mut self, at: usize, effect: Effect) {
        let life = self.nodes[at].life;
        match effect {
            Effect::Write { id, write } => {
                self.serial += 1;
                let nonce = self.serial;
                let node = &mut self.nodes[at];
                let disk = match write {
                    Write::Election(state) => {
                        node.election = state.clone();
                        Disk::Election(state)
                    }
                    Write::Append { base, end, epoch, source } => {
                        assert_eq!(base.0, node.log.len() as u64);
                        let records = match source {
                            Source::Proposed(_) | Source::Control(_) => {
                                (base.0..end.0).map(|_| (epoch, nonce)).collect()
                            }
                            Source::Fetched(call) => {
                                let mut records = node.answers.remove(&call.0).unwrap();
                                records.truncate((end.0 - base.0) as usize);
                                records
                            }
                        };
                        node.log.extend(&records);
                        assert_eq!(end.0, node.log.len() as u64);
                        Disk::Append(records)
                    }
                    Write::Truncate { end } => {
                        node.log.truncate(end.0 as usize);
                        Disk::Truncate(end.0 as usize)
                    }
                    Write::Adopt { .. } | Write::Trim { .. } | Write::Reached => {
                        panic!("no snapshots here")
                    }
                };
                node.queue.push_back((id, disk));
                let most = self.faults.sync;
                let span = self.some(most);
                self.later(span, Event::Synced { at, life, upto: id });
            }
            Effect::Send { call, to, mut body } => {
                let Destination::Replica { id, .. } = to else { panic!("no bootstrap servers") };
                if let Request::Fetch(fetch) = &mut body
                    && self.nodes[at].old
                {
                    fetch.round = None;
                    fetch.high_watermark = FetchHighWatermark::Unsaid;
                }
                let to = id.0 as usize;
                let most = self.faults.delay;
                let span = self.some(most);
                if !self.lost(at, to) {
                    self.later(span, Event::Ask { from: at, life, call, to, body });
                }
                let timeout = Span::ms(2_000);
                self.later(timeout, Event::Lost { to: at, life, call, how: Loss::TimedOut });
            }
            Effect::Store { .. } | Effect::Abandon { .. } => {
                panic!("no snapshots here")
            }
            Effect::Reply { ticket, mut body } => {
                let Some((to, _, life, call)) = self.tickets.remove(&ticket.0) else { return };
                let mut records = Vec::new();
                if let Response::Fetch(answer) = &mut body
                    && let Fetched::Range { start, end, .. } = answer.fetched
                {
                    records = self.nodes[at].log[start.0 as usize..end.0 as usize].to_vec();
                    let marks = records.iter().enumerate().map(|(index, record)| {
                        let base = start + index as u64;
                        BatchMark {
                            base,
                            last: base,
                            epoch: record.0,
                            control: false,
                            decree: None,
                        }
                    });
                    answer.fetched = Fetched::Batches(marks.collect());
                    answer.cleaned = Some(Cleaned::NEVER);
                }
                let most = self.faults.delay;
                let span = self.some(most);
                if !self.lost(at, to) {
                    self.later(span, Event::Answer { to, life, call, body, records });
                }
            }
            Effect::ReadAt { token, offset } => {
                let (known, answered) = self.reads.get_mut(&token.0).unwrap();
                assert!(
                    offset >= *known,
                    "a read at {offset} misses what was committed at {known}"
                );
                *answered = true;
            }
            Effect::Commit { upto } => {
                let log = &self.nodes[at].log[..upto.0 as usize];
                let both = log.len().min(self.committed.len());
                assert_eq!(log[..both], self.committed[..both], "committed records changed");
                if log.len() > both {
                    let holders = (0..self.voters).filter(|voter| {
                        self.nodes[*voter].durable_log.get(..upto.0 as usize) == Some(log)
                    });
                    assert!(holders.count() >= majority(self.voters), "commit {upto} by too few");
                    self.committed.extend_from_slice(&log[both..]);
                }
            }
            Effect::Complain { what } => panic!("node {at} complains: {what:?}"),
            Effect::StartOver => panic!("node {at} starts over, and nobody cleans here"),
            Effect::Refuse { .. } | Effect::Lead { .. } | Effect::Stopped => {}
        }
    }

    fn deliver(&mut self, event: Event) {
        match event {
            Event::Ask { from, life, call, to, body } => {
                if self.nodes[to].quorum.is_none() {
                    let how = Loss::Refused;
                    self.later(Span::ms(1), Event::Lost { to: from, life, call, how });
                    return;
                }
                self.serial += 1;
                let ticket = Ticket(self.serial);
                self.tickets.insert(self.serial, (from, to, life, call));
                self.step(to, Input::Request { ticket, body });
            }
            Event::Answer { to, life, call, body, records } => {
                if self.nodes[to].life == life {
                    self.nodes[to].answers.insert(call.0, records);
                    self.step(to, Input::Response { call, body });
                    self.nodes[to].answers.clear();
                }
            }
            Event::Lost { to, life, call, how } => {
                if self.nodes[to].life == life {
                    self.step(to, Input::Lost { call, how });
                }
            }
            Event::Synced { at, life, upto } => {
                let node = &mut self.nodes[at];
                if node.life == life && node.quorum.is_some() {
                    while let Some((id, disk)) = node.queue.front().cloned()
                        && id <= upto
                    {
                        node.queue.pop_front();
                        match disk {
                            Disk::Election(state) => node.durable_election = state,
                            Disk::Append(records) => node.durable_log.extend(records),
                            Disk::Truncate(end) => node.durable_log.truncate(end),
                        }
                    }
                    self.step(at, Input::Durable { upto });
                }
            }
        }
    }

    fn advance(&mut self, until: Time) -> bool {
        let alive = self.nodes.iter().enumerate();
        let wake =
            alive.filter_map(|(at, node)| Some((node.quorum.as_ref()?.deadline(), at))).min();
        let event = self.events.keys().next().copied();
        let next = wake.map_or(Time::NEVER, |w| w.0).min(event.map_or(Time::NEVER, |e| e.0));
        if next > until {
            self.now = until;
            return false;
        }
        self.now = self.now.max(next);
        match event {
            Some(at) if at.0 <= next => {
                let event = self.events.remove(&at).unwrap();
                self.deliver(event);
            }
            Some(_) | None => self.step(wake.unwrap().1, Input::Wake),
        }
        true
    }

    pub(super) fn run(&mut self, span: Span) {
        let until = self.now + span;
        let mut events = 0;
        while self.advance(until) {
            events += 1;
            assert!(events < 2_000_000, "the quorum spins");
        }
    }

    /// Runs with faults, and with clients at random nodes.
    pub(super) fn run_with_clients(&mut self, span: Span) {
        let until = self.now + span;
        while self.advance(until) {
            let at = self.rng.below(self.nodes.len() as u64) as usize;
            if self.rng.one_in(10) {
                self.propose(at);
            }
            if self.rng.one_in(10) {
                self.read(at);
            }
            if self.rng.one_in(500)
                && let Some(quorum) = &self.nodes[at].quorum
            {
                let epoch = quorum.view().epoch;
                let input = match self.rng.one_in(2) {
                    true => Input::Resign { epoch },
                    false => Input::HandOver { epoch },
                };
                self.step(at, input);
            }
            if self.rng.one_in(self.faults.crash) {
                match self.nodes[at].quorum {
                    Some(_) => self.kill(at),
                    None => self.start(at),
                }
            }
            if self.rng.one_in(self.faults.cut) {
                let other = self.rng.below(self.nodes.len() as u64) as usize;
                match self.cuts.iter().position(|cut| *cut == (at, other)) {
                    Some(index) => drop(self.cuts.remove(index)),
                    None => self.cuts.push((at, other)),
                }
            }
        }
    }

    pub(super) fn heal(&mut self) {
        self.faults = Faults { old: self.faults.old, ..Faults::NONE };
        self.cuts.clear();
        for at in 0..self.nodes.len() {
            if self.nodes[at].quorum.is_none() {
                self.start(at);
            }
        }
    }

    /// The one that leads and may serve.
    pub(super) fn leader(&self) -> Option<usize> {
        let leads = |node: &Node| {
            let view = node.quorum.as_ref().map(|quorum| quorum.view());
            let serves = |v: View<'_>| v.role == RoleName::Leader && v.high_watermark.is_some();
            view.filter(|view| serves(*view)).map(|view| view.epoch)
        };
        let all = self.nodes.iter().enumerate();
        all.filter_map(|(at, node)| Some((leads(node)?, at))).max().map(|(_, at)| at)
    }

    pub(super) fn end(&self, at: usize) -> usize {
        self.nodes[at].log.len()
    }

    pub(super) fn propose(&mut self, at: usize) -> bool {
        let Some(quorum) = &self.nodes[at].quorum else { return false };
        let epoch = quorum.view().epoch;
        self.serial += 1;
        let (token, before) = (Token(self.serial), self.nodes[at].log.len());
        let records = 1 + self.rng.below(3) as u32;
        self.step(at, Input::Propose { token, epoch, records });
        self.nodes[at].log.len() > before
    }

    pub(super) fn read(&mut self, at: usize) -> Token {
        self.serial += 1;
        let token = Token(self.serial);
        self.reads.insert(token.0, (Offset(self.committed.len() as u64), false));
        self.step(at, Input::Read { token });
        token
    }

    pub(super) fn answered(&self, read: Token) -> bool {
        self.reads.get(&read.0).is_some_and(|(_, answered)| *answered)
    }

    /// How much every node, observers too, has been told to be committed.
    pub(super) fn committed_everywhere(&self) -> usize {
        let told = self
            .nodes
            .iter()
            .map(|node| node.quorum.as_ref().map_or(Offset::ZERO, |quorum| quorum.committed));
        told.min().unwrap_or_default().0 as usize
    }

    pub(super) fn prospective_seen(&self) -> usize {
        self.prospective
    }
}
