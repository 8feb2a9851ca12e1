//! Connections between nodes as TCP gives them: ordered frames each way, delayed but never lost
//! while the connection lives; and the ways in which it does not live.
//!
//! A cut holds back what is sent, as retransmission would. A killed process closes its connections;
//! a machine without power says nothing, and what is sent to it later meets a reset. Knows nothing
//! of what the frames say.

use crate::options::Options;
use crate::plan::Garble;
use crate::queue::Queue;
use crate::world::Event;
use bytes::Bytes;
use quorate_base::{Rng, Span, Time};
use quorate_node::{ConnId, ConnectError, LinkId};
use std::collections::{BTreeMap, VecDeque};

/// The sender tries again after so long to open a connection.
const SYN_AGAIN: Span = Span::ms(200);

/// One run of one node's process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Process {
    /// Index of the node.
    pub node: usize,
    /// How often it was started before.
    pub life: u32,
}

/// What a node is to the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Host {
    /// It answers; its process runs.
    Up(Process),
    /// The machine answers, nobody listens.
    NoProcess,
    /// Nothing answers.
    NoPower,
}

/// What arrives at one end.
#[derive(Clone, Debug)]
enum Segment {
    Frame(Bytes),
    Fin,
}

struct End {
    owner: Process,
    open: bool,
    /// On the way to this end, with the earliest time of arrival; ascending.
    incoming: VecDeque<(Time, Segment)>,
    /// A `Deliver` for this end is planned.
    planned: bool,
    /// The owner reads no more for now.
    paused: bool,
    /// Something was sent here while the machine was without power.
    unanswered: bool,
    /// What is sent here vanishes, and nobody is told.
    silent: bool,
}

/// What a delivery brought.
pub(crate) enum Arrival {
    Nothing,
    Frame(Process, ConnId, Bytes),
    Closed(Process, ConnId),
}

/// The way of a connection that is being made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dial {
    pub from: Process,
    pub link: LinkId,
    pub to: usize,
    /// When the caller gives up.
    pub until: Time,
}

/// All connections.
pub(crate) struct Network {
    rng: Rng,
    least: Span,
    jitter: Span,
    spike_one_in: u64,
    spike: Span,
    hosts: Vec<Host>,
    /// The two ends of a connection have numbers that differ in the last bit.
    conns: BTreeMap<u64, [End; 2]>,
    next: u64,
    /// How many cuts there are from one node to another.
    cuts: BTreeMap<(usize, usize), u32>,
    /// What becomes of one frame in so many from one node to another.
    garbles: BTreeMap<(usize, usize), Vec<(Garble, u64)>>,
    garble_rng: Rng,
    /// How many frames were lost, and how many doubled, since the last look.
    pub garbled: [u64; 2],
}

impl Network {
    pub fn new(options: &Options, nodes: usize, mut rng: Rng) -> Network {
        let garble_rng = rng.fork();
        Network {
            rng,
            least: Span(options.latency_us),
            jitter: Span(options.jitter_us),
            spike_one_in: options.spike_one_in,
            spike: Span::ms(options.spike_ms),
            hosts: vec![Host::NoProcess; nodes],
            conns: BTreeMap::new(),
            next: 0,
            cuts: BTreeMap::new(),
            garbles: BTreeMap::new(),
            garble_rng,
            garbled: [0, 0],
        }
    }

    fn latency(&mut self) -> Span {
        let spike = match self.rng.one_in(self.spike_one_in) {
            true => self.spike,
            false => Span::ZERO,
        };
        self.least + Span(self.rng.below(self.jitter.0 + 1)) + spike
    }

    /// The network is at its best from now on.
    pub fn calm(&mut self) {
        self.spike_one_in = 0;
    }

    // ---- Frames.

    /// Sends a frame from an end.
    pub fn send(&mut self, now: Time, conn: ConnId, frame: Bytes, queue: &mut Queue<Event>) {
        let Some(from) = self.end(conn).filter(|end| end.open).map(|end| end.owner.node) else {
            return;
        };
        let way = self.other(conn).map(|to| (from, to));
        let (mut copies, rng) = (1, &mut self.garble_rng);
        for (how, one_in) in way.and_then(|way| self.garbles.get(&way)).into_iter().flatten() {
            let hit = copies > 0 && rng.one_in(*one_in);
            match how {
                Garble::Lose if hit => (copies, self.garbled[0]) = (0, self.garbled[0] + 1),
                Garble::Double if hit => (copies, self.garbled[1]) = (2, self.garbled[1] + 1),
                Garble::Lose | Garble::Double => {}
            }
        }
        for _ in 0..copies {
            self.put(now, peer(conn), Segment::Frame(frame.clone()), queue);
        }
    }

    /// Puts something on the way to an end.
    fn put(&mut self, now: Time, to: ConnId, segment: Segment, queue: &mut Queue<Event>) {
        let at = now + self.latency();
        let Some(end) = self.end_mut(to).filter(|end| !end.silent) else { return };
        let at = end.incoming.back().map_or(at, |(last, _)| at.max(*last));
        end.incoming.push_back((at, segment));
        self.plan(now, to, queue);
    }

