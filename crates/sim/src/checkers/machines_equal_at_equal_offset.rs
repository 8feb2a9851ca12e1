//! Two machines that hold the same prefix of the log are equal, whoever applied it and when.

use super::{Failure, Sight};
use quorate_base::Offset;
use std::collections::BTreeMap;

/// The digest at each offset, and the node that had it first.
#[derive(Default)]
pub(crate) struct MachinesEqualAtEqualOffset {
    digests: BTreeMap<Offset, (u64, usize)>,
}

impl MachinesEqualAtEqualOffset {
    pub fn see(&mut self, sight: &Sight<'_>) -> Result<(), Failure> {
        let here = (sight.digest, sight.process.node);
        let (digest, node) = *self.digests.entry(sight.applied).or_insert(here);
        match digest == sight.digest {
            true => Ok(()),
            false => Err(Failure::new(
                "machines_equal_at_equal_offset",
                format!(
                    "at offset {} node {} has digest {digest:016x}, node {} has {:016x}",
                    sight.applied,
                    node + 1,
                    sight.process.node + 1,
                    sight.digest
                ),
            )),
        }
    }
}
