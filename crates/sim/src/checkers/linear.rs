//! Linearizability of one key: is there an order of the operations, each between its question and
//! its answer, in which a plain store would have given these answers?
//!
//! The search of Wing and Gong with Lowe's memory of dead ends: take any operation that no other
//! must precede, apply it, go on; a set of operations done and a state that failed once fails
//! again. A write of unknown outcome may take effect at any time after its question, or never. It
//! knows nothing of logs; that an answer's version is where the log says is another checker's
//! business.

use crate::history::{Kind, Op, Seen};
use bytes::Bytes;
use quorate_base::{Offset, Time};
use quorate_machine::kv::Condition;
use std::collections::BTreeSet;

/// At so many steps the search gives up.
const STEPS_MAX: u64 = 3_000_000;

/// What the search found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// There is such an order.
    Linear,
    /// There is none.
    NotLinear,
    /// The search was given up.
    Undecided,
}

/// A key's state: the value's writer, and its version as far as anyone saw it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct State(Option<(usize, Option<Offset>)>);

/// Judges the operations on one key.
pub(crate) fn linear(ops: &[Op]) -> Verdict {
    let ops: Vec<&Op> = ops.iter().filter(|op| counts(op)).collect();
    Search { ops: &ops, dead: BTreeSet::new(), steps: 0 }.run()
}

/// Whether an operation says anything of the key's present.
fn counts(op: &Op) -> bool {
    match (&op.kind, &op.seen) {
        (Kind::Peek, _) | (_, Seen::NotDone) | (Kind::Get, Seen::Unknown) => false,
        (Kind::Put { .. } | Kind::Delete { .. } | Kind::Get, _) => true,
    }
}

struct Search<'a> {
    ops: &'a [&'a Op],
    dead: BTreeSet<(Done, State)>,
    steps: u64,
}

/// The operations that were taken.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Done(Vec<u64>);

impl Done {
    fn has(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 == 1
    }

    fn flip(&mut self, at: usize) {
        self.0[at / 64] ^= 1 << (at % 64);
    }
}

/// A choice: an operation, and the states it may lead to.
struct Choice {
    at: usize,
    next: State,
}

impl Search<'_> {
    fn run(&mut self) -> Verdict {
        let mut done = Done(vec![0; self.ops.len() / 64 + 1]);
        // The choices left at each depth, and the operation that led there.
        let mut path: Vec<(Vec<Choice>, usize)> = Vec::new();
        let Some(choices) = self.choices(&done, State(None)) else { return Verdict::Linear };
        path.push((choices, usize::MAX));
        while let Some((choices, led)) = path.last_mut() {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return Verdict::Undecided;
            }
            let Some(Choice { at, next }) = choices.pop() else {
                if *led != usize::MAX {
                    done.flip(*led);
                }
                path.pop();
                continue;
            };
            done.flip(at);
            if !self.dead.insert((done.clone(), next)) {
                done.flip(at);
                continue;
            }
            let Some(choices) = self.choices(&done, next) else { return Verdict::Linear };
            path.push((choices, at));
        }
        Verdict::NotLinear
    }

    /// What may come next, the likeliest last; `None` if nothing has to come any more.
    fn choices(&self, done: &Done, state: State) -> Option<Vec<Choice>> {
        let open = || (0..self.ops.len()).filter(|at| !done.has(*at));
        // No operation may follow one that was answered before it was asked.
        let first_end = open().filter_map(|at| self.ops[at].ended).min()?;
        let mut choices = Vec::new();
        for at in open().filter(|at| self.ops[*at].asked <= first_end) {
            choices.extend(self.apply(at, state).into_iter().map(|next| Choice { at, next }));
        }
        let end = |choice: &Choice| self.ops[choice.at].ended.unwrap_or(Time::NEVER);
        choices.sort_by_key(|choice| std::cmp::Reverse(end(choice)));
        Some(choices)
    }

    /// The states to which an operation may lead from this one; none if its answer speaks against
    /// it.
    fn apply(&self, at: usize, state: State) -> Vec<State> {
        let op = self.ops[at];
        let (condition, writes) = match &op.kind {
            Kind::Put { condition, .. } => (*condition, true),
            Kind::Delete { condition } => (*condition, false),
            Kind::Get | Kind::Peek => (Condition::Always, false),
        };
        match &op.seen {
            Seen::Found { found, .. } => self.found(state, found.as_ref()),
            Seen::Written { version } if holds(condition, state) != Some(false) => {
                vec![State(Some((at, Some(*version))))]
            }
            Seen::Deleted { .. } if state.0.is_some() && holds(condition, state) != Some(false) => {
                vec![State(None)]
            }
            Seen::Absent if state.0.is_none() && holds(condition, state) == Some(true) => {
                vec![state]
            }
            Seen::Failed { current } => match self.pin(state, *current) {
                Some(state) if holds(condition, state) == Some(false) => vec![state],
                Some(_) | None => vec![],
            },
            Seen::Unknown if holds(condition, state) == Some(false) => vec![],
            Seen::Unknown if writes => vec![State(Some((at, None)))],
            Seen::Unknown if state.0.is_some() => vec![State(None)],
            Seen::Written { .. }
            | Seen::Deleted { .. }
            | Seen::Absent
            | Seen::Unknown
            | Seen::NotDone => vec![],
        }
    }

    fn found(&self, state: State, found: Option<&(Bytes, Offset)>) -> Vec<State> {
        match (state.0, found) {
            (None, None) => vec![state],
            (Some((writer, _)), Some((value, version))) if self.wrote(writer, value) => {
                self.pin(state, Some(*version)).into_iter().collect()
            }
            (Some(_) | None, Some(_) | None) => vec![],
        }
    }

    fn wrote(&self, writer: usize, value: &Bytes) -> bool {
        match &self.ops[writer].kind {
            Kind::Put { value: wrote, .. } => wrote == value,
            Kind::Delete { .. } | Kind::Get | Kind::Peek => false,
        }
    }

    /// The state, if it has or can have this version.
    fn pin(&self, state: State, version: Option<Offset>) -> Option<State> {
        match (state.0, version) {
            (None, None) => Some(state),
            (Some((_, Some(known))), Some(version)) if known == version => Some(state),
            (Some((writer, None)), Some(version)) => Some(State(Some((writer, Some(version))))),
            (Some(_), None) | (None, Some(_)) | (Some((_, Some(_))), Some(_)) => None,
        }
    }
}

