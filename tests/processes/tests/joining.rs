//! Nodes that become voters by themselves (`controller.quorum.auto.join.enable`): new ones, and one
//! whose disk was replaced, in the place of its old directory.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

use quorate_processes::http::Client;
use quorate_processes::{Cluster, Profile, binary, poll};
use std::path::Path;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until the leader says that exactly these vote.
fn voters(cluster: &Cluster, expected: &[u32]) {
    let mut last = Vec::new();
    let seen = poll("the voters", PATIENCE, || {
        let status = cluster.node(cluster.leader()?).status()?;
        last = status.voters.iter().map(|voter| voter.node).collect();
        (last == expected).then_some(())
    });
    assert!(seen.is_ok(), "{last:?}, not {expected:?}");
}

fn put(cluster: &Cluster, through: u32, key: &str) {
    let mut client = Client::new(cluster.node(through).http, PATIENCE);
    let answer = client.ask("PUT", &format!("/v1/kv/{key}?timeout=20000"), &[], b"value").unwrap();
    assert!(answer.status < 300, "{}", String::from_utf8_lossy(&answer.body));
}

fn is_there(cluster: &Cluster, through: u32, key: &str) {
    let mut client = Client::new(cluster.node(through).http, PATIENCE);
    let answer = client.ask("GET", &format!("/v1/kv/{key}?timeout=20000"), &[], b"").unwrap();
    assert_eq!(answer.status, 200, "{key}: {}", String::from_utf8_lossy(&answer.body));
}

#[test]
fn nodes_join_by_themselves_and_with_a_new_disk_again() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("joining");
    let _ = std::fs::remove_dir_all(&root);
    let settings = ["controller.quorum.auto.join.enable=true"];
    let mut cluster = Cluster::found(&binary(Profile::Dev).unwrap(), &root, 3, &settings).unwrap();
    cluster.start_all().unwrap();
    cluster.wait_until_level(PATIENCE).unwrap();
    put(&cluster, 1, "first");
    voters(&cluster, &[1, 2, 3]);

    // All is gone with the disk: another directory, which has no say until it has copied the log.
    cluster.kill(3);
    put(&cluster, 2, "second");
    cluster.forget(3).unwrap();
    cluster.start(3).unwrap();
    poll("the new disk to vote", PATIENCE, || {
        let status = cluster.node(3).status()?;
        (status.role == "follower" || status.role == "leader").then_some(())
    })
    .unwrap();
    voters(&cluster, &[1, 2, 3]);

    // It counts: without it, two of three would be one.
    cluster.kill(2);
    put(&cluster, 3, "third");
    for key in ["first", "second", "third"] {
        is_there(&cluster, 3, key);
    }
    assert_eq!(cluster.ended_by_itself(), None);
    drop(cluster);
    std::fs::remove_dir_all(&root).unwrap();
}
