//! The commands as a shell sees them: exit codes, and what is said when something is wrong.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

mod support;

use quorate::status::{Status, VoterStatus};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc;
use support::{FAILED, Process, Scratch, USAGE, check_fails, documented_as, quorate, run};

/// The only voter of a quorum, which needs nobody and can take any port.
fn lone_node(scratch: &Scratch, id: u32) -> String {
    let data = scratch.0.join("data").display().to_string();
    let text = format!(
        "node.id={id}\nlog.dirs={data}\nlisteners=CONTROLLER://127.0.0.1:0\ncontroller.quorum.voters={id}@127.0.0.1:9093\n"
    );
    scratch.write(&format!("node{id}.properties"), &text)
}

#[test]
fn a_wrong_command_line_is_a_usage_error() {
    check_fails(&["frobnicate"], USAGE, &["frobnicate"]);
    check_fails(&["run"], USAGE, &["<FILE>"]);
    check_fails(&["run", "x", "--override", "novalue"], USAGE, &["KEY=VALUE"]);
    check_fails(
        &["kv", "put", "k", "v", "--if-absent", "--if-version", "1"],
        USAGE,
        &["--if-absent"],
    );
    check_fails(&["kv", "get", "k", "--http", "localhost"], USAGE, &["http://HOST:PORT"]);
    check_fails(&["dev", "--nodes", "0"], USAGE, &["1..=9"]);
}

#[test]
fn help_teaches() {
    for command in ["dev", "format", "run", "kv", "quorum", "observe", "random-uuid"] {
        let (code, stdout, stderr) = run(&[command, "--help"]);
        assert_eq!((code, stderr.as_str()), (0, ""), "{command}");
        assert!(
            stdout.contains(&format!("quorate {command}")),
            "{command} shows an example: {stdout}"
        );
    }
    let (code, stdout, _) = run(&["run", "--help-config"]);
    assert_eq!(code, 0);
    for setting in quorate::settings::table::ALL {
        assert!(stdout.contains(setting.name), "{}", setting.name);
    }
}

#[test]
fn a_wrong_property_file_is_a_usage_error_that_names_every_problem() {
    let scratch = Scratch::new("wrong_file");
    let file = scratch.write(
        "bad.properties",
        "node.id=one\nlog.dirs=/nowhere\nlisteners=CONTROLLER://:0\nvoters=1@a:1\n",
    );
    for command in [&["run", &file][..], &["format", "--config", &file]] {
        let stderr = check_fails(command, USAGE, &[]);
        assert_eq!(
            stderr,
            format!(
                "error: {file} cannot be used\n  \
                 line 1: node.id=one: must be a whole number from 0 to 2147483647\n  \
                 line 4: voters=1@a:1: there is no such setting; `quorate run --help-config` lists them all\n  \
                 missing: controller.quorum.voters: is needed: all nodes that vote, such as 1@a:9093,2@b:9093,3@c:9093; or, where the log names them, controller.quorum.bootstrap.servers=a:9093,b:9093; or, to start without a format, quorate.bootstrap=true on the first node and quorate.join=a:9093 on the others\n"
            )
        );
    }
    check_fails(&["run", "/no/such/file"], USAGE, &["/no/such/file cannot be read"]);
}

#[test]
fn ids_are_kafkas_and_never_look_like_options() {
    for _ in 0..20 {
        let (code, stdout, _) = run(&["random-uuid"]);
        let id = stdout.trim();
        assert_eq!(code, 0);
        assert!(id.parse::<quorate_base::Uuid>().is_ok() && !id.starts_with('-'), "{id}");
    }
}

