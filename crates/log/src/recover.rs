//! Reads a partition's directory after any stop, and leaves it durable and without loose ends.
//!
//! Rules: a damaged or cut batch is a torn tail only in the last segment and only at or above the
//! synced mark; it is cut off and a [`Note`] says so. Everywhere else it is an error, because this
//! replica may have promised those records. Whatever is kept is synced before it is reported, so
//! all of a [`Recovery`] is durable. A crash during recovery is as any other. See `synced_file.rs`
//! for what the mark proves and `epoch_file.rs` for what its table guards.

use crate::disk::{Disk, Mode, Operation};
use crate::error::BadText;
use crate::file::{TEMPORARY, join, read_file, replace_file};
use crate::index::IndexCheck;
use crate::index_files::{self, Indexes};
use crate::scan::{Scan, scan};
use crate::segment::{Segment, base_of, file_name};
use crate::synced_file::{self, Found, Mark, SyncedFile};
use crate::{Election, EpochTable, Error, IndexBytes, Options, election_file, epoch_file};
use quorate_base::{Offset, OffsetEpoch};
use std::{fmt, io};

/// What a directory holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovery {
    /// What this replica knew of elections; `None` if it has seen none.
    pub election: Option<Election>,
    /// First offset of the log.
    pub start: Offset,
    /// One past its last offset; all below is durable.
    pub end: Offset,
    /// Where each epoch begins.
    pub epochs: EpochTable,
    /// What had to be mended, for one line of the node's log each.
    pub notes: Vec<Note>,
    pub(crate) segments: Vec<Segment>,
}

impl Recovery {
    /// The end of the log and the epoch of its last record.
    pub fn last(&self) -> OffsetEpoch {
        OffsetEpoch::new(self.end, self.epochs.last_epoch().unwrap_or_default())
    }
}

/// Something that recovery mended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Note {
    /// The last write was cut short by a crash. Nobody was promised what it held.
    TornTail {
        /// The segment.
        path: String,
        /// Where it was cut.
        position: u64,
        /// How much went.
        bytes: u64,
        /// The end of the log now.
        end: Offset,
        /// What was wrong with the first batch that went.
        fault: crate::Fault,
    },
    /// The epoch table did not follow the log and was written anew from it.
    EpochsRebuilt {
        /// The file.
        path: String,
        /// What was wrong with it.
        why: String,
    },
    /// A file that a crash left half written was removed.
    LeftOver {
        /// The file.
        path: String,
    },
    /// An index said what the log does not. One that only lagged is completed without a word.
    IndexRebuilt {
        /// The file.
        path: String,
        /// The first byte that was wrong.
        position: u64,
        /// What belongs there.
        expected: String,
        /// What was there.
        found: String,
    },
    /// The synced mark could not be read; the log held no damage, so a new one was made.
    MarkRebuilt {
        /// The file.
        path: String,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::TornTail { path, position, bytes, end, fault } => write!(
                f,
                "file={path} position={position} cut={bytes} end={end} {fault}: cut off the torn \
                 tail of the last write, which was never confirmed"
            ),
            Note::EpochsRebuilt { path, why } => {
                write!(f, "file={path} {why}: written anew from the log")
            }
            Note::LeftOver { path } => {
                write!(f, "file={path}: removed what a crash left half written")
            }
            Note::IndexRebuilt { path, position, expected, found } => write!(
                f,
                "file={path} position={position} expected {expected}, found {found}: written anew \
                 from the log"
            ),
            Note::MarkRebuilt { path } => {
                write!(f, "file={path}: unreadable, made anew; the log itself is whole")
            }
        }
    }
}

