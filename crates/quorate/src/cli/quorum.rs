//! `quorate quorum`: who leads, who lags, from the status pages of the nodes; and who votes.
//!
//! Words and columns are those of Kafka's own quorum tool where it has them. What only the leader
//! knows is taken from the node that leads in the highest epoch; if none of those asked leads, that
//! is said. With `--bootstrap` the leader is asked over Kafka's protocol instead, in `protocol.rs`:
//! the same facts of any quorum, Kafka's too.

mod change;
mod course;
mod patience;
mod plan;
mod protocol;
mod report;
mod resign;
mod upgrade;
mod voters;

use super::client::{Ask, MUTE, NOBODY, Nodes, Silence, Url, ask_one};
use super::controllers::server;
use super::{Outcome, block_on, failed, out};
use clap::{Parser, Subcommand};
use quorate::HostPort;
use quorate_node::status::{ReplicaStatus, Status};
use serde_json::json;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::timeout;

/// See who leads and how far everyone is; change who votes
#[derive(Parser)]
#[command(after_help = "\
Examples:
  quorate quorum status
  quorate quorum replication --http http://a:7101,http://b:7101,http://c:7101
  quorate quorum add 4@d:9093
  quorate quorum status --bootstrap controller1:9093      of any quorum, Kafka's too
  quorate quorum status --json

Words and columns are those of Kafka's kafka-metadata-quorum. Without --bootstrap every node is asked
over HTTP what it knows; with it, the leader over Kafka's protocol.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The quorum as a whole, and each node that was asked
    #[command(after_help = "\
Examples:
  quorate quorum status
  quorate quorum status --bootstrap c1:9093,c2:9093,c3:9093")]
    Status(Common),
    /// Every replica as the leader sees it
    #[command(after_help = "\
Examples:
  quorate quorum replication
  quorate quorum replication --bootstrap c1:9093 --json")]
    Replication(Common),
    /// Make a voter of a node that copies the log
    #[command(after_help = "\
The node runs already: formatted with --no-initial-controllers, it copies the log as an observer.

Examples:
  quorate quorum add 4@d:9093
  quorate quorum add 4@d:9093 --bootstrap a:9093,b:9093     of any quorum, Kafka's (3.9 and later) too")]
    Add(voters::Add),
    /// Take its vote from a node; it goes on as an observer until it is stopped
    #[command(after_help = "\
Examples:
  quorate quorum remove 3
  quorate quorum remove 3 --dry-run")]
    Remove(voters::Remove),
    /// Add and remove, step by step, until exactly these vote
    #[command(after_help = "\
The plan is told first. Stopped halfway, the same command goes on where it ended.

Examples:
  quorate quorum alter --voters 1,2,4@d:9093
  quorate quorum alter --voters 1,2,4@d:9093 --dry-run")]
    Alter(voters::Alter),
    /// Let a voter's new directory take the place of the one that it lost
    #[command(after_help = "\
The node runs with its new directory already, formatted with --no-initial-controllers.

Examples:
  quorate quorum replace-disk 3")]
    ReplaceDisk(voters::ReplaceDisk),
    /// Let another voter lead, before the leader is stopped or since another one should
    #[command(after_help = "\
The leader takes nothing new, commits what it has taken, and makes way. The command waits until another node leads.

Examples:
  quorate quorum resign
  quorate quorum resign --http http://a:7101,http://b:7101,http://c:7101")]
    Resign(resign::Resign),
    /// Use what every voter can by now: the voters in the log, the newest format level
    #[command(after_help = "\
kraft.version 1: the log names the voters, where the files of the nodes did, and they can be added and removed while
the quorum runs. quorate.format: the store uses what the newest build can; older builds stop themselves from then on.
There is no way back from either. The plan is told first. Every voter has to have told the leader what it is and speaks,
which it does within a few seconds of following it.

Examples:
  quorate quorum upgrade --dry-run
  quorate quorum upgrade --bootstrap a:9093     of Kafka's quorum: as kafka-features upgrade --feature kraft.version=1")]
    Upgrade(upgrade::Upgrade),
}

