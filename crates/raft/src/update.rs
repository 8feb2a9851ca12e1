//! A voter tells its leader where it listens and which versions of `kraft.version` it speaks, and
//! the leader sees to it that the voter set says so (KIP-853).
//!
//! Changes nothing but what is said of a voter: who counts stays as it is, so no majority moves.
//! Where the set is static the leader only remembers what it was told, until its epoch ends.

use crate::effect::{Complaint, Effect, Ticket};
use crate::message::{Endpoint, ErrorKind, LeaderView, Request, Response, UpdateVoter};
use crate::mutants::mutant;
use crate::peers::{Node, Question};
use crate::quorum::Quorum;
use crate::role::{Follower, Role};
use crate::voters::{KRAFT_VERSIONS, Voter};
use quorate_base::{ReplicaId, Time};

impl Quorum {
    // --- The leader

    pub(crate) fn on_update(
        &mut self,
        ticket: Ticket,
        update: &UpdateVoter,
        out: &mut Vec<Effect>,
    ) {
        let error = match self.may_update(update, out) {
            Ok(()) => {
                self.note_update(&update.voter, out);
                ErrorKind::None
            }
            Err(error) => error,
        };
        let body = Response::UpdateVoter(self.leader_view(error));
        self.reply(ticket, self.shown(), body, out);
    }

    /// The checks in their order [P70].
    fn may_update(&self, update: &UpdateVoter, out: &mut Vec<Effect>) -> Result<(), ErrorKind> {
        self.may_serve(update.epoch)?;
        let Voter { key, endpoints, versions: (least, greatest) } = &update.voter;
        if Some(key.id) == self.id() {
            out.push(Effect::Complain { what: Complaint::SharesOurId { id: key.id } });
            return Err(ErrorKind::InvalidRequest);
        }
        // Where the others listen by the name of our own listener is where they reach each other.
        let own = self.config.endpoints.first();
        let reachable =
            endpoints.iter().any(|at| own.is_none_or(|own| own.listener == at.listener));
        let reachable = reachable && endpoints.iter().all(Endpoint::is_place);
        if key.directory.is_none() || !reachable || least > greatest {
            return Err(ErrorKind::InvalidRequest);
        }
        let seats = self.decrees.in_force();
        let changing = self.is_changing() && !mutant!(self, UpdateWhileChanging);
        if self.high_watermark.is_none() || changing || self.is_leaving() {
            return Err(ErrorKind::RequestTimedOut);
        }
        let known = seats.voters.by_id(key.id);
        if !known.is_some_and(|known| seats.version == 0 || known.key == *key) {
            return Err(ErrorKind::VoterNotFound);
        }
        match (*least..=*greatest).contains(&seats.version) {
            true => Ok(()),
            false => Err(ErrorKind::InvalidRequest),
        }
    }

    fn note_update(&mut self, voter: &Voter, out: &mut Vec<Effect>) {
        let seats = self.decrees.in_force();
        if seats.version == 0 {
            let Role::Leader(leader) = &mut self.role else { return };
            let told = leader.voters.iter_mut().find(|known| known.key.id == voter.key.id);
            if let Some(known) = told {
                known.said = Some(voter.clone());
            }
        } else if seats.voters.by_id(voter.key.id) != Some(voter) {
            let voters = seats.voters.with(voter);
            let before = seats.voters.by_id(voter.key.id).map(|known| known.endpoints.clone());
            self.note_move(voter, before, out);
            self.seat(None, voters, out);
        }
        self.mark(voter.key);
    }

    // --- The voter

    /// What the voter set should say of this node; `None` without an id.
    pub(crate) fn own_entry(&self) -> Option<Voter> {
        let endpoints = self.config.endpoints.clone();
        self.key.map(|key| Voter { key, endpoints, versions: KRAFT_VERSIONS })
    }

    /// Whether this leader is to be told of this voter, and would understand it [P68].
    fn has_news_for(&self, role: &Follower, leader: ReplicaId) -> bool {
        let understands = self.peers.speaks(leader).is_some_and(|speaks| speaks.updates);
        let Some(own) = self.own_entry().filter(|own| !own.endpoints.is_empty()) else {
            return false;
        };
        let seats = self.decrees.in_force();
        let untold = match seats.version {
            0 => !role.told,
            _ => seats.voters.by_id(own.key.id) != Some(&own),
        };
        self.is_voter() && understands && untold
    }

    /// When this follower may have to tell its leader of itself, if nothing else happens.
    pub(crate) fn update_at(&self, role: &Follower) -> Time {
        let due = self.standing.leader.is_some_and(|leader| self.has_news_for(role, leader));
        // Once it is due, it waits for the answer to a fetch, or for the leader to be ready.
        if due && role.update_at > self.now { role.update_at } else { Time::NEVER }
    }

    /// Tells the leader, in the place of a fetch. True if it did.
    pub(crate) fn update_leader(&mut self, leader: ReplicaId, out: &mut Vec<Effect>) -> bool {
        let (now, again, node) = (self.now, self.config.fetch_timeout, Node::Replica(leader));
        let Role::Follower(role) = &self.role else { return false };
        if now < role.update_at || !self.has_news_for(role, leader) || self.peers.fetches() > 0 {
            return false;
        }
        let Some(voter) = self.own_entry().filter(|_| self.ready(node)) else { return false };
        if let Role::Follower(role) = &mut self.role {
            role.update_at = now + again;
        }
        let body = Request::UpdateVoter(UpdateVoter { epoch: self.standing.epoch, voter });
        self.ask(node, Question::Update, self.shown(), body, out);
        true
    }

    pub(crate) fn on_update_answer(
        &mut self,
        node: Node,
        view: &LeaderView,
        out: &mut Vec<Effect>,
    ) {
        let taken = self.learn(node, view, out);
        let asked = self.standing.leader.is_some_and(|leader| node == Node::Replica(leader));
        let Role::Follower(role) = &mut self.role else { return };
        if !asked || view.epoch != self.standing.epoch {
            return;
        }
        // One that does not know of this will not learn it.
        role.told |= taken || view.error == ErrorKind::UnsupportedVersion;
        if view.error != ErrorKind::InvalidRequest {
            self.peers.trust(node); // It answered, and who else should be asked?
        }
    }
}
