//! What a log line says of voters: who was asked for, and who counts from now on. Decides nothing.

use super::Replica;
use quorate_base::ReplicaKey;
use quorate_machine::Machine;
use quorate_raft::{Request, Response};
use tracing::{info, warn};

impl<M: Machine> Replica<M> {
    /// Somebody asks this node for other voters.
    pub(super) fn note_change_asked(&self, body: &Request) {
        match body {
            Request::AddVoter(add) => match add.replaces {
                Some(old) => {
                    info!(voter = %add.key, %old, "asked to let a directory take another's place")
                }
                None => info!(voter = %add.key, "asked to add a voter"),
            },
            Request::RemoveVoter(remove) => info!(voter = %remove.key, "asked to remove a voter"),
            Request::Upgrade(asked) if !asked.validate_only => {
                info!(version = asked.version, "asked to raise kraft.version");
            }
            Request::Upgrade(_)
            | Request::Vote(_)
            | Request::BeginQuorumEpoch(_)
            | Request::EndQuorumEpoch(_)
            | Request::Fetch(_)
            | Request::FetchSnapshot(_)
            | Request::UpdateVoter(_) => {}
        }
    }

    /// What became of it, if it was not done.
    pub(super) fn note_change_refused(&mut self, body: &Response) {
        let (Response::AddVoter(answer)
        | Response::RemoveVoter(answer)
        | Response::Upgrade(answer)) = body
        else {
            return;
        };
        if let Some(why) = &answer.why
            && self.once.say(self.now, &format!("unchanged: {why}"))
        {
            warn!(%why, "the voters stay as they are");
        }
    }

    /// Others count than in the turn before.
    pub(super) fn note_voters(&mut self) {
        let voters = self.quorum.view().voters;
        let same = voters.iter().map(|voter| &voter.key).eq(&self.voters);
        if same {
            return;
        }
        let now: Vec<ReplicaKey> = voters.iter().map(|voter| voter.key).collect();
        let before = std::mem::replace(&mut self.voters, now);
        let words = |keys: &mut dyn Iterator<Item = &ReplicaKey>| {
            keys.map(ReplicaKey::to_string).collect::<Vec<_>>().join(", ")
        };
        let came = words(&mut self.voters.iter().filter(|key| !before.contains(key)));
        let gone = words(&mut before.iter().filter(|key| !self.voters.contains(key)));
        let voters = words(&mut self.voters.iter());
        info!(voters, came, gone, end = %self.log.end(), "other voters count from now on");
    }
}
