//! A sorted map of which a copy costs nothing and shares all that neither side changes.
//!
//! Two levels, as in `leaves.rs`: a directory of shared leaves, each a sorted run of entries. A
//! clone takes one reference; afterwards the first write copies the directory, and each write the
//! one leaf that it changes, if the other side still holds it. Leaves grow by halves, so that
//! millions of small maps stay small.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// The map. Keys must be cheap to clone: the directory has the first of each leaf. `LEAF` is how
/// many entries a leaf has at most: what a first write after a clone copies. Where there may be a
/// million entries more keep the directory short, for a new leaf moves half of it.
pub struct SharedMap<K, V, const LEAF: usize = 32> {
    /// Invariant: no leaf is empty; keys ascend within and across leaves; `first` is the key of a
    /// leaf's first entry.
    leaves: Arc<Vec<Leaf<K, V>>>,
    len: usize,
}

struct Leaf<K, V> {
    first: K,
    entries: Arc<Vec<(K, V)>>,
}

impl<K: Clone, V> Clone for Leaf<K, V> {
    fn clone(&self) -> Leaf<K, V> {
        Leaf { first: self.first.clone(), entries: Arc::clone(&self.entries) }
    }
}

impl<K, V, const LEAF: usize> Clone for SharedMap<K, V, LEAF> {
    fn clone(&self) -> SharedMap<K, V, LEAF> {
        SharedMap { leaves: Arc::clone(&self.leaves), len: self.len }
    }
}

impl<K, V, const LEAF: usize> Default for SharedMap<K, V, LEAF> {
    fn default() -> SharedMap<K, V, LEAF> {
        SharedMap { leaves: Arc::default(), len: 0 }
    }
}

impl<K: PartialEq, V: PartialEq, const LEAF: usize> PartialEq for SharedMap<K, V, LEAF> {
    fn eq(&self, other: &SharedMap<K, V, LEAF>) -> bool {
        let shared = Arc::ptr_eq(&self.leaves, &other.leaves);
        shared || self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<K: Eq, V: Eq, const LEAF: usize> Eq for SharedMap<K, V, LEAF> {}

impl<K: fmt::Debug, V: fmt::Debug, const LEAF: usize> fmt::Debug for SharedMap<K, V, LEAF> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K, V, const LEAF: usize> SharedMap<K, V, LEAF> {
    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All entries, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let leaves = self.leaves.iter().flat_map(|leaf| leaf.entries.iter());
        leaves.map(|(key, value)| (key, value))
    }
}

impl<K: Clone, V: Clone, const LEAF: usize> SharedMap<K, V, LEAF> {
    /// All entries, by key, of a map that is given away; copied one by one as they are asked for.
    pub fn into_entries(self) -> impl Iterator<Item = (K, V)> {
        (0..self.leaves.len()).flat_map(move |leaf_at| {
            let entries = Arc::clone(&self.leaves[leaf_at].entries);
            (0..entries.len()).map(move |at| entries[at].clone())
        })
    }
}

impl<K: Ord + Clone, V: Clone, const LEAF: usize> SharedMap<K, V, LEAF> {
    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let (leaf_at, at) = self.place(key).ok()?;
        Some(&self.leaves[leaf_at].entries[at].1)
    }

