//! A write request and its bytes; docs/FORMATS.md shows them.
//!
//! The first byte is the format. Format 0 holds one put or delete; requests of several will be
//! another kind, so nothing here may assume that a request has one key.

use super::limits::{Invalid, check_key, check_value};
use bytes::Bytes;
use quorate_base::Offset;

const FORMAT: u8 = 0;
const PUT: u8 = 0;
const DELETE: u8 = 1;
const ALWAYS: u8 = 0;
const IF_VERSION: u8 = 1;
const IF_ABSENT: u8 = 2;
const IF_PRESENT: u8 = 3;

/// One change of the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Write<'a> {
    /// Sets a key.
    Put {
        /// See [`check_key`].
        key: &'a [u8],
        /// See [`check_value`].
        value: &'a [u8],
        /// When to.
        condition: Condition,
    },
    /// Removes a key.
    Delete {
        /// See [`check_key`].
        key: &'a [u8],
        /// When to.
        condition: Condition,
    },
}

/// What must be true of a key for its write to happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Condition {
    /// Nothing.
    #[default]
    Always,
    /// It has this version.
    IfVersion(Offset),
    /// It is absent.
    IfAbsent,
    /// It is present, in whatever version.
    IfPresent,
}

impl Condition {
    /// Whether it is true of a key with this version; `None` is an absent key.
    pub fn holds(self, current: Option<Offset>) -> bool {
        match self {
            Condition::Always => true,
            Condition::IfVersion(version) => current == Some(version),
            Condition::IfAbsent => current.is_none(),
            Condition::IfPresent => current.is_some(),
        }
    }
}

impl<'a> Write<'a> {
    /// The key that it is about.
    pub fn key(&self) -> &'a [u8] {
        match self {
            Write::Put { key, .. } | Write::Delete { key, .. } => key,
        }
    }

    /// The value that its record has: `None`, a tombstone, for a delete.
    pub fn value(&self) -> Option<&'a [u8]> {
        match self {
            Write::Put { value, .. } => Some(value),
            Write::Delete { .. } => None,
        }
    }

    /// When it happens.
    pub fn condition(&self) -> Condition {
        match self {
            Write::Put { condition, .. } | Write::Delete { condition, .. } => *condition,
        }
    }

    /// Checks the limits and encodes.
    pub fn encode(&self) -> Result<Bytes, Invalid> {
        self.check()?;
        let kind = match self {
            Write::Put { .. } => PUT,
            Write::Delete { .. } => DELETE,
        };
        let value = self.value().unwrap_or_default();
        let mut out = Vec::with_capacity(3 + 8 + 2 + self.key().len() + value.len());
        out.extend_from_slice(&[FORMAT, kind]);
        match self.condition() {
            Condition::Always => out.push(ALWAYS),
            Condition::IfVersion(version) => {
                out.push(IF_VERSION);
                out.extend_from_slice(&version.0.to_be_bytes());
            }
            Condition::IfAbsent => out.push(IF_ABSENT),
            Condition::IfPresent => out.push(IF_PRESENT),
        }
        out.extend_from_slice(&(self.key().len() as u16).to_be_bytes());
        out.extend_from_slice(self.key());
        out.extend_from_slice(value);
        Ok(out.into())
    }

    /// Decodes and checks the limits.
    pub fn decode(bytes: &'a [u8]) -> Result<Write<'a>, Invalid> {
        if let Some(&format) = bytes.first()
            && format != FORMAT
        {
            return Err(Invalid::UnknownFormat { format });
        }
        let mut rest = bytes;
        let write = Write::parse(&mut rest)
            .ok_or(Invalid::Malformed { at: (bytes.len() - rest.len()) as u64 })?;
        write.check()?;
        Ok(write)
    }

    /// `None`, with `rest` at what makes no sense, if it is no write.
    fn parse(rest: &mut &'a [u8]) -> Option<Write<'a>> {
        take::<1>(rest)?;
        let kind = take_if(rest, |byte| byte <= DELETE)?;
        let condition = match take_if(rest, |byte| byte <= IF_PRESENT)? {
            IF_VERSION => Condition::IfVersion(Offset(u64::from_be_bytes(take(rest)?))),
            IF_ABSENT => Condition::IfAbsent,
            IF_PRESENT => Condition::IfPresent,
            _ => Condition::Always,
        };
        let key_len = usize::from(u16::from_be_bytes(take(rest)?));
        let (key, value) = rest.split_at_checked(key_len)?;
        *rest = value;
        match kind {
            PUT => Some(Write::Put { key, value, condition }),
            _ if value.is_empty() => Some(Write::Delete { key, condition }),
            _ => None,
        }
    }

    fn check(&self) -> Result<(), Invalid> {
        check_key(self.key())?;
        self.value().map_or(Ok(()), check_value)
    }
}

/// The next `N` bytes.
pub(super) fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*taken)
}

