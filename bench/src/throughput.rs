//! Commits and reads per second, and how long each took, at several loads.
//!
//! Rounds are interleaved (each round visits every point once, on a cluster of its own), so that a
//! machine that is slow for a while is slow for all points. A point's figures are the medians of
//! the rounds; the spread says how much to believe them.

use crate::forward::Forward;
use crate::http::Http;
use crate::load::{self, KEYS, Kind, Measured, Shape};
use crate::report::{Summary, summary};
use crate::{Bench, Failure, bar};
use quorate_processes::Cluster;
use serde::Serialize;
use std::time::Duration;

const ROUNDS: usize = 3;

/// How a system is spoken to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Protocol {
    /// Kafka's framing, the private Forward API.
    Forward,
    /// HTTP/1.1.
    Http,
}

struct Point {
    what: &'static str,
    protocol: Protocol,
    kind: Kind,
    connections: u32,
    depth: u32,
}

const fn point(
    what: &'static str,
    protocol: Protocol,
    kind: Kind,
    connections: u32,
    depth: u32,
) -> Point {
    Point { what, protocol, kind, connections, depth }
}

const POINTS: [Point; 7] = [
    point("put, Forward", Protocol::Forward, Kind::Put, 1, 1),
    point("put, Forward", Protocol::Forward, Kind::Put, 8, 8),
    point("put, Forward", Protocol::Forward, Kind::Put, 32, 16),
    point("put, HTTP/1.1", Protocol::Http, Kind::Put, 1, 1),
    point("put, HTTP/1.1", Protocol::Http, Kind::Put, 64, 1),
    point("put, HTTP/1.1", Protocol::Http, Kind::Put, 512, 1),
    point("linearizable get, HTTP/1.1", Protocol::Http, Kind::Get, 512, 1),
];

/// One line of the table. Times are in milliseconds.
#[derive(Serialize)]
pub struct Row {
    /// What was asked.
    pub what: &'static str,
    /// How many connections.
    pub connections: u32,
    /// Requests under way in all.
    pub in_flight: u32,
    /// Answers per second.
    pub per_second: Summary,
    /// Half of the requests took at most this.
    pub p50_ms: Summary,
    /// All but one in a hundred took at most this.
    pub p99_ms: Summary,
    /// All but one in a thousand took at most this.
    pub p999_ms: Summary,
}

/// All points, and how they were measured.
#[derive(Serialize)]
pub struct Throughput {
    /// Seconds counted per point and round.
    pub seconds: f64,
    /// Seconds of warm-up before each.
    pub warm_up_seconds: f64,
    /// How many rounds.
    pub rounds: usize,
    /// The table.
    pub rows: Vec<Row>,
}

/// Measures all points.
pub fn measure(bench: &Bench) -> Result<Throughput, Failure> {
    let (duration, warm_up) = match bench.quick {
        true => (Duration::from_secs(2), Duration::from_millis(500)),
        false => (Duration::from_secs(10), Duration::from_secs(2)),
    };
    let mut measured: Vec<Vec<Measured>> = POINTS.iter().map(|_| Vec::new()).collect();
    let bar = bar("throughput", (ROUNDS * POINTS.len()) as u64);
    for round in 0..ROUNDS {
        let cluster = bench.cluster(&format!("throughput-{round}"))?;
        fill(&cluster)?;
        for (point, measured) in POINTS.iter().zip(&mut measured) {
            bar.set_message(format!("{}, {}", point.what, point.connections * point.depth));
            let shape = Shape {
                connections: point.connections,
                depth: point.depth,
                kind: point.kind,
                warm_up,
                duration,
            };
            measured.push(drive(&cluster, point.protocol, shape)?);
            bar.inc(1);
        }
        bench.discard(cluster)?;
    }
    bar.finish_and_clear();
    let rows = POINTS.iter().zip(&measured).map(|(point, measured)| row(point, measured)).collect();
    let (seconds, warm_up_seconds) = (duration.as_secs_f64(), warm_up.as_secs_f64());
    Ok(Throughput { seconds, warm_up_seconds, rounds: ROUNDS, rows })
}

fn row(point: &Point, rounds: &[Measured]) -> Row {
    let at = |quantile: f64| {
        let ms = |round: &Measured| round.latency_us.value_at_quantile(quantile) as f64 / 1e3;
        summary(rounds.iter().map(ms).collect())
    };
    Row {
        what: point.what,
        connections: point.connections,
        in_flight: point.connections * point.depth,
        per_second: summary(rounds.iter().map(|round| round.rate).collect()),
        p50_ms: at(0.5),
        p99_ms: at(0.99),
        p999_ms: at(0.999),
    }
}

fn drive(cluster: &Cluster, protocol: Protocol, shape: Shape) -> Result<Measured, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let leader = cluster.node(cluster.wait_for_leader(crate::START_PATIENCE)?);
    let measured = match protocol {
        Protocol::Forward => runtime.block_on(load::run(Forward { leader: leader.raft }, shape)),
        Protocol::Http => runtime.block_on(load::run(Http { node: leader.http }, shape)),
    };
    Ok(measured?)
}

/// Writes every key once, so that reads find something.
fn fill(cluster: &Cluster) -> Result<(), Failure> {
    use crate::driver::{Connection, Driver, Request};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let leader = cluster.node(cluster.wait_for_leader(crate::START_PATIENCE)?).raft;
    let mut rng = quorate_base::Rng::new(0);
    runtime.block_on(async {
        let mut connection = Forward { leader }.connect().await?;
        let mut done = Vec::new();
        for batch in 0..KEYS / 100 {
            for number in batch * 100..(batch + 1) * 100 {
                let (key, value) = (load::key(number), load::value(&mut rng));
                connection.send(number as u32, Request::Put { key: &key, value: &value });
            }
            connection.flush().await?;
            done.clear();
            while done.len() < 100 {
                connection.receive(&mut done).await?;
            }
        }
        Ok(())
    })
}
