//! A whole replica among hostile peers: what others ask on connections they made, and what they
//! answer on connections we made.
//!
//! An input is a list of events; see [`Event`]. Numbers in the messages are small, so that offsets
//! and epochs often fit, and an answer may be aimed: its records then begin where the replica
//! asked. The disk is fast and never fails.

use crate::damage::{damage, noise};
use crate::log::batch;
use bytes::Bytes;
use quorate_base::{Epoch, Offset, ReplicaId, Rng, Span, Time, Uuid};
use quorate_log::{ControlType, MemoryDisk, Meta, Reserved, Store, control_batch, format};
use quorate_machine::{Kv, Sessioned};
use quorate_node::config::{Config, HostPort, Voter};
use quorate_node::start::{Started, log_options, start};
use quorate_node::{ConnId, Lane, Out, Replica};
use quorate_raft::Endpoint;
use quorate_wire::message::{
    ApiVersionsRequest, ApiVersionsResponse, BeginQuorumEpochRequest,
    BeginQuorumEpochRequestPartition, BeginQuorumEpochResponse, DivergingEpoch,
    EndQuorumEpochRequest, EndQuorumEpochRequestPartition, EndQuorumEpochResponse, FetchRequest,
    FetchRequestPartition, FetchResponse, FetchResponsePartition, FetchTopic, FetcherMarks,
    ForwardRequest, LeaderEndpoint, LeaderIdAndEpoch, LeaderMarks, Message, PreferredCandidate,
    QuorumResponse, ReplicaState, SnapshotId, Topic, VoteRequest, VoteRequestPartition,
    VoteResponsePartition,
};
use quorate_wire::record::control::LeaderChange;
use quorate_wire::{
    ApiKey, ErrorCode, RequestFrame, RequestHeader, ResponseFrame, Served, Walk, arbitrary,
    encode_request, encode_response,
};
use std::path::PathBuf;
use std::sync::OnceLock;

type Machine = Sessioned<Kv>;

const CLUSTER: &str = "fuzzed";
const TOPIC: &str = "__cluster_metadata";
/// Connections that others make to us.
const GUESTS: u64 = 4;
/// So many steps of events and what follows from them end an input.
const STEPS: usize = 400;

/// What an input consists of, by its first byte.
mod event {
    /// A connection, a length, and a frame from it.
    pub const REQUEST: u8 = 0;
    /// An API key, a length, and the answer to a question of that API, if one is open.
    pub const ANSWER: u8 = 1;
    /// The same for Fetch; the records begin where the replica asked, in the epoch it knows.
    pub const AIMED: u8 = 2;
    /// So many times 10 ms pass.
    pub const TIME: u8 = 3;
    /// A connection is closed.
    pub const CLOSE: u8 = 4;
}

// ---- Making inputs.

/// Mostly a number that fits.
fn small(rng: &mut Rng) -> i64 {
    match rng.below(40) {
        0 => -1,
        1 => i64::MAX,
        2 => i64::MIN,
        3 => rng.next() as i64,
        _ => rng.below(6) as i64,
    }
}

fn small32(rng: &mut Rng) -> i32 {
    small(rng).clamp(i32::MIN.into(), i32::MAX.into()) as i32
}

fn peer(rng: &mut Rng) -> i32 {
    match rng.below(20) {
        0 => -1,
        1 => 1,
        2 => 9,
        number => 2 + (number % 2) as i32,
    }
}

fn cluster(rng: &mut Rng) -> Option<String> {
    (!rng.one_in(4)).then(|| if rng.one_in(30) { "another" } else { CLUSTER }.to_owned())
}

fn code(rng: &mut Rng) -> ErrorCode {
    match rng.one_in(6) {
        true => ErrorCode::from_code(rng.below(130) as i16 - 1),
        false => ErrorCode::None,
    }
}

fn topics<P>(partition: P) -> Vec<Topic<P>> {
    vec![Topic { topic_name: TOPIC.to_owned(), partitions: vec![partition], tags: vec![] }]
}

fn fetch_topics<P>(partition: P) -> Vec<FetchTopic<P>> {
    vec![FetchTopic {
        topic: TOPIC.to_owned(),
        topic_id: Uuid::METADATA_TOPIC,
        partitions: vec![partition],
        tags: vec![],
    }]
}

