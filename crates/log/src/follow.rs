//! Follows the batches of a log as they come onto the disk, through its files alone.
//!
//! Reads only and takes no lock, so the log may be in use, Kafka's too. A batch that is half
//! written is waited for. What has been read may be cut off again by who writes: the newest headers
//! are remembered, so that a cut shows even where as much was written since. Never waits: whoever
//! is told that there is nothing asks again later.

use crate::batch::{Fault, HEADER_BYTES, Header};
use crate::disk::{Disk, Mode, Operation};
use crate::file::join;
use crate::reader::{BatchReader, Found};
use crate::segment::{base_of, file_name};
use crate::{Batch, Error, index, index_files, numbers_file};
use quorate_base::Offset;
use std::collections::VecDeque;

/// So many batches may be cut off and the place still be known.
const REMEMBERED: usize = 1_024;

/// What became of the log since it was looked at last.
#[derive(Clone, Debug)]
pub enum Followed {
    /// The next batch.
    Batch(Batch),
    /// The log was cut: what was told from this offset on is gone.
    Cut(Offset),
    /// The records from one offset to below the other were not seen: they are removed, and a
    /// snapshot stands for them.
    Gap(Offset, Offset),
    /// What follows makes no sense, also when it is looked at a second time.
    Damaged {
        /// The file.
        path: String,
        /// The byte.
        position: u64,
        /// What is wrong there.
        fault: Fault,
    },
}

/// Where a batch lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Seen {
    segment: Offset,
    position: u64,
    header: Header,
}

/// A place between two batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct At {
    segment: Offset,
    position: u64,
    /// The offset that the next batch begins with; `None` where any will do.
    end: Option<Offset>,
}

/// The reading end of the log in a folder.
pub struct Follow<D: Disk> {
    disk: D,
    dir: String,
    first: Offset,
    at: At,
    reader: Option<BatchReader<D>>,
    seen: VecDeque<Seen>,
    /// A fault that may be a write on its way: where it was seen once.
    doubt: Option<(Offset, u64)>,
    /// The segment was read to its end after the next one was there.
    read_again: bool,
    /// Where the last look ended within a batch, and how.
    torn: Option<(u64, Fault)>,
}

impl<D: Disk> Follow<D> {
    /// From this offset on, or from the batch that holds it. `None` if there is no log in the
    /// folder.
    pub fn from(disk: &D, dir: &str, from: Offset) -> Result<Option<Follow<D>>, Error> {
        let bases = bases(disk, dir)?;
        let Some(first) = bases.first() else { return Ok(None) };
        let segment = *bases.iter().rfind(|base| **base <= from).unwrap_or(first);
        let mut follow = Follow::at(disk, dir, segment);
        follow.first = from;
        follow.at.position = follow.indexed(segment, from)?;
        while follow.peek()?.is_some_and(|header| header.last < from) {
            follow.step()?;
        }
        Ok(Some(follow))
    }

    /// From so many records before the end on, or a little earlier: batches are not parted.
    pub fn newest(disk: &D, dir: &str, records: u64) -> Result<Option<Follow<D>>, Error> {
        let Some(last) = bases(disk, dir)?.pop() else { return Ok(None) };
        let mut follow = Follow::at(disk, dir, last);
        follow.at.position = follow.indexed(last, Offset(u64::MAX))?;
        let mut end = last;
        while let Some(header) = follow.peek()? {
            end = header.end();
            follow.step()?;
        }
        Follow::from(disk, dir, Offset(end.0.saturating_sub(records)))
    }

    /// The record that was asked for, as the first one; the first batch may begin before it.
    pub fn first(&self) -> Offset {
        self.first
    }

    fn at(disk: &D, dir: &str, segment: Offset) -> Follow<D> {
        Follow {
            disk: disk.clone(),
            dir: dir.to_owned(),
            first: segment,
            at: At { segment, position: 0, end: None },
            reader: None,
            seen: VecDeque::new(),
            doubt: None,
            read_again: false,
            torn: None,
        }
    }

    /// Where the log ended within a batch when nothing came of the last look: the file, the byte
    /// and how. A write on its way looks so for a moment, damage for ever.
    pub fn torn(&self) -> Option<(String, u64, Fault)> {
        let (position, fault) = self.torn?;
        Some((join(&self.dir, &file_name(self.at.segment)), position, fault))
    }

