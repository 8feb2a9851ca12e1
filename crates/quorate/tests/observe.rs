//! `quorate observe` as a shell sees it, on a quorum of this process whose log has metadata
//! records.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test ends where a fact is missing; a test may use files, threads and clocks"
)]

mod support;

use quorate::{
    Answer, Batch, Corrupt, Embedded, Image, Machine, Offset, OffsetEpoch, Operation, Proposal,
    Records, Request, Span, Time,
};
use quorate_machine::kafka::{Mirror, Picture};
use quorate_wire::record::metadata as record;
use quorate_wire::record::metadata::MetadataRecord;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::mpsc;
use support::{
    Lone, Process, Scratch, documented, documented_as, http, quorate, run, signal, wait_for,
};

/// Writes each request as the value of a record, as a Kafka controller writes its metadata.
struct Writer(Mirror);

impl Machine for Writer {
    const KEEPS_OFFSETS: bool = false;
    type Query = ();
    type Reply = Picture;

    fn fresh(&self) -> Writer {
        Writer(self.0.fresh())
    }

    fn view(&self) -> Writer {
        Writer(self.0.view())
    }

    fn apply(&mut self, batch: &Batch<'_>) {
        self.0.apply(batch);
    }

    fn query(&self, query: &()) -> Picture {
        self.0.query(query)
    }

    fn digest(&self) -> u64 {
        self.0.digest()
    }

    fn snapshot(&self) -> Image {
        self.0.snapshot()
    }

    fn restore(&mut self, at: OffsetEpoch, records: &mut Records<'_>) -> Result<(), Corrupt> {
        self.0.restore(at, records)
    }

    fn propose(&mut self, _: Time, _: Offset, request: &Request, out: &mut Proposal) {
        let Operation::Write(value) = &request.operation else {
            return out.answer(Answer::Refused("there are no sessions".into()));
        };
        out.record(None, Some(value));
        out.answer(Answer::Done("written".into()));
    }
}

struct Quorum {
    node: Embedded<Writer>,
    at: String,
    runtime: tokio::runtime::Runtime,
}

impl Quorum {
    fn start(scratch: &Scratch) -> Quorum {
        let node = Embedded::cluster_in(&scratch.0, 1, || Writer(Mirror::new())).unwrap().remove(0);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let at = node.address().to_string();
        Quorum { node, at, runtime }
    }

    fn write(&self, record: impl Into<MetadataRecord>) {
        let request = Request::write(record.into().encode(0).unwrap());
        self.runtime.block_on(self.node.handle().write(request, Span::ms(30_000))).unwrap();
    }
}

fn topic(name: &str) -> record::Topic {
    let topic_id = quorate::random_uuid().unwrap();
    record::Topic { name: name.into(), topic_id, ..Default::default() }
}

fn config(name: &str, value: &str) -> record::Config {
    record::Config {
        resource_type: 4,
        resource_name: "1".into(),
        name: name.into(),
        value: Some(value.into()),
        ..Default::default()
    }
}

fn objects(lines: &str) -> Vec<Value> {
    documented("observe", lines)
}

