//! One replica as a value: the protocol, the log's plans and the machine, with the queues between them.
//!
//! Bytes, connections and durable writes are reported to it; what it wants done comes out as [`Out`].
//! It does no I/O, reads no clock and has no thread, so the server and the simulator drive the same
//! code. All work happens in [`Replica::turn`], in one order:
//! what became durable and what peers said, then the clients' requests as one batch, then answers.

use crate::apply::Applied;
use crate::clients::{Clients, Origin, Write};
use crate::fetched::FetchedRecords;
use crate::forward::Forwarder;
use crate::handle::Error;
use crate::inbound::{Inbound, Place};
use crate::leading::Leading;
use crate::leading::WRITE_BYTES_MAX;
use crate::links::{Class, Links, News, Peer, Question};
use crate::once::Once;
use crate::out::{ClientId, ConnId, ConnectError, LinkId, Out, ReadId};
use crate::status::RoleChange;
use crate::translate::{self, Names, Refusal, Refused};
use bytes::Bytes;
use quorate_base::{Epoch, Offset, ReplicaId, Span, Time};
use quorate_log::{Log, Read};
use quorate_machine::Machine;
use quorate_raft::{
    Call, Destination, Effect, Endpoint, ErrorKind, FetchAnswer, Fetched, Input, Loss, Quorum,
    RoleName, Source, Ticket, Token,
};
use quorate_wire::{ApiKey, RequestFrame, ResponseFrame};
use std::collections::{BTreeMap, VecDeque};
use tracing::{debug, error, info, warn};

/// How often requests that ran out of time are looked for.
const SWEEP: Span = Span::ms(25);
/// At so many requests that wait to be judged or passed on, no more are taken in.
const WAITING_MAX: usize = 8_192;
/// How many changes of role are remembered for the status.
const CHANGES: usize = 50;

/// What a replica needs beyond the protocol's own settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The names that every message carries.
    pub names: Names,
    /// `directory.id` of this node.
    pub directory: quorate_base::Uuid,
    /// Where the bootstrap servers are, by index.
    pub bootstrap: Vec<crate::config::HostPort>,
    /// `quorate.uncommitted.max.bytes`.
    pub uncommitted_max_bytes: u64,
    /// `controller.quorum.request.timeout.ms`.
    pub request_timeout: Span,
    /// `controller.quorum.retry.backoff.ms`.
    pub retry_backoff: Span,
}

/// A fetch whose answer is filled in from the log at the end of the turn.
struct Serve {
    ticket: Ticket,
    answer: FetchAnswer,
}

/// A peer's request of the protocol, and what its answer has to look like.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub place: Place,
    pub correlation: i32,
    pub version: i16,
    pub api: ApiKey,
}

/// What a read from the disk is for.
enum ColdUse {
    Apply,
    Serve { ticket: Ticket, answer: FetchAnswer },
}

/// One replica. `M` is the machine that its log drives.
pub struct Replica<M: Machine> {
    pub(crate) settings: Settings,
    pub(crate) id: Option<ReplicaId>,
    pub(crate) quorum: Quorum,
    pub(crate) log: Log,
    pub(crate) machine: M,
    pub(crate) now: Time,
    pub(crate) started: Time,
    /// Wall clock of this turn, for the timestamps of batches.
    wall_ms: i64,
    pub(crate) clients: Clients<M::Query>,
    pub(crate) leading: Leading,
    pub(crate) forwarder: Forwarder<M::Query>,
    pub(crate) applied: Applied,
    pub(crate) links: Links,
    pub(crate) inbound: Inbound,
    /// Who leads, as far as the core has said.
    pub(crate) leader: Option<ReplicaId>,
    pub(crate) epoch: Epoch,
    pub(crate) changes: VecDeque<RoleChange>,
    inputs: VecDeque<Input>,
    effects: Vec<Effect>,
    news: Vec<News>,
    /// Requests of the protocol that the core has not answered yet.
    tickets: BTreeMap<Ticket, Asked>,
    /// Records of fetch answers, until the core says what to do with them.
    fetched: BTreeMap<Call, FetchedRecords>,
    serves: Vec<Serve>,
    /// With the generation of the log that planned the read.
    cold: BTreeMap<ReadId, (u64, ColdUse)>,
    next: u64,
    swept: Time,
    once: Once,
    stopping: bool,
    out: Vec<Out<M::Reply>>,
}

