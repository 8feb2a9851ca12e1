//! Copies a file beside itself, before somebody changes it.

use crate::Error;
use crate::disk::{Disk, Mode, Operation};
use crate::file::TEMPORARY;
use bytes::Bytes;

/// Copied at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Copies a file under another name of the same directory, durably; that name is never half a copy.
pub fn back_up<D: Disk>(disk: &mut D, path: &str, to: &str) -> Result<(), Error> {
    let source = disk.open(path, Mode::Read).map_err(Error::io(Operation::Open, path))?;
    let temporary = format!("{to}{TEMPORARY}");
    let mut copy =
        disk.open(&temporary, Mode::Create).map_err(Error::io(Operation::Open, &temporary))?;
    let (mut at, mut chunk) = (0, vec![0; CHUNK_BYTES]);
    loop {
        let read = disk.read(&source, at, &mut chunk).map_err(Error::io(Operation::Read, path))?;
        if read == 0 {
            break;
        }
        let bytes = Bytes::copy_from_slice(&chunk[..read]);
        disk.append(&mut copy, &[bytes]).map_err(Error::io(Operation::Write, &temporary))?;
        at += read as u64;
    }
    disk.sync(&copy).map_err(Error::io(Operation::Sync, &temporary))?;
    disk.rename(&temporary, to).map_err(Error::io(Operation::Rename, to))?;
    let dir = to.rsplit_once('/').map_or("", |(dir, _)| dir);
    disk.sync_dir(dir).map_err(Error::io(Operation::SyncDir, dir))
}
