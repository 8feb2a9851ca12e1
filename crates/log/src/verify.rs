//! Looks at every file of a data directory and says what is wrong, without changing a byte.
//!
//! No lock and no recovery: it may look at a directory in use, and at Kafka's. All problems are
//! found in one go, except that a file which makes no sense any more is given up there. What the
//! next start mends by itself, a torn tail and files that follow from the log, is told apart from
//! damage.

use crate::batch::Fault;
use crate::disk::Disk;
use crate::dump::{FileKind, control, files};
use crate::file::{join, read_file};
use crate::index::IndexCheck;
use crate::reader::{BatchReader, Found};
use crate::recover::firm;
use crate::segment::file_name;
use crate::snapshot_name::{DAMAGED, SnapshotName};
use crate::synced_file::{self, Mark};
use crate::{
    Batch, Election, EpochTable, Error, Header, Meta, epoch_file, index_files, must_reach_file,
    partition_file,
};
use quorate_base::{Epoch, Offset, OffsetEpoch};
use std::fmt;

/// Something that is not as it should be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The file.
    pub path: String,
    /// The byte.
    pub position: u64,
    /// What belongs there.
    pub expected: String,
    /// What is there.
    pub found: String,
    /// Whether the next start mends it by itself and nothing is lost by that.
    pub mends: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { path, position, expected, found, mends } = self;
        write!(f, "{path}: at byte {position}: expected {expected}, found {found}")?;
        if *mends { f.write_str(" (mended at the next start)") } else { Ok(()) }
    }
}

/// Checks all files below the directory `dir` of the disk (`""` is its root). Fails only where the
/// disk does.
pub fn verify<D: Disk>(disk: &mut D, dir: &str) -> Result<Vec<Finding>, Error> {
    let paths = files(disk, dir)?;
    let mut verify = Verify { disk, findings: Vec::new(), snapshots: Vec::new() };
    let mut known = 0;
    let mut partitions: Vec<&str> = Vec::new();
    for path in &paths {
        let kind = FileKind::of(path);
        known += usize::from(kind != FileKind::Other);
        match kind {
            FileKind::Segment(_) => partitions.push(dir_of(path)),
            FileKind::Checkpoint => verify.checkpoint(path)?,
            FileKind::Epochs => verify.small(path, |bytes| EpochTable::decode(bytes).map(drop))?,
            FileKind::Election => verify.small(path, |bytes| Election::decode(bytes).map(drop))?,
            FileKind::Topic => {
                verify.small(path, |bytes| partition_file::decode(bytes).map(drop))?;
            }
            FileKind::Meta => verify.small(path, |bytes| Meta::decode(bytes).map(drop))?,
            FileKind::MustReach => {
                verify.small(path, |bytes| must_reach_file::decode(bytes).map(drop))?;
            }
            // Held against their log.
            FileKind::Offsets(_) | FileKind::Times(_) | FileKind::Synced | FileKind::Other => {}
        }
    }
    partitions.dedup();
    for partition in partitions {
        let bases = paths.iter().filter(|path| dir_of(path) == partition);
        let bases = bases.filter_map(|path| match FileKind::of(path) {
            FileKind::Segment(base) => Some(base),
            FileKind::Checkpoint
            | FileKind::Offsets(_)
            | FileKind::Times(_)
            | FileKind::Epochs
            | FileKind::Election
            | FileKind::Topic
            | FileKind::Meta
            | FileKind::Synced
            | FileKind::MustReach
            | FileKind::Other => None,
        });
        let aside = paths.iter().filter(|path| dir_of(path) == partition);
        let aside = aside.filter_map(|path| snapshot_id(path.strip_suffix(DAMAGED)?)).collect();
        verify.partition(partition, &bases.collect::<Vec<_>>(), aside)?;
    }
    if known == 0 {
        verify.damage(dir, 0, "the files of a node", "none of them");
    }
    verify.findings.sort_by(|a, b| (&a.path, a.position).cmp(&(&b.path, b.position)));
    Ok(verify.findings)
}

fn dir_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

