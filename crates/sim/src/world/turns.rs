//! A node's turn, as the server's loop has it: what happened is reported, the replica has its turn,
//! what it wants is carried out. Then every checker looks at the node. Changes nothing that the
//! replica did not ask for.

use super::{Event, Last, World};
use crate::checkers::{Failure, Logs, Sight, epoch_table_matches_log};
use crate::clients::Clients;
use crate::network::{Dial, Process};
use crate::node::{Running, node_of};
use bytes::Bytes;
use quorate_base::{Offset, Span, Time};
use quorate_machine::{Machine, NEWEST_FORMAT_LEVEL};
use quorate_node::config::Generation;
use quorate_node::handle::Error;
use quorate_node::{ClientId, ConnId, Out};
use quorate_raft::RoleName;
use tracing::Level;

/// An answer may be later than its client's patience by what a replica looks for every so often.
const LATE: Span = Span::ms(25);

/// Why a process ends by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Damaged,
    TooOld,
}

impl<C: Clients> World<C> {
    /// The process, unless it is gone or paused; then the event comes again when the pause ends.
    pub(super) fn process(
        &mut self,
        process: Process,
        again: impl FnOnce() -> Event,
    ) -> Option<usize> {
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

    pub(super) fn running(&mut self, node: usize) -> Option<(&mut Running<C::Machine>, Time)> {
        let now = self.now;
        let running = self.nodes[node].running.as_mut()?;
        let local = running.clock.local(now);
        Some((running, local))
    }

    pub(super) fn life(&self, node: usize) -> Process {
        Process { node, life: self.nodes[node].life }
    }

    /// Something was reported to a replica: a turn follows soon.
    pub(super) fn reported(&mut self, node: usize) -> Result<(), Failure> {
        self.carry_out(node)?;
        let soon = self.now + Span(self.turn_rng.below(self.plan.options.turn_us + 1));
        self.plan_turn(node, soon);
        Ok(())
    }

    pub(super) fn plan_turn(&mut self, node: usize, at: Time) {
        let process = self.life(node);
        let Some(running) = &mut self.nodes[node].running else { return };
        if running.turn_at.is_none_or(|planned| at < planned) {
            running.turn_at = Some(at);
            self.queue.push(at, Event::Turn(process));
        }
    }

    pub(super) fn turn(&mut self, process: Process) -> Result<(), Failure> {
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
        self.look_at_level(node)?;
        self.nobody_waits_too_long(node)?;
        let Some((running, _)) = self.running(node) else { return Ok(()) };
        let deadline = running.clock.world(running.replica.deadline());
        if deadline != Time::NEVER {
            self.plan_turn(node, deadline.max(now + Span(1)));
        }
        Ok(())
    }

    /// Whatever becomes of a request, its client is told something when its time is over.
    fn nobody_waits_too_long(&mut self, node: usize) -> Result<(), Failure> {
        let Some((running, local)) = self.running(node) else { return Ok(()) };
        let late = |due: &&Time| **due + LATE < local;
        match running.asked.values().find(late) {
            Some(due) => {
                let what = format!("node {}: no answer, which was due at {due:?}", node + 1);
                Err(Failure::new("nobody_waits_too_long", what))
            }
            None => Ok(()),
        }
    }

    /// Does what a replica wants done.
    pub(super) fn carry_out(&mut self, node: usize) -> Result<(), Failure> {
        let mut outs = Vec::new();
        let Some((running, _)) = self.running(node) else { return Ok(()) };
        running.replica.take_out(&mut outs);
        self.note_log_lines(node)?;
        let process = self.life(node);
        let (mut stopped, mut ended) = (false, None);
        let mut told = Vec::new(); // Clients act once all of this turn is done.
        for out in outs {
            match out {
                Out::Frame { conn, frame } => {
                    let bytes = frame.into_payload();
                    self.leaves(node, conn, &bytes)?;
                    self.trace.mix(&[self.now.0, node as u64, conn.0]);
                    self.trace.mix_bytes(&bytes);
                    if self.trace.reads() {
                        let words = self.words.of(conn, &bytes);
                        let to = self.network.other(conn).map_or(0, |node| node + 1);
                        self.line(node, || format!("-> {to} {words}"));
                    }
                    self.network.send(self.now, conn, bytes, &mut self.queue);
                    let [lost, doubled] = std::mem::take(&mut self.network.garbled);
                    self.marks.add("a frame was lost", lost);
                    self.marks.add("a frame arrived twice", doubled);
                }
                Out::Connect { link, to } => {
                    let to = node_of(&to);
                    let until = self.now + self.nodes[node].connect_timeout();
                    let dial = Dial { from: process, link, to, until };
                    self.network.dial(self.now, dial, &mut self.queue);
                }
                Out::Pause { conn } => {
                    self.marks.hit("a crowded connection was paused");
                    self.network.pause(self.now, conn, true, &mut self.queue);
                }
                Out::Resume { conn } => self.network.pause(self.now, conn, false, &mut self.queue),
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
                    self.told(node, client, answer.as_ref().err());
                    self.line(node, || format!("answers {client:?}: {answer:?}"));
                    let op = self.clients.op_of(client);
                    let marks = &mut self.marks;
                    told.push((op, self.clients.answered(self.now, client, answer, marks)?));
                }
                Out::Reply { client, reply } => {
                    self.told(node, client, reply.as_ref().err());
                    self.line(node, || format!("answers {client:?}: {reply:?}"));
                    let op = self.clients.op_of(client);
                    let then = self.clients.replied(self.now, client, reply, &mut self.marks)?;
                    told.push((op, then));
                }
                Out::Lane(errand) => self.errand(node, errand)?,
                Out::BeginAnew { why } => ended = Some((Ended::Damaged, why)),
                Out::StartOver => return Err(gives_up(node, "starts over; no log is cleaned")),
                Out::TooOld { why } => ended = Some((Ended::TooOld, why)),
                Out::Fatal { why } => return Err(gives_up(node, &why)),
                Out::Stopped => stopped = true,
            }
        }
        for (op, then) in told {
            self.after(node, op, then)?;
        }
        if let Some((how, why)) = ended {
            return self.ends(node, how, &why);
        }
        if self.nodes[node].begin_disk() {
            let at = self.now + self.disk_time(node);
            self.queue.push(at, Event::Disk(process));
        }
        if stopped { self.stopped(node) } else { Ok(()) }
    }

