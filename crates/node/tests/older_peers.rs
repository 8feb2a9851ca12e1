//! Which versions a node takes to a peer: on each connection the newest that both sides speak, down
//! to what Apache Kafka 3.9 announced. The peer is played here, frame by frame, so that every
//! version that it is asked in is seen. And the reverse: a node that is told to speak like an older
//! one.

#![allow(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test ends where a fact is missing; what a test does not name it does not expect"
)]

use quorate_base::{ReplicaId, Span, Uuid};
use quorate_log::{Meta, OsDisk};
use quorate_machine::{Kv, Sessioned};
use quorate_node::config::{Config, Generation, HostPort, Voter};
use quorate_node::handle::Handle;
use quorate_node::runtime::Node;
use quorate_wire::message::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse, BeginQuorumEpochRequest,
    BeginQuorumEpochRequestPartition, BeginQuorumEpochResponse, BeginQuorumEpochResponsePartition,
    EndQuorumEpochResponse, EndQuorumEpochResponsePartition, FetchRequest, ForwardRequest,
    LeaderEndpoint, Message, QuorumResponse, Topic, VoteRequest, VoteRequestPartition,
    VoteResponse, VoteResponsePartition,
};
use quorate_wire::{
    ApiKey, ErrorCode, RequestFrame, RequestHeader, ResponseFrame, encode_request, encode_response,
};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

const TOPIC: &str = "__cluster_metadata";
const PATIENCE: Duration = Duration::from_secs(20);

/// What a peer announces: the versions from 0 (Fetch: 4) to these.
#[derive(Clone, Copy)]
struct Announced {
    api_versions: i16,
    vote: i16,
    begin: i16,
    end: i16,
    fetch: i16,
}

/// Apache Kafka 3.9.
const KAFKA_3_9: Announced = Announced { api_versions: 4, vote: 1, begin: 1, end: 1, fetch: 17 };
/// Older than any with a quorum of its own in production: topics by name, no directories.
const OLDEST: Announced = Announced { api_versions: 0, vote: 0, begin: 0, end: 0, fetch: 12 };
/// As we.
const NEWEST: Announced = Announced { api_versions: 4, vote: 2, begin: 1, end: 1, fetch: 18 };

impl Announced {
    fn response(self) -> ApiVersionsResponse {
        let of = |api: ApiKey, least, most| ApiVersion {
            api_key: api.key(),
            min_version: least,
            max_version: most,
            ..ApiVersion::default()
        };
        let api_keys = vec![
            of(ApiKey::Fetch, 4, self.fetch),
            of(ApiKey::ApiVersions, 0, self.api_versions),
            of(ApiKey::Vote, 0, self.vote),
            of(ApiKey::BeginQuorumEpoch, 0, self.begin),
            of(ApiKey::EndQuorumEpoch, 0, self.end),
        ];
        ApiVersionsResponse { api_keys, ..ApiVersionsResponse::default() }
    }
}

/// A question that the peer was asked.
#[derive(Debug)]
struct Seen {
    api: ApiKey,
    version: i16,
    frame: RequestFrame,
}

/// Voter 2: grants every vote, knows every announcement, and never answers a fetch.
fn play(listener: TcpListener, announced: Announced, seen: Sender<Seen>) {
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, seen) = (stream.unwrap(), seen.clone());
            std::thread::spawn(move || converse(stream, announced, &seen));
        }
    });
}

