//! What `quorate run` does with a directory that nobody has formatted: it refuses it or, where the
//! file says so, makes it the first node of a new cluster or one that joins a cluster.
//!
//! Never makes a voter of a node that joins: that it becomes by the log alone, so that no two
//! quorums of one cluster form by mistake (T40).

use crate::cli::controllers::{Silence, cluster_of, describe, shown};
use crate::cli::ending::Ending;
use crate::cli::{Outcome, failed};
use quorate::settings::{MachineName, Settings, Unformatted};
use quorate::{Bootstrap, Config, Formatted, Formatting, Founders, HostPort, StartError};
use quorate_log::{Error, Meta, OsDisk, lost_or_new};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// How long a node that has its directory already waits for those that it is told to join.
const GLANCE: Duration = Duration::from_secs(2);
/// The pause before servers that gave no answer are asked again.
const PAUSE: Duration = Duration::from_secs(1);
/// How often an operator hears why a node still waits.
const REMINDER: Duration = Duration::from_secs(30);
/// A voter that lives is heard by its leader more often.
const SILENT_MS: i64 = 5_000;

/// Makes the directory of a node ready for its start; false if it was told to end before it was.
pub(super) async fn ready(settings: &Settings, gone: impl Future<Output = ()>) -> Outcome<bool> {
    let config = &settings.config;
    // Before the lock, which writes: where a disk is not mounted nothing may be left.
    let mut disk = OsDisk::new(&config.directory);
    let error = match (Meta::read(&mut disk), &settings.unformatted) {
        (Err(error @ Error::NotFormatted { .. }), _) => {
            lost_or_new(&mut disk, &format!("{}-0", config.topic), error)
        }
        (Ok(meta), Unformatted::Join(servers)) => {
            return belongs(config, &meta, servers).await.map(|()| true);
        }
        // What else is wrong with it is said where the node is opened.
        (Ok(_) | Err(_), _) => return Ok(true),
    };
    match (&error, &settings.unformatted) {
        (Error::NotFormatted { .. }, Unformatted::Begin) => begin(settings).await.map(|()| true),
        (Error::NotFormatted { .. }, Unformatted::Join(servers)) => {
            let Some(mut ending) = Ending::listen() else {
                return join(settings, servers).await.map(|()| true);
            };
            tokio::select! {
                joined = join(settings, servers) => joined.map(|()| true),
                why = ending.told() => { tracing::info!(why, "stopped before it had joined"); Ok(false) }
                () = gone => Ok(false),
            }
        }
        (_, Unformatted::Refuse | Unformatted::Begin | Unformatted::Join(_)) => {
            let directory = config.directory.clone();
            refused(config, &StartError::Log { directory, error }.to_string())
        }
    }
}

/// The node stays down, and why.
pub(super) fn refused<T>(config: &Config, why: &str) -> Outcome<T> {
    let id = config.id.map_or("observer".to_owned(), |id| id.to_string());
    failed(format!("node {id} does not start: {why}"))
}

/// What each of the servers says, all asked at once.
async fn ask(servers: &[HostPort]) -> Vec<(HostPort, Result<String, Silence>)> {
    let asking = servers.iter().map(|server| {
        let at = server.clone();
        (server.clone(), tokio::spawn(async move { cluster_of(&at).await }))
    });
    let mut said = Vec::new();
    for (server, answer) in asking.collect::<Vec<_>>() {
        let answer = answer.await.unwrap_or_else(|error| Err(Silence::Nobody(error.to_string())));
        said.push((server, answer));
    }
    said
}

/// The first node of a new cluster, unless there is one where it would look for others.
async fn begin(settings: &Settings) -> Outcome {
    let config = &settings.config;
    for (server, said) in ask(&config.bootstrap).await {
        let at = shown(&server);
        match said {
            Err(Silence::Nobody(_)) => {}
            Ok(cluster) => {
                return refused(
                    config,
                    &format!(
                        "quorate.bootstrap=true begins a new cluster, and {at}, which controller.quorum.bootstrap.servers \
                         names, is a controller of the cluster {cluster}. If this node shall join that one, write \
                         quorate.join={at} in the place of quorate.bootstrap, also if it was the first node and has lost \
                         its disk; if it shall be the first of another cluster, name that one's nodes in \
                         controller.quorum.bootstrap.servers"
                    ),
                );
            }
            Err(Silence::NoLeader(why) | Silence::Wrong(why)) => {
                return refused(
                    config,
                    &format!(
                        "quorate.bootstrap=true begins a new cluster, and somebody answers at {at}, which \
                         controller.quorum.bootstrap.servers names, who does not say whether there is a cluster already: \
                         {why}. Name the nodes of the new cluster there, or format the directory with \
                         `quorate format --standalone`"
                    ),
                );
            }
        }
    }
    let Formatted { cluster, directory, .. } = format(settings, Founders::Alone, None)?;
    tracing::info!(
        "{} is formatted: node {} is the first of the new cluster {cluster}, its only voter until others are added; \
         the id of this directory is {}",
        config.directory.display(),
        config.id.map_or(0, |id| id.0),
        directory.unwrap_or_default(),
    );
    Ok(())
}

