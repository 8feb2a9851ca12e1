//! The log's side of cleaning: the numbers that it carries, when a round is due, and what a round
//! brought put in force. Plans file work, does none.
//!
//! A swap is in force for readers as soon as it is planned: the generation grows, memory forgets
//! what is older, and each read carries the numbers of the generation that it was planned in. On
//! the disk `dirty` and the horizon are durable before the first file changes, `clean` after the
//! last.

use crate::job::{Carry, Job, Roll, Swap};
use crate::mutants::mutant;
use crate::numbers::{Came, Carried, Reading};
use crate::numbers_file;
use crate::round::{CleanNow, CleanSettings, CleanedGroup, Part, Round, Swept, ToClean};
use crate::segment::Segment;
use crate::{Log, Recovery};
use quorate_base::{Cleaned, Offset};

/// What the log knows of its cleaning, besides what is durable.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cleaning {
    pub carried: Carried,
    /// The number of the last round that was planned.
    rounds: u64,
    /// That round is being done; its segments and their order are as they were.
    running: bool,
    /// When the first tombstone may go that has a horizon, as far as anything says.
    next_ms: Option<i64>,
    /// The first tombstone whose time has come, but not its bound.
    held_up: Option<Offset>,
}

impl Cleaning {
    /// As start-up found it.
    pub fn of(recovery: &Recovery) -> Cleaning {
        let Recovery { carried, next_ms, .. } = *recovery;
        Cleaning { carried, next_ms, ..Cleaning::default() }
    }
}

impl Log {
    /// What the log says of itself, as it is now: with what [`Log::read`] gives at once. A cold
    /// read has its own.
    pub fn numbers(&self) -> Cleaned {
        self.cleaning.carried.numbers()
    }

    /// Up to where this replica's own cleaner has been.
    pub fn cleaner_end(&self) -> Offset {
        self.cleaning.carried.cleaner
    }

    /// The lowest `clean` of what this log was copied from, an own append counted as its offset;
    /// `None` while it is empty. Whoever copies it as it is needs no more (rule P82).
    pub fn built_from(&self) -> Option<Offset> {
        let Carried { built_from, .. } = self.cleaning.carried;
        if self.start < self.end { Some(built_from.unwrap_or_default()) } else { built_from }
    }

    /// What a state that is built from this log's records must hold against them.
    pub fn reading(&self) -> Reading {
        self.cleaning.carried.reading
    }

    /// Says where the records come from that are appended next. The job, if there is one, must come
    /// before that append: the numbers are durable before the records.
    #[must_use = "a job, if there is one, is to be carried out before the append"]
    pub fn inherit(&mut self, came: Came) -> Option<Job> {
        let before = self.cleaning.carried;
        if self.start < self.end {
            self.cleaning.carried = before.of_records();
        }
        let came = match came {
            Came::Fetched(_) if mutant!(self.options, ForgetInherited) => {
                Came::Fetched(Cleaned::NEVER)
            }
            Came::Own | Came::Fetched(_) => came,
        };
        self.cleaning.carried.inherit(came, self.end);
        self.note_numbers(before)
    }

    /// The state that is built from the log was taken from a snapshot.
    #[must_use = "a job, if there is one, is to be carried out"]
    pub fn set_reading(&mut self, reading: Reading) -> Option<Job> {
        let before = self.cleaning.carried;
        self.cleaning.carried.reading = reading;
        self.note_numbers(before)
    }

    fn note_numbers(&self, before: Carried) -> Option<Job> {
        let now = self.cleaning.carried;
        let said = now == before || now.is_plain() && before.is_plain();
        (!said).then(|| self.numbers_job())
    }

    fn numbers_job(&self) -> Job {
        Job::Carry(Carry { carried: self.cleaning.carried })
    }

    /// Gives the whole log up to read all anew, as a reader does that may have missed a tombstone.
    /// The jobs are to be carried out in this order: until the last, what is known is too careful.
    pub fn start_over(&mut self) -> Vec<Job> {
        let job = self.cut(self.start);
        self.cleaning = Cleaning { rounds: self.cleaning.rounds, ..Cleaning::default() };
        vec![job, self.numbers_job()]
    }

