//! Three nodes (or as many as wanted) on loopback, each its own process with its own directory.
//!
//! A node that is killed gets no warning (SIGKILL); its directory stays for the next start. Whoever
//! holds a [`Cluster`] decides who lives; dropping it kills what runs and leaves the files.

use crate::Error;
use crate::http::Client;
use quorate_node::status::Status;
use std::fs::{self, File};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Ports are taken from here up: below the range that systems give to outgoing connections, so that
/// a node finds its port free when it comes back.
const FIRST_PORT: u16 = 10_000;
const PORTS: u16 = 20_000;
const STATUS_PATIENCE: Duration = Duration::from_millis(1_000);
/// How much longer than its patience a node may take to say that it is over.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);
/// How often something is looked at again.
const POLL: Duration = Duration::from_millis(2);

/// Asks until there is an answer, at most for so long.
pub fn poll<T>(
    what: &str,
    patience: Duration,
    mut ask: impl FnMut() -> Option<T>,
) -> Result<T, Error> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(answer) = ask() {
            return Ok(answer);
        }
        if Instant::now() > deadline {
            return Err(Error::Late { what: what.to_owned() });
        }
        std::thread::sleep(POLL);
    }
}

/// One node: a directory, two ports and, while it runs, a process.
#[derive(Debug)]
pub struct Node {
    /// `node.id`.
    pub id: u32,
    /// The controller listener.
    pub raft: SocketAddr,
    /// Where it serves HTTP.
    pub http: SocketAddr,
    directory: PathBuf,
    data: PathBuf,
    child: Option<Child>,
}

impl Node {
    /// Whether it was started and not killed since.
    pub fn is_up(&self) -> bool {
        self.child.is_some()
    }

    /// The id of its process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// What it printed in all its lives.
    pub fn log_file(&self) -> PathBuf {
        self.directory.join("node.log")
    }

    /// The status of the answer to a write of a small value through this node, which may take so
    /// long; `None` without an answer.
    pub fn put(&self, key: &str, patience: Duration) -> Option<u16> {
        let mut client = Client::new(self.http, patience + ANSWER_PATIENCE);
        let path = format!("/v1/kv/{key}?timeout={}", patience.as_millis());
        Some(client.ask("PUT", &path, &[], b"value").ok()?.status)
    }

    /// What it says of itself; `None` if it says nothing within a second.
    pub fn status(&self) -> Option<Status> {
        let answer =
            Client::new(self.http, STATUS_PATIENCE).ask("GET", "/status", &[], b"").ok()?;
        serde_json::from_slice(&answer.body).ok()
    }

    fn settings_file(&self) -> PathBuf {
        self.directory.join("server.properties")
    }
}

/// How nodes come to know who votes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// By their files.
    Listed,
    /// By the log; formatted, node 1 as the first.
    Founded,
    /// By the log; each formats itself at its first start, node 1 as the first.
    Joined,
}

/// Nodes that vote together.
#[derive(Debug)]
pub struct Cluster {
    binary: PathBuf,
    root: PathBuf,
    /// `cluster.id`.
    id: String,
    way: Way,
    nodes: Vec<Node>,
}

impl Cluster {
    /// Formats nodes `1..=size` under `root`, which must not exist; starts none. `settings` are
    /// lines of a property file that all nodes get.
    pub fn format(
        binary: &Path,
        root: &Path,
        size: u32,
        settings: &[&str],
    ) -> Result<Cluster, Error> {
        Cluster::make(binary, root, size, settings, Way::Listed)
    }

    /// The same with the voters in the log: node 1 alone at first, the others observe.
    pub fn found(
        binary: &Path,
        root: &Path,
        size: u32,
        settings: &[&str],
    ) -> Result<Cluster, Error> {
        Cluster::make(binary, root, size, settings, Way::Founded)
    }

    /// Only files of settings: node 1 begins the cluster at its first start (`quorate.bootstrap`),
    /// the others join it (`quorate.join`).
    pub fn unformatted(
        binary: &Path,
        root: &Path,
        size: u32,
        settings: &[&str],
    ) -> Result<Cluster, Error> {
        Cluster::make(binary, root, size, settings, Way::Joined)
    }

