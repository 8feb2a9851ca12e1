//! Log lines that would repeat: the same thing is said again only after a minute.
//!
//! A peer that is wrongly configured asks every 20 ms; its first line says all there is to say.

use quorate_base::{Span, Time};
use std::collections::BTreeMap;

/// The same line is not said again before.
const PAUSE: Span = Span::ms(60_000);
/// So many different lines are remembered; what a hostile peer makes up cannot grow beyond.
const REMEMBERED: usize = 64;

/// When what was last said.
#[derive(Default)]
pub(crate) struct Once {
    said: BTreeMap<String, Time>,
}

impl Once {
    /// Whether this is to be said now; if so, it counts as said.
    pub fn say(&mut self, now: Time, what: &str) -> bool {
        if self.said.get(what).is_some_and(|at| now.since(*at) < PAUSE) {
            return false;
        }
        if self.said.len() >= REMEMBERED {
            self.said.retain(|_, at| now.since(*at) < PAUSE);
        }
        if self.said.len() >= REMEMBERED {
            return false;
        }
        self.said.insert(what.to_owned(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_line_comes_once_a_minute_and_memory_is_bounded() {
        let mut once = Once::default();
        assert!(once.say(Time(0), "a"));
        assert!(!once.say(Time(PAUSE.0 - 1), "a"));
        assert!(once.say(Time(PAUSE.0 - 1), "b"));
        assert!(once.say(Time(PAUSE.0), "a"));
        for line in 0..1_000 {
            once.say(Time(PAUSE.0), &line.to_string());
        }
        assert_eq!(once.said.len(), REMEMBERED);
        assert!(once.say(Time(PAUSE.0 * 3), "a new line, once the old ones are forgotten"));
    }
}
