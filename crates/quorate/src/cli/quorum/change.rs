//! One voter more or one less, asked of whoever leads until it is done or refused for good.
//!
//! Asked again the same is harmless: the leader refuses a voter that it has, and one that it has
//! not, once that is committed and not before. So an answer that got lost, a new leader, or a node
//! that is not level yet cost time and nothing else.

use super::plan::Step;
use crate::cli::controllers::{Quorum, Silence, refused, replicas, shown, to_leader};
use crate::cli::{Outcome, failed};
use quorate::HostPort;
use quorate_wire::ErrorCode;
use quorate_wire::message::{
    AddRaftVoterRequest, AddRaftVoterResponse, Listener, RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
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
}

/// Until it is committed; how long that took. `waits` is told why it takes longer.
pub(super) async fn carry_out(
    servers: &[HostPort],
    step: &Step,
    patience: Duration,
    waits: impl Fn(&str),
) -> Outcome<Duration> {
    let start = Instant::now();
    loop {
        match attempt(servers, step, patience).await {
            Ok(()) => return Ok(start.elapsed()),
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
    let (quorum, mut leader) = reached.map_err(|silence| match silence {
        Silence::Wrong(why) => Refusal::Never(why),
        Silence::Nobody(why) | Silence::NoLeader(why) => Refusal::Later(why),
    })?;
    let timeout_ms = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
    let cluster_id = Some(quorum.cluster.clone());
    let answered = match step {
        Step::Add { id, directory, at } => {
            let name = quorum.listener.clone().unwrap_or_else(|| LISTENER.to_owned());
            let (host, port) = (at.host.clone(), at.port);
            let request = AddRaftVoterRequest {
                cluster_id,
                timeout_ms,
                voter_id: *id,
                voter_directory_id: *directory,
                listeners: vec![Listener { name, host, port, ..Listener::default() }],
                ..AddRaftVoterRequest::default()
            };
            leader
                .ask(request, 0)
                .await
                .map(|answer: AddRaftVoterResponse| (answer.error_code, answer.error_message))
        }
        Step::Remove { id, directory } => {
            let request = RemoveRaftVoterRequest {
                cluster_id,
                voter_id: *id,
                voter_directory_id: *directory,
                ..RemoveRaftVoterRequest::default()
            };
            leader
                .ask(request, 0)
                .await
                .map(|answer: RemoveRaftVoterResponse| (answer.error_code, answer.error_message))
        }
    };
    let (code, words) = answered.map_err(|silence| match silence {
        Silence::Wrong(why) => Refusal::Never(why),
        Silence::Nobody(why) | Silence::NoLeader(why) => Refusal::Later(why),
    })?;
    let words = words.filter(|words| !words.is_empty() && *words != code.to_string());
    // What an earlier attempt brought about, and is committed.
    let known = [ErrorCode::DuplicateVoter, ErrorCode::VoterNotFound].contains(&code);
    if code == ErrorCode::None || known && step.is_done(&quorum) {
        return Ok(());
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

/// Kafka's leaders give a code and no reason.
fn guess(step: &Step, quorum: &Quorum) -> String {
    let pending = "another change of the voters may not be finished";
    let Step::Add { id, directory, at } = step else {
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
