//! `/v1/session`: sessions, within which a repeated write is applied once.

use super::Store;
use super::parameters::Parameters;
use super::reply::{Refusal, Reply, json};
use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use quorate_base::{Offset, Span};
use quorate_machine::{Answer, MAX_SESSION_TTL, MIN_SESSION_TTL, Request as Ask, SessionId};
use quorate_node::handle::Handle;
use serde::Serialize;

const DEFAULT_TTL_MS: u64 = 60_000;

#[derive(Serialize)]
struct Opened {
    session: u64,
    ttl_ms: u64,
}

/// `POST /v1/session?ttl=MS`.
pub(super) async fn open(
    handle: &Handle<Store>,
    request: &Request<Incoming>,
) -> Result<Reply, Refusal> {
    let parameters = Parameters::parse(request.uri().query(), &["ttl", "timeout"])?;
    let (least, most) = (MIN_SESSION_TTL.as_ms(), MAX_SESSION_TTL.as_ms());
    let ttl_ms = parameters.number("ttl", least, most)?.unwrap_or(DEFAULT_TTL_MS);
    let answer = handle.write(Ask::open_session(Span::ms(ttl_ms)), parameters.patience()?).await?;
    match answer {
        Answer::Opened(SessionId(Offset(session))) => {
            Ok(json(StatusCode::CREATED, &Opened { session, ttl_ms }))
        }
        Answer::Session(why) => Err(why.into()),
        Answer::Done(_) | Answer::Refused(_) => Err(unexpected()),
    }
}

/// `POST /v1/session/ID/renew`.
pub(super) async fn renew(
    handle: &Handle<Store>,
    id: &str,
    request: &Request<Incoming>,
) -> Result<Reply, Refusal> {
    on_session(handle, Ask::renew_session(session_id(id)?), request).await
}

/// `DELETE /v1/session/ID`.
pub(super) async fn close(
    handle: &Handle<Store>,
    id: &str,
    request: &Request<Incoming>,
) -> Result<Reply, Refusal> {
    on_session(handle, Ask::close_session(session_id(id)?), request).await
}

async fn on_session(
    handle: &Handle<Store>,
    ask: Ask,
    request: &Request<Incoming>,
) -> Result<Reply, Refusal> {
    let parameters = Parameters::parse(request.uri().query(), &["timeout"])?;
    match handle.write(ask, parameters.patience()?).await? {
        Answer::Done(_) => Ok(json(StatusCode::OK, &serde_json::json!({}))),
        Answer::Session(why) => Err(why.into()),
        Answer::Opened(_) | Answer::Refused(_) => Err(unexpected()),
    }
}

fn session_id(text: &str) -> Result<SessionId, Refusal> {
    let number =
        text.parse().map_err(|_| Refusal::field("session", "a session's id is a whole number"))?;
    Ok(SessionId(Offset(number)))
}

/// The leader runs another version, or a bug.
pub(super) fn unexpected() -> Refusal {
    Refusal::new(
        StatusCode::BAD_GATEWAY,
        "unexpected_answer",
        "the leader gave an answer that does not fit the request: do all nodes run one version? Whether \
         the request took effect must be read from the store",
    )
}
