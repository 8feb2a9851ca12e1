//! Answers: their JSON, and which status stands for which outcome.
//!
//! Every refusal has one form: `error` is a word for programs, `message` a sentence for people,
//! `field` names the part of the request that is wrong, `current` the version that stood in the
//! way.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, ETAG, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use quorate_base::Offset;
use quorate_machine::SessionRefusal;
use quorate_machine::kv::Invalid;
use quorate_node::handle::Error;
use serde::Serialize;

pub(super) type Reply = Response<Full<Bytes>>;

/// The state that a read was taken from.
pub(super) const VERSION: &str = "quorate-version";

/// Why a request is not done.
#[derive(Debug, Serialize)]
pub(super) struct Refusal {
    #[serde(skip)]
    pub(super) status: StatusCode,
    pub(super) error: &'static str,
    pub(super) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) field: Option<&'static str>,
    /// `Some(None)` is printed as null: the key is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) current: Option<Option<u64>>,
}

impl Refusal {
    pub(super) fn new(
        status: StatusCode,
        error: &'static str,
        message: impl Into<String>,
    ) -> Refusal {
        Refusal { status, error, message: message.into(), field: None, current: None }
    }

    /// 400: a part of the request is wrong.
    pub(super) fn field(field: &'static str, message: impl Into<String>) -> Refusal {
        let refusal = Refusal::new(StatusCode::BAD_REQUEST, "invalid_request", message);
        Refusal { field: Some(field), ..refusal }
    }

    pub(super) fn no_such_key() -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, "no_such_key", "the store has no such key")
    }

    /// 412: what the request made a condition is not so.
    pub(super) fn condition_failed(current: Option<Offset>) -> Refusal {
        let message = match current {
            Some(version) => format!("nothing was done: the key has version {version}"),
            None => "nothing was done: the store has no such key".into(),
        };
        let refusal = Refusal::new(StatusCode::PRECONDITION_FAILED, "condition_failed", message);
        Refusal { current: Some(current.map(|version| version.0)), ..refusal }
    }
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Reply {
        let mut reply = json(refusal.status, &refusal);
        let headers = reply.headers_mut();
        if let Some(Some(version)) = refusal.current {
            headers.insert(ETAG, etag(Offset(version)));
        }
        if matches!(refusal.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS)
        {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if matches!(refusal.status, StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT) {
            // What is left of the body is not worth reading.
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        reply
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        let (status, word) = match error {
            Error::NoLeader => (StatusCode::SERVICE_UNAVAILABLE, "no_leader"),
            Error::OutcomeUnknown => (StatusCode::GATEWAY_TIMEOUT, "outcome_unknown"),
            Error::Overloaded => (StatusCode::TOO_MANY_REQUESTS, "overloaded"),
            Error::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            Error::OutOfRoom => (StatusCode::INSUFFICIENT_STORAGE, "storage_full"),
            Error::LeftBehind => (StatusCode::INSUFFICIENT_STORAGE, "storage_full_here"),
            Error::NotYet { .. } => (StatusCode::SERVICE_UNAVAILABLE, "not_yet"),
            Error::Stopped => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
        };
        Refusal::new(status, word, error.to_string())
    }
}

impl From<Invalid> for Refusal {
    fn from(invalid: Invalid) -> Refusal {
        let refusal = Refusal::field(invalid.field(), invalid.to_string());
        match invalid {
            Invalid::ValueTooLong { .. } => {
                Refusal { status: StatusCode::PAYLOAD_TOO_LARGE, error: "too_large", ..refusal }
            }
            Invalid::KeyEmpty
            | Invalid::KeyTooLong { .. }
            | Invalid::KeyReserved
            | Invalid::UnknownFormat { .. }
            | Invalid::Malformed { .. } => refusal,
        }
    }
}

impl From<SessionRefusal> for Refusal {
    fn from(why: SessionRefusal) -> Refusal {
        let message = why.to_string();
        match why {
            SessionRefusal::Unknown => {
                Refusal::new(StatusCode::CONFLICT, "unknown_session", message)
            }
            SessionRefusal::Stale { .. } => {
                Refusal::new(StatusCode::CONFLICT, "stale_sequence", message)
            }
            SessionRefusal::SlotTooHigh { .. } => Refusal::field("Quorate-Slot", message),
            SessionRefusal::TooManySessions { .. } => {
                Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too_many_sessions", message)
            }
            SessionRefusal::TtlOutOfBounds { .. } => Refusal::field("ttl", message),
            SessionRefusal::Unsupported => Refusal::field("Quorate-Session", message),
        }
    }
}

/// A JSON body, with a line end for people at terminals.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Reply {
    with_type(status, JSON, to_json(body))
}

/// The type of a JSON body.
pub(super) const JSON: &str = "application/json";

/// The text of a JSON body.
pub(super) fn to_json(body: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec(body).expect("own structs have string keys");
    text.push(b'\n');
    text
}

/// A line of text.
pub(super) fn text(status: StatusCode, line: &str) -> Reply {
    with_type(status, "text/plain; charset=utf-8", format!("{line}\n"))
}

/// A body of any kind.
pub(super) fn with_type(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}

/// A version as HTTP knows it.
pub(super) fn etag(version: Offset) -> HeaderValue {
    HeaderValue::try_from(format!("\"{version}\"")).expect("digits and quotes")
}

/// A number as a header.
pub(super) fn number(number: u64) -> HeaderValue {
    HeaderValue::from(number)
}

/// 405 with what would be allowed.
pub(super) fn method_not_allowed(allowed: &'static str) -> Reply {
    let message = format!("this path takes {allowed}");
    let mut reply: Reply =
        Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message).into();
    reply.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    reply
}
