//! A disk with room put aside: what a full disk lives on (docs/decisions/0008).
//!
//! [`Reserved`] passes every call on. When a write finds no room, it gives up a part of the file
//! `quorate-reserve` and goes on with the same write at the byte where it stood. The last part is
//! kept for votes. A failed sync is passed on as it is: nothing is ever synced twice. Who runs the
//! disk asks [`Reserved::is_full`] after its work and calls [`Reserved::refill`] now and then.

use crate::disk::{Disk, Mode, Operation};
use crate::file::join;
use crate::{Error, election_file, must_reach_file};
use bytes::{Buf, Bytes};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// Its name, in the partition's folder.
pub(crate) const NAME: &str = "quorate-reserve";
/// The reserve is given up in so many parts; the last one is for votes.
const PARTS: u64 = 32;

/// The last part of a reserve of so many bytes: only votes may use it.
pub fn part_for_votes(reserve: u64) -> u64 {
    reserve.div_ceil(PARTS)
}

/// A disk and its reserve. Clones share one reserve.
#[derive(Debug)]
pub struct Reserved<D: Disk> {
    disk: D,
    reserve: Arc<Mutex<Reserve<D::File>>>,
    share: Share,
}

/// How much of the reserve a handle may use up.
#[derive(Clone, Copy, Debug)]
enum Share {
    All,
    Nothing,
    /// Half, for as long as the reserve is not whole again.
    Half {
        refills: u64,
    },
}

#[derive(Debug)]
struct Reserve<F> {
    /// `None` while the disk has no room for even an empty file, and if no room is to be kept.
    file: Option<F>,
    path: String,
    dir: String,
    /// Invariant: `held <= size`, once opened: a file that is too long is cut there.
    held: u64,
    size: u64,
    /// How often it was made whole.
    refills: u64,
}

/// An open file of a [`Reserved`].
#[derive(Debug)]
pub struct ReservedFile<F> {
    file: F,
    /// Whether all of the reserve may be used for it.
    votes: bool,
    /// Its length: where an append goes on that was cut short.
    end: u64,
}

impl<D: Disk> Clone for Reserved<D> {
    fn clone(&self) -> Reserved<D> {
        Reserved { disk: self.disk.clone(), reserve: self.reserve.clone(), share: self.share }
    }
}

