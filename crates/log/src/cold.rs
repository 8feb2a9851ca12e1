//! Reads batches that are on disk only. Runs on a thread of its own, so it shares nothing with the
//! log: the plan is a value, and checksums are checked before anything is served.

use crate::batch::{HEADER_BYTES, Header};
use crate::disk::{Disk, Mode, Operation};
use crate::{Error, empty, epoch_file};
use bytes::Bytes;
use quorate_base::{Cleaned, Epoch, Offset};
use std::io;

/// Where to read and how much. If the log's generation is another one when the bytes arrive, drop
/// them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ColdRead {
    /// Of the log that planned this.
    pub generation: u64,
    /// What that generation of the log says of itself, to be passed on with its records.
    pub numbers: Cleaned,
    /// The segment.
    pub path: String,
    /// Its temporary path, if it was cleaned: it is there for as long as the other one is not.
    pub cleaned: Option<String>,
    /// Byte at which a batch begins, at or before the wanted one.
    pub position: u64,
    /// The wanted batch begins no more than so many bytes after that.
    pub index_interval_bytes: u64,
    /// Where the segment ends at the latest.
    pub size: u64,
    /// Offset that the first batch must hold.
    pub from: Offset,
    /// Where the last batch must end at the latest.
    pub end: Offset,
    /// How many bytes are wanted; the first batch may be larger.
    pub max_bytes: u32,
    /// The epochs of this part of the log, by their first offsets.
    pub epochs: Vec<(Epoch, Offset)>,
}

/// Whole batches, one after the other; empty if the first one ends beyond the plan's `end`. A batch
/// that is not as it was written is an error, once it is the first; before that the ones ahead of
/// it are served. Of an empty batch that begins before the wanted offset there is only the rest.
pub fn read_cold<D: Disk>(disk: &mut D, plan: &ColdRead) -> Result<Bytes, Error> {
    let mut file = Segment { disk, plan, file: None };
    let (position, first) = file.find()?;
    if first.last >= plan.end {
        return Ok(Bytes::new());
    }
    if !epoch_file::agree(&plan.epochs, &first) {
        return Err(file.damaged(position, format!("epoch {}", first.epoch)));
    }
    let want = u64::from(plan.max_bytes).max(first.bytes).min(plan.size.saturating_sub(position));
    let bytes = file.read(position, want as usize)?;

    let (mut taken, mut end) = (0, first.base);
    let rest = empty::rest(&first, plan.from);
    while taken < bytes.len() {
        match Header::check(&bytes[taken..]) {
            // A checksum leaves the base offset out.
            Ok(header)
                if header.last < plan.end
                    && header.base == end
                    && epoch_file::agree(&plan.epochs, &header) =>
            {
                taken += header.bytes as usize;
                end = header.end();
            }
            Ok(_) => break,
            Err(fault) if taken == 0 => return Err(file.damaged(position, fault.instead())),
            Err(_) => break,
        }
    }
    Ok(match rest {
        Some(rest) => [&rest, &bytes[rest.len()..taken]].concat().into(),
        None => bytes.slice(..taken),
    })
}

struct Segment<'a, D: Disk> {
    disk: &'a mut D,
    plan: &'a ColdRead,
    file: Option<D::File>,
}

impl<D: Disk> Segment<'_, D> {
    fn open(&mut self) -> io::Result<D::File> {
        match self.plan.cleaned.as_ref().map(|path| self.disk.open(path, Mode::Read)) {
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Some(Ok(file)) => Ok(file),
            Some(Err(_)) | None => self.disk.open(&self.plan.path, Mode::Read),
        }
    }

    fn read(&mut self, at: u64, len: usize) -> Result<Bytes, Error> {
        let path = &self.plan.path;
        let file = match self.file.take() {
            Some(file) => file,
            None => self.open().map_err(Error::io(Operation::Open, path))?,
        };
        let mut bytes = vec![0; len];
        let read = self.disk.read(&file, at, &mut bytes);
        bytes.truncate(read.map_err(Error::io(Operation::Read, path))?);
        self.file = Some(file);
        Ok(bytes.into())
    }

    /// Position and header of the batch that holds `from`.
    fn find(&mut self) -> Result<(u64, Header), Error> {
        let (mut position, mut follows) = (self.plan.position, None);
        let window = self.read(position, self.plan.index_interval_bytes as usize + HEADER_BYTES)?;
        loop {
            let at = (position - self.plan.position) as usize;
            let Some(first) = window.get(at..).and_then(|rest| rest.first_chunk()) else {
                return Err(self.damaged(position, "the end of the file".to_owned()));
            };
            let header =
                Header::read(first).map_err(|fault| self.damaged(position, fault.instead()))?;
            let gap = follows.is_some_and(|end| header.base != end);
            if header.base > self.plan.from || gap {
                return Err(self.damaged(position, format!("offset {}", header.base)));
            }
            if header.last >= self.plan.from {
                return Ok((position, header));
            }
            position += header.bytes;
            follows = Some(header.end());
        }
    }

    fn damaged(&self, position: u64, found: String) -> Error {
        let path = self.plan.path.clone();
        let expected = format!("a batch that leads to offset {}", self.plan.from);
        Error::Damaged { path, position, expected, found }
    }
}
