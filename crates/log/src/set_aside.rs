//! Repair: sets the damaged part of a log aside, so that a replica can begin with what is right and
//! fetch the rest again, without forgetting that it had confirmed more.
//!
//! First `quorate-must-reach` is written, durably: from then on the replica does not stand, and
//! votes only for who holds as much, until its log is back there. Then files are moved, and only
//! when nothing damaged is left is the synced mark lowered: below it a batch whose epoch rotted is
//! told from a new one. Each step can be cut short and begun again. What was damaged is kept under
//! names that end in `.damaged`.

use crate::disk::{Disk, Operation};
use crate::file::{join, read_file};
use crate::numbers::Carried;
use crate::numbers_file::Kept;
use crate::reader::{BatchReader, Found};
use crate::recover::recover_noting;
use crate::segment::{base_of, file_name};
use crate::set_away::Away;
use crate::snapshot_name::DAMAGED;
use crate::snapshot_shelf;
use crate::synced_file::{self, Mark};
use crate::{
    Batch, ControlType, Election, EpochTable, Error, Head, Header, Note, Options, Recovery,
    election_file, epoch_file, must_reach_file, numbers_file,
};
use bytes::Bytes;
use quorate_base::{Epoch, Offset, OffsetEpoch};

/// What is set aside in one round leaves nothing that the next could stumble over; a disk that
/// shows other damage each time it is read is not to keep a node busy for ever.
pub(crate) const ROUNDS: usize = 3;

/// What is wrong with a log, as [`crate::recover()`] said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// Where it is.
    pub place: Place,
    /// What was expected and found there, in words.
    pub why: String,
}

/// Where a log is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// A segment is not right from a byte on.
    Segment {
        /// Its base offset.
        base: Offset,
        /// The first byte that cannot be believed.
        position: u64,
    },
    /// The epoch table and the batches contradict each other.
    Epochs,
    /// The log begins above 0 and no snapshot stands for what was below.
    Uncovered,
    /// What a cleaned log says of itself is not known. Nothing of it can be used (decision 11).
    Numbers,
}

impl Damage {
    /// The damage that an error of recovery speaks of, if [`set_aside`] can repair it.
    pub fn of(error: &Error) -> Option<Damage> {
        let place = match error {
            Error::Damaged { path, position, .. } => {
                match path.rsplit('/').next().unwrap_or(path) {
                    epoch_file::NAME => Place::Epochs,
                    numbers_file::NAME => Place::Numbers,
                    name => Place::Segment { base: base_of(name)?, position: *position },
                }
            }
            Error::Uncovered { .. } => Place::Uncovered,
            Error::Io { .. }
            | Error::NotFormatted { .. }
            | Error::Lost { .. }
            | Error::AlreadyFormatted { .. }
            | Error::Malformed { .. }
            | Error::Foreign { .. }
            | Error::NotABoundary { .. } => return None,
        };
        Some(Damage { place, why: error.fault() })
    }
}

/// As [`crate::recover()`], but what is damaged is set aside first if others hold the same log, and
/// the notes say so. Whether they do, `others` says of the head of the newest snapshot that can be
/// read and of what the control batches behind it say of the voters, the latest last; it is asked
/// only about a damaged log. The caller holds the directory's lock.
pub fn repair<D: Disk>(
    disk: &mut D,
    options: &Options,
    mut others: impl FnMut(&Head) -> bool,
) -> Result<Recovery, Error> {
    let mut notes = Vec::new();
    for round in 0.. {
        match recover_noting(disk, options, &mut notes) {
            Ok(recovery) => return Ok(Recovery { notes, ..recovery }),
            Err(error) => match Damage::of(&error) {
                Some(damage) if round < ROUNDS && others(&head(disk, options)?) => {
                    notes.push(set_aside(disk, options, &damage)?);
                }
                Some(Damage { place: Place::Numbers, why }) if round < ROUNDS => {
                    notes.push(say_the_most(disk, &options.partition, why)?);
                }
                Some(_) | None => return Err(error),
            },
        }
    }
    unreachable!("the last round returns")
}

