//! The log in memory: its marks, where its batches lie, its newest bytes. Plans file work, does
//! none.
//!
//! Each change updates the marks at once and returns the [`Job`] that brings the files after it, so
//! reads see an append before the disk does. What is durable, the caller learns from
//! [`crate::Store`] and tells [`Log::durable`]. Never looks into records.

use crate::batch::{HEADER_BYTES, Header};
use crate::cold::ColdRead;
use crate::index::TimeEntry;
use crate::job::{Append, Cut, Job, Truncate};
use crate::log_cleaning::Cleaning;
use crate::segment::Segment;
use crate::tail::{Tail, TailBatch};
use crate::{
    Election, EpochTable, IndexBytes, Options, Recovery, Snapshot, election_file, empty, swap_files,
};
use bytes::Bytes;
use quorate_base::{Cleaned, Epoch, Offset, OffsetEpoch};

/// The log of one partition. Invariant: `start <= end`; the segments join, without gap, from
/// `start` or below.
#[derive(Clone, Debug)]
pub struct Log {
    pub(crate) options: Options,
    pub(crate) start: Offset,
    pub(crate) end: Offset,
    /// Invariant: `durable <= end`.
    pub(crate) durable: Offset,
    pub(crate) generation: u64,
    /// Never empty; the last one takes the appends.
    pub(crate) segments: Vec<Segment>,
    pub(crate) epochs: EpochTable,
    pub(crate) tail: Tail,
    /// Oldest first; one of them ends at `start`, or behind it, if `start` is above 0.
    pub(crate) snapshots: Vec<Snapshot>,
    pub(crate) cleaning: Cleaning,
}

/// What [`Log::read`] found.
#[derive(Clone, Debug)]
pub enum Read {
    /// Whole batches from the one that holds the offset on, at least one, and what the log says of
    /// itself at this moment.
    Hot(Vec<Bytes>, Cleaned),
    /// The batches are on disk only: run [`crate::read_cold`] where blocking is allowed.
    Cold(ColdRead),
    /// No whole batch lies in the range.
    Nothing,
}

impl Log {
    /// The log as recovery found it; all of it is durable, none of it in memory.
    pub fn open(options: Options, recovery: &Recovery) -> Log {
        let log = Log {
            options,
            start: recovery.start,
            end: recovery.end,
            durable: recovery.end,
            generation: 0,
            segments: recovery.segments.clone(),
            epochs: recovery.epochs.clone(),
            tail: Tail::default(),
            snapshots: recovery.snapshots.clone(),
            cleaning: Cleaning::of(recovery),
        };
        assert!(!log.segments.is_empty(), "a log has a segment");
        log
    }

    /// First offset that can be read.
    pub fn start(&self) -> Offset {
        self.start
    }

    /// One past the last offset: what the next append begins with.
    pub fn end(&self) -> Offset {
        self.end
    }

    /// The end and the epoch of the last record, or of the snapshot that the log begins behind.
    pub fn last(&self) -> OffsetEpoch {
        OffsetEpoch::new(self.end, self.epochs.last_epoch().unwrap_or_default())
    }

    /// Grows with each truncation, trim, swap and adopted snapshot: what a cold read of an older
    /// generation brings is to be dropped.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The epochs that have records, and where each begins.
    pub fn epochs(&self) -> &EpochTable {
        &self.epochs
    }

    /// Appends one or more whole batches that passed [`crate::Batches`], in offset order, the last
    /// one of `epoch`. They go into one segment; a new one begins if they would make the old one
    /// larger than `segment_bytes`, or if the first of them is `segment_ms` later than the first
    /// one there. Costs a step a batch, nothing a record.
    pub fn append(&mut self, base: Offset, end: Offset, epoch: Epoch, bytes: Bytes) -> Job {
        assert_eq!(base, self.end, "an append begins at the end of the log");
        assert!(end > base, "an append has a batch: {base}..{end}");
        let rolls = self.must_roll(end, &bytes);
        let mut closing = IndexBytes::default();
        if rolls {
            closing = self.segments.last().expect("never empty").closing();
            self.segments.push(Segment::new(base, self.options.index_interval_bytes));
        }
        let indexed = self.segments.last().expect("never empty").indexed();

        let mut begins_epoch = false;
        let mut rest = bytes.clone();
        while let Some(first) = rest.first_chunk::<HEADER_BYTES>() {
            let header = Header::read(first).expect("the caller checked the batches");
            assert_eq!(header.base, self.end, "a batch begins where the one before it ends");
            begins_epoch |= self.epochs.note(header.epoch, header.base);
            self.note_horizon(&header);
            let bytes = rest.split_to(header.bytes as usize);
            let segment = self.segments.last_mut().expect("never empty");
            let position = segment.size;
            segment.push(&header);
            self.tail.push(TailBatch { base: header.base, last: header.last, position, bytes });
            self.end = header.end();
        }
        assert!(rest.is_empty(), "{} bytes after the last batch", rest.len());
        assert_eq!(self.end, end, "the batches end where the caller says");
        assert_eq!(self.epochs.last_epoch(), Some(epoch), "the last batch has the caller's epoch");

        let segment = self.segments.last().expect("never empty");
        let (index, segment) = (segment.index_from(indexed), segment.base);
        self.evict();
        let epochs = begins_epoch.then(|| self.epochs.clone());
        Job::Append(Append { segment, rolls, bytes, end, epochs, index, closing })
    }