#[test]
fn a_directory_is_formatted_once_for_one_node_of_one_cluster() {
    let scratch = Scratch::new("format");
    let (one, two) = (lone_node(&scratch, 1), lone_node(&scratch, 2));
    let data = format!("in {}: ", scratch.0.join("data").display());
    check_fails(
        &["run", &one],
        FAILED,
        &[&data, "not formatted, or not mounted", "quorate format"],
    );
    assert!(!scratch.0.join("data").exists(), "only format makes a directory");
    std::fs::create_dir(scratch.0.join("data")).unwrap();
    check_fails(&["run", &one], FAILED, &[&data, "not formatted, or not mounted"]);
    assert_eq!(
        std::fs::read_dir(scratch.0.join("data")).unwrap().count(),
        0,
        "nothing is left where a disk is to be mounted"
    );
    let (code, stdout, stderr) = run(&["format", "-c", &one, "-t", "a-cluster-of-ours"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.contains("formatted for node 1 of the cluster a-cluster-of-ours"), "{stdout}");
    let meta = std::fs::read_to_string(scratch.0.join("data/meta.properties")).unwrap();

    check_fails(
        &["format", "-c", &one],
        FAILED,
        &[
            "already formatted",
            "node 1 of the cluster a-cluster-of-ours",
            &format!("Run it as it is with `quorate run {one}`, or name another directory"),
        ],
    );
    let (code, stdout, _) = run(&["format", "-c", &one, "--ignore-formatted"]);
    assert_eq!((code, stdout.contains("already")), (0, true), "{stdout}");
    let other = ["format", "-c", &one, "-t", "another", "--ignore-formatted"];
    check_fails(&other, FAILED, &["cluster.id=a-cluster-of-ours", "another"]);
    check_fails(
        &["format", "-c", &two, "--ignore-formatted"],
        FAILED,
        &["node.id=1", "2 is configured"],
    );
    check_fails(&["run", &two], FAILED, &[&data, "node.id=1", "2 is configured"]);
    assert_eq!(
        std::fs::read_to_string(scratch.0.join("data/meta.properties")).unwrap(),
        meta,
        "nothing was changed"
    );
}

#[test]
fn a_cluster_id_is_judged_before_anything_else() {
    let long = "x".repeat(65);
    for id in ["bad id", "", "-t", "--config", "a/b", "a=b", "h\u{e4}h", "a\n", &long] {
        check_fails(
            &["format", "-t", id, "-c", "/no/such/file"],
            USAGE,
            &["1 to 64 letters (a-z, A-Z), digits, '-', '_' and '.', and not begin with '-'"],
        );
    }
    for id in ["U7HrM6vDTwWK2XclkAu2_g", "a.b-c_D9", &long[1..]] {
        let says = ["/no/such/file cannot be read"];
        check_fails(&["format", "-t", id, "-c", "/no/such/file"], USAGE, &says);
    }
}

#[test]
fn a_node_that_no_voter_list_names_is_told_so_loudly() {
    let scratch = Scratch::new("observer");
    let file = lone_node(&scratch, 1);
    let format = ["format", "-c", &file, "--override", "node.id=9"];
    let (code, stdout, stderr) = run(&format);
    assert!(code == 0 && stdout.trim_end().ends_with(", an observer"), "{stdout}");
    let warning = "node 9 is not among the voters: it will be an OBSERVER";
    assert!(stderr.starts_with(&format!("warning: {warning}")), "{stderr}");

    // Another node than the directory's, so that it ends by itself.
    let listens = "listeners=CONTROLLER://127.0.0.1:9099";
    let run = ["run", &file, "--override", listens];
    let stderr =
        check_fails(&run, FAILED, &["node 1 listens on port 9093, its listener says 9099"]);
    assert_eq!(stderr.matches("WARN").count(), 1, "{stderr}");
}

#[test]
fn a_node_whose_http_port_is_taken_leaves_its_directory_as_it_is() {
    let scratch = Scratch::new("http-taken");
    let file = lone_node(&scratch, 1);
    assert_eq!(run(&["format", "-c", &file]).0, 0);
    let log = scratch.0.join("data/__cluster_metadata-0/00000000000000000000.log");
    std::fs::write(&log, "a torn end").unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = format!("quorate.http.listen={}", taken.local_addr().unwrap());
    check_fails(&["run", &file, "--override", &at], FAILED, &["HTTP cannot listen on 127.0.0.1"]);
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "a torn end");
}

