//! The voter set: who counts.
//!
//! Either static, from the configuration (kraft.version 0), or from the log. An entry without a
//! directory names every directory of its id [P2].

use crate::majority::majority;
use crate::message::Endpoint;
use quorate_base::{ReplicaId, ReplicaKey};
use std::sync::Arc;

/// The versions of `kraft.version` that this crate speaks, least and greatest.
pub const KRAFT_VERSIONS: (u16, u16) = (0, 1);

/// One that counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Voter {
    /// Who. Without a directory: every directory of the id.
    pub key: ReplicaKey,
    /// Where it listens.
    pub endpoints: Arc<[Endpoint]>,
    /// The versions of `kraft.version` that it said to speak, least and greatest; (0, 0) for static
    /// voters, which nobody asked.
    pub versions: (u16, u16),
}

impl Voter {
    /// A static one.
    pub fn fixed(key: ReplicaKey, endpoints: Arc<[Endpoint]>) -> Voter {
        Voter { key, endpoints, versions: (0, 0) }
    }
}

/// Invariant: sorted by id, no id twice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Voters {
    entries: Arc<[Voter]>,
}

impl Voters {
    /// `None` unless sorted by id without doubles.
    pub(crate) fn new(entries: Arc<[Voter]>) -> Option<Voters> {
        let sorted = entries.windows(2).all(|w| w[0].key.id < w[1].key.id);
        sorted.then_some(Voters { entries })
    }

    /// Whether the set names this replica.
    pub(crate) fn contains(&self, key: ReplicaKey) -> bool {
        self.by_id(key.id).is_some_and(|voter| voter.key.names(key))
    }

    /// Whether the set names this replica and nobody else.
    pub(crate) fn only(&self, key: ReplicaKey) -> bool {
        self.entries.len() == 1 && self.contains(key)
    }

    pub(crate) fn by_id(&self, id: ReplicaId) -> Option<&Voter> {
        let at = self.entries.binary_search_by_key(&id, |voter| voter.key.id).ok()?;
        self.entries.get(at)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = ReplicaKey> + '_ {
        self.entries.iter().map(|voter| voter.key)
    }

    pub(crate) fn entries(&self) -> &Arc<[Voter]> {
        &self.entries
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn majority(&self) -> usize {
        majority(self.entries.len())
    }

    /// The same set and this one, whose id it does not name.
    pub(crate) fn and(&self, new: Voter) -> Voters {
        let at = self.entries.partition_point(|voter| voter.key.id < new.key.id);
        let (before, behind) = self.entries.split_at(at);
        Voters {
            entries: before.iter().cloned().chain([new]).chain(behind.iter().cloned()).collect(),
        }
    }

    /// The same set less this one.
    pub(crate) fn less(&self, gone: ReplicaId) -> Voters {
        let rest = self.entries.iter().filter(|voter| voter.key.id != gone);
        Voters { entries: rest.cloned().collect() }
    }

    /// The same set with this entry in the place of the one of its id.
    pub(crate) fn with(&self, own: &Voter) -> Voters {
        let entry = |voter: &Voter| if voter.key.id == own.key.id { own } else { voter }.clone();
        Voters { entries: self.entries.iter().map(entry).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_base::Uuid;

    fn set(keys: &[ReplicaKey]) -> Option<Voters> {
        Voters::new(keys.iter().map(|key| Voter::fixed(*key, Arc::from([]))).collect())
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
