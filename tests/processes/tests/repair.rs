//! Files of a node that is down are damaged as a disk damages them. It starts, repairs itself from
//! the others, and everything that was acknowledged is there; the only voter refuses in words.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

use quorate_processes::http::Client;
use quorate_processes::{Cluster, Profile, binary, poll};
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const KEYS: usize = 60;
const VALUE_BYTES: usize = 2_000;

fn cluster(name: &str, nodes: u32, settings: &[&str]) -> (Cluster, PathBuf) {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&root);
    let binary = binary(Profile::Dev).unwrap();
    let mut cluster = Cluster::format(&binary, &root, nodes, settings).unwrap();
    cluster.start_all().unwrap();
    (cluster, root)
}

/// Writes every key of a round; each answer is an acknowledgement.
fn put(cluster: &Cluster, node: u32, round: u8) {
    let mut client = Client::new(cluster.node(node).http, PATIENCE);
    for key in 0..KEYS {
        let value = vec![b'a' + round; VALUE_BYTES];
        let answer = client.ask("PUT", &format!("/v1/kv/k{key}"), &[], &value).unwrap();
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
    }
}

fn assert_all_there(cluster: &Cluster, node: u32, round: u8) {
    let mut client = Client::new(cluster.node(node).http, PATIENCE);
    for key in 0..KEYS {
        let answer = client.ask("GET", &format!("/v1/kv/k{key}"), &[], b"").unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let found = text.matches(char::from(b'a' + round)).count();
        assert!(found >= VALUE_BYTES, "k{key} at node {node}: {text:.200}");
    }
}

fn files(cluster: &Cluster, node: u32, ending: &str) -> Vec<PathBuf> {
    let folder = cluster.root().join(format!("node-{node}/data/__cluster_metadata-0"));
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.to_str().unwrap().ends_with(ending)).collect();
    files.sort();
    files
}

/// In place of the file one with other bytes; the old one may be read-only.
fn replace(path: &Path, damage: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    damage(&mut bytes);
    std::fs::remove_file(path).unwrap();
    std::fs::write(path, bytes).unwrap();
}

fn said(cluster: &Cluster, node: u32) -> String {
    std::fs::read_to_string(cluster.node(node).log_file()).unwrap()
}

/// The node is back, with a vote, and everybody holds the same.
fn wait_until_whole(cluster: &Cluster, node: u32) {
    poll("a log that is whole again", PATIENCE, || {
        let status = cluster.node(node).status()?;
        (status.ready && status.must_reach.is_none()).then_some(())
    })
    .unwrap();
    cluster.wait_until_level(PATIENCE).unwrap();
}

#[test]
fn a_follower_with_a_damaged_segment_repairs_itself_and_nothing_acknowledged_is_missing() {
    let (mut cluster, root) = cluster("repair-segment", 3, &[]);
    let leader = cluster.wait_until_level(PATIENCE).unwrap();
    put(&cluster, leader, 0);
    cluster.wait_until_level(PATIENCE).unwrap();
    let damaged = leader % 3 + 1;
    assert!(cluster.kill(damaged));
    let segments = files(&cluster, damaged, ".log");
    replace(&segments[0], |bytes| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
    });
    put(&cluster, leader, 1);
    cluster.start(damaged).unwrap();
    wait_until_whole(&cluster, damaged);
    let said = said(&cluster, damaged);
    for part in ["set the damaged part of the log aside", "is damaged at byte", "this node votes"] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(files(&cluster, damaged, ".damaged").len(), 1);
    // It serves what it has, and with it alone the third one makes a majority.
    assert_all_there(&cluster, damaged, 1);
    assert!(cluster.kill(leader));
    poll("another leader", PATIENCE, || cluster.leader().filter(|other| *other != leader)).unwrap();
    assert_all_there(&cluster, damaged, 1);
    drop(cluster);
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_follower_whose_only_snapshot_is_damaged_copies_the_leaders() {
    let settings = [
        "quorate.cleanup.policy=delete",
        "metadata.log.max.record.bytes.between.snapshots=50000",
        "metadata.max.retention.bytes=1000",
    ];
    let (mut cluster, root) = cluster("repair-snapshot", 3, &settings);
    let leader = cluster.wait_until_level(PATIENCE).unwrap();
    let damaged = leader % 3 + 1;
    put(&cluster, leader, 0);
    poll("a trimmed log", PATIENCE, || {
        cluster.node(damaged).status().filter(|status| status.log_start > 0)
    })
    .unwrap();
    cluster.wait_until_level(PATIENCE).unwrap();
    assert!(cluster.kill(damaged));
    let snapshots = files(&cluster, damaged, ".checkpoint");
    assert!(!snapshots.is_empty());
    for (number, snapshot) in snapshots.iter().enumerate() {
        // Empty, as after a loss of power, or rotten.
        replace(snapshot, |bytes| match number % 2 {
            0 => bytes.clear(),
            _ => bytes[100] ^= 1,
        });
    }
    put(&cluster, leader, 1);
    cluster.start(damaged).unwrap();
    wait_until_whole(&cluster, damaged);
    let said = said(&cluster, damaged);
    for part in ["no whole snapshot", "but there is no snapshot", "a downloaded snapshot takes"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_all_there(&cluster, damaged, 1);
    assert!(cluster.node(damaged).status().unwrap().newest_snapshot.is_some());
    drop(cluster);
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn the_only_voter_with_a_damaged_log_refuses_in_words() {
    let (mut cluster, root) = cluster("repair-alone", 1, &[]);
    cluster.wait_until_level(PATIENCE).unwrap();
    put(&cluster, 1, 0);
    assert!(cluster.kill(1));
    let segment = files(&cluster, 1, ".log").remove(0);
    let whole = std::fs::read(&segment).unwrap();
    replace(&segment, |bytes| bytes[20_000] ^= 4);
    let rotten = std::fs::read(&segment).unwrap();
    let _ = cluster.start(1);
    let (_, status) =
        poll("the end of the process", PATIENCE, || cluster.ended_by_itself()).unwrap();
    assert!(!status.success());
    cluster.kill(1);
    let said = said(&cluster, 1);
    for part in ["is damaged at byte", "this node is the only voter", "quorate log verify"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(std::fs::read(&segment).unwrap(), rotten, "it is left as it is");
    // With the file from a copy all is there.
    std::fs::write(&segment, whole).unwrap();
    cluster.start(1).unwrap();
    cluster.wait_until_level(PATIENCE).unwrap();
    assert_all_there(&cluster, 1, 0);
    drop(cluster);
    std::fs::remove_dir_all(root).unwrap();
}
