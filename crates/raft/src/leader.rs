//! The leader's life: its first record, what it knows of each replica, the high watermark, and its
//! timers.
//!
//! It counts its own durable end, never its end, and never a record of an earlier epoch alone [P36]
//! [P37].

use crate::changes::{Asked, Change};
use crate::decrees::Decree;
use crate::effect::{ControlRecord, Effect, Refusal, Source, Token, Write, WriteId};
use crate::fetch::Parked;
use crate::holds::Hold;
use crate::majority::reached;
use crate::message::{ErrorKind, LeaderView, Request};
use crate::mutants::mutant;
use crate::peers::{Node, Question};
use crate::quorum::Quorum;
use crate::reads::Reads;
use crate::role::{Role, Standing};
use crate::unchanged::Unchanged;
use crate::voters::Voter;
use quorate_base::{FormatLevel, Offset, ReplicaId, ReplicaKey, Span, Time, Uuid};

/// What a leader knows of another replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Who: a voter as the voter set names it, an observer as it names itself.
    pub key: ReplicaKey,
    /// The directory that it named when it last fetched. Static voters are known by id alone, so
    /// their `key` has none; this one is for people to see and decides nothing.
    pub directory: Option<Uuid>,
    /// Whether it counts.
    pub voter: bool,
    /// The end it last fetched from: all below is durable there, if it is a voter.
    pub end: Option<Offset>,
    /// When it last fetched validly.
    pub fetched_at: Option<Time>,
    /// When it last had all that the leader had.
    pub caught_up_at: Option<Time>,
    /// Whether its disk was full at its last fetch; `None` from a peer that does not tell.
    pub no_room: Option<bool>,
    /// The newest format level that it spoke at its last fetch; `None` from a peer that does not
    /// tell, and of one that this leader has not heard (rule P79).
    pub format_level: Option<FormatLevel>,
    /// What it said of itself in this epoch, where the voters are static: the voter set has no
    /// place for it (rule P70).
    pub said: Option<Voter>,
    /// Whether it said that it is not to lead [P66].
    pub(crate) never_leads: bool,
    /// The leader's end at its last fetch.
    pub(crate) leader_end: Offset,
    /// The newest read round that it proved.
    pub(crate) echo: u64,
    /// Whether its last fetch carried a read round, so that rounds reach it by fetch answers.
    pub(crate) tagged: bool,
    /// Whether it fetched in this period of the check quorum.
    pub(crate) marked: bool,
    /// Whether BeginQuorumEpoch must be sent as soon as its connection is free.
    pub(crate) begin_due: bool,
    /// Whether it fetched since a change of voters was asked for [P72].
    pub(crate) heard: bool,
}

impl Progress {
    /// Whether this is what is known of the replica with this key. Static voters have no directory
    /// in theirs, and told it.
    pub(crate) fn is_of(&self, key: ReplicaKey) -> bool {
        let told = ReplicaKey { directory: self.key.directory.or(self.directory), ..self.key };
        key.names(told)
    }

