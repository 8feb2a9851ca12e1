//! Controllers of Kafka's, a voter of ours and a broker, each killed at random again and again,
//! while messages are written and topics are made: what was acknowledged is there at the end, and
//! the logs are equal.
//!
//! A run of a minute by default, and of as many as `--minutes` says.

use super::cluster::{BROKER, Company, OURS, Voters};
use crate::java::Running;
use crate::scenario::{Failure, Stage, ensure, seed};
use quorate::Rng;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

const NODES: [u32; 4] = [1, 2, OURS, BROKER];
/// The topic that messages are written to.
const MESSAGES: &str = "messages";
/// A second.
const THROUGHPUT: u32 = 50;

/// The scenario.
pub fn random_kills(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    let (seed, begun) = (seed(), Instant::now());
    let time = Duration::from_secs(60 * stage.minutes);
    println!("kills of seed {seed} for {} min: QUORATE_SEED={seed} repeats them", stage.minutes);
    let mut rng = Rng::new(seed);
    let voters = if rng.one_in(2) { Voters::InLog } else { Voters::InFiles };
    let mut quorum = Company::format(stage, directory, voters)?;
    NODES.iter().try_for_each(|id| quorum.start(*id))?;
    quorum.follow(None)?;
    quorum.create_topic(MESSAGES)?;
    let written = directory.join("written.log");
    let producer = produce(stage, &quorum, &written)?;

    let (mut topics, mut kills) = (vec![MESSAGES.to_owned()], 0);
    while begun.elapsed() < time {
        kills += round(&mut quorum, &mut rng)?;
        let topic = std::format!("topic-{}", topics.len());
        quorum.create_topic(&topic)?;
        topics.push(topic);
    }
    quorum.follow(None)?;
    drop(producer);

    let acknowledged = acknowledged(&written)?;
    println!(
        "{kills} kills in {} s, {} messages and {} topics acknowledged",
        begun.elapsed().as_secs(),
        acknowledged.len(),
        topics.len()
    );
    ensure(kills > 2 && acknowledged.len() > 100, || "hardly anything happened".into())?;
    let found = quorum.topics()?;
    let lost: Vec<&String> = topics.iter().filter(|topic| !found.contains(*topic)).collect();
    ensure(lost.is_empty(), || std::format!("topics are lost: {lost:?}"))?;
    let found = quorum.all_messages(MESSAGES)?;
    let lost: Vec<&String> = acknowledged.difference(&found).collect();
    ensure(lost.is_empty(), || std::format!("{} messages are lost: {lost:?}", lost.len()))?;

    let committed = quorum.committed()?;
    NODES.iter().for_each(|id| quorum.kill(*id));
    quorum.same_logs(committed)?;
    quorum.said_no_error()
}

/// Some are killed, one after the other, and started again in another order.
fn round(quorum: &mut Company<'_>, rng: &mut Rng) -> Result<u32, Failure> {
    let mut victims = NODES.to_vec();
    let how_many = if rng.one_in(5) { NODES.len() } else { 1 + rng.below(2) as usize };
    while victims.len() > how_many {
        victims.remove(rng.below(victims.len() as u64) as usize);
    }
    let mut pause = |most_ms: u64| std::thread::sleep(Duration::from_millis(rng.below(most_ms)));
    for victim in &victims {
        pause(500);
        quorum.kill(*victim);
    }
    pause(4_000);
    while !victims.is_empty() {
        quorum.start(victims.remove(rng.below(victims.len() as u64) as usize))?;
    }
    // A majority is up again; where ours alone has all that is committed it leads meanwhile.
    quorum.follow(None)?;
    Ok(how_many as u32)
}

/// Kafka's own producer for tests, which prints what was acknowledged, and does not send again.
fn produce(stage: &Stage, quorum: &Company<'_>, log: &Path) -> Result<Running, Failure> {
    let (broker, throughput) = (quorum.broker(), THROUGHPUT.to_string());
    let tool = "org.apache.kafka.tools.VerifiableProducer";
    let arguments =
        ["--bootstrap-server", &broker, "--topic", MESSAGES, "--throughput", &throughput];
    stage.kafka.start(tool, &[&arguments[..], &["--acks", "-1"]].concat(), log)
}

fn acknowledged(log: &Path) -> Result<BTreeSet<String>, Failure> {
    let text = std::fs::read_to_string(log)?;
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let sent = lines.filter(|line| line["name"] == "producer_send_success");
    Ok(sent.filter_map(|line| line["value"].as_str().map(str::to_owned)).collect())
}
