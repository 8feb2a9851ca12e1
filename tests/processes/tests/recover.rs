//! `quorate recover` after disasters of real nodes: a majority that is gone, addresses that have
//! all changed, copies of different age, damage; and its refusals.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

use quorate_processes::http::Client;
use quorate_processes::{Cluster, Profile, binary, free_ports, poll};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const KEYS: usize = 20;
const LEAP: u64 = 1_000_000;

fn cluster(name: &str, nodes: u32, settings: &[&str]) -> Cluster {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&root);
    let mut cluster =
        Cluster::format(&binary(Profile::Dev).unwrap(), &root, nodes, settings).unwrap();
    cluster.start_all().unwrap();
    cluster.wait_until_level(PATIENCE).unwrap();
    cluster
}

fn data(cluster: &Cluster, node: u32) -> String {
    cluster.root().join(format!("node-{node}/data")).display().to_string()
}

fn log_of(cluster: &Cluster, node: u32) -> PathBuf {
    Path::new(&data(cluster, node)).join("__cluster_metadata-0/00000000000000000000.log")
}

/// Writes every key of a round; the newest version that was acknowledged.
fn put(cluster: &Cluster, node: u32, round: u8) -> u64 {
    let mut client = Client::new(cluster.node(node).http, PATIENCE);
    let mut newest = 0;
    for key in 0..KEYS {
        let value = format!("value {round} {}", "v".repeat(200));
        let answer = client.ask("PUT", &format!("/v1/kv/k{key}"), &[], value.as_bytes()).unwrap();
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
        newest = answer.version().unwrap();
    }
    newest
}

#[track_caller]
fn assert_all_there(cluster: &Cluster, node: u32, round: u8) {
    let mut client = Client::new(cluster.node(node).http, PATIENCE);
    for key in 0..KEYS {
        let answer = client.ask("GET", &format!("/v1/kv/k{key}"), &[], b"").unwrap();
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(answer.status == 200 && text.contains(&format!("value {round} ")), "{text:.200}");
    }
}

/// Exit code, stdout, stderr of `quorate recover`.
fn recover(arguments: &[&str]) -> (i32, String, String) {
    quorate(&[&["recover"], arguments].concat())
}

