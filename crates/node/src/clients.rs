//! Requests of clients on their way to a decision: what waits here, and how it ends.
//!
//! A request comes from this process or from a node that forwarded it. It waits until this node
//! leads or knows who does; it ends with the machine's answer or with a [`Failure`]. It is never
//! dropped in silence, and one that may have taken effect is never reported as not done.

use crate::handle::Error;
use crate::inbound::Place;
use crate::out::ClientId;
use quorate_base::{Offset, Time};
use quorate_machine::{Answer, Operation, Request};
use quorate_raft::Token;
use std::collections::{BTreeMap, VecDeque};

/// Who waits for a decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// A caller in this process.
    Client(ClientId),
    /// One operation of a forwarded request.
    Forwarded { gathering: u64, index: usize },
    /// Whoever waited has been told that the outcome is unknown.
    Nobody,
}

/// A change that waits to be judged by the leader.
#[derive(Debug)]
pub(crate) struct Write {
    pub origin: Origin,
    pub request: Request,
    pub due: Time,
    /// How often it was passed on to a leader; above 0 an earlier copy may still take effect.
    pub attempts: u32,
    /// The slot of this node's own session that stamps it, if one does.
    pub slot: Option<u16>,
}

impl Write {
    /// What its client is told when time runs out before this attempt did anything.
    pub fn late(&self) -> Failure {
        match self.attempts {
            0 => Failure::NotInTime,
            // An earlier attempt may have taken effect, or still take it.
            _ => Failure::Unknown,
        }
    }

    /// What its client is told when the leader's disk has no room for it.
    pub fn without_room(&self) -> Failure {
        match self.attempts {
            0 => Failure::OutOfRoom,
            _ => Failure::Unknown,
        }
    }
}

/// A question that waits for proof of leadership.
#[derive(Debug)]
pub(crate) struct Read<Q> {
    pub origin: Origin,
    /// `None` for a forwarded read: it asks only for the offset to read at.
    pub query: Option<Q>,
    /// The least version that will do; `None` for what must see all that was acknowledged.
    pub least: Option<Offset>,
    pub due: Time,
}

/// What a decided or proved request still waits for: that the state has this end.
#[derive(Debug)]
pub(crate) enum Waiting<Q> {
    /// A read; it is answered from the state then.
    Read(Read<Q>),
    /// An answer that appended nothing, judged on a tail that has to be committed.
    Judged { write: Write, answer: Answer, tail: Offset },
}

/// A change that is in the log and not yet known to be committed.
#[derive(Debug)]
pub(crate) struct Pending {
    /// One past its last record.
    pub end: Offset,
    pub answer: Answer,
    pub write: Write,
}

/// Why a request has no answer of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// This node does not lead; nothing was done here.
    NotLeader,
    /// It may or may not take effect.
    Unknown,
    /// Time ran out before anything was done.
    NotInTime,
    /// The leader's disk is full; nothing was done.
    OutOfRoom,
}

impl Failure {
    /// For a caller in this process, where nothing more is tried.
    pub fn error(self) -> Error {
        match self {
            Failure::NotLeader | Failure::NotInTime => Error::NoLeader,
            Failure::Unknown => Error::OutcomeUnknown,
            Failure::OutOfRoom => Error::OutOfRoom,
        }
    }
}

/// The result of one operation of a forwarded request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Settled {
    Answer(Answer),
    ReadAt(Offset),
    Failed(Failure),
}

/// A forwarded request whose operations are decided one by one and answered together.
pub(crate) struct Gathering {
    pub place: Place,
    pub correlation: i32,
    pub version: i16,
    pub results: Vec<Option<Settled>>,
    pub open: usize,
}

/// Writes that wait to be judged or passed on, in order, and how many bytes they have.
#[derive(Default)]
pub(crate) struct Waitlist {
    writes: VecDeque<Write>,
    bytes: u64,
}

impl Waitlist {
    pub fn push_back(&mut self, write: Write) {
        self.bytes += size(&write);
        self.writes.push_back(write);
    }

    pub fn push_front(&mut self, write: Write) {
        self.bytes += size(&write);
        self.writes.push_front(write);
    }

    pub fn pop_front(&mut self) -> Option<Write> {
        let write = self.writes.pop_front()?;
        self.bytes -= size(&write);
        Some(write)
    }

    /// Takes out those that `which` picks.
    pub fn take(&mut self, mut which: impl FnMut(&Write) -> bool) -> Vec<Write> {
        if !self.writes.iter().any(&mut which) {
            return Vec::new();
        }
        let all = std::mem::take(&mut self.writes).into_iter();
        let (taken, kept): (Vec<Write>, Vec<Write>) = all.partition(which);
        self.writes = kept.into();
        self.bytes = self.writes.iter().map(size).sum();
        taken
    }

    pub fn len(&self) -> usize {
        self.writes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

fn size(write: &Write) -> u64 {
    match &write.request.operation {
        Operation::Write(body) => body.len() as u64,
        Operation::OpenSession { .. } | Operation::RenewSession(_) | Operation::CloseSession(_) => {
            0
        }
    }
}

/// All requests of clients that this node has not yet answered, but for those it passed on.
pub(crate) struct Clients<Q> {
    pub writes: Waitlist,
    pub reads: VecDeque<Read<Q>>,
    /// In the log, by offset.
    pub pending: VecDeque<Pending>,
    /// Waiting for proof of leadership.
    pub unproved: BTreeMap<Token, Vec<Waiting<Q>>>,
    /// Proved; waiting until the machine has applied so much.
    pub unapplied: BTreeMap<Offset, Vec<Waiting<Q>>>,
    pub gatherings: BTreeMap<u64, Gathering>,
    pub next_gathering: u64,
}

impl<Q> Clients<Q> {
    pub fn new() -> Clients<Q> {
        Clients {
            writes: Waitlist::default(),
            reads: VecDeque::new(),
            pending: VecDeque::new(),
            unproved: BTreeMap::new(),
            unapplied: BTreeMap::new(),
            gatherings: BTreeMap::new(),
            next_gathering: 0,
        }
    }

    /// Whether nothing is under way that could run out of time.
    pub fn is_idle(&self) -> bool {
        self.writes.is_empty()
            && self.reads.is_empty()
            && self.pending.is_empty()
            && self.unproved.is_empty()
            && self.unapplied.is_empty()
    }

    /// Opens a forwarded request of so many operations.
    pub fn gather(
        &mut self,
        place: Place,
        correlation: i32,
        version: i16,
        operations: usize,
    ) -> u64 {
        let gathering = self.next_gathering;
        self.next_gathering += 1;
        let results = std::iter::repeat_with(|| None).take(operations).collect();
        self.gatherings.insert(
            gathering,
            Gathering { place, correlation, version, results, open: operations },
        );
        gathering
    }

    /// Settles one operation; returns the gathering when it was the last one.
    pub fn settle(&mut self, gathering: u64, index: usize, settled: Settled) -> Option<Gathering> {
        let open = self.gatherings.get_mut(&gathering)?;
        assert!(
            open.results[index].is_none(),
            "operation {index} of a forwarded request is settled twice"
        );
        open.results[index] = Some(settled);
        open.open -= 1;
        if open.open > 0 {
            return None;
        }
        self.gatherings.remove(&gathering)
    }
}
