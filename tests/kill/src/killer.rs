//! Who dies when: one node, two, all; under load, or again while they start.
//!
//! Paced by what the clients get done, so that a slow machine sees the same kills later. Watches on
//! the way that nobody dies by itself and that equal states have equal digests, across nodes and
//! lives.

use crate::workload::Shared;
use quorate_base::Rng;
use quorate_node::status::Status;
use quorate_processes::{Cluster, Error, Node, poll};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// With all nodes up, writes must go on within this.
const PATIENCE: Duration = Duration::from_secs(60);
/// Writes between two kills are random and below this.
const WRITES_MAX: u64 = 600;
/// After so many kills the clients go on to other keys, which keeps each key's history short.
const KILLS_PER_GENERATION: u32 = 5;

/// The killer and what it has seen.
#[derive(Debug)]
pub struct Killer<'a> {
    cluster: &'a mut Cluster,
    shared: &'a Shared,
    rng: Rng,
    kills: u32,
    amnesia: bool,
    /// The digest of each state that anyone was seen in, and who said so.
    digests: BTreeMap<u64, (String, u32)>,
    compared: u64,
    failures: Vec<String>,
}

/// What came of it.
#[derive(Debug)]
pub struct Killed {
    /// How many processes.
    pub kills: u32,
    /// How often two digests of one state were compared.
    pub compared: u64,
    /// What went wrong.
    pub failures: Vec<String>,
}

impl<'a> Killer<'a> {
    /// A killer of running nodes.
    pub fn new(cluster: &'a mut Cluster, shared: &'a Shared, rng: Rng) -> Killer<'a> {
        let (digests, failures) = (BTreeMap::new(), Vec::new());
        Killer { cluster, shared, rng, kills: 0, amnesia: false, digests, compared: 0, failures }
    }

    /// All die at once and forget all, which no quorum survives: a test of the judges.
    pub fn with_amnesia(self, amnesia: bool) -> Killer<'a> {
        Killer { amnesia, ..self }
    }

    /// Kills so many times; all nodes are up behind the last. `progress` is told of each kill.
    pub fn kill(&mut self, kills: u32, progress: impl Fn(u32)) {
        if let Err(error) = self.rounds(kills, progress) {
            self.failures.push(error.to_string());
        }
    }

    /// Waits until all nodes are level.
    pub fn end(mut self) -> Killed {
        if self.failures.is_empty()
            && let Err(error) = self.settle()
        {
            self.failures.push(error.to_string());
        }
        Killed { kills: self.kills, compared: self.compared, failures: self.failures }
    }

    fn rounds(&mut self, kills: u32, progress: impl Fn(u32)) -> Result<(), Error> {
        while self.kills < kills && self.failures.is_empty() {
            let writes = self.rng.below(WRITES_MAX);
            self.wait_for_writes(writes)?;
            self.look();
            for victim in self.victims() {
                self.kills += u32::from(self.cluster.kill(victim));
            }
            progress(self.kills.min(kills));
            if self.amnesia {
                self.cluster.forget_all()?;
            }
            // Down for a while: not at all, within an election, or beyond one.
            self.pause(&[0, 50, 500, 1_500]);
            self.cluster.start_all()?;
            if self.rng.one_in(5) {
                // And again while it reads its log or stands for election.
                self.pause(&[5, 50, 300]);
                let victim = self.any();
                self.kills += u32::from(self.cluster.kill(victim));
                self.cluster.start_all()?;
            }
            let generation = self.kills / KILLS_PER_GENERATION;
            self.shared.first_key.store(generation * self.shared.keys, Ordering::Relaxed);
        }
        Ok(())
    }

    fn any(&mut self) -> u32 {
        1 + self.rng.below(self.cluster.nodes().len() as u64) as u32
    }

    fn victims(&mut self) -> Vec<u32> {
        let size = self.cluster.nodes().len() as u32;
        match self.rng.below(100) {
            _ if self.amnesia => (1..=size).collect(),
            0..40 => self.cluster.leader().into_iter().collect(),
            40..75 => vec![self.any()],
            75..90 => {
                let spared = self.any();
                (1..=size).filter(|id| *id != spared).collect()
            }
            _ => (1..=size).collect(),
        }
    }

    fn pause(&mut self, longest_ms: &[u64]) {
        let longest = longest_ms[self.rng.below(longest_ms.len() as u64) as usize];
        std::thread::sleep(Duration::from_millis(self.rng.below(longest + 1)));
    }

    fn wait_for_writes(&mut self, writes: u64) -> Result<(), Error> {
        let acknowledged = || self.shared.acknowledged.load(Ordering::Relaxed);
        let goal = acknowledged() + writes.max(1);
        let what = "writes to go on with all nodes up";
        let cluster = &mut *self.cluster;
        let ended = poll(what, PATIENCE, || match cluster.ended_by_itself() {
            Some(ended) => Some(Some(ended)),
            None => (acknowledged() >= goal).then_some(None),
        })?;
        if let Some((id, status)) = ended {
            let log = self.cluster.node(id).log_file();
            self.failures.push(format!("node {id} ended by itself ({status}):\n{}", tail(&log)));
        }
        Ok(())
    }

    /// Compares the digests of all nodes that answer.
    fn look(&mut self) {
        let statuses: Vec<Status> = self.cluster.nodes().iter().filter_map(Node::status).collect();
        for status in statuses {
            let node = status.node.unwrap_or_default();
            let first = (status.digest.clone(), node);
            let known = self.digests.entry(status.applied).or_insert(first);
            self.compared += u64::from(known.1 != node);
            if known.0 != status.digest {
                self.failures.push(format!(
                    "state {} has the digest {} on node {} and {} on node {node}",
                    status.applied, known.0, known.1, status.digest
                ));
            }
        }
    }

    /// All nodes up, nobody writes: all must come to one state.
    fn settle(&mut self) -> Result<(), Error> {
        self.wait_for_writes(1)?;
        self.shared.stop.store(true, Ordering::Relaxed);
        let cluster = &*self.cluster;
        let same = || {
            let statuses: Vec<Status> = cluster.nodes().iter().filter_map(Node::status).collect();
            let [first, rest @ ..] = &statuses[..] else { return None };
            let all = statuses.len() == cluster.nodes().len();
            let level = |other: &Status| {
                other.ready && other.applied == first.applied && other.log_end == other.applied
            };
            (all && level(first) && rest.iter().all(level)).then_some(())
        };
        poll("all nodes to come to one state after the last kill", PATIENCE, same)?;
        let before = self.compared;
        self.look();
        assert!(self.compared > before || !self.failures.is_empty(), "level nodes are compared");
        Ok(())
    }
}

/// The last lines of a log.
fn tail(path: &std::path::Path) -> String {
    let log = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&log);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}
