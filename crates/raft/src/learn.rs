//! What a replica learns of the leadership from the messages of others: announcements and answers.
//!
//! Higher epochs are taken over, lower ones are fenced, and within an epoch there is one leader: a
//! message that says otherwise is refused and moves nothing [P8] [P22] [P34] [P35].

use crate::effect::{Complaint, Effect, Ticket};
use crate::message::{BeginQuorumEpoch, EndQuorumEpoch, Endpoint, ErrorKind, LeaderView, Response};
use crate::peers::Node;
use crate::quorum::{LAST_EPOCH, Quorum};
use crate::role::{Role, Standing};
use quorate_base::{Epoch, ReplicaId, ReplicaKey, Span};
use std::sync::Arc;

impl Quorum {
    // --- Announcements

    pub(crate) fn on_begin(
        &mut self,
        ticket: Ticket,
        begin: &BeginQuorumEpoch,
        out: &mut Vec<Effect>,
    ) {
        let heard = self.hear(begin.epoch, begin.leader, &begin.endpoints, true, out);
        // The leader is adopted even if it meant another voter [P22].
        let meant = begin.voter.is_none_or(|told| self.key.is_some_and(|key| told.names(key)));
        let error = match heard {
            Err(error) => error,
            Ok(()) if !meant => ErrorKind::InvalidVoterKey,
            Ok(()) => ErrorKind::None,
        };
        let body = Response::BeginQuorumEpoch(self.leader_view(error));
        self.reply(ticket, self.shown(), body, out);
    }

    pub(crate) fn on_end(&mut self, ticket: Ticket, end: &EndQuorumEpoch, out: &mut Vec<Effect>) {
        let heard = self.hear(end.epoch, end.leader, &end.endpoints, false, out);
        if heard.is_ok() {
            let wait = self.wait_by_rank(&end.successors);
            if let Role::Follower(role) = &mut self.role {
                role.fetch_at = self.now + wait;
                // It said itself that it leads no more, so nothing speaks against a successor.
                role.fetched = false;
            }
        }
        let body =
            Response::EndQuorumEpoch(self.leader_view(heard.err().unwrap_or(ErrorKind::None)));
        self.reply(ticket, self.shown(), body, out);
    }

    /// How long this replica lets better successors go first [P25].
    fn wait_by_rank(&self, successors: &[ReplicaKey]) -> Span {
        let most = self.config.election_backoff_max.0;
        let rank = successors.iter().position(|key| Some(key.id) == self.id());
        let halved = |times: usize| u32::try_from(times).ok().and_then(|t| most.checked_shr(t));
        match rank {
            None => Span(most),
            Some(0) => Span::ZERO,
            Some(rank) => {
                let least = halved(successors.len() - 1).unwrap_or(0);
                let doubled = u32::try_from(rank - 1).ok().and_then(|t| least.checked_shl(t));
                Span(doubled.unwrap_or(most).min(most))
            }
        }
    }

    /// The leader of an epoch speaks for itself.
    fn hear(
        &mut self,
        epoch: Epoch,
        leader: ReplicaId,
        told: &Arc<[Endpoint]>,
        in_charge: bool,
        out: &mut Vec<Effect>,
    ) -> Result<(), ErrorKind> {
        if epoch > LAST_EPOCH {
            return Err(ErrorKind::InvalidRequest);
        }
        if epoch < self.standing.epoch {
            return Err(ErrorKind::FencedLeaderEpoch);
        }
        if Some(leader) == self.id() {
            out.push(Effect::Complain { what: Complaint::SharesOurId { id: leader } });
            return Err(ErrorKind::InvalidRequest);
        }
        self.adopt(epoch, Some(leader), told, in_charge, out).map_err(|what| {
            out.push(Effect::Complain { what });
            ErrorKind::InvalidRequest
        })
    }

    // --- Answers

