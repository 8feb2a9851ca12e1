//! A snapshot that is being downloaded (KIP-630): bytes in order, then one look at the whole.
//!
//! The file is `.part` until the log is moved to it ([`crate::Log::adopt`]), so what is not whole
//! or not right never gets a snapshot's name. Bytes are the leader's and unaligned: nothing is
//! believed before [`PartialSnapshot::check`].

use crate::disk::{Disk, Mode, Operation};
use crate::file::join;
use crate::snapshot_name::part_name;
use crate::snapshot_reader::check_path;
use crate::{Error, Head, Snapshot};
use bytes::Bytes;
use quorate_base::OffsetEpoch;

/// So many bytes are written before a sync, so that the last one is short.
const SYNC_BYTES: u64 = 4 << 20;

/// The bytes of a snapshot as far as they came.
pub struct PartialSnapshot<D: Disk> {
    disk: D,
    id: OffsetEpoch,
    file: D::File,
    path: String,
    bytes: u64,
    unsynced: u64,
    /// Whether the file must stay when this goes.
    kept: bool,
}

impl<D: Disk> PartialSnapshot<D> {
    /// Begins a download; a part file of the same id is emptied.
    pub fn create(
        mut disk: D,
        partition: &str,
        id: OffsetEpoch,
    ) -> Result<PartialSnapshot<D>, Error> {
        let path = join(partition, &part_name(id));
        let file = disk.open(&path, Mode::Create).map_err(Error::io(Operation::Open, &path))?;
        Ok(PartialSnapshot { disk, id, file, path, bytes: 0, unsynced: 0, kept: false })
    }

    /// Which snapshot it is.
    pub fn id(&self) -> OffsetEpoch {
        self.id
    }

    /// How many bytes there are: the position of the next ones.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds the bytes at `at`, which must be [`PartialSnapshot::bytes`].
    pub fn write(&mut self, at: u64, bytes: Bytes) -> Result<(), Error> {
        assert_eq!(at, self.bytes, "the bytes of a download come in order");
        let len = bytes.len() as u64;
        self.disk
            .append(&mut self.file, &[bytes])
            .map_err(Error::io(Operation::Write, &self.path))?;
        self.bytes += len;
        self.unsynced += len;
        if self.unsynced >= SYNC_BYTES { self.sync() } else { Ok(()) }
    }

    /// Makes all bytes so far durable.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.unsynced = 0;
        self.disk.sync(&self.file).map_err(Error::io(Operation::Sync, &self.path))
    }

    /// All bytes are there: makes them durable and looks at the whole. [`Error::Damaged`] if the
    /// leader sent anything but a whole snapshot of this id; the file goes then. What is returned
    /// may be told to the core as stored, and given to [`crate::Log::adopt`]; until that is carried
    /// out the file waits.
    pub fn check(mut self) -> Result<(Snapshot, Head), Error> {
        self.sync()?;
        let whole = check_path(&self.disk, &self.path, self.id)?;
        self.disk.protect(&mut self.file).map_err(Error::io(Operation::Write, &self.path))?;
        // The name of the part file, so that nothing is left to do for it when it is renamed.
        self.kept = true;
        Ok(whole)
    }

    /// Gives up and takes the file away, as a drop does.
    pub fn discard(self) {}
}

impl<D: Disk> Drop for PartialSnapshot<D> {
    fn drop(&mut self) {
        // The handle of a process that died must not touch what a later one wrote.
        if !self.kept && self.disk.len(&self.file).is_ok() {
            let _ = self.disk.remove(&self.path);
        }
    }
}

/// Takes away a download that was checked and will not be adopted after all.
pub fn discard_checked<D: Disk>(disk: &mut D, partition: &str, id: OffsetEpoch) {
    // If it cannot be removed the next start does it.
    let _ = disk.remove(&join(partition, &part_name(id)));
}
