//! One key of the store as a [`Model`]: a value with a version, and versions only rise.
//!
//! A put that was never answered has a version that nobody was told; whoever is told of it later
//! binds it. Values are unique, so the same put done twice shows: it would have two versions.

use crate::history::{Ask, Call, Condition, Told};
use crate::judge::value_told;
use quorate_sim::linear::Model;
use std::collections::BTreeMap;

/// What the key holds.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Entry {
    /// `None`: nobody was told so far.
    pub version: Option<u64>,
    /// The value.
    pub value: u64,
}

/// The key at one moment.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct State {
    /// Offsets below this are taken.
    pub least: u64,
    /// `None`: absent.
    pub entry: Option<Entry>,
}

/// The calls of one key.
#[derive(Debug, Default)]
pub struct Register {
    /// The version of each value that anyone was told of.
    versions: BTreeMap<u64, u64>,
}

impl Register {
    /// Learns the versions from all that was told.
    pub fn new<'a>(calls: impl IntoIterator<Item = &'a Call>) -> Register {
        let told = calls.into_iter().filter_map(value_told);
        Register { versions: told.map(|(version, value)| (value, version)).collect() }
    }
}

impl State {
    /// The state if the key has this version.
    fn with_version(&self, told: u64) -> Option<State> {
        let entry = self.entry.as_ref()?;
        match entry.version {
            Some(version) => (version == told).then(|| self.clone()),
            None if told >= self.least => {
                let entry = Some(Entry { version: Some(told), ..*entry });
                Some(State { least: told + 1, entry })
            }
            None => None,
        }
    }

    fn meeting(&self, condition: Condition) -> Option<State> {
        match condition {
            Condition::Always => Some(self.clone()),
            Condition::Absent => self.entry.is_none().then(|| self.clone()),
            Condition::Present => self.entry.is_some().then(|| self.clone()),
            Condition::Version(version) => self.with_version(version),
        }
    }

    /// The state if this is what a write found; `None` is an absent key.
    fn holding(&self, found: Option<u64>) -> Option<State> {
        match found {
            Some(version) => self.with_version(version),
            None => self.entry.is_none().then(|| self.clone()),
        }
    }

    fn logged(self, at: u64, entry: Option<Entry>) -> Option<State> {
        (at >= self.least).then_some(State { least: at + 1, entry })
    }
}

impl Model for Register {
    type State = State;
    type Call = Call;

    fn after(&self, state: &State, call: &Call) -> Option<State> {
        match (call.ask, call.told) {
            (Ask::Get, Told::Found { version, value, .. }) => {
                let held = state.entry.as_ref().is_some_and(|entry| entry.value == value);
                state.with_version(version).filter(|_| held)
            }
            (Ask::Get | Ask::Delete { .. }, Told::Absent { .. }) => {
                state.entry.is_none().then(|| state.clone())
            }
            (Ask::Put { value, condition }, Told::Written { version, previous }) => {
                let entry = Entry { version: Some(version), value };
                state.meeting(condition)?.holding(previous)?.logged(version, Some(entry))
            }
            (Ask::Put { value, condition }, Told::Unknown) => {
                let met = state.meeting(condition)?;
                let version = self.versions.get(&value).copied();
                let entry = Some(Entry { version, value });
                match version {
                    Some(version) => met.logged(version, entry),
                    None => Some(State { entry, ..met }),
                }
            }
            (Ask::Delete { condition }, Told::Deleted { at, previous }) => {
                state.meeting(condition)?.holding(Some(previous))?.logged(at, None)
            }
            (Ask::Delete { condition }, Told::Unknown) => {
                let met = state.meeting(condition)?;
                Some(State { entry: None, ..met })
            }
            (
                Ask::Put { condition, .. } | Ask::Delete { condition },
                Told::Refused { current: Some(current) },
            ) => match condition {
                Condition::Always | Condition::Present => None,
                Condition::Version(wanted) if wanted == current => None,
                Condition::Version(_) | Condition::Absent => state.with_version(current),
            },
            (
                Ask::Put { condition, .. } | Ask::Delete { condition },
                Told::Refused { current: None },
            ) => match condition {
                Condition::Version(_) | Condition::Present => {
                    state.entry.is_none().then(|| state.clone())
                }
                Condition::Always | Condition::Absent => None,
            },
            (Ask::Get, Told::Unknown) => Some(state.clone()),
            // Answers to other questions.
            (Ask::Get, Told::Written { .. } | Told::Deleted { .. } | Told::Refused { .. })
            | (Ask::Put { .. }, Told::Deleted { .. } | Told::Absent { .. } | Told::Found { .. })
            | (Ask::Delete { .. }, Told::Written { .. } | Told::Found { .. }) => None,
        }
    }

    /// In the order of the log, as far as it is known.
    fn rank(&self, call: &Call) -> u64 {
        match (call.ask, call.told) {
            (_, Told::Written { version, .. }) => version,
            (_, Told::Deleted { at, .. }) => at,
            (Ask::Put { value, .. }, Told::Unknown) => {
                self.versions.get(&value).copied().unwrap_or(u64::MAX)
            }
            (Ask::Delete { .. } | Ask::Get, Told::Unknown) => u64::MAX,
            (_, Told::Absent { .. } | Told::Found { .. } | Told::Refused { .. }) => 0,
        }
    }