    /// What is to be done now, if anything: one round at a time. Of a log that is to stay whole
    /// (`cleanup.policy=compact`); nobody else may ask.
    pub fn to_clean(&mut self, now: &CleanNow, settings: &CleanSettings) -> Option<ToClean> {
        if self.cleaning.running {
            return None;
        }
        let carried = self.cleaning.carried;
        let committed = match mutant!(self.options, CleanUncommitted) {
            true => self.durable,
            false => now.applied.min(self.durable),
        };
        // A reader of small pieces would be sent back to the start again and again.
        let Cleaned { clean, horizon, .. } = carried.numbers();
        let waits = mutant!(self.options, StayBelowHorizon);
        let through_horizon = clean < horizon && horizon <= committed && !waits;
        let old = |segment: &Segment| {
            let age = segment.first_ms.map_or(0, |first| now.wall_ms.saturating_sub(first));
            settings.max_lag_ms.is_some_and(|max| age > 0 && age as u64 > max)
        };
        let active = self.segments.last().expect("never empty");
        let must_roll = through_horizon && active.base < horizon || old(active);
        if must_roll && active.size > 0 {
            return Some(ToClean::Roll(Box::new(self.roll())));
        }
        let lag_ms = if through_horizon { 0 } else { settings.min_lag_ms };
        let upto = self.cleanable(committed, now.wall_ms, lag_ms);
        let from = carried.cleaner;
        let parts = self.parts(upto);
        let is_old = || parts.iter().zip(&self.segments).any(|(p, s)| p.end > from && old(s));
        let new = upto > from
            && (through_horizon && upto >= horizon
                || dirty_ratio(&parts, from) >= settings.min_dirty_ratio
                || is_old());
        // A snapshot at the start may hold what a tombstone deletes.
        let bound = if self.start > Offset::ZERO { Offset::ZERO } else { now.tombstone_bound };
        let bound = if mutant!(self.options, CollectUnbound) { from } else { bound };
        let tombstones_below = bound.min(from);
        let timely = self.cleaning.next_ms.is_some_and(|next_ms| next_ms <= now.wall_ms);
        let waited = self.cleaning.held_up.is_some_and(|offset| offset < tombstones_below);
        if !new && !timely && !waited {
            return None;
        }
        // Only tombstones: of all that cannot be cut any more.
        let parts = match new {
            true => parts,
            false => self.parts(self.cleanable(committed, now.wall_ms, 0)),
        };
        self.cleaning.rounds += 1;
        self.cleaning.running = true;
        let retention_ms = i64::try_from(settings.delete_retention_ms).unwrap_or(i64::MAX);
        Some(ToClean::Round(Box::new(Round {
            number: self.cleaning.rounds,
            dir: self.options.partition.clone(),
            parts,
            from,
            upto: if new { upto } else { from },
            tombstones_below,
            now_ms: if mutant!(self.options, CollectAtOnce) { i64::MAX } else { now.wall_ms },
            horizon_ms: now.wall_ms.saturating_add(retention_ms),
            seed: now.seed,
            map_bytes: settings.dedupe_buffer_bytes,
            segment_bytes: self.options.segment_bytes,
            index_interval_bytes: self.options.index_interval_bytes,
            epochs: self.epochs.clone(),
        })))
    }

    /// Begins a new segment without an append.
    fn roll(&mut self) -> Job {
        let closing = self.segments.last().expect("never empty").closing();
        self.segments.push(Segment::new(self.end, self.options.index_interval_bytes));
        Job::Roll(Roll { segment: self.end, closing })
    }

    /// U: where the first segment begins that is not to be cleaned.
    fn cleanable(&self, committed: Offset, wall_ms: i64, lag_ms: u64) -> Offset {
        let young = |segment: &&Segment| {
            let since = i64::try_from(lag_ms).unwrap_or(i64::MAX);
            since > 0 && segment.latest.timestamp_ms > wall_ms.saturating_sub(since)
        };
        let mut upto = self.start;
        for pair in self.segments.windows(2) {
            let end = pair[1].base;
            if end > committed || end > self.cleaning.carried.cleaner && young(&&pair[0]) {
                break;
            }
            upto = end.max(upto);
        }
        upto
    }

    /// The segments below `upto`.
    fn parts(&self, upto: Offset) -> Vec<Part> {
        let from = self.cleaning.carried.cleaner;
        let part = |pair: &[Segment]| Part {
            base: pair[0].base,
            end: pair[1].base,
            bytes: pair[0].size,
            cleaned_by: pair[0].cleaned_by,
            keys_from: pair[0].floor(from.max(pair[0].base)),
        };
        let parts = self.segments.windows(2).map(part);
        parts.take_while(|part| part.base < upto).collect()
    }

