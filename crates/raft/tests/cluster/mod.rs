//! A quorum in memory, as its scripts and the random walk drive it: real cores, and around them
//! logs of marks, disks that can be held, a network that delivers when told to, and clocks that
//! move when told to.
//!
//! Nothing happens by itself and nothing is random. After every step each core checks itself and
//! `laws.rs` checks what takes more than one replica, or a disk, to see. It must never hold the
//! cores' hands: what a core emits is carried out as it is.

#![allow(dead_code, reason = "each test file uses its part")]

mod laws;
mod node;

pub use laws::Laws;
#[allow(unused_imports, reason = "scripts describe files")]
pub use node::Kept;
pub use node::{Disk, Node, Picture, Record};

use quorate_base::{Offset, OffsetEpoch, ReplicaId, ReplicaKey, Span, Time, Uuid};
use quorate_raft::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// What one party says to another.
#[derive(Clone, Debug)]
pub enum Message {
    Ask(Request),
    Answer(Response),
}

/// A message on its way. Answers carry the records that their batches stand for.
#[derive(Clone, Debug)]
pub struct Flight {
    pub from: ReplicaId,
    pub to: ReplicaId,
    /// The call of whoever asked, in which of its lives.
    pub call: Call,
    life: u64,
    pub message: Message,
    records: Vec<Record>,
}

/// Who waits for an answer.
#[derive(Clone, Copy, Debug)]
enum Asker {
    Node {
        id: ReplicaId,
        life: u64,
        call: Call,
    },
    /// Not one of ours: what it is told is only heard.
    Outside(ReplicaId),
}

/// What there is to tell of a run.
#[derive(Clone, Debug)]
pub enum Event {
    Delivered {
        from: ReplicaId,
        to: ReplicaId,
        message: Message,
        /// An answer that nobody waits for any more.
        late: bool,
    },
    /// Told to somebody who is none of our nodes.
    Told {
        from: ReplicaId,
        to: ReplicaId,
        body: Response,
    },
    Lost {
        from: ReplicaId,
        to: ReplicaId,
        how: Loss,
    },
    Step {
        at: ReplicaId,
        before: Picture,
        after: Picture,
        effects: Vec<Effect>,
    },
    /// A held disk made a write durable.
    Synced {
        at: ReplicaId,
        disk: Disk,
    },
}

/// What is the same for all nodes.
#[derive(Clone, Default)]
pub struct Shape {
    pub voters: Vec<u32>,
    /// Those that are not to lead.
    pub never_lead: Vec<u32>,
    /// Those that ask to be voters themselves.
    pub auto_join: Vec<u32>,
    pub observers: Vec<u32>,
    /// Observers without an id of their own.
    pub nameless: Vec<u32>,
    /// Nodes that know neither read rounds nor the high watermark of Fetch 18.
    pub old: Vec<u32>,
    /// Who is behind each bootstrap server.
    pub bootstrap: Vec<u32>,
    /// Whether the nodes were given the directory id that stands for none.
    pub no_directory: bool,
    /// Whether the voter set names directories.
    pub directories: bool,
    /// Whether logs stay whole, and snapshots are their node's own.
    pub compact: bool,
    /// How many endpoints the voter set knows of each voter.
    pub endpoints: usize,
    /// Whether walks ask for other voters.
    pub changing: bool,
    /// What the bootstrap snapshot says where [`Cluster::start`] makes a cluster.
    pub founding: Option<Decree>,
    #[cfg(mutants)]
    pub mutant: Option<Mutant>,
}

pub struct Cluster {
    pub shape: Shape,
    pub now: Time,
    pub nodes: BTreeMap<ReplicaId, Node>,
    pub network: VecDeque<Flight>,
    /// Links that hold what is sent over them, one way.
    pub cuts: BTreeSet<(ReplicaId, ReplicaId)>,
    pub events: Vec<Event>,
    pub laws: Laws,
    /// Who waits for what from whom.
    calls: BTreeMap<(ReplicaId, Call), ReplicaId>,
    /// Who asked, and for which vote if for one.
    /// With where the log began when it was asked.
    tickets: BTreeMap<Ticket, (Asker, Option<Vote>, Offset)>,
    serial: u64,
    seed: u64,
}

/// The directory of a node.
pub fn directory(id: ReplicaId) -> Uuid {
    Uuid([id.0 as u8; 16])
}

/// The whole key of a node.
pub fn key(id: ReplicaId) -> ReplicaKey {
    ReplicaKey::new(id, Some(directory(id)))
}

