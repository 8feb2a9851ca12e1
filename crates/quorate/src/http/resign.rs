//! `/v1/quorum/resign`: makes the leader hand over, for an operator who is about to stop it or
//! wants another one to lead.
//!
//! Only begins it; `/status` says who leads then.

use super::reply::{Refusal, Reply, json};
use hyper::StatusCode;
use quorate_machine::Machine;
use quorate_node::handle::{Handle, Stays};
use serde::Serialize;

#[derive(Serialize)]
struct Begun {
    /// The epoch that ends.
    epoch: u32,
}

/// 202 with the epoch that ends, or 409 with the reason in words.
pub(super) async fn resign<M: Machine>(handle: &Handle<M>) -> Result<Reply, Refusal> {
    match handle.hand_over().await? {
        Ok(epoch) => Ok(json(StatusCode::ACCEPTED, &Begun { epoch: epoch.0 })),
        Err(why) => {
            let word = match why {
                Stays::NotLeading { .. } => "not_leader",
                Stays::Alone | Stays::NoHeir => "no_other_leader",
            };
            Err(Refusal::new(StatusCode::CONFLICT, word, why.to_string()))
        }
    }
}
