//! What must hold between replicas and between a replica and its disk, whatever happens.
//!
//! Each law is stated over what nodes showed and what their disks hold, never over a core's own
//! books: a core that lies to itself is caught here.

use super::key;
use super::node::{Node, Picture, Record};
use quorate_base::{Epoch, Offset, ReplicaId, ReplicaKey};
use quorate_raft::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub struct Laws {
    pub voters: Vec<ReplicaId>,
    /// Whom the nodes hold for the leader of each epoch.
    leaders: BTreeMap<Epoch, ReplicaId>,
    /// Each vote that was told.
    votes: BTreeMap<(ReplicaId, Epoch), ReplicaKey>,
    /// All that any replica ever took for committed.
    pub committed: Vec<Record>,
    /// What was committed when each read came.
    reads: BTreeMap<Token, Offset>,
    /// Off when peers lie on purpose: then only what a node owes to itself and its disk must hold.
    pub peers_are_honest: bool,
}

impl Laws {
    pub fn new(voters: Vec<ReplicaId>) -> Laws {
        Laws {
            voters,
            leaders: BTreeMap::new(),
            votes: BTreeMap::new(),
            committed: Vec::new(),
            reads: BTreeMap::new(),
            peers_are_honest: true,
        }
    }

    /// After a step of node `id`.
    pub fn hold(&mut self, id: ReplicaId, before: Picture, nodes: &BTreeMap<ReplicaId, Node>) {
        let node = &nodes[&id];
        let after = node.picture();
        assert_eq!(after.end.0, node.log.len() as u64, "the log of {id} follows its core");
        let view = node.quorum.as_ref().expect("it runs").view();
        assert_eq!(view.epochs, node.epochs(), "the epochs of {id} follow its log");
        assert_eq!(view.start, node.kept.start, "the start of {id} follows its log");
        assert!(
            after.durable.0 <= node.durable_log.len() as u64 || !node.queue.is_empty(),
            "{id} holds {} for durable, the disk {}",
            after.durable,
            node.durable_log.len()
        );
        let durable = after.durable.0 as usize;
        assert!(
            node.durable_log.get(..durable) == Some(&node.log[..durable]),
            "{id} holds {durable} for durable, the disk has something else"
        );
        assert!(node.log.starts_with(&node.applied), "applied records of {id} changed");
        assert!(after.epoch >= before.epoch, "the epoch of {id} falls");
        if let (Some(was), Some(is)) = (before.high_watermark, after.high_watermark) {
            let led = before.role != RoleName::Leader && after.role == RoleName::Leader;
            assert!(is >= was || led, "the high watermark of {id} falls from {was} to {is}");
        }
        if self.peers_are_honest {
            self.one_leader_per_epoch(id, after);
            self.committed_is_durable_on_a_majority(id, before, after, nodes);
            self.one_change_at_a_time(id, nodes);
        }
    }

    /// Nobody disagrees on who leads an epoch.
    fn one_leader_per_epoch(&mut self, id: ReplicaId, after: Picture) {
        if let Some(leader) = after.leader {
            let first = *self.leaders.entry(after.epoch).or_insert(leader);
            let epoch = after.epoch;
            assert_eq!(first, leader, "{id} holds {leader} for the leader of epoch {epoch}");
        }
    }

    /// What a high watermark covers is what every other covers, and a majority holds it.
    fn committed_is_durable_on_a_majority(
        &mut self,
        id: ReplicaId,
        before: Picture,
        after: Picture,
        nodes: &BTreeMap<ReplicaId, Node>,
    ) {
        // A leader that commits and resigns in one step has told it, and shows it no more.
        let known = after.high_watermark.unwrap_or_default().max(nodes[&id].told);
        let upto = known.0 as usize;
        let log = &nodes[&id].log[..upto];
        let both = upto.min(self.committed.len());
        assert_eq!(log[..both], self.committed[..both], "committed records of {id} changed");
        if upto > both {
            // By those that count at its own end: only a leader is the first to know. In one step
            // it may learn that and append other voters.
            let enough = |end: Offset| {
                let voters = self.voters_of(&nodes[&id], end);
                let holds = |voter: &&ReplicaKey| {
                    let node = voter.names(key(voter.id)).then(|| &nodes[&voter.id]);
                    node.is_some_and(|node| node.durable_log.get(..upto) == Some(log))
                };
                voters.iter().filter(holds).count() > voters.len() / 2
            };
            let held = enough(after.end) || enough(before.end);
            assert!(held, "{id} takes {upto} for committed, and no majority holds it");
            self.committed = log.to_vec();
        }
    }

    /// Who counts, as a node's log says up to an end.
    fn voters_of(&self, node: &Node, end: Offset) -> Vec<ReplicaKey> {
        let voters = node.founded(Some(end)).voters;
        let fixed = || self.voters.iter().map(|id| key(*id)).collect();
        let keys = |voters: &Arc<[Voter]>| voters.iter().map(|voter| voter.key).collect();
        voters.as_ref().map_or_else(fixed, keys)
    }