#[derive(clap::Args)]
struct Common {
    #[command(flatten)]
    nodes: Nodes,
    /// Ask the controllers of any quorum instead, Kafka's (3.7 and later) or Quorate's: HOST:PORT
    /// of their listeners, several with commas between; one that answers will do
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', value_parser = server)]
    bootstrap: Vec<HostPort>,
    /// Print facts as JSON
    #[arg(long)]
    json: bool,
}

/// A follower that runs fetches again within half a second, unless its settings say otherwise.
const SILENT_MS: u64 = 5_000;

/// One node that was asked.
struct Asked {
    url: Url,
    said: Result<Status, String>,
}

/// Runs `quorate quorum …`.
pub(crate) fn quorum(args: Args) -> Outcome {
    block_on(async {
        match args.command {
            Command::Status(common) if common.bootstrap.is_empty() => status(&common).await,
            Command::Replication(common) if common.bootstrap.is_empty() => {
                replication(&common).await
            }
            Command::Status(Common { bootstrap, json, .. }) => {
                protocol::status(&bootstrap, json).await
            }
            Command::Replication(Common { bootstrap, json, .. }) => {
                protocol::replication(&bootstrap, json).await
            }
            Command::Add(args) => voters::add(args).await,
            Command::Remove(args) => voters::remove(args).await,
            Command::Alter(args) => voters::alter(args).await,
            Command::Resign(args) => resign::resign(args).await,
            Command::Upgrade(args) => upgrade::upgrade(args).await,
            Command::ReplaceDisk(args) => voters::replace_disk(args).await,
        }
    })
}

/// Asks all nodes at once; fails if none of them answers.
async fn ask_all(nodes: &Nodes) -> Outcome<Vec<Asked>> {
    ask_all_within(nodes, None).await
}

/// The same, with no more time for each of them than this.
async fn ask_all_within(nodes: &Nodes, limit: Option<Duration>) -> Outcome<Vec<Asked>> {
    let asking = nodes.urls()?.into_iter().map(|url| {
        let of = url.clone();
        let ask = async move {
            let Some(limit) = limit else { return ask_status(&of).await };
            let silent = || {
                let s = limit.as_secs_f64().ceil();
                Err(Silence::Broken(format!("did not answer within {s} s")))
            };
            timeout(limit, ask_status(&of)).await.unwrap_or_else(|_| silent())
        };
        (url, tokio::spawn(ask))
    });
    let (mut asked, mut nobody, mut mute) = (Vec::new(), true, false);
    for (url, said) in asking.collect::<Vec<_>>() {
        let said = said.await.unwrap_or_else(|error| Err(Silence::Broken(error.to_string())));
        nobody &= matches!(said, Err(Silence::NoConnection(_)));
        mute |= matches!(said, Err(Silence::Broken(_)));
        asked.push(Asked { url, said: said.map_err(|silence| silence.to_string()) });
    }
    if asked.iter().all(|asked| asked.said.is_err()) {
        let silent = asked
            .iter()
            .filter_map(|asked| Some(format!("{}: {}", asked.url, asked.said.as_ref().err()?)));
        return failed(format!(
            "none of these nodes answers\n  {}\n{}",
            silent.collect::<Vec<_>>().join("\n  "),
            match (nobody, mute) {
                (true, _) => NOBODY,
                (false, true) => MUTE,
                (false, false) => "They say what keeps them; look at their logs.",
            }
        ));
    }
    Ok(asked)
}

/// One node's status page.
pub(crate) async fn ask_status(url: &Url) -> Result<Status, Silence> {
    let answer = ask_one(url, &Ask::get("/status")).await?;
    match answer.status.is_success() {
        true => serde_json::from_slice(&answer.body).map_err(|error| {
            Silence::Refused(format!("its status is in no form known here: {error}"))
        }),
        false => Err(Silence::Refused(answer.message())),
    }
}

/// The node that knows most: the leader of the highest epoch, else whoever has seen the highest
/// epoch.
fn best(asked: &[Asked]) -> Option<&Status> {
    let known = asked.iter().filter_map(|asked| asked.said.as_ref().ok());
    known.max_by_key(|status| (leads(status), status.epoch))
}

