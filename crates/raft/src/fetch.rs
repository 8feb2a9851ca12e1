//! The leader's side of a fetch: check it, serve it, or park it until there is news.
//!
//! A parked fetch is never forgotten: an append, any move of the high watermark, a waiting read,
//! its expiry or the loss of leadership answers it, and each time everything is checked again
//! [P32].

use crate::effect::{Complaint, Effect, Ticket};
use crate::message::{ErrorKind, Fetch, FetchAnswer, FetchHighWatermark, Fetched, Response};
use crate::quorum::Quorum;
use crate::role::Role;
use quorate_base::{Epoch, Offset, OffsetEpoch, Span, Time};

/// How many fetches are held back at most; beyond that they are answered at once.
const PARKED: usize = 4_096;

/// A fetch that waits for news.
#[derive(Clone, Debug)]
pub(crate) struct Parked {
    pub(crate) ticket: Ticket,
    pub(crate) fetch: Fetch,
    pub(crate) voter: bool,
    pub(crate) expires_at: Time,
}

impl Quorum {
    pub(crate) fn on_fetch(&mut self, ticket: Ticket, fetch: Fetch, out: &mut Vec<Effect>) {
        if let Err(error) = self.may_fetch(&fetch) {
            return self.refuse_fetch(ticket, error, out);
        }
        if let Some(key) = fetch.replica
            && Some(key.id) == self.id()
        {
            out.push(Effect::Complain { what: Complaint::SharesOurId { id: key.id } });
            return self.refuse_fetch(ticket, ErrorKind::InvalidRequest, out);
        }
        // A diverging fetch says nothing about what its replica holds: it counts for nothing. Nor
        // does one of a log that is too old for this one [P56].
        if self.holds_all_of(fetch.from) {
            self.note_fetch(&fetch, out);
            if self.park(ticket, &fetch) {
                return;
            }
        }
        self.answer(ticket, &fetch, out);
    }

    /// The checks of a fetch in their order [P26].
    fn may_fetch(&self, fetch: &Fetch) -> Result<(), ErrorKind> {
        match fetch.from.epoch > fetch.epoch {
            true => Err(ErrorKind::InvalidRequest),
            false => self.may_serve(fetch.epoch),
        }
    }

    /// Where a log that ends like this leaves ours; `None` if it is a prefix of ours [P27].
    pub(crate) fn diverging(&self, from: OffsetEpoch) -> Option<OffsetEpoch> {
        if from.offset == Offset::ZERO && self.start == Offset::ZERO {
            return None;
        }
        let own = self.epochs.end_of(from.epoch, self.end);
        let own = own.unwrap_or(OffsetEpoch::new(self.start, Epoch::ZERO));
        (own.epoch != from.epoch || own.offset < from.offset).then_some(own)
    }

    /// Whether a log that ends like this holds nothing but what this one holds, as far as epochs
    /// and offsets tell.
    pub fn holds_all_of(&self, from: OffsetEpoch) -> bool {
        self.snapshot_for(from).is_none() && self.diverging(from).is_none()
    }

    /// Holds a valid fetch back if there is nothing to tell. False if it must be answered [P31].
    fn park(&mut self, ticket: Ticket, fetch: &Fetch) -> bool {
        let news = match fetch.high_watermark {
            FetchHighWatermark::Unsaid => false,
            FetchHighWatermark::Known(known) => known < self.high_watermark,
        };
        if fetch.from.offset < self.end || fetch.max_wait == Span::ZERO || news {
            return false;
        }
        let voter = fetch.replica.is_some_and(|key| self.decrees.voters().contains(key));
        let Role::Leader(leader) = &mut self.role else { return false };
        // A read waits for this voter to come back with the round that the answer will carry.
        let read = voter && fetch.round.is_some_and(|echo| leader.reads.wait_beyond(echo));
        if read || leader.parked.len() >= PARKED {
            return false;
        }
        let expires_at = self.now + fetch.max_wait;
        leader.parked.push(Parked { ticket, fetch: fetch.clone(), voter, expires_at });
        true
    }

    /// Answers the parked fetches that `which` picks, as if they had come now.
    pub(crate) fn unpark(&mut self, which: impl Fn(&Parked) -> bool, out: &mut Vec<Effect>) {
        let Role::Leader(leader) = &mut self.role else { return };
        let mut parked = std::mem::take(&mut leader.parked);
        for parked in parked.extract_if(.., |parked| which(parked)) {
            self.answer(parked.ticket, &parked.fetch, out);
        }
        if let Role::Leader(leader) = &mut self.role {
            leader.parked = parked; // Kept for its room too.
        }
    }

    fn answer(&mut self, ticket: Ticket, fetch: &Fetch, out: &mut Vec<Effect>) {
        if let Err(error) = self.may_fetch(fetch) {
            return self.refuse_fetch(ticket, error, out);
        }
        let snapshot = self.snapshot_for(fetch.from).map(Fetched::Snapshot);
        let diverging = || self.diverging(fetch.from).map(Fetched::Diverging);
        let fetched = match snapshot.or_else(diverging) {
            Some(other) => other,
            // Empty where there is only news of the high watermark: what the caller appends before
            // it sends the answer may come along.
            None => Fetched::Range {
                start: fetch.from.offset,
                end: self.end,
                max_bytes: fetch.max_bytes,
            },
        };
        if let Fetched::Snapshot(named) = fetched {
            self.hold_snapshot(fetch.replica, named);
        }
        let round = match &mut self.role {
            Role::Leader(leader) => fetch.round.map(|_| leader.reads.tell()),
            Role::Unattached(_)
            | Role::Prospective(_)
            | Role::Candidate(_)
            | Role::Follower(_)
            | Role::Resigned(_) => None,
        };
        let body = Response::Fetch(FetchAnswer {
            view: self.leader_view(ErrorKind::None),
            high_watermark: self.high_watermark,
            start: self.start,
            fetched,
            round,
            cleaned: None,
            bound: round.and_then(|_| self.tell_bound()),
            history: None,
        });
        // Records need not be durable here to be copied [P43]; that this node leads must be [P44].
        self.reply(ticket, self.shown(), body, out);
    }

    pub(crate) fn refuse_fetch(&mut self, ticket: Ticket, error: ErrorKind, out: &mut Vec<Effect>) {
        let answer = FetchAnswer::refusal(self.leader_view(error), self.start);
        let body = Response::Fetch(answer);
        self.reply(ticket, self.shown(), body, out);
    }
}
