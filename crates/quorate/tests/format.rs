//! `quorate format` in all of Kafka's ways: what it writes, and what it refuses in which words.
//!
//! That the files are Kafka's own is held by `tests/interop`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::net::TcpListener;
use std::process::Stdio;
use support::{FAILED, Process, Scratch, USAGE, check_fails, quorate, run, wait_for};

const A: &str = "Qmy_DlauSqSmlsg-3MzqEw";
const B: &str = "MvDxzVmcRsaTz33bUuRU6A";
const C: &str = "07R5amHmR32VDA6jHkGbTA";

/// The file of a node whose voters the log will name.
fn asks(scratch: &Scratch, machine: &str) -> String {
    let text = format!(
        "node.id=1\nlog.dirs={}\nlisteners=CONTROLLER://127.0.0.1:19093\nquorate.machine={machine}\n\
         controller.quorum.bootstrap.servers=127.0.0.1:19093\n",
        scratch.0.join("data").display()
    );
    scratch.write("node.properties", &text)
}

fn files(scratch: &Scratch) -> Vec<String> {
    let list = |dir: &str| -> Vec<String> {
        let entries = fs::read_dir(scratch.0.join("data").join(dir)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names.retain(|name| name != "__cluster_metadata-0");
        names
    };
    [list(""), list("__cluster_metadata-0")].concat()
}

const LOG: [&str; 4] =
    ["00000000000000000000.log", "leader-epoch-checkpoint", "partition.metadata", "quorate-synced"];
const FIRST: &str = "00000000000000000000-0000000000.checkpoint";

#[test]
fn each_way_leaves_its_files_and_says_what_the_node_is() {
    let list = format!("1@127.0.0.1:19093:{A},2@127.0.0.1:19094:{B},3@127.0.0.1:19095:{C}");
    let one = &["bootstrap.checkpoint"][..];
    for (machine, way, kafkas, says) in [
        ("kv", &[][..], &[][..], "an observer"),
        ("kv", &["--standalone"], &[FIRST], "the only voter of a new quorum"),
        ("kafka", &["-s"], &[one[0], FIRST], "the features of 4.3-IV0"),
        ("kafka", &["-s", "-r", "4.0"], &[one[0], FIRST], "the features of 4.0-IV3"),
        ("kv", &["-I", &list], &[FIRST], "one of 3 voters of a new quorum"),
        ("kafka", &["--initial-controllers", &list], &[one[0], FIRST], "one of 3 voters"),
        ("kv", &["--no-initial-controllers"], &[], "an observer until"),
        ("kafka", &["-N", "-f", "kraft.version=1"], one, "an observer until"),
    ] {
        let scratch = Scratch::new("format-ways");
        let file = asks(&scratch, machine);
        let format = [&["format", "-c", &file, "-t", "a-cluster"], way].concat();
        let (code, stdout, stderr) = run(&format);
        assert!(code == 0 && stdout.contains(says), "{way:?}: {stdout}{stderr}");
        let mut expected: Vec<String> = [".lock", "meta.properties"]
            .iter()
            .chain(&LOG)
            .chain(kafkas)
            .map(|name| (*name).to_owned())
            .collect();
        let mut found = files(&scratch);
        expected.sort();
        found.sort();
        assert_eq!(found, expected, "{machine} {way:?}");
        if way.contains(&list.as_str()) {
            let meta = fs::read_to_string(scratch.0.join("data/meta.properties")).unwrap();
            assert!(meta.contains(&format!("directory.id={A}\n")), "{meta}");
        }
        // Again it is refused, and nothing is changed.
        check_fails(&format, FAILED, &["already formatted", "Nothing was changed"]);
        let ignored = [&format[..], &["--ignore-formatted"]].concat();
        assert_eq!(run(&ignored).0, 0);
    }
}

/// One that would begin as something else than it is taken for is not what was asked for.
#[test]
fn a_directory_that_was_formatted_for_other_voters_is_not_ignored() {
    let list = |own: &str| format!("1@127.0.0.1:19093:{own},2@127.0.0.1:19094:{B}");
    let (of_a, of_c) = (list(A), list(C));
    let ways = [&["-s"][..], &["-N"], &["-I", &of_a], &["-I", &of_c]];
    for (was, way) in ways.iter().enumerate() {
        let scratch = Scratch::new("format-other");
        let file = asks(&scratch, "kv");
        let format = ["format", "-c", &file, "-t", "a-cluster", "-g"];
        assert_eq!(run(&[&format[..], way].concat()).0, 0);
        for (asked, way) in ways.iter().enumerate() {
            let again = [&format[..], way].concat();
            match was == asked {
                true => assert_eq!(run(&again).0, 0, "{way:?}"),
                false => {
                    drop(check_fails(&again, FAILED, &["formatted already, and otherwise: it"]))
                }
            }
        }
        // A history may explain it.
        let state = r#"{"leaderId":-1,"leaderEpoch":2,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}"#;
        scratch.write("data/__cluster_metadata-0/quorum-state", state);
        for (asked, way) in ways.iter().enumerate() {
            let (code, _, stderr) = run(&[&format[..], way].concat());
            let other = asked >= 2 && asked != was;
            assert!(code == 0 && stderr.contains("not as it is asked for") == other, "{stderr}");
        }
    }
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_is_written() {
    let scratch = Scratch::new("format-refused");
    let (kv, static_) = (asks(&scratch, "kv"), "controller.quorum.voters=1@127.0.0.1:19093");
    let refused = |arguments: &[&str], code, says: &[&str]| {
        let format = [&["format", "-c", &kv], arguments].concat();
        check_fails(&format, code, says);
        assert!(!scratch.0.join("data").exists(), "{arguments:?}");
    };
    let kafka = ["--override", "quorate.machine=kafka"];
    let of_kafka = |arguments: &[&'static str], code, says: &[&str]| {
        refused(&[&kafka[..], arguments].concat(), code, says);
    };
    let two = format!("2@127.0.0.1:19094:{B},3@127.0.0.1:19095:{C}");
    refused(&["-I", &two], FAILED, &["node 1 is not among", "--no-initial-controllers"]);
    refused(&["-I", "1@h:1:-my_DlauSqSmlsg-3MzqEw"], USAGE, &["begins with '-'"]);
    refused(&["-s", "-N"], USAGE, &["--standalone", "--no-initial-controllers"]);
    refused(&["-s", "-I", &two], USAGE, &["--standalone", "--initial-controllers"]);
    for flag in ["--standalone", "--no-initial-controllers"] {
        let says = [flag, "controller.quorum.voters", "bootstrap.servers"];
        refused(&[flag, "--override", static_], FAILED, &says);
    }
    refused(
        &["-s", "--override", "listeners=CONTROLLER://:19093"],
        FAILED,
        &["0.0.0.0:19093", "every interface", "advertised.listeners"],
    );
    refused(&["-s", "-f", "kraft.version=0"], FAILED, &["--standalone", "kraft.version=1"]);
    refused(&["-s", "-f", "kraft.version=2"], FAILED, &["kraft.version=2", "kraft.version=1"]);
    refused(&["-f", "kraft.version=1"], FAILED, &["needs voters that are in the log"]);
    for of_kafkas in [&["-r", "4.3"][..], &["-f", "group.version=1"], &["-S", "SCRAM-SHA-256=[]"]] {
        refused(of_kafkas, USAGE, &["key-value store", "quorate.machine=kafka"]);
    }
    of_kafka(&["-s", "-r", "4.4-IV0"], FAILED, &["'4.4-IV0' is no release", "4.3-IV0"]);
    of_kafka(&["-f", "groups.version=1"], USAGE, &["no feature 'groups.version'", "group.version"]);
    of_kafka(&["-s", "-f", "group.version=2"], FAILED, &["group.version=2", "0 to 1"]);
    of_kafka(&["-s", "-S", "SCRAM-SHA-256=[password=hunter2]"], FAILED, &["has no name"]);
    of_kafka(
        &["-s", "-r", "3.4", "-S", "SCRAM-SHA-256=[name=a,password=b]"],
        FAILED,
        &["3.4-IV0", "3.5-IV2", "--release-version"],
    );
}

#[test]
fn an_even_number_of_voters_is_warned_of() {
    let scratch = Scratch::new("format-even");
    let list = format!("1@127.0.0.1:1,{A}").replace(',', ":") + &format!(",2@127.0.0.1:2:{B}");
    let (code, _, stderr) = run(&["format", "-c", &asks(&scratch, "kv"), "-I", &list]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("2 voters survive the loss of 0, as 1 would"), "{stderr}");
    assert!(
        stderr.contains("node 1 is at 127.0.0.1:1, its own file says 127.0.0.1:19093"),
        "{stderr}"
    );
}

/// As Kafka's storage tool does; a controller of Kafka's does not start on less.
#[test]
fn all_directories_of_a_kafka_node_are_formatted() {
    let scratch = Scratch::new("format-others");
    let (file, others) = (asks(&scratch, "kafka"), scratch.0.join("other"));
    let both = format!("log.dirs={},{}", scratch.0.join("data").display(), others.display());
    let format = ["format", "-c", &file, "-s", "-t", "c", "--override", &both];
    let (code, stdout, stderr) = run(&format);
    assert!(code == 0 && stdout.contains(&others.display().to_string()), "{stdout}{stderr}");
    let mut found: Vec<String> = fs::read_dir(&others)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    assert_eq!(found, [".lock", "bootstrap.checkpoint", "meta.properties"]);
    let meta = |folder: &str| fs::read_to_string(scratch.0.join(folder).join("meta.properties"));
    let id = |folder: &str| -> String {
        let meta = meta(folder).unwrap();
        assert!(meta.contains("cluster.id=c\n") && meta.contains("node.id=1\n"), "{meta}");
        meta.lines().find(|line| line.starts_with("directory.id=")).unwrap().to_owned()
    };
    let first = id("other");
    assert_ne!(first, id("data"), "each has an id of its own");
    let bytes =
        |folder: &str| fs::read(scratch.0.join(folder).join("bootstrap.checkpoint")).unwrap();
    assert_eq!(bytes("other"), bytes("data"));

    // One that was lost is made anew; what is another's is refused.
    fs::remove_file(others.join("meta.properties")).unwrap();
    check_fails(&format, FAILED, &["already formatted", "Nothing was changed"]);
    assert!(!others.join("meta.properties").exists());
    assert_eq!(run(&[&format[..], &["--ignore-formatted"]].concat()).0, 0);
    assert_ne!(id("other"), first);
    fs::write(others.join("meta.properties"), "version=1\ncluster.id=x\nnode.id=1\n").unwrap();
    let refused = [&format[..], &["--ignore-formatted"]].concat();
    check_fails(&refused, FAILED, &["cluster.id=x", &others.display().to_string()]);
}

/// T40, T33
#[test]
fn a_cluster_that_has_a_quorum_gets_no_second_one() {
    let scratch = Scratch::new("format-second");
    // Free a moment ago.
    let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let file = |id: u32, listens: &str| {
        let text = format!(
            "node.id={id}\nlog.dirs={}\nlisteners=CONTROLLER://{listens}\n\
             controller.quorum.bootstrap.servers=127.0.0.1:1,{at}\n",
            scratch.0.join(format!("data-{id}")).display()
        );
        scratch.write(&format!("node-{id}.properties"), &text)
    };
    let (first, second) = (file(1, &at.to_string()), file(2, "127.0.0.1:19099"));
    let (code, _, stderr) = run(&["format", "-c", &first, "-t", "one", "--standalone"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let node = quorate(&["run", &first]).stderr(Stdio::null()).spawn().unwrap();
    let _node = Process(node);
    let status = ["quorum", "status", "--bootstrap", &at.to_string()];
    wait_for("a leader", || (run(&status).0 == 0).then_some(()));

    let list = format!("1@{at}:{A},2@127.0.0.1:19099:{B}");
    let says = ["the cluster one has a quorum already", "node 1 leads", "--no-initial-controllers"];
    for flags in [&["--standalone"][..], &["-I", &list]] {
        check_fails(&[&["format", "-c", &second, "-t", "one"], flags].concat(), FAILED, &says);
        assert!(!scratch.0.join("data-2").exists());
    }
    // Another cluster is nobody's business, and is worth a word.
    let other = ["format", "-c", &second, "-s", "-t", "two"];
    let moved = format!("log.dirs={}", scratch.0.join("data-3").display());
    let (code, _, stderr) = run(&[&other[..], &["--override", &moved]].concat());
    assert!(code == 0 && stderr.contains("are of the cluster one"), "{stderr}");
    let joins = ["format", "-c", &second, "-t", "one", "--no-initial-controllers"];
    assert_eq!(run(&joins).0, 0);
}
