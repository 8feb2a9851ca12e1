//! BrokerHeartbeat (KIP-631): a broker tells the active controller that it lives and what it wants,
//! and hears what it may do. Version 1 names directories that failed (KIP-858), version 2 those
//! that take no new replicas (KIP-1066).

use super::messages;
use crate::coder::{Coder, Tags, Walk};
use crate::{Error, ErrorCode};
use quorate_base::Uuid;

/// What the broker says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BrokerHeartbeatRequest {
    /// The broker.
    pub broker_id: i32,
    /// Of its registration; -1 none.
    pub broker_epoch: i64,
    /// Up to where it has followed the metadata.
    pub current_metadata_offset: i64,
    /// Whether it wants to lead nothing.
    pub want_fence: bool,
    /// Whether it wants to stop.
    pub want_shut_down: bool,
    /// Version 1, tag 0: its directories that failed.
    pub offline_log_dirs: Vec<Uuid>,
    /// Version 2, tag 1: its directories that take no new replicas; null while it does not know.
    pub cordoned_log_dirs: Option<Vec<Uuid>>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for BrokerHeartbeatRequest {
    fn default() -> BrokerHeartbeatRequest {
        BrokerHeartbeatRequest {
            broker_id: 0,
            broker_epoch: -1,
            current_metadata_offset: 0,
            want_fence: false,
            want_shut_down: false,
            offline_log_dirs: Vec::new(),
            cordoned_log_dirs: None,
            tags: Tags::new(),
        }
    }
}

impl Walk for BrokerHeartbeatRequest {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("BrokerId", &mut self.broker_id)?;
        c.i64("BrokerEpoch", &mut self.broker_epoch)?;
        c.i64("CurrentMetadataOffset", &mut self.current_metadata_offset)?;
        c.bool("WantFence", &mut self.want_fence)?;
        c.bool("WantShutDown", &mut self.want_shut_down)?;
        let (offline, cordoned) = (&mut self.offline_log_dirs, &mut self.cordoned_log_dirs);
        c.tags(&mut self.tags, |c, open| {
            if version >= 1 {
                c.tag(open, 0, offline, Vec::new(), |c, dirs| {
                    c.array("OfflineLogDirs", dirs, version)
                })?;
            } else {
                c.lacks("OfflineLogDirs", !offline.is_empty(), version)?;
            }
            if version >= 2 {
                c.tag(open, 1, cordoned, None, |c, dirs| {
                    c.nullable_array("CordonedLogDirs", dirs, version)
                })
            } else {
                c.lacks("CordonedLogDirs", cordoned.is_some(), version)
            }
        })
    }
}

/// What the broker may do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BrokerHeartbeatResponse {
    /// How long the answer was held back, in milliseconds.
    pub throttle_time_ms: i32,
    /// Why it is not heard.
    pub error_code: ErrorCode,
    /// Whether it has followed the metadata about to their end.
    pub is_caught_up: bool,
    /// Whether it may lead nothing; true if absent.
    pub is_fenced: bool,
    /// Whether it shall go on with its shutdown.
    pub should_shut_down: bool,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for BrokerHeartbeatResponse {
    fn default() -> BrokerHeartbeatResponse {
        BrokerHeartbeatResponse {
            throttle_time_ms: 0,
            error_code: ErrorCode::None,
            is_caught_up: false,
            is_fenced: true,
            should_shut_down: false,
            tags: Tags::new(),
        }
    }
}

impl Walk for BrokerHeartbeatResponse {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i32("ThrottleTimeMs", &mut self.throttle_time_ms)?;
        c.error_code("ErrorCode", &mut self.error_code)?;
        c.bool("IsCaughtUp", &mut self.is_caught_up)?;
        c.bool("IsFenced", &mut self.is_fenced)?;
        c.bool("ShouldShutDown", &mut self.should_shut_down)?;
        c.unknown_tags(&mut self.tags)
    }
}

messages!(BrokerHeartbeat: BrokerHeartbeatRequest, BrokerHeartbeatResponse);
