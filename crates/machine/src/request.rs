//! What a client asks of a machine, and what it is told.
//!
//! Plain owned values: the node that a client talks to sends the request to the leader's node and
//! passes the answer back. The bytes inside are the machine's own and opaque to everyone between.

use bytes::Bytes;
use quorate_base::{Offset, Span};
use std::fmt;

/// A request to change the state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Makes a [`Operation::Write`] apply at most once. Ignored on the session operations, which
    /// are safe to repeat: a session opened twice merely expires once.
    pub stamp: Option<Stamp>,
    /// What to do.
    pub operation: Operation,
}

impl Request {
    /// A write that nobody retries, or that may apply twice when someone does.
    pub fn write(bytes: impl Into<Bytes>) -> Request {
        Request { stamp: None, operation: Operation::Write(bytes.into()) }
    }

    /// A write that applies at most once, however often it is sent.
    pub fn stamped(stamp: Stamp, bytes: impl Into<Bytes>) -> Request {
        Request { stamp: Some(stamp), operation: Operation::Write(bytes.into()) }
    }

    /// Opens a session.
    pub fn open_session(ttl: Span) -> Request {
        Request { stamp: None, operation: Operation::OpenSession { ttl } }
    }

    /// Keeps a session alive without writing.
    pub fn renew_session(session: SessionId) -> Request {
        Request { stamp: None, operation: Operation::RenewSession(session) }
    }

    /// Ends a session and forgets its answers.
    pub fn close_session(session: SessionId) -> Request {
        Request { stamp: None, operation: Operation::CloseSession(session) }
    }
}

/// The kinds of request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Opens a session that ends when nothing is heard of it for `ttl`. Answer: [`Answer::Opened`].
    OpenSession {
        /// How long silence is forgiven.
        ttl: Span,
    },
    /// Shows that the client lives. Answer: [`Answer::Done`] without bytes.
    RenewSession(SessionId),
    /// Ends a session, or finds that it has ended. Answer: [`Answer::Done`] without bytes.
    CloseSession(SessionId),
    /// A write in the machine's own encoding.
    Write(Bytes),
}

/// A session: the offset of the record that opened it. No two sessions that anyone was told of
/// share one, since the answer waits until the record is committed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub Offset);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {self}")
    }
}

/// Names one write of a session. A client that wants several writes in flight uses as many slots;
/// in each slot it sends a sequence only after the one before it was answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Stamp {
    /// Whose write it is.
    pub session: SessionId,
    /// Which of the session's writes in flight.
    pub slot: u16,
    /// Rises with every new write of the slot, by one or more; equal for a repeated one.
    pub sequence: u64,
}

/// What the client is told. One of these per request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Done; bytes in the machine's own encoding.
    Done(Bytes),
    /// Not done, and will not be; the reason in the machine's own encoding.
    Refused(Bytes),
    /// The session is open.
    Opened(SessionId),
    /// Refused before the machine saw it.
    Session(SessionRefusal),
}

/// Why a request was refused for its session's sake. The write was not applied by this request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionRefusal {
    /// The session never was, was closed, or expired. Whether an earlier copy of the write was
    /// applied can no longer be known.
    Unknown,
    /// The slot already holds a newer write; the answer to this one is forgotten.
    Stale {
        /// The sequence that the slot holds.
        kept: u64,
    },
    /// The slot number is too large.
    SlotTooHigh {
        /// Slots are below this.
        limit: u16,
    },
    /// As many sessions are open as there may be.
    TooManySessions {
        /// How many that is.
        limit: u32,
    },
    /// The time to live is out of bounds.
    TtlOutOfBounds {
        /// The shortest allowed.
        least: Span,
        /// The longest allowed.
        most: Span,
    },
    /// The machine keeps no sessions; send the write without a stamp.
    Unsupported,
}

impl fmt::Display for SessionRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            SessionRefusal::Unknown => f.write_str(
                "the session is unknown: it expired or was closed. Whether a write in it that had no \
                 answer was applied cannot be told; read the state, then open a new session",
            ),
            SessionRefusal::Stale { kept } => write!(
                f,
                "the session's slot already holds write {kept}, which is newer: its client sent a \
                 later write before this one was answered. Use one slot per write in flight"
            ),
            SessionRefusal::SlotTooHigh { limit } => {
                write!(f, "slots of a session are numbered from 0 to {}", limit - 1)
            }
            SessionRefusal::TooManySessions { limit } => write!(
                f,
                "{limit} sessions are open, the most there may be: close some or wait until idle \
                 ones expire"
            ),
            SessionRefusal::TtlOutOfBounds { least, most } => write!(
                f,
                "a session's time to live is between {} ms and {} ms",
                least.as_ms(),
                most.as_ms()
            ),
            SessionRefusal::Unsupported => {
                f.write_str("this machine keeps no sessions: send the write without one")
            }
        }
    }
}

impl std::error::Error for SessionRefusal {}
