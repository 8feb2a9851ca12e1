//! Repair: sets the damaged part of a log aside, so that a replica can begin with what is right and
//! fetch the rest again, without forgetting that it had confirmed more.
//!
//! First `quorate-must-reach` is written, durably: from then on the replica does not vote until its
//! log is back there. Then the synced mark is lowered, then files are moved; each step can be cut
//! short and begun again. What was damaged is kept under names that end in `.damaged`.

use crate::disk::{Disk, Mode, Operation};
use crate::file::{join, read_file};
use crate::reader::{BatchReader, Found};
use crate::segment::{base_of, file_name};
use crate::set_away::Away;
use crate::snapshot_name::DAMAGED;
use crate::snapshot_shelf;
use crate::synced_file::{self, Mark, SyncedFile};
use crate::{EpochTable, Error, Note, Options, epoch_file, must_reach_file};
use bytes::Bytes;
use quorate_base::{Offset, OffsetEpoch};

/// Copied at once.
const COPY_BYTES: usize = 1 << 20;

/// What is wrong with a log, as [`crate::recover()`] said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// A segment is not right from a byte on.
    Segment {
        /// Its base offset.
        base: Offset,
        /// The first byte that cannot be believed.
        position: u64,
    },
    /// The log begins above 0 and no snapshot stands for what was below.
    Uncovered,
}

impl Damage {
    /// The damage that an error of recovery speaks of, if [`set_aside`] can repair it.
    pub fn of(error: &Error) -> Option<Damage> {
        match error {
            Error::Damaged { path, position, .. } => {
                let name = path.rsplit('/').next().unwrap_or(path);
                Some(Damage::Segment { base: base_of(name)?, position: *position })
            }
            Error::Uncovered { .. } => Some(Damage::Uncovered),
            Error::Io { .. }
            | Error::NotFormatted { .. }
            | Error::AlreadyFormatted { .. }
            | Error::Malformed { .. }
            | Error::Foreign { .. }
            | Error::NotABoundary { .. } => None,
        }
    }
}

/// Sets the damaged part aside, so that [`crate::recover()`] succeeds: the log ends before it; or
/// begins and ends behind the newest snapshot, if that lies beyond; or is empty. The caller holds
/// the directory's lock and has no store open. [`crate::Recovery::must_reach`] says afterwards
/// where the log must get before the replica may vote.
pub fn set_aside<D: Disk>(disk: &mut D, options: &Options, damage: Damage) -> Result<Note, Error> {
    let dir = options.partition.as_str();
    let names = disk.list(dir).map_err(Error::io(Operation::List, dir))?;
    let mut bases: Vec<Offset> = names.iter().filter_map(|name| base_of(name)).collect();
    bases.sort();
    if bases.is_empty() {
        return Err(Error::NotFormatted { path: join(dir, &file_name(Offset::ZERO)) });
    }
    let mut notes = Vec::new();
    let shelf = snapshot_shelf::read(disk, dir, &names, &mut notes)?;
    let walked = walk(disk, dir, &bases, damage)?;
    let must_reach = claim(disk, dir, &bases, &walked)?;
    must_reach_file::write(disk, dir, must_reach)?;

    if !matches!(synced_file::read(disk, dir)?, synced_file::Found::Mark(..)) {
        let mark = Mark { segment: bases[0], end: bases[0], position: 0 };
        synced_file::create(disk, dir, mark)?;
    }
    let mut synced = SyncedFile::open(disk, dir)?;
    let mut away = Away { disk, dir, ending: DAMAGED, moved: Vec::new() };
    let newest = shelf.held.last().map(|held| held.id);
    let behind = newest.filter(|newest| walked.cut.is_none_or(|cut| newest.offset >= cut.end));
    let (start, end) = match (behind, walked.cut) {
        (None, Some(cut)) => {
            synced.settle(away.disk, cut)?;
            for base in bases.iter().rev().take_while(|base| **base > cut.segment) {
                away.segment(*base)?;
                away.sync_dir()?;
            }
            cut_tail(&mut away, cut)?;
            (bases[0], cut.end)
        }
        (to, _) => {
            let segments: Vec<Offset> = bases.iter().rev().copied().collect();
            away.reset(&mut synced, &segments, to, &[])?;
            let start = to.map_or(Offset::ZERO, |to| to.offset);
            (start, start)
        }
    };
    Ok(Note::SetAside { start, end, must_reach, kept: away.moved })
}

/// What the batches say, damaged or not.
struct Walked {
    /// Where the log is to be cut; `None` if nothing of it can be kept.
    cut: Option<Mark>,
    /// End and epoch of the last batch that is right in itself.
    last: OffsetEpoch,
}

fn walk<D: Disk>(disk: &D, dir: &str, bases: &[Offset], damage: Damage) -> Result<Walked, Error> {
    let mut walked = Walked { cut: None, last: OffsetEpoch::default() };
    for base in bases {
        let mut reader = BatchReader::open(disk, &join(dir, &file_name(*base)))?;
        let mut end = *base;
        loop {
            let position = reader.position();
            if damage == (Damage::Segment { base: *base, position }) {
                walked.cut = Some(Mark { segment: *base, end, position });
            }
            match reader.next()? {
                None => break,
                Some(Found::Batch(batch)) => {
                    end = batch.end();
                    let epoch = batch.epoch().max(walked.last.epoch);
                    walked.last = OffsetEpoch::new(end.max(walked.last.offset), epoch);
                }
                Some(Found::Damaged(header, _)) => end = header.end(),
                Some(Found::Nothing(_)) => {}
            }
        }
    }
    Ok(walked)
}

/// How far the log went, as far as anything here says: what may have been confirmed.
fn claim<D: Disk>(
    disk: &mut D,
    dir: &str,
    bases: &[Offset],
    walked: &Walked,
) -> Result<OffsetEpoch, Error> {
    let mut claim = walked.last;
    if let synced_file::Found::Mark(mark, _) = synced_file::read(disk, dir)? {
        claim.offset = claim.offset.max(mark.end);
    }
    claim.offset = claim.offset.max(*bases.last().expect("there is a segment"));
    let table = read_file(disk, &join(dir, epoch_file::NAME))?;
    let table = table.and_then(|bytes| EpochTable::decode(&bytes).ok()).unwrap_or_default();
    claim.epoch = claim.epoch.max(table.last_epoch().unwrap_or_default());
    let before = must_reach_file::read(disk, dir)?.unwrap_or_default();
    Ok(if before.log_order() > claim.log_order() { before } else { claim })
}

/// Copies what follows the cut into a file of its own and takes it off the segment.
fn cut_tail<D: Disk>(away: &mut Away<'_, D>, cut: Mark) -> Result<(), Error> {
    let path = join(away.dir, &file_name(cut.segment));
    let kept = format!("{path}.from-{}{DAMAGED}", cut.position);
    let disk = &mut *away.disk;
    let mut file = disk.open(&path, Mode::Write).map_err(Error::io(Operation::Open, &path))?;
    let mut copy = disk.open(&kept, Mode::Create).map_err(Error::io(Operation::Open, &kept))?;
    let mut position = cut.position;
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
    away.sync_dir()?;
    let disk = &mut *away.disk;
    disk.truncate(&mut file, cut.position).map_err(Error::io(Operation::Truncate, &path))?;
    disk.sync(&file).map_err(Error::io(Operation::Sync, &path))?;
    away.moved.push(kept);
    Ok(())
}
