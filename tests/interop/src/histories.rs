//! Histories for the test of the checkers: random small ones, true or damaged, and real ones with
//! one lie planted.
//!
//! A random history is what a store that works would have told; the damage is drawn afterwards, and
//! what it makes of the history is for the checkers to say.

use quorate_base::Rng;
use quorate_kill::history::{Ask, Call, Condition, Told};

/// The store that works, one key of it.
#[derive(Default)]
struct Truth {
    /// The last offset that is taken.
    offset: u64,
    /// Version and value.
    entry: Option<(u64, u64)>,
    /// All versions so far.
    versions: Vec<u64>,
}

impl Truth {
    fn version(&self) -> Option<u64> {
        self.entry.map(|(version, _)| version)
    }

    fn draw(&self, value: u64, rng: &mut Rng) -> Ask {
        let condition = match rng.below(20) {
            0..9 => Condition::Always,
            9..12 => Condition::Absent,
            12..15 => Condition::Present,
            15..18 => Condition::Version(self.version().unwrap_or(1)),
            _ => {
                let at = rng.below(self.versions.len() as u64) as usize;
                Condition::Version(self.versions.get(at).copied().unwrap_or(2))
            }
        };
        match rng.below(10) {
            0..5 => Ask::Put { value, condition },
            5..7 => Ask::Delete { condition },
            _ => Ask::Get,
        }
    }

    fn tell(&mut self, ask: Ask, rng: &mut Rng) -> Told {
        let previous = self.version();
        let met = |condition| match condition {
            Condition::Always => true,
            Condition::Absent => previous.is_none(),
            Condition::Present => previous.is_some(),
            Condition::Version(version) => previous == Some(version),
        };
        match (ask, previous) {
            (Ask::Get, _) => match self.entry {
                Some((version, value)) => Told::Found { version, value, state: self.offset + 1 },
                None => Told::Absent { state: Some(self.offset + 1) },
            },
            (Ask::Delete { .. }, None) => Told::Absent { state: None },
            (Ask::Put { condition, .. } | Ask::Delete { condition }, _) if !met(condition) => {
                Told::Refused { current: previous }
            }
            (Ask::Put { value, .. }, _) => {
                let version = self.next(rng);
                self.entry = Some((version, value));
                self.versions.push(version);
                Told::Written { version, previous }
            }
            (Ask::Delete { .. }, Some(previous)) => {
                self.entry = None;
                Told::Deleted { at: self.next(rng), previous }
            }
        }
    }

    fn next(&mut self, rng: &mut Rng) -> u64 {
        self.offset += 1 + rng.below(3);
        self.offset
    }
}

/// A call of these times.
pub fn call(key: u32, begin: u64, end: u64, ask: Ask, told: Told) -> Call {
    Call { client: 1, node: 1, key, stamped: false, begin, end, ask, told }
}

/// A small history of this key; half of them are damaged.
pub fn random(key: u32, rng: &mut Rng) -> Vec<Call> {
    let mut times: Vec<(u64, u64, u64, bool)> = (0..3 + rng.below(11))
        .map(|_| {
            let (begin, takes, unknown) = (rng.below(40), rng.below(15), rng.one_in(4));
            // An unanswered call may be done long after its client gave up.
            let done = begin + rng.below(if unknown { 40 } else { takes + 1 });
            (done, begin, begin + takes, unknown)
        })
        .collect();
    times.sort_unstable();
    let mut truth = Truth::default();
    let mut calls = Vec::new();
    for (at, (_, begin, end, unknown)) in times.into_iter().enumerate() {
        let ask = truth.draw(at as u64 + 100, rng);
        let told = match unknown && ask != Ask::Get {
            true => {
                if rng.one_in(2) {
                    truth.tell(ask, rng);
                }
                Told::Unknown
            }
            false => truth.tell(ask, rng),
        };
        calls.push(call(key, begin, end, ask, told));
    }
    if rng.one_in(2) {
        for _ in 0..1 + rng.below(2) {
            damage(&mut calls, rng);
        }
    }
    calls
}