    /// Puts the cleaned segments of a round in the place of what they were made of. If the log has
    /// changed there since, they are of no use: then their files are to be removed.
    pub fn swap(&mut self, group: CleanedGroup) -> Result<Job, Vec<String>> {
        let CleanedGroup { round, upto, segments, end, segment, horizon, paths, .. } = group;
        if !self.cleaning.running || round != self.cleaning.rounds {
            return Err(paths);
        }
        let first = self.segments.partition_point(|held| held.base < segment.base);
        let held = self.segments[first..].iter().map(|held| held.base);
        let next = self.segments.get(first + segments.len()).map(|next| next.base);
        let same = held.zip(&segments).all(|(held, of)| held == *of) && next == Some(end);
        assert!(same, "segments {segments:?} up to {end} changed while they were cleaned");
        let before = self.cleaning.carried;
        let carried = &mut self.cleaning.carried;
        carried.dirty = carried.dirty.max(upto);
        if !mutant!(self.options, ForgetHorizon) {
            carried.horizon = carried.horizon.max(horizon);
        }
        if mutant!(self.options, EarlyClean) {
            carried.cleaner = carried.cleaner.max(upto);
        }
        let below = carried.horizon;
        let keeps = mutant!(self.options, KeepSnapshots);
        // Replayed from there the log lacks a deletion.
        let stale = |id: Offset| self.start == Offset::ZERO && id < below && !keeps;
        let gone = self.snapshots.extract_if(.., |held| stale(held.id.offset));
        let snapshots = gone.map(|held| held.id).collect();

        self.segments.splice(first..first + segments.len(), [segment]);
        // What is in memory is as it was before, and `clean` will not be true of it.
        if !mutant!(self.options, KeepTail) {
            self.tail.trim(end);
        }
        if !mutant!(self.options, KeepGeneration) {
            self.generation += 1;
        }
        let swap = numbers_file::Swap { round, segments };
        let late = mutant!(self.options, LateNumbers);
        let carried = if late { before } else { self.cleaning.carried };
        Ok(Job::Swap(Swap { carried, swap, snapshots }))
    }

    /// A round is done, and all its groups were given to [`Log::swap`].
    #[must_use = "a job, if there is one, is to be carried out"]
    pub fn finish_round(&mut self, swept: &Swept) -> Option<Job> {
        if !self.cleaning.running || swept.round != self.cleaning.rounds {
            return None;
        }
        self.cleaning.running = false;
        (self.cleaning.next_ms, self.cleaning.held_up) = (swept.next_ms, swept.held_up);
        let before = self.cleaning.carried;
        let carried = &mut self.cleaning.carried;
        carried.dirty = carried.dirty.max(swept.upto);
        carried.cleaner = carried.cleaner.max(swept.upto);
        (*carried != before).then(|| self.numbers_job())
    }

    /// The round could not be done, or the log is not what it was: what it still brings is void.
    pub fn abandon_round(&mut self) {
        self.cleaning.running = false;
    }

    /// Whether a round is being done.
    pub fn is_cleaning(&self) -> bool {
        self.cleaning.running
    }

    /// Notes a batch at the end of the log, or one that recovery found.
    pub(crate) fn note_horizon(&mut self, header: &crate::Header) {
        if header.delete_horizon {
            let next_ms = &mut self.cleaning.next_ms;
            *next_ms = Some(next_ms.map_or(header.timestamp_ms, |n| n.min(header.timestamp_ms)));
        }
    }

    pub(crate) fn check_cleaning(&self) {
        let Carried { dirty, horizon, cleaner, .. } = self.cleaning.carried;
        assert!(horizon <= dirty, "G {horizon} > dirty {dirty}");
        let clean = self.numbers().clean;
        assert!(clean <= dirty, "clean {clean} > dirty {dirty}");
        assert!(cleaner <= dirty, "cleaner's end {cleaner} > dirty {dirty}");
        assert!(cleaner <= self.durable, "cleaned to {cleaner}, durable to {}", self.durable);
    }
}

/// How much of these parts, in bytes, has not been cleaned.
fn dirty_ratio(parts: &[Part], from: Offset) -> f64 {
    let all: u64 = parts.iter().map(|part| part.bytes).sum();
    let dirty = parts.iter().filter(|part| part.end > from);
    let dirty: u64 = dirty.map(|part| part.bytes.saturating_sub(part.keys_from.1)).sum();
    if all == 0 { 0.0 } else { dirty as f64 / all as f64 }
}
