//! Votes: giving them, asking for them, and the roles that live on them (Unattached, Prospective,
//! Candidate).
//!
//! One vote an epoch, whatever happens in between; a vote is durable before anyone hears of it. A
//! pre-vote promises nothing and changes nothing [P14] [P15]. A damaged log is judged as it was
//! [P62].

use crate::effect::{Complaint, Effect, Ticket};
use crate::message::{ErrorKind, Request, Response, Vote, VoteAnswer};
use crate::mutants::mutant;
use crate::peers::{Node, Question};
use crate::quorum::{LAST_EPOCH, Quorum};
use crate::role::{Ballot, Candidate, Prospective, Role, Standing, Tally, Unattached};
use quorate_base::{ReplicaKey, Span, Time};

/// How often those that refused a pre-vote after a process death are asked again [P51].
const ASK_AGAIN: Span = Span::ms(50);

/// How long a replica holds back after it granted a pre-vote to another [P51].
const HOLD_BACK: Span = Span::ms(100);

impl Quorum {
    // --- Being asked

    pub(crate) fn on_vote(&mut self, ticket: Ticket, vote: &Vote, out: &mut Vec<Effect>) {
        let (error, granted) = match self.judge(vote, out) {
            Ok(granted) => (ErrorKind::None, granted),
            Err(error) => (error, false),
        };
        // Only a given vote waits for the write of the vote.
        let needs = match granted && !vote.pre_vote {
            true => self.shown().max(self.vote_write),
            false => self.shown(),
        };
        let body = Response::Vote(VoteAnswer { view: self.leader_view(error), granted });
        self.reply(ticket, needs, body, out);
    }

    /// The checks of a vote request in their order [P17].
    fn judge(&mut self, vote: &Vote, out: &mut Vec<Effect>) -> Result<bool, ErrorKind> {
        let sound = match vote.pre_vote {
            true => vote.last.epoch <= vote.epoch,
            false => vote.last.epoch < vote.epoch,
        };
        if !sound || vote.epoch > LAST_EPOCH {
            return Err(ErrorKind::InvalidRequest);
        }
        if vote.epoch < self.standing.epoch {
            return Err(ErrorKind::FencedLeaderEpoch);
        }
        if Some(vote.candidate.id) == self.id() {
            out.push(Effect::Complain { what: Complaint::SharesOurId { id: vote.candidate.id } });
            return Err(ErrorKind::InvalidRequest);
        }
        // Before the vote itself is judged, and by a leader too [P16].
        if vote.epoch > self.standing.epoch {
            self.become_unattached(Standing::fresh(vote.epoch), out);
        }
        if vote.voter.is_some_and(|asked| !self.key.is_some_and(|key| asked.names(key))) {
            return Err(ErrorKind::InvalidVoterKey);
        }
        Ok(match vote.pre_vote {
            true => self.grant_pre_vote(vote, out),
            false => self.grant_vote(vote, out),
        })
    }

    fn up_to_date(&self, vote: &Vote) -> bool {
        let asked = vote.last.log_order();
        asked >= self.last().log_order() && self.allows(vote.last)
            || mutant!(self, GrantToShorterLog)
    }

    /// A standard vote: only while no leader of the epoch is known, once, and again only to the
    /// same [P14].
    fn grant_vote(&mut self, vote: &Vote, out: &mut Vec<Effect>) -> bool {
        match &self.role {
            Role::Unattached(_) | Role::Prospective(_) => {}
            Role::Candidate(_) if mutant!(self, GrantTwice) => {}
            Role::Candidate(_) | Role::Follower(_) | Role::Leader(_) | Role::Resigned(_) => {
                return false;
            }
        }
        if self.key.is_none() {
            return false; // Nothing could tell after a restart whose vote the file holds [P4].
        }
        if let Some(voted) = self.standing.voted
            && !mutant!(self, GrantTwice)
        {
            return voted.names(vote.candidate); // The log was judged when the vote was given.
        }
        if self.standing.leader.is_some() {
            return false;
        }
        if !self.up_to_date(vote) {
            self.is_needed();
            return false;
        }
        self.standing.voted = Some(vote.candidate);
        self.persist(out);
        // Whoever has just voted gives its candidate a whole timeout.
        let fresh = self.random_election_at();
        let stands = self.is_electable();
        match &mut self.role {
            Role::Unattached(role) if stands => role.election_at = fresh,
            Role::Prospective(role) => role.election_at = fresh,
            Role::Unattached(_)
            | Role::Candidate(_)
            | Role::Follower(_)
            | Role::Leader(_)
            | Role::Resigned(_) => {}
        }
        true
    }