    fn only_looks(&self, call: &Call) -> bool {
        matches!(call.told, Told::Absent { .. } | Told::Found { .. } | Told::Refused { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_sim::linear::{Timed, Verdict, check};

    fn put(value: u64) -> Ask {
        Ask::Put { value, condition: Condition::Always }
    }

    fn found(version: u64, value: u64) -> Told {
        Told::Found { version, value, state: version + 1 }
    }

    /// Calls at these times; an unknown outcome has no end.
    fn explicable(calls: &[(u64, u64, Ask, Told)]) -> bool {
        let history: Vec<Timed<Call>> = calls
            .iter()
            .map(|&(begin, end, ask, told)| {
                let call =
                    Call { client: 0, node: 1, key: 0, stamped: false, begin, end, ask, told };
                Timed { begin, end: (told != Told::Unknown).then_some(end), call }
            })
            .collect();
        let register = Register::new(history.iter().map(|timed| &timed.call));
        check(&register, State::default(), &history, 10_000) == Verdict::Linearizable
    }

    #[test]
    fn histories_and_what_is_wrong_with_them() {
        let created = |version| Told::Written { version, previous: None };
        let written = |version, previous| Told::Written { version, previous: Some(previous) };
        let absent = Told::Absent { state: None };
        let if_present = |value| Ask::Put { value, condition: Condition::Present };
        let if_absent = |value| Ask::Put { value, condition: Condition::Absent };
        let delete = Ask::Delete { condition: Condition::Always };
        let first = (1, 2, put(7), created(4));
        for (why, expect, calls) in [
            ("a read sees the write before it", true, vec![first, (3, 4, Ask::Get, found(4, 7))]),
            ("an acknowledged write is lost", false, vec![first, (3, 4, Ask::Get, absent)]),
            (
                "a read may see a write under way",
                true,
                vec![
                    (1, 9, put(7), created(4)),
                    (2, 3, Ask::Get, absent),
                    (4, 5, Ask::Get, found(4, 7)),
                ],
            ),
            (
                "and none may then see the time before",
                false,
                vec![
                    (1, 9, put(7), created(4)),
                    (2, 3, Ask::Get, found(4, 7)),
                    (4, 5, Ask::Get, absent),
                ],
            ),
            (
                "a stale read",
                false,
                vec![first, (3, 4, put(8), written(5, 4)), (5, 6, Ask::Get, found(4, 7))],
            ),
            (
                "an unknown write may show late",
                true,
                vec![
                    (1, 2, put(7), Told::Unknown),
                    (3, 4, Ask::Get, absent),
                    (5, 6, Ask::Get, found(4, 7)),
                ],
            ),
            (
                "but not come and go and come",
                false,
                vec![
                    (1, 2, put(7), Told::Unknown),
                    (3, 4, Ask::Get, found(4, 7)),
                    (5, 6, delete, Told::Deleted { at: 5, previous: 4 }),
                    (7, 8, Ask::Get, found(4, 7)),
                ],
            ),
            (
                "a write done twice has two versions",
                false,
                vec![first, (3, 4, put(8), written(5, 4)), (5, 6, Ask::Get, found(6, 7))],
            ),
            ("versions rise", false, vec![first, (3, 4, put(8), written(3, 4))]),
            (
                "two cannot both be first",
                false,
                vec![(1, 4, if_absent(7), created(4)), (2, 5, if_absent(8), created(5))],
            ),
            (
                "a refusal names what is there",
                true,
                vec![first, (3, 4, if_absent(8), Told::Refused { current: Some(4) })],
            ),
            ("if-present on an absent key", false, vec![(1, 2, if_present(7), created(4))]),
            (
                "a refusal of if-present says that nothing is there",
                false,
                vec![first, (3, 4, if_present(8), Told::Refused { current: None })],
            ),
            (
                "an unknown if-present shows that another unknown one was done",
                true,
                vec![
                    (1, 2, put(7), Told::Unknown),
                    (3, 4, if_present(8), Told::Unknown),
                    (5, 6, Ask::Get, found(6, 8)),
                ],
            ),
            (
                "a write replaces what was there",
                false,
                vec![first, (3, 4, put(8), written(5, 4)), (5, 6, put(9), written(6, 4))],
            ),
            (
                "a write finds what an unknown one left",
                true,
                vec![(1, 2, put(7), Told::Unknown), (3, 4, put(8), written(6, 5))],
            ),
            (
                "a refusal for nothing",
                false,
                vec![
                    first,
                    (
                        3,
                        4,
                        Ask::Delete { condition: Condition::Version(4) },
                        Told::Refused { current: Some(4) },
                    ),
                ],
            ),
            (
                "a refusal tells an unknown put's version",
                false,
                vec![
                    (1, 2, put(7), Told::Unknown),
                    (3, 4, if_absent(8), Told::Refused { current: Some(6) }),
                    (5, 6, Ask::Get, found(5, 7)),
                ],
            ),
            (
                "nothing is deleted twice",
                false,
                vec![
                    first,
                    (3, 4, delete, Told::Deleted { at: 5, previous: 4 }),
                    (5, 6, delete, Told::Deleted { at: 6, previous: 4 }),
                ],
            ),
        ] {
            assert_eq!(explicable(&calls), expect, "{why}");
        }
    }
}