/// So many places where a node listens.
pub fn endpoints(id: ReplicaId, count: usize) -> Arc<[Endpoint]> {
    let endpoint = |at: usize| Endpoint {
        listener: format!("LISTENER{at}"),
        host: format!("node{id}"),
        port: 9_000 + at as u16,
    };
    (0..count).map(endpoint).collect()
}

impl Cluster {
    /// All nodes are there, and none of them runs.
    pub fn new(shape: Shape, seed: u64) -> Cluster {
        let laws = Laws::new(shape.voters.iter().map(|id| ReplicaId(*id)).collect());
        let mut cluster = Cluster {
            shape,
            now: Time(1_000_000),
            nodes: BTreeMap::new(),
            network: VecDeque::new(),
            cuts: BTreeSet::new(),
            events: Vec::new(),
            laws,
            calls: BTreeMap::new(),
            tickets: BTreeMap::new(),
            serial: 0,
            seed,
        };
        let shape = &cluster.shape;
        let all = shape.voters.iter().chain(&shape.observers).chain(&shape.nameless);
        for id in all.map(|id| ReplicaId(*id)) {
            cluster.nodes.insert(id, Node::new(id));
        }
        for id in &cluster.shape.nameless {
            if let Some(node) = cluster.nodes.get_mut(&ReplicaId(*id)) {
                node.named = false;
            }
        }
        cluster
    }

    fn config(&self, id: ReplicaId) -> Config {
        let shape = &self.shape;
        let voter = |id: &u32| {
            let id = ReplicaId(*id);
            let directory = shape.directories.then(|| directory(id));
            (ReplicaKey::new(id, directory), endpoints(id, shape.endpoints))
        };
        let named = !shape.nameless.contains(&id.0);
        let voters = shape.voters.iter().map(voter).collect();
        let mut config = Config::new(named.then_some(id), directory(id), voters);
        if shape.no_directory {
            config.directory = Uuid::ZERO;
        }
        config.bootstrap = shape.bootstrap.len();
        config.endpoints = endpoints(id, shape.endpoints);
        config.snapshot_max_bytes = 4; // Three pieces each.
        config.serve_snapshots = !shape.compact;
        config.never_lead = shape.never_lead.contains(&id.0);
        config.auto_join = shape.auto_join.contains(&id.0);
        config
    }

    /// Starts a node from what its disk holds.
    pub fn open(&mut self, id: ReplicaId) -> Result<(), OpenError> {
        let config = self.config(id);
        self.seed += 1;
        let (now, seed) = (self.time(id), self.seed);
        #[cfg(mutants)]
        let mutant = self.shape.mutant;
        let node = self.node(id);
        assert!(node.quorum.is_none(), "node {id} runs already");
        node.reread();
        let recovered = node.recovered();
        #[cfg(not(mutants))]
        let quorum = Quorum::open(config, recovered, seed, now)?;
        #[cfg(mutants)]
        let quorum = Quorum::open_mutant(config, recovered, seed, now, mutant)?;
        node.quorum = Some(quorum);
        self.step(id, Input::Wake);
        Ok(())
    }

    /// The power fails: what was not durable is gone, and nobody is told.
    pub fn crash(&mut self, id: ReplicaId) {
        let node = self.node(id);
        node.quorum = None;
        node.life += 1;
        node.held = false;
        node.queue.clear();
        self.calls.retain(|(from, _), _| *from != id);
        self.network.retain(|flight| match flight.message {
            Message::Ask(_) => flight.to != id,
            Message::Answer(_) => true,
        });
    }

    pub fn node(&mut self, id: ReplicaId) -> &mut Node {
        self.nodes.get_mut(&id).unwrap_or_else(|| panic!("no node {id}"))
    }

    pub fn runs(&self, id: ReplicaId) -> bool {
        self.nodes.get(&id).is_some_and(|node| node.quorum.is_some())
    }

    pub fn picture(&self, id: ReplicaId) -> Picture {
        self.nodes[&id].picture()
    }

    /// What the node's clock says.
    pub fn time(&self, id: ReplicaId) -> Time {
        self.now + self.nodes[&id].ahead
    }

    pub fn serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    // --- Steps

