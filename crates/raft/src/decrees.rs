//! What the log says of the quorum itself, by offset: the version of `kraft.version` and the voters
//! in force (KIP-853).
//!
//! The newest decree in the log counts, committed or not, from the moment it is appended [P64].
//! Before the first one, and behind a snapshot that has none, the static voters count. Knows
//! nothing of roles or messages, and never decides a change.

use crate::voters::{KRAFT_VERSIONS, Voter, Voters};
use quorate_base::Offset;
use std::sync::Arc;

/// What one control batch, or a snapshot's head, says of the quorum itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Decree {
    /// A KRaftVersion record.
    pub version: Option<u16>,
    /// A KRaftVoters record. Sorted by id, no id twice, at least one.
    pub voters: Option<Arc<[Voter]>>,
}

impl Decree {
    /// Whether it says anything.
    pub fn is_empty(&self) -> bool {
        self.version.is_none() && self.voters.is_none()
    }
}

/// Why a decree cannot be obeyed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadDecree {
    /// A `kraft.version` beyond what this crate speaks.
    Version(u16),
    /// No voters, or an id twice, or not sorted.
    Voters,
}

/// What is in force from some offset on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seats {
    pub(crate) version: u16,
    pub(crate) voters: Voters,
}

/// The decrees of the log, and what counts before them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Decrees {
    /// The static voters.
    fixed: Voters,
    /// In force before the first of `later`: static, or from a snapshot.
    before: Seats,
    /// Whether `before` comes from the bootstrap snapshot: no log holds it yet.
    founding: bool,
    /// What is in force behind each control batch that says something, by its base; ascending.
    later: Vec<(Offset, Seats)>,
}

impl Decrees {
    pub(crate) fn new(fixed: Voters) -> Decrees {
        let before = Seats { version: 0, voters: fixed.clone() };
        Decrees { fixed, before, founding: false, later: Vec::new() }
    }

    /// The latest, committed or not.
    pub(crate) fn in_force(&self) -> &Seats {
        self.later.last().map_or(&self.before, |(_, seats)| seats)
    }

    /// Those that count [P64].
    pub(crate) fn voters(&self) -> &Voters {
        &self.in_force().voters
    }

    /// Those that counted before the latest batch that says something of it, if that is there.
    pub(crate) fn voters_before(&self) -> Option<&Voters> {
        let (_, earlier) = self.later.split_last()?;
        Some(earlier.last().map_or(&self.before.voters, |(_, seats)| &seats.voters))
    }

    /// Whether the voters in force were never in a log: they come from the bootstrap snapshot.
    pub(crate) fn unwritten(&self) -> bool {
        self.founding && self.later.is_empty()
    }

    /// Where the latest batch lies that says something of it and is not below a snapshot.
    pub(crate) fn newest(&self) -> Option<Offset> {
        self.later.last().map(|(base, _)| *base)
    }

    /// What a snapshot that ends at `end` has to hold; nothing while the voters are static.
    pub(crate) fn at(&self, end: Offset) -> Decree {
        let behind = self.later.partition_point(|(base, _)| *base < end);
        let seats = behind.checked_sub(1).map_or(&self.before, |last| &self.later[last].1);
        match seats.version {
            0 => Decree::default(),
            version => {
                Decree { version: Some(version), voters: Some(seats.voters.entries().clone()) }
            }
        }
    }

    /// A control batch at `base` is appended. Without effect if it says nothing.
    pub(crate) fn append(&mut self, base: Offset, decree: &Decree) -> Result<(), BadDecree> {
        assert!(
            self.later.last().is_none_or(|(last, _)| *last < base),
            "a decree at {base} is not behind {:?}",
            self.later.last()
        );
        if !decree.is_empty() {
            let seats = Decrees::obey(self.in_force(), decree)?;
            self.later.push((base, seats));
        }
        Ok(())
    }

    /// The log is cut back to `end`: what was in force before is again.
    pub(crate) fn truncate(&mut self, end: Offset) {
        self.later.truncate(self.later.partition_point(|(base, _)| *base < end));
    }

    /// What is below the end of a snapshot is never asked for again: what was in force there is
    /// kept, and what led to it is forgotten.
    pub(crate) fn forget_below(&mut self, end: Offset) {
        let below = self.later.partition_point(|(base, _)| *base < end);
        if let Some((_, seats)) = self.later.drain(..below).next_back() {
            self.before = seats;
            self.founding = false;
        }
    }

    /// The log begins anew behind a snapshot, or has not begun behind the bootstrap snapshot.
    pub(crate) fn begin(&mut self, decree: &Decree, founding: bool) -> Result<(), BadDecree> {
        let fixed = Seats { version: 0, voters: self.fixed.clone() };
        self.before = Decrees::obey(&fixed, decree)?;
        self.founding = founding && !decree.is_empty();
        self.later.clear();
        Ok(())
    }

