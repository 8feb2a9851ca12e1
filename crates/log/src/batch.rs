//! Kafka's record batch, format 2: its header, and the walk over the batches in a run of bytes.
//!
//! [`Batches`] yields a batch only after its length, format, counts and checksum were right, so
//! bytes from a peer or a disk become batches here and nowhere else. Nothing here panics on them,
//! and only compressed records are copied, bounded, while they inflate. The checksum covers all but
//! base offset, length, epoch and format: whoever stores batches checks that offsets join and
//! epochs do not fall. Records are in [`crate::RecordView`].

use crate::codec::Codec;
use bytes::{Buf, Bytes};
use quorate_base::{Epoch, Offset};
use std::fmt;

/// Bytes before the first record.
pub const HEADER_BYTES: usize = 61;
/// Bytes before those that the length field counts: base offset and length.
pub(crate) const LENGTH_END: usize = 12;
/// Where the bytes begin that the checksum covers.
pub(crate) const CHECKED_FROM: usize = 21;
/// The only format that the metadata log ever had.
pub(crate) const MAGIC: u8 = 2;
/// Attribute bits.
pub(crate) const CODEC_BITS: u16 = 0b111;
const TRANSACTION_BIT: u16 = 1 << 4;
pub(crate) const CONTROL_BIT: u16 = 1 << 5;
/// The field of the first timestamp holds the delete horizon (KIP-534).
pub(crate) const HORIZON_BIT: u16 = 1 << 6;

/// What a batch's first [`HEADER_BYTES`] say, once they make sense.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// First offset.
    pub base: Offset,
    /// Last offset, inclusive.
    pub last: Offset,
    /// Leader epoch that wrote the batch.
    pub epoch: Epoch,
    /// Size of the whole batch, header included.
    pub bytes: u64,
    /// CRC-32C of all from the attributes on.
    pub checksum: u32,
    /// Whether the records are control records.
    pub control: bool,
    /// Kafka's number of the codec of the records, see [`Codec::of`].
    pub codec: u8,
    /// Whether the records belong to a producer's transaction; never in a metadata log.
    pub transactional: bool,
    /// The first record's time; records may add to it. With a `delete_horizon` it is that.
    pub timestamp_ms: i64,
    /// Whether a cleaner has seen tombstones in the batch, which may go once the time in
    /// `timestamp_ms` has passed (KIP-534).
    pub delete_horizon: bool,
    /// The latest record's time.
    pub max_timestamp_ms: i64,
    /// Who produced the batch; -1: nobody who is known by an id, as everywhere in a metadata log.
    pub producer_id: i64,
    /// That producer's epoch; -1 without one.
    pub producer_epoch: i16,
    /// The producer's number of the first record; -1 without one.
    pub base_sequence: i32,
    /// How many records there are; fewer than offsets once a log was cleaned, none in a batch that
    /// only stands for the offsets of what is gone.
    pub records: u32,
}

impl Header {
    /// Reads and checks a header; the checksum is not looked at.
    pub fn read(bytes: &[u8; HEADER_BYTES]) -> Result<Header, Fault> {
        let base = i64::from_be_bytes(array(bytes, 0));
        let length = i32::from_be_bytes(array(bytes, 8));
        let epoch = i32::from_be_bytes(array(bytes, 12));
        let magic = bytes[16];
        let attributes = u16::from_be_bytes(array(bytes, 21));
        let last_delta = i32::from_be_bytes(array(bytes, 23));
        let records = i32::from_be_bytes(array(bytes, 57));

        let total = i64::from(length) + LENGTH_END as i64;
        if total < HEADER_BYTES as i64 {
            return Err(Fault::Length { found: length });
        }
        if magic != MAGIC {
            return Err(Fault::Magic { found: magic });
        }
        // An end offset, one past the last, must fit the wire's signed 64 bits too.
        if base < 0 || base > i64::MAX - i64::from(i32::MAX) - 1 {
            return Err(Fault::Base { found: base });
        }
        if epoch < 0 {
            return Err(Fault::Epoch { found: epoch });
        }
        if last_delta < 0 || records < 0 || i64::from(records) > i64::from(last_delta) + 1 {
            return Err(Fault::Counts { last_delta, records });
        }
        Ok(Header {
            base: Offset(base as u64),
            last: Offset(base as u64 + last_delta as u64),
            epoch: Epoch(epoch as u32),
            bytes: total as u64,
            checksum: u32::from_be_bytes(array(bytes, 17)),
            control: attributes & CONTROL_BIT != 0,
            codec: (attributes & CODEC_BITS) as u8,
            transactional: attributes & TRANSACTION_BIT != 0,
            timestamp_ms: i64::from_be_bytes(array(bytes, 27)),
            delete_horizon: attributes & HORIZON_BIT != 0,
            max_timestamp_ms: i64::from_be_bytes(array(bytes, 35)),
            producer_id: i64::from_be_bytes(array(bytes, 43)),
            producer_epoch: i16::from_be_bytes(array(bytes, 51)),
            base_sequence: i32::from_be_bytes(array(bytes, 53)),
            records: records as u32,
        })
    }

