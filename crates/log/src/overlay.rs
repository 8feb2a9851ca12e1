//! A disk that takes all changes and leaves the disk below as it is: what would become of a
//! directory, before anything is done to it.
//!
//! Changes lie in memory, and of a file that is cut or appended to only what is new. A file that is
//! opened for writing and not written has not changed. Syncs do nothing, for nothing is to last.

use crate::disk::{Disk, Mode};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A disk as it would be. Clones share the changes.
#[derive(Debug)]
pub struct Overlay<D: Disk> {
    disk: D,
    state: Arc<Mutex<State<D::File>>>,
}

#[derive(Debug)]
struct State<F> {
    /// Files that were opened for writing, renamed, made or removed (`None`), by path.
    files: BTreeMap<String, Option<Shared<F>>>,
    /// Directories that were made.
    dirs: BTreeSet<String>,
}

/// An open file of an [`Overlay`].
#[derive(Debug)]
pub struct OverlayFile<F>(Shared<F>);

type Shared<F> = Arc<Mutex<Layered<F>>>;

/// The first bytes of a file below, then bytes of its own.
#[derive(Debug)]
struct Layered<F> {
    below: Option<F>,
    /// So many bytes of `below` still count.
    kept: u64,
    own: Vec<u8>,
    changed: bool,
}

impl<F> Layered<F> {
    fn empty() -> Layered<F> {
        Layered { below: None, kept: 0, own: Vec::new(), changed: true }
    }

    fn len(&self) -> u64 {
        self.kept + self.own.len() as u64
    }
}

impl<D: Disk> Clone for Overlay<D> {
    fn clone(&self) -> Overlay<D> {
        Overlay { disk: self.disk.clone(), state: self.state.clone() }
    }
}

impl<D: Disk> Overlay<D> {
    /// Nothing has changed yet.
    pub fn new(disk: D) -> Overlay<D> {
        let state = State { files: BTreeMap::new(), dirs: BTreeSet::new() };
        Overlay { disk, state: Arc::new(Mutex::new(state)) }
    }

    /// The files that are there no more, are new, or hold other bytes, by path; what was renamed
    /// under both names.
    pub fn changed(&self) -> Vec<String> {
        let state = lock(&self.state);
        let changed = state.files.iter().filter(|(_, file)| match file {
            None => true,
            Some(file) => lock(file).changed,
        });
        changed.map(|(path, _)| path.clone()).collect()
    }

    fn below(&self, path: &str) -> io::Result<Layered<D::File>> {
        let mut disk = self.disk.clone();
        let file = disk.open(path, Mode::Read)?;
        let kept = disk.len(&file)?;
        Ok(Layered { below: Some(file), kept, own: Vec::new(), changed: false })
    }

    /// The file of this path as it is by now.
    fn find(&self, path: &str) -> io::Result<Shared<D::File>> {
        match lock(&self.state).files.get(path) {
            Some(Some(file)) => Ok(file.clone()),
            Some(None) => Err(io::ErrorKind::NotFound.into()),
            None => Ok(Arc::new(Mutex::new(self.below(path)?))),
        }
    }

    /// Fills the buffer from both layers; fewer bytes only where the file ends.
    fn read_layered(
        &self,
        file: &Layered<D::File>,
        at: u64,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        let mut filled = 0;
        if let Some(below) = &file.below
            && at < file.kept
        {
            let want = (file.kept - at).min(buffer.len() as u64) as usize;
            filled = self.disk.read(below, at, &mut buffer[..want])?;
            if filled < want {
                return Ok(filled);
            }
        }
        let from = (at + filled as u64).saturating_sub(file.kept);
        let own = file.own.get(from as usize..).unwrap_or_default();
        let count = own.len().min(buffer.len() - filled);
        buffer[filled..filled + count].copy_from_slice(&own[..count]);
        Ok(filled + count)
    }
}

