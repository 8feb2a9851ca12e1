//! What a log holds, batch by batch, as told by the jobs that its replica gave to the disk. Kept by
//! the world beside each node, so that checkers never have to trust the replica's own marks.

use crate::seats::{self, Voters};
use bytes::Bytes;
use quorate_base::{Epoch, FormatLevel, Offset, OffsetEpoch};
use quorate_log::{Batch, Batches, Job};
use quorate_machine::{Headers, Kv, Machine, Record, Sessioned};

/// One batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub base: Offset,
    pub end: Offset,
    pub epoch: Epoch,
    pub bytes: Bytes,
    /// Whether it is the quorum's own.
    pub control: bool,
    /// The voters that it names.
    pub voters: Option<Voters>,
    /// The format level that it says.
    pub level: Option<FormatLevel>,
}

/// The batches of one log, from offset 0 on without gaps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Book {
    pub entries: Vec<Entry>,
}

/// What a node had before its log was damaged, and how much of it was durable.
pub(crate) struct Lost {
    pub book: Book,
    pub durable: Offset,
}

impl Lost {
    /// This, unless the replica lost more before: then that.
    pub fn or_before(self, before: Option<Lost>) -> Lost {
        let less = |before: &Lost| before.last().log_order() < self.last().log_order();
        before.filter(|before| !less(before)).unwrap_or(self)
    }

    /// The end of that, and the epoch of its last record.
    pub fn last(&self) -> OffsetEpoch {
        let kept = self.book.below(self.durable);
        let last = kept.checked_sub(1).map(|at| &self.book.entries[at]);
        last.map_or(OffsetEpoch::default(), |last| OffsetEpoch::new(last.end, last.epoch))
    }
}

/// The batches in bytes that were checked before.
pub(crate) fn entries(bytes: &Bytes) -> impl Iterator<Item = Entry> {
    Batches::checked_before(bytes.clone()).map(|batch| Entry {
        base: batch.base(),
        end: batch.end(),
        epoch: batch.epoch(),
        control: batch.control(),
        voters: seats::named(&batch),
        level: level_of(&batch),
        bytes: batch.bytes,
    })
}

/// The level that a batch says, for machines that have levels.
fn level_of(batch: &Batch) -> Option<FormatLevel> {
    let levels = batch.records().filter_map(Result::ok).filter_map(|record| {
        let (key, value) = (record.key, record.value);
        let headers = Headers::default();
        Sessioned::<Kv>::level_in(&Record { offset: record.offset, key, value, headers })
    });
    if batch.control() { None } else { levels.max() }
}

impl Book {
    /// The log's content as it was read from its files.
    pub fn read(parts: &[Bytes]) -> Book {
        Book { entries: parts.iter().flat_map(entries).collect() }
    }

    /// One past the last offset.
    pub fn end(&self) -> Offset {
        self.entries.last().map_or(Offset::ZERO, |entry| entry.end)
    }

    /// The format level behind all of it.
    pub fn level(&self) -> FormatLevel {
        let levels = self.entries.iter().rev().find_map(|entry| entry.level);
        levels.unwrap_or_default()
    }

    /// Follows a job; returns how many batches are as before.
    pub fn follow(&mut self, job: &Job) -> usize {
        let before = self.entries.len();
        match job {
            Job::Append(append) => {
                self.entries.extend(entries(&append.bytes));
                before
            }
            Job::Truncate(cut) => {
                self.entries.truncate(self.entries.partition_point(|entry| entry.base < cut.end));
                self.entries.len()
            }
            // What a snapshot stands for is in the ledger of all that is committed: see `adopt`. A
            // trim forgets nothing here.
            Job::Adopt(_)
            | Job::Trim(_)
            | Job::Roll(_)
            | Job::Swap(_)
            | Job::Carry(_)
            | Job::Remove { .. }
            | Job::Replace { .. } => before,
        }
    }

    /// What a snapshot says takes the place of all that was here: that is the committed batches
    /// below its end.
    pub fn adopt(&mut self, ledger: &Book, end: Offset) {
        self.entries = ledger.entries[..ledger.below(end)].to_vec();
        assert!(self.end() == end, "a snapshot of {end}, committed is up to {}", self.end());
    }

    /// The same in front of what a trimmed log still holds.
    pub fn put_before(&mut self, ledger: &Book, start: Offset) {
        let kept = self.entries.partition_point(|entry| entry.end <= start);
        let before = ledger.entries[..ledger.below(start)].iter().cloned();
        self.entries.splice(..kept, before);
    }

    /// How many batches end at or below an offset.
    pub fn below(&self, end: Offset) -> usize {
        self.entries.partition_point(|entry| entry.end <= end)
    }
}
