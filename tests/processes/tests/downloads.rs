//! Three real processes: a follower was away while the leader cut its log behind a snapshot, comes
//! back and copies that; and is killed in the middle of it, comes back again, and finishes.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

use quorate_node::status::Status;
use quorate_processes::http::Client;
use quorate_processes::{Cluster, Profile, binary, poll};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
/// When a test gives up that works, however slowly.
const LONG: Duration = Duration::from_secs(600);
/// Snapshots come often, logs are cut behind them, and a copy takes four thousand questions.
const SETTINGS: &[&str] = &[
    "quorate.cleanup.policy=delete",
    "metadata.log.max.record.bytes.between.snapshots=400000",
    "metadata.max.retention.bytes=0",
    "controller.quorum.fetch.snapshot.max.bytes=100",
];
const KEYS: usize = 200;

/// A quorum, one of whose followers does not run and lacks what the others no longer have.
struct Late {
    cluster: Cluster,
    leader: u32,
    late: u32,
    /// What was acknowledged.
    told: BTreeMap<String, Vec<u8>>,
    rounds: u32,
}

fn late(name: &str) -> Late {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&root);
    let mut cluster = Cluster::format(&binary(Profile::Dev).unwrap(), &root, 3, SETTINGS).unwrap();
    cluster.start_all().unwrap();
    let leader = cluster.wait_until_level(PATIENCE).unwrap();
    let late = 1 + leader % 3;
    let mut quorum = Late { cluster, leader, late, told: BTreeMap::new(), rounds: 0 };
    quorum.write();
    quorum.cluster.wait_until_level(PATIENCE).unwrap();
    let behind = quorum.status(late).log_end;
    quorum.cluster.kill(late);
    let begun = Instant::now();
    while quorum.status(leader).log_start <= behind {
        quorum.write();
        assert!(begun.elapsed() < LONG, "the log is never trimmed");
    }
    quorum
}

impl Late {
    fn status(&self, id: u32) -> Status {
        poll("a node's status", PATIENCE, || self.cluster.node(id).status()).unwrap()
    }

    /// Writes every key anew, through the leader.
    fn write(&mut self) {
        self.rounds += 1;
        (0..KEYS).for_each(|key| self.put(key));
    }

    /// Writes one key, through the leader. Said again, that does no harm, so one is that a busy
    /// machine lets run out of time.
    fn put(&mut self, key: usize) {
        let http = self.cluster.node(self.leader).http;
        let (key, value) = (format!("key-{key}"), vec![b'a' + (self.rounds % 26) as u8; 2_000]);
        let path = format!("/v1/kv/{key}");
        poll("an acknowledgement", PATIENCE, || {
            let answer = Client::new(http, PATIENCE).ask("PUT", &path, &[], &value).ok()?;
            matches!(answer.status, 200 | 201).then_some(())
        })
        .unwrap();
        self.told.insert(key, value);
    }

    /// The lines of a node's log, of all its lives, that say this.
    fn lines(&self, id: u32, what: &str) -> Vec<String> {
        let log = std::fs::read_to_string(self.cluster.node(id).log_file()).unwrap();
        log.lines().filter(|line| line.contains(what)).map(str::to_owned).collect()
    }

    fn partition(&self) -> PathBuf {
        self.cluster.root().join(format!("node-{}/data/__cluster_metadata-0", self.late))
    }

    fn files(&self, ending: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.partition()).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.to_string_lossy().ends_with(ending)).collect()
    }

    /// The late node has begun with a snapshot and has, and serves, all that was acknowledged.
    fn caught_up(self) {
        self.cluster.wait_until_level(PATIENCE).unwrap();
        let (late, leader) = (self.status(self.late), self.status(self.leader));
        assert!(late.log_start > 0, "{late:?}");
        assert_eq!((late.applied, &late.digest), (leader.applied, &leader.digest));
        assert_eq!(self.files(".part"), [""; 0].map(PathBuf::from));
        let mut client = Client::new(self.cluster.node(self.late).http, PATIENCE);
        for (key, value) in &self.told {
            let answer = client.ask("GET", &format!("/v1/kv/{key}"), &[], b"").unwrap();
            assert_eq!((answer.status, &answer.body[..]), (200, &value[..]), "{key}");
        }
        let root = self.cluster.root().to_owned();
        drop(self);
        std::fs::remove_dir_all(root).unwrap();
    }
}

#[test]
fn a_follower_that_was_away_too_long_copies_a_snapshot_while_others_write() {
    let mut quorum = late("download");
    let late = quorum.late;
    quorum.cluster.start(late).unwrap();
    let (begun, mut copying, mut meanwhile) = (Instant::now(), None, 0);
    // Until it is done: how many writes that takes is the machine's affair. The leader keeps what
    // is copied, so however many snapshots it makes meanwhile, the first copy is the last.
    for key in (0..KEYS).cycle() {
        quorum.rounds += u32::from(key == 0);
        quorum.put(key);
        let Some(status) = quorum.cluster.node(late).status() else { continue };
        let copies = status.download.map(|download| download.id);
        meanwhile += u32::from(copies.is_some() && copies == copying);
        copying = copies;
        if status.ready && status.log_start > 0 {
            break;
        }
        let said = || quorum.lines(late, "snapshot");
        assert!(begun.elapsed() < LONG, "it never catches up: {:#?}", said());
    }
    assert!(meanwhile > 0, "a write was acknowledged between two looks at one copy");
    assert_eq!(quorum.lines(late, "begins anew"), [""; 0]);
    assert_eq!(quorum.lines(late, "a downloaded snapshot takes the place").len(), 1);
    quorum.caught_up();
}

#[test]
fn a_follower_that_is_killed_while_it_copies_finishes_when_it_is_back() {
    let mut quorum = late("killed-download");
    for _ in 0..3 {
        quorum.cluster.start(quorum.late).unwrap();
        poll("a piece of a snapshot", PATIENCE, || {
            let parts = quorum.files(".checkpoint.part");
            parts.iter().find(|part| part.metadata().is_ok_and(|of| of.len() > 0)).map(drop)
        })
        .unwrap();
        assert!(quorum.cluster.kill(quorum.late));
        let [part] = &quorum.files(".part")[..] else { panic!("nothing is half done") };
        let whole = part.with_extension("");
        assert!(!whole.exists(), "{} is no snapshot yet", part.display());
    }
    quorum.cluster.start(quorum.late).unwrap();
    quorum.caught_up();
}
