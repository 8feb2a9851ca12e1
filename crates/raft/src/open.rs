//! From what start-up found on disk to the first role [P10].
//!
//! Nothing is decided here that an input could decide. What must be written or sent comes out of
//! the first step. A leader never comes back as the leader of its epoch: after lost writes it could
//! give one (epoch, offset) to two records.

use crate::config::{Config, ElectionState, Recovered};
use crate::decrees::{BadDecree, Decrees};
use crate::effect::WriteId;
use crate::epochs::Epochs;
use crate::outbox::Outbox;
use crate::peers::Peers;
use crate::quorum::{LAST_EPOCH, Quorum};
use crate::role::{Candidate, Follower, Resigned, Role, Standing, Tally, Unattached};
use crate::voters::{Voter, Voters};
use crate::writes::Writes;
use quorate_base::{Epoch, Offset, OffsetEpoch, ReplicaKey, Rng, Time, Uuid};
use std::fmt;

/// Why a quorum cannot be opened: settings or files that do not fit together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// The directory id is the zero uuid, which means "none".
    NoDirectory,
    /// Neither bootstrap servers nor voters, in the settings or the log: there is no one to ask.
    NoPeers,
    /// The voters are not sorted by id, or an id occurs twice.
    Voters,
    /// A timeout is zero.
    Timeout {
        /// Its property name without the `controller.quorum.` in front.
        name: &'static str,
    },
    /// The quorum-state file holds a vote, and this node has no id that could have given it.
    VoteWithoutId {
        /// Whom the vote went to.
        voted: ReplicaKey,
    },
    /// The log starts behind offset 0, and nothing holds what was before.
    LogStart {
        /// Where it starts.
        start: Offset,
    },
    /// A snapshot ends beyond the log, or they are not in order: what was found is not what
    /// recovery leaves.
    SnapshotBeyondEnd {
        /// The newest one.
        snapshot: OffsetEpoch,
        /// Where the log ends.
        end: Offset,
    },
    /// The epochs of the log do not ascend, or do not fit between its start and its end.
    Epochs {
        /// Where the log ends.
        end: Offset,
    },
    /// What the log says of the quorum itself cannot be obeyed.
    Decree {
        /// The control batch; 0 for the head of a snapshot.
        base: Offset,
        /// Why.
        bad: BadDecree,
    },
    /// An epoch is beyond what the wire can carry.
    EpochTooLarge {
        /// It.
        epoch: Epoch,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::NoDirectory => f.write_str(
                "meta.properties has no directory.id, or one of zeros, which stands for none: add the line directory.id=ID to it. Where controller.quorum.voters names the voters, any new id will do (quorate random-uuid); where the log names them, take the one that it names for this node, which quorate log dump shows in the newest KRaftVoters",
            ),
            OpenError::NoPeers => f.write_str(
                "neither controller.quorum.bootstrap.servers nor controller.quorum.voters is set, so this \
                 node knows no one to ask; set one of them",
            ),
            OpenError::Voters => f.write_str(
                "controller.quorum.voters names an id twice, or was not sorted; name each id once",
            ),
            OpenError::Timeout { name } => {
                write!(f, "controller.quorum.{name} is 0; it must be at least 1 ms")
            }
            OpenError::VoteWithoutId { voted } => write!(
                f,
                "quorum-state holds a vote for {voted}, but this node has no node.id; start it with the \
                 node.id that it had"
            ),
            OpenError::LogStart { start } => write!(
                f,
                "the log starts at offset {start}, and no snapshot holds what was before; restore the \
                 missing files, or give this node a fresh directory and let it copy the log from the leader"
            ),
            OpenError::SnapshotBeyondEnd { snapshot, end } => write!(
                f,
                "the snapshot {snapshot} ends beyond the log, which ends at {end}, or the snapshots are not \
                 in order: start from what recovery found"
            ),
            OpenError::Epochs { end } => write!(
                f,
                "the epochs of the log do not ascend, or do not fit its end offset {end}: \
                 leader-epoch-checkpoint and the log contradict each other"
            ),
            OpenError::Decree { bad: BadDecree::Version(version), .. } => write!(
                f,
                "this directory is of a quorum with kraft.version {version}, which this program does not \
                 speak; start a newer one"
            ),
            OpenError::Decree { base, bad: BadDecree::Voters } => write!(
                f,
                "the control batch at offset {base} of the log, or the head of the snapshot before it, names \
                 no voters or one id twice; look at it with `quorate log dump`, and if only this node has it \
                 so, let it begin anew from the others"
            ),
            OpenError::EpochTooLarge { epoch } => {
                write!(f, "epoch {epoch} is beyond {LAST_EPOCH}, the largest that there can be")
            }
        }
    }
}

