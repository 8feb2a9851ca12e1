//! How long nobody can write after the leader was killed.
//!
//! Two kinds of clients at once, over HTTP. *Probes* come at a fixed rate whatever happens to those
//! before them, to all nodes in turn: they see the outage as it is. *Writers* send their next write
//! when the last one is answered, and go to the next node when theirs is gone: they see it as most
//! programs do. For each the outage is the longest time between two acknowledgements from just
//! before the kill until writes go on.

use crate::driver::{Connection, Driver, Request};
use crate::http::{Http, HttpConnection};
use crate::load;
use crate::report::{Summary, distribution};
use crate::{Bench, Failure, START_PATIENCE, bar};
use quorate_base::Rng;
use quorate_processes::{Cluster, poll};
use serde::Serialize;
use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::LocalSet;

/// Between two probes: 100 a second.
const PROBE_EVERY: Duration = Duration::from_millis(10);
/// Writers, each beginning at another node.
const WRITERS: usize = 3;
/// Longer than a node waits for a leader.
const PATIENCE: Duration = Duration::from_secs(12);
/// The pause of a writer whose node is gone.
const RETRY: Duration = Duration::from_millis(2);
/// Acknowledgements after a gap that show that it is over.
const GOES_ON: usize = 20;
/// What is looked at before a kill.
const BEFORE: Duration = Duration::from_millis(500);
const OUTAGE_MAX: Duration = Duration::from_secs(60);
const KEYS: u64 = 100;

/// What one kind of clients saw.
#[derive(Serialize)]
pub struct Seen {
    /// Which kind.
    pub what: &'static str,
    /// The longest gap between acknowledgements, in milliseconds, of all kills.
    pub gap_ms: Summary,
    /// The same, kill by kill.
    pub gaps_ms: Vec<f64>,
    /// Writes that were acknowledged.
    pub acknowledged: u64,
    /// Writes that were not: refused, or of unknown outcome since their node died.
    pub failed: u64,
}

/// What was measured.
#[derive(Serialize)]
pub struct Failover {
    /// How often the leader was killed.
    pub kills: u32,
    /// Probes, then writers.
    pub seen: Vec<Seen>,
}

/// The acknowledgements of one kind of clients.
#[derive(Default)]
struct Stream {
    recent: Mutex<Vec<Instant>>,
    acknowledged: AtomicU64,
    failed: AtomicU64,
}

impl Stream {
    fn count(&self, outcome: &io::Result<()>) {
        match outcome {
            Ok(()) => {
                self.recent().push(Instant::now());
                self.acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => drop(self.failed.fetch_add(1, Ordering::Relaxed)),
        }
    }

    fn recent(&self) -> std::sync::MutexGuard<'_, Vec<Instant>> {
        self.recent.lock().expect("nobody panics with it")
    }

    /// The longest gap that ended after `killed`, once writes have gone on.
    fn gap(&self, killed: Instant) -> Option<Duration> {
        longest_gap(&self.recent(), killed)
    }

