//! Kafka's `kafka-metadata-quorum add-controller` and `remove-controller` change the voters of a
//! quorum of ours, and print why where that is refused.

use super::directories::quorate;
use crate::scenario::{Failure, PATIENCE, Stage, ensure};
use quorate_processes::http::Client;
use quorate_processes::{Cluster, poll};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

const TOOL: &str = "org.apache.kafka.tools.MetadataQuorumCommand";

/// One voter at first; two are added, and the first is removed while it leads.
pub fn by_kafkas_tool(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    let mut cluster = Cluster::found(&stage.binary, directory, 3, &[])?;
    cluster.start_all()?;
    cluster.wait_until_level(PATIENCE)?;
    let raft: Vec<SocketAddr> = cluster.nodes().iter().map(|node| node.raft).collect();
    let through = |id: u32| raft[id as usize - 1].to_string();
    // What the tool reads of the node that is to be added: Kafka's file of it.
    let config = |id: u32| -> Result<String, Failure> {
        let data = directory.join(format!("node-{id}/data"));
        let text = format!(
            "process.roles=controller\nnode.id={id}\nlog.dirs={}\nlisteners=CONTROLLER://{}\n\
             controller.listener.names=CONTROLLER\n",
            data.display(),
            through(id)
        );
        let file = directory.join(format!("tool-{id}.properties"));
        std::fs::write(&file, text)?;
        Ok(file.display().to_string())
    };
    let add = |id: u32, at: u32| {
        let file = config(id)?;
        let arguments =
            ["--command-config", &file, "--bootstrap-controller", &through(at), "add-controller"];
        stage.kafka.run(TOOL, &arguments)
    };
    let remove = |id: u32, directory: &str, at: u32| {
        let id = id.to_string();
        let arguments = ["--controller-id", &id, "--controller-directory-id", directory];
        let start = ["--bootstrap-controller", &through(at), "remove-controller"];
        stage.kafka.run(TOOL, &[&start[..], &arguments].concat())
    };
    put(&cluster, 1, "one")?;
    add(2, 1)?;
    voters(&cluster, 1, &[1, 2])?;
    // Through a node that does not lead the tool finds the leader.
    add(3, 2)?;
    voters(&cluster, 1, &[1, 2, 3])?;
    put(&cluster, 3, "two")?;

    let refused = add(3, 1).err().map(|Failure(why)| why).unwrap_or_default();
    ensure(refused.contains("include node 3 already"), || {
        format!("why node 3 is not added twice: {refused}")
    })?;
    let stranger = "HOMSeQ3sRdu175j0Wb8niA";
    let refused = remove(2, stranger, 1).err().map(|Failure(why)| why).unwrap_or_default();
    ensure(refused.contains("with another directory"), || {
        format!("why a directory that does not vote is not removed: {refused}")
    })?;

    let own = meta(&directory.join("node-1/data"))?;
    remove(1, &own, 2)?;
    voters(&cluster, 2, &[2, 3])?;
    put(&cluster, 1, "three")?;
    let leader = cluster.wait_until_level(PATIENCE)?;
    ensure(leader != 1, || "a removed node leads".into())?;
    for (key, id) in [("one", 3), ("two", 1), ("three", 2)] {
        let mut client = Client::new(cluster.node(id).http, PATIENCE);
        let answer = client.ask("GET", &format!("/v1/kv/{key}"), &[], b"");
        let answer = answer.map_err(|silence| Failure(silence.to_string()))?;
        ensure(answer.status == 200, || format!("{key} is lost: {}", answer.status))?;
    }
    Ok(())
}

/// Kafka's feature tool moves static voters into the log; then one of them can be removed.
pub fn upgraded(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    let mut cluster = Cluster::format(&stage.binary, directory, 3, &[])?;
    cluster.start_all()?;
    cluster.wait_until_level(PATIENCE)?;
    put(&cluster, 1, "before")?;
    let at = cluster.node(2).raft.to_string();
    let feature = |level: &str| {
        let arguments = ["--bootstrap-controller", &at, "upgrade", "--feature", level];
        stage.kafka.run("org.apache.kafka.tools.FeatureCommand", &arguments)
    };
    let refused = feature("kraft.version=2").err().map(|Failure(why)| why).unwrap_or_default();
    ensure(refused.contains("does not know 2"), || format!("why not 2: {refused}"))?;
    // Each voter tells the leader of itself within some seconds.
    let mut said = String::new();
    let done = poll("kraft.version to be 1", PATIENCE, || match feature("kraft.version=1") {
        Ok(_) => Some(()),
        Err(Failure(why)) => {
            said = why;
            None
        }
    });
    done.map_err(|late| Failure(format!("{late}: {said}")))?;
    // A new store of ours is at the newest level; the tool shows that and why it is no other.
    let arguments = ["--bootstrap-controller", &at, "describe"];
    let told = stage.kafka.run("org.apache.kafka.tools.FeatureCommand", &arguments)?;
    let level = told.lines().find(|line| line.contains("quorate.format")).unwrap_or_default();
    ensure(level.contains("FinalizedVersionLevel: 1"), || format!("the level: {told}"))?;
    feature("quorate.format=1")?;
    let refused = feature("quorate.format=2").err().map(|Failure(why)| why).unwrap_or_default();
    ensure(refused.contains("its newest is 1"), || format!("why not 2: {refused}"))?;
    let servers: Vec<String> = cluster.nodes().iter().map(|node| node.raft.to_string()).collect();
    quorate(stage, &["quorum", "remove", "3", "--bootstrap", &servers.join(",")])?;
    voters(&cluster, 1, &[1, 2])?;
    put(&cluster, 3, "after")?;
    // What the log says counts at the next start, not the files.
    for id in 1..=3 {
        cluster.kill(id);
    }
    cluster.start_all()?;
    cluster.wait_until_level(PATIENCE)?;
    voters(&cluster, 3, &[1, 2])?;
    put(&cluster, 2, "later")
}

fn put(cluster: &Cluster, through: u32, key: &str) -> Result<(), Failure> {
    let mut client = Client::new(cluster.node(through).http, PATIENCE);
    let answer = client.ask("PUT", &format!("/v1/kv/{key}?timeout=10000"), &[], b"value");
    let answer = answer.map_err(|silence| Failure(silence.to_string()))?;
    ensure(answer.status < 300, || format!("a write of {key} is answered {}", answer.status))
}

/// Waits until this node knows exactly these voters.
fn voters(cluster: &Cluster, id: u32, expected: &[u32]) -> Result<(), Failure> {
    let mut last = Vec::new();
    let seen = poll("the voters to change", Duration::from_secs(30), || {
        last = cluster.node(id).status()?.voters.iter().map(|voter| voter.node).collect();
        (last == expected).then_some(())
    });
    seen.map_err(|late| Failure(format!("{late}: {last:?}, not {expected:?}")))
}

/// `directory.id` of a data directory.
fn meta(data: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(data.join("meta.properties"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("directory.id="));
    Ok(line.unwrap_or_default().to_owned())
}
