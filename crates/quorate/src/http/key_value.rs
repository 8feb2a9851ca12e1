//! `/v1/kv`: the store. An ETag is a version, a version is an offset.

use super::parameters::{self, Parameters};
use super::reply::{self, Refusal, Reply, VERSION, etag, json};
use super::room::{Share, hold};
use super::session::unexpected;
use super::{Shared, Store};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{ETAG, HeaderValue};
use hyper::{Request, StatusCode};
use quorate_base::{Offset, Span};
use quorate_machine::kv::{self, Invalid, MAX_LIST_KEYS, MAX_VALUE_BYTES, Outcome, Query, Write};
use quorate_machine::{Answer, Operation, Request as Ask, Stamp};
use quorate_node::handle::{Consistency, Handle};
use serde::Serialize;
use std::time::Duration;

/// How long a client may take to send a value.
const BODY_TIME: Duration = Duration::from_secs(10);
const DEFAULT_LIST_KEYS: u64 = 100;

#[derive(Serialize)]
struct Written {
    version: u64,
    /// The version that was replaced; null if the key was created.
    previous: Option<u64>,
}

#[derive(Serialize)]
struct Deleted {
    deleted_at: u64,
    /// The version that was removed.
    previous: u64,
}

#[derive(Serialize)]
struct Page {
    /// The state that the page shows.
    version: u64,
    items: Vec<Item>,
    /// For `after`; null on the last page.
    next: Option<String>,
}

/// Bytes that are no text come under another name, in base64.
#[derive(Serialize, Default)]
struct Item {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
    version: u64,
}

/// `GET /v1/kv/KEY`.
pub(super) async fn get(
    shared: &Shared<Store>,
    key: &str,
    request: &Request<Incoming>,
) -> Result<Reply, Refusal> {
    let parameters =
        Parameters::parse(request.uri().query(), &["consistency", "min-version", "timeout"])?;
    let key = decode_key(key)?;
    let known = parameters::known_version(request.headers())?;
    let patience = parameters.patience()?;
    let query = Query::Get { key: key.into() };
    let (answer, state) = shared.handle.read(query, consistency(&parameters)?, patience).await?;
    let kv::Reply::Get(found) = answer else { return Err(unexpected()) };
    let mut reply = match found {
        None => Refusal::no_such_key().into(),
        Some(found) => {
            let mut reply = match known == Some(found.version) {
                true => reply::with_type(StatusCode::NOT_MODIFIED, BYTES, Bytes::new()),
                false => {
                    let room = &shared.room_for_answers;
                    let share = room.take_for_answer(found.value.len(), patience).await?;
                    reply::with_type(StatusCode::OK, BYTES, hold(found.value, share))
                }
            };
            reply.headers_mut().insert(ETAG, etag(found.version));
            reply
        }
    };
    reply.headers_mut().insert(VERSION, reply::number(state.0));
    Ok(reply)
}

const BYTES: &str = "application/octet-stream";

/// `PUT /v1/kv/KEY`, the body is the value.
pub(super) async fn put(
    shared: &Shared<Store>,
    key: &str,
    request: Request<Incoming>,
) -> Result<Reply, Refusal> {
    let parameters = Parameters::parse(request.uri().query(), &["timeout"])?;
    let patience = parameters.patience()?;
    let key = decode_key(key)?;
    let condition = parameters::condition(request.headers())?;
    let stamp = parameters::stamp(request.headers())?;
    // The room is held until the value is written.
    let (value, _room) = body(shared, request.into_body()).await?;
    let write = Write::Put { key: &key, value: &value, condition };
    match submit(&shared.handle, write, stamp, patience).await? {
        Outcome::Written { version, previous } => {
            let status = match previous {
                None => StatusCode::CREATED,
                Some(_) => StatusCode::OK,
            };
            let previous = previous.map(|previous| previous.0);
            let mut reply = json(status, &Written { version: version.0, previous });
            reply.headers_mut().insert(ETAG, etag(version));
            reply.headers_mut().insert(VERSION, state_with(version));
            Ok(reply)
        }
        Outcome::ConditionFailed { current } => Err(Refusal::condition_failed(current)),
        Outcome::Invalid(invalid) => Err(invalid.into()),
        Outcome::Deleted { .. } | Outcome::Absent => Err(unexpected()),
    }
}

