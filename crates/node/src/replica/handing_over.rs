//! Handing over leadership because somebody asks for it: who can, and who cannot, in words.
//!
//! Only starts it. What was taken is still committed, and then the core resigns [P77].

use super::Replica;
use quorate_base::{Epoch, ReplicaId};
use quorate_machine::Machine;
use quorate_raft::{Input, RoleName};
use std::fmt;

/// Why a node does not hand over leadership.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stays {
    /// It does not lead.
    NotLeading {
        /// Who does, as far as it knows.
        leader: Option<ReplicaId>,
    },
    /// It is the only voter.
    Alone,
    /// No other voter may lead, by its settings.
    NoHeir,
}

impl fmt::Display for Stays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stays::NotLeading { leader: Some(leader) } => {
                write!(f, "this node does not lead, node {leader} does; ask that one")
            }
            Stays::NotLeading { leader: None } => f.write_str(
                "this node does not lead and knows nobody who does, so there is nothing to hand over",
            ),
            Stays::Alone => f.write_str(
                "this node is the only voter, so nobody could lead in its place; add another voter first (`quorate quorum \
                 add`), or just stop it",
            ),
            Stays::NoHeir => f.write_str(
                "no other voter may lead: all of them have quorate.election.never.lead, so nobody would lead in the place of \
                 this node",
            ),
        }
    }
}

impl<M: Machine> Replica<M> {
    /// Hand over leadership if this is the current epoch, once what was taken is committed.
    pub fn resign(&mut self, epoch: Epoch) {
        self.inputs.push_back(Input::HandOver { epoch });
    }

    /// The same for whatever epoch this node leads, which is returned.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn hand_over(&mut self) -> Result<Epoch, Stays> {
        let view = self.quorum.view();
        if view.role != RoleName::Leader {
            let leader = view.leader.filter(|leader| Some(*leader) != self.id);
            return Err(Stays::NotLeading { leader });
        }
        if view.voters.len() < 2 {
            return Err(Stays::Alone);
        }
        if !self.quorum.has_heir() {
            return Err(Stays::NoHeir);
        }
        let epoch = view.epoch;
        self.resign(epoch);
        Ok(epoch)
    }
}
