//! The replica's protocol state and the one function that moves it.
//!
//! [`Quorum::step`] takes an input to the module that knows it, then lets the role act on the time
//! ([`turn`]), then tells the caller what became known (commits, leadership). Nothing here waits,
//! reads or sends. Where to look next: `role.rs` for what may follow what, then one file for each
//! role.
//!
//! [`turn`]: Quorum::turn

use crate::decrees::{Decree, Decrees};
use crate::effect::{Call, Complaint, Destination, Effect, Input, Loss, WriteId};
use crate::epochs::Epochs;
use crate::message::{BeginQuorumEpoch, ErrorKind, LeaderView, Request, Response};
use crate::mutants::mutant;
use crate::outbox::Outbox;
use crate::peers::{Node, Peers, Question};
use crate::role::{Role, Standing};
use crate::writes::Writes;
use crate::{Config, ElectionState};
use quorate_base::{Epoch, Offset, OffsetEpoch, ReplicaId, ReplicaKey, Rng, Span, Time};

/// Epochs are 31 bits on the wire and on disk; this one can be lived in but not left [P21].
pub(crate) const LAST_EPOCH: Epoch = Epoch(i32::MAX as u32);

/// One replica's protocol state: no clock, disk, socket, thread, or entropy of its own.
#[derive(Clone, Debug)]
pub struct Quorum {
    pub(crate) config: Config,
    /// This replica; `None` without a node id.
    pub(crate) key: Option<ReplicaKey>,
    /// Who counts, as the log says [P64].
    pub(crate) decrees: Decrees,
    pub(crate) rng: Rng,
    /// The latest time a step was given. Invariant: never falls.
    pub(crate) now: Time,

    pub(crate) standing: Standing,
    pub(crate) role: Role,
    /// What the quorum-state file says once all issued writes are done.
    pub(crate) on_disk: ElectionState,
    /// The write that made the current epoch durable.
    pub(crate) epoch_write: WriteId,
    /// The write that made the current vote durable.
    pub(crate) vote_write: WriteId,
    /// The last write of the quorum-state file.
    pub(crate) election_write: WriteId,

    /// First offset of the log.
    pub(crate) start: Offset,
    /// Invariant: `start <= high watermark <= end` and `durable <= end`.
    pub(crate) end: Offset,
    pub(crate) epochs: Epochs,
    /// The least of what leaders said to be clean with the records that this log was built from;
    /// `None` if it was built from none [P82].
    pub(crate) clean: Option<Offset>,
    /// Those that are whole and durable, oldest first. Invariant: from `start` to `committed`.
    pub(crate) snapshots: Vec<OffsetEpoch>,
    /// What a damaged log must hold again before this replica has a say [P62].
    pub(crate) must_reach: Option<OffsetEpoch>,
    pub(crate) writes: Writes,
    pub(crate) high_watermark: Option<Offset>,
    /// What the caller was told to be committed. Invariant: never falls, never above the
    /// end; above the durable end only what this node committed as leader [P39].
    pub(crate) committed: Offset,
    /// The leadership that the caller was told last.
    pub(crate) announced: Option<(Epoch, Option<ReplicaId>)>,

    pub(crate) peers: Peers,
    pub(crate) outbox: Outbox,
    /// When something that could not be sent now may be sent.
    pub(crate) retry_at: Time,
    /// Until when a replica that is not to lead leaves elections to others; `None` while it has a
    /// leader [P66].
    pub(crate) aside: Option<Time>,
    /// Until when a shutdown waits for a successor; `NEVER` and done once `Stopped` was said.
    pub(crate) stopping: Option<Stopping>,

    #[cfg(mutants)]
    pub(crate) mutant: Option<crate::mutants::Mutant>,
}

/// A shutdown that was asked for [P53].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stopping {
    Until(Time),
    Done,
}

