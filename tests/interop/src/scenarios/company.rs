//! A voter of ours among Apache Kafka's own controllers, with a broker of Kafka's behind them: it
//! replicates, acknowledges, votes, makes the majority, and its log is theirs byte by byte.
//!
//! It leaves leading to the others (`quorate.election.never.lead`), since what a controller of
//! Kafka's has to do besides is not in a machine that only listens.

use crate::java::Running;
use crate::scenario::{Failure, PATIENCE, Stage, ensure, no_line, same_bytes};
use crate::values::Anything;
use quorate::status::Status;
use quorate::{Cleanup, Config, Embedded, HostPort, ReplicaId, Voter, format};
use quorate_processes::poll;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use tokio::runtime::Runtime;

const CLUSTER: &str = "U7HrM6vDTwWK2XclkAu2_g";
/// Our node; 1 and 2 are controllers of Kafka's.
const OURS: u32 = 3;
/// The broker.
const BROKER: u32 = 9;

/// Directory ids of the three controllers where the voters are in the log.
const DIRECTORIES: [&str; 3] =
    ["HOMSeQ3sRdu175j0Wb8niA", "Pj4_cd-YRwSVpNdZdLOiHg", "omFXohrVRraWUN9F1_UaTQ"];

/// With `controller.quorum.voters` (kraft.version 0).
pub fn static_voters(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    votes(Company::format(stage, directory, false)?)
}

/// With voters in the log (kraft.version 1); Kafka's storage tool formats ours as well.
pub fn voters_in_the_log(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    votes(Company::format(stage, directory, true)?)
}

/// Kafka's controllers are killed in turn, ours is stopped and started: the cluster goes on.
fn votes(mut quorum: Company<'_>) -> Result<(), Failure> {
    quorum.start_kafka(1)?;
    quorum.start_kafka(2)?;
    quorum.start_ours()?;
    let first = quorum.follow(None)?;
    quorum.tool_sees_ours(first)?;

    let broker = quorum.start_broker()?;
    quorum.create_topic("before")?;
    quorum.produce_and_consume("before", 20)?;

    // Ours elects the other one, and is in the majority from now on.
    let second = 3 - first;
    quorum.kill_kafka(first);
    quorum.follow(Some(second))?;
    quorum.create_topic("between")?;
    quorum.start_kafka(first)?;

    // Without ours the two of Kafka's go on; it comes back and catches up.
    let end = quorum.stop_ours()?;
    quorum.create_topic("without")?;
    quorum.start_ours()?;
    quorum.follow(Some(second))?;
    quorum.beyond(end + 5)?;
    quorum.tool_sees_ours(second)?;

    // Only ours and the leader are left: nothing is committed without it.
    quorum.kill_kafka(first);
    quorum.create_topic("after")?;
    quorum.produce_and_consume("after", 20)?;
    quorum.produce_and_consume("before", 20)?;

    // The one that comes back lacks what was committed since, so only ours can be elected: it leads
    // until the other has caught up, and hands over.
    quorum.kill_kafka(second);
    quorum.start_kafka(first)?;
    quorum.follow(Some(first))?;
    quorum.create_topic("restored")?;
    quorum.produce_and_consume("after", 20)?;

    drop(broker);
    let end = quorum.stop_ours()?;
    quorum.kill_kafka(first);
    quorum.ours_led()?;
    quorum.same_logs(end)?;
    quorum.raft_said_no_error()
}

struct Company<'a> {
    stage: &'a Stage,
    directory: PathBuf,
    runtime: Runtime,
    /// Where the three controllers listen, and then the broker.
    at: Vec<SocketAddr>,
    /// Whether the voters are in the log.
    in_log: bool,
    kafka: [Option<Running>; 2],
    /// How often each was started, for the names of their logs.
    starts: u32,
    ours: Option<Embedded<Anything>>,
}

