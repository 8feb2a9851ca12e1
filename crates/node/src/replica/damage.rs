//! Records on this node's own disk that are not as they were written, found while the node runs.
//!
//! Where others have them too the node begins anew: start-up reads every byte, sets aside what is
//! damaged, and the rest is copied from the leader. A leader hands over first, so that whoever
//! asked for those records gets them from another.

use super::Replica;
use crate::out::{BadRead, Out};
use quorate_machine::Machine;
use quorate_raft::{Input, RoleName};
use tracing::error;

impl<M: Machine> Replica<M> {
    /// Committed records cannot be read back, so nothing can be applied after them.
    pub(super) fn cannot_apply(&mut self, bad: BadRead) {
        match bad.damaged && self.has_others() {
            true => self.damage = Some(bad.why),
            false => {
                let why = format!(
                    "cannot read committed records: {}; the state cannot be built from less, so the node \
                     stops: check the disk, and look at all files with `quorate log verify`",
                    bad.why
                );
                self.push(Out::Fatal { why });
            }
        }
    }

    /// Records that another replica asked for cannot be read. A node that has nobody to take over
    /// goes on with what it has.
    pub(super) fn cannot_serve(&mut self, bad: BadRead) {
        if bad.damaged && self.has_others() {
            self.damage = Some(bad.why);
            return;
        }
        if self.once.say(self.now, &bad.why) {
            error!(
                why = bad.why,
                "records that a replica asked for cannot be read: the disk or the file is damaged"
            );
        }
    }

    /// Begins anew, once others know that this node does not lead.
    pub(super) fn begin_anew_when_due(&mut self) {
        let Some(why) = &self.damage else { return };
        let view = self.quorum.view();
        let epoch = view.epoch;
        match view.role {
            RoleName::Leader => {
                error!(
                    why,
                    "records of this leader are damaged: it hands over, so that others serve them"
                );
                self.step(Input::Resign { epoch });
            }
            RoleName::Resigned => {}
            RoleName::Unattached
            | RoleName::UnattachedVoted
            | RoleName::Prospective
            | RoleName::ProspectiveVoted
            | RoleName::Candidate
            | RoleName::Follower
            | RoleName::Observer => {
                self.out.push(Out::BeginAnew { why: why.clone() });
                self.damage = None;
            }
        }
    }

    /// Whether other nodes vote, so that damaged files can be copied anew. An observer may not know
    /// them by name.
    pub fn has_others(&self) -> bool {
        let voters = self.quorum.view().voters;
        voters.is_empty() || voters.iter().any(|voter| Some(voter.key.id) != self.id)
    }
}
