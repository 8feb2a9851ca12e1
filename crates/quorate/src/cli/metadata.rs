//! Which records are Kafka's metadata records, and how one is shown.
//!
//! A file does not say what its records are. Kafka's metadata records have no key, and begin with
//! the version of their frame; those of the key-value store all have keys. That is what `auto` goes
//! by, record by record; whose records look like Kafka's and are not says `bytes`.

use super::facts;
use bytes::Bytes;
use clap::ValueEnum;
use quorate_log::{Fact, RecordView};
use quorate_wire::record::metadata::{MetadataRecord, RecordFrame};
use serde_json::{Map, Value};

/// How facts are printed; part of every command that shows records.
#[derive(clap::Args, Clone, Copy)]
pub(crate) struct Shape {
    /// What the values of records are
    #[arg(long, value_name = "DECODER", default_value = "auto")]
    pub(crate) decoder: Decoder,
    /// Print facts as JSON, one object a line
    #[arg(long)]
    pub(crate) json: bool,
}

impl Shape {
    /// What a file says, as a line.
    pub(crate) fn of(self, fact: &Fact<'_>) -> String {
        match self.json {
            true => facts::json(fact, self.decoder).to_string(),
            false => facts::text(fact, self.decoder),
        }
    }
}

/// How the values of records are shown
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Decoder {
    /// As Kafka's metadata records where a record looks like one: no key, and their first byte
    Auto,
    /// As Kafka's metadata records, all of them
    Metadata,
    /// As they are
    Bytes,
}

impl Decoder {
    /// Whether a record is to be read as one of Kafka's metadata records.
    pub(crate) fn takes(self, key: Option<&[u8]>, value: Option<&[u8]>) -> bool {
        match self {
            Decoder::Auto => {
                key.is_none() && value.is_some_and(|value| RecordFrame::parse(value).is_ok())
            }
            Decoder::Metadata => true,
            Decoder::Bytes => false,
        }
    }

    /// What the value of a record says, if it is to be read: the object that Kafka's own dump tool
    /// prints, or why it cannot be understood.
    pub(crate) fn read(self, record: &RecordView<'_>) -> Option<Result<String, String>> {
        self.takes(record.key, record.value).then(|| {
            let Some(value) = record.value else { return Err("the record has no value".into()) };
            match MetadataRecord::decode(Bytes::copy_from_slice(value)) {
                Ok((record, version)) => Ok(record.json(version)),
                Err(error) => Err(error.to_string()),
            }
        })
    }

    /// [`Decoder::read`] for programs: into `metadata`, or into `fault`.
    pub(crate) fn put(self, record: &RecordView<'_>, object: &mut Map<String, Value>) {
        match self.read(record) {
            Some(Ok(text)) => {
                let read = serde_json::from_str(&text).unwrap_or(Value::String(text));
                object.insert("metadata".into(), read);
            }
            Some(Err(why)) => drop(object.insert("fault".into(), why.into())),
            None => {}
        }
    }
}
