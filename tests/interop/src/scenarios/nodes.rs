//! A node of Kafka's raft takes a place in a quorum of ours, on the directory that our node left,
//! and leaves the place and the directory to our node again. It follows ours, and ours follow it.
//!
//! Kafka's `TestRaftServer` is its whole raft client, log and network with a benchmark instead of a
//! controller on top. It knows one topic, one topic id and the cluster id zero, so ours take those.

use crate::java::{Kafka, Running};
use crate::recorder::Recorder;
use crate::scenario::{Failure, PATIENCE, Stage, ensure, no_line, same_bytes};
use crate::values::{self, Values};
use quorate::status::{ReplicaStatus, Status};
use quorate::{Config, Embedded, Request, Span, Uuid, format};
use quorate_processes::{Cluster, free_ports, poll};
use std::cell::Cell;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tokio::runtime::Runtime;

const SERVER: &str = "kafka.tools.TestRaftServer";
const ZERO: &str = "AAAAAAAAAAAAAAAAAAAAAA";
const NAMES: &[&str] =
    &["quorate.topic=__raft_performance_test", "quorate.topic.id=AAAAAAAAAAAAAAAAAAAAAg"];
/// The node whose place is taken. It starts when the others have a leader, so it follows.
pub const TAKEN: u32 = 3;
/// Values written in each part of the story.
const VALUES: u32 = 100;

pub fn takes_a_place(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    let mut quorum = Quorum::format(stage, directory, &[])?;
    let (leader, kept) = quorum.start_two()?;

    // Ours writes the directory, and is killed.
    let log = directory.join("node-3/node.log");
    let own = Running::start(
        Command::new(std::env::current_exe()?).arg("node").arg(quorum.file(TAKEN)),
        Stdio::piped(),
        &log,
    )?;
    quorum.write_until_level(leader)?;
    drop(own);
    quorum.write(leader, VALUES)?;

    // Kafka's opens it, fetches what it lacks, and keeps up.
    let kafka = quorum.start_kafka(stage, TAKEN)?;
    quorum.write_until_level(leader)?;

    // Now nothing is committed without it.
    quorum.stop(kept)?;
    quorum.write(leader, VALUES)?;
    let committed = quorum.status(leader)?.high_watermark.unwrap_or_default();
    drop(kafka);
    quorum.stop(leader)?;

    // Ours opens what it wrote. Nobody who runs has as much, so ours leads and the rest follow.
    quorum.start(TAKEN)?;
    let end = quorum.status(TAKEN)?.log_end;
    ensure(end >= committed, || format!("{committed} were committed, our log ends at {end}"))?;
    quorum.start(kept)?;
    let next = quorum.leader()?;
    ensure(next == TAKEN, || format!("node {next} leads without what is committed"))?;
    quorum.write(next, VALUES)?;
    quorum.start(leader)?;
    quorum.wait_until_equal()?;
    quorum.kafka_said_no_error()
}

/// Two of Kafka's and one of ours: leadership goes from Kafka's to ours and back, and with it the
/// load, and all three logs stay one.
pub fn leads_two(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    const OURS: u32 = 1;
    let mut quorum = Quorum::format(stage, directory, &[])?;
    let (second, third) = (quorum.start_kafka(stage, 2)?, quorum.start_kafka(stage, 3)?);
    quorum.start(OURS)?;
    // Mostly ours is the first to be there and is elected; then it hands over.
    let leads = poll("ours to lead, or to follow Kafka's", PATIENCE, || {
        let status = quorum.status(OURS).ok().filter(|status| status.ready)?;
        status.leader.map(|leader| leader == OURS)
    })?;
    match leads {
        true => quorum.hand_over(OURS)?,
        false => quorum.follow_one_of(OURS, &[2, 3], u64::from(5 * VALUES))?,
    }

    // Without the one that does not lead, ours is in the majority of all that Kafka's writes; then
    // it has more than the one that comes back, and is elected.
    let (leader, kept, leads, lags) = match quorum.status(OURS)?.leader {
        Some(2) => (2, 3, second, third),
        Some(_) | None => (3, 2, third, second),
    };
    drop(lags);
    let end = quorum.status(OURS)?.log_end;
    quorum.follow_one_of(OURS, &[leader], end + u64::from(5 * VALUES))?;
    drop(leads);
    let kept_runs = quorum.start_kafka(stage, kept)?;
    let elected = quorum.leader()?;
    ensure(elected == OURS, || format!("node {elected} leads without what is committed"))?;
    quorum.write(OURS, VALUES)?;

    // And back: ours stops once both have all that it wrote.
    let leader_runs = quorum.start_kafka(stage, leader)?;
    quorum.hand_over(OURS)?;

    drop((kept_runs, leader_runs));
    quorum.stop(OURS)?;
    quorum.same_logs()?;
    quorum.kafka_said_no_error()
}

