//! What a node's disk remembers of elections: its epoch never falls, over all its lives, and it
//! never names two candidates in one epoch [P9]. Only what is durable counts: what a crash took was
//! never told to anyone. A directory that is formatted anew remembers nothing, and is a new one
//! here.

use super::Failure;
use std::collections::{BTreeMap, BTreeSet};

/// The newest epoch on each disk, and the candidate that each disk named in each epoch.
#[derive(Default)]
pub(crate) struct Remembered {
    epochs: BTreeMap<usize, i64>,
    votes: BTreeMap<(usize, i64), i64>,
    /// The epochs that each disk says its own node leads or led.
    led: BTreeSet<(usize, i64)>,
}

impl Remembered {
    /// A node's `quorum-state` is on its disk.
    pub fn see(&mut self, node: usize, state: &[u8]) -> Result<(), Failure> {
        let text = String::from_utf8_lossy(state);
        let (epoch, voted) = (number(&text, "leaderEpoch"), number(&text, "votedId"));
        let (Some(epoch), Some(voted)) = (epoch, voted) else {
            let what = format!("node {}: {text} has no epoch or no vote", node + 1);
            return Err(Failure::new("epoch_never_falls", what));
        };
        match self.epochs.insert(node, epoch) {
            Some(before) if before > epoch => {
                let what = format!("the disk of node {} went from {before} to {epoch}", node + 1);
                return Err(Failure::new("epoch_never_falls", what));
            }
            Some(_) | None => {}
        }
        if number(&text, "leaderId") == Some(node as i64 + 1) {
            self.led.insert((node, epoch));
        }
        if voted < 0 {
            return Ok(());
        }
        match self.votes.insert((node, epoch), voted) {
            Some(before) if before != voted => {
                let what = format!(
                    "the disk of node {} names {before} and then {voted} in epoch {epoch}",
                    node + 1
                );
                Err(Failure::new("vote_once_per_epoch", what))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// A node's directory is formatted anew.
    pub fn wiped(&mut self, node: usize) {
        self.epochs.remove(&node);
        self.votes.retain(|(of, _), _| *of != node);
        self.led.retain(|(of, _)| *of != node);
    }

    /// The newest epoch on a node's disk; 0 before the first.
    pub fn epoch(&self, node: usize) -> i64 {
        self.epochs.get(&node).copied().unwrap_or(0)
    }

    /// Whom a node's disk has named in an epoch.
    pub fn vote(&self, node: usize, epoch: i64) -> Option<i64> {
        self.votes.get(&(node, epoch)).copied()
    }

    /// Whether a node's disk has said that it leads this epoch.
    pub fn led(&self, node: usize, epoch: i64) -> bool {
        self.led.contains(&(node, epoch))
    }
}

fn number(text: &str, field: &str) -> Option<i64> {
    let (_, rest) = text.split_once(&format!("\"{field}\":"))?;
    let end = rest.find(|c: char| c != '-' && !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]
mod tests {
    use super::*;
    use quorate_base::{Epoch, ReplicaId, ReplicaKey};
    use quorate_log::Election;

    fn state(epoch: u32, voted: Option<u32>) -> Vec<u8> {
        let voted = voted.map(|id| ReplicaKey::new(ReplicaId(id), None));
        let election = Election { epoch: Epoch(epoch), leader: None, voted, voters: Vec::new() };
        election.encode().to_vec()
    }

    #[test]
    fn a_falling_epoch_and_a_second_vote_are_noticed() {
        let mut seen = Remembered::default();
        seen.see(0, &state(4, Some(2))).unwrap();
        seen.see(0, &state(4, None)).unwrap();
        seen.see(1, &state(4, Some(3))).unwrap();
        assert_eq!(seen.see(0, &state(4, Some(3))).unwrap_err().checker, "vote_once_per_epoch");
        seen.see(0, &state(5, Some(3))).unwrap();
        assert_eq!(seen.see(0, &state(4, None)).unwrap_err().checker, "epoch_never_falls");
        assert_eq!(seen.see(0, b"{}").unwrap_err().checker, "epoch_never_falls");
        seen.wiped(0);
        seen.see(0, &state(1, Some(1))).unwrap();
        assert_eq!(seen.see(1, &state(4, Some(1))).unwrap_err().checker, "vote_once_per_epoch");
    }
}
