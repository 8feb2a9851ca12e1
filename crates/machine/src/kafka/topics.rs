//! Topics with their partitions, found by id and by name.
//!
//! A name and an id belong to one topic only: a record that would break that is refused.

use super::partition::Partition;
use super::refused::Refused;
use super::shared_map::SharedMap;
use quorate_base::Uuid;
use quorate_wire::record::metadata as record;
use quorate_wire::record::metadata::{ClearElr, MetadataRecord, PartitionChange};
use std::sync::Arc;

/// A topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topic {
    /// Its name.
    pub name: Arc<str>,
    /// Its partitions, by number.
    pub partitions: SharedMap<i32, Partition>,
}

/// Most entries of a leaf of the maps of topics.
const LEAF: usize = 128;

/// All topics.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Topics {
    by_id: SharedMap<Uuid, Topic, LEAF>,
    /// Invariant: exactly the names of `by_id`.
    by_name: SharedMap<Arc<str>, Uuid, LEAF>,
    /// How many partitions all of them have.
    partitions: usize,
}

impl Topics {
    /// How many topics there are.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> usize {
        self.partitions
    }

    /// The topic with this id.
    pub fn get(&self, id: Uuid) -> Option<&Topic> {
        self.by_id.get(&id)
    }

    /// The id of the topic with this name.
    pub fn id_of(&self, name: &str) -> Option<Uuid> {
        self.by_name.get(name).copied()
    }

    /// All topics, by id.
    pub fn iter(&self) -> impl Iterator<Item = (Uuid, &Topic)> {
        self.by_id.iter().map(|(id, topic)| (*id, topic))
    }

    /// All topics, by name.
    pub fn by_name(&self) -> impl Iterator<Item = (Uuid, &Topic)> {
        let found = self.by_name.iter();
        found.filter_map(|(_, id)| self.by_id.get(id).map(|topic| (*id, topic)))
    }

    pub(super) fn create(&mut self, record: record::Topic) -> Result<(), Refused> {
        let (name, id): (Arc<str>, Uuid) = (record.name.into(), record.topic_id);
        let topic = Topic { name: Arc::clone(&name), partitions: SharedMap::default() };
        let exists = || Err(Refused::TopicExists { name: name.to_string(), id });
        if !self.by_id.insert_new(id, topic) {
            return exists();
        }
        if !self.by_name.insert_new(Arc::clone(&name), id) {
            self.by_id.remove(&id);
            return exists();
        }
        Ok(())
    }

    /// The name that is free now.
    pub(super) fn remove(&mut self, id: Uuid) -> Result<Arc<str>, Refused> {
        let removed = self.by_id.remove(&id).ok_or(Refused::UnknownTopic { id })?;
        self.by_name.remove(&removed.name);
        self.partitions -= removed.partitions.len();
        Ok(removed.name)
    }

    pub(super) fn describe(&mut self, record: &record::Partition) -> Result<(), Refused> {
        let (id, number) = (record.topic_id, record.partition_id);
        let partition = Partition::of(record)?;
        let topic = self.by_id.get_mut(&id).ok_or(Refused::UnknownTopic { id })?;
        let is_new = topic.partitions.insert(number, partition).is_none();
        self.partitions += usize::from(is_new);
        Ok(())
    }

    pub(super) fn change(&mut self, record: &PartitionChange) -> Result<(), Refused> {
        let (id, number) = (record.topic_id, record.partition_id);
        let found = self.by_id.get(&id).ok_or(Refused::UnknownTopic { id })?;
        let unknown = Refused::UnknownPartition { topic: id, partition: number };
        let changed = found.partitions.get(&number).ok_or(unknown)?.changed(record)?;
        let topic = self.by_id.get_mut(&id).ok_or(Refused::UnknownTopic { id })?;
        topic.partitions.insert(number, changed);
        Ok(())
    }

    pub(super) fn clear_elr(&mut self, record: ClearElr) -> Result<(), Refused> {
        let ids = match self.id_of(&record.topic_name) {
            _ if record.topic_name.is_empty() => self.iter().map(|(id, _)| id).collect(),
            Some(id) => vec![id],
            None => return Err(Refused::UnknownTopicName { name: record.topic_name }),
        };
        for id in ids {
            let Some(topic) = self.by_id.get(&id) else { continue };
            let changed = topic.partitions.iter();
            let changed = changed.filter_map(|(number, old)| Some((*number, old.without_elr()?)));
            let changed: Vec<(i32, Partition)> = changed.collect();
            if changed.is_empty() {
                continue;
            }
            let Some(topic) = self.by_id.get_mut(&id) else { continue };
            for (number, partition) in changed {
                topic.partitions.insert(number, partition);
            }
        }
        Ok(())
    }

    /// Each topic, then its partitions.
    pub(super) fn into_records(self, version: i16) -> impl Iterator<Item = (MetadataRecord, i16)> {
        self.by_id.into_entries().flat_map(move |(topic_id, topic)| {
            let name = topic.name.to_string();
            let created = record::Topic { name, topic_id, ..record::Topic::default() };
            let partitions = topic.partitions.into_entries().map(move |(number, partition)| {
                let (record, version) = partition.record(topic_id, number, version);
                (record.into(), version)
            });
            std::iter::once((created.into(), 0)).chain(partitions)
        })
    }
}