/// `DELETE /v1/kv/KEY`.
pub(super) async fn delete(
    handle: &Handle<Store>,
    key: &str,
    request: &Request<Incoming>,
) -> Result<Reply, Refusal> {
    let parameters = Parameters::parse(request.uri().query(), &["timeout"])?;
    let key = decode_key(key)?;
    let condition = parameters::condition(request.headers())?;
    if condition == kv::Condition::IfAbsent {
        return Err(Refusal::field("If-None-Match", "an absent key cannot be deleted"));
    }
    let stamp = parameters::stamp(request.headers())?;
    let write = Write::Delete { key: &key, condition };
    match submit(handle, write, stamp, parameters.patience()?).await? {
        Outcome::Deleted { at, previous } => {
            let deleted = Deleted { deleted_at: at.0, previous: previous.0 };
            let mut reply = json(StatusCode::OK, &deleted);
            reply.headers_mut().insert(VERSION, state_with(at));
            Ok(reply)
        }
        Outcome::Absent => Err(Refusal::no_such_key()),
        Outcome::ConditionFailed { current } => Err(Refusal::condition_failed(current)),
        Outcome::Invalid(invalid) => Err(invalid.into()),
        Outcome::Written { .. } => Err(unexpected()),
    }
}

/// The first state of the store that holds this change.
fn state_with(change: Offset) -> HeaderValue {
    reply::number(change.0 + 1)
}

/// `GET /v1/kv?prefix=&limit=&after=`.
pub(super) async fn list(
    shared: &Shared<Store>,
    request: &Request<Incoming>,
) -> Result<Reply, Refusal> {
    let names = ["prefix", "limit", "after", "consistency", "min-version", "timeout"];
    let parameters = Parameters::parse(request.uri().query(), &names)?;
    let prefix = Bytes::copy_from_slice(parameters.bytes("prefix").unwrap_or_default());
    let limit = parameters.number("limit", 1, MAX_LIST_KEYS as u64)?.unwrap_or(DEFAULT_LIST_KEYS);
    let token = parameters.bytes("after").map(page_token).transpose()?;
    let (pin, after) = token.map_or((None, None), |(pin, after)| (pin, Some(after)));
    let query = Query::List { prefix, after: after.clone(), limit: limit as usize };
    let patience = parameters.patience()?;
    let (answer, state) = shared.handle.read(query, consistency(&parameters)?, patience).await?;
    if let Some(after) = after.filter(|_| pin.is_some_and(|pin| pin != state)) {
        let message = format!(
            "the store has changed since the page before, so the two would not fit together: start again \
             without 'after', or go on all the same with after={}",
            make_token("*", &after)
        );
        return Err(Refusal::new(StatusCode::GONE, "page_gone", message));
    }
    let kv::Reply::List { items, more } = answer else { return Err(unexpected()) };
    let last = items.last().filter(|_| more);
    // Up to here the items are the store's own bytes; the page copies them. Escapes may make it
    // longer than it counts for.
    let bytes = items.iter().map(|item| item.key.len() + item.value.len()).sum();
    let share = shared.room_for_answers.take_for_answer(bytes, patience).await?;
    let page = Page {
        version: state.0,
        next: last.map(|item| make_token(&state.to_string(), &item.key)),
        items: items.into_iter().map(printable).collect(),
    };
    let text = reply::to_json(&page);
    drop(page);
    let mut reply = reply::with_type(StatusCode::OK, reply::JSON, hold(text.into(), share));
    reply.headers_mut().insert(VERSION, reply::number(state.0));
    Ok(reply)
}

fn printable(item: kv::Item) -> Item {
    let mut printable = Item { version: item.version.0, ..Item::default() };
    match std::str::from_utf8(&item.key) {
        Ok(text) => printable.key = Some(text.to_owned()),
        Err(_) => printable.key_base64 = Some(STANDARD.encode(&item.key)),
    }
    match std::str::from_utf8(&item.value) {
        Ok(text) => printable.value = Some(text.to_owned()),
        Err(_) => printable.value_base64 = Some(STANDARD.encode(&item.value)),
    }
    printable
}

