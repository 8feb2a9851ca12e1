//! `quorate recover`: what the library's `recover` finds, plans and does, said to a person.
//!
//! Asks the old voters first, as far as anybody can say where they were: where one of them leads
//! there is nothing to recover. Changes nothing before the plan was printed and agreed to.

use super::controllers::{Quorum, Silence, describe, server, shown};
use super::{Failure, Outcome, block_on, failed, out};
use clap::Parser;
use quorate::HostPort;
use quorate::Uuid;
use quorate::recover::{
    BadVoter, Copied, Done, Facts, LEAP, NewVoter, Plan, Topic, Wish, carry_out, plan, survey,
};
use quorate_log::{Lock, OsDisk};
use serde_json::{Value, json};
use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};
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
    /// Its id, quorate.topic.id, where partition.metadata is missing or damaged
    #[arg(long, value_name = "ID", default_value_t = Uuid::METADATA_TOPIC)]
    topic_id: Uuid,
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

fn voter(text: &str) -> Result<NewVoter, BadVoter> {
    text.trim().parse()
}

/// Runs `quorate recover`.
pub(crate) fn recover(args: Args) -> Outcome {
    let directories = distinct(&args)?;
    let wanted = wanted(&args, &directories)?;
    let topic = Topic { name: args.topic.clone(), id: args.topic_id };
    // Held to the end: what is looked at must not change, and no node may run on it.
    let mut locks = Vec::new();
    for directory in &directories {
        locks.push(OsDisk::lock_to_read(directory).or_else(|error| failed(error.to_string()))?);
    }
    let copies: Vec<Copied> =
        directories.iter().map(|directory| survey(directory, &topic)).collect();
    if !args.json {
        out::line(&table(&copies));
    }
    let wish = Wish {
        directory: wanted,
        voters: args.voters.clone(),
        listener: args.listener.clone(),
        skip: args.skip_offsets,
    };
    let plan = plan(&copies, &wish).or_else(|error| failed(error.to_string()))?;
    nobody_leads(&args, &copies, &plan)?;
    warn_of_the_absent(&copies, &plan);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let carry = |really| {
        let done = carry_out(&plan, &topic, since.as_millis() as i64, really);
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
    let _locks = take(locks, &copies, &plan, &topic)?;
    let done = carry(true)?;
    match args.json {
        true => shown(&done, true),
        false => out::line(&afterwards(&plan)),
    }
    Ok(())
}

/// A voter that comes back with an empty disk is another one, and does not count.
fn warn_of_the_absent(copies: &[Copied], plan: &Plan) {
    let absent = plan.absent(copies);
    for voter in &absent {
        let (id, directory) = (voter.id, voter.directory);
        out::warning(&format!(
            "node {id} is to vote with the directory {directory}, of which no copy is given here: it does so only if \
             that directory is still on its machine. If it is lost, leave the node out of --voters and let it join \
             afterwards with an empty one (quorate.join)"
        ));
    }
    let there = plan.voters.len() - absent.len();
    if there <= plan.voters.len() / 2 {
        out::warning(&format!(
            "of the {} voters only {there} have a directory here: without one of the others nothing is ever committed",
            plan.voters.len()
        ));
    }
}

/// The directories, each once, however its path is written.
fn distinct(args: &Args) -> Outcome<Vec<PathBuf>> {
    args.copies.iter().try_for_each(|copy| super::directory(copy))?;
    let mut known: Vec<PathBuf> = Vec::new();
    for copy in &args.copies {
        match known.iter().find(|other| is_same(other, copy)) {
            Some(other) => out::note(&format!(
                "{} and {} are one directory, and count as one",
                other.display(),
                copy.display()
            )),
            None => known.push(copy.clone()),
        }
    }
    Ok(known)
}

fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    one == other || real(one).is_some_and(|path| real(other) == Some(path))
}

/// The directory that is to count, by the name under which it is one of the copies.
fn wanted(args: &Args, directories: &[PathBuf]) -> Outcome<Option<PathBuf>> {
    let Some(wanted) = &args.wanted else { return Ok(None) };
    match directories.iter().find(|directory| is_same(directory, wanted)) {
        Some(directory) => Ok(Some(directory.clone())),
        None => Err(Failure::Usage(format!(
            "--use {} is none of the directories that are given: name it among them too",
            wanted.display()
        ))),
    }
}

/// Takes the directory that is to be changed for this process alone, and holds the others on.
fn take(mut locks: Vec<Lock>, copies: &[Copied], plan: &Plan, topic: &Topic) -> Outcome<Vec<Lock>> {
    let directory = &plan.chosen.directory;
    drop(locks.remove(plan.chosen.index));
    let lock = OsDisk::lock(directory, "quorate recover");
    locks.push(lock.or_else(|error| failed(error.to_string()))?);
    // Nobody had it for a moment.
    match survey(directory, topic).found == copies[plan.chosen.index].found {
        true => Ok(locks),
        false => failed(format!(
            "{} has changed since it was looked at: see who uses it. Nothing was changed by this command",
            directory.display()
        )),
    }
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
                for what in facts.damage.iter().chain(&facts.replaced) {
                    text += &format!("\n{directory}: {what}");
                }
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
                "a controller runs: {}. If it is one of the old voters, stop it before the recovered node starts",
                why.trim_end_matches('.')
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
    if let Some(begun) = &plan.continues {
        lines.push(format!(
            "a recovery in epoch {} was cut short here: this one goes on with it, and with the loss that it found",
            begun.epoch
        ));
    }
    lines.push(match plan.loss {
        None => "nothing is lost, if these directories are as the nodes left them: a majority of the old voters is \
                 among them"
            .into(),
        Some(from) => format!(
            "MAY BE LOST: records from offset {from} on, where there were any that none of these directories holds. Offsets {from} to {} and \
             epochs up to {} are not given out again",
            done.end.0 - 1,
            plan.epoch
        ),
    });
    lines.extend(plan.before.iter().filter_map(|before| {
        let from = before.lost_from?;
        Some(format!(
            "an earlier recovery, in epoch {}, lost records from offset {from} on up to {}",
            before.epoch, before.resumes_at
        ))
    }));
    lines.extend(plan.beyond.iter().map(|other| {
        format!(
            "{} holds records that do not count: format it anew before its node starts",
            other.display()
        )
    }));
    let passed = plan.loss.map(|from| plan.passed_from(from));
    if let Some(passed) = passed.filter(|passed| *passed < LEAP) {
        lines.push(format!(
            "only {passed} offsets are passed over: what was written beyond them and is lost would get its version anew",
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
            "replaced": facts.replaced,
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
        "continues": plan.continues.as_ref().map(|begun| begun.epoch.0),
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
