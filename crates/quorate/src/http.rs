//! HTTP/1.1 in front of one node: listens, guards against bad clients, hands on.
//!
//! Everything a client can do wrong ends here or in `route`: heads and bodies that never end are
//! cut off by time, so are answers that are not taken, bodies too large before they are read,
//! connections too many wait to be taken. Large values on their way take room, which is limited.
//! Runs on the node's own thread, so nothing here may block. What the paths mean is the work of the
//! parts.

mod health;
mod key_value;
mod metadata;
mod metrics;
mod parameters;
mod paths;
mod patient;
mod reply;
mod resign;
mod room;
mod route;
mod session;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use paths::{Paths, Shared};
use patient::Patient;
use quorate_machine::kafka::Mirror;
use quorate_machine::{Kv, Machine, Sessioned};
use quorate_node::handle::Handle;
use room::Room;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

/// The machine that `quorate run` replicates unless told otherwise.
pub type Store = Sessioned<Kv>;

/// A machine that is served over HTTP.
pub trait Served: Machine<Query: Send, Reply: Send> + Paths {}

impl Served for Store {}
/// Shows its health, and what it has followed of the cluster.
impl Served for Mirror {}

/// Connections served at a time; further ones wait in the listener's queue.
const CONNECTIONS: usize = 4_096;
/// How long a client may take for the head of a request, and be idle between two.
const HEAD_TIME: Duration = Duration::from_secs(60);
/// How long a client may take for an answer that does not fit the buffers on the way.
const ANSWER_TIME: Duration = Duration::from_secs(60);
/// All values on their way in, together, in KiB: further ones wait to be read until some are
/// written.
const VALUES_KIB: usize = 64 << 10;
/// All large answers on their way out, together, in KiB: further ones wait to be made until some
/// are sent.
const ANSWERS_KIB: usize = 64 << 10;
/// Heads are at most this large; hyper answers 431 above it.
const HEAD_BYTES: usize = 64 << 10;
/// A pause when the process is out of file descriptors, for some to come free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop` holds true or its sender is gone; returns when the requests that had begun
/// by then are answered.
pub async fn serve<M: Served>(
    listener: TcpListener,
    handle: Handle<M>,
    mut stop: watch::Receiver<bool>,
) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let shared = Arc::new(Shared {
        handle,
        room_for_values: Room::new(VALUES_KIB),
        room_for_answers: Room::new(ANSWERS_KIB),
    });
    loop {
        let permit = Arc::clone(&room).acquire_owned().await.expect("nobody closes it");
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = told(&mut stop) => {
                drop((permit, listener));
                let _ = room.acquire_many(CONNECTIONS as u32).await;
                return;
            }
        };
        match accepted {
            Ok((stream, _)) => {
                let (shared, stop) = (Arc::clone(&shared), stop.clone());
                tokio::spawn(async move {
                    converse(stream, shared, stop).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "an HTTP connection was not taken");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn converse<M: Served>(
    stream: TcpStream,
    shared: Arc<Shared<M>>,
    mut stop: watch::Receiver<bool>,
) {
    // Answers are small and wanted now. Failing to say so costs latency only.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(M::answer(&shared, request).await) }
    });
    // Not with `pipeline_flush`: it copies bodies, and copies are not counted as room.
    let mut connection = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME)
            .max_buf_size(HEAD_BYTES)
            .serve_connection(TokioIo::new(Patient::new(stream, ANSWER_TIME)), service)
    );
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = told(&mut stop) => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // Clients vanish and send nonsense all the time; it is theirs to notice.
        tracing::debug!(%error, "an HTTP connection ended early");
    }
}

/// Returns when it is time to stop; a sender that is gone says so too.
async fn told(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}
