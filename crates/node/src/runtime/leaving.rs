//! Files that the log needs no more, renamed already: they stay for a while, as Kafka's do, so that
//! whoever reads one has time to end; but never longer than there is room for them within what
//! retention leaves to the log.
//!
//! Only says what is to go; somebody who may wait removes it.

use quorate_base::{Span, Time};
use std::collections::VecDeque;

/// How long they stay at most.
const STAY: Span = Span::ms(60_000);

struct Files {
    due: Time,
    bytes: u64,
    paths: Vec<String>,
}

/// What was renamed and not yet removed, the oldest first.
#[derive(Default)]
pub(crate) struct Leaving {
    files: VecDeque<Files>,
    bytes: u64,
}

impl Leaving {
    pub fn add(&mut self, now: Time, paths: Vec<String>, bytes: u64) {
        self.files.push_back(Files { due: now + STAY, bytes, paths });
        self.bytes += bytes;
    }

    /// What has to go now: what has stayed long enough, and the oldest as long as all of it takes
    /// more than `room`, where there is a limit.
    pub fn due(&mut self, now: Time, room: Option<u64>) -> Vec<String> {
        let mut gone = Vec::new();
        while let Some(first) = self.files.front() {
            if first.due > now && room.is_none_or(|room| self.bytes <= room) {
                break;
            }
            let first = self.files.pop_front().expect("just seen");
            self.bytes -= first.bytes;
            gone.extend(first.paths);
        }
        gone
    }

    /// When there is something to remove, if no room is lost before.
    pub fn deadline(&self) -> Time {
        self.files.front().map_or(Time::NEVER, |first| first.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_stay_a_minute_or_as_long_as_there_is_room() {
        let at = |s: u64| Time(1) + Span::ms(1_000 * s);
        let mut leaving = Leaving::default();
        for (second, path, bytes) in [(0, "a", 10), (1, "b", 20), (2, "c", 5), (3, "d", 0)] {
            leaving.add(at(second), vec![path.to_owned()], bytes);
        }
        assert_eq!(leaving.due(at(4), None), [""; 0]);
        assert_eq!(leaving.due(at(4), Some(35)), [""; 0]);
        assert_eq!(leaving.due(at(4), Some(34)), ["a"], "the oldest goes, and that is enough");
        assert_eq!(leaving.deadline(), at(61));
        assert_eq!(leaving.due(at(60), Some(25)), [""; 0]);
        assert_eq!(leaving.due(at(61), Some(25)), ["b"]);
        assert_eq!(leaving.due(at(61), Some(0)), ["c"], "what takes nothing may stay");
        assert_eq!(leaving.due(at(63), None), ["d"]);
        assert_eq!((leaving.deadline(), leaving.bytes), (Time::NEVER, 0));
    }
}
