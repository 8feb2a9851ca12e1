//! Passing requests of this node's clients on to the leader, and exactly once.
//!
//! Writes without a stamp of their own get one of this node's session, so that a connection that
//! breaks or a leader that changes is answered by sending the same write again: the machine applies
//! it once. Only where the machine keeps no sessions, or the session itself is gone, does a lost
//! answer become "outcome unknown". One request to the leader carries all that is ready this turn.

use crate::clients::{Read, Write};
use quorate_base::{Span, Time};
use quorate_machine::{SessionId, Stamp};
use std::collections::BTreeMap;

/// How long the leader keeps this node's session without hearing of it. Longer than any request
/// waits.
pub(crate) const SESSION_TTL: Span = Span::ms(300_000);
/// A session that has been idle for so long is not used again, so that none expires under a
/// request.
const SESSION_FRESH: Span = Span::ms(120_000);
/// Writes in flight at once under one session.
const SLOTS: u16 = 1_024;
/// At most so many bytes of writes go into one request to the leader, or one write that is larger.
/// The wire takes 8 MiB.
pub(crate) const REQUEST_BYTES_MAX: usize = 1 << 20;

/// This node's session with the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Session {
    None,
    Opening,
    Open {
        id: SessionId,
        used: Time,
    },
    /// The machine keeps none.
    Unsupported,
}

/// What one request to the leader carried.
pub(crate) struct Forwarded<Q> {
    pub opens_session: bool,
    pub writes: Vec<Write>,
    /// All answered by the one offset that the last operation asks for.
    pub reads: Vec<Read<Q>>,
}

pub(crate) struct Forwarder<Q> {
    session: Session,
    /// Newest sequence used in each slot.
    sequences: Vec<u64>,
    free: Vec<u16>,
    pub flights: BTreeMap<u64, Forwarded<Q>>,
    next: u64,
    /// Nothing is sent before.
    pub rest_until: Time,
}

/// Whether a write may leave now.
pub(crate) enum Leave {
    Now,
    /// A session has to be opened first; `true`: by this very request.
    AfterSession(bool),
    /// All slots are taken.
    AfterAnswer,
}

impl<Q> Forwarder<Q> {
    pub fn new() -> Forwarder<Q> {
        Forwarder {
            session: Session::None,
            sequences: vec![0; usize::from(SLOTS)],
            free: (0..SLOTS).rev().collect(),
            flights: BTreeMap::new(),
            next: 0,
            rest_until: Time(0),
        }
    }

    /// Stamps a write that has no stamp yet, if it needs one and can have one.
    pub fn stamp(&mut self, now: Time, write: &mut Write) -> Leave {
        let is_write = matches!(write.request.operation, quorate_machine::Operation::Write(_));
        if write.request.stamp.is_some() || !is_write {
            return Leave::Now;
        }
        match &mut self.session {
            Session::Unsupported => Leave::Now,
            Session::Opening => Leave::AfterSession(false),
            Session::Open { id, used } if now.since(*used) < SESSION_FRESH => {
                let Some(slot) = self.free.pop() else { return Leave::AfterAnswer };
                let sequence = &mut self.sequences[usize::from(slot)];
                *sequence += 1;
                *used = now;
                write.slot = Some(slot);
                write.request.stamp = Some(Stamp { session: *id, slot, sequence: *sequence });
                Leave::Now
            }
            Session::None | Session::Open { .. } => {
                self.session = Session::Opening;
                Leave::AfterSession(true)
            }
        }
    }

    /// Takes the stamp of our own session off again and frees its slot.
    pub fn unstamp(&mut self, write: &mut Write) {
        if let Some(slot) = write.slot.take() {
            write.request.stamp = None;
            self.free.push(slot);
        }
    }

    /// These slots' writes have ended, or will be refused as stale should they still arrive.
    pub fn free(&mut self, slots: impl IntoIterator<Item = u16>) {
        self.free.extend(slots);
    }

    /// Notes what a request carries and names it.
    pub fn departs(&mut self, forwarded: Forwarded<Q>) -> u64 {
        let id = self.next;
        self.next += 1;
        self.flights.insert(id, forwarded);
        id
    }

    /// The session that was being opened is open, or will not be.
    pub fn opened(&mut self, now: Time, id: Option<SessionId>) {
        if self.session == Session::Opening {
            self.session = id.map_or(Session::None, |id| Session::Open { id, used: now });
        }
    }

    /// The machine keeps no sessions.
    pub fn unsupported(&mut self) {
        self.session = Session::Unsupported;
    }

    /// The leader does not know this session (any more): the next write opens another.
    pub fn expired(&mut self, stamp: Stamp) {
        if matches!(self.session, Session::Open { id, .. } if id == stamp.session) {
            self.session = Session::None;
        }
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.flights.is_empty()
    }
}
