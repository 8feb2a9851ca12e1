//! Reads a partition's directory after any stop, and leaves it durable and without loose ends.
//!
//! Rules: a damaged or cut batch is a torn tail only in the last segment and only at or above the
//! synced mark; it is cut off and a [`Note`] says so. Everywhere else it is an error, because this
//! replica may have promised those records. Whatever is kept is synced before it is reported, so
//! all of a [`Recovery`] is durable. A snapshot ahead of the log is a download that was not adopted
//! to the end: the log is emptied behind it. A log that begins above 0 needs a snapshot there. A
//! swap of cleaned files is done to its end first (`take_up.rs`). A crash during recovery is as any
//! other. See `synced_file.rs` for what the mark proves and `epoch_file.rs` for what its table
//! guards.

use crate::claims::{Claims, firm};
use crate::disk::{Disk, Mode, Operation};
use crate::error::BadText;
use crate::file::{join, read_file, replace_file};
use crate::index::IndexCheck;
use crate::index_files::{self, Indexes};
use crate::salvage::is_left_over;
use crate::scan::{Scan, scan};
use crate::segment::{Segment, base_of, file_name};
use crate::set_aside::last_right;
use crate::set_away::{Away, is_deleted};
use crate::snapshot_name::{DAMAGED, DELETED, snapshot_name};
use crate::snapshot_shelf::{self, Shelf};
use crate::synced_file::{self, Found, Mark, SyncedFile};
use crate::take_up::{Traces, take_up};
use crate::{
    Election, EpochTable, Error, IndexBytes, Note, Options, Recovery, election_file, epoch_file,
    must_reach_file,
};
use quorate_base::{Offset, OffsetEpoch};
use std::io;

/// Reads and mends the partition's directory. Fails on one that was never formatted.
pub fn recover<D: Disk>(disk: &mut D, options: &Options) -> Result<Recovery, Error> {
    let mut notes = Vec::new();
    let recovery = recover_noting(disk, options, &mut notes)?;
    Ok(Recovery { notes, ..recovery })
}

/// What was mended is told also if it was in vain.
pub(crate) fn recover_noting<D: Disk>(
    disk: &mut D,
    options: &Options,
    notes: &mut Vec<Note>,
) -> Result<Recovery, Error> {
    loop {
        // Again only after the log was emptied behind its newest snapshot, which is not ahead then.
        if let Some(recovery) = recover_once(disk, options, notes)? {
            return Ok(recovery);
        }
    }
}

/// `None` if the log was reset to a snapshot and is to be read again.
fn recover_once<D: Disk>(
    disk: &mut D,
    options: &Options,
    notes: &mut Vec<Note>,
) -> Result<Option<Recovery>, Error> {
    let &Options { ref partition, index_interval_bytes, .. } = options;
    let reached = OffsetEpoch::default();
    let (begins, met, controls) = (None, false, Vec::new());
    let mut recover = Recover {
        disk,
        dir: partition,
        index_interval_bytes,
        notes,
        reached,
        begins,
        met,
        beheaded: None,
        controls,
        traces: Traces::default(),
    };
    let found = take_up(recover.disk, recover.dir)?;
    let names = recover.names()?;
    let election = recover.election()?;
    let must_reach = must_reach_file::read(recover.disk, recover.dir)?;
    let mark = synced_file::read(recover.disk, recover.dir)?;
    // Without a mark, what was set aside tells the same.
    let owes = match mark {
        Found::Mark(_, _, owing) => owing,
        Found::Missing => names.iter().any(|name| name.ends_with(DAMAGED)),
        Found::Unreadable => false,
    };
    if owes && must_reach.is_none() {
        let path = join(recover.dir, must_reach_file::NAME);
        let expected = "how far the log went before a part of it was set aside".to_owned();
        return Err(Error::Malformed { path, position: 0, expected, found: "no file".to_owned() });
    }
    let mut bases = recover.segments(&names, mark)?;
    let mut shelf = snapshot_shelf::read(recover.disk, recover.dir, &names, recover.notes)?;
    let table = recover.table()?;
    recover.begins(&mut bases, &table, &shelf)?;
    let told = table.as_ref().ok().and_then(|table| table.entries().first());
    let beheaded = told.map(|(_, start)| *start).filter(|start| *start < bases[0]);
    recover.beheaded = beheaded.map(|start| join(recover.dir, &file_name(start)));

    let mut epochs = EpochTable::default();
    let scanned = recover.scan(&bases, mark, &mut epochs);
    let claims = Claims { mark, table: table.as_ref().ok(), must_reach };
    if recover.finish_adopt(&bases, &shelf, &scanned, &claims)? {
        return Ok(None);
    }
    let scans = scanned?;
    let last = scans.last().expect("there is a segment");
    let (end, position) = (last.end, last.segment.size);
    let start = recover.start(bases[0], end, &mut epochs, &mut shelf)?;
    let carried = recover.traces.judge(found, recover.dir, (start, end))?;
    let replayed = (start == Offset::ZERO).then_some(carried.horizon);
    snapshot_shelf::remove_stale(recover.disk, recover.dir, &mut shelf, replayed)?;
    let segments: Vec<Segment> = scans.into_iter().map(|scan| scan.segment).collect();
    recover.epochs(table, &epochs, mark)?;
    let segment = segments.last().expect("there is a segment").base;
    recover.mark(mark, Mark { segment, end, position })?;
    synced_file::note_owing(recover.disk, recover.dir, must_reach.is_some())?;
    Ok(Some(Recovery {
        election,
        start,
        end,
        epochs,
        snapshots: shelf.held,
        head: shelf.head,
        controls: recover.controls.iter().copied().filter(|base| *base >= start).collect(),
        must_reach,
        notes: Vec::new(),
        carried,
        next_ms: recover.traces.next_ms,
        segments,
    }))
}

