//! Reads the records of a batch, borrowed from its bytes.
//!
//! A checksum proves that bytes are those that were written, not that they make sense: a malformed
//! record is an error that says where, and the walk ends there.

use crate::batch::Header;
use crate::varint;
use quorate_base::Offset;
use std::fmt;

/// One record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordView<'a> {
    /// Its offset in the log.
    pub offset: Offset,
    /// Its time in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// Its value; `None` deletes the key in a compacted log.
    pub value: Option<&'a [u8]>,
    headers: Headers<'a>,
}

impl<'a> RecordView<'a> {
    /// Name and value of each header, in order.
    pub fn headers(&self) -> Headers<'a> {
        self.headers
    }
}

/// The headers of a record; all checked before. Walks them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Headers<'a> {
    left: u32,
    bytes: &'a [u8],
}

impl<'a> Headers<'a> {
    /// How many are left.
    pub fn left(&self) -> u32 {
        self.left
    }

    /// Those left, in the log's encoding, without the count that precedes them there.
    pub fn encoded(&self) -> &'a [u8] {
        self.bytes
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let header = take_header(&mut self.bytes);
        Some(header.expect("checked when the record was read"))
    }
}

/// Walks the records of a batch; ends after the first error.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    base: Offset,
    last: Offset,
    timestamp_ms: i64,
    /// Records not yet read.
    left: u32,
    /// Least offset that the next record may have.
    next: Offset,
    len: usize,
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    pub(crate) fn new(header: &Header, bytes: &'a [u8]) -> Records<'a> {
        Records {
            base: header.base,
            last: header.last,
            timestamp_ms: header.timestamp_ms,
            left: header.records,
            next: header.base,
            len: bytes.len(),
            rest: bytes,
        }
    }

    fn take(&mut self) -> Result<RecordView<'a>, RecordFault> {
        let length = varint::take(&mut self.rest).ok_or(RecordFault::Length)?;
        let length = usize::try_from(length).map_err(|_| RecordFault::Length)?;
        let (mut body, rest) = self.rest.split_at_checked(length).ok_or(RecordFault::Length)?;
        self.rest = rest;

        let (_attributes, fields) = body.split_first().ok_or(RecordFault::Time)?;
        body = fields;
        let time = varint::take(&mut body).ok_or(RecordFault::Time)?;
        let timestamp_ms = self.timestamp_ms.checked_add(time).ok_or(RecordFault::Time)?;
        let delta = varint::take(&mut body).ok_or(RecordFault::Offset)?;
        let delta = u32::try_from(delta).map_err(|_| RecordFault::Offset)?;
        let offset = self.base + u64::from(delta);
        if offset < self.next || offset > self.last {
            return Err(RecordFault::Offset);
        }
        self.next = offset + 1;
        let key = take_sized(&mut body).ok_or(RecordFault::Key)?;
        let value = take_sized(&mut body).ok_or(RecordFault::Value)?;

        let count = varint::take(&mut body).ok_or(RecordFault::Headers)?;
        let left = u32::try_from(count).map_err(|_| RecordFault::Headers)?;
        let headers = Headers { left, bytes: body };
        for _ in 0..left {
            take_header(&mut body).ok_or(RecordFault::Headers)?;
        }
        if !body.is_empty() {
            return Err(RecordFault::TooLong);
        }
        Ok(RecordView { offset, timestamp_ms, key, value, headers })
    }
}

impl<'a> Records<'a> {
    /// The next record, and all its bytes, its length included.
    pub(crate) fn next_with_bytes(
        &mut self,
    ) -> Option<Result<(RecordView<'a>, &'a [u8]), BadRecord>> {
        let before = self.rest;
        let record = self.next()?;
        Some(record.map(|record| (record, &before[..before.len() - self.rest.len()])))
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<RecordView<'a>, BadRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 && self.rest.is_empty() {
            return None;
        }
        let position = self.len - self.rest.len();
        let record = if self.left == 0 { Err(RecordFault::TooLong) } else { self.take() };
        match record {
            Ok(_) => self.left -= 1,
            Err(_) => (self.left, self.rest) = (0, &[]),
        }
        Some(record.map_err(|fault| BadRecord { base: self.base, position, fault }))
    }
}

