//! The voter set: who counts.
//!
//! Static for now (kraft.version 0). An entry without a directory names every directory of its id
//! [P2].

use crate::majority::majority;
use crate::message::Endpoint;
use quorate_base::{ReplicaId, ReplicaKey};
use std::sync::Arc;

/// Invariant: sorted by id, no id twice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Voters {
    entries: Vec<(ReplicaKey, Arc<[Endpoint]>)>,
}

impl Voters {
    /// `None` unless sorted by id without doubles.
    pub(crate) fn new(entries: Vec<(ReplicaKey, Arc<[Endpoint]>)>) -> Option<Voters> {
        let sorted = entries.windows(2).all(|w| w[0].0.id < w[1].0.id);
        sorted.then_some(Voters { entries })
    }

    /// Whether the set names this replica.
    pub(crate) fn contains(&self, key: ReplicaKey) -> bool {
        self.by_id(key.id).is_some_and(|(entry, _)| entry.names(key))
    }

    /// Whether the set names this replica and nobody else.
    pub(crate) fn only(&self, key: ReplicaKey) -> bool {
        self.entries.len() == 1 && self.contains(key)
    }

    pub(crate) fn by_id(&self, id: ReplicaId) -> Option<&(ReplicaKey, Arc<[Endpoint]>)> {
        let at = self.entries.binary_search_by_key(&id, |(key, _)| key.id).ok()?;
        self.entries.get(at)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = ReplicaKey> + '_ {
        self.entries.iter().map(|(key, _)| *key)
    }

    pub(crate) fn entries(&self) -> &[(ReplicaKey, Arc<[Endpoint]>)] {
        &self.entries
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn majority(&self) -> usize {
        majority(self.entries.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_base::Uuid;

    fn set(keys: &[ReplicaKey]) -> Option<Voters> {
        Voters::new(keys.iter().map(|key| (*key, Arc::from([]))).collect())
    }

    fn key(id: u32, directory: Option<u8>) -> ReplicaKey {
        ReplicaKey::new(ReplicaId(id), directory.map(|byte| Uuid([byte; 16])))
    }

    #[test]
    fn entries_match_by_id_and_by_directory_where_they_have_one_b049_b050() {
        let voters = set(&[key(1, None), key(2, Some(7))]).expect("sorted");
        assert!(voters.contains(key(1, None)) && voters.contains(key(1, Some(3))));
        assert!(voters.contains(key(2, Some(7))));
        assert!(!voters.contains(key(2, Some(8))) && !voters.contains(key(2, None)));
        assert!(!voters.contains(key(3, None)));
        assert!(!voters.only(key(1, None)));
        let one = set(&[key(2, Some(7))]).expect("sorted");
        assert!(one.only(key(2, Some(7))) && !one.only(key(2, Some(8))));
    }

    #[test]
    fn an_unsorted_or_doubled_set_is_refused() {
        assert!(set(&[key(2, None), key(1, None)]).is_none());
        assert!(set(&[key(1, Some(1)), key(1, Some(2))]).is_none());
    }
}
