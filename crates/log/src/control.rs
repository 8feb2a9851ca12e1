//! Control records: what the log says about itself, as batches of their own.
//!
//! Which there are and what their values say is for the codec; here they are only put into a batch.

use crate::BatchBuilder;
use bytes::Bytes;
use quorate_base::{Epoch, Offset};
pub use quorate_wire::record::control::ControlType;

/// A batch of control records; the values are encoded already.
pub fn control_batch(
    base: Offset,
    epoch: Epoch,
    timestamp_ms: i64,
    records: &[(ControlType, Bytes)],
) -> Bytes {
    let mut batch = BatchBuilder::control(base, epoch, timestamp_ms);
    for (kind, value) in records {
        batch.record(Some(&kind.key()), Some(value), &[]);
    }
    batch.finish()
}
