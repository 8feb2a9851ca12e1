//! Snapshots of random histories: of every prefix of a log, the image and the rest lead where the
//! log alone leads, in state and in answers; and a record that is wrong is refused by its offset.
//!
//! An image is read only after all that followed was applied, so one that follows its machine is
//! found out. Each history is a seed.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test ends where a fact is missing; a test may use files, threads and clocks"
)]

mod harness;

use bytes::Bytes;
use harness::{Logged, Quorum, apply, locks::Locks};
use quorate_base::{Epoch, FormatLevel, Offset, OffsetEpoch, Rng, Span, Time};
use quorate_machine::kv::{Condition, Query, Reply, Write};
use quorate_machine::{
    Answer, Corrupt, Kv, Machine, Operation, OwnedRecord, Proposal, Request, SessionId, Sessioned,
    Stamp,
};
use std::fmt::Debug;

const TTL: Span = Span::ms(3_000);

/// What a history is made of; `write` makes up a write.
fn history<M: Machine>(seed: u64, make: fn() -> M, write: fn(&mut Rng) -> Bytes) -> Past<M> {
    let mut rng = Rng::new(seed);
    let mut quorum = Quorum::new(make);
    let (mut sessions, mut requests): (Vec<SessionId>, Vec<Request>) = Default::default();
    for round in 0..400 {
        if round % 150 == 100 {
            quorum.raise(FormatLevel(round / 100));
        }
        match rng.below(12) {
            0 => quorum.elect(rng.below(3) as usize, rng.below(3) as usize),
            1 => quorum.wait(Span::ms(rng.below(1_500))),
            2..=4 => quorum.commit(rng.below(4) as usize),
            _ => {
                let of_session =
                    |rng: &mut Rng| sessions[rng.below(sessions.len() as u64) as usize];
                let operation = match rng.below(12) {
                    0 => Operation::OpenSession { ttl: TTL },
                    1 if !sessions.is_empty() => Operation::RenewSession(of_session(&mut rng)),
                    2 if !sessions.is_empty() => Operation::CloseSession(of_session(&mut rng)),
                    _ => Operation::Write(write(&mut rng)),
                };
                let is_write = matches!(operation, Operation::Write(_));
                let stamp = (is_write && !sessions.is_empty() && rng.one_in(2)).then(|| Stamp {
                    session: of_session(&mut rng),
                    slot: rng.below(3) as u16,
                    sequence: rng.below(40),
                });
                let request = Request { operation, stamp };
                if let Answer::Opened(session) = quorum.propose(&request) {
                    sessions.push(session);
                }
                requests.push(request);
            }
        }
    }
    quorum.settle();
    Past { seed, make, log: quorum.log, requests }
}

struct Past<M> {
    seed: u64,
    make: fn() -> M,
    log: Vec<Logged>,
    requests: Vec<Request>,
}

impl<M: Machine<Reply: PartialEq + Debug>> Past<M> {
    fn replay(&self, batches: &[Logged]) -> M {
        let mut machine = (self.make)();
        batches.iter().for_each(|batch| apply(&mut machine, batch));
        machine
    }

    /// Where the log ends after so many batches.
    fn at(&self, batches: usize) -> OffsetEpoch {
        let last = batches.checked_sub(1).map(|last| &self.log[last]);
        last.map_or(OffsetEpoch::default(), |last| OffsetEpoch::new(last.end, last.epoch))
    }

    /// What a machine says that leads from the log's end on: to every request of the past once
    /// more, and to every question.
    fn answers(
        &self,
        machine: &mut M,
        questions: &[M::Query],
    ) -> (Vec<M::Reply>, Vec<Option<Answer>>, Vec<OwnedRecord>) {
        let replies = questions.iter().map(|question| machine.query(question)).collect();
        let (now, mut at) = (Time(9_000_000), self.at(self.log.len()).offset + 1);
        let mut out = Proposal::new();
        machine.lead(now, Some((Epoch(99), at)));
        let mut answers = Vec::new();
        let mut records = Vec::new();
        for request in &self.requests {
            machine.propose(now, at, request, &mut out);
            answers.push(out.finish());
            records.extend(out.records(at).map(|record| harness::owned(record)));
            at = at + out.len() as u64;
            out.clear();
        }
        // Everything that is timed ends.
        machine.wake(now + Span::ms(100_000), at, &mut out);
        records.extend(out.records(at).map(|record| harness::owned(record)));
        machine.lead(now, None);
        (replies, answers, records)
    }

    /// Restores from the image of every prefix; returns how many records the images had.
    fn check(&self, questions: &[M::Query]) -> usize {
        let mut whole = self.replay(&self.log);
        let digest = whole.digest();
        let expected = self.answers(&mut whole, questions);
        let mut records = 0;
        for cut in 0..=self.log.len() {
            let name = format!("seed {}, a snapshot after {cut} batches", self.seed);
            let (before, after) = self.log.split_at(cut);
            let mut source = self.replay(before);
            let (mut image, then) = (source.snapshot(), source.digest());
            after.iter().for_each(|batch| apply(&mut source, batch));
            assert_eq!(source.digest(), digest, "{name}: taking it changed the machine");

            let mut restored = source.fresh();
            let mut counted = image.by_ref().inspect(|_| records += 1);
            let done = restored.restore(self.at(cut), &mut counted);
            done.unwrap_or_else(|corrupt| panic!("{name}: {corrupt}"));
            assert_eq!(restored.digest(), then, "{name}");
            after.iter().for_each(|batch| apply(&mut restored, batch));
            assert_eq!(restored.digest(), digest, "{name}, and the rest");
            let found = self.answers(&mut restored, questions);
            assert_eq!(found, expected, "{name}, and the rest: the answers");
        }
        records
    }
}