/// The next byte, if it is one of those expected; left where it is otherwise.
fn take_if(rest: &mut &[u8], expected: impl Fn(u8) -> bool) -> Option<u8> {
    let (byte, tail) = rest.split_first()?;
    expected(*byte).then(|| {
        *rest = tail;
        *byte
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::{MAX_KEY_BYTES, MAX_VALUE_BYTES};

    #[test]
    fn writes_survive_their_encoding_and_no_part_of_one_is_a_write_of_the_same_key() {
        let conditions = [
            Condition::Always,
            Condition::IfVersion(Offset(u64::MAX)),
            Condition::IfAbsent,
            Condition::IfPresent,
        ];
        for condition in conditions {
            let key = &b"key"[..];
            for write in
                [Write::Put { key, value: b"", condition }, Write::Delete { key, condition }]
            {
                let bytes = write.encode().expect("it is valid");
                assert_eq!(Write::decode(&bytes), Ok(write));
                for cut in 0..bytes.len() {
                    let Err(Invalid::Malformed { at }) = Write::decode(&bytes[..cut]) else {
                        panic!("{write:?} cut at {cut}");
                    };
                    assert!(at <= cut as u64);
                }
            }
        }
    }

    #[test]
    fn bytes_that_are_no_write_say_where() {
        let check = |bytes: &[u8], expect| assert_eq!(Write::decode(bytes), Err(expect));
        check(&[], Invalid::Malformed { at: 0 });
        check(&[1, 0, 0, 0, 1, b'k'], Invalid::UnknownFormat { format: 1 });
        check(&[0, 2, 0, 0, 1, b'k'], Invalid::Malformed { at: 1 });
        check(&[0, 0, 4, 0, 1, b'k'], Invalid::Malformed { at: 2 });
        check(&[0, 0, 0, 0, 2, b'k'], Invalid::Malformed { at: 5 });
        check(&[0, 1, 0, 0, 1, b'k', b'v'], Invalid::Malformed { at: 6 });
        check(&[0, 0, 0, 0, 0], Invalid::KeyEmpty);
        check(&[0, 0, 0, 0, 1, 0], Invalid::KeyReserved);
    }

    #[test]
    fn limits_are_inclusive_and_name_their_field() {
        let check = |key: usize, value: usize, expect: Result<(), Invalid>| {
            let (key, value) = (vec![b'k'; key], vec![b'v'; value]);
            let write = Write::Put { key: &key, value: &value, condition: Condition::Always };
            assert_eq!(write.encode().map(|_| ()), expect);
        };
        check(1, 0, Ok(()));
        check(MAX_KEY_BYTES, MAX_VALUE_BYTES, Ok(()));
        check(0, 0, Err(Invalid::KeyEmpty));
        check(MAX_KEY_BYTES + 1, 0, Err(Invalid::KeyTooLong { len: 1_025, max: 1_024 }));
        let too_long = Invalid::ValueTooLong { len: 1_048_577, max: 1_048_576 };
        check(1, MAX_VALUE_BYTES + 1, Err(too_long));
        assert_eq!(too_long.field(), "value");
        assert_eq!(
            too_long.to_string(),
            "the value is 1048577 bytes long; values are at most 1048576 bytes long"
        );
    }
}
