//! Two machines that are one node by their settings: with one id and two directories, or with two
//! copies of one directory.
//!
//! Neither can be told from a node that was given a new disk, or moved, by what it says once; by
//! what it goes on saying it can [P85]. Ends neither of them: a human knows which is meant.

use crate::effect::{Complaint, Effect};
use crate::leader::Progress;
use crate::message::Endpoint;
use crate::mutants::mutant;
use crate::quorum::Quorum;
use crate::role::Role;
use crate::voters::Voter;
use quorate_base::{ReplicaKey, Span};
use std::sync::Arc;

impl Quorum {
    /// Another replica with the id of this voter, if both follow this leader now: then somebody has
    /// two machines of one id, and each would take the other's place for ever [P85].
    pub(crate) fn runs_beside_another(&self, voter: ReplicaKey) -> Option<ReplicaKey> {
        let Role::Leader(leader) = &self.role else { return None };
        let lately = |other: &&Progress| {
            other.fetched_at.is_some_and(|at| self.now.since(at) < self.config.fetch_timeout)
        };
        leader.voters.iter().filter(lately).find(|other| other.is_of(voter))?;
        let mut observers = leader.observers.iter().filter(lately);
        let twin = observers.find(|other| other.key.id == voter.id && !other.is_of(voter));
        twin.map(|twin| twin.key).filter(|_| !mutant!(self, LetTwinsSwap))
    }

    /// A human must look once both have fetched since such a request was first refused: before, the
    /// disk may have been replaced a moment ago.
    pub(crate) fn note_twins(&mut self, voter: ReplicaKey, out: &mut Vec<Effect>) {
        let (now, Role::Leader(leader)) = (self.now, &mut self.role) else { return };
        let since = match leader.twins {
            Some((known, since)) if known == voter => since,
            Some(_) | None => {
                leader.twins = Some((voter, now));
                return;
            }
        };
        if leader.voters.iter().any(|known| known.is_of(voter) && known.fetched_at > Some(since)) {
            out.push(Effect::Complain { what: Complaint::RunsTwice { id: voter.id } });
        }
    }

    /// One that goes back where it came from a moment ago may be two processes, with copies of one
    /// directory, of which each says where it is [P85].
    pub(crate) fn note_move(
        &mut self,
        voter: &Voter,
        before: Option<Arc<[Endpoint]>>,
        out: &mut Vec<Effect>,
    ) {
        let (now, recent) = (self.now, Span(self.config.fetch_timeout.0 * 30));
        let Role::Leader(leader) = &mut self.role else { return };
        let last = leader.moved.take();
        let back = last.is_some_and(|(key, from, at)| {
            key == voter.key && from == voter.endpoints && now.since(at) < recent
        });
        if back {
            out.push(Effect::Complain { what: Complaint::CopiedDirectory { id: voter.key.id } });
        }
        leader.moved = before.map(|before| (voter.key, before, now));
    }
}
