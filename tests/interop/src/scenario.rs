//! What a scenario is, what it is given, and how it fails.

use crate::java::Kafka;
use crate::porcupine::Porcupine;
use quorate_processes::free_ports;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A wait for a fact ends here, however slow the machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// One story with a name and a verdict.
pub struct Scenario {
    pub name: &'static str,
    pub run: Run,
}

/// A scenario by what it needs. It gets a directory of its own, which does not exist yet.
#[derive(Clone, Copy)]
pub enum Run {
    /// Kafka's programs.
    Kafka(fn(&Stage, &Path) -> Result<(), Failure>),
    /// Disks of its own, which only root can mount, and the binary `quorate`.
    Disks(fn(&Path, &Path) -> Result<(), Failure>),
    /// A checker of histories, and the binary `quorate`.
    Porcupine(fn(&Porcupine, &Path, &Path) -> Result<(), Failure>),
}

/// What all scenarios with Kafka share.
pub struct Stage {
    pub kafka: Kafka,
    /// The first of its major release, as far as it is kept up.
    pub elder: Kafka,
    /// The oldest release that must get along with us.
    pub older: Kafka,
    /// The binary `quorate`.
    pub binary: PathBuf,
    /// How long a scenario runs that may run as long as one likes.
    pub minutes: u64,
}

/// Why a scenario failed, for a person.
#[derive(Debug)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure(error.to_string())
    }
}

/// Fails unless the program answers the probe; `what` is to be installed.
pub fn need(program: &str, probe: &str, what: &str) -> Result<(), Failure> {
    match Command::new(program).arg(probe).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(_) | Err(_) => {
            Err(Failure(format!("`{program}` is missing: install {what}, and run this again")))
        }
    }
}

/// Addresses on loopback where nobody listens: no two scenarios get the same, and no connection
/// takes one meanwhile.
pub fn places(count: usize) -> Result<Vec<SocketAddr>, Failure> {
    let found: Vec<SocketAddr> = free_ports().take(count).collect();
    ensure(found.len() == count, || "no port is free on loopback".into())?;
    Ok(found)
}

/// New in each run, unless `QUORATE_SEED` names one; who uses it prints it.
pub fn seed() -> u64 {
    let asked = std::env::var("QUORATE_SEED").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(u64::from(std::process::id()))
}

/// Fails with these words unless the fact holds.
pub fn ensure(fact: bool, words: impl FnOnce() -> String) -> Result<(), Failure> {
    if fact { Ok(()) } else { Err(Failure(words())) }
}

/// How many bytes two logs were compared over: to the end of the shorter one, without the room
/// behind its last batch that nothing was written to yet. Fails where they part.
pub fn same_bytes(one: &[u8], other: &[u8]) -> Result<usize, Failure> {
    let length = one.len().min(other.len());
    let used = other[..length].iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    match one[..used].iter().zip(&other[..used]).position(|(a, b)| a != b) {
        None => Ok(used),
        Some(at) => Err(Failure(format!("two logs part at byte {at} of {used}"))),
    }
}

/// Fails if a program whose log lies in this directory printed such a line.
pub fn no_line(directory: &Path, is_bad: impl Fn(&str) -> bool) -> Result<(), Failure> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == "log") {
            let printed = std::fs::read_to_string(&path)?;
            ensure(!printed.lines().any(&is_bad), || {
                format!("{} says:\n{printed}", path.display())
            })?;
        }
    }
    Ok(())
}

/// The files of a folder whose names end like this, in order.
pub fn files_ending(folder: &Path, ending: &str) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.path().display().to_string();
        if name.ends_with(ending) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