    fn seen(&self, what: &'static str, gaps: Vec<f64>) -> Seen {
        Seen {
            what,
            gap_ms: distribution(gaps.clone()),
            gaps_ms: gaps,
            acknowledged: self.acknowledged.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }
}

/// Acknowledgements come in order: one thread counts them.
fn longest_gap(at: &[Instant], killed: Instant) -> Option<Duration> {
    let gaps = at.windows(2).map(|pair| (pair[1] - pair[0], pair[1]));
    let (gap, end) = gaps.filter(|(_, end)| *end > killed).max()?;
    let after = at.iter().filter(|at| **at > end).count();
    (after >= GOES_ON).then_some(gap)
}

#[derive(Default)]
struct Streams {
    probes: Stream,
    writers: Stream,
    stop: AtomicBool,
}

/// Kills the leader so many times.
pub fn measure(bench: &Bench, kills: u32) -> Result<Failover, Failure> {
    let kills = if bench.quick { kills.min(5) } else { kills };
    let mut cluster = bench.cluster("failover")?;
    let nodes: Vec<SocketAddr> = cluster.nodes().iter().map(|node| node.http).collect();
    let streams = Arc::new(Streams::default());
    let for_clients = Arc::clone(&streams);
    let clients = std::thread::spawn(move || clients(nodes, &for_clients));
    let gaps = kill(&mut cluster, kills, &streams);
    streams.stop.store(true, Ordering::Relaxed);
    clients.join().map_err(|_| "the clients panicked")??;
    let (open, closed): (Vec<f64>, Vec<f64>) = gaps?.into_iter().unzip();
    bench.discard(cluster)?;
    let probes = streams.probes.seen("open loop, 100 writes/s", open);
    let writers = streams.writers.seen("closed loop, 3 writers", closed);
    Ok(Failover { kills, seen: vec![probes, writers] })
}

/// Kills, waits until writes go on, restarts, waits until the node is level; as often as asked.
fn kill(cluster: &mut Cluster, kills: u32, streams: &Streams) -> Result<Vec<(f64, f64)>, Failure> {
    let bar = bar("fail-over", u64::from(kills));
    let mut rng = Rng::new(1);
    let mut gaps = Vec::new();
    for _ in 0..kills {
        let leader = cluster.wait_until_level(START_PATIENCE)?;
        // Kills must not fall into step with timers.
        std::thread::sleep(BEFORE + Duration::from_millis(rng.below(500)));
        for stream in [&streams.probes, &streams.writers] {
            let from = Instant::now() - BEFORE;
            stream.recent().retain(|at| *at >= from);
        }
        let killed = Instant::now();
        cluster.kill(leader);
        let (open, closed) = poll("writes to go on after a kill", OUTAGE_MAX, || {
            Some((streams.probes.gap(killed)?, streams.writers.gap(killed)?))
        })?;
        let ms = |gap: Duration| gap.as_secs_f64() * 1e3;
        gaps.push((ms(open), ms(closed)));
        bar.set_message(format!("{:.0} ms", ms(open)));
        bar.inc(1);
        cluster.start(leader)?;
    }
    bar.finish_and_clear();
    Ok(gaps)
}

/// Idle connections of the probes, by node.
type Idle = Rc<RefCell<Vec<Vec<HttpConnection>>>>;

/// Probes and writes until it is told to stop.
fn clients(nodes: Vec<SocketAddr>, streams: &Arc<Streams>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tasks = LocalSet::new();
    for first in 0..WRITERS {
        tasks.spawn_local(write(nodes.clone(), first, Arc::clone(streams)));
    }
    let idle: Idle = Rc::new(RefCell::new(nodes.iter().map(|_| Vec::new()).collect()));
    runtime.block_on(tasks.run_until(async {
        let mut ticks = tokio::time::interval(PROBE_EVERY);
        for number in 0_usize.. {
            ticks.tick().await;
            if streams.stop.load(Ordering::Relaxed) {
                break;
            }
            let (node, idle, streams) =
                (number % nodes.len(), Rc::clone(&idle), Arc::clone(streams));
            let at = nodes[node];
            tokio::task::spawn_local(async move {
                let kept = idle.borrow_mut()[node].pop();
                let outcome = probe(at, kept, number).await;
                streams
                    .probes
                    .count(&outcome.as_ref().map(drop).map_err(|error| error.kind().into()));
                idle.borrow_mut()[node].extend(outcome.ok());
            });
        }
    }));
    Ok(())
}

/// One write, on a connection that is kept for another if it went well.
async fn probe(
    at: SocketAddr,
    kept: Option<HttpConnection>,
    number: usize,
) -> io::Result<HttpConnection> {
    let mut connection = match kept {
        Some(connection) => connection,
        None => Http { node: at }.connect().await?,
    };
    put(&mut connection, number as u64).await?;
    Ok(connection)
}

/// One write after the other, through the first node that takes them.
async fn write(nodes: Vec<SocketAddr>, first: usize, streams: Arc<Streams>) {
    let mut number = 0;
    for node in nodes.iter().cycle().skip(first) {
        if let Ok(mut connection) = (Http { node: *node }).connect().await {
            loop {
                number += 1;
                let outcome = put(&mut connection, number).await;
                streams.writers.count(&outcome);
                if outcome.is_err() {
                    break;
                }
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn put(connection: &mut HttpConnection, number: u64) -> io::Result<()> {
    let (key, value) = (load::key(number % KEYS), [b'v'; load::VALUE_BYTES]);
    let mut done = Vec::new();
    connection.send(0, Request::Put { key: &key, value: &value });
    let answered = async {
        connection.flush().await?;
        connection.receive(&mut done).await
    };
    match tokio::time::timeout(PATIENCE, answered).await {
        Ok(outcome) => outcome,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_told_once_writes_go_on() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        // A longer gap before the kill does not count, nor does what was acknowledged as it
        // happened.
        let mut acknowledged: Vec<Instant> = [0, 300, 310, 321].map(at).to_vec();
        let killed = at(320);
        acknowledged.push(at(471));
        assert_eq!(longest_gap(&acknowledged, killed), None, "it may go on no further");
        acknowledged.extend((0..20).map(|step| at(480 + step)));
        assert_eq!(longest_gap(&acknowledged, killed), Some(Duration::from_millis(150)));
    }
}
