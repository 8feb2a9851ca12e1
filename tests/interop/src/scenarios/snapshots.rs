//! Kafka's `DumpLogSegments` reads the snapshots that running nodes of ours made, and
//! `quorate snapshot dump` says the same of each line; then both read Kafka's own.
//!
//! What the store's snapshots hold is held against what its clients were told, so a dump that is
//! well formed and wrong fails too.

use super::directories::quorate;
use super::nodes::Quorum;
use crate::scenario::{Failure, PATIENCE, Stage, ensure};
use quorate_processes::http::Client;
use quorate_processes::{Cluster, poll};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const DUMP: &str = "org.apache.kafka.tools.DumpLogSegments";
/// Snapshots of controllers of Kafka's, recorded for the tests of the log.
pub const FIXTURES: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/log/tests/fixtures/kafka-4.3.1/dynamic");
/// Snapshots come often, and the log is cut behind them as soon as there are two.
pub const OFTEN: &[&str] = &[
    "quorate.cleanup.policy=delete",
    "metadata.log.max.record.bytes.between.snapshots=50000",
    "metadata.max.retention.bytes=0",
];
const KEYS: u64 = 40;
const ROUNDS: u64 = 60;

/// What clients were told of a key: versions, each with its value, or without if deleted.
type Told = BTreeMap<String, BTreeMap<u64, Option<String>>>;

/// Snapshots of the key-value store, as the binary's nodes make them: sessions, offsets in headers.
pub fn store(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    let mut cluster = Cluster::format(&stage.binary, directory, 3, OFTEN)?;
    cluster.start_all()?;
    cluster.wait_until_level(PATIENCE)?;
    let mut told = Told::new();
    for round in 0..ROUNDS {
        for key in 0..KEYS {
            let text = format!("key-{key}");
            // Never the same keys, and through every node: forwarded writes have sessions.
            let value = (key % 7 != round % 7).then(|| format!("value {round} {}", "v".repeat(50)));
            let version = write(&cluster, round + key, &text, value.as_deref())?;
            if let Some(version) = version {
                told.entry(text).or_default().insert(version, value);
            }
        }
    }
    cluster.wait_until_level(PATIENCE)?;
    let folder = |id: u32| directory.join(format!("node-{id}/data/__cluster_metadata-0"));
    for id in 1..=3 {
        poll("a trimmed log", PATIENCE, || {
            cluster.node(id).status().filter(|status| status.log_start > 0)
        })?;
    }
    for id in 1..=3 {
        cluster.kill(id);
    }
    for id in 1..=3 {
        let snapshots = snapshots(&folder(id))?;
        ensure(!snapshots.is_empty(), || format!("node {id} has no snapshot"))?;
        for file in snapshots {
            let printed = agreed(stage, &file, Shown::Text)?;
            let end = end_offset(&file)?;
            holds(&printed, &told, end)
                .map_err(|Failure(why)| Failure(format!("{}: {why}", file.display())))?;
        }
    }
    Ok(())
}

/// Snapshots that Kafka's raft could load: no keys, no headers.
pub fn values(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    let mut quorum = Quorum::format(stage, directory, OFTEN)?;
    let (leader, _) = quorum.start_two()?;
    quorum.write_until_trimmed(leader)?;
    quorum.stop(1)?;
    quorum.stop(2)?;
    for id in [1, 2] {
        let snapshots = snapshots(&quorum.partition(id)?)?;
        ensure(!snapshots.is_empty(), || format!("node {id} has no snapshot"))?;
        for file in snapshots {
            let printed = agreed(stage, &file, Shown::Bytes)?;
            let records = || printed.lines().filter(|line| line.contains(" payload: "));
            let plain = |line: &str| line.contains(" keySize: -1 ") && line.contains("Keys: [] ");
            ensure(records().count() > 100 && records().all(plain), || {
                format!("{} is not for Kafka's nodes:\n{printed}", file.display())
            })?;
        }
    }
    Ok(())
}

/// Both dump tools on every snapshot that Kafka's controllers left.
pub fn fixtures(stage: &Stage, _: &Path) -> Result<(), Failure> {
    let mut all = Vec::new();
    for node in std::fs::read_dir(FIXTURES)? {
        let folder = node?.path().join("__cluster_metadata-0");
        all.extend(snapshots(&folder).unwrap_or_default());
    }
    ensure(all.len() >= 4, || format!("{} snapshots in {FIXTURES}", all.len()))?;
    for file in all {
        agreed(stage, &file, Shown::Metadata)?;
        let shown = quorate(stage, &["snapshot", "tree", &file.display().to_string()])?;
        // The one at 0 has voters and no state.
        let state = end_offset(&file)? == 0 || shown.contains("\n  metadata.version  30\n");
        ensure(shown.contains("end offset:") && state, || format!("tree says:\n{shown}"))?;
    }
    Ok(())
}

/// The whole snapshots of a partition, the oldest first; the one at 0 counts too.
pub fn snapshots(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        found.push(entry?.path());
    }
    found.retain(|path| path.extension().is_some_and(|extension| extension == "checkpoint"));
    found.sort();
    Ok(found)
}

