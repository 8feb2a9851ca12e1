//! The world: nodes, network, disks, clients and time, moved on by one event after the other.
//!
//! It drives each replica as the server does (report what happened, one turn, carry out what it
//! wants) and looks at it after every turn. First come the faults of the plan; then everything is
//! healed, and within a given time the quorum must agree, serve, and hold all that it acknowledged.
//! Owns no rule of the protocol and no judgement: those are the replica's and the checkers'.

mod arrivals;
mod changes;
mod disks;
mod illness;
mod lanes;
mod levels;
mod members;
mod recovery;
mod rot;
mod steps;
mod turns;

use crate::admin::Admin;
use crate::book::{Book, Lost};
use crate::checkers::{
    CommittedNeverChanges, Failure, HighWatermarkNeverFalls, LevelsAreSpoken, LogsMatch,
    MachinesEqualAtEqualOffset, NoMessageBeforeDurable, OneLeaderPerEpoch, Remembered,
    VotersChangeByOne, VotesAsItself,
};
use crate::clients::Clients;
use crate::log_lines::LogLines;
use crate::marks::Marks;
use crate::network::{Dial, Network, Process};
use crate::node::Node;
use crate::plan::Plan;
use crate::queue::Queue;
use crate::seats::Seats;
use crate::trace::Trace;
use crate::words::Words;
use bytes::Bytes;
use quorate_base::{Epoch, FormatLevel, Offset, ReplicaId, ReplicaKey, Rng, Span, Time};
use quorate_node::{ConnId, ConnectError, ReadId, Reading};
use quorate_raft::{RoleName, WriteId};
use std::collections::BTreeMap;

/// More events than this in one second of the world mean that some node spins.
const EVENTS_PER_SECOND_MAX: u64 = 400_000;
/// How often it is looked whether all is well, once the faults are over.
const LOOK: Span = Span::ms(20);
/// How long a node that is asked to stop may wait for a successor.
const HANDOVER: Span = Span::ms(1_000);
/// How long a client waits after the faults. Where each fetch brings one batch over a slow network,
/// a hundred batches of others come first.
const PATIENCE: Span = Span::ms(12_000);

/// Something that happens.
pub(crate) enum Event {
    Turn(Process),
    Deliver(ConnId),
    Dial(Dial),
    Dialed {
        dial: Dial,
        result: Result<ConnId, ConnectError>,
    },
    /// The disk is done with what it was at.
    Disk(Process),
    /// A node whose disk is full looks whether there is room.
    Refill(Process),
    /// The snapshot lane's next piece of work.
    Lane(Process),
    Read {
        process: Process,
        id: ReadId,
        read: Reading,
    },
    /// A step of the plan.
    Step(usize),
    /// What a step began is over.
    Over(usize),
    /// A node comes back.
    Up(usize),
    Client(u32),
    /// The administrator goes on with the replacement of this number.
    Errand(usize),
    Look,
}

/// Where the run is, once the faults are over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Faults,
    /// Nodes have to agree.
    Agree,
    /// Every node has to take a write.
    Serve,
    /// Every node has to show every key.
    Show,
    /// All run the newest build, so the store goes to its level.
    Raise,
    Done,
}

impl Phase {
    /// What is true when it is over.
    fn reached(self) -> &'static str {
        match self {
            Phase::Faults => "all faults end",
            Phase::Agree => "all nodes follow one leader; each is asked to write",
            Phase::Serve => "nobody waits for a write; each node is asked for every key",
            Phase::Show => "nobody waits for a read; the newest format level is asked for",
            Phase::Raise => "all nodes are at it, if all voters are there; what was seen is judged",
            Phase::Done => "the run is over",
        }
    }
}

/// What was last seen of a node, to tell what changed.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Last {
    role: Option<RoleName>,
    epoch: Epoch,
    leader: Option<ReplicaId>,
    high_watermark: Option<Offset>,
    durable: Offset,
}

/// All there is.
pub(crate) struct World<C: Clients> {
    plan: Plan,
    pub now: Time,
    queue: Queue<Event>,
    nodes: Vec<Node<C::Machine>>,
    network: Network,
    clients: C,
    disk_rng: Rng,
    turn_rng: Rng,
    phase: Phase,
    /// The newest epoch, and since when nothing newer was seen.
    steady: (Epoch, Time),
    pub events: u64,
    /// Events in this second.
    busy: (u64, u64),

    books: Vec<Book>,
    durable: Vec<Offset>,
    /// What each node had before its log was damaged, until it has it again.
    lost: Vec<Option<Lost>>,
    /// What those had that came back as others.
    gone: BTreeMap<ReplicaKey, Lost>,
    /// Who each node is.
    keys: Vec<ReplicaKey>,
    seats: Seats,
    admin: Admin,
    errands: Vec<changes::Errand>,
    /// What was asked for, by connection.
    raises: BTreeMap<ConnId, levels::Raise>,
    /// The newest level that any process of each node spoke.
    spoke: Vec<FormatLevel>,
    levels: LevelsAreSpoken,
    /// The election states given to each disk: the newest durable one, then those under way.
    elections: Vec<Vec<(WriteId, Option<Bytes>)>>,
    /// How many batches of each book were compared with the other logs.
    matched: Vec<usize>,
    last: Vec<Last>,
    /// Whether an older node has led, and whether one of today.
    led: [bool; 2],
    /// When a leader last handed over because its disk lagged.
    handed_over: Time,
    /// When the nodes were last asked to take a write each.
    serve_began: Time,
    /// The connections of strangers, by step.
    floods: BTreeMap<usize, ConnId>,
    /// How long each node that is stopping will be away.
    stopping: Vec<Span>,
    leaders: OneLeaderPerEpoch,
    remembered: Remembered,
    promises: NoMessageBeforeDurable,
    logs: LogsMatch,
    changes: VotersChangeByOne,
    votes: VotesAsItself,
    committed: CommittedNeverChanges,
    high_watermarks: HighWatermarkNeverFalls,
    machines: MachinesEqualAtEqualOffset,

