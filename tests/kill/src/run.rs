//! One run: start, kill, bring back, read everything, judge.

use crate::changer::{Changed, Changer, Counted};
use crate::history::{Call, Told};
use crate::judge::judge;
use crate::killer::Killer;
use crate::workload::{Record, Shared, Worker};
use quorate_base::Rng;
use quorate_processes::{Cluster, Error};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Small, so that a short run sees segments end, and followers that are behind what is in memory.
const SETTINGS: [&str; 2] =
    ["metadata.log.segment.bytes=8388608", "quorate.tail.max.bytes=1048576"];
const START_PATIENCE: Duration = Duration::from_secs(30);

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The binary `quorate`.
    pub binary: PathBuf,
    /// Where the nodes' directories go; must not exist. Removed after a run without failures.
    pub root: PathBuf,
    /// Fixes which nodes are killed and what is asked.
    pub seed: u64,
    /// How many processes are killed.
    pub kills: u32,
    /// How many nodes there are.
    pub nodes: u32,
    /// How many clients call at once.
    pub clients: u32,
    /// How many keys they share at a time.
    pub keys: u32,
    /// Breaks the promise on purpose: all nodes die at once and lose their data. The judges must
    /// say so.
    pub amnesia: bool,
    /// Who votes changes meanwhile.
    pub voters: Voters,
}

/// Who votes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Voters {
    /// All nodes, as their settings say.
    #[default]
    Fixed,
    /// Node 1 at first, then these sets one after the other, under load; the kills come after.
    Reach(Vec<Vec<u32>>),
    /// Node 1 at first, then others and others, until the last kill.
    Wander,
}

impl Options {
    /// Three nodes, twelve clients, four keys.
    pub fn new(binary: PathBuf, root: PathBuf, seed: u64, kills: u32) -> Options {
        let (voters, amnesia) = (Voters::Fixed, false);
        Options { binary, root, seed, kills, nodes: 3, clients: 12, keys: 4, amnesia, voters }
    }
}

/// What a run was and what it found.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The seed.
    pub seed: u64,
    /// Processes killed.
    pub kills: u32,
    /// Calls in the history.
    pub calls: usize,
    /// Writes among them that were acknowledged.
    pub acknowledged: usize,
    /// Calls of unknown outcome.
    pub unknown: usize,
    /// Calls known to have done nothing, outside of the history.
    pub nothing_done: u64,
    /// Of the linearizable reads among them, what was said.
    pub failed_reads: Vec<String>,
    /// What became of changes of the voters.
    pub changed: Changed,
    /// Stamped calls that were sent more than once.
    pub retried: u64,
    /// Local reads.
    pub local: usize,
    /// Keys.
    pub keys: u32,
    /// Pairs of digests compared.
    pub digests: u64,
    /// How long it all took.
    pub took: Duration,
    /// What the clients were told, local reads apart.
    pub history: Vec<Call>,
    /// What is wrong; empty if nothing is.
    pub failures: Vec<String>,
    /// What a failing run left behind.
    pub evidence: Option<PathBuf>,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.failures.is_empty() { "ok" } else { "FAILED" };
        writeln!(
            f,
            "kill loop {verdict}: {} kills in {:.1} s; {} calls on {} keys, {} writes acknowledged, {} \
             unknown, {} did nothing, {} retried under their stamp; {} local reads; {} digests \
             compared; seed {}",
            self.kills,
            self.took.as_secs_f64(),
            self.calls,
            self.keys,
            self.acknowledged,
            self.unknown,
            self.nothing_done,
            self.retried,
            self.local,
            self.digests,
            self.seed
        )?;
        let Changed { steps, counted, refused } = &self.changed;
        if !steps.is_empty() || !refused.is_empty() {
            writeln!(
                f,
                "{} changes of voters, {}; {} commands refused; {} reads failed",
                steps.len(),
                spread(steps),
                refused.len(),
                self.failed_reads.len()
            )?;
            writeln!(f, "{counted}")?;
            for said in self.failed_reads.iter().chain(refused).take(5) {
                writeln!(f, "  {said}")?;
            }
        }
        for failure in &self.failures {
            writeln!(f, "\n{failure}")?;
        }
        if let Some(evidence) = &self.evidence {
            writeln!(
                f,
                "\nlogs, directories and history.txt are in {}\nagain (the schedule differs): cargo run -p \
                 quorate-kill -- --seed {} --kills {}",
                evidence.display(),
                self.seed,
                self.kills
            )?;
        }
        Ok(())
    }
}

/// Of spans: the middle, the ninth of ten, and the longest.
fn spread(spans: &[Duration]) -> String {
    let mut spans = spans.to_vec();
    spans.sort_unstable();
    let at = |part: usize| spans.get(spans.len().saturating_sub(1) * part / 10);
    let ms = |span: Option<&Duration>| span.map_or(0, Duration::as_millis);
    format!("p50 {} ms, p90 {} ms, most {} ms", ms(at(5)), ms(at(9)), ms(at(10)))
}

