//! A store that an older build wrote: `quorate quorum upgrade` moves it to the newest format level,
//! and the older build stops itself from then on.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

mod support;

use quorate::kv::{Condition, Write};
use quorate::{Config, Embedded, FormatLevel, HostPort, Kv, Request, Sessioned, Span, Voter};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::path::Path;
use support::{FAILED, Lone, Scratch, documented_as, formatted, http, run, signal, wait_for};

/// The node of a build that speaks levels up to this one, on this directory.
fn of_build(data: &str, newest: u16, port: u16) -> Embedded<Sessioned<Kv>> {
    let at = || HostPort { host: "127.0.0.1".into(), port };
    let id = Some(quorate::ReplicaId(1));
    let voters = vec![Voter { id: quorate::ReplicaId(1), at: at() }];
    let config = Config {
        newest_level: FormatLevel(newest),
        ..Config::new(id, Path::new(data).to_owned(), voters, at())
    };
    Embedded::start(config, Sessioned::new(Kv::new())).unwrap()
}

fn older(data: &str) -> Embedded<Sessioned<Kv>> {
    of_build(data, 0, 0)
}

fn status(node: &Lone) -> Value {
    let (_, body) = wait_for("a status", || http(&node.url, "GET", "/status", ""));
    serde_json::from_str(&body).unwrap()
}

fn stop(mut node: Lone) {
    signal("TERM", node.process.0.id().into());
    assert!(node.process.0.wait().unwrap().success());
}

#[test]
fn a_store_of_an_older_build_is_upgraded_and_the_older_build_stops_before_it() {
    let scratch = Scratch::new("upgrade");
    let data = formatted(&scratch);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let before = older(&data);
    let put = Write::Put { key: b"color", value: b"green", condition: Condition::Always };
    let put = Request::write(put.encode().unwrap());
    runtime.block_on(before.handle().write(put, Span::ms(60_000))).unwrap();
    before.stop().unwrap();

    let node = Lone::on(&scratch, data.clone(), "");
    node.put("shape", "round");
    let levels = |node: &Lone| {
        let status = status(node);
        (status["format_level"].clone(), status["newest_format_level"].clone())
    };
    assert_eq!(levels(&node), (json!(0), json!(1)));
    let upgrade = ["quorum", "upgrade", "--bootstrap", &node.raft];
    let (code, stdout, stderr) = run(&[&upgrade[..], &["--dry-run"]].concat());
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    for words in [
        "kraft.version: 0 now, then 1",
        "quorate.format: 0 now, then 1",
        "node 1 speaks quorate.format up to 1",
        "quorate.format can be raised; nothing was changed",
    ] {
        assert!(stdout.contains(words), "{words}: {stdout}");
    }
    assert_eq!(levels(&node), (json!(0), json!(1)));
    let (code, stdout, stderr) = run(&[&upgrade[..], &["--json"]].concat());
    assert_eq!(code, 0, "{stderr}");
    let object: Value = serde_json::from_str(&stdout).unwrap();
    documented_as("quorum", "quorum upgrade", &object);
    let features = object["features"].as_array().unwrap();
    features.iter().for_each(|feature| documented_as("quorum", "quorum upgrade", feature));
    assert!(features.iter().all(|feature| feature["changed"] == true), "{object}");
    assert_eq!(object["voters"], json!([{ "node": 1, "newest_format_level": 1 }]));
    assert_eq!(levels(&node), (json!(1), json!(1)));
    let (code, stdout, _) = run(&upgrade);
    assert_eq!((code, stdout.matches("nothing to do").count()), (0, 2), "{stdout}");
    let (_, stdout, _) = run(&["quorum", "status", "--http", &node.url]);
    assert!(stdout.contains("FormatLevel:          1\n"), "{stdout}");
    stop(node);

    // The older build comes back.
    let old = older(&data);
    let handle = old.handle();
    wait_for("its end", || runtime.block_on(handle.status()).is_err().then_some(()));
    let why = old.stop().unwrap_err().to_string();
    for words in [&data, "at quorate.format 1", "speaks up to 0", "its files are as they were"] {
        assert!(why.contains(words), "{words}: {why}");
    }
    let node = Lone::on(&scratch, data, "");
    node.put("size", "large");
    let (code, body) = http(&node.url, "GET", "/v1/kv/color", "").unwrap();
    assert_eq!((code, body.as_str()), (200, "green"));
    stop(node);
}

/// Who only looks does not show what it may misread.
#[test]
fn a_store_of_a_newer_build_is_not_observed() {
    let scratch = Scratch::new("upgrade-observe");
    let data = formatted(&scratch);
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let newer = of_build(&data, 2, free);
    let handle = newer.handle();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    wait_for("its level", || {
        let status = runtime.block_on(handle.status()).unwrap();
        (status.format_level == Some(2)).then_some(())
    });
    let (code, stdout, stderr) = run(&["observe", "--bootstrap", &newer.address().to_string()]);
    assert_eq!((code, stdout.as_str()), (FAILED, ""), "{stderr}");
    for words in ["at quorate.format 2", "speaks up to 1"] {
        assert!(stderr.contains(words), "{words}: {stderr}");
    }
    newer.stop().unwrap();
}
