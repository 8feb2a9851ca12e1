//! What the tests of the binary share: a directory of their own, commands, HTTP, and waiting for
//! facts.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses its part; a test ends where a fact is missing"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long a fact may take to come true before the test fails; never how long a test takes.
const DEADLINE: Duration = Duration::from_secs(60);

/// Exit code of a command line that makes no sense.
pub const USAGE: i32 = 2;
/// Exit code of a command that failed.
pub const FAILED: i32 = 1;

/// A directory that is removed at the end.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        // Left by a run that was killed.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The binary, with nothing of the caller's environment that it reads.
pub fn quorate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.args(arguments).env_remove("QUORATE_HTTP").stdin(Stdio::null());
    command
}

/// Runs it to its end: exit code, stdout, stderr.
pub fn run(arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = quorate(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().expect("not killed"), text(stdout), text(stderr))
}

/// The command fails like this, says all of these and prints nothing.
#[track_caller]
pub fn check_fails(arguments: &[&str], code: i32, says: &[&str]) -> String {
    let (found, stdout, stderr) = run(arguments);
    assert_eq!((found, stdout.as_str()), (code, ""), "{arguments:?}: {stderr}");
    for words in says {
        assert!(stderr.contains(words), "{arguments:?} must say '{words}': {stderr}");
    }
    stderr
}

/// A process that is killed if the test ends before it.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends a signal to a process that a test started.
pub fn signal(name: &str, pid: u64) {
    let sent = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap();
    assert!(sent.success(), "kill -{name} {pid}");
}

/// Looks again and again until there is something to see.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < deadline, "not seen in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// One request to `http://HOST:PORT`; `None` if the node gives no answer.
pub fn http(url: &str, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).ok()?;
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// Formats the directory of the only voter of a quorum; its settings are in `node.properties`.
pub fn formatted(scratch: &Scratch) -> String {
    let data = scratch.0.join("data").display().to_string();
    let text = format!(
        "node.id=1\nlog.dirs={data}\nlisteners=CONTROLLER://127.0.0.1:0\n\
         controller.quorum.voters=1@127.0.0.1:9093\n"
    );
    let config = scratch.write("node.properties", &text);
    let (code, _, stderr) = run(&["format", "--config", &config, "--cluster-id", "test"]);
    assert_eq!(code, 0, "{stderr}");
    data
}

/// The only voter of a quorum, as a process.
pub struct Lone {
    pub process: Process,
    /// Its directory.
    pub data: String,
    /// Where its peers would reach it.
    pub raft: String,
    /// Where it serves HTTP.
    pub url: String,
}

impl Lone {
    pub fn start(scratch: &Scratch) -> Lone {
        Lone::beside(scratch, "")
    }

    /// With other voters, which are not there: `,2@host:port`.
    pub fn beside(scratch: &Scratch, others: &str) -> Lone {
        let data = formatted(scratch);
        Lone::on(scratch, data, others)
    }

    /// On this directory, which is formatted, and with the settings in `node.properties`.
    pub fn on(scratch: &Scratch, data: String, others: &str) -> Lone {
        let config = scratch.0.join("node.properties").display().to_string();
        // Who asks for the leader is told what the voters' list says; free a moment ago.
        let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut run = vec!["run".to_owned(), config];
        for setting in [
            format!("listeners=CONTROLLER://{at}"),
            format!("controller.quorum.voters=1@{at}{others}"),
            "quorate.http.listen=127.0.0.1:0".to_owned(),
        ] {
            run.extend(["--override".to_owned(), setting]);
        }
        let run: Vec<&str> = run.iter().map(String::as_str).collect();
        let mut process = Process(quorate(&run).stderr(Stdio::piped()).spawn().unwrap());
        let mut lines = BufReader::new(process.0.stderr.take().unwrap()).lines();
        let mut field = |event: &str, name: &str| {
            let line = lines.find(|line| line.as_ref().unwrap().contains(event)).unwrap().unwrap();
            line.rsplit_once(name).unwrap().1.trim().to_owned()
        };
        let raft = field("the node runs", "controller=");
        let url = format!("http://{}", field("HTTP is served", "address="));
        // Nobody may wait for the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Lone { process, data, raft, url }
    }

    /// Writes a key once it leads.
    pub fn put(&self, key: &str, value: &str) {
        wait_for("a write", || {
            http(&self.url, "PUT", &format!("/v1/kv/{key}"), value).filter(|(code, _)| *code < 300)
        });
    }
}

/// What a command prints for programs, checked against docs/OUTPUT.md: every type and every field
/// of it is there, under this heading or any other.
#[track_caller]
pub fn documented(heading: &str, printed: &str) -> Vec<serde_json::Value> {
    let objects: Vec<serde_json::Value> =
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for object in &objects {
        documented_as(heading, object["type"].as_str().unwrap(), object);
    }
    objects
}

/// [`documented`] for one object, whose type is not in it.
#[track_caller]
pub fn documented_as(heading: &str, kind: &str, object: &serde_json::Value) {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/OUTPUT.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut sections = page.split("\n## ");
    let section = sections.find(|section| section.lines().next().unwrap().contains(heading));
    let section = section.unwrap_or_else(|| panic!("no section {heading}"));
    let words = |text: &str| -> Vec<String> {
        text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let row = |text: &str| {
        let rows = text.lines().filter(|line| line.starts_with("| "));
        let mut cells = rows.filter_map(|row| row[2..].split_once(" | "));
        let found =
            cells.find(|(types, _)| *types == kind || words(types).iter().any(|word| word == kind));
        found.map(|(_, fields)| words(fields))
    };
    let fields = row(section).or_else(|| row(&page));
    let fields = fields.unwrap_or_else(|| panic!("{heading}: no type {kind}"));
    for name in object.as_object().unwrap().keys() {
        let name = name.strip_suffix("_base64").unwrap_or(name);
        let known = name == "type" || fields.iter().any(|field| field == name);
        assert!(known, "{heading}: {kind} has a field {name}, which is not in OUTPUT.md");
    }
}
