//! Control records as JSON, with the names and in the order of Kafka's own dump tool.
//!
//! For people and programs that compare; nothing here reads it back.

use bytes::Bytes;
use quorate_base::Uuid;
use quorate_wire::record::control::{ControlRecord, ControlType};
use quorate_wire::{Coder, Error, ErrorCode, Int, Tags, Walk};
use std::fmt::Display;

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
            ControlRecord::LeaderChange(record) => json(record)?,
            ControlRecord::SnapshotHeader(record) => json(record)?,
            ControlRecord::SnapshotFooter(record) => json(record)?,
            ControlRecord::KRaftVersion(record) => json(record)?,
            ControlRecord::KRaftVoters(record) => json(record)?,
            ControlRecord::Other(..) => String::new(),
        };
        Ok(ControlText { kind: kind.to_string(), fields })
    }
}

fn json(mut record: impl Walk) -> Result<String, Error> {
    let mut printer = JsonCoder { out: "{".to_owned() };
    // The record carries its version itself.
    record.walk(&mut printer, 0)?;
    printer.out.push('}');
    Ok(printer.out)
}

/// Text between quotes.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            _ if character < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(character))),
            _ => out.push(character),
        }
    }
    out.push('"');
    out
}

struct JsonCoder {
    out: String,
}

impl JsonCoder {
    fn name(&mut self, field: &str) {
        if !self.out.ends_with(['{', '[']) {
            self.out.push(',');
        }
        let mut letters = field.chars();
        if let Some(first) = letters.next() {
            self.out.push('"');
            self.out.extend(first.to_lowercase());
            self.out.push_str(letters.as_str());
            self.out.push_str("\":");
        }
    }

    fn show(&mut self, field: &str, value: impl Display) -> Result<(), Error> {
        self.name(field);
        self.out.push_str(&value.to_string());
        Ok(())
    }
}

impl Coder for JsonCoder {
    type OpenTags = ();

    fn flexible(&self) -> bool {
        true
    }

    fn set_flexible(&mut self, _flexible: bool) {}

    fn position(&self) -> usize {
        0
    }

    fn int<I: Int>(&mut self, field: &'static str, value: &mut I) -> Result<(), Error> {
        self.show(field, *value)
    }

    fn bool(&mut self, field: &'static str, value: &mut bool) -> Result<(), Error> {
        self.show(field, *value)
    }

    fn error_code(&mut self, field: &'static str, value: &mut ErrorCode) -> Result<(), Error> {
        self.show(field, value.code())
    }

    fn uuid(&mut self, field: &'static str, value: &mut Uuid) -> Result<(), Error> {
        self.show(field, format_args!("\"{value}\""))
    }

    fn nullable_string(
        &mut self,
        field: &'static str,
        value: &mut Option<String>,
    ) -> Result<(), Error> {
        match value {
            Some(text) => self.show(field, quoted(text)),
            None => self.show(field, "null"),
        }
    }

    fn nullable_bytes(
        &mut self,
        field: &'static str,
        value: &mut Option<Bytes>,
    ) -> Result<(), Error> {
        match value {
            Some(bytes) => self.show(field, quoted(&crate::text::bytes(bytes))),
            None => self.show(field, "null"),
        }
    }

    fn nullable_array<T: Walk>(
        &mut self,
        field: &'static str,
        items: &mut Option<Vec<T>>,
        version: i16,
    ) -> Result<(), Error> {
        let Some(items) = items else {
            return self.show(field, "null");
        };
        self.show(field, "[")?;
        for item in items {
            match T::NAMED {
                true => self.nested("", item, version)?,
                false => item.walk(self, version)?,
            }
        }
        self.out.push(']');
        Ok(())
    }

    fn nested<T: Walk>(
        &mut self,
        field: &'static str,
        value: &mut T,
        version: i16,
    ) -> Result<(), Error> {
        self.show(field, "{")?;
        value.walk(self, version)?;
        self.out.push('}');
        Ok(())
    }

    fn open_tags(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn tag<T: PartialEq>(
        &mut self,
        _open: &mut (),
        _tag: u32,
        value: &mut T,
        absent: T,
        walk: impl FnOnce(&mut Self, &mut T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if *value == absent { Ok(()) } else { walk(self, value) }
    }

    fn close_tags(&mut self, _open: (), _unknown: &mut Tags) -> Result<(), Error> {
        Ok(())
    }
}
