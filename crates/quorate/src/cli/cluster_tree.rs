//! The state of a Kafka cluster as an indented tree, or as a JSON object a fact.
//!
//! The state is walked fact by fact and never held as text, so that a million partitions are shown
//! as they are read. Secrets are not shown.

use super::out;
use quorate::cluster_facts;
use quorate_machine::kafka::{Leaf, MetadataImage, Part};

/// Prints the state; levels below `depth` are only counted. How many facts there are.
pub(super) fn show(image: &MetadataImage, depth: usize, as_json: bool) -> u64 {
    let mut tree = Tree { depth, as_json, at: Vec::new(), counted: 0 };
    let mut facts = 0;
    for leaf in image.leaves() {
        facts += 1;
        tree.leaf(&leaf);
    }
    tree.flush();
    facts
}

/// A tree on its way out.
struct Tree {
    depth: usize,
    as_json: bool,
    /// The level that was shown last, or is counted.
    at: Vec<Part>,
    /// Facts at and below `at`, if it is deeper than what is shown.
    counted: u64,
}

impl Tree {
    fn leaf(&mut self, leaf: &Leaf) {
        let (name, parents) = leaf.path.split_last().expect("a fact has a path");
        let shown = parents.len().min(self.depth);
        if self.at != parents[..shown] {
            self.flush();
            let same = self.at.iter().zip(parents).take_while(|(a, b)| a == b).count();
            for level in same..shown {
                // The deepest one that is shown comes with its count, if it hides what it has.
                if !self.as_json && (level + 1 < shown || parents.len() < self.depth) {
                    out::line(&format!("{}{}/", indent(level), shown_part(&parents[level])));
                }
            }
            self.at = parents[..shown].to_vec();
        }
        if parents.len() >= self.depth {
            self.counted += 1;
        } else if self.as_json {
            out::json(&cluster_facts::fact(leaf));
        } else {
            let (indent, name) = (indent(parents.len()), shown_part(name));
            out::line(&format!("{indent}{name}  {}", shown_value(leaf)));
        }
    }

    /// Says how much lies at and below a level that is only counted.
    fn flush(&mut self) {
        let counted = std::mem::take(&mut self.counted);
        let Some(name) = self.at.last().filter(|_| counted > 0) else { return };
        if self.as_json {
            return out::json(&cluster_facts::level(&self.at, counted));
        }
        let facts = if counted == 1 { "fact" } else { "facts" };
        let name = shown_part(name);
        out::line(&format!("{}{name}/  ({counted} {facts})", indent(self.at.len() - 1)));
    }
}

fn indent(level: usize) -> String {
    "  ".repeat(level)
}

/// A step of a path, escaped where it would not stay on its line.
pub(super) fn shown_part(part: &Part) -> String {
    shown(&part.to_string())
}

pub(super) fn shown_value(leaf: &Leaf) -> &str {
    if leaf.secret { "(hidden)" } else { &leaf.value }
}

/// Text for eyes, escaped where it would not stay on its line.
fn shown(text: &str) -> String {
    match text.chars().any(char::is_control) {
        true => text.as_bytes().escape_ascii().to_string(),
        false => text.to_owned(),
    }
}
