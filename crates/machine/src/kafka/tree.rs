//! A state as a tree: every fact at a path, in the order of paths.
//!
//! For people and for programs that compare two states: both are walked side by side, and nothing
//! of the size of a state is held. Values are JSON with Kafka's names. What is secret in a state is
//! marked, so that who shows it can hide it.

use super::configs::resource_type_name;
use super::image::MetadataImage;
use quorate_wire::record::metadata::MetadataRecord;
use quorate_wire::{fields_json, quoted};
use std::fmt;
use std::sync::Arc;

/// One step of a path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    /// A name.
    Name(Arc<str>),
    /// The number of a node or partition.
    Number(i32),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Name(name) => name.fmt(f),
            Part::Number(number) => number.fmt(f),
        }
    }
}

impl From<&str> for Part {
    fn from(name: &str) -> Part {
        Part::Name(name.into())
    }
}

impl From<&Arc<str>> for Part {
    fn from(name: &Arc<str>) -> Part {
        Part::Name(Arc::clone(name))
    }
}

/// One fact.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leaf {
    /// Where it is. Paths ascend from leaf to leaf, and none is the beginning of another.
    pub path: Vec<Part>,
    /// What it says: JSON.
    pub value: String,
    /// Whether the value must not be shown to everyone.
    pub secret: bool,
}

impl Leaf {
    fn new(path: impl Into<Vec<Part>>, value: String) -> Leaf {
        Leaf { path: path.into(), value, secret: false }
    }
}

/// Keys whose values Kafka calls passwords, and others that hold keys.
pub fn is_secret(key: &str) -> bool {
    let ends = ["password", "jaas.config", "secret", "keystore.key", "credential", "token"];
    ends.iter().any(|end| key.ends_with(end))
}

/// In the order of paths.
fn sorted(leaves: impl Iterator<Item = Leaf>) -> std::vec::IntoIter<Leaf> {
    let mut leaves: Vec<Leaf> = leaves.collect();
    leaves.sort_by(|a, b| a.path.cmp(&b.path));
    leaves.into_iter()
}

/// Which names there are at the top, in the order of paths.
impl MetadataImage {
    /// Every fact, in the order of paths. Of topics nothing is held but the one at hand.
    pub fn leaves(&self) -> impl Iterator<Item = Leaf> {
        self.acl_leaves()
            .chain(self.broker_leaves())
            .chain(sorted(self.config_leaves()))
            .chain(self.controller_leaves())
            .chain(self.feature_leaves())
            .chain(self.producer_id_leaf())
            .chain(sorted(self.quota_leaves()))
            .chain(sorted(self.credential_leaves()))
            .chain(self.token_leaves())
            .chain(self.topic_leaves())
    }

    fn acl_leaves(&self) -> impl Iterator<Item = Leaf> {
        // Ids ascend by their bytes, not by their text.
        sorted(self.acls().iter().map(|(id, acl)| {
            let path = ["acls".into(), id.to_string().as_str().into()];
            Leaf::new(path, fields_json((**acl).clone(), 0))
        }))
    }

    fn broker_leaves(&self) -> impl Iterator<Item = Leaf> {
        self.brokers().iter().map(|(id, broker)| {
            let newest = MetadataRecord::newest(0).unwrap_or_default();
            let path = ["brokers".into(), Part::Number(*id)];
            Leaf::new(path, fields_json((**broker).clone(), newest))
        })
    }

    fn config_leaves(&self) -> impl Iterator<Item = Leaf> {
        self.configs().iter().map(|(resource, key, value)| {
            let kind = match resource_type_name(resource.resource_type) {
                Some(name) => name.into(),
                None => format!("type-{}", resource.resource_type).as_str().into(),
            };
            let name =
                if resource.name.is_empty() { "(default)".into() } else { (&resource.name).into() };
            let path = ["configs".into(), kind, name, key.into()];
            Leaf { secret: is_secret(key), ..Leaf::new(path, quoted(value)) }
        })
    }

    fn controller_leaves(&self) -> impl Iterator<Item = Leaf> {
        self.controllers().iter().map(|(id, controller)| {
            let path = ["controllers".into(), Part::Number(*id)];
            Leaf::new(path, fields_json((**controller).clone(), 0))
        })
    }

    fn feature_leaves(&self) -> impl Iterator<Item = Leaf> {
        let features = self.features().iter();
        features.map(|(name, level)| Leaf::new(["features".into(), name.into()], level.to_string()))
    }

    fn producer_id_leaf(&self) -> impl Iterator<Item = Leaf> {
        let next = self.next_producer_id().into_iter();
        next.map(|next| Leaf::new(["producer-ids".into(), "next".into()], next.to_string()))
    }

    fn quota_leaves(&self) -> impl Iterator<Item = Leaf> {
        self.quotas().iter().map(|(entity, key, value)| {
            let parts = entity.iter().map(|(kind, name)| match name {
                Some(name) => format!("{kind}={name}"),
                None => format!("{kind}=(default)"),
            });
            let entity = parts.collect::<Vec<_>>().join(",");
            let path = ["quotas".into(), entity.as_str().into(), key.into()];
            Leaf::new(path, format!("{value:?}"))
        })
    }

    fn credential_leaves(&self) -> impl Iterator<Item = Leaf> {
        self.credentials().iter().map(|((mechanism, user), credential)| {
            let mechanism = match mechanism {
                1 => "SCRAM-SHA-256".into(),
                2 => "SCRAM-SHA-512".into(),
                other => format!("mechanism-{other}").as_str().into(),
            };
            let path = ["scram".into(), mechanism, user.into()];
            Leaf { secret: true, ..Leaf::new(path, fields_json((**credential).clone(), 0)) }
        })
    }

    fn token_leaves(&self) -> impl Iterator<Item = Leaf> {
        self.tokens().iter().map(|(id, token)| {
            Leaf::new(["tokens".into(), id.into()], fields_json((**token).clone(), 0))
        })
    }

    fn topic_leaves(&self) -> impl Iterator<Item = Leaf> {
        self.topics().by_name().flat_map(|(id, topic)| {
            let own = move |rest: [Part; 2]| {
                let [kind, of] = rest;
                vec!["topics".into(), (&topic.name).into(), kind, of]
            };
            let id_path = vec!["topics".into(), (&topic.name).into(), "id".into()];
            let partitions = topic.partitions.iter().map(move |(number, partition)| {
                let newest = MetadataRecord::newest(3).unwrap_or_default();
                let (record, version) = partition.record(id, *number, newest);
                let path = own(["partitions".into(), Part::Number(*number)]);
                Leaf::new(path, fields_json(record, version))
            });
            std::iter::once(Leaf::new(id_path, quoted(&id.to_string()))).chain(partitions)
        })
    }
}
