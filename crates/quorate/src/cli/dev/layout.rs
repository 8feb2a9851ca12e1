//! The files of a `quorate dev` directory: which nodes, at which ports, and where their data lies.
//!
//! The file [`MARKER`] says that dev made the directory. Without it nothing in a directory is ever
//! written or removed; with it only what it names.

use super::super::{Outcome, failed, random_uuid, run};
use quorate::FormatError;
use quorate::settings::Settings;
use quorate_log::{Lock, LockError, OsDisk};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where `dev` keeps its nodes unless told otherwise.
pub(crate) const DIRECTORY: &str = "quorate-dev";
const MARKER: &str = "quorate-dev.json";
/// How many nodes a new directory gets unless told otherwise.
const NODES: u32 = 3;
/// The first ports tried; below the range that systems take for outgoing connections.
const HTTP_PORT: u16 = 7_101;
const RAFT_PORT: u16 = 7_201;
/// How long nodes of a dev that was killed may take to end.
const ORPHAN_TIME: Duration = Duration::from_secs(15);
const ORPHAN_TICK: Duration = Duration::from_millis(50);
/// How many lines of a log are shown when its node has died.
const TAIL_LINES: usize = 8;

/// What the directory remembers.
#[derive(Serialize, Deserialize)]
struct Memory {
    /// The form of this file.
    version: u32,
    cluster: String,
    nodes: Vec<Ports>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Ports {
    id: u32,
    raft: u16,
    http: u16,
}

/// A directory whose nodes are formatted and may be started.
pub(crate) struct Layout {
    root: PathBuf,
    memory: Memory,
    /// One dev a directory.
    _lock: Lock,
}

/// One node's place in it.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) id: u32,
    http: u16,
    raft: u16,
    directory: PathBuf,
}

impl Layout {
    /// Opens what an earlier run left, or makes it anew.
    pub(crate) fn open(root: &Path, nodes: Option<u32>, fresh: bool) -> Outcome<Layout> {
        let made = fs::create_dir_all(root).and_then(|()| fs::canonicalize(root));
        let root = made.or_else(|error| {
            failed(format!("{} cannot be made: {error}; choose another --dir", root.display()))
        })?;
        // Before the lock, which writes: a directory that is not ours stays as it is.
        remembered(&root)?;
        let lock = OsDisk::lock(&root, "quorate dev").or_else(|error| failed(error.to_string()))?;
        let mut memory = remembered(&root)?;
        if fresh && let Some(memory) = memory.take() {
            forget(&root, &memory)?;
        }
        let memory = match memory {
            Some(memory) if nodes.is_none_or(|nodes| memory.nodes.len() == nodes as usize) => {
                memory
            }
            Some(memory) => {
                let made = memory.nodes.len();
                return failed(format!(
                    "{} was made for {made} nodes, and the voters of a cluster are fixed so far: pass --nodes \
                     {made}, or --fresh to start empty, or another --dir",
                    root.display()
                ));
            }
            None => make(&root, nodes.unwrap_or(NODES))?,
        };
        let layout = Layout { root, memory, _lock: lock };
        wait_for_ports(&layout.memory)?;
        layout.write_settings()?;
        Ok(layout)
    }

    /// The cluster's id.
    pub(crate) fn cluster(&self) -> &str {
        &self.memory.cluster
    }

    /// The directory, absolute.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The nodes.
    pub(crate) fn places(&self) -> Vec<Place> {
        let place = |ports: &Ports| Place {
            id: ports.id,
            http: ports.http,
            raft: ports.raft,
            directory: node_directory(&self.root, ports.id),
        };
        self.memory.nodes.iter().map(place).collect()
    }

    /// Writes each node's file anew, since the directory may have moved, and formats what is not.
    fn write_settings(&self) -> Outcome {
        let voters =
            self.memory.nodes.iter().map(|ports| format!("{}@127.0.0.1:{}", ports.id, ports.raft));
        let voters = voters.collect::<Vec<_>>().join(",");
        for (place, ports) in self.places().iter().zip(&self.memory.nodes) {
            let data = place.directory.join("data").display().to_string().replace('\\', "\\\\");
            let text = format!(
                "# Written by `quorate dev` at each start.\n\
                 node.id={}\nprocess.roles=controller\nlog.dirs={data}\n\
                 listeners=CONTROLLER://127.0.0.1:{}\ncontroller.listener.names=CONTROLLER\n\
                 controller.quorum.voters={voters}\nquorate.http.listen=127.0.0.1:{}\n",
                ports.id, ports.raft, ports.http
            );
            let file = place.settings_file();
            let written =
                fs::create_dir_all(&place.directory).and_then(|()| fs::write(&file, text));
            if let Err(error) = written {
                return failed(format!("{} cannot be written: {error}", file.display()));
            }
            let settings = run::settings(&file, &[])?;
            format(&settings, &self.memory.cluster)?;
        }
        Ok(())
    }
}

impl Place {
    /// Where it serves HTTP.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.http)
    }

    /// Where it listens for the other nodes, and for whoever asks as they do.
    pub(crate) fn controller(&self) -> String {
        format!("127.0.0.1:{}", self.raft)
    }

    /// Its property file.
    pub(crate) fn settings_file(&self) -> PathBuf {
        self.directory.join("server.properties")
    }

    /// What it prints goes here.
    pub(crate) fn log_file(&self) -> PathBuf {
        self.directory.join("node.log")
    }

    /// The last lines of its log, indented.
    pub(crate) fn log_tail(&self) -> String {
        let log = fs::read(self.log_file()).unwrap_or_default();
        let text = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = text.lines().collect();
        let tail = &lines[lines.len().saturating_sub(TAIL_LINES)..];
        let tail: Vec<String> = tail.iter().map(|line| format!("  | {line}")).collect();
        format!("{}\n  {} has all of it", tail.join("\n"), self.log_file().display())
    }
}