    fn make(
        binary: &Path,
        root: &Path,
        size: u32,
        settings: &[&str],
        way: Way,
    ) -> Result<Cluster, Error> {
        make_directory(root)?;
        let mut free = free_ports();
        let mut address =
            || free.next().ok_or_else(|| Error::Late { what: "a free port on loopback".into() });
        let mut nodes = Vec::new();
        for id in 1..=size {
            let directory = root.join(format!("node-{id}"));
            make_directory(&directory)?;
            let (raft, http, data) = (address()?, address()?, directory.join("data"));
            nodes.push(Node { id, raft, http, directory, data, child: None });
        }
        let (binary, root) = (binary.to_owned(), root.to_owned());
        let mut cluster = Cluster { binary, root, id: String::new(), way, nodes };
        cluster.id = cluster.command(&["random-uuid"])?.trim().to_owned();
        for node in &cluster.nodes {
            cluster.write_settings(node, settings)?;
            cluster.format_node(node)?;
        }
        Ok(cluster)
    }

    fn write_settings(&self, node: &Node, settings: &[&str]) -> Result<(), Error> {
        let servers: Vec<String> = self.nodes.iter().map(|node| node.raft.to_string()).collect();
        let voters: Vec<String> =
            self.nodes.iter().map(|node| format!("{}@{}", node.id, node.raft)).collect();
        let others = match self.way {
            Way::Listed => format!("controller.quorum.voters={}", voters.join(",")),
            Way::Founded => format!("controller.quorum.bootstrap.servers={}", servers.join(",")),
            Way::Joined if node.id == 1 => "quorate.bootstrap=true".to_owned(),
            Way::Joined => format!("quorate.join={}", servers.join(",")),
        };
        let text = format!(
            "node.id={}\nlog.dirs={}\nlisteners=CONTROLLER://{}\n{others}\n\
             quorate.http.listen={}\n{}\n",
            node.id,
            node.data.display(),
            node.raft,
            node.http,
            settings.join("\n")
        );
        let file = node.settings_file();
        fs::write(&file, text).map_err(|source| Error::File { path: file, source })
    }

    fn format_node(&self, node: &Node) -> Result<(), Error> {
        let file = node.settings_file().display().to_string();
        let mut arguments = vec!["format", "--cluster-id", &self.id, "--config", &file];
        match self.way {
            Way::Listed => {}
            Way::Founded if node.id == 1 => arguments.push("--standalone"),
            Way::Founded => arguments.push("--no-initial-controllers"),
            Way::Joined => return Ok(()),
        }
        self.command(&arguments).map(drop)
    }

    /// Formats a node anew that never ran, in another directory, such as one on a disk of its own.
    pub fn keep_data_at(&mut self, id: u32, path: &Path) -> Result<(), Error> {
        let node = &mut self.nodes[id as usize - 1];
        assert!(node.child.is_none(), "node {id} runs already");
        node.data = path.to_owned();
        let file = node.settings_file();
        let line = format!("metadata.log.dir={}\n", path.display());
        let written = File::options()
            .append(true)
            .open(&file)
            .and_then(|mut settings| settings.write_all(line.as_bytes()));
        written.map_err(|source| Error::File { path: file, source })?;
        self.format_node(&self.nodes[id as usize - 1])
    }

    /// Loses the data of all nodes, none of which may run, and formats them anew.
    pub fn forget_all(&self) -> Result<(), Error> {
        (1..=self.nodes.len() as u32).try_for_each(|id| self.forget(id))
    }

    /// The same for one of them.
    pub fn forget(&self, id: u32) -> Result<(), Error> {
        let node = self.node(id);
        assert!(node.child.is_none(), "node {id} runs still");
        let path = node.data.clone();
        fs::remove_dir_all(&path).map_err(|source| Error::File { path, source })?;
        self.format_node(node)
    }