    /// The header at the front of `bytes`, which must hold the whole batch; checksum checked.
    pub fn check(bytes: &[u8]) -> Result<Header, Fault> {
        let have = bytes.len() as u64;
        let Some(first) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(Fault::Cut { need: HEADER_BYTES as u64, have });
        };
        let header = Header::read(first)?;
        if header.bytes > have {
            return Err(Fault::Cut { need: header.bytes, have });
        }
        let found = crc32c::crc32c(&bytes[CHECKED_FROM..header.bytes as usize]);
        if found != header.checksum {
            return Err(Fault::Checksum { expected: header.checksum, found });
        }
        header.codec()?;
        Ok(header)
    }

    /// To be asked once the checksum was right: a flipped bit is no codec.
    pub(crate) fn codec(&self) -> Result<Codec, Fault> {
        Codec::of(self.codec).ok_or(Fault::Codec { found: self.codec })
    }

    /// One past the last offset.
    pub fn end(&self) -> Offset {
        self.last + 1
    }

    /// The batch's time: that of its records, which in a batch of ours all have the same.
    pub fn time_ms(&self) -> i64 {
        if self.delete_horizon { self.max_timestamp_ms } else { self.timestamp_ms }
    }

    /// Whether records are missing that the batch once had.
    pub fn is_cleaned(&self) -> bool {
        u64::from(self.records) < self.end() - self.base
    }
}

fn array<const N: usize>(bytes: &[u8; HEADER_BYTES], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("all fields lie in the header")
}

/// One whole batch that passed all checks of the walk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    /// What its header says.
    pub header: Header,
    /// All its bytes, header included; a slice of what was walked.
    pub bytes: Bytes,
    /// The records as they were before they were compressed; else a slice of `bytes`.
    records: Bytes,
}

impl Batch {
    /// `bytes` are the whole batch of this header.
    fn new(header: Header, bytes: Bytes) -> Result<Batch, Fault> {
        let records = bytes.slice(HEADER_BYTES..);
        let records = match header.codec()? {
            Codec::None => records,
            codec @ (Codec::Gzip | Codec::Snappy | Codec::Lz4 | Codec::Zstd) => {
                codec.inflate(&records)?.into()
            }
        };
        Ok(Batch { header, bytes, records })
    }

    /// First offset.
    pub fn base(&self) -> Offset {
        self.header.base
    }

    /// Last offset, inclusive.
    pub fn last(&self) -> Offset {
        self.header.last
    }

    /// One past the last offset.
    pub fn end(&self) -> Offset {
        self.header.end()
    }

    /// Leader epoch that wrote the batch.
    pub fn epoch(&self) -> Epoch {
        self.header.epoch
    }

    /// Whether the records are control records.
    pub fn control(&self) -> bool {
        self.header.control
    }

    /// The batch's time in milliseconds since 1970.
    pub fn timestamp_ms(&self) -> i64 {
        self.header.time_ms()
    }

    /// The records' bytes, not compressed.
    pub(crate) fn record_bytes(&self) -> &Bytes {
        &self.records
    }

    /// The records, borrowed from the batch.
    pub fn records(&self) -> crate::Records<'_> {
        crate::Records::new(&self.header, &self.records)
    }
}

/// Walks the batches in a run of bytes. After an error it ends: what came before is the valid
/// prefix.
#[derive(Clone, Debug)]
pub struct Batches {
    rest: Bytes,
    position: u64,
}

impl Batches {
    /// Starts at the front.
    pub fn new(bytes: Bytes) -> Batches {
        Batches { rest: bytes, position: 0 }
    }

    /// Walks whole batches that have passed [`Batches::new`] before, without looking at their
    /// checksums again. Panics where a header makes no sense.
    pub fn checked_before(mut bytes: Bytes) -> impl Iterator<Item = Batch> {
        std::iter::from_fn(move || {
            let first = bytes.first_chunk()?;
            let header = Header::read(first).expect("was checked before");
            let batch = Batch::new(header, bytes.split_to(header.bytes as usize));
            Some(batch.expect("was inflated before"))
        })
    }
}

