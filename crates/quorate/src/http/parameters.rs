//! What a request says beside its body: the key in its path, the query string, the headers.
//!
//! Strict: a parameter that the path does not know, and a header given twice, are errors, since
//! what is silently dropped may have been a condition.

use super::reply::Refusal;
use hyper::HeaderMap;
use quorate_base::{Offset, Span};
use quorate_machine::kv::Condition;
use quorate_machine::{MAX_SESSION_SLOTS, SessionId, Stamp};
use std::fmt::Display;
use std::str::FromStr;

const DEFAULT_PATIENCE: Span = Span::ms(10_000);
const MAX_PATIENCE_MS: u64 = 60_000;

/// The parameters of a query string.
pub(super) struct Parameters(Vec<(String, Vec<u8>)>);

impl Parameters {
    /// Splits and decodes; every name must be one of `known`.
    pub(super) fn parse(
        query: Option<&str>,
        known: &[&'static str],
    ) -> Result<Parameters, Refusal> {
        let mut parameters = Vec::new();
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (form_decode(name), form_decode(value));
            let (Some(name), Some(value)) = (name.and_then(|n| String::from_utf8(n).ok()), value)
            else {
                return Err(Refusal::field(
                    "query",
                    "a % must be followed by two hexadecimal digits",
                ));
            };
            if !known.contains(&name.as_str()) {
                let message =
                    format!("there is no parameter '{name}' here; known are: {}", known.join(", "));
                return Err(Refusal::field("query", message));
            }
            if parameters.iter().any(|(other, _)| *other == name) {
                return Err(Refusal::field("query", format!("'{name}' is given twice")));
            }
            parameters.push((name, value));
        }
        Ok(Parameters(parameters))
    }

    /// The bytes of a parameter.
    pub(super) fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_slice())
    }

    /// A whole number from `least` to `most`.
    pub(super) fn number(
        &self,
        name: &'static str,
        least: u64,
        most: u64,
    ) -> Result<Option<u64>, Refusal> {
        let Some(value) = self.bytes(name) else { return Ok(None) };
        let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        match number.filter(|number| (least..=most).contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(Refusal::field(
                name,
                format!("{name} must be a whole number from {least} to {most}"),
            )),
        }
    }

    /// How long the client waits: `timeout`, in milliseconds.
    pub(super) fn patience(&self) -> Result<Span, Refusal> {
        Ok(self.number("timeout", 1, MAX_PATIENCE_MS)?.map_or(DEFAULT_PATIENCE, Span::ms))
    }
}

/// The one value of a header.
fn header<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => match value.to_str() {
            Ok(text) => Ok(Some(text.trim())),
            Err(_) => Err(Refusal::field(name, format!("{name} must be plain text"))),
        },
        (Some(_), Some(_)) => Err(Refusal::field(name, format!("{name} is given twice"))),
    }
}

/// A number of its type; what the machine takes of it ends at `most`.
fn header_number<T: FromStr + Display>(
    headers: &HeaderMap,
    name: &'static str,
    most: T,
) -> Result<Option<T>, Refusal> {
    let Some(text) = header(headers, name)? else { return Ok(None) };
    match text.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => {
            Err(Refusal::field(name, format!("{name} must be a whole number from 0 to {most}")))
        }
    }
}

/// `If-Match` and `If-None-Match` of a write.
pub(super) fn condition(headers: &HeaderMap) -> Result<Condition, Refusal> {
    match (header(headers, "If-Match")?, header(headers, "If-None-Match")?) {
        (None, None) => Ok(Condition::Always),
        (Some("*"), None) => Ok(Condition::IfPresent),
        (None, Some("*")) => Ok(Condition::IfAbsent),
        (Some(tag), None) => match version(tag) {
            Some(version) => Ok(Condition::IfVersion(version)),
            None => Err(Refusal::field(
                "If-Match",
                "If-Match must be * or one version in quotes, such as \"17\"",
            )),
        },
        (None, Some(_)) => {
            Err(Refusal::field("If-None-Match", "If-None-Match of a write must be *"))
        }
        (Some(_), Some(_)) => {
            Err(Refusal::field("If-None-Match", "give either If-Match or If-None-Match, not both"))
        }
    }
}

