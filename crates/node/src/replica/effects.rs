//! What the protocol wants done, in its order: writes become plans for the disk, questions go to
//! links, answers to those who asked.

use super::{CHANGES, Replica, Serve};
use crate::lane::Errand;
use crate::links::{Class, News, Peer, Question};
use crate::out::Out;
use crate::status::RoleChange;
use crate::translate;
use quorate_base::{Epoch, Offset, ReplicaId, Span, Time};
use quorate_machine::Machine;
use quorate_raft::{
    Call, Destination, Effect, Endpoint, ErrorKind, Fetched, Input, Loss, RoleName, Source,
};
use tracing::{error, info, warn};

/// So many fetch timeouts without a leader are worth a line. An election takes less than two; when
/// all nodes are started at once, or one by one by hand, there is none for a while.
const SILENCE_FETCH_TIMEOUTS: u64 = 5;

impl<M: Machine> Replica<M> {
    /// One step of the protocol, and its effects in order.
    pub(crate) fn step(&mut self, input: Input) {
        let mut effects = std::mem::take(&mut self.effects);
        let durable = matches!(input, Input::Durable { .. });
        self.quorum.step(self.now, input, &mut effects);
        self.count_step(false);
        if durable {
            // What is on the disk may leave the memory.
            self.log.durable(self.quorum.view().durable);
        }
        for effect in effects.drain(..) {
            self.count(&effect);
            self.execute(effect);
        }
        self.effects = effects;
        self.count_step(true);
    }

    pub(super) fn execute(&mut self, effect: Effect) {
        match effect {
            Effect::Write { id, write } => {
                let job = self.plan(write);
                self.out.push(Out::Disk { id, job });
            }
            Effect::Send { call, to, body } => self.send(call, to, body),
            Effect::Reply { ticket, body } => {
                if let quorate_raft::Response::FetchSnapshot(answer) = &body
                    && answer.view.error == ErrorKind::None
                {
                    self.serve_piece(ticket, answer.clone());
                } else if let quorate_raft::Response::Fetch(answer) = &body
                    && matches!(answer.fetched, Fetched::Range { .. })
                {
                    self.serves.push(Serve { ticket, answer: answer.clone() });
                } else {
                    self.reply(ticket, body, Vec::new());
                }
            }
            Effect::Refuse { token, why } => self.refused(token, why),
            Effect::ReadAt { token, offset } => self.proved(token, offset),
            Effect::Commit { upto } => self.applied.committed(upto),
            Effect::Lead { epoch, leader } => self.led_by(epoch, leader),
            Effect::Complain { what } => {
                if self.once.say(self.now, &format!("{what:?}")) {
                    error!(%what, "a peer broke the protocol; nothing of it was taken");
                }
            }
            Effect::Store { snapshot, at, source, last } => {
                let (of, bytes) = self.piece.take().expect("the core keeps what it was just given");
                assert!(of == source, "the core keeps the piece of {source:?}, not of {of:?}");
                let reserve = self.may_use_the_reserve();
                let (id, position) = (snapshot, at);
                let errand = Errand::Store { source, id, position, bytes, last, reserve };
                self.out.push(Out::Lane(errand));
            }
            Effect::Abandon { snapshot, gone } => {
                self.downloaded = None;
                self.out.push(Out::Lane(Errand::Abandon { id: snapshot }));
                if gone {
                    self.snapshot_is_gone(snapshot);
                }
            }
            Effect::StartOver => self.out.push(Out::StartOver),
            Effect::Stopped => self.out.push(Out::Stopped),
        }
    }