fn converse(mut stream: TcpStream, announced: Announced, seen: &Sender<Seen>) -> Option<()> {
    loop {
        let frame = RequestFrame::parse(read_frame(&mut stream)?.into()).unwrap();
        let header = frame.header.clone();
        let (version, correlation) = (header.version, header.correlation_id);
        let known = version <= announced.api_versions;
        let answer = match header.api {
            // A version that is not spoken is answered in version 0, which everybody reads.
            ApiKey::ApiVersions if known => {
                encode_response(announced.response(), version, correlation)
            }
            ApiKey::ApiVersions => {
                let error_code = ErrorCode::UnsupportedVersion;
                let answer = ApiVersionsResponse { error_code, ..announced.response() };
                encode_response(answer, 0, correlation)
            }
            ApiKey::Vote => {
                let asked: VoteRequest = frame.clone().decode().unwrap();
                let epoch = asked.topics[0].partitions[0].replica_epoch;
                let granted = VoteResponsePartition {
                    leader_id: -1,
                    leader_epoch: epoch,
                    vote_granted: true,
                    ..VoteResponsePartition::default()
                };
                let answer: VoteResponse = about(granted);
                encode_response(answer, version, correlation)
            }
            ApiKey::BeginQuorumEpoch => {
                let asked: BeginQuorumEpochRequest = frame.clone().decode().unwrap();
                let asked = &asked.topics[0].partitions[0];
                let answer: BeginQuorumEpochResponse = about(BeginQuorumEpochResponsePartition {
                    leader_id: asked.leader_id,
                    leader_epoch: asked.leader_epoch,
                    ..BeginQuorumEpochResponsePartition::default()
                });
                encode_response(answer, version, correlation)
            }
            ApiKey::EndQuorumEpoch => {
                let ended = EndQuorumEpochResponsePartition::default();
                let answer: EndQuorumEpochResponse = about(ended);
                encode_response(answer, version, correlation)
            }
            ApiKey::Fetch => {
                seen.send(Seen { api: header.api, version, frame }).ok()?;
                continue;
            }
            other => panic!("{other:?} was not announced and is asked"),
        };
        seen.send(Seen { api: header.api, version, frame }).ok()?;
        stream.write_all(&framed(&answer.unwrap().into_payload())).ok()?;
    }
}

fn about<P>(partition: P) -> QuorumResponse<P>
where
    QuorumResponse<P>: Default,
{
    let topic_name = TOPIC.to_owned();
    let topics = vec![Topic { topic_name, partitions: vec![partition], tags: Vec::new() }];
    QuorumResponse { topics, ..QuorumResponse::default() }
}

fn framed(payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as i32).to_be_bytes()[..], payload].concat()
}

fn read_frame(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame).ok()?;
    Some(frame)
}

/// Node 1 of two voters, the other one of which is played.
struct Scene {
    handle: Handle<Sessioned<Kv>>,
    thread: JoinHandle<()>,
    directory: PathBuf,
    address: SocketAddr,
    peer: SocketAddr,
    seen: Receiver<Seen>,
}

fn scene(name: &str, announced: Announced, fetch_timeout: Span) -> Scene {
    scene_of(name, Generation::Now, announced, fetch_timeout)
}

fn scene_of(name: &str, speaks: Generation, announced: Announced, fetch_timeout: Span) -> Scene {
    let directory =
        std::env::temp_dir().join(format!("quorate-older-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = listener.local_addr().unwrap();
    let (tell, seen) = channel();
    play(listener, announced, tell);
    let at = |port| HostPort { host: "127.0.0.1".into(), port };
    let voters = vec![
        Voter { id: ReplicaId(1), at: at(1) },
        Voter { id: ReplicaId(2), at: at(peer.port()) },
    ];
    let mut config = Config::new(Some(ReplicaId(1)), directory.clone(), voters, at(0));
    config.speaks = speaks;
    (config.fetch_timeout, config.election_timeout) = (fetch_timeout, Span::ms(100));
    let meta =
        Meta { cluster: "ours".into(), node: ReplicaId(1), directory: Uuid::from_random([1; 16]) };
    let mut disk = OsDisk::new(&directory);
    quorate_log::format(&mut disk, "__cluster_metadata-0", &meta, config.topic_id).unwrap();
    let (tell, told) = channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let node = Node::open(config, Sessioned::new(Kv::new())).await.unwrap();
            tell.send((node.address(), node.handle())).unwrap();
            node.run().await.unwrap();
        });
    });
    let (address, handle) = told.recv().unwrap();
    Scene { handle, thread, directory, address, peer, seen }
}

