//! A replica whose log was damaged has no say until it holds again all that it held [P62].
//!
//! It may have acknowledged what it lost. If it voted now, it could help to elect a log that lacks
//! committed records. It must never forget this over a restart: the caller keeps `must_reach` on
//! disk until [`Write::Reached`].

use crate::effect::{Effect, Write};
use crate::quorum::Quorum;
use quorate_base::OffsetEpoch;

impl Quorum {
    pub(crate) fn is_damaged(&self) -> bool {
        self.must_reach.is_some()
    }

    /// Something became durable: enough to have a say again?
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
