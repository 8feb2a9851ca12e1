//! `quorate-synced`: up to where the log was surely on disk. A file of our own; Kafka ignores it.
//!
//! After a crash the last batches may be torn, and cutting them is right: nobody was promised what
//! was never synced. The same damage lower down means that the disk lost what it had confirmed, and
//! cutting there would silently take back promises. The mark tells the two apart.
//!
//! It is written after a sync of the log returned and is not synced itself (one small write a
//! group); it is lowered in both slots, and synced, before a truncation begins. So *whatever mark
//! is found was true*: all below it was durable and has not been cut since. After a kill of the
//! process the page cache lives on, and the mark is that of the last sync that returned. After a
//! power loss an older one may be found: damage between it and the last sync is then taken for a
//! torn tail. That window is as long as the system keeps a dirty page (about 30 s on Linux), and
//! needs a power loss and a failing disk in it.
//!
//! Two slots, 4096 bytes apart so that no device tears both with one write, used in turn; the valid
//! one with the higher sequence counts. Each lies within one sector, which a device writes whole or
//! not at all.
//!
//! A slot also says whether the log owes records: whether `quorate-must-reach` is to be there. Its
//! loss would set a replica free to vote that has forgotten what it confirmed.

use crate::disk::{Disk, Mode, Operation};
use crate::file::{join, read_file, replace_file};
use crate::{Error, must_reach_file};
use bytes::{BufMut, Bytes};
use quorate_base::Offset;

/// Its name.
pub(crate) const NAME: &str = "quorate-synced";
/// Distance between the slots.
const SPACING: usize = 4096;
const SLOT_BYTES: usize = 44;
const MAGIC: [u8; 7] = *b"quorate";
/// The byte behind: a mark, and a mark of a log that owes records.
const PLAIN: u8 = 1;
const OWING: u8 = 3;

/// All of the log below here was durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// Base offset of the segment that holds `end`.
    pub segment: Offset,
    /// End offset of what was durable.
    pub end: Offset,
    /// Where that end lies in the segment's file, in bytes.
    pub position: u64,
}

/// What the file says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// The newest mark, its sequence, and whether the log owes records.
    Mark(Mark, u64, bool),
    /// No file: the directory was never ours.
    Missing,
    /// A file without a valid slot, or with one that was one: which of the two counted is not
    /// known, so nothing may be cut.
    Unreadable,
}

pub(crate) fn read<D: Disk>(disk: &mut D, dir: &str) -> Result<Found, Error> {
    let Some(bytes) = read_file(disk, &join(dir, NAME))? else { return Ok(Found::Missing) };
    // A device leaves the old slot or the new one; what is neither, nor never written, has rotted.
    let rotten = |at: usize| {
        let slot = bytes.get(at..).unwrap_or_default();
        let slot = &slot[..slot.len().min(SLOT_BYTES)];
        Slot::decode(slot).is_none() && slot.iter().any(|byte| *byte != 0)
    };
    if [0, SPACING].into_iter().any(rotten) {
        return Ok(Found::Unreadable);
    }
    let newest = slots(&bytes).into_iter().flatten().max_by_key(|slot| slot.sequence);
    Ok(newest.map_or(Found::Unreadable, |Slot { mark, sequence, owing }| {
        Found::Mark(mark, sequence, owing)
    }))
}

/// What a slot holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    pub mark: Mark,
    /// One more with each write.
    pub sequence: u64,
    /// `quorate-must-reach` is to be there.
    pub owing: bool,
}

/// The slots that are valid.
pub(crate) fn slots(bytes: &[u8]) -> [Option<Slot>; 2] {
    [0, SPACING].map(|at| bytes.get(at..).and_then(Slot::decode))
}

/// Makes the file anew, durably; the slot that is written next is the empty one.
pub(crate) fn create<D: Disk>(disk: &mut D, dir: &str, mark: Mark) -> Result<(), Error> {
    let owing = must_reach_file::read(disk, dir)?.is_some();
    replace_file(disk, dir, NAME, &image(Slot { mark, sequence: 0, owing }))
}

/// Notes in a file that holds a mark whether the log owes records, durably.
pub(crate) fn note_owing<D: Disk>(disk: &mut D, dir: &str, owing: bool) -> Result<(), Error> {
    match read(disk, dir)? {
        Found::Mark(_, _, noted) if noted == owing => Ok(()),
        Found::Mark(..) => SyncedFile::open(disk, dir)?.note_owing(disk, owing),
        Found::Missing | Found::Unreadable => Ok(()),
    }
}

/// Lowers the mark, durably, whatever was there before.
pub(crate) fn lower<D: Disk>(
    disk: &mut D,
    dir: &str,
    mark: Mark,
) -> Result<SyncedFile<D::File>, Error> {
    if !matches!(read(disk, dir)?, Found::Mark(..)) {
        create(disk, dir, mark)?;
    }
    let mut file = SyncedFile::open(disk, dir)?;
    file.settle(disk, mark)?;
    Ok(file)
}

