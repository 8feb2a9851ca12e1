//! Three nodes on file systems of 64 MiB each, filled by their clients until writes are refused.
//! Nothing that was acknowledged may be lost, reads and elections go on meanwhile, writes come back
//! by themselves once something else on the disk is deleted, and every file is right at the end.
//!
//! The file systems are tmpfs mounts, which nobody else sees (`mounts.rs`). Who may not mount
//! cannot run this, and it fails and says so.

use crate::scenario::{Failure, PATIENCE, ensure};
use quorate_processes::http::{Client, Response, Silence};
use quorate_processes::{Cluster, poll};
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const NODES: u32 = 3;
const DISK: &str = "64m";
/// What lies on each disk besides the node's files, until it is deleted.
const BALLAST_BYTES: usize = 12 << 20;
const VALUE_BYTES: usize = 24 << 10;
const WRITERS: u32 = 4;
/// The load ends when so many writes were refused for want of room.
const REFUSALS: usize = 40;
/// How long one request may take.
const ONE: Duration = Duration::from_secs(15);

/// A mounted file system; gone when this is dropped.
struct Mount(PathBuf);

impl Mount {
    fn new(path: PathBuf) -> Result<Mount, Failure> {
        fs::create_dir_all(&path)?;
        let mut mount = Command::new("mount");
        let size = format!("size={DISK}");
        let output = mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&path).output()?;
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        ensure(output.status.success(), || {
            format!("no tmpfs can be mounted at {}: {said}; run this as root", path.display())
        })?;
        Ok(Mount(path))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// What became of a write of one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Acknowledged,
    Refused,
    Unknown,
}

/// Of every key, by number, what its one write came to.
type Fates = BTreeMap<u32, Fate>;

pub fn lives_through(binary: &Path, directory: &Path) -> Result<(), Failure> {
    let mut disks = Vec::new();
    for id in 1..=NODES {
        disks.push(Mount::new(directory.join(format!("disk-{id}")))?);
    }
    let mut cluster = Cluster::format(binary, &directory.join("nodes"), NODES, &[])?;
    for (id, disk) in (1..).zip(&disks) {
        cluster.keep_data_at(id, &disk.0.join("data"))?;
        fs::write(disk.0.join("ballast"), vec![1; BALLAST_BYTES])?;
    }
    cluster.start_all()?;
    cluster.wait_until_level(PATIENCE)?;

    let mut fates = load(&cluster)?;
    let count = |fate| fates.values().filter(|found| **found == fate).count();
    let (kept, refused) = (count(Fate::Acknowledged), count(Fate::Refused));
    println!("{kept} writes acknowledged, {refused} refused, {} unknown", count(Fate::Unknown));
    ensure(kept > 200, || format!("only {kept} writes were taken before the disks were full"))?;

    refuses_in_words(&mut cluster, binary)?;
    let leader = cluster.wait_for_leader(PATIENCE)?;
    holds(cluster.node(leader).http, &fates)?;

    // An election on full disks.
    let epoch = cluster.node(leader).status().map_or(0, |status| status.epoch);
    cluster.kill(leader);
    cluster.start(leader)?;
    let next = poll("a leader of a later epoch", PATIENCE, || {
        let leader = cluster.leader()?;
        (cluster.node(leader).status()?.epoch > epoch).then_some(leader)
    })?;
    holds(cluster.node(next).http, &fates)?;
    refuses_in_words(&mut cluster, binary)?;

    for disk in &disks {
        fs::remove_file(disk.0.join("ballast"))?;
    }
    for id in 1..=NODES {
        let number = 1_000_000 + id;
        let at = cluster.node(id).http;
        poll("a write is taken again", PATIENCE, || {
            (put(&mut Client::new(at, ONE), number) == Fate::Acknowledged).then_some(())
        })?;
        fates.insert(number, Fate::Acknowledged);
    }
    cluster.wait_until_level(PATIENCE)?;
    for id in 1..=NODES {
        holds(cluster.node(id).http, &fates)?;
        let status = cluster.node(id).status();
        ensure(status.is_some_and(|status| status.disk_full.is_none()), || {
            format!("node {id} still says that its disk is full")
        })?;
    }
    if let Some((id, status)) = cluster.ended_by_itself() {
        return Err(Failure(format!("node {id} ended by itself: {status}")));
    }
    for (id, disk) in (1..).zip(&disks) {
        cluster.kill(id);
        let output =
            Command::new(binary).args(["log", "verify"]).arg(disk.0.join("data")).output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure(output.status.success(), || {
            format!("the files of node {id} are not right:\n{said}")
        })?;
    }
    Ok(())
}

