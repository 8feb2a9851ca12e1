//! Nodes that become voters by themselves (`controller.quorum.auto.join.enable`): new ones, and one
//! whose disk was replaced, in the place of its old directory. Then the same from nothing but files
//! of settings (`quorate.bootstrap`, `quorate.join`), with nothing formatted.

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
    let status = cluster.node(through).put(key, PATIENCE);
    assert!(status.is_some_and(|status| status < 300), "{status:?}");
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

/// What a node printed that holds these words.
fn told(cluster: &Cluster, id: u32, words: &str) -> Option<String> {
    let log = std::fs::read_to_string(cluster.node(id).log_file()).ok()?;
    log.lines().find(|line| line.contains(words)).map(str::to_owned)
}

#[test]
fn three_files_and_no_format_become_three_voters() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-ceremony");
    let _ = std::fs::remove_dir_all(&root);
    let settings = ["controller.quorum.auto.join.enable=true"];
    let binary = binary(Profile::Dev).unwrap();
    let mut cluster = Cluster::unformatted(&binary, &root, 3, &settings).unwrap();
    // Nobody is there whom they could join: they say so, and wait.
    for id in [2, 3] {
        cluster.start(id).unwrap();
        let waits = || told(&cluster, id, "nobody answers whom quorate.join names");
        poll("a node that waits", PATIENCE, waits).unwrap();
        assert!(!root.join(format!("node-{id}/data")).exists(), "nothing is formatted by a guess");
    }
    cluster.start(1).unwrap();
    cluster.wait_until_level(PATIENCE).unwrap();
    voters(&cluster, &[1, 2, 3]);
    put(&cluster, 2, "first");
    let status = cluster.node(3).status().unwrap();
    let begun = told(&cluster, 1, "is the first of the new cluster").unwrap();
    assert!(begun.contains(&status.cluster), "{begun}");
    for id in [2, 3] {
        let joined = told(&cluster, id, "joins the cluster").unwrap();
        assert!(joined.contains(&status.cluster), "{joined}");
    }

    // The same files again: what is formatted stays, and nobody asks before it starts.
    for id in 1..=3 {
        assert!(cluster.kill(id));
    }
    cluster.start_all().unwrap();
    cluster.wait_until_level(PATIENCE).unwrap();
    voters(&cluster, &[1, 2, 3]);
    is_there(&cluster, 1, "first");
    let log = std::fs::read_to_string(cluster.node(1).log_file()).unwrap();
    assert_eq!(log.matches("is the first of the new cluster").count(), 1);

    // A disk is lost: a joiner comes back in the place of its old directory.
    cluster.kill(2);
    cluster.forget(2).unwrap();
    cluster.start(2).unwrap();
    poll("the new disk to vote", PATIENCE, || {
        let status = cluster.node(2).status()?;
        (status.role == "follower" || status.role == "leader").then_some(())
    })
    .unwrap();
    voters(&cluster, &[1, 2, 3]);
    is_there(&cluster, 2, "first");
    assert_eq!(cluster.ended_by_itself(), None);
    drop(cluster);
    std::fs::remove_dir_all(&root).unwrap();
}
