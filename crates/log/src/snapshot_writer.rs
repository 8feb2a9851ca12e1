//! Writes a snapshot (KIP-630): a header batch, batches of records, a footer batch.
//!
//! The file is `.part` until [`SnapshotWriter::freeze`] has synced it, made it read-only, renamed
//! it and synced the directory; a frozen one cannot be appended to, because the writer is gone. A
//! writer that is dropped, or fails, takes its file away. Each call writes one batch at most and
//! syncs every few MiB, so that no call takes long and the last sync is short.

use crate::control::ControlType;
use crate::disk::{Disk, Mode, Operation};
use crate::file::join;
use crate::snapshot_name::{part_name, snapshot_name};
use crate::{BatchBuilder, Error, Snapshot};
use bytes::Bytes;
use quorate_base::{Offset, OffsetEpoch};
use quorate_wire::record::control::{SnapshotFooter, SnapshotHeader};

/// Kafka's limits of a batch in a snapshot.
const BATCH_RECORDS: u32 = 1_024;
const BATCH_BYTES: usize = 8 << 20;
/// A batch that has so many bytes is written, so that one call never writes much.
const WRITE_BYTES: usize = 256 << 10;
/// So many bytes are written before a sync.
const SYNC_BYTES: u64 = 4 << 20;
/// Name of the header that says which offset a record had in the log.
const OFFSET_HEADER: &[u8] = b"o";

/// One record of a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotRecord<'a> {
    /// The offset that it had in the log, for machines that want to know; goes into a header.
    pub offset: Option<Offset>,
    /// Its time in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// Its value.
    pub value: Option<&'a [u8]>,
    /// How many headers follow.
    pub headers: u32,
    /// Those headers in the log's encoding, see [`crate::Headers::encoded`].
    pub encoded_headers: &'a [u8],
}

/// A snapshot that is being written.
pub struct SnapshotWriter<D: Disk> {
    disk: D,
    dir: String,
    id: OffsetEpoch,
    timestamp_ms: i64,
    file: D::File,
    path: String,
    /// The batch that takes records.
    batch: BatchBuilder,
    written: u64,
    unsynced: u64,
    frozen: bool,
}

impl<D: Disk> SnapshotWriter<D> {
    /// Begins the snapshot of all below `id.offset`. `timestamp_ms` is the time of the last record
    /// below; `voters` are the records KRaftVersion and KRaftVoters as of there, types and encoded
    /// values, if the quorum's voters are in the log. A part file of the same id is replaced.
    pub fn create(
        mut disk: D,
        partition: &str,
        id: OffsetEpoch,
        timestamp_ms: i64,
        voters: &[(ControlType, Bytes)],
    ) -> Result<SnapshotWriter<D>, Error> {
        let path = join(partition, &part_name(id));
        let file = disk.open(&path, Mode::Create).map_err(Error::io(Operation::Open, &path))?;
        let mut head = BatchBuilder::control(Offset::ZERO, id.epoch, timestamp_ms);
        let header =
            SnapshotHeader { last_contained_log_timestamp: timestamp_ms, ..Default::default() };
        control(&mut head, ControlType::SnapshotHeader, &encoded(header.encode()));
        voters.iter().for_each(|(kind, value)| control(&mut head, *kind, value));
        let batch = BatchBuilder::new(head.end(), id.epoch, timestamp_ms);
        let dir = partition.to_owned();
        let (written, unsynced, frozen) = (0, 0, false);
        let mut writer = SnapshotWriter {
            disk,
            dir,
            id,
            timestamp_ms,
            file,
            path,
            batch,
            written,
            unsynced,
            frozen,
        };
        writer.write(head.finish())?;
        Ok(writer)
    }

    /// Which snapshot it is.
    pub fn id(&self) -> OffsetEpoch {
        self.id
    }

    /// Bytes taken so far, written or about to be.
    pub fn bytes(&self) -> u64 {
        self.written + self.batch.len_bytes() as u64
    }

