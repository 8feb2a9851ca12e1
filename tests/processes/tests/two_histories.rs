//! A cluster id that was given to two quorums, one after the other: their logs fit together by
//! epochs and offsets, and still no node takes the records of one for those of the other [P86].

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

use quorate_processes::http::Client;
use quorate_processes::{Cluster, Profile, binary, poll};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

fn put(cluster: &Cluster, key: &str, times: u32) {
    let mut client = Client::new(cluster.node(1).http, PATIENCE);
    for number in 0..times {
        let path = format!("/v1/kv/{key}{number}");
        let status = client.ask("PUT", &path, &[], b"value").unwrap().status;
        assert_eq!(status, 201, "{path}");
    }
}

fn log_of(cluster: &Cluster, id: u32) -> String {
    std::fs::read_to_string(cluster.node(id).log_file()).unwrap()
}

#[test]
fn p86_a_log_of_another_quorum_with_this_cluster_id_is_neither_copied_nor_counted() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("two-histories");
    let _ = std::fs::remove_dir_all(&root);
    let binary = binary(Profile::Dev).unwrap();
    let mut cluster = Cluster::found(&binary, &root, 2, &[]).unwrap();
    cluster.start_all().unwrap();
    cluster.wait_for_leader(PATIENCE).unwrap();
    put(&cluster, "a", 10);
    cluster.wait_until_level(PATIENCE).unwrap();
    let held = cluster.node(2).status().unwrap();

    // Node 1 loses its disk and is founded anew, with the same id; its log grows beyond the other.
    cluster.kill(1);
    cluster.forget(1).unwrap();
    cluster.start(1).unwrap();
    cluster.wait_for_leader(PATIENCE).unwrap();
    put(&cluster, "b", 30);
    let said = "was begun apart from this one";
    poll("the observer to notice", PATIENCE, || log_of(&cluster, 2).contains(said).then_some(()))
        .unwrap();
    let refused = "a node with this cluster's id copies from here";
    poll("the leader to notice", PATIENCE, || log_of(&cluster, 1).contains(refused).then_some(()))
        .unwrap();

    // Started again it knows it still; and nobody makes a voter of it.
    cluster.kill(2);
    cluster.start(2).unwrap();
    poll("it to notice again", PATIENCE, || {
        (log_of(&cluster, 2).matches(said).count() > 1).then_some(())
    })
    .unwrap();
    let at = cluster.node(1).raft.to_string();
    let voter = format!("2@{}", cluster.node(2).raft);
    let add = ["quorum", "add", &voter, "--bootstrap", &at, "--timeout", "3"];
    let output = Command::new(&binary).args(add).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains("does not copy"), "{told}");
    let status = cluster.node(2).status().unwrap();
    assert_eq!((status.log_end, status.durable), (held.log_end, held.durable));
    assert_eq!(cluster.ended_by_itself(), None);
    drop(cluster);
    std::fs::remove_dir_all(&root).unwrap();
}