    /// Whether a standard vote might be given: not while the leader is heard, and only to an
    /// up-to-date log [P15].
    fn grant_pre_vote(&mut self, vote: &Vote, out: &mut Vec<Effect>) -> bool {
        let willing = match &self.role {
            Role::Leader(_) => false,
            // Contact with the leader speaks against an election; its death for one [P51]. Who does
            // not stand itself has no other end of the contact than that it is long ago.
            Role::Follower(role) => {
                let lately = self.now < role.fetch_at || mutant!(self, HearTheSilent);
                let heard = role.fetched && lately;
                !heard || role.stand_at.is_some() || self.would_rather_another(role)
            }
            Role::Unattached(_) | Role::Prospective(_) | Role::Candidate(_) | Role::Resigned(_) => {
                true
            }
        };
        if !willing {
            return false;
        }
        if !self.up_to_date(vote) {
            self.is_needed();
            return false;
        }
        self.hold_back(out);
        true
    }

    /// After a process death, whoever granted a pre-vote lets the other go first. The rank keeps
    /// two that granted each other apart [P51].
    fn hold_back(&mut self, out: &mut Vec<Effect>) {
        let hold = self.now + HOLD_BACK + self.stagger();
        let standing_aside =
            matches!(&self.role, Role::Prospective(role) if role.ask_again_at.is_some());
        if standing_aside {
            // What the others granted before must not elect it meanwhile.
            self.leave_prospective(out);
        }
        if let Role::Follower(role) = &mut self.role
            && (standing_aside || role.stand_at.is_some())
        {
            role.stand_at = Some(role.stand_at.map_or(hold, |at| at.max(hold)));
        }
    }

    /// The wait of this replica's rank among the voters that the dead leader leaves.
    pub(crate) fn stagger(&self) -> Span {
        let before =
            self.decrees.voters().keys().filter(|voter| {
                Some(voter.id) != self.standing.leader && Some(voter.id) < self.id()
            });
        Span(self.config.death_stagger.0.saturating_mul(before.count() as u64))
    }

    // --- Asking

    /// Asks all that have not answered, as far as their connections are free.
    fn ask_for_votes(&mut self, unanswered: &[ReplicaKey], own: ReplicaKey, out: &mut Vec<Effect>) {
        let pre_vote = matches!(self.role, Role::Prospective(_));
        // A candidate's vote request names its log, and whoever votes for it relies on that log
        // being there even if the candidate restarts in this epoch; the vote's write comes after
        // all appends [P45].
        let needs = match pre_vote {
            true => self.shown(),
            false => self.shown().max(self.vote_write),
        };
        for voter in unanswered {
            let node = Node::Replica(voter.id);
            if !self.ready(node) {
                continue;
            }
            let vote = Vote {
                epoch: self.standing.epoch,
                candidate: own,
                voter: Some(*voter),
                last: self.last(),
                pre_vote,
            };
            self.ask(node, Question::Vote { pre_vote }, needs, Request::Vote(vote), out);
        }
    }

    /// Whether the node may be asked now; if it backs off, the deadline will say when.
    pub(crate) fn ready(&mut self, node: Node) -> bool {
        let at = self.peers.ready_at(node);
        if at > self.now {
            self.retry_at = self.retry_at.min(at);
        }
        at <= self.now
    }