/// Gives the log of the only voter the numbers that are true of any log that ends there.
fn say_the_most<D: Disk>(disk: &mut D, dir: &str, why: String) -> Result<Note, Error> {
    let names = disk.list(dir).map_err(Error::io(Operation::List, dir))?;
    let mut bases: Vec<Offset> = names.iter().filter_map(|name| base_of(name)).collect();
    bases.sort();
    let mut end = last_right(disk, dir, &bases)?.offset;
    if let synced_file::Found::Mark(mark, ..) = synced_file::read(disk, dir)? {
        end = end.max(mark.end);
    }
    let cleaned = Kept { carried: Carried::nothing_known(end), swap: None };
    numbers_file::write(disk, dir, &cleaned)?;
    Ok(Note::NumbersRebuilt { path: join(dir, numbers_file::NAME), why, end })
}

/// What the newest snapshot that can be read says of the voters, and then all batches behind it
/// that are right in themselves, in front of damage or behind it.
fn head<D: Disk>(disk: &mut D, options: &Options) -> Result<Head, Error> {
    let dir = options.partition.as_str();
    let names = disk.list(dir).map_err(Error::io(Operation::List, dir))?;
    let mut notes = Vec::new();
    let shelf = snapshot_shelf::read(disk, dir, &names, &mut notes)?;
    let newest = shelf.held.last().map_or(Offset::ZERO, |held| held.id.offset);
    let mut head = shelf.head;
    let mut bases: Vec<Offset> = names.iter().filter_map(|name| base_of(name)).collect();
    bases.sort();
    for base in bases {
        let mut reader = BatchReader::open(disk, &join(dir, &file_name(base)))?;
        loop {
            let from = reader.position();
            match reader.next()? {
                Some(Found::Batch(batch)) if batch.control() && batch.base() >= newest => {
                    head.extend(said_of_voters(&batch));
                }
                Some(Found::Batch(_)) | None => {}
                Some(Found::Damaged(..) | Found::Nothing(_)) => reader.search(from + 1)?,
            }
            if reader.position() == from {
                break;
            }
        }
    }
    Ok(head)
}

/// The records of a control batch that a snapshot's head would have.
fn said_of_voters(batch: &Batch) -> Head {
    let records = batch.records().flatten();
    let said = records.filter_map(|record| {
        let kind = ControlType::of_key(record.key?).ok()?;
        let voters = [ControlType::KRaftVersion, ControlType::KRaftVoters].contains(&kind);
        voters.then(|| Some((kind, Bytes::copy_from_slice(record.value?))))?
    });
    said.collect()
}