/// The version that a reader already has.
pub(super) fn known_version(headers: &HeaderMap) -> Result<Option<Offset>, Refusal> {
    // Tags of other origin, and lists, simply do not match: the full answer is never wrong.
    Ok(header(headers, "If-None-Match")?.and_then(version))
}

fn version(tag: &str) -> Option<Offset> {
    let digits = tag.strip_prefix('"')?.strip_suffix('"')?;
    let plain = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    plain.then(|| digits.parse().ok())?.map(Offset)
}

/// The session's stamp, if the request has one.
pub(super) fn stamp(headers: &HeaderMap) -> Result<Option<Stamp>, Refusal> {
    let session = header_number(headers, "Quorate-Session", u64::MAX)?;
    let slot = header_number(headers, "Quorate-Slot", MAX_SESSION_SLOTS - 1)?;
    let sequence = header_number(headers, "Quorate-Sequence", u64::MAX)?;
    match (session, sequence) {
        (Some(session), Some(sequence)) => {
            let session = SessionId(Offset(session));
            Ok(Some(Stamp { session, slot: slot.unwrap_or(0), sequence }))
        }
        (None, None) if slot.is_none() => Ok(None),
        (None, _) => Err(Refusal::field(
            "Quorate-Session",
            "Quorate-Slot and Quorate-Sequence mean nothing without Quorate-Session",
        )),
        (Some(_), None) => Err(Refusal::field(
            "Quorate-Sequence",
            "a write of a session needs Quorate-Sequence: a number that rises with each new write",
        )),
    }
}

/// Resolves `%41`; `None` if a `%` is not followed by two hexadecimal digits.
pub(super) fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let (digits, tail) = rest.split_first_chunk::<2>()?;
        let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
        bytes.push(u8::try_from(high? << 4 | low?).ok()?);
        rest = tail;
    }
    Some(bytes)
}

/// In query strings a plus is a blank, as browsers and most clients write it.
fn form_decode(text: &str) -> Option<Vec<u8>> {
    percent_decode(&text.replace('+', " "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderName, HeaderValue};

    #[test]
    fn percent_signs_stand_for_bytes() {
        let check = |text, expect: Option<&[u8]>| {
            assert_eq!(percent_decode(text).as_deref(), expect, "{text}");
        };
        check("", Some(b""));
        check("a/b+c", Some(b"a/b+c"));
        check("%00%fF%20", Some(b"\x00\xff "));
        check("%", None);
        check("%4", None);
        check("%4g", None);
        check("%+1", None);
    }

    #[test]
    fn versions_are_digits_in_quotes() {
        for (tag, expect) in [
            ("\"17\"", Some(17)),
            ("17", None),
            ("\"\"", None),
            ("\"+1\"", None),
            ("W/\"17\"", None),
            ("\"1\", \"2\"", None),
            ("\"18446744073709551616\"", None),
        ] {
            assert_eq!(version(tag), expect.map(Offset), "{tag}");
        }
    }

    #[test]
    fn a_condition_given_twice_is_never_half_taken() {
        let check = |given: &[(&'static str, &'static str)], expect: Result<Condition, &str>| {
            let mut headers = HeaderMap::new();
            for (name, value) in given {
                headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
            }
            assert_eq!(
                condition(&headers).map_err(|refusal| refusal.field.expect("named")),
                expect
            );
        };
        check(&[], Ok(Condition::Always));
        check(&[("if-match", "*")], Ok(Condition::IfPresent));
        check(&[("if-match", "\"5\"")], Ok(Condition::IfVersion(Offset(5))));
        check(&[("if-none-match", "*")], Ok(Condition::IfAbsent));
        check(&[("if-match", "5")], Err("If-Match"));
        check(&[("if-match", "\"5\""), ("if-match", "\"6\"")], Err("If-Match"));
        check(&[("if-none-match", "\"5\"")], Err("If-None-Match"));
        check(&[("if-match", "*"), ("if-none-match", "*")], Err("If-None-Match"));
    }
}
