//! Invariants of the whole state, for tests and the simulator; never called in a server.
//!
//! Each names one fact. What needs a second replica to check is the simulator's to check.

use crate::leader::Leader;
use crate::quorum::Quorum;
use crate::role::Role;
use quorate_base::{Offset, ReplicaKey, Time};

impl Quorum {
    /// Checks every invariant between two steps.
    ///
    /// # Panics
    /// If one does not hold; the message has the values.
    pub fn check(&self) {
        self.check_marks();
        self.check_role();
        self.check_messages();
        self.check_holds();
        assert!(
            self.deadline() > self.now || self.announced.is_none(),
            "a timer was left behind: {:?} at {:?} as {:?}",
            self.deadline(),
            self.now,
            self.role
        );
    }

    fn check_marks(&self) {
        let durable = self.writes.durable();
        assert!(durable <= self.end, "durable {durable} beyond the end {}", self.end);
        assert!(self.start <= self.end, "start {} beyond the end {}", self.start, self.end);
        assert!(
            self.committed <= self.end,
            "committed {} to the caller beyond the end {}",
            self.committed,
            self.end
        );
        if let Some(high_watermark) = self.high_watermark {
            assert!(
                self.start <= high_watermark && high_watermark <= self.end,
                "high watermark {high_watermark} outside [{}, {}]",
                self.start,
                self.end
            );
        }
        assert!(
            self.epochs.last() <= self.standing.epoch,
            "records of epoch {} in epoch {}",
            self.epochs.last(),
            self.standing.epoch
        );
        let snapshots = &self.snapshots;
        assert!(
            snapshots.windows(2).all(|w| w[0].offset < w[1].offset)
                && snapshots.first().is_none_or(|oldest| oldest.offset >= self.start)
                && snapshots.last().is_none_or(|newest| newest.offset <= self.end),
            "snapshots {snapshots:?} of a log [{}, {})",
            self.start,
            self.end
        );
        assert!(
            self.start == Offset::ZERO || !snapshots.is_empty(),
            "a log that begins at {} and no snapshot",
            self.start
        );
        let entries = self.epochs.entries();
        let ascending = entries.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1);
        assert!(ascending, "epochs do not ascend: {entries:?}");
        assert_eq!(entries.first().map(|e| e.1), (self.end > self.start).then_some(self.start));
        assert!(
            entries.last().is_none_or(|e| e.1 < self.end),
            "an epoch beyond the end: {entries:?}"
        );
    }

    fn check_role(&self) {
        let leader = self.standing.leader;
        let own = self.id().is_some() && leader == self.id();
        let stands = match &self.role {
            Role::Unattached(role) => {
                assert!(!own, "unattached behind its own leadership");
                assert!(
                    self.is_electable() || role.election_at == Time::NEVER,
                    "an observer waits for an election"
                );
                false
            }
            Role::Prospective(_) => true,
            Role::Candidate(_) => {
                assert_eq!(leader, None, "a candidate knows no leader");
                let voted = self.standing.voted;
                assert!(
                    voted.is_some_and(|v| self.key.is_some_and(|own| v.names(own))),
                    "a candidate that voted for {voted:?}"
                );
                true
            }
            Role::Follower(role) => {
                assert!(leader.is_some() && !own, "follows {leader:?}");
                if let Some(download) = &role.download {
                    download.check(self.last());
                }
                false
            }
            Role::Leader(leader) => {
                assert!(own, "leads an epoch of {:?}", self.standing.leader);
                assert!(
                    self.high_watermark.is_none_or(|known| known > leader.epoch_start),
                    "high watermark {:?} without a record of the epoch that starts at {}",
                    self.high_watermark,
                    leader.epoch_start
                );
                assert!(leader.epoch_start < self.end, "no first record of the epoch");
                for parked in &leader.parked {
                    assert_eq!(parked.fetch.from.offset, self.end, "parked though there is more");
                    assert_eq!(parked.fetch.epoch, self.standing.epoch);
                }
                let rounds: Vec<_> = leader.reads.waiting().collect();
                assert!(rounds.windows(2).all(|w| w[0].0 < w[1].0), "rounds: {rounds:?}");
                let counted: usize = rounds.iter().map(|(_, count)| count).sum();
                assert_eq!(counted, leader.reads.count());
                assert!(rounds.iter().all(|(round, count)| {
                    *count > 0 && *round > 0 && *round <= leader.reads.round()
                }));
                self.check_seats(leader);
                let ends = leader.voters.iter().map(|v| v.end.unwrap_or(Offset::ZERO));
                assert!(ends.max().unwrap_or_default() <= self.end, "a voter ahead of its leader");
                true
            }
            Role::Resigned(_) => {
                assert!(own, "resigned an epoch of {:?}", self.standing.leader);
                assert_eq!(self.high_watermark, None);
                true
            }
        };
        let led = matches!(self.role, Role::Resigned(_));
        assert!(!stands || led || !self.is_damaged(), "damaged, and stands: {:?}", self.role);
        let leaves = led || self.is_removed() && self.high_watermark < Some(self.end);
        assert!(!stands || leaves || self.is_electable(), "an observer stands: {:?}", self.role);
        assert!(
            self.announced.is_none() || self.on_disk == self.standing.on_disk(),
            "{:?} was not written, the file says {:?}",
            self.standing,
            self.on_disk
        );
    }

    /// The leader counts those that the log names, and nobody else [P74].
    fn check_seats(&self, leader: &Leader) {
        let known: Vec<_> = leader.voters.iter().map(|voter| voter.key).collect();
        let set = self.decrees.voters();
        let named: Vec<_> = set.keys().filter(|key| Some(key.id) != self.id()).collect();
        assert_eq!(known, named, "the leader's voters are not those of the log");
        assert!(leader.voters.iter().all(|voter| voter.voter));
        let stray = leader.observers.iter().find(|observer| set.contains(observer.key));
        assert!(stray.is_none(), "{stray:?} is a voter, and known as an observer");
        let counted = |key: Option<ReplicaKey>| key.is_some_and(|key| set.contains(key));
        assert!(leader.parked.iter().all(|parked| parked.voter == counted(parked.fetch.replica)));
        assert!(leader.holds.iter().all(|hold| hold.voter == counted(hold.replica)));
    }

    fn check_messages(&self) {
        let fetches = self.peers.fetches();
        assert!(fetches <= 1, "{fetches} fetches in flight");
        let fetches_allowed = matches!(self.role, Role::Unattached(_) | Role::Follower(_));
        assert!(fetches == 0 || fetches_allowed, "fetches as {:?}", self.role.name());
        for needs in self.outbox.held() {
            assert!(!self.writes.covers(needs), "held though {needs:?} is durable");
        }
    }
}
