//! `quorate dev`: a whole quorum on this machine, each node a process of its own.
//!
//! Starts, watches and stops its own children, by their ids, and nothing else. The directory
//! remembers ports and ids; [`layout`] knows its files, [`children`] the processes.

mod children;
mod layout;

use super::client::{Ask, FALLBACK, Url, ask_one};
use super::ending::Ending;
use super::quorum::ask_status;
use super::{Failure, Outcome, block_on, failed, out};
use children::{Child, Ended};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
pub(crate) use layout::{DIRECTORY, known_urls};
use layout::{Layout, Place};
use quorate_node::status::Status;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a new quorum may take until every node is ready.
const START_TIME: Duration = Duration::from_secs(60);
/// How often facts are looked at.
const TICK: Duration = Duration::from_millis(50);
/// Between a node's death and its return: long enough to see the others go on without it.
const RETURN_AFTER: Duration = Duration::from_secs(1);
/// A node that dies sooner than this after its start has a reason that starting again will not
/// cure.
const TOO_SOON: Duration = Duration::from_secs(5);
/// So many times in a row it is tried all the same.
const TRIES: u32 = 3;

/// Run a quorum on this machine, from nothing
///
/// Picks free ports, formats and starts the nodes, and prints how to talk to them. Ctrl-c stops
/// them; the data stays for the next time. A node that dies is started again.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  quorate dev                   three nodes, data in ./quorate-dev
  quorate dev --nodes 5 --dir /tmp/five
  quorate dev --fresh           forget the data of the last time")]
pub(crate) struct Args {
    /// How many nodes, 1 to 9: as many as the directory has, or three
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=9))]
    nodes: Option<u32>,
    /// Where the nodes keep their data, logs and files of settings
    #[arg(long, default_value = DIRECTORY)]
    dir: PathBuf,
    /// Start empty: removes what an earlier `quorate dev` put into the directory, and nothing else
    #[arg(long)]
    fresh: bool,
    /// Print one line of JSON once the nodes are ready, instead of advice
    #[arg(long)]
    json: bool,
}

/// Runs `quorate dev`.
pub(crate) fn dev(args: Args) -> Outcome {
    let layout = Layout::open(&args.dir, args.nodes, args.fresh)?;
    block_on(async {
        let mut nodes = Vec::new();
        for place in layout.places() {
            nodes.push(Node::start(place)?);
        }
        let ran = tokio::select! {
            ran = serve(&layout, &mut nodes, &args) => ran,
            end = asked_to_end() => end,
        };
        out::note("stopping; the data stays");
        children::stop(nodes.into_iter().filter_map(|node| node.child)).await;
        ran
    })
}

async fn asked_to_end() -> Outcome {
    let Some(mut ending) = Ending::listen() else {
        return failed("the operating system passes no signals on");
    };
    ending.told().await;
    Ok(())
}

/// One node and what became of its process.
struct Node {
    place: Place,
    /// `None` between death and return, and after too many deaths.
    child: Option<Child>,
    started_at: Instant,
    returns_at: Option<Instant>,
    /// Deaths in a row, each too soon after the start.
    quick_deaths: u32,
}

impl Node {
    fn start(place: Place) -> Outcome<Node> {
        let child = Some(Child::start(&place)?);
        Ok(Node { place, child, started_at: Instant::now(), returns_at: None, quick_deaths: 0 })
    }

    /// The url that every dev node has.
    fn url(&self) -> Outcome<Url> {
        Url::parse(&self.place.url())
    }

    fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::pid)
    }
}

async fn serve(layout: &Layout, nodes: &mut [Node], args: &Args) -> Outcome {
    let statuses = wait_until_ready(nodes).await?;
    if args.json {
        print_json(layout, nodes);
    } else {
        print_advice(layout, args.dir == Path::new(DIRECTORY), nodes, &statuses);
    }
    loop {
        tokio::time::sleep(TICK).await;
        for node in nodes.iter_mut() {
            watch(node)?;
        }
    }
}

