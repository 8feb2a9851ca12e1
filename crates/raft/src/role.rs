//! What a replica is at the moment, and the only table of what it may become.
//!
//! Each variant holds its own data; what outlives a change of role inside an epoch (leader, vote)
//! is in [`Standing`]. [`Quorum::enter`] is the one door: nothing else assigns a role [P11].

use crate::download::Download;
use crate::effect::{Effect, Write, WriteId};
use crate::leader::Leader;
use crate::message::{Endpoint, ErrorKind};
use crate::mutants::mutant;
use crate::quorum::Quorum;
use crate::{ElectionState, RoleName};
use quorate_base::{Epoch, Offset, ReplicaId, ReplicaKey, Time};
use std::sync::Arc;

/// What this node knows of the current epoch. All but the endpoints is in the quorum-state file.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) epoch: Epoch,
    pub(crate) leader: Option<ReplicaId>,
    /// Where the leader listens, as far as it or others told; may be empty.
    pub(crate) endpoints: Arc<[Endpoint]>,
    pub(crate) voted: Option<ReplicaKey>,
}

impl Standing {
    /// The epoch has only begun: no leader, no vote.
    pub(crate) fn fresh(epoch: Epoch) -> Standing {
        Standing { epoch, leader: None, endpoints: Arc::from([]), voted: None }
    }

