//! Our questions in the newest version that the peer speaks, and its answers in the protocol's
//! words.

use super::{
    Names, PARTITION, changes, decrees, endpoints, error_kind, replica, snapshot, wire_directory,
    wire_id,
};
use crate::fetched::FetchedRecords;
use crate::links::{Encode, Encoded, Question, Speaks};
use bytes::Bytes;
use quorate_base::{Cleaned, Epoch, Offset, OffsetEpoch};
use quorate_raft as raft;
use quorate_raft::{Features, FetchHighWatermark, Fetched, LeaderView};
use quorate_wire::message as wire;
use quorate_wire::{ErrorCode, RequestHeader, ResponseFrame, Served, encode_request};
use std::sync::Arc;
use tracing::warn;

/// The name by which we introduce ourselves.
const CLIENT: &str = "quorate";

impl Encode for Names {
    fn encode(
        &self,
        question: &Question,
        speaks: Option<&Speaks>,
        correlation: i32,
    ) -> Result<Encoded, ()> {
        let newest = |api: Served| match speaks {
            Some(speaks) => speaks.common(api, self.speaks).ok_or(()),
            None => self.speaks.newest(api).ok_or(()),
        };
        let knows_marks = speaks.is_some_and(|speaks| self.features(speaks).rounds);
        match question {
            Question::Hello => send(hello_request(), newest(Served::ApiVersions)?, correlation),
            Question::Raft(_, raft::Request::Vote(vote)) => {
                send(self.vote(vote), newest(Served::Vote)?, correlation)
            }
            Question::Raft(_, raft::Request::BeginQuorumEpoch(begin)) => {
                send(self.begin(begin), newest(Served::BeginQuorumEpoch)?, correlation)
            }
            Question::Raft(_, raft::Request::EndQuorumEpoch(end)) => {
                send(self.end(end), newest(Served::EndQuorumEpoch)?, correlation)
            }
            Question::Raft(_, raft::Request::Fetch(fetch)) => {
                send(self.fetch(fetch, knows_marks), newest(Served::Fetch)?, correlation)
            }
            Question::Raft(_, raft::Request::FetchSnapshot(fetch)) => {
                send(snapshot::question(fetch, self), newest(Served::FetchSnapshot)?, correlation)
            }
            Question::Raft(_, raft::Request::UpdateVoter(update)) => {
                send(decrees::question(update, self), newest(Served::UpdateRaftVoter)?, correlation)
            }
            Question::Raft(_, raft::Request::AddVoter(add)) => {
                send(changes::add_question(add, self), newest(Served::AddRaftVoter)?, correlation)
            }
            Question::Raft(_, raft::Request::RemoveVoter(remove)) => {
                let message = changes::remove_question(remove, self);
                send(message, newest(Served::RemoveRaftVoter)?, correlation)
            }
            // Administrators ask for that, and no node.
            Question::Raft(_, raft::Request::Upgrade(_)) => Err(()),
            Question::Forward(_, request) => {
                send(request.clone(), newest(Served::Forward)?, correlation)
            }
        }
    }
}

fn send<M: wire::Message>(message: M, version: i16, correlation: i32) -> Result<Encoded, ()> {
    let header = RequestHeader::new(M::API, version, correlation, Some(CLIENT.to_owned()));
    let frame = encode_request(header, message)
        .map_err(|error| warn!(%error, "a request cannot be sent"))?;
    Ok(Encoded { frame, version })
}

fn hello_request() -> wire::ApiVersionsRequest {
    wire::ApiVersionsRequest {
        client_software_name: CLIENT.to_owned(),
        client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
        ..wire::ApiVersionsRequest::default()
    }
}

impl Names {
    /// What the protocol may do with a peer that speaks this.
    pub(crate) fn features(&self, speaks: &Speaks) -> Features {
        let common = |api| speaks.common(api, self.speaks);
        Features {
            pre_vote: common(Served::Vote).is_some_and(|newest| newest >= 2),
            rounds: common(Served::Forward).is_some(),
            updates: common(Served::UpdateRaftVoter).is_some(),
            // Version 0 is answered at the commit, for which the asker's own copy may be needed.
            joins: common(Served::AddRaftVoter).is_some_and(|newest| newest >= 1),
            kraft_versions: speaks.kraft_versions,
        }
    }

    /// Whether this node knows the marks that we add to fetches; who does announces Forward.
    pub(super) fn knows_marks(&self) -> bool {
        self.speaks.newest(Served::Forward).is_some()
    }

    fn topics<P>(&self, partition: P) -> Vec<wire::Topic<P>> {
        vec![wire::Topic {
            topic_name: self.topic.clone(),
            partitions: vec![partition],
            tags: Default::default(),
        }]
    }