fn leads(status: &Status) -> bool {
    status.role == "leader"
}

async fn status(common: &Common) -> Outcome {
    let asked = ask_all(&common.nodes).await?;
    let Some(best) = best(&asked) else { return failed("no node answered") };
    if common.json {
        let nodes: Vec<_> = asked.iter().map(node_json).collect();
        out::json(&json!({
            "cluster": best.cluster, "leader": best.leader,
            "leader_answers": best.leader.and_then(|leader| Leader::find(leader, &asked).answers()),
            "epoch": best.epoch,
            "high_watermark": best.high_watermark, "voters": best.voters, "nodes": nodes,
        }));
        return Ok(());
    }
    let leader = best.leader.map_or("none".into(), |leader| leader_text(leader, &asked));
    out::line(&whole(best, leader));
    let head =
        ["NodeId", "Role", "Epoch", "HighWatermark", "LogEndOffset", "Applied", "Ready", "Address"];
    let rows: Vec<Vec<String>> = asked.iter().map(node_row).collect();
    out::line(&format!("\n{}", out::table(&head, &rows)));
    let reasons = asked.iter().filter_map(|asked| {
        let status = asked.said.as_ref().ok()?;
        let why = readiness(status).1?;
        let node = status.node.map_or_else(|| asked.url.to_string(), |node| format!("Node {node}"));
        Some(format!("\n{node}: {why}"))
    });
    let reasons: String = reasons.collect();
    if !reasons.is_empty() {
        out::line(&reasons);
    }
    Ok(())
}

fn whole(best: &Status, leader: String) -> String {
    let followers = || best.replicas.iter().filter(|replica| replica.status == "follower");
    let only_leader = |number: Option<u64>| match leads(best) {
        true => number.map_or("unknown".to_owned(), |number| number.to_string()),
        false => "known to the leader only".to_owned(),
    };
    // Who lags most; of whom nothing is known may lag by any time.
    let most = followers().min_by_key(|replica| {
        (replica.log_end, Reverse(replica.last_caught_up_ms.unwrap_or(u64::MAX)))
    });
    let (lag, lag_ms) = most.map_or((Some(0), Some(0)), |most| (most.lag, most.last_caught_up_ms));
    let silent = if leads(best) { silent(followers()) } else { String::new() };
    let voters: Vec<String> =
        best.voters.iter().map(|voter| format!("{}@{}", voter.node, voter.endpoint)).collect();
    let observers = best.replicas.iter().filter(|replica| replica.status == "observer");
    let observers: Vec<String> = observers.map(|replica| replica.node.to_string()).collect();
    let rows = [
        ("ClusterId:", best.cluster.clone()),
        ("LeaderId:", leader),
        ("LeaderEpoch:", best.epoch.to_string()),
        ("HighWatermark:", optional(best.high_watermark)),
        ("MaxFollowerLag:", only_leader(lag) + &silent),
        ("MaxFollowerLagTimeMs:", only_leader(lag_ms)),
        ("CurrentVoters:", format!("[{}]", voters.join(", "))),
        ("CurrentObservers:", format!("[{}]", observers.join(", "))),
    ];
    let level = best.format_level.map(|level| ("FormatLevel:", level_text(best, level)));
    let rows = rows.into_iter().chain(level);
    rows.map(|(name, value)| format!("{name:<22}{value}")).collect::<Vec<_>>().join("\n")
}

/// The format level, and who speaks another newest one than the node that says this, or did not
/// tell its leader.
fn level_text(best: &Status, level: u16) -> String {
    let newest = best.newest_format_level;
    let others = best.replicas.iter().filter(|replica| replica.newest_format_level != Some(newest));
    let others = others.map(|replica| match replica.newest_format_level {
        Some(newest) => format!("node {} up to {newest}", replica.node),
        None => format!("node {} does not tell", replica.node),
    });
    let mut hints: Vec<String> = others.collect();
    if newest != level || !hints.is_empty() {
        hints.insert(0, format!("spoken up to {newest}"));
    }
    match hints.is_empty() {
        true => level.to_string(),
        false => format!("{level} ({})", hints.join(", ")),
    }
}