impl Company<'_> {
    fn format<'a>(
        stage: &'a Stage,
        directory: &Path,
        in_log: bool,
    ) -> Result<Company<'a>, Failure> {
        std::fs::create_dir_all(directory)?;
        // All at once, so that they differ.
        let held: Vec<TcpListener> =
            (0..4).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
        let at = held.iter().map(TcpListener::local_addr).collect::<Result<_, _>>()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let directory = directory.to_owned();
        let kafka = [None, None];
        let company =
            Company { stage, directory, runtime, at, in_log, kafka, starts: 0, ours: None };
        let initial = company.initial_controllers();
        for id in [1, 2, OURS, BROKER] {
            let file = company.write_file(id)?;
            let mut arguments = vec!["format", "-t", CLUSTER, "-c", &file];
            match (in_log, id) {
                (false, OURS) => {
                    format(&company.config(), Some(CLUSTER))?;
                    continue;
                }
                (false, _) => {}
                (true, BROKER) => arguments.push("--no-initial-controllers"),
                (true, _) => arguments.extend(["--initial-controllers", &initial]),
            }
            stage.kafka.run("kafka.tools.StorageTool", &arguments)?;
        }
        Ok(company)
    }

    fn initial_controllers(&self) -> String {
        let entry = |((at, id), directory): ((&SocketAddr, u32), &str)| {
            std::format!("{id}@{at}:{directory}")
        };
        let entries = self.at.iter().zip(1..=3).zip(DIRECTORIES).map(entry);
        entries.collect::<Vec<_>>().join(",")
    }

    /// How every node is told of the quorum.
    fn quorum(&self) -> String {
        let controllers = self.at.iter().zip(1..=3);
        let voters = controllers.clone().map(|(at, id)| std::format!("{id}@{at}"));
        let servers = controllers.map(|(at, _)| at.to_string());
        match self.in_log {
            false => {
                std::format!("controller.quorum.voters={}", voters.collect::<Vec<_>>().join(","))
            }
            true => {
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

    fn config(&self) -> Config {
        let host = |at: SocketAddr| HostPort { host: at.ip().to_string(), port: at.port() };
        let voter = |(at, id)| Voter { id: ReplicaId(id), at: host(at) };
        let controllers = self.at.iter().copied().zip(1..=3);
        let (voters, bootstrap) = match self.in_log {
            false => (controllers.map(voter).collect(), Vec::new()),
            true => (Vec::new(), controllers.map(|(at, _)| host(at)).collect()),
        };
        let directory = self.directory.join("node-3");
        Config {
            cleanup: Cleanup::Delete,
            never_lead: true,
            bootstrap,
            ..Config::new(Some(ReplicaId(OURS)), directory, voters, host(self.at[2]))
        }
    }

    fn partition(&self, id: u32) -> PathBuf {
        self.directory.join(std::format!("node-{id}/__cluster_metadata-0"))
    }

    fn start_java(&mut self, id: u32) -> Result<Running, Failure> {
        self.starts += 1;
        let file = self.directory.join(std::format!("node-{id}.properties"));
        let log = self.directory.join(std::format!("kafka-{id}-{}.log", self.starts));
        self.stage.kafka.start("kafka.Kafka", &[&file.display().to_string()], &log)
    }

    fn start_kafka(&mut self, id: u32) -> Result<(), Failure> {
        let running = self.start_java(id)?;
        self.kafka[id as usize - 1] = Some(running);
        Ok(())
    }

    fn kill_kafka(&mut self, id: u32) {
        self.kafka[id as usize - 1] = None;
    }

    fn start_broker(&mut self) -> Result<Running, Failure> {
        self.start_java(BROKER)
    }

    fn start_ours(&mut self) -> Result<(), Failure> {
        self.ours = Some(Embedded::start(self.config(), Anything::default())?);
        Ok(())
    }

    /// Where its log ended.
    fn stop_ours(&mut self) -> Result<u64, Failure> {
        let end = self.status()?.log_end;
        self.ours.take().map_or(Ok(()), Embedded::stop)?;
        Ok(end)
    }

    fn status(&self) -> Result<Status, Failure> {
        let node = self.ours.as_ref().ok_or_else(|| Failure("our node does not run".into()))?;
        Ok(self.runtime.block_on(node.handle().status())?)
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
    fn follow(&self, leader: Option<u32>) -> Result<u32, Failure> {
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
    fn beyond(&self, offset: u64) -> Result<(), Failure> {
        self.wait("our node to catch up", |status| status.applied > offset).map(drop)
    }

    /// Kafka's tool names ours as a follower that has all but perhaps the newest record.
    fn tool_sees_ours(&self, through: u32) -> Result<(), Failure> {
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

    fn broker(&self) -> String {
        self.at[3].to_string()
    }

    fn create_topic(&self, name: &str) -> Result<(), Failure> {
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
    fn produce_and_consume(&self, topic: &str, count: usize) -> Result<(), Failure> {
        let broker = self.broker();
        let lines: String = (0..count).map(|n| std::format!("message {n}\n")).collect();
        let produce = ["--bootstrap-server", &broker, "--topic", topic];
        self.stage.kafka.answer("org.apache.kafka.tools.ConsoleProducer", &produce, &lines)?;
        let many = count.to_string();
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
        let read =
            self.stage.kafka.run("org.apache.kafka.tools.consumer.ConsoleConsumer", &consume)?;
        let found = read.lines().filter(|line| line.starts_with("message ")).count();
        ensure(found == count, || std::format!("{count} written to {topic}, {found} read:\n{read}"))
    }

    /// Kafka's dump tool finds an epoch of ours in the log.
    fn ours_led(&self) -> Result<(), Failure> {
        let log = self.partition(OURS).join("00000000000000000000.log").display().to_string();
        let tool = "org.apache.kafka.tools.DumpLogSegments";
        let dump = self.stage.kafka.run(tool, &["--files", &log, "--cluster-metadata-decoder"])?;
        let leaders = dump.lines().filter(|line| line.contains("LeaderChange"));
        let leaders: Vec<&str> = leaders.collect();
        let ours = std::format!("\"leaderId\":{OURS},");
        ensure(leaders.iter().any(|line| line.contains(&ours)), || {
            std::format!("ours never led: {leaders:?}")
        })
    }

    /// All three logs hold the same bytes, as far as the shortest goes, and that is far.
    fn same_logs(&self, end: u64) -> Result<(), Failure> {
        let read = |id| std::fs::read(self.partition(id).join("00000000000000000000.log"));
        let (ours, mut shared) = (read(OURS)?, 0);
        for id in [1, 2] {
            shared = shared.max(same_bytes(&ours, &read(id)?)?);
        }
        ensure(shared > 10_000 && end > 100, || {
            std::format!("only {shared} bytes up to offset {end} were compared")
        })
    }

    /// Of Kafka's raft: its controllers call slowness and a change of leader errors as well.
    fn raft_said_no_error(&self) -> Result<(), Failure> {
        let of_raft = |line: &str| {
            line.contains(" ERROR ") && (line.contains("raft-") || line.contains("RaftManager"))
        };
        no_line(&self.directory, of_raft)
    }
}
