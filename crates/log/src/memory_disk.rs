//! A disk in memory that forgets what was not synced: for tests and the simulator.
//!
//! It keeps two states apart: the page cache, which every handle sees, and what is durable. A
//! file's unsynced writes and cuts, and a directory's unsynced names, wait in a list.
//! [`MemoryDisk::crash`] lets a seeded part of each list survive: names in order, as journals keep
//! them, and of file bytes any set of sectors, because nothing orders those; a sector that is
//! written over is never torn (`memory_inode.rs`). Clones share one state; after a crash or a kill
//! open files are stale and refuse every call, as those of a dead process would.

use crate::disk::{Disk, Mode, Operation};
use crate::memory_inode::{Edit, Inode, torn};
use bytes::Bytes;
use quorate_base::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// The disk; the default one is empty.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk {
    state: Arc<Mutex<State>>,
}

/// An open file of a [`MemoryDisk`].
#[derive(Debug)]
pub struct MemoryFile {
    inode: usize,
    path: String,
    /// Number of crashes before it was opened.
    life: u64,
}

#[derive(Debug, Default)]
struct State {
    inodes: Vec<Inode>,
    /// The page cache's view of the directories.
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    dirs: BTreeSet<String>,
    durable_dirs: BTreeSet<String>,
    /// Changes of names since their directory was synced, oldest first.
    unsynced_names: Vec<Change>,
    life: u64,
    faults: Faults,
    counts: BTreeMap<Operation, u64>,
}

#[derive(Debug, Default)]
struct Faults {
    /// The next call of this kind fails.
    next: Option<Operation>,
    /// Bytes that still fit.
    room: Option<u64>,
    /// Steps until the power fails: a byte written is one, any other change is one.
    power: Option<u64>,
}

#[derive(Clone, Debug)]
enum Change {
    Link { path: String, inode: usize },
    Rename { from: String, to: String },
    Remove { path: String },
    MakeDir { path: String },
}

/// Every directory and file by its path.
struct Names<'a> {
    files: &'a mut BTreeMap<String, usize>,
    dirs: &'a mut BTreeSet<String>,
}

impl MemoryDisk {
    /// The next call of this kind fails, once; the call does nothing.
    pub fn fail_next(&self, operation: Operation) {
        self.lock().faults.next = Some(operation);
    }

    /// The disk is full after so many more bytes; `None` lifts the limit. A write that does not fit
    /// leaves what does; allocated room that is given up is room again.
    pub fn limit_room(&self, bytes: Option<u64>) {
        self.lock().faults.room = bytes;
    }

    /// The power fails after so many more steps: each byte written and each other change is one.
    /// From then on every call fails until a crash or [`MemoryDisk::kill`].
    pub fn limit_power(&self, steps: Option<u64>) {
        self.lock().faults.power = steps;
    }

    /// No fault is in force any more: room, power and calls are as in the beginning.
    pub fn heal(&self) {
        self.lock().faults = Faults::default();
    }

    /// The steps left of [`MemoryDisk::limit_power`].
    pub fn power(&self) -> Option<u64> {
        self.lock().faults.power
    }

    /// Flips a bit, in the page cache and on the medium. Panics if the file has no such byte.
    pub fn flip_bit(&self, path: &str, at: usize, bit: u32) {
        let mut state = self.lock();
        let inode = state.names[path];
        let inode = &mut state.inodes[inode];
        inode.cache[at] ^= 1 << bit;
        if let Some(byte) = inode.durable.get_mut(at) {
            *byte ^= 1 << bit;
        }
        // What is written later must not bring the bit back.
        if !inode.unsynced.is_empty() {
            let bytes = vec![inode.cache[at]];
            inode.unsynced.push(Edit::Write { at, bytes });
        }
    }

    /// How many calls of this kind there were.
    pub fn count(&self, operation: Operation) -> u64 {
        self.lock().counts.get(&operation).copied().unwrap_or(0)
    }

    /// A file as the page cache has it.
    pub fn contents(&self, path: &str) -> Option<Vec<u8>> {
        let state = self.lock();
        let inode = *state.names.get(path)?;
        Some(state.inodes[inode].cache.clone())
    }

    /// Puts a file there, durably.
    pub fn put(&self, path: &str, bytes: &[u8]) {
        let mut state = self.lock();
        let inode = state.inodes.len();
        let (cache, durable) = (bytes.to_vec(), bytes.to_vec());
        state.inodes.push(Inode { cache, durable, ..Inode::default() });
        state.names.insert(path.to_owned(), inode);
        state.durable_names.insert(path.to_owned(), inode);
        let mut dir = dir_of(path);
        while !dir.is_empty() {
            state.dirs.insert(dir.to_owned());
            state.durable_dirs.insert(dir.to_owned());
            dir = dir_of(dir);
        }
    }

