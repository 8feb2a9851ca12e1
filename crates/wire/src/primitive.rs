//! The numbers underneath: big-endian integers and the unsigned varint of KIP-482.
//!
//! Works on slices and buffers only; what a length may announce is judged in `decoder.rs`.

use bytes::{BufMut, BytesMut};
use std::fmt::Display;

/// A fixed-width big-endian integer.
pub trait Int: Copy + Default + Display {
    /// Bytes on the wire.
    const WIDTH: usize;
    /// Appends it.
    fn put(self, out: &mut BytesMut);
    /// From exactly `WIDTH` bytes; a caller who passes fewer gets the value as if zero bytes led
    /// it.
    fn from_bytes(bytes: &[u8]) -> Self;
}

macro_rules! ints {
    ($($int:ident)*) => {$(
        impl Int for $int {
            const WIDTH: usize = size_of::<$int>();

            fn put(self, out: &mut BytesMut) {
                out.put_slice(&self.to_be_bytes());
            }

            fn from_bytes(bytes: &[u8]) -> $int {
                let whole = bytes.iter().fold(0u64, |whole, byte| whole << 8 | u64::from(*byte));
                whole as $int
            }
        }
    )*};
}

ints!(i8 i16 u16 i32 i64);

/// The longest varint of 32 bits.
pub const MAX_VARINT_BYTES: usize = 5;

/// Appends `value` in groups of seven bits, lowest first.
pub fn put_varint(mut value: u32, out: &mut BytesMut) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

/// What the bytes start with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Varint {
    /// The number and how many bytes it took.
    Value(u32, usize),
    /// The bytes end before the number does.
    Unfinished,
    /// More than 32 bits.
    TooLarge,
}

/// Reads a varint from the start of `bytes`. Overlong forms are taken, as Kafka takes them.
pub fn get_varint(bytes: &[u8]) -> Varint {
    let mut value = 0u64;
    for (at, byte) in bytes.iter().take(MAX_VARINT_BYTES).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return match u32::try_from(value) {
                Ok(value) => Varint::Value(value, at + 1),
                Err(_) => Varint::TooLarge,
            };
        }
    }
    if bytes.len() < MAX_VARINT_BYTES { Varint::Unfinished } else { Varint::TooLarge }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_of_every_width_come_back() {
        for shift in 0..32 {
            for value in [1u32 << shift, (1u32 << shift) - 1, u32::MAX >> shift] {
                let mut out = BytesMut::new();
                put_varint(value, &mut out);
                assert_eq!(get_varint(&out), Varint::Value(value, out.len()));
                assert_eq!(get_varint(&out[..out.len() - 1]), Varint::Unfinished);
            }
        }
    }

    #[test]
    fn odd_varints() {
        let check = |bytes: &[u8], expect| assert_eq!(get_varint(bytes), expect, "{bytes:?}");
        check(&[0xff, 0xff, 0xff, 0xff, 0x0f], Varint::Value(u32::MAX, 5));
        check(&[0xff, 0xff, 0xff, 0xff, 0x10], Varint::TooLarge);
        check(&[0xff, 0xff, 0xff, 0xff, 0xff], Varint::TooLarge);
        check(&[0x81, 0x00], Varint::Value(1, 2));
        check(&[], Varint::Unfinished);
    }

    #[test]
    fn integers_keep_their_sign() {
        let mut out = BytesMut::new();
        (-2i16).put(&mut out);
        u16::MAX.put(&mut out);
        i64::MIN.put(&mut out);
        assert_eq!(i16::from_bytes(&out[..2]), -2);
        assert_eq!(u16::from_bytes(&out[2..4]), u16::MAX);
        assert_eq!(i64::from_bytes(&out[4..]), i64::MIN);
    }
}