    fn command(&self, arguments: &[&str]) -> Result<String, Error> {
        let output = Command::new(&self.binary).args(arguments).output();
        let output = output.map_err(|source| Error::File { path: self.binary.clone(), source })?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(Error::Command {
                command: format!("quorate {}", arguments.join(" ")),
                output: text(&output.stdout) + &text(&output.stderr),
            }),
        }
    }

    /// The nodes, by id from 1.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// One of them. Panics if there is none with this id.
    pub fn node(&self, id: u32) -> &Node {
        &self.nodes[id as usize - 1]
    }

    /// Where all directories are.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Starts a node that does not run.
    pub fn start(&mut self, id: u32) -> Result<(), Error> {
        let node = &mut self.nodes[id as usize - 1];
        assert!(node.child.is_none(), "node {id} runs already");
        let path = node.log_file();
        let open = File::options().create(true).append(true).open(&path);
        let clone = |log: File| Ok((log.try_clone()?, log));
        let (out, log) =
            open.and_then(clone).map_err(|source| Error::File { path: path.clone(), source })?;
        let child = Command::new(&self.binary)
            .arg("run")
            .arg(node.settings_file())
            // Closed when this process ends, which is how the node learns of it.
            .arg("--until-stdin-closes")
            .stdin(Stdio::piped())
            .stdout(out)
            .stderr(log)
            .process_group(0)
            .spawn();
        match child {
            Ok(child) => {
                node.child = Some(child);
                Ok(())
            }
            Err(source) => Err(Error::File { path: self.binary.clone(), source }),
        }
    }

    /// Starts all that do not run.
    pub fn start_all(&mut self) -> Result<(), Error> {
        for id in 1..=self.nodes.len() as u32 {
            if !self.node(id).is_up() {
                self.start(id)?;
            }
        }
        Ok(())
    }

    /// Ends a node without warning; true if it still ran.
    pub fn kill(&mut self, id: u32) -> bool {
        let Some(mut child) = self.nodes[id as usize - 1].child.take() else { return false };
        // One that has just ended by itself refuses; either way it is gone after the wait.
        let _ = child.kill();
        let _ = child.wait();
        true
    }

    /// A node that ended though nobody killed it, and how.
    pub fn ended_by_itself(&mut self) -> Option<(u32, ExitStatus)> {
        self.nodes.iter_mut().find_map(|node| {
            let status = node.child.as_mut()?.try_wait().ok()??;
            Some((node.id, status))
        })
    }

    /// The node that leads in the newest epoch anyone knows of.
    pub fn leader(&self) -> Option<u32> {
        let statuses = self.nodes.iter().filter(|node| node.is_up()).filter_map(Node::status);
        let newest = statuses.max_by_key(|status| (status.epoch, status.role == "leader"))?;
        newest.node.filter(|_| newest.role == "leader" && newest.ready)
    }

    /// Waits for a leader.
    pub fn wait_for_leader(&self, patience: Duration) -> Result<u32, Error> {
        poll("a leader", patience, || self.leader())
    }

    /// Waits until every node is ready and holds all that the leader has now, and names the leader.
    pub fn wait_until_level(&self, patience: Duration) -> Result<u32, Error> {
        poll("all nodes to be ready and level with the leader", patience, || {
            let leader = self.leader()?;
            let end = self.node(leader).status()?.log_end;
            let level = |node: &Node| {
                node.status().is_some_and(|status| status.ready && status.applied >= end)
            };
            self.nodes.iter().all(level).then_some(leader)
        })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for id in 1..=self.nodes.len() as u32 {
            self.kill(id);
        }
    }
}

fn make_directory(path: &Path) -> Result<(), Error> {
    let made = match path.parent() {
        Some(parent) => fs::create_dir_all(parent).and_then(|()| fs::create_dir(path)),
        None => fs::create_dir(path),
    };
    made.map_err(|source| Error::File { path: path.to_owned(), source })
}

/// Where this process looks for the next free port, from [`FIRST_PORT`] on.
static NEXT_PORT: LazyLock<AtomicU32> =
    LazyLock::new(|| AtomicU32::new(std::process::id().wrapping_mul(97)));

/// Addresses on loopback that nobody listens at. None comes twice in a process, since clusters that
/// are formatted at the same time start their nodes later; two processes begin at different ports.
pub fn free_ports() -> impl Iterator<Item = SocketAddr> {
    (0..PORTS).filter_map(|_| {
        let step = NEXT_PORT.fetch_add(1, Ordering::Relaxed) % u32::from(PORTS);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, FIRST_PORT + step as u16));
        TcpListener::bind(address).is_ok().then_some(address)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by two clusters of one test process, whose nodes met each other's clients.
    #[test]
    fn free_ports_are_free_and_never_come_twice() {
        let first: Vec<SocketAddr> = free_ports().take(6).collect();
        let second: Vec<SocketAddr> = free_ports().take(6).collect();
        assert!(first.iter().all(|address| !second.contains(address)));
        assert!(first.iter().all(|address| TcpListener::bind(address).is_ok()));
    }
}
