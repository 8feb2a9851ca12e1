//! AllocateProducerIds (KIP-730): a broker takes a block of producer ids to give away.

use super::messages;
use crate::coder::{Coder, Tags, Walk};
use crate::{Error, ErrorCode};

/// Asks for a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AllocateProducerIdsRequest {
    /// The broker.
    pub broker_id: i32,
    /// Of its registration; -1 unknown.
    pub broker_epoch: i64,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Default for AllocateProducerIdsRequest {
    fn default() -> AllocateProducerIdsRequest {
        AllocateProducerIdsRequest { broker_id: 0, broker_epoch: -1, tags: Tags::new() }
    }
}

impl Walk for AllocateProducerIdsRequest {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i32("BrokerId", &mut self.broker_id)?;
        c.i64("BrokerEpoch", &mut self.broker_epoch)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// The block.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AllocateProducerIdsResponse {
    /// How long the answer was held back, in milliseconds.
    pub throttle_time_ms: i32,
    /// Why there is none.
    pub error_code: ErrorCode,
    /// The first id.
    pub producer_id_start: i64,
    /// How many ids.
    pub producer_id_len: i32,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for AllocateProducerIdsResponse {
    fn walk<C: Coder>(&mut self, c: &mut C, _version: i16) -> Result<(), Error> {
        c.i32("ThrottleTimeMs", &mut self.throttle_time_ms)?;
        c.error_code("ErrorCode", &mut self.error_code)?;
        c.i64("ProducerIdStart", &mut self.producer_id_start)?;
        c.i32("ProducerIdLen", &mut self.producer_id_len)?;
        c.unknown_tags(&mut self.tags)
    }
}

messages!(AllocateProducerIds: AllocateProducerIdsRequest, AllocateProducerIdsResponse);
