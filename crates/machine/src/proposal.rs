//! What a leader's machine wants appended: groups of records, and an answer per request.
//!
//! One arena for all requests of a turn, used again turn after turn, so that a record costs no
//! allocation. The machine's side: `record`, `answer`, `close_group`. The node's side: after each
//! `propose` call `finish`, at the end `groups` and `records`, then `clear`.

use crate::batch::{Header, Headers, Record, put_header};
use crate::request::Answer;
use quorate_base::Offset;
use std::ops::Range;

/// The longest answer that a machine may give, since sessions keep answers in the log.
pub const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Collects the records and answers of one turn.
#[derive(Default, Debug)]
pub struct Proposal {
    /// Keys, values and headers, end to end.
    bytes: Vec<u8>,
    records: Vec<Entry>,
    /// Closed groups. Invariant: none is empty and together they cover `records[..open]`.
    groups: Vec<Group>,
    /// First record, and its first byte, of the group that is still open.
    open: usize,
    open_bytes: usize,
    answer: Option<Answer>,
}

/// Where one record's parts end in the arena; it begins where its predecessor ends.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key_end: usize,
    value_end: usize,
    headers_end: usize,
    header_count: u32,
    has_key: bool,
    has_value: bool,
}

/// Records that must lie in one batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Which of [`Proposal::records`], counted from 0.
    pub records: Range<usize>,
    /// Bytes of their keys, values and headers, without what the batch adds per record.
    pub bytes: usize,
}

impl Proposal {
    /// An empty one.
    pub fn new() -> Proposal {
        Proposal::default()
    }

    /// Adds a record to the open group.
    pub fn record(&mut self, key: Option<&[u8]>, value: Option<&[u8]>) {
        self.record_with(key, value, &[]);
    }

    /// Adds a record with headers to the open group.
    pub fn record_with(
        &mut self,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[Header<'_>],
    ) {
        self.bytes.extend_from_slice(key.unwrap_or_default());
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value.unwrap_or_default());
        let value_end = self.bytes.len();
        headers.iter().for_each(|header| put_header(&mut self.bytes, header));
        self.records.push(Entry {
            key_end,
            value_end,
            headers_end: self.bytes.len(),
            header_count: headers.len() as u32,
            has_key: key.is_some(),
            has_value: value.is_some(),
        });
    }

    /// Answers the request at hand; once per `propose` call.
    pub fn answer(&mut self, answer: Answer) {
        assert!(self.answer.is_none(), "a request is answered once");
        if let Answer::Done(bytes) | Answer::Refused(bytes) = &answer {
            assert!(
                bytes.len() <= MAX_ANSWER_BYTES,
                "an answer of {} bytes is longer than {MAX_ANSWER_BYTES}",
                bytes.len()
            );
        }
        self.answer = Some(answer);
    }

    /// Takes back the answer of the request at hand, for a machine that wraps another.
    pub fn take_answer(&mut self) -> Option<Answer> {
        self.answer.take()
    }

    /// Ends the open group; what follows may go to another batch. For `wake`: a `propose` call is
    /// one group. Without records in it nothing happens.
    pub fn close_group(&mut self) {
        if self.open < self.records.len() {
            self.groups.push(Group {
                records: self.open..self.records.len(),
                bytes: self.bytes.len() - self.open_bytes,
            });
            self.open = self.records.len();
            self.open_bytes = self.bytes.len();
        }
    }

    /// How many records were added since the last `clear`: the offset of the next one is that many
    /// above the first one's.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether nothing would be appended.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes of all keys, values and headers.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// After a `propose` or `wake` call: ends its group and hands out its answer (`None` for
    /// `wake`).
    pub fn finish(&mut self) -> Option<Answer> {
        self.close_group();
        self.answer.take()
    }

    /// The closed groups, in order.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The record at this position. Its offset counts from `base`, the offset of record 0.
    pub fn get(&self, at: usize, base: Offset) -> Record<'_> {
        let entry = self.records[at];
        let start = at.checked_sub(1).map_or(0, |before| self.records[before].headers_end);
        let headers = &self.bytes[entry.value_end..entry.headers_end];
        Record {
            offset: base + at as u64,
            key: entry.has_key.then(|| &self.bytes[start..entry.key_end]),
            value: entry.has_value.then(|| &self.bytes[entry.key_end..entry.value_end]),
            headers: Headers::from_encoded(entry.header_count, headers),
        }
    }

    /// All records, at the offsets from `base` on.
    pub fn records(&self, base: Offset) -> impl ExactSizeIterator<Item = Record<'_>> {
        (0..self.records.len()).map(move |at| self.get(at, base))
    }

    /// Forgets everything and keeps the room.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
        self.groups.clear();
        self.open = 0;
        self.open_bytes = 0;
        self.answer = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn groups_and_records_come_out_as_they_went_in() {
        let mut proposal = Proposal::new();
        for _ in 0..2 {
            let header = Header { name: b"lease", value: None };
            proposal.record(Some(b"a"), Some(b"1"));
            proposal.record_with(Some(b""), None, &[header]);
            proposal.answer(Answer::Done(Bytes::from_static(b"ok")));
            assert_eq!(proposal.finish(), Some(Answer::Done(Bytes::from_static(b"ok"))));
            assert_eq!(proposal.finish(), None);
            proposal.record(None, Some(b""));
            proposal.close_group();
            proposal.close_group();

            let groups = [Group { records: 0..2, bytes: 9 }, Group { records: 2..3, bytes: 0 }];
            assert_eq!(proposal.groups(), groups);
            let records: Vec<_> = proposal.records(Offset(7)).collect();
            assert_eq!(records.len(), proposal.len());
            assert_eq!((records[0].key, records[0].value), (Some(&b"a"[..]), Some(&b"1"[..])));
            assert_eq!((records[1].key, records[1].value), (Some(&b""[..]), None));
            assert_eq!((records[2].key, records[2].value), (None, Some(&b""[..])));
            assert_eq!(records[2].offset, Offset(9));
            assert!(records[1].headers.iter().eq([header]));
            assert_eq!(records[2].headers.count(), 0);
            proposal.clear();
            assert!(proposal.is_empty() && proposal.groups().is_empty());
        }
    }

    #[test]
    #[should_panic(expected = "a request is answered once")]
    fn two_answers_are_a_bug_of_the_machine() {
        let mut proposal = Proposal::new();
        proposal.answer(Answer::Done(Bytes::new()));
        proposal.answer(Answer::Done(Bytes::new()));
    }
}