    /// What all answers have in common. True if the rest of the answer is to be used [P34].
    pub(crate) fn learn(&mut self, node: Node, view: &LeaderView, out: &mut Vec<Effect>) -> bool {
        let known = self.standing.epoch;
        if view.epoch > LAST_EPOCH {
            self.refuse(node, Complaint::Malformed, out);
            return false;
        }
        if view.epoch < known || view.error == ErrorKind::UnknownLeaderEpoch {
            self.back_off(node);
            return false;
        }
        let before = (known, self.role.name());
        if let Err(what) = self.adopt(view.epoch, view.leader, &view.endpoints, false, out) {
            self.refuse(node, what, out);
            return false;
        }
        if view.epoch > known {
            return false; // Its content belongs to an epoch that we had not asked in.
        }
        let moved = before != (self.standing.epoch, self.role.name());
        match view.error {
            ErrorKind::None => return true,
            // News: act on them at once.
            ErrorKind::FencedLeaderEpoch | ErrorKind::NotLeaderOrFollower if moved => {}
            ErrorKind::InvalidRequest => self.refuse(node, Complaint::CalledInvalid, out),
            ErrorKind::FencedLeaderEpoch
            | ErrorKind::BrokerNotAvailable
            | ErrorKind::NotLeaderOrFollower
            | ErrorKind::UnknownLeaderEpoch
            | ErrorKind::InvalidVoterKey
            | ErrorKind::UnsupportedVersion
            | ErrorKind::InconsistentClusterId
            | ErrorKind::SnapshotNotFound
            | ErrorKind::PositionOutOfRange
            | ErrorKind::RequestTimedOut
            | ErrorKind::VoterNotFound
            | ErrorKind::DuplicateVoter
            | ErrorKind::InvalidUpdateVersion
            | ErrorKind::Other(_) => self.back_off(node),
        }
        false
    }

    // --- Both

    /// Takes over what a message says of the leadership of its epoch, which must not be a lower
    /// one. `in_charge`: the leader itself says that it leads. An error moved nothing.
    fn adopt(
        &mut self,
        epoch: Epoch,
        leader: Option<ReplicaId>,
        told: &Arc<[Endpoint]>,
        in_charge: bool,
        out: &mut Vec<Effect>,
    ) -> Result<(), Complaint> {
        let later = epoch > self.standing.epoch;
        if leader.is_some() && leader == self.id() {
            let leads = !later && self.standing.leader == leader;
            return if leads { Ok(()) } else { Err(Complaint::NamedAsLeader { epoch }) };
        }
        let reachable = leader.and_then(|leader| self.reachable(leader, told));
        if later {
            let mut standing = Standing { leader, ..Standing::fresh(epoch) };
            match reachable {
                Some(endpoints) => {
                    standing.endpoints = endpoints;
                    self.become_follower(standing, out);
                }
                // Remembered: who knows of a leader gives no vote [P14].
                None => self.become_unattached(standing, out),
            }
            return Ok(());
        }
        let Some(leader) = leader else { return Ok(()) };
        let more = told.len() > self.standing.endpoints.len();
        match self.standing.leader {
            Some(known) if known != leader => {
                Err(Complaint::TwoLeaders { epoch, known, told: leader })
            }
            Some(_) => {
                match (&self.role, reachable) {
                    (Role::Follower(_), _) if more => self.standing.endpoints = told.clone(),
                    // Given up on, but it still leads, or can be reached now.
                    (Role::Unattached(_) | Role::Prospective(_), Some(endpoints))
                        if in_charge || more =>
                    {
                        let standing = Standing { endpoints, ..self.standing.clone() };
                        self.become_follower(standing, out);
                    }
                    (
                        Role::Follower(_)
                        | Role::Unattached(_)
                        | Role::Prospective(_)
                        | Role::Candidate(_)
                        | Role::Leader(_)
                        | Role::Resigned(_),
                        Some(_) | None,
                    ) => {}
                }
                Ok(())
            }
            None => {
                match (&self.role, reachable) {
                    (_, Some(endpoints)) => {
                        let standing =
                            Standing { leader: Some(leader), endpoints, ..self.standing.clone() };
                        self.become_follower(standing, out);
                    }
                    (Role::Unattached(_) | Role::Prospective(_), None) => {
                        self.standing.leader = Some(leader);
                        self.persist(out);
                    }
                    // It has lost, and finds the leader when its timeout ends.
                    (
                        Role::Candidate(_)
                        | Role::Follower(_)
                        | Role::Leader(_)
                        | Role::Resigned(_),
                        None,
                    ) => {}
                }
                Ok(())
            }
        }
    }

    /// Where a leader listens: as told, else as the voter set says; `None` if neither knows it.
    /// Nobody follows a leader that it cannot reach.
    pub(crate) fn reachable(
        &self,
        leader: ReplicaId,
        told: &Arc<[Endpoint]>,
    ) -> Option<Arc<[Endpoint]>> {
        if !told.is_empty() {
            return Some(told.clone());
        }
        self.decrees.voters().by_id(leader).map(|voter| voter.endpoints.clone())
    }
}
