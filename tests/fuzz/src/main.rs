//! `quorate-fuzz`: many inputs into every decoder, with what is needed to replay the one that
//! fails.

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use quorate_fuzz::{CANARY, Failure, Options, TARGETS, Target, check_one, find, run};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Feed damaged and made-up bytes to everything that reads bytes from outside
///
/// Each target is a reader and what must hold of it: no panic, no hang, no more memory than the
/// input's size allows. Equal seeds give equal inputs. Exit code 1 if an input fails; it is kept in
/// a file.
#[derive(Parser)]
struct Args {
    /// A target, the beginning of some targets' names, or `all`
    #[arg(long, default_value = "all")]
    target: String,
    /// How many inputs, over all targets that are run
    #[arg(long, default_value_t = 100_000)]
    inputs: u64,
    /// Gives the inputs; random without it
    #[arg(long)]
    seed: Option<u64>,
    /// Number of the first input of each target
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Judge the input in this file instead; needs the name of one target
    #[arg(long)]
    replay: Option<PathBuf>,
    /// Where an input that fails goes
    #[arg(long, default_value_os_t = std::env::temp_dir().join("quorate-fuzz"))]
    keep: PathBuf,
    /// An input that takes longer than so many seconds hangs
    #[arg(long, default_value_t = 20)]
    patience: u64,
    /// Say which targets there are
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match work(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "quorate-fuzz: {error}");
            ExitCode::from(2)
        }
    }
}

fn work(args: &Args) -> Result<bool, Box<dyn std::error::Error>> {
    let mut out = io::stdout();
    if args.list {
        for target in TARGETS.iter().chain([&CANARY]) {
            writeln!(out, "{:<14} {}", target.name, target.about)?;
        }
        return Ok(true);
    }
    let targets = find(&args.target);
    if targets.is_empty() {
        return Err(format!("no target is called {}; --list shows them", args.target).into());
    }
    if let Some(path) = &args.replay {
        let [target] = &targets[..] else {
            return Err("--replay needs the whole name of one --target; --list shows them".into());
        };
        let input = std::fs::read(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        return match check_one(target, &input) {
            Ok(memory) => {
                writeln!(out, "{}: holds; {memory} bytes of memory", target.name)?;
                Ok(true)
            }
            Err(why) => {
                writeln!(out, "{}: {why}", target.name)?;
                Ok(false)
            }
        };
    }
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let seed = args.seed.unwrap_or(clock as u64 % 1_000_000_000);
    writeln!(out, "seed {seed}")?;
    let options = Options {
        seed,
        first: args.first,
        inputs: args.inputs.div_ceil(targets.len() as u64),
        patience: Duration::from_secs(args.patience),
    };
    for target in targets {
        if let Err(failure) = run_target(target, options, &mut out)? {
            tell(args, &failure, &mut out)?;
            return Ok(false);
        }
    }
    Ok(true)
}

fn run_target(
    target: Target,
    options: Options,
    out: &mut impl Write,
) -> io::Result<Result<(), Box<Failure>>> {
    let style =
        ProgressStyle::with_template("{prefix:14} {bar:40} {pos}/{len} {per_sec}, {eta} left");
    let bar = ProgressBar::new(options.inputs)
        .with_style(style.expect("the template is right"))
        .with_prefix(target.name);
    let started = Instant::now();
    let result = run(target, options, |done| bar.set_position(done));
    bar.finish_and_clear();
    let seconds = started.elapsed().as_secs_f64();
    Ok(match result {
        Ok(report) => {
            writeln!(
                out,
                "{:<14} {} inputs, {:.0} inputs/s, {:.1} MB/s; at most {} KiB of memory for one, {} % of what it may take",
                target.name,
                report.inputs,
                report.inputs as f64 / seconds,
                report.bytes as f64 / seconds / 1e6,
                report.memory.div_ceil(1024),
                report.memory_percent,
            )?;
            Ok(())
        }
        Err(failure) => Err(failure),
    })
}

/// Keeps the input, and says how to see the failure again.
fn tell(args: &Args, failure: &Failure, out: &mut impl Write) -> io::Result<()> {
    std::fs::create_dir_all(&args.keep)?;
    let Failure { target, seed, index, input, .. } = failure;
    let path = args.keep.join(format!("{target}-{seed}-{index}.input"));
    std::fs::write(&path, input)?;
    writeln!(out, "{failure}")?;
    writeln!(
        out,
        "to see it again: cargo run --release -p quorate-fuzz -- --target {target} --replay {}",
        path.display()
    )
}
