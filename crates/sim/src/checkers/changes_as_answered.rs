//! What an administrator was told of the voters is so: a change that is done is in the committed
//! log, and one that was refused with nothing changed is in no log, ever. Changes of one kind are
//! told apart by their number: each request makes one record at most, and one that replaces a disk
//! takes one vote and gives one.

use super::committed_never_changes::durable_on_majority;
use super::{Failure, Logs};
use crate::admin::{Admin, Asked, Told};
use crate::book::Book;
use crate::seats::{Change, Seats, difference};
use quorate_base::{Epoch, Offset, ReplicaKey};
use std::collections::BTreeMap;

const NAME: &str = "changes_as_answered";

/// The changes of the committed log from an offset on.
fn committed(ledger: &Book, seats: &Seats, since: Offset) -> Vec<(Change, ReplicaKey)> {
    let first = ledger.entries.partition_point(|entry| entry.base < since);
    let named = (first..ledger.entries.len()).filter(|at| ledger.entries[*at].voters.is_some());
    named
        .flat_map(|at| {
            let before = seats.behind(&ledger.entries[..at]);
            difference(before, seats.behind(&ledger.entries[..=at]))
        })
        .collect()
}

/// A change was done just now, as it was told: it is committed. A leader that is gone with its own
/// removal was the only one to know that; then the logs have to say so.
pub(crate) fn change_is_committed(
    asked: &Asked,
    ledger: &Book,
    logs: &Logs<'_>,
) -> Result<(), Failure> {
    let wanted = (asked.wanted.change, asked.wanted.key);
    let on_disks = |(node, book): (usize, &Book)| {
        let first = book.entries.partition_point(|entry| entry.base < asked.since);
        let made = |at: &usize| {
            let (before, after) = (&book.entries[..*at], &book.entries[..=*at]);
            difference(logs.seats.behind(before), logs.seats.behind(after)).contains(&wanted)
        };
        let made = (first..book.entries.len()).rev().find(made);
        made.is_some_and(|at| durable_on_majority(at, &book.entries[at], node, logs).is_ok())
    };
    let done = !asked.wanted.when_committed
        || committed(ledger, logs.seats, asked.since).contains(&wanted)
        || logs.books.iter().enumerate().any(on_disks);
    match done {
        true => Ok(()),
        false => {
            let what = format!("{wanted:?} was answered, and is not committed");
            Err(Failure::new(NAME, what))
        }
    }
}

/// Compares all that was told with all that any log ever held. `by_themselves`: nodes may have
/// asked for it, too.
pub(crate) fn changes_as_answered(
    admin: &Admin,
    ledger: &Book,
    seats: &Seats,
    held: &BTreeMap<(Epoch, Offset), Vec<(Change, ReplicaKey)>>,
    by_themselves: impl Fn(&(Change, ReplicaKey)) -> bool,
) -> Result<(), Failure> {
    // Of each change: how often at least, and how often at most.
    let mut told: BTreeMap<(Change, ReplicaKey), (usize, usize)> = BTreeMap::new();
    for Asked { wanted, told: what, .. } in &admin.asked {
        // The old one may have gone before, so that nothing is said of it.
        let taken = !matches!(what, Told::Refused(_));
        if let Some(old) = wanted.replaces.filter(|_| taken) {
            told.entry((Change::Remove, old)).or_default().1 += 1;
        }
        let (least, most) = told.entry((wanted.change, wanted.key)).or_default();
        match what {
            Told::Done => {
                *least += usize::from(wanted.when_committed);
                *most += 1;
            }
            Told::Perhaps => *most += 1,
            Told::Refused(_) => {}
        }
    }
    let done = committed(ledger, seats, Offset::ZERO);
    for (change, (least, _)) in &told {
        let found = done.iter().filter(|done| *done == change).count();
        if found < *least {
            let what = format!("{change:?} was done {least} times, and committed {found} times");
            return Err(Failure::new(NAME, what));
        }
    }
    // Nodes that ask for themselves tell nobody how often they did.
    let held: Vec<_> = held.values().flatten().collect();
    for change in held.iter().filter(|change| !by_themselves(change)) {
        let found = held.iter().filter(|held| *held == change).count();
        let most = told.get(*change).map_or(0, |(_, most)| *most);
        if found > most {
            let what = format!(
                "{change:?} is in logs {found} times; all requests but {most} were refused with \
                 nothing changed"
            );
            return Err(Failure::new(NAME, what));
        }
    }
    Ok(())
}
