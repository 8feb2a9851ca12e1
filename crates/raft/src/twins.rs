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
use quorate_base::{ReplicaKey, Span, Time};
use std::sync::Arc;

impl Quorum {
    /// Whether another replica with the id of this voter follows this leader now, and the voter
    /// too: then somebody has two machines of one id, and each would take the other's place for
    /// ever [P85].
    pub(crate) fn runs_beside_another(&self, voter: ReplicaKey) -> bool {
        let Role::Leader(leader) = &self.role else { return false };
        let lately = |other: &&Progress| {
            other.fetched_at.is_some_and(|at| self.now.since(at) < self.config.fetch_timeout)
        };
        let mut voters = leader.voters.iter().filter(lately);
        let mut observers = leader.observers.iter().filter(lately);
        voters.any(|other| other.is_of(voter))
            && observers.any(|other| other.key.id == voter.id && !other.is_of(voter))
            && !mutant!(self, LetTwinsSwap)
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

    /// One that goes back where it came from, again and again, is two processes, with copies of one
    /// directory, of which each says where it is [P85]. Once or twice it may be an old request that
    /// comes late.
    pub(crate) fn note_move(
        &mut self,
        voter: &Voter,
        before: Option<Arc<[Endpoint]>>,
        out: &mut Vec<Effect>,
    ) {
        let (now, recent) = (self.now, Span(self.config.fetch_timeout.0 * 30));
        let (Role::Leader(leader), Some(from)) = (&mut self.role, before) else { return };
        let back = leader.moved.take().filter(|last| {
            last.key == voter.key && last.from == voter.endpoints && now.since(last.at) < recent
        });
        let returns = back.map_or(0, |last| last.returns + 1);
        if returns >= RETURNS {
            out.push(Effect::Complain { what: Complaint::CopiedDirectory { id: voter.key.id } });
        }
        leader.moved = Some(Moved { key: voter.key, from, at: now, returns });
    }
}

/// So often in a row a voter has to be back where it was before that is no late request any more.
const RETURNS: u32 = 3;

/// A voter's last move.
#[derive(Clone, Debug)]
pub(crate) struct Moved {
    key: ReplicaKey,
    /// Where it was before.
    from: Arc<[Endpoint]>,
    at: Time,
    /// How many moves up to this one, in a row, led back.
    returns: u32,
}
