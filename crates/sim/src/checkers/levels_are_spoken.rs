//! Nobody applies what is above the newest format level that it speaks, the level of a process
//! never falls, and whoever raises it knows that every voter speaks it [P79].
//!
//! Who speaks what is as the world set it up; levels are as the machines have them and the logs
//! say.

use super::Failure;
use crate::book::{Book, Entry};
use crate::network::Process;
use quorate_base::FormatLevel;
use quorate_raft::{RoleName, View};
use std::collections::BTreeMap;

/// The highest level that each process had.
#[derive(Default)]
pub(crate) struct LevelsAreSpoken {
    known: BTreeMap<Process, FormatLevel>,
}

impl LevelsAreSpoken {
    /// A process, the level of its machine, and the newest that it speaks.
    pub fn see(
        &mut self,
        process: Process,
        level: FormatLevel,
        newest: FormatLevel,
    ) -> Result<(), Failure> {
        let failure = |what: String| {
            let what = format!("node {} {what}", process.node + 1);
            Err(Failure::new("levels_are_spoken", what))
        };
        if level > newest {
            return failure(format!("speaks levels up to {newest} and has applied level {level}"));
        }
        match self.known.insert(process, level) {
            Some(before) if before > level => {
                failure(format!("went from level {before} to {level}"))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Judges a batch that a leader appends to its log. `spoke` is the newest level that any process of
/// each of the voters spoke so far, `book` the log before. What founds a store rests on those that
/// were heard so far, and has nobody to hurt.
pub(crate) fn level_is_safe_when_raised(
    node: usize,
    view: &View<'_>,
    book: &Book,
    entry: &Entry,
    spoke: &[(u32, FormatLevel)],
) -> Result<(), Failure> {
    let Some(level) = entry.level.filter(|_| view.role == RoleName::Leader) else { return Ok(()) };
    let failure = |what: String| {
        let what = format!("node {} raises the level to {level}: {what}", node + 1);
        Err(Failure::new("level_is_safe_when_raised", what))
    };
    let before = book.entries.iter().rev().find_map(|entry| entry.level).unwrap_or_default();
    if before >= level {
        return failure(format!("its log is at {before}"));
    }
    if book.entries.iter().all(|entry| entry.control) {
        return Ok(());
    }
    match spoke.iter().find(|(_, newest)| *newest < level) {
        Some((voter, newest)) => failure(format!("node {voter} never spoke more than {newest}")),
        None => Ok(()),
    }
}

/// The levels of what is committed only rise.
pub(crate) fn levels_rise(ledger: &Book) -> Result<(), Failure> {
    let levels: Vec<FormatLevel> = ledger.entries.iter().filter_map(|entry| entry.level).collect();
    match levels.windows(2).find(|pair| pair[0] >= pair[1]) {
        Some(pair) => {
            let what = format!("level {} is committed behind {}", pair[1], pair[0]);
            Err(Failure::new("levels_are_spoken", what))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_above_what_is_spoken_and_one_that_falls_are_found() {
        let process = |life| Process { node: 1, life };
        let mut seen = LevelsAreSpoken::default();
        assert!(seen.see(process(1), FormatLevel(1), FormatLevel(1)).is_ok());
        assert!(seen.see(process(1), FormatLevel(2), FormatLevel(1)).is_err());
        assert!(seen.see(process(1), FormatLevel(0), FormatLevel(1)).is_err());
        assert!(seen.see(process(2), FormatLevel(0), FormatLevel(1)).is_ok());
    }
}