/// Who fetches nothing: nobody knows how it is, and a lag of 0 says that nothing was written since.
fn silent<'a>(followers: impl Iterator<Item = &'a ReplicaStatus>) -> String {
    let silent: Vec<String> = followers
        .filter(|follower| follower.last_fetch_ms.is_none_or(|ms| ms > SILENT_MS))
        .map(|follower| match follower.last_fetch_ms {
            Some(ms) => format!("node {} has not fetched for {} s", follower.node, ms / 1_000),
            None => format!("node {} has not fetched from this leader", follower.node),
        })
        .collect();
    match silent.is_empty() {
        true => String::new(),
        false => format!(" ({})", silent.join(", ")),
    }
}

/// What the node that is named as the leader says itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leader {
    /// It answered, and leads.
    Leads,
    /// It answered, and does not lead any more.
    Resigned,
    /// It must be one of the addresses that gave no answer: all voters were asked.
    Silent,
    /// Some voter was not asked, and some address gave no answer: it may be either.
    SilentOrNotAsked,
    /// All that were asked answered, and it is none of them.
    NotAsked,
}

impl Leader {
    fn find(leader: u32, asked: &[Asked]) -> Leader {
        let heard: Vec<&Status> =
            asked.iter().filter_map(|asked| asked.said.as_ref().ok()).collect();
        if let Some(own) = heard.iter().find(|status| status.node == Some(leader)) {
            return if leads(own) { Leader::Leads } else { Leader::Resigned };
        }
        // Which node an address belongs to only an answer tells.
        let silent = asked.iter().filter(|asked| asked.said.is_err());
        let silent = silent.map(|asked| asked.url.to_string()).collect::<BTreeSet<_>>().len();
        let voters = best(asked).map_or(&[][..], |status| &status.voters);
        let unheard = |node: u32| heard.iter().all(|status| status.node != Some(node));
        match silent {
            0 => Leader::NotAsked,
            _ if silent >= voters.iter().filter(|voter| unheard(voter.node)).count() => {
                Leader::Silent
            }
            _ => Leader::SilentOrNotAsked,
        }
    }

    /// Whether it answers; `None` if that is not known.
    fn answers(self) -> Option<bool> {
        match self {
            Leader::Leads | Leader::Resigned => Some(true),
            Leader::Silent => Some(false),
            Leader::SilentOrNotAsked | Leader::NotAsked => None,
        }
    }
}

fn leader_text(leader: u32, asked: &[Asked]) -> String {
    match Leader::find(leader, asked) {
        Leader::Leads => leader.to_string(),
        Leader::Resigned => format!("{leader} (does not lead any more)"),
        Leader::Silent => format!("{leader} (does not answer)"),
        Leader::SilentOrNotAsked => format!("{leader} (does not answer, or was not asked)"),
        Leader::NotAsked => format!("{leader} (was not asked)"),
    }
}

fn optional(number: Option<u64>) -> String {
    number.map_or("unknown".into(), |number| number.to_string())
}

fn node_row(asked: &Asked) -> Vec<String> {
    let url = asked.url.to_string();
    match &asked.said {
        Err(why) => {
            let dash = || "-".to_owned();
            vec![
                dash(),
                dash(),
                dash(),
                dash(),
                dash(),
                dash(),
                "no".into(),
                format!("{url} ({why})"),
            ]
        }
        Ok(status) => vec![
            status.node.map_or("-".into(), |node| node.to_string()),
            status.role.clone(),
            status.epoch.to_string(),
            optional(status.high_watermark),
            status.log_end.to_string(),
            status.applied.to_string(),
            match readiness(status) {
                (ready, None) => ready.to_owned(),
                (ready, Some(_)) => format!("{ready}, see below"),
            },
            url,
        ],
    }
}

