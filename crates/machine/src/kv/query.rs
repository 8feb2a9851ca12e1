//! Questions to the store and their answers: typed, local, never encoded.

use super::limits::{MAX_LIST_BYTES, MAX_LIST_KEYS, is_reserved};
use crate::leaves::Leaves;
use bytes::Bytes;
use quorate_base::Offset;

/// A question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Query {
    /// The value of a key. Reserved and invalid keys are simply absent.
    Get {
        /// Which.
        key: Bytes,
    },
    /// The keys that begin so, in order.
    List {
        /// How they begin; empty for all keys.
        prefix: Bytes,
        /// Only keys above this one: the last of the page before.
        after: Option<Bytes>,
        /// Most entries wanted, at least 1 and at most [`MAX_LIST_KEYS`]; others count as the
        /// nearest.
        limit: usize,
    },
    /// How much there is.
    Stat,
}

/// The answer to the [`Query`] of the same name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// `None`: the key is absent.
    Get(Option<Found>),
    /// One page.
    List {
        /// At least one entry if there is any.
        items: Vec<Item>,
        /// Whether there are more after these.
        more: bool,
    },
    /// Totals.
    Stat(Stat),
}

/// The value of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The value.
    pub value: Bytes,
    /// The offset of the record that set it.
    pub version: Offset,
}

/// An entry of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    /// The key.
    pub key: Bytes,
    /// The value.
    pub value: Bytes,
    /// The offset of the record that set it.
    pub version: Offset,
}

/// Totals of the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stat {
    /// Keys that clients can see.
    pub keys: usize,
    /// Bytes of all keys and values, reserved ones included.
    pub bytes: usize,
    /// Keys that clients cannot see.
    pub reserved_keys: usize,
    /// Records without a key that were passed over since this node started.
    pub keyless_records: u64,
}

pub(super) fn get(state: &Leaves, key: &[u8]) -> Option<Found> {
    if is_reserved(key) {
        return None;
    }
    let entry = state.get(key)?;
    Some(Found { value: entry.shared_value(), version: entry.version })
}

pub(super) fn list(state: &Leaves, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Reply {
    let limit = limit.clamp(1, MAX_LIST_KEYS);
    // Reserved keys come first of all, so starting at byte 1 leaves them out, whatever the prefix.
    let start = after.unwrap_or_default().max(prefix).max(&[1]);
    let mut found = state
        .from(start)
        .skip_while(|entry| Some(entry.key()) == after)
        .take_while(|entry| entry.key().starts_with(prefix));
    let mut items = Vec::new();
    let mut bytes = 0;
    while items.len() < limit && bytes < MAX_LIST_BYTES {
        let Some(entry) = found.next() else { return Reply::List { items, more: false } };
        bytes += entry.key().len() + entry.value().len();
        items.push(Item {
            key: entry.shared_key(),
            value: entry.shared_value(),
            version: entry.version,
        });
    }
    Reply::List { items, more: found.next().is_some() }
}