pub fn leads(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    let mut quorum = Quorum::format(stage, directory, &[])?;
    quorum.let_lead(&stage.kafka)?;

    // Ours elect one of themselves, and have what Kafka's wrote, in all three places.
    quorum.start(TAKEN)?;
    quorum.wait_until_equal()?;
    quorum.kafka_said_no_error()
}

/// Three nodes, of which those that this process runs are in `nodes`.
pub struct Quorum {
    directory: PathBuf,
    runtime: Runtime,
    nodes: [Option<Embedded<Values>>; 3],
    /// `directory.id` of each.
    directory_ids: [String; 3],
    written: u32,
    /// How often a node of Kafka's was started, for the names of their logs.
    starts: Cell<u32>,
}

impl Quorum {
    /// Formats three nodes with these settings; starts none.
    pub fn format(stage: &Stage, directory: &Path, settings: &[&str]) -> Result<Quorum, Failure> {
        // Gives ports and property files; its cluster id is made up, so the data is formatted anew.
        Cluster::format(&stage.binary, directory, 3, &[NAMES, settings].concat())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut quorum = Quorum {
            directory: directory.to_owned(),
            runtime,
            nodes: [None, None, None],
            directory_ids: Default::default(),
            written: 0,
            starts: Cell::new(0),
        };
        for id in 1..=3 {
            let directory = quorum.forget(id)?.map(|directory| directory.to_string());
            quorum.directory_ids[id as usize - 1] = directory.unwrap_or_default();
        }
        Ok(quorum)
    }

    fn file(&self, id: u32) -> PathBuf {
        self.directory.join(format!("node-{id}/server.properties"))
    }

    fn config(&self, id: u32) -> Result<Config, Failure> {
        values::config(&self.file(id))
    }

    /// Where the files of its log are.
    pub fn partition(&self, id: u32) -> Result<PathBuf, Failure> {
        let config = self.config(id)?;
        Ok(config.directory.join(format!("{}-0", config.topic)))
    }

    /// Lets all that the nodes say to each other pass through a recorder. None may run.
    pub fn stand_between(&self, recorder: &Recorder) -> Result<(), Failure> {
        let mut free = free_ports();
        let mut routes = Vec::new();
        for id in 1..=3 {
            let at = self.config(id)?.bind;
            let own = SocketAddr::new(at.host.parse()?, at.port);
            let between = free.next().ok_or_else(|| Failure("no port is free".into()))?;
            recorder.stand_between(between, own)?;
            routes.push((format!("{id}@{own}"), between));
        }
        for (at, (_, own)) in routes.iter().enumerate() {
            let file = self.file(at as u32 + 1);
            let mut text = std::fs::read_to_string(&file)?;
            for (voter, between) in &routes {
                text = text.replace(voter.as_str(), &format!("{}{between}", &voter[..2]));
            }
            text += &format!("advertised.listeners=CONTROLLER://{own}\n");
            std::fs::write(file, text)?;
        }
        Ok(())
    }

    /// The property file of Kafka's node, on the directory and the port of ours.
    fn kafkas_file(&self, id: u32) -> Result<String, Failure> {
        let ours = std::fs::read_to_string(self.file(id))?;
        let file = self.directory.join(format!("kafka-{id}.properties"));
        std::fs::write(&file, ours + "controller.listener.names=CONTROLLER\n")?;
        Ok(file.display().to_string())
    }

    pub fn start_kafka(&self, stage: &Stage, id: u32) -> Result<Running, Failure> {
        self.start_kafka_of(&stage.kafka, id)
    }

    /// The same of any release.
    pub fn start_kafka_of(&self, kafka: &Kafka, id: u32) -> Result<Running, Failure> {
        let (file, directory) = (self.kafkas_file(id)?, &self.directory_ids[id as usize - 1]);
        let arguments =
            ["--config", &file, "--replica-directory-id", directory, "--throughput", "500"];
        let starts = self.starts.get() + 1;
        self.starts.set(starts);
        let log = self.directory.join(format!("kafka-{id}-{starts}.log"));
        kafka.start(SERVER, &arguments, &log)
    }

