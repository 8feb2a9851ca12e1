//! Finalized feature levels, and which versions of records they ask for.
//!
//! The versions are those that Kafka 4.3 writes at each metadata.version.

use super::refused::Refused;
use super::shared_map::SharedMap;
use quorate_wire::record::metadata::{FeatureLevel, MetadataRecord};
use std::sync::Arc;

/// The feature that says which records there are.
pub const METADATA_VERSION: &str = "metadata.version";

/// The feature that the quorum itself keeps, in control records; here it is passed over.
pub const KRAFT_VERSION: &str = "kraft.version";

/// All features with a level.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Features {
    levels: SharedMap<Arc<str>, i16>,
}

impl Features {
    /// The level of a feature; `None` is level 0.
    pub fn level(&self, name: &str) -> Option<i16> {
        self.levels.get(name).copied()
    }

    /// The level of `metadata.version`; `None` before the first record.
    pub fn metadata_version(&self) -> Option<i16> {
        self.level(METADATA_VERSION)
    }

    /// All levels, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, i16)> {
        self.levels.iter().map(|(name, level)| (name, *level))
    }

    pub(super) fn apply(&mut self, record: FeatureLevel) -> Result<(), Refused> {
        let level = record.feature_level;
        let is_version = record.name == METADATA_VERSION;
        if level < 0 || is_version && level == 0 {
            return Err(Refused::BadValue { field: "FeatureLevel", found: level.into() });
        }
        match (record.name.as_str(), level) {
            (KRAFT_VERSION, _) => {}
            (name, 0) => drop(self.levels.remove(name)),
            (name, level) => drop(self.levels.insert(name.into(), level)),
        }
        Ok(())
    }

    /// `metadata.version` first, as in every snapshot of Kafka's.
    pub(super) fn records(&self) -> impl Iterator<Item = (MetadataRecord, i16)> {
        let version = self.metadata_version().map(|level| (METADATA_VERSION, level));
        let others = self.levels.iter().map(|(name, level)| (&**name, *level));
        let others = others.filter(|(name, _)| *name != METADATA_VERSION);
        version.into_iter().chain(others).map(|(name, feature_level)| {
            let record =
                FeatureLevel { name: name.to_owned(), feature_level, ..FeatureLevel::default() };
            (record.into(), 0)
        })
    }

    /// Of RegisterBroker.
    pub(super) fn register_broker_version(&self) -> i16 {
        match self.metadata_version().unwrap_or(0) {
            30.. => 4,
            17.. => 3,
            8.. => 2,
            _ => 1,
        }
    }

    /// Of Partition.
    pub(super) fn partition_version(&self) -> i16 {
        match self.metadata_version().unwrap_or(0) {
            23.. => 2,
            17.. => 1,
            _ => 0,
        }
    }
}
