//! `quorate format` and Kafka's storage tool, in each way that there is to format: the same files,
//! and each side's processes run on what the other made.

use super::directories::quorate;
use crate::java::{Running, soon_given_up};
use crate::scenario::{Failure, PATIENCE, Stage, ensure, places};
use quorate::status::Status;
use quorate_processes::http::Client;
use quorate_processes::poll;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const STORAGE: &str = "kafka.tools.StorageTool";
const CLUSTER: &str = "U7HrM6vDTwWK2XclkAu2_g";
const DIRECTORIES: [&str; 3] =
    ["Qmy_DlauSqSmlsg-3MzqEw", "MvDxzVmcRsaTz33bUuRU6A", "07R5amHmR32VDA6jHkGbTA"];
const FIRST: &str = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint";
const BOOTSTRAP: &str = "bootstrap.checkpoint";
const SCRAM: [&str; 2] = [
    "SCRAM-SHA-256=[name=alice,password=alice-secret,salt=MWx2NHBkbnc0ZndxN25vdGN4bTB5eTFrN3E=]",
    "SCRAM-SHA-512=[name=bob,iterations=8192,salt=\"N3E=\",saltedpassword=\"YCE=\"]",
];

/// Who a node's file says that the voters are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// `controller.quorum.voters`.
    InFiles,
    /// `controller.quorum.bootstrap.servers`.
    InLog,
}

/// Nodes with directories and files of their own; nobody has formatted them.
pub(super) struct Nodes<'a> {
    stage: &'a Stage,
    directory: PathBuf,
    known: Known,
    /// Voters that the files name.
    voters: usize,
    pub(super) raft: Vec<SocketAddr>,
    http: Vec<SocketAddr>,
}

