//! Carries out jobs on a [`Disk`]. Blocks; lives on the disk thread.
//!
//! **What is durable is always a prefix of the jobs.** Appends that follow each other are one write
//! and one sync. Where order matters a sync comes between: an election state is durable before the
//! records after it and after those before it; a segment is durable before the next one begins; a
//! truncation is durable before its offsets are used again. So whatever a crash leaves is a state
//! that existed. After an error the store is dead: a failed write or sync is never tried again.

use crate::batch::{HEADER_BYTES, Header};
use crate::disk::{Disk, Mode, Operation};
use crate::file::{join, replace_file};
use crate::index_files::Indexes;
use crate::job::{Adopt, Append, Carry, Cut, Job, Roll, Swap, Trim, Truncate};
use crate::mutants::mutant;
use crate::segment::file_name;
use crate::set_away::{Away, name_part};
use crate::snapshot_name::DELETED;
use crate::synced_file::{Mark, SyncedFile};
use crate::{
    EpochTable, Error, IndexBytes, Options, Recovery, cleaner_checkpoint, epoch_file,
    must_reach_file, numbers_file, swap_files,
};
use bytes::Bytes;
use quorate_base::Offset;
use std::io;

/// What a run did. All jobs that were given are durable.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Written {
    /// Bytes added to the log.
    pub bytes: u64,
    /// Writes to the log.
    pub writes: u32,
    /// Syncs of files and directories.
    pub syncs: u32,
    /// Files that are needed no more, renamed already: for [`crate::remove_deleted`], later.
    pub deleted: Vec<String>,
    /// Bytes of those files.
    pub deleted_bytes: u64,
}

/// The files of one partition.
pub struct Store<D: Disk> {
    disk: D,
    dir: String,
    /// The last segment: its file, base offset and size once `pending` is written.
    file: D::File,
    segment: Offset,
    size: u64,
    end: Offset,
    /// Batches not yet written.
    pending: Vec<Bytes>,
    /// The last segment's indexes, and what of them is not yet written.
    indexes: Indexes<D::File>,
    /// An epoch table not yet written; its records come first.
    epochs: Option<EpochTable>,
    synced: SyncedFile<D::File>,
    /// The end of what was cleaned, as Kafka's checkpoint has it.
    cleaner: Offset,
    done: Written,
    failed: bool,
    #[cfg(mutants)]
    mutant: Option<crate::Mutant>,
}

impl<D: Disk> Store<D> {
    /// Opens what [`crate::recover()`] left.
    pub fn open(mut disk: D, options: &Options, recovery: &Recovery) -> Result<Store<D>, Error> {
        let dir = options.partition.clone();
        let last = recovery.segments.last().expect("a log has a segment");
        let path = join(&dir, &last.file_name());
        let file = disk.open(&path, Mode::Write).map_err(Error::io(Operation::Open, &path))?;
        let synced = SyncedFile::open(&mut disk, &dir)?;
        let indexes = Indexes::open(&mut disk, &dir, last.base)?;
        Ok(Store {
            disk,
            dir,
            file,
            segment: last.base,
            size: last.size,
            end: recovery.end,
            pending: Vec::new(),
            indexes,
            epochs: None,
            synced,
            cleaner: recovery.carried.cleaner,
            done: Written::default(),
            failed: false,
            #[cfg(mutants)]
            mutant: options.mutant,
        })
    }

    /// Carries out all jobs, in order, and makes them durable. After an error the store must not be
    /// used again.
    pub fn run(&mut self, jobs: &mut Vec<Job>) -> Result<Written, Error> {
        assert!(!self.failed, "a store that failed is not used again");
        self.failed = true;
        self.done = Written::default();
        for job in jobs.drain(..) {
            match job {
                Job::Append(append) => self.append(append)?,
                Job::Truncate(truncate) => self.truncate(truncate)?,
                Job::Adopt(adopt) => self.adopt(adopt)?,
                Job::Trim(trim) => self.trim(trim)?,
                Job::Roll(roll) => self.roll(roll)?,
                Job::Swap(swap) => self.swap(swap)?,
                Job::Carry(carry) => {
                    self.settle()?;
                    self.carry(carry)?;
                }
                Job::Remove { name } => {
                    self.settle()?;
                    self.remove(name)?;
                }
                Job::Replace { name, bytes } => {
                    self.settle()?;
                    self.replace(name, &bytes)?;
                }
            }
        }
        self.settle()?;
        self.failed = false;
        Ok(std::mem::take(&mut self.done))
    }

    fn append(&mut self, append: Append) -> Result<(), Error> {
        if append.rolls {
            self.settle()?;
            self.indexes.add(append.closing);
            self.indexes.write(&mut self.disk)?;
            self.begin_segment(append.segment)?;
        }
        assert_eq!(append.segment, self.segment, "appends go to the last segment");
        assert!(append.end > self.end, "an append to {} after {}", append.end, self.end);
        self.size += append.bytes.len() as u64;
        self.end = append.end;
        self.epochs = append.epochs.or(self.epochs.take());
        self.pending.push(append.bytes);
        self.indexes.add(append.index);
        Ok(())
    }

