//! What must be true of a whole run, whatever was killed when.
//!
//! Four judges: each key's history is linearizable; the last acknowledged write of each key is
//! still there; one version stands for one value; and a read shows exactly the state whose number
//! it names, local reads of lagging nodes included. Each failure shows the calls that prove it.

use crate::history::{Ask, Call, Told};
use crate::register::{Register, State};
use quorate_sim::linear::{Timed, Verdict, check, shortest};
use std::collections::BTreeMap;

/// Steps after which a search is given up: a few seconds.
const STEPS: u64 = 3_000_000;
/// The same for one attempt at a shorter history.
const SHORTENING_STEPS: u64 = 200_000;
/// Calls shown of a history that cannot be explained.
const SHOWN: usize = 40;

/// Judges everything; each string is one failure in words. `local` are reads of one node's own
/// state, which may be old.
pub fn judge(calls: &[Call], local: &[Call]) -> Vec<String> {
    let mut keys: BTreeMap<u32, (Vec<&Call>, Vec<&Call>)> = BTreeMap::new();
    for call in calls {
        keys.entry(call.key).or_default().0.push(call);
    }
    for call in local {
        keys.entry(call.key).or_default().1.push(call);
    }
    let judged = keys.iter().flat_map(|(key, (calls, local))| {
        let all: Vec<&Call> = calls.iter().chain(local).copied().collect();
        [linearizable(*key, calls), kept(*key, calls), one_value(*key, &all), states(*key, &all)]
    });
    judged.flatten().collect()
}

/// Whether one order of these calls of one key explains all answers.
pub fn order(calls: &[&Call]) -> Verdict<State> {
    let register = Register::new(calls.iter().copied());
    let history: Vec<Timed<Call>> = calls.iter().map(|call| timed(call)).collect();
    check(&register, State::default(), &history, STEPS)
}

fn linearizable(key: u32, calls: &[&Call]) -> Option<String> {
    let why = match order(calls) {
        Verdict::Linearizable => return None,
        Verdict::Undecided => {
            return Some(format!("key {key}: undecided whether it is linearizable"));
        }
        Verdict::Not { .. } => format!("key {key}: no order of its calls explains the answers"),
    };
    let register = Register::new(calls.iter().copied());
    let history: Vec<Timed<Call>> = calls.iter().map(|call| timed(call)).collect();
    let short = shortest(&register, &State::default(), &history, SHORTENING_STEPS);
    let Some((mut short, stuck)) = short else { return Some(why) };
    short.sort_by_key(|timed| timed.call.end);
    let hidden = short.len().saturating_sub(SHOWN);
    let shown: Vec<String> =
        short[hidden..].iter().map(|timed| format!("  {}", timed.call)).collect();
    Some(format!(
        "{why}; the shortest part that cannot be explained ({hidden} earlier calls not shown), stuck at \
         {stuck:?}:\n{}",
        shown.join("\n")
    ))
}

fn timed(call: &Call) -> Timed<Call> {
    let end = (call.told != Told::Unknown).then_some(call.end);
    Timed { begin: call.begin, end, call: call.clone() }
}

/// The offset at which a call is known to have changed the key.
fn changed_at(call: &Call) -> Option<u64> {
    match call.told {
        Told::Written { version, .. } => Some(version),
        Told::Deleted { at, .. } => Some(at),
        Told::Absent { .. } | Told::Found { .. } | Told::Refused { .. } | Told::Unknown => None,
    }
}

/// The last acknowledged write, or a later one, is what the last reads see. Linearizability says so
/// too; this says it without a search.
fn kept(key: u32, calls: &[&Call]) -> Option<String> {
    let newest = calls.iter().filter(|call| changed_at(call).is_some());
    let newest = newest.max_by_key(|call| changed_at(call))?;
    let unknown_delete = calls
        .iter()
        .any(|call| matches!((call.ask, call.told), (Ask::Delete { .. }, Told::Unknown)));
    let later = calls.iter().filter(|call| call.ask == Ask::Get && call.begin > newest.end);
    let lost = |read: &&&Call| match (read.told, newest.told) {
        (Told::Found { version, .. }, _) => Some(version) < changed_at(newest),
        (Told::Absent { .. }, Told::Written { .. }) => !unknown_delete,
        (_, _) => false,
    };
    let read = later.into_iter().find(lost)?;
    Some(format!("key {key}: an acknowledged write is lost:\n  {newest}\n  {read}"))
}

