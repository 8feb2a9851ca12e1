//! What the protocol does for logs that are cleaned by key: tells what a log lacks with its
//! records, notices who must start over, and says which tombstones may go.
//!
//! Cleans nothing and sees no keys. All of it is ours; Kafka's peers are told nothing of it, and
//! tell nothing [P81].

use crate::effect::Complaint;
use crate::leader::{Leader, Progress};
use crate::message::FetchAnswer;
use crate::mutants::mutant;
use crate::quorum::Quorum;
use crate::role::Role;
use quorate_base::{Cleaned, Offset};

/// What becomes of the records of an answer.
pub(crate) enum Use {
    /// They may be appended.
    Take,
    /// Tombstones for records that this log holds may be missing: it must start over [P82].
    StartOver,
}

impl Leader {
    /// Below it every voter holds all tombstones durably, so that they may go; `None` where a voter
    /// does not know our numbers, and would pass cleaned records on without them [P83].
    pub(crate) fn bound(&self, durable: Offset) -> Option<Offset> {
        let foreign = |voter: &Progress| voter.fetched_at.is_some() && !voter.tagged;
        if self.voters.iter().any(foreign) {
            return None;
        }
        // One that has not fetched from this leader may hold nothing.
        let ends = self.voters.iter().map(|voter| voter.end.unwrap_or(Offset::ZERO));
        Some(ends.fold(durable, Offset::min))
    }

    /// Whether nobody was told that tombstones may go which this replica may not hold.
    pub(crate) fn holds_tombstones(&self, end: Offset) -> bool {
        end >= self.bound_told
    }
}

impl Quorum {
    /// Told with an answer, and remembered: followers collect by it as long as they like.
    pub(crate) fn tell_bound(&mut self) -> Option<Offset> {
        let durable = self.writes.durable();
        if mutant!(self, CollectUnheld) {
            return Some(durable);
        }
        let Role::Leader(leader) = &mut self.role else { return None };
        let bound = leader.bound(durable);
        leader.bound_told = leader.bound_told.max(bound.unwrap_or(Offset::ZERO));
        bound
    }

    /// Below which tombstones may be collected here; `None` if this log must not be cleaned now.
    pub(crate) fn may_collect(&self) -> Option<Offset> {
        match &self.role {
            Role::Leader(leader) => leader.bound(self.writes.durable()),
            Role::Follower(role) => role.bound,
            Role::Unattached(_) | Role::Prospective(_) | Role::Candidate(_) | Role::Resigned(_) => {
                None
            }
        }
    }

    /// Judges the records of an answer by what the leader's log lacks.
    pub(crate) fn judge_cleaned(&self, answer: &FetchAnswer) -> Result<Use, Complaint> {
        let Some(told) = self.told(answer)? else { return Ok(Use::Take) };
        let from = self.end;
        let ghosts = from > self.start && from.max(self.least_clean()) < told.horizon;
        match ghosts && !mutant!(self, KeepGhosts) {
            false => Ok(Use::Take),
            // Every voter held these tombstones when they were collected [P83].
            true if self.is_voter() && !self.is_damaged() => {
                Err(Complaint::TombstonesGone { end: from, horizon: told.horizon })
            }
            true => Ok(Use::StartOver),
        }
    }

    /// Records were appended that such a log had.
    pub(crate) fn note_cleaned(&mut self, answer: &FetchAnswer) {
        // Who tells nothing has not cleaned either, nor copied what was cleaned.
        let clean = answer.cleaned.unwrap_or(Cleaned::NEVER).clean;
        self.clean = Some(self.least_clean().min(clean));
    }

    /// Below it everything superseded is gone from this log, by what it was built from.
    fn least_clean(&self) -> Offset {
        self.clean.unwrap_or(Offset(u64::MAX))
    }

    /// Who knows our numbers sends no records without them: they would be taken for whole.
    fn told(&self, answer: &FetchAnswer) -> Result<Option<Cleaned>, Complaint> {
        match (answer.round, answer.cleaned) {
            (Some(_), None) if !mutant!(self, TakeUnnumbered) => Err(Complaint::Unnumbered),
            (Some(_) | None, Some(cleaned))
                if cleaned.horizon.max(cleaned.clean) > cleaned.dirty =>
            {
                Err(Complaint::Malformed)
            }
            (Some(_) | None, cleaned) => Ok(cleaned),
        }
    }
}
