//! How two snapshots differ, key by key.
//!
//! Holds the keys of both with versions and hashes, no values. Records without a key are compared
//! whole; what Kafka's metadata records say together is compared in `cluster.rs`. Reserved keys
//! change all the time, with every renewal of a session: they are only counted.

use super::Place;
use super::cluster::{self, Cluster};
use super::contents::{self, Entry, Facts, is_reserved, shown};
use crate::cli::facts::put_bytes;
use crate::cli::metadata::{Decoder, Shape};
use crate::cli::{Outcome, failed, out};
use quorate_base::Offset;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What is compared of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    version: Option<Offset>,
    /// Of the value; 64 bits of a hash, so that values need not fit into memory.
    hash: u64,
    /// How many records without a key are the same in all.
    times: u64,
}

/// Key, or the whole record if it has none.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Key(Vec<u8>),
    Keyless(Vec<u8>),
}

enum Change {
    Added(Seen),
    Removed(Seen),
    Changed(Seen, Seen),
}

/// How many differ, and how many do not.
#[derive(Default)]
pub(super) struct Count {
    pub(super) added: u64,
    pub(super) removed: u64,
    pub(super) changed: u64,
    pub(super) same: u64,
}

type Snapshot = BTreeMap<Name, Seen>;

/// Prints what the second has that the first has not, and the other way round.
pub(super) fn diff(older: &Place, newer: &Place, shape: Shape) -> Outcome {
    let Shape { decoder, json: as_json } = shape;
    let (older_facts, mut rest, older_cluster) = read(older, decoder)?;
    let (newer_facts, now, newer_cluster) = read(newer, decoder)?;
    let is_cluster = older_cluster.any() || newer_cluster.any();
    let has_keys = !is_cluster || !rest.is_empty() || !now.is_empty();
    let mut changes: BTreeMap<Name, Change> = BTreeMap::new();
    let (mut keys, mut reserved) = (Count::default(), Count::default());
    for (name, seen) in now {
        let before = rest.remove(&name);
        let count = if name.is_reserved() { &mut reserved } else { &mut keys };
        let change = match before {
            Some(before) if before == seen => {
                count.same += 1;
                continue;
            }
            None => Change::Added(seen),
            Some(before) => Change::Changed(before, seen),
        };
        count.add(&change);
        if !name.is_reserved() {
            changes.insert(name, change);
        }
    }
    for (name, seen) in rest {
        let change = Change::Removed(seen);
        match name.is_reserved() {
            true => reserved.add(&change),
            false => {
                keys.add(&change);
                changes.insert(name, change);
            }
        }
    }
    older_cluster.tell_faults(older_facts.path());
    newer_cluster.tell_faults(newer_facts.path());
    begin(&[older_facts, newer_facts], as_json);
    let facts = is_cluster.then(|| {
        let (older, newer) = (older_cluster.image(), newer_cluster.image());
        cluster::diff(older, newer, as_json)
    });
    show(&changes, as_json);
    if as_json {
        let mut summary = json!({ "type": "summary" });
        if has_keys {
            summary["keys"] = keys.json();
            summary["reserved"] = reserved.json();
        }
        if let Some(facts) = facts {
            summary["facts"] = facts.json();
        }
        out::json(&summary);
        return Ok(());
    }
    if let Some(facts) = facts {
        out::line(&format!("facts: {facts}"));
    }
    if has_keys {
        out::line(&format!("keys: {keys}"));
    }
    if reserved.any() {
        out::line(&format!("reserved keys: {reserved}"));
    }
    Ok(())
}

fn read(place: &Place, decoder: Decoder) -> Outcome<(Facts, Snapshot, Cluster)> {
    let mut all = Snapshot::new();
    let mut cluster = Cluster::new(decoder);
    let mut twice = None;
    let facts = contents::read(place, &mut |entry| {
        if cluster.take(entry) {
            return;
        }
        let name = Name::of(entry);
        let mut hasher = DefaultHasher::new();
        entry.value.hash(&mut hasher);
        let seen = Seen { version: entry.version, hash: hasher.finish(), times: 1 };
        match all.get_mut(&name) {
            None => drop(all.insert(name, seen)),
            Some(before) if matches!(name, Name::Keyless(_)) => before.times += 1,
            Some(_) => twice = Some(name),
        }
    })?;
    match twice {
        None => Ok((facts, all, cluster)),
        Some(name) => failed(format!(
            "{} has the key {} twice, so it is no state and no node loads it. Keep the file; quorate snapshot dump shows both records",
            place.path().display(),
            name.text()
        )),
    }
}

