//! One client: asks random nodes, one call at a time, and writes down what it was told.
//!
//! An answer goes into the record as the protocol means it: 503 and a refused connection did
//! nothing, 504 and a broken connection may have done something. A call with a session's stamp is
//! sent again, to any node, until its outcome is known; all its attempts are one call. What no node
//! should ever answer is an anomaly, and a failure of the run.

use crate::history::{Ask, Call, Condition, Told};
use quorate_base::Rng;
use quorate_processes::http::{Client, Response, Silence};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longer than a node waits for a leader.
const SOCKET_PATIENCE: Duration = Duration::from_secs(6);
/// How long a node waits for a leader.
const NODE_PATIENCE_MS: u64 = 3_000;
/// How often a stamped call is sent before its outcome counts as unknown.
const ATTEMPTS: usize = 12;
/// A value is padded to a random length below this: then the log fills segment after segment, and a
/// node that was away has to be served from files.
const VALUE_BYTES_MAX: u64 = 12_000;
/// The pause between two calls of a client is random and below this: the point is the kills, not
/// load.
const PAUSE_US_MAX: u64 = 6_000;

/// What all clients and the killer share.
#[derive(Debug)]
pub struct Shared {
    /// When the run began.
    pub origin: Instant,
    /// No new calls.
    pub stop: AtomicBool,
    /// Acknowledged writes so far.
    pub acknowledged: AtomicU64,
    /// The first of the keys in use now.
    pub first_key: AtomicU32,
    /// How many keys are in use at a time.
    pub keys: u32,
    /// HTTP addresses of the nodes, by id from 1.
    pub nodes: Vec<SocketAddr>,
}

impl Shared {
    fn now(&self) -> u64 {
        self.origin.elapsed().as_micros() as u64
    }
}

/// What a client brings home.
#[derive(Debug, Default)]
pub struct Record {
    /// Linearizable calls with an outcome, known or not.
    pub calls: Vec<Call>,
    /// Reads of one node's own state.
    pub local: Vec<Call>,
    /// Calls that are known to have done nothing.
    pub nothing_done: u64,
    /// Of the linearizable reads among them, what was said.
    pub failed_reads: Vec<String>,
    /// Stamped calls that needed more than one attempt.
    pub retried: u64,
    /// Answers that no node should give.
    pub anomalies: Vec<String>,
}

/// One way in which an attempt can end.
enum Attempt {
    Told(Told),
    NothingDone(String),
    /// The session is gone; earlier attempts may have done something.
    SessionGone,
    Anomaly(String),
}

struct Session {
    id: u64,
    sequence: u64,
}

/// A client at work.
pub struct Worker<'a> {
    shared: &'a Shared,
    number: u32,
    rng: Rng,
    clients: Vec<Client>,
    session: Option<Session>,
    /// Puts so far: makes values unique.
    puts: u64,
    /// The version last seen of each key in use.
    seen: Vec<(u32, u64)>,
    record: Record,
}