    /// It prints errors, and nothing of less weight.
    pub fn kafka_said_no_error(&self) -> Result<(), Failure> {
        // A voter tells each leader where it listens. This program of Kafka's announces that it
        // takes that, and does not; what ours ask goes on without.
        let known = |line: &str| {
            line.contains("apiKey=UPDATE_RAFT_VOTER") && line.contains("clientId=quorate")
        };
        no_line(&self.directory, |line| line.contains(" ERROR ") && !known(line))
    }

    /// Two of ours start, and a node of this Kafka in the third place; then it leads both, and
    /// ends.
    pub fn let_lead(&mut self, kafka: &Kafka) -> Result<(), Failure> {
        let (leader, kept) = self.start_two()?;
        let kafka = self.start_kafka_of(kafka, TAKEN)?;
        self.write_until_level(leader)?;
        // Only Kafka's has all that is committed, so it alone can be elected by the one left.
        self.stop(kept)?;
        self.write(leader, VALUES)?;
        self.stop(leader)?;
        self.start(kept)?;
        self.follow(kept)?;
        self.start(leader)?;
        self.follow(leader)?;
        drop(kafka);
        Ok(())
    }

    /// The leader and the follower of two.
    pub fn start_two(&mut self) -> Result<(u32, u32), Failure> {
        self.start(1)?;
        self.start(2)?;
        match self.leader()? {
            1 => Ok((1, 2)),
            leader => Ok((leader, 1)),
        }
    }

    pub fn start(&mut self, id: u32) -> Result<(), Failure> {
        let node = Embedded::start(self.config(id)?, Values::default())?;
        self.nodes[id as usize - 1] = Some(node);
        Ok(())
    }

    pub fn stop(&mut self, id: u32) -> Result<(), Failure> {
        self.nodes[id as usize - 1].take().map_or(Ok(()), Embedded::stop)?;
        Ok(())
    }

    /// Loses the data of a node that does not run, which gets an empty directory; its id.
    pub fn forget(&self, id: u32) -> Result<Option<Uuid>, Failure> {
        let config = self.config(id)?;
        std::fs::remove_dir_all(&config.directory)?;
        Ok(format(&config, Some(ZERO))?.directory)
    }

    pub fn status(&self, id: u32) -> Result<Status, Failure> {
        let node = self.nodes[id as usize - 1].as_ref();
        let node = node.ok_or_else(|| Failure(format!("node {id} does not run here")))?;
        Ok(self.runtime.block_on(node.handle().status())?)
    }

    fn leader(&self) -> Result<u32, Failure> {
        let leads =
            |id: &u32| self.status(*id).is_ok_and(|status| status.ready && status.role == "leader");
        Ok(poll("a leader", PATIENCE, || (1..=3).find(leads))?)
    }

    /// Each is committed when this returns.
    pub fn write(&mut self, leader: u32, count: u32) -> Result<(), Failure> {
        let node = self.nodes[leader as usize - 1].as_ref();
        let handle = node.ok_or_else(|| Failure("the leader does not run here".into()))?.handle();
        for _ in 0..count {
            self.written += 1;
            let value = format!("value {}", self.written);
            let patience = Span::ms(PATIENCE.as_millis() as u64);
            self.runtime.block_on(handle.write(Request::write(value), patience))?;
        }
        Ok(())
    }

    /// Goes on writing until this leader and all who run have cut the beginning of their logs.
    pub fn write_until_trimmed(&mut self, leader: u32) -> Result<(), Failure> {
        let begin = std::time::Instant::now();
        let running: Vec<u32> =
            (1..=3).filter(|id| self.nodes[*id as usize - 1].is_some()).collect();
        loop {
            self.write(leader, VALUES)?;
            let mut trimmed = true;
            for id in &running {
                trimmed &= self.status(*id)?.log_start > 0;
            }
            if trimmed {
                return Ok(());
            }
            ensure(begin.elapsed() < PATIENCE, || "no log was ever trimmed".into())?;
        }
    }

    /// Goes on writing until the leader sees the third node with all that is committed, which is
    /// more than there was at the call; then some more, and sees it so again.
    pub fn write_until_level(&mut self, leader: u32) -> Result<(), Failure> {
        for _ in 0..2 {
            self.write(leader, VALUES)?;
            let before = self.status(leader)?.log_end;
            let mut failure = None;
            let seen = poll("the third node to be level with its leader", PATIENCE, || {
                let looked = self.write(leader, 1).and_then(|()| self.status(leader));
                match looked {
                    Ok(status) => is_level(&status, before).then_some(()),
                    Err(error) => {
                        failure = Some(error);
                        Some(())
                    }
                }
            });
            if let Some(failure) = failure {
                return Err(failure);
            }
            if let Err(late) = seen {
                let replicas = self.status(leader)?.replicas;
                return Err(Failure(format!("{late}; the leader sees {replicas:?}")));
            }
        }
        Ok(())
    }