    /// Writes what is pending and makes it durable: records, then their epochs, then the mark.
    fn settle(&mut self) -> Result<(), Error> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let path = self.path(self.segment);
        self.disk
            .append(&mut self.file, &self.pending)
            .map_err(Error::io(Operation::Write, &path))?;
        self.done.writes += 1;
        self.done.bytes += self.pending.iter().map(|part| part.len() as u64).sum::<u64>();
        self.pending.clear();
        if !mutant!(self, SkipSync) {
            self.sync_segment()?;
        }
        self.write_epochs()?;
        let mark = Mark { segment: self.segment, end: self.end, position: self.size };
        self.synced.write(&mut self.disk, mark)?;
        self.indexes.write(&mut self.disk)
    }

    fn begin_segment(&mut self, base: Offset) -> Result<(), Error> {
        let path = self.path(base);
        self.file =
            self.disk.open(&path, Mode::Create).map_err(Error::io(Operation::Open, &path))?;
        self.indexes = Indexes::create(&mut self.disk, &self.dir, base, &IndexBytes::default())?;
        self.segment = base;
        self.size = 0;
        self.sync_dir()
    }

    fn truncate(&mut self, truncate: Truncate) -> Result<(), Error> {
        self.settle()?;
        let path = self.path(truncate.segment);
        if truncate.segment != self.segment {
            self.file =
                self.disk.open(&path, Mode::Write).map_err(Error::io(Operation::Open, &path))?;
        }
        let position = match truncate.cut {
            Cut::At(position) => position,
            Cut::Find { from } => self.find(&path, from, truncate.end)?,
        };
        let len = self.disk.len(&self.file).map_err(Error::io(Operation::Read, &path))?;
        assert!(position <= len, "{path} is to be cut at byte {position} of {len}");

        let mark = Mark { segment: truncate.segment, end: truncate.end, position };
        if self.synced.mark().end > mark.end && !mutant!(self, KeepMark) {
            self.synced.settle(&mut self.disk, mark)?;
            self.done.syncs += 1;
        }
        // Newest first, each durable before the next: what is left never has a gap.
        for base in &truncate.removed {
            Indexes::<D::File>::remove(&mut self.disk, &self.dir, *base)?;
            let path = self.path(*base);
            self.disk.remove(&path).map_err(Error::io(Operation::Remove, &path))?;
            self.sync_dir()?;
        }
        self.indexes =
            Indexes::create(&mut self.disk, &self.dir, truncate.segment, &truncate.index)?;
        self.segment = truncate.segment;
        self.size = position;
        self.end = truncate.end;
        if position < len {
            self.disk
                .truncate(&mut self.file, position)
                .map_err(Error::io(Operation::Truncate, &path))?;
            self.sync_segment()?;
        }
        self.epochs = truncate.epochs.or(self.epochs.take());
        self.write_epochs()
    }

    /// Gives the snapshot its name and empties the log behind it. What was not yet written of the
    /// log is not worth it.
    fn adopt(&mut self, adopt: Adopt) -> Result<(), Error> {
        self.settle()?;
        let Adopt { snapshot, segments, snapshots } = adopt;
        name_part(&mut self.disk, &self.dir, snapshot)?;
        let mut away =
            Away { disk: &mut self.disk, dir: &self.dir, ending: DELETED, moved: Vec::new() };
        away.reset(&mut self.synced, &segments, Some(snapshot), &snapshots)?;
        let moved = away.moved;
        self.moved(moved);
        self.done.syncs += segments.len() as u32 + 8;
        let path = self.path(snapshot.offset);
        self.file =
            self.disk.open(&path, Mode::Write).map_err(Error::io(Operation::Open, &path))?;
        self.indexes = Indexes::open(&mut self.disk, &self.dir, snapshot.offset)?;
        (self.segment, self.end, self.size) = (snapshot.offset, snapshot.offset, 0);
        self.epochs = None;
        Ok(())
    }

    /// The new start is durable before anything below it goes; recovery removes what is left.
    fn trim(&mut self, trim: Trim) -> Result<(), Error> {
        self.settle()?;
        let Trim { epochs, segments, snapshots } = trim;
        self.epochs = epochs.or(self.epochs.take());
        self.write_epochs()?;
        let mut away =
            Away { disk: &mut self.disk, dir: &self.dir, ending: DELETED, moved: Vec::new() };
        for base in segments {
            assert!(base != self.segment, "the last segment {base} stays");
            away.segment(base)?;
        }
        for id in snapshots {
            away.snapshot(id)?;
        }
        let moved = away.moved;
        self.moved(moved);
        self.sync_dir()
    }

    fn roll(&mut self, roll: Roll) -> Result<(), Error> {
        self.settle()?;
        assert_eq!(roll.segment, self.end, "a segment begins at the end of the log");
        self.indexes.add(roll.closing);
        self.indexes.write(&mut self.disk)?;
        self.begin_segment(roll.segment)
    }

    /// What is about to be true is durable, with the intent, before the first file changes its
    /// name; the intent is gone, durably, before the next round may use such names.
    fn swap(&mut self, job: Swap) -> Result<(), Error> {
        self.settle()?;
        let Swap { carried, swap, snapshots } = job;
        assert!(!swap.segments.contains(&self.segment), "the last segment {} stays", self.segment);
        let mut away =
            Away { disk: &mut self.disk, dir: &self.dir, ending: DELETED, moved: Vec::new() };
        for id in snapshots {
            away.snapshot(id)?;
        }
        let mut cleaned = numbers_file::Kept { carried, swap: Some(swap.clone()) };
        cleaned.swap = cleaned.swap.filter(|_| !mutant!(self, SkipIntent));
        numbers_file::write(away.disk, away.dir, &cleaned)?;
        cleaned.swap = None;
        swap_files::carry_out(&mut away, &swap)?;
        let moved = away.moved;
        numbers_file::write(&mut self.disk, &self.dir, &cleaned)?;
        self.done.syncs += 5;
        self.moved(moved);
        Ok(())
    }

    fn carry(&mut self, carry: Carry) -> Result<(), Error> {
        let carried = carry.carried;
        let cleaned = numbers_file::Kept { carried, swap: None };
        numbers_file::write(&mut self.disk, &self.dir, &cleaned)?;
        self.done.syncs += 2;
        if std::mem::replace(&mut self.cleaner, carried.cleaner) != carried.cleaner {
            self.done.syncs += 2;
            cleaner_checkpoint::write(&mut self.disk, &self.dir, carried.cleaner)?;
        }
        Ok(())
    }

    /// Reports files that were renamed for removal.
    fn moved(&mut self, mut paths: Vec<String>) {
        for path in &paths {
            // What cannot be seen counts nothing; it is removed all the same.
            let len = self.disk.open(path, Mode::Read).and_then(|file| self.disk.len(&file));
            self.done.deleted_bytes += len.unwrap_or(0);
        }
        self.done.deleted.append(&mut paths);
    }

    fn remove(&mut self, name: &str) -> Result<(), Error> {
        if name == must_reach_file::NAME {
            self.synced.note_owing(&mut self.disk, false)?;
            self.done.syncs += 2;
        }
        let path = join(&self.dir, name);
        match self.disk.remove(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => result.map_err(Error::io(Operation::Remove, &path))?,
        }
        self.sync_dir()
    }

    /// Where the batch begins whose base offset is `end`, or the file ends if its records end
    /// there.
    fn find(&self, path: &str, from: u64, end: Offset) -> Result<u64, Error> {
        let size = self.disk.len(&self.file).map_err(Error::io(Operation::Read, path))?;
        let mut position = from;
        let mut next = None;
        let mut bytes = [0; HEADER_BYTES];
        loop {
            let read = self.disk.read(&self.file, position, &mut bytes);
            let read = read.map_err(Error::io(Operation::Read, path))?;
            if position == size && next == Some(end) {
                return Ok(position);
            }
            let damaged = |found: String| Error::Damaged {
                path: path.to_owned(),
                position,
                expected: format!("a batch that leads to offset {end}"),
                found,
            };
            if read < HEADER_BYTES {
                return Err(damaged("the end of the file".to_owned()));
            }
            let header = Header::read(&bytes).map_err(|fault| damaged(fault.instead()))?;
            // The checksum leaves the base offset out.
            if next.is_some_and(|next| header.base != next) {
                return Err(damaged(format!("offset {}", header.base)));
            }
            if header.base == end {
                return Ok(position);
            }
            if header.last >= end {
                let mut batch = vec![0; header.bytes as usize];
                let read = self.disk.read(&self.file, position, &mut batch);
                read.map_err(Error::io(Operation::Read, path))?;
                Header::check(&batch).map_err(|fault| damaged(fault.instead()))?;
                return Err(Error::NotABoundary { path: path.to_owned(), position, offset: end });
            }
            position += header.bytes;
            next = Some(header.end());
        }
    }

    fn write_epochs(&mut self) -> Result<(), Error> {
        match self.epochs.take() {
            Some(_) if mutant!(self, KeepEpochs) => Ok(()),
            Some(epochs) => self.replace(epoch_file::NAME, &epochs.encode()),
            None => Ok(()),
        }
    }

    fn replace(&mut self, name: &str, bytes: &Bytes) -> Result<(), Error> {
        self.done.syncs += 2;
        replace_file(&mut self.disk, &self.dir, name, bytes)
    }

    fn sync_segment(&mut self) -> Result<(), Error> {
        self.done.syncs += 1;
        let path = self.path(self.segment);
        self.disk.sync(&self.file).map_err(Error::io(Operation::Sync, &path))
    }

    fn sync_dir(&mut self) -> Result<(), Error> {
        self.done.syncs += 1;
        self.disk.sync_dir(&self.dir).map_err(Error::io(Operation::SyncDir, &self.dir))
    }

    fn path(&self, segment: Offset) -> String {
        join(&self.dir, &file_name(segment))
    }
}
