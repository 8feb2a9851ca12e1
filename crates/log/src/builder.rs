//! Writes record batches. All records of a batch carry the batch's time, but for those of
//! snapshots, which keep their own.
//!
//! One buffer, written once: the header's place is left free and filled in at the end, when lengths
//! and checksum are known.

use crate::batch::{CHECKED_FROM, CONTROL_BIT, HEADER_BYTES, LENGTH_END, MAGIC};
use crate::varint;
use bytes::{BufMut, Bytes, BytesMut};
use quorate_base::{Epoch, Offset};

/// A batch that is being written.
#[derive(Debug)]
pub struct BatchBuilder {
    base: Offset,
    epoch: Epoch,
    timestamp_ms: i64,
    max_timestamp_ms: i64,
    attributes: u16,
    records: u32,
    buffer: BytesMut,
}

impl BatchBuilder {
    /// A batch whose first record has the offset `base`.
    pub fn new(base: Offset, epoch: Epoch, timestamp_ms: i64) -> BatchBuilder {
        let mut buffer = BytesMut::with_capacity(512);
        buffer.put_bytes(0, HEADER_BYTES);
        BatchBuilder {
            base,
            epoch,
            timestamp_ms,
            max_timestamp_ms: timestamp_ms,
            attributes: 0,
            records: 0,
            buffer,
        }
    }

    /// A batch of control records, which speak of the log itself.
    pub fn control(base: Offset, epoch: Epoch, timestamp_ms: i64) -> BatchBuilder {
        let batch = BatchBuilder::new(base, epoch, timestamp_ms);
        BatchBuilder { attributes: CONTROL_BIT, ..batch }
    }

    /// Appends a record, which gets the next offset.
    pub fn record(
        &mut self,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) {
        let mut encoded = BytesMut::new();
        for (name, value) in headers {
            put_sized(&mut encoded, Some(name));
            put_sized(&mut encoded, *value);
        }
        self.record_encoded(key, value, headers.len() as u32, &encoded);
    }

    /// Appends a record whose `count` headers are in the log's encoding already, see
    /// [`crate::Headers::encoded`].
    pub fn record_encoded(
        &mut self,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        count: u32,
        headers: &[u8],
    ) {
        self.record_at(self.timestamp_ms, key, value, count, &[headers]);
    }

    /// The same for a record with a time of its own; the headers may come in parts.
    pub(crate) fn record_at(
        &mut self,
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        count: u32,
        headers: &[&[u8]],
    ) {
        let (delta, count) = (i64::from(self.records), i64::from(count));
        let time = timestamp_ms.wrapping_sub(self.timestamp_ms);
        self.max_timestamp_ms = self.max_timestamp_ms.max(timestamp_ms);
        // Attributes: one zero byte.
        let mut body = 1 + varint::size(time) + varint::size(delta) + sized(key) + sized(value);
        body += varint::size(count) + headers.iter().map(|part| part.len()).sum::<usize>();

        self.buffer.reserve(varint::size(body as i64) + body);
        varint::put(&mut self.buffer, body as i64);
        self.buffer.put_u8(0);
        varint::put(&mut self.buffer, time);
        varint::put(&mut self.buffer, delta);
        put_sized(&mut self.buffer, key);
        put_sized(&mut self.buffer, value);
        varint::put(&mut self.buffer, count);
        headers.iter().for_each(|part| self.buffer.put_slice(part));
        self.records += 1;
    }

    /// Size of the batch so far.
    pub fn len_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Records so far.
    pub fn records(&self) -> u32 {
        self.records
    }

    /// The offset that the next record gets.
    pub fn end(&self) -> Offset {
        self.base + u64::from(self.records)
    }

    /// Fills in the header.
    pub fn finish(mut self) -> Bytes {
        assert!(self.records > 0, "a batch needs a record");
        assert!(self.buffer.len() <= i32::MAX as usize, "a batch's length is 31 bits");
        let length = (self.buffer.len() - LENGTH_END) as i32;
        let mut header = &mut self.buffer[..HEADER_BYTES];
        header.put_u64(self.base.0);
        header.put_i32(length);
        header.put_u32(self.epoch.0);
        header.put_u8(MAGIC);
        header.put_u32(0); // the checksum, below
        header.put_u16(self.attributes);
        header.put_u32(self.records - 1);
        header.put_i64(self.timestamp_ms);
        header.put_i64(self.max_timestamp_ms);
        header.put_i64(-1); // no producer id,
        header.put_i16(-1); // no producer epoch,
        header.put_i32(-1); // no sequence
        header.put_u32(self.records);
        let checksum = crc32c::crc32c(&self.buffer[CHECKED_FROM..]);
        (&mut self.buffer[CHECKED_FROM - 4..]).put_u32(checksum);
        self.buffer.freeze()
    }
}

fn sized(bytes: Option<&[u8]>) -> usize {
    match bytes {
        Some(bytes) => varint::size(bytes.len() as i64) + bytes.len(),
        None => varint::size(-1),
    }
}

fn put_sized(buffer: &mut BytesMut, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            varint::put(buffer, bytes.len() as i64);
            buffer.put_slice(bytes);
        }
        None => varint::put(buffer, -1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Batches;

    #[test]
    fn what_was_written_is_read() {
        let headers: [(&[u8], Option<&[u8]>); 2] = [(b"lease", Some(b"7")), (b"none", None)];
        let long = vec![b'x'; 70_000];
        let mut builder = BatchBuilder::new(Offset(100), Epoch(4), 1_700_000_000_000);
        builder.record(None, None, &[]);
        builder.record(Some(b""), Some(&long), &headers);
        assert_eq!((builder.records(), builder.end()), (2, Offset(102)));
        let len = builder.len_bytes();
        let bytes = builder.finish();
        assert_eq!(bytes.len(), len);

        let batch = Batches::new(bytes).next().unwrap().unwrap();
        assert_eq!(
            (batch.base(), batch.last(), batch.epoch()),
            (Offset(100), Offset(101), Epoch(4))
        );
        let records: Vec<_> = batch.records().collect::<Result<_, _>>().unwrap();
        assert_eq!((records[0].key, records[0].value), (None, None));
        assert_eq!(records[1].offset, Offset(101));
        assert_eq!(records[1].timestamp_ms, 1_700_000_000_000);
        assert_eq!((records[1].key, records[1].value), (Some(&b""[..]), Some(&long[..])));
        assert_eq!(records[1].headers().collect::<Vec<_>>(), headers);
    }
}
