//! One replica as a value: the protocol, the log's plans and the machine, with the queues between
//! them.
//!
//! Bytes, connections and durable writes are reported to it; what it wants done comes out as
//! [`Out`]. It does no I/O, reads no clock and has no thread, so the server and the simulator drive
//! the same code. All work happens in [`Replica::turn`], in one order: what became durable and what
//! peers said, then the clients' requests as one batch, then answers.

mod answers;
mod damage;
mod effects;
mod full_disk;
mod handing_over;
pub(crate) mod history;
mod levels;
mod requests;
mod snapshots;
mod voters;

pub use handing_over::Stays;

use crate::apply::Applied;
use crate::clients::{Clients, Origin, Write};
use crate::fetched::FetchedRecords;
use crate::forward::Forwarder;
use crate::handle::Error;
use crate::inbound::{Inbound, Place};
use crate::leading::{Leading, WRITE_BYTES_MAX};
use crate::links::{Links, News};
use crate::metrics::Metrics;
use crate::once::Once;
use crate::out::{BadRead, ClientId, ConnId, ConnectError, LinkId, Out, ReadId, Reading};
use crate::published::Published;
use crate::snapshots::Making;
use crate::status::RoleChange;
use crate::translate::{self, Names};
use bytes::Bytes;
use full_disk::Room;
use levels::Levels;
use quorate_base::{
    Cleaned, Epoch, FormatLevel, Offset, OffsetEpoch, ReplicaId, ReplicaKey, Span, Time, Uuid,
};
use quorate_log::Log;
use quorate_machine::Machine;
use quorate_raft::{
    Call, Effect, FetchAnswer, Input, Quorum, RoleName, SnapshotAnswer, Ticket, Token,
};
use quorate_wire::{RequestFrame, ResponseFrame, Served};
use std::collections::{BTreeMap, VecDeque};

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
    /// At so many bytes committed that the own disk does not have yet, a leader hands over.
    pub unstored_max_bytes: u64,
    /// So many bytes that are not on the own disk yet may be proposed: there is room put aside for
    /// them.
    pub promised_max_bytes: u64,
    /// `controller.quorum.request.timeout.ms`.
    pub request_timeout: Span,
    /// `controller.quorum.retry.backoff.ms`.
    pub retry_backoff: Span,
    /// `controller.quorum.fetch.timeout.ms`: a follower that hears nothing for longer is not ready.
    pub fetch_timeout: Span,
    /// `metadata.log.max.record.bytes.between.snapshots`.
    pub snapshot_bytes: u64,
    /// `metadata.log.max.snapshot.interval.ms`.
    pub snapshot_interval: Span,
    /// The newest format level that this node speaks.
    pub newest_level: FormatLevel,
    /// `quorate.cleanup.policy=delete`: the log begins at a snapshot, and older records go.
    pub trims: bool,
    /// `metadata.max.retention.bytes` and `.ms`.
    pub retention: quorate_log::Retention,
    /// So many bytes may be kept beyond that for replicas that copy a snapshot, or a few snapshots.
    pub held_max_bytes: u64,
    /// The rule that this node breaks.
    #[cfg(mutants)]
    pub mutant: Option<crate::Mutant>,
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
    pub api: Served,
    /// When it came.
    pub at: Time,
}

impl Asked {
    /// Whether somebody asks for other voters.
    pub fn is_change(self) -> bool {
        [Served::AddRaftVoter, Served::RemoveRaftVoter].contains(&self.api)
    }

    /// Whether the voters, or what is said of them, may be others afterwards.
    fn concerns_voters(self) -> bool {
        self.is_change() || [Served::UpdateRaftVoter, Served::UpdateFeatures].contains(&self.api)
    }
}

/// What a read from the disk is for.
enum ColdUse {
    Apply,
    Serve { ticket: Ticket, answer: FetchAnswer },
    Piece { ticket: Ticket, answer: SnapshotAnswer },
}

