//! A voter that comes back with an empty disk: its vote is gone with its directory, until an
//! operator gives the new one its place (T33).

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

use quorate_processes::http::Client;
use quorate_processes::{Cluster, Profile, binary, poll};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// What the command printed; it has to succeed.
fn quorum(binary: &Path, arguments: &[&str], bootstrap: &str) -> String {
    let output = Command::new(binary)
        .arg("quorum")
        .args(arguments)
        .args(["--bootstrap", bootstrap])
        .output()
        .unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success(), "{arguments:?}: {text}");
    text
}

/// Kills a command (`kill -9`) once it has told its plan.
fn kill_once_planned(binary: &Path, arguments: &[&str], bootstrap: &str) {
    let mut command = Command::new(binary);
    command.arg("quorum").args(arguments).args(["--bootstrap", bootstrap]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let planned = lines.map_while(Result::ok).find(|line| line.contains("step 1: "));
    assert!(planned.is_some(), "no plan was told");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// How many changes of voters the leader has counted.
fn changes(cluster: &Cluster) -> u64 {
    let leader = cluster.wait_for_leader(PATIENCE).unwrap();
    let latencies = cluster.node(leader).status().unwrap().latencies;
    let counted = latencies.into_iter().find(|latency| latency.stage == "voter_change");
    counted.map_or(0, |counted| counted.count)
}

#[test]
fn an_empty_disk_has_no_vote_until_it_is_given_its_place() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("replaced-disk");
    let _ = std::fs::remove_dir_all(&root);
    let binary = binary(Profile::Dev).unwrap();
    let mut cluster = Cluster::unformatted(&binary, &root, 3, &[]).unwrap();
    cluster.start_all().unwrap();
    cluster.wait_until_level(PATIENCE).unwrap();
    let at: Vec<String> = cluster.nodes().iter().map(|node| node.raft.to_string()).collect();
    let voters = format!("1,2@{},3@{}", at[1], at[2]);
    quorum(&binary, &["alter", "--voters", &voters], &at[0]);
    // Two of three: the third is behind, and has not seen what they acknowledged.
    cluster.kill(3);
    assert_eq!(cluster.node(1).put("acknowledged", Duration::from_secs(20)), Some(201));

    // One of those two loses its disk, and the other one is away: the new disk and the one that is
    // behind are two processes of three, and must not elect what lacks the write.
    cluster.kill(2);
    cluster.kill(1);
    cluster.forget(2).unwrap();
    cluster.start(3).unwrap();
    cluster.start(2).unwrap();
    poll("the new disk to join", PATIENCE, || {
        let log = std::fs::read_to_string(cluster.node(2).log_file()).ok()?;
        (log.matches("joins the cluster").count() == 2).then_some(())
    })
    .unwrap();
    poll("its status", PATIENCE, || cluster.node(2).status()).unwrap();
    let refused = cluster.node(3).put("by-a-minority", Duration::from_secs(4));
    assert!([Some(503), Some(504)].contains(&refused), "{refused:?}: a new disk has voted");
    assert_eq!(cluster.leader(), None);

    // With the one that has the write there is a majority again, and the write is there.
    cluster.start(1).unwrap();
    cluster.wait_until_level(PATIENCE).unwrap();
    let mut client = Client::new(cluster.node(2).http, PATIENCE);
    let answer = client.ask("GET", "/v1/kv/acknowledged", &[], b"").unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(cluster.node(2).status().unwrap().role, "observer");

    // Given its place, it counts: it and one other are a majority. A command that is killed as soon
    // as it has told its plan may have brought about all of it or nothing: it is run again.
    let before = changes(&cluster);
    kill_once_planned(&binary, &["replace-disk", "2"], &at.join(","));
    let said = quorum(&binary, &["replace-disk", "2"], &at.join(","));
    let one_step = said.contains("step 1 done") && !said.contains("step 2");
    assert!(one_step || said.contains("nothing to do"), "{said}");
    assert!(!said.contains("does not replace disks"), "{said}");
    poll("the new disk to vote", PATIENCE, || {
        let role = cluster.node(2).status()?.role;
        ["follower", "leader"].contains(&role.as_str()).then_some(())
    })
    .unwrap();
    // Of three voters it takes two records (rule P80), which are one change to whoever counts.
    assert_eq!(changes(&cluster), before + 1);
    let again = quorum(&binary, &["replace-disk", "2"], &at.join(","));
    assert!(again.contains("nothing to do: node 2 votes"), "{again}");
    cluster.kill(3);
    assert_eq!(cluster.node(1).put("with-the-new-disk", Duration::from_secs(20)), Some(201));
    assert_eq!(cluster.ended_by_itself(), None);
    drop(cluster);
    std::fs::remove_dir_all(&root).unwrap();
}
