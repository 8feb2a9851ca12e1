//! What a node says of itself: `/status`, `/readyz` and `quorate quorum …` print this.

use crate::metrics::Latency;
use crate::replica::Replica;
use quorate_base::{OffsetEpoch, ReplicaKey};
use quorate_machine::Machine;
use quorate_raft::{Endpoint, Progress, RoleName};
use serde::{Deserialize, Serialize};

/// A picture of one node at one moment. Offsets are exclusive ends; `None` is "not known".
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug, Default)]
pub struct Status {
    /// `cluster.id`.
    pub cluster: String,
    /// `node.id`, `None` for an observer without one.
    pub node: Option<u32>,
    /// `directory.id`.
    pub directory: String,
    /// Kafka's name of the role: `leader`, `follower`, `candidate`, `prospective`, `unattached`,
    /// `resigned`, `observer`.
    pub role: String,
    /// The newest epoch seen.
    pub epoch: u32,
    /// Its leader.
    pub leader: Option<u32>,
    /// One past the last committed offset known here.
    pub high_watermark: Option<u64>,
    /// First offset of the log.
    pub log_start: u64,
    /// End of the log.
    pub log_end: u64,
    /// End of what survives a crash of this node.
    pub durable: u64,
    /// End of what the state machine holds.
    pub applied: u64,
    /// The machine's digest at `applied`, in hexadecimal; empty if it takes long to make.
    pub digest: String,
    /// Whether this node serves: it knows a leader and a high watermark, and has applied what was
    /// committed when it started.
    pub ready: bool,
    /// Why it is not ready, in words.
    pub not_ready_because: Option<String>,
    /// Set while the log is not yet what it was before it was damaged: where it must get before
    /// this node votes or stands again.
    #[serde(default)]
    pub must_reach: Option<PlaceInLog>,
    /// What that means and what to do, in words.
    #[serde(default)]
    pub damaged: Option<String>,
    /// The newest snapshot here.
    #[serde(default)]
    pub newest_snapshot: Option<SnapshotStatus>,
    /// How many snapshots are here.
    #[serde(default)]
    pub snapshots: usize,
    /// The snapshot that is being copied from the leader.
    #[serde(default)]
    pub download: Option<DownloadStatus>,
    /// On a leader: the nodes that copy a snapshot from it, -1 for those without an id. For them
    /// it keeps that snapshot, and the log from there on, beyond what retention allows.
    #[serde(default)]
    pub copied_by: Vec<i64>,
    /// What it means that the disk is full; `None` if it has room.
    #[serde(default)]
    pub disk_full: Option<String>,
    /// On a leader that has room: why all writes are refused for want of room elsewhere.
    #[serde(default)]
    pub too_many_full: Option<String>,
    /// The format level of the store, as far as this node has applied it; `None` where the
    /// machine's records have no level, and from nodes that do not tell.
    #[serde(default)]
    pub format_level: Option<u16>,
    /// The newest one that this node speaks; 0 from nodes that do not tell.
    #[serde(default)]
    pub newest_format_level: u16,
    /// The voters of the latest set.
    pub voters: Vec<VoterStatus>,
    /// On the leader: every replica that fetches.
    pub replicas: Vec<ReplicaStatus>,
    /// The last changes of role, newest last.
    pub changes: Vec<RoleChange>,
    /// How long the stages took that happened since the node started: of a commit, a change of
    /// voters, an election.
    #[serde(default)]
    pub latencies: Vec<Latency>,
    /// Milliseconds since the node started.
    pub uptime_ms: u64,
}

/// An end of a log, or of a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct PlaceInLog {
    /// Exclusive.
    pub offset: u64,
    /// The epoch of the record before.
    pub epoch: u32,
}

impl From<OffsetEpoch> for PlaceInLog {
    fn from(place: OffsetEpoch) -> PlaceInLog {
        PlaceInLog { offset: place.offset.0, epoch: place.epoch.0 }
    }
}

/// A snapshot on the disk.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct SnapshotStatus {
    /// Where it ends.
    pub id: PlaceInLog,
    /// Size of its file.
    pub bytes: u64,
    /// Milliseconds since the last record in it was written, by the time of day.
    pub age_ms: u64,
}