/// One replica. `M` is the machine that its log drives.
pub struct Replica<M: Machine> {
    pub(crate) settings: Settings,
    pub(crate) id: Option<ReplicaId>,
    pub(crate) quorum: Quorum,
    pub(crate) log: Log,
    pub(crate) machine: M,
    pub(crate) published: Published<M>,
    pub(crate) now: Time,
    pub(crate) started: Time,
    /// Wall clock of this turn, for the timestamps of batches.
    wall_ms: i64,
    pub(crate) clients: Clients<M::Query>,
    pub(crate) leading: Leading,
    pub(crate) forwarder: Forwarder<M::Query>,
    pub(crate) applied: Applied,
    pub(crate) making: Making,
    pub(crate) room: Room,
    pub(crate) levels: Levels,
    /// A download that is whole and checked, until the log rests on it.
    downloaded: Option<quorate_log::Snapshot>,
    /// How often a download was begun anew because the leader had removed what was copied; 0 again
    /// once one is done.
    pub(crate) begun_anew: u32,
    /// When retention looks again.
    retain_at: Time,
    /// How much was applied when it last looked.
    retained_bytes: u64,
    room_for_removed: Option<u64>,
    /// When a snapshot that others copy may be looked at again.
    check_at: Time,
    /// Snapshots that could not be read.
    unread: Vec<OffsetEpoch>,
    /// What of this node's files is damaged, once that is known.
    pub(crate) damage: Option<String>,
    pub(crate) links: Links,
    pub(crate) inbound: Inbound,
    /// Who leads, as far as the core has said.
    pub(crate) leader: Option<ReplicaId>,
    pub(crate) epoch: Epoch,
    pub(crate) changes: VecDeque<RoleChange>,
    /// Those that counted in the last turn.
    voters: Vec<ReplicaKey>,
    /// The role of the last turn.
    role: RoleName,
    /// From which directory each other voter last fetched.
    directories: BTreeMap<ReplicaId, Uuid>,
    /// When a leader last answered a fetch of this node.
    pub(crate) heard_at: Time,
    inputs: VecDeque<Input>,
    effects: Vec<Effect>,
    news: Vec<News>,
    /// Requests of the protocol that the core has not answered yet.
    tickets: BTreeMap<Ticket, Asked>,
    /// Records of fetch answers, until the core says what to do with them.
    fetched: BTreeMap<Call, FetchedRecords>,
    /// The piece of a snapshot in the answer that the core is given.
    piece: Option<(Call, Bytes)>,
    /// What the first batch of the log is known by [P86].
    history: Option<u64>,
    /// What the leader's log lacks, by the answer that the core is given.
    told: Cleaned,
    serves: Vec<Serve>,
    /// With the generation of the log that planned the read.
    cold: BTreeMap<ReadId, (u64, ColdUse)>,
    next: u64,
    swept: Time,
    once: Once,
    pub(crate) metrics: Metrics,
    stopping: bool,
    out: Vec<Out<M>>,
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
        let voters = view.voters.iter().map(|voter| voter.key).collect();
        Replica {
            links: Links::new(
                settings.request_timeout,
                #[cfg(mutants)]
                settings.mutant,
            ),
            id,
            leader: None,
            epoch: view.epoch,
            applied: Applied::new(),
            making: Making::new(settings.snapshot_bytes, settings.snapshot_interval, now),
            room: Room::default(),
            levels: Levels::default(),
            downloaded: None,
            begun_anew: 0,
            retain_at: now,
            retained_bytes: 0,
            room_for_removed: None,
            check_at: now,
            unread: Vec::new(),
            damage: None,
            quorum,
            log,
            machine,
            published: Published::new(Offset::ZERO),
            now,
            started: now,
            wall_ms: 0,
            clients: Clients::new(),
            leading: Leading::new(),
            forwarder: Forwarder::new(),
            inbound: Inbound::default(),
            changes: VecDeque::new(),
            voters,
            role: RoleName::Unattached,
            directories: BTreeMap::new(),
            heard_at: now,
            inputs: VecDeque::from([Input::Wake]),
            effects: Vec::new(),
            news: Vec::new(),
            tickets: BTreeMap::new(),
            fetched: BTreeMap::new(),
            piece: None,
            history: None,
            told: Cleaned::NEVER,
            serves: Vec::new(),
            cold: BTreeMap::new(),
            next: 0,
            swept: now,
            once: Once::default(),
            metrics: Metrics::new(),
            stopping: false,
            out: Vec::new(),
            settings,
        }
    }

    /// What has to be done, in order. To be taken after every call.
    pub fn take_out(&mut self, into: &mut Vec<Out<M>>) {
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
        if let Some(refusal) = quorate_wire::not_controller(&frame) {
            let place = self.inbound.admit(conn, bytes, &mut self.out);
            self.inbound.answer(place, refusal, &mut self.out);
            return;
        }
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
            true => {
                self.room.let_go(now);
                self.links.closed(conn, &mut self.news, &mut self.out);
            }
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
    pub fn on_read(&mut self, now: Time, id: ReadId, records: Result<Bytes, BadRead>) {
        self.now = now;
        let Some((generation, wanted)) = self.cold.remove(&id) else { return };
        // The log was cut meanwhile: neither bytes nor errors of the old one say anything.
        let stale = generation != self.log.generation();
        match (wanted, records) {
            (ColdUse::Apply, _) if stale => self.applied.arrived(None),
            (ColdUse::Apply, Ok(records)) => self.applied.arrived(Some(records)),
            (ColdUse::Apply, Err(bad)) => self.cannot_apply(bad),
            (ColdUse::Piece { ticket, answer }, piece) => self.fill_piece(ticket, answer, piece),
            (ColdUse::Serve { ticket, answer }, Ok(records)) if !stale => {
                self.fill(ticket, answer, vec![records])
            }
            (ColdUse::Serve { ticket, answer }, Ok(_)) => self.fill(ticket, answer, Vec::new()),
            (ColdUse::Serve { ticket, answer }, Err(bad)) => {
                if !stale {
                    self.cannot_serve(bad);
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
            least: None,
            due: now + patience,
        });
    }

    /// Whether more requests of this process are to be taken in; those that wait have enough bytes
    /// or number.
    pub fn has_room(&self) -> bool {
        let (waiting, bytes) =
            (self.clients.writes.len() + self.clients.reads.len(), self.clients.writes.bytes());
        waiting < WAITING_MAX && bytes < self.settings.uncommitted_max_bytes
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
            Some(_) if !self.room.refuses() => self.machine.deadline(),
            Some(_) | None => Time::NEVER,
        };
        let soon = match self.applies_now() || !self.inputs.is_empty() || self.has_batch() {
            true => self.now,
            false => Time::NEVER,
        };
        let forward = match self.clients.writes.is_empty() && self.clients.reads.is_empty() {
            false if self.leading.serving.is_none() && self.now < self.forwarder.rest_until => {
                self.forwarder.rest_until
            }
            true | false => Time::NEVER,
        };
        [
            self.quorum.deadline(),
            self.links.deadline(),
            sweep,
            machine,
            soon,
            forward,
            self.snapshot_at(),
            self.room.deadline(),
            self.raises_until(),
        ]
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
        self.release_held_back();
        while let Some(input) = self.inputs.pop_front() {
            self.step(input);
            self.digest_news();
        }
        if self.quorum.deadline() <= now {
            self.step(Input::Wake);
        }
        self.end_of_draining();
        self.load_when_behind();
        self.apply();
        self.publish();
        self.make_snapshots();
        self.retain();
        self.take_lead_when_due();
        self.refuse_raises();
        self.close_batch();
        self.prove_reads();
        self.forward();
        self.settle();
        self.settle_raises();
        self.hand_over_when_the_disk_lags();
        self.hand_over_when_the_disk_is_full();
        self.serve_fetches();
        self.begin_anew_when_due();
        if now >= self.swept + SWEEP {
            self.swept = now;
            self.sweep();
        }
        // Effects of the steps above may have lost or answered questions at once.
        self.digest_news();
        self.note_role();
        self.note_voters();
        self.note_silence();
    }

    /// The request for other voters that the core has not answered yet, and when it came.
    pub(crate) fn change_asked(&self) -> Option<(Ticket, Time)> {
        let mut open = self.tickets.iter().filter(|(_, asked)| asked.concerns_voters());
        open.next().map(|(ticket, asked)| (*ticket, asked.at))
    }

    /// Whether the core has not answered this request yet.
    pub(crate) fn is_open(&self, ticket: Ticket) -> bool {
        self.tickets.contains_key(&ticket)
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
        self.push(Out::Read { id, read: Reading::Records(read) });
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping
    }

    pub(crate) fn push(&mut self, out: Out<M>) {
        self.out.push(out);
    }

    pub(crate) fn wall_ms(&self) -> i64 {
        self.wall_ms
    }
}
