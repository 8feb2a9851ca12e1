//! One file of a [`crate::MemoryDisk`]: what the page cache has of it, what is durable, and what a
//! crash leaves of the changes between the two.
//!
//! A crash must be able to leave whatever a real device could: changes in order up to some byte,
//! any set of sectors, or a length without its bytes; but never a part of a sector that was written
//! over.

use quorate_base::Rng;

/// What a device writes whole or not at all.
const SECTOR: usize = 512;

#[derive(Clone, Debug, Default)]
pub(crate) struct Inode {
    pub cache: Vec<u8>,
    pub durable: Vec<u8>,
    /// Changes since the last sync, oldest first.
    pub unsynced: Vec<Edit>,
    /// A crash leaves all of it.
    pub allocated: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum Edit {
    Write { at: usize, bytes: Vec<u8> },
    Truncate { len: usize },
}

impl Inode {
    pub fn edit(&mut self, edit: Edit) {
        edit.apply(&mut self.cache);
        self.unsynced.push(edit);
    }

    pub fn sync(&mut self) {
        for edit in std::mem::take(&mut self.unsynced) {
            edit.apply(&mut self.durable);
        }
    }

    pub fn crash(&mut self, rng: &mut Rng) {
        let edits = std::mem::take(&mut self.unsynced);
        match rng.below(3) {
            // In order up to some byte, as a file system that journals data would leave it.
            0 => {
                let kept = rng.below(edits.len() as u64 + 1) as usize;
                for edit in &edits[..kept] {
                    edit.apply(&mut self.durable);
                }
                if let Some(Edit::Write { at, bytes }) = edits.get(kept) {
                    let done = rng.below(bytes.len() as u64 + 1) as usize;
                    let torn = torn(*at, bytes.len(), done, self.durable.len());
                    let bytes = bytes[..torn].to_vec();
                    Edit::Write { at: *at, bytes }.apply(&mut self.durable);
                }
            }
            // Any set of sectors.
            1 => {
                for edit in &edits {
                    match edit {
                        Edit::Write { at, bytes } => {
                            for (start, sector) in sectors(*at, bytes) {
                                if rng.one_in(2) {
                                    let bytes = sector.to_vec();
                                    Edit::Write { at: start, bytes }.apply(&mut self.durable);
                                }
                            }
                        }
                        Edit::Truncate { .. } if rng.one_in(2) => edit.apply(&mut self.durable),
                        Edit::Truncate { .. } => {}
                    }
                }
            }
            // The length without the bytes: what was added reads as zeros.
            _ => {
                let len = rng.below(self.cache.len() as u64 + 1) as usize;
                if len > self.durable.len() {
                    self.durable.resize(len, 0);
                }
            }
        }
        self.cache.clone_from(&self.durable);
    }
}

/// What is there of a write of `all` bytes that stops after `done`, in a file of `len` bytes: a
/// file grows by bytes, but a sector that is written over is the old one or the new one.
pub(crate) fn torn(at: usize, all: usize, done: usize, len: usize) -> usize {
    let end = at + done;
    if done < all && end < len { (end / SECTOR * SECTOR).max(at) - at } else { done }
}

/// The parts of a write that fall into each sector.
fn sectors(at: usize, bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut rest = bytes;
    let mut start = at;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (sector, after) = rest.split_at(rest.len().min(SECTOR - start % SECTOR));
        let from = start;
        start += sector.len();
        rest = after;
        Some((from, sector))
    })
}

impl Edit {
    fn apply(&self, target: &mut Vec<u8>) {
        match self {
            Edit::Write { at, bytes } => {
                let end = at + bytes.len();
                if end > target.len() && !bytes.is_empty() {
                    target.resize(end, 0);
                }
                if !bytes.is_empty() {
                    target[*at..end].copy_from_slice(bytes);
                }
            }
            Edit::Truncate { len } => target.resize(*len, 0),
        }
    }
}
