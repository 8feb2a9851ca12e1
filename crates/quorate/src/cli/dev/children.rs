//! The processes of `quorate dev`: start, notice the end, stop. Only own children, only by their
//! id.

use super::super::{Outcome, failed};
use super::layout::Place;
use std::fs::OpenOptions;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a node may take to stop before it is killed. The leader notices that nobody is left to
/// hand over to [P54], unless a follower heard of the hand-over just before it went. Short, since a
/// killed node keeps every acknowledged write.
const PATIENCE: Duration = Duration::from_secs(1);
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;
const TICK: Duration = Duration::from_millis(20);

/// A node's process.
pub(crate) struct Child {
    process: std::process::Child,
}

/// A process that is no more.
pub(crate) struct Ended {
    pub(crate) pid: u32,
    pub(crate) how: String,
    /// Someone killed it, as `dev` invites to; it may be quite healthy.
    pub(crate) by_hand: bool,
}

impl Child {
    /// Starts `quorate run` for a node; what it prints is appended to its log.
    pub(crate) fn start(place: &Place) -> Outcome<Child> {
        let start = || -> std::io::Result<std::process::Child> {
            let log = OpenOptions::new().create(true).append(true).open(place.log_file())?;
            Command::new(std::env::current_exe()?)
                .arg("run")
                .arg(place.settings_file())
                .arg("--until-stdin-closes")
                // Its end is how the node learns that we are gone, however we went.
                .stdin(Stdio::piped())
                .stdout(log.try_clone()?)
                .stderr(log)
                // Ctrl-c in the terminal is for us; we stop the nodes in our own way.
                .process_group(0)
                .spawn()
        };
        match start() {
            Ok(process) => Ok(Child { process }),
            Err(error) => failed(format!("node {} cannot be started: {error}", place.id)),
        }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<Ended> {
        let (how, by_hand) = match self.process.try_wait() {
            Ok(None) => return None,
            Ok(Some(status)) => (words(status), matches!(status.signal(), Some(SIGKILL | SIGTERM))),
            Err(error) => (format!("nothing is known of it: {error}"), false),
        };
        Some(Ended { pid: self.pid(), how, by_hand })
    }
}

fn words(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("killed by signal {signal}"),
        (None, Some(code)) => format!("exit code {code}"),
        (None, None) => status.to_string(),
    }
}

/// Asks all to stop, then kills those that do not.
pub(crate) async fn stop(children: impl Iterator<Item = Child>) {
    let mut children: Vec<Child> = children.collect();
    for child in &mut children {
        drop(child.process.stdin.take());
    }
    let deadline = Instant::now() + PATIENCE;
    while children.iter_mut().any(|child| child.ended().is_none()) {
        if Instant::now() > deadline {
            for child in &mut children {
                // One that has just ended refuses; that is as good.
                let _ = child.process.kill();
            }
        }
        tokio::time::sleep(TICK).await;
    }
}