impl Iterator for Batches {
    type Item = Result<Batch, BadBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let batch = Header::check(&self.rest).and_then(|header| {
            let bytes = self.rest.slice(..header.bytes as usize);
            Batch::new(header, bytes)
        });
        match batch {
            Ok(batch) => {
                self.rest.advance(batch.bytes.len());
                self.position += batch.header.bytes;
                Some(Ok(batch))
            }
            Err(fault) => {
                self.rest.clear();
                Some(Err(BadBatch { position: self.position, fault }))
            }
        }
    }
}

/// Bytes that should have been a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadBatch {
    /// Where it begins, in bytes from the start of what was read.
    pub position: u64,
    /// What is wrong with it.
    pub fault: Fault,
}

impl fmt::Display for BadBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.position, self.fault)
    }
}

impl std::error::Error for BadBatch {}

/// What can be wrong with a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The bytes end within the batch.
    Cut {
        /// Bytes that the batch needs.
        need: u64,
        /// Bytes that there are.
        have: u64,
    },
    /// The length is less than a header.
    Length {
        /// The length field.
        found: i32,
    },
    /// The format is not 2.
    Magic {
        /// The format field.
        found: u8,
    },
    /// The base offset is negative or leaves no room for the records.
    Base {
        /// The base offset field.
        found: i64,
    },
    /// The leader epoch is negative.
    Epoch {
        /// The leader epoch field.
        found: i32,
    },
    /// Record count and last offset contradict each other.
    Counts {
        /// The field "last offset delta".
        last_delta: i32,
        /// The record count field.
        records: i32,
    },
    /// The records are compressed in a way that does not exist.
    Codec {
        /// The number of the codec.
        found: u8,
    },
    /// The compressed records are not what their codec writes.
    Garbled {
        /// The codec.
        codec: Codec,
    },
    /// The records would inflate to more than is ever read into memory.
    TooLarge {
        /// The codec.
        codec: Codec,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The bytes are not those that were written.
    Checksum {
        /// The checksum in the header.
        expected: u32,
        /// The checksum of the bytes.
        found: u32,
    },
    /// The batch does not begin where the one before it ends.
    Gap {
        /// The end of the one before.
        expected: Offset,
        /// The base offset of this one.
        found: Offset,
    },
    /// The leader epoch is lower than that of the batch before.
    EpochFell {
        /// The epoch of the one before.
        expected: Epoch,
        /// The epoch of this one.
        found: Epoch,
    },
}

impl Fault {
    /// Whether the bytes may be right as far as they go, and only end too early.
    pub fn is_cut(&self) -> bool {
        matches!(self, Fault::Cut { .. })
    }

    /// Whether no write that was cut short could have left this: the batch is whole, and not ours,
    /// or what lies before it is not as it was. The fields that the checksum leaves out are in
    /// front of it; where those were not written there are zeros.
    pub fn is_foreign(&self) -> bool {
        match self {
            Fault::Codec { .. } | Fault::Garbled { .. } | Fault::TooLarge { .. } => true,
            Fault::Gap { found, .. } => *found != Offset::ZERO,
            Fault::EpochFell { found, .. } => *found != Epoch::ZERO,
            Fault::Cut { .. }
            | Fault::Length { .. }
            | Fault::Magic { .. }
            | Fault::Base { .. }
            | Fault::Epoch { .. }
            | Fault::Counts { .. }
            | Fault::Checksum { .. } => false,
        }
    }
}