/// T37
#[test]
fn two_processes_never_share_a_directory() {
    let scratch = Scratch::new("lock");
    let file = lone_node(&scratch, 1);
    assert_eq!(run(&["format", "-c", &file]).0, 0);
    let first = quorate(&["run", &file, "--until-stdin-closes"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = Process(first);
    let mut log = BufReader::new(first.0.stderr.take().unwrap()).lines();
    assert!(log.by_ref().any(|line| line.unwrap().contains("the node runs")));

    let holder = format!("pid {}", first.0.id());
    let lock = scratch.0.join("data").join(Path::new(".lock")).display().to_string();
    check_fails(&["run", &file], FAILED, &[&lock, &holder]);
    // The port is taken too, but the lock says who has both.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let http = format!("quorate.http.listen={}", taken.local_addr().unwrap());
    check_fails(&["run", &file, "--override", &http], FAILED, &[&lock, &holder]);
    check_fails(&["format", "-c", &file], FAILED, &[&lock, &holder]);

    drop(first.0.stdin.take());
    assert_eq!(first.0.wait().unwrap().code(), Some(0), "a node ends with whoever started it");
    assert!(log.any(|line| line.unwrap().contains("stopped")));
}

#[test]
fn without_a_node_the_client_says_what_it_tried() {
    // Free a moment ago: nobody listens there.
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = held.local_addr().unwrap();
    drop(held);
    let urls = format!("http://{address},http://{address}");
    check_fails(
        &["kv", "get", "k", "--http", &urls],
        FAILED,
        &["no node could serve", &urls[..urls.len() / 2], "is `quorate dev` running?"],
    );
    check_fails(
        &["quorum", "status", "--http", &urls],
        FAILED,
        &["none of these nodes answers", "is `quorate dev` running?", "QUORATE_HTTP"],
    );
}

/// A node that gives one answer, or breaks off without one; what it was asked comes back.
fn node_that_answers(answer: &'static str) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, asked) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(reader.read_line(&mut head).unwrap() > 0, "a whole head");
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        reader.read_exact(&mut body).unwrap();
        // Not every test wants to know.
        let _ = tell.send(head);
        stream.write_all(answer.as_bytes()).unwrap();
    });
    (url, asked)
}

const BUSY: &str = "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n";
const NO_LEADER: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
const UNKNOWN: &str = "HTTP/1.1 504 Gateway Timeout\r\ncontent-length: 0\r\n\r\n";
const BROKEN: &str = "";
const VALUE: &str = "HTTP/1.1 200 OK\r\netag: \"7\"\r\ncontent-length: 5\r\n\r\nvalue";
const WRITTEN: &str =
    "HTTP/1.1 201 Created\r\ncontent-length: 29\r\n\r\n{\"version\":7,\"previous\":null}";

#[test]
fn a_request_goes_on_to_the_next_node_only_where_it_can_do_no_harm() {
    for (first, command, goes_on) in [
        (BUSY, &["kv", "put", "k", "v"][..], true),
        (NO_LEADER, &["kv", "put", "k", "v"], true),
        (UNKNOWN, &["kv", "put", "k", "v"], false),
        (BROKEN, &["kv", "put", "k", "v"], false),
        (UNKNOWN, &["kv", "delete", "k"], false),
        (BUSY, &["kv", "get", "k"], true),
        (UNKNOWN, &["kv", "get", "k"], true),
        (BROKEN, &["kv", "get", "k"], true),
    ] {
        let second = if command[1] == "get" { VALUE } else { WRITTEN };
        let (first_url, first) = node_that_answers(first);
        let (second_url, second) = node_that_answers(second);
        let urls = format!("{first_url},{second_url}");
        let (code, stdout, stderr) = run(&[command, &["--http", &urls]].concat());
        let told = format!("{command:?} {stdout} {stderr}");
        assert!(first.recv().unwrap().contains("/v1/kv/k"), "{told}");
        assert_eq!(code, if goes_on { 0 } else { 1 }, "{told}");
        assert_eq!(second.try_recv().is_ok(), goes_on, "{told}");
    }
}

