//! Kafka's `kafka-metadata-quorum` asks our nodes, as operators do first of all.

use crate::java::Kafka;
use crate::scenario::{Failure, PATIENCE, Stage, ensure};
use quorate_node::status::Status;
use quorate_processes::Cluster;
use quorate_processes::http::Client;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

const TOOL: &str = "org.apache.kafka.tools.MetadataQuorumCommand";

fn running(stage: &Stage, directory: &Path) -> Result<(Cluster, u32), Failure> {
    let mut cluster = Cluster::format(&stage.binary, directory, 3, &[])?;
    cluster.start_all()?;
    let leader = cluster.wait_until_level(PATIENCE)?;
    Ok((cluster, leader))
}

/// Where a node does not lead, the tool has to find the leader by what that node says.
fn ask(kafka: &Kafka, cluster: &Cluster, through: u32, what: &str) -> Result<String, Failure> {
    let at = cluster.node(through).raft.to_string();
    kafka.run(TOOL, &["--bootstrap-controller", &at, "describe", what])
}

fn said_by(cluster: &Cluster, id: u32) -> Result<Status, Failure> {
    cluster.node(id).status().ok_or_else(|| Failure(format!("node {id} does not say what it is")))
}

/// Through every node.
pub fn status(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    let (cluster, leader) = running(stage, directory)?;
    for through in 1..=3 {
        let printed = ask(&stage.kafka, &cluster, through, "--status")?;
        judge_status(&printed, &cluster, leader)?;
        let printed = ask(&stage.kafka, &cluster, through, "--replication")?;
        judge_level(&printed, &cluster, leader)?;
    }
    Ok(())
}

/// The tool of Kafka 3.9 asks in the versions of its time.
pub fn older_status(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    let (cluster, leader) = running(stage, directory)?;
    let printed = ask(&stage.older, &cluster, leader % 3 + 1, "--status")?;
    judge_status(&printed, &cluster, leader)?;
    let printed = ask(&stage.older, &cluster, leader % 3 + 1, "--replication")?;
    judge_level(&printed, &cluster, leader)
}

fn judge_status(printed: &str, cluster: &Cluster, leader: u32) -> Result<(), Failure> {
    let value = |name: &str| {
        let line = printed.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim).ok_or_else(|| Failure(format!("no {name} in:\n{printed}")))
    };
    let own = said_by(cluster, leader)?;
    for (name, expected) in [
        ("ClusterId:", own.cluster.clone()),
        ("LeaderId:", leader.to_string()),
        ("LeaderEpoch:", own.epoch.to_string()),
        ("HighWatermark:", own.high_watermark.unwrap_or_default().to_string()),
        ("MaxFollowerLag:", "0".into()),
        ("CurrentObservers:", "[]".into()),
    ] {
        let found = value(name)?;
        ensure(found == expected, || {
            format!("{name} expected {expected}, the tool prints {found}")
        })?;
    }
    let voters = value("CurrentVoters:")?;
    for node in cluster.nodes() {
        let endpoint = format!("CONTROLLER://{}", node.raft);
        ensure(voters.contains(&endpoint), || format!("{endpoint} is missing in {voters}"))?;
    }
    Ok(())
}

/// A row of `describe --replication`.
struct Row {
    node: u32,
    end: u64,
    lag: u64,
    fetched_ms: i64,
    caught_up_ms: i64,
    status: String,
}

fn rows(printed: &str) -> Vec<Row> {
    let row = |line: &str| {
        let columns: Vec<&str> = line.split('\t').map(str::trim).collect();
        Some(Row {
            node: columns.first()?.parse().ok()?,
            end: columns.get(2)?.parse().ok()?,
            lag: columns.get(3)?.parse().ok()?,
            fetched_ms: columns.get(4)?.parse().ok()?,
            caught_up_ms: columns.get(5)?.parse().ok()?,
            status: (*columns.get(6)?).to_owned(),
        })
    };
    printed.lines().filter_map(row).collect()
}

/// Of a quorum at rest: one leader, two followers, nobody lags.
fn judge_level(printed: &str, cluster: &Cluster, leader: u32) -> Result<(), Failure> {
    let end = said_by(cluster, leader)?.log_end;
    let rows = rows(printed);
    ensure(rows.len() == 3, || format!("three rows expected:\n{printed}"))?;
    for row in rows {
        let status = if row.node == leader { "Leader" } else { "Follower" };
        let level = row.status == status && row.lag == 0 && row.end == end;
        ensure(level, || format!("node {} is {status} and has all:\n{printed}", row.node))?;
    }
    Ok(())
}

fn wall_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

pub fn lag(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    let (mut cluster, leader) = running(stage, directory)?;
    let (lost, kept) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    let end_before = said_by(&cluster, leader)?.log_end;
    cluster.kill(lost);
    let killed_ms = wall_ms();
    let mut client = Client::new(cluster.node(leader).http, PATIENCE);
    for key in 0..50 {
        let answer = client.ask("PUT", &format!("/v1/kv/key-{key}"), &[], b"value");
        let status =
            answer.map(|answer| answer.status).map_err(|silence| Failure(silence.to_string()))?;
        ensure(status < 300, || format!("a write was answered with {status}"))?;
    }
    let printed = ask(&stage.kafka, &cluster, kept, "--replication")?;
    let (asked_ms, end) = (wall_ms(), said_by(&cluster, leader)?.log_end);
    let rows = rows(&printed);
    let row = |id: u32| {
        let row = rows.iter().find(|row| row.node == id);
        row.ok_or_else(|| Failure(format!("no row for node {id} in:\n{printed}")))
    };
    let check = |fact: bool, what: &str| ensure(fact, || format!("{what}:\n{printed}"));

    let first = row(leader)?;
    check(first.status == "Leader" && first.lag == 0 && first.end == end, "the leader has all")?;
    let behind = row(lost)?;
    check(behind.status == "Follower", "the killed node is a follower still")?;
    check(behind.end == end_before, "the killed node ends where it was killed")?;
    check(behind.lag == end - end_before && behind.lag >= 50, "its lag is what it lacks")?;
    check(behind.fetched_ms <= killed_ms, "it has not fetched since it was killed")?;
    check(
        behind.caught_up_ms <= behind.fetched_ms,
        "it cannot have caught up later than it fetched",
    )?;
    let level = row(kept)?;
    check(level.lag == 0 && level.end == end, "the other follower has all")?;
    check(killed_ms < level.fetched_ms && level.fetched_ms <= asked_ms, "it fetched since")
}
