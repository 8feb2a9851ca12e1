//! Random histories, each a seed: the store with sessions against a model, the locks against the
//! rules.
//!
//! Requests come in turns, commits lag behind, leaders change and lose what was not committed. Each
//! history is then replayed in every form (`Quorum::check`).

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

mod harness;

use bytes::Bytes;
use harness::{Quorum, locks::Locks};
use quorate_base::{Offset, Rng, Span, Time};
use quorate_machine::kv::{Condition, Found, Outcome, Query, Reply, Write};
use quorate_machine::{
    Answer, Kv, Machine, Operation, Request, SessionId, SessionRefusal, Sessioned, Stamp,
};
use std::collections::BTreeMap;

const TTL: Span = Span::ms(3_000);

/// What a store with sessions should hold, the plain way: one map a question.
#[derive(Clone, Default)]
struct Model {
    keys: BTreeMap<Vec<u8>, (Vec<u8>, Offset)>,
    /// Of each session its slots: the newest sequence and its answer.
    sessions: BTreeMap<SessionId, BTreeMap<u16, (u64, Answer)>>,
}

impl Model {
    /// The answer that is right, and how many records it takes.
    fn judge(&mut self, at: Offset, request: &Request) -> (Answer, u64) {
        let unknown = Answer::Session(SessionRefusal::Unknown);
        let done = Answer::Done(Bytes::new());
        match (&request.operation, request.stamp) {
            (Operation::OpenSession { .. }, _) => {
                self.sessions.insert(SessionId(at), BTreeMap::new());
                (Answer::Opened(SessionId(at)), 1)
            }
            (Operation::RenewSession(session), _) => match self.sessions.contains_key(session) {
                true => (done, 1),
                false => (unknown, 0),
            },
            (Operation::CloseSession(session), _) => {
                let ended = self.sessions.remove(session);
                (done, ended.map_or(0, |slots| 1 + slots.len() as u64))
            }
            (Operation::Write(bytes), None) => self.write(at, bytes),
            (Operation::Write(bytes), Some(stamp)) => {
                let Some(slots) = self.sessions.get(&stamp.session) else { return (unknown, 0) };
                match slots.get(&stamp.slot) {
                    Some((kept, answer)) if *kept == stamp.sequence => (answer.clone(), 0),
                    Some((kept, _)) if *kept > stamp.sequence => {
                        (Answer::Session(SessionRefusal::Stale { kept: *kept }), 0)
                    }
                    Some(_) | None => {
                        let (answer, records) = self.write(at, bytes);
                        let slots = self.sessions.get_mut(&stamp.session).unwrap();
                        slots.insert(stamp.slot, (stamp.sequence, answer.clone()));
                        (answer, records + 1)
                    }
                }
            }
        }
    }

    fn write(&mut self, at: Offset, bytes: &[u8]) -> (Answer, u64) {
        let write = Write::decode(bytes).unwrap();
        let current = self.keys.get(write.key()).map(|(_, version)| *version);
        let met = match write.condition() {
            Condition::Always => true,
            Condition::IfVersion(version) => current == Some(version),
            Condition::IfAbsent => current.is_none(),
            Condition::IfPresent => current.is_some(),
        };
        let (outcome, records) = match write {
            _ if !met => (Outcome::ConditionFailed { current }, 0),
            Write::Put { key, value, .. } => {
                self.keys.insert(key.to_vec(), (value.to_vec(), at));
                (Outcome::Written { version: at, previous: current }, 1)
            }
            Write::Delete { key, .. } => match self.keys.remove(key) {
                Some((_, previous)) => (Outcome::Deleted { at, previous }, 1),
                None => (Outcome::Absent, 0),
            },
        };
        (answer(outcome), records)
    }
}

