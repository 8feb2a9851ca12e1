//! The messages, one file per API: plain structs, each with the one walk over its fields.
//!
//! Fields have the values of the wire, -1 and zero uuids included; what they mean is the node's
//! translation. A field that a version lacks decodes to Kafka's default and is not encoded.

mod add_raft_voter;
mod allocate_producer_ids;
mod alter_partition;
mod api_versions;
mod assign_replicas_to_dirs;
mod begin_quorum_epoch;
mod broker_heartbeat;
mod broker_registration;
mod controller_registration;
mod create_topics;
mod describe_cluster;
mod describe_quorum;
mod end_quorum_epoch;
mod envelope;
mod fetch;
mod fetch_snapshot;
mod forward;
mod marks;
mod quorum;
mod remove_raft_voter;
mod update_features;
mod update_raft_voter;
mod vote;

pub use add_raft_voter::{AddRaftVoterRequest, AddRaftVoterResponse};
pub use allocate_producer_ids::{AllocateProducerIdsRequest, AllocateProducerIdsResponse};
pub use alter_partition::{
    AlterPartitionRequest, AlterPartitionRequestPartition, AlterPartitionRequestTopic,
    AlterPartitionResponse, AlterPartitionResponsePartition, AlterPartitionResponseTopic,
    BrokerState,
};
pub use api_versions::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeature, SupportedFeature,
};
pub use assign_replicas_to_dirs::{
    AssignReplicasToDirsRequest, AssignReplicasToDirsResponse, AssignedDirectory,
    AssignedPartition, AssignedPartitionResult, AssignedTopic,
};
pub use begin_quorum_epoch::{
    BeginQuorumEpochRequest, BeginQuorumEpochRequestPartition, BeginQuorumEpochResponse,
    BeginQuorumEpochResponsePartition,
};
pub use broker_heartbeat::{BrokerHeartbeatRequest, BrokerHeartbeatResponse};
pub use broker_registration::{BrokerRegistrationRequest, BrokerRegistrationResponse};
pub use controller_registration::{ControllerRegistrationRequest, ControllerRegistrationResponse};
pub use create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreatableTopicConfigs,
    CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse,
};
pub use describe_cluster::{
    BROKERS, CONTROLLERS, DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse,
};
pub use describe_quorum::{
    DescribeQuorumRequest, DescribeQuorumRequestPartition, DescribeQuorumResponse,
    DescribeQuorumResponsePartition, QuorumNode, QuorumReplica,
};
pub use end_quorum_epoch::{
    EndQuorumEpochRequest, EndQuorumEpochRequestPartition, EndQuorumEpochResponse,
    EndQuorumEpochResponsePartition, PreferredCandidate,
};
pub use envelope::{EnvelopeRequest, EnvelopeResponse};
pub use fetch::{
    AbortedTransaction, DivergingEpoch, FetchNodeEndpoint, FetchRequest, FetchRequestPartition,
    FetchResponse, FetchResponsePartition, FetchTopic, LeaderIdAndEpoch, ReplicaState, SnapshotId,
};
pub use fetch_snapshot::{
    FetchSnapshotCurrentLeader, FetchSnapshotRequest, FetchSnapshotRequestPartition,
    FetchSnapshotResponse, FetchSnapshotResponsePartition, SnapshotTopic,
};
pub use forward::{ForwardRequest, ForwardResponse, ForwardResult, Operation, OperationKind};
pub use marks::{FetcherMarks, LeaderMarks, NEVER_LEADS, NO_ROOM, UNDERSTANDS_MARKS};
pub use quorum::{
    KRaftVersionFeature, LeaderEndpoint, Listener, NodeEndpoint, QuorumResponse, Topic,
    VoterChangeResponse,
};
pub use remove_raft_voter::{RemoveRaftVoterRequest, RemoveRaftVoterResponse};
pub use update_features::{
    FeatureResult, FeatureUpdate, UpdateFeaturesRequest, UpdateFeaturesResponse,
};
pub use update_raft_voter::{
    UpdateRaftVoterCurrentLeader, UpdateRaftVoterRequest, UpdateRaftVoterResponse,
};
pub use vote::{VoteRequest, VoteRequestPartition, VoteResponse, VoteResponsePartition};

