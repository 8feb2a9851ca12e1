//! The coder that writes a message into a frame.
//!
//! Small things go into one buffer; large byte fields (records) are not copied but stand between
//! its pieces, so that a socket can write a frame's parts as they are.

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

    /// All parts in one buffer, without the length prefix: what [`crate::split`] gives the
    /// receiver.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{
        DivergingEpoch, FetchResponse, FetchResponsePartition, FetchTopic, ForwardRequest,
        Operation, VoteRequest,
    };
    use crate::{ApiKey, RequestHeader, ResponseFrame, encode_request, encode_response};

    fn fetch_response(records: &[&Bytes]) -> FetchResponse {
        let partition = |records: &&Bytes| FetchResponsePartition {
            records: Some(Bytes::clone(records)),
            ..FetchResponsePartition::default()
        };
        let partitions = records.iter().map(partition).collect();
        let topic = FetchTopic { partitions, ..FetchTopic::default() };
        FetchResponse { responses: vec![topic], ..FetchResponse::default() }
    }

    #[test]
    fn large_records_travel_without_a_copy_and_small_ones_inline() {
        let small = Bytes::from(vec![1; SHARED_FROM_BYTES - 1]);
        let large = Bytes::from(vec![2; SHARED_FROM_BYTES]);
        let response = fetch_response(&[&large, &small, &large]);
        let frame = encode_response(response.clone(), 18, 9).unwrap();

        let is_shared = |part: &&Bytes| part.as_ptr() == large.as_ptr();
        assert_eq!(frame.parts.iter().filter(is_shared).count(), 2);
        assert_eq!(frame.parts.len(), 5, "the copied pieces stand around the shared ones");
        let announced = i32::from_be_bytes(frame.parts[0][..4].try_into().unwrap());
        assert_eq!(announced as usize, frame.wire_bytes() - 4);

        let payload = frame.into_payload();
        let read: FetchResponse =
            ResponseFrame::parse(payload.clone()).unwrap().decode(18).unwrap();
        assert_eq!(read, response);
        let records = read.responses[0].partitions[0].records.as_ref().unwrap();
        assert!(payload.as_ptr_range().contains(&records.as_ptr()), "decoding copies nothing");
    }

    #[test]
    fn a_large_last_field_is_followed_by_the_tags_behind_it() {
        let body = Bytes::from(vec![3; SHARED_FROM_BYTES]);
        let operation = Operation { body, ..Operation::default() };
        let request = ForwardRequest { operations: vec![operation], ..ForwardRequest::default() };
        let header = RequestHeader::new(ApiKey::Forward, 0, 1, None);
        let frame = encode_request(header, request).unwrap();
        assert_eq!(frame.parts.iter().skip(2).map(Bytes::as_ref).collect::<Vec<_>>(), [[0, 0]]);
    }

    #[test]
    fn what_a_length_cannot_say_is_refused() {
        let encode = |client_id: usize, cluster_id: usize| {
            let header = RequestHeader::new(ApiKey::Vote, 0, 1, Some("x".repeat(client_id)));
            let cluster_id = Some("x".repeat(cluster_id));
            encode_request(header, VoteRequest { cluster_id, ..VoteRequest::default() })
        };
        let limit = MAX_STRING_BYTES;
        assert!(encode(limit, limit).is_ok());
        let refused = |field| Err(Error::TooLong { field, len: limit + 1, limit });
        assert_eq!(encode(limit + 1, 0), refused("ClientId"));
        assert_eq!(encode(0, limit + 1), refused("ClusterId"));
    }

    #[test]
    fn tags_that_were_passed_on_stand_in_order_among_our_own() {
        let mut response = fetch_response(&[]);
        let partition = FetchResponsePartition {
            diverging_epoch: Some(DivergingEpoch { epoch: 1, ..DivergingEpoch::default() }),
            tags: vec![(7, Bytes::from_static(&[7])), (0, Bytes::from_static(&[9]))],
            ..FetchResponsePartition::default()
        };
        response.responses[0].partitions.push(partition);
        let payload = encode_response(response, 18, 0).unwrap().into_payload();
        let read: FetchResponse = ResponseFrame::parse(payload).unwrap().decode(18).unwrap();
        let partition = &read.responses[0].partitions[0];
        assert_eq!(partition.diverging_epoch.as_ref().unwrap().epoch, 1, "ours wins");
        assert_eq!(partition.tags, [(7, Bytes::from_static(&[7]))]);
    }
}
