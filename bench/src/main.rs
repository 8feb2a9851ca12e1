//! `quorate-bench`: drives three real nodes on this machine and says what it measured, and where.
//!
//! Nodes are release builds with every sync on. Each part measures and returns a table; `report`
//! puts the tables beside the facts without which they mean nothing. What a system speaks is the
//! work of a [`driver::Driver`]; everything else is the same for all systems.

mod catchup;
mod driver;
mod failover;
mod footprint;
mod forward;
mod http;
mod load;
mod machine;
mod paced;
mod report;
mod retention;
mod throughput;

use clap::{Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use quorate_processes::{Cluster, Error, Profile, binary};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// How long a quorum may take to stand.
const START_PATIENCE: Duration = Duration::from_secs(30);

/// Measure three nodes on this machine
#[derive(Parser)]
#[command(after_help = "\
Figures of a machine that does other work are worth little: the report has its load average.
  cargo run --release -p quorate-bench -- all          everything, and writes bench/report/
  cargo run --release -p quorate-bench -- all --quick  the same in a fraction of the time")]
struct Cli {
    #[command(subcommand)]
    part: Part,
    /// Seconds instead of minutes: for a look, not for a report
    #[arg(long, global = true)]
    quick: bool,
    /// Where the nodes' directories go: on the disk to be measured
    #[arg(long, global = true, default_value = "target/bench")]
    dir: PathBuf,
}

#[derive(Subcommand)]
enum Part {
    /// Commits and reads per second and their latency, 1 to 512 in flight
    Throughput,
    /// From the last write before a kill -9 of the leader to the first after it
    Failover(Kills),
    /// Idle memory and time to start
    Footprint,
    /// A follower a gigabyte behind a trimmed log, and a million records through a small retention;
    /// written to bench/report/
    Snapshots,
    /// One of the two
    CatchUp,
    /// The other one
    Retention,
    /// All of the first three, written to bench/report/
    All(Kills),
}

#[derive(Args)]
struct Kills {
    /// How often the leader is killed
    #[arg(long, default_value_t = 50)]
    kills: u32,
}

/// What every part needs to know.
pub(crate) struct Bench {
    binary: PathBuf,
    /// A directory of this run.
    root: PathBuf,
    quick: bool,
}

impl Bench {
    /// Three formatted nodes that run and have a leader.
    fn cluster(&self, name: &str) -> Result<Cluster, Error> {
        self.cluster_with(name, &[])
    }

    /// The same with these lines in their property files.
    fn cluster_with(&self, name: &str, settings: &[&str]) -> Result<Cluster, Error> {
        let mut cluster = Cluster::format(&self.binary, &self.root.join(name), 3, settings)?;
        cluster.start_all()?;
        cluster.wait_until_level(START_PATIENCE)?;
        Ok(cluster)
    }

    /// Ends the nodes and removes their directories.
    fn discard(&self, cluster: Cluster) -> Result<(), Error> {
        let root = cluster.root().to_owned();
        drop(cluster);
        std::fs::remove_dir_all(&root).map_err(|source| Error::File { path: root, source })
    }
}

/// A bar on terminals, nothing elsewhere.
pub(crate) fn bar(what: &'static str, steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:12} {bar:30} {pos}/{len}  {elapsed}  {msg}")
        .expect("the template is well formed");
    ProgressBar::new(steps).with_style(style).with_prefix(what)
}

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Nobody is left to be told that stderr is gone.
            let _ = writeln!(std::io::stderr(), "quorate-bench: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<(), Failure> {
    let root = std::path::absolute(&cli.dir)?.join(std::process::id().to_string());
    let bench = Bench { binary: binary(Profile::Release)?, root, quick: cli.quick };
    std::fs::create_dir_all(&bench.root)?;
    let machine = machine::Machine::look(&bench.root)?;
    let mut report = report::Report::new(machine, cli.quick);
    match &cli.part {
        Part::Throughput => report.throughput = Some(throughput::measure(&bench)?),
        Part::Failover(kills) => report.failover = Some(failover::measure(&bench, kills.kills)?),
        Part::Footprint => report.footprint = Some(footprint::measure(&bench)?),
        Part::CatchUp => report.catch_up = Some(catchup::measure(&bench)?),
        Part::Retention => report.retention = Some(retention::measure(&bench)?),
        Part::Snapshots => {
            report.catch_up = Some(catchup::measure(&bench)?);
            report.retention = Some(retention::measure(&bench)?);
        }
        Part::All(kills) => {
            report.footprint = Some(footprint::measure(&bench)?);
            report.throughput = Some(throughput::measure(&bench)?);
            report.failover = Some(failover::measure(&bench, kills.kills)?);
        }
    }
    report.machine.load_average.push(machine::load_average());
    std::fs::remove_dir_all(&bench.root)?;
    write!(std::io::stdout(), "{report}")?;
    let name = match cli.part {
        Part::All(_) => "first-figures",
        Part::Snapshots => "snapshots",
        Part::Throughput | Part::Failover(_) | Part::Footprint => return Ok(()),
        Part::CatchUp | Part::Retention => return Ok(()),
    };
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("report");
    report.write(&place, name)?;
    writeln!(std::io::stdout(), "\nwritten to bench/report/{name}.md and .json")?;
    Ok(())
}
