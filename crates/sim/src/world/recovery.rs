//! After the faults: within a given time the nodes must agree, serve and show what they hold; then
//! the whole run is judged.

use super::{Event, LOOK, Last, PATIENCE, Phase, World};
use crate::checkers::{Failure, changes_as_answered, levels_rise};
use crate::clients::Clients;
use crate::marks::MAJORITY_LOST;
use crate::plan::{Ask, Step, When};
use crate::seats::Change;
use quorate_base::{Epoch, ReplicaKey, Span, Time};
use quorate_raft::RoleName;
use std::collections::BTreeSet;

impl<C: Clients> World<C> {
    /// Looks whether all is well, and takes the run a phase on if it is.
    pub(super) fn look_around(&mut self) -> Result<(), Failure> {
        if self.phase == Phase::Faults {
            self.heal();
        }
        let newest = self.last.iter().map(|last| last.epoch).max().unwrap_or_default();
        if newest > self.steady.0 {
            self.steady = (newest, self.now);
        }
        let below = if self.can_be_raised() { self.is_below() } else { None };
        match self.ill().or(below) {
            None => self.go_on()?,
            Some(why) => {
                let options = &self.plan.options;
                let until = Time((options.heal_ms + options.recover_ms) * 1_000);
                if self.now > until && self.lost_its_majority() {
                    self.marks.hit(MAJORITY_LOST);
                    self.trace
                        .world(self.now, || "no majority is left; what was done is judged".into());
                    self.phase = Phase::Done;
                    return Ok(());
                }
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
    pub(super) fn heal(&mut self) {
        self.trace.world(self.now, || "all faults end".to_owned());
        self.phase = Phase::Agree;
        self.network.calm();
        self.clients.hush();
        for index in 0..self.plan.steps.len() {
            let (at, step) = &self.plan.steps[index];
            let (Step::Cut { lasts, .. }
            | Step::Garble { lasts, .. }
            | Step::Chain { lasts, .. }
            | Step::Slow { lasts, .. }
            | Step::Fill { lasts, .. }
            | Step::Flood { lasts, .. }) = step
            else {
                continue;
            };
            if *at <= self.now && *at + *lasts > self.now {
                self.over(index);
            }
        }
        for _ in 0..self.spare().min(self.plan.options.away as usize) {
            let Some(node) = self.any_voter() else { break };
            if !self.nodes[node].out && self.spare() > 0 {
                self.marks.hit("voters stayed away after the faults");
                self.down(node, true, Span::ZERO);
                self.nodes[node].out = true;
            }
        }
        for node in 0..self.nodes.len() {
            self.nodes[node].paused_until = self.now;
            self.nodes[node].slow.clear();
            self.nodes[node].broken = None;
            self.nodes[node].disk.heal();
            if self.nodes[node].rotten {
                // Only a start reads everything.
                self.down(node, false, Span::ZERO);
            }
            self.queue.push(self.now, Event::Up(node));
        }
        self.let_someone_lead();
        // Behind an older leader no newer node could serve: the upgrade comes to its end.
        for node in 0..self.nodes.len() {
            if self.nodes[node].upgrade() && !self.nodes[node].out {
                self.marks.hit("a node was upgraded");
                self.down(node, false, Span::ZERO);
            }
        }
    }

    /// Where all voters that are left are not to lead, an operator has to change that.
    fn let_someone_lead(&mut self) {
        let mut alike = BTreeSet::new();
        for voters in self.possible_voters() {
            let left = voters.iter().filter_map(|key| self.node_of(*key));
            let left: Vec<usize> = left.filter(|node| !self.nodes[*node].out).collect();
            if left.iter().all(|node| self.nodes[*node].never_leads()) {
                alike.extend(left);
            }
        }
        for node in alike {
            self.nodes[node].may_lead();
            self.down(node, false, Span::ZERO);
        }
    }

    /// An observer that heard of an epoch from a voter that stays away waits for the quorum to get
    /// there: nobody can tell it more until the next election. So does one that was removed and
    /// stood in later epochs before it heard of that, as an older node does without being asked.
    fn ahead(&self, node: usize, epoch: Epoch) -> bool {
        let away = self.seats.dynamic || self.nodes.iter().any(|voter| voter.out);
        away && !self.is_counted(node) && self.last[node].epoch > epoch
    }

    /// Why the phase is not over; `None` when it is.
    pub(super) fn ill(&self) -> Option<String> {
        let mut leader = None;
        for (index, node) in self.nodes.iter().enumerate() {
            let number = index + 1;
            if node.out {
                continue;
            }
            let Some(running) = &node.running else {
                return Some(format!("node {number} is down"));
            };
            if running.full {
                return Some(format!("node {number} has not noticed yet that its disk has room"));
            }
            let view = running.replica.view();
            if view.role == RoleName::Leader {
                leader = Some((view.epoch, view.leader, view.end));
            }
        }
        let Some(leader) = leader else { return Some("nobody leads".to_owned()) };
        for (index, node) in self.nodes.iter().enumerate().filter(|(_, node)| !node.out) {
            let running = node.running.as_ref()?;
            let (view, number) = (running.replica.view(), index + 1);
            if self.ahead(index, leader.0) {
                continue;
            }
            if (view.epoch, view.leader) != (leader.0, leader.1) {
                return Some(format!(
                    "node {number} is in epoch {} behind {:?}, the leader is {:?} in {}",
                    view.epoch, view.leader, leader.1, leader.0
                ));
            }
            if let Some(reach) = view.must_reach {
                return Some(format!("node {number} has to reach {reach} again"));
            }
            if self.clients.idle() && running.replica.applied() != leader.2 {
                return Some(format!(
                    "node {number} has applied {}, the leader's log ends at {}",
                    running.replica.applied(),
                    leader.2
                ));
            }
        }
        // A question that a fault swallowed still runs out of time and may cost the leader its
        // office.
        let options = &self.plan.options;
        let ripples = options.fetch_ms + options.request_ms + 2 * options.election_ms;
        let steady = Span::ms(2 * ripples);
        if self.phase == Phase::Agree && self.now.since(self.steady.1) < steady {
            return Some(format!("epoch {} is new", self.steady.0));
        }
        match self.clients.waiting() {
            Some(op) => Some(format!("a client waits: {op}")),
            None if !self.clients.idle() => Some("clients have more to ask".to_owned()),
            None => None,
        }
    }

    pub(super) fn go_on(&mut self) -> Result<(), Failure> {
        let clients = self.plan.options.clients as u32;
        let phase = self.phase;
        self.trace.world(self.now, || phase.reached().to_owned());
        // What was asked of one that lost its power is never answered.
        self.raises.clear();
        self.phase = match self.phase {
            Phase::Faults | Phase::Agree => Phase::Serve,
            // With a bound of a few bytes a healthy disk, too, makes a leader hand over.
            Phase::Serve => match self.all_served() {
                Ok(()) => Phase::Show,
                Err(_) if self.handed_over >= self.serve_began => Phase::Serve,
                Err(failure) => return Err(failure),
            },
            Phase::Show => Phase::Raise,
            Phase::Raise | Phase::Done => Phase::Done,
        };
        let asks: Vec<Ask> = match self.phase {
            Phase::Serve => {
                self.serve_began = self.now;
                vec![Ask::Put { key: 1_000, when: When::Always, stamped: false }]
            }
            Phase::Show => self.clients.last_reads(),
            Phase::Faults | Phase::Agree | Phase::Raise | Phase::Done => Vec::new(),
        };
        let leads = |last: &&Last| last.role == Some(RoleName::Leader);
        let epoch = self.last.iter().filter(leads).map(|last| last.epoch).max().unwrap_or_default();
        for node in 0..self.nodes.len() {
            if self.nodes[node].out || self.ahead(node, epoch) {
                continue;
            }
            let client = clients + node as u32 + 1;
            for ask in &asks {
                self.clients.ask(client, ask.clone(), node, PATIENCE);
            }
            self.client(client)?;
        }
        Ok(())
    }

    /// The last writes were taken.
    pub(super) fn all_served(&self) -> Result<(), Failure> {
        let first = self.plan.options.clients as u32 + 1;
        self.clients.served(first.., self.serve_began)
    }

    pub(super) fn judge(&mut self) -> Result<(), Failure> {
        for node in 0..self.nodes.len() {
            self.nodes[node].die(true);
            if !self.nodes[node].out {
                self.reopen(node)?;
            }
        }
        let joins = self.plan.options.auto_join == 1;
        if joins {
            self.note_joined();
        }
        levels_rise(&self.committed.ledger)?;
        let (ledger, held) = (&self.committed.ledger, &self.changes.changes);
        // One that joins has what it was before removed.
        let by_themselves = |(change, key): &(Change, ReplicaKey)| {
            joins && (*change == Change::Add || self.gone.contains_key(key))
        };
        changes_as_answered(&self.admin, ledger, &self.seats, held, by_themselves)?;
        self.clients.judge(&self.committed.ledger, &mut self.marks)
    }
}