/// The HTTP addresses that a directory remembers; none if dev did not make it.
pub(crate) fn known_urls(root: &Path) -> Vec<String> {
    let memory = remembered(root).ok().flatten();
    let nodes = memory.map_or(Vec::new(), |memory| memory.nodes);
    nodes.iter().map(|ports| format!("http://127.0.0.1:{}", ports.http)).collect()
}

fn node_directory(root: &Path, id: u32) -> PathBuf {
    root.join(format!("node-{id}"))
}

/// Reads the marker. A directory that has other things and no marker is not dev's.
fn remembered(root: &Path) -> Outcome<Option<Memory>> {
    let marker = root.join(MARKER);
    match fs::read(&marker).map(|bytes| serde_json::from_slice::<Memory>(&bytes)) {
        Ok(Ok(memory)) if memory.version == 1 && !memory.nodes.is_empty() => Ok(Some(memory)),
        Ok(_) => {
            failed(format!("{} is in no form known here; choose another --dir", marker.display()))
        }
        Err(_) if is_empty(root) => Ok(None),
        Err(_) => failed(format!(
            "{} was not made by `quorate dev` (it has no {MARKER}) and is not empty; nothing was touched. Choose \
             another --dir.",
            root.display()
        )),
    }
}

/// Empty but for what a dev leaves that came no further.
fn is_empty(root: &Path) -> bool {
    let ours = |entry: std::io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| {
            [".lock", ".gitignore"].iter().any(|name| entry.file_name() == *name)
        })
    };
    fs::read_dir(root).is_ok_and(|mut entries| entries.all(ours))
}

/// Nodes whose dev was killed need a moment to notice and to stop.
fn wait_for_ports(memory: &Memory) -> Outcome {
    for ports in &memory.nodes {
        for port in [ports.http, ports.raft] {
            let free = || TcpListener::bind(("127.0.0.1", port)).ok();
            if wait_for(free).is_none() {
                return failed(format!(
                    "port {port} of node {} is in use by another process: end that, or start anew at other \
                     ports with --fresh or another --dir",
                    ports.id
                ));
            }
        }
    }
    Ok(())
}

/// Tries until it works or time is up.
fn wait_for<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + ORPHAN_TIME;
    loop {
        let found = attempt();
        if found.is_some() || Instant::now() > deadline {
            return found;
        }
        std::thread::sleep(ORPHAN_TICK);
    }
}

/// Formats a node's directory; an orphan may still hold it.
fn format(settings: &Settings, cluster: &str) -> Outcome {
    let mut held = None;
    let formatted = wait_for(|| match quorate::format(&settings.config, Some(cluster)) {
        Err(FormatError::Lock(error @ LockError::Held { .. })) => {
            held = Some(error.to_string());
            None
        }
        ended => Some(ended),
    });
    match formatted {
        Some(Ok(_)) => Ok(()),
        Some(Err(error)) => failed(error.to_string()),
        None => failed(held.unwrap_or_default()),
    }
}

/// Removes what the marker names, the marker first: half removed is then not half known.
fn forget(root: &Path, memory: &Memory) -> Outcome {
    let mut held = Vec::new();
    for ports in &memory.nodes {
        let data = node_directory(root, ports.id).join("data");
        // A dev that was killed early may not have come so far.
        if !data.exists() {
            continue;
        }
        match wait_for(|| OsDisk::lock(&data, "quorate dev --fresh").ok()) {
            Some(lock) => held.push(lock),
            None => {
                return failed(format!(
                    "node {} still runs and uses {}: end it",
                    ports.id,
                    data.display()
                ));
            }
        }
    }
    let mut gone = fs::remove_file(root.join(MARKER));
    for ports in &memory.nodes {
        gone = gone.and_then(|()| match fs::remove_dir_all(node_directory(root, ports.id)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            ended => ended,
        });
    }
    gone.or_else(|error| failed(format!("{} cannot be emptied: {error}", root.display())))
}

fn make(root: &Path, nodes: u32) -> Outcome<Memory> {
    let cluster = random_uuid()?.to_string();
    // Held until all are chosen, so that no two are the same.
    let mut held = Vec::new();
    let mut free = |first: u16| {
        let found =
            (first..first + 2_000).find_map(|port| TcpListener::bind(("127.0.0.1", port)).ok());
        let Some(listener) = found else { return failed("no free port was found") };
        let port = listener.local_addr().map_or(0, |address| address.port());
        held.push(listener);
        Ok(port)
    };
    let mut memory = Memory { version: 1, cluster, nodes: Vec::new() };
    for id in 1..=nodes {
        memory.nodes.push(Ports { id, http: free(HTTP_PORT)?, raft: free(RAFT_PORT)? });
    }
    let text = serde_json::to_string_pretty(&memory).expect("own structs have string keys");
    // Version control need not hear of the data; the marker comes last, when all else is there.
    let written =
        fs::write(root.join(".gitignore"), "*\n").and_then(|()| fs::write(root.join(MARKER), text));
    match written {
        Ok(()) => Ok(memory),
        Err(error) => failed(format!("{} cannot be written: {error}", root.display())),
    }
}
