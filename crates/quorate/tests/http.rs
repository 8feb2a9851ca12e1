//! HTTP against the real machine behind a replica that commits everything at once.
//!
//! No consensus here: what is tested is what a client sees. The requests are bytes on a socket, so
//! that broken ones can be sent too.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

use quorate::http::{self, Store};
use quorate_base::{Epoch, Offset, Time};
use quorate_machine::{Batch, Kv, Machine, Proposal, Sessioned};
use quorate_node::handle::{Ask, Consistency, Error, Handle, Stays};
use quorate_node::status::Status;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use tokio::sync::{mpsc, watch};

/// What the replica does with what it is asked.
#[derive(Clone)]
enum Mood {
    Serves,
    Fails(Error),
    NotReady(&'static str),
}

struct Server {
    address: SocketAddr,
    mood: Arc<Mutex<Mood>>,
    /// Stops the server when it goes.
    _stop: watch::Sender<bool>,
}

fn serve() -> Server {
    let (stop, stopped) = watch::channel(false);
    let mood = Arc::new(Mutex::new(Mood::Serves));
    let (tell, told) = std::sync::mpsc::channel();
    let moods = Arc::clone(&mood);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            let (handle, queue) = Handle::new();
            tokio::spawn(replica(queue, moods));
            http::serve(listener, handle, stopped).await;
        });
    });
    Server { address: told.recv().unwrap(), mood, _stop: stop }
}

async fn replica(mut queue: mpsc::Receiver<Ask<Store>>, mood: Arc<Mutex<Mood>>) {
    let mut machine = Sessioned::new(Kv::new());
    let mut out = Proposal::new();
    let mut end = Offset(1);
    machine.lead(Time(0), Some((Epoch(1), end)));
    while let Some(ask) = queue.recv().await {
        let mood = mood.lock().unwrap().clone();
        match (ask, mood) {
            (Ask::Write { answer, .. }, Mood::Fails(error)) => drop(answer.send(Err(error))),
            (Ask::Read { answer, .. }, Mood::Fails(error)) => drop(answer.send(Err(error))),
            (Ask::Write { request, answer, .. }, _) => {
                machine.propose(Time(0), end, &request, &mut out);
                let told = out.finish().unwrap();
                let records: Vec<_> = out.records(end).collect();
                let base = end;
                end = base + records.len() as u64;
                let batch =
                    Batch { base, end, epoch: Epoch(1), timestamp_ms: 0, records: &records };
                machine.apply(&batch);
                drop(records);
                out.clear();
                let _ = answer.send(Ok(told));
            }
            // It has come as far as it ever will.
            (Ask::Read { consistency: Consistency::AtLeast(asked), answer, .. }, _)
                if asked > end =>
            {
                let _ = answer.send(Err(Error::NotYet { asked, has: Some(end) }));
            }
            (Ask::Read { query, answer, .. }, _) => {
                let _ = answer.send(Ok((machine.query(&query), end)));
            }
            (Ask::Status(answer), mood) => {
                let reason = match mood {
                    Mood::NotReady(why) => Some(why.to_owned()),
                    Mood::Serves | Mood::Fails(_) => None,
                };
                let status = Status {
                    ready: reason.is_none(),
                    not_ready_because: reason,
                    ..Status::default()
                };
                let _ = answer.send(status);
            }
            (Ask::HandOver(answer), _) => drop(answer.send(Err(Stays::Alone))),
            // Nobody counts here: whoever asks is told that the node stops.
            (Ask::Metrics(answer), _) => drop(answer),
            (Ask::Shutdown, _) => return,
        }
    }
}

/// Method, path, headers and body.
type Sent<'a> = (&'a str, &'a str, &'a str, &'a str);

/// One answer: status, head (in lower case), body.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