impl std::error::Error for OpenError {}

impl Quorum {
    /// A replica as start-up found it. `now` is the time from which its timers run; `seed` gives
    /// its random choices. The first step, whatever its input, brings what must be written and
    /// sent.
    ///
    /// # Errors
    /// Settings or files that contradict themselves or each other.
    pub fn open(
        config: Config,
        recovered: Recovered,
        seed: u64,
        now: Time,
    ) -> Result<Quorum, OpenError> {
        let fixed = check_config(&config)?;
        let epochs = check_log(&recovered)?;
        let decrees = check_decrees(fixed, &recovered)?;
        // Voters that the log names can be asked as well.
        if config.bootstrap == 0 && decrees.voters().len() == 0 {
            return Err(OpenError::NoPeers);
        }
        let Recovered { election, start, end, clean, mut snapshots, must_reach, .. } = recovered;
        snapshots.retain(|snapshot| snapshot.offset >= start);
        let key = config.id.map(|id| ReplicaKey::new(id, config.directory.known()));
        if let (None, Some(voted)) = (key, election.voted) {
            return Err(OpenError::VoteWithoutId { voted });
        }
        let mut quorum = Quorum {
            key,
            decrees,
            rng: Rng::new(seed),
            now,
            standing: Standing::fresh(election.epoch),
            role: Role::Unattached(Unattached { election_at: Time::NEVER }),
            on_disk: election.clone(),
            epoch_write: WriteId(0),
            vote_write: WriteId(0),
            election_write: WriteId(0),
            start,
            end,
            epochs,
            clean,
            must_reach,
            writes: Writes::new(end),
            high_watermark: None,
            // What a snapshot holds was committed.
            committed: snapshots.last().map_or(Offset::ZERO, |newest| newest.offset),
            snapshots,
            announced: None,
            peers: Peers::default(),
            outbox: Outbox::default(),
            retry_at: Time::NEVER,
            aside: None,
            stopping: None,
            config,
            #[cfg(mutants)]
            mutant: None,
        };
        quorum.restore(election);
        Ok(quorum)
    }

    /// Like [`Quorum::open`], with one rule broken.
    ///
    /// # Errors
    /// As [`Quorum::open`].
    #[cfg(mutants)]
    pub fn open_mutant(
        config: Config,
        recovered: Recovered,
        seed: u64,
        now: Time,
        mutant: Option<crate::mutants::Mutant>,
    ) -> Result<Quorum, OpenError> {
        let quorum = Quorum::open(config, recovered, seed, now)?;
        Ok(Quorum { mutant, ..quorum })
    }

    /// The first role.
    fn restore(&mut self, file: ElectionState) {
        let voter = self.is_electable();
        let led = file.leader.is_some() && file.leader == self.id();
        let stood = !self.is_damaged()
            && self.key.is_some_and(|own| file.voted.is_some_and(|voted| voted.names(own)));
        if file.epoch < self.epochs.last() {
            // The log knows better; the file is written with the first step.
            self.standing = Standing::fresh(self.epochs.last());
            self.role = self.waiting();
            return;
        }
        if led && !voter && file.epoch < LAST_EPOCH {
            // Its own leadership is over, and with it the epoch: others may still name it as the
            // leader of that one. So it waits where it would have ended without a stop [P10].
            self.standing = Standing::fresh(file.epoch.next());
            self.role = self.waiting();
            return;
        }
        self.standing.voted = file.voted;
        self.standing.leader = if led && !voter { None } else { file.leader };
        self.role = match (file.leader, self.key) {
            (Some(_), Some(_)) if led && voter => self.resigned(),
            (Some(leader), _) if !led => match self.decrees.voters().by_id(leader) {
                Some(voter) => {
                    self.standing.endpoints = voter.endpoints.clone();
                    Role::Follower(Follower::new(self.now + self.config.fetch_timeout))
                }
                None => self.waiting(),
            },
            (None, Some(own)) if stood && voter => Role::Candidate(Candidate {
                tally: Tally::new(self.decrees.voters().keys(), own),
                election_at: self.random_election_at(),
            }),
            (Some(_) | None, Some(_) | None) => self.waiting(),
        };
        // A sole voter has nobody to wait for.
        if self.is_only_voter() {
            match &mut self.role {
                Role::Unattached(role) => role.election_at = self.now,
                Role::Follower(role) => role.fetch_at = self.now,
                Role::Resigned(role) => role.election_at = self.now,
                Role::Prospective(_) | Role::Candidate(_) | Role::Leader(_) => {}
            }
        }
    }