impl<'a> Worker<'a> {
    /// Client `number` of the run.
    pub fn new(shared: &'a Shared, number: u32, rng: Rng) -> Worker<'a> {
        let clients = shared.nodes.iter().map(|at| Client::new(*at, SOCKET_PATIENCE)).collect();
        let (seen, record) = (Vec::new(), Record::default());
        Worker { shared, number, rng, clients, session: None, puts: 0, seen, record }
    }

    /// Calls until it is told to stop.
    pub fn run(mut self) -> Record {
        while !self.shared.stop.load(Ordering::Relaxed) {
            self.call();
            std::thread::sleep(Duration::from_micros(self.rng.below(PAUSE_US_MAX)));
        }
        self.record
    }

    /// Reads each of these keys once through each node.
    pub fn read_all(mut self, keys: u32) -> Record {
        for node in 0..self.clients.len() {
            for key in 0..keys {
                self.ask_once(node, key, Ask::Get);
            }
        }
        self.record
    }

    fn call(&mut self) {
        let first = self.shared.first_key.load(Ordering::Relaxed);
        let key = first + self.rng.below(u64::from(self.shared.keys)) as u32;
        let node = self.rng.below(self.clients.len() as u64) as usize;
        self.seen.retain(|(known, _)| *known >= first);
        let version = self.seen.iter().find(|(known, _)| *known == key).map(|(_, seen)| *seen);
        let if_seen = version.map_or(Condition::Absent, Condition::Version);
        match self.rng.below(100) {
            0..25 => self.ask_once(node, key, Ask::Get),
            25..35 => self.read_local(node, key),
            35..55 => self.put(node, key, Condition::Always, false),
            55..72 => self.put(node, key, Condition::Always, true),
            72..80 => self.put(node, key, if_seen, false),
            80..86 => self.put(node, key, if_seen, true),
            86..89 => self.put(node, key, Condition::Absent, false),
            89..91 => self.put(node, key, Condition::Present, false),
            91..96 => self.ask_once(node, key, Ask::Delete { condition: Condition::Always }),
            _ => match version {
                Some(version) => {
                    let condition = Condition::Version(version);
                    self.ask_once(node, key, Ask::Delete { condition });
                }
                None => self.ask_once(node, key, Ask::Get),
            },
        }
    }

    fn put(&mut self, node: usize, key: u32, condition: Condition, stamped: bool) {
        self.puts += 1;
        let value = u64::from(self.number) << 32 | self.puts;
        let ask = Ask::Put { value, condition };
        match stamped {
            true => self.ask_until_known(node, key, ask),
            false => self.ask_once(node, key, ask),
        }
    }

    fn ask_once(&mut self, node: usize, key: u32, ask: Ask) {
        let begin = self.shared.now();
        match self.attempt(node, key, ask, &[]) {
            Attempt::Told(told) => self.note(node, key, false, begin, ask, told),
            Attempt::NothingDone(why) => {
                self.record.nothing_done += 1;
                if ask == Ask::Get {
                    self.record.failed_reads.push(format!("node {}: {why}", node + 1));
                }
            }
            Attempt::SessionGone => self.anomaly(ask, "409 without a session"),
            Attempt::Anomaly(what) => self.anomaly(ask, &what),
        }
    }

    fn ask_until_known(&mut self, mut node: usize, key: u32, ask: Ask) {
        let Some(stamp) = self.next_stamp(node) else {
            self.record.nothing_done += 1;
            return;
        };
        let begin = self.shared.now();
        let mut known = true;
        for attempt in 0..ATTEMPTS {
            match self.attempt(node, key, ask, &stamp) {
                Attempt::Told(Told::Unknown) => known = false,
                Attempt::Told(told) => {
                    self.record.retried += u64::from(attempt > 0);
                    return self.note(node, key, true, begin, ask, told);
                }
                Attempt::NothingDone(_) => {}
                Attempt::SessionGone => {
                    self.session = None;
                    break;
                }
                Attempt::Anomaly(what) => {
                    self.anomaly(ask, &what);
                    known = false;
                    break;
                }
            }
            node = self.rng.below(self.clients.len() as u64) as usize;
            std::thread::sleep(Duration::from_micros(self.rng.below(100_000)));
        }
        match known {
            true => self.record.nothing_done += 1,
            false => self.note(node, key, true, begin, ask, Told::Unknown),
        }
    }

    /// The headers of the next stamped write; `None` if no session can be had now.
    fn next_stamp(&mut self, node: usize) -> Option<[(&'static str, String); 2]> {
        if self.session.is_none() {
            let path = format!("/v1/session?ttl=300000&timeout={NODE_PATIENCE_MS}");
            let answer = self.clients[node].ask("POST", &path, &[], b"").ok()?;
            let id = answer.json()["session"].as_u64()?;
            self.session = Some(Session { id, sequence: 0 });
        }
        let session = self.session.as_mut()?;
        session.sequence += 1;
        let (id, sequence) = (session.id.to_string(), session.sequence.to_string());
        Some([("quorate-session", id), ("quorate-sequence", sequence)])
    }

    /// A read of what the node holds, however old; it waits for nobody.
    fn read_local(&mut self, node: usize, key: u32) {
        let begin = self.shared.now();
        let path = format!("/v1/kv/key-{key}?consistency=local");
        if let Ok(response) = self.clients[node].ask("GET", &path, &[], b"") {
            match understand(Ask::Get, &response) {
                Attempt::Told(told) => {
                    let call = self.noted(node, key, false, begin, Ask::Get, told);
                    self.record.local.push(call);
                }
                Attempt::NothingDone(_) => self.record.nothing_done += 1,
                Attempt::SessionGone => self.anomaly(Ask::Get, "409 to a read"),
                Attempt::Anomaly(what) => self.anomaly(Ask::Get, &what),
            }
        }
    }

    fn attempt(
        &mut self,
        node: usize,
        key: u32,
        ask: Ask,
        stamp: &[(&'static str, String)],
    ) -> Attempt {
        let path = format!("/v1/kv/key-{key}?timeout={NODE_PATIENCE_MS}");
        let mut headers = stamp.to_vec();
        let (method, body, condition) = match ask {
            Ask::Get => ("GET", String::new(), Condition::Always),
            Ask::Put { value, condition } => {
                let bytes = self.rng.below(VALUE_BYTES_MAX) as usize;
                ("PUT", format!("{value:<bytes$}"), condition)
            }
            Ask::Delete { condition } => ("DELETE", String::new(), condition),
        };
        match condition {
            Condition::Always => {}
            Condition::Version(version) => headers.push(("if-match", format!("\"{version}\""))),
            Condition::Absent => headers.push(("if-none-match", "*".into())),
            Condition::Present => headers.push(("if-match", "*".into())),
        }
        match self.clients[node].ask(method, &path, &headers, body.as_bytes()) {
            Ok(response) => understand(ask, &response),
            Err(silence @ Silence::NotSent(_)) => Attempt::NothingDone(silence.to_string()),
            Err(silence @ Silence::Unknown(_)) if ask == Ask::Get => {
                Attempt::NothingDone(silence.to_string())
            }
            Err(Silence::Unknown(_)) => Attempt::Told(Told::Unknown),
        }
    }

    fn noted(
        &self,
        node: usize,
        key: u32,
        stamped: bool,
        begin: u64,
        ask: Ask,
        told: Told,
    ) -> Call {
        let (end, client, node) = (self.shared.now(), self.number, node as u32 + 1);
        Call { client, node, key, stamped, begin, end, ask, told }
    }

    fn note(&mut self, node: usize, key: u32, stamped: bool, begin: u64, ask: Ask, told: Told) {
        let seen = match told {
            Told::Written { version, .. } | Told::Found { version, .. } => Some(version),
            Told::Refused { current } => current,
            Told::Deleted { .. } | Told::Absent { .. } => None,
            Told::Unknown => self.seen.iter().find(|(known, _)| *known == key).map(|seen| seen.1),
        };
        self.seen.retain(|(known, _)| *known != key);
        self.seen.extend(seen.map(|version| (key, version)));
        if matches!(told, Told::Written { .. } | Told::Deleted { .. }) {
            self.shared.acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        let call = self.noted(node, key, stamped, begin, ask, told);
        self.record.calls.push(call);
    }

    fn anomaly(&mut self, ask: Ask, what: &str) {
        self.record.anomalies.push(format!("client {}: {ask}: {what}", self.number));
    }
}

/// What an answer means.
fn understand(ask: Ask, response: &Response) -> Attempt {
    let json = response.json();
    let state = || response.header("quorate-version").and_then(|state| state.parse().ok());
    let told = match (response.status, ask) {
        (200, Ask::Get) => {
            let value = std::str::from_utf8(&response.body).ok();
            let value = value.and_then(|text| text.trim_end().parse().ok());
            match (response.version(), value, state()) {
                (Some(version), Some(value), Some(state)) => {
                    Some(Told::Found { version, value, state })
                }
                _ => None,
            }
        }
        (200 | 201, Ask::Put { .. }) => {
            let previous = json["previous"].as_u64();
            let honest = previous.is_none() == (response.status == 201);
            response.version().filter(|_| honest).map(|version| Told::Written { version, previous })
        }
        (200, Ask::Delete { .. }) => match (json["deleted_at"].as_u64(), json["previous"].as_u64())
        {
            (Some(at), Some(previous)) => Some(Told::Deleted { at, previous }),
            _ => None,
        },
        (404, Ask::Get) => state().map(|state| Told::Absent { state: Some(state) }),
        (404, Ask::Delete { .. }) => Some(Told::Absent { state: None }),
        (412, Ask::Put { .. } | Ask::Delete { .. }) => {
            Some(Told::Refused { current: json["current"].as_u64() })
        }
        (504, Ask::Put { .. } | Ask::Delete { .. }) => Some(Told::Unknown),
        (503 | 429, _) => {
            let body = String::from_utf8_lossy(&response.body);
            return Attempt::NothingDone(format!("{} {}", response.status, body.trim()));
        }
        (409, Ask::Put { .. }) if json["error"] == "unknown_session" => {
            return Attempt::SessionGone;
        }
        (_, Ask::Get | Ask::Put { .. } | Ask::Delete { .. }) => None,
    };
    match told {
        Some(told) => Attempt::Told(told),
        None => {
            let body = String::from_utf8_lossy(&response.body);
            Attempt::Anomaly(format!("answer {} {}", response.status, body.trim()))
        }
    }
}
