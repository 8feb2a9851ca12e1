//! What one process knew to be committed it never un-knows: its high watermark may be unknown for a
//! while, but never lower than before [P13].

use super::{Failure, Sight};
use crate::network::Process;
use quorate_base::Offset;
use std::collections::BTreeMap;

/// The last known high watermark of each process.
#[derive(Default)]
pub(crate) struct HighWatermarkNeverFalls {
    known: BTreeMap<Process, Offset>,
}

impl HighWatermarkNeverFalls {
    pub fn see(&mut self, sight: &Sight<'_>) -> Result<(), Failure> {
        let Some(now) = sight.view.high_watermark else { return Ok(()) };
        match self.known.insert(sight.process, now) {
            Some(before) if before > now => Err(Failure::new(
                "high_watermark_never_falls",
                format!("node {} went from {before} to {now}", sight.process.node + 1),
            )),
            Some(_) | None => Ok(()),
        }
    }
}
