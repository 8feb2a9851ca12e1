//! The coder that writes a message into a frame.
//!
//! Small things go into one buffer; large byte fields (records) are not copied but stand between its
//! pieces, so that a socket can write a frame's parts as they are.

use crate::coder::{Coder, Tags, Walk};
use crate::primitive::{Int, put_varint};
use crate::{Error, ErrorCode};
use bytes::{BufMut, Bytes, BytesMut};
use quorate_base::Uuid;

/// The longest string there is on the wire, in every form (as in Kafka).
pub(crate) const MAX_STRING_BYTES: usize = i16::MAX as usize;

/// Byte fields from here on are shared, not copied: below, one more part costs more than the copy.
const SHARED_FROM_BYTES: usize = 4096;

/// The longest byte field or array: one more, its compact length, still fits an `i32`.
const MAX_BYTES: usize = i32::MAX as usize - 1;

const LENGTH_BYTES: usize = 4;

/// An encoded message, its length prefix included, ready to be written part by part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// In order; none is empty.
    pub parts: Vec<Bytes>,
}

impl Frame {
    /// Bytes on the wire, the length prefix included.
    pub fn wire_bytes(&self) -> usize {
        self.parts.iter().map(Bytes::len).sum()
    }

    /// All parts in one buffer, without the length prefix: what [`crate::split`] gives the receiver.
    pub fn into_payload(self) -> Bytes {
        let mut whole = BytesMut::with_capacity(self.wire_bytes());
        self.parts.iter().for_each(|part| whole.put_slice(part));
        whole.freeze().split_off(LENGTH_BYTES)
    }
}

/// Writes fields behind a length prefix.
#[derive(Debug)]
pub struct Encoder {
    /// All that is copied, in order.
    inline: BytesMut,
    /// What is shared, and before which byte of `inline` it belongs; ascending.
    shared: Vec<(usize, Bytes)>,
    flexible: bool,
    /// How many tagged fields we are inside of. Their content is moved around, so it is all copied.
    depth: usize,
}

impl Encoder {
    /// An empty frame.
    pub fn new(flexible: bool) -> Encoder {
        let mut inline = BytesMut::with_capacity(256);
        inline.put_slice(&[0; LENGTH_BYTES]);
        Encoder { inline, shared: Vec::new(), flexible, depth: 0 }
    }

    /// Sets the length prefix and hands out the parts.
    pub fn finish(mut self) -> Result<Frame, Error> {
        let shared: usize = self.shared.iter().map(|(_, bytes)| bytes.len()).sum();
        let len = self.inline.len() - LENGTH_BYTES + shared;
        let prefix = i32::try_from(len);
        let prefix =
            prefix.map_err(|_| Error::TooLong { field: "frame", len, limit: i32::MAX as usize })?;
        self.inline[..LENGTH_BYTES].copy_from_slice(&prefix.to_be_bytes());

        let inline = self.inline.freeze();
        let mut parts = Vec::with_capacity(2 * self.shared.len() + 1);
        let mut start = 0;
        for (end, bytes) in self.shared {
            if start < end {
                parts.push(inline.slice(start..end));
            }
            parts.push(bytes);
            start = end;
        }
        if start < inline.len() {
            parts.push(inline.slice(start..));
        }
        Ok(Frame { parts })
    }

    /// A length; `None` is null.
    fn length(
        &mut self,
        field: &'static str,
        length: Option<usize>,
        limit: usize,
    ) -> Result<(), Error> {
        if let Some(len) = length.filter(|len| *len > limit) {
            return Err(Error::TooLong { field, len, limit });
        }
        let length = length.map_or(-1, |length| length as i32);
        if self.flexible {
            // Compact: one more than the length, so that null is zero.
            put_varint((length + 1) as u32, &mut self.inline);
        } else if limit == MAX_STRING_BYTES {
            self.inline.put_i16(length as i16);
        } else {
            self.inline.put_i32(length);
        }
        Ok(())
    }
}