    /// A copy that shares nothing with this disk.
    pub fn fork(&self) -> MemoryDisk {
        let state = self.lock();
        let copy = State {
            inodes: state.inodes.clone(),
            names: state.names.clone(),
            durable_names: state.durable_names.clone(),
            dirs: state.dirs.clone(),
            durable_dirs: state.durable_dirs.clone(),
            unsynced_names: state.unsynced_names.clone(),
            life: state.life,
            faults: Faults::default(),
            counts: BTreeMap::new(),
        };
        MemoryDisk { state: Arc::new(Mutex::new(copy)) }
    }

    /// The process dies: open files are gone, all that was written stays.
    pub fn kill(&self) {
        self.lock().reboot();
    }

    /// The power fails, and nothing that was not synced survives.
    pub fn lose_unsynced(&self) {
        let mut state = self.lock();
        for inode in &mut state.inodes {
            inode.cache.clone_from(&inode.durable);
            inode.unsynced.clear();
        }
        state.unsynced_names.clear();
        state.lose_names();
        state.reboot();
    }

    /// The power fails, and some of what was not synced survives.
    pub fn crash(&self, rng: &mut Rng) {
        let mut state = self.lock();
        let state = &mut *state;
        let kept = rng.below(state.unsynced_names.len() as u64 + 1) as usize;
        let (files, dirs) = (&mut state.durable_names, &mut state.durable_dirs);
        let mut names = Names { files, dirs };
        state.unsynced_names[..kept].iter().for_each(|change| names.apply(change));
        state.unsynced_names.clear();
        state.lose_names();
        for inode in &mut state.inodes {
            inode.crash(rng);
        }
        state.reboot();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no call panics while it holds this")
    }

    /// Counts a call and lets it fail if it must.
    fn enter(&self, operation: Operation) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.lock();
        *state.counts.entry(operation).or_default() += 1;
        if state.faults.power == Some(0) {
            return Err(io::Error::other("the power is off"));
        }
        if state.faults.next == Some(operation) {
            state.faults.next = None;
            return Err(io::Error::other("made to fail"));
        }
        Ok(state)
    }

    fn enter_file(
        &self,
        operation: Operation,
        file: &MemoryFile,
    ) -> io::Result<MutexGuard<'_, State>> {
        let state = self.enter(operation)?;
        if file.life != state.life {
            let path = &file.path;
            return Err(io::Error::other(format!("{path} was opened before the last crash")));
        }
        Ok(state)
    }
}

impl State {
    fn reboot(&mut self) {
        self.life += 1;
        self.faults = Faults::default();
    }

    /// One step of power for a change that is not a write.
    fn step(&mut self) {
        if let Some(power) = &mut self.faults.power {
            *power -= 1;
        }
    }

    fn find(&self, path: &str) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Names are what is durable; those in a directory that is not are lost with it.
    fn lose_names(&mut self) {
        let dirs = &mut self.durable_dirs;
        while let Some(lost) = dirs.iter().find(|dir| !has_dir(dirs, dir_of(dir))).cloned() {
            dirs.remove(&lost);
        }
        let dirs = &self.durable_dirs;
        self.durable_names.retain(|path, _| has_dir(dirs, dir_of(path)));
        self.names.clone_from(&self.durable_names);
        self.dirs.clone_from(&self.durable_dirs);
    }

    fn change(&mut self, change: Change) {
        Names { files: &mut self.names, dirs: &mut self.dirs }.apply(&change);
        self.unsynced_names.push(change);
        self.step();
    }

    /// Writes as much as room and power allow.
    fn write(&mut self, inode: usize, at: usize, bytes: &[u8]) -> io::Result<()> {
        let grows = (at + bytes.len()).saturating_sub(self.inodes[inode].cache.len()) as u64;
        let fits = match self.faults.room {
            Some(room) if grows > room => bytes.len() - (grows - room) as usize,
            Some(_) | None => bytes.len(),
        };
        let powered = self.faults.power.map_or(fits, |power| fits.min(power as usize));
        let inode = &mut self.inodes[inode];
        let written = &bytes[..torn(at, fits, powered, inode.cache.len())];
        inode.edit(Edit::Write { at, bytes: written.to_vec() });
        if let Some(room) = &mut self.faults.room {
            *room -= grows.min(*room);
        }
        if let Some(power) = &mut self.faults.power {
            *power -= powered as u64;
        }
        if powered < fits {
            return Err(io::Error::other("the power fails"));
        }
        if fits < bytes.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

impl Names<'_> {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Link { path, inode } => drop(self.files.insert(path.clone(), *inode)),
            Change::Rename { from, to } => {
                if let Some(inode) = self.files.remove(from) {
                    self.files.insert(to.clone(), inode);
                }
            }
            Change::Remove { path } => drop(self.files.remove(path)),
            Change::MakeDir { path } => drop(self.dirs.insert(path.clone())),
        }
    }
}

