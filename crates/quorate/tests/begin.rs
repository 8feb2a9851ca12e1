//! `quorate run` of a directory that nobody has formatted: which nodes begin a cluster or join one,
//! and what is refused in which words.
//!
//! That joiners become voters is in `tests/processes`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;
use std::sync::mpsc;
use support::{FAILED, Process, Scratch, check_fails, quorate, run, signal, wait_for};

/// Free a moment ago.
fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// The file of a node in its own directory.
fn file(scratch: &Scratch, id: u32, at: SocketAddr, lines: &str) -> String {
    let data = scratch.0.join(format!("data-{id}"));
    let text = format!(
        "node.id={id}\nlog.dirs={}\nlisteners=CONTROLLER://{at}\n{lines}\n",
        data.display()
    );
    scratch.write(&format!("node-{id}.properties"), &text)
}

/// A node that runs, and what it says.
fn start(arguments: &[&str]) -> (Process, mpsc::Receiver<String>) {
    let mut child = quorate(arguments).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let (told, said) = mpsc::channel();
    // Nobody may wait for the pipe.
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(told.send(line))));
    (Process(child), said)
}

/// The next line with these words.
fn heard(said: &mpsc::Receiver<String>, words: &str) -> String {
    wait_for(words, || said.try_iter().find(|line| line.contains(words)))
}

/// The first node of a cluster, which leads; and the cluster's id.
fn first(scratch: &Scratch, id: u32) -> (Process, SocketAddr, String) {
    let at = free();
    let (node, said) = start(&["run", &file(scratch, id, at, "quorate.bootstrap=true")]);
    let line = heard(&said, "is the first of the new cluster ");
    let cluster = line.split("new cluster ").nth(1).unwrap().split(',').next().unwrap().to_owned();
    assert!(line.contains("the id of this directory is"), "{line}");
    let status = ["quorum", "status", "--bootstrap", &at.to_string()];
    wait_for("a leader", || {
        let (code, stdout, _) = run(&status);
        (code == 0).then(|| assert!(stdout.contains(&cluster), "{stdout}"))
    });
    (node, at, cluster)
}

#[test]
fn without_either_setting_an_empty_directory_is_refused_as_ever() {
    let scratch = Scratch::new("begin-neither");
    let lines = "controller.quorum.bootstrap.servers=127.0.0.1:1";
    let config = file(&scratch, 1, free(), lines);
    check_fails(&["run", &config], FAILED, &["node 1 does not start", "quorate format"]);
    assert!(!scratch.0.join("data-1").exists());
}

/// T40
#[test]
fn a_cluster_is_begun_once_and_never_beside_one_that_answers() {
    let scratch = Scratch::new("begin-twice");
    let (node, at, cluster) = first(&scratch, 1);
    let beside = format!("controller.quorum.bootstrap.servers=127.0.0.1:1,{at}\n");
    let second = file(&scratch, 2, free(), &format!("{beside}quorate.bootstrap=true"));
    let says = ["node 2 does not start", &cluster, &format!("write quorate.join={at}")];
    check_fails(&["run", &second], FAILED, &says);
    assert!(!scratch.0.join("data-2").exists());
    // Nor where it cannot be known: this one speaks another protocol.
    let mute = Listener::start();
    let beside = format!("controller.quorum.bootstrap.servers={}\n", mute.0);
    let third = file(&scratch, 3, free(), &format!("{beside}quorate.bootstrap=true"));
    check_fails(&["run", &third], FAILED, &["who does not say whether there is a cluster"]);
    assert!(!scratch.0.join("data-3").exists());

    // Once begun it is not begun again.
    drop(node);
    let again = file(&scratch, 1, at, "quorate.bootstrap=true");
    let (_node, said) = start(&["run", &again]);
    let mut lines = Vec::new();
    wait_for("the node to run", || {
        lines.extend(said.try_iter());
        lines.iter().any(|line| line.contains("the node runs")).then_some(())
    });
    assert!(!lines.iter().any(|line| line.contains("new cluster")), "{lines:?}");
    let meta = std::fs::read_to_string(scratch.0.join("data-1/meta.properties")).unwrap();
    assert!(meta.contains(&format!("cluster.id={cluster}")), "{meta}");
}

/// Takes connections and closes them at the first byte.
struct Listener(SocketAddr);

impl Listener {
    fn start() -> Listener {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        std::thread::spawn(move || listener.incoming().for_each(drop));
        Listener(at)
    }
}

