//! `quorate snapshot` on snapshots that Kafka wrote and on ours, whole and damaged.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

mod support;

use quorate_base::{Epoch, Offset, OffsetEpoch};
use quorate_log::{OsDisk, SnapshotRecord, SnapshotWriter};
use quorate_machine::{Batch, Headers, Kv, Machine, OwnedRecord, Record, Sessioned};
use serde_json::{Value, json};
use std::path::Path;
use support::{Scratch, documented, run};

const KAFKAS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../log/tests/fixtures/kafka-4.3.1/dynamic/c3");

type Store = Sessioned<Kv>;

/// Applies one batch; values are null to delete.
fn apply(store: &mut Store, base: u64, records: &[(&[u8], Option<&[u8]>)]) {
    let records: Vec<Record<'_>> = (base..)
        .zip(records)
        .map(|(at, (key, value))| Record {
            offset: Offset(at),
            key: Some(key),
            value: *value,
            headers: Headers::NONE,
        })
        .collect();
    let end = Offset(base + records.len() as u64);
    store.apply(&Batch {
        base: Offset(base),
        end,
        epoch: Epoch(3),
        timestamp_ms: 0,
        records: &records,
    });
}

/// Writes what a store holds as the snapshot that ends there; its file's path.
fn freeze(store: &Store, dir: &Path, end: u64) -> String {
    write(store.snapshot(), dir, end)
}

fn write(records: impl Iterator<Item = OwnedRecord>, dir: &Path, end: u64) -> String {
    write_with(records, dir, end, Store::KEEPS_OFFSETS)
}

fn write_with(
    records: impl Iterator<Item = OwnedRecord>,
    dir: &Path,
    end: u64,
    keeps_offsets: bool,
) -> String {
    let id = OffsetEpoch::new(Offset(end), Epoch(3));
    let disk = OsDisk::new(dir);
    let mut writer = SnapshotWriter::create(disk, "", id, 1_700_000_000_123, &[]).unwrap();
    for record in records {
        let record = SnapshotRecord {
            offset: keeps_offsets.then_some(record.offset),
            timestamp_ms: 1_700_000_000_123,
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: record.header_count,
            encoded_headers: &record.headers,
        };
        writer.record(&record).unwrap();
    }
    writer.freeze().unwrap();
    dir.join(quorate_log::snapshot_name(id)).display().to_string()
}

/// Two snapshots of one store, the second after some changes; the directory of both.
fn ours(scratch: &Scratch) -> [String; 3] {
    let dir = scratch.0.join("data/__cluster_metadata-0");
    std::fs::create_dir_all(&dir).unwrap();
    let mut store = Sessioned::new(Kv::new());
    let session: &[u8] = b"\0s\0\0\0\0\0\0\0\x01";
    let ttl: &[u8] = b"\0\0\0\0\0\0\0\x13\x88";
    apply(
        &mut store,
        1,
        &[
            (session, Some(ttl)),
            (b"users/ann/mail", Some(b"a@b")),
            (b"users/ann/name", Some(b"Ann")),
            (b"users/bob", Some(b"Bob")),
            (b"users/", Some(b"")),
            (b"top", Some(b"12345")),
            (b"\xff/raw", Some(b"\xfe")),
        ],
    );
    let first = freeze(&store, &dir, 8);
    apply(
        &mut store,
        20,
        &[
            (session, Some(ttl)),
            (b"users/bob", None),
            (b"users/ann/name", Some(b"Anne")),
            (b"users/eve", Some(b"Eve")),
        ],
    );
    let second = freeze(&store, &dir, 24);
    [scratch.0.join("data").display().to_string(), first, second]
}

fn lines(text: &str) -> Vec<Value> {
    documented("snapshot tree", text)
}

