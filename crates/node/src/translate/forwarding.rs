//! Forwarded operations and their results in the words of the private Forward API.
//!
//! | result | error code | offset | body |
//! |---|---|---|---|
//! | done | NONE | -1 | the machine's bytes |
//! | session opened | NONE | its id | |
//! | read from here | NONE | the offset | |
//! | refused by the machine | POLICY_VIOLATION | -1 | the machine's bytes |
//! | refused for its session's sake | UNKNOWN_PRODUCER_ID | -1 | kind and two numbers, 17 bytes |
//! | not taken, nothing done | NOT_LEADER_OR_FOLLOWER | -1 | |
//! | no time, nothing done | LEADER_NOT_AVAILABLE | -1 | |
//! | no room, nothing done | KAFKA_STORAGE_ERROR | -1 | |
//! | outcome unknown | REQUEST_TIMED_OUT | -1 | |

use super::inbound::Refused;
use super::wire_id;
use crate::clients::{Failure, Gathering, Settled};
use crate::leading::WRITE_BYTES_MAX;
use crate::replica::Asked;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use quorate_base::{Epoch, Offset, ReplicaId, Span};
use quorate_machine::{Answer, Operation, Request, SessionId, SessionRefusal, Stamp};
use quorate_wire::message::{self as wire, OperationKind};
use quorate_wire::{Error, ErrorCode, Frame, RequestFrame, ResponseFrame, encode_response};

/// Operations that one node passes on to the leader.
#[derive(Debug)]
pub(crate) struct ForwardedRequest {
    /// The epoch in which the receiver leads; `None` from a client that leaves that open.
    pub epoch: Option<Epoch>,
    /// How long the most patient client waits.
    pub patience: Span,
    pub operations: Vec<Passed>,
}

#[derive(Debug)]
pub(crate) enum Passed {
    Write(Request),
    ReadOffset,
}

