//! The coder that shows a message on one line, by Kafka's field names: for traces, dumps and tests.
//!
//! For people only; nothing parses it. Bytes show as their number.

use crate::coder::{Coder, Float64, Tags, Walk};
use crate::message::Message;
use crate::primitive::Int;
use crate::{Error, ErrorCode};
use bytes::Bytes;
use quorate_base::Uuid;
use std::fmt::{Display, Write};

/// The message on one line: name, version, then every field that the version has.
pub fn print<M: Message>(message: &M, version: i16) -> String {
    let out = format!("{}{} v{version}", M::API, M::KIND);
    print_fields(message.clone(), version, M::API.is_flexible(version), out)
}

/// Appends every field of `value` to `out`.
pub(crate) fn print_fields<T: Walk>(
    mut value: T,
    version: i16,
    flexible: bool,
    out: String,
) -> String {
    let mut printer = Printer { out, flexible };
    value.walk(&mut printer, version).expect("printing has no errors");
    printer.out
}

struct Printer {
    out: String,
    flexible: bool,
}

impl Printer {
    /// Nameless values are elements of an array.
    fn show(&mut self, field: &str, value: impl Display) -> Result<(), Error> {
        if !field.is_empty() {
            self.separate();
            self.out.push_str(field);
            self.out.push('=');
        }
        write!(self.out, "{value}").expect("a string takes everything");
        Ok(())
    }

    fn separate(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with(['{', '[']) {
            self.out.push(' ');
        }
    }
}

impl Coder for Printer {
    type OpenTags = ();

    fn flexible(&self) -> bool {
        self.flexible
    }

    fn set_flexible(&mut self, flexible: bool) {
        self.flexible = flexible;
    }

    fn position(&self) -> usize {
        0
    }

    fn int<I: Int>(&mut self, field: &'static str, value: &mut I) -> Result<(), Error> {
        self.show(field, value)
    }

    fn float64(&mut self, field: &'static str, value: &mut Float64) -> Result<(), Error> {
        self.show(field, value.0)
    }

    fn bool(&mut self, field: &'static str, value: &mut bool) -> Result<(), Error> {
        self.show(field, value)
    }

    fn error_code(&mut self, field: &'static str, value: &mut ErrorCode) -> Result<(), Error> {
        match value.name() {
            Some(name) => self.show(field, name),
            None => self.show(field, value.code()),
        }
    }

    fn uuid(&mut self, field: &'static str, value: &mut Uuid) -> Result<(), Error> {
        self.show(field, value)
    }

    fn nullable_string(
        &mut self,
        field: &'static str,
        value: &mut Option<String>,
    ) -> Result<(), Error> {
        match value {
            Some(text) => self.show(field, format_args!("{text:?}")),
            None => self.show(field, "null"),
        }
    }

    fn nullable_bytes(
        &mut self,
        field: &'static str,
        value: &mut Option<Bytes>,
    ) -> Result<(), Error> {
        match value {
            Some(bytes) => self.show(field, format_args!("<{} bytes>", bytes.len())),
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
        let (start, end) = if T::NAMED { ("{", "}") } else { ("", "") };
        for item in items {
            self.separate();
            self.out.push_str(start);
            item.walk(self, version)?;
            self.out.push_str(end);
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

    fn close_tags(&mut self, _open: (), unknown: &mut Tags) -> Result<(), Error> {
        unknown.iter().try_for_each(|(tag, content)| {
            self.show(&format!("Tag{tag}"), format_args!("<{} bytes>", content.len()))
        })
    }
}
