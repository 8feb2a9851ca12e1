//! The batches of one log as they come by, and what their epochs say beside the epoch table.
//!
//! A checksum leaves the base offset and the epoch of a batch out. The base offset is held against
//! the batch before; the epoch against the table, which a bit may have changed as well. Which of
//! the two is wrong is said where that can be told: one damage is one finding.

use crate::Header;
use crate::batch::Fault;
use crate::epoch_file::{self, EpochTable};
use crate::take_up::Traces;
use quorate_base::{Epoch, Offset};

/// Where a batch lies: base offset of its segment, and byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct At {
    pub segment: Offset,
    pub position: u64,
}

/// Batches of one epoch, one after the other, all of which the table confirms, or none.
struct Run {
    epoch: Epoch,
    base: Offset,
    at: At,
    batches: u64,
    agrees: bool,
    /// Its epoch is lower than that of the run before, and no stop could have left it so.
    fell: bool,
}

/// What is wrong with the epochs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Wrong {
    /// Batches from here on.
    Batches { at: At, expected: String, found: String },
    /// The table.
    Table { expected: String, found: String },
}

/// Where a log stands after the batches so far.
pub(super) struct Walked {
    pub end: Offset,
    /// Behind a batch that lies out of order, whatever comes next is taken to be in order.
    pub lost: bool,
    /// Something is damaged or missing, so that not all epochs were seen.
    pub damaged: bool,
    /// The epochs as the batches have them.
    pub epochs: EpochTable,
    /// What shows of cleaning.
    pub traces: Traces,
    runs: Vec<Run>,
}

impl Walked {
    pub fn from(end: Offset) -> Walked {
        let (epochs, runs, traces) = (EpochTable::default(), Vec::new(), Traces::default());
        Walked { end, lost: false, damaged: false, epochs, traces, runs }
    }

    /// Takes a batch in; says what is wrong with its place. A fall of the epoch is kept in mind,
    /// too, until [`Walked::fell`] or [`Walked::judge`].
    pub fn pass(&mut self, header: &Header, at: At, table: Option<&EpochTable>) -> Option<Fault> {
        let gap = header.base != self.end && !self.lost;
        self.lost = gap;
        if gap {
            return Some(Fault::Gap { expected: self.end, found: header.base });
        }
        self.end = header.end();
        self.traces.batch(header);
        let agrees = table.is_none_or(|table| epoch_file::agree(table.entries(), header));
        let before = self.runs.last().map(|run| run.epoch);
        match self.runs.last_mut() {
            Some(run) if run.epoch == header.epoch && run.agrees == agrees => run.batches += 1,
            Some(_) | None => {
                let (epoch, base) = (header.epoch, header.base);
                self.runs.push(Run { epoch, base, at, batches: 1, agrees, fell: false });
            }
        }
        let last = self.epochs.entries().last();
        if last.is_none_or(|(epoch, first)| header.epoch > *epoch && header.base > *first) {
            self.epochs.note(header.epoch, header.base);
        }
        let expected = before.filter(|before| header.epoch < *before)?;
        Some(Fault::EpochFell { expected, found: header.epoch })
    }

    /// The epoch of the last batch fell, which is damage.
    pub fn fell(&mut self) {
        if let Some(run) = self.runs.last_mut() {
            run.fell = true;
        }
    }

    /// What is wrong with the epochs below `end`, up to where the table was written before, and
    /// with those that fell. `epochs` are those of the batches, from where the log begins.
    pub fn judge(
        &self,
        table: Option<&EpochTable>,
        epochs: &EpochTable,
        end: Offset,
    ) -> Vec<Wrong> {
        let wrong: Vec<&Run> =
            self.runs.iter().filter(|run| !run.agrees && run.base < end).collect();
        let falls = self.runs.iter().any(|run| run.fell);
        if let (Some(table), [first, ..]) = (table, &wrong[..]) {
            let one_line = (!falls && !self.damaged).then(|| one_difference(table, epochs));
            let one_batch = wrong.len() == 1 && first.batches == 1;
            match one_line.flatten() {
                Some((found, expected)) => {
                    let either = match one_batch {
                        true => format!(
                            "; or the batch at byte {} of {} is wrong, which has epoch {}",
                            first.at.position,
                            crate::segment::file_name(first.at.segment),
                            first.epoch
                        ),
                        false => String::new(),
                    };
                    let found = format!("{}{either}", entry(found));
                    return vec![Wrong::Table { expected: entry(expected), found }];
                }
                None => return wrong.iter().map(|run| run.against(table)).collect(),
            }
        }
        let fell = (0..self.runs.len()).filter(|at| self.runs[*at].fell);
        fell.map(|at| self.blamed(at)).collect()
    }

    /// Which batch is to blame for a fall: this one, or the one before if that alone stands out.
    fn blamed(&self, fell: usize) -> Wrong {
        let own = &self.runs[fell];
        let before = &self.runs[fell - 1];
        let earlier = fell.checked_sub(2).map(|at| self.runs[at].epoch).unwrap_or_default();
        let stands_out = before.batches == 1 && earlier <= own.epoch;
        let (run, expected) = match stands_out {
            true => (before, format!("leader epoch {} at most, as after it", own.epoch)),
            false => (own, format!("leader epoch {} or later", before.epoch)),
        };
        Wrong::Batches { at: run.at, expected, found: run.text() }
    }
}

impl Run {
    fn text(&self) -> String {
        match self.batches {
            1 => self.epoch.to_string(),
            many => format!("{} in {many} batches", self.epoch),
        }
    }

    fn against(&self, table: &EpochTable) -> Wrong {
        let upto = table.entries().partition_point(|(_, first)| *first <= self.base);
        let known = upto.checked_sub(1).map(|at| table.entries()[at].0);
        let expected = match known.filter(|known| *known != self.epoch) {
            Some(known) => format!("leader epoch {known}, as {} has it", epoch_file::NAME),
            None => format!("a batch that begins each epoch which {} has", epoch_file::NAME),
        };
        Wrong::Batches { at: self.at, expected, found: self.text() }
    }
}

/// The one entry in which two tables differ, if it is one: of the first and of the second.
fn one_difference(
    one: &EpochTable,
    other: &EpochTable,
) -> Option<((Epoch, Offset), (Epoch, Offset))> {
    let (one, other) = (one.entries(), other.entries());
    let mut differ = one.iter().zip(other).filter(|(a, b)| a != b);
    let (first, second) = (differ.next(), differ.next());
    let (a, b) = first.filter(|_| second.is_none() && one.len() == other.len())?;
    Some((*a, *b))
}

/// An entry in words.
pub(super) fn entry((epoch, first): (Epoch, Offset)) -> String {
    format!("epoch {epoch} from {first}")
}
