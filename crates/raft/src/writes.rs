//! Which writes were issued and which of them survive a crash.
//!
//! `durable` follows the queue [P42]: a truncation lowers it when it is *issued*, an append raises
//! it only when it is *reported*. Never guesses: what was not reported is not durable.

use crate::effect::WriteId;
use quorate_base::Offset;
use std::collections::VecDeque;

/// The marks of the write queue.
#[derive(Clone, Debug)]
pub(crate) struct Writes {
    issued: WriteId,
    /// Invariant: never above `issued`.
    reported: WriteId,
    /// Appends not yet reported and the end that each gives the log. Invariant: both ascend, the
    /// ends not strictly, since a truncation clips them.
    pending: VecDeque<(WriteId, Offset)>,
    durable: Offset,
}

impl Writes {
    /// Nothing issued; the log is durable up to `durable`.
    pub(crate) fn new(durable: Offset) -> Writes {
        Writes { issued: WriteId(0), reported: WriteId(0), pending: VecDeque::new(), durable }
    }

    /// A write that does not touch the log.
    pub(crate) fn issue(&mut self) -> WriteId {
        self.issued = WriteId(self.issued.0 + 1);
        self.issued
    }

    /// An append that moves the end of the log to `end`.
    pub(crate) fn append(&mut self, end: Offset) -> WriteId {
        let id = self.issue();
        self.pending.push_back((id, end));
        id
    }

    /// A truncation that moves the end of the log back to `end`.
    pub(crate) fn truncate(&mut self, end: Offset) -> WriteId {
        self.durable = self.durable.min(end);
        for (_, pending) in &mut self.pending {
            *pending = (*pending).min(end);
        }
        self.issue()
    }

    /// A snapshot that takes the place of the log: nothing counts until it does.
    pub(crate) fn adopt(&mut self, end: Offset) -> WriteId {
        self.durable = Offset::ZERO;
        for (_, pending) in &mut self.pending {
            *pending = Offset::ZERO;
        }
        self.append(end)
    }

    /// All writes up to `upto` survive a crash.
    pub(crate) fn report(&mut self, upto: WriteId) {
        assert!(upto <= self.issued, "{upto:?} was never issued, the last was {:?}", self.issued);
        self.reported = self.reported.max(upto);
        while let Some((id, end)) = self.pending.front().copied()
            && id <= upto
        {
            self.pending.pop_front();
            self.durable = self.durable.max(end);
        }
    }

    /// Whether this write survives a crash.
    pub(crate) fn covers(&self, id: WriteId) -> bool {
        id <= self.reported
    }

    /// The write that makes all of the log durable, or one that already did.
    pub(crate) fn last_append(&self) -> WriteId {
        self.pending.back().map_or(WriteId(0), |(id, _)| *id)
    }

    /// One past the last offset that survives a crash.
    pub(crate) fn durable(&self) -> Offset {
        self.durable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncation_counts_when_issued_and_an_append_when_reported() {
        let mut writes = Writes::new(Offset(4));
        let first = writes.append(Offset(10));
        assert_eq!(writes.durable(), Offset(4));
        let cut = writes.truncate(Offset(3));
        assert_eq!(writes.durable(), Offset(3));
        let second = writes.append(Offset(5));
        writes.report(first);
        assert_eq!(writes.durable(), Offset(3));
        writes.report(cut);
        assert_eq!(writes.durable(), Offset(3));
        writes.report(second);
        assert_eq!(writes.durable(), Offset(5));
        assert!(writes.covers(second));
    }

    #[test]
    fn an_adopted_snapshot_counts_when_reported_and_nothing_before_it_does() {
        let mut writes = Writes::new(Offset(4));
        let old = writes.append(Offset(10));
        let adopted = writes.adopt(Offset(40));
        assert_eq!((writes.durable(), writes.last_append()), (Offset(0), adopted));
        writes.report(old);
        assert_eq!(writes.durable(), Offset(0));
        writes.report(adopted);
        assert_eq!(writes.durable(), Offset(40));
    }

    #[test]
    fn an_append_that_a_truncation_clipped_makes_durable_what_is_left_of_it() {
        let mut writes = Writes::new(Offset(4));
        let first = writes.append(Offset(10));
        writes.truncate(Offset(8));
        writes.report(first);
        assert_eq!(writes.durable(), Offset(8));
    }
}
