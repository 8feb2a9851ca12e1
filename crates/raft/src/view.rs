//! A picture of the replica for status pages, metrics, tests and checkers. Changes nothing.

use crate::holds::Hold;
use crate::leader::Progress;
use crate::message::Endpoint;
use crate::quorum::Quorum;
use crate::role::Role;
use crate::voters::Voter;
use quorate_base::{Epoch, Offset, OffsetEpoch, ReplicaId, ReplicaKey};
use std::fmt;

/// What a replica is at the moment. Displays as Kafka's `current-state` metric does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RoleName {
    /// Knows no leader that it could follow.
    Unattached,
    /// The same, and has voted in this epoch.
    UnattachedVoted,
    /// Asks whether it would be elected.
    Prospective,
    /// The same, and has voted in this epoch.
    ProspectiveVoted,
    /// Stands for election.
    Candidate,
    /// Leads.
    Leader,
    /// A voter that follows.
    Follower,
    /// An observer that follows.
    Observer,
    /// Led this epoch and has given up. Kafka's metric calls it unattached.
    Resigned,
}

impl fmt::Display for RoleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RoleName::Unattached | RoleName::Resigned => "unattached",
            RoleName::UnattachedVoted => "unattached-voted",
            RoleName::Prospective => "prospective",
            RoleName::ProspectiveVoted => "prospective-voted",
            RoleName::Candidate => "candidate",
            RoleName::Leader => "leader",
            RoleName::Follower => "follower",
            RoleName::Observer => "observer",
        })
    }
}

/// What a replica knows.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// What it is.
    pub role: RoleName,
    /// Its epoch.
    pub epoch: Epoch,
    /// The leader of the epoch, if known; names a resigned leader still, and a leader that may not
    /// serve yet.
    pub leader: Option<ReplicaId>,
    /// Where that leader listens, as far as known.
    pub leader_endpoints: &'a [Endpoint],
    /// Whom it voted for in this epoch.
    pub voted: Option<ReplicaKey>,
    /// One past the last committed offset, if known.
    pub high_watermark: Option<Offset>,
    /// First offset of the log.
    pub start: Offset,
    /// One past the last offset.
    pub end: Offset,
    /// One past the last offset that survives a crash.
    pub durable: Offset,
    /// What the log held before it was damaged: until it is there again this replica does not
    /// stand, and votes only for who holds as much (rule P62).
    pub must_reach: Option<OffsetEpoch>,
    /// Below which tombstones may be collected; `None` if this log must not be cleaned now (rule
    /// P83).
    pub bound: Option<Offset>,
    /// The snapshot that is being copied from the leader: which, how many bytes have come, and of
    /// how many, once that is known.
    pub download: Option<(OffsetEpoch, u64, Option<u64>)>,
    /// The epoch of the last record; 0 when the log is empty.
    pub last_epoch: Epoch,
    /// `(epoch, first offset)` of each epoch in the log.
    pub epochs: &'a [(Epoch, Offset)],
    /// The voter set.
    pub voters: &'a [Voter],
    /// The `kraft.version` in force: 0 while the voters are static.
    pub kraft_version: u16,
    /// Where this leader's epoch begins in the log; `None` unless leading.
    pub epoch_start: Option<Offset>,
    /// The other voters, when leading; else empty. The leader's own progress is `durable`, now.
    pub followers: &'a [Progress],
    /// Those who fetch and do not count, when leading; else empty.
    pub observers: &'a [Progress],
    /// What this leader keeps for replicas that copy a snapshot (rule P67); empty unless leading.
    pub holds: &'a [Hold],
    /// Whether this leader's latest voters are not committed.
    pub uncommitted_voters: bool,
    /// Whether somebody waits for this leader to add a voter.
    pub pending_add: bool,
    /// Whether somebody waits for this leader to remove one.
    pub pending_remove: bool,
    /// How many fetches wait for news.
    pub parked: usize,
    /// How many reads wait for their proof.
    pub reads: usize,
}

impl Quorum {
    /// A picture of this replica.
    pub fn view(&self) -> View<'_> {
        let voted = self.standing.voted.is_some();
        let role = match &self.role {
            Role::Unattached(_) if voted => RoleName::UnattachedVoted,
            Role::Prospective(_) if voted => RoleName::ProspectiveVoted,
            Role::Follower(_) if !self.is_voter() => RoleName::Observer,
            Role::Unattached(_)
            | Role::Prospective(_)
            | Role::Candidate(_)
            | Role::Follower(_)
            | Role::Leader(_)
            | Role::Resigned(_) => self.role.name(),
        };
        let leading = match &self.role {
            Role::Leader(leader) => Some(leader),
            Role::Unattached(_)
            | Role::Prospective(_)
            | Role::Candidate(_)
            | Role::Follower(_)
            | Role::Resigned(_) => None,
        };
        View {
            role,
            epoch: self.standing.epoch,
            leader: self.standing.leader,
            leader_endpoints: match self.standing.leader {
                Some(id) if Some(id) == self.config.id => &self.config.endpoints,
                Some(_) | None => &self.standing.endpoints,
            },
            voted: self.standing.voted,
            high_watermark: self.high_watermark,
            start: self.start,
            end: self.end,
            durable: self.writes.durable(),
            must_reach: self.must_reach,
            bound: self.may_collect(),
            download: self.progress_of_download(),
            last_epoch: self.epochs.last(),
            epochs: self.epochs.entries(),
            voters: self.decrees.voters().entries(),
            kraft_version: self.kraft_version(),
            epoch_start: leading.map(|leader| leader.epoch_start),
            followers: leading.map_or(&[], |leader| &leader.voters),
            observers: leading.map_or(&[], |leader| &leader.observers),
            holds: self.holds(),
            uncommitted_voters: leading.is_some() && self.decrees.newest() >= self.high_watermark,
            pending_add: leading.is_some_and(|leader| leader.is_asked(|asked| asked.adds())),
            pending_remove: leading.is_some_and(|leader| leader.is_asked(|asked| asked.removes())),
            parked: leading.map_or(0, |leader| leader.parked.len()),
            reads: leading.map_or(0, |leader| leader.reads.count()),
        }
    }
}
