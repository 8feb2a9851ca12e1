//! How often a run met what it is there to meet. A sweep in which some mark stays at zero tests
//! less than it claims, and fails.

use std::collections::BTreeMap;

/// Every mark.
pub const ALL: [&str; 100] = [
    "a leader was elected",
    "a batch was committed",
    "a log was cut",
    "a node was killed",
    "a node lost power",
    "a crash lost records",
    "a node stopped in an orderly way",
    "a node was paused",
    "a leader resigned",
    "a disk was full and its node stopped",
    "a disk was full and its node went on",
    "a node started on a full disk",
    "a disk had room again",
    "a write was refused for want of room",
    "a node with a full disk answered",
    "a disk failed and its node stopped",
    "a start was refused by a disk that fails",
    "a node came back with an empty disk",
    "a bit of a log flipped",
    "a bit of a snapshot flipped",
    "a damaged node repaired itself",
    "a repair was cut short",
    "a running node found damage",
    "a clock jumped",
    "a crowded connection was paused",
    "a leader committed before its own disk",
    "a leader handed over for its disk",
    "voters stayed away after the faults",
    "a segment was closed",
    "the network was cut",
    "nodes saw only their neighbours",
    "connections were reset",
    "connections fell silent",
    "a frame was lost",
    "a frame arrived twice",
    "a connection was refused",
    "records were read from the disk",
    "a snapshot was written",
    "a snapshot was written on a full disk",
    "a snapshot could not be written",
    "a snapshot was loaded",
    "a snapshot was downloaded",
    "a snapshot was adopted",
    "a download was given up",
    "a log was trimmed",
    "a write was acknowledged",
    "a condition failed",
    "an outcome is unknown",
    "a write was not done",
    "a stamped write was repeated",
    "a repeated write was acknowledged",
    "a session expired",
    "a linearizable read was answered",
    "a node answered from its own state",
    "a follower answered for the leader",
    "an old and a new node led",
    "a node was upgraded",
    "a caretaker led",
    "a leader could not be asked for a client",
    "a voter was added",
    "a voter was removed",
    "a change was answered early",
    "a leader removed itself",
    "a removed leader resigned",
    "a removed leader stood again",
    "one stood that had not heard of its removal",
    "voters were cut off a log",
    "a voter came back as another, and observed",
    "a voter's disk was replaced",
    "a voter's disk was replaced by one request",
    "a voter's disk was replaced by one record",
    "a node moved",
    "a voter said where it is now",
    "a node became a voter by itself",
    "a change was refused: not the leader",
    "a change was refused: no directory",
    "a change was refused: no listener",
    "a change was refused: the leader is new",
    "a change was refused: static voters",
    "a change was refused: another one is not finished",
    "a change was refused: a voter of that id",
    "a change was refused: a voter with another directory",
    "a change was refused: no such voter",
    "a change was refused: the only voter",
    "a change was refused: the new one is silent",
    "a change was refused: another replica answers",
    "a change was refused: the new one lacks records",
    "a change was refused: too few would follow",
    "a change was refused: both directories are alive",
    "a change was not committed in time",
    "a change was lost with its leadership",
    "an older node stopped before a level",
    "an older build came back",
    "a level was raised, or was there",
    "a raise was refused: a voter is older, or told nothing",
    "a raise was refused: the leader is older",
    "a raise was refused: not the leader",
    "a raise was refused: never back",
    "a change was refused: the new one is too old",
    "a change was refused: the new one tells no level",
];

/// A search that was given up. It may stay at zero, and should.
pub const UNDECIDED: &str = "a history was too long to judge";
/// What changes and faults left could not elect anybody. It may stay at zero, and should.
pub const MAJORITY_LOST: &str = "a quorum lost its majority";

/// Met a few times in a thousand seeds: long sweeps count them, short ones cannot ask for them. A
/// leader hears the voters that are left before it appends anything (rule P72), and who is too old
/// for the format level, or has two directories alive, is mostly refused for another reason.
pub const SELDOM: [&str; 5] = [
    "voters were cut off a log",
    "a change was not committed in time",
    "a voter's disk was replaced by one record",
    "a change was refused: both directories are alive",
    "a change was refused: the new one is too old",
];

/// Counts by mark.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Marks(BTreeMap<&'static str, u64>);

impl Marks {
    pub(crate) fn hit(&mut self, mark: &'static str) {
        self.add(mark, 1);
    }

    pub(crate) fn add(&mut self, mark: &'static str, times: u64) {
        debug_assert!(
            ALL.contains(&mark) || [UNDECIDED, MAJORITY_LOST].contains(&mark),
            "{mark} is listed"
        );
        *self.0.entry(mark).or_default() += times;
    }

    /// How often it was met.
    pub fn count(&self, mark: &str) -> u64 {
        self.0.get(mark).copied().unwrap_or(0)
    }

    /// Adds those of another run.
    pub fn join(&mut self, other: &Marks) {
        for (mark, times) in &other.0 {
            self.add(mark, *times);
        }
    }

    /// Those that were never met, but for the seldom ones.
    pub fn missing(&self) -> Vec<&'static str> {
        let asked = |mark: &&str| !SELDOM.contains(mark);
        ALL.into_iter().filter(asked).filter(|mark| self.count(mark) == 0).collect()
    }
}