/// A snapshot that is being copied.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct DownloadStatus {
    /// Where it ends.
    pub id: PlaceInLog,
    /// How many bytes have come.
    pub bytes: u64,
    /// Of how many; `None` before the first piece.
    pub total_bytes: Option<u64>,
    /// How often it was begun anew because the leader no longer had what was being copied.
    #[serde(default)]
    pub begun_anew: u32,
}

/// A voter and where it listens.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct VoterStatus {
    /// `node.id`.
    pub node: u32,
    /// `host:port`.
    pub endpoint: String,
}

/// A replica as its leader sees it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct ReplicaStatus {
    /// `node.id`, -1 for an observer without one.
    pub node: i64,
    /// `directory.id`, if it told.
    pub directory: Option<String>,
    /// `leader`, `follower` or `observer`.
    pub status: String,
    /// Its end, as far as it said.
    pub log_end: Option<u64>,
    /// Records it lacks.
    pub lag: Option<u64>,
    /// Milliseconds since its last fetch.
    pub last_fetch_ms: Option<u64>,
    /// Milliseconds since it had everything.
    pub last_caught_up_ms: Option<u64>,
    /// The newest format level that it speaks, if it told this leader.
    #[serde(default)]
    pub newest_format_level: Option<u16>,
}

/// A change of role or leader.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct RoleChange {
    /// Milliseconds after the node's start.
    pub at_ms: u64,
    /// The new role.
    pub role: String,
    /// The epoch.
    pub epoch: u32,
    /// The leader, if known.
    pub leader: Option<u32>,
}

impl<M: Machine> Replica<M> {
    /// A picture of this replica.
    pub fn status(&self) -> Status {
        let view = self.quorum.view();
        let damage = self.damage_in_words().map_or(String::new(), |damage| format!("; {damage}"));
        let not_ready_because =
            self.not_ready().map(|why| why + &damage + &self.begun_anew_in_words());
        let leads = view.role == RoleName::Leader;
        let voter_replica = |progress: &Progress| self.replica_status(progress, "follower");
        let observer_replica = |progress: &Progress| self.replica_status(progress, "observer");
        let own = leads.then(|| ReplicaStatus {
            node: self.id.map_or(-1, |id| i64::from(id.0)),
            directory: Some(self.settings.directory.to_string()),
            status: "leader".into(),
            log_end: Some(view.durable.0),
            lag: Some(0),
            last_fetch_ms: Some(0),
            last_caught_up_ms: Some(0),
            newest_format_level: Some(self.speaks_up_to().0),
        });
        let followers = view.followers.iter().map(voter_replica);
        let observers = view.observers.iter().map(observer_replica);
        Status {
            cluster: self.settings.names.cluster.clone(),
            node: self.id.map(|id| id.0),
            directory: self.settings.directory.to_string(),
            role: view.role.to_string(),
            epoch: view.epoch.0,
            leader: view.leader.map(|leader| leader.0),
            high_watermark: view.high_watermark.map(|offset| offset.0),
            log_start: view.start.0,
            log_end: view.end.0,
            durable: view.durable.0,
            applied: self.applied.upto.0,
            digest: match M::QUICK_DIGEST {
                true => format!("{:016x}", self.machine.digest()),
                false => String::new(),
            },
            ready: not_ready_because.is_none(),
            not_ready_because,
            must_reach: view.must_reach.map(PlaceInLog::from),
            damaged: self.damage_in_words(),
            newest_snapshot: self.log.snapshots().last().map(|newest| SnapshotStatus {
                id: newest.id.into(),
                bytes: newest.bytes,
                age_ms: self.wall_ms().saturating_sub(newest.timestamp_ms).max(0) as u64,
            }),
            snapshots: self.log.snapshots().len(),
            download: view.download.map(|(id, bytes, total_bytes)| DownloadStatus {
                id: id.into(),
                bytes,
                total_bytes,
                begun_anew: self.begun_anew,
            }),
            copied_by: view.holds.iter().map(|hold| number(hold.replica)).collect(),
            disk_full: self.full_disk_in_words().map(str::to_owned),
            too_many_full: self.too_many_full_in_words(),
            format_level: self.machine.format_level().map(|level| level.0),
            newest_format_level: self.speaks_up_to().0,
            voters: view
                .voters
                .iter()
                .map(|voter| VoterStatus {
                    node: voter.key.id.0,
                    endpoint: place(&voter.endpoints),
                })
                .collect(),
            replicas: own.into_iter().chain(followers).chain(observers).collect(),
            changes: self.changes.iter().cloned().collect(),
            latencies: self.latencies(),
            uptime_ms: self.now.since(self.started).as_ms(),
        }
    }

