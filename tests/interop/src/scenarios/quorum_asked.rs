//! `quorate quorum --bootstrap` beside Kafka's `kafka-metadata-quorum`: of a running quorum of
//! Kafka's and of one of ours they say the same, also of a voter that is down.

use super::observe::Cluster as KafkasCluster;
use crate::scenario::{Failure, PATIENCE, Stage, ensure};
use quorate_processes::{Cluster, poll};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

const TOOL: &str = "org.apache.kafka.tools.MetadataQuorumCommand";
/// Two answers of one node say of one moment that it was so much apart: ours keep how long ago it
/// was, by a clock that cannot be set.
const CLOCKS_MS: u64 = 2;

/// Of three controllers and a broker of Kafka's.
pub fn of_kafkas(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    let mut cluster = KafkasCluster::format(stage, directory)?;
    (1..=3).try_for_each(|id| cluster.start(id))?;
    let broker = cluster.start_java(super::observe::BROKER)?;
    cluster.create("one", &["--partitions", "1"])?;
    let at: Vec<String> = (1..=3).map(|id| cluster.at(id).to_string()).collect();
    let both = Both { stage, at };
    both.agree(4)?;
    let leader = cluster.leader()?;
    let down = leader % 3 + 1;
    cluster.kill(down);
    let behind = both.agree_with_one_down(4, down)?;
    ensure(behind > 0, || format!("node {down} is down and lags by {behind}"))?;
    drop(broker);
    Ok(())
}

/// Of three nodes of ours.
pub fn of_ours(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    let mut cluster = Cluster::format(&stage.binary, directory, 3, &[])?;
    cluster.start_all()?;
    let leader = cluster.wait_until_level(PATIENCE)?;
    let at = cluster.nodes().iter().map(|node| node.raft.to_string()).collect();
    let both = Both { stage, at };
    both.agree(3)?;
    let down = leader % 3 + 1;
    cluster.kill(down);
    both.agree_with_one_down(3, down as usize).map(drop)
}

struct Both<'a> {
    stage: &'a Stage,
    /// Where the voters listen.
    at: Vec<String>,
}

/// A row of `replication`.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Row {
    directory: String,
    end: u64,
    lag: u64,
    fetched_ms: u64,
    caught_up_ms: u64,
    status: String,
}

type Rows = BTreeMap<usize, Row>;

impl Both<'_> {
    fn ours(&self, what: &str, more: &[&str]) -> Result<String, Failure> {
        let mut command = Command::new(&self.stage.binary);
        command.args(["quorum", what, "--bootstrap", &self.at.join(",")]).args(more);
        let output = command.output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure(output.status.success() && said.is_empty(), || format!("quorum {what}: {said}"))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn kafkas(&self, what: &str) -> Result<String, Failure> {
        let at = self.at.join(",");
        self.stage.kafka.run(TOOL, &["--bootstrap-controller", &at, "describe", what])
    }

    /// The same cluster, leader, epoch, voters and observers; a high watermark of that time.
    fn agree(&self, nodes: usize) -> Result<(), Failure> {
        self.agree_on_rows(nodes, None)?;
        let before = self.ours("status", &[])?;
        let kafkas = self.kafkas("--status")?;
        let after = self.ours("status", &[])?;
        let told = || format!("ours:\n{before}\nKafka's:\n{kafkas}");
        for name in ["ClusterId:", "LeaderId:", "LeaderEpoch:"] {
            let (ours, theirs) = (value(&before, name)?, value(&kafkas, name)?);
            ensure(ours == theirs && !ours.is_empty(), || format!("{name}\n{}", told()))?;
        }
        let mark = |printed: &str| number(&value(printed, "HighWatermark:")?);
        let (low, theirs, high) = (mark(&before)?, mark(&kafkas)?, mark(&after)?);
        ensure((low..=high).contains(&theirs), told)?;
        let (ours, theirs) = (value(&before, "CurrentVoters:")?, value(&kafkas, "CurrentVoters:")?);
        let theirs: serde_json::Value = serde_json::from_str(&theirs)?;
        let place = |voter: &serde_json::Value| {
            let at = voter["endpoints"][0].as_str()?.rsplit("://").next()?.to_owned();
            Some(format!("{}@{at}", voter["id"]))
        };
        let voters = theirs.as_array().into_iter().flatten();
        let theirs: BTreeSet<String> = voters.filter_map(place).collect();
        let ours: BTreeSet<String> =
            ours.trim_matches(['[', ']']).split(", ").map(str::to_owned).collect();
        ensure(ours == theirs && ours.len() == 3, told)
    }

    /// How far the one that is down is behind.
    fn agree_with_one_down(&self, nodes: usize, down: usize) -> Result<u64, Failure> {
        let mut behind = Ok(0);
        // It may lead still, as far as the others have noticed, and its last fetch be served.
        let agreed = poll("both tools to agree", PATIENCE, || {
            behind = self.agree_on_rows(nodes, Some(down));
            behind.is_ok().then_some(())
        });
        let behind = behind?;
        agreed?;
        Ok(behind)
    }

    fn agree_on_rows(&self, nodes: usize, down: Option<usize>) -> Result<u64, Failure> {
        let before = self.ours("replication", &[])?;
        let kafkas = self.kafkas("--replication")?;
        let after = self.ours("replication", &[])?;
        let told = || format!("ours:\n{before}\nKafka's:\n{kafkas}\nours again:\n{after}");
        let (low, theirs, high) = (rows(&before), rows(&kafkas), rows(&after));
        let ids = |rows: &Rows| rows.keys().copied().collect::<Vec<_>>();
        ensure(ids(&low) == ids(&theirs) && theirs.len() == nodes, told)?;
        for (id, row) in &theirs {
            let (low, high) = (&low[id], high.get(id).ok_or_else(|| Failure(told()))?);
            let same = row.directory == low.directory && row.status == low.status;
            let between = (low.end..=high.end).contains(&row.end)
                && low.fetched_ms <= row.fetched_ms + CLOCKS_MS
                && row.fetched_ms <= high.fetched_ms + CLOCKS_MS
                && low.caught_up_ms <= row.caught_up_ms + CLOCKS_MS
                && row.caught_up_ms <= high.caught_up_ms + CLOCKS_MS;
            let still = Some(*id) != down
                || low.end == high.end && low.fetched_ms.abs_diff(high.fetched_ms) <= CLOCKS_MS;
            ensure(same && between && still, || format!("node {id}\n{}", told()))?;
        }
        let leaders = theirs.values().filter(|row| row.status == "Leader").count();
        ensure(leaders == 1, told)?;
        Ok(down.map_or(0, |down| low[&down].lag))
    }
}

/// Columns have no spaces inside, whoever prints them.
fn rows(printed: &str) -> Rows {
    let row = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [id, directory, end, lag, fetched, caught_up, status] = columns[..] else {
            return None;
        };
        let row = Row {
            directory: directory.to_owned(),
            end: end.parse().ok()?,
            lag: lag.parse().ok()?,
            fetched_ms: fetched.parse().ok()?,
            caught_up_ms: caught_up.parse().ok()?,
            status: status.to_owned(),
        };
        Some((id.parse().ok()?, row))
    };
    printed.lines().filter_map(row).collect()
}

fn value(printed: &str, name: &str) -> Result<String, Failure> {
    let line = printed.lines().find_map(|line| line.strip_prefix(name));
    line.map(|value| value.trim().to_owned())
        .ok_or_else(|| Failure(format!("no {name} in:\n{printed}")))
}

fn number(text: &str) -> Result<u64, Failure> {
    text.parse().map_err(|_| Failure(format!("{text} is no number")))
}
