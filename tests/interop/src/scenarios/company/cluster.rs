//! Controllers of Kafka's and a node of ours as one quorum, a broker of Kafka's behind them, and
//! what can be done to them and asked of them.
//!
//! All are processes of their own, so that any of them can be killed at any time. Nothing here says
//! what has to come of it.

use super::super::directories::quorate;
use crate::java::{Running, soon_given_up};
use crate::scenario::{
    Failure, PATIENCE, Stage, ensure, files_ending, no_line, places, same_bytes,
};
use quorate::status::Status;
use quorate_processes::http::Client;
use quorate_processes::poll;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const CLUSTER: &str = "U7HrM6vDTwWK2XclkAu2_g";
/// Our node; 1 and 2 are controllers of Kafka's.
pub const OURS: u32 = 3;
/// The broker.
pub const BROKER: u32 = 9;

/// Directory ids of the three controllers where the voters are in the log.
const DIRECTORIES: [&str; 3] =
    ["HOMSeQ3sRdu175j0Wb8niA", "Pj4_cd-YRwSVpNdZdLOiHg", "omFXohrVRraWUN9F1_UaTQ"];

/// Who votes at first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Voters {
    /// All three controllers, as every node's file says (kraft.version 0).
    InFiles,
    /// All three, as the log says (kraft.version 1).
    InLog,
    /// Kafka's two, as the log says; ours comes later.
    OursJoins,
}

pub struct Company<'a> {
    stage: &'a Stage,
    directory: PathBuf,
    /// Where the three controllers listen, then the broker, then ours for HTTP.
    at: Vec<SocketAddr>,
    voters: Voters,
    /// What runs, by node.
    running: BTreeMap<u32, Running>,
    /// How many were started, for the names of their logs.
    starts: u32,
    /// How often ours was.
    ours_starts: u32,
}

