//! A voter that is not to lead, and leads because nobody else can, appends control records and
//! nothing that a client sent [P66].

use super::Failure;
use bytes::Bytes;
use quorate_log::Batches;

/// What a caretaker appends.
pub(crate) fn caretaker_takes_nothing(node: usize, batches: &Bytes) -> Result<(), Failure> {
    let data = Batches::checked_before(batches.clone()).find(|batch| !batch.control());
    match data {
        Some(batch) => {
            let what = format!("node {} took records at {} for a client", node + 1, batch.base());
            Err(Failure::new("caretaker_takes_nothing", what))
        }
        None => Ok(()),
    }
}