impl Fault {
    /// What stands there instead of a batch: for who says himself what was expected.
    pub(crate) fn instead(&self) -> String {
        match self {
            Fault::Cut { need, have } => format!("{have} bytes of {need}"),
            Fault::Length { found } => format!("a batch length of {found}, below 49"),
            Fault::Magic { found } => format!("batch format {found}, not {MAGIC}"),
            Fault::Base { found } => format!("base offset {found}"),
            Fault::Gap { found, .. } => format!("base offset {found}"),
            Fault::Epoch { found } => format!("leader epoch {found}"),
            Fault::Counts { last_delta, records } => {
                format!("{records} records where {} fit", i64::from(*last_delta) + 1)
            }
            Fault::Codec { found } => format!("codec {found}, which is none of 0 to 4"),
            Fault::Garbled { codec } => {
                format!("records that are not compressed with {}, as they should be", codec.name())
            }
            Fault::TooLarge { codec, limit } => {
                format!("more than {limit} bytes of records under {}", codec.name())
            }
            Fault::Checksum { expected, found } => {
                format!("checksum {found:#010x}, not {expected:#010x}")
            }
            Fault::EpochFell { expected, found } => {
                format!("leader epoch {found} behind {expected}")
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Cut { need, have } => write!(f, "expected {need} bytes, found {have}"),
            Fault::Length { found } => {
                write!(f, "expected a batch length of at least 49, found {found}")
            }
            Fault::Magic { found } => write!(f, "expected batch format {MAGIC}, found {found}"),
            Fault::Base { found } => write!(f, "expected a base offset, found {found}"),
            Fault::Epoch { found } => write!(f, "expected a leader epoch, found {found}"),
            Fault::Counts { last_delta, records } => {
                let most = i64::from(*last_delta) + 1;
                write!(f, "expected at most {most} records, found {records}")
            }
            Fault::Codec { found } => {
                write!(f, "expected one of the codecs 0 to 4, found {found}")
            }
            Fault::Garbled { codec } => {
                write!(f, "expected records compressed with {}, found other bytes", codec.name())
            }
            Fault::TooLarge { codec, limit } => {
                let codec = codec.name();
                write!(f, "expected at most {limit} bytes of records, found more under {codec}")
            }
            Fault::Checksum { expected, found } => {
                write!(f, "expected checksum {expected:#010x}, found {found:#010x}")
            }
            Fault::Gap { expected, found } => {
                write!(f, "expected base offset {expected}, found {found}")
            }
            Fault::EpochFell { expected, found } => {
                write!(f, "expected leader epoch {expected} or later, found {found}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BatchBuilder;

    fn two_batches() -> Bytes {
        let mut bytes = Vec::new();
        for (base, records) in [(7, 2), (9, 1)] {
            let mut builder = BatchBuilder::new(Offset(base), Epoch(3), 1_000);
            for _ in 0..records {
                builder.record(Some(b"key"), Some(b"value"), &[]);
            }
            bytes.extend_from_slice(&builder.finish());
        }
        bytes.into()
    }

    #[test]
    fn a_walk_yields_each_batch_and_its_range() {
        let ranges: Vec<_> = Batches::new(two_batches())
            .map(|batch| batch.map(|batch| (batch.base(), batch.end(), batch.epoch())))
            .collect::<Result<_, _>>()
            .unwrap();
        assert_eq!(ranges, [(Offset(7), Offset(9), Epoch(3)), (Offset(9), Offset(10), Epoch(3))]);
    }

    #[test]
    fn every_cut_leaves_the_whole_batches_before_it_and_one_error_that_names_the_place() {
        let bytes = two_batches();
        let first = Batches::new(bytes.clone()).next().unwrap().unwrap().header.bytes;
        for end in 0..bytes.len() as u64 {
            let walk: Vec<_> = Batches::new(bytes.slice(..end as usize)).collect();
            let position = if end < first { 0 } else { first };
            let whole = usize::from(end >= first);
            let ragged = usize::from(end != position);
            assert_eq!(walk.len(), whole + ragged, "cut at {end}");
            if let Some(Err(bad)) = walk.last() {
                assert_eq!(bad.position, position, "cut at {end}");
                let Fault::Cut { have, .. } = bad.fault else { panic!("cut at {end}: {bad}") };
                assert_eq!(have, end - position);
            }
        }
    }

    #[test]
    fn compression_is_judged_once_the_checksum_was_right() {
        let check = |codec: u8, expect| {
            let mut bytes = two_batches().to_vec();
            bytes[22] = codec;
            let fault = |bytes: &[u8]| {
                let bytes = Bytes::copy_from_slice(bytes);
                Batches::new(bytes).next().unwrap().unwrap_err().fault
            };
            let Fault::Checksum { found, .. } = fault(&bytes) else { panic!("{}", fault(&bytes)) };
            bytes[17..21].copy_from_slice(&found.to_be_bytes());
            assert_eq!(fault(&bytes), expect);
        };
        check(5, Fault::Codec { found: 5 });
        check(4, Fault::Garbled { codec: Codec::Zstd });
        check(1, Fault::Garbled { codec: Codec::Gzip });
    }

    #[test]
    fn each_fault_is_named() {
        let check = |at: usize, bytes: &[u8], expect: &str| {
            let mut damaged = two_batches().to_vec();
            damaged[at..at + bytes.len()].copy_from_slice(bytes);
            let bad = Batches::new(damaged.into()).next().unwrap().unwrap_err();
            assert_eq!(bad.to_string(), format!("at byte 0: {expect}"));
        };
        check(0, &[0x80], "expected a base offset, found -9223372036854775801");
        check(8, &[0, 0, 0, 48], "expected a batch length of at least 49, found 48");
        check(8, &[0xff; 4], "expected a batch length of at least 49, found -1");
        check(8, &[0x7f, 0xff, 0xff, 0xff], "expected 2147483659 bytes, found 167");
        check(12, &[0xff; 4], "expected a leader epoch, found -1");
        check(16, &[1], "expected batch format 2, found 1");
        check(57, &[0, 0, 0, 3], "expected at most 2 records, found 3");
        check(17, &[0; 4], "expected checksum 0x00000000, found 0xe80a6dc3");
    }
}