/// Writes at all nodes, each key once, until enough of it was refused.
fn load(cluster: &Cluster) -> Result<Fates, Failure> {
    let addresses: Vec<SocketAddr> = cluster.nodes().iter().map(|node| node.http).collect();
    let refusals = AtomicUsize::new(0);
    let end = Instant::now() + 2 * PATIENCE;
    let write = |writer: u32| {
        let mut fates = Fates::new();
        let mut clients: Vec<Client> = addresses.iter().map(|at| Client::new(*at, ONE)).collect();
        for number in (writer..).step_by(WRITERS as usize) {
            if refusals.load(Ordering::Relaxed) >= REFUSALS || Instant::now() > end {
                break;
            }
            let client = number as usize / WRITERS as usize % clients.len();
            let fate = put(&mut clients[client], number);
            fates.insert(number, fate);
            if fate == Fate::Refused {
                refusals.fetch_add(1, Ordering::Relaxed);
            }
        }
        fates
    };
    let fates = thread::scope(|scope| {
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| scope.spawn(move || write(writer))).collect();
        writers.into_iter().map(|writer| writer.join().expect("a writer ends")).fold(
            Fates::new(),
            |mut all, fates| {
                all.extend(fates);
                all
            },
        )
    });
    let refused = refusals.load(Ordering::Relaxed);
    ensure(refused >= REFUSALS, || format!("the disks are not full in time, {refused} refusals"))?;
    Ok(fates)
}

fn put(client: &mut Client, number: u32) -> Fate {
    let answer = client.ask("PUT", &format!("{}?timeout=2000", path(number)), &[], &value(number));
    match answer {
        Ok(Response { status: 200 | 201 | 204, .. }) => Fate::Acknowledged,
        Ok(Response { status: 503 | 429 | 507, .. }) | Err(Silence::NotSent(_)) => Fate::Refused,
        Ok(_) | Err(Silence::Unknown(_)) => Fate::Unknown,
    }
}

fn path(number: u32) -> String {
    format!("/v1/kv/key-{number}")
}

/// Every key has a value of its own, which compresses no better than any.
fn value(number: u32) -> Vec<u8> {
    let seed = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..VALUE_BYTES as u64).map(|at| (seed.wrapping_add(at * at) >> 7) as u8).collect()
}

/// What was acknowledged is there, what was refused is not.
fn holds(at: SocketAddr, fates: &Fates) -> Result<(), Failure> {
    let mut client = Client::new(at, ONE);
    for (number, fate) in fates {
        let answer = client.ask("GET", &path(*number), &[], &[]);
        let answer = answer.map_err(|silence| Failure(format!("key {number}: {silence}")))?;
        let right = match (fate, answer.status) {
            (Fate::Acknowledged | Fate::Unknown, 200) => answer.body == value(*number),
            (Fate::Refused | Fate::Unknown, 404) => true,
            _ => false,
        };
        ensure(right, || {
            format!("key {number} is {fate:?} and is answered {} at {at}", answer.status)
        })?;
    }
    Ok(())
}

/// Every node refuses a write and says why; the leader is ready, and people are told.
fn refuses_in_words(cluster: &mut Cluster, binary: &Path) -> Result<(), Failure> {
    let leader = cluster.wait_for_leader(PATIENCE)?;
    for node in cluster.nodes() {
        let refused = poll("a write is refused for want of room", PATIENCE, || {
            let mut client = Client::new(node.http, ONE);
            let answer = client.ask("PUT", "/v1/kv/refused?timeout=2000", &[], b"x").ok()?;
            (answer.status == 507).then_some(answer)
        })?;
        let json = refused.json();
        let message = json["message"].as_str().unwrap_or_default();
        ensure(json["error"] == "storage_full" && message.contains("make room"), || {
            format!("node {} refuses with {json}", node.id)
        })?;
    }
    let at = cluster.node(leader).http;
    let answer = Client::new(at, ONE).ask("GET", "/readyz", &[], &[]);
    let answer = answer.map_err(|silence| Failure(silence.to_string()))?;
    let said = String::from_utf8_lossy(&answer.body).into_owned();
    // Its own, or those of so many others that it makes no difference.
    let full = ["the disk is full", "are full, so that no majority has room"];
    ensure(answer.status == 200 && full.iter().any(|words| said.contains(words)), || {
        format!("/readyz of a leader that refuses writes: {} {said}", answer.status)
    })?;
    let output = Command::new(binary)
        .args(["quorum", "status", "--http", &format!("http://{at}")])
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let full = ["its disk is full", "too many others' disks are full"];
    ensure(full.iter().any(|words| said.contains(words)), || {
        format!("quorum status says:\n{said}")
    })?;
    if let Some((id, status)) = cluster.ended_by_itself() {
        return Err(Failure(format!("node {id} ended by itself: {status}")));
    }
    Ok(())
}
