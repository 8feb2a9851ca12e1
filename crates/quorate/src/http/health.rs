//! `/livez`, `/readyz` and `/status`: what load balancers and people ask.
//!
//! Ready is a fact that the replica states of itself, never a guess from here: it knows a leader
//! and a high watermark, and has applied what was committed when it started.

use super::reply::{Refusal, Reply, json, text};
use hyper::StatusCode;
use quorate_machine::Machine;
use quorate_node::handle::{Error, Handle};
use quorate_node::status::Status;
use std::time::Duration;

/// A replica that says nothing for so long is not well.
const PATIENCE: Duration = Duration::from_secs(5);

/// That this answers at all is the answer: HTTP runs on the replica's thread.
pub(super) fn live() -> Reply {
    text(StatusCode::OK, "alive")
}

/// 200 or 503, with the reason in words.
pub(super) async fn ready<M: Machine>(handle: &Handle<M>) -> Reply {
    match ask(handle).await {
        Ok(status) if status.ready => {
            match status.disk_full.or(status.too_many_full).or(status.damaged) {
                None => text(StatusCode::OK, "ready"),
                Some(why) => text(StatusCode::OK, &format!("ready, but {why}")),
            }
        }
        Ok(status) => {
            let why =
                status.not_ready_because.unwrap_or_else(|| "the node has not said why".into());
            text(StatusCode::SERVICE_UNAVAILABLE, &format!("not ready: {why}"))
        }
        Err(refusal) => {
            text(StatusCode::SERVICE_UNAVAILABLE, &format!("not ready: {}", refusal.message))
        }
    }
}

/// All that the node knows of itself.
pub(super) async fn status<M: Machine>(handle: &Handle<M>) -> Result<Reply, Refusal> {
    ask(handle).await.map(|status| json(StatusCode::OK, &status))
}

async fn ask<M: Machine>(handle: &Handle<M>) -> Result<Status, Refusal> {
    match tokio::time::timeout(PATIENCE, handle.status()).await {
        Ok(answer) => answer.map_err(|error: Error| error.into()),
        Err(_) => Err(Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "silent",
            format!("the replica has not answered for {} s", PATIENCE.as_secs()),
        )),
    }
}
