//! One voter more or one less, or one with another disk, asked of whoever leads until it is done or
//! refused for good.
//!
//! Asked again the same is harmless: the leader refuses a voter that it has, and one that it has
//! not, once that is committed and not before. So an answer that got lost, a new leader, or a node
//! that is not level yet cost time and nothing else. A leader that knows no replacement of a disk,
//! as Kafka's, is asked for the two halves of it.

use super::patience::{PAUSE, Patience};
use super::plan::Step;
use crate::cli::controllers::{Controller, Quorum, Silence, refused, replicas, shown, to_leader};
use crate::cli::{Outcome, failed};
use quorate::{HostPort, Uuid};
use quorate_wire::ErrorCode;
use quorate_wire::message::{
    AddRaftVoterRequest, Listener, RemoveRaftVoterRequest, Request, VoterChangeResponse,
};
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// The name of the listener where the leader does not tell its own: Kafka's usual one.
const LISTENER: &str = "CONTROLLER";

enum Refusal {
    /// It may be taken later.
    Later(String),
    /// It was asked for, and whether it is done nobody said.
    Open(String),
    /// Somebody else changes the voters as well.
    Stray(String),
    /// It will not.
    Never(String),
    /// The leader knows no replacement, and took it for one voter more.
    Unknown,
    /// The directory that is to go does not vote any more, and the other one not yet: a change that
    /// was cut short, perhaps by the end of the leader that made it.
    Half,
}

/// How the asking for a step ended.
enum Ended {
    Done,
    /// The leader knows no such step.
    Unknown,
    /// Of a replacement, the second half is missing.
    Half,
}

/// Whom to ask, and of which cluster they have to be.
#[derive(Clone, Copy)]
pub(super) struct Whom<'a> {
    pub(super) servers: &'a [HostPort],
    pub(super) cluster: &'a str,
}

/// Says why nothing more is to be asked for, by who votes.
pub(super) type Judge<'a> = &'a dyn Fn(&Quorum) -> Option<String>;

/// No leader needs longer for a change that it can make at once; asked again it goes on.
const CHANGE_TIME: Duration = Duration::from_secs(9);

/// What is done.
pub(super) struct Done {
    pub(super) took: Duration,
    /// Whether the leader was asked for the two halves of a replacement.
    pub(super) by_halves: bool,
}

/// Until it is committed. `waits` is told why it takes longer.
pub(super) async fn carry_out(
    whom: Whom<'_>,
    step: &Step,
    judge: Judge<'_>,
    patience: Patience,
    waits: impl Fn(&str),
) -> Outcome<Done> {
    let start = Instant::now();
    let ended = until_done(whom, step, judge, patience, &waits).await?;
    // A half that is done already is found to be so when it is asked for.
    let halves = match ended {
        Ended::Done => Vec::new(),
        Ended::Unknown | Ended::Half => step.halves(),
    };
    for half in halves {
        if let Ended::Unknown | Ended::Half =
            until_done(whom, &half, judge, patience, &waits).await?
        {
            return failed(format!("could not {half}: the leader takes it for something else"));
        }
    }
    Ok(Done { took: start.elapsed(), by_halves: matches!(ended, Ended::Unknown) })
}

/// Until it is committed, or cannot be as one step.
async fn until_done(
    whom: Whom<'_>,
    step: &Step,
    judge: Judge<'_>,
    patience: Patience,
    waits: impl Fn(&str),
) -> Outcome<Ended> {
    loop {
        let (why, yet) = match attempt(whom, step, judge, patience).await {
            Ok(()) => return Ok(Ended::Done),
            Err(Refusal::Unknown) => return Ok(Ended::Unknown),
            Err(Refusal::Half) => return Ok(Ended::Half),
            Err(Refusal::Stray(why)) => return failed(why),
            Err(Refusal::Never(why)) => return failed(format!("could not {step}: {why}")),
            Err(Refusal::Later(why)) => (why, ""),
            Err(Refusal::Open(why)) => (why, "It may be done yet. "),
        };
        if patience.is_spent() {
            return failed(format!(
                "could not {step} within the {} s of --timeout: {why}\n{yet}See with `quorate quorum status` who \
                 votes; the same command may be run again, and --timeout lets it wait longer.",
                patience.secs()
            ));
        }
        waits(&why);
        tokio::time::sleep(PAUSE).await;
    }
}

