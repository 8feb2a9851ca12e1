//! Who counts in this world: which voters may come to decide, which of them are as good as lost,
//! and how many more may be. The world's faults keep to it, and so does what is asked of a quorum
//! in the end.
//!
//! Told from the logs and from who is there. No replica is asked.

use super::World;
use crate::book::Book;
use crate::clients::Clients;
use crate::seats::Voters;
use quorate_base::{OffsetEpoch, ReplicaKey};

impl<C: Clients> World<C> {
    /// The node that an entry of a voter set names; `None` if that came back as another.
    pub(super) fn node_of(&self, voter: ReplicaKey) -> Option<usize> {
        self.keys.iter().position(|key| voter.names(*key))
    }

    /// The voters that are committed, and those that any log names behind: one of these sets
    /// decides next.
    pub(super) fn possible_voters(&self) -> Vec<Voters> {
        let ledger = &self.committed.ledger;
        let mut sets = vec![self.seats.behind(&ledger.entries).clone()];
        for book in self.books.iter().filter(|_| self.seats.dynamic) {
            let voters = self.seats.behind(&book.entries);
            let last = book.entries.iter().rev().find(|entry| entry.voters.is_some());
            if last.is_some_and(|last| last.end > ledger.end()) && !sets.contains(voters) {
                sets.push(voters.clone());
            }
        }
        sets
    }

    /// Whether a node may have a say.
    pub(super) fn is_seated(&self, node: usize) -> bool {
        let key = self.keys[node];
        self.possible_voters().iter().any(|set| set.iter().any(|voter| voter.names(key)))
    }

    /// Whether a node counts, as is committed.
    pub(super) fn is_counted(&self, node: usize) -> bool {
        let voters = self.seats.behind(&self.committed.ledger.entries);
        voters.iter().any(|voter| voter.names(self.keys[node]))
    }

    /// Whether a node does not count, as its own log has it.
    pub(super) fn observes(&self, node: usize) -> bool {
        let voters = self.seats.behind(&self.books[node].entries);
        !voters.iter().any(|voter| voter.names(self.keys[node]))
    }

    /// Whether a node is away for good, or its log is not what it was.
    pub(super) fn weak(&self, node: usize) -> bool {
        let node = &self.nodes[node];
        node.out || node.rotten || node.must_reach()
    }

    fn is_weak(&self, voter: ReplicaKey) -> bool {
        self.node_of(voter).is_none_or(|node| self.weak(node))
    }

    pub(super) fn any_weak_voter(&self) -> bool {
        self.possible_voters().iter().any(|set| set.iter().any(|voter| self.is_weak(*voter)))
    }

    /// How many more voters may be damaged, be lost, or stay away for ever.
    pub(super) fn spare(&self) -> usize {
        let sets = self.possible_voters();
        let left = |voters: &Voters| {
            let weak = voters.iter().filter(|voter| self.is_weak(**voter)).count();
            ((voters.len() - 1) / 2).saturating_sub(weak)
        };
        let spare = sets.iter().map(left).min().unwrap_or(0);
        if !self.seats.dynamic {
            return spare;
        }
        // One that is damaged may come to count before that shows.
        let mut outside = (0..self.nodes.len()).filter(|node| self.nodes[*node].has_id());
        let seated = |node: usize| {
            sets.iter().all(|set| set.iter().any(|voter| voter.names(self.keys[node])))
        };
        let weak = outside.by_ref().filter(|node| !seated(*node) && self.weak(*node)).count();
        spare.saturating_sub(weak)
    }

    /// One of the voters that are committed, if it is there.
    pub(super) fn any_voter(&mut self) -> Option<usize> {
        let voters = self.seats.behind(&self.committed.ledger.entries).clone();
        let at = self.disk_rng.below(voters.len() as u64) as usize;
        self.node_of(voters[at])
    }

    /// Whether changes of the voters and what happened to them leave nobody who could be elected.
    /// It is asked when nothing has happened for long: so no log changes any more.
    pub(super) fn lost_its_majority(&self) -> bool {
        self.seats.dynamic && !(0..self.nodes.len()).any(|node| self.could_win(node))
    }

    /// Whether a node would be elected if it stood: it counts by its own log, or did before the
    /// last change there, which it does not know to be committed [P75]; and of those that count by
    /// its log a majority is there with no more in their logs.
    fn could_win(&self, node: usize) -> bool {
        let Some(running) = &self.nodes[node].running else { return false };
        let (view, entries) = (running.replica.view(), &self.books[node].entries);
        let (voters, key) = (self.seats.behind(entries), self.keys[node]);
        let known = view.high_watermark.unwrap_or_default().max(running.replica.applied());
        let at = entries.iter().rposition(|entry| entry.voters.is_some());
        let leaves = at.filter(|at| entries[*at].end > known).is_some_and(|at| {
            let before = self.seats.behind(&entries[..at]);
            before.iter().any(|voter| voter.names(key))
        });
        if self.weak(node) || !leaves && self.observes(node) {
            return false;
        }
        let supports = |voter: &&ReplicaKey| {
            let Some(other) = self.node_of(**voter).filter(|other| !self.weak(*other)) else {
                return false;
            };
            last(&self.books[other]).log_order() <= last(&self.books[node]).log_order()
        };
        voters.iter().filter(supports).count() > voters.len() / 2
    }
}

/// The end of a log and the epoch of its last record.
fn last(book: &Book) -> OffsetEpoch {
    let last = book.entries.last();
    last.map_or(OffsetEpoch::default(), |last| OffsetEpoch::new(last.end, last.epoch))
}
