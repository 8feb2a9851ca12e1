//! Records about topics and their partitions.
//!
//! Field names and versions are Kafka's; -1 for no leader and null for "as before" are as on the
//! wire.

use crate::Error;
use crate::coder::{Coder, Tags, Walk};
use quorate_base::Uuid;

/// `Leader` of a change that keeps the leader.
pub const NO_LEADER_CHANGE: i32 = -2;

/// A topic is created.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Its id.
    pub topic_id: Uuid,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for Topic {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.string("Name", &mut self.name)?;
        c.uuid("TopicId", &mut self.topic_id)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// A partition is created, or described whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    /// The partition; -1 if absent.
    pub partition_id: i32,
    /// Its topic.
    pub topic_id: Uuid,
    /// Who holds it, the preferred leader first.
    pub replicas: Vec<i32>,
    /// Who of them is in sync.
    pub isr: Vec<i32>,
    /// Who of them leaves with the reassignment.
    pub removing_replicas: Vec<i32>,
    /// Who of them came with the reassignment.
    pub adding_replicas: Vec<i32>,
    /// The leader; -1 none.
    pub leader: i32,
    /// Tag 0: 0 whole, 1 recovering from an election that may have lost records.
    pub leader_recovery_state: i8,
    /// Grows with each leader.
    pub leader_epoch: i32,
    /// Grows with each change.
    pub partition_epoch: i32,
    /// Version 1: the directory of each replica.
    pub directories: Vec<Uuid>,
    /// Version 2, tag 1: who may lead though not in sync (KIP-966).
    pub eligible_leader_replicas: Option<Vec<i32>>,
    /// Version 2, tag 2: the last leaders known.
    pub last_known_elr: Option<Vec<i32>>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for Partition {
    fn default() -> Partition {
        Partition {
            partition_id: -1,
            topic_id: Uuid::ZERO,
            replicas: Vec::new(),
            isr: Vec::new(),
            removing_replicas: Vec::new(),
            adding_replicas: Vec::new(),
            leader: -1,
            leader_recovery_state: 0,
            leader_epoch: -1,
            partition_epoch: -1,
            directories: Vec::new(),
            eligible_leader_replicas: None,
            last_known_elr: None,
            tags: Tags::new(),
        }
    }
}

impl Walk for Partition {
    const SHOWN_BEFORE: &'static [(&'static str, &'static str)] =
        &[("LeaderRecoveryState", "LeaderEpoch")];

    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("PartitionId", &mut self.partition_id)?;
        c.uuid("TopicId", &mut self.topic_id)?;
        c.array("Replicas", &mut self.replicas, version)?;
        c.array("Isr", &mut self.isr, version)?;
        c.array("RemovingReplicas", &mut self.removing_replicas, version)?;
        c.array("AddingReplicas", &mut self.adding_replicas, version)?;
        c.i32("Leader", &mut self.leader)?;
        c.i32("LeaderEpoch", &mut self.leader_epoch)?;
        c.i32("PartitionEpoch", &mut self.partition_epoch)?;
        if version >= 1 {
            c.array("Directories", &mut self.directories, version)?;
        } else {
            c.lacks("Directories", !self.directories.is_empty(), version)?;
        }
        let recovery = &mut self.leader_recovery_state;
        let (eligible, last) = (&mut self.eligible_leader_replicas, &mut self.last_known_elr);
        c.tags(&mut self.tags, |c, open| {
            c.tag(open, 0, recovery, 0, |c, state| c.i8("LeaderRecoveryState", state))?;
            walk_elr(c, open, 1, [eligible, last], version)
        })
    }
}

/// The two fields of KIP-966, at this tag and the next.
fn walk_elr<C: Coder>(
    c: &mut C,
    open: &mut C::OpenTags,
    tag: u32,
    [eligible, last]: [&mut Option<Vec<i32>>; 2],
    version: i16,
) -> Result<(), Error> {
    if version < 2 {
        c.lacks("EligibleLeaderReplicas", eligible.is_some(), version)?;
        return c.lacks("LastKnownElr", last.is_some(), version);
    }
    walk_ids(c, open, tag, "EligibleLeaderReplicas", eligible, version)?;
    walk_ids(c, open, tag + 1, "LastKnownElr", last, version)
}