/// What the leader says of them: a result for each, or none where the request was refused as a
/// whole.
#[derive(Debug)]
pub(crate) struct ForwardAnswer {
    pub results: Vec<Settled>,
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(crate) fn forward_request(request: ForwardedRequest) -> wire::ForwardRequest {
    let operation = |passed| match passed {
        Passed::ReadOffset => {
            wire::Operation { kind: OperationKind::ReadOffset, ..wire::Operation::default() }
        }
        Passed::Write(Request { stamp, operation }) => {
            let (kind, session, ttl_ms, body) = match operation {
                Operation::Write(body) => {
                    (OperationKind::Write, stamp.map(|stamp| stamp.session), 0, body)
                }
                Operation::OpenSession { ttl } => {
                    let ttl_ms = i32::try_from(ttl.as_ms()).unwrap_or(i32::MAX);
                    (OperationKind::OpenSession, None, ttl_ms, Bytes::new())
                }
                Operation::RenewSession(id) => {
                    (OperationKind::RenewSession, Some(id), 0, Bytes::new())
                }
                Operation::CloseSession(id) => {
                    (OperationKind::CloseSession, Some(id), 0, Bytes::new())
                }
            };
            wire::Operation {
                kind,
                session: session.map_or(-1, |SessionId(offset)| number(offset.0)),
                // All their bits: a client may name any, and two must not become one on the way.
                slot: stamp.map_or(-1, |stamp| stamp.slot as i16),
                sequence: stamp.map_or(-1, |stamp| stamp.sequence as i64),
                ttl_ms,
                body,
                ..wire::Operation::default()
            }
        }
    };
    wire::ForwardRequest {
        deadline_ms: i32::try_from(request.patience.as_ms()).unwrap_or(i32::MAX),
        leader_epoch: request.epoch.map_or(-1, |epoch| epoch.0 as i32),
        operations: request.operations.into_iter().map(operation).collect(),
        ..wire::ForwardRequest::default()
    }
}

/// Reads a forwarded request; what has no meaning closes the connection.
pub(crate) fn forwarded(request: RequestFrame) -> Result<ForwardedRequest, Refused> {
    let request: wire::ForwardRequest =
        request.decode().map_err(|error| Refused::Close(error.to_string()))?;
    let operations: Option<Vec<Passed>> = request.operations.into_iter().map(passed).collect();
    Ok(ForwardedRequest {
        epoch: u32::try_from(request.leader_epoch).ok().map(Epoch),
        patience: Span::ms(u64::try_from(request.deadline_ms).unwrap_or(0)),
        operations: operations.ok_or_else(|| {
            Refused::Close("a forwarded operation has a field out of range".into())
        })?,
    })
}

fn passed(operation: wire::Operation) -> Option<Passed> {
    let session = u64::try_from(operation.session).ok().map(|offset| SessionId(Offset(offset)));
    let request = match operation.kind {
        OperationKind::ReadOffset => return Some(Passed::ReadOffset),
        OperationKind::Write if operation.body.len() > WRITE_BYTES_MAX => return None,
        OperationKind::Write => {
            let stamp = match session {
                Some(session) => Some(Stamp {
                    session,
                    slot: operation.slot as u16,
                    sequence: operation.sequence as u64,
                }),
                None => None,
            };
            Request { stamp, operation: Operation::Write(operation.body) }
        }
        OperationKind::OpenSession => {
            Request::open_session(Span::ms(u64::try_from(operation.ttl_ms).ok()?))
        }
        OperationKind::RenewSession => Request::renew_session(session?),
        OperationKind::CloseSession => Request::close_session(session?),
    };
    Some(Passed::Write(request))
}

/// The answer once all operations are settled.
pub(crate) fn forward_answer(
    done: Gathering,
    leader: Option<ReplicaId>,
    epoch: Epoch,
) -> Result<Frame, Error> {
    let results = done.results.into_iter().map(|settled| result(settled.expect("all are settled")));
    let response = wire::ForwardResponse {
        error_code: ErrorCode::None,
        leader_id: wire_id(leader),
        leader_epoch: epoch.0 as i32,
        results: results.collect(),
        ..wire::ForwardResponse::default()
    };
    encode_response(response, done.version, done.correlation)
}

/// The answer to a request that is not taken, or to one without operations.
pub(crate) fn forward_refusal(
    asked: Asked,
    leader: Option<ReplicaId>,
    epoch: Epoch,
    leads: bool,
) -> Result<Frame, Error> {
    let error_code = if leads { ErrorCode::None } else { ErrorCode::NotLeaderOrFollower };
    let response = wire::ForwardResponse {
        error_code,
        leader_id: wire_id(leader),
        leader_epoch: epoch.0 as i32,
        ..wire::ForwardResponse::default()
    };
    encode_response(response, asked.version, asked.correlation)
}

fn result(settled: Settled) -> wire::ForwardResult {
    let (error_code, offset, body) = match settled {
        Settled::ReadAt(Offset(offset)) => (ErrorCode::None, number(offset), Bytes::new()),
        Settled::Answer(Answer::Done(body)) => (ErrorCode::None, -1, body),
        Settled::Answer(Answer::Opened(SessionId(Offset(id)))) => {
            (ErrorCode::None, number(id), Bytes::new())
        }
        Settled::Answer(Answer::Refused(body)) => (ErrorCode::PolicyViolation, -1, body),
        Settled::Answer(Answer::Session(refusal)) => {
            (ErrorCode::UnknownProducerId, -1, encode_refusal(refusal))
        }
        Settled::Failed(Failure::NotLeader) => (ErrorCode::NotLeaderOrFollower, -1, Bytes::new()),
        Settled::Failed(Failure::NotInTime) => (ErrorCode::LeaderNotAvailable, -1, Bytes::new()),
        Settled::Failed(Failure::OutOfRoom) => (ErrorCode::KafkaStorageError, -1, Bytes::new()),
        Settled::Failed(Failure::Unknown) => (ErrorCode::RequestTimedOut, -1, Bytes::new()),
    };
    wire::ForwardResult { error_code, offset, body, ..wire::ForwardResult::default() }
}

/// Reads the leader's answer to these operations.
pub(crate) fn forward_response(
    response: ResponseFrame,
    version: i16,
    asked: &wire::ForwardRequest,
) -> Result<ForwardAnswer, String> {
    let response: wire::ForwardResponse =
        response.decode(version).map_err(|error| error.to_string())?;
    if response.error_code != ErrorCode::None {
        return Ok(ForwardAnswer { results: Vec::new() });
    }
    if response.results.len() != asked.operations.len() {
        return Err(format!(
            "{} results for {} operations",
            response.results.len(),
            asked.operations.len()
        ));
    }
    let pairs = response.results.into_iter().zip(&asked.operations);
    let results: Option<Vec<Settled>> =
        pairs.map(|(result, asked)| settled(result, asked.kind)).collect();
    Ok(ForwardAnswer { results: results.ok_or("a result makes no sense")? })
}

fn settled(result: wire::ForwardResult, asked: OperationKind) -> Option<Settled> {
    let offset = || u64::try_from(result.offset).ok().map(Offset);
    Some(match (result.error_code, asked) {
        (ErrorCode::None, OperationKind::ReadOffset) => Settled::ReadAt(offset()?),
        // A machine without sessions may answer anything, but no id.
        (ErrorCode::None, OperationKind::OpenSession) => match offset() {
            Some(id) => Settled::Answer(Answer::Opened(SessionId(id))),
            None => Settled::Answer(Answer::Done(result.body)),
        },
        (
            ErrorCode::None,
            OperationKind::Write | OperationKind::RenewSession | OperationKind::CloseSession,
        ) => Settled::Answer(Answer::Done(result.body)),
        (ErrorCode::PolicyViolation, _) => Settled::Answer(Answer::Refused(result.body)),
        (ErrorCode::UnknownProducerId, _) => {
            Settled::Answer(Answer::Session(decode_refusal(result.body)?))
        }
        (ErrorCode::NotLeaderOrFollower, _) => Settled::Failed(Failure::NotLeader),
        (ErrorCode::LeaderNotAvailable, _) => Settled::Failed(Failure::NotInTime),
        (ErrorCode::KafkaStorageError, _) => Settled::Failed(Failure::OutOfRoom),
        // Whatever a newer leader may say: nobody knows what was done.
        (_, _) => Settled::Failed(Failure::Unknown),
    })
}

fn encode_refusal(refusal: SessionRefusal) -> Bytes {
    let (kind, a, b) = match refusal {
        SessionRefusal::Unknown => (0, 0, 0),
        SessionRefusal::Stale { kept } => (1, kept, 0),
        SessionRefusal::SlotTooHigh { limit } => (2, u64::from(limit), 0),
        SessionRefusal::TooManySessions { limit } => (3, u64::from(limit), 0),
        SessionRefusal::TtlOutOfBounds { least, most } => (4, least.0, most.0),
        SessionRefusal::Unsupported => (5, 0, 0),
    };
    let mut bytes = BytesMut::with_capacity(17);
    bytes.put_u8(kind);
    bytes.put_u64(a);
    bytes.put_u64(b);
    bytes.freeze()
}

fn decode_refusal(mut bytes: Bytes) -> Option<SessionRefusal> {
    if bytes.len() != 17 {
        return None;
    }
    let (kind, a, b) = (bytes.get_u8(), bytes.get_u64(), bytes.get_u64());
    Some(match kind {
        0 => SessionRefusal::Unknown,
        1 => SessionRefusal::Stale { kept: a },
        2 => SessionRefusal::SlotTooHigh { limit: u16::try_from(a).ok()? },
        3 => SessionRefusal::TooManySessions { limit: u32::try_from(a).ok()? },
        4 => SessionRefusal::TtlOutOfBounds { least: Span(a), most: Span(b) },
        5 => SessionRefusal::Unsupported,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stamp_survives_the_wire() {
        let session = SessionId(Offset(7));
        for slot in [0, 1, 0x7fff, 0x8000, u16::MAX] {
            for sequence in [0, 1, u64::MAX >> 1, 1 << 63, u64::MAX] {
                let stamp = Some(Stamp { session, slot, sequence });
                let operation = Operation::Write(Bytes::from_static(b"write"));
                let sent = Request { stamp, operation };
                let forwarded = ForwardedRequest {
                    epoch: None,
                    patience: Span::ms(1),
                    operations: vec![Passed::Write(sent.clone())],
                };
                let [operation] = &forward_request(forwarded).operations[..] else { panic!() };
                match passed(operation.clone()) {
                    Some(Passed::Write(arrived)) => assert_eq!(arrived, sent),
                    other => panic!("{sent:?} arrived as {other:?}"),
                }
            }
        }
    }

    #[test]
    fn every_result_survives_the_wire() {
        let check =
            |sent: Settled, kind| assert_eq!(settled(result(sent.clone()), kind), Some(sent));
        let body = Bytes::from_static(b"bytes");
        check(Settled::ReadAt(Offset(7)), OperationKind::ReadOffset);
        check(Settled::Answer(Answer::Done(body.clone())), OperationKind::Write);
        check(Settled::Answer(Answer::Refused(body)), OperationKind::Write);
        check(Settled::Answer(Answer::Opened(SessionId(Offset(9)))), OperationKind::OpenSession);
        check(Settled::Answer(Answer::Done(Bytes::new())), OperationKind::OpenSession);
        for failure in
            [Failure::NotLeader, Failure::NotInTime, Failure::OutOfRoom, Failure::Unknown]
        {
            check(Settled::Failed(failure), OperationKind::Write);
        }
        for refusal in [
            SessionRefusal::Unknown,
            SessionRefusal::Stale { kept: 3 },
            SessionRefusal::SlotTooHigh { limit: 4 },
            SessionRefusal::TooManySessions { limit: 5 },
            SessionRefusal::TtlOutOfBounds { least: Span(6), most: Span(7) },
            SessionRefusal::Unsupported,
        ] {
            check(Settled::Answer(Answer::Session(refusal)), OperationKind::Write);
        }
    }
}
