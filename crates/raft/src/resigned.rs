//! Giving up leadership, and stopping.
//!
//! A resigned leader appends nothing in its epoch any more, names its successors until they have
//! heard it, and never leads that epoch again, not even after a restart [P24].

use crate::effect::{Effect, Loss};
use crate::leader::Progress;
use crate::message::{EndQuorumEpoch, LeaderView, Request};
use crate::mutants::mutant;
use crate::peers::{Node, Question};
use crate::quorum::{Quorum, Stopping};
use crate::role::{Resigned, Role, Standing};
use quorate_base::{Epoch, ReplicaKey, Span, Time};
use std::cmp::Reverse;

impl Quorum {
    /// The leader gives up its epoch.
    pub(crate) fn resign(&mut self, out: &mut Vec<Effect>) {
        self.tell_commit(out);
        let election_at = self.random_election_at();
        let Role::Leader(leader) = &self.role else { return };
        // Of equal logs one on a disk with room leads better.
        let rank = |v: &Progress| (v.never_leads, Reverse(v.end), v.no_room == Some(true), v.key);
        let mut ends: Vec<_> = leader.voters.iter().map(rank).collect();
        ends.sort_unstable();
        let successors: Vec<ReplicaKey> = ends.into_iter().map(|(.., key)| key).collect();
        let unacked = successors.iter().map(|key| key.id).collect();
        let role = Role::Resigned(Resigned { election_at, unacked, gone: Vec::new(), successors });
        self.enter(self.standing.clone(), role, out);
    }

    /// The leader is to hand over in good order: what it has taken it still commits, but not for
    /// long [P77].
    pub(crate) fn on_hand_over(&mut self, epoch: Epoch) {
        let until = self.now + Span(self.config.fetch_timeout.0 / 2);
        if self.has_heir()
            && epoch == self.standing.epoch
            && let Role::Leader(leader) = &mut self.role
        {
            leader.leaves_at.get_or_insert(until);
        }
    }

    /// Whether this leader knows of another voter that may lead.
    pub fn has_heir(&self) -> bool {
        let Role::Leader(leader) = &self.role else { return false };
        leader.voters.iter().any(|voter| !voter.never_leads)
    }

    /// Whether this leader is on its way out: it takes nothing new, else it would never be gone.
    pub(crate) fn is_leaving(&self) -> bool {
        let told = matches!(&self.role, Role::Leader(leader) if leader.leaves_at.is_some());
        told && !mutant!(self, TakeWhileLeaving) || self.is_removed()
    }

    /// Whether a leader on its way out has nothing left to do, or no time.
    pub(crate) fn has_left(&self) -> bool {
        let Role::Leader(leader) = &self.role else { return false };
        let until = leader.leaves_at;
        let late = until.is_some_and(|at| self.now >= at || mutant!(self, LeaveAtOnce));
        late || self.is_leaving() && self.high_watermark == Some(self.end)
    }

    pub(crate) fn turn_resigned(&mut self, out: &mut Vec<Effect>) -> bool {
        let Role::Resigned(role) = &self.role else { return false };
        if self.now >= role.election_at && self.may_leave_epoch() {
            if self.is_only_voter() {
                self.become_prospective(false, out); // No one else could have moved on.
            } else {
                self.become_unattached(Standing::fresh(self.standing.epoch.next()), out);
            }
            return true;
        }
        let mut at = 0;
        while let (Role::Resigned(role), Some(own)) = (&self.role, self.id())
            && let Some(id) = role.unacked.get(at).copied()
        {
            at += 1;
            let successors = role.successors.clone();
            if self.ready(Node::Replica(id)) {
                let endpoints = self.config.endpoints.clone();
                let epoch = self.standing.epoch;
                let end = EndQuorumEpoch { epoch, leader: own, successors, endpoints };
                let needs = self.shown();
                self.ask(
                    Node::Replica(id),
                    Question::End,
                    needs,
                    Request::EndQuorumEpoch(end),
                    out,
                );
            }
        }
        false
    }

    pub(crate) fn on_end_answer(&mut self, node: Node, view: &LeaderView, out: &mut Vec<Effect>) {
        if self.learn(node, view, out)
            && let (Role::Resigned(role), Node::Replica(id)) = (&mut self.role, node)
        {
            role.unacked.retain(|unacked| *unacked != id);
            role.gone.retain(|gone| *gone != id);
        }
    }

    /// EndQuorumEpoch brought no answer; it will be sent again.
    pub(crate) fn on_end_lost(&mut self, node: Node, how: Loss) {
        let (Role::Resigned(role), Node::Replica(id)) = (&mut self.role, node) else { return };
        role.gone.retain(|gone| *gone != id);
        if how == Loss::Refused {
            role.gone.push(id);
        }
    }

    /// Whether all who did not hear that this leader resigned are gone, and those who did are too
    /// few to elect one of them: waiting would bring no successor that outlives this replica.
    fn no_successor(&self) -> bool {
        let Role::Resigned(role) = &self.role else { return false };
        let others = self.decrees.voters().len() - usize::from(self.is_voter());
        let heard = others.saturating_sub(role.unacked.len());
        let all_gone = !role.gone.is_empty() && role.gone.len() == role.unacked.len();
        all_gone && heard < self.decrees.voters().majority()
    }

    /// A leader that is to stop hands over first where another voter may lead, unless it has not
    /// served yet [P53].
    pub(crate) fn on_shutdown(&mut self, until: Time) {
        self.stopping = self.stopping.or(Some(Stopping::Until(until)));
        if self.high_watermark.is_some() {
            self.on_hand_over(self.standing.epoch);
        }
    }

    /// Whether a leader that is to stop has nothing to wait for before it resigns.
    pub(crate) fn stops_leading(&self) -> bool {
        let drains = matches!(&self.role, Role::Leader(leader) if leader.leaves_at.is_some());
        self.stopping.is_some() && (!drains || mutant!(self, StopAtOnce))
    }

    /// A shutdown is complete when nobody needs this replica, when another leads or none will, or
    /// when its time is over [P54].
    pub(crate) fn stop_if_done(&mut self, out: &mut Vec<Effect>) {
        let Some(Stopping::Until(until)) = self.stopping else { return };
        let another_leads = self.standing.leader.is_some() && self.standing.leader != self.id();
        let needless = !self.is_voter() || self.is_only_voter();
        if needless || another_leads || self.no_successor() || self.now >= until {
            self.stopping = Some(Stopping::Done);
            out.push(Effect::Stopped);
        }
    }
}
