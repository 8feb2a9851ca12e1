//! Who counts changes: one more or one less at a time, by the leader, on request (KIP-853); or a
//! directory takes the place of another of the same node [P80].
//!
//! The new voters are in force once they are appended [P64], so everything that makes a change safe
//! is checked before: then a majority of the new ones meets every majority that can still decide
//! anything [P71]. The leader's table of voters follows in the same step [P74]. What is kept here
//! is only who waits for which answer; whether a change is in the log is for [`Decrees`] to say.
//!
//! [`Decrees`]: crate::decrees::Decrees

use crate::decrees::Decree;
use crate::effect::{ControlRecord, Effect, Source, Ticket};
use crate::leader::{Leader, Progress};
use crate::message::{AddVoter, ChangeAnswer, Endpoint, ErrorKind, Request, Response};
use crate::mutants::mutant;
use crate::peers::{Node, Question};
use crate::quorum::Quorum;
use crate::role::Role;
use crate::unchanged::{Unchanged, Unfit};
use crate::voters::{Voter, Voters};
use quorate_base::{Offset, ReplicaId, ReplicaKey, Time};

/// A change that somebody waits for.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) asked: Asked,
    stage: Stage,
    /// When whoever asked is told that it was not done in time.
    pub(crate) until: Time,
    /// Who counts no more by this change, and whose successor does not count yet [P80].
    gone: Option<ReplicaKey>,
}

/// Whom to answer, and to what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    Add(Ticket),
    Remove(Ticket),
    Upgrade(Ticket),
}

impl Asked {
    pub(crate) fn adds(self) -> bool {
        matches!(self, Asked::Add(_))
    }