fn damage(calls: &mut Vec<Call>, rng: &mut Rng) {
    let [at, other] = [0, 0].map(|_| rng.below(calls.len() as u64) as usize);
    match rng.below(6) {
        0 if calls.len() > 1 => drop(calls.remove(at)),
        1 => {
            let by = rng.below(20);
            (calls[at].begin, calls[at].end) = (calls[at].begin + by, calls[at].end + by);
        }
        2 => {
            let by = rng.below(calls[at].begin + 1);
            (calls[at].begin, calls[at].end) = (calls[at].begin - by, calls[at].end - by);
        }
        3 => {
            let same =
                std::mem::discriminant(&calls[at].ask) == std::mem::discriminant(&calls[other].ask);
            let answered = |call: &Call| call.told != Told::Unknown;
            if same && answered(&calls[at]) && answered(&calls[other]) {
                let told = calls[at].told;
                calls[at].told = calls[other].told;
                calls[other].told = told;
            }
        }
        4 => calls[at].told = other_number(calls[at].told, 1 + rng.below(2)),
        _ => {
            calls[at].told = match calls[at].told {
                Told::Found { state, .. } => Told::Absent { state: Some(state) },
                Told::Written { version, .. } => Told::Written { version, previous: None },
                Told::Refused { .. } => Told::Refused { current: None },
                told @ (Told::Deleted { .. } | Told::Absent { .. } | Told::Unknown) => told,
            }
        }
    }
}

fn other_number(told: Told, by: u64) -> Told {
    match told {
        Told::Written { version, previous: Some(previous) } => {
            Told::Written { version, previous: Some(previous + by) }
        }
        Told::Written { version, previous: None } => {
            Told::Written { version: version + by, previous: None }
        }
        Told::Deleted { at, previous } => Told::Deleted { at, previous: previous + by },
        Told::Found { version, value, state } => {
            Told::Found { version: version + by, value, state }
        }
        Told::Refused { current } => Told::Refused { current: current.map(|now| now + by) },
        Told::Absent { .. } | Told::Unknown => told,
    }
}

/// A put that is known to have followed another: what it wrote, and what the other one had.
struct Overwrite<'a> {
    first: &'a Call,
    first_told: (u64, u64),
    second: &'a Call,
    version: u64,
}

fn overwrites(calls: &[Call]) -> impl Iterator<Item = Overwrite<'_>> {
    let wrote = |wanted: &(u32, u64)| {
        calls.iter().find_map(|call| match (call.ask, call.told) {
            (Ask::Put { value, .. }, Told::Written { version, .. }) => {
                ((call.key, version) == *wanted).then_some((call, value))
            }
            (Ask::Put { .. } | Ask::Delete { .. } | Ask::Get, _) => None,
        })
    };
    calls.iter().filter_map(move |second| {
        let Told::Written { version, previous: Some(previous) } = second.told else { return None };
        let (first, value) = wrote(&(second.key, previous))?;
        Some(Overwrite { first, first_told: (previous, value), second, version })
    })
}

/// Reads that began after the second put was answered, and show it.
fn reads_of<'a>(calls: &'a [Call], over: &'a Overwrite<'_>) -> impl Iterator<Item = usize> + 'a {
    calls.iter().enumerate().filter_map(move |(at, read)| {
        let Told::Found { version, .. } = read.told else { return None };
        let shows = read.key == over.second.key && version == over.version;
        (shows && read.begin > over.second.end).then_some(at)
    })
}

/// The history with one lie, and the key that it is about; `None` if there is no place for it.
pub type Planted = Option<(u32, Vec<Call>)>;

/// The last reads of a key, by client 0, show what was there before the last acknowledged put.
pub fn lost(calls: &[Call]) -> Planted {
    overwrites(calls).find_map(|over| {
        let last: Vec<usize> = reads_of(calls, &over).filter(|at| calls[*at].client == 0).collect();
        let reads = calls.iter().filter(|call| call.client == 0 && call.key == over.second.key);
        (!last.is_empty() && reads.count() == last.len()).then(|| {
            let (version, value) = over.first_told;
            plant(calls, &last, Told::Found { version, value, state: over.version + 1 })
        })
    })
}

/// One read amid the others shows what an acknowledged put had replaced.
pub fn stale(calls: &[Call]) -> Planted {
    overwrites(calls).find_map(|over| {
        let read = reads_of(calls, &over).find(|at| calls[*at].client != 0)?;
        let (version, value) = over.first_told;
        Some(plant(calls, &[read], Told::Found { version, value, state: over.version + 1 }))
    })
}

/// A stamped put, which may have been sent twice, shows a second time after its successor.
pub fn twice(calls: &[Call]) -> Planted {
    overwrites(calls).filter(|over| over.first.stamped).find_map(|over| {
        let read = reads_of(calls, &over).next()?;
        let (version, value) = (over.version + 1, over.first_told.1);
        Some(plant(calls, &[read], Told::Found { version, value, state: version + 1 }))
    })
}

fn plant(calls: &[Call], at: &[usize], told: Told) -> (u32, Vec<Call>) {
    let mut calls = calls.to_vec();
    for at in at {
        calls[*at].told = told;
    }
    (calls[at[0]].key, calls)
}