/// Sends bytes and reads until the server closes.
fn send(server: &Server, bytes: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(bytes).unwrap();
    let mut text = Vec::new();
    stream.read_to_end(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let (head, body) = text
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("no whole head for {bytes:?}: {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_lowercase(), body: body.to_owned() }
}

fn ask(server: &Server, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    send(server, request.as_bytes())
}

fn check(server: &Server, request: Sent<'_>, status: u16, body: &str) -> Answer {
    let (method, path, headers, sent) = request;
    let answer = ask(server, method, path, headers, sent);
    assert_eq!((answer.status, answer.body.as_str()), (status, body), "{request:?}");
    answer
}

/// The answer is a refusal with this status, word and field.
fn refused(
    server: &Server,
    request: Sent<'_>,
    status: u16,
    word: &str,
    field: Option<&str>,
) -> String {
    let (method, path, headers, sent) = request;
    let answer = ask(server, method, path, headers, sent);
    assert_eq!(answer.status, status, "{request:?} {answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/json"), "{request:?}");
    let json: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
    assert_eq!(json["error"], word, "{request:?} {answer:?}");
    assert_eq!(json.get("field").and_then(|field| field.as_str()), field, "{request:?} {answer:?}");
    json["message"].as_str().expect("a message").to_owned()
}

/// Found by somebody who stopped a leader in an orderly way: writes that waited lost their
/// connection.
#[test]
fn who_waits_for_an_answer_when_it_stops_gets_one_before_it_ends() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let (handle, mut queue) = Handle::<Store>::new();
        let serving = tokio::spawn(http::serve(listener, handle, stopped));
        let client = std::thread::spawn(move || {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream
                .write_all(b"PUT /v1/kv/a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nv")
                .unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).map(|_| answer)
        });
        let Some(Ask::Write { answer, .. }) = queue.recv().await else { panic!("no write came") };
        stop.send(true).unwrap();
        // Long enough on one thread for all who heard it to have done what they do.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        assert!(!serving.is_finished(), "it ends while somebody waits");
        answer.send(Err(Error::OutcomeUnknown)).unwrap();
        serving.await.unwrap();
        client
    });
    let answer = client.join().unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
}

#[test]
fn a_value_comes_back_as_it_was_put_with_its_version() {
    let server = serve();
    let put = check(
        &server,
        ("PUT", "/v1/kv/a%2Fb/c", "", "va\u{e9}lue"),
        201,
        "{\"version\":1,\"previous\":null}\n",
    );
    assert_eq!(put.header("etag"), Some("\"1\""));
    assert_eq!(put.header("quorate-version"), Some("2"), "the state that holds it");
    let got = check(&server, ("GET", "/v1/kv/a/b/c", "", ""), 200, "va\u{e9}lue");
    assert_eq!(got.header("etag"), Some("\"1\""));
    assert_eq!(got.header("quorate-version"), Some("2"));
    check(&server, ("GET", "/v1/kv/a/b/c", "If-None-Match: \"1\"\r\n", ""), 304, "");
    check(&server, ("HEAD", "/v1/kv/a/b/c", "", ""), 200, "");
    check(&server, ("GET", "/v1/kv/a/b/c?consistency=local", "", ""), 200, "va\u{e9}lue");
    let own = "/v1/kv/a/b/c?consistency=local&min-version=2";
    check(&server, ("GET", own, "", ""), 200, "va\u{e9}lue");
    let later = ("GET", "/v1/kv?consistency=local&min-version=3&timeout=1", "", "");
    let message = refused(&server, later, 503, "not_yet", None);
    assert!(message.contains("has version 2 and did not come to 3"), "{message}");
    let empty = "{\"version\":2,\"previous\":null}\n";
    check(&server, ("PUT", "/v1/kv/empty", "", ""), 201, empty);
    check(&server, ("GET", "/v1/kv/empty", "", ""), 200, "");
    let deleted = "{\"deleted_at\":3,\"previous\":2}\n";
    check(&server, ("DELETE", "/v1/kv/empty", "", ""), 200, deleted);
    refused(&server, ("GET", "/v1/kv/empty", "", ""), 404, "no_such_key", None);
    refused(&server, ("DELETE", "/v1/kv/empty", "", ""), 404, "no_such_key", None);
}

