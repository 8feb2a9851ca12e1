//! `quorate recover`: what the library's `recover` finds, plans and does, said to a person.
//!
//! Asks the old voters first, as far as anybody can say where they were: where one of them leads
//! there is nothing to recover. Changes nothing before the plan was printed and agreed to.

use super::controllers::{Quorum, Silence, describe, server, shown};
use super::{Failure, Outcome, block_on, failed, out};
use clap::Parser;
use quorate::HostPort;
use quorate::recover::{Copied, Done, Facts, LEAP, NewVoter, Plan, Wish, carry_out, plan, survey};
use quorate_log::OsDisk;
use serde_json::{Value, json};
use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// As long as an address may take to answer at all.
const CONNECT_TIME: Duration = Duration::from_secs(3);

/// Give a quorum new voters that has lost its majority for ever, or all its addresses
///
/// Takes the data directories of the nodes that are left, or copies of them, chooses the one that
/// has most, and writes new voters into its log. Records that only lost nodes had are lost with
/// them. Every file that is changed is kept beside itself.
#[derive(Parser)]
#[command(after_help = "\
Two of three nodes are gone; node 1 goes on alone, and others join it later:
  quorate recover /var/lib/quorate --voters 1@a.example:9093 --peers b.example:9093,c.example:9093

All addresses have changed; the three directories are on this machine:
  quorate recover data-1 data-2 data-3 --voters 1@new-a:9093,2@new-b:9093,3@new-c:9093 --no-peers

What would be done, without doing it:
  quorate recover /var/lib/quorate --voters 1@a.example:9093 --no-peers --dry-run")]
pub(crate) struct Args {
    /// Data directories of nodes, as log.dirs has them, or copies
    #[arg(required = true, value_name = "DIR")]
    copies: Vec<PathBuf>,
    /// The new voters; without it the chosen directory's node alone, at the address in its log
    #[arg(long, value_name = "ID@HOST:PORT[:DIRECTORY],…", value_delimiter = ',', value_parser = voter)]
    voters: Vec<NewVoter>,
    /// The directory that counts, if not the one that has most
    #[arg(long = "use", value_name = "DIR")]
    wanted: Option<PathBuf>,
    /// Where the old voters listened; those that the log names are asked anyway
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',', value_parser = server)]
    peers: Vec<HostPort>,
    /// The old voters are all gone, or known to be stopped: where nothing says where they were
    #[arg(long, conflicts_with = "peers")]
    no_peers: bool,
    /// How many offsets to pass over where records may be lost, so that none is given out twice
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=20_000_000))]
    skip_offsets: Option<u64>,
    /// The topic of the log, quorate.topic
    #[arg(long, value_name = "NAME", default_value = "__cluster_metadata")]
    topic: String,
    /// The name of the voters' listener, where the log names none
    #[arg(long, value_name = "NAME", default_value = "CONTROLLER")]
    listener: String,
    /// Print the plan and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Print facts as JSON
    #[arg(long)]
    json: bool,
}

fn voter(text: &str) -> Result<NewVoter, quorate::FormatError> {
    text.trim().parse()
}

/// Runs `quorate recover`.
pub(crate) fn recover(args: Args) -> Outcome {
    // Held to the end: what is looked at must not change, and no node may run on it.
    let mut locks = Vec::new();
    args.copies.iter().try_for_each(|copy| super::directory(copy))?;
    for directory in &args.copies {
        let lock = OsDisk::lock(directory, "quorate recover");
        locks.push(lock.or_else(|error| failed(error.to_string()))?);
    }
    let copies: Vec<Copied> =
        args.copies.iter().map(|directory| survey(directory, &args.topic)).collect();
    if !args.json {
        out::line(&table(&copies));
    }
    // However its path is written.
    let same = |copy: &&PathBuf| {
        let wanted = args.wanted.as_ref().and_then(|wanted| wanted.canonicalize().ok());
        wanted.is_some() && copy.canonicalize().ok() == wanted
    };
    let wish = Wish {
        directory: args.copies.iter().find(same).or(args.wanted.as_ref()).cloned(),
        voters: args.voters.clone(),
        listener: args.listener.clone(),
        skip: args.skip_offsets,
    };
    let plan = plan(&copies, &wish).or_else(|error| failed(error.to_string()))?;
    nobody_leads(&args, &copies, &plan)?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let carry = |really| {
        let done = carry_out(&plan, &args.topic, since.as_millis() as i64, really);
        done.or_else(|error| failed(error.to_string()))
    };
    let would = carry(false)?;
    let shown = |done: &Done, changed: bool| match args.json {
        true => out::json(&as_json(&copies, &plan, done, changed)),
        false => out::line(&in_words(&plan, done)),
    };
    if args.dry_run {
        shown(&would, false);
        return Ok(());
    }
    if !args.json {
        shown(&would, false);
    }
    if !args.yes {
        agreed()?;
    }
    let done = carry(true)?;
    match args.json {
        true => shown(&done, true),
        false => out::line(&afterwards(&plan)),
    }
    Ok(())
}