impl<M: Machine> Replica<M> {
    /// A replica on what start-up recovered. `machine` is empty; `now` is the time of this call.
    pub fn new(
        settings: Settings,
        id: Option<ReplicaId>,
        quorum: Quorum,
        log: Log,
        machine: M,
        now: Time,
    ) -> Replica<M> {
        let view = quorum.view();
        Replica {
            links: Links::new(settings.request_timeout),
            settings,
            id,
            leader: None,
            epoch: view.epoch,
            applied: Applied::new(log.start()),
            quorum,
            log,
            machine,
            now,
            started: now,
            wall_ms: 0,
            clients: Clients::new(),
            leading: Leading::new(),
            forwarder: Forwarder::new(),
            inbound: Inbound::default(),
            changes: VecDeque::new(),
            inputs: VecDeque::from([Input::Wake]),
            effects: Vec::new(),
            news: Vec::new(),
            tickets: BTreeMap::new(),
            fetched: BTreeMap::new(),
            serves: Vec::new(),
            cold: BTreeMap::new(),
            next: 0,
            swept: now,
            once: Once::default(),
            stopping: false,
            out: Vec::new(),
        }
    }

    /// What has to be done, in order. To be taken after every call.
    pub fn take_out(&mut self, into: &mut Vec<Out<M::Reply>>) {
        into.append(&mut self.out);
    }

    // ---- What the driver reports. Each only queues; `turn` does the work.

    /// A frame arrived, without its length prefix.
    pub fn on_frame(&mut self, now: Time, conn: ConnId, frame: Bytes) {
        self.now = now;
        if self.links.owns(conn) {
            match ResponseFrame::parse(frame.clone()) {
                Ok(response) => {
                    let correlation = response.correlation_id;
                    self.links.answered(conn, correlation, frame, &mut self.news, &mut self.out);
                }
                Err(error) => self.drop_conn(conn, &error.to_string()),
            }
            return;
        }
        let bytes = frame.len();
        match RequestFrame::parse(frame) {
            Ok(request) => self.request(conn, bytes, request),
            Err(error) => match translate::unsupported(&error) {
                // A newer client asks for versions: tell it ours in the form that everybody reads.
                Some(answer) => {
                    let place = self.inbound.admit(conn, bytes, &mut self.out);
                    self.inbound.answer(place, answer, &mut self.out);
                }
                None => self.drop_conn(conn, &error.to_string()),
            },
        }
    }

    /// The other side closed the connection, or it broke.
    pub fn on_closed(&mut self, now: Time, conn: ConnId) {
        self.now = now;
        match self.links.owns(conn) {
            true => self.links.closed(conn, &mut self.news, &mut self.out),
            false => self.inbound.forget(conn),
        }
    }

    /// A connection that was asked for was made, or not.
    pub fn on_connect(&mut self, now: Time, link: LinkId, result: Result<ConnId, ConnectError>) {
        self.now = now;
        self.links.connected(
            now,
            link,
            result,
            &self.settings.names,
            &mut self.news,
            &mut self.out,
        );
    }

    /// All disk work up to `upto` is durable.
    pub fn on_durable(&mut self, now: Time, upto: quorate_raft::WriteId) {
        self.now = now;
        self.inputs.push_back(Input::Durable { upto });
    }

    /// A read from the disk is done: whole batches, checked, or why there are none.
    pub fn on_read(&mut self, now: Time, id: ReadId, records: Result<Bytes, String>) {
        self.now = now;
        let Some((generation, wanted)) = self.cold.remove(&id) else { return };
        // The log was cut meanwhile: neither bytes nor errors of the old one say anything.
        let stale = generation != self.log.generation();
        match (wanted, records) {
            (ColdUse::Apply, _) if stale => self.applied.arrived(None),
            (ColdUse::Apply, Ok(records)) => self.applied.arrived(Some(records)),
            (ColdUse::Apply, Err(why)) => {
                self.out.push(Out::Fatal { why: format!("cannot read committed records: {why}") })
            }
            (ColdUse::Serve { ticket, answer }, Ok(records)) if !stale => {
                self.fill(ticket, answer, vec![records])
            }
            (ColdUse::Serve { ticket, answer }, Ok(_)) => self.fill(ticket, answer, Vec::new()),
            (ColdUse::Serve { ticket, answer }, Err(why)) => {
                if !stale {
                    error!(
                        why,
                        "records that a replica asked for cannot be read: the disk or the file is damaged"
                    );
                }
                self.fill(ticket, answer, Vec::new());
            }
        }
    }

