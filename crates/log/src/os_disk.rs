//! The operating system's files. The only file of the crate that may use `std::fs`.
//!
//! Unix only: positioned reads and directory syncs have no portable form. Syncs are `fdatasync`,
//! which covers a file's bytes and length.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this file alone may use the system"
)]

use crate::disk::{Disk, Mode};
use bytes::Bytes;
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, fcntl_lock};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, IoSlice, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{fmt, process};

/// More slices than this in one call and the kernel refuses it.
const SLICES_AT_ONCE: usize = 1024;

/// A directory of the operating system.
#[derive(Clone, Debug)]
pub struct OsDisk {
    root: PathBuf,
}

impl OsDisk {
    /// The directory must exist by the time of the first call.
    pub fn new(root: impl Into<PathBuf>) -> OsDisk {
        OsDisk { root: root.into() }
    }

    /// Takes the directory for this process until the lock is dropped or the process ends; `holder`
    /// says in a few words who takes it, for whoever is refused. Never makes the directory: one
    /// that is not mounted must not look like one that is empty.
    pub fn lock(root: impl AsRef<Path>, holder: &str) -> Result<Lock, LockError> {
        let path = root.as_ref().join(".lock");
        let failed = |source| LockError::Io { path: path.clone(), source };
        let directory = take_directory(root.as_ref(), &path)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(failed)?;
        take_file(&file, &path, FlockOperation::NonBlockingLockExclusive)?;
        file.set_len(0).map_err(failed)?;
        writeln!(file, "pid {} ({holder})", process::id()).map_err(failed)?;
        Ok(Lock { _file: Some(file), _directory: directory })
    }