impl Nodes<'_> {
    /// `voters` of `count` nodes are named by the files.
    pub(super) fn new<'a>(
        stage: &'a Stage,
        directory: PathBuf,
        known: Known,
        voters: usize,
        count: usize,
    ) -> Result<Nodes<'a>, Failure> {
        std::fs::create_dir_all(&directory)?;
        let at = places(2 * count)?;
        let (raft, http) = (at[..count].to_vec(), at[count..].to_vec());
        Ok(Nodes { stage, directory, known, voters, raft, http })
    }

    pub(super) fn data(&self, id: usize, whose: &str) -> PathBuf {
        self.directory.join(format!("{whose}-{id}"))
    }

    /// A second directory of the node, where the log is not.
    fn other(&self, id: usize, whose: &str) -> PathBuf {
        self.directory.join(format!("{whose}-{id}-other"))
    }

    /// The file of a node, from 1, whose data is `whose`.
    fn file(&self, id: usize, whose: &str, machine: &str) -> Result<String, Failure> {
        let named = self.raft[..self.voters].iter();
        let quorum = match self.known {
            Known::InFiles => {
                let voters: Vec<String> =
                    named.zip(1..).map(|(at, id)| format!("{id}@{at}")).collect();
                format!("controller.quorum.voters={}", voters.join(","))
            }
            Known::InLog => {
                let servers: Vec<String> = named.map(ToString::to_string).collect();
                format!("controller.quorum.bootstrap.servers={}", servers.join(","))
            }
        };
        let text = format!(
            "process.roles=controller\nnode.id={id}\nlog.dirs={},{}\nlisteners=CONTROLLER://{}\n\
             controller.listener.names=CONTROLLER\n{quorum}\nquorate.machine={machine}\n\
             quorate.http.listen={}\n",
            self.data(id, whose).display(),
            self.other(id, whose).display(),
            self.raft[id - 1],
            self.http[id - 1],
        );
        let file = self.directory.join(format!("{whose}-{id}-{machine}.properties"));
        std::fs::write(&file, text)?;
        Ok(file.display().to_string())
    }

    pub(super) fn initial_controllers(&self) -> String {
        let voters = self.raft[..self.voters].iter().zip(1..).zip(DIRECTORIES);
        let voters = voters.map(|((at, id), directory)| format!("{id}@{at}:{directory}"));
        voters.collect::<Vec<_>>().join(",")
    }

    pub(super) fn by_kafka(&self, id: usize, more: &[&str]) -> Result<(), Failure> {
        let file = self.file(id, "kafkas", "kv")?;
        let arguments = [&["format", "-t", CLUSTER, "-c", &file], more].concat();
        self.stage.kafka.run(STORAGE, &arguments).map(drop)
    }

    fn by_us(&self, id: usize, more: &[&str]) -> Result<(), Failure> {
        let file = self.file(id, "ours", "kafka")?;
        let arguments = [&["format", "-t", CLUSTER, "-c", &file], more].concat();
        quorate(self.stage, &arguments).map(drop)
    }

    /// All of them listen elsewhere from now on.
    pub(super) fn move_all(&mut self) -> Result<(), Failure> {
        self.raft = places(self.raft.len())?;
        Ok(())
    }

    fn run_ours(&self, id: usize, whose: &str) -> Result<Running, Failure> {
        let file = self.file(id, whose, "kv")?;
        let mut command = Command::new(&self.stage.binary);
        let log = self.directory.join(format!("run-{whose}-{id}.log"));
        Running::start(command.args(["run", &file]), Stdio::null(), &log)
    }

    pub(super) fn run_kafkas(&self, id: usize, whose: &str) -> Result<Running, Failure> {
        let file = self.file(id, whose, "kafka")?;
        let log = self.directory.join(format!("kafka-{whose}-{id}.log"));
        self.stage.kafka.start("kafka.Kafka", &[&file], &log)
    }

    fn status(&self, id: usize) -> Option<Status> {
        let mut client = Client::new(self.http[id - 1], Duration::from_secs(1));
        serde_json::from_slice(&client.ask("GET", "/status", &[], b"").ok()?.body).ok()
    }

    /// A write through a node is committed, and every node has it.
    fn takes_writes(&self, through: usize, all: usize) -> Result<(), Failure> {
        let mut client = Client::new(self.http[through - 1], PATIENCE);
        poll("a write to be taken", PATIENCE, || {
            let answer = client.ask("PUT", "/v1/kv/key", &[], b"value").ok()?;
            (answer.status < 300).then_some(())
        })
        .map_err(|late| Failure(format!("{late}: {:?}", self.status(through))))?;
        for id in 1..=all {
            poll("a node to have the write", PATIENCE, || {
                let mut client = Client::new(self.http[id - 1], Duration::from_secs(1));
                let answer = client.ask("GET", "/v1/kv/key", &[], b"").ok()?;
                (answer.status == 200 && &answer.body[..] == b"value").then_some(())
            })
            .map_err(|late| Failure(format!("node {id}: {late}: {:?}", self.status(id))))?;
        }
        Ok(())
    }

    /// Kafka's tool names a leader and as many voters.
    pub(super) fn kafkas_lead(&self, id: usize, voters: usize) -> Result<(), Failure> {
        let at = self.raft[id - 1].to_string();
        let brief = soon_given_up(&self.directory)?;
        let mut printed = String::new();
        let seen = poll("a controller of Kafka's to lead", 2 * PATIENCE, || {
            let config = ["--command-config", &brief, "--bootstrap-controller", &at];
            let arguments = [&config[..], &["describe", "--status"]].concat();
            let asked =
                self.stage.kafka.run("org.apache.kafka.tools.MetadataQuorumCommand", &arguments);
            printed = asked.unwrap_or_else(|failure| failure.0);
            let value = |name: &str| printed.lines().find_map(|line| line.strip_prefix(name));
            let leads = value("LeaderId:")?.trim().parse::<u32>().is_ok();
            let committed = value("HighWatermark:")?.trim().parse::<u64>().ok()? > 5;
            let count = value("CurrentVoters:")?.matches("\"id\"").count();
            (leads && committed && count == voters).then_some(())
        });
        seen.map_err(|late| Failure(format!("{late}:\n{printed}")))
    }
}

/// Each way to format a node, all of which both tools know.
struct Way {
    name: &'static str,
    known: Known,
    flags: &'static [&'static str],
    /// Whether the list of initial controllers follows.
    listed: bool,
}

const WAYS: [Way; 4] = [
    Way { name: "static", known: Known::InFiles, flags: &[], listed: false },
    Way { name: "standalone", known: Known::InLog, flags: &["--standalone"], listed: false },
    Way { name: "initial", known: Known::InLog, flags: &["--initial-controllers"], listed: true },
    Way { name: "none", known: Known::InLog, flags: &["--no-initial-controllers"], listed: false },
];

/// What else both may be told, of which each goes with every way.
const MORE: [&[&str]; 6] = [
    &[],
    &["--release-version", "3.7-IV4"],
    &["-r", "4.0"],
    &["-f", "metadata.version=28", "-f", "group.version=0", "-f", "transaction.version=1"],
    &["-S", SCRAM[0], "-S", SCRAM[1]],
    &["--release-version", "3.5-IV2", "--add-scram", SCRAM[0]],
];

