//! Inflates the records of a compressed batch: gzip, snappy, lz4 and zstd, as Kafka frames them.
//!
//! Only read: this log never writes a compressed batch, but one that Kafka wrote must be legible.
//! What comes in may be hostile, so a batch never becomes more than [`INFLATED_MAX_BYTES`], no size
//! that the input merely announces is allocated beyond that, and bytes after the last frame are an
//! error.

use crate::batch::Fault;
use std::io::{self, Read};

/// The most that the records of one batch may inflate to.
pub const INFLATED_MAX_BYTES: u64 = 64 << 20;

/// How the records of a batch are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Codec {
    /// Not at all: what this log writes.
    None = 0,
    /// Gzip members.
    Gzip = 1,
    /// Snappy, in the frames of Java's stream (what Kafka writes) or as one bare block.
    Snappy = 2,
    /// Frames of lz4.
    Lz4 = 3,
    /// Frames of zstd.
    Zstd = 4,
}

impl Codec {
    /// By Kafka's number; the numbers 5 to 7 mean nothing yet.
    pub fn of(number: u8) -> Option<Codec> {
        match number {
            0 => Some(Codec::None),
            1 => Some(Codec::Gzip),
            2 => Some(Codec::Snappy),
            3 => Some(Codec::Lz4),
            4 => Some(Codec::Zstd),
            5.. => None,
        }
    }

    /// Kafka's word for it.
    pub fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Gzip => "gzip",
            Codec::Snappy => "snappy",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
        }
    }

    /// The bytes that were compressed.
    pub(crate) fn inflate(self, bytes: &[u8]) -> Result<Vec<u8>, Fault> {
        let mut out = Inflated { codec: self, bytes: Vec::new() };
        let mut rest = bytes;
        match self {
            Codec::None => out.bytes.extend_from_slice(bytes),
            Codec::Gzip => {
                while !rest.is_empty() {
                    out.take(&mut flate2::bufread::GzDecoder::new(&mut rest))?;
                }
            }
            Codec::Snappy => out.snappy(bytes)?,
            Codec::Lz4 => {
                while !rest.is_empty() {
                    out.take(&mut lz4_flex::frame::FrameDecoder::new(&mut rest))?;
                }
            }
            Codec::Zstd => {
                while !rest.is_empty() {
                    let decoder = ruzstd::decoding::StreamingDecoder::new_with_max_window_size(
                        &mut rest,
                        INFLATED_MAX_BYTES,
                    );
                    out.take(&mut decoder.map_err(|_| Fault::Garbled { codec: self })?)?;
                }
            }
        }
        Ok(out.bytes)
    }
}

/// What has come out so far.
struct Inflated {
    codec: Codec,
    bytes: Vec<u8>,
}

impl Inflated {
    fn room(&self) -> u64 {
        INFLATED_MAX_BYTES - self.bytes.len() as u64
    }

    /// Reads to the end, or to one byte more than there is room for.
    fn take(&mut self, from: &mut dyn Read) -> Result<(), Fault> {
        let room = self.room();
        let read: io::Result<usize> = from.take(room + 1).read_to_end(&mut self.bytes);
        match read {
            Ok(bytes) if bytes as u64 > room => Err(self.too_large()),
            Ok(_) => Ok(()),
            Err(_) => Err(self.garbled()),
        }
    }

    /// Either blocks with their lengths after the stream's head, or one block and nothing else.
    fn snappy(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        const HEAD: &[u8] = b"\x82SNAPPY\0";
        /// Two versions, 32 bits each, follow it.
        const VERSIONS: usize = 8;
        let Some(stream) = bytes.strip_prefix(HEAD) else { return self.snappy_block(bytes) };
        let mut rest = stream.get(VERSIONS..).ok_or_else(|| self.garbled())?;
        while !rest.is_empty() {
            let (length, after) = rest.split_first_chunk().ok_or_else(|| self.garbled())?;
            let length = u32::from_be_bytes(*length) as usize;
            let (block, after) = after.split_at_checked(length).ok_or_else(|| self.garbled())?;
            self.snappy_block(block)?;
            rest = after;
        }
        Ok(())
    }

