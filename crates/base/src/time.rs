//! Time as a value. Whoever owns a clock passes it in; nothing here reads one.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// Microseconds since an origin that only the owner of the clock knows. Monotonic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub u64);

impl Time {
    /// A deadline that never comes.
    pub const NEVER: Time = Time(u64::MAX);

    /// How long after `earlier` this is; zero when it is not.
    pub fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Time::NEVER => f.write_str("never"),
            Time(us) => write!(f, "{}.{:06}s", us / 1_000_000, us % 1_000_000),
        }
    }
}

/// A length of time in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(pub u64);

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);

    /// From microseconds.
    pub const fn us(us: u64) -> Span {
        Span(us)
    }

    /// From milliseconds, the unit of Kafka's properties.
    pub const fn ms(ms: u64) -> Span {
        Span(ms * 1_000)
    }

    /// Whole milliseconds, rounded down.
    pub const fn as_ms(self) -> u64 {
        self.0 / 1_000
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl Sub for Span {
    type Output = Span;
    fn sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}us", self.0)
    }
}