#[test]
fn conditions_hold_or_nothing_is_done() {
    let server = serve();
    let absent = "If-None-Match: *\r\n";
    let created = "{\"version\":1,\"previous\":null}\n";
    check(&server, ("PUT", "/v1/kv/k", absent, "1"), 201, created);
    let message = refused(&server, ("PUT", "/v1/kv/k", absent, "2"), 412, "condition_failed", None);
    assert_eq!(message, "nothing was done: the key has version 1");
    let stale = ask(&server, "PUT", "/v1/kv/k", "If-Match: \"9\"\r\n", "2");
    assert_eq!((stale.status, stale.header("etag")), (412, Some("\"1\"")));
    assert!(stale.body.contains("\"current\":1"), "{stale:?}");
    let replaced = "{\"version\":2,\"previous\":1}\n";
    check(&server, ("PUT", "/v1/kv/k", "If-Match: \"1\"\r\n", "2"), 200, replaced);
    let replaced = "{\"version\":3,\"previous\":2}\n";
    check(&server, ("PUT", "/v1/kv/k", "", "3"), 200, replaced);
    let deleted = "{\"deleted_at\":4,\"previous\":3}\n";
    check(&server, ("DELETE", "/v1/kv/k", "If-Match: *\r\n", ""), 200, deleted);
    let gone = ask(&server, "PUT", "/v1/kv/k", "If-Match: *\r\n", "2");
    assert_eq!(gone.status, 412);
    assert!(gone.body.contains("\"current\":null"), "{gone:?}");
}

#[test]
fn what_is_wrong_is_named() {
    let server = serve();
    let long = format!("/v1/kv/{}", "k".repeat(1_025));
    let large = "v".repeat((1 << 20) + 1);
    let wrong: &[(Sent<'_>, &str)] = &[
        (("PUT", "/v1/kv/", "", ""), "key"),
        (("PUT", "/v1/kv/%00a", "", ""), "key"),
        (("PUT", "/v1/kv/%0", "", ""), "key"),
        (("GET", &long, "", ""), "key"),
        (("PUT", "/v1/kv/k", "If-Match: 1\r\n", ""), "If-Match"),
        (("PUT", "/v1/kv/k", "If-None-Match: \"1\"\r\n", ""), "If-None-Match"),
        (("DELETE", "/v1/kv/k", "If-None-Match: *\r\n", ""), "If-None-Match"),
        (("PUT", "/v1/kv/k", "Quorate-Session: 1\r\n", ""), "Quorate-Sequence"),
        (("PUT", "/v1/kv/k", "Quorate-Sequence: 1\r\n", ""), "Quorate-Session"),
        (("PUT", "/v1/kv/k", "Quorate-Session: x\r\n", ""), "Quorate-Session"),
        (("PUT", "/v1/kv/k", "Quorate-Session: -1\r\n", ""), "Quorate-Session"),
        (("PUT", "/v1/kv/k?timeout=0", "", ""), "timeout"),
        (("PUT", "/v1/kv/k?colour=red", "", ""), "query"),
        (("GET", "/v1/kv/k?consistency=maybe", "", ""), "consistency"),
        (("GET", "/v1/kv/k?min-version=1", "", ""), "min-version"),
        (("GET", "/v1/kv/k?consistency=local&min-version=x", "", ""), "min-version"),
        (("GET", "/v1/kv?limit=1001", "", ""), "limit"),
        (("GET", "/v1/kv?limit=1&limit=2", "", ""), "query"),
        (("GET", "/v1/kv?after=x", "", ""), "after"),
        (("POST", "/v1/session?ttl=1", "", ""), "ttl"),
        (("DELETE", "/v1/session/x", "", ""), "session"),
    ];
    for (request, field) in wrong {
        refused(&server, *request, 400, "invalid_request", Some(field));
    }
    for (request, bounds) in [
        (("PUT", "/v1/kv/k", "Quorate-Slot: 65536\r\n", ""), "from 0 to 1023"),
        (("POST", "/v1/session?ttl=99999999999", "", ""), "from 1000 to 86400000"),
    ] {
        let (method, path, headers, body) = request;
        assert!(ask(&server, method, path, headers, body).body.contains(bounds), "{request:?}");
    }
    refused(&server, ("PUT", "/v1/kv/k", "", &large), 413, "too_large", Some("value"));
    refused(&server, ("GET", "/v2/kv/k", "", ""), 404, "no_such_path", None);
    refused(&server, ("POST", "/v1/kv/k", "", ""), 405, "method_not_allowed", None);
    refused(&server, ("PUT", "/status", "", ""), 405, "method_not_allowed", None);
    refused(&server, ("GET", "/v1/quorum/resign", "", ""), 405, "method_not_allowed", None);
    refused(&server, ("POST", "/v1/quorum/resign", "", ""), 409, "no_other_leader", None);
    refused(&server, ("GET", "/v1/kv/k", "", ""), 404, "no_such_key", None);
}

#[test]
fn a_value_that_will_be_too_large_is_refused_before_it_is_sent() {
    let server = serve();
    let head = "PUT /v1/kv/k HTTP/1.1\r\nhost: x\r\ncontent-length: 1048577\r\n\r\n";
    assert_eq!(send(&server, head.as_bytes()).status, 413);
    let head = "PUT /v1/kv/k HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = format!("100001\r\n{}\r\n0\r\n\r\n", "v".repeat(0x10_0001));
    assert_eq!(send(&server, format!("{head}{chunk}").as_bytes()).status, 413);
}

#[test]
fn values_that_never_come_hold_no_more_than_their_room() {
    let server = serve();
    let head = "PUT /v1/kv/k HTTP/1.1\r\nhost: x\r\ncontent-length: 1048576\r\n\r\n";
    let stalled: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    check(&server, ("GET", "/livez", "", ""), 200, "alive\n");
    refused(&server, ("GET", "/v1/kv/k", "", ""), 404, "no_such_key", None);
    drop(stalled);
    let created = "{\"version\":1,\"previous\":null}\n";
    check(&server, ("PUT", "/v1/kv/k", "", "v"), 201, created);
}

#[test]
fn answers_that_nobody_takes_hold_no_more_than_their_room() {
    let server = serve();
    // A page takes five of these, more than the buffers of the system take from a client that does
    // not read.
    let value = "v".repeat((1 << 20) - 2);
    for key in ["a", "b", "c", "d", "e"] {
        assert_eq!(ask(&server, "PUT", &format!("/v1/kv/{key}"), "", &value).status, 201);
    }
    ask(&server, "PUT", "/v1/kv/small", "", "v");
    let stalled: Vec<TcpStream> = (0..12)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            stream.write_all(b"GET /v1/kv HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
            // The answer is made.
            stream.read_exact(&mut [0; 1]).unwrap();
            stream
        })
        .collect();
    assert_eq!(ask(&server, "GET", "/v1/kv?timeout=1", "", "").status, 429);
    check(&server, ("GET", "/v1/kv/small", "", ""), 200, "v");
    check(&server, ("GET", "/livez", "", ""), 200, "alive\n");
    drop(stalled);
    let page = ask(&server, "GET", "/v1/kv", "", "");
    assert_eq!(page.status, 200, "what the clients left is free again");
    assert!(page.body.len() > 5 << 20);
    assert!(ask(&server, "GET", "/v1/kv/a", "", "").body == value);
}