    fn vote(&self, vote: &raft::Vote) -> wire::VoteRequest {
        wire::VoteRequest {
            cluster_id: Some(self.cluster.clone()),
            voter_id: wire_id(vote.voter.map(|voter| voter.id)),
            topics: self.topics(wire::VoteRequestPartition {
                partition_index: PARTITION,
                replica_epoch: vote.epoch.0 as i32,
                replica_id: vote.candidate.id.0 as i32,
                replica_directory_id: wire_directory(Some(vote.candidate)),
                voter_directory_id: wire_directory(vote.voter),
                last_offset_epoch: vote.last.epoch.0 as i32,
                last_offset: vote.last.offset.0 as i64,
                pre_vote: vote.pre_vote,
                ..wire::VoteRequestPartition::default()
            }),
            ..wire::VoteRequest::default()
        }
    }

    fn begin(&self, begin: &raft::BeginQuorumEpoch) -> wire::BeginQuorumEpochRequest {
        wire::BeginQuorumEpochRequest {
            cluster_id: Some(self.cluster.clone()),
            voter_id: wire_id(begin.voter.map(|voter| voter.id)),
            topics: self.topics(wire::BeginQuorumEpochRequestPartition {
                partition_index: PARTITION,
                voter_directory_id: wire_directory(begin.voter),
                leader_id: begin.leader.0 as i32,
                leader_epoch: begin.epoch.0 as i32,
                ..wire::BeginQuorumEpochRequestPartition::default()
            }),
            leader_endpoints: leader_endpoints(&begin.endpoints),
            ..wire::BeginQuorumEpochRequest::default()
        }
    }

    fn end(&self, end: &raft::EndQuorumEpoch) -> wire::EndQuorumEpochRequest {
        let candidate = |key: &quorate_base::ReplicaKey| wire::PreferredCandidate {
            candidate_id: key.id.0 as i32,
            candidate_directory_id: wire_directory(Some(*key)),
            ..wire::PreferredCandidate::default()
        };
        wire::EndQuorumEpochRequest {
            cluster_id: Some(self.cluster.clone()),
            topics: self.topics(wire::EndQuorumEpochRequestPartition {
                partition_index: PARTITION,
                leader_id: end.leader.0 as i32,
                leader_epoch: end.epoch.0 as i32,
                preferred_successors: end.successors.iter().map(|key| key.id.0 as i32).collect(),
                preferred_candidates: end.successors.iter().map(candidate).collect(),
                ..wire::EndQuorumEpochRequestPartition::default()
            }),
            leader_endpoints: leader_endpoints(&end.endpoints),
            ..wire::EndQuorumEpochRequest::default()
        }
    }

    fn fetch(&self, fetch: &raft::Fetch, knows_marks: bool) -> wire::FetchRequest {
        let round = fetch.round.filter(|_| knows_marks);
        let partition = wire::FetchRequestPartition {
            partition: PARTITION,
            current_leader_epoch: fetch.epoch.0 as i32,
            fetch_offset: fetch.from.offset.0 as i64,
            last_fetched_epoch: fetch.from.epoch.0 as i32,
            replica_directory_id: wire_directory(fetch.replica),
            high_watermark: match fetch.high_watermark {
                FetchHighWatermark::Unsaid => i64::MAX,
                FetchHighWatermark::Known(known) => known.map_or(-1, |offset| offset.0 as i64),
            },
            marks: round.map(|round| wire::FetcherMarks {
                understands: wire::UNDERSTANDS_MARKS
                    | if fetch.no_room { wire::NO_ROOM } else { 0 }
                    | if fetch.never_leads { wire::NEVER_LEADS } else { 0 },
                read_round: round as i64,
                format_level: fetch.format_level.0,
                history: fetch.history.map_or(0, |history| history as i64),
                ..wire::FetcherMarks::default()
            }),
            ..wire::FetchRequestPartition::default()
        };
        wire::FetchRequest {
            cluster_id: Some(self.cluster.clone()),
            replica_state: Some(wire::ReplicaState {
                replica_id: wire_id(fetch.replica.map(|replica| replica.id)),
                ..wire::ReplicaState::default()
            }),
            max_wait_ms: i32::try_from(fetch.max_wait.as_ms()).unwrap_or(i32::MAX),
            max_bytes: i32::try_from(fetch.max_bytes).unwrap_or(i32::MAX),
            topics: vec![wire::FetchTopic {
                topic: self.topic.clone(),
                topic_id: self.topic_id,
                partitions: vec![partition],
                ..wire::FetchTopic::default()
            }],
            ..wire::FetchRequest::default()
        }
    }
}

