//! UpdateFeatures (KIP-584, KIP-778): the level of a feature is to change. Of Kafka's features a
//! node of ours serves `kraft.version` alone.

use super::messages;
use crate::coder::{Coder, Tags, Walk};
use crate::{Error, ErrorCode};

/// Asks for other levels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpdateFeaturesRequest {
    /// How long the answer may take, in milliseconds.
    pub timeout_ms: i32,
    /// Which features.
    pub feature_updates: Vec<FeatureUpdate>,
    /// Version 1: only whether it would be taken.
    pub validate_only: bool,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for UpdateFeaturesRequest {
    fn default() -> UpdateFeaturesRequest {
        UpdateFeaturesRequest {
            timeout_ms: 60_000,
            feature_updates: Vec::new(),
            validate_only: false,
            tags: Tags::new(),
        }
    }
}

impl Walk for UpdateFeaturesRequest {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("TimeoutMs", &mut self.timeout_ms)?;
        c.array("FeatureUpdates", &mut self.feature_updates, version)?;
        if version >= 1 {
            c.bool("ValidateOnly", &mut self.validate_only)?;
        } else {
            c.lacks("ValidateOnly", self.validate_only, version)?;
        }
        c.unknown_tags(&mut self.tags)
    }
}

/// A feature and its level.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FeatureUpdate {
    /// Such as `kraft.version`.
    pub feature: String,
    /// The level that is wanted; below 1: none.
    pub max_version_level: i16,
    /// Version 0: whether the level may fall.
    pub allow_downgrade: bool,
    /// Version 1: 1 only up, 2 down where nothing is lost, 3 down in any case.
    pub upgrade_type: i8,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for FeatureUpdate {
    fn default() -> FeatureUpdate {
        FeatureUpdate {
            feature: String::new(),
            max_version_level: 0,
            allow_downgrade: false,
            upgrade_type: 1,
            tags: Tags::new(),
        }
    }
}

impl Walk for FeatureUpdate {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.string("Feature", &mut self.feature)?;
        c.i16("MaxVersionLevel", &mut self.max_version_level)?;
        if version == 0 {
            c.bool("AllowDowngrade", &mut self.allow_downgrade)?;
            c.lacks("UpgradeType", self.upgrade_type != 1, version)?;
        } else {
            c.lacks("AllowDowngrade", self.allow_downgrade, version)?;
            c.i8("UpgradeType", &mut self.upgrade_type)?;
        }
        c.unknown_tags(&mut self.tags)
    }
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UpdateFeaturesResponse {
    /// How long the answer was held back, in milliseconds.
    pub throttle_time_ms: i32,
    /// Why nothing was changed.
    pub error_code: ErrorCode,
    /// The same in words.
    pub error_message: Option<String>,
    /// Up to version 1: of each feature.
    pub results: Vec<FeatureResult>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for UpdateFeaturesResponse {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("ThrottleTimeMs", &mut self.throttle_time_ms)?;
        c.error_code("ErrorCode", &mut self.error_code)?;
        c.nullable_string("ErrorMessage", &mut self.error_message)?;
        if version <= 1 {
            c.array("Results", &mut self.results, version)?;
        }
        c.unknown_tags(&mut self.tags)
    }
}

/// What came of one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FeatureResult {
    /// Its name.
    pub feature: String,
    /// Why it was not changed.
    pub error_code: ErrorCode,
    /// The same in words.
    pub error_message: Option<String>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for FeatureResult {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.string("Feature", &mut self.feature)?;
        c.error_code("ErrorCode", &mut self.error_code)?;
        c.nullable_string("ErrorMessage", &mut self.error_message)?;
        c.unknown_tags(&mut self.tags)
    }
}

messages!(UpdateFeatures: UpdateFeaturesRequest, UpdateFeaturesResponse);