    /// Byte of a batch at or before an offset, as the index knows it; 0 if it is not right.
    fn indexed(&mut self, segment: Offset, from: Offset) -> Result<u64, Error> {
        let bytes = index_files::read(&mut self.disk, &self.dir, segment)?.offsets;
        let entries = index::offset_entries(segment, &bytes);
        let Some(entry) = entries.filter(|entry| entry.last <= from).last() else { return Ok(0) };
        let header = self.header(segment, entry.position)?;
        let right = header.is_some_and(|header| (header.base..=entry.last).contains(&header.last));
        Ok(if right { entry.position } else { 0 })
    }

    /// The header at a byte of a segment, if one is there.
    fn header(&mut self, segment: Offset, position: u64) -> Result<Option<Header>, Error> {
        let path = join(&self.dir, &file_name(segment));
        let Ok(file) = self.disk.open(&path, Mode::Read) else { return Ok(None) };
        let mut bytes = [0; HEADER_BYTES];
        let read = self.disk.read(&file, position, &mut bytes);
        let read = read.map_err(Error::io(Operation::Read, &path))?;
        Ok(if read < HEADER_BYTES { None } else { Header::read(&bytes).ok() })
    }

    /// The batch ahead, if its header makes sense.
    fn peek(&mut self) -> Result<Option<Header>, Error> {
        self.header(self.at.segment, self.at.position)
    }

    /// Passes over the batch that was peeked at.
    fn step(&mut self) -> Result<(), Error> {
        if let Some(header) = self.peek()? {
            self.at.position += header.bytes;
        }
        Ok(())
    }

    /// What comes next; `None` if nothing has come yet.
    #[expect(clippy::should_implement_trait, reason = "more may come after none")]
    pub fn next(&mut self) -> Result<Option<Followed>, Error> {
        loop {
            self.torn = None;
            let mut reader = match self.reader.take() {
                Some(reader) => reader,
                None => match self.look_anew()? {
                    Ok(reader) => reader,
                    Err(told) => return Ok(Some(told)),
                },
            };
            let position = reader.position();
            let found = reader.next()?;
            let mut after = None;
            let (header, fault) = match found {
                Some(Found::Batch(batch)) => {
                    let header = batch.header;
                    match self.at.end.filter(|end| *end != header.base) {
                        None => {
                            self.reader = Some(reader);
                            self.passed(position, header);
                            return Ok(Some(Followed::Batch(batch)));
                        }
                        Some(expected) => {
                            (Some(header), Fault::Gap { expected, found: header.base })
                        }
                    }
                }
                Some(Found::Damaged(header, fault)) => (Some(header), fault),
                // Room that was put aside for batches to come is full of zeros.
                Some(Found::Nothing(fault @ Fault::Length { found: 0 }))
                    if !reader.is_blank(position)? =>
                {
                    (None, fault)
                }
                found @ (None
                | Some(Found::Nothing(Fault::Length { found: 0 } | Fault::Cut { .. }))) => {
                    let cut = match found {
                        Some(Found::Nothing(fault @ Fault::Cut { .. })) => Some(fault),
                        Some(_) | None => None,
                    };
                    match self.at_the_end(position, cut)? {
                        End::Goes => continue,
                        End::Waits => return Ok(None),
                        End::Gap(from, end) => return Ok(Some(Followed::Gap(from, end))),
                        End::Wrong(fault, next) => {
                            after = Some(next);
                            (None, fault)
                        }
                    }
                }
                Some(Found::Nothing(fault)) => (None, fault),
            };
            let place = (self.at.segment, position);
            if self.doubt.replace(place) != Some(place) {
                return Ok(None);
            }
            // Known to be wrong, and still a place to go on from, if there is one.
            let path = join(&self.dir, &file_name(self.at.segment));
            self.at.position = header.map_or(reader.len(), |header| position + header.bytes);
            self.at.end = None;
            if let Some(segment) = after {
                self.at = At { segment, position: 0, end: None };
                self.read_again = false;
            }
            return Ok(Some(Followed::Damaged { path, position, fault }));
        }
    }

    fn passed(&mut self, position: u64, header: Header) {
        let segment = self.at.segment;
        self.at = At { segment, position: position + header.bytes, end: Some(header.end()) };
        (self.doubt, self.read_again) = (None, false);
        self.seen.push_back(Seen { segment, position, header });
        if self.seen.len() > REMEMBERED {
            self.seen.pop_front();
        }
    }

