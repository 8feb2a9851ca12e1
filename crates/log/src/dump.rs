//! What the files of a directory say, fact by fact, for a printer.
//!
//! Reads only and takes no lock, so it may look at a directory in use, Kafka's too; of a file that
//! is being written the end may look torn. Damage is a fact like any other and never ends the walk
//! of the other files. `text.rs` turns each fact into a line.

use crate::disk::{Disk, Mode, Operation};
use crate::file::{join, read_file};
use crate::numbers_file::Kept;
use crate::reader::{BatchReader, Found};
use crate::record::{BadRecord, RecordView};
use crate::segment::base_before;
use crate::{
    Batch, ControlText, Election, EpochTable, Error, Fault, Header, Meta, OffsetEntry, Reading,
    TimeEntry, cleaner_checkpoint, election_file, epoch_file, index, meta_file, must_reach_file,
    numbers_file, partition_file, synced_file,
};
use quorate_base::{Cleaned, Epoch, Offset, OffsetEpoch, Uuid};
use std::io;

/// Folders deeper than that are not looked into: that of a log lies in the directory of its node,
/// which may be below one that `quorate dev` made for all of them.
pub(crate) const DEEPEST: u32 = 4;

/// What a file is, by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileKind {
    /// Record batches of the log, the first of them at this offset.
    Segment(Offset),
    /// Record batches of a snapshot.
    Checkpoint,
    /// `.index` of the segment at this offset.
    Offsets(Offset),
    /// `.timeindex` of the segment at this offset.
    Times(Offset),
    /// `leader-epoch-checkpoint`
    Epochs,
    /// `quorum-state`
    Election,
    /// `partition.metadata`
    Topic,
    /// `meta.properties`
    Meta,
    /// `quorate-synced`
    Synced,
    /// `quorate-must-reach`
    MustReach,
    /// `quorate-cleaned`
    Numbers,
    /// `cleaner-offset-checkpoint`
    CleanerEnds,
    /// None of those.
    Other,
}

impl FileKind {
    /// By the last part of a path.
    pub fn of(path: &str) -> FileKind {
        let name = path.rsplit('/').next().unwrap_or(path);
        match name {
            epoch_file::NAME => return FileKind::Epochs,
            election_file::NAME => return FileKind::Election,
            partition_file::NAME => return FileKind::Topic,
            meta_file::NAME => return FileKind::Meta,
            synced_file::NAME => return FileKind::Synced,
            must_reach_file::NAME => return FileKind::MustReach,
            numbers_file::NAME => return FileKind::Numbers,
            cleaner_checkpoint::NAME => return FileKind::CleanerEnds,
            _ => {}
        }
        let segment = base_before(name, ".log").map(FileKind::Segment);
        let offsets = base_before(name, index::OFFSETS).map(FileKind::Offsets);
        let times = base_before(name, index::TIMES).map(FileKind::Times);
        let checkpoint = name.ends_with(".checkpoint").then_some(FileKind::Checkpoint);
        segment.or(offsets).or(times).or(checkpoint).unwrap_or(FileKind::Other)
    }
}

