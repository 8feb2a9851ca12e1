//! Holds each outgoing message until what its content promises survives a crash [P43].
//!
//! A message names the one write that it depends on, never the newest: news of the high watermark
//! and refusals do not wait for an unrelated sync. A message that waits is overtaken by those that
//! need not.

use crate::effect::{Call, Effect, WriteId};
use crate::message::{ErrorKind, Fetched, LeaderView, Response};
use crate::writes::Writes;

/// Messages that wait, in the order in which they were posted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox {
    held: Vec<(WriteId, Effect)>,
}

impl Outbox {
    pub(crate) fn hold(&mut self, needs: WriteId, effect: Effect) {
        self.held.push((needs, effect));
    }

    /// Takes out the first message whose write is durable.
    pub(crate) fn pop(&mut self, writes: &Writes) -> Option<(WriteId, Effect)> {
        let at = self.held.iter().position(|(needs, _)| writes.covers(*needs))?;
        Some(self.held.remove(at))
    }

    /// Drops the questions: their answers would be ignored anyway. Answers stay, their askers wait.
    pub(crate) fn recall(&mut self) {
        self.held.retain(|(_, effect)| !matches!(effect, Effect::Send { .. }));
    }

    /// Turns the records and news of a lost leadership into refusals: the log they speak of may
    /// change before they leave.
    pub(crate) fn revoke(&mut self, needs: WriteId, view: &LeaderView) {
        for (held_for, effect) in &mut self.held {
            if let Effect::Reply { body: Response::Fetch(answer), .. } = effect
                && answer.view.error == ErrorKind::None
            {
                answer.view = view.clone();
                answer.fetched = Fetched::Nothing;
                answer.high_watermark = None;
                answer.round = None;
                *held_for = needs.max(*held_for);
            }
        }
    }

    /// Whether this question has not left yet.
    pub(crate) fn holds(&self, call: Call) -> bool {
        let is_it = |effect: &Effect| matches!(effect, Effect::Send { call: c, .. } if *c == call);
        self.held.iter().any(|(_, effect)| is_it(effect))
    }

    pub(crate) fn held(&self) -> impl Iterator<Item = WriteId> + '_ {
        self.held.iter().map(|(needs, _)| *needs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_base::Offset;

    #[test]
    fn each_message_waits_for_its_own_write_only() {
        let mut writes = Writes::new(Offset(0));
        let (first, second) = (writes.issue(), writes.issue());
        let mut outbox = Outbox::default();
        // Any effect will do as the message; these two can be told apart.
        let message = |upto| Effect::Commit { upto: Offset(upto) };
        outbox.hold(second, message(2));
        outbox.hold(first, message(1));
        let mut leave = |writes: &Writes| -> Vec<Effect> {
            std::iter::from_fn(|| outbox.pop(writes)).map(|(_, effect)| effect).collect()
        };
        assert_eq!(leave(&writes), []);
        writes.report(first);
        assert_eq!(leave(&writes), [message(1)]);
        writes.report(second);
        assert_eq!(leave(&writes), [message(2)]);
    }
}
