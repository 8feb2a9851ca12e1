//! `/v1/metadata`: the metadata of a Kafka cluster, as far as this node has followed it.
//!
//! A state may have a million facts, so it comes in pages, and is walked on a thread of its own:
//! the node goes on meanwhile. Few walks happen at a time. Secrets are not shown.

use super::Shared;
use super::parameters::{Parameters, percent_decode};
use super::reply::{self, Refusal, Reply, VERSION};
use super::room::hold;
use crate::cluster_facts;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use quorate_machine::kafka::{Mirror, Part, Picture};
use quorate_node::handle::Consistency;
use serde_json::{Value, json};
use std::cmp::Ordering;
use std::time::Duration;

/// Levels that no state has more of.
const ALL_LEVELS: u64 = 64;
const DEFAULT_ITEMS: u64 = 1_000;
const MAX_ITEMS: u64 = 10_000;
/// A page ends with the item that makes it longer.
const PAGE_BYTES: usize = 1 << 20;
/// What a walk may hold, its page included, of the room for answers: so few go on at a time.
const WALK_BYTES: u64 = 16 << 20;

/// What is asked for.
struct Wanted {
    /// What lies at and below this path.
    at: Vec<String>,
    /// So many levels of it; what lies deeper is counted.
    depth: usize,
    /// Behind what lies at and below this path.
    after: Option<Vec<String>>,
    items: usize,
}

/// `GET /v1/metadata` and `/v1/metadata/PATH`.
pub(super) async fn get(
    shared: &Shared<Mirror>,
    path: &str,
    request: &Request<Incoming>,
) -> Result<Reply, Refusal> {
    let known = ["depth", "limit", "after", "timeout"];
    let parameters = Parameters::parse(request.uri().query(), &known)?;
    let wanted = Wanted {
        at: steps(path)?,
        depth: parameters.number("depth", 1, ALL_LEVELS)?.unwrap_or(ALL_LEVELS) as usize,
        after: parameters.bytes("after").map(behind).transpose()?,
        items: parameters.number("limit", 1, MAX_ITEMS)?.unwrap_or(DEFAULT_ITEMS) as usize,
    };
    let patience = parameters.patience()?;
    let wait = Duration::from_micros(patience.0);
    let share = shared.room_for_answers.take(WALK_BYTES, wait).await?;
    let (picture, state) = shared.handle.read((), Consistency::Local, patience).await?;
    let walk = tokio::task::spawn_blocking(move || page(&picture, state.0, &wanted));
    let page = walk.await.map_err(|error| {
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string())
    })??;
    let body = hold(reply::to_json(&page).into(), Some(share));
    let mut reply = reply::with_type(StatusCode::OK, reply::JSON, body);
    reply.headers_mut().insert(VERSION, reply::number(state.0));
    Ok(reply)
}

/// The steps of a path in a URI; none of the whole tree.
fn steps(path: &str) -> Result<Vec<String>, Refusal> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let steps = path.split('/').filter(|_| !path.is_empty()).map(|step| {
        percent_decode(step).and_then(|step| String::from_utf8(step).ok()).ok_or_else(|| {
            Refusal::field(
                "path",
                "a step of the path must be UTF-8, with % before two hexadecimal digits only",
            )
        })
    });
    steps.collect()
}

/// The `next` of a page as a path.
fn behind(given: &[u8]) -> Result<Vec<String>, Refusal> {
    let path = URL_SAFE_NO_PAD.decode(given).ok();
    let path = path.and_then(|path| serde_json::from_slice(&path).ok());
    path.ok_or_else(|| Refusal::field("after", "after must be the `next` of a page"))
}

fn page(picture: &Picture, end: u64, wanted: &Wanted) -> Result<Value, Refusal> {
    let shown = wanted.at.len() + wanted.depth;
    let (mut items, mut bytes) = (Vec::<Value>::new(), 0);
    let (mut exists, mut last, mut counted) = (wanted.at.is_empty(), Vec::<Part>::new(), 0);
    let mut next = None;
    for leaf in picture.image.leaves() {
        if !lies_below(&leaf.path, &wanted.at) {
            continue;
        }
        exists = true;
        if wanted.after.as_ref().is_some_and(|after| !is_behind(&leaf.path, after)) {
            continue;
        }
        let at = &leaf.path[..leaf.path.len().min(shown)];
        if counted > 0 && last == at {
            counted += 1;
            continue;
        }
        if counted > 0 {
            add(&mut items, &mut bytes, cluster_facts::level(&last, counted));
            counted = 0;
        }
        if items.len() >= wanted.items || bytes >= PAGE_BYTES {
            let path: Vec<String> = last.iter().map(Part::to_string).collect();
            next = Some(URL_SAFE_NO_PAD.encode(reply::to_json(&path)));
            break;
        }
        last = at.to_vec();
        match leaf.path.len() <= shown {
            true => add(&mut items, &mut bytes, cluster_facts::fact(&leaf)),
            false => counted = 1,
        }
    }
    if counted > 0 {
        add(&mut items, &mut bytes, cluster_facts::level(&last, counted));
    }
    if !exists {
        return Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "no_such_fact",
            format!(
                "the metadata have nothing at {}, as of offset {end}; /v1/metadata?depth=1 shows what there is",
                wanted.at.join("/")
            ),
        ));
    }
    Ok(json!({
        "endOffset": end, "records": picture.counts.taken, "leftOut": picture.counts.left_out,
        "inTransaction": picture.in_transaction, "items": items, "next": next,
    }))
}

fn add(items: &mut Vec<Value>, bytes: &mut usize, item: Value) {
    *bytes += item.to_string().len();
    items.push(item);
}

/// A number in a state is found by its digits.
fn order(part: &Part, step: &str) -> Ordering {
    match part {
        Part::Name(name) => (**name).cmp(step),
        // As in a path: names come before numbers.
        Part::Number(number) => step.parse().map_or(Ordering::Greater, |step| number.cmp(&step)),
    }
}

fn lies_below(path: &[Part], at: &[String]) -> bool {
    let mut pairs = path.iter().zip(at);
    path.len() >= at.len() && pairs.all(|(part, step)| order(part, step).is_eq())
}

fn is_behind(path: &[Part], after: &[String]) -> bool {
    let orders = path.iter().zip(after).map(|(part, step)| order(part, step));
    orders.fold(Ordering::Equal, Ordering::then).is_gt()
}
