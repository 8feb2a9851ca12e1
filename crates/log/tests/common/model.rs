//! The contract's model of consistent versions, over real logs: voters that replicate from changing
//! leaders, clean and collect each on its own, lose power and start again, and one observer that
//! reads small pieces and claims. Every claim is held against the history that nobody cleans.

use super::keyed::{Records, State, TIME, check_sound, fold, keyed, settings, sweep};
use super::{Node, formatted};
use bytes::Bytes;
use quorate_base::{Cleaned, Epoch, Offset, Rng};
use quorate_log::{
    Batch, Batches, Came, CleanNow, CleanSettings, MemoryDisk, Options, Read, Reading, ToClean,
    read_cold,
};

/// By which rule the observer claims that what it has is a version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// Its end has reached the dirty offset that the last answer told, of that leader's own
    /// cleaner.
    Sentence,
    /// Likewise, with the highest one that it was told, and it begins anew below a horizon.
    Local,
    /// By the numbers that logs carry.
    Inherited,
}

/// Which tombstones are collected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Collect {
    Never,
    Freely,
    /// Below what every voter has.
    Bounded,
}

/// What came of some runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub claims: u64,
    pub wrong: u64,
    pub restarts: u64,
    pub voters: u64,
    pub voters_wrong: u64,
    pub rounds: u64,
    pub crashes: u64,
}

pub struct Voter {
    pub disk: MemoryDisk,
    pub node: Node<MemoryDisk>,
    options: Options,
    /// One past the highest tombstone that it collected itself.
    own_horizon: Offset,
}

impl Voter {
    fn new(options: &Options) -> Voter {
        let (disk, own_horizon) = (formatted(), Offset::ZERO);
        let (node, _) = Node::open(disk.clone(), options.clone()).unwrap();
        Voter { disk, node, options: options.clone(), own_horizon }
    }

    pub fn end(&self) -> Offset {
        self.node.log.end()
    }

    fn restart(&mut self) {
        let (node, _) = Node::open(self.disk.clone(), self.options.clone()).unwrap();
        self.node = node;
    }

    /// What it says of its log.
    fn says(&self, rule: Rule, read: Cleaned) -> Cleaned {
        let own = self.node.log.cleaner_end();
        match rule {
            Rule::Inherited => read,
            Rule::Sentence | Rule::Local => {
                Cleaned { dirty: own, clean: own, horizon: self.own_horizon }
            }
        }
    }

    /// Batches from an offset on, with the numbers that were true when they were.
    pub fn read(&mut self, from: Offset, end: Offset, max_bytes: u32) -> (Vec<Batch>, Cleaned) {
        let (bytes, numbers) = match self.node.log.read(from, end, max_bytes) {
            Read::Hot(batches, numbers) => (Bytes::from(batches.concat()), numbers),
            Read::Cold(plan) => (read_cold(&mut self.disk, &plan).unwrap(), plan.numbers),
            Read::Nothing => (Bytes::new(), self.node.log.numbers()),
        };
        (Batches::new(bytes).map(Result::unwrap).collect(), numbers)
    }

    /// Cleans what there is, or a part until the power fails. True if it stopped.
    pub fn clean(&mut self, now: &CleanNow, settings: &CleanSettings, power: Option<u64>) -> bool {
        self.disk.limit_power(power);
        let before = self.node.log.numbers().horizon;
        let stopped = self.rounds(now, settings).is_err();
        if !stopped {
            self.disk.limit_power(None);
        }
        let after = self.node.log.numbers().horizon;
        self.own_horizon = if after > before { after } else { self.own_horizon };
        stopped
    }

    fn rounds(&mut self, now: &CleanNow, settings: &CleanSettings) -> Result<(), ()> {
        while let Some(to_clean) = self.node.log.to_clean(now, settings) {
            match to_clean {
                ToClean::Roll(job) => self.node.jobs.push(*job),
                ToClean::Round(round) => {
                    let (groups, swept) = sweep(&self.disk, *round).map_err(drop)?;
                    for group in groups {
                        let job = self.node.log.swap(group).unwrap();
                        self.node.jobs.push(job);
                    }
                    self.node.jobs.extend(self.node.log.finish_round(&swept));
                }
            }
            self.node.try_run().map_err(drop)?;
        }
        Ok(())
    }
}

