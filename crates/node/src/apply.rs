//! From committed to applied: batches of the log become state of the machine, in slices.
//!
//! A long backlog must not starve the quorum, so one turn applies about [`SLICE_BYTES`]; the next
//! turn goes on. Recent batches come from memory, older ones from the disk, read elsewhere.

use crate::out::Out;
use crate::replica::Replica;
use bytes::Bytes;
use quorate_base::{Epoch, Offset, OffsetEpoch};
use quorate_log::{Batch, Batches, Log, Read};
use quorate_machine::{Headers, Machine, Record};

/// About so much is applied per turn.
const SLICE_BYTES: u32 = 1 << 20;

/// How far the machine has come.
pub(crate) struct Applied {
    /// End of what the machine holds. Invariant: at most `commit`.
    pub upto: Offset,
    /// Whether it was given anything: records of the log, or a snapshot.
    pub holds_data: bool,
    /// The epoch of the batch before that, and its time, Unix milliseconds.
    epoch: Epoch,
    pub timestamp_ms: i64,
    /// A machine is being made of this snapshot; until then nothing is applied.
    loading: Option<OffsetEpoch>,
    /// End of what it may take.
    pub commit: Offset,
    /// What was committed when this node first heard of a high watermark after its start, by the
    /// leader's count: it is ready once it has applied that.
    pub ready_at: Option<Offset>,
    /// A read from the disk is under way.
    reading: bool,
    /// What it brought.
    read: Option<Bytes>,
}

impl Applied {
    /// Nothing is applied.
    pub fn new() -> Applied {
        Applied {
            upto: Offset::ZERO,
            holds_data: false,
            epoch: Epoch::ZERO,
            timestamp_ms: -1,
            loading: None,
            commit: Offset::ZERO,
            ready_at: None,
            reading: false,
            read: None,
        }
    }

    /// What a snapshot of the machine would be called.
    pub fn last(&self) -> OffsetEpoch {
        OffsetEpoch::new(self.upto, self.epoch)
    }

    /// Whether the machine is as it was made.
    pub fn is_fresh(&self) -> bool {
        self.upto == Offset::ZERO
    }

    pub fn loading(&self) -> Option<OffsetEpoch> {
        self.loading
    }

    pub fn load(&mut self, id: OffsetEpoch) {
        self.loading = Some(id);
    }

    pub fn not_loaded(&mut self) {
        self.loading = None;
    }

    /// The machine is what this snapshot says. What a snapshot holds is committed.
    pub fn loaded(&mut self, id: OffsetEpoch, timestamp_ms: i64) {
        let loading = self.loading.take();
        assert!(loading == Some(id), "{id} was loaded, {loading:?} was asked for");
        let upto = self.upto;
        assert!(id.offset > upto, "the snapshot {id} is loaded behind {upto}, which is applied");
        (self.upto, self.epoch, self.timestamp_ms) = (id.offset, id.epoch, timestamp_ms);
        self.commit = self.commit.max(id.offset);
        self.holds_data = true;
    }

    /// The core says that all below is committed.
    pub fn committed(&mut self, upto: Offset) {
        // The core knows as committed what any snapshot holds that is loaded.
        assert!(upto > self.commit, "{upto} is committed after {}", self.commit);
        self.commit = upto;
    }

    /// A leader, perhaps this node, says that so much is committed; this node may lack some of it.
    pub fn heard(&mut self, high_watermark: Offset) {
        self.ready_at.get_or_insert(high_watermark);
    }

    /// The disk brought the next batches; `None`: the log changed meanwhile, plan anew.
    pub fn arrived(&mut self, records: Option<Bytes>) {
        self.reading = records.is_some();
        self.read = records;
    }

    /// Whether a turn could apply something.
    pub fn has_work(&self, log: &Log) -> bool {
        let here = self.loading.is_none() && self.upto >= log.start();
        here && self.upto < self.commit.min(log.end()) && (!self.reading || self.read.is_some())
    }
}

impl<M: Machine> Replica<M> {
    /// Applies the next slice of what is committed.
    pub(crate) fn apply(&mut self) {
        let mut left = i64::from(SLICE_BYTES);
        while left > 0 && self.applies_now() {
            let (from, commit) = (self.applied.upto, self.applied.commit);
            let parts = match self.applied.read.take() {
                Some(read) => {
                    self.applied.reading = false;
                    vec![read]
                }
                None => match self.log.read(from, commit, SLICE_BYTES) {
                    Read::Hot(parts, _) => parts,
                    Read::Cold(read) => {
                        self.applied.reading = true;
                        self.read_cold_for_apply(read);
                        return;
                    }
                    Read::Nothing => return,
                },
            };
            for part in parts {
                left -= part.len() as i64;
                // Checked when it was received, built or read from the disk; once is enough.
                for batch in Batches::checked_before(part) {
                    let next = batch.base() >= from && batch.end() <= commit;
                    if next && !self.apply_batch(&batch) {
                        return;
                    }
                }
            }
            if self.applied.upto == from {
                return;
            }
        }
    }

    /// Whether a turn could apply something.
    pub(crate) fn applies_now(&self) -> bool {
        !self.levels.barred && self.applied.has_work(&self.log)
    }

    /// False if the node stops before this batch.
    fn apply_batch(&mut self, batch: &Batch) -> bool {
        assert!(
            batch.base() >= self.applied.upto,
            "batch {} comes after {}",
            batch.base(),
            self.applied.upto
        );
        if !batch.control() {
            let records: Result<Vec<Record<'_>>, _> = batch
                .records()
                .map(|record| {
                    record.map(|record| {
                        let headers = record.headers();
                        Record {
                            offset: record.offset,
                            key: record.key,
                            value: record.value,
                            headers: Headers::from_encoded(headers.left(), headers.encoded()),
                        }
                    })
                })
                .collect();
            #[cfg(mutants)]
            let records = records.map(|mut records| {
                if self.settings.mutant == Some(crate::Mutant::ApplyHalfBatch) {
                    records.truncate(records.len().div_ceil(2));
                }
                records
            });
            match records {
                Ok(records) => {
                    if !self.may_apply(batch.base(), &records) {
                        return false;
                    }
                    self.applied.holds_data = true;
                    self.machine.apply(&quorate_machine::Batch {
                        base: batch.base(),
                        end: batch.end(),
                        epoch: batch.epoch(),
                        timestamp_ms: batch.timestamp_ms(),
                        records: &records,
                    });
                }
                // Only a directory that something else wrote can hold this: its own leader refuses
                // it.
                Err(bad) => {
                    let why = format!(
                        "the log holds a record that cannot be read, {bad}; nothing after it can be applied here"
                    );
                    self.push(Out::Fatal { why });
                    return false;
                }
            }
        }
        self.applied.upto = batch.end();
        self.applied.epoch = batch.epoch();
        self.applied.timestamp_ms = batch.timestamp_ms();
        self.making.applied(batch.bytes.len() as u64);
        true
    }
}