/// `STATE.KEY` with the key in base64; `*` for a state that may be any.
fn make_token(state: &str, key: &[u8]) -> String {
    format!("{state}.{}", URL_SAFE_NO_PAD.encode(key))
}

fn page_token(token: &[u8]) -> Result<(Option<Offset>, Bytes), Refusal> {
    let parse = || {
        let (state, key) = std::str::from_utf8(token).ok()?.split_once('.')?;
        let key = URL_SAFE_NO_PAD.decode(key).ok()?;
        match state {
            "*" => Some((None, key.into())),
            number => Some((Some(Offset(number.parse().ok()?)), key.into())),
        }
    };
    parse().ok_or_else(|| Refusal::field("after", "'after' must be the 'next' of an earlier page"))
}

fn decode_key(path: &str) -> Result<Vec<u8>, Refusal> {
    let key = parameters::percent_decode(path).ok_or_else(|| {
        Refusal::field("key", "a % in a key must be followed by two hexadecimal digits")
    })?;
    kv::check_key(&key)?;
    Ok(key)
}

fn consistency(parameters: &Parameters) -> Result<Consistency, Refusal> {
    let least = parameters.number("min-version", 0, i64::MAX as u64)?;
    match (parameters.bytes("consistency"), least) {
        (None | Some(b"linearizable"), None) => Ok(Consistency::Linearizable),
        (None | Some(b"linearizable"), Some(_)) => Err(Refusal::field(
            "min-version",
            "min-version goes with consistency=local; a linearizable read sees every version that was acknowledged",
        )),
        (Some(b"local"), None) => Ok(Consistency::Local),
        (Some(b"local"), Some(version)) => Ok(Consistency::AtLeast(Offset(version))),
        (Some(_), _) => {
            Err(Refusal::field("consistency", "consistency must be linearizable or local"))
        }
    }
}

/// Reads a value, once there is room for it; one that is too large, or says that it will be, is not
/// read to its end.
async fn body(shared: &Shared<Store>, incoming: Incoming) -> Result<(Bytes, Share), Refusal> {
    let size = incoming.size_hint();
    let too_long = |len| Refusal::from(Invalid::ValueTooLong { len, max: MAX_VALUE_BYTES as u64 });
    if size.lower() > MAX_VALUE_BYTES as u64 {
        return Err(too_long(size.lower()));
    }
    let most = size.upper().map_or(MAX_VALUE_BYTES as u64, |most| most.min(MAX_VALUE_BYTES as u64));
    let room = shared.room_for_values.take(most, BODY_TIME).await?;
    let whole = Limited::new(incoming, MAX_VALUE_BYTES).collect();
    match tokio::time::timeout(BODY_TIME, whole).await {
        Ok(Ok(collected)) => Ok((collected.to_bytes(), room)),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(too_long(MAX_VALUE_BYTES as u64 + 1))
        }
        Ok(Err(_)) => Err(Refusal::field("value", "the value broke off before its end")),
        Err(_) => Err(Refusal::new(
            StatusCode::REQUEST_TIMEOUT,
            "too_slow",
            format!("the value was not complete after {} s, nothing was done", BODY_TIME.as_secs()),
        )),
    }
}

async fn submit(
    handle: &Handle<Store>,
    write: Write<'_>,
    stamp: Option<Stamp>,
    patience: Span,
) -> Result<Outcome, Refusal> {
    let ask = Ask { stamp, operation: Operation::Write(write.encode()?) };
    match handle.write(ask, patience).await? {
        Answer::Done(bytes) | Answer::Refused(bytes) => Outcome::decode(&bytes).map_err(|bad| {
            Refusal::new(StatusCode::BAD_GATEWAY, "unexpected_answer", bad.to_string())
        }),
        Answer::Session(why) => Err(why.into()),
        Answer::Opened(_) => Err(unexpected()),
    }
}