    /// One input, and whatever the disk makes durable at once: one event.
    pub fn step(&mut self, id: ReplicaId, input: Input) {
        if !self.runs(id) {
            return;
        }
        let before = self.picture(id);
        let at = self.events.len();
        let mut effects = self.step_once(id, input);
        loop {
            let input = match self.node(id).sync_free() {
                Some(upto) => Input::Durable { upto },
                None => match self.node(id).store_free() {
                    Some(source) => {
                        let founded = self.loaded(id);
                        Input::Stored { source, founded }
                    }
                    None => break,
                },
            };
            effects.extend(self.step_once(id, input));
        }
        let after = self.picture(id);
        self.events.insert(at, Event::Step { at: id, before, after, effects });
    }

    /// What the head of the snapshot says that a node downloads: what its leader would write.
    fn loaded(&self, id: ReplicaId) -> Decree {
        let leader = self.picture(id).leader.and_then(|leader| self.nodes.get(&leader));
        let newest = leader.and_then(|leader| leader.kept.snapshots.last());
        leader.map_or_else(Decree::default, |leader| leader.founded(newest.map(|id| id.offset)))
    }

    fn step_once(&mut self, id: ReplicaId, input: Input) -> Vec<Effect> {
        if let Input::Read { token } = &input {
            self.laws.read_asked(*token);
        }
        let now = self.time(id);
        let node = self.node(id);
        let before = node.picture();
        let quorum = node.quorum.as_mut().expect("it runs");
        let mut effects = Vec::new();
        quorum.step(now, input, &mut effects);
        quorum.check();
        let after = self.picture(id);
        if before.entered() != after.entered() {
            // Every change of role forgets the questions before it [P6].
            self.calls.retain(|(asker, _), _| *asker != id);
        }
        for effect in &effects {
            self.execute(id, effect);
        }
        self.node(id).answers.clear();
        self.laws.hold(id, before, &self.nodes);
        effects
    }

    fn execute(&mut self, id: ReplicaId, effect: &Effect) {
        match effect {
            Effect::Write { id: write, write: what } => {
                let (nonce, committed) = (self.serial(), self.laws.committed.clone());
                self.node(id).write(*write, what, nonce, &committed);
            }
            Effect::Store { source, .. } => self.node(id).pieces.push_back(*source),
            Effect::Abandon { .. } => self.node(id).pieces.clear(),
            Effect::Send { call, to, body } => self.send(id, *call, to, body.clone()),
            Effect::Reply { ticket, body } => self.reply(id, *ticket, body.clone()),
            Effect::ReadAt { token, offset } => self.laws.read_answered(*token, *offset),
            Effect::Commit { upto } => {
                let node = self.node(id);
                assert!(*upto > node.told, "node {id} is told to commit {upto} again");
                node.told = *upto;
                node.applied = node.log[..upto.0 as usize].to_vec();
            }
            Effect::Refuse { .. }
            | Effect::Lead { .. }
            | Effect::StartOver
            | Effect::Stopped
            | Effect::Complain { .. } => {}
        }
    }

    fn send(&mut self, id: ReplicaId, call: Call, to: &Destination, mut body: Request) {
        self.laws.may_ask(&self.nodes[&id], &body);
        let to = match to {
            Destination::Replica { id, .. } => *id,
            Destination::Bootstrap(at) => ReplicaId(self.shape.bootstrap[*at]),
        };
        if let Request::Fetch(fetch) = &mut body
            && self.shape.old.contains(&id.0)
        {
            fetch.round = None;
            fetch.high_watermark = FetchHighWatermark::Unsaid;
        }
        self.calls.insert((id, call), to);
        let life = self.nodes[&id].life;
        let (message, records) = (Message::Ask(body), Vec::new());
        self.network.push_back(Flight { from: id, to, call, life, message, records });
    }

    fn reply(&mut self, id: ReplicaId, ticket: Ticket, mut body: Response) {
        let (asker, vote, began) = self.tickets.remove(&ticket).expect("a ticket is answered once");
        self.laws.may_answer(&self.nodes[&id], vote.as_ref(), &body);
        let records = self.nodes[&id].fill(&mut body, began);
        match asker {
            Asker::Outside(to) => self.events.push(Event::Told { from: id, to, body }),
            Asker::Node { id: to, life, call } => {
                let message = Message::Answer(body);
                self.network.push_back(Flight { from: id, to, call, life, message, records });
            }
        }
    }

    // --- The network

