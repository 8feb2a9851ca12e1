//! Writes a cleaned segment, with its indexes, under temporary names.
//!
//! Batches that left nothing become empty ones, as few as can be. A writer that is dropped before
//! its end takes its files away.

use crate::batch::{Batch, Header};
use crate::disk::{Disk, Mode, Operation};
use crate::empty::Empty;
use crate::segment::Segment;
use crate::{Error, swap_files};
use bytes::Bytes;
use quorate_base::Offset;

/// So many bytes are gathered for one write.
const WRITE_BYTES: u64 = 1 << 20;
/// So many bytes are written before a sync, so that the last one is short.
const SYNC_BYTES: u64 = 32 << 20;

/// A segment in the making.
pub(crate) struct Recopy<D: Disk> {
    disk: D,
    dir: String,
    round: u64,
    file: D::File,
    path: String,
    segment: Segment,
    /// Where the last batch ended that was taken.
    end: Offset,
    /// What was taken away since the last batch that was kept.
    empty: Option<Empty>,
    pending: Vec<Bytes>,
    pending_bytes: u64,
    unsynced: u64,
    finished: bool,
}

impl<D: Disk> Recopy<D> {
    pub fn create(
        mut disk: D,
        dir: &str,
        base: Offset,
        round: u64,
        index_interval_bytes: u64,
    ) -> Result<Recopy<D>, Error> {
        let path = swap_files::cleaned_path(dir, base, round);
        let file = disk.open(&path, Mode::Create).map_err(Error::io(Operation::Open, &path))?;
        Ok(Recopy {
            disk,
            dir: dir.to_owned(),
            round,
            file,
            path,
            segment: Segment::new(base, index_interval_bytes),
            end: base,
            empty: None,
            pending: Vec::new(),
            pending_bytes: 0,
            unsynced: 0,
            finished: false,
        })
    }

    /// Bytes so far, written or about to be.
    pub fn written(&self) -> u64 {
        self.segment.size
    }

    /// A batch that stays as it is.
    pub fn batch(&mut self, header: &Header, bytes: Bytes) -> Result<(), Error> {
        self.flush_empty()?;
        self.end = header.end();
        self.push(header, bytes)
    }

    /// What is left of a batch.
    pub fn rewritten(&mut self, bytes: Bytes) -> Result<(), Error> {
        self.batch(&header(&bytes), bytes)
    }

    /// A batch of which nothing is left but its offsets; and its producer, if it has one.
    pub fn nothing(&mut self, batch: &Batch) -> Result<(), Error> {
        let Header { base, last, epoch, max_timestamp_ms: time_ms, .. } = batch.header;
        if batch.header.producer_id == -1 {
            return self.empty(Empty { base, last, epoch, time_ms }).map(drop);
        }
        self.rewritten(crate::sift::emptied(batch))
    }

    /// An empty batch. Tells whether it became one with what came before.
    pub fn empty(&mut self, empty: Empty) -> Result<bool, Error> {
        self.end = empty.last + 1;
        if let Some(joined) = self.empty.and_then(|before| before.joined(empty)) {
            self.empty = Some(joined);
            return Ok(true);
        }
        self.flush_empty()?;
        self.empty = Some(empty);
        Ok(false)
    }

    fn flush_empty(&mut self) -> Result<(), Error> {
        let Some(empty) = self.empty.take() else { return Ok(()) };
        let bytes = empty.encode();
        self.push(&header(&bytes), bytes)
    }

    fn push(&mut self, header: &Header, bytes: Bytes) -> Result<(), Error> {
        self.segment.push(header);
        self.pending_bytes += header.bytes;
        self.pending.push(bytes);
        if self.pending_bytes >= WRITE_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), Error> {
        self.disk
            .append(&mut self.file, &self.pending)
            .map_err(Error::io(Operation::Write, &self.path))?;
        self.unsynced += self.pending_bytes;
        self.pending.clear();
        self.pending_bytes = 0;
        if self.unsynced >= SYNC_BYTES { self.sync() } else { Ok(()) }
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.unsynced = 0;
        self.disk.sync(&self.file).map_err(Error::io(Operation::Sync, &self.path))
    }

    /// Makes the segment, which ends at `end`, durable with its indexes. Its files are the log's
    /// from now on.
    pub fn finish(mut self, end: Offset) -> Result<(Segment, Vec<String>), Error> {
        self.flush_empty()?;
        assert_eq!(self.end, end, "all batches of the group were taken");
        self.write()?;
        self.sync()?;
        let index = self.segment.index_from(0);
        let times = [index.times, self.segment.closing().times].concat().into();
        let base = self.segment.base;
        let paths = swap_files::cleaned_indexes(&self.dir, base, self.round);
        for (path, bytes) in paths.iter().zip([index.offsets, times]) {
            let mut file =
                self.disk.open(path, Mode::Create).map_err(Error::io(Operation::Open, path))?;
            self.disk.append(&mut file, &[bytes]).map_err(Error::io(Operation::Write, path))?;
            self.disk.sync(&file).map_err(Error::io(Operation::Sync, path))?;
        }
        self.disk.sync_dir(&self.dir).map_err(Error::io(Operation::SyncDir, &self.dir))?;
        self.finished = true;
        self.segment.cleaned_by = Some(self.round);
        Ok((self.segment.clone(), swap_files::cleaned_paths(&self.dir, base, self.round)))
    }
}

impl<D: Disk> Drop for Recopy<D> {
    fn drop(&mut self) {
        // The handle of a process that died must not touch what a later one wrote.
        if !self.finished && self.disk.len(&self.file).is_ok() {
            for path in swap_files::cleaned_paths(&self.dir, self.segment.base, self.round) {
                let _ = self.disk.remove(&path);
            }
        }
    }
}

/// The header of a batch that was made here.
fn header(bytes: &Bytes) -> Header {
    let first = bytes.first_chunk().expect("a batch has a header");
    Header::read(first).expect("it was made a moment ago")
}
