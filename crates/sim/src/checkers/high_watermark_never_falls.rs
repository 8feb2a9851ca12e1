//! What one process knew to be committed it never un-knows: its high watermark may be unknown for a
//! while, but never lower than before [P13]. And what the leader of one epoch showed as committed,
//! no leader of a later epoch ever falls short of.

use super::{Failure, Sight};
use crate::network::Process;
use quorate_base::{Epoch, Offset};
use quorate_raft::RoleName;
use std::collections::BTreeMap;

const NAME: &str = "high_watermark_never_falls";

/// The last known high watermark of each process, and of each epoch what its leaders showed.
#[derive(Default)]
pub(crate) struct HighWatermarkNeverFalls {
    known: BTreeMap<Process, Offset>,
    /// The lowest and the highest.
    led: BTreeMap<Epoch, (Offset, Offset)>,
}

impl HighWatermarkNeverFalls {
    pub fn see(&mut self, sight: &Sight<'_>) -> Result<(), Failure> {
        let Some(now) = sight.view.high_watermark else { return Ok(()) };
        if sight.view.role == RoleName::Leader {
            self.leads(sight.process.node, sight.view.epoch, now)?;
        }
        match self.known.insert(sight.process, now) {
            Some(before) if before > now => Err(Failure::new(
                NAME,
                format!("node {} went from {before} to {now}", sight.process.node + 1),
            )),
            Some(_) | None => Ok(()),
        }
    }

    fn leads(&mut self, node: usize, epoch: Epoch, now: Offset) -> Result<(), Failure> {
        let failure = |other: &Epoch, theirs: &Offset| {
            let what = format!(
                "node {} shows {now} as leader of epoch {epoch}, epoch {other} had {theirs}",
                node + 1
            );
            Err(Failure::new(NAME, what))
        };
        if let Some((earlier, (_, most))) = self.led.range(..epoch).next_back()
            && *most > now
        {
            return failure(earlier, most);
        }
        let later = self.led.range(Epoch(epoch.0 + 1)..).next();
        if let Some((later, (least, _))) = later
            && *least < now
        {
            return failure(later, least);
        }
        let (least, most) = self.led.entry(epoch).or_insert((now, now));
        (*least, *most) = ((*least).min(now), (*most).max(now));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaders_of_two_epochs_are_compared_whoever_is_seen_first() {
        let mut seen = HighWatermarkNeverFalls::default();
        assert!(seen.leads(0, Epoch(2), Offset(7)).is_ok());
        assert!(seen.leads(1, Epoch(4), Offset(6)).is_err());
        assert!(seen.leads(1, Epoch(4), Offset(9)).is_ok());
        assert!(seen.leads(0, Epoch(2), Offset(9)).is_ok());
        assert!(seen.leads(0, Epoch(2), Offset(10)).is_err());
        assert!(seen.leads(2, Epoch(3), Offset(8)).is_err());
    }
}
