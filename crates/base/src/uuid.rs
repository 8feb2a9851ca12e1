//! Kafka's uuids: sixteen bytes, written as 22 characters of url-safe base64 without padding.

use std::fmt;
use std::str::FromStr;

/// A topic, cluster or directory id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(pub [u8; 16]);

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl Uuid {
    /// "No uuid" on the wire and on disk.
    pub const ZERO: Uuid = Uuid([0; 16]);

    /// The topic id of `__cluster_metadata`: the uuid whose value is 1.
    pub const METADATA_TOPIC: Uuid = Uuid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

    /// Makes random bytes into an id that is safe everywhere: a version 4 uuid, never one of
    /// Kafka's reserved values, and `None` where its text would start with '-', which breaks
    /// command lines.
    pub fn from_random(mut bytes: [u8; 16]) -> Option<Uuid> {
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let uuid = Uuid(bytes);
        (!uuid.to_string().starts_with('-')).then_some(uuid)
    }

    /// `None` for the zero uuid.
    pub fn known(self) -> Option<Uuid> {
        (self != Uuid::ZERO).then_some(self)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.chunks(3) {
            let word = chunk.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
            let word = word << (8 * (3 - chunk.len()));
            for at in 0..=chunk.len() {
                let index = word >> (18 - 6 * at) & 63;
                write!(f, "{}", char::from(ALPHABET[index as usize]))?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The text is not a uuid in Kafka's form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadUuid;

impl fmt::Display for BadUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a uuid is 22 characters of A-Z, a-z, 0-9, '-' and '_' (sixteen bytes in base64)",
        )
    }
}

impl std::error::Error for BadUuid {}

impl FromStr for Uuid {
    type Err = BadUuid;

    fn from_str(text: &str) -> Result<Uuid, BadUuid> {
        let text = text.strip_suffix("==").unwrap_or(text);
        if text.len() != 22 {
            return Err(BadUuid);
        }
        let mut value: u128 = 0;
        let last = text.len() - 1;
        for (at, character) in text.bytes().enumerate() {
            let digit = ALPHABET.iter().position(|c| *c == character).ok_or(BadUuid)? as u128;
            // 22 digits hold 132 bits: the last one carries only two, the other four must be zero.
            value = match at == last {
                false => value << 6 | digit,
                true if digit & 15 == 0 => value << 2 | digit >> 4,
                true => return Err(BadUuid),
            };
        }
        Ok(Uuid(value.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_form_is_kafkas() {
        assert_eq!(Uuid::METADATA_TOPIC.to_string(), "AAAAAAAAAAAAAAAAAAAAAQ");
        let text = "U7HrM6vDTwWK2XclkAu2_g";
        assert_eq!(text.parse::<Uuid>().map(|uuid| uuid.to_string()).as_deref(), Ok(text));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in
            ["", "A", "AAAAAAAAAAAAAAAAAAAAAQA", "AAAAAAAAAAAAAAAAAAAAA!", "AAAAAAAAAAAAAAAAAAAAAB"]
        {
            assert_eq!(text.parse::<Uuid>(), Err(BadUuid), "{text}");
        }
    }

    #[test]
    fn random_ids_never_start_with_a_dash() {
        assert_eq!(Uuid::from_random([0xfb; 16]), None);
        assert!(Uuid::from_random([7; 16]).is_some());
    }
}