    pub(crate) fn on_disk(&self) -> ElectionState {
        ElectionState { epoch: self.epoch, leader: self.leader, voted: self.voted }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Role {
    /// Knows no leader that it could follow.
    Unattached(Unattached),
    /// Asks whether it would be elected (KIP-996).
    Prospective(Prospective),
    /// Stands for election.
    Candidate(Candidate),
    /// Copies the leader's log.
    Follower(Follower),
    /// Writes the log.
    Leader(Box<Leader>),
    /// Led this epoch and appends nothing more in it.
    Resigned(Resigned),
}

#[derive(Clone, Debug)]
pub(crate) struct Unattached {
    /// When a voter becomes prospective; `NEVER` for observers.
    pub(crate) election_at: Time,
}

#[derive(Clone, Debug)]
pub(crate) struct Prospective {
    pub(crate) tally: Tally,
    pub(crate) election_at: Time,
    /// Set when the leader's process is known to be gone: when those that refused are asked again
    /// [P51].
    pub(crate) ask_again_at: Option<Time>,
}

#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) tally: Tally,
    pub(crate) election_at: Time,
}

#[derive(Clone, Debug)]
pub(crate) struct Follower {
    /// When a voter that has heard nothing valid becomes prospective.
    pub(crate) fetch_at: Time,
    /// Whether a fetch from this leader has succeeded [P15].
    pub(crate) fetched: bool,
    /// The last read round received from this leader [P47].
    pub(crate) round: u64,
    /// Below which it last said that tombstones may be collected [P83].
    pub(crate) bound: Option<Offset>,
    /// Set once the leader's process is known to be gone: when to start pre-voting [P50].
    pub(crate) stand_at: Option<Time>,
    /// The snapshot that is being fetched from this leader [P59].
    pub(crate) download: Option<Download>,
    /// When this leader may be told of this voter at the earliest [P68].
    pub(crate) update_at: Time,
    /// Whether it was, as far as static voters tell it.
    pub(crate) told: bool,
    /// When this leader may be asked to make a voter of this observer at the earliest [P76].
    pub(crate) join_at: Time,
    /// Whether it held all that the leader had committed when it last fetched.
    pub(crate) level: bool,
}

impl Follower {
    /// One that has just found its leader; the time is one fetch timeout away.
    pub(crate) fn new(later: Time) -> Follower {
        Follower {
            fetch_at: later,
            fetched: false,
            round: 0,
            bound: None,
            stand_at: None,
            download: None,
            update_at: later,
            told: false,
            join_at: later,
            level: false,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Resigned {
    /// When to leave for the next epoch.
    pub(crate) election_at: Time,
    /// Voters that have not acknowledged EndQuorumEpoch.
    pub(crate) unacked: Vec<ReplicaId>,
    /// Those of them whose process is known to be gone: the last try was refused [P54].
    pub(crate) gone: Vec<ReplicaId>,
    /// The other voters, most caught up first; by id when restored.
    pub(crate) successors: Vec<ReplicaKey>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ballot {
    Unanswered,
    Granted,
    Refused,
}

/// The votes of the voter set as it was when the role was entered; the own one is given.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// Sorted by id.
    ballots: Vec<(ReplicaKey, Ballot)>,
}

impl Tally {
    pub(crate) fn new(voters: impl Iterator<Item = ReplicaKey>, own: ReplicaKey) -> Tally {
        let ballot = |key: ReplicaKey| match key.names(own) {
            true => (key, Ballot::Granted),
            false => (key, Ballot::Unanswered),
        };
        Tally { ballots: voters.map(ballot).collect() }
    }

    /// The ballot of a voter; `None` for others.
    pub(crate) fn ballot(&mut self, id: ReplicaId) -> Option<&mut Ballot> {
        let at = self.ballots.binary_search_by_key(&id, |(key, _)| key.id).ok()?;
        Some(&mut self.ballots[at].1)
    }

    /// All that were refused count as unanswered again.
    pub(crate) fn ask_again(&mut self) {
        for (_, ballot) in &mut self.ballots {
            if *ballot == Ballot::Refused {
                *ballot = Ballot::Unanswered;
            }
        }
    }

    pub(crate) fn with(&self, wanted: Ballot) -> impl Iterator<Item = ReplicaKey> + '_ {
        let matching = self.ballots.iter().filter(move |(_, ballot)| *ballot == wanted);
        matching.map(|(key, _)| *key)
    }

    pub(crate) fn won(&self) -> bool {
        self.with(Ballot::Granted).count() >= crate::majority::majority(self.ballots.len())
    }

    /// Whether no more answer can win it.
    pub(crate) fn lost(&self) -> bool {
        let refused = self.with(Ballot::Refused).count();
        self.ballots.len() - refused < crate::majority::majority(self.ballots.len())
    }
}

impl Role {
    pub(crate) fn name(&self) -> RoleName {
        match self {
            Role::Unattached(_) => RoleName::Unattached,
            Role::Prospective(_) => RoleName::Prospective,
            Role::Candidate(_) => RoleName::Candidate,
            Role::Follower(_) => RoleName::Follower,
            Role::Leader(_) => RoleName::Leader,
            Role::Resigned(_) => RoleName::Resigned,
        }
    }

    /// The transition table [P11]: whether this role may become `next`, in the same epoch or in a
    /// `later` one. A vote that is added in place is no transition.
    fn may_become(&self, next: &Role, later: bool) -> bool {
        match (self, next) {
            // A later epoch always may turn up, with or without its leader.
            (_, Role::Unattached(_) | Role::Follower(_)) if later => true,
            // Inside an epoch: finding the leader...
            (
                Role::Unattached(_) | Role::Prospective(_) | Role::Candidate(_),
                Role::Follower(_),
            ) => true,
            // ...giving up on it, or on finding one...
            (
                Role::Unattached(_) | Role::Follower(_) | Role::Candidate(_) | Role::Resigned(_),
                Role::Prospective(_),
            ) => !later,
            (Role::Prospective(_), Role::Unattached(_)) => true,
            // ...and the steps of an election.
            (Role::Prospective(_), Role::Candidate(_)) => later,
            (Role::Candidate(_), Role::Leader(_)) => !later,
            (Role::Leader(_), Role::Resigned(_)) => !later,
            (
                Role::Unattached(_)
                | Role::Prospective(_)
                | Role::Candidate(_)
                | Role::Follower(_)
                | Role::Leader(_)
                | Role::Resigned(_),
                Role::Unattached(_)
                | Role::Prospective(_)
                | Role::Candidate(_)
                | Role::Follower(_)
                | Role::Leader(_)
                | Role::Resigned(_),
            ) => false,
        }
    }
}

impl Quorum {
    /// Changes the role, and the standing with it: writes first, forgets all questions in flight,
    /// and lets a lost leadership answer whoever waits for it.
    pub(crate) fn enter(&mut self, standing: Standing, next: Role, out: &mut Vec<Effect>) {
        let later = standing.epoch > self.standing.epoch;
        assert!(
            standing.epoch >= self.standing.epoch,
            "the epoch never falls: {} to {}",
            self.standing.epoch,
            standing.epoch
        );
        assert!(
            self.role.may_become(&next, later),
            "{:?} may not become {:?} ({} to {})",
            self.role.name(),
            next.name(),
            self.standing.epoch,
            standing.epoch
        );
        let resigned = matches!(next, Role::Resigned(_));
        // A leader whose removal is committed resigns too.
        if matches!(next, Role::Prospective(_) | Role::Candidate(_) | Role::Leader(_)) {
            assert!(self.is_electable(), "an observer never becomes {:?}", next.name());
        }
        let voted = self.standing.voted;
        self.standing = standing;
        if mutant!(self, KeepVote) {
            self.standing.voted = self.standing.voted.or(voted);
        }
        self.persist(out);
        if !mutant!(self, AcceptStaleAnswers) {
            self.peers.reset();
        }
        self.outbox.recall();
        let forgets = matches!(next, Role::Leader(_)) || resigned;
        if forgets && !mutant!(self, InheritHighWatermark) {
            // A leader never inherits what others told it to be committed [P13].
            self.high_watermark = None;
        }
        self.abandon(out);
        let last = std::mem::replace(&mut self.role, next);
        if let Role::Leader(last) = last {
            // The epoch that cost the leadership shows in these answers and waits for its write.
            let view = self.leader_view(ErrorKind::NotLeaderOrFollower);
            self.outbox.revoke(self.shown(), &view);
            self.dismiss(*last, out);
        }
    }

    /// Writes the standing if the file says something else. Prospective and Resigned change nothing
    /// durable, so entering them writes nothing [P9].
    pub(crate) fn persist(&mut self, out: &mut Vec<Effect>) -> WriteId {
        let mut state = self.standing.on_disk();
        if mutant!(self, VoteInMemory) {
            state.voted = self.on_disk.voted.filter(|_| state.epoch == self.on_disk.epoch);
        }
        if state != self.on_disk {
            let id = self.writes.issue();
            if state.epoch != self.on_disk.epoch {
                self.epoch_write = id;
            }
            if state.voted != self.on_disk.voted {
                self.vote_write = id;
            }
            self.on_disk = state.clone();
            self.election_write = id;
            out.push(Effect::Write { id, write: Write::Election(state) });
        }
        self.election_write
    }
}