fn leader_endpoints(endpoints: &[raft::Endpoint]) -> Vec<wire::LeaderEndpoint> {
    let endpoint = |at: &raft::Endpoint| wire::LeaderEndpoint {
        name: at.listener.clone(),
        host: at.host.clone(),
        port: at.port,
        ..wire::LeaderEndpoint::default()
    };
    endpoints.iter().map(endpoint).collect()
}

/// What a peer says that it speaks.
pub(crate) fn hello(response: ResponseFrame, version: i16) -> Result<Speaks, String> {
    let response: wire::ApiVersionsResponse =
        response.decode(version).map_err(|error| error.to_string())?;
    // An older peer names the versions of ApiVersions that it speaks, and the rest is asked in
    // version 0.
    let understood =
        [ErrorCode::None, ErrorCode::UnsupportedVersion].contains(&response.error_code);
    if !understood {
        return Err(format!("the peer refused to say what it speaks: {}", response.error_code));
    }
    let range = |key: &wire::ApiVersion| (key.api_key, key.min_version, key.max_version);
    let level = |level: i16| u16::try_from(level).ok();
    let mut features = response.supported_features.iter();
    let kraft = features.find(|feature| feature.name == super::KRAFT_VERSION);
    let kraft = kraft.and_then(|at| Some((level(at.min_version)?, level(at.max_version)?)));
    Ok(Speaks { apis: response.api_keys.iter().map(range).collect(), kraft_versions: kraft })
}

/// What an answer of the protocol carries beside what the core is told.
pub(crate) enum Payload {
    Nothing,
    /// The records of a fetch.
    Records(FetchedRecords),
    /// A piece of a snapshot.
    Piece(Bytes),
}

/// An answer to a question of the protocol and what it carries. An error is for the log:
/// the connection is of no further use.
pub(crate) fn answer(
    response: ResponseFrame,
    version: i16,
    question: &raft::Request,
    names: &Names,
) -> Result<(raft::Response, Payload), String> {
    match question {
        raft::Request::Vote(_) => {
            let answer: wire::VoteResponse = decode(response, version)?;
            let (partition, nodes) = only(answer)?;
            let view = view(
                partition.error_code,
                partition.leader_id,
                partition.leader_epoch,
                &nodes,
                names,
            )?;
            Ok((
                raft::Response::Vote(raft::VoteAnswer { view, granted: partition.vote_granted }),
                Payload::Nothing,
            ))
        }
        raft::Request::BeginQuorumEpoch(_) => {
            let answer: wire::BeginQuorumEpochResponse = decode(response, version)?;
            let (partition, nodes) = only(answer)?;
            let view = view(
                partition.error_code,
                partition.leader_id,
                partition.leader_epoch,
                &nodes,
                names,
            )?;
            Ok((raft::Response::BeginQuorumEpoch(view), Payload::Nothing))
        }
        raft::Request::EndQuorumEpoch(_) => {
            let answer: wire::EndQuorumEpochResponse = decode(response, version)?;
            let (partition, nodes) = only(answer)?;
            let view = view(
                partition.error_code,
                partition.leader_id,
                partition.leader_epoch,
                &nodes,
                names,
            )?;
            Ok((raft::Response::EndQuorumEpoch(view), Payload::Nothing))
        }
        raft::Request::Fetch(_) => fetch(decode(response, version)?, names),
        raft::Request::FetchSnapshot(_) => {
            let (answer, piece) = snapshot::answer(decode(response, version)?, names)?;
            Ok((raft::Response::FetchSnapshot(answer), Payload::Piece(piece)))
        }
        raft::Request::UpdateVoter(asked) => {
            let view = decrees::heard(decode(response, version)?, asked, names)?;
            Ok((raft::Response::UpdateVoter(view), Payload::Nothing))
        }
        raft::Request::AddVoter(_) => {
            let answer: wire::AddRaftVoterResponse = decode(response, version)?;
            Ok((raft::Response::AddVoter(changes::heard(&answer)), Payload::Nothing))
        }
        raft::Request::Upgrade(_) => Err("no node asks for that".to_owned()),
        raft::Request::RemoveVoter(_) => {
            let answer: wire::RemoveRaftVoterResponse = decode(response, version)?;
            Ok((raft::Response::RemoveVoter(changes::heard(&answer)), Payload::Nothing))
        }
    }
}

fn decode<M: wire::Message>(response: ResponseFrame, version: i16) -> Result<M, String> {
    response.decode(version).map_err(|error| error.to_string())
}