/// Whether a condition is true of a state; `None` if that depends on a version nobody saw.
fn holds(condition: Condition, state: State) -> Option<bool> {
    match (condition, state.0) {
        (Condition::Always, _) => Some(true),
        (Condition::IfAbsent, state) => Some(state.is_none()),
        (Condition::IfPresent, state) => Some(state.is_some()),
        (Condition::IfVersion(_), None) => Some(false),
        (Condition::IfVersion(version), Some((_, Some(known)))) => Some(version == known),
        (Condition::IfVersion(_), Some((_, None))) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(kind: Kind, asked: u64, ended: Option<u64>, seen: Seen) -> Op {
        Op { client: 1, key: 0, kind, asked: Time(asked), ended: ended.map(Time), seen }
    }

    fn put(value: &'static str, asked: u64, ended: u64, version: u64) -> Op {
        let seen = Seen::Written { version: Offset(version) };
        op(put_kind(value, Condition::Always), asked, Some(ended), seen)
    }

    fn put_kind(value: &'static str, condition: Condition) -> Kind {
        Kind::Put { value: Bytes::from_static(value.as_bytes()), condition }
    }

    fn lost(value: &'static str, asked: u64) -> Op {
        op(put_kind(value, Condition::Always), asked, None, Seen::Unknown)
    }

    fn get(found: Option<(&'static str, u64)>, asked: u64, ended: u64) -> Op {
        let found = found.map(|(value, at)| (Bytes::from_static(value.as_bytes()), Offset(at)));
        op(Kind::Get, asked, Some(ended), Seen::Found { found, end: Offset(0) })
    }

    fn check(ops: &[Op], expect: Verdict) {
        assert_eq!(linear(ops), expect, "{ops:#?}");
    }

    #[test]
    fn reads_see_what_was_acknowledged_before_them() {
        check(&[], Verdict::Linear);
        check(&[put("a", 0, 1, 5), get(Some(("a", 5)), 2, 3)], Verdict::Linear);
        check(&[put("a", 0, 1, 5), get(None, 2, 3)], Verdict::NotLinear);
        check(&[put("a", 0, 9, 5), get(None, 2, 3)], Verdict::Linear);
        check(&[put("a", 0, 1, 5), get(Some(("a", 6)), 2, 3)], Verdict::NotLinear);
        let stale = [put("a", 0, 1, 5), put("b", 2, 3, 6), get(Some(("a", 5)), 4, 5)];
        check(&stale, Verdict::NotLinear);
    }

    #[test]
    fn two_reads_agree_on_the_order_of_two_writes_under_way() {
        let ops = |first, second| {
            [put("a", 0, 10, 5), put("b", 0, 10, 6), get(first, 1, 2), get(second, 3, 4)]
        };
        check(&ops(Some(("a", 5)), Some(("b", 6))), Verdict::Linear);
        let back = [
            put("a", 0, 10, 5),
            put("b", 0, 10, 6),
            get(Some(("a", 5)), 1, 2),
            get(Some(("b", 6)), 3, 4),
            get(Some(("a", 5)), 5, 6),
        ];
        check(&back, Verdict::NotLinear);
    }

    #[test]
    fn an_unknown_write_may_happen_late_or_never_but_not_before_its_question() {
        check(&[lost("a", 0), get(None, 5, 6)], Verdict::Linear);
        check(&[lost("a", 0), get(None, 5, 6), get(Some(("a", 9)), 7, 8)], Verdict::Linear);
        check(&[lost("a", 0), get(Some(("a", 9)), 1, 2), get(None, 3, 4)], Verdict::NotLinear);
        check(&[get(Some(("a", 9)), 1, 2), lost("a", 3)], Verdict::NotLinear);
    }

    #[test]
    fn failed_conditions_speak_of_the_state() {
        let failed = |condition, current: Option<u64>, asked| {
            let seen = Seen::Failed { current: current.map(Offset) };
            op(put_kind("x", condition), asked, Some(asked + 1), seen)
        };
        let at = |version| Condition::IfVersion(Offset(version));
        check(&[put("a", 0, 1, 5), failed(Condition::IfAbsent, Some(5), 2)], Verdict::Linear);
        check(&[put("a", 0, 1, 5), failed(Condition::IfAbsent, None, 2)], Verdict::NotLinear);
        check(&[put("a", 0, 1, 5), failed(at(5), Some(5), 2)], Verdict::NotLinear);
        check(&[put("a", 0, 1, 5), failed(at(4), Some(5), 2)], Verdict::Linear);
        check(&[lost("a", 0), failed(Condition::IfAbsent, Some(7), 2)], Verdict::Linear);
        let twice = [
            lost("a", 0),
            failed(Condition::IfAbsent, Some(7), 2),
            failed(Condition::IfAbsent, Some(8), 4),
        ];
        check(&twice, Verdict::NotLinear);
    }
}