    /// A caller in this process wants to change the state.
    pub fn write(
        &mut self,
        now: Time,
        client: ClientId,
        request: quorate_machine::Request,
        patience: Span,
    ) {
        self.now = now;
        if let quorate_machine::Operation::Write(body) = &request.operation
            && body.len() > WRITE_BYTES_MAX
        {
            let answer = Err(Error::TooLarge { bytes: body.len(), max: WRITE_BYTES_MAX });
            self.out.push(Out::Answer { client, answer });
            return;
        }
        let (origin, due) = (Origin::Client(client), now + patience);
        self.clients.writes.push_back(Write { origin, request, due, attempts: 0, slot: None });
    }

    /// A caller in this process asks the state, and must see all that was acknowledged before.
    pub fn read(&mut self, now: Time, client: ClientId, query: M::Query, patience: Span) {
        self.now = now;
        let origin = Origin::Client(client);
        self.clients.reads.push_back(crate::clients::Read {
            origin,
            query: Some(query),
            due: now + patience,
        });
    }

    /// The applied state's reply, and its end; whatever the leader has by now.
    pub fn read_local(&self, query: &M::Query) -> (M::Reply, Offset) {
        (self.machine.query(query), self.applied.upto)
    }

    /// Whether more requests of this process are to be taken in; those that wait have enough bytes or number.
    pub fn has_room(&self) -> bool {
        let (waiting, bytes) =
            (self.clients.writes.len() + self.clients.reads.len(), self.clients.writes.bytes());
        waiting < WAITING_MAX && bytes < self.settings.uncommitted_max_bytes
    }

    /// Give up leadership if this is the current epoch.
    pub fn resign(&mut self, epoch: Epoch) {
        self.inputs.push_back(Input::Resign { epoch });
    }

    /// Hand over leadership, at the latest until `until`; `Out::Stopped` follows.
    pub fn shutdown(&mut self, until: Time) {
        if !std::mem::replace(&mut self.stopping, true) {
            self.inputs.push_back(Input::Shutdown { until });
        }
    }

    /// When `turn` must be called at the latest, whatever else happens.
    pub fn deadline(&self) -> Time {
        let sweep = match self.clients.is_idle() && self.forwarder.is_idle() {
            true => Time::NEVER,
            false => self.swept + SWEEP,
        };
        let machine = match self.leading.serving {
            Some(_) => self.machine.deadline(),
            None => Time::NEVER,
        };
        let soon =
            match self.applied.has_work(&self.log) || !self.inputs.is_empty() || self.has_batch() {
                true => self.now,
                false => Time::NEVER,
            };
        let forward = match self.clients.writes.is_empty() && self.clients.reads.is_empty() {
            false if self.leading.serving.is_none() && self.now < self.forwarder.rest_until => {
                self.forwarder.rest_until
            }
            true | false => Time::NEVER,
        };
        [self.quorum.deadline(), self.links.deadline(), sweep, machine, soon, forward]
            .into_iter()
            .min()
            .unwrap_or(Time::NEVER)
    }

    // ---- The turn.

    /// Does all that is ready. `wall_ms` is the time of day, for the timestamps of records.
    pub fn turn(&mut self, now: Time, wall_ms: i64) {
        self.now = now;
        self.wall_ms = wall_ms;
        self.links.expire(now, &mut self.news, &mut self.out);
        self.digest_news();
        while let Some(input) = self.inputs.pop_front() {
            self.step(input);
            self.digest_news();
        }
        if self.quorum.deadline() <= now {
            self.step(Input::Wake);
        }
        self.apply();
        self.take_lead_when_due();
        self.close_batch();
        self.prove_reads();
        self.forward();
        self.settle();
        self.serve_fetches();
        if now >= self.swept + SWEEP {
            self.swept = now;
            self.sweep();
        }
        // Effects of the steps above may have lost or answered questions at once.
        self.digest_news();
    }

    /// One step of the protocol, and its effects in order.
    pub(crate) fn step(&mut self, input: Input) {
        let mut effects = std::mem::take(&mut self.effects);
        let durable = matches!(input, Input::Durable { .. });
        self.quorum.step(self.now, input, &mut effects);
        if durable {
            // What is on the disk may leave the memory.
            self.log.durable(self.quorum.view().durable);
        }
        for effect in effects.drain(..) {
            self.execute(effect);
        }
        self.effects = effects;
    }