    pub(crate) fn new(key: ReplicaKey, voter: bool) -> Progress {
        Progress {
            key,
            directory: key.directory,
            voter,
            end: None,
            fetched_at: None,
            caught_up_at: None,
            leader_end: Offset::ZERO,
            no_room: None,
            format_level: None,
            said: None,
            never_leads: false,
            echo: 0,
            tagged: false,
            marked: false,
            begin_due: voter,
            heard: false,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Leader {
    /// Where this epoch's first record lies.
    pub(crate) epoch_start: Offset,
    /// The write that says "leader: this node" [P44].
    pub(crate) election_write: WriteId,
    /// The other voters, sorted by id.
    pub(crate) voters: Vec<Progress>,
    /// Those who fetch and do not count, sorted by key.
    pub(crate) observers: Vec<Progress>,
    pub(crate) parked: Vec<Parked>,
    /// What is kept for those who copy a snapshot [P67]. Invariant: one for a replica.
    pub(crate) holds: Vec<Hold>,
    /// The change of voters that somebody waits for.
    pub(crate) change: Option<Change>,
    /// The voter that last said that it is elsewhere.
    pub(crate) moved: Option<crate::twins::Moved>,
    /// A voter beside which another replica of its id runs, and since when that is known [P85].
    pub(crate) twins: Option<(ReplicaKey, Time)>,
    pub(crate) reads: Reads,
    /// The highest bound for tombstones that was told to anybody [P83].
    pub(crate) bound_told: Offset,
    /// When those that did not fetch are told again.
    pub(crate) begin_at: Time,
    /// When it resigns unless a majority fetches.
    pub(crate) quorum_at: Time,
    /// Until when it may commit what it has taken, once it is to hand over [P77].
    pub(crate) leaves_at: Option<Time>,
    /// Room for one value a voter, kept to spare an allocation on each commit.
    offsets: Vec<Offset>,
}

impl Leader {
    /// All that it knows of, voters first.
    pub(crate) fn others(&self) -> impl Iterator<Item = &Progress> {
        self.voters.iter().chain(&self.observers)
    }

    /// Whether somebody waits for such a change of voters.
    pub(crate) fn is_asked(&self, which: impl Fn(Asked) -> bool) -> bool {
        self.change.as_ref().is_some_and(|change| which(change.asked))
    }

    pub(crate) fn deadline(&self) -> Time {
        let parked = self.parked.iter().map(|parked| parked.expires_at).min();
        let change = self.change.as_ref().map_or(Time::NEVER, |change| change.until);
        let leaves = self.leaves_at.unwrap_or(Time::NEVER);
        self.begin_at.min(self.quorum_at).min(leaves).min(parked.unwrap_or(Time::NEVER)).min(change)
    }
}

impl Quorum {
    pub(crate) fn become_leader(
        &mut self,
        own: ReplicaId,
        granting: Vec<ReplicaKey>,
        out: &mut Vec<Effect>,
    ) {
        self.content();
        let others = self.decrees.voters().keys().filter(|key| key.id != own);
        let voters: Vec<_> = others.map(|key| Progress::new(key, true)).collect();
        let alone = voters.is_empty();
        let leader = Leader {
            epoch_start: self.end,
            election_write: WriteId(0),
            voters,
            observers: Vec::new(),
            parked: Vec::new(),
            holds: Vec::new(),
            change: None,
            moved: None,
            twins: None,
            reads: Reads::default(),
            bound_told: Offset::ZERO,
            begin_at: if alone { Time::NEVER } else { self.now + self.begin_period() },
            quorum_at: self.check_quorum_at(alone),
            leaves_at: None,
            offsets: Vec::new(),
        };
        let standing = Standing { leader: Some(own), ..self.standing.clone() };
        self.enter(standing, Role::Leader(Box::new(leader)), out);
        if let Role::Leader(leader) = &mut self.role {
            leader.election_write = self.election_write;
        }
        // The first record of the epoch: once it is committed, so is all before it [P41].
        let voters = self.decrees.voters().keys().collect();
        let decree = self.decree_to_write();
        let decreed = decree
            .iter()
            .map(|decree| u32::from(decree.version.is_some()) + u32::from(decree.voters.is_some()));
        let records = 1 + decreed.sum::<u32>();
        if let Some(decree) = &decree {
            let appended = self.decrees.append(self.end, decree);
            appended.expect("what is in force, with the own entry as it is now");
        }
        let record = ControlRecord::LeaderChange { leader: own, voters, granting, decree };
        self.append(records, Source::Control(record), out);
    }

    /// The version and the voters in force, if no log holds them yet or this replica listens
    /// elsewhere than they say [P65].
    fn decree_to_write(&self) -> Option<Decree> {
        let (seats, own) = (self.decrees.in_force(), self.own_entry().filter(|_| self.is_voter())?);
        let stale = seats.voters.by_id(own.key.id) != Some(&own);
        (seats.version > 0 && (stale || self.decrees.unwritten())).then(|| Decree {
            version: Some(seats.version),
            voters: Some(seats.voters.with(&own).entries().clone()),
        })
    }

    pub(crate) fn begin_period(&self) -> Span {
        Span(self.config.fetch_timeout.0 / 2)
    }

    /// One and a half fetch timeouts from now; a sole voter never loses its quorum [P23].
    pub(crate) fn check_quorum_at(&self, alone: bool) -> Time {
        if alone { Time::NEVER } else { self.now + self.config.fetch_timeout + self.begin_period() }
    }

    pub(crate) fn append(&mut self, records: u32, source: Source, out: &mut Vec<Effect>) {
        let (base, epoch) = (self.end, self.standing.epoch);
        let end = base + u64::from(records);
        self.epochs.append(epoch, base);
        self.end = end;
        self.clean = Some(self.clean.map_or(base, |clean| clean.min(base)));
        let id = self.writes.append(end);
        out.push(Effect::Write { id, write: Write::Append { base, end, epoch, source } });
        // Followers copy while our own sync runs.
        if !mutant!(self, ForgetParkedFetches) {
            self.unpark(|_| true, out);
        }
    }

    pub(crate) fn on_propose(
        &mut self,
        token: Token,
        epoch: quorate_base::Epoch,
        records: u32,
        out: &mut Vec<Effect>,
    ) {
        assert!(records > 0, "a proposal holds at least one record");
        let leads = matches!(self.role, Role::Leader(_)) && !self.is_caretaker();
        let leads = leads && self.stopping.is_none() && !self.is_leaving();
        if leads && epoch == self.standing.epoch {
            self.append(records, Source::Proposed(token), out);
        } else {
            self.refuse_token(token, out);
        }
    }

    pub(crate) fn refuse_token(&self, token: Token, out: &mut Vec<Effect>) {
        let why = Refusal::NotLeader { leader: self.leader_told(), epoch: self.standing.epoch };
        out.push(Effect::Refuse { token, why });
    }

    /// More may be committed: own writes became durable, or a voter fetched.
    pub(crate) fn advance(&mut self, out: &mut Vec<Effect>) {
        let durable = match mutant!(self, CountUnsyncedLeader) {
            true => self.end,
            false => self.writes.durable(),
        };
        let counts = self.is_voter() || mutant!(self, CountRemovedLeader);
        let Role::Leader(leader) = &mut self.role else { return };
        leader.offsets.clear();
        leader.offsets.extend(counts.then_some(durable));
        let ends = leader.voters.iter().map(|voter| voter.end.unwrap_or(Offset::ZERO));
        leader.offsets.extend(ends);
        let mut reached = reached(&mut leader.offsets);
        if mutant!(self, MajorityOffByOne) {
            let enough = (crate::majority::majority(leader.offsets.len()) - 1).max(1);
            reached = leader.offsets.get(leader.offsets.len() - enough).copied();
        }
        let Some(reached) = reached else { return };
        // Greater, not equal: the epoch's own first record must be among them (KAFKA-12619) [P37].
        let own_epoch = reached > leader.epoch_start || mutant!(self, CommitOldEpoch);
        if own_epoch && Some(reached) > self.high_watermark {
            self.high_watermark = Some(reached);
            if !mutant!(self, ForgetParkedFetches) {
                self.unpark(|_| true, out);
            }
            self.prove(out);
        }
    }

    pub(crate) fn turn_leader(&mut self, out: &mut Vec<Effect>) -> bool {
        let (now, period) = (self.now, self.begin_period());
        self.turn_change(out);
        let over = self.is_relieved() || self.has_left() || self.stops_leading();
        let Role::Leader(leader) = &mut self.role else { return false };
        // Without a majority that fetches, another leader may exist already [P23].
        if now >= leader.quorum_at || over {
            self.resign(out);
            return true;
        }
        if now >= leader.begin_at {
            leader.begin_at = now + period;
            for voter in &mut leader.voters {
                voter.begin_due = voter.fetched_at.is_none_or(|at| now.since(at) >= period);
            }
        }
        self.unpark(|parked| parked.expires_at <= now, out);
        self.announce(out);
        false
    }

    /// BeginQuorumEpoch to those that are due, and to those that can prove a waiting read no other
    /// way.
    fn announce(&mut self, out: &mut Vec<Effect>) {
        let mut at = 0;
        while let Role::Leader(leader) = &mut self.role
            && let Some(voter) = leader.voters.get(at)
        {
            at += 1;
            let key = voter.key;
            let asked = !voter.tagged && leader.reads.wait_beyond(voter.echo);
            let due = voter.begin_due || asked;
            // Whoever is to take its place is asked instead [P80].
            if !due || self.candidate(key.id).is_some() || !self.ready(Node::Replica(key.id)) {
                continue;
            }
            let (Role::Leader(leader), Some(own)) = (&mut self.role, self.config.id) else {
                return;
            };
            leader.voters[at - 1].begin_due = false;
            let question = Question::Begin { round: leader.reads.tell(), voter: key };
            let body = Request::BeginQuorumEpoch(self.begin_for(key, own));
            self.ask(Node::Replica(key.id), question, self.shown(), body, out);
        }
    }

    pub(crate) fn on_begin_answer(
        &mut self,
        node: Node,
        (round, asked): (u64, ReplicaKey),
        view: &LeaderView,
        out: &mut Vec<Effect>,
    ) {
        if !self.learn(node, view, out) {
            let denies = view.error == ErrorKind::InvalidVoterKey;
            let candidate = denies && self.on_candidate_denies(asked, out);
            if denies && !candidate && self.decrees.voters().contains(asked) {
                // It will say so again: not before the next announcement to all is due [P34].
                self.peers.back_off(node, self.now + self.begin_period());
            }
            return;
        }
        let named = view.leader.is_some() && view.leader == self.id();
        if named && view.error == ErrorKind::None {
            self.on_candidate_agrees(asked);
        }
        let (Role::Leader(leader), Node::Replica(id)) = (&mut self.role, node) else { return };
        if let Ok(at) = leader.voters.binary_search_by_key(&id, |voter| voter.key.id)
            && named
            && view.error == ErrorKind::None
        {
            // It followed us after it read the question, so after every read of this round arrived
            // [P48].
            leader.voters[at].echo = leader.voters[at].echo.max(round);
            self.prove(out);
        }
    }

    /// A valid fetch counts for its replica [P33].
    pub(crate) fn note_fetch(&mut self, fetch: &crate::Fetch, out: &mut Vec<Effect>) {
        self.hold_log(fetch.replica, fetch.from.offset);
        let (now, end) = (self.now, self.end);
        let Role::Leader(leader) = &mut self.role else { return };
        let Some(key) = fetch.replica else { return };
        let voter = leader.voters.iter_mut().find(|voter| voter.key.names(key));
        let counts = voter.is_some();
        let Some(progress) = voter.or_else(|| observer(&mut leader.observers, key, now)) else {
            return;
        };
        if fetch.from.offset >= end {
            progress.caught_up_at = Some(now);
        } else if progress.fetched_at.is_some() && fetch.from.offset >= progress.leader_end {
            progress.caught_up_at = progress.caught_up_at.max(progress.fetched_at);
        }
        progress.directory = key.directory.or(progress.directory);
        progress.end = Some(fetch.from.offset);
        progress.leader_end = end;
        progress.fetched_at = Some(now);
        progress.begin_due = false;
        progress.heard = true;
        progress.tagged = fetch.round.is_some();
        progress.never_leads = fetch.never_leads;
        progress.no_room = fetch.round.map(|_| fetch.no_room);
        progress.format_level = fetch.round.map(|_| fetch.format_level);
        if !counts {
            return;
        }
        // A round that was never opened proves nothing.
        let newest = leader.reads.round();
        let echo = fetch.round.filter(|round| *round <= newest);
        let echo = if mutant!(self, CountAnyRound) { Some(newest) } else { echo };
        progress.echo = progress.echo.max(echo.unwrap_or(0));
        self.mark(key);
        self.advance(out);
        self.prove(out);
    }

    /// This replica follows: if it is a voter, that counts for the check quorum [P23].
    pub(crate) fn mark(&mut self, key: ReplicaKey) {
        let again = self.check_quorum_at(self.is_only_voter());
        let own = usize::from(self.is_voter());
        let Role::Leader(leader) = &mut self.role else { return };
        let Some(voter) = leader.voters.iter_mut().find(|voter| voter.key.names(key)) else {
            return;
        };
        voter.marked = true;
        let marks = leader.voters.iter().filter(|voter| voter.marked).count();
        if marks + own >= self.decrees.voters().majority() {
            leader.quorum_at = again;
            leader.voters.iter_mut().for_each(|voter| voter.marked = false);
        }
    }

    /// The leadership is over: whoever waits for it is told. The role is the next one already.
    pub(crate) fn dismiss(&mut self, last: Leader, out: &mut Vec<Effect>) {
        for parked in &last.parked {
            self.refuse_fetch(parked.ticket, ErrorKind::NotLeaderOrFollower, out);
        }
        for token in last.reads.into_waiting() {
            self.refuse_token(token, out);
        }
        if let Some(change) = last.change {
            let why = Unchanged::LeadershipLost { appended: change.is_appended() };
            self.answer_change(change.asked, Err(why), out);
        }
    }
}

/// How long an observer that does not fetch is remembered.
const OBSERVER_SESSION: Span = Span::ms(300_000);

/// How many observers are remembered; more are served and not listed.
const OBSERVERS: usize = 1_024;

/// The entry of an observer, made if there is room; forgets silent ones on the way.
fn observer(list: &mut Vec<Progress>, key: ReplicaKey, now: Time) -> Option<&mut Progress> {
    let at = match list.binary_search_by_key(&key, |observer| observer.key) {
        Ok(at) => at,
        Err(_) => {
            list.retain(|observer| {
                observer.fetched_at.is_some_and(|at| now.since(at) < OBSERVER_SESSION)
            });
            if list.len() >= OBSERVERS {
                return None;
            }
            let at = list.partition_point(|observer| observer.key < key);
            list.insert(at, Progress::new(key, false));
            at
        }
    };
    list.get_mut(at)
}
