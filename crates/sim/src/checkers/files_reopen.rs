//! Whatever a crash leaves can be opened again, and holds at least what was reported durable: the
//! records below the durable end as they were written, and the newest durable word on elections or
//! a later one.

use super::Failure;
use crate::book::Book;
use bytes::Bytes;
use quorate_base::Offset;
use quorate_log::{Election, Recovery};

/// What a node's files must hold at least, and may hold at most.
pub(crate) struct Written<'a> {
    /// The log as its jobs left it, done or not.
    pub book: &'a Book,
    /// What of it was durable.
    pub durable: Offset,
    /// The newest durable election state, then those that were given to the disk since.
    pub elections: &'a [Option<Bytes>],
}

/// Compares what recovery found with what was written.
pub(crate) fn files_reopen(
    node: usize,
    recovery: &Recovery,
    found: &Book,
    written: &Written<'_>,
) -> Result<(), Failure> {
    let failure =
        |what: String| Err(Failure::new("files_reopen", format!("node {}: {what}", node + 1)));
    let (end, durable) = (recovery.end, written.durable);
    if found.end() != end {
        return failure(format!("{end} is the end, the files hold {}", found.end()));
    }
    if end < durable {
        return failure(format!("{durable} was durable, the files end at {end}"));
    }
    let kept = written.book.below(durable);
    if found.entries.get(..kept) != Some(&written.book.entries[..kept]) {
        return failure(format!("the batches below the durable end {durable} are not as written"));
    }
    let election = recovery.election.as_ref();
    // In one form while the voters are static, in the other once the log names them.
    let forms = [election.map(Election::encode), election.map(Election::encode_dynamic)];
    if !forms.iter().any(|form| written.elections.contains(form)) {
        return failure(format!(
            "{election:?} is none of the states written, {:?}",
            written.elections
        ));
    }
    Ok(())
}
