//! What a clone needs to build the same everywhere: a pinned toolchain, one oldest version, a
//! licence, lints that every crate takes over.

use crate::{Finding, Tree};

/// Keys that every crate takes from the workspace, as lines of its `Cargo.toml`.
const INHERITED: [&str; 5] = [
    "version.workspace = true",
    "edition.workspace = true",
    "rust-version.workspace = true",
    "license.workspace = true",
    "publish.workspace = true",
];

/// Missing files and crates that go their own way.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, needle, why) in [
        ("rust-toolchain.toml", "channel = \"", "pins the compiler"),
        ("Cargo.toml", "rust-version = \"", "states the oldest compiler"),
        ("Cargo.toml", "license = \"Apache-2.0\"", "states the licence"),
        ("Cargo.toml", "unsafe_code = \"forbid\"", "forbids unsafe code"),
        ("Cargo.toml", "missing_docs = \"warn\"", "asks for documentation of what is public"),
    ] {
        let has = tree.get(path).is_some_and(|file| file.text.contains(needle));
        if !has {
            findings.push(Finding::about(path, format!("has no `{needle}`, which {why}")));
        }
    }
    for path in ["LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "Cargo.lock"] {
        if !tree.paths.iter().any(|found| found == path) {
            findings.push(Finding::about(path, "is missing"));
        }
    }
    findings.extend(crates(tree));
    findings
}

fn crates(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        if !file.path.ends_with("/Cargo.toml") {
            continue;
        }
        for line in INHERITED.iter().filter(|line| !file.text.lines().any(|l| l == **line)) {
            findings.push(Finding::about(&file.path, format!("has no `{line}`")));
        }
        if !file.text.contains("[lints]\nworkspace = true") {
            findings.push(Finding::about(&file.path, "does not take over the workspace's lints"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_repository_lacks_everything() {
        let missing: Vec<String> = check(&Tree::default()).into_iter().map(|f| f.path).collect();
        for path in ["rust-toolchain.toml", "Cargo.toml", "LICENSE", "README.md", "Cargo.lock"] {
            assert!(missing.iter().any(|found| found == path), "{path}");
        }
    }

    #[test]
    fn a_crate_with_its_own_lints_or_version_is_found() {
        let good = format!("[package]\n{}\n\n[lints]\nworkspace = true\n", INHERITED.join("\n"));
        let findings =
            |manifest: &str| crates(&Tree::of(&[("crates/a/Cargo.toml", manifest)])).len();
        assert_eq!(findings(&good), 0);
        assert_eq!(findings(&good.replace("[lints]\nworkspace = true\n", "")), 1);
        assert_eq!(findings(&good.replace(INHERITED[2], "rust-version = \"1.2\"")), 1);
    }
}