fn endpoints() -> Vec<LeaderEndpoint> {
    let (name, host) = ("CONTROLLER".to_owned(), "peer".to_owned());
    vec![LeaderEndpoint { name, host, port: 9093, tags: vec![] }]
}

fn request<M: Message>(message: M, rng: &mut Rng) -> Vec<u8> {
    let versions = (M::API.newest() - M::API.oldest() + 1) as u64;
    let version = match rng.one_in(3) {
        true => M::API.oldest() + rng.below(versions) as i16,
        false => M::API.newest(),
    };
    let header = |version| RequestHeader::new(M::API, version, 7, Some("peer".to_owned()));
    // An old version may be unable to carry what was drawn.
    let frame = encode_request(header(version), message.clone())
        .or_else(|_| encode_request(header(M::API.newest()), message));
    frame.expect("the newest version carries all").into_payload().to_vec()
}

fn draw_request(rng: &mut Rng) -> Vec<u8> {
    match rng.below(12) {
        0..=2 => {
            let partition = VoteRequestPartition {
                replica_epoch: small32(rng),
                replica_id: peer(rng),
                last_offset_epoch: small32(rng),
                last_offset: small(rng),
                pre_vote: rng.one_in(2),
                ..VoteRequestPartition::default()
            };
            let (cluster_id, topics) = (cluster(rng), topics(partition));
            let vote = VoteRequest { cluster_id, voter_id: 1, topics, tags: vec![] };
            request(vote, rng)
        }
        3 | 4 => {
            let partition = BeginQuorumEpochRequestPartition {
                leader_id: peer(rng),
                leader_epoch: small32(rng),
                ..BeginQuorumEpochRequestPartition::default()
            };
            let begin = BeginQuorumEpochRequest {
                cluster_id: cluster(rng),
                voter_id: 1,
                topics: topics(partition),
                leader_endpoints: endpoints(),
                tags: vec![],
            };
            request(begin, rng)
        }
        5 => {
            let candidate = |rng: &mut Rng| PreferredCandidate {
                candidate_id: if rng.one_in(2) { 1 } else { peer(rng) },
                ..PreferredCandidate::default()
            };
            let partition = EndQuorumEpochRequestPartition {
                leader_id: peer(rng),
                leader_epoch: small32(rng),
                preferred_candidates: (0..rng.below(4)).map(|_| candidate(rng)).collect(),
                ..EndQuorumEpochRequestPartition::default()
            };
            let end = EndQuorumEpochRequest {
                cluster_id: cluster(rng),
                topics: topics(partition),
                leader_endpoints: endpoints(),
                tags: vec![],
            };
            request(end, rng)
        }
        6..=8 => {
            let marks = rng.one_in(2).then(|| FetcherMarks {
                understands: rng.below(3) as i8,
                required: small(rng),
                read_round: small(rng),
                format_level: rng.below(3) as u16,
                history: small(rng),
                tags: vec![],
            });
            let partition = FetchRequestPartition {
                current_leader_epoch: small32(rng),
                fetch_offset: small(rng),
                last_fetched_epoch: small32(rng),
                partition_max_bytes: small32(rng),
                high_watermark: small(rng),
                marks,
                ..FetchRequestPartition::default()
            };
            let fetch = FetchRequest {
                cluster_id: cluster(rng),
                replica_state: Some(ReplicaState {
                    replica_id: peer(rng),
                    ..ReplicaState::default()
                }),
                max_wait_ms: small32(rng) * i32::from(rng.one_in(2)),
                topics: fetch_topics(partition),
                ..FetchRequest::default()
            };
            request(fetch, rng)
        }
        9 => request(arbitrary::message::<ApiVersionsRequest>(4, rng), rng),
        10 => {
            let mut forward: ForwardRequest = arbitrary::message(0, rng);
            forward.leader_epoch = small32(rng);
            request(forward, rng)
        }
        _ => noise(rng, 60),
    }
}

fn answer<M: Message>(message: M) -> (ApiKey, Vec<u8>) {
    let frame = encode_response(message, M::API.newest(), 0).expect("the newest carries all");
    (M::API, frame.into_payload().to_vec())
}

fn quorum_answer<P: Walk>(partition: P, rng: &mut Rng) -> QuorumResponse<P> {
    let error_code = if rng.one_in(20) { code(rng) } else { ErrorCode::None };
    QuorumResponse { error_code, topics: topics(partition), ..QuorumResponse::default() }
}

