//! The records of a fetch answer between their arrival and the core's decision what to append.
//!
//! Judged here, before anything of them can enter the log: checksums, order, and every record. What
//! makes no sense ends the valid prefix, and only that is offered.

use crate::translate::decree_of;
use bytes::Bytes;
use quorate_base::Offset;
use quorate_log::Batches;
use quorate_raft::BatchMark;

/// The valid prefix of the records of one answer.
#[derive(Clone, Debug)]
pub(crate) struct FetchedRecords {
    records: Bytes,
    /// Each batch and where it ends in `records`.
    batches: Vec<(BatchMark, usize)>,
}

impl FetchedRecords {
    /// Checks the bytes; the second value says what ended the valid prefix early, if anything did.
    pub fn check(records: Bytes) -> (FetchedRecords, Option<String>) {
        let mut batches: Vec<(BatchMark, usize)> = Vec::new();
        let (mut end, mut fault) = (0, None);
        for batch in Batches::new(records.clone()) {
            let batch = match batch {
                Ok(batch) => batch,
                // The last batch may be cut by a byte limit; that is no fault of anyone.
                Err(bad) if bad.fault.is_cut() => break,
                Err(bad) => {
                    fault = Some(bad.to_string());
                    break;
                }
            };
            if let Some(bad) = batch.records().find_map(Result::err) {
                fault = Some(bad.to_string());
                break;
            }
            let decree = match decree_of(&batch) {
                Ok(decree) => decree,
                Err(bad) => {
                    fault = Some(format!("the control batch at offset {}: {bad}", batch.base()));
                    break;
                }
            };
            end += batch.bytes.len();
            let mark = BatchMark {
                base: batch.base(),
                last: batch.last(),
                epoch: batch.epoch(),
                control: batch.control(),
                decree,
            };
            batches.push((mark, end));
        }
        (FetchedRecords { records, batches }, fault)
    }

    /// What the core is told of them.
    pub fn marks(&self) -> Vec<BatchMark> {
        self.batches.iter().map(|(mark, _)| mark.clone()).collect()
    }

    /// The bytes of the batches with offsets in `[base, end)`.
    pub fn slice(&self, base: Offset, end: Offset) -> Bytes {
        let ends = |offset: Offset| {
            let before = self.batches.iter().take_while(|(mark, _)| mark.last < offset).last();
            before.map_or(0, |(_, end)| *end)
        };
        self.records.slice(ends(base)..ends(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_base::Epoch;
    use quorate_log::BatchBuilder;

    fn batch(base: u64, records: u32) -> Bytes {
        let mut batch = BatchBuilder::new(Offset(base), Epoch(1), 0);
        for _ in 0..records {
            batch.record(Some(b"key"), Some(b"value"), &[]);
        }
        batch.finish()
    }

    fn joined(parts: &[Bytes]) -> Bytes {
        parts.concat().into()
    }

    #[test]
    fn a_slice_holds_whole_batches_of_the_range() {
        let parts = [batch(5, 2), batch(7, 1), batch(8, 3)];
        let (fetched, fault) = FetchedRecords::check(joined(&parts));
        assert_eq!(fault, None);
        assert_eq!(fetched.marks().iter().map(|mark| mark.base.0).collect::<Vec<_>>(), [5, 7, 8]);
        assert_eq!(fetched.slice(Offset(5), Offset(11)), joined(&parts));
        assert_eq!(fetched.slice(Offset(7), Offset(8)), parts[1]);
        assert_eq!(fetched.slice(Offset(5), Offset(5)), Bytes::new());
    }

    #[test]
    fn b111_a_damaged_batch_ends_the_valid_prefix() {
        let mut bytes = joined(&[batch(0, 1), batch(1, 1)]).to_vec();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        let (fetched, fault) = FetchedRecords::check(bytes.into());
        assert_eq!(fetched.marks().len(), 1);
        assert!(fault.is_some_and(|fault| fault.contains("checksum")));
    }

    #[test]
    fn a_last_batch_cut_by_a_byte_limit_is_left_out_in_silence() {
        let bytes = joined(&[batch(0, 1), batch(1, 1)]);
        let (fetched, fault) = FetchedRecords::check(bytes.slice(..bytes.len() - 3));
        assert_eq!((fetched.marks().len(), fault), (1, None));
    }
}
