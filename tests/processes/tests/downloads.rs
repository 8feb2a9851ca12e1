//! Three real processes: a follower was away while the leader cut its log behind a snapshot, comes
//! back and copies that; and is killed in the middle of it, comes back again, and finishes.

#![allow(clippy::unwrap_used)]

use quorate_node::status::Status;
use quorate_processes::http::Client;
use quorate_processes::{Cluster, Profile, binary, poll};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
/// Snapshots come often, logs are cut behind them, and a copy takes a thousand questions.
const SETTINGS: &[&str] = &[
    "quorate.cleanup.policy=delete",
    "metadata.log.max.record.bytes.between.snapshots=400000",
    "metadata.max.retention.bytes=0",
    "controller.quorum.fetch.snapshot.max.bytes=400",
];
const KEYS: usize = 200;

/// A quorum, one of whose followers does not run and lacks what the others no longer have.
struct Late {
    cluster: Cluster,
    leader: u32,
    late: u32,
    /// What was acknowledged.
    told: BTreeMap<String, Vec<u8>>,
    rounds: u8,
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
    while quorum.status(leader).log_start <= behind {
        quorum.write();
        assert!(quorum.rounds < 50, "the log is never trimmed");
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
        let mut client = Client::new(self.cluster.node(self.leader).http, PATIENCE);
        for key in 0..KEYS {
            let (key, value) = (format!("key-{key}"), vec![b'a' + self.rounds; 2_000]);
            let path = format!("/v1/kv/{key}");
            let answer = client.ask("PUT", &path, &[], &value).unwrap();
            assert!(matches!(answer.status, 200 | 201), "{answer:?}");
            self.told.insert(key, value);
        }
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
    quorum.cluster.start(quorum.late).unwrap();
    let before = quorum.rounds;
    // At least once while it copies, and until it is done.
    loop {
        quorum.write();
        let late = quorum.cluster.node(quorum.late).status();
        if late.is_some_and(|late| late.ready && late.log_start > 0) {
            break;
        }
        assert!(quorum.rounds < before + 100, "it never catches up");
    }
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