    /// Each set of voters is one away from the one before, or has another directory for one node,
    /// and every majority of it meets every majority of the one before.
    fn one_change_at_a_time(&self, id: ReplicaId, nodes: &BTreeMap<ReplicaId, Node>) {
        let voters = |decree: &&'static Decree| decree.voters.as_deref();
        let founded = nodes[&id].founding.as_ref().and_then(|decree| decree.voters.as_deref());
        let sets = nodes[&id].log.iter().filter_map(|record| record.decree.as_ref());
        let sets: Vec<&[Voter]> = founded.into_iter().chain(sets.filter_map(voters)).collect();
        for pair in sets.windows(2) {
            let keys = |set: &[Voter]| set.iter().map(|voter| voter.key).collect::<BTreeSet<_>>();
            let (old, new) = (keys(pair[0]), keys(pair[1]));
            let away: Vec<_> = old.symmetric_difference(&new).collect();
            let one = away.len() <= 1 || away.len() == 2 && away[0].id == away[1].id;
            // As many as possible of each majority are of that set alone.
            let both = old.intersection(&new).count();
            let left = |set: &BTreeSet<_>| (set.len() / 2 + 1).saturating_sub(set.len() - both);
            let meet = left(&old) + left(&new) > both;
            assert!(one && meet, "the voters of {id} change from {old:?} to {new:?}");
        }
    }

    /// No question leaves before what it promises survives a crash.
    pub fn may_ask(&self, node: &Node, body: &Request) {
        let (id, disk) = (node.id, &node.durable_election);
        let epoch = match body {
            Request::Vote(vote) => {
                if !vote.pre_vote {
                    let own = disk.voted.is_some_and(|voted| voted.id == id);
                    assert!(own, "{id} stands without its own vote on disk");
                    let end = node.durable_log.len() as u64;
                    assert!(vote.last.offset.0 <= end, "{id} stands with a log not on disk");
                }
                vote.epoch
            }
            Request::BeginQuorumEpoch(begin) => {
                assert_eq!(disk.leader, Some(id), "{id} says it leads, its disk does not");
                begin.epoch
            }
            Request::EndQuorumEpoch(end) => {
                assert_eq!(disk.leader, Some(id), "{id} says it led, its disk does not");
                end.epoch
            }
            Request::Fetch(fetch) => {
                let acknowledged = fetch.from.offset.0 as usize;
                let counts = fetch.replica.is_some();
                assert!(
                    !counts || node.durable_log.get(..acknowledged) == Some(&node.log[..]),
                    "{id} acknowledges {acknowledged}, its disk holds {}",
                    node.durable_log.len()
                );
                fetch.epoch
            }
            Request::FetchSnapshot(ask) => ask.epoch,
            Request::UpdateVoter(update) => update.epoch,
            Request::AddVoter(_) | Request::RemoveVoter(_) | Request::Upgrade(_) => disk.epoch,
        };
        assert!(disk.epoch >= epoch, "{id} speaks of epoch {epoch}, its disk of {}", disk.epoch);
    }

    /// No answer either. `asked` is the question, if it was one for a vote.
    pub fn may_answer(&mut self, node: &Node, asked: Option<&Vote>, body: &Response) {
        let (id, disk) = (node.id, &node.durable_election);
        let view = match body {
            Response::Vote(answer) => &answer.view,
            Response::BeginQuorumEpoch(view) | Response::EndQuorumEpoch(view) => view,
            Response::Fetch(answer) => &answer.view,
            Response::FetchSnapshot(answer) => &answer.view,
            Response::UpdateVoter(view) => view,
            Response::AddVoter(_) | Response::RemoveVoter(_) | Response::Upgrade(_) => return,
        };
        let epoch = view.epoch;
        assert!(disk.epoch >= epoch, "{id} speaks of epoch {epoch}, its disk of {}", disk.epoch);
        let leads = node.named && view.leader == Some(id) && disk.epoch == epoch;
        assert!(!leads || disk.leader == Some(id), "{id} says it leads, its disk does not");
        let served = matches!(body, Response::Fetch(_) | Response::FetchSnapshot(_))
            && view.error == ErrorKind::None;
        assert!(!served || disk.leader == Some(id), "{id} serves a fetch, its disk says no leader");
        if let (Response::Vote(answer), Some(asked)) = (body, asked)
            && answer.granted
            && !asked.pre_vote
        {
            let kept = disk.epoch > epoch || disk.voted.is_some_and(|v| v.names(asked.candidate));
            assert!(kept, "{id} votes for {}, its disk for {:?}", asked.candidate, disk.voted);
            let first = *self.votes.entry((id, epoch)).or_insert(asked.candidate);
            assert_eq!(first, asked.candidate, "{id} votes twice in epoch {epoch}");
        }
    }

    pub fn read_asked(&mut self, token: Token) {
        self.reads.insert(token, Offset(self.committed.len() as u64));
    }

    /// A read sees all that was committed when it came.
    pub fn read_answered(&mut self, token: Token, offset: Offset) {
        let known = self.reads.remove(&token).expect("a read is answered once");
        assert!(
            offset >= known || !self.peers_are_honest,
            "a read at {offset} misses what was committed at {known}"
        );
    }
}