/// What each directory holds.
fn table(copies: &[Copied]) -> String {
    let head = ["Directory", "Node", "Epoch", "LogEnd", "LogEpoch", "Committed", "Voters", "State"];
    let row = |copy: &Copied| {
        let directory = copy.directory.display().to_string();
        match &copy.found {
            Err(_) => {
                let none = || "-".to_owned();
                vec![directory, none(), none(), none(), none(), none(), none(), "unusable".into()]
            }
            Ok(facts) => {
                let ids: Vec<String> = facts.voter_ids().iter().map(ToString::to_string).collect();
                vec![
                    directory,
                    facts.meta.node.to_string(),
                    facts.epoch.to_string(),
                    facts.last.offset.to_string(),
                    facts.last.epoch.to_string(),
                    format!("{}+", facts.committed),
                    ids.join(","),
                    if facts.damage.is_empty() { "whole" } else { "damaged" }.into(),
                ]
            }
        }
    };
    let rows: Vec<Vec<String>> = copies.iter().map(row).collect();
    let mut text = out::table(&head, &rows);
    for copy in copies {
        let directory = copy.directory.display();
        match &copy.found {
            Err(why) => text += &format!("\n{directory}: {why}"),
            Ok(facts) => {
                facts.damage.iter().for_each(|what| text += &format!("\n{directory}: {what}"));
            }
        }
    }
    text
}

/// Refuses while a leader of this cluster answers at any address that is known.
fn nobody_leads(args: &Args, copies: &[Copied], plan: &Plan) -> Outcome {
    let found = copies.iter().filter_map(|copy| copy.found.as_ref().ok());
    let logged = found.flat_map(|facts| facts.voters.iter()).flat_map(|voter| &voter.endpoints);
    let logged = logged.map(|at| HostPort { host: at.host.clone(), port: at.port });
    let named = plan.voters.iter().map(|voter| voter.at.clone());
    let old: Vec<HostPort> = args.peers.iter().cloned().chain(logged).collect();
    let alone = |facts: &Facts| facts.voter_ids() == [facts.meta.node];
    if old.is_empty() && !args.no_peers && !alone(&plan.chosen.facts) {
        return failed(
            "nothing on disk says where the other voters listened, so nobody can be asked whether the quorum still \
             lives: name them with --peers HOST:PORT,…, or say --no-peers if all of them are gone or stopped",
        );
    }
    let mut all: Vec<HostPort> = old.into_iter().chain(named).collect();
    all.sort();
    all.dedup();
    let cluster = &plan.chosen.facts.meta.cluster;
    let mut nobody = Vec::new();
    for at in &all {
        match block_on(async { Ok(ask(at).await) })? {
            Asked::Nobody => nobody.push(shown(at)),
            Asked::Leads(quorum) if quorum.cluster == *cluster => {
                return failed(format!(
                    "the quorum lives: {} says that node {} leads epoch {} of the cluster {cluster}. Nothing was \
                     changed. Two quorums of one cluster would both go on from the same log; change voters \
                     through the leader, or stop that quorum first",
                    shown(at),
                    quorum.leader,
                    quorum.epoch
                ));
            }
            Asked::Leads(quorum) => out::warning(&format!(
                "at {} a node of another cluster leads now: {}",
                shown(at),
                quorum.cluster
            )),
            Asked::NoLeader(why) => out::warning(&format!(
                "a controller runs: {why}; if it is one of the old voters, stop it before the recovered node starts"
            )),
            Asked::Mute(why) if args.no_peers => out::warning(&why),
            Asked::Mute(why) => {
                return failed(format!(
                    "{why}\nSo nobody can say whether a leader is left. Nothing was changed. If all old voters are gone or \
                     stopped, say so with --no-peers",
                ));
            }
        }
    }
    if !nobody.is_empty() {
        out::note(&format!("nobody answers at {}", nobody.join(", ")));
    }
    Ok(())
}

/// What is at an address.
enum Asked {
    Nobody,
    Leads(Quorum),
    NoLeader(String),
    /// It takes connections and cannot be asked.
    Mute(String),
}

async fn ask(at: &HostPort) -> Asked {
    // Who cannot be connected to leads nobody from there; who takes the connection might.
    let connected = timeout(CONNECT_TIME, TcpStream::connect((at.host.as_str(), at.port))).await;
    if !matches!(connected, Ok(Ok(_))) {
        return Asked::Nobody;
    }
    match describe(std::slice::from_ref(at)).await {
        Ok(quorum) => Asked::Leads(quorum),
        Err(Silence::NoLeader(why)) => Asked::NoLeader(why),
        Err(Silence::Nobody(why) | Silence::Wrong(why)) => Asked::Mute(why),
    }
}