/// A node of the cluster that answers at the servers, which observes at first. Waits for as long as
/// nobody answers: machines start in any order, and names come late.
async fn join(settings: &Settings, servers: &[HostPort]) -> Outcome {
    let mut told: Option<Instant> = None;
    let cluster = loop {
        let why = match found(settings, servers).await? {
            Ok(cluster) => break cluster,
            Err(why) => why,
        };
        if told.is_none_or(|then| then.elapsed() >= REMINDER) {
            tracing::warn!("{why}");
            told = Some(Instant::now());
        }
        sleep(PAUSE).await;
    };
    let config = &settings.config;
    let Formatted { directory, .. } = format(settings, Founders::Asked, Some(cluster.clone()))?;
    let next = match config.auto_join {
        true => "it becomes a voter by itself once it has copied the log \
                 (controller.quorum.auto.join.enable)"
            .to_owned(),
        false => {
            let id = config.id.map_or(0, |id| id.0);
            let at = config.advertised.as_ref().unwrap_or(&config.bind);
            format!("`quorate quorum add {id}@{}` makes a voter of it", shown(at))
        }
    };
    tracing::info!(
        "{} is formatted: node {} joins the cluster {cluster} as an observer, and {next}; the id of this directory is {}",
        config.directory.display(),
        config.id.map_or(0, |id| id.0),
        directory.unwrap_or_default(),
    );
    Ok(())
}

/// The cluster that the servers are of, or why that has to be waited for.
async fn found(settings: &Settings, servers: &[HostPort]) -> Outcome<Result<String, String>> {
    let config = &settings.config;
    let said = ask(servers).await;
    let mut clusters: BTreeMap<&str, &HostPort> = BTreeMap::new();
    for (server, answer) in &said {
        if let Ok(cluster) = answer {
            clusters.entry(cluster).or_insert(server);
        }
    }
    let mut found = clusters.iter();
    let cluster = match (found.next(), found.next()) {
        (Some((one, at)), Some((other, besides))) => {
            return refused(
                config,
                &format!(
                    "quorate.join names controllers of two clusters: {} is of {one}, {} of {other}. Name those of one",
                    shown(at),
                    shown(besides)
                ),
            );
        }
        (Some((cluster, _)), None) => (*cluster).to_owned(),
        (None, _) => {
            let words = |(server, answer): &(HostPort, Result<String, Silence>)| {
                let why = answer.as_ref().map_or_else(Silence::text, String::as_str);
                format!("\n  {}: {why}", shown(server))
            };
            let lines: String = said.iter().map(words).collect();
            return Ok(Err(format!(
                "nobody answers whom quorate.join names{lines}\n\
                 This node has an empty directory and waits until one of them says which cluster it is to join. Start \
                 them, or correct quorate.join: HOST:PORT of the controller listener of a node that runs"
            )));
        }
    };
    // Two nodes with one id, by a file that was copied: this one would take the other's place.
    let own = config.id.and_then(|id| i32::try_from(id.0).ok());
    if let Ok(quorum) = describe(servers).await
        && let Some(voter) = quorum.voters.iter().find(|voter| Some(voter.replica_id) == own)
    {
        let leader = quorum.voters.iter().find(|voter| voter.replica_id == quorum.leader);
        // By the leader's clock, whose own last fetch is now.
        let now = leader.map_or(-1, |leader| leader.last_fetch_timestamp);
        let heard = voter.last_fetch_timestamp;
        let alive = heard >= 0 && now.saturating_sub(heard) < SILENT_MS;
        if voter.replica_id == quorum.leader || alive {
            let id = voter.replica_id;
            return Ok(Err(format!(
                "the cluster {cluster} has a voter {id} that lives, and this node, whose directory is empty, has the same \
                 node.id: give it another one. If it is that voter with a new disk, it joins as soon as the other \
                 process has been silent for {} s",
                SILENT_MS / 1_000
            )));
        }
    }
    Ok(Ok(cluster))
}

/// A directory that was formatted before is not moved into another cluster.
async fn belongs(config: &Config, meta: &Meta, servers: &[HostPort]) -> Outcome {
    // Whoever gives no answer yet may be down with all the others.
    let Ok(said) = timeout(GLANCE, ask(servers)).await else { return Ok(()) };
    let mut other = None;
    for (server, answer) in said {
        match answer {
            Ok(cluster) if cluster == meta.cluster => return Ok(()),
            Ok(cluster) => other = Some((server, cluster)),
            Err(_) => {}
        }
    }
    let Some((server, cluster)) = other else { return Ok(()) };
    let (directory, at) = (config.directory.display(), shown(&server));
    refused(
        config,
        &format!(
            "{directory} belongs to the cluster {}, and {at}, which quorate.join names, is a controller of the cluster \
             {cluster}. Correct quorate.join; or, if this node shall leave its cluster and what it holds, name another \
             directory in log.dirs",
            meta.cluster
        ),
    )
}

fn format(settings: &Settings, founders: Founders, cluster: Option<String>) -> Outcome<Formatted> {
    let bootstrap = match settings.machine {
        MachineName::Kafka => Some(Bootstrap::default()),
        MachineName::Kv => None,
    };
    let others = if bootstrap.is_some() { settings.others.clone() } else { Vec::new() };
    let how = Formatting { cluster, founders, others, bootstrap, ..Formatting::default() };
    match quorate::format_as(&settings.config, &how) {
        Ok(formatted) => Ok(formatted),
        Err(error) => refused(&settings.config, &error.to_string()),
    }
}
