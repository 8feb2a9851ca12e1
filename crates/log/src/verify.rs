//! Looks at every file of a data directory and says what is wrong, without changing a byte.
//!
//! No lock and no recovery: it may look at a directory in use, and at Kafka's. All problems are
//! found in one go, each once; what only follows from damage is not told. What the next start mends
//! by itself, a torn tail and files that follow from the log, is told apart from damage.
//! `checkpoint.rs` looks at snapshots, `walked.rs` judges the epochs, `missing.rs` says which files
//! are not there.

mod checkpoint;
mod cleaned;
mod missing;
mod walked;

use crate::batch::Fault;
use crate::claims::firm;
use crate::disk::Disk;
use crate::dump::{FileKind, control, files};
use crate::file::{join, read_file};
use crate::index::IndexCheck;
use crate::numbers_file::Kept;
use crate::reader::{BatchReader, Found};
use crate::segment::file_name;
use crate::set_aside::last_right;
use crate::snapshot_name::{DAMAGED, SnapshotName};
use crate::synced_file::{self, Mark};
use crate::{
    Batch, Election, EpochTable, Error, Header, Meta, epoch_file, index_files, must_reach_file,
    partition_file,
};
use missing::Folder;
use quorate_base::{Offset, OffsetEpoch};
use std::fmt;
use walked::{At, Walked, Wrong, entry};

/// What is to be done about a [`Finding`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Remedy {
    /// Nothing: the next start mends it by itself, and nothing is lost by that.
    NextStart,
    /// Records or a snapshot. Where others vote, a start sets it aside and the leader has it; a
    /// node that votes alone needs it back from a copy.
    Leader,
    /// It says whose the directory is, and nothing that the node has promised: it may be put back
    /// from a copy, or be written again.
    Identity,
    /// What the node has promised, which is nowhere else: the node is to be replaced.
    Replace,
    /// `quorate recover` was cut short: it is to be run again.
    Recover,
}

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
    /// What is to be done about it.
    pub remedy: Remedy,
}

impl Finding {
    /// Whether the next start mends it by itself and nothing is lost by that.
    pub fn mends(&self) -> bool {
        self.remedy == Remedy::NextStart
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { path, position, expected, found, remedy: _ } = self;
        write!(f, "{path}: at byte {position}: expected {expected}, found {found}")?;
        if self.mends() { f.write_str(" (mended at the next start)") } else { Ok(()) }
    }
}

