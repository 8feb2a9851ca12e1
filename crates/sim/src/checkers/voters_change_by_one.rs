//! In every log each set of voters differs from the one before by one voter at most: one that came
//! or one that went [P71]. So majorities of neighbours meet, and as the committed log is one, the
//! sets that are committed form one chain.

use super::Failure;
use crate::book::{Book, Entry};
use crate::seats::{Change, Seats, difference};
use quorate_base::{Epoch, Offset, ReplicaKey};
use std::collections::BTreeMap;

/// Every change that any log ever held, by the epoch and the offset of its record.
#[derive(Default)]
pub(crate) struct VotersChangeByOne {
    pub changes: BTreeMap<(Epoch, Offset), (Change, ReplicaKey)>,
}

impl VotersChangeByOne {
    /// A log holds batches `known` to `until`; those before were seen there already.
    pub fn see(
        &mut self,
        node: usize,
        book: &Book,
        seats: &Seats,
        known: usize,
        until: usize,
    ) -> Result<(), Failure> {
        let named = |entry: &Entry| entry.voters.is_some();
        for at in (known..until).filter(|at| named(&book.entries[*at])) {
            let (before, entry) = (seats.behind(&book.entries[..at]), &book.entries[at]);
            let after = seats.behind(&book.entries[..=at]);
            match difference(before, after)[..] {
                [] => {}
                [change] => {
                    self.changes.insert((entry.epoch, entry.base), change);
                }
                _ => {
                    let what = format!(
                        "node {}: the record at {} of epoch {} makes {after:?} of the voters \
                         {before:?}",
                        node + 1,
                        entry.base,
                        entry.epoch
                    );
                    return Err(Failure::new("voters_change_by_one", what));
                }
            }
        }
        Ok(())
    }
}