    /// Whether these batches, which end at `end`, begin a new segment.
    fn must_roll(&self, end: Offset, bytes: &Bytes) -> bool {
        let segment = self.segments.last().expect("never empty");
        if segment.size == 0 {
            return false;
        }
        let first = bytes.first_chunk().map(Header::read);
        let time = first.and_then(Result::ok).map_or(i64::MIN, |first| first.max_timestamp_ms);
        // Kafka's indexes have 31 bits for offsets and positions within a segment.
        let wide = end.0 - segment.base.0 > i32::MAX as u64;
        let full = segment.size + bytes.len() as u64 > self.options.segment_bytes;
        wide || full || segment.is_older(time, self.options.segment_ms) || !segment.exact
    }

    /// Whether a batch in memory begins before this offset and ends behind it. Batches that only
    /// the disk has are not looked at.
    pub fn cuts_a_batch(&self, offset: Offset) -> bool {
        self.tail.find(offset).is_some_and(|batch| batch.base < offset)
    }

    /// Cuts the log so that it ends at `end`, which is where a batch begins. If it lies within a
    /// batch that is still in memory, that whole batch goes: look at [`Log::end`] afterwards.
    /// Nothing goes of which a leader, or the own cleaner, said that it was committed.
    pub fn truncate(&mut self, end: Offset) -> Job {
        let firm = self.cleaning.carried.dirty.min(self.end);
        assert!(end >= firm, "cut at {end} below {firm}, which was committed");
        self.cut(end)
    }

    pub(crate) fn cut(&mut self, end: Offset) -> Job {
        assert!(self.start <= end, "cut at {end} below the start {}", self.start);
        assert!(end <= self.end, "cut at {end} beyond the end {}", self.end);
        let in_tail = self.tail.find(end).map(|batch| (batch.base, batch.position));
        let end = in_tail.map_or(end, |(base, _)| base);

        let mut removed = Vec::new();
        // The end of the last segment that stays, where that is known.
        let mut whole = self.end;
        while let [_, .., last] = &self.segments[..] {
            if last.base < end {
                break;
            }
            whole = last.base;
            removed.push(last.base);
            self.segments.pop();
        }
        let segment = self.segments.last_mut().expect("the first one stays");
        let indexed = segment.floor(end);
        let position = match in_tail {
            // The batch at `end` begins a segment that goes, or there is none: this one ends here.
            _ if whole == end => segment.exact.then_some(segment.size),
            Some((_, position)) => Some(position),
            None => (indexed.0 == end).then_some(indexed.1),
        };
        let latest =
            if whole == end { Some(segment.latest) } else { latest(segment, &self.tail, end) };
        segment.truncate(end, position, latest);
        let cut = position.map_or(Cut::Find { from: indexed.1 }, Cut::At);
        let (segment, index) = (segment.base, segment.index_from(0));

        self.tail.truncate(end);
        let epochs = self.epochs.truncate(end).then(|| self.epochs.clone());
        self.end = end;
        self.durable = self.durable.min(end);
        self.generation += 1;
        Job::Truncate(Truncate { segment, cut, removed, end, epochs, index })
    }

    /// Remembers what this replica knows of elections.
    pub fn election(&self, election: &Election) -> Job {
        Job::Replace { name: election_file::NAME, bytes: election.encode() }
    }

    /// The same where the voters are in the log (kraft.version 1).
    pub fn election_dynamic(&self, election: &Election) -> Job {
        Job::Replace { name: election_file::NAME, bytes: election.encode_dynamic() }
    }

    /// All below `end` is durable, so memory may forget it. The caller must not report here what a
    /// truncation, planned since, has cut: a number that falls with each truncation, as the core's
    /// own `durable` does, is right.
    pub fn durable(&mut self, end: Offset) {
        assert!(end <= self.end, "durable up to {end}, but the log ends at {}", self.end);
        self.durable = self.durable.max(end);
        self.evict();
    }

