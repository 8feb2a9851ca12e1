//! The coder that fills a message from a frame.
//!
//! Every announced length is compared with what is left of the frame before anything is made of it,
//! arrays grow as their elements arrive, and bytes are slices of the frame. Nothing here panics on
//! any input.

use crate::coder::{Coder, Tags, Walk};
use crate::encoder::MAX_STRING_BYTES;
use crate::primitive::{Int, Varint, get_varint};
use crate::{Error, ErrorCode};
use bytes::Bytes;
use quorate_base::Uuid;
use std::ops::Range;

/// The most unknown tagged fields of one struct: two bytes on the wire become forty in memory, and
/// no message of any version has a tenth as many.
const MAX_UNKNOWN_TAGS: usize = 32;

/// Reads fields from the front of a frame.
#[derive(Clone, Debug)]
pub struct Decoder {
    frame: Bytes,
    at: usize,
    /// Invariant: `at <= end <= frame.len()`. Below the frame's end while inside of a tagged field.
    end: usize,
    flexible: bool,
}

/// How a length that is not compact is written.
#[derive(Clone, Copy)]
enum Prefix {
    Short,
    Long,
}

/// How far the tagged fields of one struct have been read.
#[derive(Debug)]
pub struct OpenTags {
    left: u32,
    previous: Option<u32>,
    /// Read, but not yet claimed by the walk: the tag and its content.
    next: Option<(u32, Range<usize>)>,
    unknown: Tags,
}

impl Decoder {
    /// Starts at the front of `frame`.
    pub fn new(frame: Bytes, flexible: bool) -> Decoder {
        Decoder { at: 0, end: frame.len(), frame, flexible }
    }

    /// Checks that nothing is left over.
    pub fn finish(self) -> Result<(), Error> {
        match self.left() {
            0 => Ok(()),
            left => Err(Error::Trailing { at: self.at, left }),
        }
    }

    fn left(&self) -> usize {
        self.end - self.at
    }

    fn take(&mut self, field: &'static str, needed: usize) -> Result<Range<usize>, Error> {
        let (at, left) = (self.at, self.left());
        if needed > left {
            return Err(Error::Truncated { field, at, needed, left });
        }
        self.at += needed;
        Ok(at..self.at)
    }

    fn varint(&mut self, field: &'static str) -> Result<u32, Error> {
        let (at, left) = (self.at, self.left());
        match get_varint(&self.frame[at..self.end]) {
            Varint::Value(value, width) => {
                self.at += width;
                Ok(value)
            }
            Varint::Unfinished => Err(Error::Truncated { field, at, needed: left + 1, left }),
            Varint::TooLarge => Err(Error::BadVarint { field, at }),
        }
    }

    /// A length of at most what is left, because each element takes a byte or more; `None` is null.
    fn length(&mut self, field: &'static str, prefix: Prefix) -> Result<Option<usize>, Error> {
        let at = self.at;
        let announced = if self.flexible {
            i64::from(self.varint(field)?) - 1
        } else {
            let (mut short, mut long) = (0i16, 0i32);
            match prefix {
                Prefix::Short => self.int(field, &mut short).map(|()| i64::from(short))?,
                Prefix::Long => self.int(field, &mut long).map(|()| i64::from(long))?,
            }
        };
        let left = self.left();
        match usize::try_from(announced) {
            Ok(length) if length <= left => Ok(Some(length)),
            Err(_) if announced == -1 => Ok(None),
            Ok(_) | Err(_) => Err(Error::BadLength { field, at, announced, left }),
        }
    }

    /// Moves to the next tagged field, unless one is already waiting or none is left.
    fn peek_tag(&mut self, open: &mut OpenTags) -> Result<Option<u32>, Error> {
        if open.next.is_none() && open.left > 0 {
            let at = self.at;
            let found = self.varint("Tag")?;
            if let Some(previous) = open.previous
                && found <= previous
            {
                return Err(Error::TagOrder { at, previous, found });
            }
            let size = self.varint("TagSize")?;
            let content = self.take("TaggedField", size as usize)?;
            open.left -= 1;
            open.previous = Some(found);
            open.next = Some((found, content));
        }
        Ok(open.next.as_ref().map(|(tag, _)| *tag))
    }

