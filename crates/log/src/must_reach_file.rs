//! `quorate-must-reach`: up to where this replica's log once went, while it does not. Ours.
//!
//! Written durably before a damaged part of the log is set aside, and taken away once the log is
//! back there. While it is there the replica must not stand, nor vote for who holds less: it has
//! forgotten what it confirmed, and with a replica that lags it would make a majority that lacks
//! committed records.

use crate::Error;
use crate::disk::Disk;
use crate::error::BadText;
use crate::file::{join, read_file, replace_file};
use bytes::{BufMut, Bytes, BytesMut};
use quorate_base::{Epoch, Offset, OffsetEpoch};

/// Its name.
pub(crate) const NAME: &str = "quorate-must-reach";
const MAGIC: [u8; 8] = *b"quorate\x02";
const BYTES: usize = 24;

pub(crate) fn encode(reach: OffsetEpoch) -> Bytes {
    let mut bytes = BytesMut::with_capacity(BYTES);
    bytes.put_slice(&MAGIC);
    bytes.put_u64(reach.offset.0);
    bytes.put_u32(reach.epoch.0);
    bytes.put_u32(crc32c::crc32c(&bytes));
    bytes.freeze()
}

pub(crate) fn decode(bytes: &[u8]) -> Result<OffsetEpoch, BadText> {
    let bad = |position, expected: &str| BadText::new(position, expected, "other bytes");
    let whole: &[u8; BYTES] = bytes.as_array().ok_or_else(|| {
        BadText::new(bytes.len().min(BYTES), "24 bytes", format!("{} bytes", bytes.len()))
    })?;
    let (body, checksum) = whole.split_last_chunk::<4>().expect("24 bytes have a last 4");
    if body[..8] != MAGIC {
        return Err(bad(0, "\"quorate\" and the number 2"));
    }
    let checksum = u32::from_be_bytes(*checksum);
    if crc32c::crc32c(body) != checksum {
        return Err(bad(0, &format!("bytes with the checksum {checksum:#010x}")));
    }
    let offset = u64::from_be_bytes(*body[8..].first_chunk().expect("8 of 20 bytes"));
    let epoch = u32::from_be_bytes(*body[16..].first_chunk().expect("4 of 20 bytes"));
    if i64::try_from(offset).is_err() || i32::try_from(epoch).is_err() {
        return Err(bad(8, "an offset and an epoch"));
    }
    Ok(OffsetEpoch::new(Offset(offset), Epoch(epoch)))
}

/// `None` if there is no such file; one that cannot be read is an error, never none.
pub(crate) fn read<D: Disk>(disk: &mut D, dir: &str) -> Result<Option<OffsetEpoch>, Error> {
    let path = join(dir, NAME);
    let bytes = read_file(disk, &path)?;
    bytes.map(|bytes| decode(&bytes).map_err(|bad| bad.at(&path))).transpose()
}

pub(crate) fn write<D: Disk>(disk: &mut D, dir: &str, reach: OffsetEpoch) -> Result<(), Error> {
    replace_file(disk, dir, NAME, &encode(reach))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_and_every_cut_is_an_error() {
        let reach = OffsetEpoch::new(Offset(1 << 40), Epoch(7));
        let bytes = encode(reach);
        assert_eq!(decode(&bytes), Ok(reach));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&flipped).is_err(), "bit {bit}");
        }
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        assert!(decode(&[&bytes[..], b"x"].concat()).is_err());
    }
}
