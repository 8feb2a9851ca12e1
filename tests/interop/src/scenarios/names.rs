//! Nodes that know each other by names which nobody can resolve at first, and of which one names
//! another address later (T22): the quorum forms by itself once the names are there, says meanwhile
//! that it is not ready, and finds a node that moved.
//!
//! Each node has an `/etc/hosts` of its own, mounted where only it sees it. Who may not mount
//! cannot run this, and it fails and says so.

use crate::java::Running;
use crate::scenario::{Failure, PATIENCE, ensure, places};
use quorate::status::Status;
use quorate_processes::http::{Client, Response};
use quorate_processes::poll;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const CLUSTER: &str = "names-that-come-late";
/// Puts the hosts that all nodes share, and a rule to look nowhere else, in the place of the
/// machine's, for this process alone.
const OWN_HOSTS: &str = "mount --bind \"$1\" /etc/hosts && mount --bind \"$2\" /etc/nsswitch.conf \
                         && shift 2 && exec \"$@\"";

/// The scenario.
pub fn come_late_and_move(binary: &Path, directory: &Path) -> Result<(), Failure> {
    let mut nodes = Nodes::format(binary, directory)?;
    nodes.resolve(&[])?;
    (1..=3).try_for_each(|id| nodes.start(id, "127.0.0.1"))?;
    // Each has tried, lives, and says that it does not serve.
    for id in 1..=3 {
        let tried = || {
            let changes = nodes.status(id).ok()?.changes;
            changes.iter().any(|change| change.role == "prospective").then_some(())
        };
        poll("a node to look for a leader", PATIENCE, tried)?;
        let (live, ready) = (nodes.ask(id, "GET", "/livez")?, nodes.ask(id, "GET", "/readyz")?);
        ensure((live.status, ready.status) == (200, 503), || {
            format!("node {id} is alone, and says {} and {}", live.status, ready.status)
        })?;
    }

    nodes.resolve(&["127.0.0.1", "127.0.0.1", "127.0.0.1"])?;
    (1..=3).try_for_each(|id| nodes.wait_until_ready(id))?;
    nodes.put(1)?;

    // One comes back elsewhere; with another gone nothing is committed without it.
    nodes.kill(3);
    nodes.resolve(&["127.0.0.1", "127.0.0.1", "127.0.0.2"])?;
    nodes.start(3, "127.0.0.2")?;
    nodes.wait_until_ready(3)?;
    let follower = if nodes.status(3)?.leader == Some(1) { 2 } else { 1 };
    nodes.kill(follower);
    nodes.put(3)?;
    nodes.put(3 - follower)
}

struct Nodes {
    binary: PathBuf,
    directory: PathBuf,
    /// The controller listeners' ports.
    ports: Vec<u16>,
    http: Vec<SocketAddr>,
    running: [Option<Running>; 3],
    starts: u32,
}

impl Nodes {
    fn format(binary: &Path, directory: &Path) -> Result<Nodes, Failure> {
        fs::create_dir_all(directory)?;
        let at = places(6)?;
        let ports = at[..3].iter().map(SocketAddr::port).collect();
        let (binary, directory) = (binary.to_owned(), directory.to_owned());
        let (http, running) = (at[3..].to_vec(), [None, None, None]);
        let nodes = Nodes { binary, directory, ports, http, running, starts: 0 };
        let place = |id: usize| format!("node{id}.quorate.test:{}", nodes.ports[id - 1]);
        let voters: Vec<String> = (1..=3).map(|id| format!("{id}@{}", place(id))).collect();
        for id in 1..=3 {
            let text = format!(
                "node.id={id}\nlog.dirs={}\nlisteners=CONTROLLER://127.0.0.1:{}\n\
                 advertised.listeners=CONTROLLER://{}\ncontroller.quorum.voters={}\n\
                 quorate.http.listen={}\n",
                nodes.directory.join(format!("data-{id}")).display(),
                nodes.ports[id - 1],
                place(id),
                voters.join(","),
                nodes.http[id - 1]
            );
            fs::write(nodes.file(id), text)?;
            let mut format = Command::new(&nodes.binary);
            format.args(["format", "--cluster-id", CLUSTER, "--config"]).arg(nodes.file(id));
            let output = format.output()?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            ensure(output.status.success(), || said)?;
        }
        fs::write(nodes.directory.join("nsswitch.conf"), "hosts: files\n")?;
        Ok(nodes)
    }

    fn file(&self, id: usize) -> PathBuf {
        self.directory.join(format!("node-{id}.properties"))
    }

    /// From now on the names of the nodes are these addresses.
    fn resolve(&self, addresses: &[&str]) -> Result<(), Failure> {
        let lines =
            addresses.iter().zip(1..).map(|(at, id)| format!("{at} node{id}.quorate.test\n"));
        // In place: the nodes have this very file mounted.
        fs::write(
            self.directory.join("hosts"),
            format!("127.0.0.1 localhost\n{}", lines.collect::<String>()),
        )?;
        Ok(())
    }

    fn start(&mut self, id: usize, at: &str) -> Result<(), Failure> {
        self.starts += 1;
        let listen = format!("listeners=CONTROLLER://{at}:{}", self.ports[id - 1]);
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", OWN_HOSTS, "sh"]);
        command.args([self.directory.join("hosts"), self.directory.join("nsswitch.conf")]);
        command.arg(&self.binary).arg("run").arg(self.file(id)).args(["--override", &listen]);
        let log = self.directory.join(format!("node-{id}-{}.log", self.starts));
        self.running[id - 1] = Some(Running::start(&mut command, Stdio::null(), &log)?);
        let lives = poll("a node to live", PATIENCE, || self.ask(id, "GET", "/livez").ok());
        lives.map_err(|late| {
            let said = fs::read_to_string(&log).unwrap_or_default();
            Failure(format!("{late}; only root may mount. It says:\n{said}"))
        })?;
        Ok(())
    }

    fn kill(&mut self, id: usize) {
        self.running[id - 1] = None;
    }

    fn ask(&self, id: usize, method: &str, path: &str) -> Result<Response, Failure> {
        let mut client = Client::new(self.http[id - 1], Duration::from_secs(15));
        let answer = client.ask(method, path, &[], b"value");
        answer.map_err(|silence| Failure(silence.to_string()))
    }

    fn wait_until_ready(&self, id: usize) -> Result<(), Failure> {
        let ready = || (self.ask(id, "GET", "/readyz").ok()?.status == 200).then_some(());
        Ok(poll("a node to be ready", PATIENCE, ready)?)
    }

    fn status(&self, id: usize) -> Result<Status, Failure> {
        Ok(serde_json::from_slice(&self.ask(id, "GET", "/status")?.body)?)
    }

    /// Writes through this node.
    fn put(&self, id: usize) -> Result<(), Failure> {
        let done = || self.ask(id, "PUT", "/v1/kv/key").ok().filter(|answer| answer.status < 300);
        poll("a write to be acknowledged", PATIENCE, || done().map(drop))?;
        Ok(())
    }
}