    /// Delivers the first message that `which` picks and no cut holds. False if there is none.
    pub fn deliver(&mut self, which: impl Fn(&Flight) -> bool) -> bool {
        let free = |flight: &Flight| !self.cuts.contains(&(flight.from, flight.to));
        let at = self.network.iter().position(|flight| free(flight) && which(flight));
        let Some(flight) = at.and_then(|at| self.network.remove(at)) else { return false };
        let Flight { from, to, call, life, message, records } = flight;
        let lives = self.nodes.get(&to).is_some_and(|node| match message {
            Message::Ask(_) => node.quorum.is_some(),
            Message::Answer(_) => node.quorum.is_some() && node.life == life,
        });
        if !lives {
            return true;
        }
        let late = match message {
            Message::Ask(_) => false,
            Message::Answer(_) => !self.calls.contains_key(&(to, call)),
        };
        self.events.push(Event::Delivered { from, to, message: message.clone(), late });
        match message {
            Message::Ask(body) => {
                let ticket = Ticket(self.serial());
                let (asker, began) = (Asker::Node { id: from, life, call }, self.begin_of(to));
                self.tickets.insert(ticket, (asker, vote(&body), began));
                self.step(to, Input::Request { ticket, body });
            }
            Message::Answer(body) => {
                self.calls.remove(&(to, call));
                self.node(to).answers.insert(call, records);
                self.step(to, Input::Response { call, body });
            }
        }
        true
    }

    /// Where the log of a node begins.
    fn begin_of(&self, id: ReplicaId) -> Offset {
        self.nodes[&id].kept.start
    }

    /// Somebody who is none of our nodes asks.
    pub fn ask(&mut self, to: ReplicaId, from: ReplicaId, body: Request) {
        let ticket = Ticket(self.serial());
        let began = self.begin_of(to);
        self.tickets.insert(ticket, (Asker::Outside(from), vote(&body), began));
        self.step(to, Input::Request { ticket, body });
    }

    /// The questions of one node to another that have no answer yet.
    pub fn open_calls(&self, from: ReplicaId, to: ReplicaId) -> Vec<Call> {
        let calls = self.calls.iter().filter(|((asker, _), asked)| (*asker, **asked) == (from, to));
        calls.map(|((_, call), _)| *call).collect()
    }

    /// Puts an answer of our making in the place of the real one.
    pub fn forge(&mut self, to: ReplicaId, from: ReplicaId, body: Response, records: Vec<Record>) {
        let calls = self.open_calls(to, from);
        let call = *calls
            .last()
            .unwrap_or_else(|| panic!("{to} asks {from} nothing, but {:?}", self.calls));
        self.forget(to, call);
        let message = Message::Answer(body.clone());
        self.events.push(Event::Delivered { from, to, message, late: false });
        self.node(to).answers.insert(call, records);
        self.step(to, Input::Response { call, body });
    }

    /// Tells a node that its questions to another will have no answer. One that timed out may still
    /// arrive.
    pub fn lose(&mut self, from: ReplicaId, to: ReplicaId, how: Loss) {
        for call in self.open_calls(from, to) {
            if how == Loss::TimedOut {
                self.calls.remove(&(from, call));
            } else {
                self.forget(from, call);
            }
            self.events.push(Event::Lost { from, to, how });
            self.step(from, Input::Lost { call, how });
        }
    }

    fn forget(&mut self, asker: ReplicaId, call: Call) {
        self.calls.remove(&(asker, call));
        self.network.retain(|flight| {
            let its = match flight.message {
                Message::Ask(_) => flight.from == asker,
                Message::Answer(_) => flight.to == asker,
            };
            !(its && flight.call == call)
        });
    }

    /// Cuts a node off; what is sent over a cut waits for `heal`.
    pub fn isolate(&mut self, id: ReplicaId) {
        for other in self.nodes.keys().filter(|other| **other != id) {
            self.cuts.insert((id, *other));
            self.cuts.insert((*other, id));
        }
    }

    // --- Disks and clocks

    /// The node's machine has a snapshot of all below `at`. False if that is not to be.
    pub fn freeze(&mut self, id: ReplicaId, at: Offset) -> bool {
        let node = self.node(id);
        let newest = node.kept.snapshots.last().map_or(Offset::ZERO, |newest| newest.offset);
        let durable = node.picture().durable;
        if at <= newest || at > node.told.min(durable) {
            return false;
        }
        let snapshot = OffsetEpoch::new(at, node.epoch_below(at));
        node.kept.snapshots.push(snapshot);
        node.durable_kept.snapshots.push(snapshot);
        self.step(id, Input::Frozen { snapshot });
        true
    }

    /// Makes the first writes of a held disk durable.
    pub fn sync(&mut self, id: ReplicaId, writes: usize) {
        for _ in 0..writes {
            let Some((upto, disk)) = self.node(id).sync_one() else { return };
            self.events.push(Event::Synced { at: id, disk });
            self.step(id, Input::Durable { upto });
        }
    }

