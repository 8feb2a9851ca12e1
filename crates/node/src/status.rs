//! What a node says of itself: `/status`, `/readyz` and `quorate quorum …` print this.

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
    /// Kafka's name of the role: `leader`, `follower`, `candidate`, `prospective`, `unattached`, `resigned`, `observer`.
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
    /// The machine's digest at `applied`, in hexadecimal.
    pub digest: String,
    /// Whether this node serves: it knows a leader and a high watermark, and has applied what was committed
    /// when it started.
    pub ready: bool,
    /// Why it is not ready, in words.
    pub not_ready_because: Option<String>,
    /// The voters of the latest set.
    pub voters: Vec<VoterStatus>,
    /// On the leader: every replica that fetches.
    pub replicas: Vec<ReplicaStatus>,
    /// The last changes of role, newest last.
    pub changes: Vec<RoleChange>,
    /// Milliseconds since the node started.
    pub uptime_ms: u64,
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