/// Whether it serves, why it does not, and what is unusual all the same.
fn readiness(status: &Status) -> (&'static str, Option<String>) {
    let ready = if status.ready { "yes" } else { "no" };
    let why = status.not_ready_because.clone().filter(|_| !status.ready);
    let full = match (&status.disk_full, &status.too_many_full) {
        (Some(_), _) => Some("its disk is full".to_owned()),
        (None, Some(_)) => Some("too many others' disks are full".to_owned()),
        (None, None) => None,
    };
    // Why it does not serve says that too.
    let damaged = status.must_reach.filter(|_| why.is_none()).map(|reach| {
        format!(
            "its log was damaged, and until it is back at offset {} it votes only for a node that \
             holds as much, and is not elected",
            reach.offset
        )
    });
    let copies = status.download.map(|load| match load.total_bytes {
        Some(total) => format!("it copies a snapshot: {} of {total} bytes", load.bytes),
        None => "it copies a snapshot".to_owned(),
    });
    let again = status.download.filter(|load| load.begun_anew > 0).map(|load| {
        format!(
            "it began that anew {} times, as the leader had removed it meanwhile",
            load.begun_anew
        )
    });
    let words = [why, full, damaged, copies, again].into_iter().flatten();
    let words = words.collect::<Vec<_>>().join("; ");
    (ready, Some(words).filter(|words| !words.is_empty()))
}

fn node_json(asked: &Asked) -> serde_json::Value {
    match &asked.said {
        Ok(status) => json!({ "url": asked.url.to_string(), "status": status }),
        Err(why) => json!({ "url": asked.url.to_string(), "silent": why }),
    }
}

async fn replication(common: &Common) -> Outcome {
    let asked = ask_all(&common.nodes).await?;
    let Some(leader) = best(&asked).filter(|status| leads(status)) else {
        let hint = match best(&asked).and_then(|status| status.leader) {
            Some(leader) => format!(
                "node {leader} led as far as is known, but none of the nodes that answer is it: name \
                 it with --http, or see with `quorate quorum status` who runs"
            ),
            None => "no leader is known: check that a majority of the voters runs".into(),
        };
        return failed(format!("only the leader knows how far the others are; {hint}"));
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64);
    show_replicas(leader, now, common.json);
    Ok(())
}

/// Every replica as the leader sees it; `now_ms` is the time of day there.
fn show_replicas(leader: &Status, now_ms: u64, as_json: bool) {
    if as_json {
        return out::json(
            &json!({ "leader": leader.leader, "epoch": leader.epoch, "replicas": leader.replicas }),
        );
    }
    let head = [
        "NodeId",
        "DirectoryId",
        "LogEndOffset",
        "Lag",
        "LastFetchTimestamp",
        "LastCaughtUpTimestamp",
        "Status",
    ];
    let rows: Vec<Vec<String>> =
        leader.replicas.iter().map(|replica| replica_row(replica, now_ms)).collect();
    out::line(&out::table(&head, &rows));
}

