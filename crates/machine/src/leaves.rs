//! A sorted map of keys to values and versions that can be pictured in an instant.
//!
//! Two levels: a directory of shared leaves, each a sorted run of entries. A picture copies the
//! directory alone; afterwards a write copies the one leaf that it changes. It knows nothing of
//! records' meaning, nor of what is proposed: see `tail.rs`.

use crate::digest::Hash;
use crate::machine::{Corrupt, Image, OwnedRecord};
use bytes::Bytes;
use quorate_base::{Offset, OffsetEpoch};
use std::cmp::Ordering;
use std::sync::Arc;

/// Most entries of a leaf: what a first write after a picture copies, and half of it what an
/// insertion moves on average.
const LEAF: usize = 64;

/// How much of a leaf's first key lies in the leaf itself, where finding a leaf looks first: going
/// to the key costs three cache misses a step instead of one.
const HEAD: usize = 32;

/// The map.
#[derive(Clone, Default)]
pub(crate) struct Leaves {
    /// Invariant: no leaf is empty; keys ascend within and across leaves.
    leaves: Vec<Arc<Leaf>>,
    len: usize,
    bytes: usize,
    /// The sum of the entries' hashes: independent of the order in which they came.
    digest: u64,
}

#[derive(Clone)]
struct Leaf {
    /// The first key's beginning, filled up with zeros; it orders leaves as far as it reaches.
    head: [u8; HEAD],
    entries: Vec<Entry>,
}

impl Leaf {
    fn new(entries: Vec<Entry>) -> Leaf {
        Leaf { head: head(entries[0].key()), entries }
    }

    /// Where the key is, or where it would be.
    fn find(&self, key: &[u8]) -> Result<usize, usize> {
        self.entries.binary_search_by(|entry| entry.key().cmp(key))
    }

    fn insert(&mut self, at: usize, entry: Entry) {
        if at == 0 {
            self.head = head(entry.key());
        }
        self.entries.insert(at, entry);
    }

    fn remove(&mut self, at: usize) -> Entry {
        let removed = self.entries.remove(at);
        if let (0, Some(first)) = (at, self.entries.first()) {
            self.head = head(first.key());
        }
        removed
    }
}

fn head(key: &[u8]) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    let len = key.len().min(HEAD);
    head[..len].copy_from_slice(&key[..len]);
    head
}

/// A key, its value and the offset of the record that set it.
#[derive(Clone)]
pub(crate) struct Entry {
    /// Key and value end to end: one allocation for both.
    bytes: Bytes,
    key_len: usize,
    pub(crate) version: Offset,
    hash: u64,
}

impl Entry {
    fn new(key: &[u8], value: &[u8], version: Offset) -> Entry {
        let mut bytes = Vec::with_capacity(key.len() + value.len());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
        Entry {
            bytes: bytes.into(),
            key_len: key.len(),
            version,
            hash: Hash::new().number(version.0).bytes(key).bytes(value).finish(),
        }
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.bytes[..self.key_len]
    }

    pub(crate) fn value(&self) -> &[u8] {
        &self.bytes[self.key_len..]
    }

    /// The key, sharing the entry's bytes.
    pub(crate) fn shared_key(&self) -> Bytes {
        self.bytes.slice(..self.key_len)
    }

    /// The value, sharing the entry's bytes.
    pub(crate) fn shared_value(&self) -> Bytes {
        self.bytes.slice(self.key_len..)
    }

    fn to_record(&self) -> OwnedRecord {
        OwnedRecord::new(self.version, self.shared_key(), self.shared_value())
    }
}