/// Waits until each node says that it is ready, or one says that it never will be.
async fn wait_until_ready(nodes: &mut [Node]) -> Outcome<Vec<Status>> {
    let style = ProgressStyle::with_template("{spinner} {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    let spinner = ProgressBar::new_spinner().with_style(style);
    let deadline = Instant::now() + START_TIME;
    loop {
        let mut waiting = Vec::new();
        for node in nodes.iter_mut() {
            if let Some(Ended { pid, how, .. }) = node.child.as_mut().and_then(Child::ended) {
                spinner.finish_and_clear();
                let id = node.place.id;
                return failed(format!(
                    "node {id} (pid {pid}) did not start: {how}\n{}",
                    node.place.log_tail()
                ));
            }
            let answer = ask_one(&node.url()?, &Ask::get("/readyz")).await;
            let why = match &answer {
                Ok(answer) if answer.status.is_success() => continue,
                Ok(answer) => String::from_utf8_lossy(&answer.body).trim().to_owned(),
                Err(silence) => silence.to_string(),
            };
            waiting.push(format!("node {}: {why}", node.place.id));
        }
        if waiting.is_empty() {
            spinner.finish_and_clear();
            return statuses(nodes).await;
        }
        if Instant::now() > deadline {
            spinner.finish_and_clear();
            let logs: Vec<String> =
                nodes.iter().map(|node| node.place.log_file().display().to_string()).collect();
            return failed(format!(
                "the nodes are not ready after {} s\n  {}\nTheir logs say more: {}",
                START_TIME.as_secs(),
                waiting.join("\n  "),
                logs.join(", ")
            ));
        }
        spinner.set_message(format!("waiting for {}", waiting.join("; ")));
        spinner.tick();
        tokio::time::sleep(TICK).await;
    }
}

async fn statuses(nodes: &[Node]) -> Outcome<Vec<Status>> {
    let mut statuses = Vec::new();
    for node in nodes {
        statuses.push(
            ask_status(&node.url()?)
                .await
                .map_err(|silence| Failure::Failed(silence.to_string()))?,
        );
    }
    Ok(statuses)
}

/// Says when a node has died and starts it again after a moment.
fn watch(node: &mut Node) -> Outcome {
    let id = node.place.id;
    if let Some(Ended { pid, how, by_hand }) = node.child.as_mut().and_then(Child::ended) {
        node.child = None;
        let quick = !by_hand && node.started_at.elapsed() < TOO_SOON;
        node.quick_deaths = if quick { node.quick_deaths + 1 } else { 0 };
        if node.quick_deaths >= TRIES {
            out::note(&format!(
                "node {id} (pid {pid}) died {TRIES} times in a row: {how}; it is left alone now\n{}",
                node.place.log_tail()
            ));
            return Ok(());
        }
        out::note(&format!(
            "node {id} (pid {pid}) died: {how}; it returns in {} s",
            RETURN_AFTER.as_secs()
        ));
        node.returns_at = Some(Instant::now() + RETURN_AFTER);
    }
    if node.returns_at.is_some_and(|at| Instant::now() >= at) {
        node.returns_at = None;
        let child = Child::start(&node.place)?;
        out::note(&format!("node {id} runs again as pid {}", child.pid()));
        node.started_at = Instant::now();
        node.child = Some(child);
    }
    Ok(())
}

fn print_json(layout: &Layout, nodes: &[Node]) {
    let node_json = |node: &Node| {
        let (place, pid) = (&node.place, node.pid());
        json!({
            "node": place.id, "pid": pid, "http": place.url(), "controller": place.controller(),
            "log": place.log_file(),
        })
    };
    let nodes: Vec<_> = nodes.iter().map(node_json).collect();
    out::json(&json!({ "cluster": layout.cluster(), "directory": layout.root(), "nodes": nodes }));
}

/// `here`: the directory is the one in which `quorate kv` looks without being told.
fn print_advice(layout: &Layout, here: bool, nodes: &[Node], statuses: &[Status]) {
    let leader = statuses.iter().max_by_key(|status| status.epoch).and_then(|status| status.leader);
    let rows: Vec<Vec<String>> = nodes
        .iter()
        .map(|node| {
            let role = if leader == Some(node.place.id) { "leader" } else { "follower" };
            let pid = node.pid().map_or("-".into(), |pid| pid.to_string());
            vec![
                node.place.id.to_string(),
                role.into(),
                pid,
                node.place.url(),
                node.place.controller(),
                node.place.log_file().display().to_string(),
            ]
        })
        .collect();
    let count = nodes.len();
    let (first, last) = (nodes[0].place.url(), nodes[count - 1].place.url());
    let controller = nodes[0].place.controller();
    let victim = nodes.iter().find(|node| leader == Some(node.place.id)).and_then(Node::pid);
    let me = std::env::args().next().unwrap_or_else(|| "quorate".into());
    let told = match here && first == FALLBACK {
        true => String::new(),
        false => {
            let urls: Vec<String> = nodes.iter().map(|node| node.place.url()).collect();
            format!(
                "In the shell that shall talk to them:\n  export QUORATE_HTTP={}\n\n",
                urls.join(",")
            )
        }
    };
    let mut text = format!(
        "{} of the cluster {} on this machine; the data is in {}\n\n{}\n\n\
         {told}Write through one node and read through another:\n  \
         curl -X PUT --data-binary hello {first}/v1/kv/greeting\n  \
         curl {last}/v1/kv/greeting\n  \
         {me} kv put greeting 'good morning'\n  \
         {me} kv list\n\n\
         Look at them:\n  {me} quorum status\n  curl {first}/status\n  {me} observe --bootstrap {controller}\n",
        if count == 1 { "1 node".into() } else { format!("{count} nodes") },
        layout.cluster(),
        layout.root().display(),
        out::table(&["node", "role", "pid", "http", "controller", "log"], &rows),
    );
    if let Some(pid) = victim.filter(|_| count > 2) {
        text += &format!(
            "\nKill the leader; the others go on at once, and it comes back:\n  kill -9 {pid}\n"
        );
    }
    text += "\nCtrl-c stops the nodes; the data stays.";
    out::line(&text);
}
