//! The world: nodes, network, disks, clients and time, moved on by one event after the other.
//!
//! It drives each replica as the server does (report what happened, one turn, carry out what it
//! wants) and looks at it after every turn. First come the faults of the plan; then everything is
//! healed, and within a given time the quorum must agree, serve, and hold all that it acknowledged.
//! Owns no rule of the protocol and no judgement: those are the replica's and the checkers'.

use crate::book::Book;
use crate::checkers::{
    AcknowledgedNeverLost, CommittedNeverChanges, Failure, HighWatermarkNeverFalls, Logs,
    LogsMatch, MachinesEqualAtEqualOffset, OneLeaderPerEpoch, Sight, Verdict, Written,
    files_reopen, linear,
};
use crate::clients::{Action, Call, Clients, Then};
use crate::history::Op;
use crate::log_lines::LogLines;
use crate::marks::Marks;
use crate::network::{Arrival, Dial, Host, Network, Process};
use crate::node::{Node, Running, node_of};
use crate::plan::{Ask, Down, Plan, Step, When};
use crate::queue::Queue;
use crate::trace::{Trace, seconds};
use crate::words::Words;
use bytes::Bytes;
use quorate_base::{Epoch, Offset, ReplicaId, Rng, Span, Time};
use quorate_log::{ColdRead, Job, read_cold};
use quorate_machine::Machine;
use quorate_machine::kv::Reply;
use quorate_node::{ConnId, ConnectError, Out, ReadId};
use quorate_raft::{RoleName, WriteId};
use std::collections::BTreeMap;
use tracing::Level;

/// More events than this in one second of the world mean that some node spins.
const EVENTS_PER_SECOND_MAX: u64 = 400_000;
/// How often it is looked whether all is well, once the faults are over.
const LOOK: Span = Span::ms(20);
/// How long a node that is asked to stop may wait for a successor.
const HANDOVER: Span = Span::ms(1_000);
/// How long a client waits after the faults.
const PATIENCE: Span = Span::ms(1_000);

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
    Read {
        process: Process,
        id: ReadId,
        read: ColdRead,
    },
    /// A step of the plan.
    Step(usize),
    /// What a step began is over.
    Over(usize),
    /// A node comes back.
    Up(usize),
    Client(u32),
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
    Done,
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
pub(crate) struct World {
    plan: Plan,
    pub now: Time,
    queue: Queue<Event>,
    nodes: Vec<Node>,
    network: Network,
    clients: Clients,
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
    /// The election states given to each disk: the newest durable one, then those under way.
    elections: Vec<Vec<(WriteId, Option<Bytes>)>>,
    /// How many batches of each book were compared with the other logs.
    matched: Vec<usize>,
    last: Vec<Last>,
    /// How long each node that is stopping will be away.
    stopping: Vec<Span>,
    leaders: OneLeaderPerEpoch,
    logs: LogsMatch,
    committed: CommittedNeverChanges,
    high_watermarks: HighWatermarkNeverFalls,
    machines: MachinesEqualAtEqualOffset,

    pub marks: Marks,
    pub trace: Trace,
    words: Words,
    log_lines: LogLines,
}

