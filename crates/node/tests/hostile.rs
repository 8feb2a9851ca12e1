//! Bytes from anyone who can connect: each is answered as Kafka answers it or the connection is
//! closed, and the node goes on serving everybody else.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

use quorate_base::{ReplicaId, Rng, Span, Uuid};
use quorate_log::{Meta, OsDisk};
use quorate_machine::kv::{Condition, Write as KvWrite};
use quorate_machine::{Answer, Kv, Request, Sessioned};
use quorate_node::config::{Config, HostPort, Voter};
use quorate_node::handle::Handle;
use quorate_node::runtime::Node;
use quorate_wire::message::{
    ApiVersionsRequest, ApiVersionsResponse, FetchRequest, FetchRequestPartition, FetchResponse,
    FetchTopic, Topic, VoteRequest, VoteRequestPartition, VoteResponse,
};
use quorate_wire::{ApiKey, ErrorCode, RequestHeader, ResponseFrame, encode_request};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;

struct Server {
    address: SocketAddr,
    handle: Handle<Sessioned<Kv>>,
    thread: JoinHandle<()>,
    directory: PathBuf,
}

/// One node that is its own quorum.
fn serve(name: &str) -> Server {
    let directory =
        std::env::temp_dir().join(format!("quorate-hostile-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let at = |port| HostPort { host: "127.0.0.1".into(), port };
    let voters = vec![Voter { id: ReplicaId(1), at: at(1) }];
    let config = Config::new(Some(ReplicaId(1)), directory.clone(), voters, at(0));
    let meta =
        Meta { cluster: "ours".into(), node: ReplicaId(1), directory: Uuid::from_random([1; 16]) };
    quorate_log::format(
        &mut OsDisk::new(&directory),
        "__cluster_metadata-0",
        &meta,
        config.topic_id,
    )
    .unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let node = Node::open(config, Sessioned::new(Kv::new())).await.unwrap();
            tell.send((node.address(), node.handle())).unwrap();
            node.run().await.unwrap();
        });
    });
    let (address, handle) = told.recv().unwrap();
    Server { address, handle, thread, directory }
}

impl Server {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Sends bytes and says whether the node closed the connection without an answer.
    fn is_closed_by(&self, bytes: &[u8]) -> bool {
        let mut stream = self.connect();
        // The node may close before it has all.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Ok(_) => answer.is_empty(),
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    fn still_serves(&self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let write = KvWrite::Put { key: b"key", value: b"value", condition: Condition::Always }
            .encode()
            .unwrap();
        let answer =
            runtime.block_on(self.handle.write(Request::write(write), Span::ms(20_000))).unwrap();
        assert!(matches!(answer, Answer::Done(_)), "{answer:?}");
    }

    fn stop(self) {
        let directory = self.stop_and_keep();
        std::fs::remove_dir_all(directory).unwrap();
    }

    fn stop_and_keep(self) -> PathBuf {
        self.handle.shutdown();
        self.thread.join().unwrap();
        self.directory
    }
}

fn frame(payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as i32).to_be_bytes()[..], payload].concat()
}

fn request<M: quorate_wire::message::Message>(message: M, version: i16) -> Vec<u8> {
    let header = RequestHeader::new(M::API, version, 7, Some("test".into()));
    frame(&encode_request(header, message).unwrap().into_payload())
}

fn answer(stream: &mut TcpStream) -> ResponseFrame {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut payload = vec![0; i32::from_be_bytes(length) as usize];
    stream.read_exact(&mut payload).unwrap();
    let response = ResponseFrame::parse(payload.into()).unwrap();
    assert_eq!(response.correlation_id, 7);
    response
}