/// One thing that a file says.
#[derive(Clone, Debug)]
pub enum Fact<'a> {
    /// A file begins; all facts up to the next of this kind are from it.
    File {
        /// The file.
        path: &'a str,
        /// What it is.
        kind: FileKind,
        /// Its size.
        bytes: u64,
    },
    /// A batch; its records follow, unless it is damaged.
    Batch {
        /// Where it begins.
        position: u64,
        /// What its header says.
        header: Header,
        /// What is wrong with it.
        fault: Option<Fault>,
    },
    /// A record of the batch before.
    Record {
        /// The record.
        record: RecordView<'a>,
        /// The producer's number; -1 without one.
        sequence: i32,
        /// What a control record says, or why it cannot be understood.
        control: Option<Result<ControlText, String>>,
    },
    /// A record that makes no sense; no more of its batch follow.
    BadRecord(BadRecord),
    /// An entry of `.index`.
    Offset(OffsetEntry),
    /// An entry of `.timeindex`.
    Time(TimeEntry),
    /// An epoch and its first offset.
    Epoch(Epoch, Offset),
    /// The election state.
    Election(Election),
    /// The topic id.
    Topic(Uuid),
    /// Whose directory it is.
    Meta(Meta),
    /// A slot of `quorate-synced`.
    Mark {
        /// Which write of the mark it was.
        sequence: u64,
        /// Base offset of the segment that holds `end`.
        segment: Offset,
        /// All of the log below here was durable.
        end: Offset,
        /// Where that end lies in the segment.
        position: u64,
    },
    /// Where the log must get again: its end before damage was set aside, and the epoch there.
    MustReach(OffsetEpoch),
    /// What a cleaned log says of itself.
    Numbers {
        /// With each record that it gives away.
        numbers: Cleaned,
        /// Up to where the node's own cleaner has been.
        cleaner: Offset,
        /// What the node's own state must hold against it.
        reading: Reading,
        /// The segments that a cleaned one is about to take the place of.
        swap: Vec<Offset>,
    },
    /// Up to where a partition was cleaned, as Kafka's tools know it.
    CleanerEnd {
        /// Topic.
        topic: String,
        /// Number of the partition.
        partition: u32,
        /// The end of what was cleaned.
        end: Offset,
    },
    /// From here on the file makes no sense.
    Bad {
        /// The byte.
        position: u64,
        /// What belongs there.
        expected: String,
        /// What is there.
        found: String,
    },
}

/// All files below `dir` (`""` is the root), sorted, as paths.
pub fn files<D: Disk>(disk: &D, dir: &str) -> Result<Vec<String>, Error> {
    let names = disk.list(dir).map_err(Error::io(Operation::List, dir))?;
    let mut found = Vec::new();
    walk(disk, dir, names, 1, &mut found)?;
    Ok(found)
}

fn walk<D: Disk>(
    disk: &D,
    dir: &str,
    names: Vec<String>,
    depth: u32,
    found: &mut Vec<String>,
) -> Result<(), Error> {
    for name in names {
        let path = join(dir, &name);
        match disk.list(&path) {
            Ok(names) if depth < DEEPEST => walk(disk, &path, names, depth + 1, found)?,
            Ok(_) => {}
            Err(error) if is_file(&error) => found.push(path),
            Err(error) => return Err(Error::io(Operation::List, &path)(error)),
        }
    }
    Ok(())
}

fn is_file(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::NotFound)
}

