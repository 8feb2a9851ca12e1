//! `quorate-cleaned`: the numbers that the log carries, and the swap of files that is under way.
//! Ours.
//!
//! One file, so that one write makes both durable: before the first file of a swap changes its
//! name, `dirty` and the horizon say what is about to be true. Missing: the log was never cleaned,
//! nor copied from one that was, unless its batches show otherwise; then, or where it cannot be
//! read, nothing is known and nothing may be claimed (decision 11).

use crate::Error;
use crate::disk::Disk;
use crate::error::BadText;
use crate::file::{join, read_file, replace_file};
use crate::numbers::{Carried, Reading};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use quorate_base::Offset;

/// Its name.
pub(crate) const NAME: &str = "quorate-cleaned";
const MAGIC: [u8; 8] = *b"quorate\x04";
/// In place of an offset: none.
const NONE: u64 = u64::MAX;
/// Magic, six numbers, how many segments a swap takes in, and the checksum.
const LEAST_BYTES: usize = 8 + 6 * 8 + 4 + 4;
/// Segments of one swap.
pub(crate) const MOST_SEGMENTS: usize = 64;

/// Segments that one cleaned file is to take the place of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Swap {
    /// The round that made it, which is in the temporary names.
    pub round: u64,
    /// The segments, in order; the first one names the new file too. Never empty.
    pub segments: Vec<Offset>,
}

/// All that the file says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Kept {
    pub carried: Carried,
    pub swap: Option<Swap>,
}

impl Kept {
    pub fn encode(&self) -> Bytes {
        let Carried { dirty, built_from, horizon, cleaner, reading } = self.carried;
        let or_none = |offset: Option<Offset>| offset.map_or(NONE, |offset| offset.0);
        let mut bytes = BytesMut::with_capacity(LEAST_BYTES);
        bytes.put_slice(&MAGIC);
        bytes.put_u64(dirty.0);
        bytes.put_u64(or_none(built_from));
        bytes.put_u64(horizon.0);
        bytes.put_u64(cleaner.0);
        bytes.put_u64(reading.required.0);
        bytes.put_u64(or_none(reading.dmin));
        let segments = self.swap.as_ref().map_or(&[][..], |swap| &swap.segments);
        assert!(segments.len() <= MOST_SEGMENTS, "{} segments in one swap", segments.len());
        bytes.put_u32(segments.len() as u32);
        if let Some(swap) = &self.swap {
            bytes.put_u64(swap.round);
            segments.iter().for_each(|base| bytes.put_u64(base.0));
        }
        bytes.put_u32(crc32c::crc32c(&bytes));
        bytes.freeze()
    }

    pub fn decode(bytes: &[u8]) -> Result<Kept, BadText> {
        let len = bytes.len();
        let cut = || BadText::new(len, format!("{LEAST_BYTES} bytes"), format!("{len} bytes"));
        let (body, checksum) =
            bytes.split_last_chunk::<4>().filter(|_| len >= LEAST_BYTES).ok_or_else(cut)?;
        if body[..8] != MAGIC {
            return Err(BadText::new(0, "\"quorate\" and the number 4", "other bytes"));
        }
        let checksum = u32::from_be_bytes(*checksum);
        if crc32c::crc32c(body) != checksum {
            let expected = format!("bytes with the checksum {checksum:#010x}");
            return Err(BadText::new(0, expected, "other bytes"));
        }
        let mut rest = &body[8..];
        let mut number = || rest.get_u64();
        let numbers: [u64; 6] = std::array::from_fn(|_| number());
        let [dirty, built_from, horizon, cleaner, required, dmin] = numbers;
        let is_offset = |number: &u64| i64::try_from(*number).is_ok();
        let optional =
            [built_from, dmin].into_iter().all(|number| number == NONE || is_offset(&number));
        if !optional || ![dirty, horizon, cleaner, required].iter().all(is_offset) {
            return Err(BadText::new(8, "six offsets", "other numbers"));
        }
        let some = |number: u64| (number != NONE).then_some(Offset(number));
        let count = rest.get_u32() as usize;
        let swap_bytes = if count == 0 { 0 } else { 8 + 8 * count };
        if count > MOST_SEGMENTS || rest.len() != swap_bytes {
            let expected = format!("{count} segments, {MOST_SEGMENTS} at most");
            return Err(BadText::new(LEAST_BYTES - 4, expected, format!("{} bytes", rest.len())));
        }
        let swap = (count > 0).then(|| {
            let round = rest.get_u64();
            Swap { round, segments: (0..count).map(|_| Offset(rest.get_u64())).collect() }
        });
        let carried = Carried {
            dirty: Offset(dirty),
            built_from: some(built_from),
            horizon: Offset(horizon),
            cleaner: Offset(cleaner),
            reading: Reading { required: Offset(required), dmin: some(dmin) },
        };
        Ok(Kept { carried, swap })
    }
}

/// `None` if there is no such file; one that cannot be read is damage of the log.
pub(crate) fn read<D: Disk>(disk: &mut D, dir: &str) -> Result<Option<Kept>, Error> {
    let path = join(dir, NAME);
    let damaged = |bad: BadText| {
        let BadText { position, expected, found } = bad;
        Error::Damaged { path: path.clone(), position: position as u64, expected, found }
    };
    let bytes = match read_file(disk, &path) {
        Err(Error::Malformed { path, position, expected, found }) => {
            return Err(Error::Damaged { path, position, expected, found });
        }
        bytes => bytes?,
    };
    bytes.map(|bytes| Kept::decode(&bytes).map_err(damaged)).transpose()
}

pub(crate) fn write<D: Disk>(disk: &mut D, dir: &str, cleaned: &Kept) -> Result<(), Error> {
    replace_file(disk, dir, NAME, &cleaned.encode())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Kept {
        let carried = Carried {
            dirty: Offset(11),
            built_from: None,
            horizon: Offset(10),
            cleaner: Offset(9),
            reading: Reading { required: Offset(8), dmin: Some(Offset(7)) },
        };
        Kept { carried, swap: Some(Swap { round: 3, segments: vec![Offset(0), Offset(5)] }) }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_an_error() {
        for cleaned in [Kept::default(), some()] {
            let bytes = cleaned.encode();
            assert_eq!(Kept::decode(&bytes), Ok(cleaned));
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.to_vec();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(Kept::decode(&flipped).is_err(), "bit {bit}");
            }
            for cut in 0..bytes.len() {
                assert!(Kept::decode(&bytes[..cut]).is_err(), "cut at {cut}");
            }
            assert!(Kept::decode(&[&bytes[..], b"x"].concat()).is_err());
        }
    }
}
