//! Reads a segment from front to back, as recovery does, in bounded memory.
//!
//! Checks each header, each checksum, that offsets join and that epochs do not fall. Stops at the
//! first batch that is not right and says why; whether that is a torn tail is not for this file.

use crate::batch::{CHECKED_FROM, Fault, HEADER_BYTES, Header};
use crate::codec::{Codec, INFLATED_MAX_BYTES};
use crate::disk::{Disk, Operation};
use crate::segment::Segment;
use crate::{EpochTable, Error};
use quorate_base::Offset;

const CHUNK_BYTES: usize = 256 << 10;

/// A segment as far as it is right.
pub(crate) struct Scan {
    pub segment: Segment,
    /// End offset of its batches.
    pub end: Offset,
    /// Bytes in the file; more than in the segment if there is a fault.
    pub file_bytes: u64,
    /// What is wrong with the batch after the last right one.
    pub fault: Option<Fault>,
}

/// Scans the file of a segment, which is empty yet; notes its epochs in `epochs`, which knows those
/// before, and shows each right batch and its place to `batch`.
pub(crate) fn scan<D: Disk>(
    disk: &D,
    file: &D::File,
    path: &str,
    mut segment: Segment,
    epochs: &mut EpochTable,
    mut batch: impl FnMut(&Header, u64),
) -> Result<Scan, Error> {
    let file_bytes = disk.len(file).map_err(Error::io(Operation::Read, path))?;
    let mut window = Window { disk, file, path, bytes: vec![0; CHUNK_BYTES], from: 0, len: 0 };
    let mut end = segment.base;
    let fault = loop {
        let have = file_bytes - segment.size;
        if have == 0 {
            break None;
        }
        match next(&mut window, segment.size, have, end, epochs)? {
            Ok(header) => {
                epochs.note(header.epoch, header.base);
                batch(&header, segment.size);
                segment.push(&header);
                end = header.end();
            }
            Err(fault) => break Some(fault),
        }
    };
    Ok(Scan { segment, end, file_bytes, fault })
}

/// Checks the batch at `position`, after which there are `have` bytes.
fn next<D: Disk>(
    window: &mut Window<'_, D>,
    position: u64,
    have: u64,
    expected: Offset,
    epochs: &EpochTable,
) -> Result<Result<Header, Fault>, Error> {
    let Some(first) = window.get(position, HEADER_BYTES)?.first_chunk() else {
        return Ok(Err(Fault::Cut { need: HEADER_BYTES as u64, have }));
    };
    let header = match Header::read(first) {
        Ok(header) => header,
        Err(fault) => return Ok(Err(fault)),
    };
    if header.bytes > have {
        return Ok(Err(Fault::Cut { need: header.bytes, have }));
    }
    let mut checksum = 0;
    let mut at = position + CHECKED_FROM as u64;
    let end = position + header.bytes;
    while at < end {
        let want = CHUNK_BYTES.min((end - at) as usize);
        let bytes = window.get(at, want)?;
        if bytes.is_empty() {
            return Ok(Err(Fault::Cut { need: header.bytes, have: at - position }));
        }
        checksum = crc32c::crc32c_append(checksum, bytes);
        at += bytes.len() as u64;
    }
    if checksum != header.checksum {
        return Ok(Err(Fault::Checksum { expected: header.checksum, found: checksum }));
    }
    if let Err(fault) = window.inflates(position, &header)? {
        return Ok(Err(fault));
    }
    if header.base != expected {
        return Ok(Err(Fault::Gap { expected, found: header.base }));
    }
    match epochs.last_epoch() {
        Some(last) if header.epoch < last => {
            Ok(Err(Fault::EpochFell { expected: last, found: header.epoch }))
        }
        Some(_) | None => Ok(Ok(header)),
    }
}

/// A part of the file in memory.
struct Window<'a, D: Disk> {
    disk: &'a D,
    file: &'a D::File,
    path: &'a str,
    bytes: Vec<u8>,
    from: u64,
    len: usize,
}

impl<D: Disk> Window<'_, D> {
    /// Whether compressed records can be read again; such a batch is looked at whole.
    fn inflates(&self, position: u64, header: &Header) -> Result<Result<(), Fault>, Error> {
        let codec = match header.codec() {
            Ok(Codec::None) => return Ok(Ok(())),
            Ok(codec) => codec,
            Err(fault) => return Ok(Err(fault)),
        };
        if header.bytes > INFLATED_MAX_BYTES {
            return Ok(Err(Fault::TooLarge { codec, limit: INFLATED_MAX_BYTES }));
        }
        let mut records = vec![0; header.bytes as usize - HEADER_BYTES];
        let read = self.disk.read(self.file, position + HEADER_BYTES as u64, &mut records);
        records.truncate(read.map_err(Error::io(Operation::Read, self.path))?);
        Ok(codec.inflate(&records).map(drop))
    }

    /// The `want` bytes at `at`; fewer only where the file ends. `want` is at most a chunk.
    fn get(&mut self, at: u64, want: usize) -> Result<&[u8], Error> {
        let held = self.from..self.from + self.len as u64;
        if at < held.start || at + want as u64 > held.end {
            self.len = self
                .disk
                .read(self.file, at, &mut self.bytes)
                .map_err(Error::io(Operation::Read, self.path))?;
            self.from = at;
        }
        let start = (at - self.from) as usize;
        Ok(&self.bytes[start..self.len.min(start + want)])
    }
}