    fn keep_unknown(&mut self, open: &mut OpenTags) -> Result<(), Error> {
        if let Some((tag, content)) = open.next.take() {
            if open.unknown.len() == MAX_UNKNOWN_TAGS {
                return Err(Error::TooManyTags { at: content.start, limit: MAX_UNKNOWN_TAGS });
            }
            open.unknown.push((tag, self.frame.slice(content)));
        }
        Ok(())
    }
}

impl Coder for Decoder {
    type OpenTags = OpenTags;

    fn flexible(&self) -> bool {
        self.flexible
    }

    fn set_flexible(&mut self, flexible: bool) {
        self.flexible = flexible;
    }

    fn position(&self) -> usize {
        self.at
    }

    fn int<I: Int>(&mut self, field: &'static str, value: &mut I) -> Result<(), Error> {
        let range = self.take(field, I::WIDTH)?;
        *value = I::from_bytes(&self.frame[range]);
        Ok(())
    }

    fn bool(&mut self, field: &'static str, value: &mut bool) -> Result<(), Error> {
        let mut byte = 0i8;
        self.int(field, &mut byte)?;
        *value = byte != 0;
        Ok(())
    }

    fn error_code(&mut self, field: &'static str, value: &mut ErrorCode) -> Result<(), Error> {
        let mut code = 0i16;
        self.int(field, &mut code)?;
        *value = ErrorCode::from_code(code);
        Ok(())
    }

    fn uuid(&mut self, field: &'static str, value: &mut Uuid) -> Result<(), Error> {
        let range = self.take(field, value.0.len())?;
        value.0.copy_from_slice(&self.frame[range]);
        Ok(())
    }

    fn nullable_string(
        &mut self,
        field: &'static str,
        value: &mut Option<String>,
    ) -> Result<(), Error> {
        let start = self.at;
        *value = match self.length(field, Prefix::Short)? {
            None => None,
            Some(length) if length > MAX_STRING_BYTES => {
                let (announced, left) = (length as i64, self.left());
                return Err(Error::BadLength { field, at: start, announced, left });
            }
            Some(length) => {
                let range = self.take(field, length)?;
                let at = range.start;
                let text = std::str::from_utf8(&self.frame[range])
                    .map_err(|_| Error::NotUtf8 { field, at })?;
                Some(text.to_owned())
            }
        };
        Ok(())
    }

    fn nullable_bytes(
        &mut self,
        field: &'static str,
        value: &mut Option<Bytes>,
    ) -> Result<(), Error> {
        *value = match self.length(field, Prefix::Long)? {
            None => None,
            Some(length) => {
                let range = self.take(field, length)?;
                Some(self.frame.slice(range))
            }
        };
        Ok(())
    }

    fn nullable_array<T: Walk>(
        &mut self,
        field: &'static str,
        items: &mut Option<Vec<T>>,
        version: i16,
    ) -> Result<(), Error> {
        let length = self.length(field, Prefix::Long)?;
        *items = length.map(|_| Vec::new());
        for _ in 0..length.unwrap_or(0) {
            let mut item = T::default();
            item.walk(self, version)?;
            items.get_or_insert_default().push(item);
        }
        Ok(())
    }

    fn open_tags(&mut self) -> Result<OpenTags, Error> {
        let left = self.varint("TagCount")?;
        Ok(OpenTags { left, previous: None, next: None, unknown: Tags::new() })
    }