    fn obey(before: &Seats, decree: &Decree) -> Result<Seats, BadDecree> {
        let version = decree.version.unwrap_or(before.version);
        if version > KRAFT_VERSIONS.1 {
            return Err(BadDecree::Version(version));
        }
        let voters = match &decree.voters {
            Some(entries) => {
                let voters = Voters::new(entries.clone()).filter(|voters| voters.len() > 0);
                voters.ok_or(BadDecree::Voters)?
            }
            None => before.voters.clone(),
        };
        Ok(Seats { version, voters })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_base::{ReplicaId, ReplicaKey, Uuid};

    fn voters(ids: &[u32]) -> Arc<[Voter]> {
        let voter = |id: &u32| {
            let key = ReplicaKey::new(ReplicaId(*id), Some(Uuid([*id as u8; 16])));
            Voter { key, endpoints: Arc::from([]), versions: KRAFT_VERSIONS }
        };
        ids.iter().map(voter).collect()
    }

    fn decree(version: Option<u16>, ids: &[u32]) -> Decree {
        Decree { version, voters: (!ids.is_empty()).then(|| voters(ids)) }
    }

    fn decrees() -> Decrees {
        let fixed = [1, 2].map(|id| Voter::fixed(ReplicaKey::new(ReplicaId(id), None), [].into()));
        Decrees::new(Voters::new(fixed.into()).expect("sorted"))
    }

    fn ids(decrees: &Decrees) -> Vec<u32> {
        decrees.in_force().voters.keys().map(|key| key.id.0).collect()
    }

    #[test]
    fn b054_b055_the_latest_counts_and_a_cut_brings_back_the_one_before() {
        let mut log = decrees();
        assert_eq!((ids(&log), log.in_force().version), (vec![1, 2], 0));
        log.append(Offset(3), &Decree::default()).expect("nothing");
        assert_eq!(log.at(Offset(9)), Decree::default());
        log.append(Offset(4), &decree(Some(1), &[1, 2, 3])).expect("good");
        log.append(Offset(8), &decree(None, &[2, 3])).expect("good");
        assert_eq!((ids(&log), log.in_force().version), (vec![2, 3], 1));
        assert_eq!(log.at(Offset(8)), decree(Some(1), &[1, 2, 3]));
        assert_eq!(log.at(Offset(4)), Decree::default());
        log.truncate(Offset(8));
        assert_eq!(ids(&log), [1, 2, 3]);
        log.truncate(Offset(4));
        assert_eq!((ids(&log), log.in_force().version), (vec![1, 2], 0));
    }

    #[test]
    fn b054_what_lies_below_a_snapshot_is_forgotten_and_stays_in_force() {
        let mut log = decrees();
        for (base, ids) in [(4, &[1, 2, 3][..]), (8, &[2, 3]), (12, &[3])] {
            log.append(Offset(base), &decree(Some(1), ids)).expect("good");
        }
        log.forget_below(Offset(10));
        assert_eq!(log.at(Offset(10)), decree(Some(1), &[2, 3]));
        log.truncate(Offset(10));
        assert_eq!(ids(&log), [2, 3]);
        log.forget_below(Offset(10));
        assert_eq!(ids(&log), [2, 3], "nothing was below");
    }

    #[test]
    fn a_snapshot_begins_anew_and_one_without_voters_brings_back_the_static_ones() {
        let mut log = decrees();
        log.begin(&decree(Some(1), &[7]), true).expect("good");
        assert!(log.unwritten());
        log.append(Offset(1), &decree(Some(1), &[7])).expect("good");
        assert!(!log.unwritten());
        log.begin(&decree(Some(1), &[8, 9]), false).expect("good");
        assert_eq!((ids(&log), log.unwritten()), (vec![8, 9], false));
        log.begin(&Decree::default(), false).expect("good");
        assert_eq!((ids(&log), log.in_force().version), (vec![1, 2], 0));
    }

    #[test]
    fn what_cannot_be_obeyed_is_refused_and_changes_nothing() {
        let mut log = decrees();
        let newer = decree(Some(KRAFT_VERSIONS.1 + 1), &[]);
        assert_eq!(log.append(Offset(1), &newer), Err(BadDecree::Version(KRAFT_VERSIONS.1 + 1)));
        let nobody = Decree { version: None, voters: Some([].into()) };
        assert_eq!(log.append(Offset(1), &nobody), Err(BadDecree::Voters));
        assert_eq!(log.append(Offset(1), &decree(None, &[2, 1])), Err(BadDecree::Voters));
        assert_eq!(log, decrees());
    }
}