/// The snapshot that a whole file of this path is.
fn snapshot_id(path: &str) -> Option<OffsetEpoch> {
    match SnapshotName::parse(path.rsplit('/').next().unwrap_or(path))? {
        SnapshotName::Whole(id) => Some(id),
        SnapshotName::Part(_) | SnapshotName::Deleted(_) => None,
    }
}

struct Verify<'a, D: Disk> {
    disk: &'a mut D,
    findings: Vec<Finding>,
    /// The snapshots that are right, by directory.
    snapshots: Vec<(String, OffsetEpoch)>,
}

/// Where a log stands after the batches so far.
struct Walked {
    end: Offset,
    /// Behind a batch that lies out of order, whatever comes next is taken to be in order.
    lost: bool,
    epochs: EpochTable,
}

impl Walked {
    fn from(end: Offset) -> Walked {
        Walked { end, lost: false, epochs: EpochTable::default() }
    }

    /// Takes a batch in; says what is wrong with its place.
    fn pass(&mut self, header: &Header) -> Option<Fault> {
        let gap = header.base != self.end && !self.lost;
        let fell = self.epochs.last_epoch().filter(|last| header.epoch < *last);
        self.lost = gap;
        if gap {
            return Some(Fault::Gap { expected: self.end, found: header.base });
        }
        self.end = header.end();
        if let Some(expected) = fell {
            return Some(Fault::EpochFell { expected, found: header.epoch });
        }
        let last = self.epochs.entries().last();
        if last.is_none_or(|(epoch, first)| header.epoch == *epoch || header.base > *first) {
            self.epochs.note(header.epoch, header.base);
        }
        None
    }
}