/// A new file: this in the first slot, nothing in the second.
fn image(slot: Slot) -> Bytes {
    let mut bytes = slot.encode().to_vec();
    bytes.resize(SPACING + SLOT_BYTES, 0);
    bytes.into()
}

/// The open file.
pub(crate) struct SyncedFile<F> {
    file: F,
    path: String,
    newest: Slot,
}

impl<F> SyncedFile<F> {
    /// Opens a file that holds a mark.
    pub fn open<D: Disk<File = F>>(disk: &mut D, dir: &str) -> Result<SyncedFile<F>, Error> {
        let path = join(dir, NAME);
        let Found::Mark(mark, sequence, owing) = read(disk, dir)? else {
            return Err(Error::NotFormatted { path });
        };
        let file = disk.open(&path, Mode::Write).map_err(Error::io(Operation::Open, &path))?;
        Ok(SyncedFile { file, path, newest: Slot { mark, sequence, owing } })
    }

    pub fn mark(&self) -> Mark {
        self.newest.mark
    }

    /// Writes into both slots, durably, whether the log owes records.
    pub fn note_owing<D: Disk<File = F>>(
        &mut self,
        disk: &mut D,
        owing: bool,
    ) -> Result<(), Error> {
        self.newest.owing = owing;
        self.settle(disk, self.newest.mark)
    }

    /// Writes a mark into the older slot.
    pub fn write<D: Disk<File = F>>(&mut self, disk: &mut D, mark: Mark) -> Result<(), Error> {
        self.newest = Slot { mark, sequence: self.newest.sequence + 1, ..self.newest };
        let at = self.newest.sequence % 2 * SPACING as u64;
        disk.write_at(&mut self.file, at, &self.newest.encode())
            .map_err(Error::io(Operation::Write, &self.path))
    }

    /// Writes a mark into both slots, durably: no older one can come back. With one slot only it
    /// could, if the next write of that slot were torn and that of the other one lost. One after
    /// the other, because an earlier crash may have left the first one torn.
    pub fn settle<D: Disk<File = F>>(&mut self, disk: &mut D, mark: Mark) -> Result<(), Error> {
        self.write(disk, mark)?;
        self.sync(disk)?;
        self.write(disk, mark)?;
        self.sync(disk)
    }

    /// Makes what was written durable.
    pub fn sync<D: Disk<File = F>>(&self, disk: &D) -> Result<(), Error> {
        disk.sync(&self.file).map_err(Error::io(Operation::Sync, &self.path))
    }
}

impl Slot {
    fn encode(self) -> [u8; SLOT_BYTES] {
        let mut slot = [0; SLOT_BYTES];
        let mut rest = &mut slot[..];
        rest.put_slice(&MAGIC);
        rest.put_u8(if self.owing { OWING } else { PLAIN });
        rest.put_u64(self.sequence);
        rest.put_u64(self.mark.segment.0);
        rest.put_u64(self.mark.end.0);
        rest.put_u64(self.mark.position);
        let checksum = crc32c::crc32c(&slot[..SLOT_BYTES - 4]);
        slot[SLOT_BYTES - 4..].copy_from_slice(&checksum.to_be_bytes());
        slot
    }

    fn decode(bytes: &[u8]) -> Option<Slot> {
        let slot: &[u8; SLOT_BYTES] = bytes.first_chunk()?;
        let (body, checksum) = slot.split_last_chunk::<4>()?;
        if body[..7] != MAGIC || crc32c::crc32c(body) != u32::from_be_bytes(*checksum) {
            return None;
        }
        let owing = match body[7] {
            PLAIN => false,
            OWING => true,
            _ => return None,
        };
        let word = |at: usize| body[at..].first_chunk().map(|word| u64::from_be_bytes(*word));
        let mark = Mark { segment: Offset(word(16)?), end: Offset(word(24)?), position: word(32)? };
        Some(Slot { mark, sequence: word(8)?, owing })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDisk;

    fn mark(end: u64) -> Mark {
        Mark { segment: Offset(0), end: Offset(end), position: end * 10 }
    }

    #[test]
    fn the_newest_slot_counts_and_one_that_rotted_leaves_nothing_known() {
        let mut disk = MemoryDisk::default();
        assert_eq!(read(&mut disk, "").unwrap(), Found::Missing);
        create(&mut disk, "", mark(1)).unwrap();
        assert_eq!(read(&mut disk, "").unwrap(), Found::Mark(mark(1), 0, false));
        let mut file = SyncedFile::open(&mut disk, "").unwrap();
        for end in 2..6 {
            file.write(&mut disk, mark(end)).unwrap();
            assert_eq!(read(&mut disk, "").unwrap(), Found::Mark(mark(end), end - 1, false));
        }
        for (at, bit) in [(20, 3), (4096 + 43, 0), (SPACING + 7, 1)] {
            let mut rotten = disk.fork();
            rotten.flip_bit(NAME, at, bit);
            assert_eq!(read(&mut rotten, "").unwrap(), Found::Unreadable, "byte {at}");
        }
    }
}
