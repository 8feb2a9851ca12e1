//! Who a replica is.

use crate::Uuid;
use std::fmt;

/// A node's configured number (`node.id`). Kafka's -1 ("no id") is `Option::None` here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId(pub u32);

impl fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A node and the directory that holds its log. The zero uuid of the wire is `None`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaKey {
    /// The node.
    pub id: ReplicaId,
    /// The directory, when it is known.
    pub directory: Option<Uuid>,
}

impl ReplicaKey {
    /// Pairs the two.
    pub fn new(id: ReplicaId, directory: Option<Uuid>) -> ReplicaKey {
        ReplicaKey { id, directory }
    }

    /// Whether `other` is the replica that this entry of a voter set names: equal ids, and equal
    /// directories where the *entry* has one (P2).
    pub fn names(self, other: ReplicaKey) -> bool {
        self.id == other.id && (self.directory.is_none() || self.directory == other.directory)
    }
}

impl fmt::Display for ReplicaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.directory {
            Some(directory) => write!(f, "{}:{directory}", self.id),
            None => self.id.fmt(f),
        }
    }
}

impl fmt::Debug for ReplicaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_without_directory_names_every_directory_of_the_id() {
        let (a, b) = (Some(Uuid([1; 16])), Some(Uuid([2; 16])));
        let check = |entry, other, expect: bool| {
            let key = |directory| ReplicaKey::new(ReplicaId(1), directory);
            assert_eq!(key(entry).names(key(other)), expect, "{entry:?} names {other:?}");
        };
        check(None, None, true);
        check(None, a, true);
        check(a, a, true);
        check(a, b, false);
        check(a, None, false);
    }
}