#[test]
fn it_shows_the_quorum_and_its_metadata_and_ends() {
    let scratch = Scratch::new("observe-once");
    let quorum = Quorum::start(&scratch);
    quorum.write(topic("orders"));
    quorum.write(config("log.retention.ms", "77"));
    quorum.write(config("ssl.key.password", "hush"));
    let (code, stdout, stderr) = run(&["observe", "--bootstrap", &quorum.at, "--json"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(!stdout.contains("hush"), "{stdout}");
    let found = objects(&stdout);
    assert_eq!(found[0]["type"], "quorum");
    assert_eq!((&found[0]["leader"], &found[0]["replicas"][0]["lag"]), (&json!(1), &json!(0)));
    let fact = |path: Value| found.iter().find(|object| object["path"] == path).unwrap();
    assert_eq!(fact(json!(["configs", "broker", "1", "log.retention.ms"]))["value"], "77");
    assert_eq!(fact(json!(["configs", "broker", "1", "ssl.key.password"]))["hidden"], true);
    assert!(fact(json!(["topics", "orders", "id"]))["value"].is_string());
    let last = found.last().unwrap();
    assert_eq!((&last["facts"], &last["records"]), (&json!(3), &json!(3)));

    // A directory that is kept is gone on with.
    let kept = scratch.0.join("kept").display().to_string();
    for depth in ["1", "2"] {
        let arguments = ["observe", "--bootstrap", &quorum.at, "--dir", &kept, "--depth", depth];
        let (code, stdout, stderr) = run(&arguments);
        assert_eq!((code, stderr.as_str()), (0, ""));
        assert!(stdout.contains("LeaderId:             1"), "{stdout}");
        let counted = ["configs/  (2 facts)", "  broker/  (2 facts)"][usize::from(depth == "2")];
        assert!(stdout.lines().any(|line| line == counted), "{counted} is missing:\n{stdout}");
        quorum.write(topic(depth));
    }
    // Nothing is put among others' files.
    let notes = scratch.write("notes.txt", "mine");
    let others = scratch.0.display().to_string();
    let (code, _, stderr) = run(&["observe", "--bootstrap", &quorum.at, "--dir", &others]);
    assert!(code == 1 && stderr.contains("is not empty and holds no copy of a log"), "{stderr}");
    assert!(!scratch.0.join("meta.properties").exists());
    std::fs::remove_file(notes).unwrap();
    // Nobody was added to the quorum by all this.
    let status = quorum.runtime.block_on(quorum.node.handle().status()).unwrap();
    assert_eq!(status.replicas.len(), 1, "{:?}", status.replicas);
    quorum.node.stop().unwrap();
}

#[test]
fn it_follows_each_change_and_says_when_the_cluster_is_gone() {
    let scratch = Scratch::new("observe-follow");
    let quorum = Quorum::start(&scratch);
    quorum.write(topic("before"));
    let mut command = quorate(&["observe", "--bootstrap", &quorum.at, "--follow", "--json"]);
    command.env("TMPDIR", &scratch.0);
    let mut process = Process(command.stdout(Stdio::piped()).spawn().unwrap());
    let stdout = process.0.stdout.take().unwrap();
    let (tell, told) = mpsc::channel::<Value>();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines() {
            let sent = tell.send(serde_json::from_str(&line.unwrap()).unwrap());
            if sent.is_err() {
                return;
            }
        }
    });
    let next = |kind: &str| loop {
        let object = told.recv_timeout(std::time::Duration::from_secs(60)).expect(kind);
        documented_as("observe", object["type"].as_str().unwrap(), &object);
        if object["type"] == kind {
            return object;
        }
    };
    let end = next("metadata")["endOffset"].as_u64().unwrap();
    quorum.write(record::NoOp::default());
    quorum.write(topic("after"));
    quorum.write(config("ssl.key.password", "hush"));
    // A record that changes nothing is passed over.
    let change = next("change");
    assert_eq!(change["offset"], end + 1);
    assert_eq!(change["metadata"]["type"], "TOPIC_RECORD");
    assert_eq!(change["metadata"]["data"]["name"], "after");
    let change = next("change");
    assert_eq!((&change["hidden"], &change["offset"]), (&json!(true), &json!(end + 2)));
    assert_eq!(change["metadata"]["data"]["value"], Value::Null);

    quorum.node.stop().unwrap();
    let why = next("unreachable")["why"].to_string();
    assert!(why.contains("no controller answers"), "{why}");
    signal("TERM", process.0.id().into());
    assert!(process.0.wait().unwrap().success());
    let left = std::fs::read_dir(&scratch.0).unwrap();
    let names: Vec<String> =
        left.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names, ["node-1"], "nothing temporary is left");
}

#[test]
fn who_loses_the_terminal_leaves_no_copy_of_the_log() {
    let scratch = Scratch::new("observe-hang-up");
    let quorum = Quorum::start(&scratch);
    let temporary = scratch.0.join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let mut command = quorate(&["observe", "--bootstrap", &quorum.at, "--follow", "--json"]);
    command.env("TMPDIR", &temporary).stdout(Stdio::piped());
    let mut process = Process(command.spawn().unwrap());
    let mut lines = BufReader::new(process.0.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("\"metadata\"")));
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 1);
    signal("HUP", process.0.id().into());
    assert!(process.0.wait().unwrap().success());
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
}