pub struct Observer {
    pub position: Offset,
    pub state: State,
    pub reading: Reading,
}

impl Observer {
    pub fn new() -> Observer {
        Observer { position: Offset::ZERO, state: State::new(), reading: Reading::default() }
    }

    /// Fetches once; whether it claims to have a version, and whether it began anew.
    pub fn fetch(
        &mut self,
        leader: &mut Voter,
        limit: Offset,
        max_bytes: u32,
        rule: Rule,
    ) -> (bool, bool) {
        let (batches, numbers) = leader.read(self.position, limit, max_bytes);
        let numbers = leader.says(rule, numbers);
        if rule != Rule::Sentence && self.reading.must_start_over(self.position, &numbers) {
            *self = Observer::new();
            return (false, true);
        }
        self.reading.take(&numbers);
        for batch in &batches {
            assert_eq!(batch.base(), self.position, "what it gets joins");
            self.position = batch.end();
            for record in batch.records().map(Result::unwrap) {
                let text = |part: &[u8]| String::from_utf8(part.to_vec()).unwrap();
                let key = text(record.key.unwrap());
                match record.value {
                    Some(value) => drop(self.state.insert(key, text(value))),
                    None => drop(self.state.remove(&key)),
                }
            }
        }
        let claims = match rule {
            Rule::Sentence => self.position >= numbers.dirty,
            Rule::Local | Rule::Inherited => self.reading.is_consistent(self.position),
        };
        (claims && !batches.is_empty(), false)
    }
}

pub struct World {
    rng: Rng,
    rule: Rule,
    collect: Collect,
    pub truth: Records,
    pub voters: Vec<Voter>,
    pub leader: usize,
    epoch: u32,
    pub high_watermark: Offset,
    wall_ms: i64,
    pub observer: Observer,
    pub counts: Counts,
    /// What is known of each voter for certain: numbers never fall.
    told: Vec<Cleaned>,
}

impl World {
    pub fn new(seed: u64, rule: Rule, collect: Collect) -> World {
        let mut rng = Rng::new(seed);
        let options = Options {
            index_interval_bytes: 80,
            ..super::options(100 + rng.below(300), if rng.one_in(2) { 0 } else { 1 << 20 })
        };
        World {
            rule,
            collect,
            truth: Records::new(),
            voters: (0..3).map(|_| Voter::new(&options)).collect(),
            leader: 0,
            epoch: 1,
            high_watermark: Offset::ZERO,
            wall_ms: TIME,
            observer: Observer::new(),
            counts: Counts::default(),
            told: vec![Cleaned::NEVER; 3],
            rng,
        }
    }

    /// With segments of one batch, for histories by hand.
    pub fn small(rule: Rule, collect: Collect) -> World {
        let mut world = World::new(1, rule, collect);
        let options = super::options(1, 0);
        world.voters = (0..3).map(|_| Voter::new(&options)).collect();
        world
    }

    /// A whole round, the active segment included.
    pub fn clean_all(&mut self, voter: usize) {
        let now = CleanNow {
            wall_ms: self.wall_ms + 1_000,
            applied: self.voters[voter].end(),
            tombstone_bound: Offset::ZERO,
            seed: [5, 6],
        };
        let settings = CleanSettings { max_lag_ms: Some(0), ..settings() };
        assert!(!self.voters[voter].clean(&now, &settings, None));
    }

