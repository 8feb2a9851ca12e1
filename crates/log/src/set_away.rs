//! Moves of whole files that the log needs no more, and the reset of a log to a snapshot: the one
//! place where a log is emptied, for the store, for recovery and for the repair.
//!
//! Files are renamed, which is quick, and removed later by somebody who may wait. A reset can be
//! cut short anywhere: until its last step the snapshot is ahead of what is left, which tells
//! recovery to begin it again.

use crate::disk::{Disk, Mode, Operation};
use crate::file::{join, replace_file};
use crate::index::{OFFSETS, TIMES};
use crate::index_files::{self, Indexes};
use crate::segment::{base_before, base_of, file_name};
use crate::snapshot_name::{DELETED, SnapshotName, part_name, snapshot_name};
use crate::synced_file::{self, Mark, SyncedFile};
use crate::{EpochTable, Error, IndexBytes, epoch_file};
use bytes::Bytes;
use quorate_base::{Offset, OffsetEpoch};
use std::io;

/// Copied at once.
const COPY_BYTES: usize = 1 << 20;

/// Renames files of one directory and remembers what they are called now.
pub(crate) struct Away<'a, D: Disk> {
    pub disk: &'a mut D,
    pub dir: &'a str,
    /// Added to each name.
    pub ending: &'static str,
    /// The files' new paths.
    pub moved: Vec<String>,
}

impl<D: Disk> Away<'_, D> {
    /// Renames one file, if it is there.
    pub fn file(&mut self, path: &str) -> Result<(), Error> {
        let to = format!("{path}{}", self.ending);
        match self.disk.rename(path, &to) {
            Ok(()) => self.moved.push(to),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io(Operation::Rename, path)(error)),
        }
        Ok(())
    }

    /// A segment and its indexes.
    pub fn segment(&mut self, base: Offset) -> Result<(), Error> {
        for path in index_files::paths(self.dir, base) {
            self.file(&path)?;
        }
        self.file(&join(self.dir, &file_name(base)))
    }

    pub fn snapshot(&mut self, id: OffsetEpoch) -> Result<(), Error> {
        self.file(&join(self.dir, &snapshot_name(id)))
    }

    pub fn sync_dir(&mut self) -> Result<(), Error> {
        self.disk.sync_dir(self.dir).map_err(Error::io(Operation::SyncDir, self.dir))
    }

    /// Cuts the log, whose segments these are, oldest first: what lies behind the mark is moved or
    /// copied away. Until this is done the synced mark stays, so that whatever a crash leaves of it
    /// is taken for damage.
    pub fn cut(&mut self, segments: &[Offset], cut: Mark) -> Result<(), Error> {
        for base in segments.iter().rev().take_while(|base| **base > cut.segment) {
            self.segment(*base)?;
            self.sync_dir()?;
        }
        let path = join(self.dir, &file_name(cut.segment));
        let disk = &mut *self.disk;
        let mut file = disk.open(&path, Mode::Write).map_err(Error::io(Operation::Open, &path))?;
        let mut position = cut.position;
        if disk.len(&file).map_err(Error::io(Operation::Read, &path))? == position {
            return Ok(());
        }
        let kept = format!("{path}.from-{position}{}", self.ending);
        let mut copy = disk.open(&kept, Mode::Create).map_err(Error::io(Operation::Open, &kept))?;
        loop {
            let mut bytes = vec![0; COPY_BYTES];
            let read = disk.read(&file, position, &mut bytes);
            bytes.truncate(read.map_err(Error::io(Operation::Read, &path))?);
            if bytes.is_empty() {
                break;
            }
            position += bytes.len() as u64;
            disk.append(&mut copy, &[Bytes::from(bytes)])
                .map_err(Error::io(Operation::Write, &kept))?;
        }
        disk.sync(&copy).map_err(Error::io(Operation::Sync, &kept))?;
        self.moved.push(kept);
        self.sync_dir()?;
        let disk = &mut *self.disk;
        disk.truncate(&mut file, cut.position).map_err(Error::io(Operation::Truncate, &path))?;
        disk.sync(&file).map_err(Error::io(Operation::Sync, &path))
    }

    /// Leaves nothing of a damaged log but its first segment, empty; lowers the mark at the end.
    pub fn empty(&mut self, segments: &[Offset]) -> Result<SyncedFile<D::File>, Error> {
        let first = *segments.first().expect("a log has a segment");
        let nothing = Mark { segment: first, end: first, position: 0 };
        self.cut(segments, nothing)?;
        synced_file::lower(self.disk, self.dir, nothing)
    }

    /// Empties the log, whose segments these are, newest first: it begins and ends where `to` does,
    /// which is a snapshot that is there, or `None`: at 0. Then takes older snapshots away.
    pub fn reset(
        &mut self,
        synced: &mut SyncedFile<D::File>,
        segments: &[Offset],
        to: Option<OffsetEpoch>,
        snapshots: &[OffsetEpoch],
    ) -> Result<(), Error> {
        let start = to.map_or(Offset::ZERO, |to| to.offset);
        let (first, others) = segments.split_last().expect("a log has a segment");
        // From here on nothing below the snapshot counts, so damage there does not either.
        let nothing = Mark { segment: *first, end: *first, position: 0 };
        synced.settle(self.disk, nothing)?;
        for base in others {
            self.segment(*base)?;
            self.sync_dir()?;
        }
        // There is a segment at any time: the new one comes before the last old one goes.
        if *first == start {
            self.segment(*first)?;
        }
        let path = join(self.dir, &file_name(start));
        let file =
            self.disk.open(&path, Mode::Create).map_err(Error::io(Operation::Open, &path))?;
        self.disk.sync(&file).map_err(Error::io(Operation::Sync, &path))?;
        Indexes::create(self.disk, self.dir, start, &IndexBytes::default())?;
        self.sync_dir()?;
        if *first != start {
            self.segment(*first)?;
            self.sync_dir()?;
        }
        let table = EpochTable::behind(to.unwrap_or_default());
        replace_file(self.disk, self.dir, epoch_file::NAME, &table.encode())?;
        synced.settle(self.disk, Mark { segment: start, end: start, position: 0 })?;
        for id in snapshots {
            self.snapshot(*id)?;
        }
        self.sync_dir()
    }
}

/// Gives a download its name, durably; no error if it has it already.
pub(crate) fn name_part<D: Disk>(disk: &mut D, dir: &str, id: OffsetEpoch) -> Result<(), Error> {
    let (from, to) = (join(dir, &part_name(id)), join(dir, &snapshot_name(id)));
    match disk.rename(&from, &to) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            disk.open(&to, Mode::Read).map_err(Error::io(Operation::Open, &to))?;
        }
        Err(error) => return Err(Error::io(Operation::Rename, &from)(error)),
    }
    disk.sync_dir(dir).map_err(Error::io(Operation::SyncDir, dir))
}

/// Whether a trim, a swap or a reset has given this file up.
pub(crate) fn is_deleted(name: &str) -> bool {
    let Some(name) = name.strip_suffix(DELETED) else { return false };
    let snapshot = SnapshotName::parse(name).is_some();
    let index = [OFFSETS, TIMES].map(|ending| base_before(name, ending));
    snapshot || base_of(name).is_some() || index.iter().any(Option::is_some)
}

/// Removes what a run of the store reported as [`crate::Written::deleted`], on whatever thread may
/// wait; Kafka does so after a minute. What cannot be removed goes at the next start.
pub fn remove_deleted<D: Disk>(disk: &mut D, paths: &[String]) {
    for path in paths {
        let _ = disk.remove(path);
    }
}
