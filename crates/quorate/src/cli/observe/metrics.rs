//! `quorate observe --http`: what is observed as metrics, in the text form of Prometheus.
//!
//! One path, `/metrics`, one request a connection. What is asked for is made from the state at hand
//! when it is asked for; asking disturbs neither the log that is followed nor the cluster.

use super::feed::{Look, Observed};
use crate::cli::controllers::{Quorum, replicas, shown};
use crate::cli::{Outcome, failed};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use quorate::{Consistency, Handle, HostPort, Span};
use quorate_machine::kafka::Picture;
use std::convert::Infallible;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

/// Connections at a time; further ones wait.
const CONNECTIONS: usize = 16;
/// How long one may last.
const CONNECTION_TIME: Duration = Duration::from_secs(30);
/// A pause when no connection can be taken, for file descriptors to come free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What was last heard of the quorum.
#[derive(Clone, Debug)]
pub(super) struct Heard {
    /// The last picture of it.
    pub(super) quorum: Quorum,
    /// Whether its leader answered when it was last asked.
    pub(super) answers: bool,
}

/// Takes the port.
pub(super) async fn listen(at: &HostPort) -> Outcome<TcpListener> {
    match TcpListener::bind((at.host.as_str(), at.port)).await {
        Ok(listener) => Ok(listener),
        Err(error) => failed(format!(
            "metrics cannot be served at {}: {error}; end the process that uses the port, or name another with --http",
            shown(at)
        )),
    }
}

/// Serves until the process ends.
pub(super) async fn serve(
    listener: TcpListener,
    handle: Handle<Observed>,
    heard: watch::Receiver<Heard>,
) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let permit = Arc::clone(&room).acquire_owned().await.expect("nobody closes it");
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (handle, heard) = (handle.clone(), heard.clone());
        tokio::spawn(async move {
            // Who breaks off or takes too long is not waited for.
            let _ = tokio::time::timeout(CONNECTION_TIME, converse(stream, handle, heard)).await;
            drop(permit);
        });
    }
}

async fn converse(stream: TcpStream, handle: Handle<Observed>, heard: watch::Receiver<Heard>) {
    let service = service_fn(|request: Request<Incoming>| {
        let (handle, heard) = (handle.clone(), heard.clone());
        async move { Ok::<_, Infallible>(answer(&request, &handle, &heard).await) }
    });
    let connection =
        http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service);
    // Clients vanish and send nonsense all the time; it is theirs to notice.
    let _ = connection.await;
}

async fn answer(
    request: &Request<Incoming>,
    handle: &Handle<Observed>,
    heard: &watch::Receiver<Heard>,
) -> Response<Full<Bytes>> {
    let (code, body) = match (request.method().as_str(), request.uri().path()) {
        ("GET", "/metrics") => {
            match handle.read(Look::State, Consistency::Local, Span::ms(5_000)).await {
                Ok((seen, end)) => {
                    (StatusCode::OK, text(&heard.borrow().clone(), &seen.picture, end.0))
                }
                Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
            }
        }
        ("GET", _) => (StatusCode::NOT_FOUND, "metrics are at /metrics\n".to_owned()),
        _ => (StatusCode::METHOD_NOT_ALLOWED, "only GET is known here\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = code;
    let kind = hyper::header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// Metrics on their way out.
struct Text(String);

impl Text {
    /// One metric with all its values, each with its labels; nothing if there are none.
    fn metric(&mut self, name: &str, help: &str, values: &[(String, f64)]) {
        if values.is_empty() {
            return;
        }
        let name = format!("quorate_observe_{name}");
        let Text(out) = self;
        write!(out, "# HELP {name} {help}\n# TYPE {name} gauge\n").expect("a String takes all");
        for (labels, value) in values {
            writeln!(out, "{name}{labels} {value}").expect("a String takes all");
        }
    }

    fn one(&mut self, name: &str, help: &str, value: f64) {
        self.metric(name, help, &[(String::new(), value)]);
    }
}

fn text(heard: &Heard, picture: &Picture, end: u64) -> String {
    let mut out = Text(String::new());
    let Heard { quorum, answers } = heard;
    out.one("up", "1 while the leader answers.", f64::from(u8::from(*answers)));
    out.one("leader_id", "The node that leads.", f64::from(quorum.leader));
    out.one("leader_epoch", "The epoch that it leads in.", f64::from(quorum.epoch));
    let committed = quorum.high_watermark as f64;
    out.one("high_watermark", "One past the last committed offset, as last asked.", committed);
    let help = "Up to where the metadata below are those of the cluster.";
    out.one("applied_end_offset", help, end as f64);
    let label = |node: i32, status: &str| format!("{{node=\"{node}\",status=\"{status}\"}}");
    let of_replicas: Vec<_> = replicas(quorum).collect();
    let lags: Vec<_> = of_replicas
        .iter()
        .filter_map(|row| Some((label(row.node, row.status), row.lag? as f64)))
        .collect();
    out.metric("replica_lag", "Records that a replica lacks of its leader.", &lags);
    let times: Vec<_> = of_replicas
        .iter()
        .filter_map(|row| Some((label(row.node, row.status), row.caught_up_ms? as f64 / 1_000.0)))
        .collect();
    let help = "Since when a replica has not had all that its leader has.";
    out.metric("replica_caught_up_seconds_ago", help, &times);
    of_cluster(&mut out, picture);
    out.0
}

fn of_cluster(out: &mut Text, picture: &Picture) {
    let image = &picture.image;
    let fenced = image.brokers().iter().filter(|(_, broker)| broker.fenced).count();
    let active = image.brokers().len() - fenced;
    let brokers = [("active", active), ("fenced", fenced)];
    let brokers = brokers.map(|(state, count)| (format!("{{state=\"{state}\"}}"), count as f64));
    out.metric("brokers", "Registered brokers.", &brokers);
    out.one("topics", "Topics.", image.topics().len() as f64);
    out.one("partitions", "Partitions of all topics.", image.topics().partitions() as f64);
    let (mut leaderless, mut under) = (0u64, 0u64);
    for (_, topic) in image.topics().iter() {
        for (_, partition) in topic.partitions.iter() {
            leaderless += u64::from(partition.leader < 0);
            under += u64::from(partition.isr().len() < partition.replicas().len());
        }
    }
    out.one("partitions_without_leader", "Partitions that nobody leads.", leaderless as f64);
    let help = "Partitions with replicas that are not in sync.";
    out.one("partitions_under_replicated", help, under as f64);
    let help = "Metadata records that were not understood or made no sense.";
    out.one("records_left_out", help, picture.counts.left_out as f64);
}
