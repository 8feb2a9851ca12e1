//! When a node makes a snapshot, and how it goes on after one could not be made.
//!
//! Every replica makes its own, after so many bytes or so much time, at a batch boundary, of what
//! is applied and on its own disk. Taking the state costs nothing and is done at once; it is handed
//! on once the log below it is durable here, so that no snapshot is ever ahead of its log.

use quorate_base::{Offset, OffsetEpoch, Span, Time};
use quorate_machine::Image;

/// The pause after a snapshot that could not be made; it doubles each time.
const RETRY: Span = Span::ms(10_000);
/// The longest pause.
const RETRY_MAX: Span = Span::ms(600_000);

/// A state that was taken and not yet handed on.
pub(crate) struct Taken {
    pub id: OffsetEpoch,
    pub timestamp_ms: i64,
    pub image: Image,
}

/// What is known of this node's own snapshots.
pub(crate) struct Making {
    /// `metadata.log.max.record.bytes.between.snapshots`.
    bytes_between: u64,
    /// `metadata.log.max.snapshot.interval.ms`; zero: never for its age.
    interval: Span,
    /// Bytes of batches applied since the newest snapshot.
    bytes: u64,
    /// Bytes of batches applied since the start.
    in_all: u64,
    /// When the newest one was made or loaded.
    since: Time,
    /// One is needed now, whether or not there is anything new in it.
    wanted: bool,
    taken: Option<Taken>,
    /// What the lane is writing.
    writing: Option<OffsetEpoch>,
    /// In a row.
    failures: u32,
    retry_at: Time,
}

impl Making {
    pub fn new(bytes_between: u64, interval: Span, now: Time) -> Making {
        Making {
            bytes_between,
            interval,
            bytes: 0,
            in_all: 0,
            since: now,
            wanted: false,
            taken: None,
            writing: None,
            failures: 0,
            retry_at: Time(0),
        }
    }

    /// The machine has applied a batch.
    pub fn applied(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.in_all += bytes;
    }

    /// Bytes of batches applied since the start.
    pub fn bytes_in_all(&self) -> u64 {
        self.in_all
    }

    /// The machine is now what a snapshot says.
    pub fn loaded(&mut self, now: Time) {
        (self.bytes, self.since, self.taken) = (0, now, None);
    }

    /// The newest one is of no use: another is to be made at once.
    pub fn want(&mut self) {
        self.wanted = true;
    }

    /// When it should be taken at the latest, as far as is known now.
    pub fn due_at(&self) -> Time {
        if self.taken.is_some() || self.writing.is_some() || self.bytes == 0 && !self.wanted {
            return Time::NEVER;
        }
        let aged = match self.interval {
            Span::ZERO => Time::NEVER,
            interval => self.since + interval,
        };
        let due = match self.wanted || self.bytes >= self.bytes_between {
            true => Time(0),
            false => aged,
        };
        due.max(self.retry_at)
    }

    /// The state was taken.
    pub fn take(&mut self, now: Time, taken: Taken) {
        assert!(self.taken.is_none() && self.writing.is_none(), "one snapshot at a time");
        (self.bytes, self.since, self.wanted) = (0, now, false);
        self.taken = Some(taken);
    }

    /// What was taken, once all of it is durable.
    pub fn hand_on(&mut self, durable: Offset) -> Option<Taken> {
        let taken = self.taken.take_if(|taken| taken.id.offset <= durable)?;
        self.writing = Some(taken.id);
        Some(taken)
    }

    /// The lane has written it.
    pub fn written(&mut self, id: OffsetEpoch) {
        if self.writing == Some(id) {
            (self.writing, self.failures) = (None, 0);
        }
    }

    /// There is room again: a snapshot that could not be made need not wait any longer.
    pub fn try_again(&mut self, now: Time) {
        self.retry_at = self.retry_at.min(now);
    }

