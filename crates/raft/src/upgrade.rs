//! From voters that the configuration names to voters that the log names: `kraft.version` 0 to 1
//! (KIP-853). Once, and never back.
//!
//! The same voters count before and after, so no majority moves; but each becomes known by its
//! directory too, which it has to have told its leader first [P78].

use crate::changes::{Asked, Change};
use crate::effect::{Effect, Ticket};
use crate::message::Upgrade;
use crate::quorum::Quorum;
use crate::role::Role;
use crate::unchanged::{NoUpgrade, Unchanged};
use crate::voters::{KRAFT_VERSIONS, Voter, Voters};
use quorate_base::ReplicaId;

impl Quorum {
    pub(crate) fn on_upgrade(&mut self, ticket: Ticket, asked: &Upgrade, out: &mut Vec<Effect>) {
        let ticket = Asked::Upgrade(ticket);
        let voters = match self.may_upgrade(asked.version) {
            Ok(Some(voters)) if !asked.validate_only => voters,
            Ok(Some(_) | None) => return self.answer_change(ticket, Ok(()), out),
            Err(why) => return self.answer_change(ticket, Err(why), out),
        };
        let base = self.seat(Some(asked.version), voters, out);
        let until = self.now + self.config.request_timeout;
        let Role::Leader(leader) = &mut self.role else { return };
        leader.change = Some(Change::appended(ticket, base, until));
    }

    /// The voters as they will be; `None` if that version is in force.
    fn may_upgrade(&self, version: u16) -> Result<Option<Voters>, Unchanged> {
        self.leads_changes()?;
        self.may_change_at_all()?;
        let now = self.decrees.in_force().version;
        if version == now {
            return Ok(None);
        }
        if version < now || version > KRAFT_VERSIONS.1 {
            return Err(Unchanged::Version(NoUpgrade::Level { asked: version, now }));
        }
        let entries = self.decrees.voters().keys().map(|key| self.as_told(key.id, version));
        let entries = entries.collect::<Result<Vec<Voter>, Unchanged>>()?;
        Ok(Some(Voters::new(entries.into()).expect("sorted as before")))
    }

    /// What a voter said of itself, if it speaks this version.
    fn as_told(&self, id: ReplicaId, version: u16) -> Result<Voter, Unchanged> {
        let Role::Leader(leader) = &self.role else {
            return Err(Unchanged::LeadershipLost { appended: false });
        };
        let own = self.own_entry().filter(|own| own.key.id == id);
        let of_others = || {
            let known = leader.voters.iter().find(|voter| voter.key.id == id)?;
            // One that fetches from another directory by now is another replica.
            let said = known.said.clone()?;
            (known.directory.is_none() || known.directory == said.key.directory).then_some(said)
        };
        match own.or_else(of_others) {
            Some(voter) if (voter.versions.0..=voter.versions.1).contains(&version) => Ok(voter),
            Some(Voter { versions: speaks, .. }) => {
                Err(Unchanged::Version(NoUpgrade::TooOld { id, speaks, asked: version }))
            }
            None => Err(Unchanged::Version(NoUpgrade::Unreported { id })),
        }
    }
}