/// The known tagged fields of one struct, encoded, ascending.
pub type EncodedTags = Vec<(u32, Bytes)>;

impl Coder for Encoder {
    type OpenTags = EncodedTags;

    fn flexible(&self) -> bool {
        self.flexible
    }

    fn set_flexible(&mut self, flexible: bool) {
        self.flexible = flexible;
    }

    fn position(&self) -> usize {
        self.inline.len() - LENGTH_BYTES
    }

    fn int<I: Int>(&mut self, _field: &'static str, value: &mut I) -> Result<(), Error> {
        value.put(&mut self.inline);
        Ok(())
    }

    fn bool(&mut self, _field: &'static str, value: &mut bool) -> Result<(), Error> {
        self.inline.put_u8(u8::from(*value));
        Ok(())
    }

    fn error_code(&mut self, _field: &'static str, value: &mut ErrorCode) -> Result<(), Error> {
        self.inline.put_i16(value.code());
        Ok(())
    }

    fn uuid(&mut self, _field: &'static str, value: &mut Uuid) -> Result<(), Error> {
        self.inline.put_slice(&value.0);
        Ok(())
    }

    fn nullable_string(
        &mut self,
        field: &'static str,
        value: &mut Option<String>,
    ) -> Result<(), Error> {
        self.length(field, value.as_ref().map(String::len), MAX_STRING_BYTES)?;
        self.inline.put_slice(value.as_deref().unwrap_or("").as_bytes());
        Ok(())
    }

    fn nullable_bytes(
        &mut self,
        field: &'static str,
        value: &mut Option<Bytes>,
    ) -> Result<(), Error> {
        self.length(field, value.as_ref().map(Bytes::len), MAX_BYTES)?;
        match value {
            Some(bytes) if bytes.len() >= SHARED_FROM_BYTES && self.depth == 0 => {
                self.shared.push((self.inline.len(), bytes.clone()));
            }
            Some(bytes) => self.inline.put_slice(bytes),
            None => {}
        }
        Ok(())
    }

    fn nullable_array<T: Walk>(
        &mut self,
        field: &'static str,
        items: &mut Option<Vec<T>>,
        version: i16,
    ) -> Result<(), Error> {
        self.length(field, items.as_ref().map(Vec::len), MAX_BYTES)?;
        items.iter_mut().flatten().try_for_each(|item| item.walk(self, version))
    }

    fn open_tags(&mut self) -> Result<EncodedTags, Error> {
        Ok(EncodedTags::new())
    }

    fn tag<T: PartialEq>(
        &mut self,
        open: &mut EncodedTags,
        tag: u32,
        value: &mut T,
        absent: T,
        walk: impl FnOnce(&mut Self, &mut T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if *value == absent {
            return Ok(());
        }
        let start = self.inline.len();
        self.depth += 1;
        walk(self, value)?;
        self.depth -= 1;
        // The number of tagged fields comes first on the wire, and is known last.
        open.push((tag, self.inline.split_off(start).freeze()));
        Ok(())
    }

    fn close_tags(&mut self, mut open: EncodedTags, unknown: &mut Tags) -> Result<(), Error> {
        // Stable: a field that we set ourselves comes before one of its number that was passed on.
        open.append(&mut unknown.clone());
        open.sort_by_key(|(tag, _)| *tag);
        open.dedup_by_key(|(tag, _)| *tag);
        put_varint(open.len() as u32, &mut self.inline);
        for (tag, content) in open {
            put_varint(tag, &mut self.inline);
            put_varint(content.len() as u32, &mut self.inline);
            self.inline.put_slice(&content);
        }
        Ok(())
    }

    fn lacks(&mut self, field: &'static str, is_set: bool, version: i16) -> Result<(), Error> {
        if is_set { Err(Error::NotInVersion { field, version }) } else { Ok(()) }
    }
}
