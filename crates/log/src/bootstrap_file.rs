//! `bootstrap.checkpoint`: the records that the first active controller of a Kafka cluster writes
//! before all others.
//!
//! In the form of a snapshot (KIP-630), beside `meta.properties` and not in the partition: a batch
//! with the header, one with the records, one with the footer. Only Kafka's controllers read it;
//! nothing here knows what the records mean.

use crate::BatchBuilder;
use crate::control::{ControlType, control_batch};
use bytes::{Bytes, BytesMut};
use quorate_base::{Epoch, Offset};
use quorate_wire::record::control::{SnapshotFooter, SnapshotHeader};

/// Its name.
pub(crate) const NAME: &str = "bootstrap.checkpoint";

/// The file with these records' values, of which there is one at least.
pub(crate) fn encode(timestamp_ms: i64, records: &[Bytes]) -> Bytes {
    let control = |base, kind, value: Result<Bytes, quorate_wire::Error>| {
        let value = value.expect("numbers always encode");
        control_batch(base, Epoch(0), timestamp_ms, &[(kind, value)])
    };
    // The time of the last record that it contains: there is none, as Kafka has it.
    let header = SnapshotHeader::default().encode();
    let mut file = BytesMut::from(&control(Offset::ZERO, ControlType::SnapshotHeader, header)[..]);
    let mut batch = BatchBuilder::new(Offset(1), Epoch(0), timestamp_ms);
    records.iter().for_each(|value| batch.record(None, Some(value), &[]));
    let end = batch.end();
    file.extend_from_slice(&batch.finish());
    let footer = SnapshotFooter::default().encode();
    file.extend_from_slice(&control(end, ControlType::SnapshotFooter, footer));
    file.freeze()
}
