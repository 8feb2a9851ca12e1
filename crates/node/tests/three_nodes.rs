//! Three real nodes in this process: sockets, files, threads. They elect, take writes through any
//! node, lose the leader, and go on.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

use quorate_base::{ReplicaId, Span, Uuid};
use quorate_log::{Meta, OsDisk};
use quorate_machine::kv::{Condition, Outcome, Query, Reply, Write};
use quorate_machine::{Answer, Kv, Request, Sessioned};
use quorate_node::config::{Config, HostPort, Voter};
use quorate_node::handle::{Consistency, Handle};
use quorate_node::runtime::Node;
use quorate_node::status::Status;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

type Store = Sessioned<Kv>;
const PATIENCE: Span = Span::ms(20_000);

struct Running {
    handle: Handle<Store>,
    thread: JoinHandle<()>,
}

fn config(id: u32, root: &Path, ports: &[u16]) -> Config {
    let at = |port| HostPort { host: "127.0.0.1".into(), port };
    let voters =
        (1..).zip(ports).map(|(id, port)| Voter { id: ReplicaId(id), at: at(*port) }).collect();
    let bind = at(ports[id as usize - 1]);
    Config::new(Some(ReplicaId(id)), root.join(id.to_string()), voters, bind)
}

fn run(config: Config) -> Running {
    let (tell, told) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let node = Node::open(config, Sessioned::new(Kv::new())).await.unwrap();
            tell.send(node.handle()).unwrap();
            node.run().await.unwrap();
        });
    });
    Running { handle: told.recv().unwrap(), thread }
}

async fn put(handle: &Handle<Store>, key: &str, value: &str) -> Outcome {
    let write =
        Write::Put { key: key.as_bytes(), value: value.as_bytes(), condition: Condition::Always };
    let answer = handle.write(Request::write(write.encode().unwrap()), PATIENCE).await.unwrap();
    let Answer::Done(bytes) = &answer else { panic!("{answer:?}") };
    Outcome::decode(bytes).unwrap()
}

async fn get(handle: &Handle<Store>, key: &str) -> Option<Vec<u8>> {
    let query = Query::Get { key: key.as_bytes().to_vec().into() };
    let (reply, _) = handle.read(query, Consistency::Linearizable, PATIENCE).await.unwrap();
    let Reply::Get(found) = reply else { panic!("{reply:?}") };
    found.map(|found| found.value.to_vec())
}

async fn leader(nodes: &[Running]) -> usize {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        for (index, node) in nodes.iter().enumerate() {
            let status = node.handle.status().await.unwrap();
            if status.role == "leader" && status.ready {
                return index;
            }
        }
        assert!(Instant::now() < deadline, "no leader was elected");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until the node has given up waiting for its leader.
async fn silence(handle: &Handle<Store>) -> Status {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let status = handle.status().await.unwrap();
        if let Some(why) = &status.not_ready_because
            && why.contains("the leader does not answer")
        {
            return status;
        }
        assert!(Instant::now() < deadline, "{status:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn any_node_takes_requests_and_a_lost_leader_is_replaced() {
    let root = std::env::temp_dir().join(format!("quorate-three-nodes-{}", std::process::id()));
    // Freed again before the nodes bind them; nothing else on a test machine takes them meanwhile.
    let held: Vec<_> =
        (0..3).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let ports: Vec<u16> =
        held.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
    drop(held);
    for id in 1..=3 {
        let config = config(id, &root, &ports);
        std::fs::create_dir_all(&config.directory).unwrap();
        let directory = Uuid::from_random([id as u8; 16]).unwrap();
        let meta = Meta { cluster: "test".into(), node: ReplicaId(id), directory: Some(directory) };
        let mut disk = OsDisk::new(&config.directory);
        quorate_log::format(&mut disk, "__cluster_metadata-0", &meta, config.topic_id).unwrap();
    }
    let mut nodes: Vec<Running> = (1..=3).map(|id| run(config(id, &root, &ports))).collect();

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let first = leader(&nodes).await;
        for (index, node) in nodes.iter().enumerate() {
            put(&node.handle, &format!("key-{index}"), "value").await;
        }
        for node in &nodes {
            for index in 0..3 {
                assert_eq!(
                    get(&node.handle, &format!("key-{index}")).await.as_deref(),
                    Some(&b"value"[..])
                );
            }
        }
        let lost = nodes.remove(first);
        lost.handle.shutdown();
        lost.thread.join().unwrap();
        for node in &nodes {
            put(&node.handle, "after", "the leader left").await;
            assert_eq!(get(&node.handle, "after").await.as_deref(), Some(&b"the leader left"[..]));
        }
        // A follower that comes back to silence keeps the leader's name, and cannot serve.
        let ids: Vec<u32> = (1..=3).filter(|id| *id as usize != first + 1).collect();
        let second = leader(&nodes).await;
        let follower = nodes.remove(1 - second);
        follower.handle.shutdown();
        follower.thread.join().unwrap();
        for node in nodes {
            node.handle.shutdown();
            node.thread.join().unwrap();
        }
        let alone = run(config(ids[1 - second], &root, &ports));
        let status = silence(&alone.handle).await;
        assert_eq!(status.leader, Some(ids[second]));
        alone.handle.shutdown();
        alone.thread.join().unwrap();
    });
    std::fs::remove_dir_all(&root).unwrap();
}
