//! The record of the format level, byte for byte; docs/FORMATS.md shows it.
//!
//! Its key is 0x00 0x66 ('f') and nothing else. What cannot be read is a level that nobody here
//! speaks, never a lower one.

use quorate_base::FormatLevel;

/// The newest level that this build speaks. 0: no record. 1: the log may be cleaned by key.
pub const NEWEST_FORMAT_LEVEL: FormatLevel = FormatLevel(1);

/// The key.
pub(crate) const LEVEL_KEY: [u8; 2] = [0, b'f'];

const FORMAT: u8 = 0;

/// The value.
pub(crate) fn encode_level(level: FormatLevel) -> [u8; 3] {
    let [high, low] = level.0.to_be_bytes();
    [FORMAT, high, low]
}

/// The level that a value says; the highest there can be if it says it in a way that is not ours.
pub(crate) fn decode_level(value: &[u8]) -> FormatLevel {
    match value {
        [FORMAT, high, low] => FormatLevel(u16::from_be_bytes([*high, *low])),
        _ => FormatLevel(u16::MAX),
    }
}
