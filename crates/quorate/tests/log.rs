//! `quorate log` on a directory that the binary made itself, whole and damaged.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use support::{Lone, Process, Scratch, documented, documented_as, quorate, run};

fn formatted(scratch: &Scratch) -> (String, String) {
    let data = support::formatted(scratch);
    (data.clone(), format!("{data}/__cluster_metadata-0"))
}

#[test]
fn dump_tells_every_file_as_lines_or_as_json() {
    let scratch = Scratch::new("log-dump");
    let (data, partition) = formatted(&scratch);
    let (code, stdout, stderr) = run(&["log", "dump", &data]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.contains("\nclusterId: \"test\" nodeId: 1 directoryId: "), "{stdout}");
    assert!(stdout.contains("\ntopicId: AAAAAAAAAAAAAAAAAAAAAQ\n"), "{stdout}");

    let (code, stdout, _) = run(&["log", "dump", &format!("{partition}/quorate-synced"), "--json"]);
    assert_eq!(code, 0);
    let facts: Vec<serde_json::Value> =
        stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(facts[0]["path"], "quorate-synced");
    assert_eq!((&facts[1]["type"], &facts[1]["endOffset"]), (&"mark".into(), &0.into()));
}

/// The text of Kafka's own tool for every file that Kafka 4.3.1 wrote, line by line: all of it but
/// `deleteHorizonMs`, which no log of metadata has.
#[test]
fn kafkas_metadata_records_are_dumped_as_kafkas_tool_dumps_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../log/tests/fixtures/kafka-4.3.1");
    let mut dirs = vec![root];
    let (mut files, mut lines) = (0, 0);
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            let text = path.display().to_string();
            let Some(file) = text.strip_suffix(".dump") else { continue };
            let kafkas = std::fs::read_to_string(&path).unwrap();
            let kafkas = kafkas.replace(" deleteHorizonMs: OptionalLong.empty", "");
            let (code, ours, stderr) = run(&["log", "dump", file]);
            assert_eq!((code, stderr.as_str()), (0, ""), "{file}");
            assert_eq!(ours.lines().count(), kafkas.lines().count(), "{file}");
            // The first line of each names the file.
            for (ours, kafkas) in ours.lines().zip(kafkas.lines()).skip(1) {
                assert_eq!(ours, kafkas, "{file}");
                lines += 1;
            }
            files += 1;
        }
    }
    assert_eq!(files, 25);
    assert!(lines > 3_000, "{lines}");
}

#[test]
fn verify_fails_where_something_is_damaged_and_only_there() {
    let scratch = Scratch::new("log-verify");
    let (data, partition) = formatted(&scratch);
    let (code, stdout, _) = run(&["log", "verify", &data]);
    assert_eq!((code, stdout), (0, format!("{data} is whole: 5 files looked at\n")));

    std::fs::write(format!("{partition}/quorum-state"), "{").unwrap();
    let (code, stdout, stderr) = run(&["log", "verify", &data]);
    assert_eq!(code, 1);
    let line = "__cluster_metadata-0/quorum-state: at byte 1: expected a string, found the end of the file\n";
    assert_eq!(stdout, line);
    let finding = run(&["log", "verify", &data, "--json"]).1;
    let finding = serde_json::from_str(&finding).unwrap();
    documented_as("log verify", "none", &finding);
    assert_eq!(finding["remedy"], "replace");
    assert!(stderr.contains("is damaged in 1 place: keep the directory"), "{stderr}");

    let strange = scratch.0.join("strange").display().to_string();
    std::fs::create_dir_all(&strange).unwrap();
    std::fs::write(format!("{strange}/notes.txt"), "x").unwrap();
    for command in ["verify", "dump"] {
        let (code, stdout, stderr) = run(&["log", command, &strange]);
        assert_eq!((code, stdout.as_str()), (1, ""), "{command}");
        assert!(stderr.contains("holds no file of a node: name a data directory"), "{stderr}");
    }

    // One rule for all commands that read what they are told.
    let absent = format!("{data}/absent");
    let commands: [&[&str]; 8] = [
        &["recover"],
        &["log", "verify"],
        &["log", "dump"],
        &["log", "tail"],
        &["snapshot", "tree"],
        &["snapshot", "dump"],
        &["snapshot", "diff"],
        &["run"],
    ];
    for command in commands {
        let (code, stdout, stderr) = run(&[command, &[absent.as_str()]].concat());
        assert_eq!((code, stdout.as_str()), (2, ""), "{command:?}: {stderr}");
        let said = [format!("{absent} is not there"), format!("{absent} cannot be read")];
        assert!(said.iter().any(|words| stderr.contains(words)), "{command:?}: {stderr}");
    }
}

