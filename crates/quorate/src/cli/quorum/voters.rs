//! `quorate quorum add | remove | alter | replace-disk`: other voters, while the quorum runs
//! (KIP-853), of any quorum, Kafka's too.
//!
//! Every command is a plan of single steps, told first and then carried out one after the other.
//! What it needs to know of the nodes it asks the leader, and after each step it looks whether
//! somebody else changes the voters as well: then it stops and says so.

use super::change::{Whom, carry_out};
use super::course::{Course, Wish, contradictions};
use super::patience::{PAUSE, Patience};
use super::plan::{NoPlan, Wanted, can_change, directory, told, tolerates, wanted};
use super::report::Report;
use super::{Common, ask_all_within, best};
use crate::cli::controllers::{Quorum, Silence, describe_within, server};
use crate::cli::{Failure, Outcome, failed, out};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use quorate::{HostPort, Uuid};
use std::cell::RefCell;
use std::time::Duration;
use tokio::time::sleep;

/// What all of them take.
#[derive(clap::Args)]
pub(super) struct How {
    #[command(flatten)]
    pub(super) common: Common,
    /// How long all of it may take: until a leader answers, a node has started, one has copied
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(super) timeout: Duration,
    /// Tell the plan, and change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// One more voter.
#[derive(Parser)]
pub(super) struct Add {
    /// ID@HOST:PORT of its controller listener; with :DIRECTORY where the leader cannot tell which
    #[arg(value_name = "ID@HOST:PORT", value_parser = wanted)]
    voter: Wanted,
    #[command(flatten)]
    how: How,
}

/// One voter less.
#[derive(Parser)]
pub(super) struct Remove {
    /// Its node id
    #[arg(value_name = "ID", value_parser = node_id)]
    voter: i32,
    #[command(flatten)]
    how: How,
}

/// Exactly these voters.
#[derive(Parser)]
pub(super) struct Alter {
    /// Node ids; those that come with ID@HOST:PORT of their controller listeners
    #[arg(long, value_name = "ID,ID@HOST:PORT,…", value_delimiter = ',', value_parser = wanted, required = true)]
    voters: Vec<Wanted>,
    #[command(flatten)]
    how: How,
}

/// The same voter with an empty disk.
#[derive(Parser)]
pub(super) struct ReplaceDisk {
    /// Its node id; with @HOST:PORT where it listens elsewhere now
    #[arg(value_name = "ID", value_parser = wanted)]
    voter: Wanted,
    #[command(flatten)]
    how: How,
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse::<u64>().ok().filter(|number| (1..=86_400).contains(number));
    number.map(Duration::from_secs).ok_or_else(|| "write whole seconds, 1 to 86400".to_owned())
}

fn node_id(text: &str) -> Result<i32, String> {
    let id = text.trim().parse::<i32>().ok().filter(|id| *id >= 0);
    id.ok_or_else(|| "write the number of the node, as node.id in its file has it".to_owned())
}

pub(super) async fn add(args: Add) -> Outcome {
    let Add { voter, how } = args;
    let mut report = Report::new(how.common.json);
    let added = async {
        let found = look(&how).await?;
        let id = voter.id;
        let votes = found.quorum.voters.iter().any(|voter| voter.replica_id == id);
        if voter.directory.is_none() && votes {
            return failed(format!(
                "node {id} is a voter already. If its disk was replaced, and it runs with the new one, \
                 `quorate quorum replace-disk {id}` lets the new directory take the old one's place"
            ));
        }
        change(&how, found, &Wish::With(voter), &mut report).await
    };
    let outcome = added.await;
    report.close(outcome)
}

pub(super) async fn remove(args: Remove) -> Outcome {
    let Remove { voter, how } = args;
    let mut report = Report::new(how.common.json);
    let removed = async {
        let found = look(&how).await?;
        let ids: Vec<i32> = found.quorum.voters.iter().map(|voter| voter.replica_id).collect();
        if !ids.contains(&voter) {
            let list: Vec<String> = ids.iter().map(ToString::to_string).collect();
            return failed(format!(
                "node {voter} is no voter, so there is nothing to remove; the voters are {}",
                list.join(", ")
            ));
        }
        if ids.len() == 1 {
            return failed(format!(
                "node {voter} is the only voter, and without any there is no quorum; add another one first"
            ));
        }
        change(&how, found, &Wish::Without(voter), &mut report).await
    };
    let outcome = removed.await;
    report.close(outcome)
}

pub(super) async fn alter(args: Alter) -> Outcome {
    let Alter { voters, how } = args;
    let wish = Wish::Exactly(voters);
    if let Some(id) = wish.twice() {
        return Err(Failure::Usage(format!(
            "--voters names node {id} twice; name each voter once"
        )));
    }
    let mut report = Report::new(how.common.json);
    let altered = async {
        let found = look(&how).await?;
        change(&how, found, &wish, &mut report).await
    };
    let outcome = altered.await;
    report.close(outcome)
}

pub(super) async fn replace_disk(args: ReplaceDisk) -> Outcome {
    let ReplaceDisk { voter, how } = args;
    let mut report = Report::new(how.common.json);
    let outcome = replace(&how, voter, &mut report).await;
    report.close(outcome)
}

/// Two tellings of one moment differ by less.
const WANDERS_MS: i64 = 100;

async fn replace(how: &How, voter: Wanted, report: &mut Report) -> Outcome {
    let mut found = look(how).await?;
    let id = voter.id;
    let seat = |quorum: &Quorum| {
        let seat = quorum.voters.iter().find(|voter| voter.replica_id == id);
        seat.map(|seat| (seat.replica_directory_id, seat.last_fetch_timestamp))
    };
    let first = seat(&found.quorum);
    let has_fetched = |then: Option<(Uuid, i64)>, now: Option<(Uuid, i64)>| {
        // The leader tells times of day, made of its own clock: the same moment wanders a little.
        then.zip(now).is_some_and(|(then, now)| then.0 == now.0 && then.1 + WANDERS_MS < now.1)
    };
    let new = until_heard(how, &mut found, |quorum| {
        can_change(quorum)?;
        match (directory(quorum, &voter), seat(quorum)) {
            (Ok(new), _) => Ok(Some(new)),
            // It has fetched with the directory with which it votes, since this was asked for.
            (Err(NoPlan::Yet(_)), now) if has_fetched(first, now) => Ok(None),
            (Err(NoPlan::Yet(_)), Some((old, _))) => Err(NoPlan::Yet(format!(
                "node {id} copies the log from no directory but {old}, with which it votes already. Start it \
                 with its new disk first, formatted with --no-initial-controllers; or name the directory: \
                 {id}@HOST:PORT:DIRECTORY"
            ))),
            (Err(why), _) => Err(why),
        }
    })
    .await?;
    let old = seat(&found.quorum).map(|(old, _)| old);
    let Some(new) = new.filter(|new| Some(*new) != old) else {
        let old = old.map_or_else(String::new, |old| old.to_string());
        report.saw(&found.quorum);
        report.nothing_to_do(&format!("node {id} votes with the directory {old} and runs with it"));
        return Ok(());
    };
    let placed =
        voter.at.is_some() || found.quorum.controllers.iter().any(|(known, _)| *known == id);
    if old.is_none() && !placed {
        return failed(format!(
            "node {id} is no voter (any more), so the leader does not know where it listens; say it, and it \
             becomes one: quorate quorum replace-disk {id}@HOST:PORT"
        ));
    }
    change(how, found, &Wish::With(Wanted { directory: Some(new), ..voter }), report).await
}

/// What a command begins with.
pub(super) struct Found {
    /// Whom to ask.
    pub(super) servers: Vec<HostPort>,
    /// What the leader said last.
    pub(super) quorum: Quorum,
    pub(super) patience: Patience,
}

/// Whom to ask, and what the leader says now.
pub(super) async fn look(how: &How) -> Outcome<Found> {
    let patience = Patience::new(how.timeout);
    let mut servers = how.common.bootstrap.clone();
    if servers.is_empty() {
        // Nodes of ours say over HTTP where the voters listen.
        let asked = ask_all_within(&how.common.nodes, Some(patience.round())).await?;
        let voters = best(&asked).map_or(&[][..], |status| &status.voters);
        servers = voters.iter().filter_map(|voter| server(&voter.endpoint).ok()).collect();
        if servers.is_empty() {
            return failed(
                "the nodes that answer know no voters; name controllers with --bootstrap HOST:PORT",
            );
        }
    }
    // An election in between is over soon.
    loop {
        match describe_within(&servers, patience.round()).await {
            Ok(quorum) => return Ok(Found { servers, quorum, patience }),
            Err(Silence::NoLeader(_)) if !patience.is_over() => sleep(PAUSE).await,
            Err(silence) => return failed(silence.text()),
        }
    }
}

/// What is made of the quorum, once the leader has heard of every node that it takes: one that was
/// started a moment ago is on its way. Nothing is waited for where nothing is to be changed.
async fn until_heard<T>(
    how: &How,
    found: &mut Found,
    make: impl Fn(&Quorum) -> Result<T, NoPlan>,
) -> Outcome<T> {
    let Found { servers, quorum, patience } = found;
    let mut noted = how.common.json || out::to_terminal();
    let spinner = spinner(how.common.json);
    loop {
        let why = match make(quorum) {
            Ok(made) => {
                spinner.finish_and_clear();
                return Ok(made);
            }
            Err(NoPlan::Yet(why)) if !how.dry_run && !patience.is_over() => why,
            Err(NoPlan::Yet(why) | NoPlan::Never(why)) => {
                spinner.finish_and_clear();
                return failed(why);
            }
        };
        let waits = format!("waiting up to {} s: {why}", patience.secs());
        if !std::mem::replace(&mut noted, true) {
            out::note(&waits);
        }
        spinner.set_message(waits);
        sleep(PAUSE).await;
        // An election in between changes nothing: the last that was told still says who is missing.
        if let Ok(newer) = describe_within(servers, patience.round()).await {
            *quorum = newer;
        }
    }
}

/// From the voters that there are to those that are wished for, as one plan.
async fn change(how: &How, mut found: Found, wish: &Wish, report: &mut Report) -> Outcome {
    let course = until_heard(how, &mut found, |quorum| Course::of(wish, quorum)).await?;
    let Found { servers, quorum, patience } = found;
    let whom = Whom { servers: &servers, cluster: &quorum.cluster };
    report.planned(&course.steps, &told(&quorum, &course.steps));
    report.saw(&quorum);
    contradictions(&quorum, wish).iter().for_each(|words| out::warning(words));
    let many = wish.voters(&quorum).len();
    if many.is_multiple_of(2) {
        let fewer = many - 1;
        out::warning(&format!(
            "an even number of voters bears no more failures than one less: of {many} as of {fewer}, {}",
            tolerates(fewer)
        ));
    }
    if course.steps.is_empty() {
        report.nothing_to_do("these are the voters already");
        return Ok(());
    }
    if how.dry_run {
        return Ok(());
    }
    for (at, step) in (1..).zip(&course.steps) {
        let spinner = spinner(how.common.json);
        spinner.set_message(format!("step {at} of {}: {step}", course.steps.len()));
        let waits = |why: &str| spinner.set_message(format!("step {at} waits: {why}"));
        let seen = RefCell::new(None);
        let judge = |now: &Quorum| {
            seen.replace(Some(now.clone()));
            course.somebody_else(at - 1, now)
        };
        let done = carry_out(whom, step, &judge, patience, waits).await;
        spinner.finish_and_clear();
        seen.take().iter().for_each(|seen| report.saw(seen));
        report.done(step, &done?);
        compare(whom, &course, at, patience, report).await?;
    }
    Ok(())
}

/// After so many steps, whether they led where they were to lead. Never undoes what somebody else
/// did, nor goes on beside them: two plans at once would undo each other for ever.
async fn compare(
    whom: Whom<'_>,
    course: &Course,
    done: usize,
    patience: Patience,
    report: &mut Report,
) -> Outcome {
    let all = course.steps.len();
    let patience = if done == all { patience.afterwards() } else { patience };
    let quorum = loop {
        match describe_within(whom.servers, patience.round()).await {
            Ok(quorum) if quorum.cluster == whom.cluster => break quorum,
            Ok(other) => {
                let cluster = other.cluster;
                return failed(format!("a controller that was asked is of the cluster {cluster}"));
            }
            Err(_) if !patience.is_over() => sleep(PAUSE).await,
            Err(silence) => {
                return failed(format!(
                    "step {done} of {all} is done, and what came of it cannot be seen: {}",
                    silence.text()
                ));
            }
        }
    };
    report.saw(&quorum);
    course.somebody_else(done, &quorum).map_or(Ok(()), failed)
}

/// For a person at the terminal only.
fn spinner(as_json: bool) -> ProgressBar {
    if as_json || !out::to_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    let spinner = ProgressBar::new_spinner().with_style(style);
    spinner.enable_steady_tick(Duration::from_millis(100));
    spinner
}