    /// Waits until a node of ours follows the node of Kafka's in the third place and has applied
    /// many records which that wrote.
    pub fn follow(&self, id: u32) -> Result<(), Failure> {
        self.follow_one_of(id, &[TAKEN], u64::from(self.written + 5 * VALUES))
    }

    /// The same for a leader among these, and so many records in all.
    pub fn follow_one_of(&self, id: u32, leaders: &[u32], enough: u64) -> Result<(), Failure> {
        let mut last = Err(Failure(String::new()));
        let followed = poll("our node to follow Kafka's", PATIENCE, || {
            last = self.status(id);
            let status = last.as_ref().ok()?;
            let follows = status.role == "follower"
                && status.leader.is_some_and(|leader| leaders.contains(&leader));
            (follows && status.ready && status.applied > enough).then_some(())
        });
        let status = last?;
        followed.map_err(|late| Failure(format!("{late}: {status:?}")))
    }

    /// Stops this leader once both others have all that it wrote, starts it again, and waits until
    /// it follows one of them and has applied what that wrote.
    fn hand_over(&mut self, id: u32) -> Result<(), Failure> {
        self.write_until_all_level(id)?;
        let end = self.status(id)?.log_end;
        self.stop(id)?;
        self.start(id)?;
        let others: Vec<u32> = (1..=3).filter(|other| *other != id).collect();
        self.follow_one_of(id, &others, end + u64::from(5 * VALUES))
    }

    /// Writes until this leader sees both others with all of its log.
    fn write_until_all_level(&mut self, leader: u32) -> Result<(), Failure> {
        let mut failure = None;
        let seen = poll("both others to be level with their leader", PATIENCE, || {
            let looked = self.write(leader, 1).and_then(|()| self.status(leader));
            match looked {
                Ok(status) => {
                    let others = status.replicas.iter().filter(|r| r.node != i64::from(leader));
                    (others.clone().count() == 2 && others.clone().all(|r| r.lag == Some(0)))
                        .then_some(())
                }
                Err(error) => {
                    failure = Some(error);
                    Some(())
                }
            }
        });
        match failure {
            Some(failure) => Err(failure),
            None => Ok(seen?),
        }
    }

    /// The logs of all three places are the same bytes, as far as they go.
    fn same_logs(&self) -> Result<(), Failure> {
        let read = |id| -> Result<Vec<u8>, Failure> {
            Ok(std::fs::read(self.partition(id)?.join("00000000000000000000.log"))?)
        };
        let first = read(1)?;
        for id in [2, 3] {
            let compared = same_bytes(&first, &read(id)?)?;
            ensure(compared > 50_000, || format!("only {compared} bytes were compared"))?;
        }
        Ok(())
    }

    pub fn wait_until_equal(&mut self) -> Result<(), Failure> {
        let of_all = |quorum: &Quorum| (1..=3).map(|id| quorum.status(id)).collect();
        let mut last: Result<Vec<Status>, Failure> = Ok(Vec::new());
        let level = poll("all nodes to be ready and level", PATIENCE, || {
            last = of_all(self);
            let statuses = last.as_ref().ok()?;
            let ready = statuses.iter().all(|status| status.ready);
            let end = statuses[0].log_end;
            (ready && statuses.iter().all(|status| status.applied == end)).then_some(())
        });
        let statuses = last?;
        level.map_err(|late| Failure(format!("{late}: {statuses:?}")))?;
        let digest = &statuses[0].digest;
        ensure(statuses.iter().all(|status| status.digest == *digest), || {
            format!("the nodes differ: {statuses:?}")
        })?;
        let written = u64::from(self.written);
        ensure(statuses[0].applied > written, || format!("{written} written: {statuses:?}"))
    }
}

/// Whether the third node lacks nothing and has more than there was at some time.
fn is_level(status: &Status, before: u64) -> bool {
    let has_all = |replica: &ReplicaStatus| {
        let end = replica.log_end.unwrap_or_default();
        replica.node == i64::from(TAKEN)
            && replica.lag == Some(0)
            && end > before
            && Some(end) >= status.high_watermark
    };
    status.replicas.iter().any(has_all)
}
