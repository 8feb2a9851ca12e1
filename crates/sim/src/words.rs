//! Frames in words, for the trace: the same words as in the scripts of the protocol. Remembers what
//! was asked on each connection, because an answer does not say what it answers.

use bytes::Bytes;
use quorate_node::ConnId;
use quorate_wire::message::{
    AddRaftVoterRequest, AddRaftVoterResponse, BeginQuorumEpochRequest, BeginQuorumEpochResponse,
    EndQuorumEpochRequest, EndQuorumEpochResponse, FetchRequest, FetchResponse, ForwardRequest,
    ForwardResponse, ForwardResult, RemoveRaftVoterRequest, RemoveRaftVoterResponse, VoteRequest,
    VoteResponse,
};
use quorate_wire::{Error, ErrorCode, RequestFrame, ResponseFrame, Served};
use std::collections::BTreeMap;

/// What was asked, by the end that asked and the number it gave.
#[derive(Default)]
pub(crate) struct Words {
    asked: BTreeMap<(ConnId, i32), (Served, i16)>,
}

impl Words {
    /// A frame that leaves an end. Even ends are those that made the connection, so they ask.
    pub fn of(&mut self, from: ConnId, frame: &Bytes) -> String {
        let words = match from.0 % 2 {
            0 => self.request(from, frame),
            _ => self.response(from, frame),
        };
        words.unwrap_or_else(|error| format!("{} bytes: {error}", frame.len()))
    }

    fn request(&mut self, from: ConnId, frame: &Bytes) -> Result<String, Error> {
        let request = RequestFrame::parse(frame.clone())?;
        let (header, name) = (&request.header, request.header.api.name());
        let Some(api) = Served::of(header.api) else { return Ok(name.to_owned()) };
        self.asked.insert((from, header.correlation_id), (api, header.version));
        Ok(match api {
            Served::ApiVersions
            | Served::DescribeQuorum
            | Served::FetchSnapshot
            | Served::DescribeCluster
            | Served::UpdateFeatures
            | Served::UpdateRaftVoter => name.to_owned(),
            Served::AddRaftVoter => {
                let add: AddRaftVoterRequest = request.decode()?;
                format!("{name} {}", add.voter_id)
            }
            Served::RemoveRaftVoter => {
                let remove: RemoveRaftVoterRequest = request.decode()?;
                format!("{name} {}", remove.voter_id)
            }
            Served::Vote => {
                let vote: VoteRequest = request.decode()?;
                let Some(p) = vote.topics.iter().flat_map(|t| &t.partitions).next() else {
                    return Ok(name.to_owned());
                };
                let kind = if p.pre_vote { "pre-vote" } else { "vote" };
                let last = format!("{}@{}", p.last_offset, p.last_offset_epoch);
                format!("{name} {kind} epoch={} last={last}", p.replica_epoch)
            }
            Served::BeginQuorumEpoch => {
                let begin: BeginQuorumEpochRequest = request.decode()?;
                let p = begin.topics.iter().flat_map(|t| &t.partitions).next();
                format!("{name} epoch={}", known(p.map_or(-1, |p| p.leader_epoch)))
            }
            Served::EndQuorumEpoch => {
                let end: EndQuorumEpochRequest = request.decode()?;
                let p = end.topics.iter().flat_map(|t| &t.partitions).next();
                let (epoch, next) =
                    p.map_or((-1, vec![]), |p| (p.leader_epoch, p.preferred_successors.clone()));
                format!("{name} epoch={} successors={next:?}", known(epoch))
            }
            Served::Fetch => {
                let fetch: FetchRequest = request.decode()?;
                let Some(p) = fetch.topics.iter().flat_map(|t| &t.partitions).next() else {
                    return Ok(name.to_owned());
                };
                let round = p.marks.as_ref().map_or(-1, |marks| marks.read_round);
                format!(
                    "{name} offset={} last={} epoch={} round={}",
                    p.fetch_offset,
                    known(p.last_fetched_epoch),
                    known(p.current_leader_epoch),
                    known(round)
                )
            }
            Served::Forward => {
                let forward: ForwardRequest = request.decode()?;
                let operations: Vec<String> = forward
                    .operations
                    .iter()
                    .map(|op| match op.session {
                        ..0 => format!("{:?}", op.kind),
                        session => format!("{:?} {session}/{}/{}", op.kind, op.slot, op.sequence),
                    })
                    .collect();
                format!("{name} epoch={} {}", forward.leader_epoch, operations.join(", "))
            }
        })
    }

