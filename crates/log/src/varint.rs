//! Zig-zag variable-length integers, as records use them: seven bits a byte, lowest first.

use bytes::BufMut;

/// Bytes that `value` takes.
pub(crate) fn size(value: i64) -> usize {
    let bits = 64 - (zigzag(value) | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// Writes `value`.
pub(crate) fn put(buffer: &mut impl BufMut, value: i64) {
    let mut rest = zigzag(value);
    while rest >= 0x80 {
        buffer.put_u8(rest as u8 | 0x80);
        rest >>= 7;
    }
    buffer.put_u8(rest as u8);
}

/// Takes a value off the front; `None` if the bytes end too early or it exceeds 64 bits.
pub(crate) fn take(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0u64;
    for at in 0..10 {
        let byte = *bytes.get(at)?;
        if at == 9 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            *bytes = &bytes[at + 1..];
            return Some((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    None
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_at_every_size() {
        let check = |value: i64, bytes: usize| {
            let mut buffer = Vec::new();
            put(&mut buffer, value);
            assert_eq!((buffer.len(), size(value)), (bytes, bytes), "{value}");
            let mut rest = &buffer[..];
            assert_eq!(take(&mut rest), Some(value));
            assert!(rest.is_empty());
            assert_eq!(take(&mut &buffer[..bytes - 1]), None, "{value} cut short");
        };
        for (value, bytes) in [(0, 1), (-1, 1), (63, 1), (-64, 1), (64, 2), (-65, 2), (8_191, 2)] {
            check(value, bytes);
        }
        check(8_192, 3);
        check(i64::from(i32::MAX), 5);
        check(i64::MAX, 10);
        check(i64::MIN, 10);
        assert_eq!(take(&mut &[0xff; 10][..]), None, "more than 64 bits");
    }
}
