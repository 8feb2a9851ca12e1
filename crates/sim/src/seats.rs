//! Who counts, as logs say it: the voters that each batch names, and the latest in a log.
//!
//! Read from the batches themselves. No replica's own idea of its voters is asked, and nothing here
//! says which of two logs is right.

use crate::book::Entry;
use crate::options::Options;
use bytes::Bytes;
use quorate_base::{ReplicaId, ReplicaKey, Uuid};
use quorate_log::{Batch, ControlType, Head};
use quorate_wire::message::{KRaftVersionFeature, Listener};
use quorate_wire::record::control::{KRaftVersion, KRaftVoter, KRaftVoters};
use std::sync::Arc;

/// Those that count, by id. An entry without a directory names every directory of its id.
pub(crate) type Voters = Arc<[ReplicaKey]>;

/// The voters before any log says something of them.
#[derive(Clone, Debug)]
pub(crate) struct Seats {
    founding: Voters,
    /// Whether logs may name others.
    pub dynamic: bool,
}

/// The directory that a node is first formatted with.
pub(crate) fn first_directory(node: usize) -> Uuid {
    Uuid([node as u8 + 1; 16])
}

/// What comes with a node, and what goes, from one set to another.
pub(crate) fn difference(before: &[ReplicaKey], after: &[ReplicaKey]) -> Vec<(Change, ReplicaKey)> {
    let came = after.iter().filter(|key| !before.contains(key)).map(|key| (Change::Add, *key));
    let gone = before.iter().filter(|key| !after.contains(key)).map(|key| (Change::Remove, *key));
    came.chain(gone).collect()
}

/// One voter more or one less.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Change {
    /// One more.
    Add,
    /// One less.
    Remove,
}

impl Seats {
    pub fn new(options: &Options) -> Seats {
        let dynamic = options.dynamic == 1;
        let key = |node: usize| {
            let directory = dynamic.then(|| first_directory(node));
            ReplicaKey::new(ReplicaId(node as u32 + 1), directory)
        };
        Seats { founding: (0..options.voters as usize).map(key).collect(), dynamic }
    }

    /// Those in force behind these batches of one log, from its beginning on.
    pub fn behind<'a>(&'a self, entries: &'a [Entry]) -> &'a Voters {
        let named = |entry: &'a Entry| entry.voters.as_ref();
        let named = self.dynamic.then(|| entries.iter().rev().find_map(named)).flatten();
        named.unwrap_or(&self.founding)
    }
}

/// The voters that a batch names.
pub(crate) fn named(batch: &Batch) -> Option<Voters> {
    if !batch.control() {
        return None;
    }
    let voters = |value: &[u8]| {
        let record = KRaftVoters::decode(Bytes::copy_from_slice(value)).ok()?;
        let key = |voter: &KRaftVoter| {
            let id = ReplicaId(u32::try_from(voter.voter_id).ok()?);
            let directory = voter.voter_directory_id;
            Some(ReplicaKey::new(id, (directory != Uuid::ZERO).then_some(directory)))
        };
        let mut keys: Vec<ReplicaKey> = record.voters.iter().filter_map(key).collect();
        keys.sort();
        Some(Voters::from(keys))
    };
    batch.records().flatten().find_map(|record| {
        let kind = ControlType::of_key(record.key?).ok()?;
        (kind == ControlType::KRaftVoters).then(|| voters(record.value?)).flatten()
    })
}

/// The head of a bootstrap snapshot that names these.
pub(crate) fn head(voters: &[ReplicaKey], listener: impl Fn(ReplicaId) -> Listener) -> Head {
    let version = KRaftVersion { kraft_version: 1, ..KRaftVersion::default() };
    let feature =
        KRaftVersionFeature { max_supported_version: 1, ..KRaftVersionFeature::default() };
    let voter = |key: &ReplicaKey| KRaftVoter {
        voter_id: key.id.0 as i32,
        voter_directory_id: key.directory.unwrap_or_default(),
        endpoints: vec![listener(key.id)],
        kraft_version_feature: feature.clone(),
        ..KRaftVoter::default()
    };
    let voters =
        KRaftVoters { voters: voters.iter().map(voter).collect(), ..KRaftVoters::default() };
    vec![
        (ControlType::KRaftVersion, version.encode().expect("a number fits in a record")),
        (ControlType::KRaftVoters, voters.encode().expect("a few voters fit in a record")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_base::{Epoch, Offset};
    use quorate_log::{BatchBuilder, Batches};

    #[test]
    fn the_latest_set_that_a_log_names_is_found_and_told_from_the_one_before() {
        let options = Options { dynamic: 1, ..Options::default() };
        let seats = Seats::new(&options);
        let founders = seats.behind(&[]).clone();
        assert_eq!(founders.len(), 3);
        let listener = |_| Listener::default();
        let mut batch = BatchBuilder::control(Offset(4), Epoch(1), 0);
        for (kind, value) in head(&founders[..2], listener) {
            batch.record(Some(&kind.key()), Some(&value), &[]);
        }
        let bytes = batch.finish();
        let found = Batches::new(bytes.clone()).next().unwrap().unwrap();
        assert_eq!(named(&found).as_deref(), Some(&founders[..2]));
        let log: Vec<Entry> = crate::book::entries(&bytes).collect();
        assert_eq!(&seats.behind(&log)[..], &founders[..2]);
        let gone = vec![(Change::Remove, founders[2])];
        assert_eq!(difference(&founders, &founders[..2]), gone);
        assert_eq!(difference(&founders[..2], &founders), [(Change::Add, founders[2])]);
        let fixed = Seats::new(&Options::default());
        assert_eq!(fixed.behind(&log)[0], ReplicaKey::new(ReplicaId(1), None));
    }
}
