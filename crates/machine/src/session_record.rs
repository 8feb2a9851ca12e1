//! The records of sessions, byte for byte; docs/FORMATS.md shows them.
//!
//! Their keys begin with 0x00 0x73 ('s'), which no client may use. A session's slots sort right
//! behind it. Readers take what they do not know as absent, never as something else.

use crate::request::{Answer, SessionId};
use bytes::Bytes;
use quorate_base::{Offset, Span};

/// How the key of every session record begins.
pub(crate) const PREFIX: [u8; 2] = [0, b's'];

const FORMAT: u8 = 0;
const DONE: u8 = 0;
const REFUSED: u8 = 1;

/// Prefix and session id.
pub(crate) type SessionKey = [u8; 10];
/// Session key and slot.
pub(crate) type SlotKey = [u8; 12];

/// The key of the session's own record, and how the keys of its slots begin.
pub(crate) fn session_key(session: SessionId) -> SessionKey {
    let mut key = [0; 10];
    key[..2].copy_from_slice(&PREFIX);
    key[2..].copy_from_slice(&session.0.0.to_be_bytes());
    key
}

/// The key of a slot's record.
pub(crate) fn slot_key(session: SessionId, slot: u16) -> SlotKey {
    let mut key = [0; 12];
    key[..10].copy_from_slice(&session_key(session));
    key[10..].copy_from_slice(&slot.to_be_bytes());
    key
}

/// Which session a session's or slot's key is about.
pub(crate) fn session_of(key: &[u8]) -> Option<SessionId> {
    let id = key.strip_prefix(&PREFIX)?.first_chunk::<8>()?;
    Some(SessionId(Offset(u64::from_be_bytes(*id))))
}

/// The value of a session's record.
pub(crate) fn encode_session(ttl: Span) -> [u8; 9] {
    let mut value = [FORMAT; 9];
    value[1..].copy_from_slice(&ttl.as_ms().to_be_bytes());
    value
}

/// The time to live.
pub(crate) fn decode_session(value: &[u8]) -> Option<Span> {
    match value.split_first_chunk::<9>()? {
        ([FORMAT, ttl_ms @ ..], []) => u64::from_be_bytes(*ttl_ms).checked_mul(1_000).map(Span::us),
        _ => None,
    }
}

/// The newest write of a slot and what was answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    pub(crate) sequence: u64,
    pub(crate) answer: Answer,
}

impl Slot {
    /// The value of the slot's record; `None` for answers that are given before a machine is asked.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let (kind, bytes) = match &self.answer {
            Answer::Done(bytes) => (DONE, bytes),
            Answer::Refused(bytes) => (REFUSED, bytes),
            Answer::Opened(_) | Answer::Session(_) => return None,
        };
        let mut value = Vec::with_capacity(10 + bytes.len());
        value.push(FORMAT);
        value.extend_from_slice(&self.sequence.to_be_bytes());
        value.push(kind);
        value.extend_from_slice(bytes);
        Some(value)
    }

    /// Reads a slot's record.
    pub(crate) fn decode(value: &Bytes) -> Option<Slot> {
        let ([FORMAT, sequence @ .., kind], _) = value.split_first_chunk::<10>()? else {
            return None;
        };
        let mut word = [0; 8];
        word.copy_from_slice(sequence);
        let bytes = value.slice(10..);
        let answer = match *kind {
            DONE => Answer::Done(bytes),
            REFUSED => Answer::Refused(bytes),
            _ => return None,
        };
        Some(Slot { sequence: u64::from_be_bytes(word), answer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_their_encoding_and_other_formats_are_unknown() {
        let session = SessionId(Offset(0x0102));
        assert_eq!(session_of(&session_key(session)), Some(session));
        assert_eq!(session_of(&slot_key(session, 9)), Some(session));
        assert_eq!(session_of(b"\0sshort"), None);
        assert_eq!(session_of(b"\0t12345678"), None);

        let mut value = encode_session(Span::ms(30_000));
        assert_eq!(decode_session(&value), Some(Span::ms(30_000)));
        assert_eq!(decode_session(&value[..8]), None);
        assert_eq!(decode_session(&[&value[..], &[0]].concat()), None);
        value[0] = 1;
        assert_eq!(decode_session(&value), None);
        assert_eq!(decode_session(&[0, 255, 255, 255, 255, 255, 255, 255, 255]), None);

        for answer in [Answer::Done(Bytes::new()), Answer::Refused(Bytes::from_static(b"no"))] {
            let slot = Slot { sequence: u64::MAX - 1, answer };
            let value = slot.encode().expect("it is kept");
            assert_eq!(Slot::decode(&value.clone().into()), Some(slot));
            for (at, byte) in [(0, 1), (9, 2)] {
                let mut other = value.clone();
                other[at] = byte;
                assert_eq!(Slot::decode(&other.into()), None);
            }
            assert_eq!(Slot::decode(&value[..9].to_vec().into()), None);
        }
        let opened = Slot { sequence: 1, answer: Answer::Opened(session) };
        assert_eq!(opened.encode(), None);
    }
}
