//! Does a round of cleaning: takes the keys of its range in, then writes segment after segment
//! anew without what is superseded. Blocks; runs on the lane of long work, in steps.
//!
//! Nothing that it does shows: it reads immutable segments and writes files under temporary names.
//! What comes of them the log decides ([`crate::Log::swap`]). A cleaner that is dropped takes its
//! unfinished file away.

use crate::batch::{Fault, Header};
use crate::disk::Disk;
use crate::empty::Empty;
use crate::offset_map::OffsetMap;
use crate::reader::{BatchReader, Found};
use crate::recopy::Recopy;
use crate::round::{CleanedGroup, Part, Round, Swept};
use crate::sift::{Left, Met, Rules, sift};
use crate::{Batch, Error, epoch_file, numbers_file, swap_files};
use quorate_base::Offset;
use std::ops::Range;

/// A step reads about so much.
const STEP_BYTES: u64 = 1 << 20;

/// A round that is being done.
pub struct Cleaner<D: Disk> {
    disk: D,
    round: Round,
    phase: Phase<D>,
    met: Met,
    swept: Swept,
    bytes: u64,
}

/// What a step completed.
#[derive(Debug)]
pub enum CleanStep {
    /// Nothing yet.
    Going,
    /// Segments that are cleaned into one.
    Group(Box<CleanedGroup>),
    /// The round.
    Done(Swept),
}

enum Phase<D: Disk> {
    /// Takes keys in; which part is being read.
    Keys { map: OffsetMap, part: usize, reading: Option<Reading<D>> },
    /// Writes segments anew: the rules, the groups of parts to do, the one in hand.
    Copying { rules: Rules, next: usize, group: Option<Box<Group<D>>> },
    /// All is done, or an error has come.
    Over,
}

/// A segment that is being read.
struct Reading<D: Disk> {
    reader: BatchReader<D>,
    /// Where the next batch must begin.
    end: Offset,
}

/// Parts that become one segment.
struct Group<D: Disk> {
    parts: Range<usize>,
    part: usize,
    reading: Option<Reading<D>>,
    out: Recopy<D>,
    /// What was met before, but for the horizon, which is the group's own.
    met: Met,
    /// Whether anything is not as it was.
    changed: bool,
}

impl<D: Disk> Cleaner<D> {
    /// Begins a round.
    pub fn new(disk: D, round: Round) -> Cleaner<D> {
        let keys = round.upto - round.from;
        let map = OffsetMap::new(round.seed, keys, round.map_bytes);
        let at = round.parts.partition_point(|part| part.end <= round.from);
        let swept = Swept {
            round: round.number,
            upto: round.upto,
            removed: 0,
            bytes_before: 0,
            bytes_after: 0,
            next_ms: None,
            held_up: None,
        };
        let phase = Phase::Keys { map, part: at, reading: None };
        Cleaner { disk, round, phase, met: Met::default(), swept, bytes: 0 }
    }