/// Sets the damaged part aside, so that [`crate::recover()`] succeeds: the log ends before it; or
/// begins and ends behind the newest snapshot, if that lies beyond; or is empty. The caller holds
/// the directory's lock and has no store open. [`crate::Recovery::must_reach`] says afterwards
/// where the log must get before the replica may vote.
pub fn set_aside<D: Disk>(disk: &mut D, options: &Options, damage: &Damage) -> Result<Note, Error> {
    let dir = options.partition.as_str();
    let names = disk.list(dir).map_err(Error::io(Operation::List, dir))?;
    let mut bases: Vec<Offset> = names.iter().filter_map(|name| base_of(name)).collect();
    bases.sort();
    let Some(first) = bases.first().copied() else {
        return Err(Error::NotFormatted { path: join(dir, &file_name(Offset::ZERO)) });
    };
    let mut notes = Vec::new();
    let shelf = snapshot_shelf::read(disk, dir, &names, &mut notes)?;
    let table = read_file(disk, &join(dir, epoch_file::NAME))?;
    let table = table.and_then(|bytes| EpochTable::decode(&bytes).ok());
    let walked = walk(disk, dir, &bases, damage.place, table.as_ref())?;
    let must_reach = claim(disk, dir, &bases, &walked, table.as_ref())?;
    must_reach_file::write(disk, dir, must_reach)?;
    synced_file::note_owing(disk, dir, true)?;

    let cleaned = !matches!(numbers_file::read(disk, dir), Ok(None));
    let mut away = Away { disk, dir, ending: DAMAGED, moved: Vec::new() };
    // A trimmed log whose snapshot is gone is of no use, however much of it is right.
    let begins = table.as_ref().and_then(|table| table.entries().first()).map(|(_, at)| *at);
    let begins = begins.filter(|at| *at > first && shelf.ends.contains(at)).unwrap_or(first);
    // Of a cleaned log a snapshot of one's own may be no version, and what follows it at a leader
    // may lack what deletes its keys: only a log from 0 on says what it is (decision 11).
    let held = if cleaned && begins == Offset::ZERO { &[][..] } else { &shelf.held[..] };
    if held.len() < shelf.held.len() {
        shelf.held.iter().try_for_each(|held| away.snapshot(held.id))?;
        away.sync_dir()?;
    }
    let newest = held.last().map(|held| held.id);
    let covered = newest.map_or(Offset::ZERO, |newest| newest.offset) >= begins;
    let usable = covered && damage.place != Place::Numbers;
    let cut = walked.cut.filter(|_| usable);
    let behind = newest.filter(|newest| cut.is_none_or(|cut| newest.offset >= cut.end));
    let (start, end) = match (behind, cut) {
        (None, Some(cut)) => {
            away.cut(&bases, cut)?;
            synced_file::lower(away.disk, dir, cut)?;
            (begins, cut.end)
        }
        (to, _) => {
            let mut synced = away.empty(&bases)?;
            let to = to.filter(|_| damage.place != Place::Numbers);
            away.reset(&mut synced, &[first], to, &[])?;
            if to.is_none() {
                // Nothing is missing of a log that is empty.
                away.file(&join(dir, numbers_file::NAME))?;
                away.sync_dir()?;
            }
            let start = to.map_or(Offset::ZERO, |to| to.offset);
            (start, start)
        }
    };
    let why = damage.why.clone();
    Ok(Note::SetAside { why, start, end, must_reach, kept: away.moved })
}

/// What the batches say, damaged or not.
pub(crate) struct Walked {
    /// Where the log is to be cut: before the first thing that is not right. `None` if nothing of
    /// it can be kept.
    cut: Option<Mark>,
    /// End and epoch of the last batch that is right in itself.
    last: OffsetEpoch,
}

/// End and epoch of the last batch that is right in itself, in front of damage or behind it.
pub(crate) fn last_right<D: Disk>(
    disk: &D,
    dir: &str,
    bases: &[Offset],
) -> Result<OffsetEpoch, Error> {
    walk(disk, dir, bases, Place::Uncovered, None).map(|walked| walked.last)
}

