//! A leader that appends other voters has committed a record of its epoch, and the voters before
//! these [P71]; a majority of the new ones fetched from it lately, so that the change can be
//! committed [P72]; and who is new had all not long ago [P73].
//!
//! The world looks when the record is given to the disk: what counts from then on must have been
//! right by then. Whose fetch came when is as the leader has it, all else as the logs say.

use super::Failure;
use crate::book::{Book, Entry};
use crate::seats::{Change, Seats, difference};
use quorate_base::{Offset, ReplicaId, Span, Time};
use quorate_raft::{RoleName, View};

/// What the world knows of a leader and its log as a batch is appended.
pub(crate) struct Making<'a> {
    pub node: usize,
    pub view: View<'a>,
    /// Its clock.
    pub local: Time,
    pub fetch_timeout: Span,
    /// Its log before.
    pub book: &'a Book,
    pub seats: &'a Seats,
    /// The end of all that is known to be committed.
    pub committed: Offset,
}

/// Judges a batch that a node appends. The first of an epoch repeats who counts already.
pub(crate) fn change_is_safe_when_made(making: &Making<'_>, entry: &Entry) -> Result<(), Failure> {
    let Making { node, view, local, fetch_timeout, book, seats, committed } = making;
    let Some(after) = &entry.voters else { return Ok(()) };
    if view.role != RoleName::Leader || view.epoch_start.is_none_or(|start| start >= entry.base) {
        return Ok(());
    }
    let failure = |what: String| {
        let what = format!("node {} appends the voters {after:?}: {what}", node + 1);
        Err(Failure::new("change_is_safe_when_made", what))
    };
    let own = ReplicaId(*node as u32 + 1);
    let before = book.entries.iter().rev().find(|entry| entry.voters.is_some());
    let committed = view.high_watermark.unwrap_or_default().max(*committed);
    if let Some(before) = before.filter(|before| before.end > committed) {
        return failure(format!("those at {} are not committed", before.base));
    }
    let changes = difference(seats.behind(&book.entries), after);
    if changes.is_empty() {
        return Ok(());
    }
    if view.high_watermark.is_none() {
        return failure("it has committed nothing of its epoch".to_owned());
    }
    // Another one was appended within the same turn: that is what the replica counts by.
    if !view.voters.iter().map(|voter| voter.key).eq(after.iter().copied()) {
        return Ok(());
    }
    let lately = |at: Option<Time>| at.is_some_and(|at| local.since(at) < *fetch_timeout);
    let follow = view.followers.iter().filter(|other| lately(other.fetched_at)).count();
    let follow = follow + usize::from(after.iter().any(|key| key.id == own));
    if follow <= after.len() / 2 {
        return failure(format!("{follow} of them follow"));
    }
    for (_, key) in changes.iter().filter(|(change, _)| *change == Change::Add) {
        let found = view.followers.iter().find(|other| other.key == *key);
        if !found.is_some_and(|new| lately(new.caught_up_at)) {
            return failure(format!("{key} did not have all lately"));
        }
    }
    Ok(())
}
