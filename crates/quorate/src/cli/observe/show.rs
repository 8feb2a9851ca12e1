//! What `quorate observe` prints: the quorum, one change a line, and what happens to the cluster.
//!
//! For people in lines, for programs one JSON object a line, each with its `type`. What is secret
//! in a record is not shown.

use super::feed::Change;
use crate::cli::controllers::{Quorum, Replica, replicas};
use crate::cli::facts::put_bytes;
use crate::cli::out;
use crate::cli::snapshot::{is_reserved, shown};
use bytes::Bytes;
use quorate_machine::kafka::{Picture, is_secret};
use quorate_wire::record::metadata::MetadataRecord;
use serde_json::{Map, Value, json};

/// How facts are printed.
#[derive(Clone, Copy)]
pub(super) struct Printer {
    /// As JSON.
    pub(super) json: bool,
    /// With records that change nothing.
    pub(super) all: bool,
}

impl Printer {
    /// The quorum as its leader saw it.
    pub(super) fn quorum(self, quorum: &Quorum) {
        let rows = replicas(quorum);
        if self.json {
            let replicas: Vec<Value> = rows.map(|row| json(&row)).collect();
            return out::json(&json!({
                "type": "quorum", "cluster": quorum.cluster, "leader": quorum.leader,
                "epoch": quorum.epoch, "highWatermark": quorum.high_watermark,
                "replicas": replicas,
            }));
        }
        let facts = [
            ("ClusterId:", quorum.cluster.clone()),
            ("LeaderId:", quorum.leader.to_string()),
            ("LeaderEpoch:", quorum.epoch.to_string()),
            ("HighWatermark:", quorum.high_watermark.to_string()),
        ];
        for (name, value) in facts {
            out::line(&format!("{name:<22}{value}"));
        }
        let head = ["NodeId", "Status", "LogEndOffset", "Lag", "CaughtUpMsAgo", "Address"];
        let rows: Vec<Vec<String>> = rows.map(cells).collect();
        out::line(&format!("\n{}", out::table(&head, &rows)));
    }

    /// What the state was made of, and what is not in it.
    pub(super) fn state(self, picture: &Picture, end: u64, facts: u64, keys: usize) {
        let counts = &picture.counts;
        if let Some((offset, fault)) = &counts.last_left_out {
            out::warning(&format!(
                "{} metadata records are left out of what is shown, the last one at offset {offset}: {fault}",
                counts.left_out
            ));
        }
        if self.json {
            return out::json(&json!({
                "type": "metadata", "facts": facts, "endOffset": end,
                "records": counts.taken + counts.keyed,
                "leftOut": counts.left_out, "keys": keys, "inTransaction": picture.in_transaction,
            }));
        }
        let of = |count: u64, one: &str, many: &str| match count {
            1 => format!("1 {one}"),
            count => format!("{count} {many}"),
        };
        let (its_facts, its_keys) = (of(facts, "fact", "facts"), of(keys as u64, "key", "keys"));
        let what = match (facts, keys) {
            (0, 0) => format!("The log holds neither metadata nor keys, up to offset {end}."),
            (0, _) => format!("{its_keys} of a key-value store, as of offset {end}."),
            (_, 0) => format!("{its_facts}, as of offset {end}."),
            (_, _) => format!("{its_facts} and {its_keys}, as of offset {end}."),
        };
        let gap = if facts == 0 && keys == 0 { "" } else { "\n" };
        out::line(&format!("{gap}{what}"));
        if picture.in_transaction {
            out::line("A metadata transaction is open; what it brings is not in effect yet.");
        }
    }

    /// One record.
    pub(super) fn change(self, change: &Change) {
        let Change { offset, epoch, timestamp_ms, key, value } = change;
        let mut object = Map::new();
        object.insert("type".into(), "change".into());
        object.insert("offset".into(), (*offset).into());
        object.insert("epoch".into(), (*epoch).into());
        object.insert("timestamp".into(), (*timestamp_ms).into());
        let text = match (key, value) {
            (Some(key), value) => {
                let own = bookkeeping(key);
                if own.is_some() && !self.all {
                    return;
                }
                put_bytes(&mut object, "key", Some(key));
                put_bytes(&mut object, "value", value.as_deref());
                object.insert("bookkeeping".into(), own.is_some().into());
                let bytes = value.as_ref().map(|value| format!("{} bytes", value.len()));
                match (own, value) {
                    (Some(own), _) => {
                        format!("({own}: {})", bytes.unwrap_or("ended".into()))
                    }
                    (None, Some(value)) => format!("{} = {}", shown(key), in_short(value)),
                    (None, None) => format!("{} deleted", shown(key)),
                }
            }
            (None, value) => match read(value.clone()) {
                Ok((MetadataRecord::NoOp(_), ..)) if !self.all => return,
                Ok((record, version, hidden)) => {
                    let fields = record.fields_json(version);
                    let data = serde_json::from_str(&fields).unwrap_or(Value::Null);
                    let name = record.type_name();
                    object.insert(
                        "metadata".into(),
                        json!({ "type": name, "version": version, "data": data }),
                    );
                    object.insert("hidden".into(), hidden.into());
                    let note = if hidden { "  (its secrets are hidden)" } else { "" };
                    format!("{name}  {fields}{note}")
                }
                Err(why) => {
                    object.insert("fault".into(), why.as_str().into());
                    format!("not understood: {why}")
                }
            },
        };
        match self.json {
            true => out::json(&Value::Object(object)),
            false => out::line(&format!("{offset}  {text}")),
        }
    }