pub(crate) fn walk<D: Disk>(
    disk: &D,
    dir: &str,
    bases: &[Offset],
    place: Place,
    table: Option<&EpochTable>,
) -> Result<Walked, Error> {
    let mut walked = Walked { cut: None, last: OffsetEpoch::default() };
    let table = table.filter(|_| place == Place::Epochs);
    // Where the log stands for as long as all is right.
    let mut right: Option<(Mark, Epoch)> = None;
    for base in bases {
        let mut reader = BatchReader::open(disk, &join(dir, &file_name(*base)))?;
        match right {
            Some((at, _)) if walked.cut.is_none() && at.end != *base => walked.cut = Some(at),
            Some(_) | None => {}
        }
        let mut at = Mark { segment: *base, end: *base, position: 0 };
        let mut place_of = Placing { end: Some(*base), guess: None };
        let mut epoch = right.map(|(_, epoch)| epoch).unwrap_or_default();
        loop {
            let found = reader.next()?;
            let bad = place == Place::Segment { base: *base, position: at.position }
                || matches!(place, Place::Segment { base: of, position }
                    if of == *base && position < reader.position());
            let follows = match &found {
                None => !bad,
                Some(Found::Batch(batch)) => {
                    let Header { base, epoch: own, .. } = batch.header;
                    let agrees =
                        table.is_none_or(|table| epoch_file::agree(table.entries(), &batch.header));
                    !bad && agrees && base == at.end && own >= epoch
                }
                Some(Found::Damaged(..) | Found::Nothing(_)) => false,
            };
            if !follows && walked.cut.is_none() {
                walked.cut = Some(at);
            }
            let ends = match found {
                Some(Found::Batch(batch)) => {
                    epoch = batch.epoch();
                    let ends = place_of.batch(&batch.header, *base, at.position);
                    at.end = ends.unwrap_or(at.end);
                    walked.last.epoch = walked.last.epoch.max(epoch);
                    ends
                }
                Some(Found::Damaged(..) | Found::Nothing(_)) => {
                    reader.search(at.position + 1)?;
                    place_of.lose()
                }
                None => place_of.lose(),
            };
            let last = &mut walked.last.offset;
            *last = (*last).max(ends.unwrap_or_default());
            let before = std::mem::replace(&mut at.position, reader.position());
            if before == at.position {
                break;
            }
        }
        right = Some((at, epoch));
    }
    Ok(walked)
}

/// Where the batches of a segment lie among the offsets. A checksum leaves the base offset out; so
/// behind damage one is believed only once the next batch follows it.
struct Placing {
    /// The end of the last batch, if that is known for certain.
    end: Option<Offset>,
    /// What the last batch says of itself.
    guess: Option<Offset>,
}

impl Placing {
    /// A right batch at this byte of a segment; returns its end if that is known.
    fn batch(&mut self, header: &Header, segment: Offset, position: u64) -> Option<Offset> {
        // A record takes a byte at least.
        let fits = header.base >= segment && header.base - segment <= position;
        let follows = self.guess == Some(header.base);
        self.end = match self.end {
            Some(end) => Some(end + (header.end() - header.base)),
            None => follows.then(|| header.end()),
        };
        self.guess = fits.then(|| header.end()).or(self.guess);
        self.end
    }

    /// Behind this nothing is known; returns what the last batch said, should none have known.
    fn lose(&mut self) -> Option<Offset> {
        let end = self.end.take();
        let guess = self.guess.take();
        end.or(guess)
    }
}

/// How far the log went, as far as anything here says: what may have been confirmed.
pub(crate) fn claim<D: Disk>(
    disk: &mut D,
    dir: &str,
    bases: &[Offset],
    walked: &Walked,
    table: Option<&EpochTable>,
) -> Result<OffsetEpoch, Error> {
    let mut claim = walked.last;
    if let synced_file::Found::Mark(mark, ..) = synced_file::read(disk, dir)? {
        claim.offset = claim.offset.max(mark.end);
    }
    claim.offset = claim.offset.max(*bases.last().expect("there is a segment"));
    let path = join(dir, election_file::NAME);
    let election = match read_file(disk, &path)? {
        Some(bytes) => Some(Election::decode(&bytes).map_err(|bad| bad.at(&path))?.epoch),
        None => None,
    };
    // The election file is written before the first record of an epoch is; so no record has a later
    // one. Without a table the damaged records may be of any epoch up to there.
    let known = table.map(|table| table.last_epoch().unwrap_or_default());
    claim.epoch = claim.epoch.max(known.or(election).unwrap_or_default());
    claim.epoch = claim.epoch.min(election.unwrap_or(claim.epoch));
    let before = must_reach_file::read(disk, dir)?.unwrap_or_default();
    Ok(if before.log_order() > claim.log_order() { before } else { claim })
}
