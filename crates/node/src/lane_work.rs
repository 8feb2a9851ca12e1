//! The work of the snapshot lane, over any disk: one errand after the other, in pieces.
//!
//! [`Lane::step`] does a bounded piece and returns, so that the runtime can go on when it likes and
//! the simulator can stop a node between any two. It blocks on the disk. A full disk or a damaged
//! file ends an errand with a report; it never ends the node, because no promise rests on it.

use crate::lane::{Errand, Report};
use bytes::Bytes;
use quorate_base::{FormatLevel, OffsetEpoch};
use quorate_log::{
    Disk, Error, Head, PartialSnapshot, RecordView, Reserved, Snapshot, SnapshotReader,
    SnapshotRecord, SnapshotWriter, discard_checked, kept_offset, remove_deleted,
};
use quorate_machine::{Image, Machine, OwnedRecord};
use std::collections::VecDeque;

/// About so many bytes of records are written in one step, as one batch.
const STEP_BYTES: u64 = 256 << 10;
/// As many records a batch as Kafka puts into one.
const STEP_RECORDS: u32 = 1_024;

/// A snapshot that is being written.
struct Writing<D: Disk> {
    id: OffsetEpoch,
    timestamp_ms: i64,
    image: Image,
    writer: SnapshotWriter<Reserved<D>>,
}

/// The lane of one node.
pub struct Lane<M: Machine, D: Disk> {
    /// Uses nothing of the room that is put aside.
    disk: Reserved<D>,
    partition: String,
    errands: VecDeque<Errand<M>>,
    writing: Option<Writing<D>>,
    download: Option<PartialSnapshot<Reserved<D>>>,
}

impl<M: Machine, D: Disk> Lane<M, D> {
    /// A lane with nothing to do. What an earlier process left half done is recovery's to remove.
    pub fn new(disk: &Reserved<D>, partition: &str) -> Lane<M, D> {
        let (disk, partition) = (disk.without(), partition.to_owned());
        Lane { disk, partition, errands: VecDeque::new(), writing: None, download: None }
    }

    /// Adds an errand.
    pub fn push(&mut self, errand: Errand<M>) {
        self.errands.push_back(errand);
    }

    /// Whether a step would do nothing.
    pub fn is_idle(&self) -> bool {
        self.writing.is_none() && self.errands.is_empty()
    }

    /// Does the next piece; returns what it completed, if anything.
    pub fn step(&mut self) -> Option<Report<M>> {
        // What is to be removed is needed by nobody, and may be what leaves no room for the rest.
        let remove = |errand: &Errand<M>| matches!(errand, Errand::Remove { .. });
        let first = self.errands.iter().position(remove);
        if first.is_none()
            && let Some(writing) = self.writing.take()
        {
            return self.write_on(writing);
        }
        match self.errands.remove(first.unwrap_or(0))? {
            Errand::Store { source, id, position, bytes, last, reserve } => {
                let stored = self.begin_download(id, position, reserve);
                Some(match stored.and_then(|()| self.store(id, position, bytes, last)) {
                    Ok(whole) => Report::Stored { source, whole },
                    Err(why) => {
                        self.abandon();
                        Report::Spoiled { source, why }
                    }
                })
            }
            Errand::Abandon { id } => {
                match self.download.is_some() {
                    true => self.abandon(),
                    false => discard_checked(&mut self.disk, &self.partition, id),
                }
                None
            }
            Errand::Write { id, timestamp_ms, head, image, reserve } => {
                let disk = self.room(reserve);
                match SnapshotWriter::create(disk, &self.partition, id, timestamp_ms, &head) {
                    Ok(writer) => {
                        self.writing = Some(Writing { id, timestamp_ms, image, writer });
                    }
                    Err(error) => {
                        return Some(Report::NotWritten { id, why: error.fault() });
                    }
                }
                None
            }
            Errand::Load { id, machine, newest } => Some(self.load(id, machine, newest)),
            Errand::Check { id } => Some(Report::Checked { id, fault: self.fault(id) }),
            Errand::Remove { paths } => {
                remove_deleted(&mut self.disk, &paths);
                None
            }
        }
    }

