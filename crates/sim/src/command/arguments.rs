//! What a simulation is asked on its command line, and what of that makes no sense: asked for
//! something that would do nothing it refuses, and says what would do it.

use super::Case;
use crate::plan::{Plan, parse_seed, parse_span};
use crate::run::How;
use clap::Parser;
use quorate_base::Time;
use std::fs;

/// Runs real replicas in a simulated world, under faults, and checks what must always be true.
///
/// The trace goes to stdout, all else to stderr. docs/TESTING.md tells how to read both.
#[derive(Parser)]
#[command(name = "sim", version)]
pub(super) struct Arguments {
    /// A seed, 1 to 16 hexadecimal digits, or the path of a plan. The first seed of a sweep.
    #[arg(default_value = "0")]
    what: String,
    /// Run so many seeds, one after the other; 1 if not given.
    #[arg(long, value_name = "N", value_parser = parse_seeds, conflicts_with = "plan")]
    seeds: Option<u64>,
    /// Show the newest lines of the trace: `tail=200`, or `all`.
    #[arg(long, value_name = "LINES", value_parser = parse_lines)]
    trace: Option<usize>,
    /// Stop at this second of the world: `12.4`.
    #[arg(long, value_name = "SECONDS", value_parser = parse_until)]
    until: Option<Time>,
    /// Print the plan and do not run it.
    #[arg(long, conflicts_with_all = ["trace", "until", "shrink", "keep_going", "mutant"])]
    pub plan: bool,
    /// Make the plan of a failed run smaller, with so many runs at most; 0 leaves it as it is.
    #[arg(long, value_name = "RUNS", default_value_t = 0, value_parser = parse_runs)]
    pub shrink: usize,
    /// Go on after a failure.
    #[arg(long)]
    pub keep_going: bool,
    /// Let the replicas break this rule; without a rule, list them. Needs a build with
    /// RUSTFLAGS='--cfg mutants'.
    #[arg(long, value_name = "RULE")]
    mutant: Option<Option<String>>,
}

/// What there is to do.
pub(super) enum Source {
    /// To print the rules that can be broken.
    Rules(Vec<String>),
    /// To run or to print plans, so many.
    Cases(Box<dyn Iterator<Item = Case>>, u64),
}

impl Arguments {
    /// What is asked for; or why that makes no sense.
    pub fn source(&self, target: &str) -> Result<Source, String> {
        if let Some(rule) = &self.mutant {
            let known = rules().ok_or_else(|| unbroken(target))?;
            let Some(rule) = rule else { return Ok(Source::Rules(known)) };
            if !known.contains(rule) {
                let near = crate::nearest(rule, known.iter().map(String::as_str));
                let meant = near.map(|near| format!(" (is {near} meant?)")).unwrap_or_default();
                let known = known.join("\n  ");
                return Err(format!("--mutant {rule}: no such rule{meant}; there are:\n  {known}"));
            }
        }
        match parse_seed(&self.what) {
            Some(first) => {
                let count = self.seeds.unwrap_or(1);
                let case = move |at| {
                    let seed = first.wrapping_add(at);
                    Case { what: format!("{seed:x}"), plan: Plan::of_seed(seed), text: None }
                };
                Ok(Source::Cases(Box::new((0..count).map(case)), count))
            }
            None => Ok(Source::Cases(Box::new(std::iter::once(self.file()?)), 1)),
        }
    }

    /// The plan in a file.
    fn file(&self) -> Result<Case, String> {
        let what = &self.what;
        let digits = what.bytes().all(|digit| digit.is_ascii_hexdigit());
        let text = fs::read_to_string(what).map_err(|error| match digits {
            true => format!("{what} has {} digits, and a seed 1 to 16", what.len()),
            false => {
                format!("{what} is no seed (1 to 16 hexadecimal digits), and as a plan: {error}")
            }
        })?;
        let plan = Plan::parse(&text).map_err(|bad| format!("{what}: {bad}"))?;
        if self.seeds.is_some() {
            return Err(format!("{what} is a plan, which is one run: --seeds is for seeds"));
        }
        Ok(Case { what: what.clone(), plan, text: Some(text) })
    }