/// Reads and mends the partition's directory. Fails on one that was never formatted.
pub fn recover<D: Disk>(disk: &mut D, options: &Options) -> Result<Recovery, Error> {
    let &Options { ref partition, index_interval_bytes, .. } = options;
    let mut recover = Recover { disk, dir: partition, index_interval_bytes, notes: Vec::new() };
    let bases = recover.segments()?;
    let election = recover.election()?;
    let mark = synced_file::read(recover.disk, recover.dir)?;
    let mut epochs = EpochTable::default();
    let scans = recover.scan(&bases, mark, &mut epochs)?;
    let last = scans.last().expect("there is a segment");
    let (start, end) = (bases[0], last.end);
    let position = last.segment.size;
    let segments: Vec<Segment> = scans.into_iter().map(|scan| scan.segment).collect();
    recover.epochs(&epochs, mark)?;
    let segment = segments.last().expect("there is a segment").base;
    recover.mark(mark, Mark { segment, end, position })?;
    Ok(Recovery { election, start, end, epochs, notes: recover.notes, segments })
}

struct Recover<'a, D: Disk> {
    disk: &'a mut D,
    dir: &'a str,
    index_interval_bytes: u64,
    notes: Vec<Note>,
}

impl<D: Disk> Recover<'_, D> {
    /// The base offsets of the segments, in order. Removes what replacing a file left behind.
    fn segments(&mut self) -> Result<Vec<Offset>, Error> {
        let names = match self.disk.list(self.dir) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Error::NotFormatted { path: self.dir.to_owned() });
            }
            Err(error) => return Err(Error::io(Operation::List, self.dir)(error)),
        };
        for name in names.iter().filter(|name| name.ends_with(TEMPORARY)) {
            let path = join(self.dir, name);
            self.disk.remove(&path).map_err(Error::io(Operation::Remove, &path))?;
            self.notes.push(Note::LeftOver { path });
        }
        // Also makes the names durable that the last process left in the page cache.
        self.disk.sync_dir(self.dir).map_err(Error::io(Operation::SyncDir, self.dir))?;
        let mut bases: Vec<Offset> = names.iter().filter_map(|name| base_of(name)).collect();
        bases.sort();
        if bases.is_empty() {
            return Err(Error::NotFormatted { path: join(self.dir, &file_name(Offset::ZERO)) });
        }
        Ok(bases)
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
            let scan = scan(self.disk, &file, &path, segment, epochs, |header, position| {
                check.batch(header, position)
            })?;
            if let Some(fault) = scan.fault {
                let position = scan.segment.size;
                let torn = *base == last && position >= firm(mark, *base) && !fault.is_foreign();
                if !torn {
                    let expected = format!("the batch at offset {}", scan.end);
                    let found = fault.to_string();
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
            Found::Mark(mark, _) if last.end < mark.end => Err(Error::Damaged {
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
    fn epochs(&mut self, scanned: &EpochTable, mark: Found) -> Result<(), Error> {
        let path = join(self.dir, epoch_file::NAME);
        let why = match read_file(self.disk, &path)? {
            None => "missing".to_owned(),
            Some(bytes) => match EpochTable::decode(&bytes) {
                Ok(table) if table == *scanned => return Ok(()),
                Ok(table) => {
                    self.epochs_agree(&table, scanned, mark)?;
                    "did not follow the log".to_owned()
                }
                Err(bad) => {
                    format!("byte {}: expected {}, found {}", bad.position, bad.expected, bad.found)
                }
            },
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
            Found::Mark(mark, _) => mark.end,
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
            found: format!("({})", print(table)),
        })
    }

    /// Raises the mark to the end of the log, durably.
    fn mark(&mut self, found: Found, mark: Mark) -> Result<(), Error> {
        match found {
            Found::Mark(old, _) if old == mark => Ok(()),
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

/// Below this byte of the segment, damage is not a torn tail.
pub(crate) fn firm(mark: Found, segment: Offset) -> u64 {
    match mark {
        Found::Mark(mark, _) if mark.segment == segment => mark.position,
        Found::Mark(mark, _) if mark.segment < segment => 0,
        Found::Mark(..) | Found::Unreadable => u64::MAX,
        Found::Missing => 0,
    }
}
