//! BrokerRegistration (KIP-631): a broker that starts tells the active controller where it can be
//! reached and what it supports. Version 1 is of the migration from ZooKeeper (KIP-866), 2 names
//! the directories (KIP-858), 3 the registration before (KIP-966), 4 features from level 0 on
//! (KIP-1022).

use super::messages;
use crate::coder::{Coder, Tags, Walk};
use crate::record::metadata::{RegisteredEndpoint, RegisteredFeature};
use crate::{Error, ErrorCode};
use quorate_base::Uuid;

/// What the broker says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BrokerRegistrationRequest {
    /// The broker.
    pub broker_id: i32,
    /// Its cluster.
    pub cluster_id: String,
    /// One a process.
    pub incarnation_id: Uuid,
    /// Where it can be reached.
    pub listeners: Vec<RegisteredEndpoint>,
    /// What it supports. Below version 4 without features whose least level is 0.
    pub features: Vec<RegisteredFeature>,
    /// Where it stands.
    pub rack: Option<String>,
    /// Version 1: whether it is about to come from ZooKeeper.
    pub is_migrating_zk_broker: bool,
    /// Version 2: its directories that work.
    pub log_dirs: Vec<Uuid>,
    /// Version 3: the epoch of its registration before a clean shutdown; -1 none.
    pub previous_broker_epoch: i64,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for BrokerRegistrationRequest {
    fn default() -> BrokerRegistrationRequest {
        BrokerRegistrationRequest {
            broker_id: 0,
            cluster_id: String::new(),
            incarnation_id: Uuid::ZERO,
            listeners: Vec::new(),
            features: Vec::new(),
            rack: None,
            is_migrating_zk_broker: false,
            log_dirs: Vec::new(),
            previous_broker_epoch: -1,
            tags: Tags::new(),
        }
    }
}

impl Walk for BrokerRegistrationRequest {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("BrokerId", &mut self.broker_id)?;
        c.string("ClusterId", &mut self.cluster_id)?;
        c.uuid("IncarnationId", &mut self.incarnation_id)?;
        c.array("Listeners", &mut self.listeners, version)?;
        c.array("Features", &mut self.features, version)?;
        c.nullable_string("Rack", &mut self.rack)?;
        if version >= 1 {
            c.bool("IsMigratingZkBroker", &mut self.is_migrating_zk_broker)?;
        } else {
            c.lacks("IsMigratingZkBroker", self.is_migrating_zk_broker, version)?;
        }
        if version >= 2 {
            c.array("LogDirs", &mut self.log_dirs, version)?;
        }
        if version >= 3 {
            c.i64("PreviousBrokerEpoch", &mut self.previous_broker_epoch)?;
        }
        c.unknown_tags(&mut self.tags)
    }
}

/// Whether it is registered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BrokerRegistrationResponse {
    /// How long the answer was held back, in milliseconds.
    pub throttle_time_ms: i32,
    /// Why it is not.
    pub error_code: ErrorCode,
    /// The epoch of the registration; -1 none.
    pub broker_epoch: i64,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for BrokerRegistrationResponse {
    fn default() -> BrokerRegistrationResponse {
        let (error_code, tags) = (ErrorCode::None, Tags::new());
        BrokerRegistrationResponse { throttle_time_ms: 0, error_code, broker_epoch: -1, tags }
    }
}

impl Walk for BrokerRegistrationResponse {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i32("ThrottleTimeMs", &mut self.throttle_time_ms)?;
        c.error_code("ErrorCode", &mut self.error_code)?;
        c.i64("BrokerEpoch", &mut self.broker_epoch)?;
        c.unknown_tags(&mut self.tags)
    }
}

messages!(BrokerRegistration: BrokerRegistrationRequest, BrokerRegistrationResponse);