use crate::{ApiKey, Walk};
use std::fmt;

/// Which half of an API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Asks.
    Request,
    /// Answers.
    Response,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Request => "Request",
            Kind::Response => "Response",
        })
    }
}

/// A request's or response's body.
pub trait Message: Walk + Clone + PartialEq + fmt::Debug {
    /// Of which API.
    const API: ApiKey;
    /// Which half of it.
    const KIND: Kind;
}

/// A request, which knows what answers it.
pub trait Request: Message {
    /// Its answer.
    type Response: Message;
}

/// Work to do with whichever message a frame holds; see [`visit`].
pub trait Visit {
    /// What comes of it.
    type Output;
    /// Does it for the message `M`.
    fn message<M: Message>(self) -> Self::Output;
}

/// Calls the visitor with the type of this API's request or response.
pub fn visit<V: Visit>(api: ApiKey, kind: Kind, visitor: V) -> V::Output {
    fn either<R: Request, V: Visit>(kind: Kind, visitor: V) -> V::Output {
        match kind {
            Kind::Request => visitor.message::<R>(),
            Kind::Response => visitor.message::<R::Response>(),
        }
    }
    match api {
        ApiKey::Fetch => either::<FetchRequest, V>(kind, visitor),
        ApiKey::ApiVersions => either::<ApiVersionsRequest, V>(kind, visitor),
        ApiKey::CreateTopics => either::<CreateTopicsRequest, V>(kind, visitor),
        ApiKey::Vote => either::<VoteRequest, V>(kind, visitor),
        ApiKey::BeginQuorumEpoch => either::<BeginQuorumEpochRequest, V>(kind, visitor),
        ApiKey::EndQuorumEpoch => either::<EndQuorumEpochRequest, V>(kind, visitor),
        ApiKey::DescribeQuorum => either::<DescribeQuorumRequest, V>(kind, visitor),
        ApiKey::AlterPartition => either::<AlterPartitionRequest, V>(kind, visitor),
        ApiKey::UpdateFeatures => either::<UpdateFeaturesRequest, V>(kind, visitor),
        ApiKey::Envelope => either::<EnvelopeRequest, V>(kind, visitor),
        ApiKey::FetchSnapshot => either::<FetchSnapshotRequest, V>(kind, visitor),
        ApiKey::DescribeCluster => either::<DescribeClusterRequest, V>(kind, visitor),
        ApiKey::BrokerRegistration => either::<BrokerRegistrationRequest, V>(kind, visitor),
        ApiKey::BrokerHeartbeat => either::<BrokerHeartbeatRequest, V>(kind, visitor),
        ApiKey::AllocateProducerIds => either::<AllocateProducerIdsRequest, V>(kind, visitor),
        ApiKey::ControllerRegistration => either::<ControllerRegistrationRequest, V>(kind, visitor),
        ApiKey::AssignReplicasToDirs => either::<AssignReplicasToDirsRequest, V>(kind, visitor),
        ApiKey::AddRaftVoter => either::<AddRaftVoterRequest, V>(kind, visitor),
        ApiKey::RemoveRaftVoter => either::<RemoveRaftVoterRequest, V>(kind, visitor),
        ApiKey::UpdateRaftVoter => either::<UpdateRaftVoterRequest, V>(kind, visitor),
        ApiKey::Forward => either::<ForwardRequest, V>(kind, visitor),
    }
}

/// Makes a request and its response messages of an API.
macro_rules! messages {
    ($api:ident: $request:ty, $response:ty) => {
        impl $crate::message::Message for $request {
            const API: $crate::ApiKey = $crate::ApiKey::$api;
            const KIND: $crate::message::Kind = $crate::message::Kind::Request;
        }

        impl $crate::message::Message for $response {
            const API: $crate::ApiKey = $crate::ApiKey::$api;
            const KIND: $crate::message::Kind = $crate::message::Kind::Response;
        }

        impl $crate::message::Request for $request {
            type Response = $response;
        }
    };
}
use messages;
