//! Logs of keys and values, cleaned: what the tests of cleaning share.

use super::{Node, PARTITION};
use bytes::Bytes;
use quorate_base::{Cleaned, Epoch, Offset};
use quorate_log::{
    Batch, BatchBuilder, Batches, Came, CleanNow, CleanSettings, CleanStep, CleanedGroup, Cleaner,
    Disk, Error, Job, MemoryDisk, Options, Round, Swept, ToClean,
};
use std::collections::BTreeMap;

/// The time of the first batch, Unix milliseconds.
pub const TIME: i64 = 1_700_000_000_000;

/// Key and value of a record; without a value it is a tombstone.
pub type KeyValue<'a> = (&'a str, Option<&'a str>);

/// What is true of a log: each record by its offset.
pub type Records = BTreeMap<u64, (Option<String>, Option<String>)>;

/// The state that records fold to.
pub type State = BTreeMap<String, String>;

pub fn keyed(base: Offset, epoch: u32, records: &[KeyValue<'_>]) -> Bytes {
    let mut batch = BatchBuilder::new(base, Epoch(epoch), TIME + base.0 as i64);
    for (key, value) in records {
        batch.record(Some(key.as_bytes()), value.map(str::as_bytes), &[]);
    }
    batch.finish()
}

/// Everything is cleaned at once, and tombstones wait 100 ms.
pub fn settings() -> CleanSettings {
    CleanSettings { min_dirty_ratio: 0.0, delete_retention_ms: 100, ..CleanSettings::default() }
}

/// All below is committed, applied and acknowledged.
pub fn now(wall_ms: i64, applied: u64) -> CleanNow {
    let (applied, tombstone_bound) = (Offset(applied), Offset(applied));
    CleanNow { wall_ms, applied, tombstone_bound, seed: [wall_ms as u64, 7] }
}

impl<D: Disk> Node<D> {
    /// Appends what a leader makes.
    pub fn put(&mut self, epoch: u32, records: &[KeyValue<'_>]) {
        self.jobs.extend(self.log.inherit(Came::Own));
        let base = self.log.end();
        let bytes = keyed(base, epoch, records);
        let end = base + records.len() as u64;
        self.jobs.push(self.log.append(base, end, Epoch(epoch), bytes));
        self.log.check();
    }

    /// One batch a record.
    pub fn put_each(&mut self, epoch: u32, records: &[KeyValue<'_>]) {
        records.iter().for_each(|record| self.put(epoch, std::slice::from_ref(record)));
    }

    /// Appends what a leader sent of its log.
    pub fn copy(&mut self, batch: &Batch) {
        let (base, end) = (batch.base(), batch.end());
        let job = self.log.append(base, end, batch.epoch(), batch.bytes.clone());
        self.jobs.push(job);
        self.log.check();
    }

    /// Carries out all jobs; as [`Node::run`], but tells of an error.
    pub fn try_run(&mut self) -> Result<(), Error> {
        self.store.run(&mut self.jobs)?;
        self.log.durable(self.log.end());
        self.log.check();
        Ok(())
    }

    /// Does what is due, swaps and all, until nothing is. Rounds that were done.
    pub fn clean(&mut self, now: &CleanNow, settings: &CleanSettings) -> Result<Vec<Swept>, Error> {
        let mut done = Vec::new();
        while let Some(to_clean) = self.log.to_clean(now, settings) {
            match to_clean {
                ToClean::Roll(job) => self.jobs.push(*job),
                ToClean::Round(round) => {
                    let (groups, swept) = sweep(&self.disk, *round)?;
                    for group in groups {
                        let job = self.log.swap(group).unwrap();
                        self.jobs.push(job);
                        self.try_run()?;
                    }
                    self.jobs.extend(self.log.finish_round(&swept));
                    done.push(swept);
                }
            }
            self.try_run()?;
            assert!(done.len() < 10, "rounds without end");
        }
        Ok(done)
    }

    /// Every record that is there.
    pub fn records(&mut self) -> Records {
        records(&self.read(self.log.start().0, self.log.end().0, 64))
    }
}

/// Does a round; nothing of it is in force yet.
pub fn sweep<D: Disk>(disk: &D, round: Round) -> Result<(Vec<CleanedGroup>, Swept), Error> {
    let mut cleaner = Cleaner::new(disk.clone(), round);
    let mut groups = Vec::new();
    loop {
        match cleaner.step()? {
            CleanStep::Going => {}
            CleanStep::Group(group) => groups.push(*group),
            CleanStep::Done(swept) => return Ok((groups, swept)),
        }
    }
}

/// The records of batches, which join from offset to offset.
pub fn records(bytes: &[u8]) -> Records {
    let mut all = Records::new();
    let mut end = None;
    for batch in Batches::new(Bytes::copy_from_slice(bytes)) {
        let batch = batch.unwrap();
        assert!(end.is_none_or(|end| end == batch.base()), "a gap at {}", batch.base());
        end = Some(batch.end());
        for record in batch.records().filter(|_| !batch.control()) {
            let record = record.unwrap();
            let text = |part: Option<&[u8]>| part.map(|p| String::from_utf8(p.to_vec()).unwrap());
            all.insert(record.offset.0, (text(record.key), text(record.value)));
        }
    }
    all
}

/// What the records below an offset fold to.
pub fn fold(records: &Records, end: u64) -> State {
    let mut state = State::new();
    for (key, value) in records.range(..end).map(|(_, record)| record) {
        let Some(key) = key else { continue };
        match value {
            Some(value) => drop(state.insert(key.clone(), value.clone())),
            None => drop(state.remove(key)),
        }
    }
    state
}

/// A log of small segments over this disk.
pub fn open(disk: &MemoryDisk, options: &Options) -> Node<MemoryDisk> {
    Node::open(disk.clone(), options.clone()).unwrap().0
}

/// The names in the partition that cleaning makes.
pub fn leftovers(disk: &MemoryDisk) -> Vec<String> {
    let mut names = disk.list(PARTITION).unwrap();
    names.retain(|name| name.ends_with(".cleaned") || name.ends_with(".tmp"));
    names
}

/// Jobs in order, one run each, so that nothing is gathered.
pub fn each<D: Disk>(node: &mut Node<D>, jobs: Vec<Job>) -> Result<(), Error> {
    for job in jobs {
        node.jobs.push(job);
        node.try_run()?;
    }
    Ok(())
}

/// What must be true of a log whose records were these before any was cleaned, and which says this
/// of itself: the invariants I3 and I4 of the contract, and what `clean` promises.
pub fn check_sound(truth: &Records, left: &Records, numbers: Cleaned, end: u64) {
    let Cleaned { dirty, clean, horizon } = numbers;
    assert!(horizon <= dirty && clean <= dirty, "{numbers:?}");
    let later = |at: u64, below: u64| {
        let key = &truth[&at].0;
        let above = at + 1..below.max(at + 1);
        truth.range(above).filter(move |(_, record)| record.0 == *key).map(|(at, _)| *at)
    };
    for (at, record) in truth.range(..end) {
        match left.get(at) {
            Some(kept) => {
                assert_eq!(kept, record, "record {at} is another one");
                // A log that copied what another had cleaned may lack what told its own cleaner;
                // then there is a later one still, below `dirty`.
                let superseded = later(*at, clean.0).next().is_some();
                let later_still = later(*at, dirty.0).any(|by| by >= clean.0);
                assert!(
                    record.0.is_none() || !superseded || later_still,
                    "{at} is there and superseded below clean: {numbers:?}"
                );
            }
            None => {
                let collected = record.1.is_none() && *at < horizon.0;
                let known = later(*at, dirty.0).any(|by| {
                    let gone = truth[&by].1.is_none() && by < horizon.0;
                    left.contains_key(&by)
                        || gone
                        || by >= end
                        || later(by, dirty.0).next().is_some()
                });
                assert!(collected || known, "{at} is missing for no reason: {numbers:?}");
            }
        }
    }
    assert!(left.keys().all(|at| truth.contains_key(at)), "records that never were");
    for at in dirty.0..=end {
        assert_eq!(fold(left, at), fold(truth, at), "the version {at}: {numbers:?}");
    }
}