impl Quorum {
    /// Takes one input and appends what must happen, in order. Total: every input is legal in every
    /// state.
    ///
    /// # Panics
    /// Only for a broken promise of the caller (a write reported that was never issued, an empty
    /// proposal) or a broken invariant of its own; never for what a peer sent.
    pub fn step(&mut self, now: Time, input: Input, effects: &mut Vec<Effect>) {
        self.now = self.now.max(now);
        self.persist(effects);
        match input {
            Input::Wake => {}
            Input::Request { ticket, body } => match body {
                Request::Vote(vote) => self.on_vote(ticket, &vote, effects),
                Request::BeginQuorumEpoch(begin) => self.on_begin(ticket, &begin, effects),
                Request::EndQuorumEpoch(end) => self.on_end(ticket, &end, effects),
                Request::Fetch(fetch) => self.on_fetch(ticket, fetch, effects),
                Request::FetchSnapshot(ask) => self.on_fetch_snapshot(ticket, &ask, effects),
                Request::UpdateVoter(update) => self.on_update(ticket, &update, effects),
                Request::AddVoter(add) => self.on_add(ticket, add, effects),
                Request::Upgrade(asked) => self.on_upgrade(ticket, &asked, effects),
                Request::RemoveVoter(remove) => self.on_remove(ticket, remove.key, effects),
            },
            Input::Response { call, body } => self.on_response(call, body, effects),
            Input::Lost { call, how } => self.on_lost(call, how),
            Input::Peer { id, speaks } => self.peers.learn(id, speaks),
            Input::Propose { token, epoch, records } => {
                self.on_propose(token, epoch, records, effects);
            }
            Input::Read { token } => self.on_read(token, effects),
            Input::Durable { upto } => {
                self.writes.report(upto);
                self.advance(effects);
            }
            Input::Frozen { snapshot } => self.on_frozen(snapshot),
            Input::Trim { snapshot } => self.on_trim(snapshot, effects),
            Input::GiveUpHolds { voters_too } => self.on_give_up(voters_too),
            Input::Stored { source, founded } => self.on_stored(source, &founded, effects),
            Input::Spoiled { source } => self.on_spoiled(source),
            Input::Resign { epoch } => {
                if epoch == self.standing.epoch && matches!(self.role, Role::Leader(_)) {
                    self.resign(effects);
                }
            }
            Input::HandOver { epoch } => self.on_hand_over(epoch),
            Input::Shutdown { until } => self.on_shutdown(until),
        }
        self.reach(effects);
        self.act(effects);
        self.release(effects);
        self.tell(effects);
    }

    /// Call [`Quorum::step`] with [`Input::Wake`] no later than this; earlier is harmless.
    pub fn deadline(&self) -> Time {
        let stopping = match self.stopping {
            Some(Stopping::Until(until)) => until,
            Some(Stopping::Done) | None => Time::NEVER,
        };
        self.timers().min(self.retry_at).min(self.peers.expires_at()).min(stopping)
    }

    /// Lets time pass: expires questions, then lets the role act until it settles.
    fn act(&mut self, out: &mut Vec<Effect>) {
        while let Some(call) = self.peers.expired(self.now) {
            self.on_lost(call, Loss::TimedOut);
        }
        // A sole voter goes from Resigned to Leader in three turns; nothing needs more than a few.
        for _ in 0..8 {
            self.retry_at = Time::NEVER;
            if !self.turn(out) {
                self.stop_if_done(out);
                return;
            }
        }
        unreachable!("the role {:?} does not settle in epoch {}", self.role, self.standing.epoch);
    }

    /// What the role does on its own at this time. True if it became another one.
    pub(crate) fn turn(&mut self, out: &mut Vec<Effect>) -> bool {
        match &self.role {
            Role::Unattached(_) => self.turn_unattached(out),
            Role::Prospective(_) => self.turn_prospective(out),
            Role::Candidate(_) => self.turn_candidate(out),
            Role::Follower(_) => self.turn_follower(out),
            Role::Leader(_) => self.turn_leader(out),
            Role::Resigned(_) => self.turn_resigned(out),
        }
    }

