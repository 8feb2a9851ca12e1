//! Which history a log is of: what its first batch is known by, told with every fetch and answer.
//!
//! Two logs of one cluster id may have been begun apart, by a disk that was lost and formatted
//! anew, or by two formats. Their epochs and offsets may fit together all the same, and neither
//! must take the other's records for its own [P86].

use super::{Asked, Replica};
use crate::translate;
use bytes::Bytes;
use quorate_base::Offset;
use quorate_log::{Batch, Batches, Log, Read, read_cold};
use quorate_machine::Machine;
use quorate_raft::{ErrorKind, Fetch, FetchAnswer, Fetched, LeaderView, Response, RoleName};
use tracing::error;

/// What the batch at offset 0 is known by: its checksum, which covers its times and records.
fn of_first(batch: &Batch) -> Option<u64> {
    let crc = batch.bytes.get(17..21)?.first_chunk().copied()?;
    let first = batch.base() == Offset::ZERO && batch.control();
    first.then(|| 1 << 32 | u64::from(u32::from_be_bytes(crc)))
}

/// The same of a log that start-up found; `None` for one that is empty, or begins later.
pub(crate) fn of_log<D: quorate_log::Disk>(
    log: &Log,
    disk: &mut D,
) -> Result<Option<u64>, quorate_log::Error> {
    if log.start() > Offset::ZERO || log.end() == Offset::ZERO {
        return Ok(None);
    }
    let bytes = match log.read(Offset::ZERO, log.end(), 1) {
        Read::Cold(plan) => read_cold(disk, &plan)?,
        Read::Hot(parts, _) => parts.into_iter().next().unwrap_or_default(),
        Read::Nothing => Bytes::new(),
    };
    Ok(Batches::checked_before(bytes).next().as_ref().and_then(of_first))
}

impl<M: Machine> Replica<M> {
    /// What start-up found.
    pub(crate) fn begin_history(&mut self, history: Option<u64>) {
        self.history = history;
    }

    /// These bytes are appended at this offset.
    pub(super) fn note_beginning(&mut self, base: Offset, bytes: &Bytes) {
        if base == Offset::ZERO {
            let first = Batches::checked_before(bytes.clone()).next();
            self.history = first.as_ref().and_then(of_first);
        }
    }

    /// Nothing is left below this offset, or behind it.
    pub(super) fn note_emptied(&mut self, start: Offset, end: Offset) {
        if start > Offset::ZERO || end == Offset::ZERO {
            self.history = None;
        }
    }

    /// Whether that is another history than this log's.
    fn is_foreign(&self, told: Option<u64>) -> bool {
        told.is_some_and(|told| self.history.is_some_and(|own| own != told))
    }

    /// The answer to a fetch of another history: it acknowledges nothing here. Who leads has the
    /// log that counts, so one that fits to it by epochs and offsets is the same or foreign; one
    /// that does not may be cut.
    pub(super) fn refuse_foreign(&mut self, asked: Asked, fetch: &Fetch) -> bool {
        // Nearly every fetch is of this history: that is known at once.
        let counts = self.is_foreign(fetch.history)
            && self.quorum.view().role == RoleName::Leader
            && self.quorum.holds_all_of(fetch.from);
        if !counts {
            return false;
        }
        if self.once.say(self.now, "a fetch of another history") {
            error!(
                "a node with this cluster's id copies from here and holds the log of another quorum, which was \
                 begun apart: it gets nothing; find out which of the two logs is the one to keep"
            );
        }
        let view = LeaderView { error: ErrorKind::InconsistentClusterId, ..self.leader_view() };
        let refusal = FetchAnswer::refusal(view, self.log.start());
        let answer = FetchAnswer { round: Some(0), history: self.history, ..refusal };
        let names = &self.settings.names;
        let frame = translate::response(asked, Response::Fetch(answer), Vec::new(), names);
        self.answer_place(asked.place, frame);
        true
    }

    /// Whether an answer comes from a leader of another history, of which nothing may be taken.
    pub(super) fn is_from_another_history(&mut self, body: &Response) -> bool {
        let Response::Fetch(FetchAnswer { view, history, fetched, .. }) = body else {
            return false;
        };
        if !self.is_foreign(*history) {
            return false;
        }
        // An answer of an earlier epoch was to a log that may have been cut since.
        let own = self.quorum.view();
        let followed = (view.epoch, view.leader) == (own.epoch, own.leader);
        let cut = matches!(fetched, Fetched::Diverging(_) | Fetched::Snapshot(_));
        let foreign = followed && !cut;
        if foreign && self.once.say(self.now, "a leader of another history") {
            error!(
                "the leader's log was begun apart from this one, with the same cluster id: nothing of it is \
                 taken, and this node follows no further; keep this directory, it may hold the only copy; find \
                 out which quorum is meant, and give the other nodes a fresh directory"
            );
        }
        foreign
    }
}
