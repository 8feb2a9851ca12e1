//! What a person or any client sends to a server: its property file, and HTTP.

use crate::damage::{damage, noise};
use quorate::http::{Store, serve};
use quorate::settings;
use quorate_base::{Offset, Rng};
use quorate_machine::{Kv, Machine, Sessioned};
use quorate_node::handle::{Ask, Error, Handle};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const PROPERTIES: &str = "\
# A node of three.
node.id=1
process.roles = controller
log.dirs:/var/lib/quorate,/other
metadata.log.dir /meta
listeners=CONTROLLER://:9093,\\
    OTHER://[::1]:9094
advertised.listeners=CONTROLLER://a:9093
controller.quorum.voters=1@a:9093,2@b:9093,3@[::1]:9093
controller.quorum.bootstrap.servers=b:1,c:2
listener.security.protocol.map=CONTROLLER:PLAINTEXT
controller.quorum.election.timeout.ms=1000
metadata.log.segment.bytes=8388608
quorate.http.listen=127.0.0.1:7101
quorate.topic=\\u005f_cluster_metadata
quorate.topic.id=AAAAAAAAAAAAAAAAAAAAAQ
num.io.threads=8
";

/// A property file, mostly damaged.
pub fn make_file(rng: &mut Rng) -> Vec<u8> {
    let mut lines: Vec<&str> = PROPERTIES.split_inclusive('\n').collect();
    for _ in 0..rng.below(4) {
        let (from, to) = (rng.below(lines.len() as u64), rng.below(lines.len() as u64));
        let line = lines.remove(from as usize);
        if !rng.one_in(3) {
            lines.insert(to as usize % (lines.len() + 1), line);
        }
    }
    let mut text = lines.concat().into_bytes();
    if !rng.one_in(4) {
        damage(&mut text, rng);
    }
    text
}

/// Reads it; each problem is told in words, and with a line that is there.
pub fn check_file(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let lines = text.lines().count() as u32;
    match settings::read(&text, &[]) {
        Ok(settings) => {
            assert!(settings.notes.iter().all(|note| !note.is_empty()));
            let name = &settings.config.topic;
            assert!(!name.contains('/') && name != ".." && !name.is_empty(), "{name}");
        }
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a reason");
            for problem in problems {
                assert!(!problem.what.is_empty(), "{problem}");
                if let settings::Origin::Line(line) = problem.origin {
                    assert!((1..=lines).contains(&line), "{problem}: of {lines} lines");
                }
            }
        }
    }
}

const REQUESTS: [&str; 8] = [
    "GET /v1/kv/a%2fb?consistency=local&timeout=5 HTTP/1.1\r\nHost: x\r\nIf-None-Match: \"17\"\r\n\r\n",
    "PUT /v1/kv/key?timeout=5 HTTP/1.1\r\nHost: x\r\nIf-Match: \"2\"\r\nContent-Length: 5\r\n\r\nvalue",
    "PUT /v1/kv/key HTTP/1.1\r\nHost: x\r\nQuorate-Session: 3\r\nQuorate-Sequence: 1\r\n\
     Transfer-Encoding: chunked\r\n\r\n5\r\nvalue\r\n0\r\n\r\n",
    "DELETE /v1/kv/%00s HTTP/1.1\r\nHost: x\r\nIf-None-Match: *\r\n\r\n",
    "GET /v1/kv?prefix=a+b&limit=10&after=a2V5 HTTP/1.1\r\nHost: x\r\n\r\n",
    "POST /v1/session?ttl=5000 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
    "POST /v1/session/18/renew HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
    "HEAD /livez HTTP/1.0\r\n\r\n",
];

/// A few requests on one connection, mostly damaged.
pub fn make_http(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..=rng.below(3) {
        bytes.extend_from_slice(REQUESTS[rng.below(REQUESTS.len() as u64) as usize].as_bytes());
    }
    match rng.below(12) {
        0 => {}
        1 => bytes = noise(rng, 200),
        _ => damage(&mut bytes, rng),
    }
    bytes
}

/// The thread that serves, and what panicked on it.
const THREAD: &str = "fuzzed-http";
static PANICS: AtomicU64 = AtomicU64::new(0);

/// A server whose node has an empty store and no leader.
fn server() -> SocketAddr {
    static AT: OnceLock<SocketAddr> = OnceLock::new();
    *AT.get_or_init(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if thread::current().name() == Some(THREAD) {
                PANICS.fetch_add(1, Ordering::SeqCst);
            }
            before(panic);
        }));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
        let at = listener.local_addr().expect("it is bound");
        listener.set_nonblocking(true).expect("sockets can be");
        let serving = thread::Builder::new().name(THREAD.into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("there is an event queue").block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("it listens");
                let (handle, mut asks) = Handle::<Store>::new();
                let (_stop, stopping) = tokio::sync::watch::channel(false);
                tokio::spawn(serve(listener, handle, stopping));
                let store: Store = Sessioned::new(Kv::new());
                while let Some(ask) = asks.recv().await {
                    answer(&store, ask);
                }
            });
        });
        serving.expect("there is a thread for it");
        at
    })
}

fn answer(store: &Store, ask: Ask<Store>) {
    // Whoever asked may be gone.
    match ask {
        Ask::Write { answer, .. } => drop(answer.send(Err(Error::NoLeader))),
        Ask::Read { query, answer, .. } => {
            drop(answer.send(Ok((store.query(&query), Offset(7)))));
        }
        Ask::Status(answer) => drop(answer),
        Ask::Metrics(answer) => drop(answer),
        Ask::HandOver(answer) => drop(answer),
        Ask::Shutdown => {}
    }
}

/// Sends it and takes what comes: answers, each with a status, or the end of the connection.
pub fn check_http(input: &[u8]) {
    let mut stream = TcpStream::connect(server()).expect("it goes on listening");
    let patience = Some(Duration::from_secs(10));
    stream.set_read_timeout(patience).expect("a time above zero");
    // It may have closed the connection before it has read all.
    let _ = stream.write_all(input);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answers = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answers) {
        let reset = error.kind() == std::io::ErrorKind::ConnectionReset;
        assert!(reset, "the connection stays open: {error}");
    }
    assert_eq!(PANICS.swap(0, Ordering::SeqCst), 0, "the server panicked");
    let is_answer = answers.starts_with(b"HTTP/1.") || answers.is_empty();
    assert!(is_answer, "no answer: {:?}", String::from_utf8_lossy(&answers));
    let server_error = answers.starts_with(b"HTTP/1.1 500");
    assert!(!server_error, "an error of its own: {:?}", String::from_utf8_lossy(&answers));
}
