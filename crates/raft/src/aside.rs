//! A replica that is not to lead (`never_lead`) and keeps its quorum from wedging all the same
//! [P66].
//!
//! It replicates, acknowledges and votes like any other. It asks for no votes while another voter
//! may still win: for some election timeouts after it lost its leader, or for one once it has had
//! to refuse a voter whose log is shorter. If it must lead then, it is a caretaker: the caller is
//! never told that it leads, and once another voter that may lead holds all that it holds it
//! resigns in its favour.

use crate::mutants::mutant;
use crate::quorum::Quorum;
use crate::role::{Follower, Role};
use quorate_base::{Offset, Span};

/// For how many election timeouts it waits for another to win: each attempt of the others takes
/// one to two.
const PATIENCE: u64 = 4;

impl Quorum {
    /// Whether it leaves the election to others for now. The first call without a leader starts its
    /// patience.
    pub(crate) fn stands_aside(&mut self) -> bool {
        if !self.config.never_lead || self.is_only_voter() {
            return false;
        }
        let patience = Span(self.config.election_timeout.0.saturating_mul(PATIENCE));
        let until = *self.aside.get_or_insert(self.now + patience);
        self.now < until || mutant!(self, StandAsideForever)
    }

    /// Whether a follower that will not stand itself lets another ask a little earlier than its own
    /// timer would: half of it is gone, and nobody else will ask on its behalf.
    pub(crate) fn would_rather_another(&self, role: &Follower) -> bool {
        let half = Span(self.config.fetch_timeout.0 / 2);
        self.config.never_lead && role.fetch_at <= self.now + half
    }

    /// There is a leader again, perhaps this replica: patience begins anew with the next loss.
    pub(crate) fn content(&mut self) {
        self.aside = None;
    }

    /// A voter asked for a vote that its log is too short for: perhaps no other can win.
    pub(crate) fn is_needed(&mut self) {
        if self.aside.is_some() {
            let soon = self.random_election_at();
            self.aside = self.aside.map(|until| until.min(soon));
        }
    }

    /// Whether it leads, and leads only until another can. A sole voter has nobody to wait for.
    pub fn is_caretaker(&self) -> bool {
        let leads = matches!(self.role, Role::Leader(_)) && !self.is_only_voter();
        self.config.never_lead && leads && !mutant!(self, ServeAsCaretaker)
    }

    /// Whether another voter could take over from this caretaker without losing a record.
    pub(crate) fn is_relieved(&self) -> bool {
        let Role::Leader(leader) = &self.role else { return false };
        let all_there = |end: Option<Offset>| end >= Some(self.end);
        self.is_caretaker()
            && self.high_watermark == Some(self.end)
            && leader.voters.iter().any(|voter| !voter.never_leads && all_there(voter.end))
    }
}
