//! The checker of others: porcupine, with a model of ours in Go, built once and asked as a program.
//!
//! Its verdict is what it prints; nothing here knows what a history means.

use crate::scenario::{Failure, need};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The built program.
pub struct Porcupine {
    program: PathBuf,
}

/// What it says of a history.
#[derive(Debug)]
pub struct Judgement {
    /// Keys without an order.
    pub refused: BTreeSet<u32>,
    pub accepted: u64,
    /// Keys whose search was given up.
    pub undecided: u64,
    pub keys: u64,
    pub calls: u64,
    pub unknown: u64,
    /// All it printed.
    pub printed: String,
}

impl Porcupine {
    /// Builds it below this directory; Go fetches what go.sum names.
    pub fn build(target: &Path) -> Result<Porcupine, Failure> {
        need("go", "version", "Go, 1.19 or later (Debian's package is golang-go)")?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("porcupine");
        let program = target.join("porcupine");
        fs::create_dir_all(target)?;
        let mut go = Command::new("go");
        go.args(["build", "-buildvcs=false", "-o"]).arg(&program).arg(".").current_dir(source);
        let output = go.output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(Failure(format!("Go cannot build tests/interop/porcupine:\n{said}")));
        }
        Ok(Porcupine { program })
    }

    /// Judges a history in JSON lines, which goes into this file.
    pub fn judge(&self, history: &str, file: &Path) -> Result<Judgement, Failure> {
        fs::write(file, history)?;
        let output = Command::new(&self.program).stdin(File::open(file)?).output()?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        let judgement = read(&printed).filter(|judgement| {
            let clean = judgement.refused.is_empty() && judgement.undecided == 0;
            output.status.code() == Some(i32::from(!clean))
        });
        judgement.ok_or_else(|| {
            let file = file.display();
            Failure(format!("porcupine gives no verdict on {file}:\n{printed}{errors}"))
        })
    }
}

/// `None` unless it is whole: the counts must be those of the keys named.
fn read(printed: &str) -> Option<Judgement> {
    let named = |word: &str| -> Option<BTreeSet<u32>> {
        let keys = printed.lines().filter_map(|line| line.strip_prefix(word));
        keys.map(|key| key.trim().parse().ok()).collect()
    };
    let (refused, undecided) = (named("refused ")?, named("undecided ")?);
    let words = printed.lines().last()?.split(|c: char| !c.is_ascii_digit());
    let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
    let [keys, calls, unknown, accepted, count_refused, count_undecided] = numbers[..] else {
        return None;
    };
    let whole = refused.len() as u64 == count_refused
        && undecided.len() as u64 == count_undecided
        && accepted + count_refused + count_undecided == keys;
    let printed = printed.to_owned();
    let undecided = count_undecided;
    whole.then_some(Judgement { refused, accepted, undecided, keys, calls, unknown, printed })
}
