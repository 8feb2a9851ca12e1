//! `quorate run`: one node, from a property file to the end of its process.
//!
//! One thread and one event loop for the replica, its peers and HTTP. Ends on SIGINT, SIGTERM or
//! SIGHUP, which hand over leadership first; a second one ends it at once, as safe as a crash and
//! as slow to recover.

mod begin;
mod rivals;

use super::ending::Ending;
use super::{Failure, Outcome, block_on, failed, out};
use clap::Parser;
use quorate::StartError;
use quorate::http::{self, Served};
use quorate::registration::{self, Registrant};
use quorate::settings::{self, MachineName, Settings, table};
use quorate_log::OsDisk;
use quorate_machine::kafka::Mirror;
use quorate_machine::{Kv, Sessioned};
use quorate_node::config::{Config, HostPort};
use quorate_node::handle::Handle;
use quorate_node::runtime::Node;
use std::io::{IsTerminal, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::{TcpSocket, lookup_host};
use tokio::sync::{oneshot, watch};

/// How long a node that was asked to stop may hand over before it is stopped.
const HANDOVER: Duration = Duration::from_secs(10);

/// So many connections may wait to be accepted.
const BACKLOG: u32 = 1_024;
/// How long those may take whose answers are under way when the node has stopped.
const LAST_ANSWERS: Duration = Duration::from_secs(3);

/// Run a node
///
/// The file is Kafka's server.properties: the same names, forms and defaults. Settings that Kafka
/// knows and Quorate does not use are ignored with a note; names that nobody knows are an error.
#[derive(Parser)]
#[command(after_help = "\
A file for the first of three nodes:
  node.id=1
  log.dirs=/var/lib/quorate
  listeners=CONTROLLER://:9093
  controller.quorum.voters=1@a.example:9093,2@b.example:9093,3@c.example:9093
  quorate.http.listen=127.0.0.1:7101

Format its directory once with `quorate format`, then:
  quorate run node1.properties
  quorate run node1.properties --override quorate.http.listen=0.0.0.0:80

Without a format and without voters in the files, the first node and those that join it:
  quorate run node1.properties --override quorate.bootstrap=true
  quorate run node2.properties --override quorate.join=a.example:9093")]
pub(crate) struct Args {
    /// The property file
    #[arg(required_unless_present = "help_config")]
    file: Option<PathBuf>,
    /// Replace a setting of the file
    #[arg(long = "override", value_name = "KEY=VALUE", value_parser = pair)]
    overrides: Vec<(String, String)>,
    /// Print every setting with its form, default and meaning
    #[arg(long)]
    help_config: bool,
    /// How much is logged: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: tracing::Level,
    /// Stop when stdin is closed: ties the node to the life of whoever started it
    #[arg(long, hide = true)]
    until_stdin_closes: bool,
}

/// `KEY=VALUE`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// Runs `quorate run`.
pub(crate) fn run(args: Args) -> Outcome {
    let Some(file) = args.file.filter(|_| !args.help_config) else {
        out::line(&help_config());
        return Ok(());
    };
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_max_level(args.log_level)
        .init();
    let settings = settings(&file, &args.overrides)?;
    settings.notes.iter().for_each(|note| tracing::warn!("{note}"));
    let ends = args.until_stdin_closes;
    if !block_on(begin::ready(&settings, stdin_closed(ends)))? {
        return Ok(());
    }
    let Settings { config, machine, .. } = settings;
    match machine {
        MachineName::Kv => block_on(node(config, Sessioned::new(Kv::new()), ends, |_| Ok(()))),
        MachineName::Kafka => block_on(node(config, Mirror::new(), ends, register)),
    }
}

/// Reads a property file and says everything that is wrong with it.
pub(crate) fn settings(file: &Path, overrides: &[(String, String)]) -> Outcome<Settings> {
    let usage = |what| Err(Failure::Usage(what));
    let text = match std::fs::read(file).map(String::from_utf8) {
        Ok(Ok(text)) => text,
        Ok(Err(error)) => {
            let at = error.utf8_error().valid_up_to();
            return usage(format!(
                "{} is not UTF-8 from byte {at} on; save it as UTF-8",
                file.display()
            ));
        }
        Err(error) => {
            return usage(format!(
                "{} cannot be read: {error}; name the node's property file",
                file.display()
            ));
        }
    };
    settings::read(&text, overrides).or_else(|problems| {
        let listed: String = problems.iter().map(|problem| format!("\n  {problem}")).collect();
        usage(format!("{} cannot be used{listed}", file.display()))
    })
}

/// Tells the active controller of the cluster of this one, as long as it runs.
fn register(begun: Begun<'_, Mirror>) -> Outcome {
    let Begun { node, config } = begun;
    let Some(id) = config.id else { return Ok(()) };
    let incarnation = match quorate::random_uuid() {
        Ok(incarnation) => incarnation,
        Err(error) => return failed(error.to_string()),
    };
    let bound = node.address();
    let bound = HostPort { host: bound.ip().to_string(), port: bound.port() };
    let at = config.advertised.clone().unwrap_or(bound);
    let own = Registrant { id, incarnation, listener: config.listener.clone(), at };
    tokio::spawn(registration::keep(node.handle(), own));
    Ok(())
}

/// A node that is about to run.
struct Begun<'a, M: Served> {
    node: &'a Node<M>,
    config: &'a Config,
}

