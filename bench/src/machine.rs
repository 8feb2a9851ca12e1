//! The machine that was measured, as far as it matters for the figures.

use crate::Failure;
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const SYNCS: usize = 200;
/// Between two syncs. A loop without it uses up its share of a busy processor, and then waits for
/// its turn longer than for the disk; nodes sleep between syncs, too.
const PAUSE: Duration = Duration::from_millis(2);

/// Facts without which the figures mean nothing.
#[derive(Serialize)]
pub struct Machine {
    /// Processor.
    pub processor: String,
    /// How many of its threads this process may use.
    pub cores: usize,
    /// Memory, in GB.
    pub memory_gb: f64,
    /// Kernel.
    pub kernel: String,
    /// Half of all appends of 256 bytes with fdatasync took at most this, in milliseconds.
    pub sync_p50_ms: f64,
    /// The same for 99 of 100.
    pub sync_p99_ms: f64,
    /// Of the last minute, before the first part and after the last: what else ran counts in.
    pub load_average: Vec<f64>,
    /// What was built: commit, with a plus if there were changes on top.
    pub commit: String,
}

impl Machine {
    /// Looks around; syncs are tried in `directory`, where the nodes will be.
    pub fn look(directory: &Path) -> Result<Machine, Failure> {
        let cpu = read("/proc/cpuinfo");
        let memory = read("/proc/meminfo");
        let kb = field(&memory, "MemTotal").and_then(|kb| kb.split(' ').next()?.parse().ok());
        let syncs = syncs(directory)?;
        Ok(Machine {
            processor: field(&cpu, "model name").unwrap_or("unknown").to_owned(),
            cores: std::thread::available_parallelism()?.get(),
            memory_gb: kb.unwrap_or(0.0) / f64::from(1 << 20),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            sync_p50_ms: syncs[SYNCS / 2],
            sync_p99_ms: syncs[SYNCS * 99 / 100],
            load_average: vec![load_average()],
            commit: commit(),
        })
    }
}

/// Processes that ran or wanted to, on average of the last minute.
pub fn load_average() -> f64 {
    read("/proc/loadavg").split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(f64::NAN)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(found, _)| found.trim() == name).map(|(_, value)| value.trim())
}

/// Milliseconds of each append with its sync, ascending.
fn syncs(directory: &Path) -> Result<Vec<f64>, Failure> {
    let path = directory.join("sync");
    let mut file = File::create(&path)?;
    let mut took = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        std::thread::sleep(PAUSE);
        let begin = Instant::now();
        file.write_all(&[7; 256])?;
        file.sync_data()?;
        took.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    drop(file);
    std::fs::remove_file(path)?;
    took.sort_by(f64::total_cmp);
    Ok(took)
}

fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let changed = git(&["status", "--porcelain", "--untracked-files=no", "--", "*.rs", "*.toml"]);
    let mark = if changed.is_none_or(|changed| changed.is_empty()) { "" } else { "+" };
    git(&["rev-parse", "--short=10", "HEAD"])
        .map_or("unknown".into(), |commit| format!("{commit}{mark}"))
}