    fn ends(&mut self, node: usize, how: Ended, why: &str) -> Result<(), Failure> {
        match how {
            Ended::Damaged => self.repair(node, why),
            Ended::TooOld => self.stops_before_level(node, why),
        }
    }

    /// Whether a frame may leave a node.
    fn leaves(&mut self, node: usize, conn: ConnId, frame: &Bytes) -> Result<(), Failure> {
        self.promises.leaves(node, conn, frame, &self.remembered)?;
        self.votes.leaves(self.keys[node], conn, frame)
    }

    fn told(&mut self, node: usize, client: ClientId, error: Option<&Error>) {
        match error {
            Some(Error::OutOfRoom) => self.marks.hit("a write was refused for want of room"),
            None if self.nodes[node].running.as_ref().is_some_and(|node| node.full) => {
                self.marks.hit("a node with a full disk answered");
            }
            Some(_) | None => {}
        }
        if let Some((running, _)) = self.running(node) {
            running.asked.remove(&client);
        }
    }

    pub(super) fn note_log_lines(&mut self, node: usize) -> Result<(), Failure> {
        for (level, line) in self.log_lines.take() {
            if line.contains("it hands over") {
                self.handed_over = self.now;
                self.marks.hit("a leader handed over for its disk");
            }
            if line.contains("no version of forwarding in common") {
                self.marks.hit("a leader could not be asked for a client");
            }
            self.line(node, || format!("{level} {line}"));
            // Those who slept meanwhile tell a node that forgot everything of its last leadership.
            let forgot = self.nodes[node].wiped && line.contains("named as leader of epoch");
            // So do voters that ask it, and it says so itself, until the old one is removed.
            let lost = !self.gone.is_empty()
                && (line.contains("its directory id is not the one in the voter set")
                    || line.contains("name another directory of this node's id"));
            // What gave up a part of the reserve may be noticed only when there is room again.
            let of_disk = &self.nodes[node];
            let full = !of_disk.full.is_empty() || of_disk.running.as_ref().is_some_and(|r| r.full);
            let full = full && line.contains("of this node is full");
            let spoilt = line.contains("damaged") || line.contains("cannot be read");
            let rotten = of_disk.rotten && spoilt;
            // An older build that asks for a vote in a store that has been raised, before it knows.
            let old = of_disk.newest_level() < NEWEST_FORMAT_LEVEL
                && line.contains("does not make a voter of this node");
            if level == Level::ERROR && !forgot && !lost && !full && !rotten && !old {
                let what = format!("node {} calls for a human: {line}", node + 1);
                return Err(Failure::new("no_error_lines", what));
            }
        }
        Ok(())
    }