    /// The next time at which [`Quorum::turn`] does something that depends on the time alone.
    fn timers(&self) -> Time {
        let standing = |at: Time| if self.may_stand() { at } else { Time::NEVER };
        match &self.role {
            Role::Unattached(role) => standing(role.election_at),
            Role::Prospective(role) => {
                role.election_at.min(role.ask_again_at.unwrap_or(Time::NEVER))
            }
            Role::Candidate(role) => role.election_at,
            Role::Follower(role) => {
                let idle = match (&role.download, self.standing.leader) {
                    (Some(load), Some(leader)) if self.may_fetch_from(leader) => load.idle_until(),
                    (Some(_) | None, Some(_) | None) => Time::NEVER,
                };
                let stand = standing(role.fetch_at.min(role.stand_at.unwrap_or(Time::NEVER)));
                stand.min(idle).min(self.update_at(role)).min(self.join_at(role))
            }
            Role::Leader(role) => role.deadline(),
            Role::Resigned(role) => match self.may_leave_epoch() {
                true => role.election_at,
                false => Time::NEVER,
            },
        }
    }

    /// Lets go the messages whose writes are durable now.
    fn release(&mut self, out: &mut Vec<Effect>) {
        while let Some((needs, effect)) = self.outbox.pop(&self.writes) {
            self.let_go(needs, effect, out);
        }
    }

    /// Tells what became known in this step: commits first, so that our own leadership comes after
    /// all that earlier epochs left in the log.
    fn tell(&mut self, out: &mut Vec<Effect>) {
        self.tell_commit(out);
        let now = (self.standing.epoch, self.leader_told());
        if self.announced != Some(now) {
            self.announced = Some(now);
            out.push(Effect::Lead { epoch: now.0, leader: now.1 });
        }
    }

    /// Also before a leader forgets what it has committed.
    pub(crate) fn tell_commit(&mut self, out: &mut Vec<Effect>) {
        // What a majority without it holds, a leader commits before its own disk has it; all others
        // apply only what they have stored [P39].
        let within = match &self.role {
            Role::Leader(_) => self.end,
            Role::Unattached(_)
            | Role::Prospective(_)
            | Role::Candidate(_)
            | Role::Follower(_)
            | Role::Resigned(_) => self.writes.durable(),
        };
        let upto = self.high_watermark.unwrap_or(Offset::ZERO).min(within);
        if upto > self.committed {
            self.committed = upto;
            out.push(Effect::Commit { upto });
        }
    }

    /// The leader as the caller knows it: a leader that may not serve yet, or not any more, is none
    /// [P40].
    pub(crate) fn leader_told(&self) -> Option<ReplicaId> {
        match &self.role {
            Role::Leader(_) if self.high_watermark.is_none() || self.is_caretaker() => None,
            Role::Leader(_) if self.is_leaving() => None,
            Role::Resigned(_) => None,
            Role::Unattached(_)
            | Role::Prospective(_)
            | Role::Candidate(_)
            | Role::Follower(_)
            | Role::Leader(_) => self.standing.leader,
        }
    }

    // --- Sending

    /// Sends an answer once `needs` is durable.
    pub(crate) fn reply(
        &mut self,
        ticket: crate::Ticket,
        needs: WriteId,
        body: Response,
        out: &mut Vec<Effect>,
    ) {
        self.post(needs, Effect::Reply { ticket, body }, out);
    }

    /// Asks a node, which must be ready, once `needs` is durable.
    pub(crate) fn ask(
        &mut self,
        node: Node,
        question: Question,
        needs: WriteId,
        body: Request,
        out: &mut Vec<Effect>,
    ) {
        let call = self.peers.ask(node, question);
        let to = match node {
            Node::Bootstrap(at) => Destination::Bootstrap(at),
            Node::Replica(id) => Destination::Replica { id, endpoints: self.endpoints_of(id) },
        };
        self.post(needs, Effect::Send { call, to, body }, out);
    }

    fn post(&mut self, needs: WriteId, effect: Effect, out: &mut Vec<Effect>) {
        if self.writes.covers(needs) || mutant!(self, ReplyBeforeDurable) {
            self.let_go(needs, effect, out);
        } else {
            self.outbox.hold(needs, effect);
        }
    }