fn any_write(rng: &mut Rng) -> Bytes {
    let key = format!("k{}", rng.below(30)).into_bytes();
    let value = vec![b'v'; rng.below(9) as usize];
    let condition = match rng.below(4) {
        0 => Condition::IfAbsent,
        1 => Condition::IfVersion(Offset(rng.below(60))),
        _ => Condition::Always,
    };
    match rng.below(4) {
        0 => Write::Delete { key: &key, condition }.encode(),
        _ => Write::Put { key: &key, value: &value, condition }.encode(),
    }
    .unwrap()
}

fn questions() -> Vec<Query> {
    let list = |prefix: &'static str, after: Option<&'static str>| Query::List {
        prefix: prefix.into(),
        after: after.map(Into::into),
        limit: 7,
    };
    let mut all = vec![Query::Stat, list("", None), list("k1", Some("k12")), list("\0", None)];
    all.extend((0..30).map(|number| Query::Get { key: format!("k{number}").into() }));
    all
}

#[test]
fn any_prefix_of_a_stores_log_can_be_a_snapshot() {
    let records: usize = (0..20)
        .map(|seed| history(seed, || Sessioned::new(Kv::new()), any_write).check(&questions()))
        .sum();
    assert!(records > 20_000, "{records}: the snapshots are tame");
}

#[test]
fn any_prefix_of_the_locks_log_can_be_a_snapshot() {
    let any_request = |rng: &mut Rng| {
        let (name, holder) = (rng.below(6), rng.below(3));
        let text = match rng.one_in(4) {
            true => format!("free lock{name} client{holder}"),
            false => format!("take lock{name} client{holder} {}", 500 * (1 + rng.below(6))),
        };
        text.into()
    };
    let names: Vec<String> = (0..6).map(|name| format!("lock{name}")).collect();
    let records: usize = (0..10)
        .map(|seed| history(seed, || Sessioned::new(Locks::default()), any_request).check(&names))
        .sum();
    assert!(records > 5_000, "{records}: the snapshots are tame");
}

/// Each way in which a record can be none of a store's, in turn on each record of a snapshot.
#[test]
fn a_wrong_record_is_refused_by_its_offset() {
    let (mut of_sessions, mut of_keys) = (0, 0);
    for seed in 0..5 {
        let past = history(seed, || Sessioned::new(Kv::new()), any_write);
        let (machine, at) = (past.replay(&past.log), past.at(past.log.len()));
        let records: Vec<OwnedRecord> = machine.snapshot().collect();
        for (index, good) in records.iter().enumerate() {
            match good.key.as_deref() {
                Some([0, ..]) => of_sessions += 1,
                Some(_) | None => of_keys += 1,
            }
            let beyond = OwnedRecord { offset: at.offset, ..good.clone() };
            let damages = [
                ("has no key", vec![OwnedRecord { key: None, ..good.clone() }]),
                ("has no value", vec![OwnedRecord { value: None, ..good.clone() }]),
                ("lies beyond the end", vec![beyond]),
                ("comes twice", vec![good.clone(), good.clone()]),
            ];
            for (what, damaged) in damages {
                let name = format!("seed {seed}: record {index} {what}");
                let offset = damaged[0].offset;
                let mut bad = records.clone();
                bad.splice(index..=index, damaged);
                match past.replay(&[]).restore(at, &mut bad.into_iter()) {
                    Err(Corrupt { offset: found, .. }) => assert_eq!(found, offset, "{name}"),
                    Ok(()) => panic!("{name}, and nobody minds"),
                }
            }
        }
        // A machine that refused one takes the next, from nothing.
        let mut again = past.replay(&past.log);
        let mut bad = records.clone();
        bad.push(records[0].clone());
        again.restore(at, &mut bad.into_iter()).unwrap_err();
        again.restore(at, &mut records.into_iter()).unwrap();
        assert_eq!(again.digest(), machine.digest(), "seed {seed}");
    }
    assert!(of_sessions > 20 && of_keys > 50, "{of_sessions} {of_keys}: the snapshots are tame");
}

#[test]
fn a_fresh_machine_is_empty_and_ready_for_another_thread() {
    let past = history(1, || Sessioned::new(Kv::new()), any_write);
    let used = past.replay(&past.log);
    let (mut fresh, image, at) = (used.fresh(), used.snapshot(), past.at(past.log.len()));
    assert_eq!(fresh.digest(), past.replay(&[]).digest());
    assert_ne!(fresh.digest(), used.digest());
    let load = std::thread::spawn(move || {
        let mut image = image;
        fresh.restore(at, &mut image).unwrap();
        fresh
    });
    assert_eq!(load.join().unwrap().digest(), used.digest());
    let Reply::Stat(stat) = used.query(&Query::Stat) else { panic!("a stat is answered as one") };
    assert!(stat.keys > 5, "{stat:?}: the history is tame");
}
