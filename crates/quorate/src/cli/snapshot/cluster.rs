//! The state of a Kafka cluster in a snapshot: as a tree, and how two differ.
//!
//! States are walked fact by fact and never held as text, so that a million partitions are shown
//! as they are read. Secrets are not shown here; the dump of a snapshot shows every byte of it.

use super::contents::Entry;
use super::diff::Count;
use crate::cli::cluster_tree::{self, shown_part, shown_value};
use crate::cli::metadata::Decoder;
use crate::cli::out;
use bytes::Bytes;
use quorate::cluster_facts::{path, value};
use quorate_machine::kafka::{Fault, Leaf, Loader, MetadataImage};
use serde_json::{Value, json};
use std::cmp::Ordering;

/// So many faults are told one by one.
const TOLD: usize = 10;

/// The state that is being read.
pub(super) struct Cluster {
    decoder: Decoder,
    loader: Loader,
    records: u64,
    /// The first of them: the record's number, counted from 0, and what was wrong.
    faults: Vec<(u64, Fault)>,
    left_out: u64,
}

impl Cluster {
    /// Nothing read yet.
    pub(super) fn new(decoder: Decoder) -> Cluster {
        let loader = Loader::default();
        Cluster { decoder, loader, records: 0, faults: Vec::new(), left_out: 0 }
    }

    /// Takes a record, if it is one of Kafka's metadata records.
    pub(super) fn take(&mut self, entry: &Entry<'_>) -> bool {
        if !self.decoder.takes(entry.key, Some(entry.value)) {
            return false;
        }
        let value = Bytes::copy_from_slice(entry.value);
        if let Err(fault) = self.loader.apply_value(Some(value)) {
            self.left_out += 1;
            if self.faults.len() < TOLD {
                self.faults.push((self.records, fault));
            }
        }
        self.records += 1;
        true
    }

    /// Whether there was any of Kafka's metadata records.
    pub(super) fn any(&self) -> bool {
        self.records > 0
    }

    /// The state.
    pub(super) fn image(&self) -> &MetadataImage {
        self.loader.image()
    }

    /// Says which records are not part of the state.
    pub(super) fn tell_faults(&self, path: &str) {
        for (number, fault) in &self.faults {
            out::warning(&format!("{path}: metadata record {number} is left out: {fault}"));
        }
        if self.left_out > self.faults.len() as u64 {
            out::warning(&format!(
                "{path}: {} metadata records are left out in all",
                self.left_out
            ));
        }
    }

    /// Prints the state as a tree; levels below `depth` are only counted.
    pub(super) fn tree(&self, depth: usize, as_json: bool) {
        let facts = cluster_tree::show(self.image(), depth, as_json);
        if as_json {
            let (records, left_out) = (self.records, self.left_out);
            let open = self.loader.in_transaction();
            out::json(&json!({ "type": "metadata", "facts": facts, "records": records,
                "leftOut": left_out, "inTransaction": open }));
        }
    }
}

/// Prints each fact that differs, in the order of paths.
pub(super) fn diff(older: &MetadataImage, newer: &MetadataImage, as_json: bool) -> Count {
    let mut counts = Count::default();
    let (mut before, mut after) = (older.leaves().peekable(), newer.leaves().peekable());
    loop {
        let order = match (before.peek(), after.peek()) {
            (None, None) => return counts,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(before), Some(after)) => before.path.cmp(&after.path),
        };
        let old = if order.is_le() { before.next() } else { None };
        let new = if order.is_ge() { after.next() } else { None };
        let kind = match (&old, &new) {
            (Some(old), Some(new)) if old.value == new.value => {
                counts.same += 1;
                continue;
            }
            (Some(_), Some(_)) => "changed",
            (Some(_), None) => "removed",
            (None, Some(_) | None) => "added",
        };
        match kind {
            "changed" => counts.changed += 1,
            "removed" => counts.removed += 1,
            _ => counts.added += 1,
        }
        show(kind, old.as_ref(), new.as_ref(), as_json);
    }
}

fn show(kind: &str, old: Option<&Leaf>, new: Option<&Leaf>, as_json: bool) {
    let Some(at) = new.or(old) else { return };
    if as_json {
        let of = |leaf: Option<&Leaf>| match leaf {
            Some(leaf) if !leaf.secret => value(leaf),
            Some(_) | None => Value::Null,
        };
        return out::json(&json!({ "type": kind, "path": path(&at.path), "old": of(old),
            "new": of(new), "hidden": at.secret }));
    }
    let name: Vec<String> = at.path.iter().map(shown_part).collect();
    let name = name.join("/");
    match (old, new) {
        (Some(old), Some(new)) => {
            out::line(&format!("~ {name}  {} -> {}", shown_value(old), shown_value(new)));
        }
        (Some(old), None) => out::line(&format!("- {name}  {}", shown_value(old))),
        (None, _) => out::line(&format!("+ {name}  {}", shown_value(at))),
    }
}