/// The offset in a snapshot's name.
fn end_offset(file: &Path) -> Result<u64, Failure> {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let offset = name.split('-').next().and_then(|digits| digits.parse().ok());
    offset.ok_or_else(|| Failure(format!("{} is no name of a snapshot", file.display())))
}

/// How both tools are to show records.
#[derive(Clone, Copy)]
pub enum Shown {
    /// As metadata records, every character compared.
    Metadata,
    /// As bytes, all of which are text.
    Bytes,
    /// As bytes. What is no text ours prints as a number after `0x`, Kafka's as it is, line feeds
    /// too: there the lines are compared up to the key or value.
    Text,
}

/// What Kafka's tool prints of a snapshot that it finds whole, if ours says the same.
pub fn agreed(stage: &Stage, file: &Path, shown: Shown) -> Result<String, Failure> {
    let path = file.display().to_string();
    let (how, decoder, hex) = match shown {
        Shown::Metadata => ("--cluster-metadata-decoder", "auto", None),
        Shown::Bytes => ("--print-data-log", "bytes", None),
        Shown::Text => ("--print-data-log", "bytes", Some("0x")),
    };
    let theirs = stage.kafka.run(DUMP, &["--files", &path, how])?;
    let ours = quorate(stage, &["snapshot", "dump", &path, "--decoder", decoder])?;
    let fact = |line: &&str| line.starts_with("baseOffset: ") || line.starts_with("| offset: ");
    let kafkas: Vec<String> = theirs.lines().filter(fact).map(without_horizon).collect();
    let own: Vec<&str> = ours.lines().filter(fact).collect();
    ensure(kafkas.len() == own.len(), || {
        format!("{path}: {} lines of Kafka's, {} of ours", kafkas.len(), own.len())
    })?;
    for (kafkas, own) in kafkas.iter().zip(&own) {
        let cut = |hex| [" key: ", " payload: "].map(|field| own.find(&format!("{field}{hex}")));
        let same = match hex.and_then(|hex| cut(hex).into_iter().flatten().min()) {
            Some(cut) => kafkas.get(..cut) == own.get(..cut),
            None => kafkas == own,
        };
        ensure(same, || format!("{path}\nours:    {own}\nKafka's: {kafkas}"))?;
    }
    let batches = || kafkas.iter().filter(|line| line.starts_with("baseOffset: "));
    ensure(batches().all(|line| line.ends_with("isvalid: true")), || {
        format!("{path} has a batch that is not valid:\n{theirs}")
    })?;
    let named = theirs.lines().find_map(|line| line.strip_prefix("Snapshot end offset: "));
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    ensure(named.is_some_and(|id| padded(id) == name), || format!("{name} is called {named:?}"))?;
    let control = |word: &str| kafkas.iter().filter(|line| line.contains(word)).count() == 1;
    ensure(control(" SnapshotHeader {") && control(" SnapshotFooter {"), || {
        format!("{path} has no header and footer:\n{theirs}")
    })?;
    Ok(theirs)
}

fn without_horizon(line: &str) -> String {
    line.replace(" deleteHorizonMs: OptionalLong.empty", "")
}

/// `12, epoch: 3` as the name of a snapshot.
fn padded(id: &str) -> String {
    let mut numbers = id.split(", epoch: ").map(|number| number.parse().unwrap_or(u64::MAX));
    let mut next = || numbers.next().unwrap_or(u64::MAX);
    format!("{:020}-{:010}.checkpoint", next(), next())
}

/// Every key with the value that was its last below `end`, and no other.
fn holds(printed: &str, told: &Told, end: u64) -> Result<(), Failure> {
    let mut found = BTreeMap::new();
    for line in printed.lines() {
        if let Some((_, record)) = line.split_once(" key: key-")
            && let Some((key, value)) = record.split_once(" payload: ")
        {
            let earlier = found.insert(format!("key-{key}"), value.to_owned());
            ensure(earlier.is_none(), || format!("key-{key} is there twice"))?;
        }
    }
    let mut expected = BTreeMap::new();
    for (key, versions) in told {
        let last = versions.range(..end).next_back();
        if let Some((_, Some(value))) = last {
            expected.insert(key.clone(), value.clone());
        }
    }
    ensure(!expected.is_empty() && found == expected, || {
        format!("at {end} it should hold {expected:?}, Kafka reads {found:?}")
    })
}

/// Writes or deletes through one of the nodes; returns the version, which is the offset, unless
/// there was nothing to delete.
fn write(
    cluster: &Cluster,
    turn: u64,
    key: &str,
    value: Option<&str>,
) -> Result<Option<u64>, Failure> {
    let node = cluster.node(turn as u32 % 3 + 1);
    let (method, body) = match value {
        Some(value) => ("PUT", value),
        None => ("DELETE", ""),
    };
    let path = format!("/v1/kv/{key}");
    let answer = Client::new(node.http, PATIENCE).ask(method, &path, &[], body.as_bytes());
    let answer = answer.map_err(|silence| Failure(format!("{method} {key}: {silence}")))?;
    match answer.status {
        404 => Ok(None),
        200 | 201 => match answer.version().or(answer.json()["deleted_at"].as_u64()) {
            Some(version) => Ok(Some(version)),
            None => Err(Failure(format!("{method} {key} has no version: {answer:?}"))),
        },
        _ => Err(Failure(format!("{method} {key}: {answer:?}"))),
    }
}