    /// The lane could not. Returns whether this is worth a line: only the first of a row is.
    pub fn failed(&mut self, now: Time, id: OffsetEpoch) -> bool {
        if self.writing != Some(id) {
            return false;
        }
        self.writing = None;
        let pause = Span(RETRY.0 << self.failures.min(16)).min(RETRY_MAX);
        self.failures += 1;
        self.retry_at = now + pause;
        // What it would have held is still in no snapshot.
        self.bytes = self.bytes.max(self.bytes_between);
        self.failures == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_base::Epoch;

    fn at(offset: u64) -> OffsetEpoch {
        OffsetEpoch::new(Offset(offset), Epoch(1))
    }

    fn taken(offset: u64) -> Taken {
        Taken { id: at(offset), timestamp_ms: 0, image: Image::new(std::iter::empty()) }
    }

    fn making() -> Making {
        Making::new(1_000, Span::ms(60), Time(0))
    }

    #[test]
    fn bytes_or_age_make_one_due_and_an_idle_machine_none() {
        let mut making = making();
        assert_eq!(making.due_at(), Time::NEVER);
        making.applied(10);
        assert_eq!(making.due_at(), Time(60_000));
        making.applied(990);
        assert!(making.due_at() <= Time(1));
        let mut never = Making::new(1_000, Span::ZERO, Time(0));
        never.applied(999);
        assert_eq!(never.due_at(), Time::NEVER, "an interval of 0 is none");
    }

    #[test]
    fn a_state_waits_until_its_log_is_durable_and_is_one_at_a_time() {
        let mut making = making();
        making.applied(1_000);
        making.take(Time(5), taken(10));
        making.applied(5_000);
        assert_eq!(making.due_at(), Time::NEVER);
        assert!(making.hand_on(Offset(9)).is_none());
        assert_eq!(making.hand_on(Offset(10)).map(|taken| taken.id), Some(at(10)));
        assert!(making.hand_on(Offset(10)).is_none());
        assert_eq!(making.due_at(), Time::NEVER, "it is being written");
        making.written(at(10));
        assert!(making.due_at() <= Time(6), "what was applied meanwhile counts");
    }

    #[test]
    fn failures_are_told_once_and_tried_again_more_and_more_rarely() {
        let mut making = making();
        let (mut now, mut pauses) = (Time(1), Vec::new());
        for round in 0..9 {
            making.applied(if round == 0 { 1_000 } else { 0 });
            assert!(making.due_at() <= now);
            making.take(now, taken(10));
            making.hand_on(Offset(10)).map(|taken| taken.id);
            assert_eq!(making.failed(now, at(10)), round == 0);
            pauses.push(making.due_at().since(now).as_ms() / 1_000);
            now = making.due_at();
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 600, 600, 600]);
        making.take(now, taken(11));
        making.hand_on(Offset(11)).map(|taken| taken.id);
        making.written(at(11));
        making.applied(1_000);
        assert!(making.due_at() <= now);
    }

    #[test]
    fn one_that_is_wanted_is_due_though_nothing_is_new_and_only_once() {
        let mut making = making();
        making.want();
        assert!(making.due_at() <= Time(1));
        making.take(Time(5), taken(10));
        making.want();
        assert_eq!(making.due_at(), Time::NEVER, "one at a time");
        making.hand_on(Offset(10)).map(|taken| taken.id);
        making.written(at(10));
        assert!(making.due_at() <= Time(6), "wanted again meanwhile");
        making.take(Time(7), taken(10));
        making.hand_on(Offset(10)).map(|taken| taken.id);
        making.written(at(10));
        assert_eq!(making.due_at(), Time::NEVER);
    }

    #[test]
    fn what_a_loaded_snapshot_holds_needs_no_other() {
        let mut making = making();
        making.applied(1_000);
        making.take(Time(5), taken(10));
        making.loaded(Time(7));
        assert!(making.hand_on(Offset(100)).is_none());
        assert_eq!(making.due_at(), Time::NEVER);
    }
}
