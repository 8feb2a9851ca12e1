//! Changes of the voters asked of a leader that takes one voter more or one less and knows nothing
//! of replaced disks, as Apache Kafka's; commands that are killed in the middle and run again; and
//! somebody else who changes the voters at the same time.
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
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use support::{
    FAILED, Lone, Process, Scratch, USAGE, check_fails, documented_as, quorate, run, wait_for,
};

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
    /// The change of this number is refused, and so are all behind it.
    refuses_from: Option<usize>,
    /// How often was asked who votes.
    looks: usize,
    /// Then somebody else brings a node in, or takes it away.
    meddling: Option<(Then, i32, Option<Uuid>)>,
    /// Replaces disks, but loses the leadership between the two halves.
    resigns_between: bool,
    /// Nodes that registered, as Kafka's do: where they listen is known also of those that do not
    /// vote.
    registered: Vec<i32>,
}

/// Behind the change, or the question who votes, of this number.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Then {
    Change(usize),
    Look(usize),
}

impl State {
    fn is_now(&mut self, then: Then) {
        match self.meddling.filter(|(when, ..)| *when == then) {
            Some((_, node, Some(disk))) => drop(self.voters.insert(node, disk)),
            Some((_, node, None)) => drop(self.voters.remove(&node)),
            None => {}
        }
    }
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

    /// Runs a command that fails: what it says to people, and its object.
    fn fails(&self, command: &[&str]) -> (String, Value) {
        let (code, stdout, stderr) = self.told(&[command, &["--json"]].concat());
        assert_eq!(code, FAILED, "{command:?}: {stdout}{stderr}");
        let object: Value = serde_json::from_str(&stdout).unwrap();
        is_documented(&object);
        assert!(stderr.contains(object["error"].as_str().unwrap()), "{stderr}: {object}");
        (stderr, object)
    }

    fn set(&self, set: impl FnOnce(&mut State)) {
        set(&mut self.state.lock().unwrap());
    }

