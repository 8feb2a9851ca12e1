//! The seam above the log: what a replicated state machine must do.
//!
//! Two halves. *Every replica*: [`Machine::apply`] turns committed batches into state, equal on all
//! replicas at equal offsets. *The leader only*: requests are judged on the **tail**, the applied
//! state plus what is proposed and not yet applied, so that a request is judged before its
//! predecessors are committed. Nothing expires inside `apply`: the leader proposes it from its
//! timers.

use crate::{Batch, Headers, Proposal, Record, Request};
use bytes::Bytes;
use quorate_base::{Epoch, FormatLevel, Offset, OffsetEpoch, Time};
use std::fmt;

/// A deterministic state machine that owns no clock, no thread and no I/O.
///
/// The caller's promises: batches come in log order, each once. After `lead(Some)` every batch that
/// becomes committed came out of `propose` and `wake`, in the order given, at the offsets given;
/// when that fails (leadership lost, or a batch was not taken) the caller says `lead(None)`, and
/// `lead(Some)` again only once everything in the log is applied. `propose`, `wake`, `grant` and a
/// finite `deadline` exist only between the two.
///
/// `Send`, because a node that loads a snapshot restores a fresh machine on another thread.
pub trait Machine: Send + 'static {
    /// Whether the records of its snapshots keep the offsets that they had in the log, each in a
    /// header (docs/decisions/0007-snapshots.md). `false` is for machines whose snapshots Kafka's
    /// nodes read: those know no headers. Such records get the offsets at which they lie in the
    /// snapshot.
    const KEEPS_OFFSETS: bool = true;
    /// Whether [`Machine::digest`] is quick whatever the size of the state. If not, a node that is
    /// asked for its status leaves it out.
    const QUICK_DIGEST: bool = true;

    /// A question about the state. Answered where it was asked, so it never crosses the wire.
    type Query;
    /// The answer to a query.
    type Reply;

    /// An empty machine with the settings of this one.
    fn fresh(&self) -> Self
    where
        Self: Sized;

    /// Takes one whole committed batch into the state. Must not fail on anything the log holds, and
    /// must not depend on anything but the state and the batch.
    fn apply(&mut self, batch: &Batch<'_>);

    /// The applied state as it is now, to ask questions of while this machine goes on: nothing that
    /// is applied here later shows in it. As cheap as `snapshot`, since much may be shared.
    fn view(&self) -> Self
    where
        Self: Sized;

    /// Answers from the applied state; never from the tail, which may yet be lost.
    fn query(&self, query: &Self::Query) -> Self::Reply;

    /// A hash of the applied state: equal on every replica at equal offsets, and equal whether the
    /// state came from the log, from a compacted log or from a snapshot.
    fn digest(&self) -> u64;

    /// The applied state as records, from which `restore` makes it again. Cheap to make and
    /// unaffected by what is applied later: it is written out in slices while the machine goes on.
    fn snapshot(&self) -> Image;

    /// Replaces the state by the one that `records` describe, as it was at `at`. Never asked of a
    /// leader. After an error the state is unspecified: restore again or drop the machine.
    fn restore(&mut self, at: OffsetEpoch, records: &mut Records<'_>) -> Result<(), Corrupt>;

    /// `Some`: this replica leads since that epoch; everything below the offset is applied, and the
    /// tail is the state. `None`: it does not lead any more; the tail is gone. A machine that takes
    /// every request, whatever came before, keeps no tail and needs nothing here.
    fn lead(&mut self, now: Time, since: Option<(Epoch, Offset)>) {
        let _ = (now, since);
    }

    /// Judges a request on the tail. `at` is the offset that the first record it adds to `out` will
    /// get, and the end of the tail that the request is judged on. Adds any number of records,
    /// which stay one group, and exactly one answer: with records it is sent once they are
    /// committed; without, as a linearizable read of everything below `at`.
    fn propose(&mut self, now: Time, at: Offset, request: &Request, out: &mut Proposal);

    /// Proposes what is due by time, as groups of records without an answer. `at` as in `propose`.
    /// May leave work for a next call, with a deadline that has passed. A machine without timers
    /// needs neither this nor `deadline`.
    fn wake(&mut self, now: Time, at: Offset, out: &mut Proposal) {
        let _ = (now, at, out);
    }

    /// No request could be taken for a while, whatever clients sent, and now they are taken again:
    /// what would end by time for want of a request has its full time anew. Asked of a leader only,
    /// when its disk has room again. A machine without timers needs nothing here.
    fn grant(&mut self, now: Time) {
        let _ = now;
    }

    /// The format level of the applied state (docs/decisions/0010-format-level.md). `None`, the
    /// default, of machines whose records have no levels.
    fn format_level(&self) -> Option<FormatLevel> {
        None
    }

    /// The format level to which a record moves the state. Nobody who does not speak it may apply
    /// the record's batch, or restore a snapshot that has it: the caller looks before.
    fn level_in(record: &Record<'_>) -> Option<FormatLevel> {
        let _ = record;
        None
    }

    /// Proposes that the state moves to a level, as a group without an answer; nothing if it is
    /// there, or higher, on the tail. Asked of a leader only, of which every replica that applies
    /// speaks the level. `at` as in `propose`.
    fn raise(&mut self, at: Offset, level: FormatLevel, out: &mut Proposal) {
        let _ = (at, level, out);
    }

    /// When the leader should call `wake`; earlier is harmless. [`Time::NEVER`] if nothing is
    /// timed.
    fn deadline(&self) -> Time {
        Time::NEVER
    }
}

/// The records of a snapshot, one after the other.
pub type Records<'a> = dyn Iterator<Item = OwnedRecord> + 'a;

/// A record that owns its bytes: the unit of snapshots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnedRecord {
    /// Where the record lay in the log; a snapshot keeps it if [`Machine::KEEPS_OFFSETS`].
    pub offset: Offset,
    /// As in [`Record::key`].
    pub key: Option<Bytes>,
    /// As in [`Record::value`].
    pub value: Option<Bytes>,
    /// How many headers `headers` holds.
    pub header_count: u32,
    /// The headers in the log's encoding, as in [`Headers::encoded`].
    pub headers: Bytes,
}

impl OwnedRecord {
    /// A record with key and value and no headers.
    pub fn new(offset: Offset, key: Bytes, value: Bytes) -> OwnedRecord {
        OwnedRecord {
            offset,
            key: Some(key),
            value: Some(value),
            header_count: 0,
            headers: Bytes::new(),
        }
    }

    /// The borrowed view.
    pub fn as_record(&self) -> Record<'_> {
        Record {
            offset: self.offset,
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers: Headers::from_encoded(self.header_count, &self.headers),
        }
    }
}

/// An immutable picture of a state, as the records of a snapshot. `Send`, so that it may be written
/// out elsewhere.
pub struct Image {
    records: Box<dyn Iterator<Item = OwnedRecord> + Send>,
}

impl Image {
    /// Wraps what the machine iterates. Hold shared or copied state, never a lock.
    pub fn new(records: impl Iterator<Item = OwnedRecord> + Send + 'static) -> Image {
        Image { records: Box::new(records) }
    }
}

impl Iterator for Image {
    type Item = OwnedRecord;

    fn next(&mut self) -> Option<OwnedRecord> {
        self.records.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.records.size_hint()
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image").finish_non_exhaustive()
    }
}

/// A snapshot that does not describe a state of this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Corrupt {
    /// The offset that the bad record names.
    pub offset: Offset,
    /// What is wrong with it.
    pub what: &'static str,
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the snapshot's record of offset {}: {}", self.offset, self.what)
    }
}

impl std::error::Error for Corrupt {}