    /// Changes that cannot be shown one by one.
    pub(super) fn gap(self, from: u64, end: u64) {
        match self.json {
            true => out::json(&json!({ "type": "gap", "from": from, "endOffset": end })),
            false => out::line(&format!(
                "-- changes from offset {from} to below {end} are not shown one by one: they came as a snapshot, or faster than they were printed"
            )),
        }
    }

    /// Another leader or another epoch of it.
    pub(super) fn leader(self, quorum: &Quorum) {
        let (leader, epoch) = (quorum.leader, quorum.epoch);
        match self.json {
            true => out::json(&json!({ "type": "leader", "leader": leader, "epoch": epoch })),
            false => out::line(&format!("-- node {leader} leads since epoch {epoch}")),
        }
    }

    /// The cluster does not answer, for now.
    pub(super) fn unreachable(self, why: &str) {
        match self.json {
            true => out::json(&json!({ "type": "unreachable", "why": why })),
            false => out::note(&format!("-- going on trying: {why}")),
        }
    }

    /// It answers again.
    pub(super) fn reachable(self) {
        match self.json {
            true => out::json(&json!({ "type": "reachable" })),
            false => out::note("-- the leader answers again"),
        }
    }
}

/// What a record is about that a store keeps for itself; `None` for one of a client's.
fn bookkeeping(key: &[u8]) -> Option<String> {
    let number = |bytes: &[u8]| bytes.iter().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
    is_reserved(key).then(|| match key {
        [0, b's', id @ ..] if id.len() == 8 => format!("session {}", number(id)),
        [0, b's', id @ .., a, b] if id.len() == 8 => {
            format!("session {}, slot {}", number(id), number(&[*a, *b]))
        }
        _ => format!("the store's own, {}", key.escape_ascii()),
    })
}

/// A value on a line: as it is if it is a short text, else its beginning and size.
fn in_short(value: &[u8]) -> String {
    const MOST: usize = 60;
    match std::str::from_utf8(value) {
        Ok(text) if text.chars().any(char::is_control) => format!("({} bytes)", value.len()),
        Ok(text) if text.chars().count() <= MOST => text.to_owned(),
        Ok(text) => {
            let begins: String = text.chars().take(MOST).collect();
            format!("{begins}... ({} bytes)", value.len())
        }
        Err(_) => format!("({} bytes)", value.len()),
    }
}

/// A metadata record without what is secret in it, its version, and whether there was any.
fn read(value: Option<Bytes>) -> Result<(MetadataRecord, i16, bool), String> {
    let value = value.ok_or("the record has neither key nor value")?;
    let (mut record, version) = MetadataRecord::decode(value).map_err(|error| error.to_string())?;
    let mut hidden = false;
    if let MetadataRecord::Config(config) = &mut record
        && is_secret(&config.name)
    {
        hidden = config.value.take().is_some();
    }
    if let MetadataRecord::UserScramCredential(credential) = &mut record {
        credential.salt = Bytes::new();
        credential.stored_key = Bytes::new();
        credential.server_key = Bytes::new();
        hidden = true;
    }
    Ok((record, version, hidden))
}

fn cells(replica: Replica) -> Vec<String> {
    let number = |number: Option<u64>| number.map_or("?".into(), |number| number.to_string());
    let since = replica.caught_up_ms.map_or("?".into(), |ms| ms.to_string());
    let (node, status) = (replica.node.to_string(), replica.status.to_owned());
    let (end, lag) = (number(replica.end), number(replica.lag));
    vec![node, status, end, lag, since, replica.address.unwrap_or_default()]
}

fn json(replica: &Replica) -> Value {
    json!({
        "node": replica.node, "status": replica.status, "logEndOffset": replica.end,
        "lag": replica.lag, "caughtUpMsAgo": replica.caught_up_ms, "address": replica.address,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_wire::Tags;
    use quorate_wire::record::metadata::{Config, UserScramCredential};

    #[test]
    fn what_a_store_keeps_for_itself_is_named() {
        assert_eq!(bookkeeping(b"greeting"), None);
        assert_eq!(bookkeeping(b"\0s\0\0\0\0\0\0\x01\x02").as_deref(), Some("session 258"));
        let slot = bookkeeping(b"\0s\0\0\0\0\0\0\x01\x02\0\x07");
        assert_eq!(slot.as_deref(), Some("session 258, slot 7"));
        assert_eq!(bookkeeping(b"\0t1").as_deref(), Some("the store's own, \\x00t1"));
        assert_eq!(in_short(b"hello"), "hello");
        assert_eq!(in_short(b"a\nb"), "(3 bytes)");
        assert_eq!(in_short(&[b'x'; 70]), format!("{}... (70 bytes)", "x".repeat(60)));
    }

    #[test]
    fn secrets_are_not_shown() {
        let config = |name: &str| Config {
            resource_type: 4,
            resource_name: "1".into(),
            name: name.into(),
            value: Some("hush".into()),
            tags: Tags::new(),
        };
        let scram = UserScramCredential {
            name: "u".into(),
            stored_key: Bytes::from_static(b"hush"),
            ..Default::default()
        };
        let shown = |record: MetadataRecord| {
            let (record, version, hidden) = read(record.encode(0).ok()).expect("a record");
            (hidden, record.json(version))
        };
        let (hidden, text) = shown(config("listener.name.a.ssl.key.password").into());
        assert!(hidden && !text.contains("hush"), "{text}");
        let (hidden, text) = shown(config("log.retention.ms").into());
        assert!(!hidden && text.contains("hush"), "{text}");
        let (hidden, text) = shown(scram.into());
        assert!(hidden && !text.contains("aHVzaA"), "{text}");
    }
}