    /// The release point: the only place where a message leaves [P43].
    fn let_go(&mut self, needs: WriteId, effect: Effect, out: &mut Vec<Effect>) {
        assert!(
            self.writes.covers(needs) || mutant!(self, ReplyBeforeDurable),
            "a message leaves before {needs:?} is durable: {effect:?}"
        );
        if let Effect::Send { call, .. } = &effect {
            // The core's own net is wider than the caller's timer, which reports first.
            let limit = self.now + self.config.request_timeout + self.config.retry_backoff;
            self.peers.sent(*call, limit);
        }
        out.push(effect);
    }

    /// The write that makes durable what every message shows: the epoch, and for a leader that it
    /// leads or led. Else it could lead the same epoch again after a crash, with other records
    /// under the same offsets [P44].
    pub(crate) fn shown(&self) -> WriteId {
        match &self.role {
            Role::Leader(leader) if !mutant!(self, ShowLeadershipEarly) => leader.election_write,
            // It names itself as the leader that was, perhaps before that is stored.
            Role::Resigned(_) => self.election_write,
            Role::Unattached(_)
            | Role::Prospective(_)
            | Role::Candidate(_)
            | Role::Follower(_)
            | Role::Leader(_) => self.epoch_write,
        }
    }

    /// What every answer shows of the leadership.
    pub(crate) fn leader_view(&self, error: ErrorKind) -> LeaderView {
        let leader = self.standing.leader;
        let endpoints = match leader {
            Some(id) if Some(id) == self.id() => self.config.endpoints.clone(),
            Some(_) | None => self.standing.endpoints.clone(),
        };
        LeaderView { error, epoch: self.standing.epoch, leader, endpoints }
    }

    pub(crate) fn begin_for(&self, voter: ReplicaKey, leader: ReplicaId) -> BeginQuorumEpoch {
        let endpoints = self.config.endpoints.clone();
        BeginQuorumEpoch { epoch: self.standing.epoch, leader, voter: Some(voter), endpoints }
    }

    fn endpoints_of(&self, id: ReplicaId) -> std::sync::Arc<[crate::Endpoint]> {
        if self.standing.leader == Some(id) && !self.standing.endpoints.is_empty() {
            return self.standing.endpoints.clone();
        }
        // Who is to take a voter's place listens where it says.
        let candidate = self.candidate(id).map(|voter| voter.endpoints.clone());
        let voter = || self.decrees.voters().by_id(id).map(|voter| voter.endpoints.clone());
        candidate.or_else(voter).unwrap_or_else(|| std::sync::Arc::from([]))
    }

    // --- What answers bring

    fn on_response(&mut self, call: Call, body: Response, out: &mut Vec<Effect>) {
        let Some((node, question)) = self.peers.settle(call) else {
            return; // Late: a change of role or a timeout has given up on it [P6].
        };
        self.peers.trust(node);
        match (question, body) {
            (Question::Vote { pre_vote }, Response::Vote(answer)) => {
                self.on_vote_answer(node, pre_vote, &answer, out);
            }
            (Question::Begin { round, voter }, Response::BeginQuorumEpoch(view)) => {
                self.on_begin_answer(node, (round, voter), &view, out);
            }
            (Question::End, Response::EndQuorumEpoch(view)) => self.on_end_answer(node, &view, out),
            (Question::Fetch, Response::Fetch(answer)) => {
                self.on_fetch_answer(call, node, answer, out);
            }
            (Question::Update, Response::UpdateVoter(view)) => {
                self.on_update_answer(node, &view, out);
            }
            (Question::Add, Response::AddVoter(answer))
            | (Question::Remove, Response::RemoveVoter(answer)) => {
                self.on_join_answer(node, &answer, out);
            }
            (Question::Snapshot { position, idle }, Response::FetchSnapshot(answer)) => {
                self.on_snapshot_answer(call, node, (position, idle), &answer, out);
            }
            (
                Question::Vote { .. }
                | Question::Begin { .. }
                | Question::End
                | Question::Fetch
                | Question::Update
                | Question::Add
                | Question::Remove
                | Question::Snapshot { .. },
                Response::Vote(_)
                | Response::BeginQuorumEpoch(_)
                | Response::EndQuorumEpoch(_)
                | Response::Fetch(_)
                | Response::FetchSnapshot(_)
                | Response::UpdateVoter(_)
                | Response::AddVoter(_)
                | Response::RemoveVoter(_)
                | Response::Upgrade(_),
            ) => self.refuse(node, Complaint::Malformed, out),
        }
    }