    fn execute(&mut self, effect: Effect) {
        match effect {
            Effect::Write { id, write } => {
                let job = self.plan(write);
                self.out.push(Out::Disk { id, job });
            }
            Effect::Send { call, to, body } => self.send(call, to, body),
            Effect::Reply { ticket, body } => match body {
                quorate_raft::Response::Fetch(answer)
                    if matches!(answer.fetched, Fetched::Range { .. }) =>
                {
                    self.serves.push(Serve { ticket, answer });
                }
                body => self.reply(ticket, body, Vec::new()),
            },
            Effect::Refuse { token, why } => self.refused(token, why),
            Effect::ReadAt { token, offset } => self.proved(token, offset),
            Effect::Commit { upto } => self.applied.committed(upto),
            Effect::Lead { epoch, leader } => self.led_by(epoch, leader),
            Effect::Complain { what } => {
                if self.once.say(self.now, &format!("{what:?}")) {
                    error!(%what, "a peer broke the protocol; nothing of it was taken");
                }
            }
            Effect::Stopped => self.out.push(Out::Stopped),
        }
    }

    /// Turns a write of the protocol into work for the disk.
    fn plan(&mut self, write: quorate_raft::Write) -> quorate_log::Job {
        match write {
            quorate_raft::Write::Election(state) => {
                let voters = self.quorum.view().voters.iter().map(|(key, _)| key.id);
                self.log.election(&translate::election(&state, voters))
            }
            quorate_raft::Write::Truncate { end } => {
                warn!(from = %self.log.end(), to = %end, "the log's tail was never committed and is cut off");
                let job = self.log.truncate(end);
                let cut = self.log.end();
                assert!(
                    cut == end,
                    "the leader ends an epoch at {end}, inside a batch that begins at {cut}"
                );
                job
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
                        fetched.slice(base, end)
                    }
                };
                self.log.append(base, end, epoch, bytes)
            }
        }
    }

    fn send(&mut self, call: Call, to: Destination, body: quorate_raft::Request) {
        let class = match body {
            quorate_raft::Request::Fetch(_) => Class::Fetch,
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
    fn choose(&self, endpoints: &[Endpoint]) -> Option<crate::config::HostPort> {
        let named =
            endpoints.iter().find(|endpoint| endpoint.listener == self.settings.names.listener);
        let endpoint = named.or(endpoints.first())?;
        Some(crate::config::HostPort { host: endpoint.host.clone(), port: endpoint.port })
    }

    // ---- Requests of peers and clients that came over the network.

    fn request(&mut self, conn: ConnId, bytes: usize, request: RequestFrame) {
        let header = &request.header;
        let (api, version, correlation) = (header.api, header.version, header.correlation_id);
        let place = self.inbound.admit(conn, bytes, &mut self.out);
        let asked = Asked { place, correlation, version, api };
        let taken = match api {
            ApiKey::ApiVersions => translate::api_versions(request)
                .map(|frame| self.inbound.answer(place, frame, &mut self.out)),
            ApiKey::Forward => {
                translate::forwarded(request).map(|request| self.take_forwarded(asked, request))
            }
            ApiKey::DescribeQuorum
            | ApiKey::FetchSnapshot
            | ApiKey::DescribeCluster
            | ApiKey::AddRaftVoter
            | ApiKey::RemoveRaftVoter
            | ApiKey::UpdateRaftVoter => Err(Refused::Close(format!("{api} is not served here"))),
            ApiKey::Vote | ApiKey::BeginQuorumEpoch | ApiKey::EndQuorumEpoch | ApiKey::Fetch => {
                translate::request(request, &self.settings.names).map(|body| {
                    let ticket = Ticket(self.number());
                    self.tickets.insert(ticket, asked);
                    self.inputs.push_back(Input::Request { ticket, body });
                })
            }
        };
        match taken {
            Ok(()) => {}
            Err(Refused::Close(why)) => self.drop_conn(conn, &why),
            Err(Refused::Answer(refusal)) => {
                if let Refusal::Cluster(theirs) = &refusal
                    && self.once.say(self.now, theirs)
                {
                    let ours = &self.settings.names.cluster;
                    warn!(
                        ours,
                        theirs,
                        "a node of another cluster asked and is refused with INCONSISTENT_CLUSTER_ID: \
                         one of our addresses stands in its configuration"
                    );
                }
                let view = self.leader_view();
                match translate::refusal(asked, refusal, &view, &self.settings.names) {
                    Ok(frame) => self.inbound.answer(place, frame, &mut self.out),
                    Err(error) => self.drop_conn(conn, &error.to_string()),
                }
            }
        }
    }

    fn drop_conn(&mut self, conn: ConnId, why: &str) {
        debug!(?conn, why, "connection closed");
        match self.links.owns(conn) {
            true => self.links.broken(conn, why, &mut self.news, &mut self.out),
            false => {
                self.inbound.forget(conn);
                self.out.push(Out::Close { conn, why: why.to_owned() });
            }
        }
    }

    fn reply(&mut self, ticket: Ticket, body: quorate_raft::Response, records: Vec<Bytes>) {
        let Some(asked) = self.tickets.remove(&ticket) else { return };
        match translate::response(asked, body, records, &self.settings.names) {
            Ok(frame) => self.inbound.answer(asked.place, frame, &mut self.out),
            Err(error) => self.drop_conn(asked.place.conn, &error.to_string()),
        }
    }

    /// Fills fetch answers from the log as it is at the end of the turn, so that what this turn
    /// appended and committed is in them.
    fn serve_fetches(&mut self) {
        if self.serves.is_empty() {
            return;
        }
        for Serve { ticket, mut answer } in std::mem::take(&mut self.serves) {
            let view = self.quorum.view();
            let leads = self.leads_in(answer.view.epoch);
            let Fetched::Range { start, end, max_bytes } = &mut answer.fetched else { continue };
            if leads {
                *end = self.log.end();
                answer.high_watermark = view.high_watermark;
            }
            match self.log.read(*start, *end, *max_bytes) {
                Read::Hot(records) => self.fill(ticket, answer, records),
                Read::Nothing => self.fill(ticket, answer, Vec::new()),
                Read::Cold(read) => {
                    let id = ReadId(self.number());
                    self.cold.insert(id, (read.generation, ColdUse::Serve { ticket, answer }));
                    self.out.push(Out::Read { id, read });
                }
            }
        }
    }

    fn fill(&mut self, ticket: Ticket, mut answer: FetchAnswer, mut records: Vec<Bytes>) {
        if !self.leads_in(answer.view.epoch) {
            // Lost since the core answered: the log may hold another leader's records by now, and the
            // epoch that took the leadership may not be durable yet, so this shows the old one.
            answer.view.error = ErrorKind::NotLeaderOrFollower;
            answer.fetched = Fetched::Nothing;
            answer.high_watermark = None;
            answer.round = None;
            records.clear();
        }
        self.reply(ticket, quorate_raft::Response::Fetch(answer), records);
    }

    fn leads_in(&self, epoch: Epoch) -> bool {
        let view = self.quorum.view();
        view.role == RoleName::Leader && view.epoch == epoch
    }

    // ---- What became of our own questions.

    fn digest_news(&mut self) {
        while !self.news.is_empty() {
            for news in std::mem::take(&mut self.news) {
                match news {
                    News::Lost { question, how } => self.lost(question, how),
                    News::Answered { peer, link, question, version, frame } => {
                        self.answered(peer, link, question, version, frame);
                    }
                }
            }
        }
    }

    fn lost(&mut self, question: Question, how: Loss) {
        match question {
            Question::Hello => {}
            Question::Raft(call, _) => self.inputs.push_back(Input::Lost { call, how }),
            Question::Forward(id, _) => self.flight_lost(id, how),
        }
    }

    fn answered(
        &mut self,
        peer: Peer,
        link: LinkId,
        question: Question,
        version: i16,
        frame: Bytes,
    ) {
        let response = match ResponseFrame::parse(frame) {
            Ok(response) => response,
            Err(_) => unreachable!("the link read the correlation id from the same bytes"),
        };
        match question {
            Question::Hello => match translate::hello(response, version) {
                Ok(speaks) => {
                    if let Peer::Replica(id) = peer {
                        let speaks = translate::features(&speaks);
                        self.inputs.push_back(Input::Peer { id, speaks });
                    }
                    let names = &self.settings.names;
                    self.links.greeted(
                        self.now,
                        link,
                        speaks,
                        names,
                        &mut self.news,
                        &mut self.out,
                    );
                }
                Err(why) => self.links.reject(link, &why, &mut self.news, &mut self.out),
            },
            Question::Raft(call, asked) => {
                match translate::answer(response, version, &asked, &self.settings.names) {
                    Ok((body, batches)) => {
                        if let Some(batches) = batches {
                            self.fetched.insert(call, batches);
                        }
                        self.step(Input::Response { call, body });
                        self.fetched.remove(&call);
                    }
                    Err(why) => {
                        if self.once.say(self.now, &format!("{peer:?} {why}")) {
                            warn!(?peer, why, "an answer was of no use and is dropped");
                        }
                        self.links.reject(link, &why, &mut self.news, &mut self.out);
                        self.inputs.push_back(Input::Lost { call, how: Loss::Dropped });
                    }
                }
            }
            Question::Forward(id, asked) => {
                match translate::forward_response(response, version, &asked) {
                    Ok(answer) => self.flight_answered(id, answer),
                    Err(why) => {
                        self.links.reject(link, &why, &mut self.news, &mut self.out);
                        self.flight_lost(id, Loss::Dropped);
                    }
                }
            }
        }
    }

    // ---- Leadership.

    fn led_by(&mut self, epoch: Epoch, leader: Option<ReplicaId>) {
        let view = self.quorum.view();
        info!(epoch = %epoch, leader = ?leader, role = %view.role, "leadership changed");
        self.note_change(epoch, leader);
        self.lose_lead();
        self.epoch = epoch;
        self.leader = leader;
        let leads = leader.is_some() && leader == self.id;
        if !leads {
            self.refuse_forwarded();
        } else {
            // Requests are judged on the state as all earlier leaders left it: apply that first.
            self.leading.gained(epoch, self.applied.commit);
        }
        self.forwarder.rest_until = Time(0);
    }

    fn note_change(&mut self, epoch: Epoch, leader: Option<ReplicaId>) {
        if self.changes.len() == CHANGES {
            self.changes.pop_front();
        }
        self.changes.push_back(RoleChange {
            at_ms: self.now.since(self.started).as_ms(),
            role: self.quorum.view().role.to_string(),
            epoch: epoch.0,
            leader: leader.map(|leader| leader.0),
        });
    }

    /// A number that was not used before: for tickets, tokens and reads.
    pub(crate) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(crate) fn token(&mut self) -> Token {
        Token(self.number())
    }

    pub(crate) fn read_cold_for_apply(&mut self, read: quorate_log::ColdRead) {
        let id = ReadId(self.number());
        self.cold.insert(id, (read.generation, ColdUse::Apply));
        self.push(Out::Read { id, read });
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping
    }

    pub(crate) fn push(&mut self, out: Out<M::Reply>) {
        self.out.push(out);
    }

    pub(crate) fn wall_ms(&self) -> i64 {
        self.wall_ms
    }

    /// Sends a forwarded request to the leader.
    pub(crate) fn ask_leader(
        &mut self,
        leader: ReplicaId,
        id: u64,
        request: quorate_wire::message::ForwardRequest,
    ) {
        let view = self.quorum.view();
        let at = self.choose(&view.leader_endpoints);
        let question = Question::Forward(id, request);
        match at {
            Some(at) => {
                let names = &self.settings.names;
                let peer = Peer::Replica(leader);
                self.links.ask(
                    self.now,
                    peer,
                    Class::Forward,
                    &at,
                    question,
                    names,
                    &mut self.news,
                    &mut self.out,
                );
            }
            None => self.news.push(News::Lost { question, how: Loss::Refused }),
        }
    }

    pub(crate) fn answer_place(
        &mut self,
        place: Place,
        frame: Result<quorate_wire::Frame, quorate_wire::Error>,
    ) {
        match frame {
            Ok(frame) => self.inbound.answer(place, frame, &mut self.out),
            Err(error) => self.drop_conn(place.conn, &error.to_string()),
        }
    }

    fn leader_view(&self) -> quorate_raft::LeaderView {
        let view = self.quorum.view();
        quorate_raft::LeaderView {
            error: quorate_raft::ErrorKind::None,
            epoch: view.epoch,
            leader: view.leader,
            endpoints: view.leader_endpoints.into(),
        }
    }
}
