//! The two index files of one segment, on a disk.
//!
//! Written after the batches are durable and never synced: a commit does not wait for them, and
//! what a crash leaves of them recovery completes. See `index.rs` for what they hold.

use crate::disk::{Disk, Mode, Operation};
use crate::file::{join, read_file};
use crate::index::{OFFSETS, TIMES};
use crate::segment::file_name_with;
use crate::{Error, IndexBytes};
use bytes::Bytes;
use quorate_base::Offset;
use std::io;

/// `dir/…index` and `dir/…timeindex`.
pub(crate) fn paths(dir: &str, base: Offset) -> [String; 2] {
    [OFFSETS, TIMES].map(|ending| join(dir, &file_name_with(base, ending)))
}

/// What both files hold; nothing where one is missing, or larger than any index.
pub(crate) fn read<D: Disk>(disk: &mut D, dir: &str, base: Offset) -> Result<IndexBytes, Error> {
    let [offsets, times] = paths(dir, base).map(|path| match read_file(disk, &path) {
        Ok(bytes) => Ok(bytes.unwrap_or_default().into()),
        Err(Error::Malformed { .. }) => Ok(Bytes::new()),
        Err(error) => Err(error),
    });
    Ok(IndexBytes { offsets: offsets?, times: times? })
}

/// The open files, and the entries that are not yet in them.
pub(crate) struct Indexes<F> {
    files: [(F, String); 2],
    pending: [Vec<Bytes>; 2],
}

impl<F> Indexes<F> {
    /// Opens files that exist.
    pub fn open<D: Disk<File = F>>(
        disk: &mut D,
        dir: &str,
        base: Offset,
    ) -> Result<Indexes<F>, Error> {
        Indexes::with_mode(disk, dir, base, Mode::Write)
    }

    /// Makes both files anew with these entries.
    pub fn create<D: Disk<File = F>>(
        disk: &mut D,
        dir: &str,
        base: Offset,
        entries: &IndexBytes,
    ) -> Result<Indexes<F>, Error> {
        let mut files = Indexes::with_mode(disk, dir, base, Mode::Create)?;
        files.add(entries.clone());
        files.write(disk)?;
        Ok(files)
    }

    fn with_mode<D: Disk<File = F>>(
        disk: &mut D,
        dir: &str,
        base: Offset,
        mode: Mode,
    ) -> Result<Indexes<F>, Error> {
        let [offsets, times] = paths(dir, base).map(|path| {
            let file = disk.open(&path, mode).map_err(Error::io(Operation::Open, &path))?;
            Ok((file, path))
        });
        Ok(Indexes { files: [offsets?, times?], pending: [Vec::new(), Vec::new()] })
    }

    /// Takes both files away, if they are there.
    pub fn remove<D: Disk<File = F>>(disk: &mut D, dir: &str, base: Offset) -> Result<(), Error> {
        for path in paths(dir, base) {
            match disk.remove(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                result => result.map_err(Error::io(Operation::Remove, &path))?,
            }
        }
        Ok(())
    }

    /// Keeps entries for the next [`Indexes::write`].
    pub fn add(&mut self, entries: IndexBytes) {
        for (pending, bytes) in self.pending.iter_mut().zip([entries.offsets, entries.times]) {
            if !bytes.is_empty() {
                pending.push(bytes);
            }
        }
    }

    /// Writes what is pending.
    pub fn write<D: Disk<File = F>>(&mut self, disk: &mut D) -> Result<(), Error> {
        for ((file, path), pending) in self.files.iter_mut().zip(&mut self.pending) {
            if !pending.is_empty() {
                disk.append(file, pending).map_err(Error::io(Operation::Write, path))?;
                pending.clear();
            }
        }
        Ok(())
    }
}
