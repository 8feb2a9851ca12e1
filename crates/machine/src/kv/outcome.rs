//! What became of a write, and its bytes inside an [`Answer`]; docs/FORMATS.md shows them.
//!
//! Sessions keep these bytes in the log, so they are a format: the first byte says which.

use super::limits::Invalid;
use super::write::take;
use crate::Answer;
use quorate_base::Offset;
use std::fmt;

const FORMAT: u8 = 0;

/// What became of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Put.
    Written {
        /// The key's version from now on: the offset of its record.
        version: Offset,
        /// The version that it replaced; `None` if this created the key.
        previous: Option<Offset>,
    },
    /// Deleted.
    Deleted {
        /// The offset of its tombstone.
        at: Offset,
        /// The version that it removed.
        previous: Offset,
    },
    /// There was nothing to delete; nothing was logged.
    Absent,
    /// Refused: the condition was not met.
    ConditionFailed {
        /// The version that the key has instead; `None` if it is absent.
        current: Option<Offset>,
    },
    /// Refused: not a write that the store takes.
    Invalid(Invalid),
}

/// Bytes that are no outcome which this version knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadOutcome;

impl fmt::Display for BadOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the leader's answer is in no form known here: it runs a newer version. Whether the \
             write was done must be read from the store",
        )
    }
}

impl std::error::Error for BadOutcome {}

impl Outcome {
    /// As the machine's answer.
    pub(super) fn answer(self) -> Answer {
        match self {
            Outcome::Written { .. } | Outcome::Deleted { .. } | Outcome::Absent => {
                Answer::Done(self.encode().into())
            }
            Outcome::ConditionFailed { .. } | Outcome::Invalid(_) => {
                Answer::Refused(self.encode().into())
            }
        }
    }

    /// Whether the write's record is logged.
    pub(super) fn changes(self) -> bool {
        match self {
            Outcome::Written { .. } | Outcome::Deleted { .. } => true,
            Outcome::Absent | Outcome::ConditionFailed { .. } | Outcome::Invalid(_) => false,
        }
    }

    fn encode(self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        let mut put = |kind: u8, words: &[u64]| {
            out.push(kind);
            words.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
        };
        match self {
            Outcome::Written { version, previous: None } => put(0, &[version.0]),
            Outcome::Written { version, previous: Some(previous) } => {
                put(1, &[version.0, previous.0]);
            }
            Outcome::Deleted { at, previous } => put(2, &[at.0, previous.0]),
            Outcome::Absent => put(3, &[]),
            Outcome::ConditionFailed { current: Some(version) } => put(4, &[version.0]),
            Outcome::ConditionFailed { current: None } => put(5, &[]),
            Outcome::Invalid(invalid) => match invalid {
                Invalid::KeyEmpty => put(6, &[]),
                Invalid::KeyTooLong { len, max } => put(7, &[len, max]),
                Invalid::KeyReserved => put(8, &[]),
                Invalid::ValueTooLong { len, max } => put(9, &[len, max]),
                Invalid::UnknownFormat { format } => put(10, &[u64::from(format)]),
                Invalid::Malformed { at } => put(11, &[at]),
            },
        }
        out
    }

    /// Reads the bytes of [`Answer::Done`] or [`Answer::Refused`].
    pub fn decode(bytes: &[u8]) -> Result<Outcome, BadOutcome> {
        let mut rest = bytes;
        match Outcome::parse(&mut rest) {
            Some(outcome) if rest.is_empty() => Ok(outcome),
            _ => Err(BadOutcome),
        }
    }

    fn parse(rest: &mut &[u8]) -> Option<Outcome> {
        let [format, kind] = take(rest)?;
        if format != FORMAT {
            return None;
        }
        let mut word = || take(rest).map(u64::from_be_bytes);
        Some(match kind {
            0 => Outcome::Written { version: Offset(word()?), previous: None },
            1 => Outcome::Written { version: Offset(word()?), previous: Some(Offset(word()?)) },
            2 => Outcome::Deleted { at: Offset(word()?), previous: Offset(word()?) },
            3 => Outcome::Absent,
            4 => Outcome::ConditionFailed { current: Some(Offset(word()?)) },
            5 => Outcome::ConditionFailed { current: None },
            6 => Outcome::Invalid(Invalid::KeyEmpty),
            7 => Outcome::Invalid(Invalid::KeyTooLong { len: word()?, max: word()? }),
            8 => Outcome::Invalid(Invalid::KeyReserved),
            9 => Outcome::Invalid(Invalid::ValueTooLong { len: word()?, max: word()? }),
            10 => Outcome::Invalid(Invalid::UnknownFormat { format: word()?.try_into().ok()? }),
            11 => Outcome::Invalid(Invalid::Malformed { at: word()? }),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_survive_their_encoding_and_nothing_else_is_one() {
        for outcome in [
            Outcome::Written { version: Offset(0), previous: None },
            Outcome::Written { version: Offset(7), previous: Some(Offset(3)) },
            Outcome::Deleted { at: Offset(u64::MAX), previous: Offset(0) },
            Outcome::Absent,
            Outcome::ConditionFailed { current: Some(Offset(7)) },
            Outcome::ConditionFailed { current: None },
            Outcome::Invalid(Invalid::KeyEmpty),
            Outcome::Invalid(Invalid::KeyTooLong { len: 2_000, max: 1_024 }),
            Outcome::Invalid(Invalid::KeyReserved),
            Outcome::Invalid(Invalid::ValueTooLong { len: 9, max: 8 }),
            Outcome::Invalid(Invalid::UnknownFormat { format: 255 }),
            Outcome::Invalid(Invalid::Malformed { at: 3 }),
        ] {
            let mut bytes = outcome.encode();
            assert_eq!(Outcome::decode(&bytes), Ok(outcome));
            for cut in 0..bytes.len() {
                assert_eq!(Outcome::decode(&bytes[..cut]), Err(BadOutcome), "{outcome:?}");
            }
            bytes.push(0);
            assert_eq!(Outcome::decode(&bytes), Err(BadOutcome), "{outcome:?}");
        }
        assert_eq!(Outcome::decode(&[0, 12]), Err(BadOutcome));
        assert_eq!(Outcome::decode(&[1, 3]), Err(BadOutcome));
    }
}