    /// Plans the next delivery at an end, unless something holds it back.
    fn plan(&mut self, now: Time, to: ConnId, queue: &mut Queue<Event>) {
        let from = self.end(peer(to)).map(|end| end.owner.node);
        let cut = |at: usize| {
            from.is_some_and(|from| self.cuts.get(&(from, at)).is_some_and(|cuts| *cuts > 0))
        };
        let Some(end) = self.end(to) else { return };
        let held = end.planned || (end.open && end.paused) || cut(end.owner.node);
        let Some((at, _)) = end.incoming.front() else { return };
        if !held {
            queue.push(now.max(*at), Event::Deliver(to));
            if let Some(end) = self.end_mut(to) {
                end.planned = true;
            }
        }
    }

    /// A planned delivery is due.
    pub fn deliver(&mut self, now: Time, to: ConnId, queue: &mut Queue<Event>) -> Arrival {
        let from = self.end(peer(to)).map(|end| end.owner.node);
        let Some(end) = self.end_mut(to) else { return Arrival::Nothing };
        end.planned = false;
        let (owner, paused) = (end.owner, end.open && end.paused);
        let cut =
            from.is_some_and(|from| self.cuts.get(&(from, owner.node)).is_some_and(|c| *c > 0));
        if cut || paused {
            return Arrival::Nothing;
        }
        let power = self.hosts.get(owner.node) != Some(&Host::NoPower);
        let Some(end) = self.end_mut(to) else { return Arrival::Nothing };
        let Some((_, segment)) = end.incoming.pop_front() else { return Arrival::Nothing };
        let arrival = match (end.open, segment) {
            (true, Segment::Frame(frame)) => Arrival::Frame(owner, to, frame),
            (true, Segment::Fin) => {
                end.open = false;
                end.incoming.clear();
                Arrival::Closed(owner, to)
            }
            (false, Segment::Frame(_)) if power => {
                self.put(now, peer(to), Segment::Fin, queue);
                Arrival::Nothing
            }
            (false, Segment::Frame(_)) => {
                end.unanswered = true;
                Arrival::Nothing
            }
            (false, Segment::Fin) => Arrival::Nothing,
        };
        self.plan(now, to, queue);
        self.forget(to);
        arrival
    }

    /// The owner of an end reads no more, or again.
    pub fn pause(&mut self, now: Time, conn: ConnId, paused: bool, queue: &mut Queue<Event>) {
        if let Some(end) = self.end_mut(conn) {
            end.paused = paused;
            self.plan(now, conn, queue);
        }
    }

    /// The owner of an end closes it.
    pub fn close(&mut self, now: Time, conn: ConnId, queue: &mut Queue<Event>) {
        let Some(end) = self.end_mut(conn) else { return };
        if std::mem::replace(&mut end.open, false) {
            end.incoming.clear();
            self.put(now, peer(conn), Segment::Fin, queue);
        }
        self.forget(conn);
    }

    /// Whether a process may still be told something of this end.
    pub fn owns(&self, process: Process, conn: ConnId) -> bool {
        self.end(conn).is_some_and(|end| end.open && end.owner == process)
    }

    // ---- Connections.

    /// Asks for a connection.
    pub fn dial(&mut self, now: Time, dial: Dial, queue: &mut Queue<Event>) {
        let at = now + self.latency();
        queue.push(at, Event::Dial(dial));
    }

    /// The request for a connection arrives, or does not.
    pub fn arrive(&mut self, now: Time, dial: Dial, queue: &mut Queue<Event>) {
        let Dial { from, to, .. } = dial;
        let cut = [(from.node, to), (to, from.node)]
            .iter()
            .any(|way| self.cuts.get(way).is_some_and(|cuts| *cuts > 0));
        let back = now + self.latency();
        let host = self.hosts[to];
        match host {
            Host::Up(_) | Host::NoProcess | Host::NoPower if cut || host == Host::NoPower => {
                let again = now + SYN_AGAIN;
                match again < dial.until {
                    true => queue.push(again, Event::Dial(dial)),
                    false => {
                        let result = Err(ConnectError::Unreachable);
                        queue.push(dial.until.max(now), Event::Dialed { dial, result });
                    }
                }
            }
            Host::NoProcess | Host::NoPower => {
                let result = Err(ConnectError::Refused);
                queue.push(back, Event::Dialed { dial, result });
            }
            Host::Up(process) => {
                let conn = self.connect(from, process);
                queue.push(back, Event::Dialed { dial, result: Ok(conn) });
            }
        }
    }

    /// A connection between two processes, made at once; the number is that of the first one's end.
    pub fn connect(&mut self, from: Process, to: Process) -> ConnId {
        let number = self.next;
        self.next += 1;
        let end = |owner| End {
            owner,
            open: true,
            incoming: VecDeque::new(),
            planned: false,
            paused: false,
            unanswered: false,
            silent: false,
        };
        self.conns.insert(number, [end(from), end(to)]);
        ConnId(number * 2)
    }

