//! An observer that is to vote asks for it itself (`controller.quorum.auto.join.enable`, KIP-853).
//!
//! It asks its leader in the place of a fetch, while it holds all that it knows to be committed,
//! and goes on fetching in between: the commit of its own entry may need its copy, which is why it
//! does not wait for that (KIP-1186) [P76]. Who is added is the leader's to judge.

use crate::effect::{Complaint, Effect};
use crate::message::{AddVoter, ChangeAnswer, ErrorKind, RemoveVoter, Request};
use crate::mutants::mutant;
use crate::peers::{Node, Question};
use crate::quorum::Quorum;
use crate::role::{Follower, Role};
use quorate_base::{ReplicaId, Time};

impl Quorum {
    /// What it would ask for; `None` while there is nothing to ask.
    fn wish(&self, role: &Follower, leader: ReplicaId) -> Option<(Question, Request)> {
        let own = self.own_entry().filter(|own| !own.endpoints.is_empty())?;
        own.key.directory?;
        let takes = self.peers.speaks(leader).is_some_and(|speaks| speaks.joins);
        let seats = self.decrees.in_force();
        let level = role.level || mutant!(self, JoinBehind);
        if !self.config.auto_join || self.is_voter() || seats.version == 0 || !takes || !level {
            return None;
        }
        Some(match seats.voters.by_id(own.key.id) {
            // The same node with another directory: its disk was replaced.
            Some(old) => (Question::Remove, Request::RemoveVoter(RemoveVoter { key: old.key })),
            None => {
                let (key, endpoints) = (own.key, own.endpoints);
                (
                    Question::Add,
                    Request::AddVoter(AddVoter {
                        key,
                        endpoints,
                        when_committed: false,
                        replaces: None,
                    }),
                )
            }
        })
    }

    /// When this follower may have to ask, if nothing else happens.
    pub(crate) fn join_at(&self, role: &Follower) -> Time {
        let wishes = self.standing.leader.is_some_and(|leader| self.wish(role, leader).is_some());
        // Once it is due, it waits for the answer to a fetch, or for the leader to be ready.
        if wishes && role.join_at > self.now { role.join_at } else { Time::NEVER }
    }

    /// Asks the leader, in the place of a fetch. True if it did.
    pub(crate) fn ask_to_join(&mut self, leader: ReplicaId, out: &mut Vec<Effect>) -> bool {
        let (now, again, node) = (self.now, self.config.fetch_timeout, Node::Replica(leader));
        let Role::Follower(role) = &self.role else { return false };
        if now < role.join_at || self.peers.fetches() > 0 {
            return false;
        }
        let Some((question, body)) = self.wish(role, leader) else { return false };
        if !self.ready(node) {
            return false;
        }
        if let Role::Follower(role) = &mut self.role {
            role.join_at = now + again;
        }
        self.ask(node, question, self.shown(), body, out);
        true
    }

    pub(crate) fn on_join_answer(
        &mut self,
        node: Node,
        answer: &ChangeAnswer,
        out: &mut Vec<Effect>,
    ) {
        match answer.error {
            // Done, or asked again once the log says how things are.
            ErrorKind::None
            | ErrorKind::RequestTimedOut
            | ErrorKind::DuplicateVoter
            | ErrorKind::VoterNotFound => {}
            ErrorKind::NotLeaderOrFollower | ErrorKind::BrokerNotAvailable => {
                self.peers.doubt(node);
                self.back_off(node);
            }
            ErrorKind::FencedLeaderEpoch
            | ErrorKind::UnknownLeaderEpoch
            | ErrorKind::InvalidRequest
            | ErrorKind::InvalidVoterKey
            | ErrorKind::UnsupportedVersion
            | ErrorKind::InconsistentClusterId
            | ErrorKind::SnapshotNotFound
            | ErrorKind::PositionOutOfRange
            | ErrorKind::InvalidUpdateVersion
            | ErrorKind::Other(_) => {
                let error = answer.error;
                out.push(Effect::Complain { what: Complaint::NotAdded { error } });
            }
        }
    }
}
