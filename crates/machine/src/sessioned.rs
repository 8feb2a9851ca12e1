//! Exactly once: a wrapper that gives any machine sessions.
//!
//! A stamped write is applied once, however often it arrives: its answer is logged in the same
//! group as its effect, one record per slot of the session, so that compaction keeps the newest and
//! a snapshot holds them all. A refusal is logged as well: judged again later it might not be one,
//! and then a delayed copy would do what its client was told did not happen. Sessions end by
//! records too, which the leader proposes when nothing was heard for the session's time to live; a
//! new leader, which heard nothing yet, grants each a full one, and so does one that could take
//! nothing for a while. The format level of the whole is one more record that is kept here
//! (docs/decisions/0010-format-level.md). The inner machine sees only its own records.

use crate::digest::Hash;
use crate::leaves::Leaves;
use crate::level_record::{LEVEL_KEY, decode_level, encode_level};
use crate::request::{Answer, Operation, Request, SessionId, SessionRefusal, Stamp};
use crate::session_record::{
    PREFIX, Slot, decode_session, encode_session, session_key, session_of, slot_key,
};
use crate::tail::Tail;
use crate::{Batch, Corrupt, Image, Machine, Proposal, Record, Records};
use bytes::Bytes;
use quorate_base::{Epoch, FormatLevel, Offset, OffsetEpoch, Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Most sessions open at a time.
pub const MAX_SESSIONS: u32 = 10_000;
/// Slots of a session are below this.
pub const MAX_SESSION_SLOTS: u16 = 1_024;
/// Shortest time to live.
pub const MIN_SESSION_TTL: Span = Span::ms(1_000);
/// Longest time to live.
pub const MAX_SESSION_TTL: Span = Span::ms(24 * 60 * 60 * 1_000);

/// One `wake` proposes no further session's end once it has proposed this many records.
const EXPIRY_RECORDS: usize = 4_096;

const LEADER: &str = "only a leader is asked to propose";

/// A machine with sessions around it.
pub struct Sessioned<M> {
    inner: M,
    /// The records under session keys, understood or not, and that of the format level.
    state: Leaves,
    lead: Option<Lead>,
    #[cfg(mutants)]
    forgets_stamps: bool,
}

/// What only a leader has.
struct Lead {
    tail: Tail<Bytes>,
    /// The sessions on the tail.
    live: BTreeMap<SessionId, Life>,
    /// Invariant: no session of `live` expires before. Early is harmless, so renewals leave it
    /// alone.
    check_at: Time,
}

struct Life {
    ttl: Span,
    expires_at: Time,
}

impl<M> Sessioned<M> {
    /// Wraps a machine. Both must be empty, or be restored together.
    pub fn new(inner: M) -> Sessioned<M> {
        Sessioned {
            inner,
            state: Leaves::default(),
            lead: None,
            #[cfg(mutants)]
            forgets_stamps: false,
        }
    }

    /// Breaks a rule: no answer is kept, so a repeated write is done again.
    #[cfg(mutants)]
    pub fn forgetting_stamps(self) -> Sessioned<M> {
        Sessioned { forgets_stamps: true, ..self }
    }

    /// The wrapped machine.
    pub fn inner(&self) -> &M {
        &self.inner
    }

    /// Records that sessions occupy in the state: one each, and one per slot used.
    pub fn session_records(&self) -> usize {
        self.state.len() - usize::from(self.state.get(&LEVEL_KEY).is_some())
    }

    /// Session records that this leader proposed and has not applied yet; 0 on others.
    pub fn pending_session_records(&self) -> usize {
        let level = |lead: &Lead| usize::from(lead.tail.get(&LEVEL_KEY).is_some());
        self.lead.as_ref().map_or(0, |lead| lead.tail.len() - level(lead))
    }

    /// The level that the applied state has.
    fn level(&self) -> FormatLevel {
        self.state.get(&LEVEL_KEY).map_or(FormatLevel::ZERO, |entry| decode_level(entry.value()))
    }

    fn lead_mut(&mut self) -> &mut Lead {
        self.lead.as_mut().expect(LEADER)
    }

    /// The newest write of a slot on the tail. The outer `None`: there is a record, in a newer
    /// format.
    fn slot(&self, key: &[u8]) -> Option<Option<Slot>> {
        let tail = &self.lead.as_ref().expect(LEADER).tail;
        let value = match tail.get(key) {
            Some(pending) => pending.value.clone(),
            None => self.state.get(key).map(|entry| entry.shared_value()),
        };
        value.map_or(Some(None), |value| Slot::decode(&value).map(Some))
    }

    /// Judges whether a stamped write is to reach the machine.
    fn admit(&mut self, now: Time, stamp: Stamp) -> Result<(), Answer> {
        let refuse = |why| Err(Answer::Session(why));
        if stamp.slot >= MAX_SESSION_SLOTS {
            return refuse(SessionRefusal::SlotTooHigh { limit: MAX_SESSION_SLOTS });
        }
        let Some(life) = self.lead_mut().live.get_mut(&stamp.session) else {
            return refuse(SessionRefusal::Unknown);
        };
        life.expires_at = now + life.ttl;
        match self.slot(&slot_key(stamp.session, stamp.slot)) {
            Some(None) => Ok(()),
            Some(Some(kept)) if kept.sequence < stamp.sequence => Ok(()),
            Some(Some(kept)) if kept.sequence == stamp.sequence => Err(kept.answer),
            Some(Some(kept)) => refuse(SessionRefusal::Stale { kept: kept.sequence }),
            // What cannot be read cannot be compared; refusing is the side that never applies
            // twice.
            None => refuse(SessionRefusal::Unknown),
        }
    }

    /// Logs the answer of a write that reached the machine.
    fn keep(&mut self, at: Offset, stamp: Stamp, answer: &Answer, out: &mut Proposal) {
        #[cfg(mutants)]
        if self.forgets_stamps {
            return;
        }
        let slot = Slot { sequence: stamp.sequence, answer: answer.clone() };
        let value = slot.encode().expect("a wrapped machine answers a write with Done or Refused");
        self.set(at, &slot_key(stamp.session, stamp.slot), value, out);
    }

    fn open(&mut self, now: Time, at: Offset, ttl: Span, out: &mut Proposal) -> Answer {
        if !(MIN_SESSION_TTL..=MAX_SESSION_TTL).contains(&ttl) {
            let (least, most) = (MIN_SESSION_TTL, MAX_SESSION_TTL);
            return Answer::Session(SessionRefusal::TtlOutOfBounds { least, most });
        }
        let lead = self.lead_mut();
        if lead.live.len() >= MAX_SESSIONS as usize {
            return Answer::Session(SessionRefusal::TooManySessions { limit: MAX_SESSIONS });
        }
        let session = SessionId(at);
        lead.admit(now, session, ttl);
        self.set(at, &session_key(session), encode_session(ttl).to_vec(), out);
        Answer::Opened(session)
    }

    fn renew(&mut self, now: Time, at: Offset, session: SessionId, out: &mut Proposal) -> Answer {
        let Some(life) = self.lead_mut().live.get_mut(&session) else {
            return Answer::Session(SessionRefusal::Unknown);
        };
        life.expires_at = now + life.ttl;
        let value = encode_session(life.ttl).to_vec();
        self.set(at, &session_key(session), value, out);
        Answer::Done(Bytes::new())
    }

    fn close(&mut self, at: Offset, session: SessionId, out: &mut Proposal) -> Answer {
        if self.lead_mut().live.contains_key(&session) {
            self.end(at, session, out);
        }
        Answer::Done(Bytes::new())
    }

    fn set(&mut self, at: Offset, key: &[u8], value: Vec<u8>, out: &mut Proposal) {
        out.record(Some(key), Some(&value));
        self.lead_mut().tail.put(Bytes::copy_from_slice(key), at, Some(value.into()));
    }

    /// Deletes a live session and all its slots.
    fn end(&mut self, at: Offset, session: SessionId, out: &mut Proposal) {
        let lead = self.lead.as_mut().expect(LEADER);
        let prefix = session_key(session);
        // A live session has no tombstones on the tail: only its end makes some.
        let pending = lead.tail.with_prefix(&prefix).map(|(key, _)| key.clone());
        let applied = self.state.with_prefix(&prefix).map(|entry| entry.shared_key());
        let keys: BTreeSet<Bytes> = pending.chain(applied).collect();
        for (nth, key) in (0..).zip(keys) {
            out.record(Some(&key), None);
            lead.tail.put(key, at + nth, None);
        }
        lead.live.remove(&session);
    }
}

impl Lead {
    fn admit(&mut self, now: Time, session: SessionId, ttl: Span) {
        let expires_at = now + ttl;
        self.live.insert(session, Life { ttl, expires_at });
        self.check_at = self.check_at.min(expires_at);
    }

    /// Grants every session of the state a full time to live.
    fn begin(now: Time, state: &Leaves) -> Lead {
        let mut lead = Lead { tail: Tail::new(), live: BTreeMap::new(), check_at: Time::NEVER };
        let mut from = Some(SessionId(Offset::ZERO));
        // From session to session, over the slots of each in one step.
        while let Some(session) = from
            && let Some(entry) = state.from(&session_key(session)).next()
            && let Some(session) = session_of(entry.key())
        {
            if entry.key() == session_key(session)
                && let Some(ttl) = decode_session(entry.value())
            {
                lead.admit(now, session, ttl);
            }
            from = session.0.0.checked_add(1).map(|next| SessionId(Offset(next)));
        }
        lead
    }
}

impl<M: Machine> Machine for Sessioned<M> {
    type Query = M::Query;
    type Reply = M::Reply;

    fn fresh(&self) -> Sessioned<M> {
        Sessioned {
            inner: self.inner.fresh(),
            state: Leaves::default(),
            lead: None,
            #[cfg(mutants)]
            forgets_stamps: self.forgets_stamps,
        }
    }

    fn view(&self) -> Sessioned<M> {
        Sessioned {
            inner: self.inner.view(),
            state: self.state.clone(),
            lead: None,
            #[cfg(mutants)]
            forgets_stamps: self.forgets_stamps,
        }
    }

    fn apply(&mut self, batch: &Batch<'_>) {
        let mut own = 0;
        for record in batch.records {
            let Some(key) = record.key.filter(|key| is_own(Some(key))) else { continue };
            own += 1;
            match record.value {
                Some(value) => self.state.put(key, value, record.offset),
                None => self.state.remove(key),
            };
            if let Some(lead) = &mut self.lead {
                lead.tail.applied(key, record.offset);
            }
        }
        if own == 0 {
            self.inner.apply(batch);
        } else if own < batch.records.len() {
            let records: Vec<Record<'_>> =
                batch.records.iter().filter(|record| !is_own(record.key)).copied().collect();
            self.inner.apply(&Batch { records: &records, ..*batch });
        }
    }

    fn query(&self, query: &M::Query) -> M::Reply {
        self.inner.query(query)
    }

    fn digest(&self) -> u64 {
        Hash::new().number(self.state.digest()).number(self.inner.digest()).finish()
    }

    fn snapshot(&self) -> Image {
        Image::new(self.state.image().chain(self.inner.snapshot()))
    }

    fn restore(&mut self, at: OffsetEpoch, records: &mut Records<'_>) -> Result<(), Corrupt> {
        assert!(self.lead.is_none(), "a leader never goes back to a snapshot");
        self.state = Leaves::default();
        let mut own = Ok(());
        let mut others = std::iter::from_fn(|| {
            while own.is_ok() {
                let record = records.next()?;
                if !is_own(record.key.as_deref()) {
                    return Some(record);
                }
                own = self.state.restore(at, &record);
            }
            None
        });
        self.inner.restore(at, &mut others)?;
        // The machine may have stopped early; sessions do not.
        others.by_ref().for_each(drop);
        own
    }

    fn lead(&mut self, now: Time, since: Option<(Epoch, Offset)>) {
        self.lead = since.map(|_| Lead::begin(now, &self.state));
        self.inner.lead(now, since);
    }

    fn propose(&mut self, now: Time, at: Offset, request: &Request, out: &mut Proposal) {
        let answer = match (&request.operation, request.stamp) {
            (Operation::OpenSession { ttl }, _) => self.open(now, at, *ttl, out),
            (Operation::RenewSession(session), _) => self.renew(now, at, *session, out),
            (Operation::CloseSession(session), _) => self.close(at, *session, out),
            (Operation::Write(_), None) => return self.inner.propose(now, at, request, out),
            (Operation::Write(_), Some(stamp)) => match self.admit(now, stamp) {
                Err(answer) => answer,
                Ok(()) => {
                    let before = out.len();
                    self.inner.propose(now, at, request, out);
                    let answer = out.take_answer().expect("a machine answers each request");
                    self.keep(at + (out.len() - before) as u64, stamp, &answer, out);
                    answer
                }
            },
        };
        out.answer(answer);
    }

    fn wake(&mut self, now: Time, at: Offset, out: &mut Proposal) {
        let before = out.len();
        let lead = self.lead_mut();
        if lead.check_at <= now {
            let due = lead.live.iter().filter(|(_, life)| life.expires_at <= now);
            let due: Vec<SessionId> = due.map(|(session, _)| *session).collect();
            for session in due {
                if out.len() - before >= EXPIRY_RECORDS {
                    break;
                }
                self.end(at + (out.len() - before) as u64, session, out);
                out.close_group();
            }
            let lead = self.lead_mut();
            lead.check_at =
                lead.live.values().map(|life| life.expires_at).min().unwrap_or(Time::NEVER);
        }
        self.inner.wake(now, at + (out.len() - before) as u64, out);
    }

    fn format_level(&self) -> Option<FormatLevel> {
        Some(self.level())
    }

    fn level_in(record: &Record<'_>) -> Option<FormatLevel> {
        (record.key == Some(&LEVEL_KEY))
            .then(|| record.value.map_or(FormatLevel::ZERO, decode_level))
    }

    fn raise(&mut self, at: Offset, level: FormatLevel, out: &mut Proposal) {
        let pending =
            self.lead_mut().tail.get(&LEVEL_KEY).and_then(|pending| pending.value.clone());
        let now = pending.map_or(self.level(), |value| decode_level(&value));
        if level > now {
            self.set(at, &LEVEL_KEY, encode_level(level).to_vec(), out);
            out.close_group();
        }
    }

    fn grant(&mut self, now: Time) {
        let lead = self.lead_mut();
        for life in lead.live.values_mut() {
            life.expires_at = now + life.ttl;
        }
        self.inner.grant(now);
    }

    fn deadline(&self) -> Time {
        let sessions = self.lead.as_ref().map_or(Time::NEVER, |lead| lead.check_at);
        sessions.min(self.inner.deadline())
    }
}

fn is_own(key: Option<&[u8]>) -> bool {
    key.is_some_and(|key| key.starts_with(&PREFIX) || *key == LEVEL_KEY)
}