    /// One event, by chance.
    pub fn step(&mut self) {
        self.wall_ms += 1;
        match self.rng.below(100) {
            0..22 => {
                let mut records = Vec::new();
                for _ in 0..1 + self.rng.below(3) {
                    let value = (!self.rng.one_in(3)).then(|| self.rng.below(99));
                    records.push((self.rng.below(5), value));
                }
                match self.rng.one_in(3) {
                    true => self.append_batch(&records),
                    false => records.into_iter().for_each(|(key, value)| self.append(key, value)),
                }
            }
            22..50 => {
                let follower = (self.leader + 1 + self.rng.below(2) as usize) % 3;
                let max_bytes = 1 + self.rng.below(400) as u32;
                self.copy(follower, max_bytes);
            }
            50..64 => {
                let voter = self.rng.below(3) as usize;
                let power = self.rng.one_in(4).then(|| self.rng.below(900));
                self.clean(voter, power);
            }
            64..67 => {
                let voter = self.rng.below(3) as usize;
                self.crash(voter);
            }
            67..72 => {
                let able = |voter: &usize| self.voters[*voter].end() >= self.high_watermark;
                let able: Vec<usize> = (0..3).filter(able).collect();
                if !able.is_empty() {
                    let chosen = able[self.rng.below(able.len() as u64) as usize];
                    self.lead(chosen);
                }
            }
            72.. => {
                self.judge_voters();
                let max_bytes = 1 + self.rng.below(300) as u32;
                self.observe(max_bytes);
            }
        }
    }

    pub fn append(&mut self, key: u64, value: Option<u64>) {
        self.append_batch(&[(key, value)]);
    }

    fn append_batch(&mut self, records: &[(u64, Option<u64>)]) {
        let leader = &mut self.voters[self.leader].node;
        let base = leader.log.end();
        self.truth.split_off(&base.0);
        let text = |(key, value): &(u64, Option<u64>)| {
            (format!("k{key}"), value.map(|value| value.to_string()))
        };
        let records: Vec<(String, Option<String>)> = records.iter().map(text).collect();
        let borrowed: Vec<_> =
            records.iter().map(|(key, value)| (key.as_str(), value.as_deref())).collect();
        leader.jobs.extend(leader.log.inherit(Came::Own));
        let bytes = keyed(base, self.epoch, &borrowed);
        let end = base + records.len() as u64;
        leader.jobs.push(leader.log.append(base, end, Epoch(self.epoch), bytes));
        leader.run();
        for (at, (key, value)) in (base.0..).zip(records) {
            self.truth.insert(at, (Some(key), value));
        }
    }

    pub fn copy(&mut self, follower: usize, max_bytes: u32) {
        let (from, end) = (self.voters[follower].end(), self.voters[self.leader].end());
        if from < end {
            let (batches, numbers) = self.voters[self.leader].read(from, end, max_bytes);
            let node = &mut self.voters[follower].node;
            node.jobs.extend(node.log.inherit(Came::Fetched(numbers)));
            batches.iter().for_each(|batch| node.copy(batch));
            node.run();
        }
        let mut ends: Vec<Offset> = self.voters.iter().map(Voter::end).collect();
        ends.sort();
        self.high_watermark = self.high_watermark.max(ends[1]);
    }

    pub fn clean(&mut self, voter: usize, power: Option<u64>) {
        let bound = match self.collect {
            Collect::Never => Offset::ZERO,
            Collect::Freely => Offset(u64::MAX),
            Collect::Bounded => self.voters.iter().map(Voter::end).min().unwrap(),
        };
        let now = CleanNow {
            wall_ms: self.wall_ms,
            applied: self.high_watermark.min(self.voters[voter].end()),
            tombstone_bound: bound,
            seed: [self.rng.below(u64::MAX), 1],
        };
        // Half of the time the active segment is ended for it.
        let max_lag_ms = self.rng.one_in(2).then_some(0);
        let settings = CleanSettings { max_lag_ms, delete_retention_ms: 0, ..settings() };
        self.counts.rounds += 1;
        if self.voters[voter].clean(&now, &settings, power) {
            self.crash(voter);
        }
        let numbers = self.voters[voter].node.log.numbers();
        assert!(numbers.dirty <= self.high_watermark, "{numbers:?}");
    }

    pub fn crash(&mut self, voter: usize) {
        let disk = &self.voters[voter].disk;
        match self.rng.below(3) {
            0 => disk.kill(),
            1 => disk.lose_unsynced(),
            _ => disk.crash(&mut self.rng),
        }
        let end = self.voters[voter].end();
        self.voters[voter].restart();
        assert_eq!(self.voters[voter].end(), end, "all of it was durable");
        self.counts.crashes += 1;
    }

