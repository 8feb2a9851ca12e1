//! `leader-epoch-checkpoint`: at which offset each epoch that has records begins.
//!
//! The file repeats what the batches say. It is written after the records of a new epoch are synced
//! and before the synced mark passes them, and after a truncation before anything is appended; so a
//! crash leaves it at most behind the batches, or ahead by entries beyond their end. Recovery mends
//! both. Below the synced mark the two must agree, which guards the one field of a batch that its
//! checksum leaves out: the epoch.
//!
//! The first entry also says where the log begins, once a snapshot stands for what was before.

use crate::Header;
use crate::error::BadText;
use bytes::Bytes;
use quorate_base::{Epoch, Offset, OffsetEpoch};
use std::fmt::Write;

/// Its name.
pub(crate) const NAME: &str = "leader-epoch-checkpoint";

/// Epochs and their first offsets. Invariant: both grow from entry to entry, from `floor` on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EpochTable {
    /// Where the log begins, and the epoch of the record before.
    floor: OffsetEpoch,
    entries: Vec<(Epoch, Offset)>,
}

impl EpochTable {
    /// The entries, oldest first.
    pub fn entries(&self) -> &[(Epoch, Offset)] {
        &self.entries
    }

    /// The newest epoch that has records; behind a snapshot, that of the snapshot if there are
    /// none.
    pub fn last_epoch(&self) -> Option<Epoch> {
        self.entries.last().map(|(epoch, _)| *epoch).or(self.floor_epoch())
    }

    /// The epoch of the record before the start of a log that does not begin at 0.
    pub(crate) fn floor_epoch(&self) -> Option<Epoch> {
        (self.floor.offset > Offset::ZERO).then_some(self.floor.epoch)
    }

    /// The table of a log that begins, and ends, where a snapshot does.
    pub(crate) fn behind(floor: OffsetEpoch) -> EpochTable {
        EpochTable { floor, entries: Vec::new() }
    }

    /// The log, which ends at `end`, begins at `floor` from now on.
    pub(crate) fn advance(&mut self, floor: OffsetEpoch, end: Offset) {
        self.floor = floor;
        let OffsetEpoch { offset: start, .. } = floor;
        let after = self.entries.partition_point(|(_, first)| *first <= start);
        // What begins below the start or there goes, but for the epoch of the record there.
        let there = after.checked_sub(1).map(|at| self.entries[at].0);
        self.entries.drain(..after);
        if let Some(epoch) = there.filter(|_| start < end) {
            self.entries.insert(0, (epoch, start));
        }
    }

    /// Notes that a batch of `epoch` lies at `base`; tells whether that began an epoch.
    pub(crate) fn note(&mut self, epoch: Epoch, base: Offset) -> bool {
        let floor = self.floor.epoch;
        assert!(epoch >= floor, "epoch {epoch} at {base} follows a snapshot of epoch {floor}");
        if let Some((last, first)) = self.entries.last() {
            assert!(epoch >= *last, "epoch {epoch} at {base} follows epoch {last}");
            if epoch == *last {
                return false;
            }
            assert!(base > *first, "epoch {epoch} begins at {base}, epoch {last} at {first}");
        }
        self.entries.push((epoch, base));
        true
    }

    /// Drops what begins at `end` or later; tells whether anything did.
    pub(crate) fn truncate(&mut self, end: Offset) -> bool {
        let keep = self.entries.partition_point(|(_, first)| *first < end);
        let cut = keep < self.entries.len();
        self.entries.truncate(keep);
        cut
    }

    /// Those that the log is in from one offset to another, the first of them perhaps since before.
    pub(crate) fn within(&self, from: Offset, end: Offset) -> &[(Epoch, Offset)] {
        let entries = self.entries();
        let first = entries.partition_point(|(_, first)| *first <= from).saturating_sub(1);
        let last = entries.partition_point(|(_, first)| *first < end);
        &entries[first..last.max(first)]
    }

    /// The entries that begin below `end`.
    pub(crate) fn below(&self, end: Offset) -> &[(Epoch, Offset)] {
        &self.entries[..self.entries.partition_point(|(_, first)| *first < end)]
    }

