//! What one replica knows to be committed is the same for all, for ever: every log has the same
//! batches below its high watermark, no log cuts them off, and when a batch is first known to be
//! committed a majority of the voters has it where a crash does not reach [P36].

use super::{Failure, Logs, Sight};
use crate::book::{Book, Entry, Lost};
use crate::network::Process;
use quorate_base::{Epoch, Offset, ReplicaKey};
use std::collections::BTreeMap;

const NAME: &str = "committed_never_changes";

/// The committed batches.
#[derive(Default)]
pub(crate) struct CommittedNeverChanges {
    pub ledger: Book,
    /// The epoch of the node that first knew each of them to be committed: no earlier leader did.
    epochs: Vec<Epoch>,
    /// How many batches of each process were compared.
    compared: BTreeMap<Process, usize>,
}

impl CommittedNeverChanges {
    /// A node after its turn. Returns how many batches became committed.
    pub fn see(&mut self, sight: &Sight<'_>, logs: &Logs<'_>) -> Result<usize, Failure> {
        // A new leader forgets its high watermark, but not what it has applied.
        let upto = sight.view.high_watermark.unwrap_or_default().max(sight.applied);
        let node = sight.process.node;
        let book = &logs.books[node];
        let compared = self.compared.entry(sight.process).or_default();
        let mut grown = 0;
        while let Some(entry) = book.entries.get(*compared)
            && entry.end <= upto
        {
            match self.ledger.entries.get(*compared) {
                Some(known) if known == entry => {}
                Some(known) => {
                    return Err(Failure::new(
                        NAME,
                        format!(
                            "offset {} is committed in epoch {}, node {} has epoch {} there below \
                             {upto}, its high watermark",
                            known.base,
                            known.epoch,
                            node + 1,
                            entry.epoch
                        ),
                    ));
                }
                None => {
                    durable_on_majority(*compared, entry, node, logs)?;
                    self.ledger.entries.push(entry.clone());
                    self.epochs.push(sight.view.epoch);
                    grown += 1;
                }
            }
            *compared += 1;
        }
        Ok(grown)
    }

    /// A node's log has only so many batches of what it had: it was cut, in this epoch. Whoever
    /// still follows a deposed leader may cut off what a later one has committed without it.
    pub fn cut(
        &self,
        node: usize,
        epoch: Epoch,
        before: &Book,
        left: usize,
    ) -> Result<(), Failure> {
        let later = self.epochs.get(left).is_some_and(|committed| *committed > epoch);
        match (before.entries.get(left), self.ledger.entries.get(left)) {
            (Some(gone), Some(committed)) if gone == committed && !later => Err(Failure::new(
                NAME,
                format!(
                    "node {} cuts off offset {} of epoch {}, which is committed",
                    node + 1,
                    gone.base,
                    gone.epoch
                ),
            )),
            (Some(_) | None, Some(_) | None) => Ok(()),
        }
    }
}

/// A commit counts by the voters in force when it is made. Those behind the batch are, or the next
/// ones: no later set is appended before the batch is committed [P71].
pub(super) fn durable_on_majority(
    at: usize,
    entry: &Entry,
    node: usize,
    logs: &Logs<'_>,
) -> Result<(), Failure> {
    let has =
        |book: &Book, durable: Offset| durable >= entry.end && book.entries.get(at) == Some(entry);
    let had = |lost: &Lost| has(&lost.book, lost.durable);
    let holds = |voter: &&ReplicaKey| {
        let Some(node) = logs.keys.iter().position(|key| voter.names(*key)) else {
            return logs.gone.get(voter).is_some_and(had);
        };
        logs.lost[node].as_ref().is_some_and(had) || has(&logs.books[node], logs.durable[node])
    };
    let entries = &logs.books[node].entries;
    let next = entries[at + 1..].iter().position(|entry| entry.voters.is_some());
    let next = next.filter(|_| logs.seats.dynamic).map(|ahead| at + 2 + ahead);
    let mut told = Vec::new();
    for upto in [Some(at + 1), next].into_iter().flatten() {
        let voters = logs.seats.behind(&entries[..upto]);
        let holders: Vec<&ReplicaKey> = voters.iter().filter(holds).collect();
        if holders.len() > voters.len() / 2 {
            return Ok(());
        }
        told.push(format!("of {voters:?} only {holders:?}"));
    }
    let what = format!(
        "node {} takes offset {} of epoch {} for committed, but {} would have it after a crash",
        node + 1,
        entry.base,
        entry.epoch,
        told.join(", ")
    );
    Err(Failure::new(NAME, what))
}