    pub fn lead(&mut self, leader: usize) {
        self.leader = leader;
        self.epoch += 1;
        let end = self.voters[leader].end();
        for voter in &mut self.voters {
            if voter.end() > end {
                let job = voter.node.log.truncate(end);
                voter.node.jobs.push(job);
                voter.node.run();
                assert_eq!(voter.end(), end);
            }
        }
    }

    /// Whether each voter's own state is the truth, once it is to be one; and whether what it says
    /// of its log is true.
    pub fn judge_voters(&mut self) {
        for at in 0..3 {
            let voter = &mut self.voters[at];
            let (end, numbers) = (voter.end(), voter.node.log.numbers());
            let told = std::mem::replace(&mut self.told[at], numbers);
            assert!(numbers.dirty >= told.dirty && numbers.horizon >= told.horizon);
            let records = voter.node.records();
            if end >= self.high_watermark.max(numbers.dirty) && end.0 <= self.truth.len() as u64 {
                self.counts.voters += 1;
                let right = fold(&records, end.0) == fold(&self.truth, end.0);
                self.counts.voters_wrong += u64::from(!right);
                // Without the bound a voter may hold what nobody deletes there any more (H14).
                if self.collect != Collect::Freely {
                    check_sound(&self.truth, &records, numbers, end.0);
                }
            }
        }
    }

    pub fn observe(&mut self, max_bytes: u32) {
        let leader = &mut self.voters[self.leader];
        let limit = self.high_watermark.min(leader.end());
        if self.observer.position >= limit {
            return;
        }
        let (claims, anew) = self.observer.fetch(leader, limit, max_bytes, self.rule);
        self.counts.restarts += u64::from(anew);
        if claims {
            self.counts.claims += 1;
            let at = self.observer.position.0;
            self.counts.wrong += u64::from(self.observer.state != fold(&self.truth, at));
        }
    }
}

impl World {
    /// I8: with a leader that all follow and no new writes, a reader of one batch at a time
    /// arrives, while that leader cleans no more than it must. Where it ends, and in how many
    /// answers.
    pub fn arrives(&mut self) -> (bool, u64) {
        let able = (0..3).find(|voter| self.voters[*voter].end() >= self.high_watermark);
        self.lead(able.unwrap());
        let end = self.voters[self.leader].end();
        for follower in 0..3 {
            while follower != self.leader && self.voters[follower].end() < end {
                self.copy(follower, 1 << 20);
            }
        }
        let lazy = CleanSettings { min_dirty_ratio: 2.0, ..CleanSettings::default() };
        let now = CleanNow {
            wall_ms: self.wall_ms,
            applied: end,
            tombstone_bound: Offset::ZERO,
            seed: [3, 4],
        };
        for answers in 0..4 * end.0 + 10 {
            assert!(!self.voters[self.leader].clean(&now, &lazy, None));
            let numbers = self.voters[self.leader].node.log.numbers();
            assert!(numbers.clean >= numbers.horizon, "{numbers:?}");
            if self.observer.position == end {
                let right = self.observer.state == fold(&self.truth, end.0);
                assert!(right || self.observer.reading.required > end);
                return (self.observer.reading.is_consistent(end), answers);
            }
            self.observe(1);
        }
        (false, 4 * end.0 + 10)
    }
}

/// So many runs.
pub fn runs(rule: Rule, collect: Collect, seeds: std::ops::Range<u64>) -> Counts {
    let mut all = Counts::default();
    for seed in seeds {
        let mut world = World::new(seed, rule, collect);
        let steps = 40 + world.rng.below(120);
        (0..steps).for_each(|_| world.step());
        if rule == Rule::Inherited && collect != Collect::Freely {
            let (arrived, answers) = world.arrives();
            assert!(arrived, "seed {seed}: not there after {answers} answers");
        }
        let Counts { claims, wrong, restarts, voters, voters_wrong, rounds, crashes } =
            world.counts;
        all.claims += claims;
        all.wrong += wrong;
        all.restarts += restarts;
        all.voters += voters;
        all.voters_wrong += voters_wrong;
        all.rounds += rounds;
        all.crashes += crashes;
    }
    all
}