    // ---- Faults.

    /// A node's process runs, or ended, or its machine lost power.
    pub fn host(&mut self, now: Time, node: usize, host: Host, queue: &mut Queue<Event>) {
        self.hosts[node] = host;
        let live = match host {
            Host::Up(process) => Some(process),
            Host::NoProcess | Host::NoPower => None,
        };
        let owned: Vec<ConnId> = self
            .all()
            .filter(|(_, end)| end.owner.node == node && Some(end.owner) != live)
            .map(|(conn, _)| conn)
            .collect();
        for conn in owned {
            let Some(end) = self.end_mut(conn) else { continue };
            let was_open = std::mem::replace(&mut end.open, false);
            let heard = match host {
                Host::NoPower => false,
                Host::NoProcess => was_open,
                Host::Up(_) => std::mem::take(&mut end.unanswered),
            };
            if was_open {
                end.incoming.clear();
            }
            if heard {
                self.put(now, peer(conn), Segment::Fin, queue);
            }
            self.forget(conn);
        }
    }

    /// All connections between two nodes break; each side sees it on its own time.
    pub fn reset(&mut self, now: Time, a: usize, b: usize, queue: &mut Queue<Event>) {
        for conn in self.between(a, b) {
            if let Some(end) = self.end_mut(conn).filter(|end| end.open) {
                end.incoming.clear();
                self.put(now, conn, Segment::Fin, queue);
            }
        }
    }

    /// All connections between two nodes carry nothing more, and neither side sees it. True if
    /// there was one.
    pub fn silence(&mut self, a: usize, b: usize) -> bool {
        let between = self.between(a, b);
        for conn in &between {
            if let Some(end) = self.end_mut(*conn) {
                end.incoming.clear();
                end.silent = true;
            }
        }
        !between.is_empty()
    }

    /// Both ends of each connection between two nodes.
    fn between(&self, a: usize, b: usize) -> Vec<ConnId> {
        let between = self.conns.iter().filter(|(_, ends)| {
            let nodes = [ends[0].owner.node, ends[1].owner.node];
            nodes == [a, b] || nodes == [b, a]
        });
        between.flat_map(|(number, _)| [ConnId(number * 2), ConnId(number * 2 + 1)]).collect()
    }

    /// Begins to garble frames from one node to another, or ends it.
    pub fn garble(&mut self, from: usize, to: usize, how: (Garble, u64), on: bool) {
        let garbles = self.garbles.entry((from, to)).or_default();
        match on {
            true => garbles.push(how),
            false => {
                if let Some(at) = garbles.iter().position(|known| *known == how) {
                    garbles.swap_remove(at);
                }
            }
        }
    }

    /// Adds a cut, or takes it away and lets what waited go on.
    pub fn cut(&mut self, now: Time, from: usize, to: usize, on: bool, queue: &mut Queue<Event>) {
        let cuts = self.cuts.entry((from, to)).or_default();
        match on {
            true => *cuts += 1,
            false => *cuts = cuts.saturating_sub(1),
        }
        if *cuts == 0 {
            let waiting: Vec<ConnId> = self
                .all()
                .filter(|(_, end)| end.owner.node == to && !end.incoming.is_empty())
                .map(|(conn, _)| conn)
                .collect();
            for conn in waiting {
                self.plan(now, conn, queue);
            }
        }
    }

    fn all(&self) -> impl Iterator<Item = (ConnId, &End)> {
        self.conns.iter().flat_map(|(number, ends)| {
            ends.iter().enumerate().map(move |(side, end)| (ConnId(number * 2 + side as u64), end))
        })
    }

    fn end(&self, conn: ConnId) -> Option<&End> {
        self.conns.get(&(conn.0 / 2)).map(|ends| &ends[(conn.0 % 2) as usize])
    }

    fn end_mut(&mut self, conn: ConnId) -> Option<&mut End> {
        self.conns.get_mut(&(conn.0 / 2)).map(|ends| &mut ends[(conn.0 % 2) as usize])
    }

    /// Drops a connection that is closed on both sides and has nothing on the way.
    fn forget(&mut self, conn: ConnId) {
        let gone = self.conns.get(&(conn.0 / 2)).is_some_and(|ends| {
            ends.iter().all(|end| !end.open && !end.unanswered && !end.planned)
        });
        if gone {
            self.conns.remove(&(conn.0 / 2));
        }
    }

    /// The process that an end belongs to.
    pub fn owner(&self, conn: ConnId) -> Option<Process> {
        self.end(conn).map(|end| end.owner)
    }

    /// The node at the other end.
    pub fn other(&self, conn: ConnId) -> Option<usize> {
        self.end(peer(conn)).map(|end| end.owner.node)
    }
}

/// The other end.
fn peer(conn: ConnId) -> ConnId {
    ConnId(conn.0 ^ 1)
}