    pub marks: Marks,
    pub trace: Trace,
    words: Words,
    log_lines: LogLines,
}

impl<C: Clients> World<C> {
    pub fn new(
        plan: &Plan,
        keep: usize,
        log_lines: LogLines,
        clients: C,
        #[cfg(mutants)] mutant: Option<quorate_node::Mutant>,
    ) -> World<C> {
        let options = &plan.options;
        let mut rng = Rng::new(plan.seed ^ 0x5151_5151);
        let network_rng = rng.fork();
        let (disk_rng, turn_rng) = (rng.fork(), rng.fork());
        let nodes: Vec<Node<C::Machine>> = (0..plan.nodes())
            .map(|index| {
                Node::new(
                    index,
                    options,
                    rng.fork(),
                    #[cfg(mutants)]
                    mutant,
                )
            })
            .collect();
        let count = nodes.len();
        let keys = nodes.iter().map(Node::key).collect();
        let mut queue = Queue::new();
        for (index, (at, _)) in plan.steps.iter().enumerate() {
            queue.push(*at, Event::Step(index));
        }
        for node in 0..count {
            queue.push(Time(0), Event::Up(node));
        }
        queue.push(Time(options.heal_ms * 1_000), Event::Look);
        World {
            network: Network::new(options, count, network_rng),
            plan: plan.clone(),
            now: Time(0),
            queue,
            nodes,
            clients,
            disk_rng,
            turn_rng,
            phase: Phase::Faults,
            steady: (Epoch::ZERO, Time(0)),
            events: 0,
            busy: (0, 0),
            books: vec![Book::default(); count],
            durable: vec![Offset::ZERO; count],
            lost: (0..count).map(|_| None).collect(),
            gone: BTreeMap::new(),
            keys,
            seats: Seats::new(options),
            admin: Admin::default(),
            errands: Vec::new(),
            raises: BTreeMap::new(),
            spoke: vec![FormatLevel::ZERO; count],
            levels: LevelsAreSpoken::default(),
            elections: vec![vec![(WriteId(0), None)]; count],
            matched: vec![0; count],
            last: vec![Last::default(); count],
            led: [false; 2],
            handed_over: Time(0),
            serve_began: Time(0),
            floods: BTreeMap::new(),
            stopping: vec![Span::ZERO; count],
            leaders: OneLeaderPerEpoch::default(),
            remembered: Remembered::default(),
            promises: NoMessageBeforeDurable::new(count),
            logs: LogsMatch::default(),
            changes: VotersChangeByOne::default(),
            votes: VotesAsItself::default(),
            committed: CommittedNeverChanges::default(),
            high_watermarks: HighWatermarkNeverFalls::default(),
            machines: MachinesEqualAtEqualOffset::default(),
            marks: Marks::default(),
            trace: Trace::new(keep),
            words: Words::default(),
            log_lines,
        }
    }

    /// Runs to the end, to `until`, or to the first failure.
    pub fn run(&mut self, until: Time) -> Result<(), Failure> {
        while self.phase != Phase::Done {
            let Some((at, event)) = self.queue.pop() else { break };
            if at > until {
                return Ok(());
            }
            assert!(at >= self.now, "time goes on: {at:?} after {:?}", self.now);
            self.now = at;
            self.events += 1;
            self.not_busy()?;
            self.happen(event)?;
        }
        self.judge()
    }

    /// Nothing may spin: a turn that asks for another one at once would be a busy processor.
    fn not_busy(&mut self) -> Result<(), Failure> {
        let second = self.now.0 / 1_000_000;
        if self.busy.0 != second {
            self.busy = (second, 0);
        }
        self.busy.1 += 1;
        match self.busy.1 < EVENTS_PER_SECOND_MAX {
            true => Ok(()),
            false => {
                Err(Failure::new("nothing_spins", format!("{} events in a second", self.busy.1)))
            }
        }
    }

    fn happen(&mut self, event: Event) -> Result<(), Failure> {
        match event {
            Event::Turn(process) => self.turn(process),
            Event::Deliver(conn) => self.deliver(conn),
            Event::Dial(dial) => {
                self.network.arrive(self.now, dial, &mut self.queue);
                Ok(())
            }
            Event::Dialed { dial, result } => self.dialed(dial, result),
            Event::Disk(process) => self.disk_done(process),
            Event::Refill(process) => self.refill(process),
            Event::Lane(process) => self.lane(process),
            Event::Read { process, id, read } => self.read_done(process, id, &read),
            Event::Step(index) => self.step(index),
            Event::Over(index) => {
                // What lasts longer than the faults ended with them.
                if self.now.0 <= self.plan.options.heal_ms * 1_000 {
                    self.over(index);
                }
                Ok(())
            }
            Event::Up(node) => self.up(node),
            Event::Client(client) => self.client(client),
            Event::Errand(number) => self.errand_goes_on(number),
            Event::Look => self.look_around(),
        }
    }
}
