//! What reads are answered from: the newest version of the log that this node has held.
//!
//! A record that is missing from a cleaned log stands below `dirty`, and so does the one that
//! supersedes it; before all below `dirty` is applied the state may lack a key, or have an old
//! value [P84]. Then the last version is shown, for as long as it takes. What is shown never
//! becomes older, not even where the log is copied anew.

use crate::clients::{Origin, Read, Waiting};
use crate::out::ClientId;
use crate::replica::Replica;
use quorate_base::{Cleaned, Offset, Span, Time};
use quorate_machine::Machine;

/// Which version that is.
pub struct Published<M> {
    /// The end of the newest state that was shown.
    shown: Offset,
    /// It, while the machine is on its way to the next one.
    kept: Option<M>,
    /// Below it records may be missing that later ones below it supersede.
    dirty: Offset,
}

impl<M> Published<M> {
    /// Nothing was shown yet.
    pub(crate) fn new(dirty: Offset) -> Published<M> {
        Published { shown: Offset::ZERO, kept: None, dirty }
    }
}

impl<M: Machine> Replica<M> {
    /// Whether the applied state is that of the whole log at its end: a version.
    pub(crate) fn is_version(&self) -> bool {
        self.applied.upto >= self.published.dirty
    }

    /// The end of the state that reads of this node alone see; `None` before there is any.
    pub fn version(&self) -> Option<Offset> {
        match self.published.kept {
            Some(_) => Some(self.published.shown),
            None => {
                let newer = self.applied.upto >= self.published.shown;
                (newer && self.is_version()).then_some(self.applied.upto)
            }
        }
    }

    /// Records are appended that came from a log that lacks so much.
    pub(crate) fn note_cleaned(&mut self, told: Cleaned) {
        if told.dirty <= self.published.dirty {
            return;
        }
        let version = self.version();
        self.published.dirty = told.dirty;
        if let Some(version) = version
            && self.published.kept.is_none()
            && !self.is_version()
        {
            self.published.shown = version;
            self.published.kept = Some(self.machine.view());
        }
    }

    /// More was applied.
    pub(crate) fn publish(&mut self) {
        if self.is_version() && self.applied.upto >= self.published.shown {
            self.published.kept = None;
        }
    }

    /// The reply of the newest version that this node has, and its end, if it has come so far.
    pub fn read_local(&self, query: &M::Query, least: Offset) -> Option<(M::Reply, Offset)> {
        let version = self.version().filter(|version| *version >= least)?;
        let machine = self.published.kept.as_ref().unwrap_or(&self.machine);
        Some((machine.query(query), version))
    }

    /// A caller in this process asks for this version or a later one, and waits for it.
    pub fn read_from(
        &mut self,
        now: Time,
        client: ClientId,
        query: M::Query,
        least: Offset,
        patience: Span,
    ) {
        self.now = now;
        let (origin, due) = (Origin::Client(client), now + patience);
        let read = Read { origin, query: Some(query), least: Some(least), due };
        self.wait_applied(least.max(self.published.shown), Waiting::Read(read));
    }

    /// What was shown, for the replica that takes this one's place in its process.
    pub fn into_published(mut self) -> Published<M> {
        if self.published.kept.is_none()
            && let Some(version) = self.version()
        {
            self.published.shown = version;
            self.published.kept = Some(self.machine.view());
        }
        self.published
    }

    /// Goes on showing it until there is a newer one.
    pub fn go_on_showing(&mut self, before: Published<M>) {
        let dirty = self.published.dirty;
        self.published = Published { dirty, ..before };
    }
}
