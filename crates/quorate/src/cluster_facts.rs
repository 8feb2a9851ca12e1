//! The facts of a Kafka cluster as JSON: what `quorate snapshot tree`, `quorate observe` and the
//! path `/v1/metadata` show, in one form. Secrets are not shown.
//!
//! docs/OUTPUT.md promises this form; whoever changes it here changes it there.

use quorate_machine::kafka::{Leaf, Part};
use serde_json::{Value, json};

/// One fact.
pub fn fact(leaf: &Leaf) -> Value {
    let value = if leaf.secret { Value::Null } else { value(leaf) };
    json!({ "type": "fact", "path": path(&leaf.path), "value": value, "hidden": leaf.secret })
}

/// A level that is not looked into, and how many facts lie at and below it.
pub fn level(parts: &[Part], facts: u64) -> Value {
    json!({ "type": "level", "path": path(parts), "facts": facts })
}

/// Names as strings, numbers of nodes and partitions as numbers.
pub fn path(parts: &[Part]) -> Value {
    let part = |part: &Part| match part {
        Part::Name(name) => Value::String(name.to_string()),
        Part::Number(number) => Value::Number((*number).into()),
    };
    parts.iter().map(part).collect()
}

/// What a fact says, be it secret or not.
pub fn value(leaf: &Leaf) -> Value {
    serde_json::from_str(&leaf.value).unwrap_or_else(|_| Value::String(leaf.value.clone()))
}