    pub(crate) fn on_vote_answer(
        &mut self,
        node: Node,
        pre_vote: bool,
        answer: &VoteAnswer,
        out: &mut Vec<Effect>,
    ) {
        let Node::Replica(id) = node else { return };
        if answer.view.error == ErrorKind::UnsupportedVersion {
            // The version that could not be spoken is the one with the pre-vote [P19].
            let mut speaks = self.peers.speaks(id).unwrap_or_default();
            speaks.pre_vote = false;
            self.back_off(node);
            if pre_vote {
                self.peers.learn(id, speaks);
            }
            return;
        }
        let ballot = match answer.view.error {
            ErrorKind::InvalidVoterKey => {
                out.push(Effect::Complain { what: Complaint::WrongVoterKey { id } });
                Ballot::Refused
            }
            ErrorKind::None
            | ErrorKind::FencedLeaderEpoch
            | ErrorKind::UnknownLeaderEpoch
            | ErrorKind::NotLeaderOrFollower
            | ErrorKind::InvalidRequest
            | ErrorKind::BrokerNotAvailable
            | ErrorKind::UnsupportedVersion
            | ErrorKind::InconsistentClusterId
            | ErrorKind::SnapshotNotFound
            | ErrorKind::PositionOutOfRange
            | ErrorKind::RequestTimedOut
            | ErrorKind::VoterNotFound
            | ErrorKind::DuplicateVoter
            | ErrorKind::InvalidUpdateVersion
            | ErrorKind::Other(_) => match answer.granted {
                true => Ballot::Granted,
                false => Ballot::Refused,
            },
        };
        // A voter that is another one than we believe has answered for good: no use in asking
        // again.
        let told = self.learn(node, &answer.view, out);
        if !told && answer.view.error != ErrorKind::InvalidVoterKey {
            return;
        }
        let (tally, may_change) = match &mut self.role {
            Role::Prospective(role) if pre_vote => (&mut role.tally, true),
            Role::Candidate(role) if !pre_vote => (&mut role.tally, false),
            Role::Prospective(_)
            | Role::Candidate(_)
            | Role::Unattached(_)
            | Role::Follower(_)
            | Role::Leader(_)
            | Role::Resigned(_) => return,
        };
        let Some(known) = tally.ballot(id) else { return };
        if !may_change && *known != Ballot::Unanswered && *known != ballot {
            let what = Complaint::ChangedVote { id, epoch: self.standing.epoch };
            out.push(Effect::Complain { what });
            return;
        }
        *known = ballot;
    }

    // --- The roles

    /// Leaves for another epoch, or for none that could be led. A later epoch inherits what is left
    /// of the election timeout, so that a flood of new epochs does not keep a voter from standing
    /// [P18].
    pub(crate) fn become_unattached(&mut self, standing: Standing, out: &mut Vec<Effect>) {
        let election_at = match &self.role {
            Role::Unattached(role) => role.election_at,
            Role::Candidate(role) => role.election_at,
            Role::Resigned(role) => role.election_at,
            Role::Prospective(role) if !role.tally.lost() => role.election_at,
            Role::Prospective(_) | Role::Follower(_) | Role::Leader(_) => self.random_election_at(),
        };
        let election_at = if self.is_electable() { election_at } else { Time::NEVER };
        self.enter(standing, Role::Unattached(Unattached { election_at }), out);
    }

    pub(crate) fn turn_unattached(&mut self, out: &mut Vec<Effect>) -> bool {
        let Role::Unattached(role) = &self.role else { return false };
        if self.now >= role.election_at && self.may_stand() {
            self.become_prospective(false, out);
            return true;
        }
        self.fetch_from_anyone(None, out);
        false
    }

    /// Keeps the epoch, the vote and the leader; nothing durable changes [P12].
    pub(crate) fn become_prospective(&mut self, process_gone: bool, out: &mut Vec<Effect>) {
        let Some(own) = self.key else { return };
        let hurries = process_gone && !self.stands_aside();
        let role = Prospective {
            tally: Tally::new(self.decrees.voters().keys(), own),
            election_at: self.random_election_at(),
            ask_again_at: hurries.then(|| self.now + ASK_AGAIN),
        };
        self.enter(self.standing.clone(), Role::Prospective(role), out);
    }