/// T40
#[test]
fn a_node_joins_the_one_cluster_that_answers_as_an_observer() {
    let scratch = Scratch::new("begin-join");
    let (_one, at, cluster) = first(&scratch, 1);
    let (_two, other, _) = first(&scratch, 2);

    // Two clusters, and an id that another node has: nothing is formatted.
    let torn = file(&scratch, 3, free(), &format!("quorate.join={at},{other}"));
    check_fails(&["run", &torn], FAILED, &["names controllers of two clusters", &cluster]);
    let copied = free();
    let data = scratch.0.join("copied").display().to_string();
    let config = file(&scratch, 1, copied, &format!("quorate.join={at}\nmetadata.log.dir={data}"));
    let (node, said) = start(&["run", &config]);
    heard(&said, "has a voter 1 that lives");
    signal("TERM", u64::from(node.0.id()));
    heard(&said, "stopped before it had joined");
    drop(node);
    assert!(!scratch.0.join("copied").exists());

    let at3 = free();
    let config = file(&scratch, 3, at3, &format!("quorate.join=127.0.0.1:1,{at}"));
    let (node, said) = start(&["run", &config]);
    let line = heard(&said, "joins the cluster");
    for words in [&cluster, &format!("`quorate quorum add 3@{at3}`")] {
        assert!(line.contains(words.as_str()), "{line}");
    }
    // Alone it is nobody: its directory names no voters at all.
    let partition = scratch.0.join("data-3/__cluster_metadata-0");
    assert!(!partition.join("00000000000000000000-0000000000.checkpoint").exists());
    // It was started this moment: the command waits until the leader has heard of it.
    let (code, stdout, stderr) =
        run(&["quorum", "add", &format!("3@{at3}"), "--bootstrap", &at.to_string()]);
    assert_eq!(code, 0, "{stdout}{stderr}");

    // It belongs to that cluster now, whatever its file says later.
    drop(node);
    let moved = file(&scratch, 3, at3, &format!("quorate.join={other}"));
    let says = [&format!("belongs to the cluster {cluster}")[..], "Correct quorate.join"];
    check_fails(&["run", &moved], FAILED, &says);
}

/// A proxy takes connections before there is anybody behind it.
#[test]
fn a_node_waits_for_whoever_is_no_controller_yet() {
    let scratch = Scratch::new("begin-wrong");
    let mute = Listener::start();
    let config = file(&scratch, 1, free(), &format!("quorate.join={}", mute.0));
    let (mut node, said) = start(&["run", &config]);
    heard(&said, "nobody answers whom quorate.join names");
    heard(&said, "it closed the connection at the first question");
    assert!(!scratch.0.join("data-1").exists());
    assert!(node.0.try_wait().unwrap().is_none(), "it waits");
    signal("TERM", u64::from(node.0.id()));
    heard(&said, "stopped before it had joined");
    assert!(node.0.wait().unwrap().success());
}

/// T40: formatted apart, with one cluster id, while nobody could be asked.
#[test]
fn two_quorums_of_one_cluster_are_refused_at_the_first_start_and_never_go_unsaid() {
    let scratch = Scratch::new("begin-rivals");
    let (at1, at2, at3) = (free(), free(), free());
    let lines = |others: &str| {
        format!(
            "controller.quorum.bootstrap.servers={others}\ncontroller.quorum.fetch.timeout.ms=500"
        )
    };
    let first = file(&scratch, 1, at1, &lines(&at1.to_string()));
    let second = file(&scratch, 2, at2, &lines(&format!("{at1},{at2}")));
    let third = file(&scratch, 3, at3, &lines(&format!("{at1},{at3}")));
    for config in [&first, &second, &third] {
        assert_eq!(run(&["format", "-c", config, "-t", "one", "--standalone"]).0, 0);
    }
    // Cut off from the first one it leads, and nothing could tell it that it should not.
    let (_two, said) = start(&["run", &second]);
    let (_one, _) = start(&["run", &first]);
    for at in [at1, at2] {
        let status = ["quorum", "status", "--bootstrap", &at.to_string()];
        wait_for("a leader", || (run(&status).0 == 0).then_some(()));
    }
    // Both see each other: one says so, and one that starts now does not become the third.
    let line = heard(&said, "TWO QUORUMS of the cluster one run");
    assert!(
        line.contains("ERROR") && line.contains("node 2 leads") && line.contains("node 1 leads"),
        "{line}"
    );
    let says = ["It would be a second quorum", "node 1 leads", &format!("quorate.join={at1}")];
    check_fails(&["run", &third], FAILED, &says);
    // What it has to do instead.
    std::fs::remove_dir_all(scratch.0.join("data-3")).unwrap();
    let joins = file(&scratch, 3, at3, &format!("quorate.join={at1}"));
    let (_three, said) = start(&["run", &joins]);
    heard(&said, "joins the cluster one");
}
