//! The numbers that a cleaned log carries besides its records, and how they are passed on.
//!
//! They are what makes a claim of consistency sound: an estimate may be wrong in one direction
//! only. `dirty`, `horizon` and `required` may be too high, `clean` and `dmin` too low; the price
//! is a later claim or one more reading of the log. Never the other way round.

use quorate_base::{Cleaned, Offset};

/// Where records came from that are about to be appended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Came {
    /// This replica leads and made them.
    Own,
    /// From a leader whose log said this of itself in the same answer.
    Fetched(Cleaned),
}

/// What whoever builds a state of a log remembers of the answers that it was built from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reading {
    /// The state is a consistent version once all below is applied: the highest `dirty`.
    pub required: Offset,
    /// The lowest `clean`; `None` before the first answer.
    pub dmin: Option<Offset>,
}

impl Reading {
    /// A state that begins with a snapshot, which is a version.
    pub fn behind_snapshot(end: Offset) -> Reading {
        Reading { required: end, dmin: Some(end) }
    }

    /// Whether an answer to a fetch from `from` must be dropped and all be read anew, from offset 0
    /// on: a tombstone may be missing there of a record that was read before.
    pub fn must_start_over(&self, from: Offset, numbers: &Cleaned) -> bool {
        // A tombstone that is missing lay at `from` or behind it, and at `dmin` or behind it, for
        // all that was superseded below had gone before it was read.
        from > Offset::ZERO && from.max(self.dmin.unwrap_or_default()) < numbers.horizon
    }

    /// Takes an answer in; before its records are stored.
    pub fn take(&mut self, numbers: &Cleaned) {
        self.required = self.required.max(numbers.dirty);
        self.dmin = Some(self.dmin.map_or(numbers.clean, |dmin| dmin.min(numbers.clean)));
    }

    /// Whether the state of all below `applied` is a version of the log.
    pub fn is_consistent(&self, applied: Offset) -> bool {
        applied >= self.required
    }
}

/// What a replica keeps durably of all this.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Carried {
    pub dirty: Offset,
    /// The lowest `clean` of what the log was built from; `None` while it is empty.
    pub built_from: Option<Offset>,
    pub horizon: Offset,
    /// The end of what this replica's own cleaner has been through.
    pub cleaner: Offset,
    pub reading: Reading,
}

impl Carried {
    pub fn numbers(&self) -> Cleaned {
        let clean = self.cleaner.max(self.built_from.unwrap_or_default());
        Cleaned { dirty: self.dirty, clean, horizon: self.horizon }
    }

    /// Takes in where the next records, those from `end` on, come from.
    pub fn inherit(&mut self, came: Came, end: Offset) {
        let clean = match came {
            // Nothing is missing above the end. Below a first one that is not at 0 nothing is said.
            Came::Own => self.built_from.map_or(Offset::ZERO, |_| end),
            Came::Fetched(numbers) => {
                self.dirty = self.dirty.max(numbers.dirty);
                self.horizon = self.horizon.max(numbers.horizon);
                self.reading.take(&numbers);
                numbers.clean
            }
        };
        self.built_from = Some(self.built_from.map_or(clean, |before| before.min(clean)));
    }

    /// Whether this says what no file says as well, of a log that has records: never cleaned.
    pub fn is_plain(&self) -> bool {
        let Carried { dirty, built_from, horizon, cleaner, reading } = *self;
        let zero = |offset: Option<Offset>| offset.is_none_or(|offset| offset == Offset::ZERO);
        let offsets = [dirty, horizon, cleaner, reading.required];
        offsets == [Offset::ZERO; 4] && zero(built_from) && zero(reading.dmin)
    }

    /// As it is to be taken for a log that has records: what it was built from is known.
    pub fn of_records(mut self) -> Carried {
        self.built_from.get_or_insert(Offset::ZERO);
        self.reading.dmin.get_or_insert(Offset::ZERO);
        self
    }

    /// What is safe to say of the whole log of the only voter, which ends at `end`, where nothing
    /// is known: it leads, so it holds all that was ever committed.
    pub fn nothing_known(end: Offset) -> Carried {
        let reading = Reading { required: end, dmin: Some(Offset::ZERO) };
        let (dirty, horizon, cleaner) = (end, end, Offset::ZERO);
        Carried { dirty, built_from: Some(Offset::ZERO), horizon, cleaner, reading }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(dirty: u64, clean: u64, horizon: u64) -> Cleaned {
        Cleaned { dirty: Offset(dirty), clean: Offset(clean), horizon: Offset(horizon) }
    }

    /// H13: a log that was copied from two leaders says of itself what both said.
    #[test]
    fn dirty_and_the_horizon_only_grow_and_clean_is_the_least() {
        let mut carried = Carried::default();
        assert_eq!(carried.numbers(), Cleaned::default());
        carried.inherit(Came::Fetched(numbers(9, 7, 5)), Offset(0));
        assert_eq!(carried.numbers(), numbers(9, 7, 5));
        carried.inherit(Came::Fetched(numbers(4, 2, 3)), Offset(7));
        assert_eq!(carried.numbers(), numbers(9, 2, 5));
        carried.inherit(Came::Own, Offset(12));
        assert_eq!(carried.numbers(), numbers(9, 2, 5), "an append counts as its offset");
        carried.cleaner = Offset(8);
        assert_eq!(carried.numbers(), numbers(9, 8, 5));
        let mut led = Carried::default();
        led.inherit(Came::Own, Offset(0));
        led.inherit(Came::Fetched(numbers(9, 7, 5)), Offset(3));
        assert_eq!(led.numbers(), numbers(9, 0, 5));
    }

    /// The worked example: who stopped at 9 with `dmin` 9 must begin anew once the tombstone at 9
    /// is gone, who began after that need not, and who begins never need.
    #[test]
    fn who_may_have_missed_a_tombstone_starts_over() {
        let after = numbers(11, 11, 10);
        let stalled = Reading { required: Offset(9), dmin: Some(Offset(9)) };
        assert!(stalled.must_start_over(Offset(9), &after));
        assert!(!stalled.must_start_over(Offset(10), &after));
        let fresh = Reading { required: Offset(11), dmin: Some(Offset(11)) };
        assert!(!fresh.must_start_over(Offset(7), &after));
        assert!(!Reading::default().must_start_over(Offset(0), &after));
        assert!(Reading::default().must_start_over(Offset(5), &after), "nothing known");
    }

    /// H1: the highest `dirty` counts, whoever answers next.
    #[test]
    fn a_reader_waits_for_the_highest_dirty_offset_that_it_was_told() {
        let mut reading = Reading::default();
        reading.take(&numbers(9, 9, 0));
        reading.take(&numbers(0, 0, 0));
        assert_eq!(reading, Reading { required: Offset(9), dmin: Some(Offset(0)) });
        assert!(!reading.is_consistent(Offset(8)) && reading.is_consistent(Offset(9)));
        assert!(Reading::behind_snapshot(Offset(5)).is_consistent(Offset(5)));
    }
}