impl World {
    pub fn new(
        plan: &Plan,
        keep: usize,
        log_lines: LogLines,
        #[cfg(mutants)] mutant: Option<quorate_node::Mutant>,
    ) -> World {
        let options = &plan.options;
        let mut rng = Rng::new(plan.seed ^ 0x5151_5151);
        let network_rng = rng.fork();
        let (disk_rng, turn_rng) = (rng.fork(), rng.fork());
        let nodes: Vec<Node> = (0..plan.nodes())
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
        // One client more for each node: those that look whether all is well at the end.
        let clients = Clients::new(
            options.clients as usize + count,
            count,
            Span::ms(options.session_ms),
            options.value_bytes as usize,
        );
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
            elections: vec![vec![(WriteId(0), None)]; count],
            matched: vec![0; count],
            last: vec![Last::default(); count],
            stopping: vec![Span::ZERO; count],
            leaders: OneLeaderPerEpoch::default(),
            logs: LogsMatch::default(),
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
            Event::Read { process, id, read } => self.read_done(process, id, &read),
            Event::Step(index) => self.step(index),
            Event::Over(index) => {
                self.over(index);
                Ok(())
            }
            Event::Up(node) => self.up(node),
            Event::Client(client) => self.client(client),
            Event::Look => self.look_around(),
        }
    }

    // ---- Nodes.

    /// The process, unless it is gone or paused; then the event comes again when the pause ends.
    fn process(&mut self, process: Process, again: impl FnOnce() -> Event) -> Option<usize> {
        let node = &self.nodes[process.node];
        if node.running.is_none() || node.life != process.life {
            return None;
        }
        if node.paused_until > self.now {
            self.queue.push(node.paused_until, again());
            return None;
        }
        Some(process.node)
    }

    fn running(&mut self, node: usize) -> Option<(&mut Running, Time)> {
        let now = self.now;
        let running = self.nodes[node].running.as_mut()?;
        let local = running.clock.local(now);
        Some((running, local))
    }

    fn life(&self, node: usize) -> Process {
        Process { node, life: self.nodes[node].life }
    }

    /// Something was reported to a replica: a turn follows soon.
    fn reported(&mut self, node: usize) -> Result<(), Failure> {
        self.carry_out(node)?;
        let soon = self.now + Span(self.turn_rng.below(self.plan.options.turn_us + 1));
        self.plan_turn(node, soon);
        Ok(())
    }

    fn plan_turn(&mut self, node: usize, at: Time) {
        let process = self.life(node);
        let Some(running) = &mut self.nodes[node].running else { return };
        if running.turn_at.is_none_or(|planned| at < planned) {
            running.turn_at = Some(at);
            self.queue.push(at, Event::Turn(process));
        }
    }

    fn turn(&mut self, process: Process) -> Result<(), Failure> {
        let Some(node) = self.process(process, || Event::Turn(process)) else { return Ok(()) };
        let now = self.now;
        let Some((running, local)) = self.running(node) else { return Ok(()) };
        // Superseded by an earlier one, unless a pause made it late.
        if running.turn_at.is_none_or(|planned| planned > now) {
            return Ok(());
        }
        running.turn_at = None;
        let wall_ms = self.nodes[node].wall_ms(local);
        if let Some((running, local)) = self.running(node) {
            running.replica.turn(local, wall_ms);
        }
        self.carry_out(node)?;
        self.look_at(node)?;
        let Some((running, _)) = self.running(node) else { return Ok(()) };
        let deadline = running.clock.world(running.replica.deadline());
        if deadline != Time::NEVER {
            self.plan_turn(node, deadline.max(now + Span(1)));
        }
        Ok(())
    }

    /// Does what a replica wants done.
    fn carry_out(&mut self, node: usize) -> Result<(), Failure> {
        let mut outs = Vec::new();
        let Some((running, _)) = self.running(node) else { return Ok(()) };
        running.replica.take_out(&mut outs);
        self.note_log_lines(node)?;
        let process = self.life(node);
        let mut stopped = false;
        for out in outs {
            match out {
                Out::Frame { conn, frame } => {
                    let bytes = frame.into_payload();
                    self.trace.mix(&[self.now.0, node as u64, conn.0]);
                    self.trace.mix_bytes(&bytes);
                    if self.trace.reads() {
                        let words = self.words.of(conn, &bytes);
                        let to = self.network.other(conn).map_or(0, |node| node + 1);
                        self.line(node, || format!("-> {to} {words}"));
                    }
                    self.network.send(self.now, conn, bytes, &mut self.queue);
                }
                Out::Connect { link, to } => {
                    let to = node_of(&to);
                    let until = self.now + self.nodes[node].connect_timeout();
                    let dial = Dial { from: process, link, to, until };
                    self.network.dial(self.now, dial, &mut self.queue);
                }
                Out::Pause { conn } => {
                    self.network.pause(self.now, conn, true, &mut self.queue);
                }
                Out::Resume { conn } => {
                    self.network.pause(self.now, conn, false, &mut self.queue);
                }
                Out::Close { conn, why } => {
                    self.line(node, || format!("closes a connection: {why}"));
                    self.network.close(self.now, conn, &mut self.queue);
                }
                Out::Disk { id, job } => self.disk_job(node, id, job)?,
                Out::Read { id, read } => {
                    self.marks.hit("records were read from the disk");
                    let at = self.now + self.disk_time(node);
                    self.queue.push(at, Event::Read { process, id, read });
                }
                Out::Answer { client, answer } => {
                    self.line(node, || format!("answers {client:?}: {answer:?}"));
                    let op = self.clients.op_of(client);
                    let then = self.clients.answered(self.now, client, answer, &mut self.marks)?;
                    self.after(node, op, then)?;
                }
                Out::Reply { client, reply } => {
                    self.line(node, || format!("replies {client:?}: {reply:?}"));
                    let op = self.clients.op_of(client);
                    let then = self.clients.replied(self.now, client, reply, &mut self.marks)?;
                    self.after(node, op, then)?;
                }
                Out::Fatal { why } => {
                    let what = format!("node {}: {why}", node + 1);
                    return Err(Failure::new("no_node_gives_up", what));
                }
                Out::Stopped => stopped = true,
            }
        }
        if self.nodes[node].begin_disk() {
            let at = self.now + self.disk_time(node);
            self.queue.push(at, Event::Disk(process));
        }
        if stopped { self.stopped(node) } else { Ok(()) }
    }

    fn note_log_lines(&mut self, node: usize) -> Result<(), Failure> {
        for (level, line) in self.log_lines.take() {
            self.line(node, || format!("{level} {line}"));
            if level == Level::ERROR {
                let what = format!("node {} calls for a human: {line}", node + 1);
                return Err(Failure::new("no_error_lines", what));
            }
        }
        Ok(())
    }

    /// Looks at a node after its turn.
    fn look_at(&mut self, node: usize) -> Result<(), Failure> {
        let process = self.life(node);
        let Some(running) = &self.nodes[node].running else { return Ok(()) };
        running.replica.check();
        let view = running.replica.view();
        self.durable[node] = view.durable;
        let (applied, digest) = (running.replica.applied(), running.replica.machine().digest());
        let sight = Sight { process, view, applied, digest };
        let voters = self.plan.options.voters as usize;
        let logs = Logs { books: &self.books, durable: &self.durable, voters };
        let state = self.elections[node].first().and_then(|(_, state)| state.as_ref());
        if self.leaders.see(&sight, state)? {
            self.marks.hit("a leader was elected");
        }
        let stored = self.books[node].below(view.durable);
        let grown = self.committed.see(&sight, &logs)?;
        self.marks.add("a batch was committed", grown as u64);
        self.high_watermarks.see(&sight)?;
        self.machines.see(&sight)?;
        if self.matched[node] < stored {
            self.logs.see(node, &self.books[node], self.matched[node], stored)?;
            self.matched[node] = stored;
        }

        let now = Last {
            role: Some(view.role),
            epoch: view.epoch,
            leader: view.leader,
            high_watermark: view.high_watermark,
            durable: view.durable,
        };
        let before = std::mem::replace(&mut self.last[node], now);
        if before != now {
            let word = |at: Option<Offset>| at.map_or(0, |at| at.0 + 1);
            self.trace.mix(&[
                self.now.0,
                node as u64,
                u64::from(view.epoch.0),
                word(view.high_watermark),
                view.durable.0,
                digest,
            ]);
        }
        if (before.role, before.epoch, before.leader) != (now.role, now.epoch, now.leader) {
            let leader = view.leader.map_or("nobody".to_owned(), |leader| leader.to_string());
            self.trace.node(self.now, node, &view, || format!("is {} behind {leader}", view.role));
        }
        if before.high_watermark != now.high_watermark {
            let word = |at: Option<Offset>| at.map_or("-".to_owned(), |at| at.to_string());
            let (from, to) = (word(before.high_watermark), word(now.high_watermark));
            self.trace.node(self.now, node, &view, || format!("hw {from} -> {to}"));
        }
        Ok(())
    }

    /// A line of the trace about a node.
    fn line(&mut self, node: usize, what: impl FnOnce() -> String) {
        if !self.trace.reads() {
            return;
        }
        match &self.nodes[node].running {
            Some(running) => self.trace.node(self.now, node, &running.replica.view(), what),
            None => self.trace.down(self.now, node, &self.books[node], what),
        }
    }

    // ---- Network.

    fn deliver(&mut self, conn: ConnId) -> Result<(), Failure> {
        // A paused process reads nothing; its kernel keeps what comes.
        let owner = self.network.owner(conn);
        if let Some(owner) = owner.filter(|owner| self.network.owns(*owner, conn)) {
            let known = self.process(owner, || Event::Deliver(conn));
            if known.is_none() {
                return Ok(());
            }
        }
        let arrival = self.network.deliver(self.now, conn, &mut self.queue);
        let (process, conn, frame) = match arrival {
            Arrival::Nothing => return Ok(()),
            Arrival::Frame(process, conn, frame) => (process, conn, Some(frame)),
            Arrival::Closed(process, conn) => (process, conn, None),
        };
        self.trace.mix(&[self.now.0, process.node as u64, conn.0, 1]);
        let Some((running, local)) = self.running(process.node) else { return Ok(()) };
        match frame {
            Some(frame) => running.replica.on_frame(local, conn, frame),
            None => {
                running.replica.on_closed(local, conn);
                self.line(process.node, || "a connection was closed".to_owned());
            }
        }
        self.reported(process.node)
    }

    fn dialed(&mut self, dial: Dial, result: Result<ConnId, ConnectError>) -> Result<(), Failure> {
        let from = dial.from;
        let alive = {
            let node = &self.nodes[from.node];
            node.running.is_some() && node.life == from.life
        };
        if !alive {
            if let Ok(conn) = result {
                self.network.close(self.now, conn, &mut self.queue);
            }
            return Ok(());
        }
        let Some(node) = self.process(from, || Event::Dialed { dial, result }) else {
            return Ok(());
        };
        if result == Err(ConnectError::Refused) {
            self.marks.hit("a connection was refused");
        }
        let Some((running, local)) = self.running(node) else { return Ok(()) };
        running.replica.on_connect(local, dial.link, result);
        let to = dial.to + 1;
        self.line(node, || match result {
            Ok(_) => format!("is connected to {to}"),
            Err(error) => format!("cannot connect to {to}: {error:?}"),
        });
        self.reported(node)
    }

    // ---- Disks.

    fn disk_time(&mut self, node: usize) -> Span {
        let options = &self.plan.options;
        let jitter = Span(self.disk_rng.below(options.disk_jitter_us + 1));
        let slow = self.nodes[node].slow.iter().fold(Span::ZERO, |sum, span| sum + *span);
        Span(options.disk_us) + jitter + slow
    }

    fn disk_job(&mut self, node: usize, id: WriteId, job: Job) -> Result<(), Failure> {
        let before = self.books[node].end();
        if let Job::Truncate(cut) = &job {
            self.marks.hit("a log was cut");
            let left = self.books[node].entries.partition_point(|entry| entry.base < cut.end);
            self.committed.cut(node, &self.books[node], left)?;
            self.durable[node] = self.durable[node].min(cut.end);
        }
        if let Job::Replace { bytes, .. } = &job {
            self.elections[node].push((id, Some(bytes.clone())));
        }
        let kept = self.books[node].follow(&job);
        self.matched[node] = self.matched[node].min(kept);
        if !self.leads(node) {
            self.match_log(node, self.books[node].entries.len())?;
        }
        let end = self.books[node].end();
        self.line(node, || match &job {
            Job::Append(append) => {
                let epochs: Vec<String> = crate::book::entries(&append.bytes)
                    .map(|entry| entry.epoch.to_string())
                    .collect();
                format!("append [{before}..{end}) epoch={}", epochs.join(","))
            }
            Job::Truncate(_) => format!("truncate {before} -> {end}"),
            Job::Replace { bytes, .. } => format!("remembers {}", String::from_utf8_lossy(bytes)),
        });
        if let Some((running, _)) = self.running(node) {
            running.queued.push((id, job));
        }
        Ok(())
    }

    /// Whether what a node appends is its own, and no one else has it yet.
    fn leads(&self, node: usize) -> bool {
        let running = self.nodes[node].running.as_ref();
        running.is_some_and(|running| {
            matches!(running.replica.view().role, RoleName::Leader | RoleName::Resigned)
        })
    }

    /// Compares the batches of a log with all other logs.
    fn match_log(&mut self, node: usize, until: usize) -> Result<(), Failure> {
        let known = self.matched[node];
        if known < until {
            self.logs.see(node, &self.books[node], known, until)?;
            self.matched[node] = until;
        }
        Ok(())
    }

    fn disk_done(&mut self, process: Process) -> Result<(), Failure> {
        let Some(node) = self.process(process, || Event::Disk(process)) else { return Ok(()) };
        let done = self.nodes[node].finish_disk();
        let failed = |why| Failure::new("no_node_gives_up", format!("node {}: {why}", node + 1));
        if let Some(upto) = done.map_err(failed)? {
            self.trace.mix(&[self.now.0, node as u64, upto.0, 2]);
            let elections = &mut self.elections[node];
            let durable = elections.partition_point(|(id, _)| *id <= upto);
            elections.drain(..durable.saturating_sub(1));
            if let Some((running, local)) = self.running(node) {
                running.replica.on_durable(local, upto);
            }
            self.line(node, || "the disk is done".to_owned());
        }
        self.reported(node)
    }

    fn read_done(&mut self, process: Process, id: ReadId, read: &ColdRead) -> Result<(), Failure> {
        let again = || Event::Read { process, id, read: read.clone() };
        let Some(node) = self.process(process, again) else { return Ok(()) };
        let records =
            read_cold(&mut self.nodes[node].disk.clone(), read).map_err(|error| error.to_string());
        self.line(node, || match &records {
            Ok(records) => format!("read [{}..{}): {} bytes", read.from, read.end, records.len()),
            Err(why) => format!("cannot read [{}..{}): {why}", read.from, read.end),
        });
        if let Some((running, local)) = self.running(node) {
            running.replica.on_read(local, id, records);
        }
        self.reported(node)
    }

    // ---- Up and down.

    fn up(&mut self, node: usize) -> Result<(), Failure> {
        if self.nodes[node].running.is_some() {
            return Ok(());
        }
        let before = self.books[node].end();
        self.reopen(node)?;
        let end = self.books[node].end();
        if end < before {
            self.marks.hit("a crash lost records");
        }
        let failed = |why| Failure::new("files_reopen", format!("node {}: {why}", node + 1));
        self.nodes[node].start(self.now).map_err(failed)?;
        self.last[node] = Last::default();
        let process = self.life(node);
        self.network.host(self.now, node, Host::Up(process), &mut self.queue);
        self.trace.mix(&[self.now.0, node as u64, end.0, 3]);
        self.line(node, || format!("starts, its log had {before} and ends at {end}"));
        self.note_log_lines(node)?;
        self.plan_turn(node, self.now);
        Ok(())
    }

    /// Reads a node's files and compares them with what was written; from then on they count.
    fn reopen(&mut self, node: usize) -> Result<(), Failure> {
        let failed = |why| Failure::new("files_reopen", format!("node {}: {why}", node + 1));
        let (recovery, parts) = self.nodes[node].read_files().map_err(failed)?;
        let found = Book::read(&parts);
        let states: Vec<_> = self.elections[node].iter().map(|(_, state)| state.clone()).collect();
        let (book, durable) = (&self.books[node], self.durable[node]);
        let written = Written { book, durable, elections: &states };
        files_reopen(node, &recovery, &found, &written)?;
        self.books[node] = found;
        self.matched[node] = 0;
        self.match_log(node, self.books[node].entries.len())?;
        self.durable[node] = recovery.end;
        let state = recovery.election.map(|election| election.encode());
        self.elections[node] = vec![(WriteId(0), state)];
        Ok(())
    }

    /// A node goes down at once.
    fn down(&mut self, node: usize, power: bool, lasts: Span) {
        if self.nodes[node].running.is_none() {
            return;
        }
        self.marks.hit(if power { "a node lost power" } else { "a node was killed" });
        let process = self.life(node);
        self.line(node, || if power { "loses power" } else { "is killed" }.to_owned());
        self.nodes[node].die(power);
        self.nodes[node].paused_until = self.now;
        let host = if power { Host::NoPower } else { Host::NoProcess };
        self.gone(process, host, lasts);
    }

    /// An orderly stop is complete.
    fn stopped(&mut self, node: usize) -> Result<(), Failure> {
        self.marks.hit("a node stopped in an orderly way");
        self.line(node, || "stops".to_owned());
        let failed = |why| Failure::new("no_node_gives_up", format!("node {}: {why}", node + 1));
        self.nodes[node].finish_all().map_err(failed)?;
        let end = self.books[node].end();
        self.durable[node] = end;
        let states = &mut self.elections[node];
        states.drain(..states.len().saturating_sub(1));
        let lasts = self.stopping[node];
        self.gone(self.life(node), Host::NoProcess, lasts);
        Ok(())
    }

    fn gone(&mut self, process: Process, host: Host, lasts: Span) {
        self.network.host(self.now, process.node, host, &mut self.queue);
        self.trace.mix(&[self.now.0, process.node as u64, 4]);
        for then in self.clients.died(self.now, process, &mut self.marks) {
            self.then(then);
        }
        let lasts = if self.phase == Phase::Faults { lasts } else { Span::ms(1) };
        self.queue.push(self.now + lasts, Event::Up(process.node));
    }

    // ---- The plan.

    fn step(&mut self, index: usize) -> Result<(), Failure> {
        let (_, step) = self.plan.steps[index].clone();
        let is_fault = !matches!(step, Step::Ask { .. });
        if self.phase != Phase::Faults {
            return Ok(());
        }
        if is_fault {
            self.trace.world(self.now, || step.to_string());
        }
        let at = |id: u32| id as usize - 1;
        match step {
            Step::Crash { node, how: Down::Power, lasts } => self.down(at(node), true, lasts),
            Step::Crash { node, how: Down::Kill, lasts } => self.down(at(node), false, lasts),
            Step::Crash { node, how: Down::Stop, lasts } => {
                self.stopping[at(node)] = lasts;
                if let Some((running, local)) = self.running(at(node))
                    && !std::mem::replace(&mut running.stopping, true)
                {
                    running.replica.shutdown(local + HANDOVER);
                    return self.reported(at(node));
                }
            }
            Step::Pause { node, lasts } => {
                self.marks.hit("a node was paused");
                self.nodes[at(node)].paused_until = self.now + lasts;
            }
            Step::Slow { node, by, lasts } => {
                self.nodes[at(node)].slow.push(by);
                self.queue.push(self.now + lasts, Event::Over(index));
            }
            Step::Cut { from, to, both, lasts } => {
                self.marks.hit("the network was cut");
                self.cut(&from, &to, both, true);
                self.queue.push(self.now + lasts, Event::Over(index));
            }
            Step::Reset { a, b } => {
                self.marks.hit("connections were reset");
                self.network.reset(self.now, at(a), at(b), &mut self.queue);
            }
            Step::Resign { node } => {
                if let Some((running, _)) = self.running(at(node)) {
                    let view = running.replica.view();
                    let (leads, epoch) = (view.role == RoleName::Leader, view.epoch);
                    if leads {
                        running.replica.resign(epoch);
                        self.marks.hit("a leader resigned");
                        return self.reported(at(node));
                    }
                }
            }
            Step::Ask { client, ask, node, patience } => {
                if self.clients.has(client) {
                    self.clients.ask(client, ask, at(node), patience);
                    return self.client(client);
                }
            }
        }
        Ok(())
    }

    fn cut(&mut self, from: &[u32], to: &[u32], both: bool, on: bool) {
        for from in from {
            for to in to {
                let (from, to) = (*from as usize - 1, *to as usize - 1);
                self.network.cut(self.now, from, to, on, &mut self.queue);
                if both {
                    self.network.cut(self.now, to, from, on, &mut self.queue);
                }
            }
        }
    }

    fn over(&mut self, index: usize) {
        let (_, step) = self.plan.steps[index].clone();
        match step {
            Step::Slow { node, by, .. } => {
                let slow = &mut self.nodes[node as usize - 1].slow;
                if let Some(at) = slow.iter().position(|span| *span == by) {
                    slow.swap_remove(at);
                }
            }
            Step::Cut { from, to, both, .. } => {
                self.trace.world(self.now, || format!("over: {}", self.plan.steps[index].1));
                self.cut(&from, &to, both, false);
            }
            Step::Crash { .. }
            | Step::Pause { .. }
            | Step::Reset { .. }
            | Step::Resign { .. }
            | Step::Ask { .. } => {}
        }
    }

    // ---- Clients.

    fn client(&mut self, client: u32) -> Result<(), Failure> {
        let Some(call) = self.clients.go_on(self.now, client) else { return Ok(()) };
        let Call { node, id, action, patience } = call;
        let process = self.life(node);
        let now = self.now;
        let Some((running, local)) = self.running(node) else {
            let then = self.clients.unreachable(now, id, &mut self.marks);
            self.then(then);
            return Ok(());
        };
        let line;
        let mut reply = None;
        match action {
            Action::Write { request } => {
                line = format!("client {client} asks {id:?} {request:?}");
                running.replica.write(local, id, request, patience);
            }
            Action::Read { query } => {
                line = format!("client {client} asks {id:?} {query:?}");
                running.replica.read(local, id, query, patience);
            }
            Action::Peek { query } => {
                line = format!("client {client} peeks {query:?}");
                reply = Some(running.replica.read_local(&query));
            }
        }
        let follower = running.replica.view().role != RoleName::Leader;
        self.clients.called(id, process, &mut self.marks);
        self.trace.mix(&[self.now.0, node as u64, id.0]);
        self.line(node, || line);
        match reply {
            None => {
                if follower {
                    self.marks.hit("a follower answered for the leader");
                }
                self.reported(node)
            }
            Some(reply) => self.peeked(node, id, reply),
        }
    }

    fn peeked(
        &mut self,
        node: usize,
        id: quorate_node::ClientId,
        reply: (Reply, Offset),
    ) -> Result<(), Failure> {
        let op = self.clients.op_of(id);
        let then = self.clients.replied(self.now, id, Ok(reply), &mut self.marks)?;
        self.after(node, op, then)
    }

    /// An operation has perhaps ended: what its client was told must be committed by now.
    fn after(&mut self, node: usize, op: Option<usize>, then: Then) -> Result<(), Failure> {
        if let Some(op) = op.map(|op| self.clients.history[op].clone())
            && op.ended.is_some()
        {
            self.trace.mix(&[self.now.0, 5]);
            // The answering node's own turn may be what committed it, and is not looked at yet.
            self.look_at(node)?;
            AcknowledgedNeverLost::answered(&op, self.committed.ledger.end())?;
            self.line(node, || format!("client {} knows {op:?}", op.client));
        }
        self.then(then);
        Ok(())
    }

    fn then(&mut self, then: Then) {
        match then {
            Then::Nothing => {}
            Then::GoOn(client, rest) => self.queue.push(self.now + rest, Event::Client(client)),
        }
    }

    // ---- After the faults.

    /// Looks whether all is well, and takes the run a phase on if it is.
    fn look_around(&mut self) -> Result<(), Failure> {
        if self.phase == Phase::Faults {
            self.heal();
        }
        let newest = self.last.iter().map(|last| last.epoch).max().unwrap_or_default();
        if newest > self.steady.0 {
            self.steady = (newest, self.now);
        }
        match self.ill() {
            None => self.go_on()?,
            Some(why) => {
                let options = &self.plan.options;
                let until = Time((options.heal_ms + options.recover_ms) * 1_000);
                if self.now > until {
                    let what = format!("{} ms after the faults: {why}", options.recover_ms);
                    return Err(Failure::new("recovers", what));
                }
            }
        }
        self.queue.push(self.now + LOOK, Event::Look);
        Ok(())
    }

    /// Ends all faults.
    fn heal(&mut self) {
        self.trace.world(self.now, || "all faults end".to_owned());
        self.phase = Phase::Agree;
        self.network.calm();
        self.clients.hush();
        for index in 0..self.plan.steps.len() {
            let (at, step) = &self.plan.steps[index];
            let (Step::Cut { lasts, .. } | Step::Slow { lasts, .. }) = step else { continue };
            if *at < self.now && *at + *lasts > self.now {
                self.over(index);
            }
        }
        for node in 0..self.nodes.len() {
            self.nodes[node].paused_until = self.now;
            self.nodes[node].slow.clear();
            self.queue.push(self.now, Event::Up(node));
        }
    }

    /// Why the phase is not over; `None` when it is.
    fn ill(&self) -> Option<String> {
        let mut leader = None;
        for (index, node) in self.nodes.iter().enumerate() {
            let number = index + 1;
            let Some(running) = &node.running else {
                return Some(format!("node {number} is down"));
            };
            let view = running.replica.view();
            if view.role == RoleName::Leader {
                leader = Some((view.epoch, view.leader, view.end));
            }
        }
        let Some(leader) = leader else { return Some("nobody leads".to_owned()) };
        for (index, node) in self.nodes.iter().enumerate() {
            let running = node.running.as_ref()?;
            let (view, number) = (running.replica.view(), index + 1);
            if (view.epoch, view.leader) != (leader.0, leader.1) {
                return Some(format!(
                    "node {number} is in epoch {} behind {:?}, the leader is {:?} in {}",
                    view.epoch, view.leader, leader.1, leader.0
                ));
            }
            if self.clients.idle() && running.replica.applied() != leader.2 {
                return Some(format!(
                    "node {number} has applied {}, the leader's log ends at {}",
                    running.replica.applied(),
                    leader.2
                ));
            }
        }
        // A question that a fault swallowed still runs out of time and may cost the leader its office.
        let options = &self.plan.options;
        let ripples = options.fetch_ms + options.request_ms + 2 * options.election_ms;
        let steady = Span::ms(2 * ripples);
        if self.phase == Phase::Agree && self.now.since(self.steady.1) < steady {
            return Some(format!("epoch {} is new", self.steady.0));
        }
        match self.clients.waiting() {
            Some(op) => Some(format!("a client waits: {op:?}")),
            None if !self.clients.idle() => Some("clients have more to ask".to_owned()),
            None => None,
        }
    }

    fn go_on(&mut self) -> Result<(), Failure> {
        let clients = self.plan.options.clients as u32;
        self.trace.world(self.now, || format!("{:?} is over", self.phase));
        self.phase = match self.phase {
            Phase::Faults | Phase::Agree => Phase::Serve,
            Phase::Serve => {
                self.all_served()?;
                Phase::Show
            }
            Phase::Show | Phase::Done => Phase::Done,
        };
        let asks: Vec<Ask> = match self.phase {
            Phase::Serve => vec![Ask::Put { key: 1_000, when: When::Always, stamped: false }],
            Phase::Show => {
                let mut keys: Vec<u32> = self.clients.history.iter().map(|op| op.key).collect();
                keys.sort_unstable();
                keys.dedup();
                keys.into_iter().map(|key| Ask::Get { key }).collect()
            }
            Phase::Faults | Phase::Agree | Phase::Done => Vec::new(),
        };
        for node in 0..self.nodes.len() {
            let client = clients + node as u32 + 1;
            for ask in &asks {
                self.clients.ask(client, ask.clone(), node, PATIENCE);
            }
            self.client(client)?;
        }
        Ok(())
    }

    /// The last writes were taken.
    fn all_served(&self) -> Result<(), Failure> {
        let clients = self.plan.options.clients as u32;
        for op in self.clients.history.iter().filter(|op| op.client > clients) {
            if !matches!(op.seen, crate::history::Seen::Written { .. }) {
                return Err(Failure::new("recovers", format!("in a healthy quorum: {op:?}")));
            }
        }
        Ok(())
    }

    // ---- The end.

    fn judge(&mut self) -> Result<(), Failure> {
        for node in 0..self.nodes.len() {
            self.nodes[node].die(true);
            self.reopen(node)?;
        }
        let records = AcknowledgedNeverLost::new(&self.committed.ledger);
        let mut by_key: BTreeMap<u32, Vec<Op>> = BTreeMap::new();
        for op in &self.clients.history {
            records.see(op)?;
            by_key.entry(op.key).or_default().push(op.clone());
        }
        for (key, ops) in by_key {
            match linear(&ops) {
                Verdict::Linear => {}
                Verdict::NotLinear => {
                    let ops: Vec<String> = ops.iter().map(describe).collect();
                    let what =
                        format!("no order explains what was seen of k{key}:\n{}", ops.join("\n"));
                    return Err(Failure::new("linear", what));
                }
                Verdict::Undecided => self.marks.hit(crate::marks::UNDECIDED),
            }
        }
        Ok(())
    }
}

/// One operation on one line.
fn describe(op: &Op) -> String {
    let ended = op.ended.map_or("    ?".to_owned(), seconds);
    format!("  {} {ended} client {} {:?} {:?}", seconds(op.asked), op.client, op.kind, op.seen)
}
