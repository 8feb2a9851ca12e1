//! The coder that shows what it walks over as JSON, in the form of Kafka's own tools: names that
//! begin with a small letter, bytes in base64, tagged fields only while they are set.
//!
//! For people and for programs that compare; nothing here reads it back. Tagged fields that we do
//! not know are not shown.

use crate::coder::{Coder, Float64, Tags, Walk};
use crate::primitive::Int;
use crate::{Error, ErrorCode};
use bytes::Bytes;
use quorate_base::Uuid;
use std::fmt::{Display, Write};

/// The fields of `value` as one object on one line.
pub fn fields_json<T: Walk>(value: T, version: i16) -> String {
    let mut printer = JsonPrinter { fields: Vec::new() };
    printer.nested("", &mut { value }, version).expect("printing has no errors");
    printer.fields.pop().map(|(_, text)| text).unwrap_or_default()
}

/// Text between quotes, escaped as Kafka's tools escape it.
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            _ if character < ' ' => {
                write!(out, "\\u{:04X}", u32::from(character)).expect("a String takes all");
            }
            _ => out.push(character),
        }
    }
    out.push('"');
    out
}

/// Bytes in base64, padded (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
        let word = word << (8 * (3 - chunk.len()));
        for at in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * at) & 63) as usize];
            out.push(if at <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

/// A number with a fraction, as Java writes one: with a point always, and with an exponent below
/// 0.001 and from ten million on.
fn float(value: f64) -> String {
    if !value.is_finite() {
        let name = if value.is_nan() { "NaN" } else { "Infinity" };
        return quoted(&format!("{}{name}", if value < 0.0 { "-" } else { "" }));
    }
    if value == 0.0 || (1e-3..1e7).contains(&value.abs()) {
        return format!("{value:?}");
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let point = if digits.contains('.') { "" } else { ".0" };
    format!("{digits}{point}E{exponent}")
}

/// Collects the fields of the object that it is in.
struct JsonPrinter {
    fields: Vec<(&'static str, String)>,
}

impl JsonPrinter {
    fn show(&mut self, field: &'static str, value: impl Display) -> Result<(), Error> {
        self.fields.push((field, value.to_string()));
        Ok(())
    }

    /// What is shown meanwhile, instead of what is shown already.
    fn inside(
        &mut self,
        walk: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<Vec<(&'static str, String)>, Error> {
        let outside = std::mem::take(&mut self.fields);
        walk(self)?;
        Ok(std::mem::replace(&mut self.fields, outside))
    }
}

/// `"EndPoints"` shows as `"endPoints"`.
fn push_name(field: &str, out: &mut String) {
    let mut letters = field.chars();
    out.push('"');
    out.extend(letters.next().map(|first| first.to_ascii_lowercase()));
    out.push_str(letters.as_str());
    out.push_str("\":");
}

/// An object out of its fields.
fn object(mut fields: Vec<(&'static str, String)>, shown_before: &[(&str, &str)]) -> String {
    for (field, other) in shown_before {
        let place = |name: &str| fields.iter().position(|(field, _)| *field == name);
        if let (Some(from), Some(to)) = (place(field), place(other))
            && to < from
        {
            fields[to..=from].rotate_right(1);
        }
    }
    let mut out = String::from("{");
    for (at, (field, value)) in fields.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        push_name(field, &mut out);
        out.push_str(value);
    }
    out.push('}');
    out
}

impl Coder for JsonPrinter {
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

    fn float64(&mut self, field: &'static str, value: &mut Float64) -> Result<(), Error> {
        self.show(field, float(value.0))
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
        self.show(field, value.as_deref().map_or("null".to_owned(), quoted))
    }

    fn nullable_bytes(
        &mut self,
        field: &'static str,
        value: &mut Option<Bytes>,
    ) -> Result<(), Error> {
        let shown = value.as_deref().map(|bytes| quoted(&base64(bytes)));
        self.show(field, shown.unwrap_or_else(|| "null".to_owned()))
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
        let shown = self.inside(|c| {
            items.iter_mut().try_for_each(|item| match T::NAMED {
                true => c.nested("", item, version),
                false => item.walk(c, version),
            })
        })?;
        let shown: Vec<String> = shown.into_iter().map(|(_, text)| text).collect();
        self.show(field, format_args!("[{}]", shown.join(",")))
    }

    fn nested<T: Walk>(
        &mut self,
        field: &'static str,
        value: &mut T,
        version: i16,
    ) -> Result<(), Error> {
        let fields = self.inside(|c| value.walk(c, version))?;
        self.show(field, object(fields, T::SHOWN_BEFORE))
    }

    fn open_tags(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn close_tags(&mut self, _open: (), _unknown: &mut Tags) -> Result<(), Error> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Java's `Double.toString` writes them.
    #[test]
    fn numbers_with_a_fraction_look_like_javas() {
        for (value, shown) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (2_097_152.0, "2097152.0"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (10_485_760.0, "1.048576E7"),
            (0.001, "0.001"),
            (0.000_5, "5.0E-4"),
            (-12.5, "-12.5"),
            (f64::MAX, "1.7976931348623157E308"),
            (f64::NAN, "\"NaN\""),
            (f64::NEG_INFINITY, "\"-Infinity\""),
        ] {
            assert_eq!(float(value), shown);
        }
    }

    #[test]
    fn text_and_bytes_are_escaped() {
        assert_eq!(quoted("a\"\\\n\t\r\u{8}\u{c}\u{1f}ß"), r#""a\"\\\n\t\r\b\f\u001Fß""#);
        for (bytes, shown) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (&[0xfb, 0xff], "+/8="),
        ] {
            assert_eq!(base64(bytes), shown);
        }
    }
}
