//! `quorate recover` as programs see it; what it does to a quorum is in `tests/processes`.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

mod support;

use serde_json::Value;
use support::{FAILED, Scratch, USAGE, check_fails, documented_as, formatted, run};

#[test]
fn the_plan_is_documented_and_changes_nothing() {
    let scratch = Scratch::new("recover");
    let data = formatted(&scratch);
    let nothing = scratch.0.join("nothing").display().to_string();
    std::fs::create_dir(&nothing).unwrap();
    let voter = "1@127.0.0.1:9";
    let plan = ["recover", &data, &nothing, "--voters", voter, "--no-peers", "--dry-run"];
    let (code, stdout, stderr) = run(&[&plan[..], &["--json"]].concat());
    assert_eq!(code, 0, "{stderr}");
    let object: Value = serde_json::from_str(&stdout).unwrap();
    documented_as("recover", "the plan", &object);
    let copies = object["copies"].as_array().unwrap();
    copies.iter().for_each(|copy| documented_as("recover", "copy", copy));
    assert!(copies[1]["unusable"].as_str().unwrap().contains("not formatted"), "{object}");
    assert_eq!((&object["changed"], copies.len()), (&Value::from(false), 2));

    let (code, stdout, _) = run(&plan);
    assert_eq!(code, 0, "{stdout}");
    for words in
        ["counts: node 1 of the cluster test", "new voters, in epoch", "MAY BE LOST: records"]
    {
        assert!(stdout.contains(words), "{stdout}");
    }
    let partition = scratch.0.join("data/__cluster_metadata-0");
    assert!(!partition.join("quorate-recovered").exists());

    // What listens there and is no controller might be one that speaks TLS.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = mute.local_addr().unwrap();
    let closes = std::thread::spawn(move || (0..4).for_each(|_| drop(mute.accept().unwrap())));
    let (mute, peers) = (format!("1@{at}"), at.to_string());
    let says = ["no controller of Kafka's or ours", "whether a leader is left", "--no-peers"];
    let asks = ["recover", &data, "--voters", voter, "--peers", &peers, "--yes", "--json"];
    check_fails(&asks, FAILED, &says);
    let (code, _, stderr) =
        run(&["recover", &data, "--voters", &mute, "--no-peers", "--dry-run", "--json"]);
    assert!(code == 0 && stderr.contains("warning") && stderr.contains(&peers), "{stderr}");
    closes.join().unwrap();

    check_fails(&["recover"], USAGE, &["<DIR>"]);
    check_fails(&["recover", &data, "--voters", "1@127.0.0.1"], USAGE, &["ID@HOST:PORT"]);
    let both = ["recover", &data, "--peers", "127.0.0.1:9", "--no-peers"];
    check_fails(&both, USAGE, &["--peers", "--no-peers"]);
    let gone = scratch.0.join("gone").display().to_string();
    check_fails(&["recover", &gone], USAGE, &[&gone, "is not there"]);
    let (code, _, stderr) = run(&["recover", &nothing]);
    assert_eq!(code, FAILED);
    assert!(stderr.contains("none of these directories") && stderr.contains(&nothing), "{stderr}");
    // Whoever only looks writes nothing, so that it may be a copy that cannot be written.
    assert_eq!(std::fs::read_dir(&nothing).unwrap().count(), 0);

    let elsewhere = scratch.0.join("nothing/../nothing").display().to_string();
    check_fails(&["recover", &data, "--use", &elsewhere], USAGE, &["none of the directories"]);
    let voter = |text: &str, says: &[&str]| {
        check_fails(&["recover", &data, "--voters", text, "--no-peers", "--yes"], USAGE, says);
    };
    voter("1@a", &["'1@a' is no voter", "HOST:PORT must follow", "write ID@HOST:PORT, such as"]);
    voter("1@0.0.0.0:1", &["'1@0.0.0.0:1' is no voter: its address"]);
}

