//! Plans that once failed: the smallest that did. Each says in its first line what went wrong.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

use quorate_sim::{How, Plan, run};
use std::fs;
use std::path::Path;

#[test]
fn what_failed_once_fails_no_more() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("# "), "{}: the first line says why it is here", path.display());
        let plan = Plan::parse(&text).unwrap_or_else(|bad| panic!("{}: {bad}", path.display()));
        let outcome = run(&plan, &How::default());
        assert_eq!(outcome.failure, None, "{}", path.display());
    }
}