/// The root is always there.
fn has_dir(dirs: &BTreeSet<String>, dir: &str) -> bool {
    dir.is_empty() || dirs.contains(dir)
}

fn dir_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

impl Disk for MemoryDisk {
    type File = MemoryFile;

    fn open(&mut self, path: &str, mode: Mode) -> io::Result<MemoryFile> {
        let mut state = self.enter(Operation::Open)?;
        let inode = match (state.find(path), mode) {
            (Ok(inode), Mode::Read | Mode::Write) => inode,
            (Ok(inode), Mode::Create) => {
                state.inodes[inode].edit(Edit::Truncate { len: 0 });
                state.step();
                inode
            }
            (Err(error), Mode::Read | Mode::Write) => return Err(error),
            (Err(error), Mode::Create) => {
                let dir = dir_of(path);
                if !has_dir(&state.dirs, dir) {
                    return Err(error);
                }
                let inode = state.inodes.len();
                state.inodes.push(Inode::default());
                state.change(Change::Link { path: path.to_owned(), inode });
                inode
            }
        };
        Ok(MemoryFile { inode, path: path.to_owned(), life: state.life })
    }

    fn len(&self, file: &MemoryFile) -> io::Result<u64> {
        let state = self.enter_file(Operation::Read, file)?;
        let inode = &state.inodes[file.inode];
        Ok((inode.cache.len() as u64).max(inode.allocated))
    }

    fn read(&self, file: &MemoryFile, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let state = self.enter_file(Operation::Read, file)?;
        let cache = &state.inodes[file.inode].cache;
        let bytes = cache.get(at as usize..).unwrap_or(&[]);
        let count = bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn append(&mut self, file: &mut MemoryFile, parts: &[Bytes]) -> io::Result<()> {
        let mut state = self.enter_file(Operation::Write, file)?;
        for part in parts {
            let at = state.inodes[file.inode].cache.len();
            state.write(file.inode, at, part)?;
        }
        Ok(())
    }

    fn write_at(&mut self, file: &mut MemoryFile, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.enter_file(Operation::Write, file)?.write(file.inode, at as usize, bytes)
    }

    fn sync(&self, file: &MemoryFile) -> io::Result<()> {
        let mut state = self.enter_file(Operation::Sync, file)?;
        state.inodes[file.inode].sync();
        state.step();
        Ok(())
    }

    fn truncate(&mut self, file: &mut MemoryFile, len: u64) -> io::Result<()> {
        let mut state = self.enter_file(Operation::Truncate, file)?;
        state.inodes[file.inode].edit(Edit::Truncate { len: len as usize });
        state.step();
        Ok(())
    }

    fn allocate(&mut self, file: &mut MemoryFile, bytes: u64) -> io::Result<()> {
        let mut state = self.enter_file(Operation::Write, file)?;
        let before = state.inodes[file.inode].allocated;
        let left = |room: u64| (room + before).checked_sub(bytes).ok_or(io::ErrorKind::StorageFull);
        state.faults.room = state.faults.room.map(left).transpose()?;
        state.inodes[file.inode].allocated = bytes;
        state.step();
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.enter(Operation::Rename)?;
        state.find(from)?;
        assert_eq!(dir_of(from), dir_of(to), "renames stay in their directory");
        state.change(Change::Rename { from: from.to_owned(), to: to.to_owned() });
        Ok(())
    }

    fn remove(&mut self, path: &str) -> io::Result<()> {
        let mut state = self.enter(Operation::Remove)?;
        state.find(path)?;
        state.change(Change::Remove { path: path.to_owned() });
        Ok(())
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let state = self.enter(Operation::List)?;
        if !has_dir(&state.dirs, dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let paths = state.names.keys().chain(&state.dirs).filter(|path| dir_of(path) == dir);
        let mut names: Vec<String> =
            paths.filter_map(|path| path.rsplit('/').next()).map(str::to_owned).collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    fn create_dir(&mut self, dir: &str) -> io::Result<()> {
        let mut state = self.enter(Operation::CreateDir)?;
        if !has_dir(&state.dirs, dir) {
            state.change(Change::MakeDir { path: dir.to_owned() });
        }
        Ok(())
    }

    fn sync_dir(&mut self, dir: &str) -> io::Result<()> {
        let mut state = self.enter(Operation::SyncDir)?;
        let state = &mut *state;
        let (files, dirs) = (&mut state.durable_names, &mut state.durable_dirs);
        let mut names = Names { files, dirs };
        for change in std::mem::take(&mut state.unsynced_names) {
            let path = match &change {
                Change::Link { path, .. } | Change::Remove { path } | Change::MakeDir { path } => {
                    path
                }
                Change::Rename { to, .. } => to,
            };
            if dir_of(path) == dir {
                names.apply(&change);
            } else {
                state.unsynced_names.push(change);
            }
        }
        state.step();
        Ok(())
    }
}