    fn write_on(&mut self, writing: Writing<D>) -> Option<Report<M>> {
        let Writing { id, timestamp_ms, mut image, mut writer } = writing;
        let until = writer.bytes() + STEP_BYTES;
        for _ in 0..STEP_RECORDS {
            let Some(record) = image.next() else {
                return Some(match writer.freeze() {
                    Ok(snapshot) => Report::Written(snapshot),
                    Err(error) => Report::NotWritten { id, why: error.fault() },
                });
            };
            let record = SnapshotRecord {
                offset: M::KEEPS_OFFSETS.then_some(record.offset),
                timestamp_ms,
                key: record.key.as_deref(),
                value: record.value.as_deref(),
                headers: record.header_count,
                encoded_headers: &record.headers,
            };
            if let Err(error) = writer.record(&record) {
                return Some(Report::NotWritten { id, why: error.fault() });
            }
            if writer.bytes() >= until {
                break;
            }
        }
        self.writing = Some(Writing { id, timestamp_ms, image, writer });
        None
    }

    /// The disk, with as much of the room that is put aside as an errand may use.
    fn room(&self, reserve: bool) -> Reserved<D> {
        if reserve { self.disk.half() } else { self.disk.clone() }
    }

    fn begin_download(
        &mut self,
        id: OffsetEpoch,
        position: u64,
        reserve: bool,
    ) -> Result<(), String> {
        if position == 0 {
            self.abandon();
            let partial = PartialSnapshot::create(self.room(reserve), &self.partition, id);
            self.download = Some(partial.map_err(|error| error.fault())?);
        }
        Ok(())
    }

    fn store(
        &mut self,
        id: OffsetEpoch,
        position: u64,
        bytes: Bytes,
        last: bool,
    ) -> Result<Option<(Snapshot, Head)>, String> {
        let text = |error: Error| error.fault();
        let partial = self.download.as_mut().ok_or("its first bytes are not here")?;
        if (partial.id(), partial.bytes()) != (id, position) {
            let (of, upto) = (partial.id(), partial.bytes());
            return Err(format!("the piece at {position} of {id} follows {upto} of {of}"));
        }
        partial.write(position, bytes).map_err(text)?;
        match self.download.take_if(|_| last) {
            Some(whole) => whole.check().map(Some).map_err(text),
            None => Ok(None),
        }
    }

    fn abandon(&mut self) {
        if let Some(partial) = self.download.take() {
            partial.discard();
        }
    }

    /// Reads a snapshot to its end; what is wrong with it.
    fn fault(&self, id: OffsetEpoch) -> Option<String> {
        let read = SnapshotReader::open(&self.disk, &self.partition, id).and_then(|mut reader| {
            while reader.next()?.is_some() {}
            Ok(())
        });
        read.err().map(|error| error.fault())
    }

    fn load(&mut self, id: OffsetEpoch, mut machine: Box<M>, newest: FormatLevel) -> Report<M> {
        let mut reader = match SnapshotReader::open(&self.disk, &self.partition, id) {
            Ok(reader) => reader,
            Err(error) => return Report::Unreadable { id, why: error.fault() },
        };
        let timestamp_ms = reader.timestamp_ms();
        let (mut fault, mut batch, mut above) = (None, VecDeque::new(), None);
        let mut records = std::iter::from_fn(|| {
            while batch.is_empty() && above.is_none() {
                match reader.next() {
                    // The reader has looked at each of its records.
                    Ok(Some(next)) => batch.extend(
                        next.records()
                            .filter_map(Result::ok)
                            .map(|record| taken_back::<M>(&record)),
                    ),
                    Ok(None) => return None,
                    Err(error) => {
                        fault = Some(error.fault());
                        return None;
                    }
                }
            }
            // What lies behind it may mean anything.
            let record: OwnedRecord = batch.pop_front().filter(|_| above.is_none())?;
            above = M::level_in(&record.as_record()).filter(|level| *level > newest);
            above.is_none().then_some(record)
        });
        let restored = machine.restore(id, &mut records);
        // A machine may stop early; the whole file has to be right all the same.
        records.by_ref().for_each(drop);
        if let Some(level) = above {
            return Report::TooNew { id, level };
        }
        match (fault, restored) {
            (Some(why), _) => Report::Unreadable { id, why },
            (None, Err(corrupt)) => Report::Unreadable { id, why: corrupt.to_string() },
            (None, Ok(())) => Report::Loaded { id, timestamp_ms, machine },
        }
    }
}

/// The record as the machine gave it to the snapshot.
fn taken_back<M: Machine>(record: &RecordView<'_>) -> OwnedRecord {
    let kept = if M::KEEPS_OFFSETS { kept_offset(record) } else { None };
    let (offset, headers) = kept.unwrap_or((record.offset, record.headers()));
    let own = |part: Option<&[u8]>| part.map(Bytes::copy_from_slice);
    OwnedRecord {
        offset,
        key: own(record.key),
        value: own(record.value),
        header_count: headers.left(),
        headers: Bytes::copy_from_slice(headers.encoded()),
    }
}
