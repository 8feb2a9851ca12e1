//! `quorate quorum add | remove | alter | replace-disk`: other voters, while the quorum runs
//! (KIP-853), of any quorum, Kafka's too.
//!
//! Every command is a plan of single steps, told first and then carried out one after the other.
//! What it needs to know of the nodes it asks the leader.

use super::change::{Done, PAUSE, carry_out};
use super::plan::{NoPlan, Step, Wanted, directory, plan, told, tolerates, wanted};
use super::{Common, ask_all, best};
use crate::cli::controllers::{Quorum, Silence, describe, server};
use crate::cli::{Outcome, failed, out};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use quorate::{HostPort, Uuid};
use serde_json::json;
use std::time::{Duration, Instant};

/// What all of them take.
#[derive(clap::Args)]
pub(super) struct How {
    #[command(flatten)]
    pub(super) common: Common,
    /// How long to wait for each step: for a leader, a node that starts, one that is copying
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
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
    #[arg(value_name = "ID", value_parser = clap::value_parser!(i32).range(0..))]
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

pub(super) async fn add(args: Add) -> Outcome {
    let (servers, quorum) = look(&args.how).await?;
    let id = args.voter.id;
    if args.voter.directory.is_none() && quorum.voters.iter().any(|voter| voter.replica_id == id) {
        return failed(format!(
            "node {id} is a voter already. If its disk was replaced, and it runs with the new one, \
             `quorate quorum replace-disk {id}` lets the new directory take the old one's place"
        ));
    }
    let mut voters: Vec<Wanted> =
        quorum.voters.iter().map(|voter| Wanted::id(voter.replica_id)).collect();
    voters.retain(|voter| voter.id != id);
    voters.push(args.voter);
    alter_to(&args.how, &servers, quorum, &voters).await
}

pub(super) async fn remove(args: Remove) -> Outcome {
    let (servers, quorum) = look(&args.how).await?;
    let ids: Vec<i32> = quorum.voters.iter().map(|voter| voter.replica_id).collect();
    if !ids.contains(&args.voter) {
        let list: Vec<String> = ids.iter().map(ToString::to_string).collect();
        return failed(format!(
            "node {} is no voter, so there is nothing to remove; the voters are {}",
            args.voter,
            list.join(", ")
        ));
    }
    if ids.len() == 1 {
        return failed(format!(
            "node {} is the only voter, and without any there is no quorum; add another one first",
            args.voter
        ));
    }
    let left: Vec<Wanted> =
        ids.into_iter().filter(|id| *id != args.voter).map(Wanted::id).collect();
    alter_to(&args.how, &servers, quorum, &left).await
}

pub(super) async fn alter(args: Alter) -> Outcome {
    let (servers, quorum) = look(&args.how).await?;
    alter_to(&args.how, &servers, quorum, &args.voters).await
}

pub(super) async fn replace_disk(args: ReplaceDisk) -> Outcome {
    let (servers, quorum) = look(&args.how).await?;
    let id = args.voter.id;
    let seat = |quorum: &Quorum| {
        let seat = quorum.voters.iter().find(|voter| voter.replica_id == id);
        seat.map(|seat| (seat.replica_directory_id, seat.last_fetch_timestamp))
    };
    let first = seat(&quorum);
    let has_fetched = |then: Option<(Uuid, i64)>, now: Option<(Uuid, i64)>| {
        then.zip(now).is_some_and(|(then, now)| then.0 == now.0 && then.1 < now.1)
    };
    let (quorum, new) = until_heard(&args.how, &servers, quorum, |quorum| {
        match (directory(quorum, &args.voter), seat(quorum)) {
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
    let old = seat(&quorum).map(|(old, _)| old);
    let Some(new) = new.filter(|new| Some(*new) != old) else {
        let old = old.map_or_else(String::new, |old| old.to_string());
        let what = format!("node {id} votes with the directory {old} and runs with it");
        return nothing_to_do(&args.how, &what);
    };
    let placed =
        args.voter.at.is_some() || quorum.controllers.iter().any(|(known, _)| *known == id);
    if old.is_none() && !placed {
        return failed(format!(
            "node {id} is no voter (any more), so the leader does not know where it listens; say it, and it \
             becomes one: quorate quorum replace-disk {id}@HOST:PORT"
        ));
    }
    let mut voters: Vec<Wanted> =
        quorum.voters.iter().map(|voter| Wanted::id(voter.replica_id)).collect();
    voters.retain(|voter| voter.id != id);
    voters.push(Wanted { directory: Some(new), ..args.voter });
    alter_to(&args.how, &servers, quorum, &voters).await
}

/// Whom to ask, and what the leader says now.
pub(super) async fn look(how: &How) -> Outcome<(Vec<HostPort>, Quorum)> {
    let mut servers = how.common.bootstrap.clone();
    if servers.is_empty() {
        // Nodes of ours say over HTTP where the voters listen.
        let asked = ask_all(&how.common.nodes).await?;
        let voters = best(&asked).map_or(&[][..], |status| &status.voters);
        servers = voters.iter().filter_map(|voter| server(&voter.endpoint).ok()).collect();
        if servers.is_empty() {
            return failed(
                "the nodes that answer know no voters; name controllers with --bootstrap HOST:PORT",
            );
        }
    }
    // An election in between is over soon.
    let end = Instant::now() + how.timeout;
    loop {
        match describe(&servers).await {
            Ok(quorum) => return Ok((servers, quorum)),
            Err(Silence::NoLeader(_)) if Instant::now() < end => tokio::time::sleep(PAUSE).await,
            Err(silence) => return failed(silence.text()),
        }
    }
}

/// What is made of the quorum, once the leader has heard of every node that it takes: one that was
/// started a moment ago is on its way. Nothing is waited for where nothing is to be changed.
async fn until_heard<T>(
    how: &How,
    servers: &[HostPort],
    mut quorum: Quorum,
    make: impl Fn(&Quorum) -> Result<T, NoPlan>,
) -> Outcome<(Quorum, T)> {
    let end = Instant::now() + how.timeout;
    let mut noted = how.common.json || out::to_terminal();
    let spinner = spinner(how.common.json);
    loop {
        let why = match make(&quorum) {
            Ok(made) => {
                spinner.finish_and_clear();
                return Ok((quorum, made));
            }
            Err(NoPlan::Yet(why)) if !how.dry_run && Instant::now() < end => why,
            Err(NoPlan::Yet(why) | NoPlan::Never(why)) => {
                spinner.finish_and_clear();
                return failed(why);
            }
        };
        let waits = format!("waiting up to {} s: {why}", how.timeout.as_secs());
        if !std::mem::replace(&mut noted, true) {
            out::note(&waits);
        }
        spinner.set_message(waits);
        tokio::time::sleep(PAUSE).await;
        // An election in between changes nothing: the last that was told still says who is missing.
        if let Ok(newer) = describe(servers).await {
            quorum = newer;
        }
    }
}

async fn alter_to(how: &How, servers: &[HostPort], quorum: Quorum, voters: &[Wanted]) -> Outcome {
    let (quorum, steps) = until_heard(how, servers, quorum, |quorum| plan(quorum, voters)).await?;
    let as_json = how.common.json;
    if !as_json {
        told(&quorum, &steps).iter().for_each(|line| out::line(line));
    }
    if voters.len().is_multiple_of(2) {
        let (many, fewer) = (voters.len(), voters.len() - 1);
        out::warning(&format!(
            "an even number of voters bears no more failures than one less: of {many} as of {fewer}, {}",
            tolerates(fewer)
        ));
    }
    if steps.is_empty() {
        return nothing_to_do(how, "these are the voters already");
    }
    if how.dry_run {
        if as_json {
            out::json(
                &json!({ "steps": steps.iter().map(step_json).collect::<Vec<_>>(), "done": 0 }),
            );
        }
        return Ok(());
    }
    let mut done = Vec::new();
    for (at, step) in (1..).zip(&steps) {
        let spinner = spinner(as_json);
        spinner.set_message(format!("step {at} of {}: {step}", steps.len()));
        let waits = |why: &str| spinner.set_message(format!("step {at} waits: {why}"));
        let took = carry_out(servers, step, how.timeout, waits).await;
        spinner.finish_and_clear();
        let Done { took, by_halves } = took?;
        if as_json {
            let mut step = step_json(step);
            step["ms"] = json!(took.as_millis());
            step["by_halves"] = json!(by_halves);
            done.push(step);
        } else {
            let how = if by_halves { BY_HALVES } else { "" };
            out::line(&format!("step {at} done in {} ms: {step}{how}", took.as_millis()));
        }
    }
    if as_json {
        out::json(&json!({ "done": done.len(), "steps": done }));
    }
    Ok(())
}

/// Beside a replacement that the leader did not know.
const BY_HALVES: &str =
    " (this leader does not replace disks: the old directory was removed, then the new one added)";

fn nothing_to_do(how: &How, why: &str) -> Outcome {
    match how.common.json {
        true => out::json(&json!({ "steps": [], "done": 0 })),
        false => out::line(&format!("nothing to do: {why}")),
    }
    Ok(())
}

fn step_json(step: &Step) -> serde_json::Value {
    let (what, id, directory): (&str, i32, &Uuid) = match step {
        Step::Add { id, directory, .. } => ("add", *id, directory),
        Step::Remove { id, directory } => ("remove", *id, directory),
        Step::Replace { id, directory, .. } => ("replace", *id, directory),
    };
    let mut shown = json!({ "step": what, "node": id, "directory": directory.to_string() });
    if let Step::Replace { old, .. } = step {
        shown["replaces"] = json!(old.to_string());
    }
    shown
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
