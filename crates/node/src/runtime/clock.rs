//! The two clocks of a node: a monotonic one for the protocol, the time of day for timestamps.

use quorate_base::Time;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Monotonic time since this was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    pub fn start() -> Clock {
        Clock { origin: Instant::now() }
    }

    pub fn now(self) -> Time {
        Time(self.origin.elapsed().as_micros() as u64)
    }

    /// The moment of this time, for timers; `None` for one that never comes.
    pub fn instant(self, time: Time) -> Option<Instant> {
        match time {
            Time::NEVER => None,
            Time(us) => self.origin.checked_add(Duration::from_micros(us)),
        }
    }
}

/// Milliseconds since 1970 by the machine's clock.
pub(crate) fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
