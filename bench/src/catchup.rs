//! A follower that was away comes back when the leader's log begins beyond all it has: it copies a
//! snapshot of a gigabyte while the leader goes on taking writes at a fixed rate.
//!
//! What is told: how fast the snapshot came, how long until the follower was level, and how long
//! commits took meanwhile against before and after.

use crate::driver::{Connection, Driver, Request};
use crate::footprint::most_mb;
use crate::forward::Forward;
use crate::paced::{self, Latency, Paced};
use crate::report::{Summary, summary};
use crate::{Bench, Failure, START_PATIENCE, bar};
use quorate_base::Rng;
use quorate_node::status::Status;
use quorate_processes::{Cluster, Node, poll};
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const VALUE_BYTES: usize = 1_024;
/// Writes under way while the store is filled.
const PIPELINE: u64 = 256;
const PATIENCE: Duration = Duration::from_secs(300);

/// How often the follower comes back; from the second time on with an empty directory.
const ROUNDS: usize = 5;

/// What was measured.
#[derive(Serialize)]
pub struct CatchUp {
    /// Bytes of the snapshot that was copied.
    pub snapshot_bytes: u64,
    /// Records that the follower lacked when it was started.
    pub behind: u64,
    /// From starting its process until the whole snapshot was there, checked, in its log's place.
    pub copied_s: Summary,
    /// The snapshot's bytes over that time, in MB/s.
    pub mb_per_s: Summary,
    /// From starting its process until it served reads again with all that the leader had.
    pub level_s: Summary,
    /// How often.
    pub rounds: usize,
    /// Commits before, meanwhile and after.
    pub commits: Vec<Latency>,
    /// The most memory that the leader and the follower ever held, in MB.
    pub most_mb: [f64; 2],
}

/// Fills, kills, waits, starts and looks.
pub fn measure(bench: &Bench) -> Result<CatchUp, Failure> {
    let (size, span) = match bench.quick {
        true => (64 << 20, Duration::from_secs(5)),
        false => (1 << 30, Duration::from_secs(30)),
    };
    let between = format!("metadata.log.max.record.bytes.between.snapshots={}", size * 3 / 8);
    let settings =
        ["quorate.cleanup.policy=delete", "metadata.max.retention.bytes=0", between.as_str()];
    let bar = bar("catch-up", 3 + ROUNDS as u64);
    let mut cluster = bench.cluster_with("catch-up", &settings)?;
    let leader = cluster.wait_until_level(START_PATIENCE)?;
    let late = 1 + leader % 3;
    let behind = status(cluster.node(late))?.log_end;
    cluster.kill(late);
    bar.set_message("fills");
    let snapshot_bytes = fill(&cluster, leader, size, behind)?;
    bar.inc(1);

    let at = cluster.node(leader).raft;
    let hold = |when| {
        let paced = Paced::start(at);
        std::thread::sleep(span);
        Ok::<_, Failure>(Latency::of(when, &paced.finish()?))
    };
    bar.set_message("before");
    let before = hold("before, the follower is away")?;
    bar.inc(1);
    bar.set_message("copies");
    let behind = status(cluster.node(leader))?.log_end - behind;
    let (mut copied, mut level, mut taken) = (Vec::new(), Vec::new(), paced::histogram()?);
    for round in 0..ROUNDS {
        if round > 0 {
            cluster.kill(late);
            cluster.forget(late)?;
        }
        let paced = Paced::start(at);
        let [first, then] = come_back(&mut cluster, leader, late)?;
        taken.add(paced.finish()?)?;
        copied.push(first);
        level.push(then);
        bar.inc(1);
    }
    let meanwhile = Latency::of("meanwhile", &taken);
    bar.set_message("after");
    let after = hold("after, three nodes")?;
    let most_mb = judge(&cluster, leader, late)?;
    bench.discard(cluster)?;
    bar.finish_and_clear();
    let rates = copied.iter().map(|seconds| snapshot_bytes as f64 / 1e6 / seconds).collect();
    Ok(CatchUp {
        snapshot_bytes,
        behind,
        mb_per_s: summary(rates),
        copied_s: summary(copied),
        level_s: summary(level),
        rounds: ROUNDS,
        commits: vec![before, meanwhile, after],
        most_mb,
    })
}

