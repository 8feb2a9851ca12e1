//! What a key and a value may be, and the words for what they may not.
//!
//! Checked on admission, by whoever takes a request and again by the leader; never on what the log
//! holds, which may come from a version with other limits.

use std::fmt;

/// Longest key.
pub const MAX_KEY_BYTES: usize = 1_024;
/// Longest value.
pub const MAX_VALUE_BYTES: usize = 1_024 * 1_024;
/// Most entries of one list reply.
pub const MAX_LIST_KEYS: usize = 1_000;
/// A list reply ends with the entry that brings its keys and values to this many bytes.
pub const MAX_LIST_BYTES: usize = 4 * 1_024 * 1_024;

/// What is wrong with a request; nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invalid {
    /// The key has no bytes.
    KeyEmpty,
    /// The key is too long.
    KeyTooLong {
        /// Its bytes.
        len: u64,
        /// The most allowed.
        max: u64,
    },
    /// The key begins with byte 0x00.
    KeyReserved,
    /// The value is too long.
    ValueTooLong {
        /// Its bytes.
        len: u64,
        /// The most allowed.
        max: u64,
    },
    /// The request's first byte names an encoding of another version.
    UnknownFormat {
        /// That byte.
        format: u8,
    },
    /// The request ends early, has bytes left over, or holds a number without meaning.
    Malformed {
        /// How many of its bytes made sense.
        at: u64,
    },
}

impl Invalid {
    /// The field to name to the client.
    pub fn field(self) -> &'static str {
        match self {
            Invalid::KeyEmpty | Invalid::KeyTooLong { .. } | Invalid::KeyReserved => "key",
            Invalid::ValueTooLong { .. } => "value",
            Invalid::UnknownFormat { .. } | Invalid::Malformed { .. } => "request",
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Invalid::KeyEmpty => {
                write!(f, "the key is empty; keys are 1 to {MAX_KEY_BYTES} bytes long")
            }
            Invalid::KeyTooLong { len, max } => {
                write!(f, "the key is {len} bytes long; keys are 1 to {max} bytes long")
            }
            Invalid::KeyReserved => {
                f.write_str("the key begins with byte 0x00; those keys are reserved")
            }
            Invalid::ValueTooLong { len, max } => {
                write!(f, "the value is {len} bytes long; values are at most {max} bytes long")
            }
            Invalid::UnknownFormat { format } => write!(
                f,
                "the request is in format {format}, which this leader does not know: the node that \
                 sent it runs a newer version"
            ),
            Invalid::Malformed { at } => {
                write!(f, "the request is no kv write: it makes no sense from byte {at} on")
            }
        }
    }
}

impl std::error::Error for Invalid {}

/// Whether a client may use this key.
pub fn check_key(key: &[u8]) -> Result<(), Invalid> {
    match key {
        [] => Err(Invalid::KeyEmpty),
        key if key.len() > MAX_KEY_BYTES => {
            Err(Invalid::KeyTooLong { len: key.len() as u64, max: MAX_KEY_BYTES as u64 })
        }
        key if is_reserved(key) => Err(Invalid::KeyReserved),
        _ => Ok(()),
    }
}

/// Whether a client may store this value.
pub fn check_value(value: &[u8]) -> Result<(), Invalid> {
    match value.len() {
        len if len > MAX_VALUE_BYTES => {
            Err(Invalid::ValueTooLong { len: len as u64, max: MAX_VALUE_BYTES as u64 })
        }
        _ => Ok(()),
    }
}

/// Keys that clients neither write nor see.
pub(super) fn is_reserved(key: &[u8]) -> bool {
    key.first() == Some(&0)
}