/// Bytes with their length before them; -1 is none.
fn take_sized<'a>(bytes: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let length = varint::take(bytes)?;
    if length == -1 {
        return Some(None);
    }
    let (taken, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    *bytes = rest;
    Some(Some(taken))
}

fn take_header<'a>(bytes: &mut &'a [u8]) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    let name = take_sized(bytes)??;
    Some((name, take_sized(bytes)?))
}

/// A record that makes no sense, in a batch whose checksum is right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadRecord {
    /// Base offset of its batch.
    pub base: Offset,
    /// Where it begins, in bytes after the batch header.
    pub position: usize,
    /// Which part of it is wrong.
    pub fault: RecordFault,
}

impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BadRecord { base, position, fault } = self;
        write!(f, "batch {base}, record at byte {position}: {fault}")
    }
}

impl std::error::Error for BadRecord {}

/// The part of a record that is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordFault {
    /// Its length does not fit into the batch.
    Length,
    /// Its time is missing or out of range.
    Time,
    /// Its offset does not grow or lies beyond the batch's last.
    Offset,
    /// Its key does not fit.
    Key,
    /// Its value does not fit.
    Value,
    /// Its headers do not fit.
    Headers,
    /// Bytes are left over.
    TooLong,
}

impl fmt::Display for RecordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecordFault::Length => "its length does not fit into the batch",
            RecordFault::Time => "its time is missing or out of range",
            RecordFault::Offset => "its offset does not grow or lies beyond the batch",
            RecordFault::Key => "its key does not fit",
            RecordFault::Value => "its value does not fit",
            RecordFault::Headers => "its headers do not fit",
            RecordFault::TooLong => "bytes are left over",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `body` as the records of a batch [5..7) with `count` records.
    fn read(count: u32, body: &[u8]) -> Vec<Result<Offset, RecordFault>> {
        let records = Records {
            base: Offset(5),
            last: Offset(6),
            timestamp_ms: i64::MAX - 1,
            left: count,
            next: Offset(5),
            len: body.len(),
            rest: body,
        };
        records.map(|r| r.map(|r| r.offset).map_err(|bad| bad.fault)).collect()
    }

    #[test]
    fn each_malformed_record_is_an_error_and_ends_the_walk() {
        use RecordFault::*;
        let check = |count, body: &[u8], expect: &[Result<u64, RecordFault>]| {
            let expect: Vec<_> = expect.iter().map(|one| one.map(quorate_base::Offset)).collect();
            assert_eq!(read(count, body), expect, "{body:02x?}");
        };
        // length 6: attributes, time, offset, key -1, value -1, no headers
        check(1, &[12, 0, 0, 0, 1, 1, 0], &[Ok(5)]);
        check(1, &[], &[Err(Length)]);
        check(1, &[1], &[Err(Length)]);
        check(1, &[14, 0, 0, 0, 1, 1, 0], &[Err(Length)]);
        check(1, &[0], &[Err(Time)]);
        check(1, &[12, 0, 4, 0, 1, 1, 0], &[Err(Time)]);
        check(1, &[12, 0, 0, 1, 1, 1, 0], &[Err(Offset)]);
        check(1, &[12, 0, 0, 4, 1, 1, 0], &[Err(Offset)]);
        check(1, &[12, 0, 0, 0, 8, 1, 0], &[Err(Key)]);
        check(1, &[12, 0, 0, 0, 3, 1, 0], &[Err(Key)]);
        check(1, &[12, 0, 0, 0, 1, 8, 0], &[Err(Value)]);
        check(1, &[12, 0, 0, 0, 1, 1, 1], &[Err(Headers)]);
        check(1, &[12, 0, 0, 0, 1, 1, 2], &[Err(Headers)]);
        check(1, &[16, 0, 0, 0, 1, 1, 2, 1, 1], &[Err(Headers)]);
        check(1, &[14, 0, 0, 0, 1, 1, 0, 0], &[Err(TooLong)]);
        check(1, &[12, 0, 0, 0, 1, 1, 0, 0], &[Ok(5), Err(TooLong)]);
        check(2, &[12, 0, 0, 0, 1, 1, 0, 12, 0, 0, 0, 1, 1, 0], &[Ok(5), Err(Offset)]);
        check(2, &[12, 0, 0, 0, 1, 1, 0], &[Ok(5), Err(Length)]);
    }
}
