//! FetchSnapshot (KIP-630): copies a snapshot piece by piece. Version 1 names the fetcher's
//! directory and endpoints (KIP-853).

use super::{NodeEndpoint, SnapshotId, messages};
use crate::coder::{Coder, Tags, Walk};
use crate::{Error, ErrorCode};
use bytes::Bytes;
use quorate_base::Uuid;

/// Asks for a piece of a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchSnapshotRequest {
    /// The sender's cluster; null skips the check.
    pub cluster_id: Option<String>,
    /// Who fetches; -1 unknown.
    pub replica_id: i32,
    /// The most bytes wanted, over all snapshots.
    pub max_bytes: i32,
    /// The pieces.
    pub topics: Vec<SnapshotTopic<FetchSnapshotRequestPartition>>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for FetchSnapshotRequest {
    fn default() -> FetchSnapshotRequest {
        FetchSnapshotRequest {
            cluster_id: None,
            replica_id: -1,
            max_bytes: i32::MAX,
            topics: Vec::new(),
            tags: Tags::new(),
        }
    }
}

impl Walk for FetchSnapshotRequest {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("ReplicaId", &mut self.replica_id)?;
        c.i32("MaxBytes", &mut self.max_bytes)?;
        c.array("Topics", &mut self.topics, version)?;
        c.tags(&mut self.tags, |c, open| {
            c.tag(open, 0, &mut self.cluster_id, None, |c, cluster_id| {
                c.nullable_string("ClusterId", cluster_id)
            })
        })
    }
}

/// Partitions of one topic; `P` is what is said of each.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SnapshotTopic<P> {
    /// `__cluster_metadata`, unless configured otherwise.
    pub name: String,
    /// One, in practice: index 0.
    pub partitions: Vec<P>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl<P: Walk> Walk for SnapshotTopic<P> {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.string("Name", &mut self.name)?;
        c.array("Partitions", &mut self.partitions, version)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// One piece of one snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FetchSnapshotRequestPartition {
    /// The partition.
    pub partition: i32,
    /// The fetcher's epoch; -1 skips the check.
    pub current_leader_epoch: i32,
    /// Which snapshot.
    pub snapshot_id: SnapshotId,
    /// From which of its bytes.
    pub position: i64,
    /// Version 1: the fetcher's directory.
    pub replica_directory_id: Uuid,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for FetchSnapshotRequestPartition {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("Partition", &mut self.partition)?;
        c.i32("CurrentLeaderEpoch", &mut self.current_leader_epoch)?;
        c.nested("SnapshotId", &mut self.snapshot_id, version)?;
        c.i64("Position", &mut self.position)?;
        c.tags(&mut self.tags, |c, open| {
            if version >= 1 {
                c.tag(open, 0, &mut self.replica_directory_id, Uuid::ZERO, |c, id| {
                    c.uuid("ReplicaDirectoryId", id)
                })?;
            }
            Ok(())
        })
    }
}

/// The pieces.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FetchSnapshotResponse {
    /// How long the answer was held back, in milliseconds.
    pub throttle_time_ms: i32,
    /// What is wrong with the request as a whole.
    pub error_code: ErrorCode,
    /// The pieces.
    pub topics: Vec<SnapshotTopic<FetchSnapshotResponsePartition>>,
    /// Version 1: where the leaders named above can be reached.
    pub node_endpoints: Vec<NodeEndpoint>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for FetchSnapshotResponse {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("ThrottleTimeMs", &mut self.throttle_time_ms)?;
        c.error_code("ErrorCode", &mut self.error_code)?;
        c.array("Topics", &mut self.topics, version)?;
        c.tags(&mut self.tags, |c, open| {
            if version >= 1 {
                c.tag(open, 0, &mut self.node_endpoints, Vec::new(), |c, endpoints| {
                    c.array("NodeEndpoints", endpoints, version)
                })?;
            }
            Ok(())
        })
    }
}

/// One piece of one snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FetchSnapshotResponsePartition {
    /// The partition.
    pub index: i32,
    /// Why there is nothing.
    pub error_code: ErrorCode,
    /// Which snapshot.
    pub snapshot_id: SnapshotId,
    /// Who leads.
    pub current_leader: Option<FetchSnapshotCurrentLeader>,
    /// Bytes of the whole snapshot.
    pub size: i64,
    /// Where in it the piece begins.
    pub position: i64,
    /// The piece; batches may be cut at both of its ends.
    pub unaligned_records: Bytes,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for FetchSnapshotResponsePartition {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("Index", &mut self.index)?;
        c.error_code("ErrorCode", &mut self.error_code)?;
        c.nested("SnapshotId", &mut self.snapshot_id, version)?;
        c.i64("Size", &mut self.size)?;
        c.i64("Position", &mut self.position)?;
        c.bytes("UnalignedRecords", &mut self.unaligned_records)?;
        c.tags(&mut self.tags, |c, open| {
            c.tagged_struct(open, 0, "CurrentLeader", &mut self.current_leader, version)
        })
    }
}

/// Who leads. Unlike in Fetch, the defaults are 0: that node 0 leads in epoch 0 cannot be told from
/// saying nothing, and -1 is on the wire.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FetchSnapshotCurrentLeader {
    /// The leader; -1 unknown.
    pub leader_id: i32,
    /// The latest epoch known.
    pub leader_epoch: i32,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for FetchSnapshotCurrentLeader {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i32("LeaderId", &mut self.leader_id)?;
        c.i32("LeaderEpoch", &mut self.leader_epoch)?;
        c.unknown_tags(&mut self.tags)
    }
}

messages!(FetchSnapshot: FetchSnapshotRequest, FetchSnapshotResponse);
