//! Faults that other systems had (docs/TESTING.md): each is tried somewhere, and where it is tried
//! its number is named, so that the table and the tests cannot drift apart. A row without a test
//! says that it is still to come.

use crate::{File, Finding, Tree};

const TESTING: &str = "docs/TESTING.md";
const SECTION: &str = "## Faults that other systems had";
/// How a row begins that no test serves so far.
const TO_COME: &str = "to come:";

/// Rows whose tests are missing or do not name them.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.get(TESTING) else {
        return vec![Finding::about(TESTING, "is missing: it says where each fault is tried")];
    };
    let rows: Vec<_> = rows(page).collect();
    if rows.is_empty() {
        return vec![Finding::at(page, 1, format!("has no rows under \"{SECTION}\""))];
    }
    rows.iter().flat_map(|row| row.findings(tree, page)).collect()
}

/// One row of the table.
struct Row<'a> {
    line: usize,
    numbers: Vec<&'a str>,
    places: &'a str,
}

fn rows(page: &File) -> impl Iterator<Item = Row<'_>> {
    let lines = page.text.lines().enumerate().skip_while(|(_, line)| *line != SECTION);
    lines.filter(|(_, line)| line.starts_with("| T")).map(|(index, line)| {
        let mut cells = line.split(" | ");
        let numbers = cells.next().unwrap_or_default().split(['|', ',', ' ']);
        let numbers = numbers.filter(|word| is_number(word)).collect();
        Row { line: index + 1, numbers, places: cells.last().unwrap_or_default() }
    })
}

/// `T12`
fn is_number(word: &str) -> bool {
    word.strip_prefix('T')
        .is_some_and(|digits| !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit()))
}

impl Row<'_> {
    fn findings(&self, tree: &Tree, page: &File) -> Vec<Finding> {
        let at = |what: String| Finding::at(page, self.line, what);
        if self.places.starts_with(TO_COME) {
            return Vec::new();
        }
        let mut findings = Vec::new();
        let mut texts = Vec::new();
        for name in self.places.split('`').skip(1).step_by(2) {
            match text(tree, name) {
                Some(file) if name.ends_with(".txt") => {
                    let silent = self.numbers.iter().filter(|number| !names(&file.text, number));
                    findings
                        .extend(silent.map(|number| at(format!("{name} does not name {number}"))));
                    texts.push(&file.text);
                }
                Some(file) => texts.push(&file.text),
                None if is_path(name) => findings.push(at(format!("there is no {name}"))),
                None if !is_in_code(tree, name) => {
                    findings.push(at(format!("no code under crates/ has the word {name}")));
                }
                None => {}
            }
        }
        for number in &self.numbers {
            if !texts.iter().any(|text| names(text, number)) {
                findings.push(at(format!(
                    "no file of this row names {number}: name it where it is tried, or begin the \
                     last cell with \"{TO_COME}\""
                )));
            }
        }
        findings
    }
}

fn is_path(name: &str) -> bool {
    name.ends_with(".txt") || name.ends_with(".plan") || name.ends_with(".rs")
}

fn text<'a>(tree: &'a Tree, name: &str) -> Option<&'a File> {
    match name.ends_with(".txt") {
        true => tree.get(&format!("crates/raft/tests/scripts/{name}")),
        false => tree.get(name),
    }
}

/// `T17` as a word, or `t17` in the name of a test.
fn names(text: &str, number: &str) -> bool {
    let lower = number.to_lowercase();
    text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == number || word == lower)
}

fn is_in_code(tree: &Tree, word: &str) -> bool {
    let mut sources = tree.files.iter().filter(|file| file.source().is_some());
    sources.any(|file| {
        let mut words = file.text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.any(|found| found == word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: (&str, &str) = ("crates/raft/tests/scripts/a.txt", "# proves b001 T1\n");
    const TEST: (&str, &str) = ("crates/log/tests/b.rs", "/// T2: kept.\nfn t3_is_kept() {}\n");
    const CODE: (&str, &str) = ("crates/raft/src/mutants.rs", "    KeepVote,\n");

    fn findings(row: &str) -> Vec<String> {
        let page = format!("{SECTION}\n\n| | fault | where |\n|---|---|---|\n{row}\n");
        let tree = Tree::of(&[SCRIPT, TEST, CODE, (TESTING, &page)]);
        check(&tree).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn rows_that_hold_are_left_alone() {
        for row in [
            "| T1 | a | `a.txt`; mutant `KeepVote` |",
            "| T2, T3 b-d | a | `crates/log/tests/b.rs` |",
            "| T9 | a | to come: with voter changes |",
        ] {
            assert_eq!(findings(row), Vec::<String>::new(), "{row}");
        }
    }

    #[test]
    fn what_is_not_there_and_what_does_not_name_its_fault_is_found() {
        let missing = findings("| T1 | a | `a.txt`, `c.txt`, `crates/log/tests/d.rs` |");
        assert_eq!(missing, ["there is no c.txt", "there is no crates/log/tests/d.rs"]);
        assert_eq!(findings("| T1 | a | `a.txt`; step `wipe` |").len(), 1);
        let silent = findings("| T1, T4 | a | `a.txt` |");
        assert!(silent[0].contains("a.txt does not name T4"), "{silent:?}");
        let nowhere = findings("| T4 | a | `crates/log/tests/b.rs` |");
        assert!(nowhere[0].contains("no file of this row names T4"), "{nowhere:?}");
        assert!(findings("no row")[0].contains("has no rows"));
    }
}
