//! The cleaner's memory of a round: for each key the highest offset of its range.
//!
//! Open addressing over a flat table of fixed size, so memory is what the caller said and no more.
//! A key is known by 128 bits of a keyed hash (see `siphash.rs`), never by its bytes.

use crate::siphash;
use quorate_base::Offset;

/// Bytes of a slot.
const SLOT_BYTES: u64 = 24;
/// Of so many slots so many may be taken, or finding one takes long: with three of four eight looks
/// for a key that is not there, with nine of ten fifty.
const TAKEN_OF: (u64, u64) = (3, 4);
/// The first table has about so many; it doubles when half of it is taken, up to its limit: a small
/// one stays in the processor's memory.
const FIRST_SLOTS: u64 = 1 << 10;

/// Keys and offsets. Invariant: `len <= limit`, and a slot is free at any time.
pub(crate) struct OffsetMap {
    seed: [u64; 2],
    /// Hash, and the offset plus one; 0 is a free slot.
    slots: Vec<[u64; 3]>,
    len: u64,
    limit: u64,
    most_slots: u64,
    /// How often the table can double: it has `most_slots` halved so often.
    doublings: u32,
}

impl OffsetMap {
    /// For `keys` keys if they fit into `bytes`, with what doubling takes; else for as many as do.
    /// One at least.
    pub fn new(seed: [u64; 2], keys: u64, bytes: u64) -> OffsetMap {
        let (taken, of) = TAKEN_OF;
        // While the table doubles, the old one is there too.
        let most = bytes / SLOT_BYTES / 3 * 2;
        let limit = (most.saturating_mul(taken) / of).min(keys).max(1);
        let most_slots = most.max(limit.saturating_mul(of) / taken + 2);
        let doublings = (most_slots / FIRST_SLOTS).checked_ilog2().unwrap_or_default();
        let slots = vec![[0; 3]; (most_slots >> doublings) as usize];
        OffsetMap { seed, slots, len: 0, limit, most_slots, doublings }
    }

    fn grow(&mut self) {
        let Some(doublings) = self.doublings.checked_sub(1) else { return };
        self.doublings = doublings;
        let slots = vec![[0; 3]; (self.most_slots >> doublings) as usize];
        let before = std::mem::replace(&mut self.slots, slots);
        for slot in before.into_iter().filter(|slot| slot[2] != 0) {
            let at = self.find([slot[0], slot[1]]);
            self.slots[at] = slot;
        }
    }

    /// Whether so many more keys certainly fit.
    pub fn has_room(&self, keys: u32) -> bool {
        self.len + u64::from(keys) <= self.limit
    }

    /// Notes a record. Offsets come in order.
    pub fn put(&mut self, key: &[u8], offset: Offset) {
        if self.len * 2 >= self.slots.len() as u64 {
            self.grow();
        }
        let hash = siphash::hash(self.seed, key);
        let at = self.find(hash);
        if self.slots[at][2] == 0 {
            assert!(self.len < self.limit, "the caller looked whether there was room");
            self.len += 1;
        }
        self.slots[at] = [hash[0], hash[1], offset.0 + 1];
    }

    /// The highest offset at which the key was noted.
    pub fn get(&self, key: &[u8]) -> Option<Offset> {
        if self.len == 0 {
            return None;
        }
        let at = self.find(siphash::hash(self.seed, key));
        self.slots[at][2].checked_sub(1).map(Offset)
    }

    /// The slot of this hash, or the free one where it belongs.
    fn find(&self, hash: [u64; 2]) -> usize {
        let slots = self.slots.len();
        // The high half of a product spreads evenly over any number of slots.
        let mut at = ((u128::from(hash[0]) * slots as u128) >> 64) as usize;
        loop {
            let [a, b, offset] = self.slots[at];
            if offset == 0 || [a, b] == hash {
                return at;
            }
            at = if at + 1 == slots { 0 } else { at + 1 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_base::Rng;
    use std::collections::BTreeMap;

    #[test]
    fn it_says_what_a_plain_map_says_up_to_its_limit() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let keys = 1 + rng.below(300);
            let mut map = OffsetMap::new([seed, 7], keys, 1 << 20);
            let mut model = BTreeMap::new();
            for offset in 0..2_000 {
                let key = rng.below(keys * 2).to_le_bytes();
                assert!(map.has_room(1) || model.len() as u64 == keys);
                if map.has_room(1) || model.contains_key(&key) {
                    map.put(&key, Offset(offset));
                    model.insert(key, Offset(offset));
                }
            }
            assert!(model.len() as u64 == keys, "seed {seed}: the limit was reached");
            for key in (0..keys * 2).map(u64::to_le_bytes) {
                assert_eq!(map.get(&key), model.get(&key).copied(), "seed {seed}");
            }
        }
    }

    #[test]
    fn memory_is_what_was_given() {
        let mut map = OffsetMap::new([0, 0], u64::MAX, 240_000);
        let mut most = 0;
        for key in 0..4_999u64 {
            assert!(map.has_room(1) && map.slots.capacity() <= map.most_slots as usize);
            let before = map.slots.capacity();
            map.put(&key.to_le_bytes(), Offset(key));
            let both = if map.slots.capacity() == before { 0 } else { before };
            most = most.max((map.slots.capacity() + both) as u64 * SLOT_BYTES);
        }
        assert!(!map.has_room(1) && most <= 240_000, "{most} bytes for {} keys", map.len);
        assert_eq!(map.get(b"none"), None);
        assert_eq!(map.get(&4_998u64.to_le_bytes()), Some(Offset(4_998)));
        let least = OffsetMap::new([0, 0], 0, 0);
        assert!(least.has_room(1), "one key fits always");
    }
}