    /// Keeps other processes away from the directory like [`OsDisk::lock`], without a byte written
    /// into it: one that cannot be written can be looked at, and keeps the name of its last user.
    ///
    /// # Errors
    /// As [`OsDisk::lock`].
    pub fn lock_to_read(root: impl AsRef<Path>) -> Result<Lock, LockError> {
        let path = root.as_ref().join(".lock");
        let directory = take_directory(root.as_ref(), &path)?;
        let file = match File::open(&path) {
            Ok(file) => {
                take_file(&file, &path, FlockOperation::NonBlockingLockShared)?;
                Some(file)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(LockError::Io { path, source }),
        };
        Ok(Lock { _file: file, _directory: directory })
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

/// Locks the directory itself, for the file of this path may be removed under who holds it. Where a
/// file system locks no directories the file has to do.
fn take_directory(root: &Path, path: &Path) -> Result<File, LockError> {
    let failed = |source| LockError::Io { path: path.to_owned(), source };
    if let Err(error) = fs::metadata(root)
        && error.kind() == io::ErrorKind::NotFound
    {
        return Err(LockError::Absent { directory: root.to_owned() });
    }
    let directory = File::open(root).map_err(failed)?;
    match directory.try_lock() {
        Err(TryLockError::WouldBlock) => Err(held(path)),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(directory),
    }
}

/// Locks the file; `how` is for Java, which locks the other way: the two do not see each other.
fn take_file(file: &File, path: &Path, how: FlockOperation) -> Result<(), LockError> {
    let failed = |source| LockError::Io { path: path.to_owned(), source };
    let shared = matches!(how, FlockOperation::NonBlockingLockShared);
    match if shared { file.try_lock_shared() } else { file.try_lock() } {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(held(path)),
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    match fcntl_lock(file, how) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOLCK) => Ok(()),
        Err(Errno::AGAIN | Errno::ACCESS) => Err(held(path)),
        Err(error) => Err(failed(error.into())),
    }
}

fn held(path: &Path) -> LockError {
    let mut text = Vec::new();
    // It may have been removed; then nobody knows.
    if let Ok(file) = File::open(path) {
        let _ = file.take(200).read_to_end(&mut text);
    }
    let holder = String::from_utf8_lossy(&text).trim().to_owned();
    LockError::Held { path: path.to_owned(), holder }
}

impl Disk for OsDisk {
    type File = File;

    fn open(&mut self, path: &str, mode: Mode) -> io::Result<File> {
        let path = self.path(path);
        match mode {
            Mode::Read => File::open(path),
            Mode::Write => {
                let mut file = OpenOptions::new().read(true).write(true).open(path)?;
                file.seek(SeekFrom::End(0))?;
                Ok(file)
            }
            Mode::Create => {
                OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)
            }
        }
    }

    fn len(&self, file: &File) -> io::Result<u64> {
        Ok(file.metadata()?.len())
    }

    fn read(&self, file: &File, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match file.read_at(&mut buffer[filled..], at + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn append(&mut self, file: &mut File, parts: &[Bytes]) -> io::Result<()> {
        for parts in parts.chunks(SLICES_AT_ONCE) {
            if let [part] = parts {
                file.write_all(part)?;
                continue;
            }
            let mut slices: Vec<IoSlice<'_>> =
                parts.iter().map(|part| IoSlice::new(part)).collect();
            let mut left = &mut slices[..];
            IoSlice::advance_slices(&mut left, 0);
            while !left.is_empty() {
                match file.write_vectored(left) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(count) => IoSlice::advance_slices(&mut left, count),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn write_at(&mut self, file: &mut File, at: u64, bytes: &[u8]) -> io::Result<()> {
        file.write_all_at(bytes, at)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn truncate(&mut self, file: &mut File, len: u64) -> io::Result<()> {
        file.set_len(len)?;
        file.seek(SeekFrom::Start(len)).map(drop)
    }

    fn allocate(&mut self, file: &mut File, bytes: u64) -> io::Result<()> {
        let before = file.metadata()?.len();
        if bytes <= before {
            return file.set_len(bytes);
        }
        let result = match fallocate(&*file, FallocateFlags::empty(), 0, bytes) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(file, before, bytes),
            result => result.map_err(io::Error::from),
        };
        if result.is_err() {
            // What was allocated before the room ended goes back.
            file.set_len(before)?;
        }
        result
    }

    fn protect(&mut self, file: &mut File) -> io::Result<()> {
        file.set_permissions(fs::Permissions::from_mode(0o400))
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn remove(&mut self, path: &str) -> io::Result<()> {
        fs::remove_file(self.path(path))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.path(dir))? {
            // A name that is no UTF-8 is none of ours.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn create_dir(&mut self, dir: &str) -> io::Result<()> {
        fs::create_dir_all(self.path(dir))
    }

    fn sync_dir(&mut self, dir: &str) -> io::Result<()> {
        File::open(self.path(dir))?.sync_all()
    }
}

/// For file systems that cannot allocate without writing.
fn write_zeros(file: &File, mut at: u64, end: u64) -> io::Result<()> {
    let zeros = [0; 1 << 16];
    while at < end {
        let count = (end - at).min(zeros.len() as u64);
        file.write_all_at(&zeros[..count as usize], at)?;
        at += count;
    }
    Ok(())
}

/// The directory is ours as long as this lives.
#[derive(Debug)]
pub struct Lock {
    _file: Option<File>,
    _directory: File,
}

/// The directory could not be taken.
#[derive(Debug)]
pub enum LockError {
    /// Another process has it.
    Held {
        /// The lock file.
        path: PathBuf,
        /// What that process wrote into it: its id and what it is.
        holder: String,
    },
    /// There is no such directory.
    Absent {
        /// Its path.
        directory: PathBuf,
    },
    /// The lock file could not be made, locked or written.
    Io {
        /// The lock file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockError::Held { path, holder } => write!(
                f,
                "{} is locked by {}: two processes must never write one directory; \
                 stop that process or use another directory",
                path.display(),
                if holder.is_empty() { "another process" } else { holder },
            ),
            LockError::Absent { directory } => write!(
                f,
                "{} does not exist: the directory is not formatted, or not mounted; check the path, \
                 and run `quorate format` for a new node",
                directory.display()
            ),
            LockError::Io { path, source } => write!(
                f,
                "cannot lock {}: {source}; check that the directory can be written",
                path.display()
            ),
        }
    }
}

impl std::error::Error for LockError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_to_lock_learns_who_has_it_and_a_drop_frees_it() {
        let root = std::env::temp_dir().join(format!("quorate-lock-{}", process::id()));
        fs::create_dir(&root).unwrap();
        let lock = OsDisk::lock(&root, "node 1").unwrap();
        let refused = OsDisk::lock(&root, "node 2").unwrap_err();
        let LockError::Held { path, holder } = &refused else { panic!("{refused}") };
        let path = path.clone();
        assert_eq!(path, root.join(".lock"));
        assert_eq!(*holder, format!("pid {} (node 1)", process::id()));
        assert!(refused.to_string().contains(holder.as_str()), "{refused}");
        // Removing the file takes nothing from who holds it.
        fs::remove_file(&path).unwrap();
        let refused = OsDisk::lock(&root, "node 2").unwrap_err();
        assert!(refused.to_string().contains("is locked by another process"), "{refused}");
        assert!(!path.exists(), "who is refused leaves nothing");
        let refused = OsDisk::lock_to_read(&root).unwrap_err();
        assert!(refused.to_string().contains("is locked by another process"), "{refused}");
        drop(lock);
        drop(OsDisk::lock(&root, "node 2").unwrap());
        let before = fs::read(&path).unwrap();
        let lock = OsDisk::lock_to_read(&root).unwrap();
        let refused = OsDisk::lock(&root, "node 3").unwrap_err();
        assert!(refused.to_string().contains("(node 2)"), "who had it last: {refused}");
        drop(lock);
        assert!(fs::read(&path).unwrap() == before, "who reads writes nothing");
        fs::remove_file(&path).unwrap();
        let lock = OsDisk::lock_to_read(&root).unwrap();
        assert!(matches!(OsDisk::lock(&root, "node 3"), Err(LockError::Held { .. })));
        assert!(!path.exists(), "not even a lock");
        drop(lock);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_lock_never_makes_the_directory() {
        let root = std::env::temp_dir().join(format!("quorate-absent-{}", process::id()));
        let refused = OsDisk::lock(&root, "node 1").unwrap_err();
        let LockError::Absent { directory } = &refused else { panic!("{refused}") };
        assert_eq!(*directory, root);
        assert!(!root.exists());
    }
}
