//! Empty batches: a header without records, which stands for the offsets of what a cleaner took
//! away. Where there is one nothing is missing: offsets join, and the epoch is still there.
//!
//! The rest of one is made for who asks from its middle: his log ends there, because it holds the
//! batches that were.

use crate::batch::{CHECKED_FROM, HEADER_BYTES, Header, LENGTH_END, MAGIC};
use bytes::{BufMut, Bytes, BytesMut};
use quorate_base::{Epoch, Offset};

/// What an empty batch says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Empty {
    pub base: Offset,
    /// Inclusive.
    pub last: Offset,
    pub epoch: Epoch,
    /// The latest time of what was there.
    pub time_ms: i64,
}

impl Empty {
    /// The batch of this header, if it is an empty one and nothing else: without a producer, whose
    /// last batch means something even without records.
    pub fn of(header: &Header) -> Option<Empty> {
        let plain = header.records == 0 && !header.control && header.producer_id == -1;
        let Header { base, last, epoch, max_timestamp_ms: time_ms, .. } = *header;
        plain.then_some(Empty { base, last, epoch, time_ms })
    }

    /// This and what follows it as one, if a batch can be that.
    pub fn joined(self, next: Empty) -> Option<Empty> {
        let fits = next.last - self.base <= i32::MAX as u64;
        let joins = fits && self.epoch == next.epoch && self.last + 1 == next.base;
        joins.then_some(Empty { last: next.last, time_ms: self.time_ms.max(next.time_ms), ..self })
    }

    pub fn encode(self) -> Bytes {
        let Empty { base, last, epoch, time_ms } = self;
        let mut batch = BytesMut::with_capacity(HEADER_BYTES);
        batch.put_u64(base.0);
        batch.put_i32((HEADER_BYTES - LENGTH_END) as i32);
        batch.put_u32(epoch.0);
        batch.put_u8(MAGIC);
        batch.put_u32(0); // the checksum, below
        batch.put_u16(0);
        batch.put_u32((last - base) as u32);
        batch.put_i64(time_ms);
        batch.put_i64(time_ms);
        batch.put_i64(-1); // no producer id,
        batch.put_i16(-1); // no producer epoch,
        batch.put_i32(-1); // no sequence,
        batch.put_u32(0); // no record
        let checksum = crc32c::crc32c(&batch[CHECKED_FROM..]);
        (&mut batch[CHECKED_FROM - 4..]).put_u32(checksum);
        batch.freeze()
    }
}

/// What of a batch is given to who asks from `from`, which lies in it: of an empty one the rest, of
/// any other all.
pub(crate) fn rest(header: &Header, from: Offset) -> Option<Bytes> {
    let empty = Empty::of(header).filter(|empty| empty.base < from)?;
    Some(Empty { base: from, ..empty }.encode())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Batches;

    #[test]
    fn an_empty_batch_is_a_batch_and_so_is_the_rest_of_one() {
        let empty =
            Empty { base: Offset(5), last: Offset(5 + (1 << 30)), epoch: Epoch(3), time_ms: 77 };
        let batch = Batches::new(empty.encode()).next().unwrap().unwrap();
        assert_eq!(Empty::of(&batch.header), Some(empty));
        assert_eq!((batch.bytes.len(), batch.timestamp_ms()), (HEADER_BYTES, 77));
        assert!(batch.header.is_cleaned() && batch.records().next().is_none());
        assert_eq!(rest(&batch.header, Offset(5)), None);
        let rest = rest(&batch.header, Offset(9)).unwrap();
        let rest = Batches::new(rest).next().unwrap().unwrap();
        assert_eq!(Empty::of(&rest.header), Some(Empty { base: Offset(9), ..empty }));
    }

    #[test]
    fn two_of_one_epoch_are_joined_as_far_as_a_batch_reaches() {
        let one = Empty { base: Offset(0), last: Offset(9), epoch: Epoch(1), time_ms: 7 };
        let two = Empty { base: Offset(10), last: Offset(19), epoch: Epoch(1), time_ms: 5 };
        assert_eq!(one.joined(two), Some(Empty { last: Offset(19), ..one }));
        assert_eq!(one.joined(Empty { epoch: Epoch(2), ..two }), None);
        assert_eq!(one.joined(Empty { base: Offset(11), ..two }), None);
        let most = Offset(i32::MAX as u64);
        assert!(one.joined(Empty { last: most, ..two }).is_some());
        assert_eq!(one.joined(Empty { last: most + 1, ..two }), None);
    }
}
