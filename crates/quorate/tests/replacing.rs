//! Changes of the voters asked of a leader that takes one voter more or one less and knows nothing
//! of replaced disks, as Apache Kafka's; and commands that are killed in the middle and run again.
//!
//! The leader is a small double of such a one, which can be told to answer nothing at a chosen
//! moment. Real leaders are asked in `tests/processes` and `tests/interop`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use bytes::{Bytes, BytesMut};
use quorate::Uuid;
use quorate_wire::message::{
    AddRaftVoterRequest, AddRaftVoterResponse, ApiVersion, ApiVersionsResponse, CONTROLLERS,
    DescribeClusterBroker, DescribeClusterResponse, DescribeQuorumResponse,
    DescribeQuorumResponsePartition, Message, QuorumReplica, RemoveRaftVoterRequest,
    RemoveRaftVoterResponse, Topic,
};
use quorate_wire::{ApiKey, ErrorCode, RequestFrame, encode_response, split};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use support::{FAILED, Process, quorate, run, wait_for};

/// The APIs that are asked, each in this version.
const SPOKEN: [(ApiKey, i16); 4] = [
    (ApiKey::DescribeCluster, 1),
    (ApiKey::DescribeQuorum, 2),
    (ApiKey::AddRaftVoter, 0),
    (ApiKey::RemoveRaftVoter, 0),
];

/// A disk of a node.
fn disk(node: i32, number: u8) -> Uuid {
    let mut bytes = [number; 16];
    bytes[0] = node as u8;
    Uuid(bytes)
}

#[derive(Default)]
struct State {
    voters: BTreeMap<i32, Uuid>,
    observers: BTreeMap<i32, Uuid>,
    /// Grows with each question: by it a live replica has fetched.
    now: i64,
    /// Changes that were asked for, in short.
    asked: Vec<String>,
    /// The change of this number is never answered, and is done only where that says so.
    silent: Option<(usize, bool)>,
}

struct Leader {
    port: u16,
    state: Arc<Mutex<State>>,
}

