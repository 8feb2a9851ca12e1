//! In every log each set of voters differs from the one before by one voter at most: one that came
//! or one that went [P71], or one that has another directory [P80]; and whatever a majority of one
//! of the two is, it meets every majority of the other. As the committed log is one, the sets that
//! are committed form one chain.

use super::Failure;
use crate::book::{Book, Entry};
use crate::seats::{Change, Seats, difference};
use quorate_base::{Epoch, Offset, ReplicaKey};
use std::collections::BTreeMap;

/// Every change that any log ever held, by the epoch and the offset of its record.
#[derive(Default)]
pub(crate) struct VotersChangeByOne {
    pub changes: BTreeMap<(Epoch, Offset), Vec<(Change, ReplicaKey)>>,
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
            let changes = difference(before, after);
            let one = match changes[..] {
                [] => continue,
                [_] => true,
                [(Change::Add, new), (Change::Remove, old)] => new.id == old.id,
                [..] => false,
            };
            if !one || !majorities_meet(before, after) {
                let what = format!(
                    "node {}: the record at {} of epoch {} makes {after:?} of the voters {before:?}",
                    node + 1,
                    entry.base,
                    entry.epoch
                );
                return Err(Failure::new("voters_change_by_one", what));
            }
            self.changes.insert((entry.epoch, entry.base), changes);
        }
        Ok(())
    }
}

/// Whether no majority of one set can do without all that are in a majority of the other: each may
/// have all that are in it alone.
fn majorities_meet(one: &[ReplicaKey], other: &[ReplicaKey]) -> bool {
    let both = one.iter().filter(|key| other.contains(key)).count();
    let rest = |set: &[ReplicaKey]| (set.len() / 2 + 1).saturating_sub(set.len() - both);
    rest(one) + rest(other) > both
}
