//! One key of the store as a [`Model`]: a plain register with versions, for the search of
//! [`crate::linear`].
//!
//! Knows nothing of logs; that an answer's version is where the log says is another checker's
//! business. What a write of unknown outcome left has a version that nobody was told, until someone
//! sees it.

use crate::history::{Kind, Op, Seen};
use crate::linear::{Model, Timed, Verdict, check, shortest};
use bytes::Bytes;
use quorate_base::Offset;
use quorate_machine::kv::Condition;

/// At so many steps the search gives up.
const STEPS_MAX: u64 = 1_000_000;
/// The same for one attempt to make a history shorter.
const SHORTENING_STEPS_MAX: u64 = 50_000;

/// What became of a history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Judgement {
    /// There is an order that explains it.
    Linear,
    /// There is none; the shortest part of it for which there is none.
    NotLinear(Vec<Op>),
    /// The search was given up.
    Undecided,
}

/// The key's value, and its version as far as anyone saw it; `None` when it is absent.
type State = Option<(Bytes, Option<Offset>)>;

struct Key;

/// Judges the operations on one key.
pub(crate) fn linear(ops: &[Op]) -> Judgement {
    let timed =
        |op: &Op| Timed { begin: op.asked.0, end: op.ended.map(|at| at.0), call: op.clone() };
    let history: Vec<Timed<Op>> = ops.iter().filter(|op| counts(op)).map(timed).collect();
    match check(&Key, None, &history, STEPS_MAX) {
        Verdict::Linearizable => Judgement::Linear,
        Verdict::Undecided => Judgement::Undecided,
        Verdict::Not { .. } => {
            let short = shortest(&Key, &None, &history, SHORTENING_STEPS_MAX);
            let short = short.map_or(history, |(short, _)| short);
            Judgement::NotLinear(short.into_iter().map(|timed| timed.call).collect())
        }
    }
}

/// Whether an operation says anything of the key's present.
fn counts(op: &Op) -> bool {
    match (&op.kind, &op.seen) {
        (Kind::Peek, _) | (_, Seen::NotDone) | (Kind::Get, Seen::Unknown) => false,
        (Kind::Put { .. } | Kind::Delete { .. } | Kind::Get, _) => true,
    }
}

impl Model for Key {
    type State = State;
    type Call = Op;

    fn after(&self, state: &State, op: &Op) -> Option<State> {
        let (condition, value) = match &op.kind {
            Kind::Put { condition, value } => (*condition, Some(value)),
            Kind::Delete { condition } => (*condition, None),
            Kind::Get | Kind::Peek => (Condition::Always, None),
        };
        let holds = holds(condition, state);
        match &op.seen {
            Seen::Found { found: None, .. } => state.is_none().then(|| state.clone()),
            Seen::Found { found: Some((value, version)), .. } => {
                let held = state.as_ref().is_some_and(|(held, _)| held == value);
                pin(state, Some(*version)).filter(|_| held)
            }
            Seen::Written { version } => {
                (holds != Some(false)).then(|| Some((value?.clone(), Some(*version))))
            }
            Seen::Deleted { .. } => (state.is_some() && holds != Some(false)).then_some(None),
            Seen::Absent => (state.is_none() && holds == Some(true)).then_some(None),
            Seen::Failed { current } => {
                pin(state, *current).filter(|state| self::holds(condition, state) == Some(false))
            }
            Seen::Unknown => {
                (holds != Some(false)).then(|| value.map(|value| (value.clone(), None)))
            }
            Seen::NotDone => None,
        }
    }

    /// In the order of the log, as far as it is known.
    fn rank(&self, op: &Op) -> u64 {
        match &op.seen {
            Seen::Written { version } | Seen::Deleted { at: version } => version.0,
            Seen::Unknown | Seen::NotDone => u64::MAX,
            Seen::Absent | Seen::Failed { .. } | Seen::Found { .. } => 0,
        }
    }

