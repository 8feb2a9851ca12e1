//! How long a command may still take: one deadline for all that it waits for.
//!
//! Asks nobody and waits for nothing itself. Between two questions every command of this family
//! makes the same pause.

use std::time::{Duration, Instant};

/// Between two attempts. Nobody tells a command when a leader is elected or a node is level, so it
/// asks again.
pub(super) const PAUSE: Duration = Duration::from_millis(300);

/// After so long who leads is asked anew: it may be another one by then.
const ROUND_TIME: Duration = Duration::from_secs(4);
/// So short no question gets, as long as there is as much.
const ROUND_TIME_MIN: Duration = Duration::from_millis(500);
/// What there is at least to hear and see what came of a change.
const AFTERWARDS: Duration = Duration::from_secs(2);

/// What is left of `--timeout`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    whole: Duration,
    end: Instant,
}

impl Patience {
    /// From now on.
    pub(super) fn new(whole: Duration) -> Patience {
        Patience { whole, end: Instant::now() + whole }
    }

    /// Until when nothing is to be changed any more, and only what became of it is looked at.
    pub(super) fn afterwards(self) -> Patience {
        Patience { end: self.end.max(Instant::now() + AFTERWARDS), ..self }
    }

    pub(super) fn is_over(self) -> bool {
        self.left().is_zero()
    }

    /// Whether there is no time left for another attempt after the next pause.
    pub(super) fn is_spent(self) -> bool {
        self.left() <= PAUSE
    }

    pub(super) fn left(self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// For one question of several: who is silent must not use up all there is.
    pub(super) fn round(self) -> Duration {
        let left = self.left();
        (left / 2).clamp(left.min(ROUND_TIME_MIN), ROUND_TIME)
    }

    /// For the answer to a change that is asked for: who gives it up does not know what came of it.
    pub(super) fn answer(self) -> Duration {
        self.left() + AFTERWARDS
    }

    /// The whole, in seconds.
    pub(super) fn secs(self) -> u64 {
        self.whole.as_secs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_never_longer_than_what_is_left() {
        let long = Patience::new(Duration::from_secs(3_600));
        assert_eq!((long.round(), long.is_over(), long.secs()), (ROUND_TIME, false, 3_600));
        let short = Patience::new(Duration::from_secs(4));
        assert!(short.round() <= Duration::from_secs(2));
        let none = Patience::new(Duration::ZERO);
        assert!(none.is_over() && none.is_spent() && none.round().is_zero());
        let nearly = Patience::new(PAUSE);
        assert!(nearly.is_spent() && !short.is_spent());
        assert!(!none.afterwards().is_over());
        assert!(long.afterwards().left() > ROUND_TIME);
    }
}