    /// Whether there is such a key.
    pub fn contains<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// The value of a key, to be changed; copies what others share.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let (leaf_at, at) = self.place(key).ok()?;
        let leaf = &mut Arc::make_mut(&mut self.leaves)[leaf_at];
        Arc::make_mut(&mut leaf.entries).get_mut(at).map(|(_, value)| value)
    }

    /// Sets a key; the value before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.place(&key) {
            Ok((leaf_at, at)) => {
                let leaf = &mut Arc::make_mut(&mut self.leaves)[leaf_at];
                let entry = &mut Arc::make_mut(&mut leaf.entries)[at];
                Some(std::mem::replace(&mut entry.1, value))
            }
            Err((leaf_at, at)) => {
                self.insert_at(leaf_at, at, key, value);
                None
            }
        }
    }

    /// Sets a key that is not there yet; whether it was not.
    #[must_use]
    pub fn insert_new(&mut self, key: K, value: V) -> bool {
        let place = self.place(&key);
        if let Err((leaf_at, at)) = place {
            self.insert_at(leaf_at, at, key, value);
        }
        place.is_err()
    }

    /// In which leaf a key is and where there, or would be.
    fn place<Q: Ord + ?Sized>(&self, key: &Q) -> Result<(usize, usize), (usize, usize)>
    where
        K: Borrow<Q>,
    {
        let Some(leaf_at) = self.leaf_of(key) else { return Err((0, 0)) };
        match find(&self.leaves[leaf_at].entries, key) {
            Ok(at) => Ok((leaf_at, at)),
            Err(at) => Err((leaf_at, at)),
        }
    }

    fn insert_at(&mut self, leaf_at: usize, at: usize, key: K, value: V) {
        let leaves = Arc::make_mut(&mut self.leaves);
        self.len += 1;
        let is_last = leaf_at + 1 >= leaves.len();
        let Some(leaf) = leaves.get_mut(leaf_at) else {
            leaves.push(Leaf { first: key.clone(), entries: Arc::new(vec![(key, value)]) });
            return;
        };
        let entries = Arc::make_mut(&mut leaf.entries);
        if entries.len() < LEAF {
            if at == 0 {
                leaf.first = key.clone();
            }
            if entries.len() == entries.capacity() {
                entries.reserve_exact((entries.len() / 2 + 1).min(LEAF - entries.len()));
            }
            return entries.insert(at, (key, value));
        }
        // Keys that arrive in order leave full leaves behind, others half full ones.
        let cut = if is_last && at == LEAF { LEAF } else { LEAF / 2 };
        let mut right = entries.split_off(cut);
        match at.checked_sub(cut) {
            Some(at) => right.insert(at, (key, value)),
            None => {
                if at == 0 {
                    leaf.first = key.clone();
                }
                entries.insert(at, (key, value));
            }
        }
        let first = right[0].0.clone();
        if leaves.len() == leaves.capacity() {
            leaves.reserve_exact(leaves.len() / 2 + 1);
        }
        leaves.insert(leaf_at + 1, Leaf { first, entries: Arc::new(right) });
    }

    /// Removes a key; the value before.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (leaf_at, at) = self.place(key).ok()?;
        let leaves = Arc::make_mut(&mut self.leaves);
        let leaf = &mut leaves[leaf_at];
        let entries = Arc::make_mut(&mut leaf.entries);
        let (_, removed) = entries.remove(at);
        self.len -= 1;
        match entries.first() {
            None => drop(leaves.remove(leaf_at)),
            Some((first, _)) => {
                if at == 0 {
                    leaf.first = first.clone();
                }
                let left = entries.len();
                let next = leaves.get(leaf_at + 1);
                if next.is_some_and(|next| left + next.entries.len() <= LEAF / 2) {
                    let next = leaves.remove(leaf_at + 1);
                    let entries = Arc::make_mut(&mut leaves[leaf_at].entries);
                    entries.extend(next.entries.iter().cloned());
                }
            }
        }
        Some(removed)
    }

    /// The leaf that holds a key or would; `None` only if there is no leaf.
    fn leaf_of<Q: Ord + ?Sized>(&self, key: &Q) -> Option<usize>
    where
        K: Borrow<Q>,
    {
        if self.leaves.is_empty() {
            return None;
        }
        let above = self.leaves.partition_point(|leaf| leaf.first.borrow() <= key);
        Some(above.saturating_sub(1))
    }
}

fn find<K: Borrow<Q>, V, Q: Ord + ?Sized>(entries: &[(K, V)], key: &Q) -> Result<usize, usize> {
    entries.binary_search_by(|(found, _)| found.borrow().cmp(key))
}

impl<K: Ord + Clone, V: Clone, const LEAF: usize> FromIterator<(K, V)> for SharedMap<K, V, LEAF> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> SharedMap<K, V, LEAF> {
        let mut map = SharedMap::default();
        entries.into_iter().for_each(|(key, value)| drop(map.insert(key, value)));
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_base::Rng;
    use std::collections::BTreeMap;

    const LEAF: usize = 32;

    fn check(map: &SharedMap<u32, u64>, model: &BTreeMap<u32, u64>) {
        assert!(map.iter().eq(model));
        assert!(map.clone().into_entries().eq(model.iter().map(|(key, value)| (*key, *value))));
        assert_eq!(map.len(), model.len());
        for leaf in map.leaves.iter() {
            assert!((1..=LEAF).contains(&leaf.entries.len()));
            assert_eq!(leaf.first, leaf.entries[0].0);
        }
    }

    #[test]
    fn it_agrees_with_a_model_and_clones_do_not_change() {
        for seed in 0..8 {
            let mut rng = Rng::new(seed);
            let mut map: SharedMap<u32, u64> = SharedMap::default();
            let mut model = BTreeMap::new();
            let mut before = Vec::new();
            // Growing, then shrinking, so that leaves split, merge and vanish.
            for step in 0..4_000u64 {
                let key = rng.below(700) as u32;
                match rng.below(100) < if step < 2_000 { 80 } else { 15 } {
                    true => assert_eq!(map.insert(key, step), model.insert(key, step)),
                    false => assert_eq!(map.remove(&key), model.remove(&key)),
                }
                let probe = rng.below(700) as u32;
                assert_eq!(map.get(&probe), model.get(&probe));
                let is_new = !model.contains_key(&probe);
                if rng.one_in(9) {
                    assert_eq!(map.insert_new(probe, step), is_new);
                    model.entry(probe).or_insert(step);
                }
                if let Some(value) = map.get_mut(&probe) {
                    *value += 1;
                }
                if let Some(value) = model.get_mut(&probe) {
                    *value += 1;
                }
                if step % 400 == 200 {
                    before.push((map.clone(), model.clone()));
                }
            }
            before.push((map.clone(), model.clone()));
            before.iter().for_each(|(map, model)| check(map, model));
            assert_eq!(map, model.clone().into_iter().collect());
            model.keys().for_each(|key| assert!(map.remove(key).is_some()));
            check(&map, &BTreeMap::new());
            assert_eq!(map, SharedMap::default(), "seed {seed}");
        }
    }

    #[test]
    fn keys_in_order_fill_their_leaves() {
        let map: SharedMap<u32, ()> = (0..10 * LEAF as u32).map(|key| (key, ())).collect();
        assert_eq!(map.leaves.len(), 10);
        assert!(map.leaves.iter().all(|leaf| leaf.entries.capacity() == LEAF));
    }
}
