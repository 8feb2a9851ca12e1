//! ApiVersions (KIP-35, KIP-511, KIP-584): which APIs and features the other side speaks. The first
//! request on a connection, so it must be understood by peers of every age: see `header.rs`.

use super::messages;
use crate::coder::{Coder, Tags, Walk};
use crate::{ApiKey, Error, ErrorCode};

/// Asks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ApiVersionsRequest {
    /// Version 3: the software that asks, as `[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?`.
    pub client_software_name: String,
    /// Version 3: its version, in the same alphabet.
    pub client_software_version: String,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for ApiVersionsRequest {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        if version >= 3 {
            c.string("ClientSoftwareName", &mut self.client_software_name)?;
            c.string("ClientSoftwareVersion", &mut self.client_software_version)?;
        }
        c.unknown_tags(&mut self.tags)
    }
}

/// Answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApiVersionsResponse {
    /// Why not.
    pub error_code: ErrorCode,
    /// The APIs.
    pub api_keys: Vec<ApiVersion>,
    /// Version 1: how long the answer was held back, in milliseconds.
    pub throttle_time_ms: i32,
    /// Version 3. Below version 4 leave out features whose least version is 0: Java clients of that
    /// age refuse them.
    pub supported_features: Vec<SupportedFeature>,
    /// Version 3: grows with each change of the finalized features; -1 unknown.
    pub finalized_features_epoch: i64,
    /// Version 3: valid with an epoch of 0 or more.
    pub finalized_features: Vec<FinalizedFeature>,
    /// Version 3: of the time of ZooKeeper.
    pub zk_migration_ready: bool,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for ApiVersionsResponse {
    fn default() -> ApiVersionsResponse {
        ApiVersionsResponse {
            error_code: ErrorCode::None,
            api_keys: Vec::new(),
            throttle_time_ms: 0,
            supported_features: Vec::new(),
            finalized_features_epoch: -1,
            finalized_features: Vec::new(),
            zk_migration_ready: false,
            tags: Tags::new(),
        }
    }
}

impl Walk for ApiVersionsResponse {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.error_code("ErrorCode", &mut self.error_code)?;
        c.array("ApiKeys", &mut self.api_keys, version)?;
        if version >= 1 {
            c.i32("ThrottleTimeMs", &mut self.throttle_time_ms)?;
        }
        c.tags(&mut self.tags, |c, open| {
            c.tag(open, 0, &mut self.supported_features, Vec::new(), |c, features| {
                c.array("SupportedFeatures", features, version)
            })?;
            c.tag(open, 1, &mut self.finalized_features_epoch, -1, |c, epoch| {
                c.i64("FinalizedFeaturesEpoch", epoch)
            })?;
            c.tag(open, 2, &mut self.finalized_features, Vec::new(), |c, features| {
                c.array("FinalizedFeatures", features, version)
            })?;
            c.tag(open, 3, &mut self.zk_migration_ready, false, |c, ready| {
                c.bool("ZkMigrationReady", ready)
            })
        })
    }
}

/// An API and the versions of it that are spoken, both inclusive.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ApiVersion {
    /// Its key; may be one that we do not know.
    pub api_key: i16,
    /// The oldest.
    pub min_version: i16,
    /// The newest.
    pub max_version: i16,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for ApiVersion {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i16("ApiKey", &mut self.api_key)?;
        c.i16("MinVersion", &mut self.min_version)?;
        c.i16("MaxVersion", &mut self.max_version)?;
        c.unknown_tags(&mut self.tags)
    }
}

impl From<ApiKey> for ApiVersion {
    /// What we speak.
    fn from(api: ApiKey) -> ApiVersion {
        ApiVersion {
            api_key: api.key(),
            min_version: api.oldest(),
            max_version: api.newest(),
            tags: Tags::new(),
        }
    }
}

/// A feature and the levels of it that a node supports, both inclusive.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SupportedFeature {
    /// Such as `kraft.version`.
    pub name: String,
    /// The lowest.
    pub min_version: i16,
    /// The highest.
    pub max_version: i16,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for SupportedFeature {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.string("Name", &mut self.name)?;
        c.i16("MinVersion", &mut self.min_version)?;
        c.i16("MaxVersion", &mut self.max_version)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// A feature and the level of it that the cluster uses.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FinalizedFeature {
    /// Such as `kraft.version`.
    pub name: String,
    /// The level in use.
    pub max_version_level: i16,
    /// The lowest level that nodes must still understand.
    pub min_version_level: i16,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for FinalizedFeature {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.string("Name", &mut self.name)?;
        c.i16("MaxVersionLevel", &mut self.max_version_level)?;
        c.i16("MinVersionLevel", &mut self.min_version_level)?;
        c.unknown_tags(&mut self.tags)
    }
}

messages!(ApiVersions: ApiVersionsRequest, ApiVersionsResponse);