    pub fn how(&self) -> How {
        How {
            lines: self.trace.unwrap_or(0),
            until: self.until.unwrap_or(Time::NEVER),
            #[cfg(mutants)]
            mutant: quorate_node::Mutant::all()
                .into_iter()
                .find(|mutant| Some(mutant.name().as_str()) == self.rule()),
        }
    }

    /// The rule that is broken.
    pub fn rule(&self) -> Option<&str> {
        self.mutant.as_ref()?.as_deref()
    }

    /// The line that runs this seed or plan again, in a build like this one.
    pub fn again(&self, target: &str, what: &str) -> String {
        let line = format!("cargo run{} {target} -- {} --trace tail=200", profile(), quoted(what));
        match (cfg!(mutants), self.rule()) {
            (false, _) => line,
            (true, None) => format!("{MUTANTS} {line}"),
            (true, Some(rule)) => format!("{MUTANTS} {line} --mutant {rule}"),
        }
    }
}

/// What makes a build in which rules can be broken.
const MUTANTS: &str = "RUSTFLAGS='--cfg mutants'";

fn profile() -> &'static str {
    if cfg!(debug_assertions) { "" } else { " --release" }
}

/// The rules that can be broken; `None` in a build in which none can.
#[cfg(mutants)]
fn rules() -> Option<Vec<String>> {
    Some(quorate_node::Mutant::all().into_iter().map(quorate_node::Mutant::name).collect())
}

#[cfg(not(mutants))]
fn rules() -> Option<Vec<String>> {
    None
}

fn unbroken(target: &str) -> String {
    let line = format!("cargo run{} {target} --target-dir target/mutants", profile());
    format!(
        "--mutant: this build keeps all rules. One that can break them, and lists them:\n  {MUTANTS} {line} -- --mutant"
    )
}

/// A word of a command line as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "._/-+=,:@%".contains(letter);
    match word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

fn parse_seeds(text: &str) -> Result<u64, String> {
    let seeds = text.parse().ok().filter(|seeds| *seeds > 0);
    seeds.ok_or_else(|| "expected how many seeds, such as 2000".to_owned())
}

fn parse_runs(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "expected how many runs, such as 400".to_owned())
}

fn parse_lines(text: &str) -> Result<usize, String> {
    let lines = match text.strip_prefix("tail=") {
        Some(lines) => lines.parse().ok().filter(|lines| *lines > 0),
        None => (text == "all").then_some(usize::MAX),
    };
    lines.ok_or_else(|| "expected `all`, or how many lines, such as `tail=200`".to_owned())
}

fn parse_until(text: &str) -> Result<Time, String> {
    let span = parse_span(text).or_else(|| parse_span(&format!("{text}s")));
    let span = span.ok_or_else(|| "expected seconds, such as 12.4".to_owned())?;
    Ok(Time(span.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_to_paste_is_taken_by_a_shell_as_it_was_meant() {
        for (word, shown) in [
            ("target/sim/c.min.plan", "target/sim/c.min.plan"),
            ("my plans/c.plan", "'my plans/c.plan'"),
            ("it's", r"'it'\''s'"),
        ] {
            assert_eq!(quoted(word), shown);
        }
    }

    #[test]
    fn times_and_counts_of_the_command_line_are_checked() {
        assert_eq!(parse_until("12.4"), Ok(Time(12_400_000)));
        assert_eq!(parse_until("12.4s"), parse_until("12400ms"));
        for bad in ["-1", "", "NaN", "soon", "1e9"] {
            assert!(parse_until(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_seeds("1"), Ok(1));
        assert_eq!(parse_lines("tail=3"), Ok(3));
        assert!(["0", "-1", "abc", ""].into_iter().all(|bad| parse_seeds(bad).is_err()));
        assert!(["tail=", "tail=0", "200", "al"].into_iter().all(|bad| parse_lines(bad).is_err()));
    }
}
