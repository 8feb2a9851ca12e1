//! The table of epochs that a replica answers from is that of its log: each epoch begins where its
//! first batch does, and none is missing. What the replica has not yet given to its disk is not
//! looked at.

use super::Failure;
use crate::book::Book;
use quorate_base::{Epoch, Offset};

/// Compares the table with the batches of the log from its start on; there are no gaps.
pub(crate) fn epoch_table_matches_log(
    node: usize,
    start: Offset,
    table: &[(Epoch, Offset)],
    book: &Book,
) -> Result<(), Failure> {
    let begins = start;
    let failure = |what: String| {
        let what = format!("node {}: {what}", node + 1);
        Err(Failure::new("epoch_table_matches_log", what))
    };
    let Some(last) = book.entries.last() else { return Ok(()) };
    let known = &table[..table.partition_point(|(_, start)| *start < last.end)];
    let mut before = None;
    for (epoch, start) in known {
        let first = before.is_none() && *start == begins;
        let at = book.entries.partition_point(|entry| entry.base < *start);
        let there = book.entries.get(at).map(|entry| (entry.epoch, entry.base));
        if there != Some((*epoch, *start)) {
            return failure(format!("epoch {epoch} begins at {start}, the log has {there:?}"));
        }
        let previous = at.checked_sub(1).map(|at| book.entries[at].epoch);
        // The epoch at which a trimmed log begins may have begun before.
        if previous != before && !(first && begins > Offset::ZERO) {
            return failure(format!("before epoch {epoch}: {before:?}, in the log {previous:?}"));
        }
        before = Some(*epoch);
    }
    match before == Some(last.epoch) || known.is_empty() && begins >= last.end {
        true => Ok(()),
        false => failure(format!("the newest is {before:?}, in the log {}", last.epoch)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::Entry;
    use bytes::Bytes;

    #[test]
    fn a_wrong_start_a_missing_epoch_and_one_too_many_are_noticed() {
        let entry = |base, end, epoch| Entry {
            base: Offset(base),
            end: Offset(end),
            epoch: Epoch(epoch),
            bytes: Bytes::new(),
            control: false,
            voters: None,
            level: None,
        };
        let book = Book { entries: vec![entry(0, 2, 1), entry(2, 3, 1), entry(3, 5, 4)] };
        let holds = |table: &[(u32, u64)]| {
            let table: Vec<_> = table.iter().map(|(e, at)| (Epoch(*e), Offset(*at))).collect();
            epoch_table_matches_log(0, Offset(0), &table, &book).is_ok()
        };
        assert!(holds(&[(1, 0), (4, 3)]));
        assert!(holds(&[(1, 0), (4, 3), (6, 5)]), "the last one is not on its way to the disk");
        assert!(!holds(&[(1, 0)]));
        assert!(!holds(&[(4, 3)]));
        assert!(!holds(&[(1, 0), (4, 2)]));
        assert!(!holds(&[(1, 0), (2, 2), (4, 3)]));
        assert!(!holds(&[]));
    }
}
