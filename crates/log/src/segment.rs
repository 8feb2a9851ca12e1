//! A log file as memory knows it: name, size, and a sparse index of where batches begin.

use quorate_base::Offset;

/// Distance between index entries: what a cold read skips at most, less one batch.
pub(crate) const INDEX_SPACING_BYTES: u64 = 4096;

/// One segment. Invariant: index entries grow in both parts and lie below `size`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    /// First offset, which names the file.
    pub base: Offset,
    /// Bytes in the file; no less than that where it is not `exact`.
    pub size: u64,
    /// Whether `size` is the file's; not after a cut at a place that only the disk knows. Such a
    /// segment takes no more batches, so that positions in the index are always right.
    pub exact: bool,
    /// Base offsets of some batches, and where in the file they begin.
    index: Vec<(Offset, u64)>,
}

impl Segment {
    pub fn new(base: Offset) -> Segment {
        Segment { base, size: 0, exact: true, index: Vec::new() }
    }

    /// Notes a batch at the end of the file.
    pub fn push(&mut self, base: Offset, bytes: u64) {
        let last = self.index.last().map(|(_, position)| *position);
        if last.is_none_or(|last| self.size - last >= INDEX_SPACING_BYTES) {
            self.index.push((base, self.size));
        }
        self.size += bytes;
    }

    /// The last indexed batch that begins at `offset` or below.
    pub fn floor(&self, offset: Offset) -> (Offset, u64) {
        match self.index.partition_point(|(base, _)| *base <= offset) {
            0 => (self.base, 0),
            after => self.index[after - 1],
        }
    }

    /// Forgets the batches from `end` on; `position` is where the first of them begins, if known.
    pub fn truncate(&mut self, end: Offset, position: Option<u64>) {
        let keep = self.index.partition_point(|(base, _)| *base < end);
        let bound = self.index.get(keep).map_or(self.size, |(_, position)| *position);
        self.index.truncate(keep);
        self.size = position.unwrap_or(bound);
        self.exact = position.is_some();
    }

    pub fn file_name(&self) -> String {
        file_name(self.base)
    }

    pub fn check(&self) {
        for pair in self.index.windows(2) {
            assert!(pair[0].0 < pair[1].0, "index offsets {} and {}", pair[0].0, pair[1].0);
            assert!(pair[0].1 < pair[1].1, "index positions {} and {}", pair[0].1, pair[1].1);
        }
        if let Some((_, position)) = self.index.last() {
            assert!(*position < self.size, "index at {position} of {}", self.size);
        }
    }
}

/// Kafka's name for the log file that begins at `base`.
pub(crate) fn file_name(base: Offset) -> String {
    format!("{:020}.log", base.0)
}

/// The base offset in a log file's name; `None` for every other file.
pub(crate) fn base_of(name: &str) -> Option<Offset> {
    let digits = name.strip_suffix(".log")?;
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

    #[test]
    fn the_index_names_the_batch_or_an_earlier_one_within_its_spacing() {
        let mut segment = Segment::new(Offset(10));
        assert_eq!(segment.floor(Offset(10)), (Offset(10), 0));
        for batch in 0..100 {
            segment.push(Offset(10 + batch), 100);
        }
        for batch in 0..100 {
            let (base, position) = segment.floor(Offset(10 + batch));
            assert_eq!(position, (base.0 - 10) * 100);
            assert!(base.0 <= 10 + batch && batch * 100 - position < INDEX_SPACING_BYTES);
        }
        segment.truncate(Offset(60), None);
        segment.check();
        assert_eq!((segment.size, segment.exact), (8_200, false));
        segment.truncate(Offset(51), Some(4_100));
        segment.check();
        assert_eq!((segment.size, segment.exact), (4_100, true));
        assert_eq!(segment.floor(Offset(90)), (Offset(10), 0));
    }
}