    pub(crate) fn turn_prospective(&mut self, out: &mut Vec<Effect>) -> bool {
        let lacking = self.lacks_pre_vote();
        let aside = matches!(self.role, Role::Prospective(_)) && self.stands_aside();
        let (now, own) = (self.now, self.key);
        let (Role::Prospective(role), Some(own)) = (&mut self.role, own) else { return false };
        let expired = now >= role.election_at || self.standing.epoch >= LAST_EPOCH;
        if aside {
            if expired {
                self.leave_prospective(out);
            }
            return expired; // It votes for others meanwhile, and asks for nothing.
        }
        match role.ask_again_at {
            // With a voter that does not know pre-votes, only the timers may start an election
            // [P52].
            Some(_) if lacking || expired => {
                self.leave_prospective(out);
                return true;
            }
            Some(at) => {
                if now >= at {
                    role.ask_again_at = Some(now + ASK_AGAIN);
                    role.tally.ask_again();
                }
                if role.tally.won() {
                    self.become_candidate(own, out);
                    return true;
                }
            }
            None if (role.tally.won() || lacking) && self.standing.epoch < LAST_EPOCH => {
                self.become_candidate(own, out);
                return true;
            }
            None if role.tally.lost() || expired => {
                self.leave_prospective(out);
                return true;
            }
            None => {}
        }
        let unanswered: Vec<_> = role.tally.with(Ballot::Unanswered).collect();
        self.ask_for_votes(&unanswered, own, out);
        false
    }

    /// The others would not elect this replica: back to the leader if it is known, else wait [P19].
    fn leave_prospective(&mut self, out: &mut Vec<Effect>) {
        let leader = self.standing.leader;
        match leader.and_then(|leader| self.reachable(leader, &self.standing.endpoints)) {
            Some(endpoints) => {
                let standing = Standing { endpoints, ..self.standing.clone() };
                self.become_follower(standing, out);
            }
            None => {
                let election_at = self.random_election_at();
                let role = Role::Unattached(Unattached { election_at });
                self.enter(self.standing.clone(), role, out);
            }
        }
    }

    fn become_candidate(&mut self, own: ReplicaKey, out: &mut Vec<Effect>) {
        let mut standing = Standing::fresh(self.standing.epoch.next());
        standing.voted = Some(own);
        let role = Candidate {
            tally: Tally::new(self.decrees.voters().keys(), own),
            election_at: self.random_election_at(),
        };
        self.enter(standing, Role::Candidate(role), out);
    }

    pub(crate) fn turn_candidate(&mut self, out: &mut Vec<Effect>) -> bool {
        let (Role::Candidate(role), Some(own)) = (&self.role, self.key) else { return false };
        if role.tally.won() {
            let granting = role.tally.with(Ballot::Granted).collect();
            self.become_leader(own.id, granting, out);
            return true;
        }
        // An out-voted candidate waits for the rest of its timeout [P20]. At the last epoch it
        // stays.
        if self.now >= role.election_at {
            self.become_prospective(false, out);
            return true;
        }
        let unanswered: Vec<_> = role.tally.with(Ballot::Unanswered).collect();
        let lost = role.tally.lost();
        if !lost {
            self.ask_for_votes(&unanswered, own, out);
        }
        false
    }

    /// Whether a voter is known not to answer pre-votes. Voters that have told nothing yet count as
    /// knowing them: a follower seldom has a connection to the other followers before it needs one
    /// [P52].
    pub(crate) fn lacks_pre_vote(&self) -> bool {
        let lacks = |voter: ReplicaKey| {
            self.peers.speaks(voter.id).is_some_and(|features| !features.pre_vote)
        };
        self.decrees.voters().keys().any(lacks)
    }
}
