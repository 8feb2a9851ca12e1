//! `.index` and `.timeindex`: Kafka's two sparse indexes of a segment, byte for byte.
//!
//! Nothing of ours reads them to find a record: memory has its own ([`crate::segment`]). They are
//! written so that Kafka's nodes and tools accept the directory, are never synced, and are never
//! believed over the log: what they must hold follows from the log alone, and recovery writes them
//! anew where it differs. [`IndexCheck`] tells a file that merely lags from one that is wrong.

use crate::batch::Header;
use crate::error::BadText;
use bytes::{BufMut, Bytes, BytesMut};
use quorate_base::Offset;

/// Endings of the two files.
pub(crate) const OFFSETS: &str = ".index";
pub(crate) const TIMES: &str = ".timeindex";
/// Bytes of an entry of the one and of the other.
pub(crate) const OFFSET_ENTRY_BYTES: usize = 8;
pub(crate) const TIME_ENTRY_BYTES: usize = 12;

/// An entry of `.index`: where in the segment a batch begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OffsetEntry {
    /// The batch's last offset.
    pub last: Offset,
    /// Where it begins, in bytes.
    pub position: u64,
}

/// An entry of `.timeindex`: the latest time up to a place in the segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeEntry {
    /// The largest timestamp so far, in milliseconds since 1970; -1 where there is none.
    pub timestamp_ms: i64,
    /// The last offset of the batch that has it.
    pub offset: Offset,
}

impl TimeEntry {
    /// Before the first batch.
    pub(crate) fn none(base: Offset) -> TimeEntry {
        TimeEntry { timestamp_ms: -1, offset: base }
    }

    /// The later of this and the batch's time.
    pub(crate) fn later(self, header: &Header) -> TimeEntry {
        if header.max_timestamp_ms > self.timestamp_ms {
            TimeEntry { timestamp_ms: header.max_timestamp_ms, offset: header.last }
        } else {
            self
        }
    }
}

/// Entries of both files of one segment, in Kafka's encoding.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IndexBytes {
    /// Entries of `.index`.
    pub offsets: Bytes,
    /// Entries of `.timeindex`.
    pub times: Bytes,
}

/// Writes entries of the segment that begins at `base`.
pub(crate) struct IndexWriter {
    base: Offset,
    offsets: BytesMut,
    times: BytesMut,
    last_ms: i64,
}

impl IndexWriter {
    /// `last_ms` is the time of the last entry there is.
    pub fn new(base: Offset, last_ms: i64) -> IndexWriter {
        IndexWriter { base, offsets: BytesMut::new(), times: BytesMut::new(), last_ms }
    }

    /// Adds nothing where 31 bits do not suffice: such a segment is none of ours, but may be read.
    pub fn offset(&mut self, entry: OffsetEntry) {
        if let (Some(last), Some(position)) = (self.relative(entry.last), bits31(entry.position)) {
            self.offsets.put_u32(last);
            self.offsets.put_u32(position);
        }
    }

    /// Adds nothing unless time went on.
    pub fn time(&mut self, entry: TimeEntry) {
        let offset = self.relative(entry.offset).filter(|_| entry.timestamp_ms > self.last_ms);
        if let Some(offset) = offset {
            self.last_ms = entry.timestamp_ms;
            self.times.put_i64(entry.timestamp_ms);
            self.times.put_u32(offset);
        }
    }

    pub fn finish(self) -> IndexBytes {
        IndexBytes { offsets: self.offsets.freeze(), times: self.times.freeze() }
    }

    fn relative(&self, offset: Offset) -> Option<u32> {
        bits31(offset.0 - self.base.0)
    }
}

fn bits31(value: u64) -> Option<u32> {
    i32::try_from(value).ok().map(|value| value as u32)
}

/// The entries of `.index`; bytes at the end that are no whole entry are left out.
pub(crate) fn offset_entries(base: Offset, bytes: &[u8]) -> impl Iterator<Item = OffsetEntry> {
    let (entries, _) = bytes.as_chunks::<OFFSET_ENTRY_BYTES>();
    written(entries).iter().map(move |[a, b, c, d, rest @ ..]| OffsetEntry {
        last: base + u64::from(u32::from_be_bytes([*a, *b, *c, *d])),
        position: u64::from(u32::from_be_bytes(*rest)),
    })
}

