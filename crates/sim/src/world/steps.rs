//! The steps of the plan: each fault as it begins and ends, and each question as a client gets it
//! and takes it to its node.

use super::{Event, HANDOVER, Phase, World};
use crate::checkers::Failure;
use crate::clients::{Action, Call, Clients, ReplyOf, Then};
use crate::plan::{Down, Garble, Step};
use quorate_base::{Offset, Span};
use quorate_raft::RoleName;

impl<C: Clients> World<C> {
    pub(super) fn step(&mut self, index: usize) -> Result<(), Failure> {
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
            Step::Crash { node, how: Down::Stop, lasts } => return self.stop(at(node), lasts),
            Step::Upgrade { node, lasts } => return self.upgrade(at(node), lasts),
            Step::Downgrade { node, lasts } => return self.downgrade(at(node), lasts),
            Step::Raise { level, asks, validate_only } => {
                self.ask_for_level(asks.map(at), level, validate_only);
            }
            Step::Pause { node, lasts } => {
                self.marks.hit("a node was paused");
                self.nodes[at(node)].paused_until = self.now + lasts;
            }
            Step::Slow { node, by, lasts } => {
                self.nodes[at(node)].slow.push(by);
                self.queue.push(self.now + lasts, Event::Over(index));
            }
            Step::Fill { node, room, lasts } => {
                self.fill(at(node), index, room);
                self.queue.push(self.now + lasts, Event::Over(index));
            }
            Step::Fail { node, what, lasts } => self.fail(at(node), what, lasts),
            Step::Wipe { node, lasts } => self.wipe(at(node), lasts),
            Step::Change { change, node, asks, when_committed, naming } => {
                self.ask_for_change(change, at(node), asks.map(at), when_committed, naming);
            }
            Step::Replace { node, lasts } => self.replace(at(node), lasts),
            Step::Move { node, lasts } => self.move_away(at(node), lasts),
            Step::Rot { node, at: bit } => return self.rot(at(node), bit),
            Step::Clock { node, by, back } => self.jump(at(node), by, back),
            Step::Flood { node, lasts } => {
                if let Some(conn) = self.flood(at(node)) {
                    self.floods.insert(index, conn);
                    self.queue.push(self.now + lasts, Event::Over(index));
                }
            }
            Step::Cut { from, to, both, lasts } => {
                self.marks.hit("the network was cut");
                self.cut(&from, &to, both, true);
                self.queue.push(self.now + lasts, Event::Over(index));
            }
            Step::Garble { ref from, ref to, how, one_in, lasts } => {
                self.garble(from, to, (how, one_in), true);
                self.queue.push(self.now + lasts, Event::Over(index));
            }
            Step::Chain { ref nodes, lasts } => {
                self.marks.hit("nodes saw only their neighbours");
                self.chain(nodes, true);
                self.queue.push(self.now + lasts, Event::Over(index));
            }
            Step::Silence { a, b } => {
                if self.network.silence(at(a), at(b)) {
                    self.marks.hit("connections fell silent");
                }
            }
            Step::Reset { a, b } => {
                self.marks.hit("connections were reset");
                self.network.reset(self.now, at(a), at(b), &mut self.queue);
            }
            Step::Resign { node } => return self.resign(at(node)),
            Step::Ask { client, ask, node, patience } => {
                if self.clients.has(client) {
                    self.clients.ask(client, ask, at(node), patience);
                    return self.client(client);
                }
            }
        }
        Ok(())
    }

    fn upgrade(&mut self, node: usize, lasts: Span) -> Result<(), Failure> {
        if !self.nodes[node].upgrade() {
            return Ok(());
        }
        self.marks.hit("a node was upgraded");
        self.stop(node, lasts)
    }

    fn downgrade(&mut self, node: usize, lasts: Span) -> Result<(), Failure> {
        if !self.nodes[node].downgrade() {
            return Ok(());
        }
        self.marks.hit("an older build came back");
        self.stop(node, lasts)
    }

    /// Asks a node to stop, unless it is about to.
    pub(super) fn stop(&mut self, node: usize, lasts: Span) -> Result<(), Failure> {
        self.stopping[node] = lasts;
        if let Some((running, local)) = self.running(node)
            && !std::mem::replace(&mut running.stopping, true)
        {
            running.replica.shutdown(local + HANDOVER);
            return self.reported(node);
        }
        Ok(())
    }

    pub(super) fn cut(&mut self, from: &[u32], to: &[u32], both: bool, on: bool) {
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

    fn resign(&mut self, node: usize) -> Result<(), Failure> {
        let Some((running, _)) = self.running(node) else { return Ok(()) };
        let view = running.replica.view();
        let (leads, epoch) = (view.role == RoleName::Leader, view.epoch);
        if !leads {
            return Ok(());
        }
        running.replica.resign(epoch);
        self.marks.hit("a leader resigned");
        self.reported(node)
    }

    fn garble(&mut self, from: &[u32], to: &[u32], how: (Garble, u64), on: bool) {
        for from in from {
            for to in to {
                self.network.garble(*from as usize - 1, *to as usize - 1, how, on);
            }
        }
    }

    /// Cuts each node of a row off from all but its neighbours.
    fn chain(&mut self, row: &[u32], on: bool) {
        for (at, node) in row.iter().enumerate() {
            if let Some(beyond) = row.get(at + 2..) {
                self.cut(&[*node], beyond, true, on);
            }
        }
    }

    pub(super) fn over(&mut self, index: usize) {
        let (_, step) = self.plan.steps[index].clone();
        self.trace.world(self.now, || format!("over: {step}"));
        match step {
            Step::Slow { node, by, .. } => {
                let slow = &mut self.nodes[node as usize - 1].slow;
                if let Some(at) = slow.iter().position(|span| *span == by) {
                    slow.swap_remove(at);
                }
            }
            Step::Cut { from, to, both, .. } => {
                self.cut(&from, &to, both, false);
            }
            Step::Garble { from, to, how, one_in, .. } => {
                self.garble(&from, &to, (how, one_in), false);
            }
            Step::Chain { nodes, .. } => {
                self.chain(&nodes, false);
            }
            Step::Fill { node, .. } => self.empty(node as usize - 1, index),
            Step::Flood { .. } => {
                if let Some(conn) = self.floods.remove(&index) {
                    self.network.close(self.now, conn, &mut self.queue);
                }
            }
            Step::Crash { .. }
            | Step::Fail { .. }
            | Step::Wipe { .. }
            | Step::Rot { .. }
            | Step::Clock { .. }
            | Step::Pause { .. }
            | Step::Reset { .. }
            | Step::Silence { .. }
            | Step::Resign { .. }
            | Step::Upgrade { .. }
            | Step::Downgrade { .. }
            | Step::Raise { .. }
            | Step::Change { .. }
            | Step::Replace { .. }
            | Step::Move { .. }
            | Step::Ask { .. } => {}
        }
    }

    pub(super) fn client(&mut self, client: u32) -> Result<(), Failure> {
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
                running.asked.insert(id, local + patience);
                running.replica.write(local, id, request, patience);
            }
            Action::Read { query } => {
                line = format!("client {client} asks {id:?} {query:?}");
                running.asked.insert(id, local + patience);
                running.replica.read(local, id, query, patience);
            }
            Action::Peek { query } => {
                line = format!("client {client} peeks {query:?}");
                reply = running.replica.read_local(&query, Offset::ZERO);
                if reply.is_none() {
                    running.asked.insert(id, local + patience);
                    running.replica.read_from(local, id, query, Offset::ZERO, patience);
                }
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

    pub(super) fn peeked(
        &mut self,
        node: usize,
        id: quorate_node::ClientId,
        reply: (ReplyOf<C>, Offset),
    ) -> Result<(), Failure> {
        let op = self.clients.op_of(id);
        let then = self.clients.replied(self.now, id, Ok(reply), &mut self.marks)?;
        self.after(node, op, then)
    }

    /// An operation has perhaps ended: what its client was told must be committed by now.
    pub(super) fn after(
        &mut self,
        node: usize,
        op: Option<usize>,
        then: Then,
    ) -> Result<(), Failure> {
        if let Some(op) = op
            && let Some(known) = self.clients.ended(op)
        {
            self.trace.mix(&[self.now.0, 5]);
            // The answering node's own turn may be what committed it, and is not looked at yet.
            self.look_at(node)?;
            self.clients.rests_on(op, self.committed.ledger.end())?;
            self.line(node, || known);
        }
        self.then(then);
        Ok(())
    }

    pub(super) fn then(&mut self, then: Then) {
        match then {
            Then::Nothing => {}
            Then::GoOn(client, rest) => self.queue.push(self.now + rest, Event::Client(client)),
        }
    }
}
