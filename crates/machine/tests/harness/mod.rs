//! A quorum reduced to what a machine sees of it: one log, a leader that proposes, replicas that
//! apply.
//!
//! No network, no disk and no election: the test says what is committed, who leads and what is
//! lost. `check` compares every form in which a history can reach a machine. The simulator does all
//! this with the real node; here a machine is tested alone.

#![allow(dead_code, reason = "each test file uses its part")]

pub mod locks;

use bytes::Bytes;
use quorate_base::{Epoch, FormatLevel, Offset, OffsetEpoch, Span, Time};
use quorate_machine::{Answer, Batch, Machine, OwnedRecord, Proposal, Record, Request};
use std::collections::BTreeMap;

/// One batch of the log, committed or not.
#[derive(Clone, Debug)]
pub struct Logged {
    pub base: Offset,
    pub end: Offset,
    pub epoch: Epoch,
    pub timestamp_ms: i64,
    pub records: Vec<OwnedRecord>,
    /// How many groups the batch was joined from.
    pub groups: usize,
}

/// Three replicas of a machine around one log.
pub struct Quorum<M> {
    pub now: Time,
    pub epoch: Epoch,
    /// Replica 0 leads at first.
    pub leader: usize,
    pub log: Vec<Logged>,
    /// How many batches of the log are committed: all that a replica may apply.
    pub committed: usize,
    /// The machines, with the number of batches that each has applied.
    pub replicas: Vec<(M, usize)>,
    /// Where the next record goes; control records leave gaps between the batches of the log.
    end: Offset,
    make: fn() -> M,
    out: Proposal,
}

impl<M: Machine> Quorum<M> {
    pub fn new(make: fn() -> M) -> Quorum<M> {
        let mut quorum = Quorum {
            now: Time(1_000_000),
            epoch: Epoch::ZERO,
            leader: 0,
            log: Vec::new(),
            committed: 0,
            replicas: (0..3).map(|_| (make(), 0)).collect(),
            end: Offset::ZERO,
            make,
            out: Proposal::new(),
        };
        quorum.elect(0, 0);
        quorum
    }

    pub fn machine(&self) -> &M {
        &self.replicas[self.leader].0
    }

    /// Where the next record will lie.
    pub fn end(&self) -> Offset {
        self.end
    }

    /// One request, one batch.
    pub fn propose(&mut self, request: &Request) -> Answer {
        self.turn(std::slice::from_ref(request)).remove(0)
    }

    /// Requests of one turn: their groups become one batch. Answers as judged, not yet committed.
    pub fn turn(&mut self, requests: &[Request]) -> Vec<Answer> {
        let (machine, _) = &mut self.replicas[self.leader];
        let answers = requests.iter().map(|request| {
            let at = self.end + self.out.len() as u64;
            machine.propose(self.now, at, request, &mut self.out);
            let groups = self.out.groups().len();
            let answer = self.out.finish().expect("a request is answered");
            assert!(self.out.groups().len() <= groups + 1, "a request makes one group");
            answer
        });
        let answers = answers.collect();
        self.append();
        answers
    }

    /// Asks the leader's machine for a level. True if that makes a record.
    pub fn raise(&mut self, level: FormatLevel) -> bool {
        let (machine, _) = &mut self.replicas[self.leader];
        machine.raise(self.end, level, &mut self.out);
        assert_eq!(self.out.finish(), None, "nobody asked");
        let raised = !self.out.is_empty();
        self.append();
        raised
    }

    /// Lets time pass and timers fire, never early.
    pub fn wait(&mut self, span: Span) {
        let until = self.now + span;
        loop {
            let (machine, _) = &mut self.replicas[self.leader];
            let due = machine.deadline().max(self.now);
            if due > until {
                break;
            }
            self.now = due;
            machine.wake(self.now, self.end, &mut self.out);
            assert_eq!(self.out.finish(), None, "nobody asked");
            self.append();
        }
        self.now = until;
    }

    /// Lets time pass in which the leader takes nothing and fires no timer, as with a full disk.
    pub fn take_nothing(&mut self, span: Span) {
        self.now += span;
        let (machine, _) = &mut self.replicas[self.leader];
        machine.grant(self.now);
    }

    /// Commits the oldest batches that are not; the leader applies them at once, others by
    /// `settle`.
    pub fn commit(&mut self, batches: usize) {
        self.committed = self.log.len().min(self.committed + batches);
        self.catch_up(self.leader);
    }

