//! One partition: who holds it, who leads it.
//!
//! Small, for there may be a million. How records change it is here; whether they should is the
//! controller's who wrote them.

use super::refused::Refused;
use quorate_base::Uuid;
use quorate_wire::record::metadata as record;
use quorate_wire::record::metadata::{NO_LEADER_CHANGE, PartitionChange};

/// A partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    /// Who holds it, the preferred leader first.
    pub replicas: Box<[i32]>,
    /// The directory of each replica; the zero uuid where it is not known.
    pub directories: Box<[Uuid]>,
    /// Who of them is in sync.
    pub isr: Box<[i32]>,
    /// Who of them leaves with the reassignment.
    pub removing: Box<[i32]>,
    /// Who of them came with the reassignment.
    pub adding: Box<[i32]>,
    /// Who may lead though not in sync (KIP-966).
    pub elr: Box<[i32]>,
    /// The last leaders known (KIP-966).
    pub last_known_elr: Box<[i32]>,
    /// The leader; -1 none.
    pub leader: i32,
    /// Grows with each leader.
    pub leader_epoch: i32,
    /// Grows with each change.
    pub partition_epoch: i32,
    /// Whether its leader was elected though it may lack records, and has not recovered yet.
    pub recovering: bool,
}

/// No directories, or only such as are not known, are one unknown directory a replica.
fn directories(given: Box<[Uuid]>, replicas: usize) -> Box<[Uuid]> {
    match given.iter().all(|id| *id == Uuid::ZERO) {
        true if given.len() == replicas => given,
        true => vec![Uuid::ZERO; replicas].into(),
        false => given,
    }
}

fn recovering(state: i8) -> Result<bool, Refused> {
    match state {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(Refused::BadValue { field: "LeaderRecoveryState", found: other.into() }),
    }
}

impl Partition {
    /// What a whole description says.
    pub(super) fn of(record: record::Partition) -> Result<Partition, Refused> {
        let given = record.directories.len();
        let (topic, partition) = (record.topic_id, record.partition_id);
        let described = Partition {
            directories: directories(record.directories.into(), record.replicas.len()),
            replicas: record.replicas.into(),
            isr: record.isr.into(),
            removing: record.removing_replicas.into(),
            adding: record.adding_replicas.into(),
            elr: record.eligible_leader_replicas.unwrap_or_default().into(),
            last_known_elr: record.last_known_elr.unwrap_or_default().into(),
            leader: record.leader,
            leader_epoch: record.leader_epoch,
            partition_epoch: record.partition_epoch,
            recovering: recovering(record.leader_recovery_state)?,
        };
        described.check(topic, partition, given)
    }

    /// One directory a replica. `given` is what the record has, none being none said.
    fn check(self, topic: Uuid, partition: i32, given: usize) -> Result<Partition, Refused> {
        let replicas = self.replicas.len();
        let directories = if given > 0 { given } else { self.directories.len() };
        match directories == replicas {
            true => Ok(self),
            false => Err(Refused::Directories { topic, partition, replicas, directories }),
        }
    }

    /// The partition after a change.
    pub(super) fn changed(&self, change: PartitionChange) -> Result<Partition, Refused> {
        let (topic, partition) = (change.topic_id, change.partition_id);
        let or = |new: Option<Vec<i32>>, old: &[i32]| -> Box<[i32]> {
            new.map_or_else(|| old.into(), Box::from)
        };
        let replicas = or(change.replicas, &self.replicas);
        let given = change.directories.as_ref().map_or(0, Vec::len);
        let new = change.directories.map_or_else(|| self.directories.clone(), Box::from);
        let keeps = change.leader == NO_LEADER_CHANGE;
        let recovers = match change.leader_recovery_state {
            -1 => self.recovering,
            state => recovering(state)?,
        };
        let changed = Partition {
            directories: directories(new, replicas.len()),
            replicas,
            isr: or(change.isr, &self.isr),
            removing: or(change.removing_replicas, &self.removing),
            adding: or(change.adding_replicas, &self.adding),
            elr: or(change.eligible_leader_replicas, &self.elr),
            last_known_elr: or(change.last_known_elr, &self.last_known_elr),
            leader: if keeps { self.leader } else { change.leader },
            leader_epoch: self.leader_epoch.wrapping_add(i32::from(!keeps)),
            partition_epoch: self.partition_epoch.wrapping_add(1),
            recovering: recovers,
        };
        changed.check(topic, partition, given)
    }

    /// Forgets who may lead though not in sync; a change like any other, if there is any.
    pub(super) fn without_elr(&self) -> Option<Partition> {
        let any = !self.elr.is_empty() || !self.last_known_elr.is_empty();
        let partition_epoch = self.partition_epoch.wrapping_add(1);
        let (elr, last_known_elr) = (Box::default(), Box::default());
        any.then(|| Partition { elr, last_known_elr, partition_epoch, ..self.clone() })
    }

    /// The record that describes it whole, at this version or a newer one if it does not fit.
    pub(super) fn record(
        &self,
        topic_id: Uuid,
        partition_id: i32,
        version: i16,
    ) -> (record::Partition, i16) {
        let some = |ids: &[i32]| (!ids.is_empty()).then(|| ids.to_vec());
        let (elr, last) = (some(&self.elr), some(&self.last_known_elr));
        let knows_directories = self.directories.iter().any(|id| *id != Uuid::ZERO);
        let needed = match (&elr, &last) {
            (None, None) => i16::from(knows_directories),
            (Some(_), _) | (_, Some(_)) => 2,
        };
        let version = version.max(needed);
        let record = record::Partition {
            partition_id,
            topic_id,
            replicas: self.replicas.to_vec(),
            isr: self.isr.to_vec(),
            removing_replicas: self.removing.to_vec(),
            adding_replicas: self.adding.to_vec(),
            leader: self.leader,
            leader_recovery_state: i8::from(self.recovering),
            leader_epoch: self.leader_epoch,
            partition_epoch: self.partition_epoch,
            directories: if version >= 1 { self.directories.to_vec() } else { Vec::new() },
            eligible_leader_replicas: elr,
            last_known_elr: last,
            ..record::Partition::default()
        };
        (record, version)
    }
}