/// Byte by byte the files of Kafka's tool, but for ids and times.
pub fn same_files(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    for way in &WAYS {
        let whole = if way.name == "standalone" { MORE.len() } else { 3 };
        // What is said besides does not depend on the way; one of them has it all.
        for (at, more) in MORE[..whole].iter().enumerate() {
            let voters = if way.listed { 3 } else { 1 };
            let folder = directory.join(format!("{}-{at}", way.name));
            let nodes = Nodes::new(stage, folder, way.known, voters, 3)?;
            let list = nodes.initial_controllers();
            let listed: &[&str] = if way.listed { &[&list] } else { &[] };
            let arguments = [way.flags, listed, more].concat();
            nodes.by_kafka(1, &arguments)?;
            nodes.by_us(1, &arguments)?;
            same(&nodes.data(1, "kafkas"), &nodes.data(1, "ours"), way)
                .and_then(|()| same_beside(&nodes))
                .map_err(|Failure(why)| Failure(format!("{}, {more:?}: {why}", way.name)))?;
        }
    }
    Ok(())
}

fn same(theirs: &Path, ours: &Path, way: &Way) -> Result<(), Failure> {
    let meta = |folder: &Path| -> Result<Vec<String>, Failure> {
        let text = std::fs::read_to_string(folder.join("meta.properties"))?;
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let mut lines: Vec<String> = lines.map(str::to_owned).collect();
        lines.sort();
        Ok(lines)
    };
    let (mut kafkas, mut own) = (meta(theirs)?, meta(ours)?);
    let directory = |lines: &[String]| -> Result<[u8; 16], Failure> {
        let line = lines.iter().find_map(|line| line.strip_prefix("directory.id="));
        let id: quorate::Uuid = line.unwrap_or_default().parse()?;
        Ok(id.0)
    };
    let ids = (directory(&kafkas)?, directory(&own)?);
    if !way.listed {
        kafkas.retain(|line| !line.starts_with("directory.id="));
        own.retain(|line| !line.starts_with("directory.id="));
    }
    ensure(kafkas == own, || format!("meta.properties: {kafkas:?}, ours {own:?}"))?;
    let mut compared = 0;
    for name in [BOOTSTRAP, FIRST] {
        let (theirs, ours) = (theirs.join(name), ours.join(name));
        ensure(theirs.exists() == ours.exists(), || {
            format!("{name}: theirs {}, ours {}", theirs.exists(), ours.exists())
        })?;
        if !theirs.exists() {
            continue;
        }
        compared += 1;
        let plain = |file: &Path, id| std::fs::read(file).map(|bytes| without(bytes, id));
        let (kafkas, own) = (plain(&theirs, ids.0)?, plain(&ours, ids.1)?);
        ensure(kafkas == own, || {
            format!("{} and {} differ: {kafkas:02x?}\n{own:02x?}", theirs.display(), ours.display())
        })?;
        let mode =
            |file: &Path| std::fs::metadata(file).map(|file| file.permissions().mode() & 0o777);
        ensure(mode(&theirs)? == mode(&ours)?, || format!("{name} has another mode"))?;
    }
    let expected = if way.flags.is_empty() || way.name == "none" { 1 } else { 2 };
    ensure(compared == expected, || format!("{compared} files, not {expected}"))
}

/// The same of the directories where the log is not.
fn same_beside(nodes: &Nodes<'_>) -> Result<(), Failure> {
    let (theirs, ours) = (nodes.other(1, "kafkas"), nodes.other(1, "ours"));
    let names = |folder: &Path| -> Result<Vec<String>, Failure> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.retain(|name| name != ".lock");
        names.sort();
        Ok(names)
    };
    let (kafkas, own) = (names(&theirs)?, names(&ours)?);
    ensure(kafkas == own && kafkas.len() == 2, || format!("beside: {kafkas:?}, ours {own:?}"))?;
    let plain = |folder: &Path| std::fs::read(folder.join(BOOTSTRAP)).map(|b| without(b, [0; 16]));
    ensure(plain(&theirs)? == plain(&ours)?, || format!("{BOOTSTRAP} beside differs"))?;
    let meta = |folder: &Path| std::fs::read_to_string(folder.join("meta.properties"));
    let facts = |text: String| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with(['#', 'd']));
        let mut lines: Vec<String> = lines.map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let (kafkas, own) = (facts(meta(&theirs)?), facts(meta(&ours)?));
    ensure(kafkas == own && own.len() == 3, || format!("beside: {kafkas:?}, ours {own:?}"))
}

