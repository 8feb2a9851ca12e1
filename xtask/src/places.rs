//! No text of the repository names a place on somebody's machine: what is written here must be true
//! in every clone.

use crate::{Finding, Tree};

/// Beginnings of paths that exist on one machine only.
const PLACES: [&str; 6] = ["/home/", "/root/", "/work/", "/Users/", "/mnt/", "C:\\"];
/// Characters before which a place is a part of a longer path or address, as in `docs/work/`.
const JOINS: [char; 4] = ['.', '_', '-', '}'];

/// Absolute paths of machines.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    // This file has to name them.
    for file in tree.files.iter().filter(|file| file.path != "xtask/src/places.rs") {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(place) = PLACES.iter().find(|place| names(line, place)) {
                let what = format!("names a place on one machine, {place}…");
                findings.push(Finding::at(file, index + 1, what));
            }
        }
    }
    findings
}

fn names(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !JOINS.contains(&c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> usize {
        check(&Tree::of(&[("docs/A.md", text)])).len()
    }

    #[test]
    fn places_on_one_machine_are_found() {
        for place in PLACES {
            assert_eq!(findings(&format!("Run `{place}me/quorate`.")), 1, "{place}");
        }
    }

    #[test]
    fn paths_of_the_repository_and_addresses_are_fine() {
        assert_eq!(findings("See docs/work/a.md, ./work/b and https://a.example/home/"), 0);
    }
}
