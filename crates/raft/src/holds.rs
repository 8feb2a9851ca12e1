//! What a leader keeps for replicas that copy one of its snapshots: that snapshot, and the log from
//! its end on, until they can go on from the log by themselves [P67].
//!
//! Without it a replica that copies more slowly than snapshots are made and removed begins anew for
//! ever. It is a courtesy, not a promise to anybody: it ends by itself when its replica is silent,
//! and with the leadership, and the caller may take all of it back when it costs too much.

use crate::mutants::mutant;
use crate::quorum::Quorum;
use crate::role::Role;
use quorate_base::{Offset, OffsetEpoch, ReplicaKey, Span, Time};

/// For how many replicas that do not count something is kept at once. Those without an id cannot be
/// told apart: all that copy one snapshot are one.
const OBSERVERS: usize = 8;

/// What is kept for one replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hold {
    /// For whom; `None` for those without an id that copy this snapshot.
    pub replica: Option<ReplicaKey>,
    /// Whether it counts.
    pub voter: bool,
    /// What it copies; `None` once it fetches from the log.
    pub snapshot: Option<OffsetEpoch>,
    /// The log is kept from here on.
    pub from: Offset,
    /// When this ends, unless the replica asks again.
    until: Time,
}

/// Whether two keys are one replica's: an old version of a request has no directory to tell.
fn same(one: Option<ReplicaKey>, other: Option<ReplicaKey>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => one.names(other) || other.names(one),
        (Some(_), None) | (None, Some(_)) => false,
    }
}

impl Quorum {
    /// How long a replica may be silent. One that lives asks again after a lost question, which
    /// takes a request timeout, and after another one elsewhere; a voter whose leader is silent for
    /// a fetch timeout gives up its copy itself. As long again is for its disk, which first puts
    /// the snapshot in the place of the log.
    fn hold_time(&self) -> Span {
        Span(2 * (self.config.request_timeout.0 + self.config.fetch_timeout.0))
    }

    /// A replica is told to copy this snapshot, or copies it.
    pub(crate) fn hold_snapshot(&mut self, replica: Option<ReplicaKey>, snapshot: OffsetEpoch) {
        if !self.snapshots.contains(&snapshot) || mutant!(self, ForgetCopies) {
            return;
        }
        let voter = replica.is_some_and(|key| self.decrees.voters().contains(key));
        let (now, until) = (self.now, self.now + self.hold_time());
        let Role::Leader(leader) = &mut self.role else { return };
        let before = |hold: &Hold| {
            same(hold.replica, replica) && (replica.is_some() || hold.snapshot == Some(snapshot))
        };
        leader.holds.retain(|hold| hold.until > now && !before(hold));
        let observers = leader.holds.iter().filter(|hold| !hold.voter).count();
        if voter || observers < OBSERVERS {
            let from = snapshot.offset;
            leader.holds.push(Hold { replica, voter, snapshot: Some(snapshot), from, until });
        }
    }

    /// A replica fetches from the log, validly: it needs nothing below, and nothing at all once
    /// retention can no longer overtake it.
    pub(crate) fn hold_log(&mut self, replica: Option<ReplicaKey>, from: Offset) {
        let newest = self.snapshots.last().map_or(Offset::ZERO, |newest| newest.offset);
        let until = self.now + self.hold_time();
        let Role::Leader(leader) = &mut self.role else { return };
        // Of those without an id this may be another one: what is kept for them ends in silence.
        let Some(key) = replica else { return };
        let Some(at) = leader.holds.iter().position(|hold| same(hold.replica, Some(key))) else {
            return;
        };
        match from >= newest {
            true => drop(leader.holds.remove(at)),
            false => {
                let hold = &mut leader.holds[at];
                (hold.snapshot, hold.from, hold.until) = (None, from, until);
            }
        }
    }

    /// Takes back what is kept for observers, or for all.
    pub(crate) fn on_give_up(&mut self, voters_too: bool) {
        let Role::Leader(leader) = &mut self.role else { return };
        leader.holds.retain(|hold| hold.voter && !voters_too);
    }

    /// One that counted counts no more: it may be one too many [P74].
    pub(crate) fn limit_holds(&mut self) {
        let Role::Leader(leader) = &mut self.role else { return };
        let mut observers = 0;
        leader.holds.retain(|hold| {
            observers += usize::from(!hold.voter);
            hold.voter || observers <= OBSERVERS
        });
    }

    /// What is kept, after those that are silent are forgotten.
    pub(crate) fn current_holds(&mut self) -> &[Hold] {
        let now = self.now;
        let Role::Leader(leader) = &mut self.role else { return &[] };
        leader.holds.retain(|hold| hold.until > now);
        &leader.holds
    }

    /// All that is kept, perhaps for one that is silent.
    pub(crate) fn holds(&self) -> &[Hold] {
        match &self.role {
            Role::Leader(leader) => &leader.holds,
            Role::Unattached(_)
            | Role::Prospective(_)
            | Role::Candidate(_)
            | Role::Follower(_)
            | Role::Resigned(_) => &[],
        }
    }

    pub(crate) fn check_holds(&self) {
        let holds = self.holds();
        let observers = holds.iter().filter(|hold| !hold.voter).count();
        assert!(observers <= OBSERVERS, "something is kept for {observers} observers");
        for hold in holds {
            let kept = hold.snapshot.is_none_or(|copied| self.snapshots.contains(&copied));
            assert!(
                kept && hold.from >= self.start,
                "{hold:?}, but the log begins at {} and its snapshots are {:?}",
                self.start,
                self.snapshots
            );
        }
    }
}