    /// Commits and applies all there is, everywhere.
    pub fn settle(&mut self) {
        self.committed = self.log.len();
        (0..self.replicas.len()).for_each(|replica| self.catch_up(replica));
    }

    /// Moves leadership to a replica whose log has only the first `kept` of the uncommitted
    /// batches.
    pub fn elect(&mut self, leader: usize, kept: usize) {
        self.replicas[self.leader].0.lead(self.now, None);
        self.committed = self.log.len().min(self.committed + kept);
        self.log.truncate(self.committed);
        self.leader = leader;
        self.catch_up(leader);
        self.epoch = self.epoch.next();
        // The epoch's first record is the leader's own control record: no machine sees it.
        self.end = self.log.last().map_or(Offset::ZERO, |batch| batch.end) + 1;
        let since = Some((self.epoch, self.end));
        self.replicas[leader].0.lead(self.now, since);
        assert!(self.replicas[leader].0.deadline() > self.now, "nothing ends with an election");
    }

    /// Replays the committed history in every form and compares the states that come of it.
    pub fn check(&self) {
        let digest = |machine: &M| machine.digest();
        let history = &self.log[..self.committed];
        let mut replayed = (self.make)();
        let mut digests = vec![digest(&replayed)];
        for batch in history {
            apply(&mut replayed, batch);
            digests.push(digest(&replayed));
        }
        for (machine, applied) in &self.replicas {
            assert_eq!(digest(machine), digests[*applied], "a replica at batch {applied}");
            // From a snapshot, and on from there.
            let at = applied.checked_sub(1).map_or(OffsetEpoch::default(), |last| {
                OffsetEpoch::new(history[last].end, history[last].epoch)
            });
            let mut restored = (self.make)();
            restored.restore(at, &mut machine.snapshot()).expect("a snapshot restores");
            assert_eq!(digest(&restored), digests[*applied], "a snapshot of batch {applied}");
            history[*applied..].iter().for_each(|batch| apply(&mut restored, batch));
            assert_eq!(
                digest(&restored),
                digest(&replayed),
                "a snapshot of batch {applied}, later"
            );
        }
        // From the log as compaction leaves it: of each key the newest record, if it is no
        // tombstone.
        let mut newest = BTreeMap::new();
        for record in history.iter().flat_map(|batch| &batch.records) {
            newest.insert(record.key.clone(), record.offset);
        }
        let mut compacted = (self.make)();
        for batch in history {
            let mut batch = batch.clone();
            batch
                .records
                .retain(|record| record.value.is_some() && newest[&record.key] == record.offset);
            apply(&mut compacted, &batch);
        }
        assert_eq!(digest(&compacted), digest(&replayed), "the compacted log");
    }

    fn append(&mut self) {
        let records: Vec<OwnedRecord> = self.out.records(self.end).map(owned).collect();
        let groups = self.out.groups().len();
        let grouped: usize = self.out.groups().iter().map(|group| group.records.len()).sum();
        assert_eq!(grouped, records.len(), "every record is in a group");
        self.out.clear();
        if records.is_empty() {
            return;
        }
        let base = self.end;
        self.end = base + records.len() as u64;
        self.log.push(Logged {
            base,
            end: self.end,
            epoch: self.epoch,
            timestamp_ms: self.now.0 as i64 / 1_000,
            records,
            groups,
        });
    }

    fn catch_up(&mut self, replica: usize) {
        let (machine, applied) = &mut self.replicas[replica];
        for batch in &self.log[*applied..self.committed] {
            apply(machine, batch);
        }
        *applied = self.committed;
    }
}

/// Applies one batch.
pub fn apply<M: Machine>(machine: &mut M, batch: &Logged) {
    let records: Vec<Record<'_>> = batch.records.iter().map(OwnedRecord::as_record).collect();
    machine.apply(&Batch {
        base: batch.base,
        end: batch.end,
        epoch: batch.epoch,
        timestamp_ms: batch.timestamp_ms,
        records: &records,
    });
}

/// A record with its own bytes.
pub fn owned(record: Record<'_>) -> OwnedRecord {
    OwnedRecord {
        offset: record.offset,
        key: record.key.map(Bytes::copy_from_slice),
        value: record.value.map(Bytes::copy_from_slice),
        header_count: record.headers.count(),
        headers: Bytes::copy_from_slice(record.headers.encoded()),
    }
}
