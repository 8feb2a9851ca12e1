//! Facts as lines of text: stable, one line each, in the words of Kafka's own dump tool where it
//! has them.

use crate::dump::{Fact, FileKind};
use crate::{Codec, Fault, Header, Reading, RecordView};
use quorate_base::{Cleaned, Offset};
use quorate_wire::quoted;
use std::fmt;
use std::fmt::Write;

/// Printable text as it is; else `0x` and hexadecimal digits.
pub(crate) fn bytes(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.chars().all(|character| !character.is_control()) => text.to_owned(),
        Ok(_) | Err(_) => bytes.iter().fold("0x".to_owned(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a String takes all");
            text
        }),
    }
}

impl FileKind {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            FileKind::Segment(_) => "segment",
            FileKind::Checkpoint => "checkpoint",
            FileKind::Offsets(_) => "offset index",
            FileKind::Times(_) => "time index",
            FileKind::Epochs => "epochs",
            FileKind::Election => "election state",
            FileKind::Topic => "topic id",
            FileKind::Meta => "directory's owner",
            FileKind::Synced => "synced marks",
            FileKind::MustReach => "must reach",
            FileKind::Numbers => "numbers of a cleaned log",
            FileKind::CleanerEnds => "ends of what was cleaned",
            FileKind::Other => "other",
        }
    }
}

impl Fact<'_> {
    /// The line of a record with this text in place of its value; of anything else, its own line.
    pub fn with_payload(&self, payload: &str) -> String {
        let Fact::Record { record, sequence, .. } = self else { return self.to_string() };
        let mut line = record_head(record, *sequence);
        if let Some(key) = record.key {
            line += &format!(" key: {}", bytes(key));
        }
        line + " payload: " + payload
    }
}

/// What a record's line says before key and value.
fn record_head(record: &RecordView<'_>, sequence: i32) -> String {
    let size = |bytes: Option<&[u8]>| bytes.map_or(-1, |bytes| bytes.len() as i64);
    let names: Vec<String> = record.headers().map(|(name, _)| bytes(name)).collect();
    format!(
        "| offset: {} CreateTime: {} keySize: {} valueSize: {} sequence: {sequence} headerKeys: [{}]",
        record.offset,
        record.timestamp_ms,
        size(record.key),
        size(record.value),
        names.join(","),
    )
}

impl fmt::Display for Fact<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fact::File { path, kind, bytes } => {
                write!(f, "file: {path} kind: {} size: {bytes}", kind.name())
            }
            Fact::Batch { position, header, fault } => batch(f, *position, header, *fault),
            Fact::Record { record, sequence, control } => {
                f.write_str(&record_head(record, *sequence))?;
                match control {
                    Some(Ok(control)) if control.kind == "LeaderChange" => {
                        write!(f, " {}: {}", control.kind, control.fields)
                    }
                    Some(Ok(control)) => write!(f, " {} {}", control.kind, control.fields),
                    Some(Err(why)) => write!(f, " not understood: {why}"),
                    None => {
                        if let Some(key) = record.key {
                            write!(f, " key: {}", bytes(key))?;
                        }
                        match record.value {
                            Some(value) => write!(f, " payload: {}", bytes(value)),
                            None => Ok(()),
                        }
                    }
                }
            }
            Fact::BadRecord(bad) => write!(f, "| {bad}"),
            Fact::Offset(entry) => {
                write!(f, "offset: {} position: {}", entry.last, entry.position)
            }
            Fact::Time(entry) => {
                write!(f, "timestamp: {} offset: {}", entry.timestamp_ms, entry.offset)
            }
            Fact::Epoch(epoch, first) => write!(f, "epoch: {epoch} firstOffset: {first}"),
            Fact::Election(election) => {
                let none = || "none".to_owned();
                write!(
                    f,
                    "epoch: {} leader: {} voted: {}",
                    election.epoch,
                    election.leader.map_or_else(none, |leader| leader.to_string()),
                    election.voted.map_or_else(none, |voted| voted.id.to_string()),
                )?;
                if let Some(directory) = election.voted.and_then(|voted| voted.directory) {
                    write!(f, " votedDirectory: {directory}")?;
                }
                let voters: Vec<String> = election.voters.iter().map(|id| id.to_string()).collect();
                write!(f, " voters: [{}]", voters.join(","))
            }
            Fact::Topic(id) => write!(f, "topicId: {id}"),
            Fact::Meta(meta) => {
                write!(f, "clusterId: {} nodeId: {}", quoted(&meta.cluster), meta.node)?;
                match meta.directory {
                    Some(directory) => write!(f, " directoryId: {directory}"),
                    None => Ok(()),
                }
            }
            Fact::MustReach(reach) => {
                write!(f, "endOffset: {} epoch: {}", reach.offset, reach.epoch)
            }
            Fact::Numbers { numbers, cleaner, reading, swap } => {
                numbers_line(f, numbers, *cleaner, reading, swap)
            }
            Fact::CleanerEnd { topic, partition, end } => {
                write!(f, "topic: {topic} partition: {partition} cleanedTo: {end}")
            }
            Fact::Mark { sequence, segment, end, position } => write!(
                f,
                "sequence: {sequence} segment: {segment} endOffset: {end} position: {position}"
            ),
            Fact::Bad { position, expected, found } => {
                write!(f, "damaged at byte {position}: expected {expected}, found {found}")
            }
        }
    }
}

fn numbers_line(
    f: &mut fmt::Formatter<'_>,
    numbers: &Cleaned,
    cleaner: Offset,
    reading: &Reading,
    swap: &[Offset],
) -> fmt::Result {
    write!(
        f,
        "dirty: {} clean: {} horizon: {} cleanerEnd: {cleaner} required: {} dmin: {}",
        numbers.dirty,
        numbers.clean,
        numbers.horizon,
        reading.required,
        reading.dmin.map_or_else(|| "none".to_owned(), |dmin| dmin.to_string()),
    )?;
    let bases: Vec<String> = swap.iter().map(Offset::to_string).collect();
    if bases.is_empty() { Ok(()) } else { write!(f, " swap: [{}]", bases.join(",")) }
}

/// Where a batch has one; Kafka's tool says of all others that they have none.
fn horizon(header: &Header) -> String {
    match header.delete_horizon {
        true => format!(" deleteHorizonMs: OptionalLong[{}]", header.timestamp_ms),
        false => String::new(),
    }
}

fn batch(
    f: &mut fmt::Formatter<'_>,
    position: u64,
    header: &Header,
    fault: Option<Fault>,
) -> fmt::Result {
    let last_sequence = match header.base_sequence {
        base if base < 0 => -1,
        base => (i64::from(base) + (header.last.0 - header.base.0) as i64).rem_euclid(1 << 31),
    };
    write!(
        f,
        "baseOffset: {} lastOffset: {} count: {} baseSequence: {} lastSequence: {last_sequence} \
         producerId: {} producerEpoch: {} partitionLeaderEpoch: {} isTransactional: {} isControl: \
         {}{} position: {position} CreateTime: {} size: {} magic: 2 compresscodec: {} crc: {} \
         isvalid: {}",
        header.base,
        header.last,
        header.records,
        header.base_sequence,
        header.producer_id,
        header.producer_epoch,
        header.epoch,
        header.transactional,
        header.control,
        horizon(header),
        header.max_timestamp_ms,
        header.bytes,
        Codec::of(header.codec).map_or("unknown", Codec::name),
        header.checksum,
        fault.is_none(),
    )?;
    match fault {
        Some(fault) => write!(f, " fault: {fault}"),
        None => Ok(()),
    }
}