fn replica_row(replica: &ReplicaStatus, now_ms: u64) -> Vec<String> {
    // -1 is how Kafka's tool says "not known".
    let number = |number: Option<u64>| number.map_or("-1".into(), |number| number.to_string());
    let moment = |ago_ms: Option<u64>| number(ago_ms.map(|ago_ms| now_ms.saturating_sub(ago_ms)));
    vec![
        replica.node.to_string(),
        replica.directory.clone().unwrap_or_else(|| "AAAAAAAAAAAAAAAAAAAAAA".into()),
        number(replica.log_end),
        number(replica.lag),
        moment(replica.last_fetch_ms),
        moment(replica.last_caught_up_ms),
        capitalized(&replica.status),
    ]
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_node::status::{DownloadStatus, PlaceInLog};

    #[test]
    fn the_lag_is_that_of_whoever_lags_most() {
        let replica = |status: &str, log_end, caught_up| ReplicaStatus {
            node: 1,
            directory: None,
            status: status.into(),
            log_end,
            lag: log_end.map(|end: u64| 9 - end),
            last_fetch_ms: Some(400),
            last_caught_up_ms: caught_up,
            newest_format_level: None,
        };
        for (followers, lag, lag_ms) in [
            (&[][..], "0", "0"),
            (&[(Some(9), Some(4))], "0", "4"),
            (&[(Some(9), Some(4)), (Some(9), Some(7))], "0", "7"),
            (&[(Some(9), Some(4)), (Some(6), Some(50))], "3", "50"),
            (&[(Some(9), Some(4)), (Some(8), None)], "1", "unknown"),
            (&[(None, None), (Some(8), Some(3))], "unknown", "unknown"),
        ] {
            let rows = followers.iter().map(|(end, ago)| replica("follower", *end, *ago));
            let own = replica("leader", Some(9), Some(0));
            let replicas = std::iter::once(own).chain(rows).collect();
            let status = Status { role: "leader".into(), replicas, ..Status::default() };
            let printed = whole(&status, "1".into());
            let value = |name: &str| {
                let line = printed.lines().find_map(|line| line.strip_prefix(name));
                line.map(str::trim).unwrap_or_default().to_owned()
            };
            let told = (value("MaxFollowerLag:"), value("MaxFollowerLagTimeMs:"));
            assert_eq!(told, (lag.to_owned(), lag_ms.to_owned()), "{followers:?}");
        }
    }

    #[test]
    fn beside_the_lag_it_is_said_who_fetches_nothing() {
        let follower = |node, last_fetch_ms| ReplicaStatus {
            node,
            directory: None,
            status: "follower".into(),
            log_end: Some(9),
            lag: Some(0),
            last_fetch_ms,
            last_caught_up_ms: Some(4),
            newest_format_level: Some(1),
        };
        let replicas = vec![follower(2, Some(43_210)), follower(3, Some(4_900)), follower(4, None)];
        let status = Status { role: "leader".into(), replicas, ..Status::default() };
        let lag = "\nMaxFollowerLag:       0 (node 2 has not fetched for 43 s, node 4 has not fetched from this leader)\n";
        let printed = whole(&status, "1".into());
        assert!(printed.contains(lag), "{printed}");
        let who_follows = Status { role: "follower".into(), ..status };
        assert!(!whole(&who_follows, "1".into()).contains("fetched"));
    }

    #[test]
    fn beside_the_format_level_it_is_said_who_speaks_another() {
        let replica = |node, newest_format_level| ReplicaStatus {
            node,
            directory: None,
            status: "follower".into(),
            log_end: None,
            lag: None,
            last_fetch_ms: None,
            last_caught_up_ms: None,
            newest_format_level,
        };
        let status = |level, newest, replicas| Status {
            role: "leader".into(),
            format_level: level,
            newest_format_level: newest,
            replicas,
            ..Status::default()
        };
        let level = |status: Status| {
            let printed = whole(&status, "1".into());
            let line = printed.lines().find_map(|line| line.strip_prefix("FormatLevel:"));
            line.map(|line| line.trim().to_owned())
        };
        assert_eq!(level(status(None, 0, vec![])), None);
        assert_eq!(level(status(Some(1), 1, vec![replica(2, Some(1))])).unwrap(), "1");
        let mixed = vec![replica(1, Some(1)), replica(2, Some(0)), replica(3, None)];
        let told = "0 (spoken up to 1, node 2 up to 0, node 3 does not tell)";
        assert_eq!(level(status(Some(0), 1, mixed)).unwrap(), told);
    }

    #[test]
    fn what_is_unusual_stands_beside_whether_a_node_serves() {
        let mut status = Status { ready: true, ..Status::default() };
        assert_eq!(readiness(&status), ("yes", None));
        let id = PlaceInLog { offset: 70, epoch: 3 };
        status.must_reach = Some(id);
        let (ready, why) = readiness(&status);
        let why = why.unwrap_or_default();
        assert!(ready == "yes" && why.contains("back at offset 70"), "{why}");
        status.ready = false;
        status.not_ready_because = Some("catching up; its log was damaged".into());
        status.download =
            Some(DownloadStatus { id, bytes: 5, total_bytes: Some(9), begun_anew: 0 });
        let told = "catching up; its log was damaged; it copies a snapshot: 5 of 9 bytes";
        assert_eq!(readiness(&status), ("no", Some(told.to_owned())));
    }
}
