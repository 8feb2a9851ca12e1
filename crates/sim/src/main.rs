//! `sim`: runs seeds and plans of the simulated world, and shows what happened.
//!
//! A run that fails prints who objected, one line that replays it, and where its plan is.
//! Everything it does is a function of its arguments.

#![allow(clippy::print_stderr, reason = "a command talks to its terminal")]

use clap::Parser;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use quorate_base::Time;
use quorate_sim::{How, Marks, Outcome, Plan, marks, parse_seed, run, shrink};
use std::fs;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Where plans of failed runs go.
const PLANS: &str = "target/sim";

/// Runs real replicas in a simulated world, under faults, and checks what must always be true.
#[derive(Parser)]
#[command(name = "sim", version)]
struct Arguments {
    /// A seed in hexadecimal, or the path of a plan. The first seed of a sweep; 0 if none is given.
    what: Option<String>,
    /// Run so many seeds, one after the other.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seeds: u64,
    /// Show the newest lines of the trace: `tail=200`, or `all`.
    #[arg(long, value_name = "LINES", value_parser = parse_lines)]
    trace: Option<usize>,
    /// Stop at this second of the world.
    #[arg(long, value_name = "SECONDS", value_parser = parse_until)]
    until: Option<Time>,
    /// Print the plan and do not run it.
    #[arg(long)]
    plan: bool,
    /// Make the plan of a failed run smaller, with so many runs at most; 0 leaves it as it is.
    #[arg(long, value_name = "RUNS", default_value_t = 0)]
    shrink: usize,
    /// Go on after a failure.
    #[arg(long)]
    keep_going: bool,
    /// Let the replicas break this rule; one that the test of the tests prints.
    #[cfg(mutants)]
    #[arg(long, value_name = "RULE", value_parser = parse_mutant)]
    mutant: Option<quorate_node::Mutant>,
}

impl Arguments {
    fn how(&self) -> How {
        How {
            lines: self.trace.unwrap_or(0),
            until: self.until.unwrap_or(Time::NEVER),
            #[cfg(mutants)]
            mutant: self.mutant,
        }
    }

    /// The line that runs this seed or plan again, in a build like this one.
    fn again(&self, what: &str) -> String {
        let profile = if cfg!(debug_assertions) { "" } else { " --release" };
        let line = format!("cargo run{profile} -p quorate-sim -- {what} --trace tail=200");
        #[cfg(mutants)]
        let line = match self.mutant {
            None => format!("RUSTFLAGS='--cfg mutants' {line}"),
            Some(mutant) => {
                format!("RUSTFLAGS='--cfg mutants' {line} --mutant {}", mutant.name())
            }
        };
        line
    }
}

#[cfg(mutants)]
fn parse_mutant(text: &str) -> Result<quorate_node::Mutant, String> {
    let mut all = quorate_node::Mutant::all().into_iter();
    all.find(|mutant| mutant.name() == text).ok_or_else(|| "is no rule that is broken".to_owned())
}

fn parse_lines(text: &str) -> Result<usize, String> {
    match text.strip_prefix("tail=") {
        Some(lines) => lines.parse().map_err(|_| format!("{lines} is not a number of lines")),
        None if text == "all" => Ok(usize::MAX),
        None => Err("expected tail=LINES or all".to_owned()),
    }
}

fn parse_until(text: &str) -> Result<Time, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected seconds, such as 12.4".to_owned())?;
    Ok(Time((seconds * 1e6) as u64))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let plans = match plans(&arguments) {
        Ok(plans) => plans,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    if arguments.plan {
        plans.iter().for_each(|source| print!("{}", source.plan()));
        return ExitCode::SUCCESS;
    }
    sweep(&arguments, &plans)
}

/// Where a plan comes from. Seeds become plans only when their turn comes.
enum Source {
    Seed(u64),
    File(PathBuf, Box<Plan>),
}

impl Source {
    fn plan(&self) -> Plan {
        match self {
            Source::Seed(seed) => Plan::of_seed(*seed),
            Source::File(_, plan) => Plan::clone(plan),
        }
    }

    fn name(&self) -> String {
        match self {
            Source::Seed(seed) => format!("{seed:x}"),
            Source::File(path, _) => path.display().to_string(),
        }
    }
}

fn plans(arguments: &Arguments) -> Result<Vec<Source>, String> {
    let what = arguments.what.as_deref().unwrap_or("0");
    if let Some(first) = parse_seed(what) {
        return Ok((0..arguments.seeds).map(|at| Source::Seed(first.wrapping_add(at))).collect());
    }
    let path = Path::new(what);
    let text = fs::read_to_string(path).map_err(|error| {
        format!("{what} is no seed (hexadecimal digits), and as the path of a plan: {error}")
    })?;
    let plan = Plan::parse(&text).map_err(|bad| format!("{what}: {bad}"))?;
    Ok(vec![Source::File(path.to_owned(), Box::new(plan))])
}

fn sweep(arguments: &Arguments, plans: &[Source]) -> ExitCode {
    let bar = progress(plans.len() as u64);
    let (mut all, mut seconds, mut events, mut failed) = (Marks::default(), 0.0, 0, 0);
    let how = arguments.how();
    for source in plans {
        bar.set_message(source.name());
        let outcome = run(&source.plan(), &how);
        bar.inc(1);
        all.join(&outcome.marks);
        seconds += outcome.ended.0 as f64 / 1e6;
        events += outcome.events;
        if arguments.trace.is_some() {
            let mut out = stdout().lock();
            for line in &outcome.lines {
                // A reader that has seen enough closes the pipe.
                if writeln!(out, "{line}").is_err() {
                    break;
                }
            }
        }
        if outcome.failure.is_some() {
            failed += 1;
            bar.suspend(|| report(arguments, source, &outcome, &how));
            if !arguments.keep_going {
                break;
            }
        }
    }
    bar.finish_and_clear();
    eprintln!(
        "{} runs, {failed} failed, {seconds:.0} simulated seconds, {events} events",
        plans.len()
    );
    for mark in marks::ALL.iter().chain([&marks::UNDECIDED]) {
        eprintln!("{:>9}  {mark}", all.count(mark));
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn progress(runs: u64) -> ProgressBar {
    let shown = runs > 1 && stderr().is_terminal();
    let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(runs), target);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seed {msg} {eta} left");
    bar.set_style(style.expect("the template is constant"));
    bar
}

/// What failed, how to see it again, and where its plan is.
fn report(arguments: &Arguments, source: &Source, outcome: &Outcome, how: &How) {
    let Some(failure) = &outcome.failure else { return };
    eprintln!(
        "FAILED  {}   seed={} t={:.6}s event={}",
        failure.checker,
        source.name(),
        outcome.ended.0 as f64 / 1e6,
        outcome.events
    );
    eprintln!("        {}", failure.what);
    eprintln!("replay  {}", arguments.again(&source.name()));
    let plan = source.plan();
    let small = match arguments.shrink {
        0 => plan.clone(),
        runs => shrink(&plan, &How { lines: 0, ..how.clone() }, runs),
    };
    let path = Path::new(PLANS).join(format!("{:x}.plan", plan.seed));
    match fs::create_dir_all(PLANS).and_then(|()| fs::write(&path, small.to_string())) {
        Ok(()) => eprintln!(
            "plan    {}   ({} of {} steps)",
            path.display(),
            small.steps.len(),
            plan.steps.len()
        ),
        Err(error) => eprintln!("plan    cannot write {}: {error}", path.display()),
    }
}