/// A checkpoint without its times, what depends on them, and this id.
fn without(mut bytes: Vec<u8>, id: [u8; 16]) -> Vec<u8> {
    let mut at = 0;
    while let Some(head) = bytes.get(at..at + 12) {
        let length = u32::from_be_bytes(head[8..].try_into().expect("four bytes")) as usize;
        // The checksum, the first and the last time.
        bytes[at + 17..at + 21].fill(0);
        bytes[at + 27..at + 43].fill(0);
        at += 12 + length;
    }
    // The value of the first record, which is the header's: the time of the last record.
    bytes[73..81].fill(0);
    let own = bytes.windows(16).position(|found| found == id);
    if let Some(own) = own {
        bytes[own..own + 16].fill(0);
    }
    bytes
}

/// Nodes of ours start on what Kafka's tool formatted, and take writes.
pub fn kafkas_run_ours(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    for way in &WAYS {
        let folder = directory.join(way.name);
        let (voters, count) = if way.name == "standalone" { (1, 1) } else { (3, 3) };
        // Who is none of the first observes those that are.
        let count = if way.name == "none" { count + 1 } else { count };
        let nodes = Nodes::new(stage, folder, way.known, voters, count)?;
        let list = nodes.initial_controllers();
        let mut running = Vec::new();
        for id in 1..=count {
            match (way.name, id) {
                ("none", 4) => nodes.by_kafka(id, way.flags)?,
                ("none" | "initial", _) => {
                    nodes.by_kafka(id, &["--initial-controllers", &list])?;
                }
                _ => nodes.by_kafka(id, way.flags)?,
            }
            running.push(nodes.run_ours(id, "kafkas")?);
        }
        nodes
            .takes_writes(1, count)
            .map_err(|Failure(why)| Failure(format!("{}: {why}", way.name)))?;
        let observer = nodes.status(count).map(|status| status.role);
        ensure((observer.as_deref() == Some("observer")) == (way.name == "none"), || {
            format!("{}: node {count} is {observer:?}", way.name)
        })?;
        drop(running);
        if way.name == "static" {
            // A node that ran and has lost its log is not one that was never started.
            let lost = nodes.data(1, "kafkas").join("__cluster_metadata-0");
            std::fs::remove_dir_all(lost)?;
            let refused = quorate(stage, &["run", &nodes.file(1, "kafkas", "kv")?]);
            ensure(refused.is_err_and(|Failure(why)| why.contains("is missing")), || {
                "a node without its log starts".into()
            })?;
        }
    }
    Ok(())
}

/// Controllers of Kafka's start on what we formatted, lead, and begin with the records that we
/// wrote.
pub fn ours_run_kafkas(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    for way in &WAYS[..3] {
        let folder = directory.join(way.name);
        let count = if way.listed { 3 } else { 1 };
        let nodes = Nodes::new(stage, folder, way.known, count, count)?;
        let list = nodes.initial_controllers();
        let listed: &[&str] = if way.listed { &[&list] } else { &[] };
        let mut running = Vec::new();
        for id in 1..=count {
            nodes.by_us(id, &[way.flags, listed, &["-r", "4.0", "-S", SCRAM[0]]].concat())?;
            running.push(nodes.run_kafkas(id, "ours")?);
        }
        nodes
            .kafkas_lead(count, count)
            .map_err(|Failure(why)| Failure(format!("{}: {why}", way.name)))?;
        drop(running);
        let log = nodes.data(1, "ours").join("__cluster_metadata-0/00000000000000000000.log");
        let printed = quorate(stage, &["log", "dump", &log.display().to_string()])?;
        let version = r#""name":"metadata.version","featureLevel":25"#;
        for words in [version, "USER_SCRAM_CREDENTIAL_RECORD", "alice"] {
            ensure(printed.contains(words), || format!("{}: no {words}:\n{printed}", way.name))?;
        }
        // The first leader repeats them in the log, where the bootstrap snapshot has them.
        let named = printed.contains("KRaftVoters {") == (way.known == Known::InLog);
        ensure(named, || format!("{}: who names the voters?\n{printed}", way.name))?;
    }
    Ok(())
}