async fn attempt(
    whom: Whom<'_>,
    step: &Step,
    judge: Judge<'_>,
    patience: Patience,
) -> Result<(), Refusal> {
    let (quorum, mut leader) = to_leader(whom.servers, patience.round()).await?;
    if quorum.cluster != whom.cluster {
        return Err(Refusal::Never(format!(
            "the controllers that are asked are of two clusters, {} and {}; name those of one",
            whom.cluster, quorum.cluster
        )));
    }
    if let Some(stray) = judge(&quorum) {
        return Err(Refusal::Stray(stray));
    }
    let within = patience.answer().min(CHANGE_TIME);
    // The leader has somewhat less, so that its reason arrives.
    let answered = timeout(within, asked(&mut leader, &quorum, step, within * 9 / 10)).await;
    let (code, words) = match answered {
        Ok(Ok(answer)) => answer,
        Ok(Err(Silence::Wrong(why))) => return Err(Refusal::Never(why)),
        Ok(Err(Silence::Nobody(why) | Silence::NoLeader(why))) => return Err(Refusal::Open(why)),
        Err(_) => return Err(Refusal::Open("the leader was asked, and has not answered".into())),
    };
    let words = words.filter(|words| !words.is_empty() && *words != code.to_string());
    // What an earlier attempt brought about, and is committed.
    let known = [ErrorCode::DuplicateVoter, ErrorCode::VoterNotFound].contains(&code);
    if code == ErrorCode::None || known && step.is_done(&quorum) {
        return Ok(());
    }
    if code == ErrorCode::DuplicateVoter && matches!(step, Step::Replace { .. }) {
        return Err(Refusal::Unknown);
    }
    let votes = quorum.voters.iter().any(|voter| voter.replica_id == step.id());
    if code == ErrorCode::VoterNotFound && matches!(step, Step::Replace { .. }) && !votes {
        return Err(Refusal::Half);
    }
    if code == ErrorCode::RequestTimedOut {
        return Err(match words {
            Some(words) => Refusal::Later(words),
            None => Refusal::Open(guess(step, &quorum)),
        });
    }
    if [ErrorCode::NotLeaderOrFollower, ErrorCode::NotController].contains(&code) {
        return Err(Refusal::Later("the leader changed".to_owned()));
    }
    Err(Refusal::Never(match words {
        Some(words) => words,
        None => refused("this", code, None).text().to_owned(),
    }))
}

/// Asks the leader for a step.
async fn asked(
    leader: &mut Controller,
    quorum: &Quorum,
    step: &Step,
    within: Duration,
) -> Result<(ErrorCode, Option<String>), Silence> {
    let cluster_id = Some(quorum.cluster.clone());
    let comes = |id: i32, directory: Uuid, at: &HostPort, replaces: Uuid| {
        let name = quorum.listener.clone().unwrap_or_else(|| LISTENER.to_owned());
        let (host, port) = (at.host.clone(), at.port);
        AddRaftVoterRequest {
            cluster_id: cluster_id.clone(),
            timeout_ms: i32::try_from(within.as_millis()).unwrap_or(i32::MAX),
            voter_id: id,
            voter_directory_id: directory,
            listeners: vec![Listener { name, host, port, ..Listener::default() }],
            replaces,
            ..AddRaftVoterRequest::default()
        }
    };
    match step {
        Step::Add { id, directory, at } => {
            ask(leader, comes(*id, *directory, at, Uuid::ZERO)).await
        }
        Step::Replace { id, old, directory, at } => {
            ask(leader, comes(*id, *directory, at, *old)).await
        }
        Step::Remove { id, directory } => {
            let request = RemoveRaftVoterRequest {
                cluster_id: cluster_id.clone(),
                voter_id: *id,
                voter_directory_id: *directory,
                ..RemoveRaftVoterRequest::default()
            };
            ask(leader, request).await
        }
    }
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