    /// Turns a write of the protocol into work for the disk.
    pub(super) fn plan(&mut self, write: quorate_raft::Write) -> quorate_log::Job {
        match write {
            quorate_raft::Write::Election(state) => {
                let view = self.quorum.view();
                let election = translate::election(&state, view.voters.iter().map(|v| v.key.id));
                match view.kraft_version {
                    0 => self.log.election(&election),
                    _ => self.log.election_dynamic(&election),
                }
            }
            quorate_raft::Write::Truncate { end } => {
                warn!(from = %self.log.end(), to = %end, "the leader does not have this end of the log, which is cut off");
                let job = self.log.truncate(end);
                let cut = self.log.end();
                self.note_emptied(Offset::ZERO, cut);
                assert!(
                    cut == end,
                    "the leader ends an epoch at {end}, inside a batch that begins at {cut}"
                );
                job
            }
            quorate_raft::Write::Adopt { snapshot } => {
                info!(%snapshot, "a downloaded snapshot takes the place of the log");
                self.begun_anew = 0;
                self.note_emptied(snapshot.offset, snapshot.offset);
                let whole = self.downloaded.take().filter(|whole| whole.id == snapshot);
                self.log.adopt(whole.expect("the core adopts what the lane has checked"))
            }
            quorate_raft::Write::Trim { start, snapshots } => {
                self.note_emptied(start, self.log.end());
                if start > self.log.start() {
                    info!(%start, "the log begins at a snapshot, what lies before goes");
                }
                self.log.trim(start, &snapshots)
            }
            quorate_raft::Write::Reached => {
                info!("the log holds again what it held before it was damaged: this node votes");
                self.log.clear_must_reach()
            }
            quorate_raft::Write::Append { base, end, epoch, source } => {
                let bytes = match source {
                    Source::Proposed(token) => self.leading.take_batch(token),
                    Source::Control(record) => {
                        translate::control(&record, base, epoch, self.wall_ms)
                    }
                    Source::Fetched(call) => {
                        let fetched = self
                            .fetched
                            .remove(&call)
                            .expect("the core appends what it was just given");
                        self.note_cleaned(self.told);
                        fetched.slice(base, end)
                    }
                };
                self.note_beginning(base, &bytes);
                self.log.append(base, end, epoch, bytes)
            }
        }
    }

    pub(super) fn send(&mut self, call: Call, to: Destination, mut body: quorate_raft::Request) {
        if let quorate_raft::Request::Fetch(fetch) = &mut body {
            fetch.no_room = self.room.is_full();
            fetch.format_level = self.speaks_up_to();
            fetch.history = self.history;
        }
        let class = match body {
            // Asked in the place of a fetch.
            quorate_raft::Request::Fetch(_)
            | quorate_raft::Request::FetchSnapshot(_)
            | quorate_raft::Request::UpdateVoter(_)
            | quorate_raft::Request::AddVoter(_)
            | quorate_raft::Request::RemoveVoter(_)
            | quorate_raft::Request::Upgrade(_) => Class::Fetch,
            quorate_raft::Request::Vote(_)
            | quorate_raft::Request::BeginQuorumEpoch(_)
            | quorate_raft::Request::EndQuorumEpoch(_) => Class::Control,
        };
        let (peer, at) = match to {
            Destination::Replica { id, endpoints } => (Peer::Replica(id), self.choose(&endpoints)),
            Destination::Bootstrap(index) => {
                (Peer::Bootstrap(index), self.settings.bootstrap.get(index).cloned())
            }
        };
        let question = Question::Raft(call, body);
        match at {
            Some(at) => {
                let names = &self.settings.names;
                self.links.ask(
                    self.now,
                    peer,
                    class,
                    &at,
                    question,
                    names,
                    &mut self.news,
                    &mut self.out,
                );
            }
            None => self.news.push(News::Lost { question, how: Loss::Dropped }),
        }
    }

    /// The endpoint to connect to: the one of our own listener's name, else the first.
    pub(super) fn choose(&self, endpoints: &[Endpoint]) -> Option<crate::config::HostPort> {
        let named =
            endpoints.iter().find(|endpoint| endpoint.listener == self.settings.names.listener);
        let endpoint = named.or(endpoints.first())?;
        Some(crate::config::HostPort { host: endpoint.host.clone(), port: endpoint.port })
    }

    pub(super) fn led_by(&mut self, epoch: Epoch, leader: Option<ReplicaId>) {
        let role = self.quorum.view().role;
        info!(epoch = %epoch, leader = ?leader, %role, "leadership changed");
        if epoch.0 >= i32::MAX as u32 {
            error!(
                %epoch,
                "this is the last epoch that Kafka's protocol can name: no other leader can be elected \
                 after it. Somebody sent a vote with a huge epoch: let only nodes of the quorum connect"
            );
        }
        self.note_change(epoch, leader);
        self.note_own_seat();
        let leads = leader.is_some() && leader == self.id;
        // A leader that serves no more may go on committing what it has taken [P74].
        let drains = !leads && epoch == self.epoch && role == RoleName::Leader;
        self.lose_lead(drains);
        self.epoch = epoch;
        self.leader = leader;
        if !leads {
            self.refuse_forwarded();
        } else {
            // Requests are judged on the state as all earlier leaders left it: apply that first.
            self.leading.gained(epoch, self.applied.commit);
            self.applied.heard(self.applied.commit);
            self.metrics.serves(self.now);
        }
        self.forwarder.rest_until = Time(0);
    }