/// Kafka's directory of a controller, which has records, as one of ours.
fn used(scratch: &Scratch) -> (String, String, String) {
    let (data, partition) = formatted(scratch);
    let kafkas = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../log/tests/fixtures/kafka-4.3.1/static/c1/__cluster_metadata-0");
    for entry in std::fs::read_dir(kafkas).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "dump") {
            std::fs::copy(&path, Path::new(&partition).join(path.file_name().unwrap())).unwrap();
        }
    }
    std::fs::remove_file(format!("{partition}/quorate-synced")).unwrap();
    (data, partition, scratch.0.join("node.properties").display().to_string())
}

/// Every form of a dump that there is, ours and Kafka's.
#[test]
fn what_dump_and_tail_print_for_programs_is_documented() {
    let scratch = Scratch::new("log-documented");
    let (data, partition, _) = used(&scratch);
    std::fs::write(format!("{partition}/quorate-synced"), "x").unwrap();
    std::fs::write(format!("{partition}/quorate-must-reach"), "").unwrap();
    let kafkas = concat!(env!("CARGO_MANIFEST_DIR"), "/../log/tests/fixtures/kafka-4.3.1");
    let mut kinds = std::collections::BTreeSet::new();
    for path in [data.as_str(), &format!("{kafkas}/dynamic/c3"), &format!("{kafkas}/static/c1")] {
        let (_, stdout, _) = run(&["log", "dump", path, "--json"]);
        let objects = documented("log dump", &stdout);
        kinds.extend(objects.iter().map(|object| object["type"].as_str().unwrap().to_owned()));
    }
    for kind in [
        "batch", "damage", "election", "epoch", "file", "meta", "offset", "record", "time", "topic",
    ] {
        assert!(kinds.contains(kind), "{kind}: {kinds:?}");
    }
    let (code, stdout, _) =
        run(&["log", "tail", &format!("{kafkas}/dynamic/c3"), "--json", "--once", "-n", "200"]);
    assert_eq!(code, 0);
    assert!(documented("log tail", &stdout).len() > 100);
}

#[test]
fn where_a_file_is_missing_nobody_is_sent_in_a_circle() {
    const REPLACE: &str =
        "give the node a newly formatted one, but only while all other voters run";
    const REWRITE: &str = "docs/OPERATING.md shows under \"A file is missing\"";
    let scratch = Scratch::new("log-missing");
    let (data, partition, config) = used(&scratch);
    let (code, stdout, _) = run(&["log", "verify", &data]);
    assert_eq!(code, 0, "{stdout}");
    let aside = scratch.0.join("aside");
    let log = format!("{partition}/00000000000000000000.log");
    for (path, advice) in [
        (format!("{data}/meta.properties"), REWRITE),
        (format!("{partition}/partition.metadata"), REWRITE),
        (format!("{partition}/quorum-state"), REPLACE),
        (log, REPLACE),
        (partition.clone(), REPLACE),
    ] {
        std::fs::rename(&path, &aside).unwrap();
        let name = Path::new(&path).file_name().unwrap().to_str().unwrap();
        let (code, stdout, stderr) = run(&["log", "verify", &data]);
        assert!(code == 1 && stdout.contains(name), "{name}: {stdout}");
        assert!(stderr.contains("in 1 place: ") && stderr.contains(advice), "{name}: {stderr}");
        for command in [&["run", &config][..], &["format", "--config", &config]] {
            let (code, _, stderr) = run(command);
            assert_eq!(code, 1, "{name}: {stderr}");
            if command[0] == "run" || name == "meta.properties" {
                assert!(
                    stderr.contains(name) && stderr.contains(advice),
                    "{command:?} {name}: {stderr}"
                );
                assert!(!stderr.contains("run `quorate format`"), "{name}: {stderr}");
            }
        }
        std::fs::rename(&aside, &path).unwrap();
    }
    // A directory that never had a node is formatted.
    std::fs::remove_dir_all(&data).unwrap();
    let (code, _, stderr) = run(&["run", &config]);
    assert!(code == 1 && stderr.contains("run `quorate format`"), "{stderr}");
}

