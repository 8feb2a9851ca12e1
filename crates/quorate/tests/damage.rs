//! A damaged log as an operator meets it.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test ends where a fact is missing; a test may use files, threads and clocks"
)]

mod support;

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use support::{Lone, Process, Scratch, quorate, run, signal};

/// A bit of a batch flips. Others vote, so the node starts and asks for a human.
#[test]
fn damage_that_a_start_finds_is_told_at_error_in_one_line() {
    let scratch = Scratch::new("damage-at-a-start");
    let mut node = Lone::start(&scratch);
    node.put("key", "a value that is found again in the file");
    signal("TERM", node.process.0.id().into());
    assert!(node.process.0.wait().unwrap().success());
    let folder = format!("{}/__cluster_metadata-0", node.data);
    let path = format!("{folder}/00000000000000000000.log");
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(5).position(|five| five == b"found").unwrap();
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();

    let (code, stdout, _) = run(&["log", "verify", &node.data]);
    assert_eq!(code, 1);
    assert!(stdout.contains(": expected the batch at offset "), "{stdout}");
    assert_eq!(stdout.matches("expected").count(), 1, "once is enough: {stdout}");

    let config = scratch.0.join("node.properties").display().to_string();
    let voters = "controller.quorum.voters=1@127.0.0.1:9093,2@127.0.0.1:1,3@127.0.0.1:2";
    let mut command = quorate(&["run", &config, "--override", voters]);
    let mut process = Process(command.stderr(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(process.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find(|line| line.contains("aside")).unwrap();
    assert!(line.contains(" ERROR "), "{line}");
    assert!(line.contains("00000000000000000000.log") && line.contains("checksum"), "{line}");
}