    pub fn release(&mut self, id: ReplicaId) {
        let writes = self.node(id).queue.len();
        self.sync(id, writes);
        self.node(id).held = false;
        self.step(id, Input::Wake); // What those writes brought about is durable at once.
    }

    /// Moves time to the next deadline up to `until` and wakes whoever has it. False if there is
    /// none: then the time is `until`.
    pub fn wake(&mut self, until: Time) -> bool {
        let due = self.nodes.iter().filter_map(|(id, node)| {
            let deadline = node.quorum.as_ref()?.deadline();
            Some((Time(deadline.0.saturating_sub(node.ahead.0)), *id))
        });
        match due.min() {
            Some((at, id)) if at <= until => {
                self.now = self.now.max(at);
                self.step(id, Input::Wake);
                true
            }
            Some(_) | None => {
                self.now = self.now.max(until);
                false
            }
        }
    }

    /// A voter stands at once and without asking first, as beside a voter that does not know
    /// pre-votes; votes are delivered, nothing else. Only its own clock moves.
    pub fn elect(&mut self, id: ReplicaId) {
        let speaks = |pre_vote| Features { pre_vote, rounds: true, ..Features::default() };
        let others = self.shape.voters.iter().map(|id| ReplicaId(*id));
        let other = others.filter(|other| *other != id).max();
        if let Some(id_of_old) = other {
            self.step(id, Input::Peer { id: id_of_old, speaks: speaks(false) });
        }
        while !matches!(self.picture(id).role, RoleName::Candidate | RoleName::Leader) {
            let deadline = self.nodes[&id].quorum.as_ref().expect("it runs").deadline();
            assert!(deadline < Time::NEVER, "node {id} never stands");
            let now = self.now;
            let node = self.node(id);
            node.ahead = node.ahead.max(deadline.since(now));
            self.step(id, Input::Wake);
        }
        if let Some(other) = other {
            self.step(id, Input::Peer { id: other, speaks: speaks(true) });
        }
        let votes = |flight: &Flight| match &flight.message {
            Message::Ask(Request::Vote(_)) => flight.from == id,
            Message::Answer(Response::Vote(_)) => flight.to == id,
            Message::Ask(_) | Message::Answer(_) => false,
        };
        while self.picture(id).role != RoleName::Leader && self.deliver(votes) {}
    }

    /// Delivers everything until nothing moves.
    pub fn settle(&mut self) {
        for _ in 0..10_000 {
            if !self.deliver(|_| true) {
                return;
            }
        }
        panic!("messages without end: {:?}", self.network);
    }

    /// A cluster that already works: `leader` leads `epoch`, its log and all others end at `end`,
    /// all of it is committed, and followers wait for news. Below the last record, all is of the
    /// epoch before.
    pub fn start(&mut self, leader: ReplicaId, last: OffsetEpoch) {
        // The first leader of a founded quorum writes version and voters too.
        let first = if self.shape.founding.is_some() { 3 } else { 1 };
        let before = OffsetEpoch::new(
            Offset(last.offset.0 - first),
            quorate_base::Epoch(last.epoch.0.saturating_sub(1)),
        );
        for id in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.node(id)
                .format(&[before], ElectionState { epoch: before.epoch, ..Default::default() });
            self.node(id).founding = self.shape.founding.clone();
            self.open(id).expect("sound files");
        }
        if self.picture(leader).role != RoleName::Leader {
            self.elect(leader);
        }
        self.settle();
        let picture = self.picture(leader);
        assert_eq!((picture.epoch, picture.end), (last.epoch, last.offset), "a working cluster");
    }
}

fn vote(body: &Request) -> Option<Vote> {
    match body {
        Request::Vote(vote) => Some(vote.clone()),
        Request::BeginQuorumEpoch(_)
        | Request::EndQuorumEpoch(_)
        | Request::Fetch(_)
        | Request::FetchSnapshot(_)
        | Request::UpdateVoter(_)
        | Request::AddVoter(_)
        | Request::RemoveVoter(_)
        | Request::Upgrade(_) => None,
    }
}

impl Shape {
    pub fn of(voters: impl IntoIterator<Item = u32>) -> Shape {
        Shape { voters: voters.into_iter().collect(), ..Shape::default() }
    }
}

/// How long, for readers of scripts.
pub fn ms(span: u64) -> Span {
    Span::ms(span)
}
