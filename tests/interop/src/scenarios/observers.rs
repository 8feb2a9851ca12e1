//! A broker and a controller of Kafka's as observers of a quorum of ours, whose voters write
//! metadata records as a controller would: they replicate through changes of leader, and download a
//! snapshot of ours once our logs are trimmed.
//!
//! It is replication that shows here: nobody registers the two, so neither serves anybody.

use super::downloads::begins_at_one_of;
use super::snapshots::{OFTEN, snapshots};
use crate::java::Running;
use crate::scenario::{Failure, PATIENCE, Stage, ensure, no_line, places, same_bytes};
use quorate::status::Status;
use quorate::{
    Answer, Batch, Corrupt, Embedded, Image, Machine, Offset, OffsetEpoch, Operation, Proposal,
    Records, Request, Span, Time, settings,
};
use quorate_machine::kafka::{Mirror, Picture};
use quorate_processes::poll;
use quorate_wire::Float64;
use quorate_wire::record::metadata::{ClientQuota, FeatureLevel, MetadataRecord, QuotaEntity};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tokio::runtime::Runtime;

const CLUSTER: &str = "U7HrM6vDTwWK2XclkAu2_g";
/// `directory.id` of our three nodes.
const DIRECTORIES: [&str; 3] =
    ["HOMSeQ3sRdu175j0Wb8niA", "Pj4_cd-YRwSVpNdZdLOiHg", "omFXohrVRraWUN9F1_UaTQ"];
/// Those of Kafka's.
const CONTROLLER: u32 = 8;
const BROKER: u32 = 9;
/// Bytes by which the first batch of a log is found in another one.
const HEAD: usize = 61;
/// Records at a time.
const RECORDS: u32 = 200;

/// The scenario.
pub fn follow_ours(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    let mut quorum = Ours::format(stage, directory)?;
    (1..=3).try_for_each(|id| quorum.start(id))?;
    quorum.write(version())?;
    quorum.write_quotas(RECORDS)?;
    quorum.start_kafka()?;
    quorum.until_level()?;

    // Another leader, and one more: they follow each.
    for _ in 0..2 {
        let leader = quorum.leader()?;
        quorum.stop(leader)?;
        quorum.write_quotas(RECORDS)?;
        quorum.until_level()?;
        quorum.start(leader)?;
    }
    quorum.kafka.clear();
    quorum.same_logs()?;

    // What they lack is gone when they come back.
    let end = quorum.status(quorum.leader()?)?.log_end;
    quorum.write_until_trimmed(end)?;
    quorum.start_kafka()?;
    quorum.until_level()?;
    quorum.kafka.clear();
    for id in [CONTROLLER, BROKER] {
        let partition = quorum.partition(id);
        begins_at_one_of(&snapshots(&partition)?, &partition)?;
    }
    quorum.kafka_said_no_error()
}

/// The state that records describe, as a controller's log does; whatever record is asked for is
/// written.
#[derive(Default)]
struct Written(Mirror);

impl Machine for Written {
    const KEEPS_OFFSETS: bool = Mirror::KEEPS_OFFSETS;
    type Query = ();
    type Reply = Picture;

    fn fresh(&self) -> Written {
        Written(self.0.fresh())
    }

    fn view(&self) -> Written {
        Written(self.0.view())
    }

    fn propose(&mut self, _: Time, _: Offset, request: &Request, out: &mut Proposal) {
        match &request.operation {
            Operation::Write(record) => {
                out.record(None, Some(record));
                out.answer(Answer::Done("written".into()));
            }
            Operation::OpenSession { .. }
            | Operation::RenewSession(_)
            | Operation::CloseSession(_) => {
                out.answer(Answer::Refused("there are no sessions".into()));
            }
        }
    }

    fn apply(&mut self, batch: &Batch<'_>) {
        self.0.apply(batch);
    }

    fn query(&self, query: &()) -> Picture {
        self.0.query(query)
    }

    fn digest(&self) -> u64 {
        self.0.digest()
    }

    fn snapshot(&self) -> Image {
        self.0.snapshot()
    }

    fn restore(&mut self, at: OffsetEpoch, records: &mut Records<'_>) -> Result<(), Corrupt> {
        self.0.restore(at, records)
    }
}