#[test]
fn a_dump_of_what_is_damaged_shows_the_rest_and_fails_with_the_place() {
    let scratch = Scratch::new("log-dump-damaged");
    let (data, partition, _) = used(&scratch);
    let log = format!("{partition}/00000000000000000000.log");
    let (code, whole, stderr) = run(&["log", "dump", &log]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let bytes = std::fs::read(&log).unwrap();
    let dump = |bytes: &[u8], path: &str| {
        std::fs::write(&log, bytes).unwrap();
        let (code, stdout, stderr) = run(&["log", "dump", path]);
        assert_eq!(code, 1, "{stderr}");
        (stdout, stderr)
    };
    // Cut within the last batch: all before it is there.
    let (stdout, stderr) = dump(&bytes[..bytes.len() - 1], &data);
    let batches = |text: &str| text.lines().filter(|line| line.contains("baseOffset: ")).count();
    assert_eq!(batches(&stdout), batches(&whole) - 1);
    let says = "__cluster_metadata-0/00000000000000000000.log at byte ";
    assert!(stderr.contains(says) && stderr.contains("is not shown"), "{stderr}");
    assert!(stdout.contains("clusterId: "), "the files behind it are shown: {stdout}");
    // A record of the first batch: all others are there, and each is told of.
    let mut flipped = bytes.clone();
    flipped[70] ^= 1;
    let (stdout, stderr) = dump(&flipped, &log);
    assert_eq!(batches(&stdout), batches(&whole));
    assert!(stderr.contains("00000000000000000000.log at byte 0: expected checksum"), "{stderr}");
    assert!(stderr.contains("its records are not shown"), "{stderr}");
    // Who follows the log comes to the place as well.
    let (code, stdout, stderr) = run(&["log", "tail", &data, "--from", "0", "--once"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("00000000000000000000.log makes no sense from byte 0 on"), "{stderr}");
    let (stdout, stderr) = dump(&bytes[..30], &log);
    assert!(stderr.contains("byte 0: expected a batch, found 30 bytes of 61"), "{stderr}");
    assert_eq!(batches(&stdout), 0);
    std::fs::write(&log, &bytes).unwrap();
    std::fs::write(format!("{partition}/quorum-state"), "{").unwrap();
    let (code, _, stderr) = run(&["log", "dump", &data, "--json"]);
    assert!(code == 1 && stderr.contains("quorum-state at byte 1: expected a string"), "{stderr}");
}

#[test]
fn tail_prints_each_record_of_a_running_node_as_it_comes() {
    let scratch = Scratch::new("log-tail");
    let node = Lone::start(&scratch);
    let (data, put) = (&node.data, |key: &str| node.put(key, "value"));
    put("before");
    let mut tail =
        quorate(&["log", "tail", data, "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let stdout = tail.stdout.take().unwrap();
    let mut tail = Process(tail);
    let mut records = BufReader::new(stdout)
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(&line.unwrap()).unwrap());
    let mut next = |key: &str| {
        let record = records.find(|record| record["key"] == key).unwrap();
        assert_eq!(record["type"], "record");
        record["offset"].as_u64().unwrap()
    };
    let before = next("before");
    let mut last = before;
    for key in ["one", "two", "three"] {
        put(key);
        let offset = next(key);
        assert!(offset > last, "{key}");
        last = offset;
    }
    tail.0.kill().unwrap();

    // From any offset to the end, as lines or as what `dump` prints of them.
    let (code, stdout, stderr) = run(&["log", "tail", data, "--from", &last.to_string(), "--once"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let (_, dumped, _) = run(&["log", "dump", data]);
    assert!(stdout.lines().next().unwrap().starts_with(&format!("| offset: {last} ")), "{stdout}");
    assert!(stdout.contains("key: three payload: value"), "{stdout}");
    for line in stdout.lines() {
        assert!(dumped.lines().any(|dumped| dumped == line), "{line}");
    }
    let count = |n: &str| run(&["log", "tail", data, "-n", n, "--once"]).1.lines().count();
    assert_eq!((count("0"), count("1"), count("3")), (0, 1, 3));

    drop(node);
    let empty = scratch.0.join("empty").display().to_string();
    std::fs::create_dir(&empty).unwrap();
    let (code, _, stderr) = run(&["log", "tail", &empty]);
    assert!(code == 1 && stderr.contains("holds no log"), "{stderr}");
    let kafkas = concat!(env!("CARGO_MANIFEST_DIR"), "/../log/tests/fixtures/kafka-4.3.1/dynamic");
    let (code, _, stderr) = run(&["log", "tail", kafkas]);
    assert!(code == 2 && stderr.contains("holds several logs; name one of them"), "{stderr}");
    let (code, stdout, stderr) =
        run(&["log", "tail", &format!("{kafkas}/c3"), "--once", "-n", "40"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(
        stdout.lines().count() == 40 && stdout.contains("\"type\":\"NO_OP_RECORD\""),
        "{stdout}"
    );
}

/// Nothing that is missing or damaged ends it as if the log ended there.
#[test]
fn a_tail_of_what_is_damaged_says_where_and_fails() {
    let scratch = Scratch::new("log-tail-damaged");
    let (data, partition, _) = used(&scratch);
    let log = format!("{partition}/00000000000000000000.log");
    let whole = std::fs::read(&log).unwrap();
    let tail = |bytes: &[u8]| {
        std::fs::write(&log, bytes).unwrap();
        let (code, stdout, stderr) = run(&["log", "tail", &data, "--from", "0", "--once"]);
        (code, stdout.lines().count(), stderr)
    };
    let (code, records, stderr) = tail(&whole);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let second = 12 + u32::from_be_bytes(*whole[8..].first_chunk().unwrap()) as usize;
    assert!(second < whole.len() && records > 1);
    let damaged = |at: usize, with: &[u8]| {
        let mut bytes = whole.clone();
        bytes[at..at + with.len()].copy_from_slice(with);
        bytes
    };
    // A length that goes beyond the file, and one that is zero with more behind it.
    for with in [&[0x7f][..], &[0; 4]] {
        let (code, printed, stderr) = tail(&damaged(second + 8, with));
        assert!(code == 1 && printed > 0 && printed < records, "{printed} of {records}");
        let place = format!("00000000000000000000.log makes no sense from byte {second} on");
        assert!(stderr.contains(&place), "{stderr}");
    }
    for bytes in [vec![0x5a; 4_000], whole[..whole.len() - 1].to_vec()] {
        let (code, _, stderr) = tail(&bytes);
        assert!(code == 1 && stderr.contains("makes no sense from byte"), "{stderr}");
    }
    // Records between two segments are missing; no snapshot stands for them.
    std::fs::write(format!("{partition}/00000000000000900000.log"), b"").unwrap();
    let (code, printed, stderr) = tail(&whole);
    assert_eq!((code, printed), (1, records));
    assert!(stderr.contains("found 900000"), "{stderr}");
}

#[test]
fn a_dump_of_a_snapshot_without_its_end_fails() {
    let scratch = Scratch::new("log-dump-checkpoint");
    let kafkas = Path::new(env!("CARGO_MANIFEST_DIR")).join("../log/tests/fixtures/kafka-4.3.1");
    let found = std::fs::read_dir(kafkas.join("dynamic/c1/__cluster_metadata-0")).unwrap();
    let found = found.map(|entry| entry.unwrap().path());
    let whole = found.filter(|path| path.extension().is_some_and(|end| end == "checkpoint")).max();
    let whole = std::fs::read(whole.unwrap()).unwrap();
    let path = scratch.0.join("00000000000000000008-0000000003.checkpoint");
    let text = path.display().to_string();
    let mut ends = vec![0];
    while let Some(head) = whole[*ends.last().unwrap()..].get(8..12) {
        let bytes = u32::from_be_bytes(head.try_into().unwrap()) as usize;
        ends.push(ends.last().unwrap() + 12 + bytes);
    }
    assert!(ends.len() > 2, "{ends:?}");
    for end in &ends {
        std::fs::write(&path, &whole[..*end]).unwrap();
        for command in ["log", "snapshot"] {
            let (code, _, stderr) = run(&[command, "dump", &text]);
            let expected = if *end == whole.len() { (0, "") } else { (1, "not all of") };
            assert_eq!(code, expected.0, "{command} {end} of {}: {stderr}", whole.len());
            assert!(stderr.contains(expected.1), "{stderr}");
        }
    }
}

/// Two files that a person may make anew, for a node that votes alone.
#[test]
fn what_is_advised_for_small_files_starts_the_only_voter_again() {
    let scratch = Scratch::new("log-advice");
    let node = Lone::start(&scratch);
    node.put("key", "value");
    let data = node.data.clone();
    drop(node);
    let config = scratch.0.join("node.properties").display().to_string();
    let starts = || {
        let mut node =
            quorate(&["run", &config]).stderr(Stdio::piped()).spawn().map(Process).unwrap();
        let lines = BufReader::new(node.0.stderr.take().unwrap()).lines();
        let mut told = String::new();
        for line in lines {
            told += &line.unwrap();
            if told.contains("the node runs") {
                return Ok(());
            }
        }
        Err(told)
    };
    starts().unwrap();
    let epochs = format!("{data}/__cluster_metadata-0/leader-epoch-checkpoint");
    let whole = std::fs::read_to_string(&epochs).unwrap();
    let (head, last) = whole.trim_end().rsplit_once('\n').unwrap();
    let (epoch, from) = last.split_once(' ').unwrap();
    let wrong = format!("{head}\n{} {from}\n", epoch.parse::<u32>().unwrap() + 7);
    std::fs::write(&epochs, wrong).unwrap();
    let told = starts().unwrap_err();
    assert!(told.contains("if it names no other file, remove this one"), "{told}");
    let (code, stdout, stderr) = run(&["log", "verify", &data]);
    assert!(code == 1 && stdout.lines().count() == 1, "{stdout}");
    assert!(stderr.contains("remove leader-epoch-checkpoint"), "{stderr}");
    std::fs::remove_file(&epochs).unwrap();
    starts().unwrap();
    assert_eq!(std::fs::read_to_string(&epochs).unwrap(), whole);

    let meta = format!("{data}/meta.properties");
    let whole = std::fs::read_to_string(&meta).unwrap();
    let without: Vec<&str> =
        whole.lines().filter(|line| !line.starts_with("directory.id")).collect();
    let without = format!("{}\n", without.join("\n"));
    std::fs::write(&meta, &without).unwrap();
    let told = starts().unwrap_err();
    assert!(told.contains("add the line directory.id=ID"), "{told}");
    let id = run(&["random-uuid"]).1;
    std::fs::write(&meta, format!("{without}directory.id={id}")).unwrap();
    starts().unwrap();
}
