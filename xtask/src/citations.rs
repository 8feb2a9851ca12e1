//! Rules of the protocol and the code that keeps them: each rule cited in code is written in
//! docs/PROTOCOL.md, and each rule written there is cited where it is kept.

use crate::{File, Finding, Tree};
use std::collections::BTreeMap;

const PROTOCOL: &str = "docs/PROTOCOL.md";

/// Citations without a rule, and rules that no code cites.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let Some(protocol) = tree.get(PROTOCOL) else {
        return vec![Finding::about(PROTOCOL, "is missing: it numbers the rules that code cites")];
    };
    let rules = rules(protocol);
    let mut findings: Vec<Finding> = Vec::new();
    let mut cited: BTreeMap<u32, bool> = rules.keys().map(|rule| (*rule, false)).collect();
    for file in tree.files.iter().filter(|file| is_in_crates(file)) {
        for (line, rule) in citations(file) {
            match cited.get_mut(&rule) {
                Some(cited) => *cited = true,
                None => {
                    let what = format!("cites [P{rule}], which {PROTOCOL} does not have");
                    findings.push(Finding::at(file, line, what));
                }
            }
        }
    }
    findings.extend(foreign(tree));
    for (rule, _) in cited.into_iter().filter(|(_, cited)| !cited) {
        let what = format!("P{rule} is cited nowhere: cite it where the code keeps it");
        findings.push(Finding::at(protocol, rules[&rule], what));
    }
    findings
}

fn is_in_crates(file: &File) -> bool {
    file.path.starts_with("crates/") && file.is("rs")
}

/// Beginnings of citations of pages that a clone does not hold.
const FOREIGN: [&str; 4] = ["[R", "[architecture ", "raft-rules ", "architecture §"];

/// Citations of pages that a clone does not hold: `[R2.7]`, `[architecture 11]`.
fn foreign(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| is_in_crates(file)) {
        for (index, line) in file.text.lines().enumerate() {
            let numbered = |begin: &str| {
                line.match_indices(begin).any(|(at, _)| {
                    line[at + begin.len()..].starts_with(|c: char| c.is_ascii_digit())
                })
            };
            if let Some(begin) = FOREIGN.iter().find(|begin| numbered(begin)) {
                let what = format!("cites {begin}…, a page that is not in this repository");
                findings.push(Finding::at(file, index + 1, what));
            }
        }
    }
    findings
}

/// Numbers of the rules that PROTOCOL.md states, with their lines: `**P12**` or `**P12.**` opens
/// one.
fn rules(protocol: &File) -> BTreeMap<u32, usize> {
    let mut found = BTreeMap::new();
    for (index, line) in protocol.text.lines().enumerate() {
        let line = line.trim_start_matches(['-', '*', '#', '|', ' ']);
        if let Some(rest) = line.strip_prefix('P') {
            let digits = rest.chars().take_while(char::is_ascii_digit).count();
            let after = rest[digits..].chars().next();
            if let Ok(number) = rest[..digits].parse()
                && matches!(after, Some('*' | '.' | ' ' | ':'))
            {
                found.entry(number).or_insert(index + 1);
            }
        }
    }
    found
}

/// What a file cites: `[P12]`, or several at once as in `[P12, P13]`.
fn citations(file: &File) -> Vec<(usize, u32)> {
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for bracket in line.split('[').skip(1) {
            let Some((inside, _)) = bracket.split_once(']') else { continue };
            let numbers: Option<Vec<u32>> =
                inside.split(',').map(|part| part.trim().strip_prefix('P')?.parse().ok()).collect();
            found.extend(numbers.unwrap_or_default().into_iter().map(|rule| (index + 1, rule)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(protocol: &str, code: &str) -> Vec<String> {
        let tree = Tree::of(&[("crates/raft/src/a.rs", code), (PROTOCOL, protocol)]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_citation_without_a_rule_is_found() {
        let found = findings("**P1** A vote is kept.\n", "// [P1]\n// Why [P1, P2].\n");
        let expected = "crates/raft/src/a.rs:2: cites [P2], which docs/PROTOCOL.md does not have";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn a_rule_that_no_code_cites_is_found() {
        let found = findings("# Rules\n\n**P1** A.\n**P2** B.\n", "// [P1]\n");
        let expected = "docs/PROTOCOL.md:4: P2 is cited nowhere: cite it where the code keeps it";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn a_citation_of_a_page_that_no_clone_holds_is_found() {
        for page in ["[R2.7]", "([R2.6], columns 1 to 3)", "[architecture 7, 11]", "raft-rules 2.5"]
        {
            let found = findings("**P1** A.\n", &format!("// [P1] {page}\n"));
            assert_eq!(found.len(), 1, "{page}");
        }
    }

    #[test]
    fn a_missing_protocol_is_found() {
        assert_eq!(check(&Tree::of(&[("crates/raft/src/a.rs", "// [P1]")])).len(), 1);
    }
}