impl<D: Disk> Reserved<D> {
    /// Keeps `bytes` of room for the partition in `dir`, as far as there is room by now; none if
    /// that is 0. A disk that is full is no error: see [`Reserved::is_full`].
    pub fn open(mut disk: D, dir: &str, bytes: u64) -> Result<Reserved<D>, Error> {
        let path = join(dir, NAME);
        let found = match disk.open(&path, Mode::Write) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Error::io(Operation::Open, &path)(error)),
        };
        let held = match &found {
            Some(file) => disk.len(file).map_err(Error::io(Operation::Read, &path))?,
            None => 0,
        };
        let reserve =
            Reserve { file: found, path, dir: dir.to_owned(), held, size: bytes, refills: 0 };
        let reserve = Arc::new(Mutex::new(reserve));
        let mut reserved = Reserved { disk, reserve, share: Share::All };
        reserved.refill()?;
        Ok(reserved)
    }

    /// For work that can wait until there is room: it uses nothing of the reserve.
    pub fn without(&self) -> Reserved<D> {
        Reserved { share: Share::Nothing, ..self.clone() }
    }

    /// For work that may make room, such as snapshots: until the reserve is whole again it uses
    /// half of it. To be asked for only when nothing is promised any more that was not written.
    pub fn half(&self) -> Reserved<D> {
        let refills = self.lock().refills;
        Reserved { share: Share::Half { refills }, ..self.clone() }
    }

    /// Whether part of the reserve is in use, or could not be put aside yet.
    pub fn is_full(&self) -> bool {
        let reserve = self.lock();
        reserve.held < reserve.size
    }

    /// How many bytes are put aside.
    pub fn held_bytes(&self) -> u64 {
        self.lock().held
    }

    /// Makes the reserve whole, if the disk has room for all of it. True if it is whole.
    pub fn refill(&mut self) -> Result<bool, Error> {
        let mut reserve = self.reserve.lock().expect("no call panics while it holds this");
        let Reserve { file, path, dir, held, size, refills } = &mut *reserve;
        if *held == *size && (*size == 0 || file.is_some()) {
            return Ok(true);
        }
        if file.is_none() {
            match self.disk.open(path, Mode::Create) {
                Ok(new) => *file = Some(new),
                Err(error) if is_full(&error) => return Ok(false),
                Err(error) => return Err(Error::io(Operation::Open, path)(error)),
            }
            self.disk.sync_dir(dir).map_err(Error::io(Operation::SyncDir, dir))?;
        }
        let Some(file) = file else { return Ok(false) };
        match self.disk.allocate(file, *size) {
            Ok(()) => (*held, *refills) = (*size, *refills + 1),
            Err(error) if is_full(&error) => return Ok(false),
            Err(error) => return Err(Error::io(Operation::Write, path)(error)),
        }
        Ok(true)
    }

    /// Gives up enough for `bytes` more. False if what is left is not for this.
    fn give(&mut self, bytes: u64, votes: bool) -> io::Result<bool> {
        let mut reserve = self.reserve.lock().expect("no call panics while it holds this");
        let part = part_for_votes(reserve.size);
        let kept = match self.share {
            Share::All if votes => 0,
            Share::All => part,
            Share::Half { refills } if refills == reserve.refills => reserve.size / 2,
            Share::Half { .. } | Share::Nothing => return Ok(false),
        };
        let least = reserve.held.saturating_sub(bytes.saturating_add(part)).max(kept);
        let Reserve { file, held, .. } = &mut *reserve;
        let Some(file) = file.as_mut().filter(|_| least < *held) else { return Ok(false) };
        self.disk.allocate(file, least)?;
        *held = least;
        Ok(true)
    }

    fn lock(&self) -> MutexGuard<'_, Reserve<D::File>> {
        self.reserve.lock().expect("no call panics while it holds this")
    }

    /// Makes a call that needs little room, again for as long as the reserve has some.
    fn insist<T>(
        &mut self,
        votes: bool,
        mut call: impl FnMut(&mut D) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            match call(&mut self.disk) {
                Err(error) if is_full(&error) && self.give(0, votes)? => {}
                result => return result,
            }
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether a file is one without which nobody can vote.
fn is_for_votes(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let name = name.strip_suffix(crate::file::TEMPORARY).unwrap_or(name);
    // What a replica must reach decides whether it may vote at all.
    [election_file::NAME, must_reach_file::NAME].contains(&name)
}

impl<D: Disk> Disk for Reserved<D> {
    type File = ReservedFile<D::File>;

    fn open(&mut self, path: &str, mode: Mode) -> io::Result<Self::File> {
        let votes = is_for_votes(path);
        let file = self.insist(votes, |disk| disk.open(path, mode))?;
        let end = match mode {
            Mode::Read | Mode::Create => 0,
            Mode::Write => self.disk.len(&file)?,
        };
        Ok(ReservedFile { file, votes, end })
    }

    fn len(&self, file: &Self::File) -> io::Result<u64> {
        self.disk.len(&file.file)
    }

    fn read(&self, file: &Self::File, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.disk.read(&file.file, at, buffer)
    }

    fn append(&mut self, file: &mut Self::File, parts: &[Bytes]) -> io::Result<()> {
        let whole = file.end + parts.iter().map(|part| part.len() as u64).sum::<u64>();
        let mut result = self.disk.append(&mut file.file, parts);
        // Cut short, not failed: what was written stands, and the rest goes behind it.
        while let Err(error) = &result
            && is_full(error)
        {
            let len = self.disk.len(&file.file)?;
            assert!((file.end..=whole).contains(&len), "{len} bytes, of {} to {whole}", file.end);
            if !self.give(whole - len, file.votes)? {
                break;
            }
            let rest = behind(parts, len - file.end);
            result = self.disk.append(&mut file.file, &rest);
        }
        result?;
        file.end = whole;
        Ok(())
    }

    fn write_at(&mut self, file: &mut Self::File, at: u64, bytes: &[u8]) -> io::Result<()> {
        let votes = file.votes;
        self.insist(votes, |disk| disk.write_at(&mut file.file, at, bytes))
    }

    fn sync(&self, file: &Self::File) -> io::Result<()> {
        self.disk.sync(&file.file)
    }

    fn truncate(&mut self, file: &mut Self::File, len: u64) -> io::Result<()> {
        self.disk.truncate(&mut file.file, len)?;
        file.end = len;
        Ok(())
    }

    fn allocate(&mut self, file: &mut Self::File, bytes: u64) -> io::Result<()> {
        self.disk.allocate(&mut file.file, bytes)?;
        file.end = bytes;
        Ok(())
    }

    fn protect(&mut self, file: &mut Self::File) -> io::Result<()> {
        self.disk.protect(&mut file.file)
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.insist(is_for_votes(to), |disk| disk.rename(from, to))
    }

    fn remove(&mut self, path: &str) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn create_dir(&mut self, dir: &str) -> io::Result<()> {
        self.insist(false, |disk| disk.create_dir(dir))
    }

    fn sync_dir(&mut self, dir: &str) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }
}

