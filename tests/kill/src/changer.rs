//! Who votes when: voters come and go under load, by the command that people use.
//!
//! Each goal is a set of node ids; the command plans the steps, one voter more or one less, and
//! carries them out. Either goals are given, or they are drawn until it is told to stop, while
//! nodes are killed: then a command may fail, and says why.

use crate::workload::Shared;
use prometheus_parse::{Sample, Scrape, Value};
use quorate_base::Rng;
use quorate_processes::http::Client;
use quorate_processes::{Cluster, Node};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Writes that are acknowledged between two goals.
const WRITES_BETWEEN: u64 = 60;
const PATIENCE: Duration = Duration::from_secs(60);
/// How long one step may take, in seconds.
const STEP_SECONDS: &str = "20";

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Changed {
    /// How long each single change took, from the command's request to its commit.
    pub steps: Vec<Duration>,
    /// The same as those who made them count it.
    pub counted: Counted,
    /// Commands that were refused or ran out of time, and what they said.
    pub refused: Vec<String>,
}

/// How long changes took on the leaders that made them, from request to commit, as `/metrics` of
/// all nodes that run now have it.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// How often it took no longer than so many seconds; ascending.
    pub within: Vec<(f64, u64)>,
    /// How many there were.
    pub count: u64,
    /// How long they took in all, in seconds.
    pub sum: f64,
}

impl Counted {
    /// Asks every node.
    pub fn of(cluster: &Cluster) -> Counted {
        let mut counted = Counted::default();
        for node in cluster.nodes().iter().filter(|node| node.is_up()) {
            let mut client = Client::new(node.http, PATIENCE);
            let Ok(answer) = client.ask("GET", "/metrics", &[], b"") else { continue };
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            let Ok(scrape) = Scrape::parse(text.lines().map(|line| Ok(line.to_owned()))) else {
                continue;
            };
            for sample in scrape.samples {
                counted.add(&sample);
            }
        }
        counted
    }

    fn add(&mut self, sample: &Sample) {
        match (&sample.value, sample.metric.strip_prefix("quorate_voter_change_seconds")) {
            (Value::Histogram(buckets), Some("")) => {
                self.within.resize(buckets.len(), (0.0, 0));
                for (all, bucket) in self.within.iter_mut().zip(buckets) {
                    *all = (bucket.less_than, all.1 + bucket.count as u64);
                }
            }
            (Value::Untyped(count), Some("_count")) => self.count += *count as u64,
            (Value::Untyped(sum), Some("_sum")) => self.sum += sum,
            (
                Value::Histogram(_)
                | Value::Counter(_)
                | Value::Gauge(_)
                | Value::Untyped(_)
                | Value::Summary(_),
                _,
            ) => {}
        }
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mean_ms = if self.count == 0 { 0.0 } else { self.sum * 1e3 / self.count as f64 };
        write!(f, "{} changes by /metrics, on the mean {mean_ms:.1} ms", self.count)?;
        let mut before = 0;
        for (end, within) in &self.within {
            if *within > before {
                write!(f, "; {} within {} ms", within - before, end * 1e3)?;
            }
            before = *within;
        }
        Ok(())
    }
}

/// Runs the command against a cluster.
#[derive(Debug)]
pub struct Changer<'a> {
    binary: PathBuf,
    nodes: Vec<(u32, SocketAddr)>,
    shared: &'a Shared,
    changed: Changed,
}

impl<'a> Changer<'a> {
    /// One for the nodes of this cluster.
    pub fn new(binary: &Path, cluster: &Cluster, shared: &'a Shared) -> Changer<'a> {
        let place = |node: &Node| (node.id, node.raft);
        let nodes = cluster.nodes().iter().map(place).collect();
        Changer { binary: binary.to_owned(), nodes, shared, changed: Changed::default() }
    }

    /// Reaches these sets of voters one after the other.
    pub fn reach(mut self, goals: &[Vec<u32>]) -> Changed {
        for goal in goals {
            self.wait_for_writes();
            self.alter(goal);
        }
        self.wait_for_writes();
        self.changed
    }

    /// Draws sets until it is stopped.
    pub fn wander(mut self, mut rng: Rng, stop: &AtomicBool) -> Changed {
        while !stop.load(Ordering::Relaxed) {
            let mut goal: Vec<u32> = self.nodes.iter().map(|(id, _)| *id).collect();
            goal.retain(|_| !rng.one_in(3));
            if !goal.is_empty() {
                self.alter(&goal);
            }
            // There is nothing to wait for: changes are to meet kills at any moment.
            std::thread::sleep(Duration::from_millis(rng.below(300)));
        }
        self.changed
    }

    fn alter(&mut self, goal: &[u32]) {
        let place = |id: &u32| {
            let at = self.nodes.iter().find(|(known, _)| known == id).map(|(_, at)| at.to_string());
            format!("{id}@{}", at.unwrap_or_default())
        };
        let voters: Vec<String> = goal.iter().map(place).collect();
        let servers: Vec<String> = self.nodes.iter().map(|(_, at)| at.to_string()).collect();
        let mut command = Command::new(&self.binary);
        command.args(["quorum", "alter", "--json", "--timeout", STEP_SECONDS]);
        command.args(["--voters", &voters.join(","), "--bootstrap", &servers.join(",")]);
        let output = match command.output() {
            Ok(output) => output,
            Err(error) => return self.changed.refused.push(error.to_string()),
        };
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            self.changed.refused.push(format!("{goal:?}: {}", said.trim()));
            return;
        }
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let steps = told["steps"].as_array().map_or(&[][..], Vec::as_slice);
        let took = steps.iter().filter_map(|step| step["ms"].as_f64());
        self.changed.steps.extend(took.map(|ms| Duration::from_secs_f64(ms / 1e3)));
    }

    fn wait_for_writes(&self) {
        let acknowledged = || self.shared.acknowledged.load(Ordering::Relaxed);
        let (goal, end) = (acknowledged() + WRITES_BETWEEN, Instant::now() + PATIENCE);
        while acknowledged() < goal && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