/// Starts the follower; seconds until the snapshot is in its log's place, and until it is level.
fn come_back(cluster: &mut Cluster, leader: u32, late: u32) -> Result<[f64; 2], Failure> {
    let begin = Instant::now();
    cluster.start(late)?;
    let copied = poll("the snapshot to be copied", PATIENCE, || {
        cluster.node(late).status().filter(|status| status.log_start > 0).map(|_| begin.elapsed())
    })?;
    let level = poll("the follower to be level", PATIENCE, || {
        // The leader is not asked before it matters: it has other things to do.
        let late = cluster.node(late).status().filter(|status| status.ready)?;
        let gap = cluster.node(leader).status()?.log_end.saturating_sub(late.applied);
        // It has gone on since.
        (gap < 50).then(|| begin.elapsed())
    })?;
    Ok([copied, level].map(|took| took.as_secs_f64()))
}

/// The leader still leads, the follower's state is the leader's; the most memory of both.
fn judge(cluster: &Cluster, leader: u32, late: u32) -> Result<[f64; 2], Failure> {
    let leads = cluster.wait_until_level(PATIENCE)?;
    if leads != leader {
        return Err(format!("node {leader} lost its leadership to {leads}").into());
    }
    let (one, other) = (status(cluster.node(late))?, status(cluster.node(leader))?);
    if (one.applied, &one.digest) != (other.applied, &other.digest) {
        return Err(format!("the follower differs: {one:?}, {other:?}").into());
    }
    Ok([most_mb(cluster.node(leader))?, most_mb(cluster.node(late))?])
}

fn status(node: &Node) -> Result<Status, Failure> {
    Ok(poll("a node's status", START_PATIENCE, || node.status())?)
}

/// Writes keys, each once, until the leader's log begins beyond `behind` at a snapshot of this
/// size; returns the size that it has.
fn fill(cluster: &Cluster, leader: u32, size: u64, behind: u64) -> Result<u64, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let node = cluster.node(leader);
    let at = node.raft;
    let mut connection = runtime.block_on(Forward { leader: at }.connect())?;
    let (mut rng, mut number, mut done) = (Rng::new(1), 0, Vec::new());
    loop {
        for _ in 0..64 {
            runtime.block_on(async {
                for request in 0..PIPELINE {
                    let (key, value) = (format!("fill/{number:012}"), value(&mut rng));
                    connection.send(request as u32, Request::Put { key: &key, value: &value });
                    number += 1;
                }
                connection.flush().await?;
                done.clear();
                while done.len() < PIPELINE as usize {
                    connection.receive(&mut done).await?;
                }
                Ok::<(), std::io::Error>(())
            })?;
        }
        let newest = newest_snapshot(cluster, leader)?;
        let written = number * VALUE_BYTES as u64;
        if let Some((end, bytes)) = newest
            && bytes >= size
            && end > behind
        {
            poll("the log to begin at its newest snapshot", START_PATIENCE, || {
                node.status().filter(|status| status.log_start >= end)
            })?;
            return Ok(bytes);
        }
        if written > 4 * size {
            return Err(format!("no snapshot of {size} bytes among {written} written").into());
        }
    }
}

/// Where the leader's newest whole snapshot ends, and its size.
fn newest_snapshot(cluster: &Cluster, leader: u32) -> Result<Option<(u64, u64)>, Failure> {
    let mut newest = None;
    for entry in std::fs::read_dir(partition(cluster, leader))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(id) = name.strip_suffix(".checkpoint")
            && let Some(end) = id.split('-').next().and_then(|digits| digits.parse().ok())
        {
            newest = newest.max(Some((end, entry.metadata()?.len())));
        }
    }
    Ok(newest)
}

/// Where a node's log is.
pub fn partition(cluster: &Cluster, id: u32) -> PathBuf {
    cluster.root().join(format!("node-{id}/data/__cluster_metadata-0"))
}

fn value(rng: &mut Rng) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    for word in value.chunks_exact_mut(8) {
        word.copy_from_slice(&rng.next().to_le_bytes());
    }
    value
}
