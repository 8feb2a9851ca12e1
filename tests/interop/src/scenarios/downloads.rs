//! FetchSnapshot between nodes of Kafka's and ours, in both directions: who is behind a trimmed log
//! downloads the snapshot and catches up.
//!
//! Kafka's raft benchmark makes no snapshots, so it is given one of ours and passes it on. A
//! controller of Kafka's makes its own; an observer of ours downloads those.

use super::directories;
use super::nodes::{Quorum, TAKEN};
use super::snapshots::{OFTEN, snapshots};
use crate::scenario::{Failure, PATIENCE, Stage, ensure, places};
use crate::values::Anything;
use quorate::{Cleanup, Config, Embedded, HostPort, ReplicaId, Voter, format};
use quorate_processes::poll;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Small pieces, so that a download takes many.
const PIECES: &str = "controller.quorum.fetch.snapshot.max.bytes=5000";
const CLUSTER: &str = "U7HrM6vDTwWK2XclkAu2_g";

/// Kafka's node starts with an empty directory behind our trimmed log, and makes the majority; then
/// it leads, and a node of ours with an empty directory starts behind its log.
pub fn both_ways(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    let mut quorum = Quorum::format(stage, directory, &[OFTEN, &[PIECES]].concat())?;
    let (leader, kept) = quorum.start_two()?;
    quorum.write_until_trimmed(leader)?;
    let start = quorum.status(leader)?.log_start;

    let kafka = quorum.start_kafka(stage, TAKEN)?;
    quorum.write_until_level(leader)?;
    let partition = quorum.partition(TAKEN)?;
    let downloaded = snapshots(&partition)?;
    ensure(!downloaded.is_empty(), || format!("no snapshot in {}", partition.display()))?;
    begins_at_one_of(&downloaded, &partition)?;
    for file in &downloaded {
        directories::quorate(stage, &["snapshot", "tree", &file.display().to_string()])?;
    }

    // Nothing is committed without it, from what it downloaded on.
    quorum.stop(kept)?;
    quorum.write(leader, 100)?;
    quorum.stop(leader)?;

    // Its log begins at the snapshot. Ours begins with nothing, and votes for it.
    quorum.forget(kept)?;
    quorum.start(kept)?;
    quorum.follow(kept)?;
    let status = quorum.status(kept)?;
    ensure(status.log_start >= start, || {
        format!("our log begins at {}, Kafka's beyond {start}", status.log_start)
    })?;
    begins_at_one_of(&downloaded, &quorum.partition(kept)?)?;
    quorum.start(leader)?;
    quorum.follow(leader)?;
    drop(kafka);

    // Ours goes on with what Kafka's made of the directory, snapshot and all.
    quorum.start(TAKEN)?;
    quorum.wait_until_equal()?;
    quorum.kafka_said_no_error()
}

/// The log's first file begins where one of these snapshots ends: nothing of the log before came.
pub fn begins_at_one_of(snapshots: &[PathBuf], partition: &Path) -> Result<(), Failure> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(partition)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    let first = names.iter().filter_map(|name| name.strip_suffix(".log")).min();
    let first = first.ok_or_else(|| Failure(std::format!("no log in {names:?}")))?;
    let mut begins = snapshots.iter().filter_map(|path| path.file_name()?.to_str());
    let found = first.parse() != Ok(0_u64) && begins.any(|name| name.starts_with(first));
    ensure(found, || std::format!("the log begins at {first}, not at one of {snapshots:?}"))
}

/// Two directories hold one snapshot with the same bytes.
fn same_file(one: &Path, other: &Path) -> Result<(), Failure> {
    for file in snapshots(other)? {
        let twin = one.join(file.file_name().unwrap_or_default());
        if twin.exists() && std::fs::read(&twin)? == std::fs::read(&file)? {
            return Ok(());
        }
    }
    Err(Failure(format!("{} and {} share no snapshot", one.display(), other.display())))
}

/// An observer of ours behind a controller of Kafka's: from nothing, and again after that has cut
/// its log beyond the observer's end, which it does once a minute.
pub fn of_a_controller(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(directory)?;
    let at = places(1)?[0];
    let data = directory.join("data");
    let file = directories::write_settings(&directory.join("kafka.properties"), 1, &data, at)?;
    let often = "metadata.log.max.snapshot.interval.ms=1000\nmetadata.max.retention.ms=3000\n\
                 metadata.max.idle.interval.ms=50\n";
    std::fs::write(&file, std::fs::read_to_string(&file)? + often)?;
    stage.kafka.run("kafka.tools.StorageTool", &["format", "-t", CLUSTER, "-c", &file])?;
    let log = directory.join("kafka.log");
    let running = stage.kafka.start("kafka.Kafka", &[&file], &log)?;
    let theirs = data.join("__cluster_metadata-0");
    let made = || snapshots(&theirs).unwrap_or_default().len();
    poll("Kafka's controller to write snapshots", PATIENCE, || (made() >= 3).then_some(()))?;

    let config = observer(&directory.join("observer"), at);
    let ours = config.directory.join("__cluster_metadata-0");
    format(&config, Some(CLUSTER))?;
    let first = follow(&config, 0)?;
    same_file(&theirs, &ours)?;

    // While ours is away Kafka's cuts its log beyond the end of ours.
    let oldest = |folder: &Path| snapshots(folder).unwrap_or_default().into_iter().next();
    let name = |path: PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let end = std::format!("{first:020}");
    poll("Kafka's controller to trim its log", 2 * PATIENCE, || {
        oldest(&theirs).and_then(name).filter(|name| *name > end)
    })?;
    follow(&config, first)?;
    same_file(&theirs, &ours)?;
    drop(running);
    let printed = std::fs::read_to_string(log)?;
    ensure(!printed.contains(" ERROR "), || std::format!("Kafka's node printed:\n{printed}"))
}

/// Runs the observer until it has loaded a snapshot and applied more, after what it had before.
/// Returns where its log ended.
fn follow(config: &Config, before: u64) -> Result<u64, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let node = Embedded::start(config.clone(), Anything::default())?;
    let mut last = None;
    let followed = poll("our observer to catch up with Kafka's controller", PATIENCE, || {
        let status = last.insert(runtime.block_on(node.handle().status()));
        let status = status.as_ref().ok()?;
        let start = status.log_start;
        let goes_on = status.high_watermark.is_some_and(|committed| committed > start + 20);
        (status.ready && start > before && goes_on && status.applied > start + 20)
            .then_some(status.log_end)
    });
    let end = followed.map_err(|late| Failure(std::format!("{late}: {last:?}")))?;
    node.stop()?;
    Ok(end)
}

fn observer(directory: &Path, at: SocketAddr) -> Config {
    let host = |at: SocketAddr| HostPort { host: at.ip().to_string(), port: at.port() };
    let voters = vec![Voter { id: ReplicaId(1), at: host(at) }];
    let any = HostPort { host: "127.0.0.1".into(), port: 0 };
    Config {
        cleanup: Cleanup::Delete,
        snapshot_max_bytes: 300,
        ..Config::new(Some(ReplicaId(9)), directory.to_owned(), voters, any)
    }
}
