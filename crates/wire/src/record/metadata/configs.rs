//! Records about settings of the cluster: configs, features, client quotas; and producer ids.
//!
//! Field names are Kafka's. What a setting means is not known here.

use crate::coder::{Coder, Tags, Walk};
use crate::{Error, Float64};

/// A config is set or deleted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Config {
    /// 2 topic, 4 broker, 16 client metrics, 32 group.
    pub resource_type: i8,
    /// The topic, broker and so on; empty for the default of all brokers.
    pub resource_name: String,
    /// The key.
    pub name: String,
    /// Null deletes.
    pub value: Option<String>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for Config {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i8("ResourceType", &mut self.resource_type)?;
        c.string("ResourceName", &mut self.resource_name)?;
        c.string("Name", &mut self.name)?;
        c.nullable_string("Value", &mut self.value)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// A feature gets a level.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FeatureLevel {
    /// The feature.
    pub name: String,
    /// Its level; 0 removes it.
    pub feature_level: i16,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for FeatureLevel {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.string("Name", &mut self.name)?;
        c.i16("FeatureLevel", &mut self.feature_level)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// A client quota is set or removed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClientQuota {
    /// Whose: one part a kind.
    pub entity: Vec<QuotaEntity>,
    /// What is limited, such as `producer_byte_rate`.
    pub key: String,
    /// The limit.
    pub value: Float64,
    /// Whether it is removed instead.
    pub remove: bool,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for ClientQuota {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.array("Entity", &mut self.entity, version)?;
        c.string("Key", &mut self.key)?;
        c.float64("Value", &mut self.value)?;
        c.bool("Remove", &mut self.remove)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// One part of whom a quota is for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QuotaEntity {
    /// `user`, `client-id` or `ip`.
    pub entity_type: String,
    /// Which one; null for the default of the kind.
    pub entity_name: Option<String>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for QuotaEntity {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.string("EntityType", &mut self.entity_type)?;
        c.nullable_string("EntityName", &mut self.entity_name)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// Producer ids are handed out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProducerIds {
    /// To whom; -1 in snapshots.
    pub broker_id: i32,
    /// Of its registration; -1 if absent.
    pub broker_epoch: i64,
    /// The first that is still free.
    pub next_producer_id: i64,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for ProducerIds {
    fn default() -> ProducerIds {
        ProducerIds { broker_id: 0, broker_epoch: -1, next_producer_id: 0, tags: Tags::new() }
    }
}

impl Walk for ProducerIds {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i32("BrokerId", &mut self.broker_id)?;
        c.i64("BrokerEpoch", &mut self.broker_epoch)?;
        c.i64("NextProducerId", &mut self.next_producer_id)?;
        c.unknown_tags(&mut self.tags)
    }
}