struct Recover<'a, D: Disk> {
    disk: &'a mut D,
    dir: &'a str,
    index_interval_bytes: u64,
    notes: &'a mut Vec<Note>,
    /// End and epoch of the batches that were right, as far as the scan came.
    reached: OffsetEpoch,
    /// Where the epoch table says that the log begins, above the first segment's base.
    begins: Option<Offset>,
    /// Whether a batch begins there.
    met: bool,
    /// The file of the records below the first segment of which the epoch table speaks.
    beheaded: Option<String>,
    /// The control batches that were right.
    controls: Vec<Offset>,
    /// What shows of cleaning.
    traces: Traces,
}

impl<D: Disk> Recover<'_, D> {
    /// All names. Removes what a crash left half done: temporary files, parts of snapshots, and
    /// what was to be removed anyway.
    fn names(&mut self) -> Result<Vec<String>, Error> {
        let mut names = match self.disk.list(self.dir) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Error::NotFormatted { path: self.dir.to_owned() });
            }
            Err(error) => return Err(Error::io(Operation::List, self.dir)(error)),
        };
        for name in &names {
            if is_left_over(name) {
                let path = join(self.dir, name);
                self.disk.remove(&path).map_err(Error::io(Operation::Remove, &path))?;
                if !is_deleted(name) {
                    self.notes.push(Note::LeftOver { path });
                }
            }
        }
        // Also makes the names durable that the last process left in the page cache.
        self.disk.sync_dir(self.dir).map_err(Error::io(Operation::SyncDir, self.dir))?;
        names.sort();
        Ok(names)
    }

    /// The base offsets of the segments, in order; there is one at least.
    fn segments(&mut self, names: &[String], mark: Found) -> Result<Vec<Offset>, Error> {
        let mut bases: Vec<Offset> = names.iter().filter_map(|name| base_of(name)).collect();
        bases.sort();
        if let ([], Found::Mark(mark, ..)) = (&bases[..], mark) {
            // The first segment was moved away, and the crash came before it was made anew.
            let first = file_name(mark.segment);
            let moved = [DAMAGED, DELETED].map(|ending| format!("{first}{ending}"));
            if mark.end == mark.segment && names.iter().any(|name| moved.contains(name)) {
                let path = join(self.dir, &first);
                self.disk.open(&path, Mode::Create).map_err(Error::io(Operation::Open, &path))?;
                self.disk.sync_dir(self.dir).map_err(Error::io(Operation::SyncDir, self.dir))?;
                bases.push(mark.segment);
            }
        }
        if bases.is_empty() {
            return Err(Error::NotFormatted { path: join(self.dir, &file_name(Offset::ZERO)) });
        }
        Ok(bases)
    }

    /// The epoch table as the file has it, or what is wrong with that.
    fn table(&mut self) -> Result<Result<EpochTable, String>, Error> {
        let path = join(self.dir, epoch_file::NAME);
        let Some(bytes) = read_file(self.disk, &path)? else {
            return Ok(Err("missing".to_owned()));
        };
        Ok(EpochTable::decode(&bytes).map_err(|bad| {
            format!("byte {}: expected {}, found {}", bad.position, bad.expected, bad.found)
        }))
    }

    /// Notes where the table says that the log begins, if a snapshot ended there once, and removes
    /// the segments wholly below, which a trim was about to do.
    fn begins(
        &mut self,
        bases: &mut Vec<Offset>,
        table: &Result<EpochTable, String>,
        shelf: &Shelf,
    ) -> Result<(), Error> {
        let first = table.as_ref().ok().and_then(|table| table.entries().first());
        let start = first.map(|(_, start)| *start).filter(|start| *start > bases[0]);
        let Some(start) = start.filter(|start| shelf.ends.contains(start)) else { return Ok(()) };
        self.begins = Some(start);
        if shelf.held.last().is_none_or(|newest| newest.id.offset < start) {
            return Ok(());
        }
        while bases.get(1).is_some_and(|second| *second <= start) {
            let base = bases.remove(0);
            Indexes::<D::File>::remove(self.disk, self.dir, base)?;
            let path = join(self.dir, &file_name(base));
            self.disk.remove(&path).map_err(Error::io(Operation::Remove, &path))?;
        }
        self.begins = Some(start).filter(|start| *start > bases[0]);
        Ok(())
    }

    /// If the newest snapshot is ahead of the log, the log was to be given up for it: does that.
    fn finish_adopt(
        &mut self,
        bases: &[Offset],
        shelf: &Shelf,
        scanned: &Result<Vec<Scan>, Error>,
        claims: &Claims<'_>,
    ) -> Result<bool, Error> {
        let Some(newest) = shelf.held.last().map(|newest| newest.id) else { return Ok(false) };
        let mut reached = self.reached;
        if let Some(floor) = shelf.held.iter().find(|held| held.id.offset == reached.offset) {
            // An empty log behind a snapshot.
            let empty = bases[..] == [reached.offset];
            reached.epoch = if empty { floor.id.epoch } else { reached.epoch };
        }
        let last = match scanned {
            Ok(_) => reached,
            Err(Error::Damaged { .. }) => {
                let old = self.before_reset(bases, newest)?;
                let behind = last_right(self.disk, self.dir, &old)?;
                claims.of_damaged(reached, behind, bases, newest)
            }
            Err(_) => return Ok(false),
        };
        if newest.log_order() <= last.log_order() {
            return Ok(false);
        }
        let older: Vec<OffsetEpoch> = shelf.held.iter().map(|held| held.id).collect();
        let older = &older[..older.len() - 1];
        let mut away =
            Away { disk: &mut *self.disk, dir: self.dir, ending: DELETED, moved: Vec::new() };
        if scanned.is_err() {
            away.ending = DAMAGED;
            let mut synced = away.empty(bases)?;
            away.reset(&mut synced, &bases[..1], Some(newest), older)?;
        } else {
            let first = Mark { segment: bases[0], end: bases[0], position: 0 };
            let mut synced = synced_file::lower(away.disk, away.dir, first)?;
            let segments: Vec<Offset> = bases.iter().rev().copied().collect();
            away.reset(&mut synced, &segments, Some(newest), older)?;
        }
        self.notes.push(Note::Reset { snapshot: newest, end: reached.offset });
        Ok(true)
    }

    /// The segments without the empty one that a reset to this snapshot makes before the last old
    /// one goes: it says nothing of how far the log went.
    fn before_reset(&mut self, bases: &[Offset], to: OffsetEpoch) -> Result<Vec<Offset>, Error> {
        let mut old = bases.to_vec();
        if old.len() > 1 && old.last() == Some(&to.offset) {
            let path = join(self.dir, &file_name(to.offset));
            let file =
                self.disk.open(&path, Mode::Read).map_err(Error::io(Operation::Open, &path))?;
            let len = self.disk.len(&file).map_err(Error::io(Operation::Read, &path))?;
            old.truncate(old.len() - usize::from(len == 0));
        }
        Ok(old)
    }

    /// Where the log begins. Cuts the table to that; removes older snapshots.
    fn start(
        &mut self,
        first: Offset,
        end: Offset,
        epochs: &mut EpochTable,
        shelf: &mut Shelf,
    ) -> Result<Offset, Error> {
        let start = self.begins.unwrap_or(first);
        let path = || join(self.dir, epoch_file::NAME);
        if start > end || self.begins.is_some() && start < end && !self.met {
            return Err(Error::Damaged {
                path: path(),
                position: 0,
                expected: format!("a start of the log at a batch from {first} to {end}"),
                found: format!("offset {start}"),
            });
        }
        let newest = shelf.held.last().map(|newest| newest.id.offset);
        if start > Offset::ZERO && newest.is_none_or(|newest| newest < start) {
            let aside = shelf.aside.iter().rfind(|id| id.offset >= start);
            let aside = aside.map(|id| format!("{}{DAMAGED}", snapshot_name(*id)).into());
            let (path, missing) = (self.dir.to_owned(), self.beheaded.as_deref().map(Into::into));
            return Err(Error::Uncovered { path, start, newest, aside, missing });
        }
        snapshot_shelf::remove_below(self.disk, self.dir, shelf, start)?;
        snapshot_shelf::set_aside_beyond(self.disk, self.dir, shelf, end, self.notes)?;
        let floor = shelf.held.first().map(|held| held.id).filter(|id| id.offset == start);
        let below = epochs.below(start).last().map(|(epoch, _)| *epoch).unwrap_or_default();
        if start > Offset::ZERO {
            epochs.advance(floor.unwrap_or(OffsetEpoch::new(start, below)), end);
        }
        Ok(start)
    }

    fn election(&mut self) -> Result<Option<Election>, Error> {
        let path = join(self.dir, election_file::NAME);
        let bytes = read_file(self.disk, &path)?;
        bytes.map(|bytes| Election::decode(&bytes).map_err(|bad| bad.at(&path))).transpose()
    }

    /// Scans all segments, cuts the last one's torn tail, and syncs what was not known to be.
    fn scan(
        &mut self,
        bases: &[Offset],
        mark: Found,
        epochs: &mut EpochTable,
    ) -> Result<Vec<Scan>, Error> {
        let last = *bases.last().expect("there is a segment");
        let mut scans: Vec<Scan> = Vec::with_capacity(bases.len());
        for base in bases {
            let path = join(self.dir, &file_name(*base));
            if let Some(before) = scans.last().filter(|before| before.end != *base) {
                return Err(Error::Damaged {
                    path,
                    position: 0,
                    expected: format!("a segment that begins at offset {}", before.end),
                    found: format!("offset {base}"),
                });
            }
            let mut file =
                self.disk.open(&path, Mode::Write).map_err(Error::io(Operation::Open, &path))?;
            let index = index_files::read(self.disk, self.dir, *base)?;
            let mut check = IndexCheck::new(*base, &index.offsets, &index.times);
            let segment = Segment::new(*base, self.index_interval_bytes);
            let (begins, mut met) = (self.begins, self.met);
            let mut reached = self.reached;
            let (controls, traces) = (&mut self.controls, &mut self.traces);
            let scan = scan(self.disk, &file, &path, segment, epochs, |header, position| {
                check.batch(header, position);
                met |= begins == Some(header.base);
                traces.batch(header);
                if header.control {
                    controls.push(header.base);
                }
                reached = OffsetEpoch::new(header.end(), header.epoch);
            })?;
            reached.offset = scan.end;
            (self.met, self.reached) = (met, reached);
            if let Some(fault) = scan.fault {
                let position = scan.segment.size;
                let torn = *base == last && position >= firm(mark, *base) && !fault.is_foreign();
                // Where no mark tells them apart, what goes on behind it was not torn.
                let goes_on = mark == Found::Missing
                    && last_right(self.disk, self.dir, &[*base])?.offset > scan.end;
                if !torn || goes_on {
                    let expected = format!("the batch at offset {}", scan.end);
                    let found = fault.instead();
                    return Err(Error::Damaged { path, position, expected, found });
                }
                self.disk
                    .truncate(&mut file, position)
                    .map_err(Error::io(Operation::Truncate, &path))?;
                let bytes = scan.file_bytes - position;
                let note =
                    Note::TornTail { path: path.clone(), position, bytes, end: scan.end, fault };
                self.notes.push(note);
            }
            if *base == last || !matches!(mark, Found::Mark(..)) {
                self.disk.sync(&file).map_err(Error::io(Operation::Sync, &path))?;
            }
            self.index(&scan, *base == last, &index, check)?;
            scans.push(scan);
        }
        self.reaches(mark, scans.last().expect("there is a segment"))?;
        Ok(scans)
    }

    /// Leaves the segment's indexes as they follow from its batches.
    fn index(
        &mut self,
        scan: &Scan,
        last: bool,
        found: &IndexBytes,
        check: IndexCheck,
    ) -> Result<(), Error> {
        let (base, torn) = (scan.segment.base, scan.fault.is_some());
        let mut files = scan.segment.index_from(0);
        if !last {
            files.times = [files.times, scan.segment.closing().times].concat().into();
        }
        let paths = index_files::paths(self.dir, base);
        let wrong = check.finish(scan.end).map(|bad| bad.filter(|_| !torn));
        for (path, bad) in paths.into_iter().zip(wrong) {
            if let Some(BadText { position, expected, found }) = bad {
                let position = position as u64;
                self.notes.push(Note::IndexRebuilt { path, position, expected, found });
            }
        }
        let missing = found.offsets.is_empty() || found.times.is_empty();
        if missing || files != *found {
            Indexes::create(self.disk, self.dir, base, &files)?;
        }
        Ok(())
    }

    /// The log must not end below the mark.
    fn reaches(&self, mark: Found, last: &Scan) -> Result<(), Error> {
        match mark {
            Found::Mark(mark, ..) if last.end < mark.end => Err(Error::Damaged {
                path: join(self.dir, &last.segment.file_name()),
                position: last.segment.size,
                expected: format!("records up to offset {}, which were synced", mark.end),
                found: format!("the end of the log at offset {}", last.end),
            }),
            Found::Mark(..) | Found::Missing | Found::Unreadable => Ok(()),
        }
    }

    /// Compares the epoch table with what the batches say, and writes it anew if it does not
    /// follow.
    fn epochs(
        &mut self,
        table: Result<EpochTable, String>,
        scanned: &EpochTable,
        mark: Found,
    ) -> Result<(), Error> {
        let path = join(self.dir, epoch_file::NAME);
        let why = match table {
            Ok(table) if table.encode() == scanned.encode() => return Ok(()),
            Ok(table) => {
                self.epochs_agree(&table, scanned, mark)?;
                "did not follow the log".to_owned()
            }
            Err(why) => why,
        };
        replace_file(self.disk, self.dir, epoch_file::NAME, &scanned.encode())?;
        self.notes.push(Note::EpochsRebuilt { path, why });
        Ok(())
    }

    /// Below the mark the table was written before the mark was, so a difference is damage.
    fn epochs_agree(
        &self,
        table: &EpochTable,
        scanned: &EpochTable,
        mark: Found,
    ) -> Result<(), Error> {
        let end = match mark {
            Found::Mark(mark, ..) => mark.end,
            Found::Missing | Found::Unreadable => return Ok(()),
        };
        if table.below(end) == scanned.below(end) {
            return Ok(());
        }
        let print = |table: &EpochTable| {
            let entries = table.below(end).iter();
            entries
                .map(|(epoch, first)| format!("{epoch} from {first}"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        Err(Error::Damaged {
            path: join(self.dir, epoch_file::NAME),
            position: 0,
            expected: format!("the epochs of the log ({})", print(scanned)),
            found: match &self.beheaded {
                None => format!("({})", print(table)),
                Some(file) => format!("({}), and {file} is missing", print(table)),
            },
        })
    }

    /// Raises the mark to the end of the log, durably.
    fn mark(&mut self, found: Found, mark: Mark) -> Result<(), Error> {
        match found {
            // It may have been lowered just before the process died: a power loss must not raise
            // it.
            Found::Mark(old, ..) if old == mark => {
                SyncedFile::open(self.disk, self.dir)?.sync(self.disk)
            }
            Found::Mark(..) => {
                let mut file = SyncedFile::open(self.disk, self.dir)?;
                file.settle(self.disk, mark)
            }
            Found::Missing => synced_file::create(self.disk, self.dir, mark),
            Found::Unreadable => {
                let path = join(self.dir, synced_file::NAME);
                self.notes.push(Note::MarkRebuilt { path });
                synced_file::create(self.disk, self.dir, mark)
            }
        }
    }
}