/// Runs the loop. `progress` is told how many were killed so far.
pub fn run(options: &Options, progress: impl Fn(u32)) -> Result<Summary, Error> {
    let (binary, root) = (&options.binary, &options.root);
    let mut cluster = match options.voters {
        Voters::Fixed => Cluster::format(binary, root, options.nodes, &SETTINGS)?,
        Voters::Reach(_) | Voters::Wander => {
            Cluster::found(binary, root, options.nodes, &SETTINGS)?
        }
    };
    cluster.start_all()?;
    cluster.wait_until_level(START_PATIENCE)?;
    let shared = Shared {
        origin: Instant::now(),
        stop: AtomicBool::new(false),
        acknowledged: AtomicU64::new(0),
        first_key: AtomicU32::new(0),
        keys: options.keys,
        nodes: cluster.nodes().iter().map(|node| node.http).collect(),
    };
    let mut rng = Rng::new(options.seed);
    let for_killer = rng.fork();
    let mut workers: Vec<Worker<'_>> =
        (1..=options.clients).map(|number| Worker::new(&shared, number, rng.fork())).collect();
    let for_changer = rng.fork();
    let enough = AtomicBool::new(false);
    let (killed, mut records, changed) = std::thread::scope(|scope| {
        let running: Vec<_> =
            workers.drain(..).map(|worker| scope.spawn(move || worker.run())).collect();
        let changer = Changer::new(binary, &cluster, &shared);
        let mut changed = Changed::default();
        let mut wandering = None;
        match &options.voters {
            Voters::Fixed => {}
            Voters::Reach(goals) => changed = changer.reach(goals),
            Voters::Wander => {
                wandering = Some(scope.spawn(|| changer.wander(for_changer, &enough)));
            }
        }
        let mut killer =
            Killer::new(&mut cluster, &shared, for_killer).with_amnesia(options.amnesia);
        killer.kill(options.kills, progress);
        enough.store(true, Ordering::Relaxed);
        if let Some(wandering) = wandering {
            changed = wandering.join().expect("the changer does not panic");
        }
        let killed = killer.end();
        shared.stop.store(true, Ordering::Relaxed);
        let join = |running: std::thread::ScopedJoinHandle<'_, Record>| {
            running.join().expect("clients do not panic")
        };
        (killed, running.into_iter().map(join).collect::<Vec<Record>>(), changed)
    });
    let keys = shared.first_key.load(Ordering::Relaxed) + shared.keys;
    records.push(Worker::new(&shared, 0, rng.fork()).read_all(keys));
    let counted = Counted::of(&cluster);
    drop(cluster);

    let mut summary = Summary {
        seed: options.seed,
        kills: killed.kills,
        keys,
        digests: killed.compared,
        failures: killed.failures,
        changed: Changed { counted, ..changed },
        ..Summary::default()
    };
    let (mut calls, mut local) = (Vec::new(), Vec::new());
    for record in records {
        summary.nothing_done += record.nothing_done;
        summary.failed_reads.extend(record.failed_reads);
        summary.retried += record.retried;
        summary.failures.extend(record.anomalies);
        calls.extend(record.calls);
        local.extend(record.local);
    }
    let count = |wanted: fn(&Call) -> bool| calls.iter().filter(|call| wanted(call)).count();
    summary.calls = calls.len();
    summary.local = local.len();
    summary.unknown = count(|call| call.told == Told::Unknown);
    summary.acknowledged =
        count(|call| matches!(call.told, Told::Written { .. } | Told::Deleted { .. }));
    summary.failures.extend(judge(&calls, &local));
    summary.took = shared.origin.elapsed();
    summary.evidence = keep(&options.root, &summary.failures, &calls, &local)?;
    summary.history = calls;
    Ok(summary)
}

/// Removes the directories of a clean run, writes the history into those of another.
fn keep(
    root: &Path,
    failures: &[String],
    calls: &[Call],
    local: &[Call],
) -> Result<Option<PathBuf>, Error> {
    let file_error = |source| Error::File { path: root.to_owned(), source };
    if failures.is_empty() {
        return std::fs::remove_dir_all(root).map(|()| None).map_err(file_error);
    }
    let mut calls: Vec<&Call> = calls.iter().chain(local).collect();
    calls.sort_by_key(|call| (call.key, call.begin));
    let lines: String = calls.iter().map(|call| format!("key {:<4} {call}\n", call.key)).collect();
    std::fs::write(root.join("history.txt"), lines).map_err(file_error)?;
    Ok(Some(root.to_owned()))
}