/// Shows what one file says. An error is the disk's; what is wrong with the file is a fact.
pub fn dump<D: Disk>(
    disk: &mut D,
    path: &str,
    show: &mut dyn FnMut(Fact<'_>),
) -> Result<(), Error> {
    let kind = FileKind::of(path);
    let file = disk.open(path, Mode::Read).map_err(Error::io(Operation::Open, path))?;
    let bytes = disk.len(&file).map_err(Error::io(Operation::Read, path))?;
    drop(file);
    show(Fact::File { path, kind, bytes });
    match kind {
        FileKind::Segment(_) | FileKind::Checkpoint => batches(disk, path, show),
        FileKind::Other => Ok(()),
        FileKind::Offsets(_)
        | FileKind::Times(_)
        | FileKind::Epochs
        | FileKind::Election
        | FileKind::Topic
        | FileKind::Meta
        | FileKind::Synced
        | FileKind::MustReach
        | FileKind::Numbers
        | FileKind::CleanerEnds => {
            let read = read_file(disk, path);
            let small = read.and_then(|bytes| small(kind, path, &bytes.unwrap_or_default(), show));
            match small {
                Err(Error::Malformed { position, expected, found, .. }) => {
                    show(Fact::Bad { position, expected, found });
                    Ok(())
                }
                other => other,
            }
        }
    }
}

fn batches<D: Disk>(disk: &mut D, path: &str, show: &mut dyn FnMut(Fact<'_>)) -> Result<(), Error> {
    let mut reader = BatchReader::open(disk, path)?;
    loop {
        let position = reader.position();
        match reader.next()? {
            None => return Ok(()),
            Some(Found::Batch(batch)) => {
                show(Fact::Batch { position, header: batch.header, fault: None });
                show_records(&batch, show);
            }
            Some(Found::Damaged(header, fault)) => {
                show(Fact::Batch { position, header, fault: Some(fault) });
            }
            Some(Found::Nothing(fault)) => {
                let expected = "a batch".to_owned();
                show(Fact::Bad { position, expected, found: fault.instead() });
            }
        }
    }
}

/// Shows the records of one batch, as [`dump`] does behind that.
pub fn show_records(batch: &Batch, show: &mut dyn FnMut(Fact<'_>)) {
    for record in batch.records() {
        match record {
            Ok(record) => {
                let delta = (record.offset.0 - batch.base().0) as i32;
                let sequence = match batch.header.base_sequence {
                    base if base < 0 => -1,
                    // Producers' numbers begin again at 0.
                    base => (i64::from(base) + i64::from(delta)).rem_euclid(1 << 31) as i32,
                };
                let control = batch.control().then(|| control(&record));
                show(Fact::Record { record, sequence, control });
            }
            Err(bad) => show(Fact::BadRecord(bad)),
        }
    }
}

/// What a record of a control batch says.
pub(crate) fn control(record: &RecordView<'_>) -> Result<ControlText, String> {
    let (key, value) = (record.key.unwrap_or_default(), record.value.unwrap_or_default());
    ControlText::of(key, value).map_err(|error| error.to_string())
}

fn small(
    kind: FileKind,
    path: &str,
    bytes: &[u8],
    show: &mut dyn FnMut(Fact<'_>),
) -> Result<(), Error> {
    match kind {
        FileKind::Offsets(base) => {
            index::offset_entries(base, bytes).for_each(|entry| show(Fact::Offset(entry)));
        }
        FileKind::Times(base) => {
            index::time_entries(base, bytes).for_each(|entry| show(Fact::Time(entry)));
        }
        FileKind::Epochs => {
            let table = EpochTable::decode(bytes).map_err(|bad| bad.at(path))?;
            table.entries().iter().for_each(|(epoch, first)| show(Fact::Epoch(*epoch, *first)));
        }
        FileKind::Election => {
            show(Fact::Election(Election::decode(bytes).map_err(|bad| bad.at(path))?));
        }
        FileKind::Topic => {
            show(Fact::Topic(partition_file::decode(bytes).map_err(|bad| bad.at(path))?));
        }
        FileKind::MustReach => {
            show(Fact::MustReach(must_reach_file::decode(bytes).map_err(|bad| bad.at(path))?));
        }
        FileKind::Numbers => {
            let Kept { carried, swap } = Kept::decode(bytes).map_err(|bad| bad.at(path))?;
            let swap = swap.map(|swap| swap.segments).unwrap_or_default();
            let (cleaner, reading) = (carried.cleaner, carried.reading);
            show(Fact::Numbers { numbers: carried.numbers(), cleaner, reading, swap });
        }
        FileKind::CleanerEnds => match cleaner_checkpoint::decode(bytes) {
            Some(lines) => lines.into_iter().for_each(|(topic, partition, end)| {
                show(Fact::CleanerEnd { topic, partition, end });
            }),
            None => {
                let expected = "version 0, a count, and so many lines".to_owned();
                show(Fact::Bad { position: 0, expected, found: "other text".to_owned() });
            }
        },
        FileKind::Meta => show(Fact::Meta(Meta::decode(bytes).map_err(|bad| bad.at(path))?)),
        FileKind::Synced => {
            let marks = synced_file::slots(bytes);
            for slot in marks.iter().flatten() {
                let synced_file::Mark { segment, end, position } = slot.mark;
                show(Fact::Mark { sequence: slot.sequence, segment, end, position });
            }
            if marks.iter().flatten().next().is_none() {
                let (expected, found) = ("a valid slot".to_owned(), "none".to_owned());
                show(Fact::Bad { position: 0, expected, found });
            }
        }
        FileKind::Segment(_) | FileKind::Checkpoint | FileKind::Other => {}
    }
    Ok(())
}
