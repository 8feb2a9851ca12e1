//! ControllerRegistration (KIP-919): a controller tells the active one where it can be reached and
//! which levels of features it supports.

use super::messages;
use crate::coder::{Coder, Tags, Walk};
use crate::record::metadata::{RegisteredEndpoint, RegisteredFeature};
use crate::{Error, ErrorCode};
use quorate_base::Uuid;

/// What the controller says of itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ControllerRegistrationRequest {
    /// The controller.
    pub controller_id: i32,
    /// One a process.
    pub incarnation_id: Uuid,
    /// Whether it could take part in a migration from ZooKeeper.
    pub zk_migration_ready: bool,
    /// Where it can be reached.
    pub listeners: Vec<RegisteredEndpoint>,
    /// What it supports.
    pub features: Vec<RegisteredFeature>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for ControllerRegistrationRequest {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("ControllerId", &mut self.controller_id)?;
        c.uuid("IncarnationId", &mut self.incarnation_id)?;
        c.bool("ZkMigrationReady", &mut self.zk_migration_ready)?;
        c.array("Listeners", &mut self.listeners, version)?;
        c.array("Features", &mut self.features, version)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// Whether it is registered: an answer without error comes once the record is committed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ControllerRegistrationResponse {
    /// How long the answer was held back, in milliseconds.
    pub throttle_time_ms: i32,
    /// Why it is not.
    pub error_code: ErrorCode,
    /// The same in words.
    pub error_message: Option<String>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for ControllerRegistrationResponse {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i32("ThrottleTimeMs", &mut self.throttle_time_ms)?;
        c.error_code("ErrorCode", &mut self.error_code)?;
        c.nullable_string("ErrorMessage", &mut self.error_message)?;
        c.unknown_tags(&mut self.tags)
    }
}

messages!(
    ControllerRegistration: ControllerRegistrationRequest, ControllerRegistrationResponse
);
