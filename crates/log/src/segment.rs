//! A log file as memory knows it: name, size, and a sparse index of where batches begin.

use crate::batch::Header;
use crate::index::{IndexBytes, IndexWriter, OffsetEntry, TimeEntry};
use quorate_base::Offset;

/// One segment. Invariant: index entries grow in both parts and lie below `size`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    /// First offset, which names the file.
    pub base: Offset,
    /// Bytes in the file; no less than that where it is not `exact`.
    pub size: u64,
    /// Whether `size` is the file's and `latest` the segment's; not after a cut at a place that
    /// only the disk knows. Such a segment takes no more batches, so that the indexes are always
    /// right.
    pub exact: bool,
    /// The largest time of all batches.
    pub latest: TimeEntry,
    /// The round that wrote it: until its swap is done the file has another name.
    pub cleaned_by: Option<u64>,
    /// The largest time of the first batch.
    pub first_ms: Option<i64>,
    /// A batch is indexed if it begins more than so many bytes after the one indexed before.
    index_interval_bytes: u64,
    index: Vec<Entry>,
}

/// An indexed batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    base: Offset,
    last: Offset,
    position: u64,
    /// The largest time up to and with this batch.
    latest: TimeEntry,
}

impl Segment {
    pub fn new(base: Offset, index_interval_bytes: u64) -> Segment {
        Segment {
            base,
            size: 0,
            exact: true,
            latest: TimeEntry::none(base),
            cleaned_by: None,
            first_ms: None,
            index_interval_bytes,
            index: Vec::new(),
        }
    }

    /// Notes a batch at the end of the file.
    pub fn push(&mut self, header: &Header) {
        let &Header { base, last, .. } = header;
        self.latest = self.latest.later(header);
        self.first_ms = self.first_ms.or(Some(header.max_timestamp_ms));
        let before = self.index.last().map_or(0, |entry| entry.position);
        if self.size - before > self.index_interval_bytes {
            self.index.push(Entry { base, last, position: self.size, latest: self.latest });
        }
        self.size += header.bytes;
    }

    /// Whether a batch of that time comes so late that it begins a new segment.
    pub fn is_older(&self, timestamp_ms: i64, by_ms: u64) -> bool {
        let age = self.first_ms.map_or(0, |first| timestamp_ms.saturating_sub(first));
        age > 0 && age as u64 > by_ms
    }

    /// The last indexed batch that begins at `offset` or below.
    pub fn floor(&self, offset: Offset) -> (Offset, u64) {
        match self.index.partition_point(|entry| entry.base <= offset) {
            0 => (self.base, 0),
            after => (self.index[after - 1].base, self.index[after - 1].position),
        }
    }

    /// The largest time up to and with the last indexed batch below `end`, and where that one ends.
    pub fn indexed_below(&self, end: Offset) -> (TimeEntry, Offset) {
        match self.index.partition_point(|entry| entry.base < end) {
            0 => (TimeEntry::none(self.base), self.base),
            after => (self.index[after - 1].latest, self.index[after - 1].last + 1),
        }
    }

    /// Forgets the batches from `end` on; `position` is where the first of them begins, if known,
    /// and `latest` the largest time of those that stay.
    pub fn truncate(&mut self, end: Offset, position: Option<u64>, latest: Option<TimeEntry>) {
        let keep = self.index.partition_point(|entry| entry.base < end);
        let bound = self.index.get(keep).map_or(self.size, |entry| entry.position);
        self.index.truncate(keep);
        self.size = position.unwrap_or(bound);
        self.exact = position.is_some() && latest.is_some();
        self.latest = latest.unwrap_or(self.latest);
        if end == self.base {
            self.first_ms = None;
        }
    }

    /// How many entries there are.
    pub fn indexed(&self) -> usize {
        self.index.len()
    }

    /// The entries from the one with this number on, as Kafka's files have them.
    pub fn index_from(&self, first: usize) -> IndexBytes {
        let last_ms = first.checked_sub(1).map_or(-1, |last| self.index[last].latest.timestamp_ms);
        let mut writer = IndexWriter::new(self.base, last_ms);
        for entry in &self.index[first..] {
            writer.offset(OffsetEntry { last: entry.last, position: entry.position });
            writer.time(entry.latest);
        }
        writer.finish()
    }

