//! What will happen, by time. Events of one time happen in the order in which they were planned, so
//! a run never depends on anything but its plan.

use quorate_base::Time;
use std::collections::BTreeMap;

/// Events that are still to come.
pub(crate) struct Queue<E> {
    events: BTreeMap<(Time, u64), E>,
    planned: u64,
}

impl<E> Queue<E> {
    pub fn new() -> Queue<E> {
        Queue { events: BTreeMap::new(), planned: 0 }
    }

    /// Plans an event.
    pub fn push(&mut self, at: Time, event: E) {
        self.planned += 1;
        self.events.insert((at, self.planned), event);
    }

    /// The next event and its time.
    pub fn pop(&mut self) -> Option<(Time, E)> {
        self.events.pop_first().map(|((at, _), event)| (at, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_as_planned() {
        let mut queue = Queue::new();
        for (at, name) in [(5, "c"), (1, "a"), (5, "d"), (2, "b")] {
            queue.push(Time(at), name);
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(_, name)| name).collect();
        assert_eq!(order, ["a", "b", "c", "d"]);
    }
}