    /// Bytes read and written so far: what a throttle goes by.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Does a bounded piece of the round. After an error, or the end, it must not be called again.
    /// An error leaves the log as it was; it may be that of a disk without room, or damage.
    pub fn step(&mut self) -> Result<CleanStep, Error> {
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Keys { map, part, reading } => self.take_keys(map, part, reading),
            Phase::Copying { rules, group: Some(group), .. } => self.copy(rules, group),
            Phase::Copying { rules, next, group: None } => self.begin_group(rules, next),
            Phase::Over => panic!("a round that is over has no more steps"),
        }
    }

    fn take_keys(
        &mut self,
        mut map: OffsetMap,
        mut part: usize,
        mut reading: Option<Reading<D>>,
    ) -> Result<CleanStep, Error> {
        let until = self.bytes + STEP_BYTES;
        while let Some(of) = self.round.parts.get(part).copied() {
            let at = match &mut reading {
                Some(at) => at,
                None => reading.insert(self.open(&of, of.keys_from)?),
            };
            let Some(batch) = self.next(at, &of)? else {
                (part, reading) = (part + 1, None);
                continue;
            };
            let Header { base, records, control, .. } = batch.header;
            if base >= self.round.upto {
                // The last round ended within this segment, as a cut has left it.
                break;
            }
            if batch.end() <= self.round.from || control {
                continue;
            }
            if !map.has_room(records) {
                if base > self.round.from {
                    self.swept.upto = base;
                    break;
                }
                // One batch fits always, or no round would ever come further.
                map = OffsetMap::new(self.round.seed, u64::from(records), u64::MAX);
            }
            for record in batch.records() {
                let record = record.map_err(|bad| self.bad_record(&of, &bad))?;
                if let Some(key) = record.key {
                    map.put(key, record.offset);
                }
            }
            if self.bytes >= until {
                self.phase = Phase::Keys { map, part, reading };
                return Ok(CleanStep::Going);
            }
        }
        let rules = Rules {
            map,
            tombstones_below: self.round.tombstones_below,
            now_ms: self.round.now_ms,
            horizon_ms: self.round.horizon_ms,
        };
        self.phase = Phase::Copying { rules, next: 0, group: None };
        Ok(CleanStep::Going)
    }

    /// Takes the next part; those behind it come in as well where there is room for them.
    fn begin_group(&mut self, rules: Rules, next: usize) -> Result<CleanStep, Error> {
        let parts = &self.round.parts;
        let below = parts.partition_point(|part| part.base < self.swept.upto);
        let Some(first) = parts[..below].get(next) else {
            let Met { removed, next_ms, held_up, .. } = self.met;
            return Ok(CleanStep::Done(Swept { removed, next_ms, held_up, ..self.swept }));
        };
        let Round { number, ref dir, index_interval_bytes, .. } = self.round;
        let out = Recopy::create(self.disk.clone(), dir, first.base, number, index_interval_bytes)?;
        let met = Met { horizon: Offset::ZERO, ..self.met };
        let parts = next..next + 1;
        let group = Group { parts, part: next, reading: None, out, met, changed: false };
        self.phase = Phase::Copying { rules, next: next + 1, group: Some(Box::new(group)) };
        Ok(CleanStep::Going)
    }

    /// Whether the part behind a group fits into the same segment.
    fn fits(&self, group: &Group<D>) -> bool {
        let Range { start, end } = group.parts;
        let parts = &self.round.parts;
        let Some(next) = parts.get(end).filter(|part| part.base < self.swept.upto) else {
            return false;
        };
        let small = group.out.written() + next.bytes <= self.round.segment_bytes;
        // Kafka's indexes have 31 bits for offsets within a segment.
        let narrow = next.end - parts[start].base <= i32::MAX as u64;
        small && narrow && end - start < numbers_file::MOST_SEGMENTS
    }

    fn copy(&mut self, rules: Rules, mut group: Box<Group<D>>) -> Result<CleanStep, Error> {
        let (until, written) = (self.bytes + STEP_BYTES, group.out.written());
        while group.part < group.parts.end {
            let of = self.round.parts[group.part];
            let at = match &mut group.reading {
                Some(at) => at,
                None => group.reading.insert(self.open(&of, (of.base, 0))?),
            };
            let Some(batch) = self.next(at, &of)? else {
                self.swept.bytes_before += at.reader.len();
                (group.part, group.reading) = (group.part + 1, None);
                if group.part == group.parts.end && self.fits(&group) {
                    group.parts.end += 1;
                    group.changed = true;
                }
                continue;
            };
            if batch.control() {
                group.out.batch(&batch.header, batch.bytes)?;
            } else if let Some(empty) = Empty::of(&batch.header) {
                group.changed |= group.out.empty(empty)?;
            } else {
                let left = sift(&batch, &rules, &mut group.met);
                let left = left.map_err(|bad| self.bad_record(&of, &bad))?;
                group.changed |= left != Left::Whole;
                match left {
                    Left::Whole => group.out.batch(&batch.header, batch.bytes)?,
                    Left::Part(bytes) => group.out.rewritten(bytes)?,
                    Left::Nothing => group.out.nothing(&batch)?,
                }
            }
            if self.bytes >= until {
                self.bytes += group.out.written() - written;
                let next = group.parts.end;
                self.phase = Phase::Copying { rules, next, group: Some(group) };
                return Ok(CleanStep::Going);
            }
        }
        let next = group.parts.end;
        let step = self.end_group(*group)?;
        self.phase = Phase::Copying { rules, next, group: None };
        Ok(step)
    }

    fn end_group(&mut self, group: Group<D>) -> Result<CleanStep, Error> {
        let Group { parts, out, met, changed, .. } = group;
        let horizon = met.horizon;
        self.met = Met { horizon: self.met.horizon.max(horizon), ..met };
        let parts = &self.round.parts[parts];
        let bytes_before = parts.iter().map(|part| part.bytes).sum();
        if !changed {
            self.swept.bytes_after += bytes_before;
            return Ok(CleanStep::Going);
        }
        let end = parts.last().expect("a group has a part").end;
        let (segment, paths) = out.finish(end)?;
        self.swept.bytes_after += segment.size;
        let segments = parts.iter().map(|part| part.base).collect();
        Ok(CleanStep::Group(Box::new(CleanedGroup {
            round: self.round.number,
            upto: self.swept.upto,
            segments,
            end,
            segment,
            horizon,
            bytes_before,
            paths,
        })))
    }

    fn open(&self, part: &Part, (end, position): (Offset, u64)) -> Result<Reading<D>, Error> {
        let Round { dir, .. } = &self.round;
        let mut reader = swap_files::open_segment(&self.disk, dir, part.base, part.cleaned_by)?;
        reader.seek(position.min(reader.len()));
        Ok(Reading { reader, end })
    }

    /// The next batch of a part, which must follow the one before and be of its epoch. Damage is
    /// not to be copied as if it were right.
    fn next(&mut self, at: &mut Reading<D>, part: &Part) -> Result<Option<Batch>, Error> {
        let position = at.reader.position();
        let fault = match at.reader.next()? {
            Some(Found::Batch(batch)) => {
                self.bytes += batch.header.bytes;
                let agrees = epoch_file::agree(self.round.epochs.entries(), &batch.header);
                match batch.base() == at.end && agrees {
                    true => {
                        at.end = batch.end();
                        return Ok(Some(batch));
                    }
                    false => Fault::Gap { expected: at.end, found: batch.base() },
                }
            }
            Some(Found::Damaged(_, fault) | Found::Nothing(fault)) => fault,
            None if at.end == part.end => return Ok(None),
            None => Fault::Gap { expected: part.end, found: at.end },
        };
        Err(self.damaged(part, position, fault.instead()))
    }

    fn bad_record(&self, part: &Part, bad: &crate::BadRecord) -> Error {
        self.damaged(part, 0, bad.to_string())
    }

    fn damaged(&self, part: &Part, position: u64, found: String) -> Error {
        let path = crate::file::join(&self.round.dir, &crate::segment::file_name(part.base));
        let expected = format!("the batches up to offset {}", part.end);
        Error::Damaged { path, position, expected, found }
    }
}
