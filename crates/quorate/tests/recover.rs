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
    for words in ["counts: node 1 of the cluster test", "new voters, in epoch", "LOST: records"] {
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
}