impl<D: Disk> Verify<'_, D> {
    fn damage(
        &mut self,
        path: &str,
        position: u64,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) {
        self.find(path, position, expected, found, false);
    }

    fn find(
        &mut self,
        path: &str,
        position: u64,
        expected: impl Into<String>,
        found: impl Into<String>,
        mends: bool,
    ) {
        let (path, expected, found) = (path.to_owned(), expected.into(), found.into());
        self.findings.push(Finding { path, position, expected, found, mends });
    }

    fn small(
        &mut self,
        path: &str,
        decode: impl FnOnce(&[u8]) -> Result<(), crate::error::BadText>,
    ) -> Result<(), Error> {
        let read = read_file(self.disk, path);
        let judged =
            read.and_then(|bytes| decode(&bytes.unwrap_or_default()).map_err(|bad| bad.at(path)));
        match judged {
            Err(Error::Malformed { position, expected, found, .. }) => {
                // Recovery writes the epochs anew; all else is nowhere else.
                let mends = FileKind::of(path) == FileKind::Epochs;
                self.find(path, position, expected, found, mends);
                Ok(())
            }
            other => other,
        }
    }

    /// The segments of one log, oldest first.
    fn partition(
        &mut self,
        dir: &str,
        bases: &[Offset],
        aside: Vec<OffsetEpoch>,
    ) -> Result<(), Error> {
        let (Some(first), Some(last)) = (bases.first(), bases.last()) else { return Ok(()) };
        let synced = synced_file::read(self.disk, dir)?;
        let mark = match synced {
            synced_file::Found::Mark(mark, _) => Some(mark),
            synced_file::Found::Missing => None,
            synced_file::Found::Unreadable => {
                let path = crate::file::join(dir, synced_file::NAME);
                self.find(&path, 0, "a valid slot", "none", true);
                None
            }
        };
        let mut walked = Walked::from(*first);
        for base in bases {
            self.segment(dir, *base, base == last, firm(synced, *base), &mut walked)?;
        }
        if let Some(mark) = mark.filter(|mark| walked.end < mark.end) {
            let path = crate::file::join(dir, &file_name(*last));
            let expected = format!("records up to offset {}, which were synced", mark.end);
            self.damage(&path, 0, expected, format!("the end of the log at {}", walked.end));
        }
        let snapshots = self.snapshots.iter().filter(|(of, _)| of == dir);
        let snapshots: Vec<OffsetEpoch> = snapshots.map(|(_, id)| *id).collect();
        let table = read_file(self.disk, &join(dir, epoch_file::NAME))?;
        let table = table.and_then(|bytes| EpochTable::decode(&bytes).ok());
        let begins = table.as_ref().and_then(|table| table.entries().first()).map(|(_, at)| *at);
        let ends = |at: &Offset| snapshots.iter().chain(&aside).any(|id| id.offset == *at);
        let start = begins.filter(|at| at > first && ends(at)).unwrap_or(*first);
        self.covered(dir, *first, start, &snapshots);
        let mut epochs = walked.epochs;
        if start > Offset::ZERO {
            let floor = snapshots.iter().find(|id| id.offset == start).copied();
            let below = epochs.below(start).last().map(|(epoch, _)| *epoch).unwrap_or_default();
            epochs.advance(floor.unwrap_or(OffsetEpoch::new(start, below)), walked.end);
        }
        self.epochs(dir, &epochs, mark)?;
        self.reaches(dir, OffsetEpoch::new(walked.end, epochs.last_epoch().unwrap_or_default()))
    }

    /// What lies below the start of a log is in a snapshot.
    fn covered(&mut self, dir: &str, first: Offset, start: Offset, snapshots: &[OffsetEpoch]) {
        let newest = snapshots.iter().map(|id| id.offset).max();
        if start == Offset::ZERO || newest.is_some_and(|newest| newest >= start) {
            return;
        }
        let expected =
            format!("a snapshot that ends at offset {start}, where the log begins, or behind it");
        let found = match newest {
            Some(newest) => format!("none; the newest one ends at offset {newest}"),
            None => "none".to_owned(),
        };
        self.damage(&join(dir, &file_name(first)), 0, expected, found);
    }

    /// A log that was damaged is not yet what it was; nothing is lost if others have the rest.
    fn reaches(&mut self, dir: &str, last: OffsetEpoch) -> Result<(), Error> {
        let path = join(dir, must_reach_file::NAME);
        let reach = read_file(self.disk, &path)?;
        let reach = reach.and_then(|bytes| must_reach_file::decode(&bytes).ok());
        if let Some(reach) = reach.filter(|reach| reach.log_order() > last.log_order()) {
            let expected = format!(
                "a log up to {reach}, as before its damage was set aside; the node copies it from the leader"
            );
            self.damage(&path, 8, expected, format!("its end at {last}"));
        }
        Ok(())
    }

    /// `firm`: below this byte damage is no torn tail.
    fn segment(
        &mut self,
        dir: &str,
        base: Offset,
        last: bool,
        firm: u64,
        walked: &mut Walked,
    ) -> Result<(), Error> {
        let path = crate::file::join(dir, &file_name(base));
        if base != walked.end && !walked.lost {
            let expected = format!("a segment that begins at offset {}", walked.end);
            self.damage(&path, 0, expected, format!("offset {base}"));
        }
        (walked.end, walked.lost) = (base, false);
        let index = index_files::read(self.disk, dir, base)?;
        let mut check = IndexCheck::new(base, &index.offsets, &index.times);
        let mut torn = false;
        let mut reader = BatchReader::open(&*self.disk, &path)?;
        let mut findings = Vec::new();
        loop {
            let position = reader.position();
            let Some(found) = reader.next()? else { break };
            let (header, fault) = match &found {
                Found::Batch(batch) => (Some(batch.header), None),
                Found::Damaged(header, fault) => (Some(*header), Some(*fault)),
                Found::Nothing(fault) => (None, Some(*fault)),
            };
            let expected = format!("the batch at offset {}", walked.end);
            let order = header.and_then(|header| walked.pass(&header));
            if let Some(fault) = fault.or(order) {
                torn |= last && position >= firm && !fault.is_foreign();
                findings.push((position, expected, fault.to_string(), torn));
            }
            if let Some(header) = header {
                check.batch(&header, position);
            }
            if let Found::Batch(batch) = &found {
                findings.extend(records(batch, position));
            }
        }
        let bad = check.finish(walked.end);
        for (position, expected, found, mends) in findings {
            self.find(&path, position, expected, found, mends);
        }
        for (path, bad) in index_files::paths(dir, base).iter().zip(bad) {
            if let Some(bad) = bad {
                self.find(path, bad.position as u64, bad.expected, bad.found, true);
            }
        }
        Ok(())
    }

    /// The epoch table against the batches: below the mark a difference is damage.
    fn epochs(&mut self, dir: &str, walked: &EpochTable, mark: Option<Mark>) -> Result<(), Error> {
        let path = crate::file::join(dir, epoch_file::NAME);
        let Some(bytes) = read_file(self.disk, &path)? else {
            self.find(&path, 0, "the epochs of the log", "no file", true);
            return Ok(());
        };
        let Ok(table) = EpochTable::decode(&bytes) else { return Ok(()) };
        // As the file would say it: an empty log behind a snapshot has a line, too.
        let walked = EpochTable::decode(&walked.encode()).expect("what was encoded can be read");
        let differ = table.entries().iter().zip(walked.entries()).find(|(a, b)| a != b);
        let longer = (table.entries().len(), walked.entries().len());
        let print = |(epoch, first): (Epoch, Offset)| format!("epoch {epoch} from {first}");
        let (expected, found) = match differ {
            Some((found, expected)) => (print(*expected), print(*found)),
            None if longer.0 != longer.1 => {
                (format!("{} epochs", longer.1), format!("{} epochs", longer.0))
            }
            None => return Ok(()),
        };
        let mends = mark.is_none_or(|mark| table.below(mark.end) == walked.below(mark.end));
        self.find(&path, 0, expected, found, mends);
        Ok(())
    }

    /// A snapshot: batches from offset 0 on, a header record first, a footer record last.
    fn checkpoint(&mut self, path: &str) -> Result<(), Error> {
        let before = self.findings.len();
        let mut findings = Vec::new();
        let mut reader = BatchReader::open(&*self.disk, path)?;
        let mut walked = Walked::from(Offset::ZERO);
        let (mut first, mut last) = (None, None);
        loop {
            let position = reader.position();
            let batch = match reader.next()? {
                None => break,
                Some(Found::Batch(batch)) => batch,
                Some(Found::Damaged(header, fault)) => {
                    findings.push((position, "a batch".to_owned(), fault.to_string(), false));
                    walked.pass(&header);
                    continue;
                }
                Some(Found::Nothing(fault)) => {
                    findings.push((position, "a batch".to_owned(), fault.to_string(), false));
                    continue;
                }
            };
            if let Some(fault) = walked.pass(&batch.header) {
                findings.push((position, "the next batch".to_owned(), fault.to_string(), false));
            }
            findings.extend(records(&batch, position));
            let kind = |record: &crate::RecordView<'_>| match batch.control() {
                true => control(record).map_or_else(|bad| bad, |control| control.kind),
                false => "a record".to_owned(),
            };
            let kinds: Vec<String> =
                batch.records().flatten().map(|record| kind(&record)).collect();
            first = first.or(kinds.first().cloned());
            last = kinds.last().cloned().or(last);
        }
        let len = reader.len();
        for (position, expected, found, mends) in findings {
            self.find(path, position, expected, found, mends);
        }
        for (at, expected, found) in [(0, "SnapshotHeader", first), (len, "SnapshotFooter", last)] {
            let found = found.unwrap_or_else(|| "nothing".to_owned());
            if found != expected {
                self.damage(path, at, expected, found);
            }
        }
        if let Some(id) = snapshot_id(path).filter(|_| self.findings.len() == before) {
            self.snapshots.push((dir_of(path).to_owned(), id));
        }
        Ok(())
    }
}

/// Records of a whole batch that make no sense. No crash leaves them.
fn records(batch: &Batch, position: u64) -> Vec<(u64, String, String, bool)> {
    let mut bad = Vec::new();
    let mut count = 0;
    for record in batch.records() {
        count += 1;
        let wrong = match record {
            Err(wrong) => wrong.to_string(),
            Ok(record) if batch.control() => match control(&record) {
                Ok(_) => continue,
                Err(wrong) => format!("offset {}: {wrong}", record.offset),
            },
            Ok(_) => continue,
        };
        bad.push((position, format!("record {count} of the batch"), wrong, false));
    }
    bad
}
