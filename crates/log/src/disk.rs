//! What the log asks of a disk: the lower of the two seams of the product.
//!
//! Paths are relative to one root directory and use `/`. Calls block. Written bytes are in the page
//! cache only: [`Disk::sync`] returning is the only proof that a file's bytes survive a crash, and
//! [`Disk::sync_dir`] that a name does. A failed sync is never tried again: what it left behind is
//! unknown, so the caller must stop.

use bytes::Bytes;
use std::io;

/// How to open a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// To read; the file must exist.
    Read,
    /// To read and write what is there; the file must exist. Appends go to its end.
    Write,
    /// To write a file that is empty at first, whether or not one of this name existed.
    Create,
}

/// One directory tree. A handle is cheap to clone, and every thread has its own.
pub trait Disk: Clone + Send {
    /// An open file.
    type File: Send;

    /// Opens a file.
    fn open(&mut self, path: &str, mode: Mode) -> io::Result<Self::File>;

    /// Its length in bytes.
    fn len(&self, file: &Self::File) -> io::Result<u64>;

    /// Reads at a position; fewer bytes than asked for only where the file ends.
    fn read(&self, file: &Self::File, at: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes all parts, one after the other, to the end of the file.
    fn append(&mut self, file: &mut Self::File, parts: &[Bytes]) -> io::Result<()>;

    /// Writes at a position, which may lie beyond the end. For files that are never appended to.
    fn write_at(&mut self, file: &mut Self::File, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes the bytes and the length of the file durable.
    fn sync(&self, file: &Self::File) -> io::Result<()>;

    /// Cuts the file to `len` bytes; the next append goes there.
    fn truncate(&mut self, file: &mut Self::File, len: u64) -> io::Result<()>;

    /// Makes the file `bytes` long with room for all of it on the disk, or gives room up. Bytes
    /// that were not written read as zeros. If there is no room the file is as it was.
    fn allocate(&mut self, file: &mut Self::File, bytes: u64) -> io::Result<()>;

    /// Says that this file, which is whole, is never to be written again, as far as the disk can
    /// keep that; its name can still be changed and taken away. A disk around another passes it on.
    fn protect(&mut self, _file: &mut Self::File) -> io::Result<()> {
        Ok(())
    }

    /// Gives a file another name in the same directory, replacing what had it; durable after
    /// [`Disk::sync_dir`].
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;

    /// Takes a file's name away; durable after [`Disk::sync_dir`].
    fn remove(&mut self, path: &str) -> io::Result<()>;

    /// The names in a directory, sorted; `""` is the root.
    fn list(&self, dir: &str) -> io::Result<Vec<String>>;

    /// Makes a directory; no error if it exists.
    fn create_dir(&mut self, dir: &str) -> io::Result<()>;

    /// Makes the names in a directory durable.
    fn sync_dir(&mut self, dir: &str) -> io::Result<()>;
}

/// The names of the calls, for errors, counters and faults.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Operation {
    /// [`Disk::open`]
    Open,
    /// [`Disk::read`] and [`Disk::len`]
    Read,
    /// [`Disk::append`], [`Disk::write_at`] and [`Disk::allocate`]
    Write,
    /// [`Disk::sync`]
    Sync,
    /// [`Disk::truncate`]
    Truncate,
    /// [`Disk::rename`]
    Rename,
    /// [`Disk::remove`]
    Remove,
    /// [`Disk::list`]
    List,
    /// [`Disk::create_dir`]
    CreateDir,
    /// [`Disk::sync_dir`]
    SyncDir,
}

impl Operation {
    /// A verb for messages: "cannot {verb} {path}".
    pub fn verb(self) -> &'static str {
        match self {
            Operation::Open => "open",
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Sync => "sync",
            Operation::Truncate => "truncate",
            Operation::Rename => "rename",
            Operation::Remove => "remove",
            Operation::List => "list",
            Operation::CreateDir => "create directory",
            Operation::SyncDir => "sync directory",
        }
    }
}
