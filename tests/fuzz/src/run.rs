//! Goes through the inputs of one target, and says which one failed, if one did.
//!
//! A failure is a panic, more memory than the target allows, or no end within the patience. The
//! inputs run one after the other on one thread, while the calling one watches; memory is what the
//! whole process holds, so only one run goes at a time. What kills the process itself, such as a
//! stack that overflows, leaves no report: run the same seed in halves with `first` to find the
//! input.

use crate::{ALLOCATOR, Target};
use quorate_base::Rng;
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often the watching thread looks.
const LOOK: Duration = Duration::from_millis(100);

/// One run at a time: memory is counted for the process.
static RUNNING: Mutex<()> = Mutex::new(());

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Gives the inputs.
    pub seed: u64,
    /// Number of the first input.
    pub first: u64,
    /// How many inputs.
    pub inputs: u64,
    /// An input that takes longer hangs.
    pub patience: Duration,
}

/// What a run without failure saw.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Inputs that were judged.
    pub inputs: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The most memory that one made us hold, in bytes.
    pub memory: usize,
    /// The nearest that one came to what its target allows, in percent of it.
    pub memory_percent: usize,
}

/// An input that must not have that effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Of which target.
    pub target: &'static str,
    /// Of which seed.
    pub seed: u64,
    /// Its number.
    pub index: u64,
    /// Its bytes.
    pub input: Vec<u8>,
    /// What happened.
    pub why: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { target, seed, index, input, why } = self;
        write!(f, "{target}: input {index} of seed {seed}, {} bytes: {why}", input.len())
    }
}

/// The input with this number.
fn input(target: &Target, seed: u64, index: u64) -> Vec<u8> {
    let mixed = Rng::new(seed).next() ^ index;
    (target.make)(&mut Rng::new(mixed).fork())
}

/// Judges one input; the error says what happened. Else: how much memory it took, in bytes.
pub fn check_one(target: &Target, input: &[u8]) -> Result<usize, String> {
    let _alone = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    judge(target, input)
}

/// [`check_one`], while nothing else runs.
fn judge(target: &Target, input: &[u8]) -> Result<usize, String> {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    catch_unwind(AssertUnwindSafe(|| (target.check)(input))).map_err(|panic| message(&*panic))?;
    let held = ALLOCATOR.peak_usage().saturating_sub(before);
    let most = target.memory_max(input.len());
    match held <= most {
        true => Ok(held),
        false => Err(format!(
            "made us hold {held} bytes; an input of {} bytes may take {most}",
            input.len()
        )),
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panicked: {}", text.unwrap_or_else(|| "without a message".to_owned()))
}

/// Goes through the inputs until one fails; `progress` is told how many are done.
pub fn run(
    target: Target,
    options: Options,
    mut progress: impl FnMut(u64),
) -> Result<Report, Box<Failure>> {
    let _alone = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let done = Arc::new(AtomicU64::new(0));
    let (tell, told) = channel();
    let count = Arc::clone(&done);
    thread::spawn(move || {
        // Nobody listens any more once an input was found to hang.
        let _ = tell.send(run_all(&target, options, &count));
    });
    let (mut at, mut since) = (0, Instant::now());
    loop {
        match told.recv_timeout(LOOK) {
            Ok(result) => {
                progress(done.load(Ordering::Relaxed));
                return result;
            }
            Err(RecvTimeoutError::Disconnected) => {
                let why = "making the input panicked".to_owned();
                return Err(failure(&target, options, at, Vec::new(), why));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now_at = done.load(Ordering::Relaxed);
        progress(now_at);
        if now_at != at {
            (at, since) = (now_at, Instant::now());
        } else if since.elapsed() > options.patience {
            let why = format!("no end within {} s", options.patience.as_secs());
            let input = input(&target, options.seed, options.first + at);
            return Err(failure(&target, options, at, input, why));
        }
    }
}

fn run_all(target: &Target, options: Options, done: &AtomicU64) -> Result<Report, Box<Failure>> {
    let mut report = Report::default();
    for at in 0..options.inputs {
        let input = input(target, options.seed, options.first + at);
        match judge(target, &input) {
            Ok(held) => {
                let percent = held * 100 / target.memory_max(input.len());
                report.inputs += 1;
                report.bytes += input.len() as u64;
                report.memory = report.memory.max(held);
                report.memory_percent = report.memory_percent.max(percent);
            }
            Err(why) => return Err(failure(target, options, at, input, why)),
        }
        done.store(at + 1, Ordering::Relaxed);
    }
    Ok(report)
}

fn failure(
    target: &Target,
    options: Options,
    at: u64,
    input: Vec<u8>,
    why: String,
) -> Box<Failure> {
    let (seed, index) = (options.seed, options.first + at);
    Box::new(Failure { target: target.name, seed, index, input, why })
}