impl Leader {
    /// Node 1, with these voters and these that copy the log.
    fn new(voters: &[(i32, Uuid)], observers: &[(i32, Uuid)]) -> Leader {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (voters, observers) =
            (voters.iter().copied().collect(), observers.iter().copied().collect());
        let state = State { voters, observers, now: 1_000_000, ..State::default() };
        let state = Arc::new(Mutex::new(state));
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let state = shared.clone();
                std::thread::spawn(move || serve(stream.unwrap(), port, &state));
            }
        });
        Leader { port, state }
    }

    fn voters(&self) -> Vec<(i32, Uuid)> {
        self.state.lock().unwrap().voters.iter().map(|(id, disk)| (*id, *disk)).collect()
    }

    fn asked(&self) -> Vec<String> {
        self.state.lock().unwrap().asked.clone()
    }

    fn arguments(&self, command: &[&str]) -> Vec<String> {
        let at = format!("127.0.0.1:{}", self.port);
        let words = ["quorum"].iter().chain(command).map(ToString::to_string);
        words.chain(["--bootstrap".to_owned(), at]).collect()
    }

    /// Runs a command to its end.
    fn told(&self, command: &[&str]) -> (i32, String, String) {
        let arguments = self.arguments(command);
        run(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Runs a command that has to succeed.
    fn done(&self, command: &[&str]) -> String {
        let (code, stdout, stderr) = self.told(command);
        assert_eq!(code, 0, "{command:?}: {stdout}{stderr}");
        stdout
    }

    /// Kills a command while it waits for the answer to the change of this number.
    fn killed(&self, command: &[&str], at: usize, done: bool) {
        let known = self.asked().len();
        self.state.lock().unwrap().silent = Some((known + at, done));
        let arguments = self.arguments(command);
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let child = quorate(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let process = Process(child.unwrap());
        wait_for("the change to be asked for", || (self.asked().len() == known + at).then_some(()));
        drop(process); // kill -9
        self.state.lock().unwrap().silent = None;
    }
}

fn serve(mut stream: TcpStream, port: u16, state: &Mutex<State>) {
    let (mut received, mut chunk) = (BytesMut::new(), [0; 4096]);
    loop {
        while let Some(frame) = split(&mut received, 1 << 20).unwrap() {
            let Some(answer) = answered(frame, port, state) else { continue };
            let length = (answer.len() as u32).to_be_bytes();
            if stream.write_all(&[&length[..], &answer].concat()).is_err() {
                return;
            }
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return,
            Ok(count) => received.extend_from_slice(&chunk[..count]),
        }
    }
}

/// `None` where no answer is given.
fn answered(frame: Bytes, port: u16, state: &Mutex<State>) -> Option<Bytes> {
    let request = RequestFrame::parse(frame).unwrap();
    let header = request.header.clone();
    let (api, version, call) = (header.api, header.version, header.correlation_id);
    fn encoded<M: Message>(message: M, version: i16, call: i32) -> Option<Bytes> {
        Some(encode_response(message, version, call).unwrap().into_payload())
    }
    let mut state = state.lock().unwrap();
    state.now += 100;
    if api == ApiKey::ApiVersions {
        let speaks = |(api, version): (ApiKey, i16)| ApiVersion {
            api_key: api.key(),
            min_version: 0,
            max_version: version,
            ..ApiVersion::default()
        };
        let api_keys = SPOKEN.into_iter().map(speaks).collect();
        return encoded(ApiVersionsResponse { api_keys, ..Default::default() }, version, call);
    }
    if api == ApiKey::DescribeCluster {
        let brokers = state.voters.keys().map(|id| DescribeClusterBroker {
            broker_id: *id,
            host: "127.0.0.1".into(),
            port: port.into(),
            ..DescribeClusterBroker::default()
        });
        let response = DescribeClusterResponse {
            endpoint_type: CONTROLLERS,
            cluster_id: "doubled".into(),
            controller_id: 1,
            brokers: brokers.collect(),
            ..DescribeClusterResponse::default()
        };
        return encoded(response, version, call);
    }
    if api == ApiKey::DescribeQuorum {
        return encoded(described(&state), version, call);
    }
    let number = state.asked.len() + 1;
    let (is_silent, does) = match state.silent {
        Some((at, done)) => (at == number, at != number || done),
        None => (false, true),
    };
    if api == ApiKey::AddRaftVoter {
        let add: AddRaftVoterRequest = request.decode().unwrap();
        let tagged = if add.replaces == Uuid::ZERO { "" } else { " with our field" };
        state.asked.push(format!("add {}{tagged}", add.voter_id));
        let known = state.voters.contains_key(&add.voter_id);
        let error_code = if known { ErrorCode::DuplicateVoter } else { ErrorCode::None };
        if !known && does {
            state.voters.insert(add.voter_id, add.voter_directory_id);
        }
        let response = AddRaftVoterResponse { error_code, ..Default::default() };
        return encoded(response, version, call).filter(|_| !is_silent);
    }
    assert_eq!(api, ApiKey::RemoveRaftVoter);
    let remove: RemoveRaftVoterRequest = request.decode().unwrap();
    state.asked.push(format!("remove {}", remove.voter_id));
    let known = state.voters.get(&remove.voter_id) == Some(&remove.voter_directory_id);
    let error_code = if known { ErrorCode::None } else { ErrorCode::VoterNotFound };
    if known && does {
        state.voters.remove(&remove.voter_id);
    }
    let response = RemoveRaftVoterResponse { error_code, ..Default::default() };
    encoded(response, version, call).filter(|_| !is_silent)
}

/// All that copy the log live, but for a voter's disk that was replaced.
fn described(state: &State) -> DescribeQuorumResponse {
    let replica = |(id, disk): (&i32, &Uuid)| {
        let replaced = state.observers.get(id).is_some_and(|new| new != disk);
        let is_voter = state.voters.get(id) == Some(disk);
        let fetched = if replaced && is_voter { 1_000 } else { state.now };
        QuorumReplica {
            replica_id: *id,
            replica_directory_id: *disk,
            log_end_offset: 10,
            last_fetch_timestamp: fetched,
            last_caught_up_timestamp: fetched,
            ..QuorumReplica::default()
        }
    };
    let outside = state.observers.iter().filter(|(id, disk)| state.voters.get(id) != Some(disk));
    let partition = DescribeQuorumResponsePartition {
        leader_id: 1,
        leader_epoch: 1,
        high_watermark: 10,
        current_voters: state.voters.iter().map(replica).collect(),
        observers: outside.map(replica).collect(),
        ..DescribeQuorumResponsePartition::default()
    };
    let topic_name = "__cluster_metadata".to_owned();
    let topics = vec![Topic { topic_name, partitions: vec![partition], tags: Vec::new() }];
    DescribeQuorumResponse { topics, ..DescribeQuorumResponse::default() }
}

fn three_and_a_new_disk() -> Leader {
    let voters = [(1, disk(1, 0)), (2, disk(2, 0)), (3, disk(3, 0))];
    Leader::new(&voters, &[(3, disk(3, 1))])
}

const REPLACED: [(i32, u8); 3] = [(1, 0), (2, 0), (3, 1)];

fn replaced() -> Vec<(i32, Uuid)> {
    REPLACED.iter().map(|(id, number)| (*id, disk(*id, *number))).collect()
}

#[test]
fn a_leader_that_replaces_no_disks_is_asked_for_both_halves_and_that_is_said() {
    let leader = three_and_a_new_disk();
    let said = leader.done(&["replace-disk", "3"]);
    assert!(said.contains("step 1: replace the disk of node 3"), "{said}");
    assert!(said.contains("does not replace disks"), "{said}");
    assert_eq!(leader.asked(), ["add 3 with our field", "remove 3", "add 3"]);
    assert_eq!(leader.voters(), replaced());

    let again = leader.done(&["replace-disk", "3"]);
    assert!(again.contains("nothing to do: node 3 votes"), "{again}");

    let leader = three_and_a_new_disk();
    let json = leader.done(&["replace-disk", "3", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let step = &json["steps"][0];
    assert_eq!((&step["step"], &step["by_halves"]), (&"replace".into(), &true.into()));
    assert_eq!(step["replaces"], disk(3, 0).to_string());
}

#[test]
fn a_replacement_that_was_killed_anywhere_ends_as_wanted_when_it_is_run_again() {
    for (at, done) in [(1, true), (2, false), (2, true), (3, false), (3, true)] {
        let leader = three_and_a_new_disk();
        leader.killed(&["replace-disk", "3"], at, done);
        let (code, stdout, stderr) = leader.told(&["replace-disk", "3"]);
        // The old one is gone with its listener: nobody knows where the new one is.
        let homeless = (at, done) == (2, true) || (at, done) == (3, false);
        if homeless {
            assert_eq!(code, FAILED, "{at} {done}: {stdout}{stderr}");
            assert!(stderr.contains("replace-disk 3@HOST:PORT"), "{stderr}");
            let place = format!("3@127.0.0.1:{}", leader.port);
            leader.done(&["replace-disk", &place]);
        } else {
            assert_eq!(code, 0, "{at} {done}: {stdout}{stderr}");
        }
        assert_eq!(leader.voters(), replaced(), "killed at {at}, which was done: {done}");
    }
}

#[test]
fn an_alter_that_was_killed_anywhere_ends_as_wanted_when_it_is_run_again() {
    for (at, done) in [(1, false), (1, true), (2, false), (2, true), (3, false), (3, true)] {
        let founders = [(1, disk(1, 0)), (2, disk(2, 0)), (3, disk(3, 0))];
        let leader = Leader::new(&founders, &[(4, disk(4, 0)), (5, disk(5, 0))]);
        let (four, five) =
            (format!("4@127.0.0.1:{}", leader.port), format!("5@127.0.0.1:{}", leader.port));
        let alter = ["alter", "--voters", &format!("1,2,{four},{five}")];
        leader.killed(&alter, at, done);
        leader.done(&alter);
        let wanted = [1, 2, 4, 5].map(|id| (id, disk(id, 0)));
        assert_eq!(leader.voters(), wanted, "killed at {at}, which was done: {done}");
        let again = leader.done(&alter);
        assert!(again.contains("nothing to do"), "{again}");
    }
}
