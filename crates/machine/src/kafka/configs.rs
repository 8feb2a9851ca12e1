//! Configs of topics, brokers, groups and client metrics: text by key.
//!
//! What a key means, and what its default is, is not known here.

use super::shared_map::SharedMap;
use quorate_wire::record::metadata::{Config, MetadataRecord};
use std::sync::Arc;

/// What a config is for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ConfigResource {
    /// 2 topic, 4 broker, 16 client metrics, 32 group.
    pub resource_type: i8,
    /// Its name; empty for the default of all brokers.
    pub name: Arc<str>,
}

/// The number of topics.
const TOPIC: i8 = 2;

/// Kafka's name of a kind of resource, if the number is known.
pub fn resource_type_name(resource_type: i8) -> Option<&'static str> {
    match resource_type {
        TOPIC => Some("topic"),
        4 => Some("broker"),
        8 => Some("broker-logger"),
        16 => Some("client-metrics"),
        32 => Some("group"),
        _ => None,
    }
}

type Values = SharedMap<Arc<str>, Arc<str>>;

/// All configs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Configs {
    /// Invariant: no resource without a value.
    resources: SharedMap<ConfigResource, Values>,
}

impl Configs {
    /// What is set for a resource.
    pub fn get(&self, resource_type: i8, name: &str, key: &str) -> Option<&str> {
        let resource = ConfigResource { resource_type, name: name.into() };
        self.resources.get(&resource)?.get(key).map(|value| &**value)
    }

    /// All that is set: resource, key, value.
    pub fn iter(&self) -> impl Iterator<Item = (&ConfigResource, &Arc<str>, &Arc<str>)> {
        self.resources.iter().flat_map(|(resource, values)| {
            values.iter().map(move |(key, value)| (resource, key, value))
        })
    }

    pub(super) fn apply(&mut self, record: Config) {
        let (resource_type, name) = (record.resource_type, record.resource_name.into());
        let resource = ConfigResource { resource_type, name };
        let key: Arc<str> = record.name.into();
        let Some(value) = record.value else {
            if let Some(values) = self.resources.get_mut(&resource) {
                values.remove(&key);
                if values.is_empty() {
                    self.resources.remove(&resource);
                }
            }
            return;
        };
        match self.resources.get_mut(&resource) {
            Some(values) => drop(values.insert(key, value.into())),
            None => {
                let values = Values::from_iter([(key, value.into())]);
                self.resources.insert(resource, values);
            }
        }
    }

    /// A topic is gone, and so is all that was set for it.
    pub(super) fn remove_topic(&mut self, name: &Arc<str>) {
        let name = Arc::clone(name);
        self.resources.remove(&ConfigResource { resource_type: TOPIC, name });
    }

    pub(super) fn into_records(self) -> impl Iterator<Item = (MetadataRecord, i16)> {
        self.resources.into_entries().flat_map(|(resource, values)| {
            values.into_entries().map(move |(key, value)| {
                let record = Config {
                    resource_type: resource.resource_type,
                    resource_name: resource.name.to_string(),
                    name: key.to_string(),
                    value: Some(value.to_string()),
                    ..Config::default()
                };
                (record.into(), 0)
            })
        })
    }
}