    /// `1` to be asked for with its address.
    fn placed(&self, id: i32) -> String {
        format!("{id}@127.0.0.1:{}", self.port)
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
        let known: BTreeSet<i32> = state.voters.keys().chain(&state.registered).copied().collect();
        let brokers = known.iter().map(|id| DescribeClusterBroker {
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
        let response = described(&state);
        state.looks += 1;
        let looks = state.looks;
        state.is_now(Then::Look(looks));
        return encoded(response, version, call);
    }
    let number = state.asked.len() + 1;
    let (is_silent, does) = match state.silent {
        Some((at, done)) => (at == number, at != number || done),
        None => (false, true),
    };
    let answer = changed(&mut state, &request, does);
    state.is_now(Then::Change(number));
    let error_code = match state.refuses_from {
        Some(from) if number >= from => ErrorCode::InvalidRequest,
        Some(_) | None => answer,
    };
    let encoded = if api == ApiKey::AddRaftVoter {
        encoded(AddRaftVoterResponse { error_code, ..Default::default() }, version, call)
    } else {
        encoded(RemoveRaftVoterResponse { error_code, ..Default::default() }, version, call)
    };
    encoded.filter(|_| !is_silent)
}

/// Takes note of a change that is asked for, and makes it.
fn changed(state: &mut State, request: &RequestFrame, does: bool) -> ErrorCode {
    let number = state.asked.len() + 1;
    let does = does && state.refuses_from.is_none_or(|from| number < from);
    if request.header.api == ApiKey::AddRaftVoter {
        let add: AddRaftVoterRequest = request.clone().decode().unwrap();
        let replaces = add.replaces != Uuid::ZERO;
        let tagged = if replaces { " with our field" } else { "" };
        state.asked.push(format!("add {}{tagged}", add.voter_id));
        let seat = state.voters.get(&add.voter_id).copied();
        if state.resigns_between && replaces {
            let halved = seat == Some(add.replaces);
            state.voters.remove(&add.voter_id);
            return if halved { ErrorCode::NotController } else { ErrorCode::VoterNotFound };
        }
        if seat.is_some() {
            return ErrorCode::DuplicateVoter;
        }
        if does {
            state.voters.insert(add.voter_id, add.voter_directory_id);
        }
        return ErrorCode::None;
    }
    assert_eq!(request.header.api, ApiKey::RemoveRaftVoter);
    let remove: RemoveRaftVoterRequest = request.clone().decode().unwrap();
    state.asked.push(format!("remove {}", remove.voter_id));
    if state.voters.get(&remove.voter_id) != Some(&remove.voter_directory_id) {
        return ErrorCode::VoterNotFound;
    }
    if does {
        state.voters.remove(&remove.voter_id);
    }
    ErrorCode::None
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
    let json: Value = serde_json::from_str(&json).unwrap();
    is_documented(&json);
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

/// What `add`, `remove`, `alter` and `replace-disk` print for programs.
#[track_caller]
fn is_documented(object: &Value) {
    documented_as("`quorum`", "quorum alter", object);
    for step in object["steps"].as_array().unwrap() {
        documented_as("`quorum`", "step", step);
    }
    for voter in object["voters"].as_array().into_iter().flatten() {
        documented_as("`quorum`", "voter", voter);
    }
}

#[test]
fn a_replacement_goes_on_by_itself_where_the_node_has_registered() {
    let leader = three_and_a_new_disk();
    leader.set(|state| state.registered = vec![3]);
    leader.killed(&["replace-disk", "3"], 2, true);
    assert_eq!(leader.voters().len(), 2, "the old one is gone, and the new one not there yet");
    let said = leader.done(&["replace-disk", "3"]);
    assert!(said.contains("step 1: add node 3") && !said.contains("step 2"), "{said}");
    assert_eq!(leader.voters(), replaced());
}

#[test]
fn a_leader_that_ends_between_the_halves_of_a_replacement_leaves_the_second_one_to_do() {
    let leader = three_and_a_new_disk();
    leader.set(|state| state.resigns_between = true);
    let said = leader.done(&["replace-disk", "3"]);
    assert!(said.contains("step 1 done") && !said.contains("does not replace disks"), "{said}");
    assert_eq!(leader.voters(), replaced());
    let asked = ["add 3 with our field", "add 3 with our field", "remove 3", "add 3"];
    assert_eq!(leader.asked(), asked);
}

fn to_become_five() -> (Leader, [String; 3]) {
    let founders = [(1, disk(1, 0)), (2, disk(2, 0)), (3, disk(3, 0))];
    let leader = Leader::new(&founders, &[(4, disk(4, 0)), (5, disk(5, 0))]);
    let voters = format!("1,2,3,{},{}", leader.placed(4), leader.placed(5));
    (leader, ["alter".to_owned(), "--voters".to_owned(), voters])
}

#[test]
fn a_plan_stops_where_somebody_else_changes_the_voters_too() {
    // Behind the first step and behind the last one; one comes, one goes, a disk is another one.
    // And behind looks: that for the plan, that of a step itself, and that behind the first step.
    let (one, two) = (Then::Change(1), Then::Change(2));
    let six = (6, Some(disk(6, 0)));
    for (then, (node, new), asked) in [
        (one, six, 1),
        (one, (2, None), 1),
        (two, six, 2),
        (two, (2, Some(disk(2, 9))), 2),
        (Then::Look(1), six, 0),
        (Then::Look(2), six, 1),
        (Then::Look(3), six, 1),
        (Then::Look(4), six, 2),
    ] {
        let (leader, alter) = to_become_five();
        let alter: Vec<&str> = alter.iter().map(String::as_str).collect();
        leader.set(|state| state.meddling = Some((then, node, new)));
        let (said, object) = leader.fails(&alter);
        assert!(said.contains("somebody else changes the voters"), "{said}");
        assert_eq!(said.contains("nothing was done"), asked == 0, "{said}");
        assert_eq!(said.contains("stopped behind step 1 of 2"), asked == 1, "{said}");
        assert_eq!((leader.asked().len(), &object["done"]), (asked, &asked.into()), "{then:?}");
        let done: Vec<bool> =
            object["steps"].as_array().unwrap().iter().map(|s| s.get("ms").is_some()).collect();
        assert_eq!(done, [asked > 0, asked > 1], "{object}");
        let voters = object["voters"].as_array().unwrap().iter();
        let voters: Vec<_> = voters.map(|voter| voter["node"].as_i64().unwrap() as i32).collect();
        let now: Vec<_> = leader.voters().iter().map(|(node, _)| *node).collect();
        assert_eq!(voters, now, "as read last: {object}");
    }
    // Whoever does what was planned is no such one.
    let (leader, alter) = to_become_five();
    leader.set(|state| state.meddling = Some((Then::Change(1), 5, Some(disk(5, 0)))));
    leader.done(&alter.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(leader.voters().len(), 5);
    // Nor is, for one voter more, whoever brings in another one.
    let (leader, _) = to_become_five();
    leader.set(|state| state.meddling = Some((Then::Change(1), 5, Some(disk(5, 0)))));
    leader.done(&["add", &leader.placed(4)]);
    assert_eq!(leader.voters().len(), 5);
    // But whoever takes it away again is.
    let (leader, _) = to_become_five();
    leader.set(|state| state.meddling = Some((Then::Change(1), 4, None)));
    let (said, _) = leader.fails(&["add", &leader.placed(4)]);
    assert!(said.contains("not so any more: add node 4"), "{said}");
}

#[test]
fn a_command_that_fails_half_way_says_what_it_has_done() {
    let (leader, alter) = to_become_five();
    let alter: Vec<&str> = alter.iter().map(String::as_str).collect();
    leader.set(|state| state.refuses_from = Some(2));
    let (said, object) = leader.fails(&alter);
    assert!(said.contains("could not add node 5"), "{said}");
    assert_eq!((&object["done"], &object["steps"][0]["node"]), (&1.into(), &4.into()));
    assert!(object["steps"][0]["ms"].is_u64() && object["steps"][1].get("ms").is_none());
    // Without a plan as well.
    let (_, object) = leader.fails(&["add", "9@127.0.0.1:1", "--timeout", "1"]);
    assert_eq!((&object["done"], &object["steps"]), (&0.into(), &Value::Array(Vec::new())));
}

#[test]
fn what_cannot_be_is_said_at_once() {
    let fixed = [1, 2, 3].map(|id| (id, Uuid::ZERO));
    let leader = Leader::new(&fixed, &[]);
    let all = [&["replace-disk", "3"][..], &["add", "4@h:1"], &["remove", "3"]];
    for command in all {
        let (code, _, said) = leader.told(command);
        assert!(code == FAILED && said.contains("static (kraft.version 0)"), "{said}");
        assert!(!said.contains("waiting"), "{command:?}: {said}");
    }
    let founders = [1, 2, 3].map(|id| (id, disk(id, 0)));
    let leader = Leader::new(&founders, &[]);
    let (code, stdout, said) = leader.told(&["alter", "--voters", "1@127.0.0.1:1,2,3"]);
    assert!(code == 0 && stdout.contains("nothing to do"), "{stdout}{said}");
    assert!(said.contains("127.0.0.1:1 is ignored"), "{said}");
    check_fails(&["quorum", "alter", "--voters", "1,2,1", "--json"], USAGE, &["node 1 twice"]);
    for id in ["x", "-1", "2147483648"] {
        check_fails(&["quorum", "remove", "--", id], USAGE, &["the number of the node"]);
    }
}

#[test]
fn what_is_printed_for_programs_is_documented_of_every_command() {
    let scratch = Scratch::new("changes-json");
    let lone = Lone::start(&scratch);
    lone.put("a", "b");
    let told = |expect: i32, arguments: &[&str]| -> Value {
        let (code, stdout, stderr) = run(&[arguments, &["--json"]].concat());
        assert_eq!(code, expect, "{arguments:?}: {stdout}{stderr}");
        serde_json::from_str(&stdout).unwrap()
    };
    let by = ["--bootstrap", &lone.raft];
    let moved = told(0, &[&["quorum", "upgrade"][..], &by].concat());
    documented_as("`quorum`", "quorum upgrade", &moved);
    assert_eq!((&moved["features"][0]["changed"], &moved["error"]), (&true.into(), &Value::Null));
    let nobody = ["quorum", "upgrade", "--bootstrap", "127.0.0.1:1"];
    let failed = told(FAILED, &nobody);
    documented_as("`quorum`", "quorum upgrade", &failed);
    assert!(failed["error"].is_string() && failed["features"] == Value::Array(vec![]), "{failed}");

    let only = told(FAILED, &[&["quorum", "remove", "1"][..], &by].concat());
    is_documented(&only);
    assert!(only["error"].as_str().unwrap().contains("the only voter"), "{only}");
    let same = told(0, &[&["quorum", "alter", "--voters", "1"][..], &by].concat());
    is_documented(&same);
    assert_eq!((&same["steps"], &same["voters"][0]["node"]), (&Value::Array(vec![]), &1.into()));

    let stays = told(FAILED, &["quorum", "resign", "--http", &lone.url]);
    documented_as("`quorum`", "quorum resign", &stays);
    assert!(stays["before"] == 1 && stays["error"].is_string(), "{stays}");
    drop(lone);

    let other = scratch.0.join("other").display().to_string();
    let config = scratch.0.join("node.properties").display().to_string();
    let directory = format!("log.dirs={other}");
    let formatted = told(0, &["format", "--config", &config, "--override", &directory]);
    documented_as("`format`", "none", &formatted);
    assert_eq!((&formatted["directory"], &formatted["already"]), (&other.into(), &false.into()));
}
