//! What is known of a log besides its batches: how far it went, and below which byte damage is no
//! torn tail. Must never claim less than was promised, nor take what a reset left for a promise.

use crate::EpochTable;
use crate::synced_file::Found;
use quorate_base::{Offset, OffsetEpoch};

/// What says how far a log went whose own batches do not.
pub(crate) struct Claims<'a> {
    pub mark: Found,
    pub table: Option<&'a EpochTable>,
    pub must_reach: Option<OffsetEpoch>,
}

impl Claims<'_> {
    /// How far a damaged log may have gone, at least as far as its right batches: those before the
    /// damage, `reached`, and those behind it. A reset that was begun has lowered the mark, and
    /// takes segments away newest first; so only what a reset to `newest` cannot have left counts.
    pub fn of_damaged(
        &self,
        reached: OffsetEpoch,
        behind: OffsetEpoch,
        bases: &[Offset],
        newest: OffsetEpoch,
    ) -> OffsetEpoch {
        let mut claimed = reached;
        claimed.offset = claimed.offset.max(behind.offset);
        if let Found::Mark(mark, ..) = self.mark {
            claimed.offset = claimed.offset.max(mark.end);
        }
        let other = bases.iter().rev().find(|base| **base != newest.offset);
        claimed.offset = claimed.offset.max(other.copied().unwrap_or_default());
        let table = self.table.and_then(EpochTable::last_epoch).unwrap_or_default();
        claimed.epoch = claimed.epoch.max(table);
        // What was promised is written down elsewhere.
        let noted = self.must_reach.is_some_and(|must| must.log_order() >= claimed.log_order());
        if noted { reached } else { claimed }
    }
}

/// Below this byte of the segment, damage is not a torn tail.
pub(crate) fn firm(mark: Found, segment: Offset) -> u64 {
    match mark {
        Found::Mark(mark, ..) if mark.segment == segment => mark.position,
        Found::Mark(mark, ..) if mark.segment < segment => 0,
        Found::Mark(..) | Found::Unreadable => u64::MAX,
        Found::Missing => 0,
    }
}
