//! An election in parts, as the node that wins it sees it: how long the leader was silent before,
//! the question whether it would be elected, the election, and the first commit.
//!
//! Follows what the node becomes; what others do in the meantime it does not know.

use super::Stage;
use quorate_base::{Span, Time};
use quorate_raft::RoleName;

/// A stage that ended, and how long it took.
type Took = Option<(Stage, Span)>;

#[derive(Debug)]
pub(crate) struct Election {
    role: RoleName,
    /// When the leader was last heard that this node gave up on; until there is one again.
    lost: Option<Time>,
    /// When this node began to ask for votes.
    stood: Option<Time>,
    /// When a majority would have voted for it.
    candidate: Option<Time>,
    /// When a majority had.
    led: Option<Time>,
}

impl Default for Election {
    fn default() -> Election {
        let role = RoleName::Unattached;
        Election { role, lost: None, stood: None, candidate: None, led: None }
    }
}

impl Election {
    pub fn role(&self) -> RoleName {
        self.role
    }

    /// What has ended with that.
    pub fn became(&mut self, now: Time, role: RoleName, heard_at: Time) -> [Took; 3] {
        let before = std::mem::replace(&mut self.role, role);
        let stands = [RoleName::Prospective, RoleName::ProspectiveVoted, RoleName::Candidate];
        let (mut detection, mut pre_vote, mut vote) = (None, None, None);
        if (stands.contains(&role) || role == RoleName::Leader) && self.stood.is_none() {
            self.stood = Some(now);
            if before == RoleName::Follower {
                self.lost.get_or_insert(heard_at);
                detection = Some((Stage::Detection, now.since(heard_at)));
            }
        }
        match role {
            RoleName::Prospective | RoleName::ProspectiveVoted => {}
            RoleName::Candidate => {
                if stands[..2].contains(&before) {
                    pre_vote = self.stood.map(|stood| (Stage::PreVote, now.since(stood)));
                }
                self.candidate.get_or_insert(now);
            }
            RoleName::Leader => {
                let candidate = self.candidate.unwrap_or(now);
                vote = Some((Stage::Vote, now.since(candidate)));
                self.led = Some(now);
            }
            RoleName::Follower | RoleName::Observer => {
                *self = Election { role, ..Election::default() };
            }
            RoleName::Unattached | RoleName::UnattachedVoted | RoleName::Resigned => {
                *self = Election { role, lost: self.lost, ..Election::default() };
            }
        }
        [detection, pre_vote, vote]
    }

    /// It serves as leader: the election is over.
    pub fn serves(&mut self, now: Time) -> [Took; 2] {
        let (led, stood, lost) = (self.led.take(), self.stood, self.lost.take());
        let all = led.and(lost.or(stood)).map(|since| (Stage::Election, now.since(since)));
        [led.map(|led| (Stage::FirstCommit, now.since(led))), all]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(at: u64) -> Time {
        Time(at * 1_000)
    }

    fn took(stages: impl IntoIterator<Item = Took>) -> Vec<(Stage, u64)> {
        stages.into_iter().flatten().map(|(stage, span)| (stage, span.as_ms())).collect()
    }

    #[test]
    fn an_election_is_the_sum_of_its_parts() {
        let mut election = Election::default();
        assert_eq!(took(election.became(ms(5), RoleName::Follower, ms(0))), []);
        let lost = took(election.became(ms(2_100), RoleName::Prospective, ms(100)));
        assert_eq!(lost, [(Stage::Detection, 2_000)]);
        let pre = took(election.became(ms(2_103), RoleName::Candidate, ms(100)));
        assert_eq!(pre, [(Stage::PreVote, 3)]);
        let vote = took(election.became(ms(2_108), RoleName::Leader, ms(100)));
        assert_eq!(vote, [(Stage::Vote, 5)]);
        let served = took(election.serves(ms(2_115)));
        assert_eq!(served, [(Stage::FirstCommit, 7), (Stage::Election, 2_015)]);
        assert_eq!(took(election.serves(ms(2_116))), [], "it serves once");
    }

    #[test]
    fn attempts_that_fail_belong_to_the_election_and_those_of_others_do_not() {
        let mut election = Election::default();
        election.became(ms(5), RoleName::Follower, ms(0));
        election.became(ms(2_000), RoleName::Prospective, ms(0));
        election.became(ms(2_500), RoleName::UnattachedVoted, ms(0));
        let again = took(election.became(ms(3_000), RoleName::ProspectiveVoted, ms(0)));
        assert_eq!(again, [], "the leader was lost once");
        election.became(ms(3_001), RoleName::Candidate, ms(0));
        election.became(ms(3_002), RoleName::Leader, ms(0));
        assert_eq!(
            took(election.serves(ms(3_003))),
            [(Stage::FirstCommit, 1), (Stage::Election, 3_003)]
        );
        // Another one wins.
        election.became(ms(4_000), RoleName::Resigned, ms(0));
        election.became(ms(4_001), RoleName::Follower, ms(0));
        election.became(ms(9_000), RoleName::Prospective, ms(8_000));
        election.became(ms(9_001), RoleName::Follower, ms(8_000));
        assert_eq!(took(election.serves(ms(9_002))), []);
    }
}
