//! What the nodes of a quorum count is what was done to them: writes through a follower, changes of
//! voters, the spread of the high watermark, an election. Read by a parser that is not ours
//! (prometheus-parse).

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

use prometheus_parse::{Scrape, Value};
use quorate_processes::http::Client;
use quorate_processes::{Cluster, Profile, binary, poll};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const WRITES: usize = 30;

/// Of a node, by name; of a histogram the count.
struct Seen(BTreeMap<String, f64>);

impl Seen {
    fn at(cluster: &Cluster, id: u32) -> Option<Seen> {
        let mut client = Client::new(cluster.node(id).http, PATIENCE);
        let answer = client.ask("GET", "/metrics", &[], b"").ok()?;
        let text = String::from_utf8(answer.body.to_vec()).unwrap();
        let scrape = Scrape::parse(text.lines().map(|line| Ok(line.to_owned()))).unwrap();
        let samples = scrape.samples.into_iter().map(|sample| {
            let value = match sample.value {
                Value::Histogram(buckets) => buckets.last().unwrap().count,
                Value::Counter(value) | Value::Gauge(value) | Value::Untyped(value) => value,
                Value::Summary(_) => panic!("a summary: {}", sample.metric),
            };
            (sample.metric, value)
        });
        Some(Seen(samples.collect()))
    }

    fn of(&self, name: &str) -> f64 {
        let name = format!("quorate_{name}");
        *self.0.get(&name).unwrap_or_else(|| panic!("no {name} in {:#?}", self.0))
    }
}

/// Waits until a node shows this.
fn shows(cluster: &Cluster, id: u32, what: &str, fact: impl Fn(&Seen) -> bool) -> Seen {
    let mut last = None;
    let seen = poll(what, PATIENCE, || {
        last = Seen::at(cluster, id);
        last.as_ref().filter(|seen| fact(seen)).map(|_| ())
    });
    assert!(seen.is_ok(), "node {id}, {what}: {:#?}", last.map(|seen| seen.0));
    last.unwrap()
}

/// A command that goes on.
fn quorum(binary: &Path, cluster: &Cluster, arguments: &[&str]) -> Child {
    let at: Vec<String> = cluster.nodes().iter().map(|node| node.raft.to_string()).collect();
    let mut command = Command::new(binary);
    command.arg("quorum").args(arguments).args(["--bootstrap", &at.join(",")]);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn done(child: Child) {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn nodes_count_commits_changes_of_voters_and_elections() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("metrics");
    let _ = std::fs::remove_dir_all(&root);
    let binary = binary(Profile::Dev).unwrap();
    let mut cluster = Cluster::unformatted(&binary, &root, 4, &[]).unwrap();
    cluster.start_all().unwrap();
    cluster.wait_until_level(PATIENCE).unwrap();
    let seen = shows(&cluster, 2, "that it observes", |seen| seen.of("raft_is_observer") == 1.0);
    assert_eq!((seen.of("ready"), seen.of("raft_number_of_voters")), (1.0, 1.0));
    shows(&cluster, 1, "its observers", |seen| seen.of("raft_number_of_observers") == 3.0);

    // Voters.
    let at: Vec<String> = cluster.nodes().iter().map(|node| node.raft.to_string()).collect();
    let voters = format!("1,2@{},3@{}", at[1], at[2]);
    done(quorum(&binary, &cluster, &["alter", "--voters", &voters]));
    let seen = shows(&cluster, 1, "two changes", |seen| seen.of("voter_change_seconds") == 2.0);
    assert!(seen.of("voter_change_seconds_sum") > 0.0);
    assert_eq!(seen.of("raft_number_of_voters"), 3.0);
    assert_eq!(seen.of("raft_uncommitted_voter_change"), 0.0);

    // Writes, through a follower.
    let mut client = Client::new(cluster.node(2).http, PATIENCE);
    for number in 0..WRITES {
        let path = format!("/v1/kv/key-{number}?timeout=20000");
        assert_eq!(client.ask("PUT", &path, &[], b"value").unwrap().status, 201);
    }
    let follower = shows(&cluster, 2, "its writes", |s| s.of("write_seconds") == WRITES as f64);
    assert!(follower.of("raft_fetch_records_total") >= WRITES as f64);
    assert!(follower.of("log_sync_seconds") >= 1.0 && follower.of("apply_seconds") >= 1.0);
    assert_eq!(follower.of("commit_seconds"), 0.0, "it leads nobody");
    let leader = shows(&cluster, 1, "that the others know", |seen| {
        seen.of("high_watermark_propagation_seconds") >= WRITES as f64
    });
    assert_eq!(leader.of("write_seconds"), 0.0, "nobody asked the leader");
    // One write a batch, and what the follower's own session takes.
    assert!(leader.of("commit_seconds") >= WRITES as f64);
    assert!(leader.of("raft_append_records_total") >= WRITES as f64);
    assert!(leader.of("raft_poll_idle_seconds_total") > 0.0);

    // Somebody waits for a change.
    let directory = cluster.node(4).status().unwrap().directory;
    let silent = format!("4@{}:{directory}", at[3]);
    cluster.kill(4);
    let mut add = quorum(&binary, &cluster, &["add", &silent, "--timeout", "30"]);
    shows(&cluster, 1, "that one is to come", |seen| seen.of("raft_pending_add_voter") == 1.0);
    add.kill().unwrap();
    add.wait().unwrap();
    shows(&cluster, 1, "that none is", |seen| seen.of("raft_pending_add_voter") == 0.0);
    cluster.start(4).unwrap();
    cluster.kill(2);
    let mut remove = quorum(&binary, &cluster, &["remove", "3", "--timeout", "30"]);
    shows(&cluster, 1, "that one is to go", |seen| seen.of("raft_pending_remove_voter") == 1.0);
    remove.kill().unwrap();
    remove.wait().unwrap();
    shows(&cluster, 1, "that none is", |seen| seen.of("raft_pending_remove_voter") == 0.0);
    cluster.start(2).unwrap();
    cluster.wait_until_level(PATIENCE).unwrap();

    // Another one leads.
    cluster.kill(1);
    let leader = cluster.wait_for_leader(PATIENCE).unwrap();
    let seen = shows(&cluster, leader, "its election", |s| s.of("election_seconds") == 1.0);
    let sum = |part: &str| seen.of(&format!("{part}_seconds_sum"));
    for part in ["detection", "pre_vote", "vote", "first_commit"] {
        assert!(seen.of(&format!("election_{part}_seconds")) >= 1.0, "{part}");
    }
    assert!(sum("election") >= sum("election_detection") + sum("election_first_commit"));
    assert_eq!(seen.of("raft_current_leader"), f64::from(leader));
    assert_eq!(seen.of("raft_current_vote"), f64::from(leader));
    let other = if leader == 2 { 3 } else { 2 };
    let seen = shows(&cluster, other, "the leader", |seen| {
        seen.of("raft_current_leader") == f64::from(leader)
    });
    assert_eq!(seen.of("election_seconds"), 0.0, "it won none");
    assert_eq!(cluster.ended_by_itself(), None);
    drop(cluster);
    std::fs::remove_dir_all(&root).unwrap();
}
