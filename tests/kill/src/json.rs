//! A history as JSON lines, for checkers of others: one call a line, in the form that
//! docs/TESTING.md describes.
//!
//! Leaves out nothing that a verdict rests on, and adds no verdict of ours.

use crate::history::{Ask, Call, Condition, Told};
use serde_json::{Value, json};

/// One line for each call, in this order.
pub fn lines(calls: &[Call]) -> String {
    calls.iter().map(|call| line(call).to_string() + "\n").collect()
}

fn line(call: &Call) -> Value {
    let unknown = call.told == Told::Unknown;
    let mut line = json!({
        "key": call.key,
        "client": call.client,
        "node": call.node,
        "stamped": call.stamped,
        "begin": call.begin,
        "end": (!unknown).then_some(call.end),
    });
    let (ask, value, condition) = match call.ask {
        Ask::Put { value, condition } => ("put", Some(value), condition),
        Ask::Delete { condition } => ("delete", None, condition),
        Ask::Get => ("get", None, Condition::Always),
    };
    line["ask"] = ask.into();
    if let Some(value) = value {
        line["put"] = value.into();
    }
    match condition {
        Condition::Always => {}
        Condition::Absent => line["if"] = "absent".into(),
        Condition::Present => line["if"] = "present".into(),
        Condition::Version(version) => line["if"] = version.into(),
    }
    let (told, numbers) = told(call.told);
    line["told"] = told.into();
    for (name, number) in numbers {
        if let Some(number) = number {
            line[name] = number.into();
        }
    }
    line
}

fn told(told: Told) -> (&'static str, Vec<(&'static str, Option<u64>)>) {
    match told {
        Told::Written { version, previous } => {
            ("written", vec![("version", Some(version)), ("previous", previous)])
        }
        Told::Deleted { at, previous } => {
            ("deleted", vec![("version", Some(at)), ("previous", Some(previous))])
        }
        Told::Absent { state } => ("absent", vec![("state", state)]),
        Told::Found { version, value, state } => {
            let numbers = [("version", version), ("value", value), ("state", state)];
            ("found", numbers.map(|(name, number)| (name, Some(number))).to_vec())
        }
        Told::Refused { current } => ("refused", vec![("current", current)]),
        Told::Unknown => ("unknown", vec![]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_all_that_was_asked_and_told() {
        let call = |ask, told| Call {
            client: 3,
            node: 2,
            key: 7,
            stamped: true,
            begin: 10,
            end: 20,
            ask,
            told,
        };
        let put = |condition| Ask::Put { value: 1 << 40 | 5, condition };
        let delete = Ask::Delete { condition: Condition::Present };
        let refused = Told::Refused { current: None };
        for (call, wanted) in [
            (
                call(put(Condition::Version(8)), Told::Written { version: 9, previous: Some(8) }),
                json!({"end": 20, "ask": "put", "put": 1_u64 << 40 | 5, "if": 8, "told": "written",
                    "version": 9, "previous": 8}),
            ),
            (
                call(put(Condition::Absent), Told::Unknown),
                json!({"end": null, "ask": "put", "put": 1_u64 << 40 | 5, "if": "absent",
                    "told": "unknown"}),
            ),
            (
                call(delete, refused),
                json!({"end": 20, "ask": "delete", "if": "present", "told": "refused"}),
            ),
            (
                call(Ask::Get, Told::Found { version: 9, value: 5, state: 11 }),
                json!({"end": 20, "ask": "get", "told": "found", "version": 9, "value": 5,
                    "state": 11}),
            ),
        ] {
            let mut all = json!({"key": 7, "client": 3, "node": 2, "stamped": true, "begin": 10});
            let fields = wanted.as_object().unwrap().clone();
            all.as_object_mut().unwrap().extend(fields);
            let text = lines(&[call]);
            assert_eq!(serde_json::from_str::<Value>(text.trim_end()).unwrap(), all);
        }
    }
}
