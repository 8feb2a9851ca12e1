//! `quorate observe` on a running cluster of Apache Kafka's, three controllers and two brokers:
//! what it shows is what Kafka's own tools say, it goes on when the leader and when all are killed
//! and when the log is trimmed, and the cluster does not list it.

use super::snapshots::snapshots;
use crate::java::Running;
use crate::scenario::{Failure, PATIENCE, Stage, ensure, places};
use quorate_processes::poll;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const CLUSTER: &str = "U7HrM6vDTwWK2XclkAu2_g";
pub(super) const BROKER: usize = 9;
const BROKERS: [usize; 2] = [BROKER, 10];
const DIRECTORIES: [&str; 3] =
    ["HOMSeQ3sRdu175j0Wb8niA", "Pj4_cd-YRwSVpNdZdLOiHg", "omFXohrVRraWUN9F1_UaTQ"];
/// A snapshot a second, and a log that is cut soon: Kafka looks once a minute.
const OFTEN: &str = "metadata.log.max.snapshot.interval.ms=1000\nmetadata.max.retention.ms=3000\n\
                     metadata.max.idle.interval.ms=200\n";

const TOPICS: &str = "org.apache.kafka.tools.TopicCommand";
const CONFIGS: &str = "kafka.admin.ConfigCommand";
const QUORUM: &str = "org.apache.kafka.tools.MetadataQuorumCommand";

/// The whole story.
pub fn kafka(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    let mut cluster = Cluster::format(stage, directory)?;
    (1..=3).try_for_each(|id| cluster.start(id))?;
    let brokers = [cluster.start_java(BROKERS[0])?, cluster.start_java(BROKERS[1])?];
    let twice = ["--partitions", "3", "--replication-factor", "2"];
    cluster.create("orders", &[&twice[..], &["--config", "retention.ms=123000"]].concat())?;
    cluster.create("payments", &["--partitions", "2", "--config", "cleanup.policy=compact"])?;
    cluster.alter(&["brokers", "--entity-default"], "log.cleaner.threads=2")?;
    cluster.alter(&["topics", "--entity-name", "orders"], "min.insync.replicas=1")?;
    cluster.same_as_kafkas_tools(3)?;

    let following = cluster.follow()?;
    cluster.wait_for("its end of the facts", &|object| object["type"] == "metadata")?;
    cluster.create("later", &["--partitions", "1"])?;
    cluster.wait_for("a new topic", &topic_called("later"))?;
    cluster.not_listed()?;

    // The leader dies, and the next one is followed.
    let leader = cluster.leader()?;
    cluster.kill(leader);
    cluster.create("after", &["--partitions", "1"])?;
    cluster.wait_for("a topic of the next leader", &topic_called("after"))?;
    cluster.wait_for("the next leader", &|object| {
        object["type"] == "leader" && object["leader"] != leader
    })?;

    // All die, brokers too, and come back.
    (1..=3).for_each(|id| cluster.kill(id));
    drop(brokers);
    cluster.wait_for("that nobody answers", &|object| object["type"] == "unreachable")?;
    (1..=3).try_for_each(|id| cluster.start(id))?;
    let brokers = [cluster.start_java(BROKERS[0])?, cluster.start_java(BROKERS[1])?];
    cluster.create("again", &["--partitions", "1"])?;
    cluster.wait_for("a topic after the restart", &topic_called("again"))?;

    // The log is trimmed under the one that follows.
    cluster.wait_until_trimmed()?;
    cluster.create("trimmed", &["--partitions", "1"])?;
    cluster.wait_for("a topic of a trimmed log", &topic_called("trimmed"))?;
    cluster.every_change_once()?;
    drop(following);

    // Who comes now is given a snapshot, for the log's beginning is gone.
    cluster.same_as_kafkas_tools(7)?;
    drop(brokers);
    Ok(())
}

fn topic_called(name: &str) -> impl Fn(&Value) -> bool {
    let name = name.to_owned();
    move |object| {
        object["metadata"]["type"] == "TOPIC_RECORD" && object["metadata"]["data"]["name"] == name
    }
}

pub(super) struct Cluster<'a> {
    stage: &'a Stage,
    directory: PathBuf,
    /// Where the three controllers listen, and then the brokers.
    at: Vec<SocketAddr>,
    controllers: [Option<Running>; 3],
    /// How many programs were started, for the names of their logs.
    starts: u32,
}