/// A tagged array of nodes, null if absent.
fn walk_ids<C: Coder>(
    c: &mut C,
    open: &mut C::OpenTags,
    tag: u32,
    field: &'static str,
    ids: &mut Option<Vec<i32>>,
    version: i16,
) -> Result<(), Error> {
    c.tag(open, tag, ids, None, |c, ids| c.nullable_array(field, ids, version))
}

/// A partition changes. Each field that is null or its stated default: as before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionChange {
    /// The partition; -1 if absent.
    pub partition_id: i32,
    /// Its topic.
    pub topic_id: Uuid,
    /// Tag 0: who is in sync.
    pub isr: Option<Vec<i32>>,
    /// Tag 1: the leader, -1 none; [`NO_LEADER_CHANGE`] if absent. Named at all, even the same one
    /// begins a new leader epoch.
    pub leader: i32,
    /// Tag 2: who holds it.
    pub replicas: Option<Vec<i32>>,
    /// Tag 3: who leaves.
    pub removing_replicas: Option<Vec<i32>>,
    /// Tag 4: who comes.
    pub adding_replicas: Option<Vec<i32>>,
    /// Tag 5: as in [`Partition`]; -1 if absent.
    pub leader_recovery_state: i8,
    /// Version 2, tag 6: who may lead though not in sync.
    pub eligible_leader_replicas: Option<Vec<i32>>,
    /// Version 2, tag 7: the last leaders known.
    pub last_known_elr: Option<Vec<i32>>,
    /// Version 1, tag 8: the directory of each replica.
    pub directories: Option<Vec<Uuid>>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for PartitionChange {
    fn default() -> PartitionChange {
        PartitionChange {
            partition_id: -1,
            topic_id: Uuid::ZERO,
            isr: None,
            leader: NO_LEADER_CHANGE,
            replicas: None,
            removing_replicas: None,
            adding_replicas: None,
            leader_recovery_state: -1,
            eligible_leader_replicas: None,
            last_known_elr: None,
            directories: None,
            tags: Tags::new(),
        }
    }
}

impl Walk for PartitionChange {
    const SHOWN_BEFORE: &'static [(&'static str, &'static str)] =
        &[("Directories", "EligibleLeaderReplicas"), ("Directories", "LastKnownElr")];

    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("PartitionId", &mut self.partition_id)?;
        c.uuid("TopicId", &mut self.topic_id)?;
        let PartitionChange { isr, leader, replicas, leader_recovery_state, .. } = self;
        let (removing, adding) = (&mut self.removing_replicas, &mut self.adding_replicas);
        let (eligible, last) = (&mut self.eligible_leader_replicas, &mut self.last_known_elr);
        let directories = &mut self.directories;
        c.tags(&mut self.tags, |c, open| {
            walk_ids(c, open, 0, "Isr", isr, version)?;
            c.tag(open, 1, leader, NO_LEADER_CHANGE, |c, leader| c.i32("Leader", leader))?;
            walk_ids(c, open, 2, "Replicas", replicas, version)?;
            walk_ids(c, open, 3, "RemovingReplicas", removing, version)?;
            walk_ids(c, open, 4, "AddingReplicas", adding, version)?;
            let state = leader_recovery_state;
            c.tag(open, 5, state, -1, |c, state| c.i8("LeaderRecoveryState", state))?;
            walk_elr(c, open, 6, [eligible, last], version)?;
            if version < 1 {
                return c.lacks("Directories", directories.is_some(), version);
            }
            c.tag(open, 8, directories, None, |c, directories| {
                c.nullable_array("Directories", directories, version)
            })
        })
    }
}

/// A topic is deleted, with its partitions and configs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RemoveTopic {
    /// The topic.
    pub topic_id: Uuid,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for RemoveTopic {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.uuid("TopicId", &mut self.topic_id)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// Eligible leader replicas are forgotten (KIP-966).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClearElr {
    /// Of this topic; of all if empty.
    pub topic_name: String,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for ClearElr {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.string("TopicName", &mut self.topic_name)?;
        c.unknown_tags(&mut self.tags)
    }
}