/// The entries of `.timeindex`, likewise.
pub(crate) fn time_entries(base: Offset, bytes: &[u8]) -> impl Iterator<Item = TimeEntry> {
    let (entries, _) = bytes.as_chunks::<TIME_ENTRY_BYTES>();
    written(entries).iter().map(move |entry| {
        let [time @ .., a, b, c, d] = entry;
        TimeEntry {
            timestamp_ms: i64::from_be_bytes(*time),
            offset: base + u64::from(u32::from_be_bytes([*a, *b, *c, *d])),
        }
    })
}

/// A live node of Kafka has made its files long in advance: zeros at the end were never written.
fn written<const N: usize>(entries: &[[u8; N]]) -> &[[u8; N]] {
    let end = entries.iter().rposition(|entry| entry.iter().any(|byte| *byte != 0));
    &entries[..end.map_or(0, |last| last + 1)]
}

/// Holds both files against the batches of their segment, as a walk passes them.
pub(crate) struct IndexCheck {
    offsets: Cursor<OffsetEntry>,
    times: Cursor<TimeEntry>,
}

struct Cursor<E> {
    entries: Vec<E>,
    at: usize,
    entry_bytes: usize,
    bad: Option<BadText>,
}

impl<E: Copy> Cursor<E> {
    fn new(entries: impl Iterator<Item = E>, entry_bytes: usize) -> Cursor<E> {
        Cursor { entries: entries.collect(), at: 0, entry_bytes, bad: None }
    }

    fn next(&self) -> Option<E> {
        if self.bad.is_some() { None } else { self.entries.get(self.at).copied() }
    }

    fn judge(&mut self, right: bool, expected: impl Fn() -> String, found: impl Fn() -> String) {
        if !right && self.bad.is_none() {
            self.bad = Some(BadText::new(self.at * self.entry_bytes, expected(), found()));
        }
        self.at += 1;
    }
}

impl IndexCheck {
    pub fn new(base: Offset, offsets: &[u8], times: &[u8]) -> IndexCheck {
        IndexCheck {
            offsets: Cursor::new(offset_entries(base, offsets), OFFSET_ENTRY_BYTES),
            times: Cursor::new(time_entries(base, times), TIME_ENTRY_BYTES),
        }
    }

    /// The next batch and where it begins.
    pub fn batch(&mut self, header: &Header, position: u64) {
        while let Some(entry) = self.offsets.next().filter(|entry| entry.position <= position) {
            // Older nodes wrote the last offset of several batches, so it may lie beyond this one.
            let right = entry.position == position && entry.last >= header.base;
            self.offsets.judge(
                right,
                || {
                    format!(
                        "the place of a batch, such as offset {} at byte {position}",
                        header.last
                    )
                },
                || format!("offset {} at byte {}", entry.last, entry.position),
            );
        }
        while let Some(entry) = self.times.next().filter(|entry| entry.offset <= header.last) {
            let right =
                entry.offset >= header.base && entry.timestamp_ms == header.max_timestamp_ms;
            self.times.judge(
                right,
                || format!("time {} at offset {}", header.max_timestamp_ms, header.last),
                || format!("time {} at offset {}", entry.timestamp_ms, entry.offset),
            );
        }
    }

    /// What is wrong with the one and with the other file, once all batches have passed.
    pub fn finish(mut self, end: Offset) -> [Option<BadText>; 2] {
        let expected = || format!("no more entries, as the segment ends at offset {end}");
        if let Some(entry) = self.offsets.next() {
            let found = || format!("offset {} at byte {}", entry.last, entry.position);
            self.offsets.judge(false, expected, found);
        }
        if let Some(entry) = self.times.next() {
            let found = || format!("time {} at offset {}", entry.timestamp_ms, entry.offset);
            self.times.judge(false, expected, found);
        }
        [self.offsets.bad, self.times.bad]
    }
}
