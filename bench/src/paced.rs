//! The open loop: writes at a fixed rate, whatever became of those before them.
//!
//! A write counts from the moment at which it was due, so a system that stands still for a second
//! is seen to by every write of that second. One thread drives it and shares the machine.

use crate::driver::{Connection, Driver, Request, failed};
use crate::forward::Forward;
use crate::load;
use hdrhistogram::Histogram;
use quorate_base::Rng;
use serde::Serialize;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::task::LocalSet;

/// Connections that take turns.
const CONNECTIONS: u32 = 20;
/// Writes a second.
pub const RATE: u32 = 500;
const SILENCE: Duration = Duration::from_secs(20);
/// Keys that it overwrites.
const KEYS: u64 = 1_000;

/// How long commits took, in milliseconds.
#[derive(Serialize)]
pub struct Latency {
    /// When.
    pub when: &'static str,
    /// How many writes.
    pub writes: u64,
    /// Half of them took at most this.
    pub p50_ms: f64,
    /// All but one in a hundred.
    pub p99_ms: f64,
    /// All but one in a thousand.
    pub p999_ms: f64,
    /// All.
    pub most_ms: f64,
}

/// Writes that go on until they are stopped.
pub struct Paced {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<Histogram<u64>>>,
}

impl Paced {
    /// Starts to write through the leader's controller listener.
    pub fn start(leader: SocketAddr) -> Paced {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        Paced { stop, thread: std::thread::spawn(move || drive(leader, &told)) }
    }

    /// Waits for what is under way and tells how many microseconds each took.
    pub fn finish(self) -> io::Result<Histogram<u64>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| failed("the load panicked"))?
    }
}

impl Latency {
    /// What a histogram of microseconds says.
    pub fn of(when: &'static str, taken: &Histogram<u64>) -> Latency {
        let ms = |quantile| taken.value_at_quantile(quantile) as f64 / 1e3;
        Latency {
            when,
            writes: taken.len(),
            p50_ms: ms(0.5),
            p99_ms: ms(0.99),
            p999_ms: ms(0.999),
            most_ms: taken.max() as f64 / 1e3,
        }
    }
}

fn drive(leader: SocketAddr, stop: &Arc<AtomicBool>) -> io::Result<Histogram<u64>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tasks = LocalSet::new();
    let begin = Instant::now();
    let lines: Vec<_> = (0..CONNECTIONS)
        .map(|turn| tasks.spawn_local(line(leader, begin, turn, Arc::clone(stop))))
        .collect();
    runtime.block_on(tasks.run_until(async {
        let mut all = histogram()?;
        for line in lines {
            let taken = line.await.map_err(io::Error::other)??;
            all.add(taken).map_err(io::Error::other)?;
        }
        Ok(all)
    }))
}

/// An empty one, up to a minute.
pub fn histogram() -> io::Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, 60_000_000, 3).map_err(io::Error::other)
}

/// The writes of one connection.
async fn line(
    leader: SocketAddr,
    begin: Instant,
    turn: u32,
    stop: Arc<AtomicBool>,
) -> io::Result<Histogram<u64>> {
    let mut connection = Forward { leader }.connect().await?;
    let (mut rng, mut done, mut taken) = (Rng::new(turn.into()), Vec::new(), histogram()?);
    for number in 0.. {
        let due = begin + Duration::from_secs(1) * (turn + number * CONNECTIONS) / RATE;
        tokio::time::sleep_until(due.into()).await;
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let (key, value) = (load::key(rng.below(KEYS)), load::value(&mut rng));
        connection.send(0, Request::Put { key: &key, value: &value });
        connection.flush().await?;
        let answered = tokio::time::timeout(SILENCE, connection.receive(&mut done)).await;
        answered.map_err(|_| failed(format!("no answer for {} s", SILENCE.as_secs())))??;
        taken.saturating_record(due.elapsed().as_micros() as u64);
    }
    Ok(taken)
}
