//! Reads a snapshot (KIP-630) and trusts nothing in it.
//!
//! A batch is handed out only after its checksum, its offset, its epoch and every one of its
//! records were right. Whether the file is whole is known at its end only: a machine that loads one
//! is swapped in after [`SnapshotReader::next`] has returned `None`, never before. Of damage it
//! says where, what belongs there and what was found; what to do about it is for recovery.

use crate::control::ControlType;
use crate::disk::Disk;
use crate::file::join;
use crate::reader::{BatchReader, Found};
use crate::snapshot_name::snapshot_name;
use crate::{Batch, Error, Head, Snapshot};
use bytes::Bytes;
use quorate_base::{Offset, OffsetEpoch};
use quorate_wire::record::control::{SnapshotFooter, SnapshotHeader};

/// A footer batch of ours and of Kafka's: batch header, and a record of key and value.
const FOOTER_BYTES: u64 = 75;

/// Reads one snapshot from front to back.
pub struct SnapshotReader<D: Disk> {
    reader: BatchReader<D>,
    path: String,
    id: OffsetEpoch,
    timestamp_ms: i64,
    voters: Head,
    /// Offset of the next batch.
    next: Offset,
    ended: bool,
}

impl<D: Disk> SnapshotReader<D> {
    /// Opens a whole snapshot and reads its header.
    pub fn open(disk: &D, partition: &str, id: OffsetEpoch) -> Result<SnapshotReader<D>, Error> {
        SnapshotReader::open_path(disk, &join(partition, &snapshot_name(id)), id)
    }

    /// The same for a file of any name.
    pub(crate) fn open_path(
        disk: &D,
        path: &str,
        id: OffsetEpoch,
    ) -> Result<SnapshotReader<D>, Error> {
        let mut reader = SnapshotReader {
            reader: BatchReader::open(disk, path)?,
            path: path.to_owned(),
            id,
            timestamp_ms: 0,
            voters: Vec::new(),
            next: Offset::ZERO,
            ended: false,
        };
        let first = reader.batch()?;
        let controls = match &first {
            Some(batch) if batch.control() => reader.controls(batch, 0)?,
            Some(_) => return Err(reader.damaged(0, "SnapshotHeader", "a record")),
            None => return Err(reader.damaged(0, "SnapshotHeader", "the end of the file")),
        };
        let mut controls = controls.into_iter();
        match controls.next() {
            Some((ControlType::SnapshotHeader, value)) => {
                let header = SnapshotHeader::decode(value)
                    .map_err(|error| reader.damaged(0, "SnapshotHeader", error.to_string()))?;
                reader.timestamp_ms = header.last_contained_log_timestamp;
            }
            Some((kind, _)) => return Err(reader.damaged(0, "SnapshotHeader", kind.to_string())),
            None => return Err(reader.damaged(0, "SnapshotHeader", "an empty batch")),
        }
        reader.voters = controls.collect();
        let strange = reader.voters.iter().find(|(kind, _)| {
            matches!(kind, ControlType::SnapshotHeader | ControlType::SnapshotFooter)
        });
        if let Some((kind, _)) = strange {
            return Err(reader.damaged(0, "one SnapshotHeader, then voters", kind.to_string()));
        }
        Ok(reader)
    }

    /// Which snapshot it is.
    pub fn id(&self) -> OffsetEpoch {
        self.id
    }

    /// The time of the last record that it covers, in milliseconds since 1970.
    pub fn timestamp_ms(&self) -> i64 {
        self.timestamp_ms
    }

    /// The control records that follow the header in its batch: the quorum's version and voters, if
    /// they are in the log (KIP-853); types and encoded values.
    pub fn voters(&self) -> &[(ControlType, Bytes)] {
        &self.voters
    }

    /// Bytes read so far, to tell how far a load is.
    pub fn position(&self) -> u64 {
        self.reader.position()
    }

    /// Size of the file.
    pub fn bytes(&self) -> u64 {
        self.reader.len()
    }