    pub(crate) fn removes(self) -> bool {
        matches!(self, Asked::Remove(_))
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Stage {
    /// Nothing is in the log: this one has to show that it is who it should be [P73], and that it
    /// has what the leader has.
    Proving { voter: Voter, agreed: bool, when_committed: bool },
    /// Nothing is in the log: those that are left without this one have to be heard [P72].
    Hearing(ReplicaKey),
    /// The record at this offset takes the vote of one, whose place this one takes behind it [P80].
    Leaving { base: Offset, voter: Voter, when_committed: bool },
    /// The new voters are the record at this offset.
    Appended(Offset),
}

impl Change {
    /// One whose record lies at `base`.
    pub(crate) fn appended(asked: Asked, base: Offset, until: Time) -> Change {
        Change { asked, stage: Stage::Appended(base), until, gone: None }
    }

    fn new(asked: Asked, stage: Stage, until: Time) -> Change {
        Change { asked, stage, until, gone: None }
    }

    /// Whether something of it is in the log.
    pub(crate) fn is_appended(&self) -> bool {
        self.gone.is_some() || matches!(self.stage, Stage::Appended(_))
    }
}

impl Quorum {
    // --- What is asked for

    pub(crate) fn on_add(&mut self, ticket: Ticket, add: AddVoter, out: &mut Vec<Effect>) {
        let asked = Asked::Add(ticket);
        if let Err(why) = self.may_add(&add) {
            return self.answer_change(asked, Err(why), out);
        }
        let AddVoter { key, endpoints, when_committed, replaces: _ } = add;
        // What it speaks is known once it has answered.
        let voter = Voter { key, endpoints, versions: (0, 0) };
        let stage = Stage::Proving { voter, agreed: false, when_committed };
        // What was heard there of the one whose place it takes says nothing of this one.
        self.peers.forgive(Node::Replica(key.id));
        self.begin_change(Change::new(asked, stage, self.patience(when_committed)), out);
    }

    /// Who asks for itself does not fetch meanwhile, so it waits no longer than for a fetch.
    fn patience(&self, when_committed: bool) -> Time {
        let config = &self.config;
        self.now + if when_committed { config.request_timeout } else { config.fetch_max_wait }
    }

    pub(crate) fn on_remove(&mut self, ticket: Ticket, key: ReplicaKey, out: &mut Vec<Effect>) {
        let asked = Asked::Remove(ticket);
        if let Err(why) = self.may_remove(key) {
            return self.answer_change(asked, Err(why), out);
        }
        let until = self.now + self.config.request_timeout;
        self.begin_change(Change::new(asked, Stage::Hearing(key), until), out);
    }

    /// Waits for those that would be left: whoever lives and waits for news asks again at once.
    fn begin_change(&mut self, change: Change, out: &mut Vec<Effect>) {
        let Role::Leader(leader) = &mut self.role else { return };
        leader.change = Some(change);
        for other in leader.voters.iter_mut().chain(&mut leader.observers) {
            other.heard = false;
        }
        self.unpark(|parked| parked.voter, out);
    }

    /// The checks that all changes have, in their order [P71].
    fn may_change(&self) -> Result<(), Unchanged> {
        self.may_change_at_all()?;
        match self.decrees.in_force().version {
            0 => Err(Unchanged::Static),
            _ => Ok(()),
        }
    }

    /// Those of them that one of `kraft.version` has too.
    pub(crate) fn may_change_at_all(&self) -> Result<(), Unchanged> {
        let changing = self.is_changing() && !mutant!(self, ChangeBeforeCommit);
        let known = self.high_watermark.is_some() || mutant!(self, ChangeWithoutHighWatermark);
        match () {
            () if changing => Err(Unchanged::Pending),
            () if !known => Err(Unchanged::NotReady),
            () => Ok(()),
        }
    }

    pub(crate) fn leads_changes(&self) -> Result<(), Unchanged> {
        match &self.role {
            // One that is on its way out takes nothing new, else it would never be gone.
            Role::Leader(_) if self.is_leaving() => Err(Unchanged::NotLeading { leader: None }),
            Role::Leader(_) => Ok(()),
            Role::Unattached(_)
            | Role::Prospective(_)
            | Role::Candidate(_)
            | Role::Follower(_)
            | Role::Resigned(_) => Err(Unchanged::NotLeading { leader: self.leader_told() }),
        }
    }

    fn may_add(&self, add: &AddVoter) -> Result<(), Unchanged> {
        self.leads_changes()?;
        if add.key.directory.is_none() {
            return Err(Unchanged::NoDirectory);
        }
        // Where the others listen by the name of our own listener is where they reach each other.
        let own = self.config.endpoints.first().map(|own| own.listener.clone());
        let named = |at: &Endpoint| own.as_ref().is_none_or(|own| *own == at.listener);
        if !add.endpoints.iter().any(named) || !add.endpoints.iter().all(Endpoint::is_place) {
            return Err(Unchanged::NoEndpoint { listener: own });
        }
        self.may_change()?;
        match self.decrees.voters().by_id(add.key.id) {
            Some(known) => self.may_replace(known.key, add),
            None => Ok(()),
        }
    }

    /// Whether the new one may take the place of the voter that the set names under its id [P80].
    fn may_replace(&self, known: ReplicaKey, add: &AddVoter) -> Result<(), Unchanged> {
        let replaces = add.replaces.filter(|_| known != add.key);
        match replaces {
            None => Err(Unchanged::Known { known }),
            Some(_) if Some(known.id) == self.id() => Err(Unchanged::Leads { known }),
            Some(_) if self.runs_beside_another(known) => Err(Unchanged::RunsTwice { known }),
            Some(old) if known.directory == Some(old) || mutant!(self, ReplaceUnnamed) => Ok(()),
            Some(_) => Err(Unchanged::Unknown { known: Some(known) }),
        }
    }

    fn may_remove(&self, key: ReplicaKey) -> Result<(), Unchanged> {
        self.leads_changes()?;
        if key.directory.is_none() {
            return Err(Unchanged::NoDirectory);
        }
        self.may_change()?;
        let voters = self.decrees.voters();
        let known = voters.by_id(key.id).map(|known| known.key);
        if known != Some(key) {
            return Err(Unchanged::Unknown { known });
        }
        if self.runs_beside_another(key) {
            return Err(Unchanged::RunsTwice { known: key });
        }
        if voters.len() == 1 { Err(Unchanged::LastVoter) } else { Ok(()) }
    }

    /// Whether enough of these have fetched since the change was asked for to commit that they
    /// count: else nothing might be committed any more, not even the way back [P72]. `candidate`
    /// has answered, and may wait for its own change.
    fn may_follow(&self, voters: &Voters, candidate: Option<ReplicaKey>) -> Result<(), Unchanged> {
        let Role::Leader(leader) = &self.role else { return Ok(()) };
        let follows = |key: ReplicaKey| {
            let lately = |other: &Progress| {
                let at = other.fetched_at.filter(|_| other.heard);
                at.is_some_and(|at| self.now.since(at) < self.config.fetch_timeout)
            };
            let heard = leader.others().any(|other| other.is_of(key) && lately(other));
            Some(key.id) == self.id() || Some(key) == candidate || heard
        };
        let follow = voters.keys().filter(|key| follows(*key)).count();
        match follow >= voters.majority() || mutant!(self, RemoveTheLiving) {
            true => Ok(()),
            false => Err(Unchanged::TooFew { follow, voters: voters.len() }),
        }
    }

    // --- What becomes of it

    /// Drives a change on: asks who is to be added, appends, answers.
    pub(crate) fn turn_change(&mut self, out: &mut Vec<Effect>) {
        let Role::Leader(leader) = &self.role else { return };
        let Some(change) = &leader.change else { return };
        let until = change.until;
        let why = match change.stage.clone() {
            Stage::Appended(base) if self.high_watermark > Some(base) => {
                return self.finish_change(Ok(()), out);
            }
            Stage::Leaving { base, voter, when_committed } if self.high_watermark > Some(base) => {
                return self.fill_place(voter, when_committed, out);
            }
            Stage::Leaving { .. } | Stage::Appended(_) => Unchanged::Uncommitted,
            Stage::Hearing(gone) => {
                let left = self.decrees.voters().less(gone.id);
                match self.may_follow(&left, None) {
                    Ok(()) => return self.append_change(left, out),
                    Err(why) => why,
                }
            }
            Stage::Proving { voter, agreed: false, .. } => {
                self.ask_candidate(voter.key, out);
                Unchanged::Unfit { key: voter.key, lacks: Unfit::Silent }
            }
            Stage::Proving { voter, agreed: true, when_committed } => {
                match self.seat_for(voter) {
                    Ok((left, Some(voter))) => {
                        return self.leave_place(left, voter, when_committed, out);
                    }
                    Ok((voters, None)) if when_committed => {
                        return self.append_change(voters, out);
                    }
                    Ok((voters, None)) => {
                        self.seat(None, voters, out);
                        return self.finish_change(Ok(()), out);
                    }
                    // That will not change, or not while whoever asks for itself does not fetch.
                    Err(why) if why.error() != ErrorKind::RequestTimedOut || !when_committed => {
                        return self.finish_change(Err(why), out);
                    }
                    Err(why) => why,
                }
            }
        };
        if self.now >= until {
            self.finish_change(Err(why), out);
        }
    }

    fn finish_change(&mut self, result: Result<(), Unchanged>, out: &mut Vec<Effect>) {
        let Role::Leader(leader) = &mut self.role else { return };
        if let Some(change) = leader.change.take() {
            let halfway = change.gone.filter(|_| matches!(change.stage, Stage::Proving { .. }));
            let result = result.map_err(|why| match halfway {
                Some(gone) => Unchanged::Halfway { gone },
                None => why,
            });
            self.answer_change(change.asked, result, out);
        }
    }

    pub(crate) fn answer_change(
        &mut self,
        asked: Asked,
        result: Result<(), Unchanged>,
        out: &mut Vec<Effect>,
    ) {
        let why = result.err();
        if let Some(Unchanged::RunsTwice { known }) = why {
            self.note_twins(known, out);
        }
        let error = why.as_ref().map_or(ErrorKind::None, Unchanged::error);
        let answer = ChangeAnswer { error, why };
        let (ticket, body) = match asked {
            Asked::Add(ticket) => (ticket, Response::AddVoter(answer)),
            Asked::Remove(ticket) => (ticket, Response::RemoveVoter(answer)),
            Asked::Upgrade(ticket) => (ticket, Response::Upgrade(answer)),
        };
        self.reply(ticket, self.shown(), body, out);
    }

    // --- Who is to be added

    /// The one that a change is to add, while it proves itself.
    pub(crate) fn candidate(&self, id: ReplicaId) -> Option<&Voter> {
        let Role::Leader(leader) = &self.role else { return None };
        match leader.change.as_ref().map(|change| &change.stage) {
            Some(Stage::Proving { voter, .. }) if voter.key.id == id => Some(voter),
            Some(
                Stage::Proving { .. }
                | Stage::Hearing(_)
                | Stage::Leaving { .. }
                | Stage::Appended(_),
            )
            | None => None,
        }
    }

    /// Tells it who leads, and under which key it is meant: its answer says whether it is that one
    /// [P73].
    fn ask_candidate(&mut self, key: ReplicaKey, out: &mut Vec<Effect>) {
        let node = Node::Replica(key.id);
        let (Some(own), true) = (self.id(), self.ready(node)) else { return };
        let Role::Leader(leader) = &mut self.role else { return };
        let question = Question::Begin { round: leader.reads.tell(), voter: key };
        let body = Request::BeginQuorumEpoch(self.begin_for(key, own));
        self.ask(node, question, self.shown(), body, out);
    }

    /// Who was asked as this one says that it is. What was asked of its id before the change, as a
    /// voter of another directory, says nothing.
    pub(crate) fn on_candidate_agrees(&mut self, asked: ReplicaKey) {
        let Role::Leader(leader) = &mut self.role else { return };
        if let Some(Change { stage: Stage::Proving { voter, agreed, .. }, .. }) = &mut leader.change
            && voter.key == asked
        {
            *agreed = true;
        }
    }

    /// It says that it is another. True if it is to be added.
    pub(crate) fn on_candidate_denies(&mut self, asked: ReplicaKey, out: &mut Vec<Effect>) -> bool {
        let candidate = self.candidate(asked.id).is_some_and(|voter| voter.key == asked);
        if candidate {
            let lacks = Unfit::AnotherReplica;
            self.finish_change(Err(Unchanged::Unfit { key: asked, lacks }), out);
        }
        candidate
    }

    /// The voters with this one, if it speaks what it must and holds what this leader holds [P73].
    /// If majorities of these and of those in force might miss each other, those in force without
    /// the one whose place it takes, and who is to come behind that [P80].
    fn seat_for(&self, mut voter: Voter) -> Result<(Voters, Option<Voter>), Unchanged> {
        let key = voter.key;
        let unfit = |lacks| Err(Unchanged::Unfit { key, lacks });
        let needed = self.decrees.in_force().version;
        let speaks = self.peers.speaks(voter.key.id).and_then(|speaks| speaks.kraft_versions);
        voter.versions = match speaks {
            Some((least, greatest)) if (least..=greatest).contains(&needed) => (least, greatest),
            Some(_) | None => return unfit(Unfit::Version { speaks, needed }),
        };
        let Role::Leader(leader) = &self.role else {
            return Err(Unchanged::LeadershipLost { appended: false });
        };
        if !mutant!(self, AddUnseen) {
            self.is_level(leader, voter.key)?;
        }
        let now = self.decrees.voters();
        let left = now.less(key.id);
        let voters = left.and(voter.clone());
        self.may_follow(&voters, Some(key))?;
        if now.meet(&voters) || mutant!(self, SwapAtOnce) {
            return Ok((voters, None));
        }
        self.may_follow(&left, None)?;
        Ok((left, Some(voter)))
    }

    /// Whether a replica had all that there was a moment ago.
    fn is_level(&self, leader: &Leader, key: ReplicaKey) -> Result<(), Unchanged> {
        let found = leader.observers.iter().find(|observer| observer.key == key);
        let unfit = |lacks| Err(Unchanged::Unfit { key, lacks });
        let Some(known) = found else { return unfit(Unfit::NotObserved) };
        let lately =
            known.caught_up_at.is_some_and(|at| self.now.since(at) < self.config.fetch_timeout);
        let end = known.end.unwrap_or(Offset::ZERO);
        // Nor may it lack a tombstone that others collect because no voter lacked it [P83].
        match lately && leader.holds_tombstones(end) {
            true => Ok(()),
            false => unfit(Unfit::Behind { records: self.end.0.saturating_sub(end.0) }),
        }
    }

    /// Takes the vote of the one whose place this one is to take; that comes once it is committed.
    fn leave_place(
        &mut self,
        left: Voters,
        voter: Voter,
        when_committed: bool,
        out: &mut Vec<Effect>,
    ) {
        let gone = self.decrees.voters().by_id(voter.key.id).map(|known| known.key);
        let base = self.seat(None, left, out);
        let until = self.now + self.config.request_timeout;
        if let Role::Leader(leader) = &mut self.role
            && let Some(change) = &mut leader.change
        {
            let stage = Stage::Leaving { base, voter, when_committed };
            (change.stage, change.gone, change.until) = (stage, gone, until);
        }
    }

    /// The place is free, so that this is one voter more, as any other.
    fn fill_place(&mut self, voter: Voter, when_committed: bool, out: &mut Vec<Effect>) {
        let until = self.patience(when_committed);
        if let Role::Leader(leader) = &mut self.role
            && let Some(change) = &mut leader.change
        {
            change.stage = Stage::Proving { voter, agreed: true, when_committed };
            change.until = until;
        }
        self.turn_change(out);
    }

    /// What it waited for is there; the answer waits for the commit.
    fn append_change(&mut self, voters: Voters, out: &mut Vec<Effect>) {
        let base = self.seat(None, voters, out);
        let until = self.now + self.config.request_timeout;
        if let Role::Leader(leader) = &mut self.role
            && let Some(change) = &mut leader.change
        {
            (change.stage, change.until) = (Stage::Appended(base), until);
        }
    }

    // --- The set

    /// Whether a change waits for somebody, or is in the log and not committed.
    pub fn is_changing(&self) -> bool {
        let committed = self.high_watermark;
        self.has_change() || committed.is_some() && self.decrees.newest() >= committed
    }

    pub(crate) fn has_change(&self) -> bool {
        matches!(&self.role, Role::Leader(leader) if leader.change.is_some())
    }

    /// Whether this leader has committed that it does not count: it takes nothing new.
    pub(crate) fn is_removed(&self) -> bool {
        matches!(self.role, Role::Leader(_))
            && !self.is_voter()
            && self.decrees.newest() < self.high_watermark
    }

    /// Appends the voters that count from now on, and the version if it changes, and counts by
    /// them. Where the first of their records lies.
    pub(crate) fn seat(
        &mut self,
        version: Option<u16>,
        voters: Voters,
        out: &mut Vec<Effect>,
    ) -> Offset {
        let (base, records) = (self.end, 1 + u32::from(version.is_some()));
        let decree = Decree { version, voters: Some(voters.entries().clone()) };
        let appended = self.decrees.append(base, &decree);
        appended.expect("some voters, sorted, and behind those before");
        if !mutant!(self, KeepSeats) {
            self.reseat();
        }
        self.append(records, Source::Control(ControlRecord::Voters { decree }), out);
        // Fewer may have reached more, and a smaller majority may have proved a read.
        self.advance(out);
        self.prove(out);
        base
    }

    /// What this leader knows of each replica stays; whether it counts is as the set says [P74].
    fn reseat(&mut self) {
        let (begin_at, alone) = (self.now + self.begin_period(), self.is_only_voter());
        let (quorum_at, own) = (self.check_quorum_at(alone), self.id());
        let set = self.decrees.voters().clone();
        let Role::Leader(leader) = &mut self.role else { return };
        let mut known: Vec<Progress> =
            leader.voters.drain(..).chain(leader.observers.drain(..)).collect();
        for key in set.keys().filter(|key| Some(key.id) != own) {
            let at = known.iter().position(|progress| progress.is_of(key));
            let found = at.map(|at| known.remove(at));
            let mut progress = found.unwrap_or_else(|| Progress::new(key, true));
            (progress.key, progress.voter) = (key, true);
            leader.voters.push(progress);
        }
        known.sort_by_key(|progress| progress.key);
        for progress in &mut known {
            (progress.voter, progress.begin_due) = (false, false);
        }
        // What a node was before its disk was replaced is no replica any more.
        let seated = leader.voters.iter().map(|voter| (voter.key.id, voter.fetched_at));
        let heard: Vec<_> = seated.chain(known.iter().map(|o| (o.key.id, o.fetched_at))).collect();
        known.retain(|own| {
            let mut later =
                heard.iter().filter(|(id, at)| *id == own.key.id && *at > own.fetched_at);
            later.next().is_none()
        });
        leader.observers = known;
        let counts = |key: Option<ReplicaKey>| key.is_some_and(|key| set.contains(key));
        for parked in &mut leader.parked {
            parked.voter = counts(parked.fetch.replica);
        }
        for hold in &mut leader.holds {
            hold.voter = counts(hold.replica);
        }
        self.limit_holds();
        let Role::Leader(leader) = &mut self.role else { return };
        if alone {
            (leader.begin_at, leader.quorum_at) = (Time::NEVER, Time::NEVER);
        } else if leader.quorum_at == Time::NEVER {
            (leader.begin_at, leader.quorum_at) = (begin_at, quorum_at);
        }
    }
}
