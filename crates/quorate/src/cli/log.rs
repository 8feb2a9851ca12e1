//! `quorate log`: look into the files of a data directory, Quorate's or Kafka's, in use or not.
//!
//! Reads only: no lock, no recovery. What the files say comes from the crate `quorate-log`; here it
//! becomes lines or JSON, one object a line.

use super::metadata::Decoder;
use super::{Failure, Outcome, failed, out};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Parser, Subcommand};
use quorate_log::{Codec, Fact, FileKind, OsDisk, RecordView};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Look into the files of a node: what they say, and whether they are whole
#[derive(Parser)]
#[command(after_help = "\
Examples:
  quorate log dump data/__cluster_metadata-0/00000000000000000000.log
  quorate log dump data --json | jq 'select(.type == \"record\") | .key'
  quorate log dump data --json | jq 'select(.metadata.type == \"TOPIC_RECORD\") | .metadata.data'
  quorate log verify data

A log does not say what its records are. One without a key that begins like Kafka's metadata records
is shown as such, as kafka-dump-log --cluster-metadata-decoder does; --decoder says otherwise.
Both only read. They work beside a running node, whose newest batch may look cut short.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print what a file says, or every file of a directory: batches, records, marks
    Dump {
        /// A data directory, one of its partitions, or one file
        #[arg(value_name = "DIR|FILE")]
        path: PathBuf,
        /// What the values of records are
        #[arg(long, value_name = "DECODER", default_value = "auto")]
        decoder: Decoder,
        /// Print facts as JSON, one object a line
        #[arg(long)]
        json: bool,
    },
    /// Check every file of a directory; exit code 1 if something is damaged
    Verify {
        /// A data directory or one of its partitions
        dir: PathBuf,
        /// Print findings as JSON, one object a line
        #[arg(long)]
        json: bool,
    },
}

/// Runs `quorate log …`.
pub(crate) fn log(args: Args) -> Outcome {
    match args.command {
        Command::Dump { path, decoder, json } => dump(&path, decoder, json),
        Command::Verify { dir, json } => verify(&dir, json),
    }
}

/// Lines on their way out; printed in pieces, since a log has many.
struct Lines(String);

impl Lines {
    fn push(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
        if self.0.len() > 64 << 10 {
            self.flush();
        }
    }

    fn flush(&mut self) {
        out::bytes(self.0.as_bytes());
        self.0.clear();
    }
}

/// Prints what a file says, or every file of a directory.
pub(super) fn dump(path: &Path, decoder: Decoder, as_json: bool) -> Outcome {
    let (mut disk, names) = match path.is_dir() {
        true => {
            let disk = OsDisk::new(path);
            let names = quorate_log::files(&disk, "").or_else(|error| unread(path, &error))?;
            if known(&names) == 0 {
                return none_known(path);
            }
            (disk, names)
        }
        false => {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                return Err(Failure::Usage(format!("{} is no file's name", path.display())));
            };
            let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
            (OsDisk::new(dir.unwrap_or(Path::new("."))), vec![name.to_owned()])
        }
    };
    let mut lines = Lines(String::new());
    for name in names {
        let shown = quorate_log::dump(&mut disk, &name, &mut |fact| match as_json {
            true => lines.push(&fact_json(&fact, decoder).to_string()),
            false => lines.push(&fact_text(&fact, decoder)),
        });
        lines.flush();
        shown.or_else(|error| unread(path, &error))?;
    }
    Ok(())
}

fn verify(dir: &Path, as_json: bool) -> Outcome {
    if !dir.is_dir() {
        let what = format!("{} is not a directory; name the data directory", dir.display());
        return Err(Failure::Usage(what));
    }
    let mut disk = OsDisk::new(dir);
    let names = quorate_log::files(&disk, "").or_else(|error| unread(dir, &error))?;
    let findings = quorate_log::verify(&mut disk, "").or_else(|error| unread(dir, &error))?;
    if let [only] = &findings[..]
        && only.path.is_empty()
    {
        return none_known(dir);
    }
    let damaged = findings.iter().filter(|finding| !finding.mends).count();
    for finding in &findings {
        match as_json {
            true => out::json(&json!({
                "path": finding.path, "position": finding.position,
                "expected": finding.expected, "found": finding.found, "mends": finding.mends,
            })),
            false => out::line(&finding.to_string()),
        }
    }
    match (damaged, findings.len()) {
        (0, mended) => {
            if !as_json {
                let rest = if mended == 0 { "" } else { ", and the next start mends the above" };
                let files = match known(&names) {
                    1 => "1 file".to_owned(),
                    count => format!("{count} files"),
                };
                out::line(&format!("{} is whole{rest}: {files} looked at", dir.display()));
            }
            Ok(())
        }
        (damaged, _) => failed(format!(
            "{} is damaged in {damaged} {}: {}",
            dir.display(),
            if damaged == 1 { "place" } else { "places" },
            if findings.iter().any(is_of_promises) { OF_PROMISES } else { OF_RECORDS },
        )),
    }
}

/// What others have as well.
const OF_RECORDS: &str = "where other nodes vote, start the node: it sets this aside and copies it \
                          again. A node that votes alone needs the files back from a copy";

/// What nobody else knows.
const OF_PROMISES: &str = "keep the directory as it is, and give the node a newly formatted one, but \
                           only while all other voters run and none lags (`quorate quorum status`): \
                           what this node confirmed must be on them";

/// Whether it is in a small file that says what the node has promised, or who it is.
fn is_of_promises(finding: &quorate_log::Finding) -> bool {
    let names = ["quorum-state", "meta.properties", "quorate-must-reach", "partition.metadata"];
    !finding.mends && names.iter().any(|name| finding.path.ends_with(name))
}

/// How many of the files are a node's.
fn known(names: &[String]) -> usize {
    names.iter().filter(|name| FileKind::of(name) != FileKind::Other).count()
}

fn none_known<T>(dir: &Path) -> Outcome<T> {
    failed(format!(
        "{} holds no file of a node: name a data directory, or one of its partitions",
        dir.display()
    ))
}

/// The disk's fault, in words.
pub(super) fn unread<T>(path: &Path, error: &quorate_log::Error) -> Outcome<T> {
    let why = std::error::Error::source(error).map_or(error.to_string(), ToString::to_string);
    failed(format!("cannot read {}: {why}; check the path and its permissions", path.display()))
}

fn fact_text(fact: &Fact<'_>, decoder: Decoder) -> String {
    let Fact::Record { record, control: None, .. } = fact else { return fact.to_string() };
    match decoder.read(record) {
        Some(Ok(text)) => fact.with_payload(&text),
        Some(Err(why)) => format!("{fact} not understood: {why}"),
        None => fact.to_string(),
    }
}

fn fact_json(fact: &Fact<'_>, decoder: Decoder) -> Value {
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
