//! Records about who is in the cluster: brokers and controllers.
//!
//! Field names and versions are Kafka's; -1, 0 and 1 of a change are as on the wire.

use crate::Error;
use crate::coder::{Coder, Tags, Walk};
use quorate_base::Uuid;

/// A broker registers, for the first time or again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegisterBroker {
    /// The node.
    pub broker_id: i32,
    /// Version 2: whether it came from ZooKeeper and had not arrived yet.
    pub is_migrating_zk_broker: bool,
    /// One a process.
    pub incarnation_id: Uuid,
    /// Given by the controller; grows with each registration.
    pub broker_epoch: i64,
    /// Where it listens.
    pub end_points: Vec<RegisteredEndpoint>,
    /// The feature levels that it supports.
    pub features: Vec<RegisteredFeature>,
    /// Where it stands.
    pub rack: Option<String>,
    /// Whether it may lead nothing yet; true if absent.
    pub fenced: bool,
    /// Version 1: whether it is shutting down.
    pub in_controlled_shutdown: bool,
    /// Version 3, tag 0: its directories that work.
    pub log_dirs: Vec<Uuid>,
    /// Version 4, tag 1: directories that take no new replicas; null if the broker did not say.
    pub cordoned_log_dirs: Option<Vec<Uuid>>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for RegisterBroker {
    fn default() -> RegisterBroker {
        RegisterBroker {
            broker_id: 0,
            is_migrating_zk_broker: false,
            incarnation_id: Uuid::ZERO,
            broker_epoch: 0,
            end_points: Vec::new(),
            features: Vec::new(),
            rack: None,
            fenced: true,
            in_controlled_shutdown: false,
            log_dirs: Vec::new(),
            cordoned_log_dirs: None,
            tags: Tags::new(),
        }
    }
}

impl Walk for RegisterBroker {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("BrokerId", &mut self.broker_id)?;
        if version >= 2 {
            c.bool("IsMigratingZkBroker", &mut self.is_migrating_zk_broker)?;
        } else {
            c.lacks("IsMigratingZkBroker", self.is_migrating_zk_broker, version)?;
        }
        c.uuid("IncarnationId", &mut self.incarnation_id)?;
        c.i64("BrokerEpoch", &mut self.broker_epoch)?;
        c.array("EndPoints", &mut self.end_points, version)?;
        c.array("Features", &mut self.features, version)?;
        c.nullable_string("Rack", &mut self.rack)?;
        c.bool("Fenced", &mut self.fenced)?;
        if version >= 1 {
            c.bool("InControlledShutdown", &mut self.in_controlled_shutdown)?;
        } else {
            c.lacks("InControlledShutdown", self.in_controlled_shutdown, version)?;
        }
        let (log_dirs, cordoned) = (&mut self.log_dirs, &mut self.cordoned_log_dirs);
        c.tags(&mut self.tags, |c, open| {
            walk_log_dirs(c, open, 0, log_dirs, version, 3)?;
            walk_cordoned(c, open, 1, cordoned, version, 4)
        })
    }
}

fn walk_log_dirs<C: Coder>(
    c: &mut C,
    open: &mut C::OpenTags,
    tag: u32,
    dirs: &mut Vec<Uuid>,
    version: i16,
    since: i16,
) -> Result<(), Error> {
    if version < since {
        return c.lacks("LogDirs", !dirs.is_empty(), version);
    }
    c.tag(open, tag, dirs, Vec::new(), |c, dirs| c.array("LogDirs", dirs, version))
}

fn walk_cordoned<C: Coder>(
    c: &mut C,
    open: &mut C::OpenTags,
    tag: u32,
    dirs: &mut Option<Vec<Uuid>>,
    version: i16,
    since: i16,
) -> Result<(), Error> {
    if version < since {
        return c.lacks("CordonedLogDirs", dirs.is_some(), version);
    }
    c.tag(open, tag, dirs, None, |c, dirs| c.nullable_array("CordonedLogDirs", dirs, version))
}