fn quorate(arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(binary(Profile::Dev).unwrap());
    let output = command.args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[track_caller]
fn refused(arguments: &[&str], says: &[&str]) {
    let (code, stdout, stderr) = recover(arguments);
    assert_ne!(code, 0, "{stdout}");
    for words in says {
        assert!(stderr.contains(words), "must say '{words}': {stderr}");
    }
}

#[track_caller]
fn planned(arguments: &[&str]) -> Value {
    let (code, stdout, stderr) = recover(&[arguments, &["--json"]].concat());
    assert_eq!(code, 0, "{stderr}");
    serde_json::from_str(&stdout).unwrap()
}

/// Every file of a directory but the lock, which says who looked last.
fn bytes(directory: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for folder in [PathBuf::from(directory), Path::new(directory).join("__cluster_metadata-0")] {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() && !path.ends_with(".lock") && !path.ends_with("quorate-reserve") {
                found.insert(path.clone(), std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn directory_id(directory: &str) -> String {
    let meta = std::fs::read_to_string(Path::new(directory).join("meta.properties")).unwrap();
    let line = meta.lines().find_map(|line| line.strip_prefix("directory.id="));
    line.unwrap().to_owned()
}

fn kill_all(cluster: &mut Cluster) {
    for id in 1..=3 {
        cluster.kill(id);
    }
}

/// Lines that win over those before them.
fn reconfigure(cluster: &Cluster, node: u32, lines: &str) {
    let file = cluster.root().join(format!("node-{node}/server.properties"));
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text + lines).unwrap();
}

#[test]
fn one_of_three_goes_on_alone_and_no_version_comes_twice() {
    let mut cluster = cluster("recover-one", 3, &[]);
    let leader = cluster.wait_for_leader(PATIENCE).unwrap();
    put(&cluster, leader, 0);
    cluster.wait_until_level(PATIENCE).unwrap();
    let (left, other) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    let (own, at) = (data(&cluster, left), cluster.node(left).raft);
    let voters = format!("{left}@{at}");
    let peers = format!("{},{}", cluster.node(leader).raft, cluster.node(other).raft);
    let go = ["--voters", &voters, "--peers", &peers, "--yes"];

    // It runs; then it does not, and the others do.
    refused(&[&[&*own], &go[..]].concat(), &["locked by pid"]);
    cluster.kill(left);
    let before = bytes(&own);
    refused(&[&[&*own], &go[..]].concat(), &["the quorum lives", &format!("node {leader} leads")]);
    // Acknowledged, and lost with those who have it.
    let lost = put(&cluster, leader, 1);
    kill_all(&mut cluster);

    refused(&[&own, "--voters", &voters, "--yes"], &["--peers", "--no-peers"]);
    refused(&[&own, "--no-peers", "--yes"], &["--voters", "HOST:PORT"]);
    refused(&[&own, "--no-peers", "--voters", &voters], &["--dry-run", "--yes"]);
    let elsewhere = format!("{other}@127.0.0.1:1:Qmy_DlauSqSmlsg-3MzqEw");
    refused(
        &[&own, "--no-peers", "--voters", &elsewhere],
        &[&format!("must name node {left}"), "--voters"],
    );
    let unknown = format!("{voters},{other}@127.0.0.1:1");
    refused(
        &[&own, "--no-peers", "--voters", &unknown],
        &[&format!("directory voter {other} has")],
    );
    let dry = planned(&[&[&*own], &go[..], &["--dry-run"]].concat());
    assert_eq!(bytes(&own), before, "nothing was changed so far");

    // Not enough room: no node starts on what that leaves, and the same command goes on.
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 200; exec \"$@\"", "sh"]);
    limited.arg(binary(Profile::Dev).unwrap()).args(["recover", &own]).args(go);
    let output = limited.output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    let file = cluster.root().join(format!("node-{left}/server.properties"));
    let (code, _, stderr) = quorate(&["run", &file.display().to_string()]);
    assert!(code == 1 && stderr.contains("`quorate recover` was cut short"), "{stderr}");

    let done = planned(&[&[&*own], &go[..]].concat());
    assert_eq!(done["continues"], dry["epoch"], "{done}");
    let end = dry["copies"][0]["logEnd"].as_u64().unwrap();
    assert_eq!((&done["lostFrom"], &dry["lostFrom"]), (&Value::from(end), &Value::from(end)));
    assert_eq!((&done["changed"], &dry["changed"]), (&Value::from(true), &Value::from(false)));
    assert!(lost >= end, "round 1 is what is lost: {lost}");
    let kept = done["kept"].as_array().unwrap();
    for copy in kept {
        let path = Path::new(&own).join(copy.as_str().unwrap());
        let original = path.with_extension("");
        let name = path.display().to_string();
        let original =
            name.rsplit_once(".before-epoch-").map_or(original, |(name, _)| PathBuf::from(name));
        assert_eq!(std::fs::read(&path).unwrap(), before[&original], "{name}");
    }
    assert!(kept.len() >= 4, "{kept:?}");

    cluster.start(left).unwrap();
    cluster.wait_for_leader(PATIENCE).unwrap();
    assert_all_there(&cluster, left, 0);
    let newest = put(&cluster, left, 2);
    assert!(newest > lost + LEAP / 2, "version {newest} after {lost}");
    let status = cluster.node(left).status().unwrap();
    let voters: Vec<u32> = status.voters.iter().map(|voter| voter.node).collect();
    assert_eq!(voters, [left]);
    let said = std::fs::read_to_string(cluster.node(left).log_file()).unwrap();
    assert!(said.contains(&format!("records from offset {end} on that only lost nodes had")));
    // And again, as often as it takes: from where it is now, with nothing lost.
    cluster.kill(left);
    let again = planned(&[&own, "--yes"]);
    assert_eq!(again["lostFrom"], Value::Null);
    cluster.start(left).unwrap();
    cluster.wait_for_leader(PATIENCE).unwrap();
    assert_all_there(&cluster, left, 2);

    // Then the lost ones come back, formatted anew, and it is three again.
    for id in [other, leader] {
        let servers = format!("controller.quorum.bootstrap.servers={at}");
        reconfigure(&cluster, id, &format!("\ncontroller.quorum.voters=\n{servers}\n"));
        cluster.forget(id).unwrap();
        cluster.start(id).unwrap();
        let voter = format!("{id}@{}", cluster.node(id).raft);
        let add = ["quorum", "add", &voter, "--bootstrap", &at.to_string()];
        let (code, stdout, stderr) = quorate(&add);
        assert_eq!(code, 0, "{stdout}{stderr}");
    }
    cluster.wait_until_level(PATIENCE).unwrap();
    cluster.kill(left);
    let next = cluster.wait_for_leader(PATIENCE).unwrap();
    assert_all_there(&cluster, next, 2);
    assert!(put(&cluster, next, 3) > newest);
}

#[test]
fn three_nodes_go_on_at_other_addresses_with_nothing_lost_and_once_more() {
    let mut cluster = cluster("recover-moved", 3, &[]);
    for round in 0..2 {
        let leader = cluster.wait_for_leader(PATIENCE).unwrap();
        put(&cluster, leader, round);
        kill_all(&mut cluster);
        let ports: Vec<String> = free_ports().take(3).map(|at| at.to_string()).collect();
        let copies: Vec<String> = (1..=3).map(|id| data(&cluster, id)).collect();
        let copies: Vec<&str> = copies.iter().map(String::as_str).collect();
        let voters: Vec<String> =
            ports.iter().zip(1..).map(|(at, id)| format!("{id}@{at}")).collect();
        let voters = voters.join(",");
        // Static voters at first, of which nothing on disk says where they are; then those in the
        // log.
        let peers: &[&str] = if round == 0 { &["--no-peers"] } else { &[] };
        let done = planned(&[&copies[..], &["--voters", &voters, "--yes"], peers].concat());
        assert_eq!(done["lostFrom"], Value::Null, "{done}");
        assert!(done["epoch"].as_u64().unwrap() < LEAP, "{done}");
        for (id, at) in (1..=3).zip(&ports) {
            let servers = ports.join(",");
            reconfigure(
                &cluster,
                id,
                &format!(
                    "\nlisteners=CONTROLLER://{at}\ncontroller.quorum.voters=\n\
                     controller.quorum.bootstrap.servers={servers}\n"
                ),
            );
        }
        cluster.start_all().unwrap();
        cluster.wait_until_level(PATIENCE).unwrap();
        (1..=3).for_each(|id| assert_all_there(&cluster, id, round));
        let status = cluster.node(1).status().unwrap();
        let found: Vec<String> = status
            .voters
            .iter()
            .map(|voter| format!("{}@{}", voter.node, voter.endpoint))
            .collect();
        assert_eq!(found.join(","), voters);
    }
    let leader = cluster.wait_for_leader(PATIENCE).unwrap();
    put(&cluster, leader, 2);
    // Whoever leads may fail again.
    cluster.kill(leader);
    let next = cluster.wait_for_leader(PATIENCE).unwrap();
    assert_all_there(&cluster, next, 2);
}

#[test]
fn the_newest_copy_counts_and_damage_only_where_there_is_nothing_better() {
    let mut cluster = cluster("recover-ages", 3, &[]);
    let leader = cluster.wait_for_leader(PATIENCE).unwrap();
    put(&cluster, leader, 0);
    cluster.wait_until_level(PATIENCE).unwrap();
    let (old, new) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    cluster.kill(old);
    put(&cluster, leader, 1);
    poll("the follower to have all", PATIENCE, || {
        let end = cluster.node(leader).status()?.log_end;
        (cluster.node(new).status()?.log_end == end).then_some(())
    })
    .unwrap();
    kill_all(&mut cluster);
    let of = |node: u32| data(&cluster, node);
    let voter =
        |id| format!("{id}@{}:{}", cluster.node(id).raft, directory_id(&data(&cluster, id)));
    let voters: Vec<String> = (1..=3).map(voter).collect();
    let voters = voters.join(",");
    let plan = |copies: &[&str], more: &[&str]| -> Vec<String> {
        let all = [copies, &["--voters", &voters, "--no-peers"], more].concat();
        all.into_iter().map(str::to_owned).collect()
    };
    let dry = |copies: &[&str], more: &[&str]| {
        let arguments = plan(copies, &[more, &["--dry-run"]].concat());
        planned(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let (older, newer, leaders) = (of(old), of(new), of(leader));

    let both = dry(&[&older, &newer, &leaders], &[]);
    assert!(both["use"] == newer.as_str() && both["lostFrom"] == Value::Null, "{both}");
    let same = format!("{older}/../data/");
    let told = dry(&[&older, &newer, &leaders], &["--use", &same]);
    assert_eq!(told["use"], Value::from(older.clone()));
    assert_eq!(told["lostFrom"], told["copies"][0]["logEnd"], "{told}");
    assert!(told["resumesAt"].as_u64() > both["resumesAt"].as_u64(), "no offset comes twice");
    let arguments = plan(&[&older], &["--use", &newer]);
    refused(
        &arguments.iter().map(String::as_str).collect::<Vec<_>>(),
        &["none of the directories"],
    );

    // Damage behind what the old copy has: what is right before it is more than that.
    let (first, second) =
        (std::fs::read(log_of(&cluster, old)).unwrap().len(), log_of(&cluster, new));
    let mut bytes = std::fs::read(&second).unwrap();
    let at = first + (bytes.len() - first) / 2;
    bytes[at] ^= 0x40;
    std::fs::write(&second, bytes).unwrap();
    let damaged = dry(&[&newer, &leaders], &[]);
    assert!(damaged["use"] == leaders.as_str(), "the whole one: {damaged}");
    let arguments = plan(&[&older, &newer], &["--dry-run"]);
    refused(
        &arguments.iter().map(String::as_str).collect::<Vec<_>>(),
        &["is damaged", "holds records that the other lacks", "--use"],
    );
    let only = dry(&[&newer], &[]);
    let end = only["copies"][0]["logEnd"].as_u64().unwrap();
    assert_eq!(only["lostFrom"].as_u64(), Some(end));
    assert_eq!(only["copies"][0]["damage"].as_array().unwrap().len(), 1, "{only}");

    // The damaged one, since a person says so; what is right before the damage goes on.
    let told = plan(&[&older, &newer], &["--use", &newer, "--yes"]);
    let told = planned(&told.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(told["lostFrom"].as_u64(), Some(end));
    cluster.start(old).unwrap();
    cluster.start(new).unwrap();
    let leads = cluster.wait_for_leader(PATIENCE).unwrap();
    assert_eq!(leads, new, "the other one lacks what was written");
    let version = put(&cluster, new, 2);
    assert!(version > end + LEAP / 2, "{version}");
    assert_all_there(&cluster, old, 2);
}

/// The log begins behind a snapshot, which knows nothing of the new voters; who joins copies it.
#[test]
fn a_log_that_begins_at_a_snapshot_is_recovered_and_copied() {
    let settings = [
        "quorate.cleanup.policy=delete",
        "metadata.log.max.record.bytes.between.snapshots=20000",
        "metadata.max.retention.bytes=0",
    ];
    let mut cluster = cluster("recover-trimmed", 3, &settings);
    let leader = cluster.wait_for_leader(PATIENCE).unwrap();
    poll("trimmed logs", PATIENCE, || {
        put(&cluster, leader, 0);
        let trimmed = |id| cluster.node(id).status().is_some_and(|status| status.log_start > 0);
        (1..=3).all(trimmed).then_some(())
    })
    .unwrap();
    cluster.wait_until_level(PATIENCE).unwrap();
    kill_all(&mut cluster);
    let (left, joins) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    let (own, at) = (data(&cluster, left), cluster.node(left).raft);
    let done = planned(&[&own, "--voters", &format!("{left}@{at}"), "--no-peers", "--yes"]);
    let committed = done["copies"][0]["committedAtLeast"].as_u64().unwrap();
    assert!(committed > 0 && done["lostFrom"].as_u64() >= Some(committed), "{done}");
    cluster.start(left).unwrap();
    cluster.wait_for_leader(PATIENCE).unwrap();
    assert_all_there(&cluster, left, 0);

    let servers = format!("controller.quorum.bootstrap.servers={at}");
    reconfigure(&cluster, joins, &format!("\ncontroller.quorum.voters=\n{servers}\n"));
    cluster.forget(joins).unwrap();
    cluster.start(joins).unwrap();
    let voter = format!("{joins}@{}", cluster.node(joins).raft);
    let (code, stdout, stderr) =
        quorate(&["quorum", "add", &voter, "--bootstrap", &at.to_string()]);
    assert_eq!(code, 0, "{stdout}{stderr}");
    put(&cluster, left, 1);
    assert_all_there(&cluster, joins, 1);
    let status = cluster.node(joins).status().unwrap();
    let mut voters: Vec<u32> = status.voters.iter().map(|voter| voter.node).collect();
    voters.sort_unstable();
    let mut expected = [left, joins];
    expected.sort_unstable();
    assert!(voters == expected && status.log_start > 0, "{status:?}");
}