/// Batches of a leader, the first perhaps of its new epoch.
fn records(rng: &mut Rng) -> Vec<u8> {
    let (mut base, epoch) = (Offset(rng.below(6)), Epoch(rng.below(6) as u32));
    let mut bytes = Vec::new();
    if rng.one_in(2) {
        let change = LeaderChange { leader_id: peer(rng), ..LeaderChange::default() };
        let value = change.encode().expect("a small record");
        let time = 1_700_000_000_000;
        bytes.extend(control_batch(base, epoch, time, &[(ControlType::LeaderChange, value)]));
        base = base + 1;
    }
    for _ in 0..rng.below(3) {
        let (end, batch) = batch(base, epoch, rng);
        bytes.extend_from_slice(&batch);
        base = end;
    }
    if rng.one_in(10) {
        damage(&mut bytes, rng);
    }
    bytes
}

fn draw_answer(rng: &mut Rng) -> (ApiKey, Vec<u8>) {
    match rng.below(10) {
        0..=2 => {
            let vote = VoteResponsePartition {
                error_code: code(rng),
                leader_id: if rng.one_in(3) { peer(rng) } else { -1 },
                leader_epoch: small32(rng),
                vote_granted: !rng.one_in(4),
                ..VoteResponsePartition::default()
            };
            answer(quorum_answer(vote, rng))
        }
        3 => {
            let mut begin: BeginQuorumEpochResponse = quorum_answer(Default::default(), rng);
            begin.topics[0].partitions[0].error_code = code(rng);
            begin.topics[0].partitions[0].leader_id = peer(rng);
            begin.topics[0].partitions[0].leader_epoch = small32(rng);
            answer(begin)
        }
        4 => {
            let mut end: EndQuorumEpochResponse = quorum_answer(Default::default(), rng);
            end.topics[0].partitions[0].error_code = code(rng);
            end.topics[0].partitions[0].leader_id = peer(rng);
            end.topics[0].partitions[0].leader_epoch = small32(rng);
            answer(end)
        }
        _ => {
            let diverging = rng.one_in(8).then(|| DivergingEpoch {
                epoch: small32(rng),
                end_offset: small(rng),
                tags: vec![],
            });
            let snapshot = rng.one_in(20).then(|| SnapshotId {
                end_offset: small(rng),
                epoch: small32(rng),
                tags: vec![],
            });
            let leader = rng.one_in(2).then(|| LeaderIdAndEpoch {
                leader_id: peer(rng),
                leader_epoch: small32(rng),
                tags: vec![],
            });
            let marks = rng.one_in(2).then(|| LeaderMarks {
                dirty: small(rng),
                clean: small(rng),
                read_round: small(rng),
                ..LeaderMarks::default()
            });
            let partition = FetchResponsePartition {
                error_code: code(rng),
                high_watermark: small(rng),
                log_start_offset: if rng.one_in(4) { small(rng) } else { 0 },
                diverging_epoch: diverging,
                current_leader: leader,
                snapshot_id: snapshot,
                records: Some(records(rng).into()),
                marks,
                ..FetchResponsePartition::default()
            };
            let responses = fetch_topics(partition);
            answer(FetchResponse { responses, ..FetchResponse::default() })
        }
    }
}

fn sized(input: &mut Vec<u8>, frame: &[u8]) {
    input.extend((frame.len() as u16).to_be_bytes());
    input.extend(frame);
}

/// A list of events.
pub fn make(rng: &mut Rng) -> Vec<u8> {
    let mut input = Vec::new();
    for _ in 0..1 + rng.below(24) {
        match rng.below(10) {
            0..=2 => {
                let mut frame = draw_request(rng);
                if rng.one_in(8) {
                    damage(&mut frame, rng);
                }
                input.extend([event::REQUEST, rng.below(GUESTS) as u8]);
                sized(&mut input, &frame);
            }
            3..=6 => {
                let (api, mut frame) = draw_answer(rng);
                if rng.one_in(12) {
                    damage(&mut frame, rng);
                }
                let aimed = api == ApiKey::Fetch && !rng.one_in(4);
                input.push(if aimed { event::AIMED } else { event::ANSWER });
                input.extend(api.key().to_be_bytes());
                sized(&mut input, &frame);
            }
            7 | 8 => input.extend([event::TIME, [1, 5, 30, 110, 255][rng.below(5) as usize]]),
            _ => input.extend([event::CLOSE, rng.below(GUESTS + 4) as u8]),
        }
    }
    input
}

