//! Client quotas: limits by whom they are for.
//!
//! How quotas of several entities combine is the brokers' business.

use super::shared_map::SharedMap;
use quorate_wire::Float64;
use quorate_wire::record::metadata as record;
use quorate_wire::record::metadata::{ClientQuota, MetadataRecord};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Whom a quota is for: by kind (`user`, `client-id`, `ip`) which one, `None` for the default.
pub type QuotaEntity = BTreeMap<Arc<str>, Option<Arc<str>>>;

type Limits = SharedMap<Arc<str>, Float64>;

/// All quotas.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Quotas {
    /// Invariant: no entity without a limit.
    entities: SharedMap<Arc<QuotaEntity>, Limits>,
}

impl Quotas {
    /// All limits: for whom, of what, how much.
    pub fn iter(&self) -> impl Iterator<Item = (&QuotaEntity, &Arc<str>, f64)> {
        self.entities.iter().flat_map(|(entity, limits)| {
            limits.iter().map(move |(key, value)| (&**entity, key, value.0))
        })
    }

    pub(super) fn apply(&mut self, record: ClientQuota) {
        let parts = record.entity.into_iter();
        let parts = parts.map(|part| (part.entity_type.into(), part.entity_name.map(Arc::from)));
        let entity: QuotaEntity = parts.collect();
        let key: Arc<str> = record.key.into();
        if record.remove {
            if let Some(limits) = self.entities.get_mut(&entity) {
                limits.remove(&key);
                if limits.is_empty() {
                    self.entities.remove(&entity);
                }
            }
            return;
        }
        match self.entities.get_mut(&entity) {
            Some(limits) => drop(limits.insert(key, record.value)),
            None => {
                let limits = Limits::from_iter([(key, record.value)]);
                self.entities.insert(Arc::new(entity), limits);
            }
        }
    }

    pub(super) fn records(&self) -> impl Iterator<Item = (MetadataRecord, i16)> {
        self.iter().map(|(entity, key, value)| {
            let parts = entity.iter().map(|(kind, name)| record::QuotaEntity {
                entity_type: kind.to_string(),
                entity_name: name.as_ref().map(|name| name.to_string()),
                ..record::QuotaEntity::default()
            });
            let record = ClientQuota {
                entity: parts.collect(),
                key: key.to_string(),
                value: Float64(value),
                ..ClientQuota::default()
            };
            (record.into(), 0)
        })
    }
}
