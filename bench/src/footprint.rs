//! Idle memory, and how long a node and a quorum take to start.

use crate::report::{Summary, summary};
use crate::{Bench, Failure, START_PATIENCE, bar};
use quorate_processes::http::Client;
use quorate_processes::{Cluster, Node, poll};
use serde::Serialize;
use std::time::{Duration, Instant};

const REPEATS: u64 = 10;
const IDLE: Duration = Duration::from_secs(3);
const ASK_PATIENCE: Duration = Duration::from_millis(2_000);

/// What was measured. Times are in milliseconds.
#[derive(Serialize)]
pub struct Footprint {
    /// Resident memory of each node, empty and idle for some seconds, in MB.
    pub idle_mb: Vec<f64>,
    /// From starting the process of a follower of a live quorum to `/readyz` saying so.
    pub join_ms: Summary,
    /// From starting three processes, killed before, to the first acknowledged write.
    pub cold_ms: Summary,
    /// How often each start was measured.
    pub repeats: u64,
}

/// Measures on a cluster with next to nothing in its log.
pub fn measure(bench: &Bench) -> Result<Footprint, Failure> {
    let repeats = if bench.quick { 3 } else { REPEATS };
    let bar = bar("footprint", 1 + 2 * repeats);
    let mut cluster = bench.cluster("footprint")?;
    std::thread::sleep(IDLE);
    let idle_mb = cluster.nodes().iter().map(resident_mb).collect::<Result<Vec<f64>, Failure>>()?;
    bar.inc(1);
    let mut join = Vec::new();
    for _ in 0..repeats {
        let leader = cluster.wait_until_level(START_PATIENCE)?;
        let follower = 1 + leader % 3;
        cluster.kill(follower);
        let begin = Instant::now();
        cluster.start(follower)?;
        poll("a started node to be ready", START_PATIENCE, || ready(cluster.node(follower)))?;
        join.push(begin.elapsed().as_secs_f64() * 1e3);
        bar.inc(1);
    }
    let mut cold = Vec::new();
    for _ in 0..repeats {
        cluster.wait_until_level(START_PATIENCE)?;
        for id in 1..=3 {
            cluster.kill(id);
        }
        let begin = Instant::now();
        cluster.start_all()?;
        poll("a first write", START_PATIENCE, || write(&cluster))?;
        cold.push(begin.elapsed().as_secs_f64() * 1e3);
        bar.inc(1);
    }
    bench.discard(cluster)?;
    bar.finish_and_clear();
    Ok(Footprint { idle_mb, join_ms: summary(join), cold_ms: summary(cold), repeats })
}

fn ready(node: &Node) -> Option<()> {
    let answer = Client::new(node.http, ASK_PATIENCE).ask("GET", "/readyz", &[], b"").ok()?;
    (answer.status == 200).then_some(())
}

fn write(cluster: &Cluster) -> Option<()> {
    cluster.nodes().iter().find_map(|node| {
        let mut client = Client::new(node.http, ASK_PATIENCE);
        let answer = client.ask("PUT", "/v1/kv/first?timeout=2000", &[], b"write").ok()?;
        matches!(answer.status, 200 | 201).then_some(())
    })
}

/// `VmRSS` as the system counts it.
fn resident_mb(node: &Node) -> Result<f64, Failure> {
    memory_mb(node, "VmRSS:")
}

/// The most that it ever was, since the node's process started.
pub fn most_mb(node: &Node) -> Result<f64, Failure> {
    memory_mb(node, "VmHWM:")
}

fn memory_mb(node: &Node, name: &str) -> Result<f64, Failure> {
    let pid = node.pid().ok_or("the node does not run")?;
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kb: f64 = line.and_then(|line| line.split_whitespace().next()).unwrap_or("").parse()?;
    Ok(kb / 1024.0)
}
