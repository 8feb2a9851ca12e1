//! What happened since the loop last looked: filled by connection tasks, timers and threads,
//! emptied whole, once a turn.
//!
//! Bounded by its writers: a connection puts in what one read gave it and reads again only after
//! the loop has run, a caller waits for room in its own queue, the disk thread reports one number.

use crate::out::{BadRead, ConnId, ConnectError, LinkId, ReadId};
use bytes::Bytes;
use quorate_base::Span;
use quorate_raft::WriteId;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// Something happened.
pub(crate) enum Event {
    /// Frames arrived, in order, without their length prefixes.
    Frames(ConnId, Vec<Bytes>),
    /// The other side closed, or the connection broke, or its bytes were no frames.
    Closed(ConnId, String),
    /// A peer connected to us.
    Accepted(TcpStream),
    /// A connection that was asked for was made, or not.
    Connected(LinkId, Result<TcpStream, ConnectError>),
    /// A socket that was full takes bytes again.
    Writable(ConnId),
    /// All disk work up to here is durable.
    /// With how long that took, if there were new records among it.
    Durable(WriteId, Option<Span>),
    /// Files that were renamed for removal, and their bytes.
    Deleted(Vec<String>, u64),
    /// A read from the disk is done.
    Read(ReadId, Result<Bytes, BadRead>),
    /// The disk became full, or has room again.
    Room {
        /// Which.
        full: bool,
    },
    /// The disk does not do what it must.
    DiskFailed {
        /// Whether the files are not as they were written.
        damaged: bool,
        why: String,
    },
}

#[derive(Clone, Default)]
pub(crate) struct Inbox {
    events: Arc<Mutex<Vec<Event>>>,
    filled: Arc<Notify>,
}

impl Inbox {
    /// Puts an event in and wakes the loop.
    pub fn put(&self, event: Event) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        self.filled.notify_one();
    }

    /// Wakes the loop for what it finds elsewhere.
    pub fn wake(&self) {
        self.filled.notify_one();
    }

    /// Takes everything out, in order.
    pub fn take(&self, into: &mut Vec<Event>) {
        into.append(&mut self.events.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns once something was put in since the last `take`.
    pub async fn filled(&self) {
        self.filled.notified().await;
    }
}
