//! A node inside a process that does other things too.
//!
//! The node has a thread with an event loop to itself; everyone else holds a [`Handle`], which
//! works from any thread and any async runtime.

use crate::format::{self, FormatError};
use quorate_base::ReplicaId;
use quorate_machine::Machine;
use quorate_node::config::{Config, HostPort, Voter};
use quorate_node::handle::Handle;
use quorate_node::runtime::{Fatal, Node};
use quorate_node::start::StartError;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

/// Why a node does not start on a thread of its own.
#[derive(Debug)]
pub enum EmbedError {
    /// Its directory cannot be formatted.
    Format(FormatError),
    /// There is no free port for it to listen on.
    Port(io::Error),
    /// The node itself.
    Start(StartError),
    /// The operating system gives no thread or no event queue for it.
    Thread(io::Error),
}

impl fmt::Display for EmbedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EmbedError::Format(error) => error.fmt(f),
            EmbedError::Port(error) => write!(f, "no port of 127.0.0.1 can be had: {error}"),
            EmbedError::Start(error) => error.fmt(f),
            EmbedError::Thread(error) => write!(
                f,
                "the node has no thread to run on: {error}; check the limits of this process, then start \
                 it again"
            ),
        }
    }
}

impl std::error::Error for EmbedError {}

/// A running node. Dropping it leaves the node running until the process ends.
pub struct Embedded<M: Machine> {
    handle: Handle<M>,
    address: SocketAddr,
    thread: JoinHandle<Result<(), Fatal>>,
}

impl<M> Embedded<M>
where
    M: Machine + Send + 'static,
    M::Query: Send,
    M::Reply: Send,
{
    /// Starts the node of a formatted directory on a thread of its own; `machine` is empty. Returns
    /// once the node listens, which is before it knows a leader: the first requests may wait.
    ///
    /// # Errors
    /// Why the node does not start.
    pub fn start(config: Config, machine: M) -> Result<Embedded<M>, EmbedError> {
        let (tell, told) = mpsc::channel();
        let name = config.id.map_or("quorate".to_owned(), |id| format!("quorate-{id}"));
        // `start` waits for what is told, so the telling cannot fail.
        let body = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => {
                    let _ = tell.send(Err(EmbedError::Thread(error)));
                    return Ok(());
                }
            };
            runtime.block_on(async {
                match Node::open(config, machine).await {
                    Ok(node) => {
                        let _ = tell.send(Ok((node.handle(), node.address())));
                        node.run().await
                    }
                    Err(error) => {
                        let _ = tell.send(Err(EmbedError::Start(error)));
                        Ok(())
                    }
                }
            })
        };
        let thread = thread::Builder::new().name(name).spawn(body).map_err(EmbedError::Thread)?;
        let gone = || EmbedError::Thread(io::Error::other("it ended without a word"));
        let (handle, address) = told.recv().map_err(|_| gone())??;
        Ok(Embedded { handle, address, thread })
    }

    /// Starts nodes 1 to `count` of one cluster in this process, each on a free port of this
    /// machine and with a directory of its own in `directory`, which is formatted where it is not
    /// yet. For examples, tests, and services that want the store and not the other machines.
    ///
    /// # Errors
    /// Why one of them does not start; those before it run on.
    pub fn cluster_in(
        directory: &Path,
        count: u32,
        machine: impl Fn() -> M,
    ) -> Result<Vec<Embedded<M>>, EmbedError> {
        // All are held until each has its own, so that no two get the same.
        let ports: Vec<TcpListener> = (0..count)
            .map(|_| TcpListener::bind("127.0.0.1:0"))
            .collect::<io::Result<_>>()
            .map_err(EmbedError::Port)?;
        let mut voters = Vec::new();
        for (id, port) in (1..).zip(&ports) {
            let port = port.local_addr().map_err(EmbedError::Port)?.port();
            let at = HostPort { host: "127.0.0.1".into(), port };
            voters.push(Voter { id: ReplicaId(id), at });
        }
        drop(ports);
        let start = |Voter { id, at }: &Voter| {
            let own = directory.join(format!("node-{id}"));
            let config = Config::new(Some(*id), own, voters.clone(), at.clone());
            format::format(&config, Some("embedded")).map_err(EmbedError::Format)?;
            Embedded::start(config, machine())
        };
        voters.iter().map(start).collect()
    }

    /// A way to talk to it.
    pub fn handle(&self) -> Handle<M> {
        self.handle.clone()
    }

    /// Where it listens for the other nodes.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Hands over leadership, stops the node and waits for its end.
    ///
    /// # Errors
    /// Why the node had to stop before it was asked.
    pub fn stop(self) -> Result<(), Fatal> {
        self.handle.shutdown();
        match self.thread.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}
