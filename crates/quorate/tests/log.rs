//! `quorate log` on a directory that the binary made itself, whole and damaged.

#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use support::{Scratch, run};

fn formatted(scratch: &Scratch) -> (String, String) {
    let data = scratch.0.join("data").display().to_string();
    let text = format!(
        "node.id=1\nlog.dirs={data}\nlisteners=CONTROLLER://127.0.0.1:0\n\
         controller.quorum.voters=1@127.0.0.1:9093\n"
    );
    let config = scratch.write("node.properties", &text);
    let (code, _, stderr) = run(&["format", "--config", &config, "--cluster-id", "test"]);
    assert_eq!(code, 0, "{stderr}");
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
    assert!(stderr.contains("is damaged in 1 place: keep the directory"), "{stderr}");

    let strange = scratch.0.join("strange").display().to_string();
    std::fs::create_dir_all(&strange).unwrap();
    std::fs::write(format!("{strange}/notes.txt"), "x").unwrap();
    for command in ["verify", "dump"] {
        let (code, stdout, stderr) = run(&["log", command, &strange]);
        assert_eq!((code, stdout.as_str()), (1, ""), "{command}");
        assert!(stderr.contains("holds no file of a node: name a data directory"), "{stderr}");
    }

    let (code, _, stderr) = run(&["log", "verify", &format!("{data}/absent")]);
    assert_eq!(code, 2, "{stderr}");
    let (code, _, stderr) = run(&["log", "dump", &format!("{data}/absent")]);
    assert!(code == 1 && stderr.contains("No such file"), "{stderr}");
}