impl Scene {
    /// What the peer is asked up to the first question of this kind.
    fn until(&self, api: ApiKey) -> Vec<Seen> {
        let mut asked = Vec::new();
        loop {
            let next = self.seen.recv_timeout(PATIENCE);
            asked.push(next.unwrap_or_else(|_| panic!("{api:?} is never asked: {asked:?}")));
            if asked.last().unwrap().api == api {
                return asked;
            }
        }
    }

    fn stop(self) {
        self.handle.shutdown();
        self.thread.join().unwrap();
        std::fs::remove_dir_all(self.directory).unwrap();
    }
}

fn votes(asked: &[Seen]) -> Vec<(i16, bool)> {
    let votes = asked.iter().filter(|seen| seen.api == ApiKey::Vote);
    let vote = |seen: &Seen| {
        let request: VoteRequest = seen.frame.clone().decode().unwrap();
        (seen.version, request.topics[0].partitions[0].pre_vote)
    };
    votes.map(vote).collect()
}

/// The node is elected and announces itself in the peer's versions; no peer below Vote 2 is ever
/// asked for a pre-vote.
fn check_election(name: &str, announced: Announced) {
    let scene = scene(name, announced, Span::ms(100));
    let asked = scene.until(ApiKey::BeginQuorumEpoch);
    let hello = asked.iter().find(|seen| seen.api == ApiKey::ApiVersions).unwrap();
    assert_eq!(hello.version, ApiKey::ApiVersions.newest(), "nothing is known yet");
    let votes = votes(&asked);
    assert!(votes.iter().all(|(version, _)| *version == announced.vote), "{votes:?}");
    assert_eq!(votes.last(), Some(&(announced.vote, false)), "in earnest");
    let pre_votes = votes.iter().filter(|(_, pre_vote)| *pre_vote).count();
    assert_eq!(pre_votes > 0, announced.vote >= 2, "{votes:?}");
    assert_eq!(asked.last().unwrap().version, announced.begin);
    scene.stop();
}

#[test]
fn an_election_beside_kafka_3_9_has_no_pre_vote() {
    check_election("vote-3.9", KAFKA_3_9);
}

#[test]
fn an_election_beside_the_oldest_voter_has_no_pre_vote() {
    check_election("vote-oldest", OLDEST);
}

#[test]
fn an_election_beside_a_voter_like_us_has_a_pre_vote() {
    check_election("vote-newest", NEWEST);
}

/// A node that speaks like an older one asks a newer peer as that one would, says so when it is
/// asked, and closes the connection on what it does not speak.
#[test]
fn a_node_can_speak_like_an_older_one() {
    let older = Generation::BeforePreVotes;
    let scene = scene_of("speaks-older", older, NEWEST, Span::ms(100));
    let asked = scene.until(ApiKey::BeginQuorumEpoch);
    let votes = votes(&asked);
    assert!(!votes.is_empty() && votes.iter().all(|vote| *vote == (1, false)), "{votes:?}");
    let fetch = asked.iter().find(|seen| seen.api == ApiKey::Fetch).map(|seen| seen.version);
    assert!(fetch.is_none_or(|version| version == KAFKA_3_9.fetch), "{fetch:?}");

    let send = |frame: quorate_wire::Frame| {
        let mut stream = TcpStream::connect(scene.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&framed(&frame.into_payload())).unwrap();
        read_frame(&mut stream)
    };
    let header = |api, version| RequestHeader::new(api, version, 7, None);
    let hello = ApiVersionsRequest {
        client_software_name: "test".into(),
        client_software_version: "1".into(),
        ..ApiVersionsRequest::default()
    };
    let hello = encode_request(header(ApiKey::ApiVersions, 4), hello).unwrap();
    let answer = ResponseFrame::parse(send(hello).unwrap().into()).unwrap();
    let answer: ApiVersionsResponse = answer.decode(4).unwrap();
    let newest = |api: ApiKey| {
        let mut keys = answer.api_keys.iter();
        keys.find(|key| key.api_key == api.key()).map(|key| key.max_version)
    };
    assert_eq!(newest(ApiKey::Vote), Some(KAFKA_3_9.vote));
    assert_eq!(newest(ApiKey::Fetch), Some(KAFKA_3_9.fetch));
    assert_eq!(newest(ApiKey::Forward), None);

    let vote = || {
        let asked = VoteRequestPartition { replica_id: 2, ..VoteRequestPartition::default() };
        let topic_name = TOPIC.to_owned();
        let topics = vec![Topic { topic_name, partitions: vec![asked], tags: Vec::new() }];
        VoteRequest { cluster_id: Some("ours".into()), topics, ..VoteRequest::default() }
    };
    assert!(send(encode_request(header(ApiKey::Vote, 1), vote()).unwrap()).is_some());
    assert_eq!(send(encode_request(header(ApiKey::Vote, 2), vote()).unwrap()), None);
    let forward = encode_request(header(ApiKey::Forward, 0), ForwardRequest::default()).unwrap();
    assert_eq!(send(forward), None);
    scene.stop();
}