    /// Takes the next record; writes a batch that has become large enough. After an error the
    /// writer is of no use but to be dropped.
    pub fn record(&mut self, record: &SnapshotRecord<'_>) -> Result<(), Error> {
        let SnapshotRecord { offset, timestamp_ms, key, value, headers, encoded_headers } = *record;
        let sizes = [key, value].map(|part| part.map_or(0, <[u8]>::len));
        let size = sizes[0] + sizes[1] + encoded_headers.len() + 64;
        if self.batch.records() > 0 && self.batch.len_bytes() + size > BATCH_BYTES {
            self.flush()?;
        }
        if self.batch.records() == 0 {
            self.batch = BatchBuilder::new(self.batch.end(), self.id.epoch, timestamp_ms);
        }
        match offset {
            None => self.batch.record_at(timestamp_ms, key, value, headers, &[encoded_headers]),
            Some(offset) => {
                let kept = kept_header(offset);
                let parts = [&kept[..], encoded_headers];
                self.batch.record_at(timestamp_ms, key, value, headers + 1, &parts);
            }
        }
        let full = self.batch.records() >= BATCH_RECORDS || self.batch.len_bytes() >= WRITE_BYTES;
        if full { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Error> {
        let next = BatchBuilder::new(self.batch.end(), self.id.epoch, self.timestamp_ms);
        let batch = std::mem::replace(&mut self.batch, next);
        if batch.records() == 0 {
            return Ok(());
        }
        self.write(batch.finish())
    }

    fn write(&mut self, bytes: Bytes) -> Result<(), Error> {
        let len = bytes.len() as u64;
        self.disk
            .append(&mut self.file, &[bytes])
            .map_err(Error::io(Operation::Write, &self.path))?;
        self.written += len;
        self.unsynced += len;
        if self.unsynced >= SYNC_BYTES { self.sync() } else { Ok(()) }
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.unsynced = 0;
        self.disk.sync(&self.file).map_err(Error::io(Operation::Sync, &self.path))
    }

    /// Ends the snapshot and gives it its name, durably. If any of that fails nothing is left,
    /// unless only the last sync of the directory failed: then it is whole, if it is there at all.
    pub fn freeze(mut self) -> Result<Snapshot, Error> {
        self.flush()?;
        let mut foot = BatchBuilder::control(self.batch.end(), self.id.epoch, self.timestamp_ms);
        let footer = encoded(SnapshotFooter::default().encode());
        control(&mut foot, ControlType::SnapshotFooter, &footer);
        self.write(foot.finish())?;
        self.sync()?;
        self.disk.protect(&mut self.file).map_err(Error::io(Operation::Write, &self.path))?;
        let path = join(&self.dir, &snapshot_name(self.id));
        self.disk.rename(&self.path, &path).map_err(Error::io(Operation::Rename, &path))?;
        self.frozen = true;
        if let Err(error) = self.disk.sync_dir(&self.dir) {
            // Best effort: whoever is told of a failure must not find a snapshot later.
            let _ = self.disk.remove(&path);
            return Err(Error::io(Operation::SyncDir, &self.dir)(error));
        }
        Ok(Snapshot { id: self.id, bytes: self.written, timestamp_ms: self.timestamp_ms })
    }

    /// Gives up and takes the file away, as a drop does.
    pub fn abandon(self) {}
}

impl<D: Disk> Drop for SnapshotWriter<D> {
    fn drop(&mut self) {
        // The handle of a process that died must not touch what a later one wrote.
        if !self.frozen && self.disk.len(&self.file).is_ok() {
            let _ = self.disk.remove(&self.path);
        }
    }
}

fn control(batch: &mut BatchBuilder, kind: ControlType, value: &[u8]) {
    batch.record(Some(&kind.key()), Some(value), &[]);
}

fn encoded(value: Result<Bytes, quorate_wire::Error>) -> Bytes {
    value.expect("numbers always encode")
}

/// Name length, name, value length, value, as every header: zig-zag lengths, eight bytes of offset.
fn kept_header(offset: Offset) -> [u8; 11] {
    let mut header = [0; 11];
    header[0] = (OFFSET_HEADER.len() as u8) << 1;
    header[1] = OFFSET_HEADER[0];
    header[2] = 8 << 1;
    header[3..].copy_from_slice(&offset.0.to_be_bytes());
    header
}

/// The offset that a record of a snapshot had in the log, and the headers that it had there; `None`
/// if it was not kept. To be asked only by machines whose snapshots keep it: a header of a
/// client's may look the same.
pub fn kept_offset<'a>(record: &crate::RecordView<'a>) -> Option<(Offset, crate::Headers<'a>)> {
    let mut headers = record.headers();
    match headers.next() {
        Some((OFFSET_HEADER, Some(value))) => {
            let offset = i64::from_be_bytes(*value.as_array()?);
            Some((Offset(u64::try_from(offset).ok()?), headers))
        }
        Some(_) | None => None,
    }
}