#[test]
fn what_is_no_request_closes_its_connection_and_disturbs_nobody() {
    let server = serve("garbage");
    server.still_serves();
    let unknown_api = frame(&[0x4e, 0x20, 0, 0, 0, 0, 0, 7, 0xff, 0xff]);
    let unknown_version = frame(&[0, 52, 0, 99, 0, 0, 0, 7, 0xff, 0xff, 0]);
    let cut_body = frame(&[0, 52, 0, 2, 0, 0, 0, 7, 0xff, 0xff, 0, 5]);
    let trailing = {
        let mut vote = request(VoteRequest::default(), 2);
        vote.push(0);
        let length = (vote.len() as i32 - 4).to_be_bytes();
        vote[..4].copy_from_slice(&length);
        vote
    };
    for (what, bytes) in [
        ("a length of 2 GiB", &i32::MAX.to_be_bytes()[..]),
        ("a negative length", &(-1i32).to_be_bytes()[..]),
        ("another protocol", b"GET / HTTP/1.1\r\n\r\n"),
        ("a Forward that is longer than nodes send", &[6, 0x40, 0, 0, 0x29, 0x63]),
        ("an unknown API key", &unknown_api),
        ("an unknown version", &unknown_version),
        ("a body that ends early", &cut_body),
        ("a body with bytes left over", &trailing),
        ("an empty frame", &frame(&[])),
    ] {
        assert!(server.is_closed_by(bytes), "{what} is not refused");
        server.still_serves();
    }
    let mut rng = Rng::new(1);
    for _ in 0..200 {
        let payload: Vec<u8> = (0..rng.below(64)).map(|_| rng.next() as u8).collect();
        let mut stream = server.connect();
        let _ = stream.write_all(&frame(&payload));
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    server.still_serves();
    server.stop();
}

#[test]
fn half_a_frame_waits_for_its_other_half_and_holds_nobody_up() {
    let server = serve("half");
    let hello = request(
        ApiVersionsRequest {
            client_software_name: "test".into(),
            client_software_version: "1".into(),
            ..ApiVersionsRequest::default()
        },
        3,
    );
    let mut halves: Vec<TcpStream> = (0..50).map(|_| server.connect()).collect();
    for half in &mut halves {
        half.write_all(&hello[..hello.len() / 2]).unwrap();
    }
    server.still_serves();
    for half in &mut halves {
        half.write_all(&hello[hello.len() / 2..]).unwrap();
        let response: ApiVersionsResponse = answer(half).decode(3).unwrap();
        assert!(response.api_keys.iter().any(|key| key.api_key == ApiKey::Vote.key()));
    }
    drop(halves);
    server.stop();
}

#[test]
fn a_newer_client_is_told_our_versions_in_version_0() {
    let server = serve("versions");
    let mut stream = server.connect();
    stream.write_all(&frame(&[0, 18, 0, 99, 0, 0, 0, 7, 0xff, 0xff, 0, 1, 2, 3])).unwrap();
    let response: ApiVersionsResponse = answer(&mut stream).decode(0).unwrap();
    assert_eq!(response.error_code, ErrorCode::UnsupportedVersion);
    assert_eq!(response.api_keys[0].api_key, ApiKey::ApiVersions.key());
    // The connection is still good.
    stream
        .write_all(&request(
            ApiVersionsRequest {
                client_software_name: "test".into(),
                client_software_version: "1".into(),
                ..ApiVersionsRequest::default()
            },
            4,
        ))
        .unwrap();
    let response: ApiVersionsResponse = answer(&mut stream).decode(4).unwrap();
    assert_eq!(response.error_code, ErrorCode::None);
    server.stop();
}

fn vote(cluster: Option<&str>, topic: &str, epoch: i32, last_epoch: i32) -> VoteRequest {
    let partition = VoteRequestPartition {
        replica_epoch: epoch,
        replica_id: 9,
        last_offset_epoch: last_epoch,
        last_offset: 0,
        ..VoteRequestPartition::default()
    };
    VoteRequest {
        cluster_id: cluster.map(str::to_owned),
        topics: vec![Topic {
            topic_name: topic.into(),
            partitions: vec![partition],
            ..Topic::default()
        }],
        ..VoteRequest::default()
    }
}

#[test]
fn b063_t17_requests_of_the_wrong_form_get_kafkas_error() {
    let server = serve("forms");
    server.still_serves();
    let mut stream = server.connect();
    let mut ask = |request_: VoteRequest| -> VoteResponse {
        stream.write_all(&request(request_, 2)).unwrap();
        answer(&mut stream).decode(2).unwrap()
    };
    let topic = "__cluster_metadata";
    assert_eq!(ask(vote(Some("theirs"), topic, 9, 0)).error_code, ErrorCode::InconsistentClusterId);
    assert_eq!(ask(vote(Some("ours"), "another", 9, 0)).error_code, ErrorCode::InvalidRequest);
    let none = VoteRequest { topics: Vec::new(), ..VoteRequest::default() };
    assert_eq!(ask(none).error_code, ErrorCode::InvalidRequest);
    let mut two = vote(Some("ours"), topic, 9, 0);
    two.topics.push(two.topics[0].clone());
    assert_eq!(ask(two).error_code, ErrorCode::InvalidRequest);
    let mut no_partition = vote(Some("ours"), topic, 9, 0);
    no_partition.topics[0].partitions.clear();
    assert_eq!(ask(no_partition).error_code, ErrorCode::InvalidRequest);

    let partition = |answer: VoteResponse| {
        assert_eq!(answer.error_code, ErrorCode::None);
        answer.topics[0].partitions[0].error_code
    };
    assert_eq!(partition(ask(vote(None, topic, 9, -1))), ErrorCode::InvalidRequest);
    assert_eq!(partition(ask(vote(None, topic, 9, 9))), ErrorCode::InvalidRequest);
    assert_eq!(partition(ask(vote(None, topic, 0, 0))), ErrorCode::InvalidRequest);
    server.stop();
}

#[test]
fn b099_b100_fetches_of_the_wrong_form_get_kafkas_error() {
    let server = serve("fetches");
    server.still_serves();
    let mut stream = server.connect();
    let mut ask = |topic_id: Uuid,
                   epoch: i32,
                   offset: i64,
                   last_epoch: i32,
                   max_wait_ms: i32|
     -> FetchResponse {
        let partition = FetchRequestPartition {
            current_leader_epoch: epoch,
            fetch_offset: offset,
            last_fetched_epoch: last_epoch,
            ..FetchRequestPartition::default()
        };
        let topic = FetchTopic { topic_id, partitions: vec![partition], ..FetchTopic::default() };
        let fetch = FetchRequest { max_wait_ms, topics: vec![topic], ..FetchRequest::default() };
        stream.write_all(&request(fetch, 18)).unwrap();
        answer(&mut stream).decode(18).unwrap()
    };
    let ours = Uuid::METADATA_TOPIC;
    assert_eq!(ask(Uuid([9; 16]), 1, 0, 0, 0).error_code, ErrorCode::InvalidRequest);
    let partition = |answer: FetchResponse| answer.responses[0].partitions[0].error_code;
    assert_eq!(partition(ask(ours, 1, -1, 0, 0)), ErrorCode::InvalidRequest);
    assert_eq!(partition(ask(ours, 1, 0, -1, 0)), ErrorCode::InvalidRequest);
    assert_eq!(partition(ask(ours, 1, 0, 0, -1)), ErrorCode::InvalidRequest);
    assert_eq!(partition(ask(ours, 1, 0, 2, 0)), ErrorCode::InvalidRequest);
    assert_eq!(partition(ask(ours, 0, 0, 0, 0)), ErrorCode::FencedLeaderEpoch);
    assert_eq!(partition(ask(ours, 99, 0, 0, 0)), ErrorCode::UnknownLeaderEpoch);
    let served = ask(ours, 1, 0, 0, 0);
    assert_eq!(partition(served.clone()), ErrorCode::None);
    let found = &served.responses[0].partitions[0];
    assert_eq!(found.current_leader.as_ref().map(|leader| leader.leader_id), Some(1));
    assert!(found.records.as_ref().is_some_and(|records| !records.is_empty()));
    server.stop();
}

#[test]
fn who_does_not_take_its_answers_is_not_read_from() {
    let server = serve("unread");
    let question = request(ApiVersionsRequest::default(), 0);
    let questions = question.repeat(1_000);
    let mut stream = server.connect();
    stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    // What the sockets and the node take on the way has an end; without one the node would hold
    // the answers to all of this.
    let mut sent = 0;
    while sent < 48 << 20 {
        match stream.write(&questions[sent % question.len()..]) {
            Ok(bytes) => sent += bytes,
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
                break;
            }
        }
    }
    assert!(sent < 48 << 20, "{sent} bytes of requests were taken, and no answer was read");
    server.still_serves();
    // Once it takes them, it is served on, and nothing was lost.
    for _ in 0..sent / question.len() {
        let response: ApiVersionsResponse = answer(&mut stream).decode(0).unwrap();
        assert_eq!(response.error_code, ErrorCode::None);
    }
    server.stop();
}

