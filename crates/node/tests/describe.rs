//! What Kafka's tools ask of a node, answered as Kafka answers: field by field, in every version.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

use quorate_base::{ReplicaId, Span, Uuid};
use quorate_log::{Meta, OsDisk};
use quorate_machine::kv::{Condition, Write as KvWrite};
use quorate_machine::{Kv, Request, Sessioned};
use quorate_node::WRITE_BYTES_MAX;
use quorate_node::config::{Config, HostPort, Voter};
use quorate_node::handle::Error;
use quorate_node::runtime::Node;

use quorate_wire::message::{
    CONTROLLERS, DescribeClusterRequest, DescribeClusterResponse, DescribeQuorumRequest,
    DescribeQuorumRequestPartition, DescribeQuorumResponse, Message, Topic,
};
use quorate_wire::{ApiKey, ErrorCode, RequestHeader, ResponseFrame, encode_request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn ask<M: Message, A: Message>(stream: &mut TcpStream, message: M, version: i16) -> A {
    let header = RequestHeader::new(M::API, version, 7, Some("tool".into()));
    let frame = encode_request(header, message).unwrap().into_payload();
    stream.write_i32(frame.len() as i32).await.unwrap();
    stream.write_all(&frame).await.unwrap();
    let mut answer = vec![0; stream.read_i32().await.unwrap() as usize];
    stream.read_exact(&mut answer).await.unwrap();
    ResponseFrame::parse(answer.into()).unwrap().decode(version).unwrap()
}

fn about(topic: &str) -> DescribeQuorumRequest {
    let partitions = vec![DescribeQuorumRequestPartition::default()];
    let topics = vec![Topic { topic_name: topic.into(), partitions, tags: Vec::new() }];
    DescribeQuorumRequest { topics, ..DescribeQuorumRequest::default() }
}

async fn judge(stream: &mut TcpStream, end: i64) {
    for version in 0..=ApiKey::DescribeQuorum.newest() {
        let answer: DescribeQuorumResponse =
            ask(stream, about("__cluster_metadata"), version).await;
        // Where nothing is wrong Kafka sends no null, see the recorded frames of the codec's tests.
        let nothing = (version >= 2).then(String::new);
        assert_eq!((answer.error_code, &answer.error_message), (ErrorCode::None, &nothing));
        let partition = &answer.topics[0].partitions[0];
        assert_eq!((partition.error_code, &partition.error_message), (ErrorCode::None, &nothing));
        assert_eq!((partition.leader_id, partition.leader_epoch), (1, 1));
        assert_eq!(partition.high_watermark, end);
        let [voter] = &partition.current_voters[..] else { panic!("{partition:?}") };
        assert_eq!((voter.replica_id, voter.log_end_offset), (1, end));
        assert_eq!(voter.last_fetch_timestamp > 1_700_000_000_000, version >= 1, "{voter:?}");
        assert_eq!(answer.nodes.len(), usize::from(version >= 2));

        let answer: DescribeQuorumResponse = ask(stream, about("another"), version).await;
        let partition = &answer.topics[0].partitions[0];
        assert_eq!(partition.error_code, ErrorCode::UnknownTopicOrPartition);
        assert_eq!(partition.error_message.is_some(), version >= 2);
    }
    for version in 1..=ApiKey::DescribeCluster.newest() {
        let ask_for = DescribeClusterRequest {
            endpoint_type: CONTROLLERS,
            ..DescribeClusterRequest::default()
        };
        let answer: DescribeClusterResponse = ask(stream, ask_for, version).await;
        assert_eq!((answer.error_code, answer.error_message), (ErrorCode::None, None));
        assert_eq!((answer.cluster_id.as_str(), answer.controller_id), ("ours", 1));
        assert_eq!(answer.brokers.len(), 1);
    }
}

#[test]
fn b122_a_leader_describes_its_quorum_and_refuses_what_is_too_large_alone() {
    let directory = std::env::temp_dir().join(format!("quorate-describe-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let at = |port| HostPort { host: "127.0.0.1".into(), port };
    let voters = vec![Voter { id: ReplicaId(1), at: at(1) }];
    let config = Config::new(Some(ReplicaId(1)), directory.clone(), voters, at(0));
    let meta =
        Meta { cluster: "ours".into(), node: ReplicaId(1), directory: Uuid::from_random([1; 16]) };
    let mut disk = OsDisk::new(&directory);
    quorate_log::format(&mut disk, "__cluster_metadata-0", &meta, config.topic_id).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let node = Node::open(config, Sessioned::new(Kv::new())).await.unwrap();
        let (address, handle) = (node.address(), node.handle());
        let judged = async {
            let put = KvWrite::Put { key: b"key", value: b"value", condition: Condition::Always };
            let put = Request::write(put.encode().unwrap());
            handle.write(put, Span::ms(20_000)).await.unwrap();
            // T30: one that is too large costs nothing but itself.
            let large = Request::write(vec![0; WRITE_BYTES_MAX + 1]);
            let refused = handle.write(large, Span::ms(20_000)).await;
            assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
            // The leader's record, the level and the key.
            let mut stream = TcpStream::connect(address).await.unwrap();
            judge(&mut stream, 3).await;
            handle.shutdown();
        };
        let (ended, ()) = tokio::join!(node.run(), judged);
        ended.unwrap();
    });
    std::fs::remove_dir_all(&directory).unwrap();
}