    /// Whether requests can be served from here.
    pub(crate) fn is_ready(&self) -> bool {
        self.not_ready().is_none()
    }

    /// Why requests cannot be served from here; `None` when they can.
    fn not_ready(&self) -> Option<String> {
        let view = self.quorum.view();
        if self.is_stopping() {
            return Some("the node is stopping".into());
        }
        if self.leader.is_none() {
            let votes = "no leader is known; an election needs a majority of the voters to be up and to reach each other";
            return Some(votes.into());
        }
        // It keeps the leader's name while it asks whether it would be elected (KIP-996).
        if matches!(view.role, RoleName::Prospective | RoleName::ProspectiveVoted) {
            let silence = "the leader does not answer; an election needs a majority of the voters to be up and to reach each other";
            return Some(silence.into());
        }
        let silence = self.now.since(self.heard_at);
        if view.role != RoleName::Leader && silence > self.settings.fetch_timeout {
            return Some(format!("the leader has not answered for {} ms", silence.as_ms()));
        }
        if self.lacks_for_want_of_room() {
            return Some("the disk is full, and the leader has committed what this node cannot store: reads fail here; make room".into());
        }
        match (view.high_watermark, self.applied.ready_at) {
            (None, _) | (_, None) => Some(
                "the high watermark is not known yet; the leader has not committed in its epoch"
                    .into(),
            ),
            (Some(_), Some(ready_at)) if self.applied.upto < ready_at => Some(format!(
                "catching up: applied {} of the {ready_at} that were committed when this node started",
                self.applied.upto
            )),
            (Some(_), Some(_)) => None,
        }
    }

    /// What it means for this node that its log was damaged and is not what it was; and what to do.
    pub(crate) fn damage_in_words(&self) -> Option<String> {
        let view = self.quorum.view();
        let OffsetEpoch { offset, epoch } = view.must_reach?;
        let what = format!(
            "the log of this node was damaged and is not yet back at offset {offset} of epoch {epoch}: until then the \
             node is not elected, and votes only for one that holds as much"
        );
        let silence = self.now.since(self.heard_at);
        let way = match self.leader.filter(|_| silence <= self.settings.fetch_timeout) {
            Some(_) => "it copies from the leader what it lost; keep the other voters running",
            None => {
                "start the voters that are down: one that holds as much can be elected, and this node copies from it; \
                 if every voter runs and says this, or lacks what the others held, put the directory of one back \
                 from a copy"
            }
        };
        Some(format!("{what}; {way}"))
    }

    /// What to know of a copy that does not come to its end; mostly nothing.
    fn begun_anew_in_words(&self) -> String {
        match self.begun_anew {
            0 => String::new(),
            times => format!(
                "; the copy of a snapshot was begun anew {times} times, since the leader had removed what was being \
                 copied: a larger controller.quorum.fetch.snapshot.max.bytes makes copies faster"
            ),
        }
    }

    fn replica_status(&self, progress: &Progress, status: &str) -> ReplicaStatus {
        let ago = |time: quorate_base::Time| self.now.since(time).as_ms();
        ReplicaStatus {
            node: i64::from(progress.key.id.0),
            directory: progress.directory.map(|directory| directory.to_string()),
            status: status.into(),
            log_end: progress.end.map(|end| end.0),
            lag: progress.end.map(|end| self.log.end().0.saturating_sub(end.0)),
            last_fetch_ms: progress.fetched_at.map(ago),
            last_caught_up_ms: progress.caught_up_at.map(ago),
            newest_format_level: progress.format_level.map(|level| level.0),
        }
    }
}

/// A node's number, -1 if it has none.
pub(crate) fn number(replica: Option<ReplicaKey>) -> i64 {
    replica.map_or(-1, |key| i64::from(key.id.0))
}

fn place(at: &[Endpoint]) -> String {
    at.first().map_or_else(String::new, |at| match at.host.contains(':') {
        true => format!("[{}]:{}", at.host, at.port),
        false => format!("{}:{}", at.host, at.port),
    })
}