/// The parts without their first `bytes`.
fn behind(parts: &[Bytes], mut bytes: u64) -> Vec<Bytes> {
    let mut rest = Vec::with_capacity(parts.len());
    for part in parts {
        let mut part = part.clone();
        let gone = part.len().min(usize::try_from(bytes).unwrap_or(usize::MAX));
        part.advance(gone);
        bytes -= gone as u64;
        if !part.is_empty() {
            rest.push(part);
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDisk;

    const SIZE: u64 = 3_200;
    const PART: u64 = SIZE / PARTS;

    fn open(disk: &MemoryDisk) -> Reserved<MemoryDisk> {
        Reserved::open(disk.clone(), "", SIZE).unwrap()
    }

    fn bytes(count: usize) -> Vec<Bytes> {
        let all: Bytes = (0..count).map(|at| (at % 251) as u8).collect();
        vec![all.slice(..count / 3), Bytes::new(), all.slice(count / 3..)]
    }

    #[test]
    fn a_write_cut_short_goes_on_where_it_stood_whatever_the_room() {
        for room in 0..310 {
            let disk = MemoryDisk::default();
            let mut reserved = open(&disk);
            let mut file = reserved.open("log", Mode::Create).unwrap();
            reserved.append(&mut file, &bytes(10)).unwrap();
            disk.limit_room(Some(room));
            reserved.append(&mut file, &bytes(300)).unwrap();
            let expected = [bytes(10).concat(), bytes(300).concat()].concat();
            assert_eq!(disk.contents("log").unwrap(), expected, "with {room} bytes of room");
            assert_eq!(reserved.is_full(), room < 300, "with {room} bytes of room");
            reserved.append(&mut file, &bytes(9)).unwrap();
            assert_eq!(disk.contents("log").unwrap().len(), 319);
        }
    }

    #[test]
    fn the_last_part_is_for_votes_only() {
        let disk = MemoryDisk::default();
        let mut reserved = open(&disk);
        let mut file = reserved.open("log", Mode::Create).unwrap();
        disk.limit_room(Some(0));
        let fits = (SIZE - PART) as usize;
        reserved.append(&mut file, &bytes(fits)).unwrap();
        assert_eq!(reserved.held_bytes(), PART);
        let refused = reserved.append(&mut file, &bytes(1)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
        let mut vote = reserved.open("p/quorum-state.tmp", Mode::Create).unwrap_err();
        assert_eq!(vote.kind(), io::ErrorKind::NotFound, "no such folder");
        let mut file = reserved.open("quorum-state.tmp", Mode::Create).unwrap();
        reserved.append(&mut file, &bytes(PART as usize)).unwrap();
        assert_eq!(reserved.held_bytes(), 0);
        vote = reserved.append(&mut file, &bytes(1)).unwrap_err();
        assert_eq!(vote.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn work_that_can_wait_gets_nothing_and_work_that_makes_room_half_until_it_is_whole_again() {
        let disk = MemoryDisk::default();
        let mut reserved = open(&disk);
        let mut log = reserved.open("log", Mode::Create).unwrap();
        disk.limit_room(Some(0));
        reserved.append(&mut log, &bytes(10)).unwrap();
        let (mut none, mut half) = (reserved.without(), reserved.half());
        let mut file = none.open("a", Mode::Create).unwrap();
        // What the write to the log gave up beyond its own need is there for anybody.
        let left = (SIZE - reserved.held_bytes() - 10) as usize;
        none.append(&mut file, &bytes(left)).unwrap();
        let held = reserved.held_bytes();
        none.append(&mut file, &bytes(1)).unwrap_err();
        assert_eq!(reserved.held_bytes(), held);
        let mut file = half.open("b", Mode::Create).unwrap();
        half.append(&mut file, &bytes((held - SIZE / 2) as usize)).unwrap();
        assert_eq!(reserved.held_bytes(), SIZE / 2);
        half.append(&mut file, &bytes(1)).unwrap_err();
        reserved.append(&mut log, &bytes(1)).unwrap();
        disk.limit_room(None);
        assert!(reserved.refill().unwrap());
        disk.limit_room(Some(0));
        half.append(&mut file, &bytes(1)).unwrap_err();
        assert!(!reserved.is_full(), "what was promised since has all of it");
    }

    #[test]
    fn it_is_whole_again_once_there_is_room_for_all_of_it() {
        let disk = MemoryDisk::default();
        let mut reserved = open(&disk);
        assert!(!reserved.is_full());
        let mut file = reserved.open("log", Mode::Create).unwrap();
        disk.limit_room(Some(0));
        reserved.append(&mut file, &bytes(10)).unwrap();
        let held = reserved.held_bytes();
        assert!(held < SIZE && reserved.is_full());
        disk.limit_room(Some(SIZE - held - 1));
        assert!(!reserved.refill().unwrap());
        assert_eq!(reserved.held_bytes(), held, "room for others is left to them");
        disk.limit_room(Some(SIZE - held));
        assert!(reserved.refill().unwrap());
        assert!(!reserved.is_full());
    }

    #[test]
    fn a_disk_that_is_full_at_the_start_has_what_was_put_aside_before() {
        let disk = MemoryDisk::default();
        let mut reserved = open(&disk);
        let mut file = reserved.open("log", Mode::Create).unwrap();
        disk.limit_room(Some(0));
        reserved.append(&mut file, &bytes(10)).unwrap();
        let held = reserved.held_bytes();
        disk.kill();
        disk.limit_room(Some(0));
        let again = open(&disk);
        assert_eq!((again.held_bytes(), again.is_full()), (held, true));
        let fresh = MemoryDisk::default();
        fresh.limit_room(Some(5));
        let none = open(&fresh);
        assert_eq!((none.held_bytes(), none.is_full()), (0, true));
    }

    #[test]
    fn a_failed_sync_is_not_tried_again() {
        let disk = MemoryDisk::default();
        let mut reserved = open(&disk);
        let mut file = reserved.open("log", Mode::Create).unwrap();
        reserved.append(&mut file, &bytes(10)).unwrap();
        let before = disk.count(Operation::Sync);
        disk.fail_next(Operation::Sync);
        reserved.sync(&file).unwrap_err();
        assert_eq!(disk.count(Operation::Sync), before + 1);
    }
}