/// The one partition that an answer speaks of, and the endpoints beside it.
fn only<P>(answer: wire::QuorumResponse<P>) -> Result<(P, Vec<wire::NodeEndpoint>), String> {
    top_level(answer.error_code)?;
    let partition = answer.topics.into_iter().flat_map(|topic| topic.partitions).next();
    Ok((partition.ok_or("the answer speaks of no partition")?, answer.node_endpoints))
}

pub(super) fn top_level(code: ErrorCode) -> Result<(), String> {
    if code == ErrorCode::None {
        return Ok(());
    }
    let foreign = code == ErrorCode::InconsistentClusterId;
    let hint = if foreign {
        ": it belongs to another cluster; see whom controller.quorum.bootstrap.servers, or controller.quorum.voters, names here"
    } else {
        ""
    };
    Err(format!("the peer refused the request with {code}{hint}"))
}

fn view(
    code: ErrorCode,
    leader: i32,
    epoch: i32,
    nodes: &[wire::NodeEndpoint],
    names: &Names,
) -> Result<LeaderView, String> {
    let at = nodes
        .iter()
        .find(|node| node.node_id == leader)
        .map(|node| (node.host.as_str(), node.port));
    leader_view(code, leader, epoch, at, names)
}

pub(super) fn leader_view(
    code: ErrorCode,
    leader: i32,
    epoch: i32,
    at: Option<(&str, u16)>,
    names: &Names,
) -> Result<LeaderView, String> {
    Ok(LeaderView {
        error: error_kind(code),
        epoch: Epoch(
            u32::try_from(epoch).map_err(|_| format!("the answer has the epoch {epoch}"))?,
        ),
        leader: replica(leader),
        endpoints: at
            .map_or_else(|| Arc::from([]), |(host, port)| endpoints(&names.listener, host, port)),
    })
}

fn fetch(
    response: wire::FetchResponse,
    names: &Names,
) -> Result<(raft::Response, Payload), String> {
    top_level(response.error_code)?;
    let nodes = response.node_endpoints;
    let partition = response.responses.into_iter().flat_map(|topic| topic.partitions).next();
    let partition = partition.ok_or("the answer speaks of no partition")?;
    let current = partition.current_leader.ok_or("the answer does not say who leads")?;
    let node = nodes.iter().find(|node| node.node_id == current.leader_id);
    let at = node.and_then(|node| Some((node.host.as_str(), u16::try_from(node.port).ok()?)));
    let view =
        leader_view(partition.error_code, current.leader_id, current.leader_epoch, at, names)?;
    let position = |offset: i64, epoch: i32| {
        let offset =
            u64::try_from(offset).map_err(|_| format!("the answer has the offset {offset}"))?;
        let epoch =
            u32::try_from(epoch).map_err(|_| format!("the answer has the epoch {epoch}"))?;
        Ok::<_, String>(OffsetEpoch::new(Offset(offset), Epoch(epoch)))
    };
    let mut records = Payload::Nothing;
    let fetched = match (partition.diverging_epoch, partition.snapshot_id) {
        (Some(end), _) => Fetched::Diverging(position(end.end_offset, end.epoch)?),
        (None, Some(id)) => Fetched::Snapshot(position(id.end_offset, id.epoch)?),
        (None, None) => match partition.records {
            Some(bytes) if !bytes.is_empty() => {
                let (checked, fault) = FetchedRecords::check(bytes);
                if let Some(fault) = fault {
                    warn!(
                        fault,
                        leader = current.leader_id,
                        "the leader sent records that make no sense; what precedes them is kept and the rest is asked for again"
                    );
                }
                let marks = checked.marks();
                records = Payload::Records(checked);
                Fetched::Batches(marks)
            }
            Some(_) | None => Fetched::Batches(Vec::new()),
        },
    };
    let marks = partition.marks.as_ref();
    let answer = raft::FetchAnswer {
        view,
        high_watermark: u64::try_from(partition.high_watermark).ok().map(Offset),
        start: Offset(u64::try_from(partition.log_start_offset).unwrap_or(0)),
        fetched,
        round: marks.and_then(|marks| u64::try_from(marks.read_round).ok()),
        cleaned: marks.and_then(cleaned),
        bound: marks.and_then(|marks| offset(marks.tombstone_bound)),
        history: marks.and_then(|marks| super::history(marks.history)),
    };
    Ok((raft::Response::Fetch(answer), records))
}

/// `None` if one of the numbers is missing.
fn cleaned(marks: &wire::LeaderMarks) -> Option<Cleaned> {
    Some(Cleaned {
        dirty: offset(marks.dirty)?,
        clean: offset(marks.clean)?,
        horizon: offset(marks.tombstone_horizon)?,
    })
}

/// -1 is none.
fn offset(number: i64) -> Option<Offset> {
    u64::try_from(number).ok().map(Offset)
}
