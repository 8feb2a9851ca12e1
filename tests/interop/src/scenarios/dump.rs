//! Kafka's `DumpLogSegments` reads what a quorum of ours wrote while its leaders were killed.

use crate::scenario::{Failure, PATIENCE, Stage, ensure, files_ending};
use quorate_processes::http::Client;
use quorate_processes::{Cluster, poll};
use std::collections::BTreeMap;
use std::path::Path;

const DUMP: &str = "org.apache.kafka.tools.DumpLogSegments";
/// Leaders killed, and keys written before each kill and after the last.
const KILLS: u32 = 4;
const KEYS: u32 = 60;

pub fn after_kills(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    let mut cluster = Cluster::format(&stage.binary, directory, 3, &[])?;
    cluster.start_all()?;
    cluster.wait_until_level(PATIENCE)?;
    let mut written = BTreeMap::new();
    for round in 0..=KILLS {
        for key in 0..KEYS {
            let (key, value) =
                (format!("key-{round}-{key}"), format!("value of {key} in round {round}"));
            written.insert(put(&cluster, &key, &value)?, (key, value));
        }
        if round < KILLS {
            let leader = cluster.wait_for_leader(PATIENCE)?;
            cluster.kill(leader);
            cluster.wait_for_leader(PATIENCE)?;
            cluster.start(leader)?;
        }
    }
    cluster.wait_until_level(PATIENCE)?;
    for id in 1..=3 {
        cluster.kill(id);
    }
    for id in 1..=3 {
        let log =
            directory.join(format!("node-{id}/data/__cluster_metadata-0/00000000000000000000.log"));
        let file = log.display().to_string();
        let printed = stage.kafka.run(DUMP, &["--files", &file, "--print-data-log"])?;
        judge(&printed, &written).map_err(|Failure(why)| Failure(format!("node {id}: {why}")))?;
    }
    Ok(())
}

/// Several segments, closed and open ones: the tool compares every entry of both indexes with the
/// log, and finds none that is wrong or out of order.
pub fn indexes(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    let smallest = "metadata.log.segment.bytes=8388608";
    let mut cluster = Cluster::format(&stage.binary, directory, 3, &[smallest])?;
    cluster.start_all()?;
    cluster.wait_until_level(PATIENCE)?;
    let large = "x".repeat(900_000);
    for key in 0..24 {
        put(&cluster, &format!("large-{key}"), &large)?;
        for small in 0..4 {
            put(&cluster, &format!("small-{key}-{small}"), "a few bytes")?;
        }
    }
    let leader = cluster.wait_until_level(PATIENCE)?;
    for id in 1..=3 {
        cluster.kill(id);
    }
    let folder = directory.join(format!("node-{leader}/data/__cluster_metadata-0"));
    let of = |ending: &str| files_ending(&folder, ending);
    let (logs, offsets, times) = (of(".log")?, of(".index")?, of(".timeindex")?);
    ensure(logs.len() >= 3, || format!("at least three segments expected: {logs:?}"))?;
    ensure(offsets.len() == times.len() && offsets.len() == logs.len(), || {
        format!("a segment lacks an index: {logs:?}, {offsets:?}, {times:?}")
    })?;
    let both = [offsets, times].concat();
    let sane = stage.kafka.run(DUMP, &["--index-sanity-check", "--files", &both.join(",")])?;
    let passed = sane.lines().filter(|line| line.contains("passed sanity check")).count();
    ensure(passed == both.len(), || format!("{passed} of {} pass:\n{sane}", both.len()))?;
    let verified = stage.kafka.run(DUMP, &["--verify-index-only", "--files", &both.join(",")])?;
    let complaint = verified.lines().find(|line| !line.starts_with("Dumping "));
    ensure(complaint.is_none(), || format!("the tool objects:\n{verified}"))?;
    // It says nothing when all is well, so let it show what it looked at.
    let shown = stage.kafka.run(DUMP, &["--files", &both.join(",")])?;
    let entries = shown.lines().filter(|line| line.contains("offset: ")).count();
    ensure(entries >= 2 * 24, || format!("{entries} entries:\n{shown}"))
}

/// Writes through any node until it is acknowledged; returns the version, which is the offset.
fn put(cluster: &Cluster, key: &str, value: &str) -> Result<u64, Failure> {
    let mut turn = 0;
    let version = poll("a write to be acknowledged", PATIENCE, || {
        turn += 1;
        let node = cluster.node(turn % 3 + 1);
        let path = format!("/v1/kv/{key}");
        let answer = Client::new(node.http, PATIENCE).ask("PUT", &path, &[], value.as_bytes());
        answer.ok().filter(|answer| answer.status < 300)?.version()
    })?;
    Ok(version)
}

/// Every batch valid, no offset missing, every acknowledged record where we said it is.
fn judge(printed: &str, written: &BTreeMap<u64, (String, String)>) -> Result<(), Failure> {
    let mut found = BTreeMap::new();
    let mut end = 0;
    for line in printed.lines() {
        if let Some(base) = field(line, "baseOffset: ") {
            ensure(line.contains("isvalid: true"), || format!("a batch is not valid: {line}"))?;
            ensure(base == end, || format!("offset {end} is missing: {line}"))?;
            end = field(line, "lastOffset: ").unwrap_or(base) + 1;
        } else if let Some(offset) = field(line, "| offset: ")
            && let Some((_, record)) = line.split_once(" key: ")
            && let Some((key, value)) = record.split_once(" payload: ")
        {
            found.insert(offset, (key.to_owned(), value.to_owned()));
        }
    }
    for (version, record) in written {
        let there = found.get(version);
        ensure(there == Some(record), || {
            format!("offset {version} should hold {record:?}, Kafka reads {there:?}")
        })?;
    }
    ensure(!written.is_empty(), || "nothing was written".into())
}

fn field(line: &str, name: &str) -> Option<u64> {
    let (_, rest) = line.split_once(name)?;
    rest.split(' ').next()?.parse().ok()
}