/// Where a broker or controller listens.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RegisteredEndpoint {
    /// Of the listener.
    pub name: String,
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// 0 plaintext, 1 SSL, 2 SASL plaintext, 3 SASL over SSL.
    pub security_protocol: i16,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for RegisteredEndpoint {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.string("Name", &mut self.name)?;
        c.string("Host", &mut self.host)?;
        c.u16("Port", &mut self.port)?;
        c.i16("SecurityProtocol", &mut self.security_protocol)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// The levels of a feature that a broker or controller supports.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RegisteredFeature {
    /// Of the feature.
    pub name: String,
    /// The lowest level.
    pub min_supported_version: i16,
    /// The highest.
    pub max_supported_version: i16,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for RegisteredFeature {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.string("Name", &mut self.name)?;
        c.i16("MinSupportedVersion", &mut self.min_supported_version)?;
        c.i16("MaxSupportedVersion", &mut self.max_supported_version)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// A broker is not part of the cluster any more.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UnregisterBroker {
    /// The node.
    pub broker_id: i32,
    /// Of its registration.
    pub broker_epoch: i64,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for UnregisterBroker {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i32("BrokerId", &mut self.broker_id)?;
        c.i64("BrokerEpoch", &mut self.broker_epoch)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// A broker is fenced: it leads nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FenceBroker {
    /// The node.
    pub id: i32,
    /// Of its registration.
    pub epoch: i64,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for FenceBroker {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i32("Id", &mut self.id)?;
        c.i64("Epoch", &mut self.epoch)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// A broker is fenced no more.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UnfenceBroker {
    /// The node.
    pub id: i32,
    /// Of its registration.
    pub epoch: i64,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for UnfenceBroker {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i32("Id", &mut self.id)?;
        c.i64("Epoch", &mut self.epoch)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// A broker's registration changes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BrokerRegistrationChange {
    /// The node.
    pub broker_id: i32,
    /// Of its registration.
    pub broker_epoch: i64,
    /// Tag 0: -1 unfenced, 0 as before, 1 fenced.
    pub fenced: i8,
    /// Version 1, tag 1: 0 as before, 1 shutting down.
    pub in_controlled_shutdown: i8,
    /// Version 2, tag 2: its directories that work; empty: as before.
    pub log_dirs: Vec<Uuid>,
    /// Version 3, tag 3: directories that take no new replicas; null: as before.
    pub cordoned_log_dirs: Option<Vec<Uuid>>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for BrokerRegistrationChange {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("BrokerId", &mut self.broker_id)?;
        c.i64("BrokerEpoch", &mut self.broker_epoch)?;
        let (fenced, shutdown) = (&mut self.fenced, &mut self.in_controlled_shutdown);
        let (log_dirs, cordoned) = (&mut self.log_dirs, &mut self.cordoned_log_dirs);
        c.tags(&mut self.tags, |c, open| {
            c.tag(open, 0, fenced, 0, |c, fenced| c.i8("Fenced", fenced))?;
            if version >= 1 {
                c.tag(open, 1, shutdown, 0, |c, value| c.i8("InControlledShutdown", value))?;
            } else {
                c.lacks("InControlledShutdown", *shutdown != 0, version)?;
            }
            walk_log_dirs(c, open, 2, log_dirs, version, 2)?;
            walk_cordoned(c, open, 3, cordoned, version, 3)
        })
    }
}

/// A controller registers (KIP-919).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RegisterController {
    /// The node.
    pub controller_id: i32,
    /// One a process.
    pub incarnation_id: Uuid,
    /// Whether it could take part in a migration from ZooKeeper.
    pub zk_migration_ready: bool,
    /// Where it listens.
    pub end_points: Vec<RegisteredEndpoint>,
    /// The feature levels that it supports.
    pub features: Vec<RegisteredFeature>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for RegisterController {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("ControllerId", &mut self.controller_id)?;
        c.uuid("IncarnationId", &mut self.incarnation_id)?;
        c.bool("ZkMigrationReady", &mut self.zk_migration_ready)?;
        c.array("EndPoints", &mut self.end_points, version)?;
        c.array("Features", &mut self.features, version)?;
        c.unknown_tags(&mut self.tags)
    }
}
