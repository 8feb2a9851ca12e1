//! Voters that the files name are moved into the log while the quorum runs; then a disk is
//! replaced, a voter removed, and what makes no sense is refused in words.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

use quorate_processes::{Cluster, Profile, binary, poll};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

struct Shell {
    binary: PathBuf,
}

impl Shell {
    /// What `quorate quorum …` prints; an error is what it says on stderr.
    fn quorum(&self, cluster: &Cluster, arguments: &[&str]) -> Result<String, String> {
        let nodes = cluster.nodes().iter().filter(|node| node.is_up());
        let urls: Vec<String> = nodes.map(|node| format!("http://{}", node.http)).collect();
        let output = Command::new(&self.binary)
            .arg("quorum")
            .args(arguments)
            .args(["--http", &urls.join(",")])
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(text(&output.stderr)),
        }
    }
}

fn put(cluster: &Cluster, through: u32, key: &str) {
    let status = cluster.node(through).put(key, PATIENCE);
    assert!(status.is_some_and(|status| status < 300), "{status:?}");
}

fn role(cluster: &Cluster, id: u32, wanted: &[&str]) {
    let mut last = String::new();
    let seen = poll("a role", PATIENCE, || {
        last = cluster.node(id).status()?.role;
        wanted.contains(&last.as_str()).then_some(())
    });
    assert!(seen.is_ok(), "node {id} is {last}, not one of {wanted:?}");
}

#[test]
fn voters_move_into_the_log_and_a_disk_is_replaced() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("voters");
    let _ = std::fs::remove_dir_all(&root);
    let binary = binary(Profile::Dev).unwrap();
    let mut cluster = Cluster::format(&binary, &root, 3, &[]).unwrap();
    cluster.start_all().unwrap();
    cluster.wait_until_level(PATIENCE).unwrap();
    put(&cluster, 1, "first");
    let shell = Shell { binary: binary.clone() };

    let why = shell.quorum(&cluster, &["remove", "3"]).unwrap_err();
    assert!(why.contains("static (kraft.version 0)"), "{why}");
    let said = shell.quorum(&cluster, &["upgrade", "--dry-run"]).unwrap();
    assert!(said.contains("nothing was changed"), "{said}");
    let said = shell.quorum(&cluster, &["upgrade"]).unwrap();
    assert!(said.contains("the log names the voters from now on"), "{said}");
    let said = shell.quorum(&cluster, &["upgrade"]).unwrap();
    assert!(said.contains("nothing to do"), "{said}");

    // The disk of a follower is replaced: the new directory has no vote until it is told to.
    let leader = cluster.leader().unwrap();
    let victim = leader % 3 + 1;
    cluster.kill(victim);
    cluster.forget(victim).unwrap();
    put(&cluster, leader, "second");
    cluster.start(victim).unwrap();
    role(&cluster, victim, &["observer"]);
    let id = victim.to_string();
    let plan = shell.quorum(&cluster, &["replace-disk", &id, "--dry-run"]).unwrap();
    assert!(plan.contains("step 1: replace the disk") && !plan.contains("step 2"), "{plan}");
    let done = shell.quorum(&cluster, &["replace-disk", &id]).unwrap();
    assert!(done.contains("step 1 done"), "{done}");
    role(&cluster, victim, &["follower", "leader"]);
    let again = shell.quorum(&cluster, &["replace-disk", &id]).unwrap();
    assert!(again.contains("nothing to do"), "{again}");

    // It counts from now on: without another one, it is needed.
    let other = (1..=3).find(|id| *id != leader && *id != victim).unwrap();
    cluster.kill(other);
    put(&cluster, victim, "third");
    // And with one of three away, nobody else may go.
    let why = shell.quorum(&cluster, &["remove", &id, "--timeout", "2"]).unwrap_err();
    assert!(why.contains("nothing could be committed") || why.contains("follow"), "{why}");
    let done = shell.quorum(&cluster, &["remove", &other.to_string()]).unwrap();
    // The nodes' own logs tell who was asked for and who counts.
    let leader = cluster.leader().unwrap();
    let log = std::fs::read_to_string(cluster.node(leader).log_file()).unwrap();
    assert!(log.contains("asked to remove a voter"), "{log}");
    assert!(log.contains("other voters count from now on"), "{log}");
    assert!(done.contains("step 1 done"), "{done}");
    put(&cluster, leader, "fourth");

    assert_eq!(cluster.ended_by_itself(), None);
    drop(cluster);
    std::fs::remove_dir_all(&root).unwrap();
}
