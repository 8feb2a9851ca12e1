//! Which crate may depend on which: the arrows of docs/ARCHITECTURE.md, and the few crates of
//! others that the pure ones may use.
//!
//! Looks at normal dependencies only; what tests use is free.

use crate::{File, Finding, Tree};

/// What one crate may depend on.
struct Crate {
    name: &'static str,
    ours: &'static [&'static str],
    /// Crates of others; `None`: any, each with its reason in the workspace's `Cargo.toml`.
    others: Option<&'static [&'static str]>,
}

const CRATES: [Crate; 8] = [
    Crate { name: "base", ours: &[], others: Some(&[]) },
    Crate { name: "raft", ours: &["base"], others: Some(&[]) },
    Crate { name: "wire", ours: &["base"], others: Some(&["bytes"]) },
    Crate {
        // The last four are codecs: Kafka may have written compressed batches.
        name: "log",
        ours: &["base", "wire"],
        // Only os_disk.rs may use rustix: it allocates the blocks of the reserve.
        others: Some(&["bytes", "crc32c", "flate2", "lz4_flex", "rustix", "ruzstd", "snap"]),
    },
    Crate { name: "machine", ours: &["base", "wire"], others: Some(&["bytes"]) },
    Crate {
        name: "node",
        ours: &["base", "raft", "wire", "log", "machine"],
        others: Some(&["bytes", "hdrhistogram", "serde", "tokio", "tracing"]),
    },
    Crate {
        name: "sim",
        ours: &["base", "raft", "wire", "log", "machine", "node"],
        // All but bytes and tracing serve the command, bin/.
        others: Some(&["bytes", "clap", "indicatif", "tracing"]),
    },
    Crate {
        name: "quorate",
        ours: &["base", "raft", "wire", "log", "machine", "node"],
        others: None,
    },
];

/// Dependencies against the arrows, and crates that no arrow names.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let manifests = tree.files.iter().filter_map(|file| {
        let name = file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
        (!name.contains('/')).then_some((name, file))
    });
    manifests.flat_map(|(name, file)| check_manifest(name, file)).collect()
}

fn check_manifest(name: &str, file: &File) -> Vec<Finding> {
    let Some(rules) = CRATES.iter().find(|rules| rules.name == name) else {
        let what = format!("no arrow names the crate {name}: add it to xtask/src/arrows.rs");
        return vec![Finding::about(&file.path, what)];
    };
    let mut findings = Vec::new();
    for (line, dependency) in dependencies(&file.text) {
        let ours = dependency.strip_prefix("quorate-");
        let allowed = match (ours, rules.others) {
            (Some(ours), _) => rules.ours.contains(&ours),
            (None, _) if dependency == "quorate" => false,
            (None, Some(others)) => others.contains(&dependency),
            (None, None) => true,
        };
        if !allowed {
            let may: Vec<&str> =
                rules.ours.iter().chain(rules.others.unwrap_or(&["any other"])).copied().collect();
            let what = format!(
                "{name} depends on {dependency}, against the arrows of docs/ARCHITECTURE.md: it may use [{}]",
                may.join(", ")
            );
            findings.push(Finding::at(file, line, what));
        }
    }
    findings
}

/// Names of the normal dependencies of a manifest, with their lines.
fn dependencies(manifest: &str) -> Vec<(usize, &str)> {
    let (mut found, mut inside) = (Vec::new(), false);
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if let Some(section) = line.strip_prefix('[') {
            let section = section.split(']').next().unwrap_or_default();
            // `[dependencies]`, `[target.….dependencies]`, and `[dependencies.name]`.
            let last = section.rsplit('.').next().unwrap_or_default();
            inside = last == "dependencies";
            if let Some((before, name)) = section.rsplit_once('.')
                && before.rsplit('.').next() == Some("dependencies")
            {
                found.push((index + 1, name));
            }
        } else if inside && !line.is_empty() && !line.starts_with('#') {
            let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
            found.push((index + 1, name.trim_matches('"')));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(name: &str, manifest: &str) -> Vec<String> {
        let path = format!("crates/{name}/Cargo.toml");
        let tree = Tree::of(&[(path.as_str(), manifest)]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_arrow_the_wrong_way_is_found() {
        let found = findings("raft", "[dependencies]\nquorate-base = \"1\"\nquorate-log = \"1\"\n");
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/raft/Cargo.toml:3: raft depends on quorate-log"));
    }

    #[test]
    fn every_way_to_write_a_dependency_is_seen() {
        for manifest in [
            "[dependencies]\nrand = \"1\"",
            "[dependencies]\nrand.workspace = true",
            "[dependencies]\n\"rand\"={ workspace = true }",
            "[dependencies.rand]\nversion = \"1\"",
            "[target.'cfg(unix)'.dependencies]\nrand = \"1\"",
            "[target.'cfg(unix)'.dependencies.rand]\nversion = \"1\"",
        ] {
            assert_eq!(findings("wire", manifest).len(), 1, "{manifest}");
        }
    }

    #[test]
    fn tests_may_use_what_they_like() {
        let manifest = "[dev-dependencies]\nkafka-protocol = \"1\"\n[dev-dependencies.rand]\n";
        assert_eq!(findings("wire", manifest), Vec::<String>::new());
    }

    #[test]
    fn a_crate_that_no_arrow_names_is_found() {
        assert_eq!(findings("helpers", "[dependencies]\n").len(), 1);
    }
}
