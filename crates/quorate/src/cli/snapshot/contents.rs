//! Reads a whole snapshot, as strictly as a node that loads it, and what it says of itself.
//!
//! Records go to the caller as they come; what was made of them is shown only once the end was
//! right.

use super::Place;
use crate::cli::log::unread;
use crate::cli::{Outcome, failed};
use quorate_base::Offset;
use quorate_log::{ControlText, OsDisk, RecordView, SnapshotReader, kept_offset};
use serde_json::{Value, json};

/// What a snapshot says of itself.
pub(super) struct Facts {
    path: String,
    end: u64,
    epoch: u32,
    timestamp_ms: i64,
    /// The control records behind the header, by kind.
    voters: Vec<(String, Value)>,
    records: u64,
    bytes: u64,
}

/// A record that is part of the state.
pub(in crate::cli) struct Entry<'a> {
    /// `None` for Kafka's metadata records.
    pub(in crate::cli) key: Option<&'a [u8]>,
    pub(in crate::cli) value: &'a [u8],
    /// The offset it had in the log, where the snapshot keeps it.
    pub(in crate::cli) version: Option<Offset>,
}

impl Entry<'_> {
    /// Bytes of key and value.
    pub(in crate::cli) fn bytes(&self) -> u64 {
        (self.key.map_or(0, <[u8]>::len) + self.value.len()) as u64
    }
}

/// Reads it from front to back.
pub(super) fn read(place: &Place, entry: &mut dyn FnMut(&Entry<'_>)) -> Outcome<Facts> {
    let disk = OsDisk::new(&place.dir);
    let reader = SnapshotReader::open(&disk, "", place.id);
    let mut reader = reader.or_else(|error| unsound(place, &error))?;
    let mut records = 0;
    while let Some(batch) = reader.next().or_else(|error| unsound(place, &error))? {
        for record in batch.records().filter_map(Result::ok) {
            records += 1;
            entry(&of(&record));
        }
    }
    let voters = reader.voters().iter().map(|(kind, value)| {
        let text = ControlText::of_value(*kind, value.clone());
        let fields = text.ok().and_then(|text| serde_json::from_str(&text.fields).ok());
        (kind.to_string(), fields.unwrap_or(Value::Null))
    });
    Ok(Facts {
        path: place.path().display().to_string(),
        end: place.id.offset.0,
        epoch: place.id.epoch.0,
        timestamp_ms: reader.timestamp_ms(),
        voters: voters.collect(),
        records,
        bytes: reader.bytes(),
    })
}

fn of<'a>(record: &RecordView<'a>) -> Entry<'a> {
    let version = record.key.and_then(|_| kept_offset(record)).map(|(offset, _)| offset);
    Entry { key: record.key, value: record.value.unwrap_or_default(), version }
}

fn unsound<T>(place: &Place, error: &quorate_log::Error) -> Outcome<T> {
    let quorate_log::Error::Damaged { position, expected, found, .. } = error else {
        return unread(&place.dir, error);
    };
    failed(format!(
        "{} is damaged: at byte {position}: expected {expected}, found {found}. No node loads it; it takes an older one, or the leader's. Keep the file; quorate snapshot dump shows what can be read",
        place.path().display()
    ))
}

impl Facts {
    /// The file.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// As lines.
    pub(super) fn text(&self) -> String {
        let mut lines = vec![
            format!("snapshot:    {}", self.path),
            format!("end offset:  {}", self.end),
            format!("epoch:       {}", self.epoch),
            format!("timestamp:   {} ms since 1970, of the last record in it", self.timestamp_ms),
        ];
        for (kind, fields) in &self.voters {
            match fields["voters"].as_array() {
                Some(voters) => {
                    let voters: Vec<String> = voters.iter().map(voter).collect();
                    lines.push(format!("voters:      {}", voters.join(", ")));
                }
                None => lines.push(format!("control:     {kind} {fields}")),
            }
        }
        lines.push(format!("records:     {}", self.records));
        lines.push(format!("bytes:       {}", self.bytes));
        lines.join("\n")
    }

    /// As one object.
    pub(super) fn json(&self) -> Value {
        let voters = self.voters.iter().find_map(|(_, fields)| fields.get("voters"));
        let version = self.voters.iter().find_map(|(_, fields)| fields.get("kRaftVersion"));
        json!({
            "type": "snapshot", "path": self.path, "endOffset": self.end, "epoch": self.epoch,
            "timestamp": self.timestamp_ms, "kRaftVersion": version, "voters": voters,
            "records": self.records, "size": self.bytes,
        })
    }
}

fn voter(voter: &Value) -> String {
    let mut text = voter["voterId"].to_string();
    if let Some(directory) = voter["voterDirectoryId"].as_str() {
        text += &format!("-{directory}");
    }
    for endpoint in voter["endpoints"].as_array().into_iter().flatten() {
        let host = endpoint["host"].as_str().unwrap_or_default();
        text += &format!(" at {host}:{}", endpoint["port"]);
    }
    text
}

/// Whether a key is one that the store keeps for itself, which no client sees.
pub(in crate::cli) fn is_reserved(key: &[u8]) -> bool {
    key.first() == Some(&0)
}

/// A key for eyes: as it is, or escaped where it is no text.
pub(in crate::cli) fn shown(key: &[u8]) -> String {
    match std::str::from_utf8(key) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        Ok(_) | Err(_) => key.escape_ascii().to_string(),
    }
}
