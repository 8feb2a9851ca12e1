//! The cleaner's memory of a round: for each key the highest offset of its range.
//!
//! Open addressing over a flat table of fixed size, so memory is what the caller said and no more.
//! A key is known by 128 bits of a keyed hash (see `siphash.rs`), never by its bytes.

use crate::siphash;
use quorate_base::Offset;

/// Bytes that a key takes.
pub(crate) const SLOT_BYTES: u64 = 24;
/// Of so many slots so many may be taken, or finding one takes too long.
const TAKEN_OF: (u64, u64) = (9, 10);

/// Keys and offsets. Invariant: `len <= limit`, and a slot is free at any time.
pub(crate) struct OffsetMap {
    seed: [u64; 2],
    /// Hash, and the offset plus one; 0 is a free slot.
    slots: Vec<[u64; 3]>,
    len: u64,
    limit: u64,
}

impl OffsetMap {
    /// For `keys` keys if they fit into `bytes`; else for as many as do. One at least.
    pub fn new(seed: [u64; 2], keys: u64, bytes: u64) -> OffsetMap {
        let (taken, of) = TAKEN_OF;
        let limit = (bytes / SLOT_BYTES).saturating_mul(taken) / of;
        let limit = limit.min(keys).max(1);
        let slots = (limit.saturating_mul(of) / taken + 2) as usize;
        OffsetMap { seed, slots: vec![[0; 3]; slots], len: 0, limit }
    }

    /// Whether so many more keys certainly fit.
    pub fn has_room(&self, keys: u32) -> bool {
        self.len + u64::from(keys) <= self.limit
    }

    /// Notes a record. Offsets come in order.
    pub fn put(&mut self, key: &[u8], offset: Offset) {
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
        let map = OffsetMap::new([0, 0], u64::MAX, 24_000);
        assert!(map.slots.len() <= 1_002 && map.limit == 900, "{} slots", map.slots.len());
        assert!(map.has_room(900) && !map.has_room(901));
        assert_eq!(map.get(b"none"), None);
        let least = OffsetMap::new([0, 0], 0, 0);
        assert!(least.has_room(1), "one key fits always");
    }
}
