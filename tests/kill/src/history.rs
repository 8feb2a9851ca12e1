//! What the clients were told: every call with its times, its node and its outcome.
//!
//! A call that is known to have done nothing (no connection, "no leader") is not part of the
//! history: should it have had an effect after all, then a value shows up that nobody wrote.

use std::fmt;

/// A condition on a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// None.
    Always,
    /// `If-Match` with a version.
    Version(u64),
    /// `If-None-Match: *`.
    Absent,
    /// `If-Match: *`.
    Present,
}

/// What was asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// Sets the key. No two puts of a run have the same value.
    Put {
        /// What to.
        value: u64,
        /// When.
        condition: Condition,
    },
    /// Removes the key.
    Delete {
        /// When.
        condition: Condition,
    },
    /// Reads the key, linearizable.
    Get,
}

/// What was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// Put, with this version.
    Written {
        /// The new version.
        version: u64,
        /// The version that was replaced; `None` if the key was created.
        previous: Option<u64>,
    },
    /// Deleted, at this offset.
    Deleted {
        /// Of the tombstone.
        at: u64,
        /// The version that was removed.
        previous: u64,
    },
    /// There is no such key.
    Absent {
        /// The state read, where it was a read.
        state: Option<u64>,
    },
    /// Read.
    Found {
        /// The key's version.
        version: u64,
        /// Its value.
        value: u64,
        /// The state read.
        state: u64,
    },
    /// The condition does not hold.
    Refused {
        /// The version that the key has instead.
        current: Option<u64>,
    },
    /// Nobody knows what came of it.
    Unknown,
}

/// One call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// Who asked.
    pub client: u32,
    /// Which node was asked, the last one if several.
    pub node: u32,
    /// Which key.
    pub key: u32,
    /// Whether a session's stamp made retries safe.
    pub stamped: bool,
    /// When it was sent, in microseconds of the run.
    pub begin: u64,
    /// When the answer was there.
    pub end: u64,
    /// What was asked.
    pub ask: Ask,
    /// What was answered.
    pub told: Told,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Always => Ok(()),
            Condition::Version(version) => write!(f, " if-match {version}"),
            Condition::Absent => f.write_str(" if-absent"),
            Condition::Present => f.write_str(" if-present"),
        }
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ask::Put { value, condition } => write!(f, "put {value}{condition}"),
            Ask::Delete { condition } => write!(f, "delete{condition}"),
            Ask::Get => f.write_str("get"),
        }
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Told::Written { version, previous: None } => write!(f, "created, version {version}"),
            Told::Written { version, previous: Some(previous) } => {
                write!(f, "written, version {version} after {previous}")
            }
            Told::Deleted { at, previous } => write!(f, "version {previous} deleted at {at}"),
            Told::Absent { state: None } => f.write_str("absent"),
            Told::Absent { state: Some(state) } => write!(f, "absent in state {state}"),
            Told::Found { version, value, state } => {
                write!(f, "{value}, version {version} in state {state}")
            }
            Told::Refused { current: Some(version) } => write!(f, "refused: version {version}"),
            Told::Refused { current: None } => f.write_str("refused: absent"),
            Told::Unknown => f.write_str("unknown"),
        }
    }
}

/// Fixed columns: begin and end in milliseconds, client, node, what was asked, what was told.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |us: u64| us as f64 / 1_000.0;
        let stamped = if self.stamped { " (stamped)" } else { "" };
        write!(
            f,
            "{:>12.3} {:>12.3}  client {:<2} node {}  {}{stamped} -> {}",
            ms(self.begin),
            ms(self.end),
            self.client,
            self.node,
            self.ask,
            self.told
        )
    }
}