// ---- Judging them.

/// A question of the replica that is not answered yet.
struct Open {
    conn: ConnId,
    request: RequestFrame,
}

struct World {
    replica: Replica<Machine>,
    store: Store<Reserved<MemoryDisk>>,
    disk: MemoryDisk,
    lane: Lane<Machine, MemoryDisk>,
    now: Time,
    /// Connections that the replica asked for; guests have the lowest numbers.
    links: Vec<ConnId>,
    open: Vec<Open>,
    steps: usize,
}

fn formatted(config: &Config) -> MemoryDisk {
    static FORMATTED: OnceLock<MemoryDisk> = OnceLock::new();
    let disk = FORMATTED.get_or_init(|| {
        let mut disk = MemoryDisk::default();
        let directory = Some(Uuid([1; 16]));
        let meta = Meta { cluster: CLUSTER.to_owned(), node: ReplicaId(1), directory };
        format(&mut disk, &log_options(config).partition, &meta, config.topic_id)
            .expect("the disk is new");
        disk
    });
    disk.fork()
}

impl World {
    fn new() -> World {
        let at = |host: &str| HostPort { host: host.to_owned(), port: 9093 };
        let voter = |id| Voter { id: ReplicaId(id), at: at("peer") };
        let config = Config::new(
            Some(ReplicaId(1)),
            PathBuf::new(),
            vec![voter(1), voter(2), voter(3)],
            at("self"),
        );
        let own = Endpoint { listener: config.listener.clone(), host: "self".into(), port: 9093 };
        let (disk, now) = (formatted(&config), Time(1));
        let machine = Sessioned::new(Kv::new());
        let Started { replica, store, disk: reserved, notes } =
            start(&config, own, disk.clone(), machine, 1, now).expect("just formatted");
        assert_eq!(notes, []);
        let (links, open) = (Vec::new(), Vec::new());
        let lane = Lane::new(&reserved, &log_options(&config).partition);
        World { replica, store, disk, lane, now, links, open, steps: 0 }
    }

    /// Lets the replica work until nothing follows any more.
    fn settle(&mut self) {
        let mut out = Vec::new();
        loop {
            let wall_ms = 1_700_000_000_000 + (self.now.0 / 1_000) as i64;
            self.replica.turn(self.now, wall_ms);
            self.replica.take_out(&mut out);
            self.steps += 1;
            if out.is_empty() || self.steps > STEPS {
                return;
            }
            for out in out.drain(..) {
                self.carry_out(out);
            }
        }
    }

    fn carry_out(&mut self, out: Out<Machine>) {
        match out {
            // A peer may say anything; the files are emptied before the node begins anew.
            Out::StartOver => {}
            Out::Frame { conn, frame } if self.links.contains(&conn) => {
                let request = RequestFrame::parse(frame.into_payload());
                let request = request.expect("what we ask is a request");
                match request.header.api == ApiKey::ApiVersions {
                    true => self.greet(conn, &request),
                    false => self.open.push(Open { conn, request }),
                }
            }
            Out::Frame { frame, .. } => {
                let answer = ResponseFrame::parse(frame.into_payload());
                answer.expect("what we answer is a response");
            }
            Out::Connect { link, .. } => {
                let conn = ConnId(GUESTS + self.links.len() as u64);
                self.links.push(conn);
                self.replica.on_connect(self.now, link, Ok(conn));
            }
            Out::Disk { id, job } => {
                self.store.run(&mut vec![job]).expect("the disk does not fail");
                self.replica.on_durable(self.now, id);
            }
            Out::Read { id, read } => {
                let records = read.run(&mut self.disk);
                self.replica.on_read(self.now, id, records);
            }
            Out::Close { conn, .. } => self.open.retain(|open| open.conn != conn),
            Out::Lane(errand) => {
                self.lane.push(errand);
                while !self.lane.is_idle() {
                    if let Some(report) = self.lane.step() {
                        self.replica.on_lane(self.now, report);
                    }
                }
            }
            Out::BeginAnew { why } => panic!("a peer damaged our files: {why}"),
            Out::TooOld { why } | Out::Fatal { why } => panic!("a peer brought us down: {why}"),
            Out::Pause { .. } | Out::Resume { .. } => {}
            Out::Answer { .. } | Out::Reply { .. } | Out::Stopped => {
                panic!("nobody asked for that")
            }
        }
    }

