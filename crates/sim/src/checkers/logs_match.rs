//! Log matching: a batch of one epoch at one offset is the same batch in every log that ever holds
//! it, and so is all that precedes it. Holds above the high watermark too, hence below it. What a
//! leader has made and not yet stored counts once another log has it: until then a crash may undo
//! it, and the next life may lead the same epoch.

use super::Failure;
use crate::book::{Book, Entry};
use quorate_base::{Epoch, Offset};
use std::collections::BTreeMap;

/// Every batch that any log ever held, and the epoch of the one before it.
#[derive(Default)]
pub(crate) struct LogsMatch {
    batches: BTreeMap<(Epoch, Offset), (Entry, Epoch)>,
}

impl LogsMatch {
    /// A log holds batches `known` to `until`; those before were seen there already.
    pub fn see(
        &mut self,
        node: usize,
        book: &Book,
        known: usize,
        until: usize,
    ) -> Result<(), Failure> {
        let mut end = known.checked_sub(1).map_or(Offset::ZERO, |at| book.entries[at].end);
        let mut before = known.checked_sub(1).map_or(Epoch::ZERO, |at| book.entries[at].epoch);
        for entry in &book.entries[known..until] {
            let failure = |what: String| Err(Failure::new("logs_match", what));
            let node = node + 1;
            if entry.base != end || entry.epoch < before {
                return failure(format!(
                    "node {node}: a batch of epoch {} at {} after one of epoch {before} up to {end}",
                    entry.epoch, entry.base
                ));
            }
            let here = (entry.clone(), before);
            let known = self.batches.entry((entry.epoch, entry.base)).or_insert(here);
            if known.0 != *entry {
                return failure(format!(
                    "node {node}: the batch of epoch {} at {} ends at {}, another log's at {}, or \
                     their bytes differ",
                    entry.epoch, entry.base, entry.end, known.0.end
                ));
            }
            if known.1 != before {
                return failure(format!(
                    "node {node}: the batch of epoch {} at {} follows one of epoch {before}, in \
                     another log one of epoch {}",
                    entry.epoch, entry.base, known.1
                ));
            }
            (end, before) = (entry.end, entry.epoch);
        }
        Ok(())
    }
}