impl Cluster<'_> {
    pub(super) fn format<'a>(stage: &'a Stage, directory: &Path) -> Result<Cluster<'a>, Failure> {
        std::fs::create_dir_all(directory)?;
        let at = places(5)?;
        let (directory, controllers) = (directory.to_owned(), [None, None, None]);
        let cluster = Cluster { stage, directory, at, controllers, starts: 0 };
        let initial: Vec<String> =
            (0..3).map(|at| format!("{}@{}:{}", at + 1, cluster.at[at], DIRECTORIES[at])).collect();
        let initial = initial.join(",");
        for id in [1, 2, 3, BROKERS[0], BROKERS[1]] {
            let file = cluster.write_file(id)?;
            let mut arguments = vec!["format", "-t", CLUSTER, "-c", &file];
            match BROKERS.contains(&id) {
                true => arguments.push("--no-initial-controllers"),
                false => arguments.extend(["--initial-controllers", &initial]),
            }
            stage.kafka.run("kafka.tools.StorageTool", &arguments)?;
        }
        Ok(cluster)
    }

    fn write_file(&self, id: usize) -> Result<String, Failure> {
        let own = match BROKERS.iter().position(|broker| *broker == id) {
            Some(nth) => format!(
                "process.roles=broker\nlisteners=PLAINTEXT://{}\noffsets.topic.replication.factor=1\n",
                self.at[3 + nth]
            ),
            None => format!(
                "process.roles=controller\nlisteners=CONTROLLER://{}\n{OFTEN}",
                self.at[id - 1]
            ),
        };
        let servers: Vec<String> = self.at[..3].iter().map(SocketAddr::to_string).collect();
        let text = format!(
            "{own}node.id={id}\ncontroller.listener.names=CONTROLLER\nlog.dirs={}\n\
             controller.quorum.bootstrap.servers={}\n",
            self.directory.join(format!("node-{id}")).display(),
            servers.join(",")
        );
        let file = self.directory.join(format!("node-{id}.properties"));
        std::fs::write(&file, text)?;
        Ok(file.display().to_string())
    }

    /// Where a controller listens.
    pub(super) fn at(&self, id: usize) -> SocketAddr {
        self.at[id - 1]
    }

    pub(super) fn start_java(&mut self, id: usize) -> Result<Running, Failure> {
        self.starts += 1;
        let file = self.directory.join(format!("node-{id}.properties")).display().to_string();
        let log = self.directory.join(format!("kafka-{id}-{}.log", self.starts));
        self.stage.kafka.start("kafka.Kafka", &[&file], &log)
    }

    pub(super) fn start(&mut self, id: usize) -> Result<(), Failure> {
        if self.controllers[id - 1].is_none() {
            self.controllers[id - 1] = Some(self.start_java(id)?);
        }
        Ok(())
    }

    pub(super) fn kill(&mut self, id: usize) {
        self.controllers[id - 1] = None;
    }

    /// Runs one of Kafka's tools against the broker until it succeeds.
    fn ask(&self, class: &str, arguments: &[&str]) -> Result<String, Failure> {
        let broker = self.at[3].to_string();
        let arguments = [&["--bootstrap-server", &broker], arguments].concat();
        let mut said = Ok(String::new());
        let done = poll("Kafka's tool to be answered", 2 * PATIENCE, || {
            said = self.stage.kafka.run(class, &arguments);
            said.is_ok().then_some(())
        });
        let said = said?;
        done?;
        Ok(said)
    }

    pub(super) fn create(&self, name: &str, with: &[&str]) -> Result<(), Failure> {
        let create = ["--create", "--if-not-exists", "--topic", name];
        self.ask(TOPICS, &[&create, with].concat()).map(drop)
    }

    fn alter(&self, entity: &[&str], config: &str) -> Result<(), Failure> {
        let entity = [&["--alter", "--entity-type"], entity].concat();
        self.ask(CONFIGS, &[&entity[..], &["--add-config", config]].concat()).map(drop)
    }

    /// What Kafka's quorum tool prints, through any controller that runs.
    fn quorum(&self, what: &str) -> Result<String, Failure> {
        let runs = (0..3).find(|at| self.controllers[*at].is_some());
        let at = self.at[runs.ok_or_else(|| Failure("no controller runs".into()))?].to_string();
        self.stage.kafka.run(QUORUM, &["--bootstrap-controller", &at, "describe", what])
    }

    pub(super) fn leader(&self) -> Result<usize, Failure> {
        let printed = self.quorum("--status")?;
        let line = printed.lines().find_map(|line| line.strip_prefix("LeaderId:"));
        let leader = line.and_then(|id| id.trim().parse().ok());
        leader.ok_or_else(|| Failure(format!("no leader in:\n{printed}")))
    }

    /// All three controllers and the brokers, and nobody else.
    fn not_listed(&self) -> Result<(), Failure> {
        let printed = self.quorum("--replication")?;
        let first = |line: &str| line.split('\t').next().unwrap_or_default().trim().to_owned();
        let mut nodes: Vec<String> = printed.lines().skip(1).map(first).collect();
        nodes.sort();
        ensure(nodes == ["1", "10", "2", "3", "9"], || {
            format!("only the cluster's own nodes are listed:\n{printed}")
        })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.stage.binary);
        // All are named: any of them may be down.
        let servers: Vec<String> = self.at[..3].iter().map(SocketAddr::to_string).collect();
        command.args(["observe", "--json", "--bootstrap", &servers.join(",")]);
        command
    }

    fn followed(&self) -> PathBuf {
        self.directory.join("observe.log")
    }

    fn follow(&self) -> Result<Running, Failure> {
        Running::start(self.command().arg("--follow"), Stdio::null(), &self.followed())
    }

    /// What the one that follows has printed; what it says to people is not JSON and passed over.
    fn printed(&self) -> Result<Vec<Value>, Failure> {
        let text = std::fs::read_to_string(self.followed())?;
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    fn wait_for(&self, what: &str, wanted: &dyn Fn(&Value) -> bool) -> Result<(), Failure> {
        let seen = poll(&format!("the observer to print {what}"), 2 * PATIENCE, || {
            self.printed().ok()?.iter().any(wanted).then_some(())
        });
        Ok(seen?)
    }

    /// No record was printed twice, and no topic left out, whoever led.
    fn every_change_once(&self) -> Result<(), Failure> {
        let printed = self.printed()?;
        let changes = printed.iter().filter(|object| object["type"] == "change");
        let topics = printed.iter().filter_map(|object| {
            let metadata = &object["metadata"];
            (metadata["type"] == "TOPIC_RECORD").then(|| metadata["data"]["name"].as_str())?
        });
        let topics: Vec<&str> = topics.collect();
        ensure(topics == ["later", "after", "again", "trimmed"], || format!("topics: {topics:?}"))?;
        let offsets: Vec<u64> = changes.filter_map(|change| change["offset"].as_u64()).collect();
        // A topic and its partition at least, for each.
        ensure(offsets.len() >= 8 && offsets.is_sorted_by(|a, b| a < b), || {
            format!("the offsets of changes ascend: {offsets:?}")
        })?;
        let gap = printed.iter().find(|object| object["type"] == "gap");
        ensure(gap.is_none(), || format!("nothing is passed over: {gap:?}"))
    }

    fn wait_until_trimmed(&self) -> Result<(), Failure> {
        let trimmed = |id: usize| {
            let log = self.directory.join(format!("node-{id}/__cluster_metadata-0"));
            let first = snapshots(&log).ok()?.into_iter().next()?;
            let name = first.file_name()?.to_string_lossy().into_owned();
            (!name.starts_with("00000000000000000000-")).then_some(())
        };
        let all = || (1..=3).all(|id| trimmed(id).is_some()).then_some(());
        Ok(poll("Kafka's controllers to trim their logs", 3 * PATIENCE, all)?)
    }

    /// What it shows is what Kafka's tools print, once replicas are where they were.
    fn same_as_kafkas_tools(&self, topics: usize) -> Result<(), Failure> {
        let mut last = Ok(());
        let same = poll("the facts to be those of Kafka's tools", PATIENCE, || {
            last = self.compare(topics);
            last.is_ok().then_some(())
        });
        last?;
        Ok(same?)
    }

    /// Observes once and compares.
    fn compare(&self, topics: usize) -> Result<(), Failure> {
        let output = self.command().output()?;
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure(output.status.success() && stderr.is_empty(), || {
            format!("quorate observe says: {stderr}")
        })?;
        let mut facts = BTreeMap::new();
        let mut whole = None;
        for line in stdout.lines() {
            let object: Value = serde_json::from_str(line)?;
            match object["type"].as_str() {
                Some("fact") => drop(facts.insert(path(&object["path"]), object["value"].clone())),
                Some("metadata") => whole = Some(object),
                _ => {}
            }
        }
        let whole = whole.ok_or_else(|| Failure(format!("no end of the facts:\n{stdout}")))?;
        ensure(whole["leftOut"] == 0 && whole["facts"] == facts.len(), || whole.to_string())?;

        let expected = self.topics_by_tool()?;
        ensure(expected.len() > topics, || format!("{topics} topics expected: {expected:?}"))?;
        let ours = topics_of(&facts);
        ensure(ours == expected, || {
            format!("topics:\n{ours:#?}\nby Kafka's tool:\n{expected:#?}")
        })?;
        let expected = self.configs_by_tool()?;
        // Four were set here, and Kafka sets one itself.
        ensure(expected.len() >= 4, || format!("four configs were set: {expected:?}"))?;
        let configs = facts.iter().filter(|(path, _)| path.starts_with("configs/"));
        let ours: BTreeMap<String, String> = configs
            .map(|(path, value)| (path.clone(), value.as_str().unwrap_or_default().to_owned()))
            .filter(|(path, _)| !path.starts_with("configs/topic/__"))
            .collect();
        ensure(ours == expected, || format!("configs {ours:?}, by Kafka's tool {expected:?}"))?;
        self.same_brokers(&facts)
    }

    /// Topic ids, then partitions: leader, replicas, in-sync replicas.
    fn topics_by_tool(&self) -> Result<BTreeMap<String, Value>, Failure> {
        let printed = self.ask(TOPICS, &["--describe"])?;
        let mut topics = BTreeMap::new();
        for line in printed.lines().filter(|line| line.contains("Topic: ")) {
            let cells = line.trim().split('\t').filter_map(|cell| cell.trim().split_once(':'));
            let cells: BTreeMap<&str, &str> =
                cells.map(|(name, value)| (name, value.trim())).collect();
            let cell = |name: &str| cells.get(name).copied().unwrap_or_default();
            let nodes = |text: &str| -> Vec<i64> {
                text.split(',').filter_map(|node| node.trim().parse().ok()).collect()
            };
            let topic = cell("Topic");
            match cells.get("Partition") {
                None => drop(topics.insert(format!("{topic}/id"), json!(cell("TopicId")))),
                Some(number) => {
                    let leader: Option<i64> = cell("Leader").parse().ok();
                    let value = json!({ "leader": leader, "replicas": nodes(cell("Replicas")),
                        "isr": nodes(cell("Isr")) });
                    topics.insert(format!("{topic}/partitions/{number}"), value);
                }
            }
        }
        Ok(topics)
    }

    fn configs_by_tool(&self) -> Result<BTreeMap<String, String>, Failure> {
        let mut configs = BTreeMap::new();
        for (entity, path) in [
            (&["topics", "--entity-name", "orders"][..], "topic/orders"),
            (&["topics", "--entity-name", "payments"], "topic/payments"),
            (&["brokers", "--entity-default"], "broker/(default)"),
        ] {
            let printed =
                self.ask(CONFIGS, &[&["--describe", "--entity-type"], entity].concat())?;
            for line in printed.lines().filter(|line| line.contains(" sensitive=")) {
                let set = line.trim().split(' ').next().and_then(|set| set.split_once('='));
                let Some((key, value)) = set else { continue };
                configs.insert(format!("configs/{path}/{key}"), value.to_owned());
            }
        }
        Ok(configs)
    }

    fn same_brokers(&self, facts: &BTreeMap<String, Value>) -> Result<(), Failure> {
        let printed = self.ask("org.apache.kafka.tools.BrokerApiVersionsCommand", &[])?;
        let brokers: Vec<&Value> = facts
            .iter()
            .filter(|(path, _)| path.starts_with("brokers/"))
            .map(|(_, value)| value)
            .collect();
        let listed = printed.lines().filter(|line| line.contains("(id: ")).count();
        ensure((listed, brokers.len()) == (2, 2), || format!("{brokers:?} is not {printed}"))?;
        for broker in brokers {
            let listener = &broker["endPoints"][0];
            let shown = format!(
                "{}:{} (id: {} ",
                listener["host"].as_str().unwrap_or_default(),
                listener["port"],
                broker["brokerId"]
            );
            ensure(printed.contains(&shown), || {
                format!("{shown} is not what Kafka's tool lists:\n{printed}")
            })?;
        }
        Ok(())
    }
}

fn path(path: &Value) -> String {
    let part = |part: &Value| part.as_str().map_or_else(|| part.to_string(), str::to_owned);
    let parts: Vec<String> = path.as_array().into_iter().flatten().map(part).collect();
    parts.join("/")
}

/// In the form of [`Cluster::topics_by_tool`].
fn topics_of(facts: &BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let topics = facts.iter().filter_map(|(path, value)| {
        let path = path.strip_prefix("topics/")?;
        let value = match path.ends_with("/id") {
            true => value.clone(),
            false => json!({ "leader": value["leader"], "replicas": value["replicas"],
                "isr": value["isr"] }),
        };
        Some((path.to_owned(), value))
    });
    topics.collect()
}