/// By whatever paths a directory is named.
#[test]
fn a_directory_that_is_named_twice_counts_once() {
    let scratch = Scratch::new("recover-twice");
    let data = formatted(&scratch);
    let link = scratch.0.join("link");
    std::os::unix::fs::symlink(&data, &link).unwrap();
    let link = link.display().to_string();
    let plan = ["--voters", "1@127.0.0.1:9", "--no-peers", "--dry-run", "--json"];
    let (code, stdout, stderr) =
        run(&[&["recover", &data, &link, &data, "--use", &link], &plan[..]].concat());
    assert!(code == 0 && stderr.contains("are one directory"), "{stderr}");
    let object: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(object["copies"].as_array().unwrap().len(), 1);
    assert_eq!(object["use"], Value::from(data));
}

/// Where a recovery has begun nobody can tell how far it came but the next one.
#[test]
fn a_node_does_not_start_on_what_a_recovery_has_not_finished() {
    let scratch = Scratch::new("recover-unfinished");
    let data = formatted(&scratch);
    let config = scratch.0.join("node.properties");
    let config = config.display().to_string();
    let go = ["recover", &data, "--voters", "1@127.0.0.1:9", "--no-peers", "--json"];
    let planned = |more: &str| -> Value {
        let (code, stdout, stderr) = run(&[&go[..], &[more]].concat());
        assert_eq!(code, 0, "{stderr}");
        serde_json::from_str(&stdout).unwrap()
    };
    let first = planned("--dry-run");
    // Blocks of 512 bytes: enough for the voters and not for what is passed over.
    let mut limited = std::process::Command::new("sh");
    let program = env!("CARGO_BIN_EXE_quorate");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 40; exec \"$@\"", "sh", program]);
    let output = limited.args(go).arg("--yes").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(FAILED), "{said}");
    assert!(said.contains("changed in part") && said.contains("same command again"), "{said}");
    assert!(!said.contains("start the node again"), "{said}");
    let says = ["was cut short in", "in epoch", "run the same `quorate recover` again"];
    check_fails(&["run", &config], FAILED, &says);
    let found = ["quorate-recovering", "cut short", "run the same `quorate recover` again"];
    let (code, stdout, stderr) = run(&["log", "verify", &data]);
    assert!(code == FAILED, "{stdout}");
    found.iter().for_each(|words| assert!((stdout.clone() + &stderr).contains(words), "{stdout}"));

    let done = planned("--yes");
    assert_eq!((&done["lostFrom"], &done["resumesAt"]), (&first["lostFrom"], &first["resumesAt"]));
    assert_eq!(done["continues"], first["epoch"]);
    let marker = scratch.0.join("data/__cluster_metadata-0/quorate-recovered");
    let marker = std::fs::read_to_string(marker).unwrap();
    assert_eq!(marker.matches("lost.from=").count(), 1, "{marker}");
    assert!(marker.contains(&format!("lost.from={}\n", first["lostFrom"])), "{marker}");
    let again = planned("--yes");
    assert_eq!((&again["lostFrom"], &again["continues"]), (&Value::Null, &Value::Null));
    let marker = scratch.0.join("data/__cluster_metadata-0/quorate-recovered");
    let marker = std::fs::read_to_string(marker).unwrap();
    assert_eq!(marker.matches("lost.from=").count(), 2, "{marker}");

    // What says so is damaged: nobody starts either, and who recovers passes over as much again.
    let note = scratch.0.join("data/__cluster_metadata-0/quorate-recovering");
    std::fs::write(&note, "version=1\n").unwrap();
    check_fails(&["run", &config], FAILED, &["was cut short in"]);
    let anew = planned("--yes");
    let passed = anew["resumesAt"].as_u64().unwrap() - again["resumesAt"].as_u64().unwrap();
    assert!(passed > 1_000_000 && !note.exists(), "{anew}");
}
