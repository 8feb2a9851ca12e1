//! The rules of this repository that no compiler checks, as functions over its text.
//!
//! Each rule lives in a file of its own, takes files as values and returns [`Finding`]s, so that
//! its tests can feed it a bad file. `tests/tidy.rs` runs [`tidy`] on the real tree as a part of
//! `cargo test --workspace`; `cargo xtask tidy` prints the same. Rules never change a file;
//! `cargo xtask wrap` does.

pub mod arrows;
pub mod citations;
pub mod faults;
pub mod links;
pub mod places;
pub mod project;
pub mod purity;
pub mod shape;
pub mod source;
pub mod tree;
pub mod wrap;

use std::fmt;
pub use tree::{File, Tree};

/// One place that breaks a rule.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Finding {
    /// Path of the file, relative to the root of the repository.
    pub path: String,
    /// Line, from 1; 0 when it is about the whole file.
    pub line: usize,
    /// What is there, and the rule that it breaks.
    pub what: String,
}

impl Finding {
    /// A finding about one line of `file`.
    pub fn at(file: &File, line: usize, what: impl Into<String>) -> Finding {
        Finding { path: file.path.clone(), line, what: what.into() }
    }

    /// A finding about all of a file, or about its absence.
    pub fn about(path: &str, what: impl Into<String>) -> Finding {
        Finding { path: path.into(), line: 0, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

/// A rule: everything in the tree that breaks it.
pub type Rule = fn(&Tree) -> Vec<Finding>;

/// All rules, by name.
pub const RULES: [(&str, Rule); 8] = [
    ("arrows", arrows::check),
    ("purity", purity::check),
    ("shape", shape::check),
    ("citations", citations::check),
    ("faults", faults::check),
    ("links", links::check),
    ("places", places::check),
    ("project", project::check),
];

/// Everything in the tree that breaks a rule, in the order of the files.
pub fn tidy(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|(_, check)| check(tree)).collect();
    findings.sort();
    findings
}