impl Leaves {
    /// How many keys there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of all keys and values.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Equal for equal contents.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    /// The entry of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Entry> {
        let leaf = &self.leaves[self.leaf_of(key)?];
        leaf.find(key).ok().map(|at| &leaf.entries[at])
    }

    /// Sets a key; whether it was absent.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8], version: Offset) -> bool {
        let entry = Entry::new(key, value, version);
        self.bytes += entry.bytes.len();
        self.digest = self.digest.wrapping_add(entry.hash);
        let Some(leaf_at) = self.leaf_of(key) else {
            self.leaves.push(Arc::new(Leaf::new(vec![entry])));
            self.len += 1;
            return true;
        };
        let leaf = Arc::make_mut(&mut self.leaves[leaf_at]);
        match leaf.find(key) {
            Ok(at) => {
                let before = std::mem::replace(&mut leaf.entries[at], entry);
                self.forget(&before);
                false
            }
            Err(at) => {
                self.len += 1;
                if leaf.entries.len() < LEAF {
                    leaf.insert(at, entry);
                    return true;
                }
                // Keys that arrive in order leave full leaves behind, others half full ones.
                let is_last = leaf_at + 1 == self.leaves.len();
                let cut = if is_last && at == LEAF { LEAF } else { LEAF / 2 };
                let leaf = Arc::make_mut(&mut self.leaves[leaf_at]);
                let mut right = leaf.entries.split_off(cut);
                match at.checked_sub(cut) {
                    Some(at) => right.insert(at, entry),
                    None => leaf.insert(at, entry),
                }
                self.leaves.insert(leaf_at + 1, Arc::new(Leaf::new(right)));
                true
            }
        }
    }

    /// Removes a key; whether it was present.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        let Some(leaf_at) = self.leaf_of(key) else { return false };
        let Ok(at) = self.leaves[leaf_at].find(key) else { return false };
        let leaf = Arc::make_mut(&mut self.leaves[leaf_at]);
        let before = leaf.remove(at);
        let left = leaf.entries.len();
        if left == 0 {
            self.leaves.remove(leaf_at);
        } else if let Some(next) = self.leaves.get(leaf_at + 1)
            && left + next.entries.len() <= LEAF / 2
        {
            let next = self.leaves.remove(leaf_at + 1);
            Arc::make_mut(&mut self.leaves[leaf_at]).entries.extend(next.entries.iter().cloned());
        }
        self.len -= 1;
        self.forget(&before);
        true
    }

    /// The entries from a key on, itself included.
    pub(crate) fn from(&self, key: &[u8]) -> impl Iterator<Item = &Entry> {
        let leaf_at = self.leaf_of(key).unwrap_or(0);
        let at = self.leaves.get(leaf_at).map_or(0, |leaf| match leaf.find(key) {
            Ok(at) | Err(at) => at,
        });
        self.leaves[leaf_at..].iter().flat_map(|leaf| &leaf.entries).skip(at)
    }

    /// The entries whose keys begin so.
    pub(crate) fn with_prefix<'a>(&'a self, prefix: &'a [u8]) -> impl Iterator<Item = &'a Entry> {
        self.from(prefix).take_while(move |entry| entry.key().starts_with(prefix))
    }

    /// The entries as they are now, as records in the order of keys.
    pub(crate) fn image(&self) -> Image {
        let leaves = self.leaves.clone();
        Image::new(
            leaves.into_iter().flat_map(|leaf| {
                (0..leaf.entries.len()).map(move |at| leaf.entries[at].to_record())
            }),
        )
    }

    /// Takes in one record of a snapshot that ends at `at`.
    pub(crate) fn restore(&mut self, at: OffsetEpoch, record: &OwnedRecord) -> Result<(), Corrupt> {
        let corrupt = |what| Err(Corrupt { offset: record.offset, what });
        let (Some(key), Some(value)) = (&record.key, &record.value) else {
            return corrupt("it has no key or no value, so it is part of no state");
        };
        if record.offset >= at.offset {
            return corrupt("it lies at or above the snapshot's end");
        }
        match self.put(key, value, record.offset) {
            true => Ok(()),
            false => corrupt("its key comes twice"),
        }
    }

    /// The leaf that holds a key or would; `None` only if there is no leaf.
    fn leaf_of(&self, key: &[u8]) -> Option<usize> {
        if self.leaves.is_empty() {
            return None;
        }
        let head = head(key);
        let above = self.leaves.partition_point(|leaf| match leaf.head.cmp(&head) {
            Ordering::Less => true,
            Ordering::Equal => leaf.entries[0].key() <= key,
            Ordering::Greater => false,
        });
        Some(above.saturating_sub(1))
    }

    fn forget(&mut self, entry: &Entry) {
        self.bytes -= entry.bytes.len();
        self.digest = self.digest.wrapping_sub(entry.hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_base::{Epoch, Rng};
    use std::collections::BTreeMap;

    type Model = BTreeMap<Vec<u8>, (Vec<u8>, Offset)>;

    fn check(leaves: &Leaves, model: &Model) {
        let mut before: Option<&[u8]> = None;
        for leaf in &leaves.leaves {
            assert!((1..=LEAF).contains(&leaf.entries.len()), "a leaf of {}", leaf.entries.len());
            assert_eq!(leaf.head, head(leaf.entries[0].key()));
            for entry in &leaf.entries {
                assert!(before < Some(entry.key()), "keys ascend");
                before = Some(entry.key());
            }
        }
        let expected = model.iter().map(|(key, (value, version))| {
            OwnedRecord::new(*version, key.clone().into(), value.clone().into())
        });
        assert!(leaves.image().eq(expected));
        assert_eq!(leaves.len(), model.len());
        let bytes: usize = model.iter().map(|(key, (value, _))| key.len() + value.len()).sum();
        assert_eq!(leaves.bytes(), bytes);

        let mut again = Leaves::default();
        leaves.image().for_each(|record| {
            let at = OffsetEpoch::new(Offset(u64::MAX), Epoch(1));
            again.restore(at, &record).expect("a picture restores");
        });
        assert_eq!(again.digest(), leaves.digest());
    }

    /// Keys that differ before the end of a head, behind it, and by trailing zeros alone.
    fn any_key(number: u64) -> Vec<u8> {
        let text = (number / 3).to_string().into_bytes();
        match number % 3 {
            0 => text,
            1 => [&[b'0'; HEAD], &text[..]].concat(),
            _ => [&text[..], &[0; HEAD]].concat(),
        }
    }

    #[test]
    fn it_agrees_with_a_model_and_pictures_do_not_change() {
        for seed in 0..8 {
            let mut rng = Rng::new(seed);
            let (mut leaves, mut model) = (Leaves::default(), Model::new());
            let mut picture: Option<(Leaves, Model)> = None;
            // Growing, then shrinking, so that leaves split, merge and vanish.
            for step in 0..3_000u64 {
                let number = rng.below(600);
                let key = any_key(number);
                let put = rng.below(100) < if step < 1_500 { 80 } else { 15 };
                if put {
                    let value = vec![b'v'; rng.below(9) as usize];
                    let fresh = model.insert(key.clone(), (value.clone(), Offset(step))).is_none();
                    assert_eq!(leaves.put(&key, &value, Offset(step)), fresh);
                } else {
                    assert_eq!(leaves.remove(&key), model.remove(&key).is_some());
                }
                let probe = any_key(rng.below(600));
                let found = leaves.get(&probe).map(|entry| (entry.value().to_vec(), entry.version));
                assert_eq!(found, model.get(&probe).cloned());
                let from = leaves.from(&probe).map(|entry| entry.key()).take(3);
                assert!(from.eq(model.range(probe.clone()..).map(|(key, _)| &key[..]).take(3)));
                if step % 500 == 250 {
                    if let Some((leaves, model)) = picture.take() {
                        check(&leaves, &model);
                    }
                    picture = Some((leaves.clone(), model.clone()));
                }
            }
            check(&leaves, &model);
            for key in model.keys() {
                leaves.remove(key);
            }
            check(&leaves, &Model::new());
            assert_eq!(leaves.digest(), 0, "seed {seed}");
        }
    }

    #[test]
    fn keys_in_order_fill_their_leaves() {
        let mut leaves = Leaves::default();
        for number in 0..10 * LEAF as u32 {
            leaves.put(&number.to_be_bytes(), b"", Offset(1));
        }
        assert_eq!(leaves.leaves.len(), 10);
    }

    #[test]
    fn a_snapshot_that_is_no_state_is_refused() {
        let at = OffsetEpoch::new(Offset(9), Epoch(1));
        let good = OwnedRecord::new(Offset(8), "k".into(), "v".into());
        let mut leaves = Leaves::default();
        assert_eq!(leaves.restore(at, &good), Ok(()));
        for bad in [
            good.clone(),
            OwnedRecord { value: None, ..good.clone() },
            OwnedRecord { key: None, ..good.clone() },
            OwnedRecord::new(Offset(9), "l".into(), "v".into()),
        ] {
            assert!(leaves.restore(at, &bad).is_err(), "{bad:?}");
        }
    }
}