    fn response(&mut self, from: ConnId, frame: &Bytes) -> Result<String, Error> {
        let response = ResponseFrame::parse(frame.clone())?;
        let asked = self.asked.get(&(ConnId(from.0 ^ 1), response.correlation_id));
        let Some(&(api, version)) = asked else { return Ok("answers a stranger".to_owned()) };
        let answer = |words: String, code: ErrorCode| {
            if code == ErrorCode::None { words } else { format!("{words} {code}") }
        };
        Ok(match api {
            Served::ApiVersions => "speaks".to_owned(),
            Served::DescribeQuorum
            | Served::FetchSnapshot
            | Served::DescribeCluster
            | Served::UpdateFeatures
            | Served::UpdateRaftVoter => format!("answers {api}"),
            Served::AddRaftVoter => {
                let change: AddRaftVoterResponse = response.decode(version)?;
                answer("added".to_owned(), change.error_code)
            }
            Served::RemoveRaftVoter => {
                let change: RemoveRaftVoterResponse = response.decode(version)?;
                answer("removed".to_owned(), change.error_code)
            }
            Served::Vote => {
                let vote: VoteResponse = response.decode(version)?;
                let Some(p) = vote.topics.iter().flat_map(|t| &t.partitions).next() else {
                    return Ok(answer("no vote".to_owned(), vote.error_code));
                };
                let verb = if p.vote_granted { "grants" } else { "refuses" };
                let leader = known(p.leader_id);
                let words = format!("{verb} epoch={} leader={leader}", p.leader_epoch);
                answer(words, p.error_code)
            }
            Served::BeginQuorumEpoch => {
                let begin: BeginQuorumEpochResponse = response.decode(version)?;
                let Some(p) = begin.topics.iter().flat_map(|t| &t.partitions).next() else {
                    return Ok(answer("heard".to_owned(), begin.error_code));
                };
                let words = format!("heard epoch={} leader={}", p.leader_epoch, known(p.leader_id));
                answer(words, p.error_code)
            }
            Served::EndQuorumEpoch => {
                let end: EndQuorumEpochResponse = response.decode(version)?;
                let Some(p) = end.topics.iter().flat_map(|t| &t.partitions).next() else {
                    return Ok(answer("heard".to_owned(), end.error_code));
                };
                let words = format!("heard epoch={} leader={}", p.leader_epoch, known(p.leader_id));
                answer(words, p.error_code)
            }
            Served::Fetch => {
                let fetch: FetchResponse = response.decode(version)?;
                let Some(p) = fetch.responses.iter().flat_map(|t| &t.partitions).next() else {
                    return Ok(answer("no records".to_owned(), fetch.error_code));
                };
                let words = match (&p.diverging_epoch, &p.records) {
                    (Some(end), _) => {
                        format!("diverging epoch={} end={}", end.epoch, end.end_offset)
                    }
                    (None, Some(records)) => {
                        let marks: Vec<_> = crate::book::entries(records)
                            .map(|e| format!("[{}..{})@{}", e.base, e.end, e.epoch))
                            .collect();
                        let what = if marks.is_empty() { "no records" } else { "records " };
                        format!("{what}{} hw={}", marks.join(""), known(p.high_watermark))
                    }
                    (None, None) => format!("no records hw={}", known(p.high_watermark)),
                };
                let current = p.current_leader.as_ref();
                let leader = current.map_or((-1, -1), |l| (l.leader_epoch, l.leader_id));
                let round = p.marks.as_ref().map_or(-1, |marks| marks.read_round);
                let [epoch, leader] = [leader.0, leader.1].map(known);
                let words = format!("{words} epoch={epoch} leader={leader} round={}", known(round));
                answer(words, p.error_code)
            }
            Served::Forward => {
                let forward: ForwardResponse = response.decode(version)?;
                answer(format!("forwarded: {}", outcomes(&forward)), forward.error_code)
            }
        })
    }
}

/// What became of each operation of a Forward request.
fn outcomes(forward: &ForwardResponse) -> String {
    let outcome = |result: &ForwardResult| match result.error_code == ErrorCode::None {
        true => format!("done at {}", known(result.offset)),
        false => result.error_code.to_string(),
    };
    forward.results.iter().map(outcome).collect::<Vec<_>>().join(", ")
}

/// A number of the wire, on which -1 says that it is not known.
fn known(number: impl Into<i64>) -> String {
    match number.into() {
        -1 => "-".to_owned(),
        number => number.to_string(),
    }
}
