//! `quorate quorum resign` on processes: another node leads, and nothing that was acknowledged is
//! lost or told as unknown on the way.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

use quorate_processes::http::Client;
use quorate_processes::{Cluster, Profile, binary};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// Exit code, and all that it printed.
fn resign(binary: &Path, nodes: &[String]) -> (bool, String) {
    let output = Command::new(binary)
        .args(["quorum", "resign", "--http", &nodes.join(",")])
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

#[test]
fn leadership_moves_under_load_and_no_write_is_in_doubt() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("handing-over");
    let _ = std::fs::remove_dir_all(&root);
    let binary = binary(Profile::Dev).unwrap();
    let mut cluster = Cluster::format(&binary, &root, 3, &[]).unwrap();
    cluster.start_all().unwrap();
    let mut leader = cluster.wait_until_level(PATIENCE).unwrap();
    let nodes: Vec<String> =
        cluster.nodes().iter().map(|node| format!("http://{}", node.http)).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = cluster
            .nodes()
            .iter()
            .map(|node| {
                let (at, id, done) = (node.http, node.id, &done);
                scope.spawn(move || {
                    let mut client = Client::new(at, PATIENCE);
                    let mut written = 0_u32;
                    while !done.load(Ordering::Relaxed) {
                        let path = format!("/v1/kv/{id}-{written}?timeout=30000");
                        let answer = client.ask("PUT", &path, &[], b"v").unwrap();
                        let text = String::from_utf8_lossy(&answer.body).into_owned();
                        assert_eq!(answer.status, 201, "{id}-{written}: {text}");
                        written += 1;
                    }
                    written
                })
            })
            .collect();
        for _ in 0..5 {
            let (ok, said) = resign(&binary, &nodes);
            assert!(ok && said.contains(&format!("node {leader} has handed over")), "{said}");
            let next = cluster.wait_for_leader(PATIENCE).unwrap();
            assert!(next != leader && said.contains(&format!("node {next} leads")), "{said}");
            leader = next;
        }
        done.store(true, Ordering::Relaxed);
        for (writer, id) in writers.into_iter().zip(1..) {
            let written = writer.join().unwrap();
            assert!(written > 0);
            let mut client = Client::new(cluster.node(leader).http, PATIENCE);
            for at in 0..written {
                let answer = client.ask("GET", &format!("/v1/kv/{id}-{at}"), &[], b"").unwrap();
                assert_eq!(answer.status, 200, "{id}-{at} of {written}");
            }
        }
    });
    // Who does not lead says who does.
    let other = cluster.nodes().iter().find(|node| node.id != leader).unwrap();
    let mut client = Client::new(other.http, PATIENCE);
    let answer = client.ask("POST", "/v1/quorum/resign", &[], b"").unwrap();
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(answer.status == 409 && text.contains(&format!("node {leader} does")), "{text}");
    let (ok, said) = resign(&binary, &[format!("http://{}", other.http)]);
    assert!(!ok && said.contains(&format!("node {leader} leads")), "{said}");
    assert_eq!(cluster.ended_by_itself(), None);
    drop(cluster);
    std::fs::remove_dir_all(&root).unwrap();
}

#[test]
fn the_only_voter_has_nobody_to_hand_over_to() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("handing-over-alone");
    let _ = std::fs::remove_dir_all(&root);
    let binary = binary(Profile::Dev).unwrap();
    let mut cluster = Cluster::format(&binary, &root, 1, &[]).unwrap();
    cluster.start_all().unwrap();
    cluster.wait_until_level(PATIENCE).unwrap();
    let before = cluster.node(1).status().unwrap();
    let (ok, said) = resign(&binary, &[format!("http://{}", cluster.node(1).http)]);
    assert!(!ok && said.contains("this node is the only voter"), "{said}");
    let after = cluster.node(1).status().unwrap();
    assert_eq!((after.role.as_str(), after.epoch), ("leader", before.epoch));
    drop(cluster);
    std::fs::remove_dir_all(&root).unwrap();
}
