//! A replica whose log was damaged votes as if it held all that it held, and does not stand [P62].
//!
//! It may have acknowledged what it lost. If it judged others by what is left, it could help to
//! elect a log that lacks committed records. It must never forget this over a restart: the caller
//! keeps `must_reach` on disk until [`Write::Reached`].

use crate::effect::{Effect, Write};
use crate::mutants::mutant;
use crate::quorum::Quorum;
use quorate_base::OffsetEpoch;

impl Quorum {
    pub(crate) fn is_damaged(&self) -> bool {
        self.must_reach.is_some()
    }

    /// Whether a log that ends there holds all that this one held before it was damaged.
    pub(crate) fn allows(&self, last: OffsetEpoch) -> bool {
        let lost = self.must_reach.filter(|_| !mutant!(self, VoteWhileDamaged));
        lost.is_none_or(|lost| last.log_order() >= lost.log_order())
    }

    /// Something became durable: enough to be as any other again?
    pub(crate) fn reach(&mut self, out: &mut Vec<Effect>) {
        let Some(lost) = self.must_reach else { return };
        let durable = self.writes.durable();
        let held = OffsetEpoch::new(durable, self.epochs.last_below(durable));
        // A record of a later epoch comes from a leader whose log held all that was committed.
        if durable >= self.start && held.log_order() >= lost.log_order() {
            self.must_reach = None;
            let id = self.writes.issue();
            out.push(Effect::Write { id, write: Write::Reached });
        }
    }
}