    fn tag<T: PartialEq>(
        &mut self,
        open: &mut OpenTags,
        tag: u32,
        value: &mut T,
        absent: T,
        walk: impl FnOnce(&mut Self, &mut T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        *value = absent;
        while self.peek_tag(open)?.is_some_and(|found| found < tag) {
            self.keep_unknown(open)?;
        }
        let Some((_, content)) = open.next.take_if(|(found, _)| *found == tag) else {
            return Ok(());
        };
        let outer_end = self.end;
        (self.at, self.end) = (content.start, content.end);
        walk(self, value)?;
        if self.left() > 0 {
            return Err(Error::TagNotUsedUp { tag, at: self.at, left: self.left() });
        }
        self.end = outer_end;
        Ok(())
    }

    fn close_tags(&mut self, mut open: OpenTags, unknown: &mut Tags) -> Result<(), Error> {
        while self.peek_tag(&mut open)?.is_some() {
            self.keep_unknown(&mut open)?;
        }
        *unknown = open.unknown;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ApiKey;
    use crate::message::{ApiVersionsResponse, Message, VoteRequest};

    fn decode<M: Message>(bytes: &'static [u8], version: i16) -> Result<M, Error> {
        let mut decoder = Decoder::new(Bytes::from_static(bytes), M::API.is_flexible(version));
        let mut message = M::default();
        message.walk(&mut decoder, version)?;
        decoder.finish().map(|()| message)
    }

    /// Found in the field: decoders that reserve what an array announces are killed by eight bytes.
    #[test]
    fn an_array_of_four_billion_is_refused_at_its_length() {
        let bytes = &[0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0];
        let announced = i64::from(u32::MAX) - 1;
        let expect = Error::BadLength { field: "ApiKeys", at: 2, announced, left: 1 };
        assert_eq!(decode::<ApiVersionsResponse>(bytes, 3).unwrap_err(), expect);

        let classic = &[0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0];
        let announced = i64::from(i32::MAX);
        let expect = Error::BadLength { field: "ApiKeys", at: 2, announced, left: 2 };
        assert_eq!(decode::<ApiVersionsResponse>(classic, 0).unwrap_err(), expect);

        let negative = &[0, 0, 0xff, 0xff, 0xff, 0xfe];
        let expect = Error::BadLength { field: "ApiKeys", at: 2, announced: -2, left: 0 };
        assert_eq!(decode::<ApiVersionsResponse>(negative, 0).unwrap_err(), expect);
    }

    #[test]
    fn errors_name_field_and_place() {
        let check = |bytes, expect| assert_eq!(decode::<VoteRequest>(bytes, 0), Err(expect));
        check(&[], Error::Truncated { field: "ClusterId", at: 0, needed: 1, left: 0 });
        check(&[3, b'a'], Error::BadLength { field: "ClusterId", at: 0, announced: 2, left: 1 });
        check(&[2, 0xff, 1, 0], Error::NotUtf8 { field: "ClusterId", at: 1 });
        check(&[0, 0, 0], Error::Null { field: "Topics", at: 2 });
        check(&[0, 1, 0, 7, 7], Error::Trailing { at: 3, left: 2 });
        check(&[0, 1, 2, 5, 0, 5, 0], Error::TagOrder { at: 5, previous: 5, found: 5 });
        check(
            &[0, 1, 1, 5, 9],
            Error::Truncated { field: "TaggedField", at: 5, needed: 9, left: 0 },
        );
        check(&[0x80; 5], Error::BadVarint { field: "ClusterId", at: 0 });
        assert!(ApiKey::Vote.is_flexible(0));
    }

    #[test]
    fn unknown_tags_are_kept_up_to_a_limit() {
        let vote = |count: u8| {
            let mut bytes = vec![0, 1, count];
            (0..count).for_each(|tag| bytes.extend([tag, 0]));
            let mut decoder = Decoder::new(Bytes::from(bytes), true);
            let mut vote = VoteRequest::default();
            vote.walk(&mut decoder, 0).map(|()| vote.tags.len())
        };
        assert_eq!(vote(32), Ok(32));
        assert_eq!(vote(33), Err(Error::TooManyTags { at: 3 + 66, limit: 32 }));
    }

    #[test]
    fn a_known_tagged_field_must_fill_its_size() {
        // NodeEndpoints of a vote response: an empty array takes one byte, the size says two.
        let bytes = &[0, 0, 1, 1, 0, 2, 1, 0];
        let found = decode::<crate::message::VoteResponse>(bytes, 1);
        assert_eq!(found.unwrap_err(), Error::TagNotUsedUp { tag: 0, at: 7, left: 1 });
    }
}
