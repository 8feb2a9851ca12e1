//! A snapshot that is whole and durable, as the log knows it, and serving a piece of its file.
//!
//! What a snapshot holds is for its reader; here it is bytes with an end offset. The plan of a read
//! is a value, because it is carried out on a thread of its own.

use crate::Error;
use crate::control::ControlType;
use crate::disk::{Disk, Mode, Operation};
use bytes::Bytes;
use quorate_base::OffsetEpoch;

/// A whole snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// Its end, exclusive, and the epoch of the last record below.
    pub id: OffsetEpoch,
    /// Size of its file.
    pub bytes: u64,
    /// The time of the last record that it covers, in milliseconds since 1970; from its header.
    pub timestamp_ms: i64,
}

/// The control records that follow a snapshot's header in its batch: the quorum's version and
/// voters, if they are in the log (KIP-853); types and encoded values.
pub type Head = Vec<(ControlType, Bytes)>;

/// A piece of a snapshot's file to be read; not aligned to batches (KIP-630).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChunkRead {
    /// Which snapshot.
    pub id: OffsetEpoch,
    /// The file.
    pub path: String,
    /// Size of the whole file.
    pub size: u64,
    /// The first byte wanted.
    pub position: u64,
    /// How many bytes at most.
    pub max_bytes: u32,
}

/// Carries out the plan. Fewer bytes than `max_bytes` only where the file ends. Fails if retention
/// removed the file meanwhile (an [`Error::Io`] of the kind `NotFound`), and if it has shrunk.
pub fn read_chunk<D: Disk>(disk: &mut D, plan: &ChunkRead) -> Result<Bytes, Error> {
    let path = &plan.path;
    let file = disk.open(path, Mode::Read).map_err(Error::io(Operation::Open, path))?;
    let want = plan.size.saturating_sub(plan.position).min(u64::from(plan.max_bytes));
    let mut bytes = vec![0; want as usize];
    let read = disk.read(&file, plan.position, &mut bytes);
    let read = read.map_err(Error::io(Operation::Read, path))?;
    if read < bytes.len() {
        return Err(Error::Damaged {
            path: path.clone(),
            position: plan.position + read as u64,
            expected: format!("{} bytes", plan.size),
            found: "the end of the file".to_owned(),
        });
    }
    Ok(bytes.into())
}
