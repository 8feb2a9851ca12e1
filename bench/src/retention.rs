//! A million records through a small retention: what the data takes on the disk meanwhile.
//!
//! Counted is what the file system gave, files on their way out and half-written ones included.
//! More than the limit is a failure, not a figure.

use crate::catchup::partition;
use crate::forward::Forward;
use crate::load::{self, Kind, Shape};
use crate::{Bench, Failure, START_PATIENCE, bar};
use quorate_processes::{Cluster, Node, poll};
use serde::Serialize;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// `metadata.max.retention.bytes`.
pub const LIMIT: u64 = 64 << 20;
/// `metadata.log.max.record.bytes.between.snapshots`.
const BETWEEN: u64 = 4 << 20;
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What was measured.
#[derive(Serialize)]
pub struct Retention {
    /// Records written.
    pub records: u64,
    /// The limit that was set.
    pub limit_bytes: u64,
    /// The most that the files of any node's log took at any time.
    pub most_bytes: u64,
    /// How often it was looked.
    pub looks: u64,
    /// Records a second.
    pub per_second: f64,
}

/// Writes, and looks at the disk all the time.
pub fn measure(bench: &Bench) -> Result<Retention, Failure> {
    let wanted: u64 = if bench.quick { 200_000 } else { 1_000_000 };
    let settings = [
        "quorate.cleanup.policy=delete".to_owned(),
        format!("metadata.max.retention.bytes={LIMIT}"),
        format!("metadata.log.max.record.bytes.between.snapshots={BETWEEN}"),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let cluster = bench.cluster_with("retention", &settings)?;
    let leader = cluster.wait_until_level(START_PATIENCE)?;
    let stop = AtomicBool::new(false);
    let begin = Instant::now();
    let (records, watched) = std::thread::scope(|scope| {
        let watch = scope.spawn(|| watch(&cluster, &stop));
        let written = write(cluster.node(leader), wanted);
        stop.store(true, Ordering::Relaxed);
        let watched = watch.join().map_err(|_| "the watch panicked")?;
        Ok::<_, Failure>((written?, watched?))
    })?;
    let took = begin.elapsed();
    let start = poll("the log to be trimmed", START_PATIENCE, || {
        cluster.node(leader).status().map(|status| status.log_start).filter(|start| *start > 0)
    })?;
    bench.discard(cluster)?;
    let Watched { most_bytes, looks } = watched;
    if most_bytes > LIMIT {
        return Err(format!(
            "of {records} records, kept from {start} on, the files of a node took {most_bytes} \
             bytes; {LIMIT} are the limit"
        )
        .into());
    }
    let per_second = records as f64 / took.as_secs_f64();
    Ok(Retention { records, limit_bytes: LIMIT, most_bytes, looks, per_second })
}

/// Writes until the log has had so many records; returns how many.
fn write(leader: &Node, wanted: u64) -> Result<u64, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let bar = bar("retention", wanted);
    loop {
        let shape = Shape {
            connections: 8,
            depth: 32,
            kind: Kind::Put,
            warm_up: Duration::ZERO,
            duration: Duration::from_secs(1),
        };
        runtime.block_on(load::run(Forward { leader: leader.raft }, shape))?;
        let status = leader.status().ok_or("the leader says nothing")?;
        bar.set_position(status.log_end.min(wanted));
        if status.log_end >= wanted {
            bar.finish_and_clear();
            return Ok(status.log_end);
        }
    }
}

struct Watched {
    most_bytes: u64,
    looks: u64,
}

fn watch(cluster: &Cluster, stop: &AtomicBool) -> std::io::Result<Watched> {
    let mut watched = Watched { most_bytes: 0, looks: 0 };
    while !stop.load(Ordering::Relaxed) {
        for node in cluster.nodes() {
            watched.most_bytes = watched.most_bytes.max(taken(&partition(cluster, node.id))?);
        }
        watched.looks += 1;
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(watched)
}

/// What the file system gave to the files there; the reserve for a full disk is not the log's.
fn taken(partition: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(partition)? {
        let entry = entry?;
        if entry.file_name() == "quorate-reserve" {
            continue;
        }
        match entry.metadata() {
            Ok(metadata) => bytes += metadata.blocks() * 512,
            // Removed since it was listed.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}
