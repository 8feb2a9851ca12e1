//! What files say, as lines and as JSON: `log dump`, `log tail` and `snapshot dump` print it.
//!
//! docs/OUTPUT.md promises these forms; whoever changes a field here changes it there.

use super::metadata::Decoder;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use quorate_log::{Codec, Fact, RecordView};
use serde_json::{Map, Value, json};

/// One fact as a line, as Kafka's dump tool has it where that has it.
pub(super) fn text(fact: &Fact<'_>, decoder: Decoder) -> String {
    let Fact::Record { record, control: None, .. } = fact else { return fact.to_string() };
    match decoder.read(record) {
        Some(Ok(text)) => fact.with_payload(&text),
        Some(Err(why)) => format!("{fact} not understood: {why}"),
        None => fact.to_string(),
    }
}

/// One fact as an object.
pub(super) fn json(fact: &Fact<'_>, decoder: Decoder) -> Value {
    match fact {
        Fact::File { path, kind, bytes } => {
            json!({ "type": "file", "path": path, "kind": kind.name(), "size": bytes })
        }
        Fact::Batch { position, header, fault } => json!({
            "type": "batch", "baseOffset": header.base.0, "lastOffset": header.last.0,
            "count": header.records, "baseSequence": header.base_sequence,
            "producerId": header.producer_id, "producerEpoch": header.producer_epoch,
            "partitionLeaderEpoch": header.epoch.0, "isTransactional": header.transactional,
            "isControl": header.control, "position": position,
            "firstTimestamp": header.timestamp_ms, "maxTimestamp": header.max_timestamp_ms,
            "size": header.bytes, "magic": 2,
            "compresscodec": Codec::of(header.codec).map_or("unknown", Codec::name),
            "crc": header.checksum, "isvalid": fault.is_none(),
            "fault": fault.map(|fault| fault.to_string()),
        }),
        Fact::Record { record, sequence, control } => {
            let mut object = record_json(record, *sequence);
            match control {
                Some(Ok(control)) => {
                    let fields = serde_json::from_str(&control.fields).unwrap_or(Value::Null);
                    object.insert("control".into(), control.kind.as_str().into());
                    object.insert("fields".into(), fields);
                }
                Some(Err(why)) => drop(object.insert("fault".into(), why.as_str().into())),
                None => decoder.put(record, &mut object),
            }
            Value::Object(object)
        }
        Fact::BadRecord(bad) => json!({ "type": "badRecord", "fault": bad.to_string() }),
        Fact::Offset(entry) => {
            json!({ "type": "offset", "offset": entry.last.0, "position": entry.position })
        }
        Fact::Time(entry) => {
            json!({ "type": "time", "timestamp": entry.timestamp_ms, "offset": entry.offset.0 })
        }
        Fact::Epoch(epoch, first) => {
            json!({ "type": "epoch", "epoch": epoch.0, "firstOffset": first.0 })
        }
        Fact::Election(election) => json!({
            "type": "election", "epoch": election.epoch.0,
            "leader": election.leader.map(|leader| leader.0),
            "voted": election.voted.map(|voted| voted.id.0),
            "votedDirectory":
                election.voted.and_then(|voted| voted.directory).map(|id| id.to_string()),
            "voters": election.voters.iter().map(|voter| voter.0).collect::<Vec<_>>(),
        }),
        Fact::Topic(id) => json!({ "type": "topic", "topicId": id.to_string() }),
        Fact::Meta(meta) => json!({
            "type": "meta", "clusterId": meta.cluster, "nodeId": meta.node.0,
            "directoryId": meta.directory.map(|id| id.to_string()),
        }),
        Fact::MustReach(reach) => {
            json!({ "type": "mustReach", "endOffset": reach.offset.0, "epoch": reach.epoch.0 })
        }
        Fact::Numbers { numbers, cleaner, reading, swap } => json!({
            "type": "numbers", "dirty": numbers.dirty.0, "clean": numbers.clean.0,
            "horizon": numbers.horizon.0, "cleanerEnd": cleaner.0, "required": reading.required.0,
            "dmin": reading.dmin.map(|dmin| dmin.0),
            "swap": swap.iter().map(|base| base.0).collect::<Vec<_>>(),
        }),
        Fact::CleanerEnd { topic, partition, end } => json!({
            "type": "cleanerEnd", "topic": topic, "partition": partition, "cleanedTo": end.0,
        }),
        Fact::Mark { sequence, segment, end, position } => json!({
            "type": "mark", "sequence": sequence, "segment": segment.0, "endOffset": end.0,
            "position": position,
        }),
        Fact::Bad { position, expected, found } => json!({
            "type": "damage", "position": position, "expected": expected, "found": found,
        }),
    }
}

fn record_json(record: &RecordView<'_>, sequence: i32) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("type".into(), "record".into());
    object.insert("offset".into(), record.offset.0.into());
    object.insert("timestamp".into(), record.timestamp_ms.into());
    object.insert("sequence".into(), sequence.into());
    put_bytes(&mut object, "key", record.key);
    put_bytes(&mut object, "value", record.value);
    let headers = record.headers().map(|(name, value)| {
        let mut header = Map::new();
        put_bytes(&mut header, "name", Some(name));
        put_bytes(&mut header, "value", value);
        Value::Object(header)
    });
    object.insert("headers".into(), headers.collect());
    object
}

/// Bytes that are no text come under another name, in base64.
pub(crate) fn put_bytes(object: &mut Map<String, Value>, name: &str, bytes: Option<&[u8]>) {
    match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => object.insert(name.into(), Value::Null),
        Some((_, Ok(text))) => object.insert(name.into(), text.into()),
        Some((bytes, Err(_))) => {
            object.insert(format!("{name}_base64"), STANDARD.encode(bytes).into())
        }
    };
}
