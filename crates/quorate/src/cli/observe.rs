//! `quorate observe`: follows the metadata of any quorum, Kafka's or ours, and shows it.
//!
//! An observer without an id of its own: it fetches as a consumer would, so that the quorum lists
//! it nowhere and waits for it never. All it needs is one controller that answers; cluster, leader
//! and voters are asked for. Nothing here writes to the cluster.

mod feed;
mod following;
mod metrics;
mod scratch;
mod show;

use super::controllers::{Quorum, Silence, describe, server};
use super::ending::Ending;
use super::snapshot::{Entry, KeyTree, is_reserved};
use super::{Outcome, block_on, cluster_tree, failed, out};
use clap::Parser;
use feed::{Key, Seen};
use following::Following;
use quorate::{HostPort, settings};
use scratch::Scratch;
use show::Printer;
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

/// How long a quorum without a leader may take to elect one before it is given up at the start.
const LEADER_TIME: Duration = Duration::from_secs(15);
/// An election takes so long where nothing is wrong.
const QUIET_TIME: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(200);
/// Levels that no state has more of.
const ALL_LEVELS: u8 = 64;

/// Watch a running quorum, Kafka's or Quorate's: who leads, who lags, and its metadata or keys
///
/// Reads only. The cluster needs no configuration for it and does not list it: it copies the
/// metadata log as an observer without an id.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  quorate observe --bootstrap controller1:9093
  quorate observe --bootstrap 127.0.0.1:7201                       the keys of `quorate dev`
  quorate observe --bootstrap c1:9093,c2:9093,c3:9093 --depth 2    what there is, counted
  quorate observe --bootstrap c1:9093 --follow                     then every change as it comes
  quorate observe --bootstrap c1:9093 --follow --http 127.0.0.1:9400 > changes.log     and metrics
  quorate observe --bootstrap c1:9093 --json | jq 'select(.path[0] == \"topics\")'
  quorate observe --bootstrap c1:9093 --follow --json | jq 'select(.type == \"change\") | .metadata'

The address is that of a controller listener without TLS and SASL, of Kafka 3.7 or later or of
Quorate. Passwords and SCRAM keys are not shown. The copy of the log is kept in a temporary
directory, which is removed at the end; --dir keeps it, and the next time only what is new is
copied.")]
pub(crate) struct Args {
    /// Controllers to begin with, HOST:PORT, several with commas between; one that answers will do
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', required = true,
        value_parser = server)]
    bootstrap: Vec<HostPort>,
    /// Show so many levels of the metadata; what lies deeper is only counted
    #[arg(long, value_name = "LEVELS", value_parser = clap::value_parser!(u8).range(1..=64))]
    depth: Option<u8>,
    /// Go on: print every change as it is committed, and every change of leader
    #[arg(long)]
    follow: bool,
    /// With --follow: also print records that change nothing, which Kafka writes twice a second,
    /// and those that a key-value store keeps for itself
    #[arg(long, requires = "follow")]
    all: bool,
    /// With --follow: serve metrics for Prometheus at http://HOST:PORT/metrics
    #[arg(long, value_name = "HOST:PORT", requires = "follow", value_parser = own_address)]
    http: Option<HostPort>,
    /// Keep the copy of the log in this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print facts as JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// Port 0 takes a free one.
fn own_address(text: &str) -> Result<HostPort, String> {
    let found = settings::host_port(text.trim()).filter(|at| !at.host.is_empty());
    found.ok_or_else(|| "write HOST:PORT, where 0.0.0.0 is every interface".to_owned())
}

/// Runs `quorate observe`.
pub(crate) fn observe(args: Args) -> Outcome {
    block_on(async {
        // What is temporary is removed however this ends.
        tokio::select! {
            outcome = watch(&args) => outcome,
            interrupted = told_to_stop() => interrupted,
        }
    })
}

async fn told_to_stop() -> Outcome {
    match Ending::listen() {
        Some(mut ending) => drop(ending.told().await),
        None => std::future::pending().await,
    }
    Ok(())
}

async fn watch(args: &Args) -> Outcome {
    let printer = Printer { json: args.json, all: args.all };
    let metrics = match &args.http {
        Some(at) => Some(metrics::listen(at).await?),
        None => None,
    };
    let quorum = first_picture(&args.bootstrap).await?;
    let directory = Scratch::new(args.dir.as_deref())?;
    let servers = servers(&args.bootstrap, &quorum);
    let mut node = Following::start(directory.path(), &quorum, &servers)?;
    let (Seen { picture, keys }, end) = node.catch_up(quorum.high_watermark).await?;
    printer.quorum(&quorum);
    // The tree of keys brings its own.
    if !args.json && keys.is_empty() {
        out::line("");
    }
    let depth = args.depth.unwrap_or(ALL_LEVELS);
    let facts = cluster_tree::show(&picture.image, usize::from(depth), args.json);
    let mut tree = KeyTree::default();
    for Key { key, version, value } in &keys {
        let entry = Entry { key: Some(key), value, version: *version };
        tree.add(&entry, usize::from(depth));
    }
    if !keys.is_empty() {
        tree.show(args.json);
    }
    let seen = keys.iter().filter(|Key { key, .. }| !is_reserved(key)).count();
    printer.state(&picture, end, facts, seen);
    drop((picture, keys));
    if args.follow {
        if let Some(Ok(at)) = metrics.as_ref().map(TcpListener::local_addr) {
            out::note(&format!("metrics at http://{at}/metrics"));
        }
        node.follow(end, printer, quorum, &servers, metrics).await?;
    }
    node.stop()
}

/// The quorum, once it has a leader.
async fn first_picture(bootstrap: &[HostPort]) -> Outcome<Quorum> {
    let (since, mut told) = (Instant::now(), false);
    loop {
        match describe(bootstrap).await {
            Ok(quorum) => return Ok(quorum),
            Err(Silence::NoLeader(_)) if since.elapsed() < LEADER_TIME => {
                if since.elapsed() > QUIET_TIME && !told {
                    let seconds = LEADER_TIME.as_secs();
                    out::note(&format!(
                        "no leader answers yet; it is waited for one, {seconds} s in all"
                    ));
                    told = true;
                }
                sleep(PAUSE).await;
            }
            Err(silence) => return failed(silence.text()),
        }
    }
}

/// Those that were named, then all others that are known by now.
fn servers(bootstrap: &[HostPort], quorum: &Quorum) -> Vec<HostPort> {
    let mut servers = bootstrap.to_vec();
    for (_, at) in &quorum.controllers {
        if !servers.contains(at) {
            servers.push(at.clone());
        }
    }
    servers
}