/// Takes connections, reads and answers nothing, as a node that was stopped does.
#[test]
fn a_node_that_takes_connections_and_does_not_answer_is_not_waited_for() {
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let mute = (format!("http://{}", mute.local_addr().unwrap()), mute);
    let (next_url, next) = node_that_answers(VALUE);
    let urls = format!("{},{next_url}", mute.0);
    let (code, stdout, stderr) = run(&["kv", "get", "k", "--http", &urls]);
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (0, "value", ""));
    assert!(next.recv().unwrap().contains("/v1/kv/k"));
    let status = ["quorum", "status", "--http", &mute.0];
    let says =
        ["took the connection and did not answer within 6 s", "name what quorate.http.listen"];
    let stderr = check_fails(&status, FAILED, &says);
    assert!(!stderr.contains("No connection could be made"), "{stderr}");
}

/// A node with the status page of a role, in a quorum of three that knows node 3 as its leader.
fn node_in_role(node: u32, role: &str) -> String {
    let voter = |node| VoterStatus { node, endpoint: format!("127.0.0.1:{node}") };
    let status = Status {
        node: Some(node),
        role: role.into(),
        leader: Some(3),
        voters: [1, 2, 3].map(voter).to_vec(),
        ..Status::default()
    };
    let body = serde_json::to_string(&status).unwrap();
    let length = body.len();
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
    node_that_answers(answer.leak()).0
}

#[test]
fn status_tells_a_leader_that_answers_from_one_that_is_only_named() {
    const SILENT: &str = "";
    let (one, two) = ((1, "follower"), (2, "follower"));
    for (nodes, says, answers) in [
        (&[one, two, (3, "leader")][..], "3", Some(true)),
        (&[one, two, (3, "resigned")], "3 (does not lead any more)", Some(true)),
        (&[one, two, (3, SILENT)], "3 (does not answer)", Some(false)),
        (&[one, (3, SILENT)], "3 (does not answer, or was not asked)", None),
        (&[one], "3 (was not asked)", None),
    ] {
        // Each answers once.
        let start = |(node, role): &(u32, &str)| match *role {
            SILENT => node_that_answers(BROKEN).0,
            role => node_in_role(*node, role),
        };
        let urls = || nodes.iter().map(start).collect::<Vec<_>>().join(",");
        let (code, stdout, stderr) = run(&["quorum", "status", "--http", &urls()]);
        assert_eq!(code, 0, "{stderr}");
        let line = stdout.lines().find_map(|line| line.strip_prefix("LeaderId:"));
        assert_eq!(line.unwrap().trim(), says, "{stdout}");

        let (code, stdout, _) = run(&["quorum", "status", "--json", "--http", &urls()]);
        let facts: Value = serde_json::from_str(&stdout).unwrap();
        documented_as("`quorum`", "quorum status", &facts);
        assert_eq!((code, &facts["leader"]), (0, &3.into()));
        assert_eq!(facts["leader_answers"], Value::from(answers), "{stdout}");
    }
}

#[test]
fn what_cannot_be_printed_fails_and_a_reader_who_left_does_not() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for command in [&["run", "--help-config"][..], &["random-uuid"]] {
        let output = quorate(command).stdout(full()).output().unwrap();
        assert_eq!(output.status.code(), Some(FAILED), "{command:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains("not all could be printed"), "{command:?}: {stderr}");
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = quorate(&["random-uuid"]).stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}