async fn node<M: Served>(
    config: Config,
    machine: M,
    until_stdin_closes: bool,
    beside: impl FnOnce(Begun<'_, M>) -> Outcome,
) -> Outcome {
    let id = config.id.map_or("observer".to_owned(), |id| id.to_string());
    let refused = |error: StartError| failed(format!("node {id} does not start: {error}"));
    rivals::judge_founder(&config).await?;
    quorate::complete(&config)
        .or_else(|error| failed(format!("node {id} does not start: {error}")))?;
    for told in quorate::recover::recovered(&config.directory, &config.topic) {
        tracing::warn!("{told}");
    }
    let told = config.clone();
    // Before the directory is repaired and others are met: it would be for nothing.
    let http = match &told.http {
        Some(at) => {
            Some(bind(at).await.or_else(|bad| match OsDisk::lock(&told.directory, "no node") {
                Ok(_free) => Err(bad),
                // Of all that a second process on one directory collides with, the lock says most.
                Err(held) => refused(StartError::Lock(held)).and(Err(bad)),
            })?)
        }
        None => None,
    };
    let node = match Node::open(config, machine).await {
        Ok(node) => node,
        Err(error) => return refused(error),
    };
    beside(Begun { node: &node, config: &told })?;
    // Only now: whoever asks sooner is refused, and asks another node.
    let listener = match (http, &told.http) {
        (Some(socket), Some(at)) => {
            Some(socket.listen(BACKLOG).or_else(|error| not_bound(at, &error))?)
        }
        (None, _) | (_, None) => None,
    };
    tracing::info!(node = id, controller = %node.address(), "the node runs");
    let (stop, stopped) = watch::channel(false);
    let http = listener.map(|listener| {
        if let Ok(address) = listener.local_addr() {
            tracing::info!(%address, "HTTP is served");
        }
        tokio::spawn(http::serve(listener, node.handle(), stopped))
    });
    if !told.bootstrap.is_empty() {
        tokio::spawn(rivals::watch(node.handle(), told));
    }
    tokio::spawn(wait_for_the_end(node.handle(), until_stdin_closes));
    let ended = node.run().await;
    // Whoever waits for an answer is told what became of the request, now that the node knows.
    let _ = stop.send(true);
    if let Some(http) = http {
        let _ = tokio::time::timeout(LAST_ANSWERS, http).await;
    }
    match ended {
        Ok(()) => {
            tracing::info!("stopped");
            Ok(())
        }
        Err(fatal) => failed(format!("node {id} had to stop: {fatal}")),
    }
}

/// The port for HTTP, on which nobody listens yet.
async fn bind(at: &HostPort) -> Outcome<TcpSocket> {
    let found = lookup_host((at.host.as_str(), at.port)).await;
    let mut why = std::io::Error::other("the name has no address");
    for address in found.or_else(|error| not_bound(at, &error))? {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        };
        // What is left of connections of the process before is no hindrance.
        let bound = socket.and_then(|socket| {
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            Ok(socket)
        });
        match bound {
            Ok(socket) => return Ok(socket),
            Err(error) => why = error,
        }
    }
    not_bound(at, &why)
}

fn not_bound<T>(at: &HostPort, error: &std::io::Error) -> Outcome<T> {
    failed(format!(
        "HTTP cannot listen on {}:{}: {error}; end the process that uses the port, or change \
         quorate.http.listen",
        at.host, at.port
    ))
}

async fn wait_for_the_end<M: Served>(handle: Handle<M>, until_stdin_closes: bool) {
    let Some(mut ending) = Ending::listen() else {
        tracing::warn!("the operating system passes no signals on; the node can only be killed");
        return;
    };
    let why = tokio::select! {
        why = ending.told() => why,
        () = stdin_closed(until_stdin_closes) => "whoever started this node is gone",
    };
    tracing::info!(why, "the node stops");
    handle.shutdown();
    let why = tokio::select! {
        _ = ending.told() => "told so again",
        () = tokio::time::sleep(HANDOVER) => "handing over takes too long",
    };
    tracing::warn!(why, "the node stops at once");
    std::process::exit(1);
}

/// Never returns if nobody asked for it.
async fn stdin_closed(asked: bool) {
    if !asked {
        return std::future::pending().await;
    }
    let (closed, told) = oneshot::channel();
    // A thread of its own, since a read of stdin cannot be cancelled.
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut ignored = [0; 64];
        while stdin.read(&mut ignored).is_ok_and(|bytes| bytes > 0) {}
        // Nobody waits any more when the node is already stopping.
        let _ = closed.send(());
    });
    // An error means the thread is gone; that is the same news.
    let _ = told.await;
}

fn help_config() -> String {
    let mut text =
        String::from("The settings of `quorate run`; names without 'quorate.' are Kafka's.\n");
    for setting in table::ALL {
        let default =
            setting.default.map_or(String::new(), |default| format!("; default {default}"));
        text += &format!(
            "\n{}\n    {}\n    {}{default}\n",
            setting.name, setting.meaning, setting.form
        );
    }
    text.trim_end().to_owned()
}
