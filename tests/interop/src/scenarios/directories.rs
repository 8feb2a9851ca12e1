//! Directories: Kafka's storage tool looks at ours, our log tools look at one that a Kafka
//! controller is writing.

use crate::scenario::{Failure, PATIENCE, Stage, ensure, places};
use quorate_processes::{Cluster, poll};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

const STORAGE: &str = "kafka.tools.StorageTool";
const CLUSTER: &str = "U7HrM6vDTwWK2XclkAu2_g";

/// A controller's smallest property file, with what Kafka insists on.
pub fn write_settings(
    file: &Path,
    id: u32,
    data: &Path,
    at: SocketAddr,
) -> Result<String, Failure> {
    let text = format!(
        "process.roles=controller\nnode.id={id}\nlog.dirs={}\nlisteners=CONTROLLER://{at}\n\
         controller.listener.names=CONTROLLER\ncontroller.quorum.voters={id}@{at}\n",
        data.display()
    );
    std::fs::write(file, text)?;
    Ok(file.display().to_string())
}

/// Kafka's `info` finds the metadata of a directory that we formatted, and no problem.
pub fn ours(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    let cluster = Cluster::format(&stage.binary, directory, 1, &[])?;
    let data = directory.join("node-1/data");
    let file = directory.join("kafka.properties");
    let file = write_settings(&file, 1, &data, cluster.node(1).raft)?;
    let printed = stage.kafka.run(STORAGE, &["info", "-c", &file])?;
    let meta = std::fs::read_to_string(data.join("meta.properties"))?;
    let found = printed.lines().find_map(|line| line.strip_prefix("Found metadata: "));
    let found = found.ok_or_else(|| Failure(format!("no metadata found:\n{printed}")))?;
    for line in meta.lines() {
        ensure(found.contains(line), || format!("{line} is missing in {found}"))?;
    }
    ensure(!printed.contains("Found problem"), || format!("a problem:\n{printed}"))?;
    ensure(printed.contains(&data.display().to_string()), || {
        format!("another directory:\n{printed}")
    })
}

/// Our own command, to its end.
pub fn quorate(stage: &Stage, arguments: &[&str]) -> Result<String, Failure> {
    let output = Command::new(&stage.binary).args(arguments).output()?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure(output.status.success(), || {
        let errors = String::from_utf8_lossy(&output.stderr);
        format!("quorate {} failed:\n{printed}{errors}", arguments.join(" "))
    })?;
    Ok(printed)
}

/// `verify` and `dump` of a directory that Kafka formatted and writes at this moment; then, once it
/// is gone, line by line what its own dump tool says, metadata records too.
pub fn kafkas(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(directory)?;
    let at = places(1)?[0];
    let data = directory.join("data");
    let file = write_settings(&directory.join("kafka.properties"), 1, &data, at)?;
    stage.kafka.run(STORAGE, &["format", "-t", CLUSTER, "-c", &file])?;
    let running = stage.kafka.start("kafka.Kafka", &[&file], &directory.join("kafka.log"))?;
    let data = data.display().to_string();
    let log = format!("{data}/__cluster_metadata-0/00000000000000000000.log");
    // The records that activate the controller follow the leader's; the log goes on growing.
    let batches = |printed: &str| printed.lines().filter(|l| l.starts_with("baseOffset: ")).count();
    poll("Kafka's controller to write", PATIENCE, || {
        quorate(stage, &["log", "dump", &log]).ok().filter(|printed| batches(printed) >= 5)
    })?;
    let whole = quorate(stage, &["log", "verify", &data])?;
    ensure(whole.contains("is whole"), || format!("verify says:\n{whole}"))?;
    let all = quorate(stage, &["log", "dump", &data])?;
    for words in ["LeaderChange", CLUSTER, "__cluster_metadata-0", "AAAAAAAAAAAAAAAAAAAAAQ"] {
        ensure(all.contains(words), || format!("the dump lacks {words}:\n{all}"))?;
    }
    let tail = quorate(stage, &["log", "tail", &data, "--once", "--json", "-n", "5"])?;
    let records = tail.lines().filter(|line| line.contains("\"metadata\":{")).count();
    ensure(tail.lines().count() >= 5 && records > 0, || format!("log tail says:\n{tail}"))?;
    // It is Kafka's as long as that runs.
    let refused = quorate(stage, &["run", &file]);
    let says = |failure: &Failure| failure.0.contains("is locked by another process");
    ensure(refused.as_ref().is_err_and(says), || {
        format!("a node on Kafka's directory: {refused:?}")
    })?;
    drop(running);
    let ours = quorate(stage, &["log", "dump", &log])?;
    let arguments = ["--files", &log, "--cluster-metadata-decoder"];
    let theirs = stage.kafka.run("org.apache.kafka.tools.DumpLogSegments", &arguments)?;
    let of = |printed: &str| -> Vec<String> {
        let facts = ["baseOffset: ", "| offset: "];
        let fact = |line: &&str| facts.iter().any(|begin| line.starts_with(begin));
        let lines = printed.lines().filter(fact);
        lines.map(|line| line.replace(" deleteHorizonMs: OptionalLong.empty", "")).collect()
    };
    let (ours, theirs) = (of(&ours), of(&theirs));
    let features = |lines: &[String]| lines.iter().any(|line| line.contains("metadata.version"));
    ensure(ours == theirs && ours.len() >= 10 && features(&ours), || {
        format!("ours:\n{}\nKafka's:\n{}", ours.join("\n"), theirs.join("\n"))
    })
}