/// The peer leads and announces itself in its versions: the node follows, and fetches in them.
#[test]
fn fetches_go_in_the_newest_version_that_both_speak() {
    let check = |name: &str, announced: Announced| {
        let scene = scene(name, announced, Span::ms(60_000));
        let partition = BeginQuorumEpochRequestPartition {
            leader_id: 2,
            leader_epoch: 5,
            ..BeginQuorumEpochRequestPartition::default()
        };
        let topic_name = TOPIC.to_owned();
        let topics = vec![Topic { topic_name, partitions: vec![partition], tags: Vec::new() }];
        let at = LeaderEndpoint {
            name: "CONTROLLER".into(),
            host: "127.0.0.1".into(),
            port: scene.peer.port(),
            ..LeaderEndpoint::default()
        };
        let begin = BeginQuorumEpochRequest {
            cluster_id: Some("ours".into()),
            voter_id: if announced.begin >= 1 { 1 } else { -1 },
            topics,
            leader_endpoints: if announced.begin >= 1 { vec![at] } else { Vec::new() },
            ..BeginQuorumEpochRequest::default()
        };
        let version = announced.begin;
        let header = RequestHeader::new(BeginQuorumEpochRequest::API, version, 7, None);
        let mut stream = TcpStream::connect(scene.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let begin = encode_request(header, begin).unwrap().into_payload();
        stream.write_all(&framed(&begin)).unwrap();
        let answer = ResponseFrame::parse(read_frame(&mut stream).unwrap().into()).unwrap();
        let answer: BeginQuorumEpochResponse = answer.decode(version).unwrap();
        assert_eq!(answer.topics[0].partitions[0].error_code, ErrorCode::None, "{name}");

        // The first one may ask who leads, and not know the epoch yet.
        let mut epoch = 0;
        while epoch < 5 {
            let asked = scene.until(ApiKey::Fetch);
            assert_eq!(votes(&asked), [], "{name}");
            let fetch = asked.last().unwrap();
            assert_eq!(fetch.version, announced.fetch, "{name}");
            let request: FetchRequest = fetch.frame.clone().decode().unwrap();
            let by_name = announced.fetch <= 12;
            let topic = &request.topics[0];
            assert_eq!(topic.topic == TOPIC, by_name, "{name}: {topic:?}");
            assert_eq!(topic.topic_id == Uuid::METADATA_TOPIC, !by_name, "{name}: {topic:?}");
            epoch = topic.partitions[0].current_leader_epoch;
        }
        scene.stop();
    };
    check("fetch-3.9", KAFKA_3_9);
    check("fetch-oldest", OLDEST);
    check("fetch-newest", NEWEST);
}