#[test]
fn it_ends_when_nobody_reads_it_any_more() {
    let scratch = Scratch::new("observe-closed");
    let quorum = Quorum::start(&scratch);
    let mut command = quorate(&["observe", "--bootstrap", &quorum.at, "--follow"]);
    let mut process = Process(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(process.0.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.starts_with("ClusterId:"), "{first}");
    drop(lines);
    let ended = wait_for("its end", || {
        quorum.write(topic(&quorate::random_uuid().unwrap().to_string()));
        process.0.try_wait().unwrap()
    });
    assert!(ended.success(), "{ended}");
    quorum.node.stop().unwrap();
}

#[test]
fn what_cannot_be_observed_is_said_in_words() {
    let fails = |at: &str, says: &str| {
        let (code, stdout, stderr) = run(&["observe", "--bootstrap", at]);
        assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
        assert!(stderr.contains(says), "{at} must say '{says}': {stderr}");
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        // Until the other side has had enough.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    fails(&at, "it does not answer in Kafka's protocol");
    // Nobody listens there: it was free a moment ago.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    fails(&free, "Name at least one controller that runs");

    let (code, _, stderr) = run(&["observe", "--bootstrap", "localhost"]);
    assert!(code == 2 && stderr.contains("write HOST:PORT of a controller"), "{stderr}");
}

/// One of three voters runs: it answers, and there is no leader.
#[test]
fn without_a_leader_it_is_said_what_that_means_and_what_to_do() {
    let scratch = Scratch::new("observe-leaderless");
    let node = Lone::beside(&scratch, ",2@127.0.0.1:1,3@127.0.0.1:2");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let both = format!("{free},{}", node.raft);
    for what in ["status", "replication"] {
        let (code, stdout, stderr) = run(&["quorum", what, "--bootstrap", &both]);
        assert_eq!((code, stdout.as_str()), (1, ""));
        for says in [
            "no leader answers",
            &format!("\n  {free}: Connection refused"),
            &format!("\n  {}: this controller knows no leader", node.raft),
            "a majority of its voters run",
            "start the voters that are down",
        ] {
            assert!(stderr.contains(says), "{says}: {stderr}");
        }
    }
    let mut command = quorate(&["observe", "--bootstrap", &both]);
    let mut process = Process(command.stderr(Stdio::piped()).spawn().unwrap());
    let line = BufReader::new(process.0.stderr.take().unwrap()).lines().next().unwrap().unwrap();
    assert!(line.contains("no leader answers yet"), "{line}");
}

#[test]
fn metrics_say_what_is_observed() {
    let scratch = Scratch::new("observe-metrics");
    let quorum = Quorum::start(&scratch);
    let orders = topic("orders");
    let partition = |partition_id, leader, isr: &[i32]| record::Partition {
        partition_id,
        topic_id: orders.topic_id,
        replicas: vec![1, 2],
        isr: isr.to_vec(),
        leader,
        ..Default::default()
    };
    quorum.write(orders.clone());
    quorum.write(partition(0, 1, &[1, 2]));
    quorum.write(partition(1, 1, &[1]));
    quorum.write(partition(2, -1, &[2]));
    let mut command = quorate(&["observe", "--bootstrap", &quorum.at, "--follow"]);
    command.args(["--http", "127.0.0.1:0"]).env("TMPDIR", &scratch.0);
    let piped = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut process = Process(piped);
    let mut stderr = BufReader::new(process.0.stderr.take().unwrap()).lines();
    let said = stderr.next().unwrap().unwrap();
    let url = said.strip_prefix("metrics at ").and_then(|url| url.strip_suffix("/metrics"));
    let url = url.unwrap_or_else(|| panic!("{said}"));
    let values = || -> Vec<String> {
        let (code, body) = http(url, "GET", "/metrics", "").unwrap();
        assert_eq!(code, 200, "{body}");
        let values = body.lines().filter(|line| !line.starts_with('#'));
        values.filter_map(|line| line.strip_prefix("quorate_observe_").map(str::to_owned)).collect()
    };
    let found = values();
    for value in [
        "up 1",
        "leader_id 1",
        "replica_lag{node=\"1\",status=\"Leader\"} 0",
        "topics 1",
        "partitions 3",
        "partitions_without_leader 1",
        "partitions_under_replicated 2",
        "records_left_out 0",
        "brokers{state=\"active\"} 0",
    ] {
        assert!(found.iter().any(|line| line == value), "{value} is missing: {found:#?}");
    }
    assert_eq!(http(url, "GET", "/", "").unwrap().0, 404);
    assert_eq!(http(url, "POST", "/metrics", "").unwrap().0, 405);
    // The state is that of the moment.
    quorum.write(topic("more"));
    wait_for("the new topic in the metrics", || {
        values().iter().any(|line| line == "topics 2").then_some(())
    });
    quorum.node.stop().unwrap();
    wait_for("that nobody answers", || values().iter().any(|line| line == "up 0").then_some(()));
    signal("TERM", process.0.id().into());
    assert!(process.0.wait().unwrap().success());
}

#[test]
fn of_a_key_value_store_the_keys_are_shown_and_each_write() {
    let scratch = Scratch::new("observe-keys");
    let node = Lone::start(&scratch);
    node.put("users/ann", "1");
    node.put("users/bob", "22");
    node.put("greeting", "hello");
    let (code, session) = http(&node.url, "POST", "/v1/session?ttl=600000", "").unwrap();
    assert_eq!(code, 201, "{session}");
    let (code, stdout, stderr) = run(&["observe", "--bootstrap", &node.raft]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(!stdout.contains("x00"), "bookkeeping is not shown: {stdout}");
    let rows: Vec<Vec<&str>> =
        stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    for (keys, name) in
        [("1", "greeting"), ("2", "users/"), ("1", "ann"), ("3", "keys)"), ("2", "like)")]
    {
        let row = rows.iter().find(|row| row.first() == Some(&keys) && row.last() == Some(&name));
        assert!(row.is_some(), "{keys} {name}: {stdout}");
    }
    assert!(stdout.contains("\n3 keys of a key-value store, as of offset "), "{stdout}");

    let mut command = quorate(&["observe", "--bootstrap", &node.raft, "--follow"]);
    let mut process = Process(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(process.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.starts_with("3 keys")));
    let mut changes = Vec::new();
    for (key, value) in [("greeting", "good morning"), ("users/eve", "x\ny")] {
        node.put(key, value);
        let line = lines.next().unwrap();
        changes.push(line.split_once("  ").unwrap().1.to_owned());
    }
    assert_eq!(http(&node.url, "DELETE", "/v1/kv/greeting", "").unwrap().0, 200);
    changes.push(lines.next().unwrap().split_once("  ").unwrap().1.to_owned());
    assert_eq!(changes, ["greeting = good morning", "users/eve = (3 bytes)", "greeting deleted"]);

    let (code, stdout, _) = run(&["observe", "--bootstrap", &node.raft, "--json"]);
    assert_eq!(code, 0);
    let found = objects(&stdout);
    let keys: Vec<&Value> = found.iter().filter(|object| object["type"] == "key").collect();
    let names: Vec<&str> = keys.iter().filter_map(|key| key["key"].as_str()).collect();
    assert_eq!(names, ["users/ann", "users/bob", "users/eve"]);
    assert!(keys.iter().all(|key| key["version"].is_u64()), "{keys:?}");
    let of = |kind: &str| found.iter().find(|object| object["type"] == kind).unwrap();
    assert_eq!((&of("keys")["count"], &of("reserved")["count"]), (&json!(3), &json!(2)));
    assert!(of("reserved")["bytes"].as_u64().unwrap() > 0);
    // The level, five values, a deletion, and the session.
    assert_eq!((&of("metadata")["keys"], &of("metadata")["records"]), (&json!(3), &json!(8)));
}