/// A version and its value, where a call tells both.
pub fn value_told(call: &Call) -> Option<(u64, u64)> {
    match (call.ask, call.told) {
        (Ask::Put { value, .. }, Told::Written { version, .. })
        | (Ask::Get, Told::Found { version, value, .. }) => Some((version, value)),
        (Ask::Get | Ask::Put { .. } | Ask::Delete { .. }, _) => None,
    }
}

fn one_value(key: u32, calls: &[&Call]) -> Option<String> {
    let mut values: BTreeMap<u64, (u64, &Call)> = BTreeMap::new();
    for call in calls {
        let Some((version, value)) = value_told(call) else { continue };
        let (known, first) = *values.entry(version).or_insert((value, call));
        if known != value {
            return Some(format!(
                "key {key}: version {version} has two values:\n  {first}\n  {call}"
            ));
        }
    }
    None
}

/// A state holds the offsets below its number: a read of it shows the newest write below, no other.
fn states(key: u32, calls: &[&Call]) -> Option<String> {
    let unknown = calls.iter().any(|call| call.told == Told::Unknown && call.ask != Ask::Get);
    let changes: BTreeMap<u64, &Call> =
        calls.iter().filter_map(|call| Some((changed_at(call)?, *call))).collect();
    for read in calls {
        let (state, version) = match read.told {
            Told::Found { version, state, .. } => (state, Some(version)),
            Told::Absent { state: Some(state) } => (state, None),
            Told::Absent { state: None }
            | Told::Written { .. }
            | Told::Deleted { .. }
            | Told::Refused { .. }
            | Told::Unknown => continue,
        };
        let newest = changes.range(..state).next_back();
        let wrong = match (newest, version) {
            (_, Some(version)) if version >= state => true,
            (Some((at, _)), Some(version)) => version < *at,
            (None, Some(_)) => !unknown,
            (Some((_, change)), None) => matches!(change.told, Told::Written { .. }) && !unknown,
            (None, None) => false,
        };
        if wrong {
            let newest =
                newest.map_or("nothing is known below".into(), |(_, call)| call.to_string());
            return Some(format!(
                "key {key}: a read does not show the state that it names:\n  {newest}\n  {read}"
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Condition;

    fn call(begin: u64, ask: Ask, told: Told) -> Call {
        Call { client: 1, node: 2, key: 0, stamped: false, begin, end: begin + 1, ask, told }
    }

    fn put(begin: u64, value: u64, version: u64, previous: Option<u64>) -> Call {
        call(
            begin,
            Ask::Put { value, condition: Condition::Always },
            Told::Written { version, previous },
        )
    }

    #[test]
    fn a_clean_run_has_no_failures_and_old_local_reads_are_none() {
        let read = call(5, Ask::Get, Told::Found { version: 4, value: 8, state: 6 });
        let old = call(7, Ask::Get, Told::Found { version: 2, value: 7, state: 4 });
        assert_eq!(
            judge(&[put(1, 7, 2, None), put(3, 8, 4, Some(2)), read], &[old]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn each_judge_finds_its_own() {
        let lost = call(5, Ask::Get, Told::Absent { state: Some(9) });
        let failures = judge(&[put(1, 7, 2, None), lost], &[]);
        let found = |words: &str| failures.iter().any(|failure| failure.contains(words));
        assert!(found("no order") && found("is lost") && found("does not show"), "{failures:?}");

        let mixed = call(5, Ask::Get, Told::Found { version: 2, value: 7, state: 6 });
        let failures = judge(&[put(1, 7, 2, None), put(3, 8, 4, Some(2))], &[mixed]);
        assert!(failures[0].contains("does not show the state"), "{failures:?}");

        let other = call(5, Ask::Get, Told::Found { version: 2, value: 8, state: 3 });
        let failures = judge(&[put(1, 7, 2, None)], &[other]);
        assert!(failures[0].contains("two values"), "{failures:?}");
    }
}
