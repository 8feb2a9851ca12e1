//! The keys of a snapshot as a tree split at '/', counted level by level.
//!
//! A level is named by all that lies before it, so that a sorted map of names is the tree, parents
//! first: a name comes right before what begins with it. Holds the names that are shown, no values.

use super::Place;
use super::cluster::Cluster;
use super::contents::{self, Entry, is_reserved, shown};
use crate::cli::facts::put_bytes;
use crate::cli::metadata::Shape;
use crate::cli::{Outcome, out};
use quorate_base::Offset;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Slashes beyond that divide nothing.
const MOST_LEVELS: usize = 64;

/// What lies at and below a name.
#[derive(Default)]
struct Count {
    level: usize,
    keys: u64,
    bytes: u64,
    /// Whether the name itself is a key that is shown, and its version if known.
    key: Option<Option<Offset>>,
}

/// Keys by their levels.
#[derive(Default)]
pub(in crate::cli) struct KeyTree {
    names: BTreeMap<Vec<u8>, Count>,
    all: Count,
    reserved: Count,
    keyless: Count,
}

impl Count {
    fn add(&mut self, bytes: u64) {
        self.keys += 1;
        self.bytes += bytes;
    }
}

impl KeyTree {
    /// Counts a key; levels below `depth` are not told apart.
    pub(in crate::cli) fn add(&mut self, entry: &Entry<'_>, depth: usize) {
        let bytes = entry.bytes();
        let Some(key) = entry.key else { return self.keyless.add(bytes) };
        if is_reserved(key) {
            return self.reserved.add(bytes);
        }
        self.all.add(bytes);
        let mut end = 0;
        let parts = key.splitn(MOST_LEVELS, |byte| *byte == b'/');
        for (level, part) in parts.take(depth).enumerate() {
            end = key.len().min(end + part.len() + 1);
            // Of a key that ends in a slash the last part is empty: it is the level itself.
            let whole = end == key.len();
            let count = match self.names.get_mut(&key[..end]) {
                Some(count) => count,
                None => self.names.entry(key[..end].to_vec()).or_default(),
            };
            count.level = level;
            count.add(bytes);
            if whole {
                count.key = Some(entry.version);
                return;
            }
        }
    }
}

/// Prints the tree of one snapshot.
pub(super) fn tree(place: &Place, depth: Option<u8>, shape: Shape) -> Outcome {
    let Shape { decoder, json: as_json } = shape;
    let depth = depth.map_or(MOST_LEVELS, usize::from);
    let (mut tree, mut cluster) = (KeyTree::default(), Cluster::new(decoder));
    let facts = contents::read(place, &mut |entry| {
        if !cluster.take(entry) {
            tree.add(entry, depth);
        }
    })?;
    cluster.tell_faults(facts.path());
    match as_json {
        true => out::json(&facts.json()),
        false => out::line(&facts.text()),
    }
    if cluster.any() {
        if !as_json {
            out::line("");
        }
        cluster.tree(depth, as_json);
        if tree.is_empty() {
            return Ok(());
        }
    }
    tree.show(as_json);
    Ok(())
}

impl KeyTree {
    fn is_empty(&self) -> bool {
        [&self.all, &self.reserved, &self.keyless].iter().all(|count| count.keys == 0)
    }

    /// Prints it.
    pub(in crate::cli) fn show(&self, as_json: bool) {
        let tree = self;
        if as_json {
            tree.names.iter().for_each(|(name, count)| out::json(&object(name, count)));
            for (kind, count) in
                [("keys", &tree.all), ("reserved", &tree.reserved), ("keyless", &tree.keyless)]
            {
                out::json(&json!({ "type": kind, "count": count.keys, "bytes": count.bytes }));
            }
            return;
        }
        let mut rows: Vec<Vec<String>> =
            tree.names.iter().map(|(name, count)| row(name, count)).collect();
        let extra = [
            ("(all keys)", &tree.all),
            ("(reserved: sessions and the like)", &tree.reserved),
            ("(records without a key)", &tree.keyless),
        ];
        for (name, count) in extra {
            if count.keys > 0 {
                rows.push(vec![
                    count.keys.to_string(),
                    count.bytes.to_string(),
                    "".into(),
                    name.into(),
                ]);
            }
        }
        if !rows.is_empty() {
            out::line("");
            out::line(&out::table(&["KEYS", "BYTES", "VERSION", "KEY"], &rows));
        }
    }
}

fn row(name: &[u8], count: &Count) -> Vec<String> {
    let version = match count.key {
        Some(Some(version)) => version.to_string(),
        Some(None) => "?".to_owned(),
        None => String::new(),
    };
    let indent = "  ".repeat(count.level);
    let own = format!("{indent}{}", shown(last_part(name)));
    vec![count.keys.to_string(), count.bytes.to_string(), version, own]
}

/// The part of a name that its parent does not have.
fn last_part(name: &[u8]) -> &[u8] {
    let inner = name.strip_suffix(b"/").unwrap_or(name);
    let from = inner.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    &name[from..]
}

fn object(name: &[u8], count: &Count) -> Value {
    let mut object = Map::new();
    let kind = if count.key.is_some() { "key" } else { "level" };
    object.insert("type".into(), kind.into());
    put_bytes(&mut object, kind, Some(name));
    if let Some(version) = count.key {
        object.insert("version".into(), version.map(|version| version.0).into());
    }
    object.insert("depth".into(), (count.level + 1).into());
    object.insert("keys".into(), count.keys.into());
    object.insert("bytes".into(), count.bytes.into());
    Value::Object(object)
}