    /// Opens the segment where it was left, if the log is what it was up to there; else says what
    /// became of it.
    fn look_anew(&mut self) -> Result<Result<BatchReader<D>, Followed>, Error> {
        let bases = bases(&self.disk, &self.dir)?;
        if !bases.contains(&self.at.segment) {
            let end = self.at.end.unwrap_or(self.at.segment);
            // What is removed goes from the front, what is cut from the end.
            if self.was_cleaned(&bases)? {
                return self.look_anew();
            }
            let trimmed = bases.first().is_none_or(|first| *first > self.at.segment);
            if let Some(next) = bases.iter().copied().find(|base| trimmed && *base >= end) {
                self.at = At { segment: next, position: 0, end: None };
                self.seen.clear();
                if next > end {
                    return Ok(Err(Followed::Gap(end, next)));
                }
                return self.look_anew();
            }
            return Ok(Err(self.was_cut()?));
        }
        if let Some(Seen { segment, position, header }) = self.seen.back().copied()
            && self.header(segment, position)? != Some(header)
        {
            if self.was_cleaned(&bases)? {
                return self.look_anew();
            }
            return Ok(Err(self.was_cut()?));
        }
        let path = join(&self.dir, &file_name(self.at.segment));
        let mut reader = BatchReader::open(&self.disk, &path)?;
        if reader.len() < self.at.position {
            if self.was_cleaned(&bases)? {
                return self.look_anew();
            }
            return Ok(Err(self.was_cut()?));
        }
        reader.seek(self.at.position);
        Ok(Ok(reader))
    }

    /// Whether the segments up to here were cleaned since, which cuts nothing; then goes on behind
    /// what was told. The first batch may begin before that, if it holds the offset.
    fn was_cleaned(&mut self, bases: &[Offset]) -> Result<bool, Error> {
        let Some(end) = self.at.end else { return Ok(false) };
        // What cannot be read is not for this file to tell.
        let kept = numbers_file::read(&mut self.disk, &self.dir).ok().flatten();
        let dirty = kept.map_or(Offset::ZERO, |kept| kept.carried.dirty);
        let here = bases.iter().rfind(|base| **base <= end);
        let Some(segment) = here.filter(|_| end <= dirty).copied() else { return Ok(false) };
        self.at = At { segment, position: 0, end: None };
        while self.peek()?.is_some_and(|header| header.last < end) {
            self.step()?;
        }
        // As it would be without this, or another try would begin here again.
        let found = self.peek()?.is_none_or(|header| (header.base..=header.last).contains(&end));
        self.seen.clear();
        Ok(found)
    }

    /// Goes back to the newest batch that is still there.
    fn was_cut(&mut self) -> Result<Followed, Error> {
        while let Some(seen) = self.seen.back().copied() {
            if self.header(seen.segment, seen.position)? == Some(seen.header) {
                let Seen { segment, position, header } = seen;
                let (position, end) = (position + header.bytes, header.end());
                self.at = At { segment, position, end: Some(end) };
                return Ok(Followed::Cut(end));
            }
            self.seen.pop_back();
        }
        let first = bases(&self.disk, &self.dir)?.into_iter().next().unwrap_or_default();
        self.at = At { segment: first, position: 0, end: None };
        Ok(Followed::Cut(first))
    }

    /// The segment has no more, for now or for ever; `cut` if it ends within a batch.
    fn at_the_end(&mut self, position: u64, cut: Option<Fault>) -> Result<End, Error> {
        let bases = bases(&self.disk, &self.dir)?;
        let Some(next) = bases.iter().copied().find(|base| *base > self.at.segment) else {
            self.torn = cut.map(|fault| (position, fault));
            return Ok(End::Waits);
        };
        // It may have grown before the next one was begun.
        if !std::mem::replace(&mut self.read_again, true) {
            return Ok(End::Goes);
        }
        // Nobody writes here any more. What is removed goes from the front, so that records between
        // two segments that are there are missing.
        let is_there = bases.contains(&self.at.segment);
        let end = match self.at.end {
            Some(end) => end,
            None if position == 0 => self.at.segment,
            // Behind damage that was told already.
            None => next,
        };
        let gap = (next > end).then_some(Fault::Gap { expected: end, found: next });
        if let Some(fault) = cut.or(gap).filter(|_| is_there) {
            return Ok(End::Wrong(fault, next));
        }
        self.read_again = false;
        self.at = At { segment: next, position: 0, end: None };
        Ok(if next > end { End::Gap(end, next) } else { End::Goes })
    }
}

enum End {
    Goes,
    Waits,
    Gap(Offset, Offset),
    /// The fault, and the segment behind it.
    Wrong(Fault, Offset),
}

/// The segments in a folder, in order.
fn bases<D: Disk>(disk: &D, dir: &str) -> Result<Vec<Offset>, Error> {
    let names = disk.list(dir).map_err(Error::io(Operation::List, dir))?;
    let mut bases: Vec<Offset> = names.iter().filter_map(|name| base_of(name)).collect();
    bases.sort();
    Ok(bases)
}
