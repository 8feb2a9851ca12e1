//! Which behaviour of the quorum is proved where: every one of the fixed list below is claimed by a
//! script (`# proves b012 ...` in its first lines) or by a test named for it (`..._b012`), or is
//! said not to be the core's.
//!
//! The ids are those of the project's list of behaviours: 1-16 start-up, 18-34 state machine, 35-46
//! states, 48-55 voter sets, 56-81 elections, 82-96 begin and end of epochs, 98-122 fetch and
//! replication, 123-134 leader and high watermark, 166-182 changes of the voters. Others may be
//! claimed and need not be.
#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]
#![allow(clippy::disallowed_methods, reason = "scripts are files")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Ids that the list left out on purpose.
const LEFT_OUT: [u32; 15] = [7, 17, 27, 37, 47, 57, 67, 77, 87, 97, 107, 117, 127, 167, 177];

const FILES: &str = "a file's bytes: crate log";
const WIRE: &str = "a message's or property's text or bytes: crates wire, node and quorate";

/// Behaviours that no test of this crate can show, and why.
const NOT_HERE: [(u32, &str); 14] = [
    (15, FILES),
    (16, FILES),
    (36, FILES),
    (43, FILES),
    (44, WIRE),
    (45, WIRE),
    (46, WIRE),
    (51, WIRE),
    (52, "sets differ by one voter as they are made; laws.rs checks it after every step of walks"),
    (63, "cluster ids are compared where messages are translated: crate node"),
    (111, "checksums are checked before marks reach the core: crate node"),
    (118, FILES),
    (180, "gauges: there are no metrics yet"),
    (122, "batches are cut where bytes are: crates log and node"),
];

fn expected() -> BTreeSet<u32> {
    (1..=134).chain(166..=182).filter(|id| !LEFT_OUT.contains(id)).collect()
}

/// Each claimed id with who claims it.
fn claims() -> BTreeMap<u32, Vec<String>> {
    claims_of(Path::new(env!("CARGO_MANIFEST_DIR")))
}

/// Those of one crate.
fn claims_of(root: &Path) -> BTreeMap<u32, Vec<String>> {
    let mut claims: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    let mut folders = vec![root.join("src"), root.join("tests")];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            // Fixtures of other crates are no text.
            let bytes = std::fs::read(&path).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let ids = match path.extension().and_then(|extension| extension.to_str()) {
                Some("txt") => of_script(&text),
                Some("rs") => of_tests(&text),
                Some(_) | None => Vec::new(),
            };
            for id in ids {
                claims.entry(id).or_default().push(name.clone());
            }
        }
    }
    claims
}

fn of_script(text: &str) -> Vec<u32> {
    let heading = text.lines().take_while(|line| line.starts_with('#'));
    let proofs = heading.filter_map(|line| line.strip_prefix("# proves "));
    proofs.flat_map(str::split_whitespace).filter_map(id).collect()
}

fn of_tests(text: &str) -> Vec<u32> {
    let names = text.lines().filter_map(|line| line.trim_start().strip_prefix("fn "));
    let names = names.filter_map(|line| line.split('(').next());
    names.flat_map(|name| name.split('_')).filter_map(id).collect()
}

/// `b012`
fn id(word: &str) -> Option<u32> {
    word.strip_prefix('b').filter(|digits| digits.len() == 3)?.parse().ok()
}

#[test]
fn every_behaviour_of_the_core_is_claimed_by_a_script_or_a_test() {
    let claims = claims();
    let elsewhere: BTreeSet<u32> = NOT_HERE.iter().map(|(id, _)| *id).collect();
    let missing: Vec<_> = expected()
        .into_iter()
        .filter(|id| !claims.contains_key(id) && !elsewhere.contains(id))
        .collect();
    assert!(missing.is_empty(), "claimed by no script and no test: {missing:?}");
    let both: Vec<_> = claims.keys().filter(|id| elsewhere.contains(id)).collect();
    assert!(both.is_empty(), "claimed, and said to be proved elsewhere: {both:?}");
    let unknown: Vec<_> =
        claims.iter().filter(|(id, _)| **id < 135 && !expected().contains(id)).collect();
    assert!(unknown.is_empty(), "there is no such behaviour: {unknown:?}");
}

#[test]
fn what_the_core_cannot_show_of_elections_and_replication_is_shown_where_bytes_are() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let claims = ["log", "node"].map(|name| claims_of(&crates.join(name)));
    let elsewhere = NOT_HERE.iter().map(|(id, _)| *id).filter(|id| (56..=122).contains(id));
    let missing: Vec<u32> =
        elsewhere.filter(|id| claims.iter().all(|claims| !claims.contains_key(id))).collect();
    assert!(missing.is_empty(), "no test of log or node is named for them: {missing:?}");
}

#[test]
fn every_script_says_why_it_exists_and_what_it_proves() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let mut heading = text.lines().take_while(|line| line.starts_with("# "));
        assert!(
            heading.next().is_some_and(|line| !line.starts_with("# proves")),
            "{}",
            path.display()
        );
        assert!(
            heading.any(|line| line.starts_with("# proves ")),
            "{} proves nothing",
            path.display()
        );
        assert!(text.lines().count() <= 95, "{} is too long: split it", path.display());
        let widest = text.lines().filter(|line| line.starts_with('#')).map(str::len).max();
        assert!(widest <= Some(115), "{} is too wide", path.display());
    }
}

/// Else a comment that cites it would speak of two things.
#[test]
fn no_rule_has_the_number_of_another() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/PROTOCOL.md");
    let text = std::fs::read_to_string(page).unwrap();
    let rules = text.lines().filter_map(|line| line.strip_prefix("* **P")?.split_once("**"));
    let mut seen = BTreeSet::new();
    for (number, _) in rules {
        assert!(seen.insert(number.to_owned()), "P{number} is given twice in docs/PROTOCOL.md");
    }
    assert!(seen.len() > 70, "the rules of docs/PROTOCOL.md: {seen:?}");
}