    /// The next batch of records; all of them can be read. `None` once the footer was right and
    /// nothing follows it.
    #[expect(clippy::should_implement_trait, reason = "after an error it must not go on")]
    pub fn next(&mut self) -> Result<Option<Batch>, Error> {
        if self.ended {
            return Ok(None);
        }
        let position = self.reader.position();
        let Some(batch) = self.batch()? else {
            return Err(self.damaged(position, "SnapshotFooter", "the end of the file"));
        };
        if !batch.control() {
            return Ok(Some(batch));
        }
        let controls = self.controls(&batch, position)?;
        match &controls[..] {
            [(ControlType::SnapshotFooter, value)] => {
                SnapshotFooter::decode(value.clone())
                    .map_err(|bad| self.damaged(position, "SnapshotFooter", bad.to_string()))?;
            }
            [(kind, _), ..] => {
                return Err(self.damaged(position, "only SnapshotFooter", kind.to_string()));
            }
            [] => return Err(self.damaged(position, "SnapshotFooter", "an empty batch")),
        }
        let end = self.reader.position();
        if end < self.reader.len() {
            let found = format!("{} bytes", self.reader.len() - end);
            return Err(self.damaged(end, "the end of the file", found));
        }
        self.ended = true;
        Ok(None)
    }

    /// A batch that is right, of whatever kind.
    fn batch(&mut self) -> Result<Option<Batch>, Error> {
        let position = self.reader.position();
        let batch = match self.reader.next()? {
            None => return Ok(None),
            Some(Found::Batch(batch)) => batch,
            Some(Found::Damaged(_, fault) | Found::Nothing(fault)) => {
                return Err(self.damaged(position, "a batch", fault.instead()));
            }
        };
        if batch.base() != self.next {
            let expected = format!("the batch at offset {}", self.next);
            return Err(self.damaged(position, expected, format!("offset {}", batch.base())));
        }
        if batch.epoch() != self.id.epoch {
            let expected = format!("leader epoch {}, as in its name", self.id.epoch);
            return Err(self.damaged(position, expected, format!("epoch {}", batch.epoch())));
        }
        if let Some(bad) = batch.records().find_map(Result::err) {
            return Err(self.damaged(position, "records", bad.to_string()));
        }
        self.next = batch.end();
        Ok(Some(batch))
    }

    fn controls(&self, batch: &Batch, position: u64) -> Result<Vec<(ControlType, Bytes)>, Error> {
        let records = batch.records().filter_map(Result::ok);
        let one = |record: crate::RecordView<'_>| {
            let kind = ControlType::of_key(record.key.unwrap_or_default())
                .map_err(|bad| self.damaged(position, "a control record", bad.to_string()))?;
            Ok((kind, Bytes::copy_from_slice(record.value.unwrap_or_default())))
        };
        records.map(one).collect()
    }

    fn damaged(
        &self,
        position: u64,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Error {
        let (path, expected, found) = (self.path.clone(), expected.into(), found.into());
        Error::Damaged { path, position, expected, found }
    }
}

/// Reads the whole file and checks everything in it.
pub fn check_snapshot<D: Disk>(
    disk: &D,
    partition: &str,
    id: OffsetEpoch,
) -> Result<Snapshot, Error> {
    check_path(disk, &join(partition, &snapshot_name(id)), id).map(|(snapshot, _)| snapshot)
}

pub(crate) fn check_path<D: Disk>(
    disk: &D,
    path: &str,
    id: OffsetEpoch,
) -> Result<(Snapshot, Head), Error> {
    let mut reader = SnapshotReader::open_path(disk, path, id)?;
    while reader.next()?.is_some() {}
    let snapshot = Snapshot { id, bytes: reader.bytes(), timestamp_ms: reader.timestamp_ms() };
    Ok((snapshot, reader.voters))
}

/// Looks at the header and at the footer only: finds a file that was cut short, not a flipped bit.
pub fn glance_at_snapshot<D: Disk>(
    disk: &D,
    partition: &str,
    id: OffsetEpoch,
) -> Result<Snapshot, Error> {
    let path = join(partition, &snapshot_name(id));
    let mut reader = SnapshotReader::open_path(disk, &path, id)?;
    let (bytes, timestamp_ms) = (reader.bytes(), reader.timestamp_ms());
    let header_end = reader.position();
    let at = bytes.saturating_sub(FOOTER_BYTES).max(header_end);
    reader.reader.seek(at);
    match reader.reader.next()? {
        Some(Found::Batch(batch)) if batch.control() && batch.epoch() == id.epoch => {
            reader.next = batch.base();
            reader.reader.seek(at);
            reader.next()?;
        }
        // A footer of another length, or none: only a full look can tell.
        Some(Found::Batch(_) | Found::Damaged(..) | Found::Nothing(_)) | None => {
            return check_path(disk, &path, id).map(|(snapshot, _)| snapshot);
        }
    }
    Ok(Snapshot { id, bytes, timestamp_ms })
}