    /// Peers say what they speak: the same as we.
    fn greet(&mut self, conn: ConnId, request: &RequestFrame) {
        let api_keys = Served::ALL.iter().map(|one| one.api().into()).collect();
        let hello = ApiVersionsResponse { api_keys, ..ApiVersionsResponse::default() };
        let header = &request.header;
        let frame = encode_response(hello, header.version, header.correlation_id)
            .expect("a version that we asked in")
            .into_payload();
        self.replica.on_frame(self.now, conn, frame);
    }

    fn answer(&mut self, api: i16, frame: &[u8], aimed: bool) {
        let is_of = |open: &Open| open.request.header.api.key() == api;
        let Some(at) = self.open.iter().position(is_of) else { return };
        let Open { conn, request } = self.open.remove(at);
        let mut frame = frame.to_vec();
        if aimed && let Some(better) = aim(&request, &frame) {
            frame = better;
        }
        if let Some(correlation) = frame.first_chunk_mut() {
            *correlation = request.header.correlation_id.to_be_bytes();
        }
        self.replica.on_frame(self.now, conn, frame.into());
    }
}

/// The answer with its records moved to where the request asked.
fn aim(request: &RequestFrame, frame: &[u8]) -> Option<Vec<u8>> {
    let version = request.header.version;
    let asked: FetchRequest = request.clone().decode().ok()?;
    let asked = asked.topics.first()?.partitions.first()?;
    let answer = ResponseFrame::parse(Bytes::copy_from_slice(frame)).ok()?;
    let mut answer: FetchResponse = answer.decode(ApiKey::Fetch.newest()).ok()?;
    let partition = answer.responses.first_mut()?.partitions.first_mut()?;
    let mut records = partition.records.as_deref()?.to_vec();
    let (mut at, mut base) = (0, asked.fetch_offset);
    // Neither the base offset nor the epoch is under a batch's checksum.
    while let Some(batch) = records.get_mut(at..).filter(|batch| batch.len() >= 61) {
        let length = u32::from_be_bytes(*batch[8..].first_chunk()?);
        let last_delta = u32::from_be_bytes(*batch[23..].first_chunk()?);
        batch[..8].copy_from_slice(&base.to_be_bytes());
        batch[12..16].copy_from_slice(&asked.current_leader_epoch.to_be_bytes());
        base = base.checked_add(i64::from(last_delta) + 1)?;
        at = at.checked_add(12)?.checked_add(length as usize)?;
    }
    partition.records = Some(records.into());
    partition.error_code = ErrorCode::None;
    if let Some(leader) = &mut partition.current_leader {
        leader.leader_epoch = asked.current_leader_epoch;
    }
    let frame = encode_response(answer, version, 0).ok()?;
    Some(frame.into_payload().to_vec())
}

fn take_sized<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = input.split_first_chunk()?;
    let (frame, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    *input = rest;
    Some(frame)
}

fn take<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = input.split_first_chunk()?;
    *input = rest;
    Some(*taken)
}

/// Plays the events, as far as the input makes sense.
pub fn check(mut input: &[u8]) {
    let mut world = World::new();
    world.settle();
    while world.steps <= STEPS && play(&mut world, &mut input).is_some() {
        world.settle();
    }
}

fn play(world: &mut World, input: &mut &[u8]) -> Option<()> {
    let [kind] = take(input)?;
    match kind {
        event::REQUEST => {
            let [guest] = take(input)?;
            let frame = Bytes::copy_from_slice(take_sized(input)?);
            let conn = ConnId(u64::from(guest) % GUESTS);
            world.replica.on_frame(world.now, conn, frame);
        }
        event::ANSWER | event::AIMED => {
            let api = i16::from_be_bytes(take(input)?);
            world.answer(api, take_sized(input)?, kind == event::AIMED);
        }
        event::TIME => {
            let [tens] = take(input)?;
            world.now += Span::ms(10 * u64::from(tens));
        }
        event::CLOSE => {
            let [conn] = take(input)?;
            let conn = ConnId(u64::from(conn));
            world.open.retain(|open| open.conn != conn);
            world.replica.on_closed(world.now, conn);
        }
        _ => return None,
    }
    Some(())
}
