//! `quorate recover` on the directories of Kafka's controllers: what it leaves is opened by them,
//! and led.

use super::directories::quorate;
use super::formatting::{Known, Nodes};
use crate::scenario::{Failure, Stage, ensure};
use serde_json::Value;
use std::path::Path;

/// Two of three with static voters are gone; then three with voters in the log have moved.
pub fn kafkas_controllers(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    one_of_three(stage, directory)?;
    three_that_moved(stage, directory)
}

/// What a copy's own dump tool of ours says of its log.
fn dump(stage: &Stage, nodes: &Nodes<'_>, id: usize) -> Result<String, Failure> {
    let folder = nodes.data(id, "kafkas").join("__cluster_metadata-0");
    quorate(stage, &["log", "dump", &folder.display().to_string()])
}

fn recover(stage: &Stage, arguments: &[&str]) -> Result<Value, Failure> {
    let printed = quorate(stage, &[&["recover", "--yes", "--json"], arguments].concat())?;
    Ok(serde_json::from_str(&printed)?)
}

fn one_of_three(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    let nodes = Nodes::new(stage, directory.join("one"), Known::InFiles, 3, 3)?;
    let mut running = Vec::new();
    for id in 1..=3 {
        nodes.by_kafka(id, &["-r", "4.0"])?;
        running.push(nodes.run_kafkas(id, "kafkas")?);
    }
    nodes.kafkas_lead(1, 3)?;
    // One is down, and the two others live.
    running.remove(0);
    nodes.kafkas_lead(2, 3)?;
    let own = nodes.data(1, "kafkas").display().to_string();
    let voter = format!("1@{}", nodes.raft[0]);
    let peers = nodes.raft[1].to_string();
    let refused = recover(stage, &[&own, "--voters", &voter, "--peers", &peers]);
    ensure(refused.is_err_and(|Failure(why)| why.contains("the quorum lives")), || {
        "a quorum of Kafka's that lives was recovered".into()
    })?;
    drop(running);
    let done = recover(stage, &[&own, "--voters", &voter, "--no-peers"])?;
    ensure(done["lostFrom"].is_u64(), || format!("two of three are gone: {done}"))?;
    let whole = quorate(stage, &["log", "verify", &own])?;
    ensure(whole.contains("is whole"), || format!("verify says:\n{whole}"))?;

    let kept = nodes.run_kafkas(1, "kafkas")?;
    nodes.kafkas_lead(1, 1)?;
    drop(kept);
    // It went on behind what we wrote, and has the state of before: it did not begin anew.
    let printed = quorate(stage, &["log", "tail", &own, "--once", "-n", "100"])?;
    let resumes = done["resumesAt"].to_string();
    let begun = printed.contains("BEGIN_TRANSACTION_RECORD");
    ensure(printed.contains(&resumes) && printed.contains("NO_OP_RECORD") && !begun, || {
        format!("it goes on at {resumes}:\n{printed:.6000}")
    })
}

fn three_that_moved(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    let mut nodes = Nodes::new(stage, directory.join("moved"), Known::InLog, 3, 3)?;
    let list = nodes.initial_controllers();
    let mut running = Vec::new();
    for id in 1..=3 {
        nodes.by_kafka(id, &["--initial-controllers", &list])?;
        running.push(nodes.run_kafkas(id, "kafkas")?);
    }
    nodes.kafkas_lead(2, 3)?;
    drop(running);
    nodes.move_all()?;
    let copies: Vec<String> =
        (1..=3).map(|id| nodes.data(id, "kafkas").display().to_string()).collect();
    let copies: Vec<&str> = copies.iter().map(String::as_str).collect();
    let voters = nodes.initial_controllers();
    let done = recover(stage, &[&copies[..], &["--voters", &voters]].concat())?;
    ensure(done["lostFrom"].is_null(), || format!("all three are there: {done}"))?;
    let mut running = Vec::new();
    for id in 1..=3 {
        running.push(nodes.run_kafkas(id, "kafkas")?);
    }
    nodes.kafkas_lead(3, 3)?;
    drop(running);
    for id in 1..=3 {
        let printed = dump(stage, &nodes, id)?;
        let all = nodes.raft.iter().all(|at| printed.contains(&format!("\"port\":{}", at.port())));
        ensure(all, || format!("node {id} does not know the new addresses:\n{printed:.4000}"))?;
    }
    Ok(())
}
