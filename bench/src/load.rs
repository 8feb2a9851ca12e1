//! The closed loop: so many connections, so many requests under way on each, for so long.
//!
//! A request is sent as soon as an answer makes room, so what is measured is how fast the system is
//! with this many waiting, not how it copes with more. What was sent before the warm-up ended
//! counts nowhere. One thread drives it all and shares the machine with the nodes.

use crate::driver::{Connection, Driver, Request, failed};
use hdrhistogram::Histogram;
use quorate_base::Rng;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::LocalSet;

/// Keys that are written and read, so many different ones.
pub const KEYS: u64 = 10_000;
/// Bytes of a value.
pub const VALUE_BYTES: usize = 256;
/// Silence for so long is an error: a closed loop that waits for ever measures nothing.
const SILENCE: Duration = Duration::from_secs(20);

/// What the requests are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Writes of [`VALUE_BYTES`].
    Put,
    /// Linearizable reads.
    Get,
}

/// How much load, for how long.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// How many connections.
    pub connections: u32,
    /// How many requests are under way on each.
    pub depth: u32,
    /// What they are.
    pub kind: Kind,
    /// What goes before and is not counted.
    pub warm_up: Duration,
    /// What is counted.
    pub duration: Duration,
}

/// What came of it.
pub struct Measured {
    /// Answers per second.
    pub rate: f64,
    /// From sending to the answer, in microseconds.
    pub latency_us: Histogram<u64>,
}

/// The key of this number.
pub fn key(number: u64) -> String {
    format!("bench/{number:08}")
}

/// Bytes that no system can guess or compress.
pub fn value(rng: &mut Rng) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    for word in value.chunks_exact_mut(8) {
        word.copy_from_slice(&rng.next().to_le_bytes());
    }
    value
}

/// Runs the load on this thread. Needs a current-thread runtime.
pub async fn run<D: Driver + 'static>(driver: D, shape: Shape) -> io::Result<Measured> {
    let histogram = Histogram::new_with_bounds(1, 60_000_000, 3).map_err(io::Error::other)?;
    let latency_us = Rc::new(RefCell::new(histogram));
    let mut connections = Vec::new();
    for _ in 0..shape.connections {
        connections.push(driver.connect().await?);
    }
    let from = Instant::now() + shape.warm_up;
    let until = from + shape.duration;
    let tasks = LocalSet::new();
    let mut running = Vec::new();
    for (number, connection) in connections.into_iter().enumerate() {
        let line = Line {
            connection,
            shape,
            from,
            until,
            rng: Rng::new(number as u64),
            latency_us: Rc::clone(&latency_us),
            counted: 0,
        };
        running.push(tasks.spawn_local(line.drive()));
    }
    let counted = tasks
        .run_until(async {
            let mut counted = 0;
            for line in running {
                counted += line.await.map_err(io::Error::other)??;
            }
            Ok::<u64, io::Error>(counted)
        })
        .await?;
    drop(tasks);
    let latency_us =
        Rc::try_unwrap(latency_us).map_err(|_| failed("a connection is still open"))?;
    let rate = counted as f64 / shape.duration.as_secs_f64();
    Ok(Measured { rate, latency_us: latency_us.into_inner() })
}

/// One connection under load.
struct Line<C> {
    connection: C,
    shape: Shape,
    from: Instant,
    until: Instant,
    rng: Rng,
    latency_us: Rc<RefCell<Histogram<u64>>>,
    counted: u64,
}

impl<C: Connection> Line<C> {
    /// Returns how many answers came within the time that counts.
    async fn drive(mut self) -> io::Result<u64> {
        let mut sent = vec![Instant::now(); self.shape.depth as usize];
        for number in 0..self.shape.depth {
            self.send(number, &mut sent);
        }
        let mut done = Vec::new();
        loop {
            self.connection.flush().await?;
            let received = tokio::time::timeout(SILENCE, self.connection.receive(&mut done)).await;
            received.map_err(|_| failed(format!("no answer for {} s", SILENCE.as_secs())))??;
            let now = Instant::now();
            if now >= self.until {
                return Ok(self.counted);
            }
            for number in done.drain(..) {
                self.counted += u64::from(now >= self.from);
                let began = sent[number as usize];
                if began >= self.from {
                    let took = now.duration_since(began).as_micros() as u64;
                    self.latency_us.borrow_mut().saturating_record(took.max(1));
                }
                self.send(number, &mut sent);
            }
        }
    }

    fn send(&mut self, number: u32, sent: &mut [Instant]) {
        let key = key(self.rng.below(KEYS));
        let value = value(&mut self.rng);
        let request = match self.shape.kind {
            Kind::Put => Request::Put { key: &key, value: &value },
            Kind::Get => Request::Get { key: &key },
        };
        sent[number as usize] = Instant::now();
        self.connection.send(number, request);
    }
}