/// Without it no node of Kafka's takes a state for one.
fn version() -> MetadataRecord {
    let (name, feature_level) = ("metadata.version".to_owned(), 30);
    FeatureLevel { name, feature_level, ..FeatureLevel::default() }.into()
}

fn quota(user: u32) -> MetadataRecord {
    let (entity_type, entity_name) = ("user".to_owned(), Some(format!("user-{user}")));
    let entity = QuotaEntity { entity_type, entity_name, ..QuotaEntity::default() };
    let (key, value) = ("producer_byte_rate".to_owned(), Float64(1_000.0));
    ClientQuota { entity: vec![entity], key, value, ..ClientQuota::default() }.into()
}

/// Our quorum and who observes it.
struct Ours<'a> {
    stage: &'a Stage,
    directory: PathBuf,
    runtime: Runtime,
    /// Where our three listen, then Kafka's controller and broker.
    at: Vec<SocketAddr>,
    nodes: BTreeMap<u32, Embedded<Written>>,
    kafka: Vec<Running>,
    starts: u32,
    written: u32,
}

impl Ours<'_> {
    /// Kafka's storage tool formats all: the voters are in the log.
    fn format<'a>(stage: &'a Stage, directory: &Path) -> Result<Ours<'a>, Failure> {
        std::fs::create_dir_all(directory)?;
        let at = places(5)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (directory, nodes, kafka) = (directory.to_owned(), BTreeMap::new(), Vec::new());
        let (starts, written) = (0, 0);
        let ours = Ours { stage, directory, runtime, at, nodes, kafka, starts, written };
        let entry = |((id, at), own): ((u32, &SocketAddr), &str)| format!("{id}@{at}:{own}");
        let initial: Vec<String> = (1..).zip(&ours.at).zip(DIRECTORIES).map(entry).collect();
        for id in [1, 2, 3, CONTROLLER, BROKER] {
            let file = ours.write_file(id)?;
            let (file, initial) = (file.display().to_string(), initial.join(","));
            let voters: &[&str] = match id {
                CONTROLLER | BROKER => &["--no-initial-controllers"],
                _ => &["--initial-controllers", &initial],
            };
            let format = [&["format", "-t", CLUSTER, "-c", &file], voters].concat();
            stage.kafka.run("kafka.tools.StorageTool", &format)?;
        }
        Ok(ours)
    }

    fn write_file(&self, id: u32) -> Result<PathBuf, Failure> {
        let (name, roles, at) = match id {
            // It would give up where nobody registers it.
            BROKER => {
                ("PLAINTEXT", "broker\ninitial.broker.registration.timeout.ms=600000", self.at[4])
            }
            CONTROLLER => ("CONTROLLER", "controller", self.at[3]),
            _ => ("CONTROLLER", "controller", self.at[id as usize - 1]),
        };
        let servers: Vec<String> = self.at[..3].iter().map(SocketAddr::to_string).collect();
        let mut text = format!(
            "process.roles={roles}\nnode.id={id}\nlisteners={name}://{at}\n\
             controller.listener.names=CONTROLLER\nlog.dirs={}\n\
             controller.quorum.bootstrap.servers={}\n",
            self.directory.join(format!("node-{id}")).display(),
            servers.join(",")
        );
        if id <= 3 {
            text += &(OFTEN.join("\n") + "\n");
        }
        let file = self.directory.join(format!("node-{id}.properties"));
        std::fs::write(&file, text)?;
        Ok(file)
    }

    fn partition(&self, id: u32) -> PathBuf {
        self.directory.join(format!("node-{id}/__cluster_metadata-0"))
    }

    fn start(&mut self, id: u32) -> Result<(), Failure> {
        let text = std::fs::read_to_string(self.directory.join(format!("node-{id}.properties")))?;
        let read = settings::read(&text, &[]);
        let settings = read.map_err(|problems| Failure(format!("{problems:?}")))?;
        self.nodes.insert(id, Embedded::start(settings.config, Written::default())?);
        Ok(())
    }

    fn stop(&mut self, id: u32) -> Result<(), Failure> {
        self.nodes.remove(&id).map_or(Ok(()), Embedded::stop)?;
        Ok(())
    }

    /// Both.
    fn start_kafka(&mut self) -> Result<(), Failure> {
        for id in [CONTROLLER, BROKER] {
            self.starts += 1;
            let file = self.directory.join(format!("node-{id}.properties")).display().to_string();
            let log = self.directory.join(format!("kafka-{id}-{}.log", self.starts));
            self.kafka.push(self.stage.kafka.start("kafka.Kafka", &[&file], &log)?);
        }
        Ok(())
    }

    fn status(&self, id: u32) -> Result<Status, Failure> {
        let node = self.nodes.get(&id).ok_or_else(|| Failure(format!("node {id} is stopped")))?;
        Ok(self.runtime.block_on(node.handle().status())?)
    }

    fn leader(&self) -> Result<u32, Failure> {
        let leads =
            |id: &u32| self.status(*id).is_ok_and(|status| status.ready && status.role == "leader");
        Ok(poll("a leader", PATIENCE, || self.nodes.keys().copied().find(leads))?)
    }

    /// It is committed when this returns.
    fn write(&self, record: MetadataRecord) -> Result<(), Failure> {
        let handle = self.nodes[&self.leader()?].handle();
        let value = record.encode(0).map_err(|error| Failure(error.to_string()))?;
        let patience = Span::ms(PATIENCE.as_millis() as u64);
        self.runtime.block_on(handle.write(Request::write(value), patience))?;
        Ok(())
    }

    fn write_quotas(&mut self, count: u32) -> Result<(), Failure> {
        for _ in 0..count {
            self.written += 1;
            self.write(quota(self.written % 500))?;
        }
        Ok(())
    }

    /// Until all three logs begin beyond this offset.
    fn write_until_trimmed(&mut self, end: u64) -> Result<(), Failure> {
        let begin = Instant::now();
        loop {
            self.write_quotas(RECORDS)?;
            let mut trimmed = true;
            for id in 1..=3 {
                trimmed &= self.status(id)?.log_start > end;
            }
            if trimmed {
                return Ok(());
            }
            ensure(begin.elapsed() < PATIENCE, || "our logs were never trimmed".into())?;
        }
    }

    /// Until the leader lists both observers with all that it has now.
    fn until_level(&self) -> Result<(), Failure> {
        let leader = self.leader()?;
        let end = self.status(leader)?.log_end;
        let mut seen = Vec::new();
        let level = poll("Kafka's nodes to be level with our leader", 2 * PATIENCE, || {
            seen = self.status(leader).ok()?.replicas;
            let has_all = |node: u32| {
                seen.iter().any(|replica| {
                    replica.node == i64::from(node)
                        && replica.status == "observer"
                        && replica.log_end >= Some(end)
                })
            };
            (has_all(CONTROLLER) && has_all(BROKER)).then_some(())
        });
        level.map_err(|late| Failure(format!("{late}, up to {end}: {seen:?}")))
    }

    /// As far as either goes, and both hold all that was written so far. Nobody of Kafka's runs.
    fn same_logs(&self) -> Result<(), Failure> {
        let ours = self.log(1)?;
        for id in [CONTROLLER, BROKER] {
            let theirs = self.log(id)?;
            // On a slow machine one may have begun behind a snapshot already.
            let behind = |one: &[u8], other: &[u8]| {
                let head = &other[..other.len().min(HEAD)];
                one.windows(HEAD).position(|bytes| bytes == head)
            };
            let shared = match (behind(&ours, &theirs), behind(&theirs, &ours)) {
                (Some(at), _) => same_bytes(&ours[at..], &theirs)?,
                (None, Some(at)) => same_bytes(&ours, &theirs[at..])?,
                (None, None) => 0,
            };
            ensure(shared > 10_000, || format!("only {shared} bytes are shared with {id}"))?;
        }
        Ok(())
    }

    /// All segments of a log, one behind the other.
    fn log(&self, id: u32) -> Result<Vec<u8>, Failure> {
        let mut files: Vec<PathBuf> = std::fs::read_dir(self.partition(id))?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        files.retain(|path| path.extension().is_some_and(|kind| kind == "log"));
        files.sort();
        let read: Result<Vec<Vec<u8>>, _> = files.iter().map(std::fs::read).collect();
        Ok(read?.concat())
    }

    /// Of the raft, and of those who make a state of the records.
    fn kafka_said_no_error(&self) -> Result<(), Failure> {
        let of = ["raft-", "RaftManager", "MetadataLoader", "fault"];
        no_line(&self.directory, |line| {
            line.contains(" ERROR ") && of.iter().any(|part| line.contains(part))
        })
    }
}