    fn evict(&mut self) {
        self.tail.evict(self.durable, self.options.tail_bytes);
    }

    /// Whole batches from the one that holds `from` on: those that end at or below `end`, at least
    /// one, and as many more as fit into `max_bytes`.
    pub fn read(&self, from: Offset, end: Offset, max_bytes: u32) -> Read {
        assert!(self.start <= from, "read at {from} below the start {}", self.start);
        let end = end.min(self.end);
        if from >= end {
            return Read::Nothing;
        }
        match self.tail.base() {
            Some(base) if base <= from => self.read_tail(from, end, max_bytes),
            Some(base) => Read::Cold(self.plan_cold(from, end.min(base), max_bytes)),
            None => Read::Cold(self.plan_cold(from, end, max_bytes)),
        }
    }

    fn read_tail(&self, from: Offset, end: Offset, max_bytes: u32) -> Read {
        let mut room = max_bytes as usize;
        let mut found: Vec<Bytes> = Vec::new();
        let mut batches = self.tail.from(from).peekable();
        let rest = batches.peek().filter(|batch| batch.last < end).and_then(|batch| {
            let header = batch.bytes.first_chunk().map(Header::read);
            empty::rest(&header?.expect("was checked before"), from)
        });
        if let Some(rest) = rest {
            room = room.saturating_sub(rest.len());
            found.push(rest);
            batches.next();
        }
        for batch in batches {
            let fits = batch.bytes.len() <= room || found.is_empty();
            if batch.last >= end || !fits {
                break;
            }
            room = room.saturating_sub(batch.bytes.len());
            found.push(batch.bytes.clone());
        }
        if found.is_empty() { Read::Nothing } else { Read::Hot(found, self.numbers()) }
    }

    fn plan_cold(&self, from: Offset, end: Offset, max_bytes: u32) -> ColdRead {
        let after = self.segments.partition_point(|segment| segment.base <= from);
        let segment = &self.segments[after - 1];
        let (_, position) = segment.floor(from);
        let partition = &self.options.partition;
        let cleaned = |round| swap_files::cleaned_path(partition, segment.base, round);
        ColdRead {
            generation: self.generation,
            numbers: self.numbers(),
            path: crate::file::join(partition, &segment.file_name()),
            cleaned: segment.cleaned_by.map(cleaned),
            position,
            index_interval_bytes: self.options.index_interval_bytes,
            size: segment.size,
            from,
            end,
            max_bytes,
            epochs: self.epochs.within(from, end).to_vec(),
        }
    }

    /// All that must always hold, for tests: it looks at everything.
    pub fn check(&self) {
        assert!(self.start <= self.durable, "start {} > durable {}", self.start, self.durable);
        assert!(self.durable <= self.end, "durable {} > end {}", self.durable, self.end);
        self.tail.check(self.end);
        let tail = self.tail.base().unwrap_or(self.end);
        assert!(tail <= self.durable, "memory begins at {tail}, durable is {}", self.durable);
        let first = self.segments[0].base;
        assert!(first <= self.start, "segment {first} begins the log at {}", self.start);
        if let Some(second) = self.segments.get(1).map(|segment| segment.base) {
            // It begins there where the last segment stayed only because it was the last.
            assert!(second >= self.start, "segment {first} is wholly below {}", self.start);
        }
        self.check_snapshots();
        self.check_cleaning();
        for pair in self.segments.windows(2) {
            assert!(pair[0].base < pair[1].base, "segments {} {}", pair[0].base, pair[1].base);
        }
        for segment in &self.segments {
            assert!(segment.base <= self.end, "segment {} beyond {}", segment.base, self.end);
            segment.check();
        }
        for pair in self.epochs.entries().windows(2) {
            assert!(pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1, "epochs {pair:?}");
        }
        let first = self.epochs.entries().first().map(|(_, first)| *first);
        let begins = if self.start == self.end { None } else { Some(self.start) };
        assert_eq!(first, begins, "the first epoch begins the log");
        if let Some((_, first)) = self.epochs.entries().last() {
            assert!(*first < self.end, "an epoch begins at {first}, the log ends at {}", self.end);
        }
    }
}

/// The largest time of the segment's batches below `end`, as far as memory can tell.
fn latest(segment: &Segment, tail: &Tail, end: Offset) -> Option<TimeEntry> {
    let (mut latest, next) = segment.indexed_below(end);
    if next < end && tail.base().is_none_or(|base| base > next) {
        return None;
    }
    for batch in tail.from(next).take_while(|batch| batch.base < end) {
        let first = batch.bytes.first_chunk().expect("a batch has a header");
        latest = latest.later(&Header::read(first).expect("was checked before"));
    }
    Some(latest)
}