    fn waiting(&mut self) -> Role {
        let election_at = match (self.is_electable(), self.is_only_voter()) {
            (true, true) => self.now,
            (true, false) => self.random_election_at(),
            (false, _) => Time::NEVER,
        };
        Role::Unattached(Unattached { election_at })
    }

    fn resigned(&mut self) -> Role {
        // It no longer knows who has how much. All are named all the same, since whoever is not
        // waits longest of all, and the pre-vote tells who has too little [P24].
        let others = self.decrees.voters().keys().filter(|key| Some(key.id) != self.config.id);
        let successors: Vec<ReplicaKey> = others.collect();
        let unacked = successors.iter().map(|key| key.id).collect();
        let election_at = self.random_election_at();
        Role::Resigned(Resigned { election_at, unacked, gone: Vec::new(), successors })
    }
}

fn check_config(config: &Config) -> Result<Voters, OpenError> {
    let timeouts = [
        ("election.timeout.ms", config.election_timeout),
        ("fetch.timeout.ms", config.fetch_timeout),
        ("request.timeout.ms", config.request_timeout),
        ("retry.backoff.ms", config.retry_backoff),
    ];
    // Below a millisecond a timer could come due in the very step that sets it.
    if let Some((name, _)) = timeouts.iter().find(|(_, span)| span.as_ms() == 0) {
        return Err(OpenError::Timeout { name });
    }
    // [P1]
    if config.directory == Uuid::ZERO {
        return Err(OpenError::NoDirectory);
    }
    let fixed = config.voters.iter().map(|(key, at)| Voter::fixed(*key, at.clone())).collect();
    Voters::new(fixed).ok_or(OpenError::Voters)
}

fn check_decrees(fixed: Voters, recovered: &Recovered) -> Result<Decrees, OpenError> {
    let mut decrees = Decrees::new(fixed);
    let founding = recovered.snapshots.is_empty();
    let founded = decrees.begin(&recovered.founded, founding);
    founded.map_err(|bad| OpenError::Decree { base: Offset::ZERO, bad })?;
    let newest = recovered.snapshots.last().map_or(Offset::ZERO, |newest| newest.offset);
    for (base, decree) in recovered.decrees.iter().filter(|(base, _)| *base >= newest) {
        decrees.append(*base, decree).map_err(|bad| OpenError::Decree { base: *base, bad })?;
    }
    Ok(decrees)
}

fn check_log(recovered: &Recovered) -> Result<Epochs, OpenError> {
    let Recovered { start, end, snapshots, .. } = recovered;
    let (start, end) = (*start, *end);
    let covered = snapshots.last().is_some_and(|newest| newest.offset >= start);
    if start > Offset::ZERO && !covered {
        return Err(OpenError::LogStart { start });
    }
    let ascending = snapshots.windows(2).all(|w| w[0].offset < w[1].offset);
    if let Some(beyond) = snapshots.last().filter(|newest| newest.offset > end || !ascending) {
        return Err(OpenError::SnapshotBeyondEnd { snapshot: *beyond, end });
    }
    // The record before the start is the last one of the snapshot that ends there.
    let before = snapshots.iter().find(|snapshot| snapshot.offset == start);
    let before = before.filter(|_| start > Offset::ZERO).map(|snapshot| snapshot.epoch);
    let epochs = Epochs::new(before, recovered.epochs.clone(), start, end);
    let epochs = epochs.ok_or(OpenError::Epochs { end })?;
    let epoch = recovered.election.epoch.max(epochs.last());
    if epoch > LAST_EPOCH {
        return Err(OpenError::EpochTooLarge { epoch });
    }
    Ok(epochs)
}
