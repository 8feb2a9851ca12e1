//! `quorate dev` from end to end: real processes, real files, a killed leader.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

mod support;

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{ChildStderr, Stdio};
use support::{Process, Scratch, http, quorate, run, signal, wait_for};

/// A running `quorate dev`.
struct Dev {
    process: Process,
    /// What it said when all nodes were ready.
    facts: Value,
    notes: std::io::Lines<BufReader<ChildStderr>>,
}

impl Dev {
    fn start(directory: &str, arguments: &[&str]) -> Dev {
        let mut command = quorate(&["dev", "--json", "--dir", directory]);
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process(command.spawn().unwrap());
        let mut notes = BufReader::new(process.0.stderr.take().unwrap()).lines();
        let mut line = String::new();
        BufReader::new(process.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let Ok(facts) = serde_json::from_str(&line) else {
            let notes: Vec<String> = notes.by_ref().map(Result::unwrap).collect();
            panic!("dev did not start: {notes:#?}");
        };
        Dev { process, facts, notes }
    }

    fn node(&self, id: u64) -> &Value {
        let nodes = self.facts["nodes"].as_array().unwrap();
        nodes.iter().find(|node| node["node"] == id).unwrap()
    }

    fn url(&self, id: u64) -> &str {
        self.node(id)["http"].as_str().unwrap()
    }

    /// The leader that some node other than `not` knows.
    fn leader(&self, not: u64) -> u64 {
        wait_for("a leader", || {
            (1..=3).filter(|id| *id != not).find_map(|id| {
                let (_, status) = http(self.url(id), "GET", "/status", "")?;
                let status: Value = serde_json::from_str(&status).ok()?;
                status["leader"].as_u64().filter(|leader| *leader != not)
            })
        })
    }

    /// Reads through a node until it serves, then says what it said.
    fn get(&self, id: u64, path: &str) -> (u16, String) {
        wait_for("an answer", || {
            http(self.url(id), "GET", path, "").filter(|(status, _)| *status < 500)
        })
    }

    /// Writes through a node until it is acknowledged; the value is the same each time.
    fn put(&self, id: u64, key: &str, value: &str) {
        wait_for("an acknowledged write", || {
            let (status, _) = http(self.url(id), "PUT", &format!("/v1/kv/{key}"), value)?;
            (status == 200).then_some(())
        });
    }

    /// Ends it as ctrl-c does and checks that it went well.
    fn interrupt(mut self) {
        signal("INT", u64::from(self.process.0.id()));
        let said: Vec<String> = self.notes.by_ref().map(Result::unwrap).collect();
        assert_eq!(self.process.0.wait().unwrap().code(), Some(0), "{said:#?}");
        assert_eq!(said.last().map(String::as_str), Some("stopping; the data stays"));
        self.expect_silence();
    }

    fn expect_silence(&self) {
        for id in 1..=3 {
            wait_for("the end of a node", || {
                http(self.url(id), "GET", "/livez", "").is_none().then_some(())
            });
        }
    }
}

#[test]
fn a_quorum_loses_its_leader_and_goes_on_and_its_data_stays() {
    let scratch = Scratch::new("dev");
    let directory = scratch.0.join("quorum").display().to_string();
    let mut dev = Dev::start(&directory, &[]);
    for id in 1..=3 {
        assert_eq!(dev.get(id, "/readyz"), (200, "ready\n".into()));
        dev.put(id, &format!("by{id}"), "before");
        assert_eq!(
            dev.get(id % 3 + 1, &format!("/v1/kv/by{id}")),
            (200, "before".into()),
            "any node reads it"
        );
    }

    // Others can be told where the quorum is.
    let controller = dev.node(2)["controller"].as_str().unwrap();
    let (code, stdout, stderr) = run(&["quorum", "status", "--bootstrap", controller]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains(&format!("2@{controller}")), "{stdout}");

    let killed = dev.leader(0);
    signal("KILL", dev.node(killed)["pid"].as_u64().unwrap());
    let other = killed % 3 + 1;
    dev.put(other, "after", "the kill");
    assert_ne!(dev.leader(killed), killed);
    assert_eq!(dev.get(other, "/v1/kv/by1"), (200, "before".into()));
    let died = dev.notes.next().unwrap().unwrap();
    assert!(
        died.starts_with(&format!("node {killed} (pid ")) && died.contains("killed by signal 9"),
        "{died}"
    );
    let returned = dev.notes.next().unwrap().unwrap();
    assert!(returned.starts_with(&format!("node {killed} runs again as pid ")), "{returned}");
    wait_for("the killed node's return", || {
        (http(dev.url(killed), "GET", "/readyz", "")?.0 == 200).then_some(())
    });
    wait_for("the killed node to catch up", || {
        let answer = http(dev.url(killed), "GET", "/v1/kv/after?consistency=local", "")?;
        (answer == (200, "the kill".into())).then_some(())
    });

    let urls: Vec<&str> = (1..=3).map(|id| dev.url(id)).collect();
    let urls = urls.join(",");
    check_commands(&urls);
    let facts = dev.facts.clone();
    dev.interrupt();

    let dev = Dev::start(&directory, &[]);
    assert_eq!(dev.facts["cluster"], facts["cluster"]);
    for id in 1..=3 {
        assert_eq!(dev.url(id), facts["nodes"][id as usize - 1]["http"], "ports are remembered");
        assert_eq!(dev.get(id, "/v1/kv/after"), (200, "the kill".into()));
    }
    let second = run(&["dev", "--dir", &directory, "--fresh"]);
    assert_eq!(second.0, 1, "{second:?}");
    let holder = format!("pid {} (quorate dev)", dev.process.0.id());
    assert!(second.2.contains(&holder), "{second:?}");
    assert_eq!(run(&["dev", "--dir", &directory, "--nodes", "1"]).0, 1);
    dev.interrupt();

    // Killed outright, dev cannot stop its nodes; they notice, and the next dev waits for that.
    let mut dev = Dev::start(&directory, &["--fresh"]);
    assert_ne!(dev.facts["cluster"], facts["cluster"]);
    assert_eq!(dev.get(1, "/v1/kv/after").0, 404, "fresh is empty");
    dev.put(1, "kept", "by the orphans");
    dev.process.0.kill().unwrap();
    dev.process.0.wait().unwrap();
    let dev = Dev::start(&directory, &[]);
    assert_eq!(dev.get(2, "/v1/kv/kept"), (200, "by the orphans".into()));
    dev.interrupt();
}

/// The commands that talk to nodes, against a healthy quorum.
fn check_commands(urls: &str) {
    let check = |arguments: &[&str], code: i32, expect: &str| {
        let (found, stdout, stderr) = run(&[arguments, &["--http", urls]].concat());
        assert_eq!(found, code, "{arguments:?}: {stderr}");
        assert!(
            stdout.contains(expect) || stderr.contains(expect),
            "{arguments:?}: {stdout} {stderr}"
        );
        stdout
    };
    let put = check(&["kv", "put", "cli", "1", "--if-absent", "--json"], 0, "version");
    let version = serde_json::from_str::<Value>(&put).unwrap()["version"].to_string();
    check(&["kv", "put", "cli", "2", "--if-absent"], 1, &format!("the key has version {version}"));
    let replaced = format!(" in place of {version}; the store is at ");
    check(&["kv", "put", "cli", "2", "--if-version", &version], 0, &replaced);
    assert_eq!(check(&["kv", "get", "cli"], 0, "2"), "2", "the value and nothing else");
    check(&["kv", "get", "cli", "--json"], 0, "\"value\":\"2\"");
    check(&["kv", "list", "cli"], 0, "\tcli\t2\n");
    assert_eq!(check(&["kv", "list", "by", "--limit", "2"], 0, "by1").lines().count(), 2);
    // Who wrote reads its own write, wherever it asks.
    for number in 0..20 {
        let put = check(&["kv", "put", "own", &number.to_string(), "--json"], 0, "state");
        let state = serde_json::from_str::<Value>(&put).unwrap()["state"].to_string();
        for node in urls.split(',') {
            let get = ["kv", "get", "own", "--local", "--min-version", &state, "--http", node];
            assert_eq!(run(&get), (0, number.to_string(), String::new()));
        }
    }
    check(&["kv", "delete", "own"], 0, "deleted version");
    check(&["kv", "delete", "cli"], 0, "deleted version");
    check(&["kv", "put", "cli", "3"], 0, ", a new key; the store is at ");
    check(&["kv", "delete", "cli"], 0, "deleted version");
    check(&["kv", "get", "cli"], 1, "no such key");
    check(&["kv", "put", "", "v"], 2, "the key is empty");
    let status = check(&["quorum", "status"], 0, "LeaderEpoch:");
    assert_eq!(status.lines().filter(|line| line.contains(" yes ")).count(), 3, "{status}");
    let replicas = check(&["quorum", "replication"], 0, "LogEndOffset");
    assert_eq!(replicas.lines().count(), 4, "{replicas}");
    let json: Value = serde_json::from_str(&check(&["quorum", "status", "--json"], 0, "")).unwrap();
    assert_eq!(json["nodes"].as_array().map(Vec::len), Some(3));
}

#[test]
fn a_directory_that_dev_did_not_make_is_left_alone() {
    let scratch = Scratch::new("foreign");
    scratch.write("precious", "mine");
    let directory = scratch.0.display().to_string();
    for arguments in [&["dev", "--dir", &directory][..], &["dev", "--fresh", "--dir", &directory]] {
        let (code, _, stderr) = run(arguments);
        assert_eq!(code, 1);
        assert!(stderr.contains("was not made by `quorate dev`"), "{stderr}");
    }
    let names: Vec<_> =
        std::fs::read_dir(&scratch.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["precious"]);
}