/// The answer whose bytes say this.
fn answer(outcome: Outcome) -> Answer {
    let (kind, words): (u8, Vec<u64>) = match outcome {
        Outcome::Written { version, previous: None } => (0, vec![version.0]),
        Outcome::Written { version, previous: Some(previous) } => (1, vec![version.0, previous.0]),
        Outcome::Deleted { at, previous } => (2, vec![at.0, previous.0]),
        Outcome::Absent => (3, vec![]),
        Outcome::ConditionFailed { current: Some(version) } => (4, vec![version.0]),
        Outcome::ConditionFailed { current: None } => (5, vec![]),
        Outcome::Invalid(_) => unreachable!("only valid writes are made here"),
    };
    let mut bytes = vec![0, kind];
    words.iter().for_each(|word| bytes.extend_from_slice(&word.to_be_bytes()));
    match kind {
        0..=3 => Answer::Done(bytes.into()),
        _ => Answer::Refused(bytes.into()),
    }
}

/// A store, and the model after each batch of its log.
struct History {
    rng: Rng,
    store: Quorum<Sessioned<Kv>>,
    models: Vec<Model>,
    /// When each session was last heard of, on the present leader's clock.
    heard: BTreeMap<SessionId, Time>,
    /// What happened, so that a history in which little does cannot pass.
    duplicates: usize,
    expiries: usize,
    lost: usize,
}

impl History {
    fn new(seed: u64) -> History {
        History {
            rng: Rng::new(seed),
            store: Quorum::new(|| Sessioned::new(Kv::new())),
            models: vec![Model::default()],
            heard: BTreeMap::new(),
            duplicates: 0,
            expiries: 0,
            lost: 0,
        }
    }

    fn step(&mut self) {
        match self.rng.below(20) {
            0 => self.elect(),
            1..=2 => self.wait(),
            3..=7 => self.store.commit(self.rng.below(4) as usize),
            8 if self.rng.one_in(4) => self.store.settle(),
            _ => self.turn(),
        }
        self.look();
    }

