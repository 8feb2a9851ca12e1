//! One voter more or one less, or one with another disk, asked of whoever leads until it is done or
//! refused for good.
//!
//! Asked again the same is harmless: the leader refuses a voter that it has, and one that it has
//! not, once that is committed and not before. So an answer that got lost, a new leader, or a node
//! that is not level yet cost time and nothing else. A leader that knows no replacement of a disk,
//! as Kafka's, is asked for the two halves of it.

use super::plan::Step;
use crate::cli::controllers::{Controller, Quorum, Silence, refused, replicas, shown, to_leader};
use crate::cli::{Outcome, failed};
use quorate::{HostPort, Uuid};
use quorate_wire::ErrorCode;
use quorate_wire::message::{
    AddRaftVoterRequest, Listener, RemoveRaftVoterRequest, Request, VoterChangeResponse,
};
use std::time::{Duration, Instant};

/// Between two attempts. Nobody tells a command when a leader is elected or a node is level, so it
/// asks again.
pub(super) const PAUSE: Duration = Duration::from_millis(300);

/// The name of the listener where the leader does not tell its own: Kafka's usual one.
const LISTENER: &str = "CONTROLLER";

enum Refusal {
    /// It may be taken later.
    Later(String),
    /// It will not.
    Never(String),
    /// The leader knows no replacement, and took it for one voter more.
    Unknown,
}

/// What is done.
pub(super) struct Done {
    pub(super) took: Duration,
    /// Whether the leader was asked for the two halves of a replacement.
    pub(super) by_halves: bool,
}

/// Until it is committed. `waits` is told why it takes longer.
pub(super) async fn carry_out(
    servers: &[HostPort],
    step: &Step,
    patience: Duration,
    waits: impl Fn(&str),
) -> Outcome<Done> {
    let start = Instant::now();
    let by_halves = !until_done(servers, step, patience, &waits).await?;
    if by_halves {
        for half in step.halves() {
            until_done(servers, &half, patience, &waits).await?;
        }
    }
    Ok(Done { took: start.elapsed(), by_halves })
}

/// Until it is committed; false if the leader knows no such step.
async fn until_done(
    servers: &[HostPort],
    step: &Step,
    patience: Duration,
    waits: impl Fn(&str),
) -> Outcome<bool> {
    let start = Instant::now();
    loop {
        match attempt(servers, step, patience).await {
            Ok(()) => return Ok(true),
            Err(Refusal::Unknown) => return Ok(false),
            Err(Refusal::Never(why)) => return failed(format!("could not {step}: {why}")),
            Err(Refusal::Later(why)) if start.elapsed() >= patience => {
                return failed(format!(
                    "could not {step} within {} s: {why}\nSee with `quorate quorum status` who votes; the same \
                     command may be run again, and --timeout lets it wait longer.",
                    patience.as_secs()
                ));
            }
            Err(Refusal::Later(why)) => waits(&why),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn attempt(servers: &[HostPort], step: &Step, patience: Duration) -> Result<(), Refusal> {
    let reached = to_leader(servers).await;
    let (quorum, mut leader) = reached?;
    let cluster_id = Some(quorum.cluster.clone());
    let comes = |id: i32, directory: Uuid, at: &HostPort, replaces: Uuid| {
        let name = quorum.listener.clone().unwrap_or_else(|| LISTENER.to_owned());
        let (host, port) = (at.host.clone(), at.port);
        AddRaftVoterRequest {
            cluster_id: cluster_id.clone(),
            timeout_ms: i32::try_from(patience.as_millis()).unwrap_or(i32::MAX),
            voter_id: id,
            voter_directory_id: directory,
            listeners: vec![Listener { name, host, port, ..Listener::default() }],
            replaces,
            ..AddRaftVoterRequest::default()
        }
    };
    let answered = match step {
        Step::Add { id, directory, at } => {
            ask(&mut leader, comes(*id, *directory, at, Uuid::ZERO)).await
        }
        Step::Replace { id, old, directory, at } => {
            ask(&mut leader, comes(*id, *directory, at, *old)).await
        }
        Step::Remove { id, directory } => {
            let request = RemoveRaftVoterRequest {
                cluster_id: cluster_id.clone(),
                voter_id: *id,
                voter_directory_id: *directory,
                ..RemoveRaftVoterRequest::default()
            };
            ask(&mut leader, request).await
        }
    };
    let (code, words) = answered?;
    let words = words.filter(|words| !words.is_empty() && *words != code.to_string());
    // What an earlier attempt brought about, and is committed.
    let known = [ErrorCode::DuplicateVoter, ErrorCode::VoterNotFound].contains(&code);
    if code == ErrorCode::None || known && step.is_done(&quorum) {
        return Ok(());
    }
    if code == ErrorCode::DuplicateVoter && matches!(step, Step::Replace { .. }) {
        return Err(Refusal::Unknown);
    }
    if code == ErrorCode::RequestTimedOut {
        return Err(Refusal::Later(words.unwrap_or_else(|| guess(step, &quorum))));
    }
    if [ErrorCode::NotLeaderOrFollower, ErrorCode::NotController].contains(&code) {
        return Err(Refusal::Later("the leader changed".to_owned()));
    }
    Err(Refusal::Never(match words {
        Some(words) => words,
        None => refused("this", code, None).text().to_owned(),
    }))
}

impl From<Silence> for Refusal {
    fn from(silence: Silence) -> Refusal {
        match silence {
            Silence::Wrong(why) => Refusal::Never(why),
            Silence::Nobody(why) | Silence::NoLeader(why) => Refusal::Later(why),
        }
    }
}

/// The leader's answer to either request: its code and its words.
async fn ask<R, const API: i16>(
    leader: &mut Controller,
    request: R,
) -> Result<(ErrorCode, Option<String>), Silence>
where
    R: Request<Response = VoterChangeResponse<API>>,
{
    let answer = leader.ask(request, 0).await?;
    Ok((answer.error_code, answer.error_message))
}

/// Kafka's leaders give a code and no reason.
fn guess(step: &Step, quorum: &Quorum) -> String {
    let pending = "another change of the voters may not be finished";
    let (Step::Add { id, directory, at } | Step::Replace { id, directory, at, .. }) = step else {
        return format!("the leader cannot do it now: {pending}");
    };
    let observes = |o: &&quorate_wire::message::QuorumReplica| {
        o.replica_id == *id && o.replica_directory_id == *directory
    };
    let lag = replicas(quorum).filter(|r| r.node == *id && r.status == "Observer");
    match (quorum.observers.iter().find(observes), lag.filter_map(|r| r.lag).min()) {
        (None, _) => {
            format!("node {id} does not copy the leader's log from the directory {directory}")
        }
        (Some(_), Some(lag)) if lag > 0 => format!("node {id} lacks {lag} records"),
        (Some(_), _) => {
            format!("the leader may not reach node {id} at {}, or {pending}", shown(at))
        }
    }
}