    fn only_looks(&self, op: &Op) -> bool {
        matches!(op.seen, Seen::Absent | Seen::Failed { .. } | Seen::Found { .. })
    }
}

/// The state, if it has or can have this version.
fn pin(state: &State, version: Option<Offset>) -> Option<State> {
    match (state, version) {
        (None, None) => Some(None),
        (Some((value, known)), Some(version)) if known.is_none_or(|known| known == version) => {
            Some(Some((value.clone(), Some(version))))
        }
        (Some(_) | None, Some(_) | None) => None,
    }
}

/// Whether a condition is true of a state; `None` if that depends on a version nobody saw.
fn holds(condition: Condition, state: &State) -> Option<bool> {
    match (condition, state) {
        (Condition::Always, _) => Some(true),
        (Condition::IfAbsent, state) => Some(state.is_none()),
        (Condition::IfPresent, state) => Some(state.is_some()),
        (Condition::IfVersion(_), None) => Some(false),
        (Condition::IfVersion(version), Some((_, Some(known)))) => Some(version == *known),
        (Condition::IfVersion(_), Some((_, None))) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_base::Time;

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

    fn check(ops: &[Op], expect: bool) {
        assert_eq!(linear(ops) == Judgement::Linear, expect, "{ops:#?}");
    }

    #[test]
    fn reads_see_what_was_acknowledged_before_them() {
        check(&[], true);
        check(&[put("a", 0, 1, 5), get(Some(("a", 5)), 2, 3)], true);
        check(&[put("a", 0, 1, 5), get(None, 2, 3)], false);
        check(&[put("a", 0, 9, 5), get(None, 2, 3)], true);
        check(&[put("a", 0, 1, 5), get(Some(("a", 6)), 2, 3)], false);
        let stale = [put("a", 0, 1, 5), put("b", 2, 3, 6), get(Some(("a", 5)), 4, 5)];
        check(&stale, false);
    }

    #[test]
    fn two_reads_agree_on_the_order_of_two_writes_under_way() {
        let ops = |first, second| {
            [put("a", 0, 10, 5), put("b", 0, 10, 6), get(first, 1, 2), get(second, 3, 4)]
        };
        check(&ops(Some(("a", 5)), Some(("b", 6))), true);
        let back = [
            put("a", 0, 10, 5),
            put("b", 0, 10, 6),
            get(Some(("a", 5)), 1, 2),
            get(Some(("b", 6)), 3, 4),
            get(Some(("a", 5)), 5, 6),
        ];
        check(&back, false);
    }

    #[test]
    fn an_unknown_write_may_happen_late_or_never_but_not_before_its_question() {
        check(&[lost("a", 0), get(None, 5, 6)], true);
        check(&[lost("a", 0), get(None, 5, 6), get(Some(("a", 9)), 7, 8)], true);
        check(&[lost("a", 0), get(Some(("a", 9)), 1, 2), get(None, 3, 4)], false);
        check(&[get(Some(("a", 9)), 1, 2), lost("a", 3)], false);
    }

    #[test]
    fn failed_conditions_speak_of_the_state() {
        let failed = |condition, current: Option<u64>, asked| {
            let seen = Seen::Failed { current: current.map(Offset) };
            op(put_kind("x", condition), asked, Some(asked + 1), seen)
        };
        let at = |version| Condition::IfVersion(Offset(version));
        check(&[put("a", 0, 1, 5), failed(Condition::IfAbsent, Some(5), 2)], true);
        check(&[put("a", 0, 1, 5), failed(Condition::IfAbsent, None, 2)], false);
        check(&[put("a", 0, 1, 5), failed(at(5), Some(5), 2)], false);
        check(&[put("a", 0, 1, 5), failed(at(4), Some(5), 2)], true);
        check(&[lost("a", 0), failed(Condition::IfAbsent, Some(7), 2)], true);
        let twice = [
            lost("a", 0),
            failed(Condition::IfAbsent, Some(7), 2),
            failed(Condition::IfAbsent, Some(8), 4),
        ];
        check(&twice, false);
    }
}