/// What a thread that panicked left is as good as any state.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<D: Disk> Disk for Overlay<D> {
    type File = OverlayFile<D::File>;

    fn open(&mut self, path: &str, mode: Mode) -> io::Result<Self::File> {
        let file = match mode {
            Mode::Read => return self.find(path).map(OverlayFile),
            Mode::Write => self.find(path)?,
            Mode::Create => Arc::new(Mutex::new(Layered::empty())),
        };
        lock(&self.state).files.insert(path.to_owned(), Some(file.clone()));
        Ok(OverlayFile(file))
    }

    fn len(&self, file: &Self::File) -> io::Result<u64> {
        Ok(lock(&file.0).len())
    }

    fn read(&self, file: &Self::File, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_layered(&lock(&file.0), at, buffer)
    }

    fn append(&mut self, file: &mut Self::File, parts: &[Bytes]) -> io::Result<()> {
        let mut file = lock(&file.0);
        file.changed = true;
        parts.iter().for_each(|part| file.own.extend_from_slice(part));
        Ok(())
    }

    fn write_at(&mut self, file: &mut Self::File, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut file = lock(&file.0);
        if at < file.kept {
            let mut moved = vec![0; (file.kept - at) as usize];
            let read = self.read_layered(&file, at, &mut moved)?;
            moved.truncate(read);
            file.own.splice(..0, moved);
            file.kept = at;
        }
        let from = (at - file.kept) as usize;
        let end = from + bytes.len();
        if file.own.len() < end {
            file.own.resize(end, 0);
        }
        file.own[from..end].copy_from_slice(bytes);
        file.changed = true;
        Ok(())
    }

    fn sync(&self, _file: &Self::File) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&mut self, file: &mut Self::File, len: u64) -> io::Result<()> {
        let mut file = lock(&file.0);
        file.changed |= len != file.len();
        file.kept = file.kept.min(len);
        let own = (len - file.kept) as usize;
        file.own.resize(own, 0);
        Ok(())
    }

    fn allocate(&mut self, file: &mut Self::File, bytes: u64) -> io::Result<()> {
        self.truncate(file, bytes)
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let file = self.find(from)?;
        lock(&file).changed = true;
        let mut state = lock(&self.state);
        state.files.insert(from.to_owned(), None);
        state.files.insert(to.to_owned(), Some(file));
        Ok(())
    }

    fn remove(&mut self, path: &str) -> io::Result<()> {
        self.find(path)?;
        lock(&self.state).files.insert(path.to_owned(), None);
        Ok(())
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let state = lock(&self.state);
        let mut names: BTreeSet<String> = match self.disk.list(dir) {
            Ok(names) => names.into_iter().collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound && state.dirs.contains(dir) => {
                BTreeSet::new()
            }
            Err(error) => return Err(error),
        };
        let split = |path: &str| match path.rsplit_once('/') {
            Some((dir, name)) => (dir.to_owned(), name.to_owned()),
            None => (String::new(), path.to_owned()),
        };
        for (path, file) in &state.files {
            let (of, name) = split(path);
            if of == dir && file.is_some() {
                names.insert(name);
            } else if of == dir {
                names.remove(&name);
            }
        }
        let made = state.dirs.iter().map(|made| split(made)).filter(|(of, _)| of == dir);
        names.extend(made.map(|(_, name)| name));
        Ok(names.into_iter().collect())
    }

    fn create_dir(&mut self, dir: &str) -> io::Result<()> {
        lock(&self.state).dirs.insert(dir.to_owned());
        Ok(())
    }

    fn sync_dir(&mut self, _dir: &str) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDisk;

    fn text(disk: &mut Overlay<MemoryDisk>, path: &str) -> String {
        let file = disk.open(path, Mode::Read).unwrap();
        let mut bytes = vec![0; disk.len(&file).unwrap() as usize];
        assert_eq!(disk.read(&file, 0, &mut bytes).unwrap(), bytes.len());
        // A read that begins in one layer and ends in the other, or behind the end.
        for at in 0..=bytes.len() {
            let mut rest = vec![0; bytes.len() + 3];
            let read = disk.read(&file, at as u64, &mut rest).unwrap();
            assert_eq!(rest[..read], bytes[at..], "{path} from {at}");
        }
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn what_is_written_is_seen_above_and_not_below() {
        let mut below = MemoryDisk::default();
        below.create_dir("d").unwrap();
        for name in ["same", "cut", "patched", "gone", "moved"] {
            below.put(&format!("d/{name}"), b"0123456789");
        }
        let before = below.fork();
        let mut disk = Overlay::new(below);
        let opened = disk.open("d/same", Mode::Write).unwrap();
        drop(opened);
        let mut cut = disk.open("d/cut", Mode::Write).unwrap();
        disk.truncate(&mut cut, 4).unwrap();
        disk.append(&mut cut, &[Bytes::from("ab"), Bytes::from("c")]).unwrap();
        let mut patched = disk.open("d/patched", Mode::Write).unwrap();
        disk.write_at(&mut patched, 8, b"xyz").unwrap();
        disk.write_at(&mut patched, 2, b"!").unwrap();
        disk.write_at(&mut patched, 12, b"?").unwrap();
        disk.remove("d/gone").unwrap();
        disk.rename("d/moved", "d/there").unwrap();
        disk.create_dir("e").unwrap();
        disk.open("e/new", Mode::Create).unwrap();

        assert_eq!(text(&mut disk, "d/same"), "0123456789");
        assert_eq!(text(&mut disk, "d/cut"), "0123abc");
        assert_eq!(text(&mut disk, "d/patched"), "01!34567xyz\0?");
        assert_eq!(text(&mut disk, "d/there"), "0123456789");
        assert_eq!(text(&mut disk, "e/new"), "");
        for path in ["d/gone", "d/moved", "d/never"] {
            let kind = disk.open(path, Mode::Read).unwrap_err().kind();
            assert_eq!(kind, io::ErrorKind::NotFound, "{path}");
            assert!(disk.remove(path).is_err(), "{path}");
        }
        assert_eq!(disk.list("d").unwrap(), ["cut", "patched", "same", "there"]);
        assert_eq!(disk.list("").unwrap(), ["d", "e"]);
        assert_eq!(disk.list("e").unwrap(), ["new"]);
        let changed = ["d/cut", "d/gone", "d/moved", "d/patched", "d/there", "e/new"];
        assert_eq!(disk.changed(), changed);

        let mut untouched = Overlay::new(before);
        assert_eq!(untouched.list("").unwrap(), ["d"]);
        for name in ["same", "cut", "patched", "gone", "moved"] {
            assert_eq!(text(&mut untouched, &format!("d/{name}")), "0123456789");
        }
    }
}
