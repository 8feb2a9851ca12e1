//! The names of the log are settings: a quorum forms and serves under the topic, the topic id and
//! the cluster id of Kafka's raft benchmark, as it does under its own.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

mod support;

use quorate::{Consistency, Embedded, Kv, Session, Sessioned, Span, format, random_uuid, settings};
use quorate_base::{Offset, Uuid};
use quorate_log::{Meta, OsDisk, read_topic};
use quorate_machine::kv::{Condition, Query, Reply, Write};
use quorate_node::config::Config;
use std::net::TcpListener;
use support::Scratch;

const PATIENCE: Span = Span::ms(20_000);
const ZERO: &str = "AAAAAAAAAAAAAAAAAAAAAA";
const LINES: &str =
    "quorate.topic=__raft_performance_test\nquorate.topic.id=AAAAAAAAAAAAAAAAAAAAAg\n";

/// Three property files of one quorum, read.
fn configs(scratch: &Scratch, lines: &str) -> Vec<Config> {
    // Freed again before the nodes bind them; nothing else takes them meanwhile.
    let held: Vec<_> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let at: Vec<_> = held.iter().map(|listener| listener.local_addr().unwrap()).collect();
    let voters: Vec<_> = (1..).zip(&at).map(|(id, at)| format!("{id}@{at}")).collect();
    let config = |id: usize| {
        let data = scratch.0.join(format!("node-{id}"));
        let text = format!(
            "node.id={id}\nlog.dirs={}\nlisteners=CONTROLLER://{}\ncontroller.quorum.voters={}\n{lines}",
            data.display(),
            at[id - 1],
            voters.join(",")
        );
        settings::read(&text, &[]).unwrap().config
    };
    (1..=3).map(config).collect()
}

#[test]
fn a_quorum_serves_under_the_names_of_kafkas_raft_benchmark() {
    let scratch = Scratch::new("names");
    let configs = configs(&scratch, LINES);
    let start = |config: &Config| {
        assert_eq!(format(config, Some(ZERO)).unwrap().cluster, ZERO);
        Embedded::start(config.clone(), Sessioned::new(Kv::new())).unwrap()
    };
    let nodes: Vec<_> = configs.iter().map(start).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let written = runtime.block_on(async {
        let ttl = Span::ms(60_000);
        let mut session = Session::open(&nodes[0].handle(), ttl, PATIENCE).await.unwrap();
        let put = Write::Put { key: b"key", value: b"value", condition: Condition::Always };
        session.write(&nodes[1].handle(), put.encode().unwrap(), PATIENCE).await.unwrap();
        let query = Query::Get { key: "key".into() };
        let read = nodes[2].handle().read(query, Consistency::Linearizable, PATIENCE).await;
        let Reply::Get(Some(found)) = read.unwrap().0 else { panic!("the key is not there") };
        assert_eq!(found.value, "value");
        for node in &nodes {
            assert_eq!(node.handle().status().await.unwrap().cluster, ZERO);
        }
        found.version
    });
    assert!(written > Offset(0));
    for node in nodes {
        node.stop().unwrap();
    }
    for config in &configs {
        let mut disk = OsDisk::new(&config.directory);
        assert_eq!(Meta::read(&mut disk).unwrap().cluster, ZERO);
        let id = read_topic(&mut disk, "__raft_performance_test-0").unwrap();
        assert_eq!(id, Uuid(2u128.to_be_bytes()));
        assert!(!config.directory.join("__cluster_metadata-0").exists());
    }
}

#[test]
fn a_directory_of_another_topic_or_topic_id_is_refused() {
    let scratch = Scratch::new("other_names");
    let ours = configs(&scratch, LINES).remove(0);
    format(&ours, Some(&random_uuid().unwrap().to_string())).unwrap();
    let start = |config: Config| {
        let started = Embedded::start(config, Sessioned::new(Kv::new()));
        started.err().expect("it does not start").to_string()
    };
    let other_id = start(Config { topic_id: Uuid::METADATA_TOPIC, ..ours.clone() });
    assert!(other_id.contains("AAAAAAAAAAAAAAAAAAAAAg"), "{other_id}");
    let other_topic = start(Config { topic: "another".into(), ..ours });
    assert!(other_topic.contains("another-0"), "{other_topic}");
}
