//! The files in which plans of failed runs are kept: under `target/sim` of the current folder.
//!
//! Never writes over a file: a plan may have been edited since it was kept. Another plan of the
//! same name gets a number.

use crate::plan::Plan;
use crate::run::Outcome;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Where the files are, seen from the current folder.
const FOLDER: &str = "target/sim";

/// How the files made of one with this path are called, without what makes them different.
pub(super) fn stem_of(path: &str) -> String {
    let stem = Path::new(path).file_stem().unwrap_or_default().to_string_lossy();
    stem.strip_suffix(".min").unwrap_or(&stem).to_owned()
}

/// What is written of a plan: what is said before all else in the text that it was made from, what
/// failed, and the plan.
pub(super) fn text(before: Option<&str>, outcome: &Outcome, plan: &Plan) -> String {
    let head = before.unwrap_or_default().lines().take_while(|line| line.starts_with('#'));
    let mut lines: Vec<String> = head.map(str::to_owned).collect();
    if let Some(failure) = &outcome.failure {
        let what = failure.what.lines().next().unwrap_or_default();
        let line = format!("# {}: {what}", failure.checker);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.push(plan.to_string());
    lines.join("\n")
}

/// Writes a file that was not there, unless one has this text already; or says why not.
pub(super) fn keep(stem: &str, text: &str) -> Result<String, String> {
    keep_in(Path::new(FOLDER), stem, text)
}

fn keep_in(folder: &Path, stem: &str, text: &str) -> Result<String, String> {
    let cannot = |path: &Path, error| format!("cannot write {}: {error}", path.display());
    fs::create_dir_all(folder).map_err(|error| cannot(folder, error))?;
    let mut number = 1_u64;
    loop {
        let name =
            if number == 1 { format!("{stem}.plan") } else { format!("{stem}.{number}.plan") };
        let path = folder.join(name);
        match File::create_new(&path) {
            Ok(mut file) => {
                file.write_all(text.as_bytes()).map_err(|error| cannot(&path, error))?;
                return Ok(path.display().to_string());
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                if fs::read(&path).is_ok_and(|there| there == text.as_bytes()) {
                    return Ok(path.display().to_string());
                }
                number += 1;
            }
            Err(error) => return Err(cannot(&path, error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::Failure;
    use crate::run::{How, run};

    #[test]
    fn a_file_that_is_there_stays_as_it_is() {
        let folder = std::env::temp_dir().join(format!("quorate-sim-kept-{}", std::process::id()));
        let name = |path: String| path.rsplit('/').next().unwrap().to_owned();
        let keep = |text| name(keep_in(&folder, "c.min", text).unwrap());
        assert_eq!(keep("one"), "c.min.plan");
        assert_eq!(keep("two"), "c.min.2.plan");
        assert_eq!(keep("one"), "c.min.plan");
        assert_eq!(keep("two"), "c.min.2.plan");
        fs::write(folder.join("c.min.plan"), "edited").unwrap();
        assert_eq!(keep("one"), "c.min.3.plan");
        assert_eq!(fs::read(folder.join("c.min.plan")).unwrap(), b"edited");
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(stem_of("some/where/c.min.plan"), "c");
        assert_eq!(stem_of("x.SkipSync.plan"), "x.SkipSync");
    }

    #[test]
    fn what_was_said_of_a_plan_stays_in_front_of_it() {
        let plan = Plan::parse("seed 1").unwrap();
        let mut outcome = run(&plan, &How::until(quorate_base::Time(1)));
        outcome.failure = Some(Failure::new("recovers", "nobody leads\nmore"));
        let first = text(None, &outcome, &plan);
        assert_eq!(first, format!("# recovers: nobody leads\n{plan}"));
        let edited = format!("# mine\n{first}# a remark on a step\n");
        let second = text(Some(&edited), &outcome, &plan);
        assert_eq!(second, format!("# mine\n{first}"));
        assert_eq!(Plan::parse(&second), Ok(plan));
    }
}