    /// Says that the voters of the log name another directory of this node's id: it has no vote,
    /// and will not get one by itself.
    pub(super) fn note_own_seat(&mut self) {
        let (view, own) = (self.quorum.view(), self.settings.directory);
        let seat = view.voters.iter().find(|voter| Some(voter.key.id) == self.id);
        let named = seat.and_then(|voter| voter.key.directory);
        if let Some(named) = named.filter(|named| *named != own)
            && self.once.say(self.now, "another directory of ours votes")
        {
            error!(
                %named,
                %own,
                "the voters of the log name another directory of this node's id: this node observes and has \
                 no vote. If its disk was replaced, `quorate quorum replace-disk` with its id gives the new one its place; \
                 if not, look whether node.id and log.dirs are those of this node"
            );
        }
    }

    /// Says once a minute that this node finds no leader, once that is so for longer than an
    /// election or a first start of all nodes takes.
    pub(super) fn note_silence(&mut self) {
        let view = self.quorum.view();
        let (role, epoch, damaged) = (view.role, view.epoch, view.must_reach.is_some());
        if role == RoleName::Leader && self.leader == self.id {
            self.heard_at = self.now;
        }
        let silence = self.now.since(self.heard_at);
        let long = silence >= Span(SILENCE_FETCH_TIMEOUTS * self.settings.fetch_timeout.0);
        if !long || self.is_stopping() || !self.once.say(self.now, "no leader is heard") {
            return;
        }
        let (leader, silence_ms) = (view.leader, silence.as_ms());
        let own = match damaged {
            true => self.damage_in_words().unwrap_or_default(),
            false => String::new(),
        };
        // A node that joins has no voters in its files, and none in its log yet.
        let in_files = view.kraft_version == 0 && self.settings.bootstrap.is_empty();
        let names = match in_files {
            true => "controller.quorum.voters names on each the addresses where they listen",
            false => {
                "controller.quorum.bootstrap.servers names here nodes that run, that each voter listens where the log \
                 says (CurrentVoters of `quorate quorum status`)"
            }
        };
        warn!(
            %epoch,
            leader = ?leader.map(|leader| leader.0),
            %role,
            silence_ms,
            own,
            "this node finds no leader, and refuses what its clients ask: a majority of the voters must be up and reach \
             each other; start those that are down, and see that {names} and that nothing between them stops connections"
        );
    }

    /// Remembers what this node became.
    pub(super) fn note_role(&mut self) {
        let view = self.quorum.view();
        let (role, epoch, leader) = (view.role, view.epoch, view.leader);
        if std::mem::replace(&mut self.role, role) == role {
            return;
        }
        if self.quorum.is_caretaker() {
            warn!(
                %epoch,
                "this node is not to lead (quorate.election.never.lead), but no other voter can be elected: it \
                 leads until one of them holds all of its log, and refuses what clients ask until then"
            );
        }
        // A node without a majority asks and gives up in turns: two entries tell that, not fifty.
        let same = |change: &RoleChange| change.role == role.to_string() && change.epoch == epoch.0;
        if !self.changes.iter().rev().take(2).any(same) {
            self.note_change(epoch, leader);
        }
    }

    pub(super) fn note_change(&mut self, epoch: Epoch, leader: Option<ReplicaId>) {
        let change = RoleChange {
            at_ms: self.now.since(self.started).as_ms(),
            role: self.quorum.view().role.to_string(),
            epoch: epoch.0,
            leader: leader.map(|leader| leader.0),
        };
        // A new role and a new leader are often one change.
        let same = |last: &RoleChange| RoleChange { at_ms: change.at_ms, ..last.clone() } == change;
        if self.changes.back().is_some_and(same) {
            return;
        }
        if self.changes.len() == CHANGES {
            self.changes.pop_front();
        }
        self.changes.push_back(change);
    }
}
