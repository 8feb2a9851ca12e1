//! `/status`, field by field, is what docs/OPERATING.md says of it.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

use quorate::status::{
    DownloadStatus, PlaceInLog, ReplicaStatus, RoleChange, SnapshotStatus, Status, VoterStatus,
};
use quorate_node::metrics::Latency;
use serde_json::Value;
use std::collections::BTreeSet;

/// One with everything that there can be; a new field has to be written here as well.
fn full() -> Status {
    let id = PlaceInLog { offset: 1, epoch: 1 };
    Status {
        cluster: String::new(),
        node: Some(1),
        directory: String::new(),
        role: String::new(),
        epoch: 1,
        leader: Some(1),
        high_watermark: Some(1),
        log_start: 0,
        log_end: 0,
        durable: 0,
        applied: 0,
        digest: String::new(),
        ready: true,
        not_ready_because: Some(String::new()),
        must_reach: Some(id),
        damaged: Some(String::new()),
        newest_snapshot: Some(SnapshotStatus { id, bytes: 1, age_ms: 1 }),
        snapshots: 1,
        download: Some(DownloadStatus { id, bytes: 1, total_bytes: Some(1), begun_anew: 0 }),
        copied_by: vec![1],
        disk_full: Some(String::new()),
        too_many_full: Some(String::new()),
        format_level: Some(1),
        newest_format_level: 1,
        voters: vec![VoterStatus { node: 1, endpoint: String::new() }],
        replicas: vec![ReplicaStatus {
            node: 1,
            directory: Some(String::new()),
            status: String::new(),
            log_end: Some(1),
            lag: Some(1),
            last_fetch_ms: Some(1),
            last_caught_up_ms: Some(1),
            newest_format_level: Some(1),
        }],
        changes: vec![RoleChange { at_ms: 1, role: String::new(), epoch: 1, leader: Some(1) }],
        latencies: vec![Latency {
            stage: String::new(),
            count: 1,
            p50_us: 1,
            p99_us: 1,
            p999_us: 1,
            max_us: 1,
        }],
        uptime_ms: 1,
    }
}

/// The names of all fields within a value, however deep.
fn inner(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            names.insert(name.clone());
            inner(value, names);
        }),
        Value::Array(values) => values.iter().for_each(|value| inner(value, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn words(text: &str) -> BTreeSet<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn every_field_is_explained_and_nothing_else() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/OPERATING.md");
    let page = std::fs::read_to_string(page).unwrap();
    let table = page.split("| in `/status` | what it means |").nth(1).unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with("| "));
    let rows: Vec<(BTreeSet<String>, BTreeSet<String>)> = rows
        .map(|row| {
            let (names, meaning) = row[2..].split_once(" | ").unwrap();
            (words(names), words(meaning))
        })
        .collect();
    let Value::Object(status) = serde_json::to_value(full()).unwrap() else { panic!("no object") };
    let explained: Vec<&String> = rows.iter().flat_map(|(names, _)| names).collect();
    let once: BTreeSet<&String> = explained.iter().copied().collect();
    assert_eq!(once.len(), explained.len(), "no field is explained twice: {explained:?}");
    assert_eq!(once, status.keys().collect(), "what the page explains, and what there is");
    for (name, value) in &status {
        let mut fields = BTreeSet::new();
        inner(value, &mut fields);
        let (_, meaning) = rows.iter().find(|(names, _)| names.contains(name)).unwrap();
        let missing: Vec<&String> = fields.difference(meaning).collect();
        assert!(missing.is_empty(), "{name}: {missing:?} are not explained");
    }
}