    /// Looks at a node after its turn.
    pub(super) fn look_at(&mut self, node: usize) -> Result<(), Failure> {
        let process = self.life(node);
        let Some(running) = &self.nodes[node].running else { return Ok(()) };
        running.replica.check();
        let view = running.replica.view();
        let digest = running.replica.machine().digest();
        // Before anything is judged: what is wrong shows in the trace with what changed.
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
        self.durable[node] = self.promises.stored(node);
        if view.durable > self.durable[node] {
            let what = format!(
                "node {} takes {} for durable, on its disk is {}",
                node + 1,
                view.durable,
                self.durable[node]
            );
            return Err(Failure::new("no_message_before_durable", what));
        }
        let applied = running.replica.applied();
        let sight = Sight { process, view, applied, digest };
        if view.must_reach.is_none() && !self.nodes[node].rotten {
            self.lost[node] = None;
        }
        let logs = Logs {
            books: &self.books,
            durable: &self.durable,
            lost: &self.lost,
            keys: &self.keys,
            gone: &self.gone,
            seats: &self.seats,
        };
        let state = self.elections[node].first().and_then(|(_, state)| state.as_ref());
        let elected = self.leaders.see(&sight, state)?.then_some(running.speaks);
        if view.role == RoleName::Leader && view.high_watermark > Some(view.durable) {
            self.marks.hit("a leader committed before its own disk");
        }
        let stored = self.books[node].below(view.durable);
        let grown = self.committed.see(&sight, &logs)?;
        self.marks.add("a batch was committed", grown as u64);
        self.high_watermarks.see(&sight)?;
        if view.end >= self.books[node].end() {
            epoch_table_matches_log(node, view.start, view.epochs, &self.books[node])?;
        }
        self.machines.see(&sight)?;
        self.match_log(node, stored)?;
        if let Some(speaks) = elected {
            self.note_election(speaks);
        }
        if self.seats.dynamic && before.role != now.role {
            self.note_role(node, before.role);
        }
        Ok(())
    }

    fn note_election(&mut self, speaks: Generation) {
        self.marks.hit("a leader was elected");
        let both = self.led == [true; 2];
        self.led[usize::from(speaks == Generation::Now)] = true;
        if self.led == [true; 2] && !both {
            self.marks.hit("an old and a new node led");
        }
    }

    /// A line of the trace about a node.
    pub(super) fn line(&mut self, node: usize, what: impl FnOnce() -> String) {
        if !self.trace.reads() {
            return;
        }
        match &self.nodes[node].running {
            Some(running) => self.trace.node(self.now, node, &running.replica.view(), what),
            None => self.trace.down(self.now, node, &self.books[node], what),
        }
    }
}

fn gives_up(node: usize, why: &str) -> Failure {
    Failure::new("no_node_gives_up", format!("node {}: {why}", node + 1))
}