/// The plan, a line a fact.
fn in_words(plan: &Plan, done: &Done) -> String {
    let facts = &plan.chosen.facts;
    let directory = plan.chosen.directory.display();
    let voters: Vec<String> = plan.voters.iter().map(ToString::to_string).collect();
    let mut lines = vec![
        format!(
            "\n{directory} counts: node {} of the cluster {}, {} records up to offset {}",
            facts.meta.node,
            facts.meta.cluster,
            if facts.damage.is_empty() { "its" } else { "what is right of its damaged" },
            facts.last.offset
        ),
        format!("new voters, in epoch {}: {}", plan.epoch, voters.join(", ")),
    ];
    if facts.voters.is_empty() {
        lines.push(
            "the voters are in the log from now on (kraft.version 1), and controller.quorum.voters counts no more"
                .into(),
        );
    }
    if plan.voters.len().is_multiple_of(2) {
        lines.push(format!(
            "{} voters survive the loss of {}, as {} would: use an odd number",
            plan.voters.len(),
            plan.voters.len() / 2 - 1,
            plan.voters.len() - 1
        ));
    }
    lines.push(match plan.loss {
        None => "nothing is lost, if these directories are as the nodes left them: a majority of the old voters is \
                 among them"
            .into(),
        Some(from) => format!(
            "LOST: records from offset {from} on that are in none of these directories. Offsets {from} to {} and \
             epochs up to {} are not given out again",
            done.end.0 - 1,
            plan.epoch
        ),
    });
    lines.extend(plan.beyond.iter().map(|other| {
        format!(
            "{} holds records that do not count: format it anew before its node starts",
            other.display()
        )
    }));
    if plan.loss.is_some() && plan.skip < LEAP {
        lines.push(format!(
            "only {} offsets are passed over: what was written beyond them and is lost would get its version anew",
            plan.skip
        ));
    }
    lines.push("files that change, and where they are kept:".into());
    lines.extend(done.kept.iter().map(|(path, copy)| format!("  {path} -> {copy}")));
    lines.join("\n")
}

/// What is to be done when it is done.
fn afterwards(plan: &Plan) -> String {
    let facts = &plan.chosen.facts;
    let node = facts.meta.node;
    let old: Vec<String> = facts
        .voter_ids()
        .iter()
        .filter(|id| plan.voters.iter().all(|voter| voter.id != **id))
        .map(ToString::to_string)
        .collect();
    let mut text = format!(
        "\n{} is recovered. Start node {node} on it, with controller.quorum.bootstrap.servers naming the new voters{}.",
        plan.chosen.directory.display(),
        match plan.voters.len() {
            1 => "",
            _ => "; it leads once a majority of them runs",
        }
    );
    if !old.is_empty() {
        text += &format!(
            "\nNever start what is left of node {} again: its directory still names the old voters, and a majority of \
             those would be a second quorum. Format it anew with --no-initial-controllers, start it, and add it with `quorate quorum add`.",
            old.join(" and of node ")
        );
    }
    text
}

fn as_json(copies: &[Copied], plan: &Plan, done: &Done, changed: bool) -> Value {
    let copy = |copy: &Copied| match &copy.found {
        Err(why) => json!({ "directory": copy.directory, "unusable": why }),
        Ok(facts) => json!({
            "directory": copy.directory,
            "node": facts.meta.node.0,
            "epoch": facts.epoch.0,
            "logEnd": facts.last.offset.0,
            "logEpoch": facts.last.epoch.0,
            "committedAtLeast": facts.committed.0,
            "voters": facts.voter_ids().iter().map(|id| id.0).collect::<Vec<_>>(),
            "kraftVersion": facts.version,
            "damage": facts.damage,
        }),
    };
    json!({
        "copies": copies.iter().map(copy).collect::<Vec<_>>(),
        "use": plan.chosen.directory,
        "cluster": plan.chosen.facts.meta.cluster,
        "epoch": plan.epoch.0,
        "voters": plan.voters.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "lostFrom": plan.loss.map(|from| from.0),
        "resumesAt": done.end.0,
        "kept": done.kept.iter().map(|(_, copy)| copy).collect::<Vec<_>>(),
        "changed": changed,
    })
}

/// A person says yes, or nothing is changed.
fn agreed() -> Outcome {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Failure::Usage(
            "nobody is there to be asked: look at the plan with --dry-run, then run this with --yes".into(),
        ));
    }
    out::note("write yes to do this: ");
    let mut answer = String::new();
    let read = stdin.lock().read_line(&mut answer);
    match read {
        Ok(_) if answer.trim() == "yes" => Ok(()),
        Ok(_) | Err(_) => failed("nothing was changed"),
    }
}
