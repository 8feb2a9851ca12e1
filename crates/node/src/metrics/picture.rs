//! What `/metrics` and `/status` show of the counts, at one moment.

use super::Stage;
use crate::replica::Replica;
use quorate_base::Offset;
use quorate_machine::Machine;
use quorate_raft::RoleName;
use serde::{Deserialize, Serialize};

/// How long a stage took, in `/status`. Times within one in a hundred.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Latency {
    /// Which one: see [`Stage::name`].
    pub stage: String,
    /// How often it happened since the node started.
    pub count: u64,
    /// Half of them took no longer, in microseconds.
    pub p50_us: u64,
    /// 99 of 100.
    pub p99_us: u64,
    /// 999 of 1,000.
    pub p999_us: u64,
    /// All of them.
    pub max_us: u64,
}

/// How often a stage took longer than the bucket before ends, and no longer than this one does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bucket {
    /// In microseconds; the last one ends nowhere.
    pub end_us: u64,
    /// How often.
    pub count: u64,
}

/// All that is known of a stage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StagePicture {
    /// Which one.
    pub stage: Stage,
    /// How often it happened.
    pub count: u64,
    /// How long it took in all, in microseconds.
    pub sum_us: u64,
    /// By duration.
    pub buckets: Vec<Bucket>,
    /// In short; `None` if it never happened.
    pub latency: Option<Latency>,
}

/// What Kafka's raft metrics say of a node. -1 is what is not known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RaftPicture {
    /// `current-state`.
    pub state: RoleName,
    /// `current-leader`.
    pub leader: i64,
    /// `current-vote`.
    pub vote: i64,
    /// `current-epoch`.
    pub epoch: u32,
    /// `high-watermark`.
    pub high_watermark: i64,
    /// `log-end-offset`.
    pub log_end: u64,
    /// `log-end-epoch`.
    pub log_end_epoch: u32,
    /// `number-of-voters`.
    pub voters: usize,
    /// `number-of-observers`; only a leader knows.
    pub observers: Option<usize>,
    /// Whether this leader's latest voters are not committed: `uncommitted-voter-change`.
    pub uncommitted_change: Option<bool>,
    /// `pending-add-voter` of this leader.
    pub pending_add: Option<bool>,
    /// `pending-remove-voter` of this leader.
    pub pending_remove: Option<bool>,
    /// Records that this node appended as leader: the sum of `append-records-rate`.
    pub appended_records: u64,
    /// Records that it copied from a leader: the sum of `fetch-records-rate`.
    pub fetched_records: u64,
    /// Microseconds for which the loop had nothing to do: the sum of `poll-idle-ratio-avg`.
    pub idle_us: u64,
    /// Microseconds since the node started.
    pub uptime_us: u64,
}

/// All counts of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Picture {
    /// By stage.
    pub stages: Vec<StagePicture>,
    /// Kafka's.
    pub raft: RaftPicture,
    /// End of what survives a crash of this node.
    pub durable: u64,
    /// End of what the machine holds.
    pub applied: u64,
    /// Whether the node serves.
    pub ready: bool,
}

impl<M: Machine> Replica<M> {
    /// All that this node counts.
    pub fn metrics(&self) -> Picture {
        let (view, counts) = (self.quorum.view(), &self.metrics);
        let leads = view.role == RoleName::Leader;
        let offset = |known: Option<Offset>| known.map_or(-1, |offset| offset.0 as i64);
        let raft = RaftPicture {
            state: view.role,
            leader: view.leader.map_or(-1, |id| i64::from(id.0)),
            vote: view.voted.map_or(-1, |key| i64::from(key.id.0)),
            epoch: view.epoch.0,
            high_watermark: offset(view.high_watermark),
            log_end: view.end.0,
            log_end_epoch: view.last_epoch.0,
            voters: view.voters.len(),
            observers: leads.then_some(view.observers.len()),
            uncommitted_change: leads.then_some(view.uncommitted_voters),
            pending_add: leads.then_some(view.pending_add),
            pending_remove: leads.then_some(view.pending_remove),
            appended_records: counts.appended_records,
            fetched_records: counts.fetched_records,
            idle_us: counts.idle.0,
            uptime_us: self.now.since(self.started).0,
        };
        Picture {
            stages: Stage::ALL.map(|stage| counts.timings[stage as usize].picture(stage)).into(),
            raft,
            durable: view.durable.0,
            applied: self.applied.upto.0,
            ready: self.is_ready(),
        }
    }

    /// How long the stages took that happened.
    pub(crate) fn latencies(&self) -> Vec<Latency> {
        let of = |stage: Stage| self.metrics.timings[stage as usize].latency(stage);
        Stage::ALL.into_iter().filter_map(of).collect()
    }
}