#[test]
fn a_fetch_that_asks_for_everything_gets_a_part() {
    let server = serve("everything");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for number in 0..20u8 {
        let value = vec![number; 1 << 20];
        let write =
            KvWrite::Put { key: &[b'a' + number], value: &value, condition: Condition::Always }
                .encode();
        let write = server.handle.write(Request::write(write.unwrap()), Span::ms(20_000));
        assert!(matches!(runtime.block_on(write), Ok(Answer::Done(_))));
    }
    let partition = FetchRequestPartition {
        current_leader_epoch: 1,
        fetch_offset: 12,
        last_fetched_epoch: 1,
        ..FetchRequestPartition::default()
    };
    let topic = FetchTopic {
        topic_id: Uuid::METADATA_TOPIC,
        partitions: vec![partition],
        ..FetchTopic::default()
    };
    let fetch =
        FetchRequest { max_bytes: i32::MAX, topics: vec![topic], ..FetchRequest::default() };
    let mut stream = server.connect();
    stream.write_all(&request(fetch, 18)).unwrap();
    let response: FetchResponse = answer(&mut stream).decode(18).unwrap();
    let records = response.responses[0].partitions[0].records.as_ref().unwrap();
    assert!((6 << 20..=8 << 20).contains(&records.len()), "{} bytes", records.len());
    server.stop();
}

#[test]
fn a_node_that_lost_its_vote_and_not_its_records_does_not_start() {
    let server = serve("forgot");
    server.still_serves();
    let directory = server.stop_and_keep();
    std::fs::remove_file(directory.join("__cluster_metadata-0/quorum-state")).unwrap();
    let at = |port| HostPort { host: "127.0.0.1".into(), port };
    let voters = vec![Voter { id: ReplicaId(1), at: at(1) }];
    let config = Config::new(Some(ReplicaId(1)), directory.clone(), voters, at(0));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let opened = runtime.block_on(Node::open(config, Sessioned::new(Kv::new())));
    let error = opened.map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("quorum-state") && error.contains("found no file"), "{error}");
    std::fs::remove_dir_all(directory).unwrap();
}
