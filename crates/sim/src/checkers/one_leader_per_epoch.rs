//! Two processes never lead the same epoch, not even two lives of one node [P44]. A leadership
//! counts once it is on disk: before that nothing of it leaves the node, and a crash undoes it.

use super::{Failure, Sight};
use crate::network::Process;
use bytes::Bytes;
use quorate_base::Epoch;
use quorate_raft::RoleName;
use std::collections::BTreeMap;

/// Who led which epoch.
#[derive(Default)]
pub(crate) struct OneLeaderPerEpoch {
    leaders: BTreeMap<Epoch, Process>,
}

impl OneLeaderPerEpoch {
    /// True if this is a leader that was not seen before. `state` is the durable election state.
    pub fn see(&mut self, sight: &Sight<'_>, state: Option<&Bytes>) -> Result<bool, Failure> {
        let own =
            format!(r#""leaderId":{},"leaderEpoch":{},"#, sight.process.node + 1, sight.view.epoch);
        let durable = state.is_some_and(|state| String::from_utf8_lossy(state).contains(&own));
        if sight.view.role != RoleName::Leader || !durable {
            return Ok(false);
        }
        match self.leaders.insert(sight.view.epoch, sight.process) {
            None => Ok(true),
            Some(known) if known == sight.process => Ok(false),
            Some(known) => Err(Failure::new(
                "one_leader_per_epoch",
                format!(
                    "node {} (life {}) and node {} (life {}) both lead epoch {}",
                    known.node + 1,
                    known.life,
                    sight.process.node + 1,
                    sight.process.life,
                    sight.view.epoch
                ),
            )),
        }
    }
}
