//! What the clients saw: every operation with the times between which it must have taken effect,
//! and what is known of its result.

use bytes::Bytes;
use quorate_base::{Offset, Time};
use quorate_machine::kv::Condition;

/// An operation of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Op {
    pub client: u32,
    pub key: u32,
    pub kind: Kind,
    pub asked: Time,
    /// When its end was known; `None` while it is not.
    pub ended: Option<Time>,
    pub seen: Seen,
}

/// What it asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Put {
        value: Bytes,
        condition: Condition,
    },
    Delete {
        condition: Condition,
    },
    Get,
    /// A read that promises nothing but to be of the past.
    Peek,
}

/// What the client saw of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    /// Nothing: a write may have taken effect, now or later.
    Unknown,
    /// It was told that nothing was done, nor ever will be.
    NotDone,
    Written {
        version: Offset,
    },
    Deleted {
        at: Offset,
    },
    Absent,
    Failed {
        current: Option<Offset>,
    },
    /// A read's reply, from the state with this end.
    Found {
        found: Option<(Bytes, Offset)>,
        end: Offset,
    },
}
