//! DescribeCluster (KIP-700): the cluster's id and nodes. Version 1 can ask for the controllers
//! (KIP-919), version 2 for fenced brokers too (KIP-1073).

use super::messages;
use crate::coder::{Coder, Tags, Walk};
use crate::{Error, ErrorCode};

/// [`DescribeClusterRequest::endpoint_type`]: the brokers.
pub const BROKERS: i8 = 1;

/// [`DescribeClusterRequest::endpoint_type`]: the controllers.
pub const CONTROLLERS: i8 = 2;

/// `cluster_authorized_operations` that were not asked for.
const NOT_ASKED_FOR: i32 = i32::MIN;

/// Asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DescribeClusterRequest {
    /// Whether the answer shall say what the asker may do.
    pub include_cluster_authorized_operations: bool,
    /// Version 1: [`BROKERS`] or [`CONTROLLERS`]; version 0 asks for the brokers.
    pub endpoint_type: i8,
    /// Version 2: whether brokers that are fenced shall be listed.
    pub include_fenced_brokers: bool,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for DescribeClusterRequest {
    fn default() -> DescribeClusterRequest {
        DescribeClusterRequest {
            include_cluster_authorized_operations: false,
            endpoint_type: BROKERS,
            include_fenced_brokers: false,
            tags: Tags::new(),
        }
    }
}

impl Walk for DescribeClusterRequest {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.bool(
            "IncludeClusterAuthorizedOperations",
            &mut self.include_cluster_authorized_operations,
        )?;
        if version >= 1 {
            c.i8("EndpointType", &mut self.endpoint_type)?;
        } else {
            c.lacks("EndpointType", self.endpoint_type != BROKERS, version)?;
        }
        if version >= 2 {
            c.bool("IncludeFencedBrokers", &mut self.include_fenced_brokers)?;
        } else {
            c.lacks("IncludeFencedBrokers", self.include_fenced_brokers, version)?;
        }
        c.unknown_tags(&mut self.tags)
    }
}

/// Answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DescribeClusterResponse {
    /// How long the answer was held back, in milliseconds.
    pub throttle_time_ms: i32,
    /// Why there is no answer.
    pub error_code: ErrorCode,
    /// The same in words.
    pub error_message: Option<String>,
    /// Version 1: what the nodes below are: [`BROKERS`] or [`CONTROLLERS`].
    pub endpoint_type: i8,
    /// The cluster.
    pub cluster_id: String,
    /// The controller; -1 unknown.
    pub controller_id: i32,
    /// The nodes.
    pub brokers: Vec<DescribeClusterBroker>,
    /// Bits: what the asker may do; `i32::MIN` if it did not want to know.
    pub cluster_authorized_operations: i32,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for DescribeClusterResponse {
    fn default() -> DescribeClusterResponse {
        DescribeClusterResponse {
            throttle_time_ms: 0,
            error_code: ErrorCode::None,
            error_message: None,
            endpoint_type: BROKERS,
            cluster_id: String::new(),
            controller_id: -1,
            brokers: Vec::new(),
            cluster_authorized_operations: NOT_ASKED_FOR,
            tags: Tags::new(),
        }
    }
}

impl Walk for DescribeClusterResponse {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("ThrottleTimeMs", &mut self.throttle_time_ms)?;
        c.error_code("ErrorCode", &mut self.error_code)?;
        c.nullable_string("ErrorMessage", &mut self.error_message)?;
        if version >= 1 {
            c.i8("EndpointType", &mut self.endpoint_type)?;
        } else {
            c.lacks("EndpointType", self.endpoint_type != BROKERS, version)?;
        }
        c.string("ClusterId", &mut self.cluster_id)?;
        c.i32("ControllerId", &mut self.controller_id)?;
        c.array("Brokers", &mut self.brokers, version)?;
        c.i32("ClusterAuthorizedOperations", &mut self.cluster_authorized_operations)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// A node, which may be a controller in spite of its name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DescribeClusterBroker {
    /// The node.
    pub broker_id: i32,
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: i32,
    /// Where it stands.
    pub rack: Option<String>,
    /// Version 2: whether it is fenced.
    pub is_fenced: bool,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for DescribeClusterBroker {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("BrokerId", &mut self.broker_id)?;
        c.string("Host", &mut self.host)?;
        c.i32("Port", &mut self.port)?;
        c.nullable_string("Rack", &mut self.rack)?;
        if version >= 2 {
            c.bool("IsFenced", &mut self.is_fenced)?;
        } else {
            c.lacks("IsFenced", self.is_fenced, version)?;
        }
        c.unknown_tags(&mut self.tags)
    }
}

messages!(DescribeCluster: DescribeClusterRequest, DescribeClusterResponse);
