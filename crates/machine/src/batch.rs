//! What a machine sees of the log: one committed batch, decoded and borrowed.
//!
//! The node makes these views from the log's bytes; nothing is copied and headers are not even
//! parsed until someone asks. A batch arrives whole, so that a transaction is never seen half
//! applied.

use quorate_base::{Epoch, Offset};
use std::fmt;

/// One committed batch of data records; control batches never reach a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batch<'a> {
    /// Offset of the batch; its first record may lie above it where the log was compacted.
    pub base: Offset,
    /// One past the batch's last offset. Records may be missing before it: compaction leaves gaps.
    pub end: Offset,
    /// The leadership period that wrote it.
    pub epoch: Epoch,
    /// The leader's wall clock when it made the batch, in Unix milliseconds: the only time of day
    /// that all replicas agree on.
    pub timestamp_ms: i64,
    /// The records, by offset.
    pub records: &'a [Record<'a>],
}

/// One record. A null value is a tombstone: it deletes its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// Where it lies in the log. Of a record in a snapshot: where it lay when it was written.
    pub offset: Offset,
    /// Null for a log without keys.
    pub key: Option<&'a [u8]>,
    /// Null for a tombstone.
    pub value: Option<&'a [u8]>,
    /// Named extra values.
    pub headers: Headers<'a>,
}

/// A named extra value of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header<'a> {
    /// UTF-8 by Kafka's rule, unchecked here.
    pub name: &'a [u8],
    /// May be null.
    pub value: Option<&'a [u8]>,
}

/// The headers of one record as they lie in the log: each one a varint length and the name, then a
/// varint length (-1 for null) and the value. Parsed only when iterated.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Headers<'a> {
    count: u32,
    encoded: &'a [u8],
}

impl<'a> Headers<'a> {
    /// No headers.
    pub const NONE: Headers<'static> = Headers { count: 0, encoded: &[] };

    /// Wraps `count` headers in the log's encoding, without the count that precedes them there.
    pub fn from_encoded(count: u32, encoded: &'a [u8]) -> Headers<'a> {
        Headers { count, encoded }
    }

    /// How many there are.
    pub fn count(self) -> u32 {
        self.count
    }

    /// The log's encoding, without the count.
    pub fn encoded(self) -> &'a [u8] {
        self.encoded
    }

    /// Walks them. Ends early at bytes that are no header, which a log with checked batches has
    /// not.
    pub fn iter(self) -> HeaderIter<'a> {
        HeaderIter { left: self.count, rest: self.encoded }
    }

    /// The value of the first header of this name; the inner `None` is a null value.
    pub fn get(self, name: &[u8]) -> Option<Option<&'a [u8]>> {
        self.iter().find(|header| header.name == name).map(|header| header.value)
    }
}

impl fmt::Debug for Headers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// See [`Headers::iter`].
#[derive(Clone, Debug)]
pub struct HeaderIter<'a> {
    left: u32,
    rest: &'a [u8],
}

impl<'a> Iterator for HeaderIter<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        self.left = self.left.checked_sub(1)?;
        let header = take_field(&mut self.rest).and_then(|name| {
            let value = take_field(&mut self.rest)?;
            Some(Header { name: name?, value })
        });
        if header.is_none() {
            self.left = 0;
        }
        header
    }
}

/// Appends one header in the log's encoding.
pub(crate) fn put_header(out: &mut Vec<u8>, header: &Header<'_>) {
    put_field(out, Some(header.name));
    put_field(out, header.value);
}

fn put_field(out: &mut Vec<u8>, field: Option<&[u8]>) {
    let length = field.map_or(-1, |bytes| bytes.len() as i64);
    let mut word = ((length << 1) ^ (length >> 63)) as u64;
    while word >= 0x80 {
        out.push(word as u8 | 0x80);
        word >>= 7;
    }
    out.push(word as u8);
    out.extend_from_slice(field.unwrap_or_default());
}

/// The outer `None`: the bytes end early or the length is no length. The inner one: null.
fn take_field<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let mut word = 0u32;
    for at in 0..5 {
        let (byte, tail) = rest.split_first()?;
        *rest = tail;
        word |= u32::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            let length = (word >> 1) as i32 ^ -((word & 1) as i32);
            if length < 0 {
                return (length == -1).then_some(None);
            }
            let (field, tail) = rest.split_at_checked(length as usize)?;
            *rest = tail;
            return Some(Some(field));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_their_encoding() {
        let long = [7u8; 300];
        let headers = [
            Header { name: b"a", value: Some(b"1") },
            Header { name: b"", value: None },
            Header { name: &long, value: Some(b"") },
            Header { name: b"a", value: Some(b"2") },
        ];
        let mut encoded = Vec::new();
        headers.iter().for_each(|header| put_header(&mut encoded, header));
        // Zigzag lengths: 1 -> 02, null -> 01.
        assert_eq!(encoded[..6], [0x02, b'a', 0x02, b'1', 0x00, 0x01]);

        let view = Headers::from_encoded(4, &encoded);
        assert!(view.iter().eq(headers));
        assert_eq!(view.get(b"a"), Some(Some(&b"1"[..])));
        assert_eq!(view.get(b""), Some(None));
        assert_eq!(view.get(b"b"), None);
    }

    #[test]
    fn bytes_that_are_no_headers_end_the_walk() {
        let mut encoded = Vec::new();
        put_header(&mut encoded, &Header { name: b"name", value: Some(b"value") });
        for cut in 0..encoded.len() {
            assert_eq!(Headers::from_encoded(1, &encoded[..cut]).iter().count(), 0, "cut at {cut}");
        }
        for bad in [&[0xff; 8][..], &[0x03, 0x01], &[0x01, 0x01], &[0xfe, 0xff, 0xff, 0xff, 0x0f]] {
            assert_eq!(Headers::from_encoded(9, bad).iter().count(), 0, "{bad:02x?}");
        }
    }
}