    /// The file: version 0, the number of entries, an entry a line. The first one says where the
    /// log begins: an empty log behind a snapshot has the snapshot's epoch and end there.
    pub(crate) fn encode(&self) -> Bytes {
        let floor = (self.floor.epoch, self.floor.offset);
        let lines = match &self.entries[..] {
            [] if floor.1 > Offset::ZERO => std::slice::from_ref(&floor),
            entries => entries,
        };
        let mut text = format!("0\n{}\n", lines.len());
        for (epoch, first) in lines {
            writeln!(text, "{epoch} {first}").expect("a String takes all");
        }
        text.into()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<EpochTable, BadText> {
        let text = std::str::from_utf8(bytes)
            .map_err(|error| BadText::new(error.valid_up_to(), "text", "other bytes"))?;
        let mut position = 0;
        let mut lines = text.split_inclusive('\n').map(|line| {
            position += line.len();
            (position - line.len(), line.strip_suffix('\n'))
        });
        let mut line = |expected: &str| match lines.next() {
            Some((at, Some(line))) => Ok((at, line)),
            Some((at, None)) => Err(BadText::new(at, expected, "a line that was cut short")),
            None => Err(BadText::new(text.len(), expected, "the end of the file")),
        };

        let (at, version) = line("version 0")?;
        if version != "0" {
            return Err(BadText::new(at, "version 0", version));
        }
        let (at, count) = line("the number of entries")?;
        let count: usize =
            count.parse().map_err(|_| BadText::new(at, "the number of entries", count))?;
        let mut table = EpochTable::default();
        for _ in 0..count {
            let expected = "an epoch and its first offset, both larger than those before";
            let (at, line) = line(expected)?;
            let entry = line.split_once(' ').and_then(|(epoch, first)| {
                let epoch: i32 = epoch.parse().ok()?;
                let first: i64 = first.parse().ok()?;
                Some((Epoch(epoch.try_into().ok()?), Offset(first.try_into().ok()?)))
            });
            let last = table.entries.last();
            match entry {
                Some((epoch, first))
                    if last.is_none_or(|last| epoch > last.0 && first > last.1) =>
                {
                    table.entries.push((epoch, first));
                }
                Some(_) | None => return Err(BadText::new(at, expected, line)),
            }
        }
        match lines.next() {
            Some((at, _)) => Err(BadText::new(at, "the end of the file", "more lines")),
            None => Ok(table),
        }
    }
}

/// Whether entries of an epoch table, those of a part of the log or all, say of a batch there what
/// it says of itself. Its checksum leaves the epoch out.
pub(crate) fn agree(entries: &[(Epoch, Offset)], header: &Header) -> bool {
    let upto = entries.partition_point(|(_, first)| *first <= header.base);
    let epoch = upto.checked_sub(1).map(|at| entries[at].0);
    let within = entries.get(upto).is_some_and(|(_, first)| *first < header.end());
    !within && epoch.is_none_or(|epoch| epoch == header.epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_kafkas() {
        let mut table = EpochTable::default();
        assert_eq!(table.encode(), "0\n0\n");
        assert!(table.note(Epoch(1), Offset(0)));
        assert!(!table.note(Epoch(1), Offset(5)));
        assert!(table.note(Epoch(2), Offset(260)));
        assert_eq!(table.encode(), "0\n2\n1 0\n2 260\n");
        assert_eq!(EpochTable::decode(&table.encode()).unwrap(), table);
        assert!(!table.truncate(Offset(261)));
        assert!(table.truncate(Offset(260)));
        assert_eq!(table.entries(), [(Epoch(1), Offset(0))]);
    }

    #[test]
    fn damage_is_named() {
        let check = |text: &str, position: usize, found: &str| {
            let bad = EpochTable::decode(text.as_bytes()).unwrap_err();
            assert_eq!((bad.position, bad.found.as_str()), (position, found), "{text:?}");
        };
        check("", 0, "the end of the file");
        check("1\n0\n", 0, "1");
        check("0\n-1\n", 2, "-1");
        check("0\n99999999999\n", 14, "the end of the file");
        check("0\n1\n", 4, "the end of the file");
        check("0\n1\n1 0", 4, "a line that was cut short");
        check("0\n1\n-1 0\n", 4, "-1 0");
        check("0\n2\n1 0\n1 5\n", 8, "1 5");
        check("0\n2\n1 5\n2 5\n", 8, "2 5");
        check("0\n0\n1 0\n", 4, "more lines");
    }
}
