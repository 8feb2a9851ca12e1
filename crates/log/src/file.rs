//! Small files, read and replaced whole.

use crate::Error;
use crate::disk::{Disk, Mode, Operation};
use bytes::Bytes;
use std::io;

/// Ending of a file that is not yet what its name says.
pub(crate) const TEMPORARY: &str = ".tmp";
/// No small file of ours comes near this; a larger one is not read into memory.
const LARGEST: u64 = 16 << 20;

/// `dir/name`.
pub(crate) fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") }
}

/// A whole file; `None` if it does not exist.
pub(crate) fn read_file<D: Disk>(disk: &mut D, path: &str) -> Result<Option<Vec<u8>>, Error> {
    let file = match disk.open(path, Mode::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io(Operation::Open, path)(error)),
    };
    let len = disk.len(&file).map_err(Error::io(Operation::Read, path))?;
    if len > LARGEST {
        return Err(Error::Malformed {
            path: path.to_owned(),
            position: LARGEST,
            expected: "the end of a small file".to_owned(),
            found: format!("{len} bytes"),
        });
    }
    let mut bytes = vec![0; len as usize];
    let read = disk.read(&file, 0, &mut bytes).map_err(Error::io(Operation::Read, path))?;
    bytes.truncate(read);
    Ok(Some(bytes))
}

/// Gives `dir/name` new contents. Whatever happens on the way, the name has the old contents or the
/// new ones; on return the new ones are durable. Costs two syncs.
pub(crate) fn replace_file<D: Disk>(
    disk: &mut D,
    dir: &str,
    name: &str,
    bytes: &Bytes,
) -> Result<(), Error> {
    let path = join(dir, name);
    let temporary = format!("{path}{TEMPORARY}");
    let mut file =
        disk.open(&temporary, Mode::Create).map_err(Error::io(Operation::Open, &temporary))?;
    disk.append(&mut file, std::slice::from_ref(bytes))
        .map_err(Error::io(Operation::Write, &temporary))?;
    disk.sync(&file).map_err(Error::io(Operation::Sync, &temporary))?;
    disk.rename(&temporary, &path).map_err(Error::io(Operation::Rename, &path))?;
    disk.sync_dir(dir).map_err(Error::io(Operation::SyncDir, dir))
}
