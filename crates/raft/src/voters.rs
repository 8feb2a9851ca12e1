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

    /// Whether every majority of the one set meets every majority of the other.
    pub(crate) fn meet(&self, other: &Voters) -> bool {
        let both = self.keys().filter(|key| other.by_id(key.id).is_some_and(|o| o.key == *key));
        let both = both.count();
        // So many at least are of both, however a majority is chosen.
        let least = |set: &Voters| set.majority().saturating_sub(set.len() - both);
        least(self) + least(other) > both
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

    /// By definition: no two majorities without anybody in both.
    fn naive_meet(one: &[ReplicaKey], other: &[ReplicaKey]) -> bool {
        let majorities = |set: &[ReplicaKey]| {
            let chosen = |bits: u32| -> Vec<ReplicaKey> {
                (0..set.len()).filter(|at| bits >> at & 1 == 1).map(|at| set[at]).collect()
            };
            let all: Vec<_> = (0..1u32 << set.len()).map(chosen).collect();
            all.into_iter().filter(|some| some.len() * 2 > set.len()).collect::<Vec<_>>()
        };
        let others = majorities(other);
        let meets = |some: &Vec<ReplicaKey>| {
            others.iter().all(|others| others.iter().any(|key| some.contains(key)))
        };
        majorities(one).iter().all(meets)
    }

    #[test]
    fn majorities_of_an_odd_set_may_miss_those_of_one_with_another_directory_p80() {
        for size in 1..=7u32 {
            let old: Vec<_> = (1..=size).map(|id| key(id, Some(1))).collect();
            let (mut swapped, mut more) = (old.clone(), old.clone());
            swapped[0] = key(1, Some(9));
            more.push(key(size + 1, Some(1)));
            for (new, meet) in [(&swapped, size % 2 == 0), (&more, true), (&old, true)] {
                let sets = (set(&old).expect("sorted"), set(new).expect("sorted"));
                assert_eq!(naive_meet(&old, new), meet, "{old:?} and {new:?}");
                assert_eq!((sets.0.meet(&sets.1), sets.1.meet(&sets.0)), (meet, meet));
            }
        }
        let (three, five) = ([1, 2, 3], [3, 4, 5]);
        let of = |ids: [u32; 3]| ids.map(|id| key(id, Some(1)));
        assert!(!naive_meet(&of(three), &of(five)));
        assert!(!set(&of(three)).expect("sorted").meet(&set(&of(five)).expect("sorted")));
    }

    #[test]
    fn an_unsorted_or_doubled_set_is_refused() {
        assert!(set(&[key(2, None), key(1, None)]).is_none());
        assert!(set(&[key(1, Some(1)), key(1, Some(2))]).is_none());
    }
}