#[test]
fn tree_shows_the_keys_of_the_newest_level_by_level() {
    let scratch = Scratch::new("snapshot-tree");
    let [data, first, second] = ours(&scratch);
    let (code, stdout, stderr) = run(&["snapshot", "tree", &first]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let size = std::fs::metadata(&first).unwrap().len();
    let expected = format!(
        "snapshot:    {first}
end offset:  8
epoch:       3
timestamp:   1700000000123 ms since 1970, of the last record in it
records:     7
bytes:       {size}

KEYS  BYTES  VERSION  KEY
1     8      6        top
4     52     5        users/
2     34                ann/
1     17     2            mail
1     17     3            name
1     12     4          bob
1     6               \\xff/
1     6      7          raw
6     66              (all keys)
1     19              (reserved: sessions and the like)
"
    );
    assert_eq!(stdout, expected);

    // The newest of a directory, and one level.
    let (code, stdout, stderr) = run(&["snapshot", "tree", &data, "--depth", "1", "--json"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let size = std::fs::metadata(&second).unwrap().len();
    let expected = [
        json!({"type": "snapshot", "path": second, "endOffset": 24, "epoch": 3,
            "timestamp": 1_700_000_000_123u64, "kRaftVersion": null, "voters": null, "records": 7,
            "size": size}),
        json!({"type": "key", "key": "top", "version": 6, "depth": 1, "keys": 1, "bytes": 8}),
        json!({"type": "key", "key": "users/", "version": 5, "depth": 1, "keys": 4, "bytes": 53}),
        json!({"type": "level", "level_base64": "/y8=", "depth": 1, "keys": 1, "bytes": 6}),
        json!({"type": "keys", "count": 6, "bytes": 67}),
        json!({"type": "reserved", "count": 1, "bytes": 19}),
        json!({"type": "keyless", "count": 0, "bytes": 0}),
    ];
    assert_eq!(lines(&stdout), expected);
}

#[test]
fn diff_tells_keys_and_versions() {
    let scratch = Scratch::new("snapshot-diff");
    let [data, first, second] = ours(&scratch);
    let expected = format!(
        "--- {first}
+++ {second}
~ users/ann/name  (version 3 -> version 22)
- users/bob  (version 4)
+ users/eve  (version 23)
keys: 1 added, 1 removed, 1 changed, 4 the same
reserved keys: 0 added, 0 removed, 1 changed, 0 the same
"
    );
    // A directory alone: its newest against the one before.
    for arguments in [&["snapshot", "diff", &data][..], &["snapshot", "diff", &first, &second]] {
        let (code, stdout, stderr) = run(arguments);
        assert_eq!((code, stderr.as_str(), &stdout), (0, "", &expected), "{arguments:?}");
    }
    let (code, stdout, _) = run(&["snapshot", "diff", &second, &first, "--json"]);
    assert_eq!(code, 0);
    let facts = lines(&stdout);
    assert_eq!(
        facts[2..],
        [
            json!({"type": "changed", "oldVersion": 22, "newVersion": 3, "key": "users/ann/name"}),
            json!({"type": "added", "oldVersion": null, "newVersion": 4, "key": "users/bob"}),
            json!({"type": "removed", "oldVersion": 23, "newVersion": null, "key": "users/eve"}),
            json!({"type": "summary",
                "keys": {"added": 1, "removed": 1, "changed": 1, "same": 4},
                "reserved": {"added": 0, "removed": 0, "changed": 1, "same": 0}}),
        ]
    );

    let (code, _, stderr) = run(&["snapshot", "diff", &first]);
    assert_eq!(code, 1);
    assert!(stderr.contains("no older one beside it to be compared with"), "{stderr}");

    std::fs::remove_file(&first).unwrap();
    for path in [&data, &second] {
        let (code, stdout, stderr) = run(&["snapshot", "diff", path]);
        assert_eq!((code, stdout.as_str()), (1, ""));
        assert!(
            stderr.contains("holds only one snapshot") && stderr.contains("name two"),
            "{stderr}"
        );
    }
}

#[test]
fn diff_finds_what_cannot_be_of_one_log() {
    let scratch = Scratch::new("snapshot-diverged");
    let dirs = ["one", "other", "twice"].map(|name| scratch.0.join(name));
    dirs.iter().for_each(|dir| std::fs::create_dir(dir).unwrap());
    let [one, other] = [(0, b"1"), (1, b"2")].map(|(nth, value)| {
        let mut store = Sessioned::new(Kv::new());
        apply(&mut store, 5, &[(b"k", Some(value)), (b"same", Some(b""))]);
        freeze(&store, &dirs[nth], 7)
    });
    let (code, stdout, stderr) = run(&["snapshot", "diff", &one, &other]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let expected = format!(
        "--- {one}\n+++ {other}\n~ k  (version 5 in both, with different values)\nkeys: 0 added, 0 removed, 1 changed, 1 the same\n"
    );
    assert_eq!(stdout, expected);

    let record = OwnedRecord::new(Offset(5), "k".into(), "1".into());
    let twice = write([record.clone(), record].into_iter(), &dirs[2], 7);
    let (code, stdout, stderr) = run(&["snapshot", "diff", &one, &twice]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("has the key k twice, so it is no state"), "{stderr}");
}

#[test]
fn dump_is_that_of_the_log() {
    let scratch = Scratch::new("snapshot-dump");
    let [data, _, second] = ours(&scratch);
    let (code, dumped, stderr) = run(&["snapshot", "dump", &data, "--json"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let (_, of_log, _) = run(&["log", "dump", &second, "--json"]);
    assert_eq!(dumped, of_log);
    let records = lines(&dumped);
    let of = |key: &str| records.iter().find(|fact| fact["key"] == key).unwrap();
    assert_eq!(of("users/eve")["value"], "Eve");

    let bootstrap = format!("{KAFKAS}/bootstrap.checkpoint");
    let (code, dumped, _) = run(&["snapshot", "dump", &bootstrap]);
    assert_eq!(code, 0);
    assert!(dumped.contains(" SnapshotFooter "), "{dumped}");
}

#[test]
fn a_snapshot_of_kafkas_is_shown_as_the_state_of_a_cluster() {
    let (code, stdout, stderr) = run(&["snapshot", "tree", KAFKAS]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let facts = [
        "00000000000000000324-0000000002.checkpoint\nend offset:  324\nepoch:       2\n",
        "\ncontrol:     KRaftVersion {\"kRaftVersion\":1,\"version\":0}\n",
        "\nvoters:      4-czfJg4CDwHwVJjbT8tBdAg at 127.0.0.1:29094, 1-HOMSeQ3sRdu175j0Wb8niA at ",
        "\nbrokers/\n  101  {\"brokerId\":101,",
        "\nconfigs/\n  broker/\n    (default)/\n      log.cleaner.threads  \"2\"\n",
        "\n  metadata.version  30\n",
        "\nscram/\n  SCRAM-SHA-256/\n    alice  (hidden)\n",
        "\n  orders/\n    id  \"ZjW50YLNTguXYP0abLwnhQ\"\n    partitions/\n      0  {\"partitionId\":0,",
    ];
    for fact in facts {
        assert!(stdout.contains(fact), "{fact} in {stdout}");
    }
    assert!(!stdout.contains("storedKey") && !stdout.contains("KEYS"), "{stdout}");

    let (code, stdout, _) = run(&["snapshot", "tree", KAFKAS, "--depth", "2"]);
    assert_eq!(code, 0);
    let counted = "\ntopics/\n  __consumer_offsets/  (4 facts)\n  after-failover/  (2 facts)\n";
    assert!(stdout.contains(counted), "{stdout}");

    let (code, stdout, _) = run(&["snapshot", "tree", KAFKAS, "--json"]);
    let facts = lines(&stdout);
    assert_eq!((code, &facts[0]["kRaftVersion"]), (0, &1.into()));
    assert_eq!(facts[0]["voters"].as_array().unwrap().len(), 3);
    let summary = json!({ "type": "metadata", "facts": 41, "records": 41, "leftOut": 0,
        "inTransaction": false });
    assert_eq!(facts[facts.len() - 1], summary);
    let at = |path: Value| facts.iter().find(|fact| fact["path"] == path).unwrap();
    assert_eq!(at(json!(["brokers", 101]))["value"]["rack"], "rack-1");
    let hidden = at(json!(["scram", "SCRAM-SHA-256", "alice"]));
    assert_eq!((&hidden["value"], &hidden["hidden"]), (&Value::Null, &true.into()));
}

#[test]
fn two_snapshots_of_kafkas_differ_fact_by_fact() {
    let (code, stdout, stderr) = run(&["snapshot", "diff", KAFKAS]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let told: Vec<&str> = stdout.lines().skip(2).collect();
    assert!(told[0].starts_with("~ brokers/101  {") && told[0].contains(" -> {"), "{stdout}");
    assert!(told[1].starts_with("- brokers/102  {"), "{stdout}");
    assert!(
        stdout.contains("\n+ topics/after-failover/id  \"E6wfHf9QTPiRV0rEprUFoQ\"\n"),
        "{stdout}"
    );
    assert_eq!(told[told.len() - 1], "facts: 2 added, 1 removed, 14 changed, 25 the same");

    let (code, stdout, stderr) = run(&["snapshot", "diff", KAFKAS, "--json"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let facts = lines(&stdout);
    assert_eq!((&facts[0]["endOffset"], &facts[1]["endOffset"]), (&240.into(), &324.into()));
    assert_eq!(facts.len(), 2 + 17 + 1);
    let counts = json!({ "added": 2, "removed": 1, "changed": 14, "same": 25 });
    assert_eq!(facts[facts.len() - 1], json!({ "type": "summary", "facts": counts }));
}

/// What looks like Kafka's records and is not can still be compared as it lies there.
#[test]
fn records_without_keys_are_bytes_if_so_told() {
    let arguments = ["snapshot", "tree", KAFKAS, "--decoder", "bytes"];
    let (code, stdout, stderr) = run(&arguments);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.contains("  (records without a key)\n"), "{stdout}");
    assert!(!stdout.contains("(all keys)") && !stdout.contains("brokers/"), "{stdout}");
    let (code, stdout, _) = run(&["snapshot", "diff", KAFKAS, "--decoder", "bytes", "--json"]);
    let facts = lines(&stdout);
    let summary = &facts[facts.len() - 1]["keys"];
    let count = |what: &str| summary[what].as_u64().unwrap();
    let changes = count("added") + count("removed") + count("changed");
    assert_eq!((code, changes), (0, facts.len() as u64 - 3));
    assert!(changes > 0 && count("same") > 0, "{summary}");
}

/// A snapshot of these values, without keys; its file.
fn keyless(dir: &Path, values: &[&'static [u8]]) -> String {
    let records = values.iter().map(|value| OwnedRecord {
        key: None,
        ..OwnedRecord::new(Offset(1), "".into(), (*value).into())
    });
    write_with(records, dir, 9, false)
}

#[test]
fn metadata_records_that_are_not_known_or_contradict_are_told_and_left_out() {
    let scratch = Scratch::new("snapshot-left-out");
    let path = keyless(
        &scratch.0,
        &[
            b"\x01\x0c\0\x11metadata.version\0\x1e\0",
            b"\x01\x63\x02rest",
            b"\x01\x09\0AAAAAAAAAAAAAAAA\0",
            b"\x01\x04\0\x04\x02\x31\x0bpassword\nX\x02s\0",
            b"\x01\x04\0\x04\x02\x31\x0dssl.password\x02s\0",
        ],
    );
    let (code, stdout, stderr) = run(&["snapshot", "tree", &path]);
    assert_eq!(code, 0, "{stderr}");
    for why in [
        "metadata record 1 is left out: no metadata record of type 99, here version 2, is known",
        "metadata record 2 is left out: REMOVE_TOPIC_RECORD: no topic has the id QUFBQUFBQUFBQUFBQUFBQQ",
    ] {
        assert!(stderr.contains(why), "{stderr}");
    }
    let tree = "configs/
  broker/
    1/
      password\\nX  \"s\"
      ssl.password  (hidden)
features/
  metadata.version  30
";
    assert!(stdout.ends_with(tree), "{stdout}");
    let (code, stdout, _) = run(&["snapshot", "tree", &path, "--json"]);
    let facts = lines(&stdout);
    assert_eq!((code, &facts[facts.len() - 1]["leftOut"]), (0, &2.into()));

    let (code, stdout, _) = run(&["snapshot", "dump", &path]);
    assert_eq!(code, 0);
    let line = " payload: 0x01630272657374 not understood: no metadata record of type 99, here version 2, is known\n";
    assert!(stdout.contains(line), "{stdout}");
}

#[test]
fn what_is_no_whole_snapshot_is_refused_with_the_place() {
    let scratch = Scratch::new("snapshot-refused");
    let [data, first, second] = ours(&scratch);
    let ends = |expect: i32, arguments: &[&str], why: &str| {
        let (code, stdout, stderr) = run(arguments);
        assert_eq!((code, stdout.as_str()), (expect, ""), "{arguments:?}");
        assert!(stderr.contains(why), "{arguments:?}: {stderr}");
    };
    let fails = |arguments: &[&str], why: &str| ends(1, arguments, why);
    let wrong = |arguments: &[&str], why: &str| ends(2, arguments, why);
    let whole = std::fs::read(&second).unwrap();
    let replace = |bytes: &[u8]| {
        std::fs::remove_file(&second).unwrap();
        std::fs::write(&second, bytes).unwrap();
    };
    replace(&whole[..whole.len() - 75]);
    let why = "is damaged: at byte ";
    let cut = "expected SnapshotFooter, found the end of the file. No node loads it";
    for command in ["tree", "diff"] {
        fails(&["snapshot", command, &data], why);
        fails(&["snapshot", command, &data], cut);
    }
    // A byte of the last value.
    let mut flipped = whole.clone();
    let at = whole.len() - 100;
    flipped[at] ^= 1;
    replace(&flipped);
    fails(&["snapshot", "tree", &second], why);
    let (code, stdout, stderr) = run(&["snapshot", "dump", &second]);
    assert!(code == 1 && stdout.contains("isvalid: false"), "{stdout}");
    assert!(stderr.contains("its records are not shown"), "{stderr}");
    replace(b"");
    fails(&["snapshot", "tree", &second], "expected SnapshotHeader, found the end of the file");

    let renamed = |ending: &str| {
        let path = format!("{first}{ending}");
        std::fs::copy(&first, &path).unwrap();
        path
    };
    fails(&["snapshot", "tree", &renamed(".part")], "still being written, or was left by a crash");
    fails(&["snapshot", "tree", &renamed(".deleted")], "about to be removed");
    wrong(&["snapshot", "tree", &renamed(".damaged")], "is no snapshot by its name");
    wrong(&["snapshot", "dump", &renamed(".damaged")], "is no snapshot by its name");
    wrong(&["snapshot", "tree", &format!("{data}/none")], "is not there; check the path");
    let empty = scratch.0.join("empty").display().to_string();
    std::fs::create_dir(&empty).unwrap();
    for command in ["dump", "tree", "diff"] {
        fails(
            &["snapshot", command, &empty],
            "holds no snapshot: its node has not written one yet",
        );
    }

    let (code, _, stderr) = run(&["snapshot", "tree", &format!("{KAFKAS}/..")]);
    assert_eq!(code, 2);
    assert!(stderr.contains("holds snapshots of several logs"), "{stderr}");
}
