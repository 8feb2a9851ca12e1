//! Control records as JSON, with the names and in the order of Kafka's own dump tool.
//!
//! For people and programs that compare; nothing here reads it back.

use bytes::Bytes;
use quorate_wire::record::control::{ControlRecord, ControlType};
use quorate_wire::{Error, fields_json};

/// A control record in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ControlText {
    /// Its kind, such as `LeaderChange`.
    pub kind: String,
    /// Its fields: one JSON object on one line. Empty for a kind that is not known here.
    pub fields: String,
}

impl ControlText {
    /// Reads key and value.
    pub(crate) fn of(key: &[u8], value: &[u8]) -> Result<ControlText, Error> {
        ControlText::of_value(ControlType::of_key(key)?, Bytes::copy_from_slice(value))
    }

    /// Reads the value of a control record of this kind.
    pub fn of_value(kind: ControlType, value: Bytes) -> Result<ControlText, Error> {
        let record = ControlRecord::decode(kind, value)?;
        let fields = match record {
            ControlRecord::LeaderChange(record) => fields_json(record, 0),
            ControlRecord::SnapshotHeader(record) => fields_json(record, 0),
            ControlRecord::SnapshotFooter(record) => fields_json(record, 0),
            ControlRecord::KRaftVersion(record) => fields_json(record, 0),
            ControlRecord::KRaftVoters(record) => fields_json(record, 0),
            ControlRecord::Other(..) => String::new(),
        };
        Ok(ControlText { kind: kind.to_string(), fields })
    }
}