    /// What the time index of a segment that takes no more batches ends with, beyond its entries.
    pub fn closing(&self) -> IndexBytes {
        let last_ms = self.index.last().map_or(-1, |entry| entry.latest.timestamp_ms);
        let mut writer = IndexWriter::new(self.base, last_ms);
        if self.exact {
            writer.time(self.latest);
        }
        writer.finish()
    }

    pub fn file_name(&self) -> String {
        file_name(self.base)
    }

    pub fn check(&self) {
        for pair in self.index.windows(2) {
            assert!(pair[0].base < pair[1].base, "indexed {} and {}", pair[0].base, pair[1].base);
            let (this, next) = (pair[0].position, pair[1].position);
            assert!(this < next, "index positions {this} and {next}");
        }
        if let Some(entry) = self.index.last() {
            assert!(entry.position < self.size, "index at {} of {}", entry.position, self.size);
        }
    }
}

/// Kafka's name for the log file that begins at `base`.
pub(crate) fn file_name(base: Offset) -> String {
    format!("{:020}.log", base.0)
}

/// The base offset in a log file's name; `None` for every other file.
pub(crate) fn base_of(name: &str) -> Option<Offset> {
    base_before(name, ".log")
}

/// The name of another file of that segment.
pub(crate) fn file_name_with(base: Offset, ending: &str) -> String {
    format!("{:020}{ending}", base.0)
}

/// The offset in a name of twenty digits and this ending.
pub(crate) fn base_before(name: &str, ending: &str) -> Option<Offset> {
    let digits = name.strip_suffix(ending)?;
    let plain = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let base = plain.then(|| digits.parse::<i64>().ok()).flatten()?;
    Some(Offset(base as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kafkas() {
        assert_eq!(file_name(Offset(154)), "00000000000000000154.log");
        assert_eq!(base_of("00000000000000000154.log"), Some(Offset(154)));
        assert_eq!(base_of("00000000000000000154.log.deleted"), None);
        assert_eq!(base_of("154.log"), None);
        assert_eq!(base_of("99999999999999999999.log"), None);
    }

    fn header(base: u64, bytes: u64, time: i64) -> Header {
        let mut batch = crate::BatchBuilder::new(Offset(base), quorate_base::Epoch(1), time);
        batch.record(None, None, &[]);
        Header { bytes, ..Header::check(&batch.finish()).unwrap() }
    }

    #[test]
    fn the_index_names_the_batch_or_an_earlier_one_within_its_spacing() {
        let mut segment = Segment::new(Offset(10), 4_096);
        assert_eq!(segment.floor(Offset(10)), (Offset(10), 0));
        for batch in 0..100 {
            segment.push(&header(10 + batch, 100, 5));
        }
        for batch in 0..100 {
            let (base, position) = segment.floor(Offset(10 + batch));
            assert_eq!(position, (base.0 - 10) * 100);
            assert!(base.0 <= 10 + batch && batch * 100 - position <= 4_096);
        }
        let latest = Some(segment.latest);
        segment.truncate(Offset(60), None, latest);
        segment.check();
        assert_eq!((segment.size, segment.exact), (8_200, false));
        segment.truncate(Offset(51), Some(4_100), latest);
        segment.check();
        assert_eq!((segment.size, segment.exact), (4_100, true));
        assert_eq!(segment.floor(Offset(90)), (Offset(10), 0));
    }

    #[test]
    fn time_is_indexed_where_it_went_on_and_at_the_end() {
        let mut segment = Segment::new(Offset(10), 4_096);
        for (base, time) in [(10, 7), (11, 5), (12, 6), (13, 9)] {
            segment.push(&header(base, 5_000, time));
        }
        let index = segment.index_from(0);
        assert_eq!(
            index.offsets[..],
            [0, 0, 0, 1, 0, 0, 19, 136, 0, 0, 0, 2, 0, 0, 39, 16, 0, 0, 0, 3, 0, 0, 58, 152]
        );
        assert_eq!(
            index.times[..],
            [0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 3]
        );
        assert_eq!(segment.index_from(2).times, index.times[12..]);
        assert!(segment.closing().times.is_empty(), "the last entry says it");
        segment.push(&header(14, 100, 10));
        segment.push(&header(15, 100, 12));
        segment.push(&header(16, 100, 11));
        assert_eq!(segment.closing().times[..], [0, 0, 0, 0, 0, 0, 0, 12, 0, 0, 0, 5]);
        assert!(segment.is_older(108, 100) && !segment.is_older(107, 100));
    }
}