#[test]
fn nonsense_on_the_port_disturbs_nobody() {
    let server = serve();
    let many_lines = format!("GET /livez HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(200));
    for nonsense in [
        &b"\x00\x00\x00\x10garbage\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        many_lines.as_bytes(),
    ] {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(nonsense).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{nonsense:?}: {answer}");
        // The HTTP library's own refusals have no body, as the README says.
        assert!(answer.is_empty() || answer.ends_with("\r\n\r\n"), "{nonsense:?}: {answer}");
    }
    check(&server, ("GET", "/livez", "", ""), 200, "alive\n");
}

#[test]
fn requests_of_one_connection_are_answered_in_order() {
    let server = serve();
    let mut requests = String::new();
    for n in 0..20 {
        requests += &format!("PUT /v1/kv/k{n} HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\nv");
    }
    requests += "GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(requests.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let versions: Vec<&str> =
        text.lines().filter(|line| line.starts_with("{\"version\"")).collect();
    let expect: Vec<String> =
        (1..=20).map(|n| format!("{{\"version\":{n},\"previous\":null}}")).collect();
    assert_eq!(versions, expect);
    assert!(text.ends_with("alive\n"));
}

#[test]
fn lists_come_in_pages_of_one_state() {
    let server = serve();
    for key in ["a1", "a2", "a3", "b", "%ff"] {
        ask(&server, "PUT", &format!("/v1/kv/{key}"), "", "v");
    }
    let page = |path: &str| -> serde_json::Value {
        let answer = ask(&server, "GET", path, "", "");
        assert_eq!(answer.status, 200, "{path} {answer:?}");
        serde_json::from_str(&answer.body).unwrap()
    };
    let keys = |page: &serde_json::Value| -> Vec<String> {
        let items = page["items"].as_array().unwrap();
        items.iter().map(|item| item["key"].as_str().unwrap_or("?").to_owned()).collect()
    };
    let all = page("/v1/kv");
    assert_eq!(keys(&all), ["a1", "a2", "a3", "b", "?"]);
    assert_eq!(all["items"][4]["key_base64"], "/w==");
    assert_eq!((all["next"].as_str(), all["version"].as_u64()), (None, Some(6)));
    let first = page("/v1/kv?prefix=a&limit=2");
    assert_eq!(keys(&first), ["a1", "a2"]);
    let next = first["next"].as_str().unwrap().to_owned();
    let second = page(&format!("/v1/kv?prefix=a&limit=2&after={next}"));
    assert_eq!((keys(&second), second["next"].as_str()), (vec!["a3".to_owned()], None));

    ask(&server, "PUT", "/v1/kv/c", "", "v");
    let path = format!("/v1/kv?prefix=a&limit=2&after={next}");
    let message = refused(&server, ("GET", &path, "", ""), 410, "page_gone", None);
    let (_, loose) = message.split_once("after=").unwrap();
    assert_eq!(keys(&page(&format!("/v1/kv?prefix=a&after={loose}"))), ["a3"]);
}

#[test]
fn a_repeated_write_of_a_session_is_applied_once() {
    let server = serve();
    check(
        &server,
        ("POST", "/v1/session?ttl=5000", "", ""),
        201,
        "{\"session\":1,\"ttl_ms\":5000}\n",
    );
    let stamp = "Quorate-Session: 1\r\nQuorate-Sequence: 7\r\n";
    let absent = format!("{stamp}If-None-Match: *\r\n");
    let created = "{\"version\":2,\"previous\":null}\n";
    check(&server, ("PUT", "/v1/kv/k", &absent, "1"), 201, created);
    check(&server, ("PUT", "/v1/kv/k", &absent, "1"), 201, created);
    let older = "Quorate-Session: 1\r\nQuorate-Sequence: 6\r\n";
    refused(&server, ("DELETE", "/v1/kv/k", older, ""), 409, "stale_sequence", None);
    check(&server, ("POST", "/v1/session/1/renew", "", ""), 200, "{}\n");
    check(&server, ("DELETE", "/v1/session/1", "", ""), 200, "{}\n");
    refused(&server, ("PUT", "/v1/kv/k", stamp, "2"), 409, "unknown_session", None);
    refused(&server, ("POST", "/v1/session/1/renew", "", ""), 409, "unknown_session", None);
}

#[test]
fn a_node_that_cannot_serve_says_why() {
    let server = serve();
    check(&server, ("GET", "/readyz", "", ""), 200, "ready\n");
    *server.mood.lock().unwrap() = Mood::NotReady("no leader is known");
    check(&server, ("GET", "/readyz", "", ""), 503, "not ready: no leader is known\n");
    check(&server, ("GET", "/livez", "", ""), 200, "alive\n");
    for (error, status, word) in [
        (Error::NoLeader, 503, "no_leader"),
        (Error::OutOfRoom, 507, "storage_full"),
        (Error::LeftBehind, 507, "storage_full_here"),
        (Error::Stopped, 503, "stopping"),
        (Error::OutcomeUnknown, 504, "outcome_unknown"),
        (Error::Overloaded, 429, "overloaded"),
        (Error::TooLarge { bytes: 9, max: 8 }, 413, "too_large"),
    ] {
        *server.mood.lock().unwrap() = Mood::Fails(error.clone());
        refused(&server, ("PUT", "/v1/kv/k", "", "v"), status, word, None);
        refused(&server, ("GET", "/v1/kv/k", "", ""), status, word, None);
        refused(&server, ("GET", "/v1/kv", "", ""), status, word, None);
        let again = ask(&server, "PUT", "/v1/kv/k", "", "v");
        assert_eq!(
            again.header("retry-after").is_some(),
            [429, 503].contains(&status),
            "{error:?}"
        );
    }
}