    fn turn(&mut self) {
        let mut model = self.models.last().unwrap().clone();
        let mut at = self.store.end();
        let (mut requests, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..1 + self.rng.below(4) {
            let request = self.request(&model);
            let (answer, records) = model.judge(at, &request);
            self.duplicates += usize::from(request.stamp.is_some() && records == 0);
            at = at + records;
            let session = match (&request.operation, request.stamp) {
                (Operation::Write(_), stamp) => stamp.map(|stamp| stamp.session),
                (Operation::RenewSession(session), _) => Some(*session),
                (Operation::CloseSession(_) | Operation::OpenSession { .. }, _) => None,
            };
            let opened = if let Answer::Opened(session) = answer { Some(session) } else { None };
            let heard = session.or(opened);
            self.heard.extend(heard.map(|session| (session, self.store.now)));
            requests.push(request);
            expected.push(answer);
        }
        let batches = self.store.log.len();
        assert_eq!(self.store.turn(&requests), expected, "{requests:#?}");
        assert_eq!(self.store.end(), at, "records of {requests:#?}");
        if self.store.log.len() > batches {
            self.models.push(model);
        }
    }

    fn request(&mut self, model: &Model) -> Request {
        let sessions: Vec<SessionId> = model.sessions.keys().copied().collect();
        // Now and then a session that is not, or not any more.
        let session = match self.rng.below(sessions.len() as u64 + 1) as usize {
            at if at < sessions.len() => sessions[at],
            _ => SessionId(Offset(self.rng.below(self.store.end().0))),
        };
        match self.rng.below(24) {
            0 => Request::open_session(TTL),
            1 => Request::renew_session(session),
            2 => Request::close_session(session),
            3..=8 => Request::write(self.write(model)),
            _ => {
                let slot = self.rng.below(3) as u16;
                let kept = model.sessions.get(&session).and_then(|slots| slots.get(&slot));
                let kept = kept.map_or(0, |(sequence, _)| *sequence);
                let sequence = (kept + 3).saturating_sub(self.rng.below(5));
                Request::stamped(Stamp { session, slot, sequence }, self.write(model))
            }
        }
    }

    fn write(&mut self, model: &Model) -> Bytes {
        let key = [b"k", &self.rng.below(6).to_string().into_bytes()[..]].concat();
        let value = self.rng.below(1_000).to_string().into_bytes();
        let version = model.keys.get(&key).map_or(Offset(3), |(_, version)| *version);
        let condition = match self.rng.below(6) {
            0 => Condition::IfAbsent,
            1 => Condition::IfPresent,
            2 => Condition::IfVersion(version),
            3 => Condition::IfVersion(Offset(version.0 / 2)),
            _ => Condition::Always,
        };
        let write = match self.rng.one_in(3) {
            true => Write::Delete { key: &key, condition },
            false => Write::Put { key: &key, value: &value, condition },
        };
        write.encode().unwrap()
    }

    fn elect(&mut self) {
        let kept = self.rng.below(4) as usize;
        let leader = self.rng.below(3) as usize;
        let before = self.store.log.len();
        self.store.elect(leader, kept);
        self.lost += before - self.store.log.len();
        self.models.truncate(1 + self.store.log.len());
        self.heard.values_mut().for_each(|at| *at = self.store.now);
    }

    fn wait(&mut self) {
        let from = self.store.log.len();
        let until = self.store.now + TTL;
        self.store.wait(Span(self.rng.below(TTL.0)));
        for batch in &self.store.log[from..] {
            let mut model = self.models.last().unwrap().clone();
            for record in &batch.records {
                let key = record.key.as_deref().unwrap();
                assert_eq!(record.value, None, "time ends sessions and does nothing else");
                let session = SessionId(Offset(u64::from_be_bytes(key[2..10].try_into().unwrap())));
                if model.sessions.remove(&session).is_some() {
                    let due = self.heard[&session] + TTL;
                    assert_eq!(
                        batch.timestamp_ms,
                        (due.0 / 1_000) as i64,
                        "{session:?} ends when due"
                    );
                    assert!(due <= until);
                    self.expiries += 1;
                }
            }
            self.models.push(model);
        }
    }

    /// The leader's committed state is the model's.
    fn look(&self) {
        let model = &self.models[self.store.committed];
        let query = Query::List { prefix: Bytes::new(), after: None, limit: 100 };
        let Reply::List { items, more: false } = self.store.machine().query(&query) else {
            panic!("a list of few keys is whole");
        };
        let found = items.iter().map(|item| (&item.key[..], &item.value[..], item.version));
        let expected = model.keys.iter().map(|(key, (value, at))| (&key[..], &value[..], *at));
        assert!(found.eq(expected));
        let slots: usize = model.sessions.values().map(BTreeMap::len).sum();
        assert_eq!(self.store.machine().session_records(), model.sessions.len() + slots);
        if self.store.committed == self.store.log.len() {
            assert_eq!(self.store.machine().pending_session_records(), 0);
            assert_eq!(self.store.machine().inner().pending(), 0);
        }
    }
}

#[test]
fn a_store_with_sessions_agrees_with_its_model() {
    let (mut duplicates, mut expiries, mut lost) = (0, 0, 0);
    for seed in 0..60 {
        let mut history = History::new(seed);
        for step in 0..300 {
            history.step();
            if step % 100 == 99 {
                history.store.check();
            }
        }
        history.store.settle();
        history.look();
        history.store.check();
        duplicates += history.duplicates;
        expiries += history.expiries;
        lost += history.lost;
    }
    let (duplicates, expiries, lost) = (duplicates > 5_000, expiries > 300, lost > 300);
    assert!(
        duplicates && expiries && lost,
        "{duplicates} {expiries} {lost}: the histories are tame"
    );
}

/// What all replicas hold under `k`.
fn committed_value(store: &Quorum<Sessioned<Kv>>) -> Option<Found> {
    match store.machine().query(&Query::Get { key: "k".into() }) {
        Reply::Get(found) => found,
        other @ (Reply::List { .. } | Reply::Stat(_)) => {
            panic!("a get is answered as one: {other:?}")
        }
    }
}

/// A client that asks until it is answered, though answers and uncommitted writes get lost.
#[test]
fn a_write_that_is_retried_until_answered_happens_once() {
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let mut store: Quorum<Sessioned<Kv>> = Quorum::new(|| Sessioned::new(Kv::new()));
        let Answer::Opened(session) = store.propose(&Request::open_session(TTL)) else {
            panic!("it opens");
        };
        store.settle();
        for number in 1..30u64 {
            let value = number.to_string();
            let put =
                Write::Put { key: b"k", value: value.as_bytes(), condition: Condition::Always };
            let stamp = Stamp { session, slot: 0, sequence: number };
            let request = Request::stamped(stamp, put.encode().unwrap());
            let mut first_committed: Option<Answer> = None;
            // All is committed between two writes.
            let previous = committed_value(&store).map(|found| found.version);
            loop {
                let answer = store.propose(&request);
                if let Some(first) = &first_committed {
                    assert_eq!(answer, *first, "seed {seed}: the same write, the same answer");
                }
                // The leader dies before or after the commit, or the answer gets lost, or arrives.
                match rng.below(4) {
                    0 => store.elect(rng.below(3) as usize, rng.below(2) as usize),
                    1 => store.commit(1),
                    2 => {}
                    _ => {
                        store.commit(usize::MAX / 2);
                        break;
                    }
                }
                if store.committed == store.log.len() && first_committed.is_none() {
                    first_committed = committed_value(&store)
                        .filter(|found| found.value == value.as_bytes())
                        .map(|Found { version, .. }| Outcome::Written { version, previous })
                        .map(self::answer);
                }
            }
        }
        let records = store.log.iter().flat_map(|batch| &batch.records);
        let values: Vec<_> = records
            .filter(|record| record.key.as_deref() == Some(b"k"))
            .map(|record| String::from_utf8(record.value.clone().unwrap().to_vec()).unwrap())
            .collect();
        let once: Vec<_> = (1..30u64).map(|number| number.to_string()).collect();
        assert_eq!(values, once, "seed {seed}");
        store.settle();
        store.check();
    }
}

