//! Reads the batches of a file one after the other, for eyes that want to see damage, not flee from
//! it.
//!
//! Recovery has its own walk (`scan.rs`), which stops at the first fault and holds little memory;
//! this one goes on behind a batch whose header makes sense, and brings the records. Reads only.

use crate::batch::{Fault, HEADER_BYTES, Header};
use crate::disk::{Disk, Mode, Operation};
use crate::{Batch, Batches, Codec, Error};
use bytes::Bytes;

/// No batch that anything of ours or of Kafka's writes comes near this; a larger one is not read
/// into memory.
const LARGEST_BYTES: u64 = 256 << 20;
/// Read at once, or more where a batch is larger.
const CHUNK_BYTES: u64 = 1 << 20;
/// As far as it is looked whether room is unused.
const BLANK_BYTES: u64 = 64 << 10;

/// What lies at a place where a batch should begin.
pub(crate) enum Found {
    /// A batch that is right.
    Batch(Batch),
    /// Its header makes sense, so the next one can be looked for; the rest is wrong.
    Damaged(Header, Fault),
    /// No batch; what follows cannot be told.
    Nothing(Fault),
}

pub(crate) struct BatchReader<D: Disk> {
    disk: D,
    file: D::File,
    path: String,
    len: u64,
    position: u64,
    chunk: Bytes,
    chunk_at: u64,
}

impl<D: Disk> BatchReader<D> {
    pub fn open(disk: &D, path: &str) -> Result<BatchReader<D>, Error> {
        let mut disk = disk.clone();
        let file = disk.open(path, Mode::Read).map_err(Error::io(Operation::Open, path))?;
        let len = disk.len(&file).map_err(Error::io(Operation::Read, path))?;
        let path = path.to_owned();
        Ok(BatchReader { disk, file, path, len, position: 0, chunk: Bytes::new(), chunk_at: 0 })
    }

    /// Where the next batch begins.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Goes on at this byte, which lies within the file or at its end.
    pub fn seek(&mut self, position: u64) {
        assert!(position <= self.len, "byte {position} of {}", self.len);
        self.position = position;
    }

    /// Bytes in the file.
    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn next(&mut self) -> Result<Option<Found>, Error> {
        let have = self.len - self.position;
        if have == 0 {
            return Ok(None);
        }
        let found = match self.header(have)? {
            Ok(header) => {
                let bytes = self.bytes(header.bytes)?;
                self.position += header.bytes;
                match Batches::new(bytes).next() {
                    Some(Ok(batch)) => Found::Batch(batch),
                    Some(Err(bad)) => Found::Damaged(header, bad.fault),
                    None => Found::Nothing(Fault::Cut { need: header.bytes, have: 0 }),
                }
            }
            Err(fault) => {
                self.position = self.len;
                Found::Nothing(fault)
            }
        };
        Ok(Some(found))
    }

    /// Goes to the next batch that is wholly right, at this byte or behind it; to the end of the
    /// file if there is none. Looks at every byte, for lengths cannot be believed any more.
    pub fn search(&mut self, from: u64) -> Result<(), Error> {
        for position in from..self.len {
            self.position = position;
            if let Ok(header) = self.header(self.len - position)?
                && matches!(Batches::new(self.bytes(header.bytes)?).next(), Some(Ok(_)))
            {
                return Ok(());
            }
        }
        self.position = self.len;
        Ok(())
    }

    /// Whether there are only zeros from this byte on, as far as it is looked.
    pub fn is_blank(&self, from: u64) -> Result<bool, Error> {
        let mut bytes = vec![0; (self.len - from).min(BLANK_BYTES) as usize];
        let read = self.disk.read(&self.file, from, &mut bytes);
        let read = read.map_err(Error::io(Operation::Read, &self.path))?;
        Ok(bytes[..read].iter().all(|byte| *byte == 0))
    }

    fn header(&mut self, have: u64) -> Result<Result<Header, Fault>, Error> {
        let bytes = self.bytes(HEADER_BYTES as u64)?;
        let Some(first) = bytes.first_chunk() else {
            return Ok(Err(Fault::Cut { need: HEADER_BYTES as u64, have }));
        };
        Ok(Header::read(first).and_then(|header| match header.bytes {
            need if need > have => Err(Fault::Cut { need, have }),
            LARGEST_BYTES.. => Err(Fault::TooLarge { codec: Codec::None, limit: LARGEST_BYTES }),
            _ => Ok(header),
        }))
    }

    /// So many bytes from the current position on; fewer only where the file ends.
    fn bytes(&mut self, want: u64) -> Result<Bytes, Error> {
        let held = self.chunk_at..self.chunk_at + self.chunk.len() as u64;
        if self.position < held.start || self.position + want > held.end {
            let left = self.len - self.position;
            let mut chunk = vec![0; want.max(CHUNK_BYTES).min(left) as usize];
            let read = self.disk.read(&self.file, self.position, &mut chunk);
            chunk.truncate(read.map_err(Error::io(Operation::Read, &self.path))?);
            (self.chunk, self.chunk_at) = (chunk.into(), self.position);
        }
        let from = (self.position - self.chunk_at) as usize;
        Ok(self.chunk.slice(from..self.chunk.len().min(from + want as usize)))
    }
}