    fn on_lost(&mut self, call: Call, how: Loss) {
        // A question of our own that never left is not lost; only a confused caller says so.
        if self.outbox.holds(call) {
            return;
        }
        let Some((node, question)) = self.peers.settle(call) else { return };
        self.peers.doubt(node);
        if question == Question::End {
            self.on_end_lost(node, how);
        }
        match how {
            Loss::TimedOut => {}
            Loss::Closed | Loss::Dropped => self.back_off(node),
            Loss::Refused => {
                self.back_off(node);
                let fetches = matches!(question, Question::Fetch | Question::Snapshot { .. });
                let instead = [Question::Update, Question::Add, Question::Remove];
                if fetches || instead.contains(&question) {
                    self.on_process_gone(node);
                }
            }
        }
    }

    /// Leaves a node alone for a while.
    pub(crate) fn back_off(&mut self, node: Node) {
        self.peers.back_off(node, self.now + self.config.retry_backoff);
    }

    /// A peer's message is refused: nothing of it is taken, its sender is left alone for a while
    /// [P8].
    pub(crate) fn refuse(&mut self, node: Node, what: Complaint, out: &mut Vec<Effect>) {
        self.back_off(node);
        out.push(Effect::Complain { what });
    }

    // --- Facts

    pub(crate) fn id(&self) -> Option<ReplicaId> {
        self.config.id
    }

    /// What a snapshot that ends at `end`, a committed offset, has to say of version and voters.
    pub fn decree_at(&self, end: Offset) -> Decree {
        self.decrees.at(end)
    }

    /// The `kraft.version` in force.
    pub fn kraft_version(&self) -> u16 {
        self.decrees.in_force().version
    }

    /// Whether the voter set names this replica [P3].
    pub(crate) fn is_voter(&self) -> bool {
        self.key.is_some_and(|key| self.decrees.voters().contains(key))
    }

    pub(crate) fn is_only_voter(&self) -> bool {
        self.key.is_some_and(|key| self.decrees.voters().only(key))
    }

    /// Whether it may come to lead: as a voter, or because it was removed by a record that may not
    /// be committed. Perhaps nobody else has that, so that no other log is good enough [P75].
    pub(crate) fn is_electable(&self) -> bool {
        let known = self.settled();
        let uncommitted = self.decrees.newest().is_some_and(|base| base >= known);
        let before = self.decrees.voters_before().filter(|_| uncommitted);
        let leaving = self.key.is_some_and(|key| before.is_some_and(|voters| voters.contains(key)));
        self.is_voter() || leaving && !mutant!(self, ForgetTheLeaving)
    }

    pub(crate) fn may_stand(&self) -> bool {
        self.is_electable() && self.may_leave_epoch()
    }

    pub(crate) fn may_leave_epoch(&self) -> bool {
        self.stopping.is_none() && self.standing.epoch < LAST_EPOCH && !self.is_damaged()
    }

    /// Own end and the epoch of the last record.
    pub(crate) fn last(&self) -> OffsetEpoch {
        OffsetEpoch::new(self.end, self.epochs.last())
    }

    /// Below this nothing may ever be truncated.
    pub(crate) fn settled(&self) -> Offset {
        self.high_watermark.unwrap_or(Offset::ZERO).max(self.committed).max(self.start)
    }

    /// Uniform in `[T, 2T)` from now on.
    pub(crate) fn random_election_at(&mut self) -> Time {
        let least = self.config.election_timeout;
        self.now + least + Span(self.rng.below(least.0))
    }
}