/// Checks all files below the directory `dir` of the disk (`""` is its root). Fails only where the
/// disk does.
pub fn verify<D: Disk>(disk: &mut D, dir: &str) -> Result<Vec<Finding>, Error> {
    let paths = files(disk, dir)?;
    let mut verify = Verify { disk, findings: Vec::new(), snapshots: Vec::new() };
    let mut known = 0;
    for path in &paths {
        let kind = FileKind::of(path);
        known += usize::from(kind != FileKind::Other);
        match kind {
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
            FileKind::Numbers => {
                verify.small(path, |bytes| Kept::decode(bytes).map(drop))?;
            }
            FileKind::CleanerEnds => verify.checkpoint_of_ends(path),
            // Held against their log.
            FileKind::Segment(_)
            | FileKind::Offsets(_)
            | FileKind::Times(_)
            | FileKind::Synced
            | FileKind::Other => {}
        }
    }
    let folders = Folder::all(&paths);
    for folder in &folders {
        let has_records = verify.partition(folder)?;
        verify.missing(folder, &folders, has_records)?;
        verify.no_log(folder, &folders);
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
    /// The snapshots by directory, and whether they are right.
    snapshots: Vec<(String, OffsetEpoch, bool)>,
}

/// What is known of a log before its batches are read.
struct Known {
    table: Option<EpochTable>,
    synced: synced_file::Found,
    mark: Option<Mark>,
}

impl<D: Disk> Verify<'_, D> {
    fn damage(
        &mut self,
        path: &str,
        position: u64,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) {
        self.find(path, position, expected, found, Remedy::Leader);
    }

    fn find(
        &mut self,
        path: &str,
        position: u64,
        expected: impl Into<String>,
        found: impl Into<String>,
        remedy: Remedy,
    ) {
        let (expected, found) = (expected.into(), found.into());
        self.findings.push(Finding { path: path.to_owned(), position, expected, found, remedy });
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
                let remedy = match FileKind::of(path) {
                    // Recovery writes them anew.
                    FileKind::Epochs => Remedy::NextStart,
                    FileKind::Meta | FileKind::Topic => Remedy::Identity,
                    FileKind::Election | FileKind::MustReach => Remedy::Replace,
                    FileKind::Segment(_)
                    | FileKind::Checkpoint
                    | FileKind::Offsets(_)
                    | FileKind::Times(_)
                    | FileKind::Synced
                    | FileKind::Numbers
                    | FileKind::CleanerEnds
                    | FileKind::Other => Remedy::Leader,
                };
                self.find(path, position, expected, found, remedy);
                Ok(())
            }
            other => other,
        }
    }

    /// The log of one folder, if it has one; whether there are records in it.
    fn partition(&mut self, folder: &Folder<'_>) -> Result<bool, Error> {
        let dir = folder.dir;
        let Some(bases) = self.bases(folder)? else { return Ok(true) };
        let (Some(first), Some(last)) = (bases.first(), bases.last()) else { return Ok(false) };
        let known = self.known(dir)?;
        let mut walked = Walked::from(*first);
        let mut before = None;
        for base in &bases {
            if *base != walked.end && !walked.lost {
                match *base > walked.end {
                    true => self.gap(folder, before.take(), walked.end, *base),
                    false => {
                        let expected = format!("a segment that begins at offset {}", walked.end);
                        self.damage(
                            &join(dir, &file_name(*base)),
                            0,
                            expected,
                            format!("offset {base}"),
                        );
                    }
                }
                walked.damaged = true;
            }
            (walked.end, walked.lost) = (*base, false);
            let len = self.segment(folder, *base, base == last, &known, &mut walked)?;
            before = Some((join(dir, &file_name(*base)), len));
        }
        if let Some(mark) = known.mark.filter(|mark| walked.end < mark.end && !walked.damaged) {
            let (path, len) = before.unwrap_or_default();
            let expected = format!("records up to offset {}, which were synced", mark.end);
            self.damage(&path, len, expected, format!("the end of the log at {}", walked.end));
            walked.damaged = true;
        }
        let aside: Vec<OffsetEpoch> = folder
            .names
            .iter()
            .filter_map(|name| snapshot_id(name.strip_suffix(DAMAGED)?))
            .collect();
        let here = self.snapshots.iter().filter(|(of, ..)| of == dir);
        let here: Vec<(OffsetEpoch, bool)> = here.map(|(_, id, right)| (*id, *right)).collect();
        let begins = known.table.as_ref().and_then(|table| table.entries().first());
        let begins = begins.map(|(_, at)| *at);
        let ends =
            |at: &Offset| here.iter().map(|(id, _)| id).chain(&aside).any(|id| id.offset == *at);
        let start = begins.filter(|at| at > first && ends(at)).unwrap_or(*first);
        // Where segments are missing the table knows of more.
        let beheaded = begins.filter(|begins| begins < first);
        let covered = match beheaded {
            Some(begins) => {
                self.beheaded(dir, begins, *first);
                false
            }
            None => self.covered(dir, *first, start, &here),
        };
        let mut epochs = walked.epochs.clone();
        if start > Offset::ZERO {
            let floor = here.iter().map(|(id, _)| *id).find(|id| id.offset == start);
            let below = epochs.below(start).last().map(|(epoch, _)| *epoch).unwrap_or_default();
            epochs.advance(floor.unwrap_or(OffsetEpoch::new(start, below)), walked.end);
        }
        self.numbers(dir, &walked)?;
        self.judge(dir, &known, &walked, &epochs)?;
        if covered && !walked.damaged {
            self.epochs(dir, &epochs, &known)?;
        }
        if !walked.damaged {
            let last = epochs.last_epoch().unwrap_or_default();
            self.reaches(dir, OffsetEpoch::new(walked.end, last))?;
        }
        if covered && !walked.damaged {
            self.spare(dir, walked.end);
        }
        Ok(walked.end > start)
    }

    fn known(&mut self, dir: &str) -> Result<Known, Error> {
        let synced = synced_file::read(self.disk, dir)?;
        let mark = match synced {
            synced_file::Found::Mark(mark, ..) => Some(mark),
            synced_file::Found::Missing => None,
            synced_file::Found::Unreadable => {
                let path = join(dir, synced_file::NAME);
                self.find(&path, 0, "a mark", "none that can be believed", Remedy::NextStart);
                None
            }
        };
        let table = read_file(self.disk, &join(dir, epoch_file::NAME));
        let table = match table {
            Ok(bytes) => bytes.and_then(|bytes| EpochTable::decode(&bytes).ok()),
            // Told where the small files are looked at.
            Err(Error::Malformed { .. }) => None,
            Err(error) => return Err(error),
        };
        Ok(Known { table, synced, mark })
    }

    /// Epochs of batches that contradict the table or each other.
    fn judge(
        &mut self,
        dir: &str,
        known: &Known,
        walked: &Walked,
        epochs: &EpochTable,
    ) -> Result<(), Error> {
        let end = known.mark.map_or(Offset::ZERO, |mark| mark.end);
        for wrong in walked.judge(known.table.as_ref(), epochs, end) {
            match wrong {
                Wrong::Table { expected, found } => {
                    self.damage(&join(dir, epoch_file::NAME), 0, expected, found);
                }
                Wrong::Batches { at: At { segment, position }, expected, found } => {
                    self.damage(&join(dir, &file_name(segment)), position, expected, found);
                }
            }
        }
        Ok(())
    }

    /// What lies below the start of a log is in a snapshot.
    /// Tells whether it is; a snapshot that would do but for its damage was told of.
    fn covered(
        &mut self,
        dir: &str,
        first: Offset,
        start: Offset,
        snapshots: &[(OffsetEpoch, bool)],
    ) -> bool {
        let right = snapshots.iter().filter(|(_, right)| *right);
        let newest = right.map(|(id, _)| id.offset).max();
        if start == Offset::ZERO || newest.is_some_and(|newest| newest >= start) {
            return true;
        }
        if snapshots.iter().any(|(id, _)| id.offset >= start) {
            return false;
        }
        let expected =
            format!("a snapshot that ends at offset {start}, where the log begins, or behind it");
        let found = match newest {
            Some(newest) => format!("none; the newest one ends at offset {newest}"),
            None => "none".to_owned(),
        };
        self.damage(&join(dir, &file_name(first)), 0, expected, found);
        false
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

    /// One segment; its bytes.
    fn segment(
        &mut self,
        folder: &Folder<'_>,
        base: Offset,
        last: bool,
        known: &Known,
        walked: &mut Walked,
    ) -> Result<u64, Error> {
        let (dir, path) = (folder.dir, join(folder.dir, &file_name(base)));
        // Below this byte damage is no torn tail.
        let firm = firm(known.synced, base);
        let index = index_files::read(self.disk, dir, base)?;
        let mut check = IndexCheck::new(base, &index.offsets, &index.times);
        let (mut torn, mut was_damaged) = (false, false);
        let mut reader = BatchReader::open(&*self.disk, &path)?;
        let before = self.findings.len();
        loop {
            let position = reader.position();
            let Some(found) = reader.next()? else { break };
            let (header, fault) = match &found {
                Found::Batch(batch) => (Some(batch.header), None),
                Found::Damaged(header, fault) => (Some(*header), Some(*fault)),
                Found::Nothing(fault) => (None, Some(*fault)),
            };
            // Behind a damaged batch it is that one's length that is wrong.
            let follows = was_damaged && matches!(found, Found::Nothing(_));
            was_damaged = matches!(found, Found::Damaged(..));
            if follows {
                walked.lost = true;
                break;
            }
            let stood = walked.end;
            let expected = format!("the batch at offset {stood}");
            let at = At { segment: base, position };
            let placed = header.filter(|header| !was_damaged || is_plausible(header));
            let order = placed.and_then(|header| walked.pass(&header, at, known.table.as_ref()));
            // Where the next batch begins is nothing that can be relied on now.
            walked.lost |= placed.is_none();
            if let Some(fault) = fault.or(order) {
                // As recovery has it: without a mark, what goes on behind it was not torn.
                let goes_on = !torn
                    && known.synced == synced_file::Found::Missing
                    && last_right(self.disk, dir, &[base])?.offset > stood;
                torn |= last && position >= firm && !fault.is_foreign() && !goes_on;
                let remedy = if torn { Remedy::NextStart } else { Remedy::Leader };
                match matches!(fault, Fault::EpochFell { .. }) && !torn {
                    true => walked.fell(),
                    false => {
                        self.find(&path, position, expected, fault.instead(), remedy);
                        walked.damaged |= !torn;
                    }
                }
            }
            if let Some(header) = header {
                check.batch(&header, position);
            }
            if let Found::Batch(batch) = &found {
                let bad = records(batch, position);
                walked.damaged |= !bad.is_empty();
                bad.into_iter().for_each(|(at, expected, found)| {
                    self.damage(&path, at, expected, found);
                });
            }
        }
        // What follows from damage is mended with it.
        let indexes =
            check.finish(walked.end).into_iter().filter(|_| self.findings.len() == before);
        let indexes: Vec<_> = index_files::paths(dir, base).into_iter().zip(indexes).collect();
        for (path, bad) in indexes {
            let name = path.rsplit('/').next().unwrap_or(&path);
            // Of a copy of Kafka's the logs alone may be there.
            if reader.len() > 0 && !folder.has(name) && folder.has(synced_file::NAME) {
                self.find(&path, 0, "the index of its segment", "no file", Remedy::NextStart);
            } else if let Some(bad) = bad {
                let position = bad.position as u64;
                self.find(&path, position, bad.expected, bad.found, Remedy::NextStart);
            }
        }
        Ok(reader.len())
    }

    /// The epoch table against the batches: below the mark a difference is damage.
    fn epochs(&mut self, dir: &str, walked: &EpochTable, known: &Known) -> Result<(), Error> {
        let path = join(dir, epoch_file::NAME);
        if read_file(self.disk, &path).is_ok_and(|file| file.is_none()) {
            self.find(&path, 0, "the epochs of the log", "no file", Remedy::NextStart);
            return Ok(());
        }
        let Some(table) = &known.table else { return Ok(()) };
        // As the file would say it: an empty log behind a snapshot has a line, too.
        let walked = EpochTable::decode(&walked.encode()).expect("what was encoded can be read");
        let differ = table.entries().iter().zip(walked.entries()).find(|(a, b)| a != b);
        let longer = (table.entries().len(), walked.entries().len());
        let (expected, found) = match differ {
            Some((found, expected)) => (entry(*expected), entry(*found)),
            None if longer.0 != longer.1 => {
                (format!("{} epochs", longer.1), format!("{} epochs", longer.0))
            }
            None => return Ok(()),
        };
        let mends = known.mark.is_none_or(|mark| table.below(mark.end) == walked.below(mark.end));
        // Damage that was told already is where it lies.
        let damaged = self.findings.iter().any(|one| !one.mends() && dir_of(&one.path) == dir);
        if mends || !damaged {
            let remedy = if mends { Remedy::NextStart } else { Remedy::Leader };
            self.find(&path, 0, expected, found, remedy);
        }
        Ok(())
    }
}

/// Whether the end that a header speaks of fits its records: one field that rotted would not.
fn is_plausible(header: &Header) -> bool {
    header.end() - header.base == u64::from(header.records)
}

/// Records of a whole batch that make no sense. No crash leaves them.
fn records(batch: &Batch, position: u64) -> Vec<(u64, String, String)> {
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
        bad.push((position, format!("record {count} of the batch"), wrong));
    }
    bad
}
