//! The command line of a simulation: runs seeds and plans, and shows what happened. `sim` is one
//! such command, and whoever tests a machine of their own has another with a line of code.
//!
//! A run that fails prints who objected, one line that replays it, and where its plan is. The trace
//! goes to stdout, all else to stderr. What it does is a function of its arguments, but that it
//! never writes over a plan that is there: see `kept.rs`.

#![allow(clippy::print_stderr, reason = "a command talks to its terminal")]

mod arguments;
mod kept;

use crate::marks::{self, Marks};
use crate::plan::Plan;
use crate::run::{How, Outcome};
use crate::shrink::shrink;
use arguments::{Arguments, Source};
use clap::Parser;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::process::ExitCode;

/// Does what the arguments of this process say with runs of a world. `target` is what `cargo run`
/// needs to know to start this command again, such as `-p my-machine --example under_faults`.
pub fn command(target: &str, run: impl Fn(&Plan, &How) -> Outcome) -> ExitCode {
    let arguments = Arguments::parse();
    match arguments.source(target) {
        Err(why) => {
            say(why);
            ExitCode::from(2)
        }
        Ok(Source::Rules(rules)) => {
            print(&rules);
            ExitCode::SUCCESS
        }
        Ok(Source::Cases(cases, _)) if arguments.plan => {
            cases.take_while(|case| print(&[case.plan.to_string()])).for_each(drop);
            ExitCode::SUCCESS
        }
        Ok(Source::Cases(cases, count)) => {
            let sweep = Sweep { how: arguments.how(), arguments, target, run };
            sweep.all(cases, count)
        }
    }
}

/// One plan to run.
struct Case {
    /// As it is given on the command line: a seed or a path.
    what: String,
    plan: Plan,
    /// The text of its file, if it is from one.
    text: Option<String>,
}

/// A line for the reader of stderr, who may be gone.
fn say(line: impl Display) {
    let _ = writeln!(stderr(), "{line}");
}

/// Lines for the reader of stdout. False once that is gone.
fn print(lines: &[String]) -> bool {
    let mut out = stdout().lock();
    let written = lines.iter().try_for_each(|line| writeln!(out, "{}", line.trim_end()));
    written.and_then(|()| out.flush()).is_ok()
}

struct Sweep<'a, R> {
    arguments: Arguments,
    target: &'a str,
    how: How,
    run: R,
}

impl<R: Fn(&Plan, &How) -> Outcome> Sweep<'_, R> {
    fn all(&self, cases: impl Iterator<Item = Case>, count: u64) -> ExitCode {
        let bar = progress(count);
        let (mut all, mut seconds, mut events) = (Marks::default(), 0.0, 0);
        let (mut done, mut failed) = (0, 0);
        for case in cases {
            bar.set_message(case.what.clone());
            let outcome = (self.run)(&case.plan, &self.how);
            bar.inc(1);
            done += 1;
            all.join(&outcome.marks);
            seconds += outcome.ended.0 as f64 / 1e6;
            events += outcome.events;
            print(&outcome.lines);
            if outcome.failure.is_some() {
                failed += 1;
                bar.suspend(|| self.report(&case, &outcome));
                if !self.arguments.keep_going {
                    break;
                }
            }
        }
        bar.finish_and_clear();
        let of = if done == count { String::new() } else { format!(" of {count}") };
        let runs = format!("{done}{of} run{}", if count == 1 { "" } else { "s" });
        say(format!("{runs}, {failed} failed, {seconds:.0} simulated seconds, {events} events"));
        if done < count {
            say("stopped at the first failure; --keep-going goes on");
        }
        for mark in marks::ALL.iter().chain([&marks::UNDECIDED, &marks::MAJORITY_LOST]) {
            say(format!("{:>9}  {mark}", all.count(mark)));
        }
        if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// What failed, how to see it again, and where its plan is; then the same of a smaller plan.
    fn report(&self, case: &Case, outcome: &Outcome) {
        self.failed(case, outcome);
        let steps = case.plan.steps.len();
        let stem = self.stem(case);
        match &case.text {
            Some(_) => say(format!("plan    {}   ({steps} steps)", case.what)),
            None => {
                let text = kept::text(None, outcome, &case.plan);
                say(match kept::keep(&stem, &text) {
                    Ok(path) => format!("plan    {path}   ({steps} steps)"),
                    Err(why) => format!("plan    {why}"),
                });
            }
        }
        if self.arguments.shrink > 0 {
            self.smaller(case, &format!("{stem}.min"));
        }
    }

    fn failed(&self, case: &Case, outcome: &Outcome) {
        let Some(failure) = &outcome.failure else { return };
        let kind = if case.text.is_some() { "plan" } else { "seed" };
        let (what, seconds) = (&case.what, outcome.ended.0 as f64 / 1e6);
        let at = format!("t={seconds:.6}s event={}", outcome.events);
        say(format!("FAILED  {}   {kind}={what} {at}", failure.checker));
        for line in failure.what.lines() {
            say(format!("        {line}"));
        }
        say(format!("replay  {}", self.arguments.again(self.target, what)));
    }

    /// Shrinks a plan, and reports the failure of what is left of it as that of a plan of its own.
    fn smaller(&self, case: &Case, stem: &str) {
        let how = How { lines: 0, ..self.how.clone() };
        let fails = |plan: &Plan| (self.run)(plan, &how).failure.map(|failure| failure.checker);
        let before = case.plan.steps.len();
        let runs = self.arguments.shrink;
        say(format!("shrink  with {runs} runs at most"));
        let plan = shrink(&case.plan, runs, fails);
        let left = plan.steps.len();
        if left == before {
            return say("shrink  nothing could be left out in so many runs");
        }
        let outcome = (self.run)(&plan, &how);
        let text = kept::text(case.text.as_deref(), &outcome, &plan);
        match kept::keep(stem, &text) {
            Ok(path) => {
                let small = Case { what: path.clone(), plan, text: Some(text) };
                self.failed(&small, &outcome);
                let note = if left == 0 { ": it fails without any" } else { "" };
                say(format!("plan    {path}   ({left} of {before} steps{note})"));
            }
            Err(why) => say(format!("plan    {why}")),
        }
    }

    /// How the files of a case are called, without what makes them different from each other.
    fn stem(&self, case: &Case) -> String {
        let stem = match case.text {
            Some(_) => kept::stem_of(&case.what),
            None => case.what.clone(),
        };
        match self.arguments.rule() {
            Some(rule) if !stem.ends_with(&format!(".{rule}")) => format!("{stem}.{rule}"),
            Some(_) | None => stem,
        }
    }
}

fn progress(runs: u64) -> ProgressBar {
    let shown = runs > 1 && stderr().is_terminal();
    let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(runs), target);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seed {msg} {eta} left");
    bar.set_style(style.expect("the template is constant"));
    bar
}