    fn snappy_block(&mut self, block: &[u8]) -> Result<(), Fault> {
        /// No element of three bytes stands for more than 64, so whoever announces more lies.
        const RATIO: usize = 32;
        let length = snap::raw::decompress_len(block).map_err(|_| self.garbled())?;
        if length as u64 > self.room() {
            return Err(self.too_large());
        }
        if length > block.len().saturating_mul(RATIO) {
            return Err(self.garbled());
        }
        let from = self.bytes.len();
        self.bytes.resize(from + length, 0);
        let into = &mut self.bytes[from..];
        let written = snap::raw::Decoder::new().decompress(block, into);
        written.map(drop).map_err(|_| Fault::Garbled { codec: self.codec })
    }

    fn garbled(&self) -> Fault {
        Fault::Garbled { codec: self.codec }
    }

    fn too_large(&self) -> Fault {
        Fault::TooLarge { codec: self.codec, limit: INFLATED_MAX_BYTES }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn lz4(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
    }

    fn snappy(bytes: &[u8]) -> Vec<u8> {
        snap::raw::Encoder::new().compress_vec(bytes).unwrap()
    }

    fn snappy_stream(bytes: &[u8]) -> Vec<u8> {
        let mut stream = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
        for part in bytes.chunks(32 << 10) {
            let block = snappy(part);
            stream.extend((block.len() as u32).to_be_bytes());
            stream.extend(block);
        }
        stream
    }

    type Compress = fn(&[u8]) -> Vec<u8>;
    const ALL: [(Codec, Compress); 5] = [
        (Codec::Gzip, gzip),
        (Codec::Snappy, snappy),
        (Codec::Snappy, snappy_stream),
        (Codec::Lz4, lz4),
        (Codec::Zstd, zstd),
    ];

    #[test]
    fn what_was_compressed_comes_back() {
        let long: Vec<u8> = (0..200_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        for (codec, compress) in ALL {
            for bytes in [&b"x"[..], b"some words", &long] {
                assert_eq!(codec.inflate(&compress(bytes)).unwrap(), bytes, "{}", codec.name());
            }
        }
        let two = [gzip(b"one"), gzip(b"two")].concat();
        assert_eq!(Codec::Gzip.inflate(&two).unwrap(), b"onetwo");
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        let bytes: Vec<u8> = (0..500u32).flat_map(|n| (n / 3).to_le_bytes()).collect();
        for (codec, compress) in ALL {
            let whole = compress(&bytes);
            for cut in 1..whole.len() {
                // Where a frame's end is missing, all that came before it may be there.
                if let Ok(inflated) = codec.inflate(&whole[..cut]) {
                    assert!(bytes.starts_with(&inflated), "{} cut at {cut}", codec.name());
                }
            }
            for at in 0..whole.len() {
                let mut flipped = whole.clone();
                flipped[at] ^= 0x10;
                let _ = codec.inflate(&flipped);
            }
            let trailing = [&whole[..], b"left over"].concat();
            assert_eq!(codec.inflate(&trailing), Err(Fault::Garbled { codec }), "{}", codec.name());
        }
    }

    #[test]
    fn a_few_bytes_do_not_become_more_than_the_limit() {
        let zeros = vec![0; INFLATED_MAX_BYTES as usize + 1];
        for (codec, compress) in ALL {
            let small = compress(&zeros);
            let limit = INFLATED_MAX_BYTES;
            assert_eq!(
                codec.inflate(&small),
                Err(Fault::TooLarge { codec, limit }),
                "{}",
                codec.name()
            );
        }
        // Sizes that are only announced: a block of 32 MiB in ten bytes.
        let announced = [&[0x80, 0x80, 0x80, 0x10][..], &[0; 6]].concat();
        let garbled = Err(Fault::Garbled { codec: Codec::Snappy });
        assert_eq!(Codec::Snappy.inflate(&announced), garbled);
        // A window of 2 GiB.
        let window = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x01, 0x00, 0x00];
        let garbled = Err(Fault::Garbled { codec: Codec::Zstd });
        assert_eq!(Codec::Zstd.inflate(&window), garbled);
    }
}
