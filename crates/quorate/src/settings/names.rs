//! Which names mean something, and which known name an unknown one was probably meant to be.

use super::table;

/// The settings of Apache Kafka 4.3's brokers and controllers, one a line, sorted.
static KAFKA: &str = include_str!("kafka_keys.txt");

/// Kafka lets these be followed by a name of one's own.
const KAFKA_PREFIXES: [&str; 2] = ["listener.name.", "config.providers."];

/// Whether a Kafka node would know this name.
pub(super) fn is_kafkas(name: &str) -> bool {
    KAFKA.lines().any(|known| known == name)
        || KAFKA_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The known name that is fewest edits away, if that is close enough to be a slip.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    // A name is at least as many edits away as its length differs: no need to count for most.
    let limit = |known: &str| 1 + known.len().min(name.len()) / 5;
    let ours = table::ALL.iter().map(|setting| setting.name);
    ours.chain(KAFKA.lines())
        .filter(|known| known.len().abs_diff(name.len()) <= limit(known))
        .map(|known| (edits(name, known), known))
        .filter(|(edits, known)| *edits <= limit(known))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, known)| known)
}

/// How many characters must be put in, taken out, changed, or swapped with the next.
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1];
        for j in 0..b.len() {
            let change = last[j] + usize::from(a[i] != b[j]);
            let mut best = change.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                let swapped: &Vec<usize> = &before;
                best = best.min(swapped[j - 1] + 1);
            }
            row.push(best);
        }
        before = last;
        last = row;
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_counts_slips() {
        for (a, b, expect) in [
            ("", "", 0),
            ("abc", "", 3),
            ("abc", "abc", 0),
            ("abc", "acb", 1),
            ("ab", "xaby", 2),
            ("node.id", "nodeid", 1),
        ] {
            assert_eq!(edits(a, b), expect, "{a} {b}");
            assert_eq!(edits(b, a), expect, "{b} {a}");
        }
    }

    #[test]
    fn a_slip_finds_its_name_and_nonsense_finds_none() {
        for (slip, expect) in [
            ("node.di", Some("node.id")),
            ("controller.quorum.voter", Some("controller.quorum.voters")),
            ("quorate.http.listener", Some("quorate.http.listen")),
            ("metdata.log.dir", Some("metadata.log.dir")),
            ("colour", None),
            ("quorate.frobnicate.all.things", None),
        ] {
            assert_eq!(nearest(slip), expect, "{slip}");
        }
    }

    #[test]
    fn kafkas_names_are_sorted_and_hold_all_of_ours_that_are_kafkas() {
        assert!(KAFKA.lines().is_sorted());
        for setting in table::ALL {
            assert_eq!(
                is_kafkas(setting.name),
                !setting.name.starts_with("quorate."),
                "{}",
                setting.name
            );
        }
    }
}
