//! The epoch table: where in the log each leadership period begins.
//!
//! Two logs that agree on the epoch of the record at an offset agree on all below it; so this table
//! is all that is needed to find where they part [P27]. It must follow every append and every
//! truncation.

use quorate_base::{Epoch, Offset, OffsetEpoch};

/// `(epoch, first offset)`, both strictly ascending; every offset lies below the end of the log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Epochs {
    /// The epoch of the record before the start of the log: that of the snapshot which ends there.
    /// `None` if there is no such record, or none that is known.
    before: Option<Epoch>,
    entries: Vec<(Epoch, Offset)>,
}

impl Epochs {
    /// `None` unless epochs and offsets ascend from `start` and stay below `end`.
    pub(crate) fn new(
        before: Option<Epoch>,
        entries: Vec<(Epoch, Offset)>,
        start: Offset,
        end: Offset,
    ) -> Option<Epochs> {
        let ascending = entries.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1);
        let follows = entries.first().is_none_or(|first| before.is_none_or(|b| b <= first.0));
        let covers = match (entries.first(), entries.last()) {
            (Some(first), Some(last)) => first.1 == start && last.1 < end,
            (None, None) => start == end,
            (Some(_), None) | (None, Some(_)) => false,
        };
        (ascending && follows && covers).then_some(Epochs { before, entries })
    }

    /// Those of a log that a snapshot of this epoch takes the place of.
    pub(crate) fn behind(epoch: Epoch) -> Epochs {
        Epochs { before: Some(epoch), entries: Vec::new() }
    }

    /// The epoch of the last record, even if it went into a snapshot; 0 when there is none.
    pub(crate) fn last(&self) -> Epoch {
        self.entries.last().map(|entry| entry.0).or(self.before).unwrap_or(Epoch::ZERO)
    }

    /// The epoch of the record before `end`, which lies in the log.
    pub(crate) fn last_below(&self, end: Offset) -> Epoch {
        let after = self.entries.partition_point(|entry| entry.1 < end);
        let entry = after.checked_sub(1).and_then(|at| self.entries.get(at));
        entry.map(|entry| entry.0).or(self.before).unwrap_or(Epoch::ZERO)
    }

    /// The log, which ends at `end`, begins at `start` now; `epoch` is that of the record before.
    pub(crate) fn trim(&mut self, start: Offset, epoch: Epoch, end: Offset) {
        let after = self.entries.partition_point(|entry| entry.1 <= start);
        self.entries.drain(..after.saturating_sub(1));
        match self.entries.first_mut() {
            Some(_) if start == end => self.entries.clear(),
            Some(first) => first.1 = first.1.max(start),
            None => {}
        }
        self.before = Some(epoch);
    }

    /// Records of `epoch` follow from `base` on.
    pub(crate) fn append(&mut self, epoch: Epoch, base: Offset) {
        assert!(epoch >= self.last(), "epoch {epoch} at {base} after epoch {}", self.last());
        if self.entries.is_empty() || epoch > self.last() {
            self.entries.push((epoch, base));
        }
    }

    /// Forgets what begins at `end` or later.
    pub(crate) fn truncate(&mut self, end: Offset) {
        let keep = self.entries.partition_point(|entry| entry.1 < end);
        self.entries.truncate(keep);
    }

    /// Where the largest known epoch that is not above `epoch` ends, in a log that ends at `end`;
    /// `None` below the first one.
    pub(crate) fn end_of(&self, epoch: Epoch, end: Offset) -> Option<OffsetEpoch> {
        let next = self.entries.partition_point(|entry| entry.0 <= epoch);
        let known = match next.checked_sub(1) {
            Some(at) => self.entries[at].0,
            None => self.before.filter(|before| *before <= epoch)?,
        };
        let end = self.entries.get(next).map_or(end, |entry| entry.1);
        Some(OffsetEpoch::new(end, known))
    }

    /// See the field.
    pub(crate) fn before(&self) -> Option<Epoch> {
        self.before
    }

    pub(crate) fn entries(&self) -> &[(Epoch, Offset)] {
        &self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entries: &[(u32, u64)], end: u64) -> Epochs {
        let entries = entries.iter().map(|(e, o)| (Epoch(*e), Offset(*o))).collect();
        Epochs::new(None, entries, Offset(0), Offset(end)).expect("a sound table")
    }

    #[test]
    fn end_of_an_epoch_b120() {
        let epochs = table(&[(2, 0), (3, 4), (6, 9)], 12);
        let check = |epoch, expect: Option<(u64, u32)>| {
            let expect = expect.map(|(end, epoch)| OffsetEpoch::new(Offset(end), Epoch(epoch)));
            assert_eq!(epochs.end_of(Epoch(epoch), Offset(12)), expect, "epoch {epoch}");
        };
        check(1, None);
        check(2, Some((4, 2)));
        check(3, Some((9, 3)));
        check(4, Some((9, 3)));
        check(6, Some((12, 6)));
        check(7, Some((12, 6)));
        assert_eq!(Epochs::default().end_of(Epoch(3), Offset(0)), None);
    }

    #[test]
    fn truncation_drops_epochs_that_lost_their_first_record() {
        for (end, left) in [(12, 3), (10, 3), (9, 2), (5, 2), (4, 1), (1, 1), (0, 0)] {
            let mut epochs = table(&[(2, 0), (3, 4), (6, 9)], 12);
            epochs.truncate(Offset(end));
            assert_eq!(epochs.entries().len(), left, "end {end}");
        }
    }

    #[test]
    fn an_epoch_is_entered_once_and_never_falls() {
        let mut epochs = Epochs::default();
        epochs.append(Epoch(0), Offset(0));
        epochs.append(Epoch(0), Offset(1));
        epochs.append(Epoch(4), Offset(2));
        assert_eq!(epochs.entries(), [(Epoch(0), Offset(0)), (Epoch(4), Offset(2))]);
        assert!(std::panic::catch_unwind(move || epochs.append(Epoch(3), Offset(3))).is_err());
    }

    #[test]
    fn a_trimmed_table_begins_at_the_start_and_knows_the_epoch_before() {
        let check = |start, before, entries: &[(u32, u64)]| {
            let mut epochs = table(&[(2, 0), (3, 4), (6, 9)], 12);
            epochs.trim(Offset(start), Epoch(before), Offset(12));
            let expect: Vec<_> = entries.iter().map(|(e, o)| (Epoch(*e), Offset(*o))).collect();
            assert_eq!(epochs.entries(), expect, "start {start}");
            assert_eq!(epochs.last(), Epoch(6), "start {start}");
            assert_eq!(epochs.last_below(Offset(start)), Epoch(before), "start {start}");
            let end = epochs.end_of(Epoch(before), Offset(12)).map(|end| end.epoch);
            assert_eq!(end, Some(Epoch(before)), "start {start}");
        };
        check(2, 2, &[(2, 2), (3, 4), (6, 9)]);
        check(4, 2, &[(3, 4), (6, 9)]);
        check(5, 3, &[(3, 5), (6, 9)]);
        check(11, 6, &[(6, 11)]);
        check(12, 6, &[]);
    }

    #[test]
    fn behind_a_snapshot_its_epoch_is_the_last_one() {
        let mut epochs = Epochs::behind(Epoch(4));
        assert_eq!(epochs.last(), Epoch(4));
        assert_eq!(epochs.end_of(Epoch(3), Offset(9)), None);
        assert_eq!(epochs.end_of(Epoch(5), Offset(9)), Some(OffsetEpoch::new(Offset(9), Epoch(4))));
        epochs.append(Epoch(4), Offset(9));
        epochs.append(Epoch(7), Offset(11));
        epochs.truncate(Offset(9));
        assert_eq!((epochs.entries().len(), epochs.last()), (0, Epoch(4)));
    }

    #[test]
    fn unsound_tables_are_refused() {
        let sound = |entries: &[(u32, u64)], end| {
            let entries = entries.iter().map(|(e, o)| (Epoch(*e), Offset(*o))).collect();
            Epochs::new(None, entries, Offset(0), Offset(end)).is_some()
        };
        assert!(sound(&[], 0));
        assert!(sound(&[(1, 0)], 1));
        assert!(!sound(&[], 1));
        assert!(!sound(&[(1, 0)], 0));
        assert!(!sound(&[(1, 1)], 2));
        assert!(!sound(&[(1, 0), (1, 1)], 2));
        assert!(!sound(&[(2, 0), (1, 1)], 2));
        assert!(!sound(&[(1, 0), (2, 0)], 2));
    }
}
