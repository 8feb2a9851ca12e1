//! What a command that changes the voters says of it: lines for people as it goes, or one object
//! for programs at its end, also where it failed.
//!
//! docs/OUTPUT.md promises the object's form; whoever changes it here changes it there.

use super::change::Done;
use super::plan::Step;
use crate::cli::controllers::Quorum;
use crate::cli::{Failure, Outcome, out};
use quorate::Uuid;
use serde_json::{Value, json};

/// Beside a replacement that the leader did not know.
const BY_HALVES: &str =
    " (this leader does not replace disks: the old directory was removed, then the new one added)";

/// What was planned and done so far.
pub(super) struct Report {
    as_json: bool,
    steps: Vec<Value>,
    done: usize,
    voters: Value,
}

impl Report {
    pub(super) fn new(as_json: bool) -> Report {
        Report { as_json, steps: Vec::new(), done: 0, voters: Value::Null }
    }

    /// A plan, with the words for people.
    pub(super) fn planned(&mut self, steps: &[Step], words: &[String]) {
        self.steps = steps.iter().map(step_json).collect();
        if !self.as_json {
            words.iter().for_each(|line| out::line(line));
        }
    }

    /// Nothing has to be changed, and why.
    pub(super) fn nothing_to_do(&self, why: &str) {
        if !self.as_json {
            out::line(&format!("nothing to do: {why}"));
        }
    }

    /// The next step of the plan is done.
    pub(super) fn done(&mut self, step: &Step, done: &Done) {
        let Done { took, by_halves } = done;
        let ms = took.as_millis();
        if let Some(shown) = self.steps.get_mut(self.done) {
            shown["ms"] = json!(ms);
            shown["by_halves"] = json!(by_halves);
        }
        self.done += 1;
        if !self.as_json {
            let how = if *by_halves { BY_HALVES } else { "" };
            out::line(&format!("step {} done in {ms} ms: {step}{how}", self.done));
        }
    }

    /// Who votes, by what was read last.
    pub(super) fn saw(&mut self, quorum: &Quorum) {
        let shown = |id: Uuid| id.known().map(|id| id.to_string());
        let voters = quorum.voters.iter().map(|voter| {
            json!({ "node": voter.replica_id, "directory": shown(voter.replica_directory_id) })
        });
        self.voters = voters.collect();
    }

    /// Prints the object, with what went wrong; that is said to people elsewhere.
    pub(super) fn close(self, outcome: Outcome) -> Outcome {
        let error = why(&outcome);
        let Report { as_json, steps, done, voters } = self;
        if as_json {
            out::json(&json!({ "steps": steps, "done": done, "voters": voters, "error": error }));
        }
        outcome
    }
}

/// Why a command failed, for an object that it prints all the same.
pub(super) fn why(outcome: &Outcome) -> Option<&str> {
    match outcome {
        Ok(()) => None,
        Err(Failure::Failed(why) | Failure::Usage(why)) => Some(why),
    }
}

fn step_json(step: &Step) -> Value {
    let (what, id, directory): (&str, i32, &Uuid) = match step {
        Step::Add { id, directory, .. } => ("add", *id, directory),
        Step::Remove { id, directory } => ("remove", *id, directory),
        Step::Replace { id, directory, .. } => ("replace", *id, directory),
    };
    let mut shown = json!({ "step": what, "node": id, "directory": directory.to_string() });
    if let Step::Replace { old, .. } = step {
        shown["replaces"] = json!(old.to_string());
    }
    shown
}
