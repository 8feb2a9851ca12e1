//! Kafka as a second codec of metadata records: it reads what we write, every type and version of
//! them with fields drawn at random, and says of each what we say.
//!
//! The directories that Kafka wrote have most types, but only the newest versions, and few values.

use super::snapshots::{Shown, agreed};
use crate::scenario::{Failure, Stage, ensure};
use quorate_base::{Epoch, Offset, OffsetEpoch, Rng};
use quorate_log::{OsDisk, SnapshotRecord, SnapshotWriter, snapshot_name};
use quorate_wire::record::metadata::MetadataRecord;
use quorate_wire::{Float64, arbitrary};
use std::path::Path;

/// So many of each type and version.
const EACH: usize = 40;

/// Writes a snapshot of drawn records, and lets both dump tools read it.
pub fn drawn(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    let mut rng = Rng::new(4_301);
    let mut values = Vec::new();
    for (api_key, name, newest) in MetadataRecord::TYPES {
        for version in (0..=*newest).flat_map(|version| [version; EACH]) {
            let Some(mut record) = arbitrary::metadata(*api_key, version, &mut rng) else {
                return Err(Failure(format!("{name} is in the table and cannot be drawn")));
            };
            if let MetadataRecord::ClientQuota(quota) = &mut record {
                // Java before 19 gives some numbers more digits than they need; not these.
                quota.value = Float64((rng.below(1 << 40) as f64 - 1e9) / 8.0);
            }
            values.push(record.encode(version)?);
        }
    }
    std::fs::create_dir_all(directory)?;
    let id = OffsetEpoch::new(Offset(values.len() as u64 + 7), Epoch(3));
    let disk = OsDisk::new(directory);
    let mut writer = SnapshotWriter::create(disk, "", id, 1_700_000_000_000, &[])?;
    for value in &values {
        writer.record(&SnapshotRecord {
            offset: None,
            timestamp_ms: 1_700_000_000_000,
            key: None,
            value: Some(value),
            headers: 0,
            encoded_headers: &[],
        })?;
    }
    writer.freeze()?;
    let printed = agreed(stage, &directory.join(snapshot_name(id)), Shown::Metadata)?;
    let read = printed.lines().filter(|line| line.contains(" payload: {\"type\":\"")).count();
    ensure(read == values.len(), || format!("Kafka read {read} of {} records", values.len()))
}
