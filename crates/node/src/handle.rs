//! How everything in the process that is not the replica talks to it: HTTP, embedders, the shell.
//!
//! A handle can be cloned and sent to any thread. It never blocks the replica: a full queue is an
//! error for the caller, a caller that goes away costs nothing.

use crate::metrics::Picture;
pub use crate::replica::Stays;
use crate::status::Status;
use quorate_base::{Epoch, Offset, Span};
use quorate_machine::{Answer, Machine, Request};
use std::fmt;
use tokio::sync::{mpsc, oneshot};

/// How many requests of this process may wait for the replica.
const QUEUE: usize = 16_384;

/// How fresh a read must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Consistency {
    /// Sees every write that was acknowledged before the read was asked.
    Linearizable,
    /// The newest version that this node has, whatever the leader has by now.
    Local,
    /// The same, once it is this version or a later one: who wrote reads its own write, anywhere.
    AtLeast(Offset),
}

impl Consistency {
    /// The least version that a read of one node must see.
    pub(crate) fn least(self) -> Offset {
        match self {
            Consistency::AtLeast(version) => version,
            Consistency::Local | Consistency::Linearizable => Offset::ZERO,
        }
    }
}

/// What went wrong with a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// No leader answered within the time given; the request had no effect.
    NoLeader,
    /// The leader was lost, or time ran out, after the request was passed on: it may or may not
    /// take effect.
    OutcomeUnknown,
    /// The node or the queue is full; nothing was done.
    Overloaded,
    /// The request is larger than a batch may be, in bytes.
    TooLarge {
        /// What was asked.
        bytes: usize,
        /// What is possible.
        max: usize,
    },
    /// The leader's disk is full, or those of too many voters; the write had no effect.
    OutOfRoom,
    /// The disk of the node that was asked is full, so that it cannot come to hold what the read
    /// must see.
    LeftBehind,
    /// This node has not come to the version that was asked for in the time given.
    NotYet {
        /// Which was asked for.
        asked: Offset,
        /// Which it has; `None` if it is still copying its first one.
        has: Option<Offset>,
    },
    /// The node stops.
    Stopped,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoLeader => f.write_str(
                "no leader answered in time, nothing was done; check that a majority of the voters runs and, while nodes are upgraded, what the log of this node says, then try again",
            ),
            Error::OutcomeUnknown => f.write_str(
                "the leader was lost or time ran out while the request was under way: it may or may not have been applied; read before trying again, or use a session",
            ),
            Error::Overloaded => f.write_str("the node has too many requests waiting, nothing was done; try again later"),
            Error::TooLarge { bytes, max } => {
                write!(f, "the request has {bytes} bytes, at most {max} are possible, nothing was done")
            }
            Error::OutOfRoom => f.write_str(
                "the disk of the leader, or those of too many voters, are full, so writes are refused and this one was not done; reads go on; make room (`quorate quorum status` shows on which nodes), then try again",
            ),
            Error::LeftBehind => f.write_str(
                "the disk of this node is full, so it cannot store the records that this read must see; ask another node, or make room on this one's disk and try again",
            ),
            Error::NotYet { asked, has: Some(has) } => write!(
                f,
                "this node has version {has} and did not come to {asked} in time; ask again or another node, and be sure that this version came with an answer of this store"
            ),
            Error::NotYet { asked, has: None } => write!(
                f,
                "this node is still copying its first version of the store and did not come to {asked} in time; ask again or another node"
            ),
            Error::Stopped => f.write_str("the node is stopping"),
        }
    }
}

impl std::error::Error for Error {}

/// One request to the replica, as it travels through the queue.
pub enum Ask<M: Machine> {
    /// Change the state.
    Write {
        /// What.
        request: Request,
        /// How long the caller waits.
        patience: Span,
        /// Where to.
        answer: oneshot::Sender<Result<Answer, Error>>,
    },
    /// Ask the state.
    Read {
        /// What.
        query: M::Query,
        /// How fresh.
        consistency: Consistency,
        /// How long the caller waits.
        patience: Span,
        /// Where to: the reply and the end of the state it was taken from.
        answer: oneshot::Sender<Result<(M::Reply, Offset), Error>>,
    },
    /// Describe yourself.
    Status(oneshot::Sender<Status>),
    /// All that you count.
    Metrics(oneshot::Sender<Picture>),
    /// Hand over leadership.
    HandOver(oneshot::Sender<Result<Epoch, Stays>>),
    /// Hand over leadership and stop.
    Shutdown,
}

/// A way to one running node of this process.
pub struct Handle<M: Machine> {
    asks: mpsc::Sender<Ask<M>>,
}

impl<M: Machine> Clone for Handle<M> {
    fn clone(&self) -> Handle<M> {
        Handle { asks: self.asks.clone() }
    }
}

impl<M: Machine> Handle<M> {
    /// A handle and the queue that it fills.
    pub fn new() -> (Handle<M>, mpsc::Receiver<Ask<M>>) {
        let (asks, queue) = mpsc::channel(QUEUE);
        (Handle { asks }, queue)
    }

    /// Changes the state. Returns the machine's answer, which is committed or was judged on a
    /// committed state; an error says whether the request may have taken effect all the same.
    pub async fn write(&self, request: Request, patience: Span) -> Result<Answer, Error> {
        let (answer, decided) = oneshot::channel();
        self.ask(Ask::Write { request, patience, answer })?;
        decided.await.unwrap_or(Err(Error::OutcomeUnknown))
    }

    /// Asks the state; returns the reply and the end of the state it was taken from.
    pub async fn read(
        &self,
        query: M::Query,
        consistency: Consistency,
        patience: Span,
    ) -> Result<(M::Reply, Offset), Error> {
        let (answer, reply) = oneshot::channel();
        self.ask(Ask::Read { query, consistency, patience, answer })?;
        reply.await.unwrap_or(Err(Error::Stopped))
    }

    /// A picture of the node.
    pub async fn status(&self) -> Result<Status, Error> {
        let (answer, status) = oneshot::channel();
        self.ask(Ask::Status(answer))?;
        status.await.map_err(|_| Error::Stopped)
    }

    /// All that the node counts.
    pub async fn metrics(&self) -> Result<Picture, Error> {
        let (answer, picture) = oneshot::channel();
        self.ask(Ask::Metrics(answer))?;
        picture.await.map_err(|_| Error::Stopped)
    }

    /// Asks the node to hand over leadership, which it begins at once: it takes nothing new, and
    /// resigns when what it took is committed. Returns the epoch that ends, or why it does not.
    pub async fn hand_over(&self) -> Result<Result<Epoch, Stays>, Error> {
        let (answer, begun) = oneshot::channel();
        self.ask(Ask::HandOver(answer))?;
        begun.await.map_err(|_| Error::Stopped)
    }

    /// Asks the node to hand over leadership and stop.
    pub fn shutdown(&self) {
        // A node that is already gone needs no telling.
        let _ = self.asks.try_send(Ask::Shutdown);
    }

    fn ask(&self, ask: Ask<M>) -> Result<(), Error> {
        self.asks.try_send(ask).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => Error::Overloaded,
            mpsc::error::TrySendError::Closed(_) => Error::Stopped,
        })
    }
}