/// The rules are read off the committed log, not off a model. Times are round, so that sessions and
/// locks often end in the same moment.
#[test]
fn locks_have_one_holder_and_rising_tickets() {
    let (mut takes, mut expiries) = (0, 0);
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut locks: Quorum<Sessioned<Locks>> = Quorum::new(|| Sessioned::new(Locks::default()));
        let mut session = None;
        for _ in 0..200 {
            match rng.below(10) {
                0 => locks.elect(rng.below(3) as usize, rng.below(3) as usize),
                1..=2 => locks.wait(Span::ms(500 * rng.below(5))),
                3..=4 => locks.commit(rng.below(4) as usize),
                5 => {
                    if let Answer::Opened(opened) = locks.propose(&Request::open_session(TTL)) {
                        session = Some(opened);
                    }
                }
                _ => {
                    let (name, holder) = (rng.below(4), rng.below(3));
                    let text = match rng.one_in(4) {
                        true => format!("free lock{name} client{holder}"),
                        false => {
                            format!("take lock{name} client{holder} {}", 500 * (1 + rng.below(6)))
                        }
                    };
                    let request = Request::write(text.into_bytes());
                    let stamp = session.map(|session| Stamp {
                        session,
                        slot: rng.below(2) as u16,
                        sequence: rng.below(100),
                    });
                    let stamp = stamp.filter(|_| rng.one_in(2));
                    locks.turn(&[Request { stamp, ..request.clone() }, request]);
                }
            }
        }
        locks.settle();
        locks.check();

        let (mut held, mut last_ticket) = (BTreeMap::new(), 0);
        let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        for batch in &locks.log {
            for record in &batch.records {
                let key = record.key.as_ref().unwrap();
                if key[0] == 0 {
                    continue; // a session's
                }
                let key = text(key);
                match record.value.as_ref().map(text) {
                    Some(ticket) if key == "#" => {
                        let ticket: u64 = ticket.parse().unwrap();
                        assert_eq!(ticket, last_ticket + 1, "seed {seed}");
                        last_ticket = ticket;
                        takes += 1;
                    }
                    Some(_) if key == "!" => expiries += 1,
                    Some(value) => {
                        let other = held.insert(key, value);
                        assert_eq!(other, None, "seed {seed}: taken while held");
                    }
                    None => {
                        assert!(held.remove(&key).is_some(), "seed {seed}: freed while free");
                    }
                }
            }
        }
        assert_eq!(locks.machine().pending_session_records(), 0);
        for (name, value) in held {
            assert_eq!(locks.machine().query(&name), Some(value), "seed {seed}");
        }
    }
    assert!(takes > 1_000 && expiries > 500, "{takes} {expiries}: the histories are tame");
}