fn begin(facts: &[Facts; 2], as_json: bool) {
    let [older, newer] = facts;
    match as_json {
        true => facts.iter().for_each(|facts| out::json(&facts.json())),
        false => out::line(&format!("--- {}\n+++ {}", older.path(), newer.path())),
    }
}

fn show(changes: &BTreeMap<Name, Change>, as_json: bool) {
    for (name, change) in changes {
        match as_json {
            true => out::json(&object(name, change)),
            false => out::line(&line(name, change)),
        }
    }
}

impl Name {
    fn of(entry: &Entry<'_>) -> Name {
        match entry.key {
            Some(key) => Name::Key(key.to_vec()),
            None => Name::Keyless(entry.value.to_vec()),
        }
    }

    fn is_reserved(&self) -> bool {
        match self {
            Name::Key(key) => is_reserved(key),
            Name::Keyless(_) => false,
        }
    }

    fn text(&self) -> String {
        match self {
            Name::Key(key) => shown(key),
            Name::Keyless(value) => {
                let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("(no key) 0x{hex}")
            }
        }
    }
}

impl Count {
    fn add(&mut self, change: &Change) {
        match change {
            Change::Added(_) => self.added += 1,
            Change::Removed(_) => self.removed += 1,
            Change::Changed(..) => self.changed += 1,
        }
    }

    fn json(&self) -> Value {
        let Count { added, removed, changed, same } = self;
        json!({ "added": added, "removed": removed, "changed": changed, "same": same })
    }

    fn any(&self) -> bool {
        self.added + self.removed + self.changed + self.same > 0
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Count { added, removed, changed, same } = self;
        write!(f, "{added} added, {removed} removed, {changed} changed, {same} the same")
    }
}

fn line(name: &Name, change: &Change) -> String {
    let at = |seen: &Seen| match (name, seen.version) {
        (Name::Key(_), Some(version)) => format!("version {version}"),
        (Name::Key(_), None) => "version unknown".to_owned(),
        (Name::Keyless(_), _) => format!("{} times", seen.times),
    };
    let name = name.text();
    match change {
        Change::Added(seen) => format!("+ {name}  ({})", at(seen)),
        Change::Removed(seen) => format!("- {name}  ({})", at(seen)),
        // One offset, one record: either not of the same log, or one of the two is wrong.
        Change::Changed(before, seen)
            if before.version == seen.version && before.version.is_some() =>
        {
            format!("~ {name}  ({} in both, with different values)", at(seen))
        }
        Change::Changed(before, seen) => format!("~ {name}  ({} -> {})", at(before), at(seen)),
    }
}

fn object(name: &Name, change: &Change) -> Value {
    let (kind, before, after) = match change {
        Change::Added(after) => ("added", None, Some(after)),
        Change::Removed(before) => ("removed", Some(before), None),
        Change::Changed(before, after) => ("changed", Some(before), Some(after)),
    };
    let mut object = Map::new();
    object.insert("type".into(), kind.into());
    let mut put = |field: &str, of: &dyn Fn(&Seen) -> Value| {
        for (which, seen) in [("old", before), ("new", after)] {
            object.insert(format!("{which}{field}"), seen.map_or(Value::Null, of));
        }
    };
    match name {
        Name::Key(key) => {
            put("Version", &|seen| seen.version.map(|version| version.0).into());
            put_bytes(&mut object, "key", Some(key));
        }
        Name::Keyless(value) => {
            put("Times", &|seen| seen.times.into());
            put_bytes(&mut object, "value", Some(value));
        }
    }
    Value::Object(object)
}