impl Company<'_> {
    pub fn format<'a>(
        stage: &'a Stage,
        directory: &Path,
        voters: Voters,
    ) -> Result<Company<'a>, Failure> {
        std::fs::create_dir_all(directory)?;
        let at = places(5)?;
        let directory = directory.to_owned();
        let (running, starts, ours_starts) = (BTreeMap::new(), 0, 0);
        let company = Company { stage, directory, at, voters, running, starts, ours_starts };
        let initial = company.initial_controllers();
        for id in [1, 2, OURS, BROKER] {
            let file = company.write_file(id)?;
            let mut arguments = vec!["format", "-t", CLUSTER, "-c", &file];
            match (voters, id) {
                (Voters::InFiles, OURS) => {
                    company.our_format(&file)?;
                    continue;
                }
                (Voters::InFiles, _) => {}
                (Voters::OursJoins, OURS) | (Voters::OursJoins | Voters::InLog, BROKER) => {
                    arguments.push("--no-initial-controllers");
                }
                (Voters::InLog | Voters::OursJoins, _) => {
                    arguments.extend(["--initial-controllers", &initial]);
                }
            }
            stage.kafka.run("kafka.tools.StorageTool", &arguments)?;
        }
        Ok(company)
    }

    fn initial_controllers(&self) -> String {
        let entry = |((at, id), directory): ((&SocketAddr, u32), &str)| {
            std::format!("{id}@{at}:{directory}")
        };
        let last = if self.voters == Voters::OursJoins { 2 } else { 3 };
        let entries = self.at.iter().zip(1..=last).zip(DIRECTORIES).map(entry);
        entries.collect::<Vec<_>>().join(",")
    }

    /// How every node is told of the quorum.
    fn quorum(&self) -> String {
        let controllers = self.at.iter().zip(1..=3);
        let voters = controllers.clone().map(|(at, id)| std::format!("{id}@{at}"));
        let servers = controllers.map(|(at, _)| at.to_string());
        match self.voters {
            Voters::InFiles => {
                std::format!("controller.quorum.voters={}", voters.collect::<Vec<_>>().join(","))
            }
            Voters::InLog | Voters::OursJoins => {
                let servers = servers.collect::<Vec<_>>().join(",");
                std::format!("controller.quorum.bootstrap.servers={servers}")
            }
        }
    }

    fn write_file(&self, id: u32) -> Result<String, Failure> {
        let data = self.directory.join(std::format!("node-{id}"));
        let own = match id {
            BROKER => std::format!(
                "process.roles=broker\nlisteners=PLAINTEXT://{}\n\
                 offsets.topic.replication.factor=1\ntransaction.state.log.replication.factor=1\n\
                 transaction.state.log.min.isr=1\ngroup.initial.rebalance.delay.ms=0\n",
                self.at[3]
            ),
            _ => std::format!(
                "process.roles=controller\nlisteners=CONTROLLER://{}\n",
                self.at[id as usize - 1]
            ),
        };
        let own = match id {
            OURS => {
                std::format!("{own}quorate.machine=kafka\nquorate.http.listen={}\n", self.at[4])
            }
            _ => own,
        };
        let text = std::format!(
            "{own}node.id={id}\ncontroller.listener.names=CONTROLLER\nlog.dirs={}\n\
             {}\n",
            data.display(),
            self.quorum()
        );
        let file = self.directory.join(std::format!("node-{id}.properties"));
        std::fs::write(&file, text)?;
        Ok(file.display().to_string())
    }

    fn our_format(&self, file: &str) -> Result<(), Failure> {
        let mut command = Command::new(&self.stage.binary);
        let output =
            command.args(["format", "--cluster-id", CLUSTER, "--config", file]).output()?;
        ensure(output.status.success(), || String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn partition(&self, id: u32) -> PathBuf {
        self.directory.join(std::format!("node-{id}/__cluster_metadata-0"))
    }

    /// Starts a node that does not run.
    pub fn start(&mut self, id: u32) -> Result<(), Failure> {
        self.starts += 1;
        let file = self.directory.join(std::format!("node-{id}.properties")).display().to_string();
        let log = |who: &str| self.directory.join(std::format!("{who}-{id}-{}.log", self.starts));
        let running = if id == OURS {
            self.ours_starts += 1;
            let mut command = Command::new(&self.stage.binary);
            Running::start(command.args(["run", &file]), Stdio::null(), &log("ours"))?
        } else {
            self.stage.kafka.start("kafka.Kafka", &[&file], &log("kafka"))?
        };
        self.running.insert(id, running);
        Ok(())
    }

    /// At once, as `kill -9` does.
    pub fn kill(&mut self, id: u32) {
        self.running.remove(&id);
    }

    pub fn runs(&self, id: u32) -> bool {
        self.running.contains_key(&id)
    }

    /// Where the log names the voters: ours runs for a while on another directory, of which it says
    /// that nobody named it (T24), and then has its own again.
    pub fn replace_our_disk(&mut self) -> Result<(), Failure> {
        if self.voters == Voters::InFiles {
            return Ok(());
        }
        let own = self.directory.join(std::format!("node-{OURS}"));
        let kept = own.with_extension("kept");
        std::fs::rename(&own, &kept)?;
        let file = self.directory.join(std::format!("node-{OURS}.properties"));
        self.our_format(&file.display().to_string())?;
        self.start(OURS)?;
        self.wait("our node to observe", |status| status.role == "observer" && status.ready)?;
        self.said_that_it_has_no_vote()?;
        self.kill(OURS);
        std::fs::remove_dir_all(&own)?;
        Ok(std::fs::rename(&kept, &own)?)
    }

    /// Since its disk is another one. That is an error, and not looked at again.
    pub fn said_that_it_has_no_vote(&self) -> Result<(), Failure> {
        let log = self.directory.join(std::format!("ours-{OURS}-{}.log", self.starts));
        let mut said = String::new();
        let all = ["name another directory of this node's id", "has registered this one"];
        let seen = poll("our node to say that it has no vote", PATIENCE, || {
            said = std::fs::read_to_string(&log).ok()?;
            all.iter().all(|part| said.contains(part)).then_some(())
        });
        seen.map_err(|late| Failure(std::format!("{late}:\n{said}")))?;
        Ok(std::fs::rename(&log, log.with_extension("seen"))?)
    }

    /// Ours comes back with an empty disk, and copies the log.
    pub fn lose_our_disk(&mut self) -> Result<(), Failure> {
        self.kill(OURS);
        std::fs::remove_dir_all(self.directory.join(std::format!("node-{OURS}")))?;
        let file = self.directory.join(std::format!("node-{OURS}.properties"));
        self.our_format(&file.display().to_string())?;
        self.start(OURS)?;
        self.wait("our node to observe", |status| status.role == "observer" && status.ready)?;
        Ok(())
    }

    /// Where its log ended.
    pub fn kill_ours(&mut self) -> Result<u64, Failure> {
        let end = self.status()?.log_end;
        self.kill(OURS);
        Ok(end)
    }

    /// Of ours; it may have been started just now.
    pub fn status(&self) -> Result<Status, Failure> {
        let mut last = Err(Failure("our node does not run".into()));
        let seen = poll("our node to answer", PATIENCE, || {
            last = self.ask_ours();
            (last.is_ok() || !self.runs(OURS)).then_some(())
        });
        let status = last?;
        seen?;
        Ok(status)
    }

    /// What ours shows over HTTP of the cluster is what an observer of Kafka's controllers sees.
    pub fn shows_the_metadata(&self) -> Result<(), Failure> {
        let servers: Vec<String> = self.at[..2].iter().map(SocketAddr::to_string).collect();
        let mut last = (Vec::new(), Vec::new());
        let same = poll("our node to show what Kafka's lead to", PATIENCE, || {
            let mut command = Command::new(&self.stage.binary);
            command.args(["observe", "--json", "--bootstrap", &servers.join(",")]);
            let output = command.output().ok()?.stdout;
            let lines = String::from_utf8_lossy(&output).into_owned();
            let objects = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let seen: Vec<Value> = objects.filter(|object| object["type"] == "fact").collect();
            let mut client = Client::new(self.at[4], Duration::from_secs(5));
            let page = client.ask("GET", "/v1/metadata?limit=10000", &[], b"").ok()?.json();
            last = (page["items"].as_array()?.clone(), seen);
            (!last.0.is_empty() && last.0 == last.1).then_some(())
        });
        same.map_err(|late| {
            Failure(std::format!("{late}: {} is not {}", json!(last.0), json!(last.1)))
        })
    }

    fn ask_ours(&self) -> Result<Status, Failure> {
        let mut client = Client::new(self.at[4], Duration::from_secs(1));
        let answer = client.ask("GET", "/status", &[], b"");
        let answer = answer.map_err(|silence| Failure(silence.to_string()))?;
        Ok(serde_json::from_slice(&answer.body)?)
    }

    /// Below this all is committed, as far as ours knows.
    pub fn committed(&self) -> Result<u64, Failure> {
        let known = self.status()?.high_watermark;
        known.ok_or_else(|| Failure("our node knows of nothing that is committed".into()))
    }

    fn wait(&self, what: &str, fact: impl Fn(&Status) -> bool) -> Result<Status, Failure> {
        let mut last = Err(Failure(String::new()));
        let seen = poll(what, 2 * PATIENCE, || {
            last = self.status();
            last.as_ref().is_ok_and(&fact).then_some(())
        });
        let status = last?;
        seen.map_err(|late| Failure(std::format!("{late}: {status:?}")))?;
        Ok(status)
    }

    /// Waits until ours follows a controller of Kafka's, this one if one is named, and has applied
    /// what that wrote. Who it follows.
    pub fn follow(&self, leader: Option<u32>) -> Result<u32, Failure> {
        let right =
            |found: Option<u32>| found.is_some() && leader.is_none_or(|id| found == Some(id));
        let before = self.status()?.applied;
        let status = self.wait("our node to follow Kafka's controller", |status| {
            status.role == "follower"
                && status.ready
                && right(status.leader)
                && status.applied > before + 3
        })?;
        status.leader.ok_or_else(|| Failure("it follows nobody".into()))
    }

    /// Waits until ours has applied so much.
    pub fn beyond(&self, offset: u64) -> Result<(), Failure> {
        self.wait("our node to catch up", |status| status.applied > offset).map(drop)
    }

    /// Kafka's tool names ours as a follower that has all but perhaps the newest record.
    pub fn tool_sees_ours(&self, through: u32) -> Result<(), Failure> {
        let at = self.at[through as usize - 1].to_string();
        let mut printed = String::new();
        let seen = poll("Kafka's tool to see our node level", PATIENCE, || {
            let asked = self.stage.kafka.run(
                "org.apache.kafka.tools.MetadataQuorumCommand",
                &["--bootstrap-controller", &at, "describe", "--replication"],
            );
            printed = asked.unwrap_or_else(|failure| failure.0);
            let columns =
                printed.lines().map(|line| line.split('\t').map(str::trim).collect::<Vec<_>>());
            let mut ours = columns.filter(|columns| columns.first() == Some(&"3"));
            let ours = ours.next()?;
            let lag: u64 = ours.get(3)?.parse().ok()?;
            (lag <= 1 && ours.get(6) == Some(&"Follower")).then_some(())
        });
        seen.map_err(|late| Failure(std::format!("{late}:\n{printed}")))
    }

    /// A change of the voters by our command, through Kafka's controllers.
    pub fn change_voters(&self, command: &[&str]) -> Result<String, Failure> {
        let servers: Vec<String> = self.at[..2].iter().map(ToString::to_string).collect();
        let servers = servers.join(",");
        quorate(self.stage, &[&["quorum"], command, &["--bootstrap", &servers]].concat())
    }

    /// `ID@HOST:PORT` of a controller.
    pub fn place(&self, id: u32) -> String {
        std::format!("{id}@{}", self.at[id as usize - 1])
    }

    /// Waits until Kafka's tool names exactly these voters, and a leader.
    pub fn tool_names_voters(&self, through: u32, voters: &[u32]) -> Result<u32, Failure> {
        let at = self.at[through as usize - 1].to_string();
        let brief = soon_given_up(&self.directory)?;
        let mut printed = String::new();
        let seen = poll("Kafka's tool to name the voters", 2 * PATIENCE, || {
            let config = ["--command-config", &brief, "--bootstrap-controller", &at];
            let asked = self.stage.kafka.run(
                "org.apache.kafka.tools.MetadataQuorumCommand",
                &[&config[..], &["describe", "--status"]].concat(),
            );
            printed = asked.unwrap_or_else(|failure| failure.0);
            let value = |name: &str| printed.lines().find_map(|line| line.strip_prefix(name));
            let leader = value("LeaderId:")?.trim().parse::<u32>().ok()?;
            let listed = value("CurrentVoters:")?;
            let right = listed.matches("\"id\"").count() == voters.len()
                && voters.iter().all(|id| listed.contains(&std::format!("\"id\": {id},")));
            right.then_some(leader)
        });
        seen.map_err(|late| Failure(std::format!("{late}:\n{printed}")))
    }

    pub fn broker(&self) -> String {
        self.at[3].to_string()
    }

    pub fn create_topic(&self, name: &str) -> Result<(), Failure> {
        let mut said = Ok(String::new());
        let done = poll("a topic to be created", 2 * PATIENCE, || {
            said = self.stage.kafka.run(
                "org.apache.kafka.tools.TopicCommand",
                &[
                    "--bootstrap-server",
                    &self.broker(),
                    "--create",
                    "--if-not-exists",
                    "--topic",
                    name,
                    "--partitions",
                    "2",
                ],
            );
            said.is_ok().then_some(())
        });
        said?;
        Ok(done?)
    }

    /// Writes so many messages and reads at least as many from the beginning.
    pub fn produce_and_consume(&self, topic: &str, count: usize) -> Result<(), Failure> {
        let broker = self.broker();
        let lines: String = (0..count).map(|n| std::format!("message {n}\n")).collect();
        let produce = ["--bootstrap-server", &broker, "--topic", topic];
        self.stage.kafka.answer("org.apache.kafka.tools.ConsoleProducer", &produce, &lines)?;
        let read = self.consume(topic, count as u64)?;
        let found = read.lines().filter(|line| line.starts_with("message ")).count();
        ensure(found == count, || std::format!("{count} written to {topic}, {found} read:\n{read}"))
    }

    /// The topics that Kafka's tool lists.
    pub fn topics(&self) -> Result<BTreeSet<String>, Failure> {
        let tool = "org.apache.kafka.tools.TopicCommand";
        let listed =
            self.stage.kafka.run(tool, &["--bootstrap-server", &self.broker(), "--list"])?;
        Ok(listed.lines().map(|line| line.trim().to_owned()).collect())
    }

    /// All that can be read of a topic, acknowledged or not.
    pub fn all_messages(&self, topic: &str) -> Result<BTreeSet<String>, Failure> {
        let broker = self.broker();
        let tool = "org.apache.kafka.tools.GetOffsetShell";
        let ends =
            self.stage.kafka.run(tool, &["--bootstrap-server", &broker, "--topic", topic])?;
        let ends =
            ends.lines().filter_map(|line| line.rsplit(':').next()?.trim().parse::<u64>().ok());
        Ok(self.consume(topic, ends.sum())?.lines().map(str::to_owned).collect())
    }

    /// So many messages of a topic, from the beginning, a line each.
    fn consume(&self, topic: &str, count: u64) -> Result<String, Failure> {
        let (broker, many) = (self.broker(), count.to_string());
        let consume = [
            "--bootstrap-server",
            &broker,
            "--topic",
            topic,
            "--from-beginning",
            "--max-messages",
            &many,
            "--timeout-ms",
            "60000",
        ];
        self.stage.kafka.run("org.apache.kafka.tools.consumer.ConsoleConsumer", &consume)
    }

    /// Kafka's tool raises `kraft.version` to 1, unless it is there already; ours obeys the voters
    /// that are in the log from then on.
    pub fn raise_kraft_version(&mut self, through: u32) -> Result<(), Failure> {
        let at = self.at[through as usize - 1].to_string();
        let tool = "org.apache.kafka.tools.FeatureCommand";
        let feature = ["upgrade", "--feature", "kraft.version=1"];
        let mut said = Ok(String::new());
        let done = poll("kraft.version to be raised", PATIENCE, || {
            said = self
                .stage
                .kafka
                .run(tool, &[&["--bootstrap-controller", &at], &feature[..]].concat());
            said.is_ok().then_some(())
        });
        said?;
        Ok(done?)
    }

    /// Kafka's tool lists it among the controllers that are registered, where it listens.
    pub fn tool_lists_ours(&self, through: u32) -> Result<(), Failure> {
        let at = self.at[through as usize - 1].to_string();
        let port = self.at[OURS as usize - 1].port().to_string();
        let mut printed = String::new();
        let seen = poll("Kafka's tool to list our node", PATIENCE, || {
            let tool = "org.apache.kafka.tools.ClusterTool";
            let asked =
                self.stage.kafka.run(tool, &["list-endpoints", "--bootstrap-controller", &at]);
            printed = asked.unwrap_or_else(|failure| failure.0);
            let columns = printed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            let mut ours = columns.filter(|columns| columns.first() == Some(&"3"));
            (ours.next()?.get(2) == Some(&port.as_str())).then_some(())
        });
        seen.map_err(|late| Failure(std::format!("{late}:\n{printed}")))
    }

    /// Kafka's dump tool finds in the log an epoch of ours, and a registration for each time that
    /// it was started, which says where it listens.
    pub fn ours_led_and_registered(&self) -> Result<(), Failure> {
        let log = files_ending(&self.partition(OURS), ".log")?.join(",");
        let tool = "org.apache.kafka.tools.DumpLogSegments";
        let dump = self.stage.kafka.run(tool, &["--files", &log, "--cluster-metadata-decoder"])?;
        let leaders = dump.lines().filter(|line| line.contains("LeaderChange"));
        let leaders: Vec<&str> = leaders.collect();
        let ours = std::format!("\"leaderId\":{OURS},");
        ensure(leaders.iter().any(|line| line.contains(&ours)), || {
            std::format!("ours never led: {leaders:?}")
        })?;
        ensure(dump.contains("KRaftVersion {"), || "no kraft.version in our log".into())?;
        let records = dump.lines().filter_map(|line| line.split_once("payload: "));
        let records = records.filter_map(|(_, json)| serde_json::from_str::<Value>(json).ok());
        let ours: Vec<Value> = records
            .filter(|record| record["type"] == "REGISTER_CONTROLLER_RECORD")
            .map(|record| record["data"].clone())
            .filter(|data| data["controllerId"] == OURS)
            .collect();
        let listener = json!({ "name": "CONTROLLER", "host": "127.0.0.1",
            "port": self.at[OURS as usize - 1].port(), "securityProtocol": 0 });
        let truthful = |data: &Value| {
            data["endPoints"] == json!([listener]) && data["zkMigrationReady"] == false
        };
        let processes: BTreeSet<&str> =
            ours.iter().filter_map(|data| data["incarnationId"].as_str()).collect();
        ensure(ours.iter().all(truthful) && processes.len() == self.ours_starts as usize, || {
            std::format!("registrations of {} processes: {ours:?}", self.ours_starts)
        })
    }

    /// The logs of Kafka's controllers hold the same bytes as ours below this offset, all of which
    /// is committed: one of them all of these bytes, since two of three make a majority, the other
    /// as many as it has.
    pub fn same_logs(&self, committed: u64) -> Result<(), Failure> {
        let read = |id| all_segments(&self.partition(id));
        let ours = read(OURS)?;
        let ours = &ours[..bytes_below(&ours, committed)];
        let mut whole = false;
        for id in [1, 2] {
            let theirs = read(id)?;
            same_bytes(ours, &theirs)?;
            whole |= theirs.starts_with(ours);
        }
        ensure(whole && ours.len() > 10_000, || {
            std::format!("{} bytes up to {committed}, and no other log has all", ours.len())
        })
    }

    /// Of Kafka's logs those of its raft count: its controllers call slowness and a change of
    /// leader errors as well. Ours has no errors at all.
    pub fn said_no_error(&self) -> Result<(), Failure> {
        let bad = |line: &str| {
            let of_raft = line.contains("raft-") || line.contains("RaftManager");
            let ours = line.contains("quorate_") || line.contains("quorate::");
            line.contains(" ERROR ") && (of_raft || ours)
        };
        no_line(&self.directory, bad)
    }
}

/// How many bytes of a log's first segment lie below this offset, in whole batches.
fn bytes_below(segment: &[u8], end: u64) -> usize {
    let mut at = 0;
    while let Some(head) = segment[at..].first_chunk::<12>() {
        let (base, length) = head.split_at(8);
        let base = u64::from_be_bytes(base.try_into().expect("eight bytes"));
        let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
        // Room behind the last batch is zeros.
        if base >= end || length == 0 || at + 12 + length > segment.len() {
            break;
        }
        at += 12 + length;
    }
    at
}

/// The batches of all segments, oldest first: one of our logs begins a new one behind a cut.
fn all_segments(partition: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    for path in files_ending(partition, ".log")? {
        let segment = std::fs::read(path)?;
        bytes.extend_from_slice(&segment[..bytes_below(&segment, u64::MAX)]);
    }
    Ok(bytes)
}
