//! As much JSON as `quorum-state` needs: objects, arrays, whole numbers, strings.
//!
//! Read from a file, so nothing here trusts its input: depth is bounded, and memory by the input.

use crate::error::BadText;

/// Deeper nesting than this is none of Kafka's.
const DEEPEST: usize = 8;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Json {
    Number(i64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    pub fn parse(bytes: &[u8]) -> Result<Json, BadText> {
        let text = std::str::from_utf8(bytes)
            .map_err(|error| BadText::new(error.valid_up_to(), "text", "other bytes"))?;
        let mut parser = Parser { text, at: 0 };
        let value = parser.value(0)?;
        parser.space();
        if parser.at < text.len() { Err(parser.bad("the end of the file")) } else { Ok(value) }
    }

    pub fn number(&self) -> Option<i64> {
        match self {
            Json::Number(value) => Some(*value),
            Json::Text(_) | Json::List(_) | Json::Object(_) => None,
        }
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            Json::Number(_) | Json::List(_) | Json::Object(_) => None,
        }
    }

    pub fn list(&self) -> Option<&[Json]> {
        match self {
            Json::List(items) => Some(items),
            Json::Number(_) | Json::Text(_) | Json::Object(_) => None,
        }
    }

    /// A field of an object.
    pub fn field(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(fields) => fields.iter().find(|(key, _)| key == name).map(|(_, v)| v),
            Json::Number(_) | Json::Text(_) | Json::List(_) => None,
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn bad(&self, expected: &str) -> BadText {
        let found = match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            Some(character) => format!("{character:?}"),
            None => "the end of the file".to_owned(),
        };
        BadText::new(self.at, expected, found)
    }

    /// Takes `byte` after white space, if it is next.
    fn take(&mut self, byte: u8) -> bool {
        self.space();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8, expected: &str) -> Result<(), BadText> {
        if self.take(byte) { Ok(()) } else { Err(self.bad(expected)) }
    }

    fn value(&mut self, depth: usize) -> Result<Json, BadText> {
        self.space();
        if depth == DEEPEST {
            return Err(self.bad("less nesting"));
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => Ok(Json::Text(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) | None => Err(self.bad("a value")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, BadText> {
        self.expect(b'{', "'{'")?;
        let mut fields = Vec::new();
        if self.take(b'}') {
            return Ok(Json::Object(fields));
        }
        loop {
            self.space();
            let name = self.string()?;
            self.expect(b':', "':'")?;
            fields.push((name, self.value(depth + 1)?));
            if !self.take(b',') {
                self.expect(b'}', "',' or '}'")?;
                return Ok(Json::Object(fields));
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Json, BadText> {
        self.expect(b'[', "'['")?;
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(Json::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if !self.take(b',') {
                self.expect(b']', "',' or ']'")?;
                return Ok(Json::List(items));
            }
        }
    }

    fn string(&mut self) -> Result<String, BadText> {
        self.expect(b'"', "a string")?;
        let rest = &self.text[self.at..];
        // Ids and cluster names need no escapes, so Kafka writes none here.
        match rest.find(['"', '\\']) {
            Some(end) if rest.as_bytes()[end] == b'"' => {
                self.at += end + 1;
                Ok(rest[..end].to_owned())
            }
            Some(end) => {
                self.at += end;
                Err(self.bad("a string without escapes"))
            }
            None => {
                self.at = self.text.len();
                Err(self.bad("the end of a string"))
            }
        }
    }

    fn number(&mut self) -> Result<Json, BadText> {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| c != '-' && !c.is_ascii_digit()).unwrap_or(rest.len());
        let value = rest[..end].parse();
        let value = value.map_err(|_| BadText::new(self.at, "a whole number", &rest[..end]))?;
        self.at += end;
        Ok(Json::Number(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_named() {
        let check = |text: &str, position: usize, expected: &str| {
            let bad = Json::parse(text.as_bytes()).unwrap_err();
            assert_eq!((bad.position, bad.expected.as_str()), (position, expected), "{text:?}");
        };
        check("", 0, "a value");
        check("{", 1, "a string");
        check("{\"a\"", 4, "':'");
        check("{\"a\":1", 6, "',' or '}'");
        check("{\"a\":1}x", 7, "the end of the file");
        check("[1,]", 3, "a value");
        check("\"a", 2, "the end of a string");
        check("\"a\\n\"", 2, "a string without escapes");
        check("1-2", 0, "a whole number");
        check("true", 0, "a value");
        check(&"[".repeat(100_000), 8, "less nesting");
    }
}
