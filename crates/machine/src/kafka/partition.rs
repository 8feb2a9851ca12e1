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
    /// The six lists of nodes, end to end: one allocation for all, most of them being empty.
    ids: Box<[i32]>,
    /// Where each list ends. Invariant: ascending, the last one being the length of `ids`.
    ends: [u32; LISTS],
    /// Invariant: one a replica.
    directories: Box<[Uuid]>,
    /// The leader; -1 none.
    pub leader: i32,
    /// Grows with each leader.
    pub leader_epoch: i32,
    /// Grows with each change.
    pub partition_epoch: i32,
    /// Whether its leader was elected though it may lack records, and has not recovered yet.
    pub recovering: bool,
}

/// How many lists of nodes there are, in this order.
const LISTS: usize = 6;
const REPLICAS: usize = 0;
const ISR: usize = 1;
const REMOVING: usize = 2;
const ADDING: usize = 3;
const ELR: usize = 4;
const LAST_KNOWN_ELR: usize = 5;

type Lists<'a> = [&'a [i32]; LISTS];

/// End to end, and where each ends.
fn joined(lists: Lists<'_>) -> (Box<[i32]>, [u32; LISTS]) {
    let mut end = 0;
    // A record's lists are shorter than a frame, so that their lengths fit.
    let ends = lists.map(|list| {
        end += list.len() as u32;
        end
    });
    (lists.concat().into(), ends)
}

/// One directory a replica. None, or only such as are not known, are one unknown directory each.
fn directories(given: &[Uuid], replicas: usize) -> Box<[Uuid]> {
    match given.iter().all(|id| *id == Uuid::ZERO) {
        true => vec![Uuid::ZERO; replicas].into(),
        false => given.into(),
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
    /// Who holds it, the preferred leader first.
    pub fn replicas(&self) -> &[i32] {
        self.list(REPLICAS)
    }

    /// The directory of each replica; the zero uuid where it is not known.
    pub fn directories(&self) -> &[Uuid] {
        &self.directories
    }

    /// Who is in sync.
    pub fn isr(&self) -> &[i32] {
        self.list(ISR)
    }

    /// Who of the replicas leaves with the reassignment.
    pub fn removing(&self) -> &[i32] {
        self.list(REMOVING)
    }

    /// Who of the replicas came with the reassignment.
    pub fn adding(&self) -> &[i32] {
        self.list(ADDING)
    }

    /// Who may lead though not in sync (KIP-966).
    pub fn elr(&self) -> &[i32] {
        self.list(ELR)
    }

    /// The last leaders known (KIP-966).
    pub fn last_known_elr(&self) -> &[i32] {
        self.list(LAST_KNOWN_ELR)
    }

    fn list(&self, at: usize) -> &[i32] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.ids[start as usize..self.ends[at] as usize]
    }

    fn lists(&self) -> Lists<'_> {
        [REPLICAS, ISR, REMOVING, ADDING, ELR, LAST_KNOWN_ELR].map(|at| self.list(at))
    }

    /// What a whole description says.
    pub(super) fn of(record: &record::Partition) -> Result<Partition, Refused> {
        let elr = record.eligible_leader_replicas.as_deref().unwrap_or_default();
        let last = record.last_known_elr.as_deref().unwrap_or_default();
        let replicas = record.replicas.len();
        let (ids, ends) = joined([
            &record.replicas,
            &record.isr,
            &record.removing_replicas,
            &record.adding_replicas,
            elr,
            last,
        ]);
        let described = Partition {
            ids,
            ends,
            directories: directories(&record.directories, replicas),
            leader: record.leader,
            leader_epoch: record.leader_epoch,
            partition_epoch: record.partition_epoch,
            recovering: recovering(record.leader_recovery_state)?,
        };
        let given = record.directories.len();
        described.check(record.topic_id, record.partition_id, given)
    }

    /// One directory a replica. `given` is how many a record has, none being none said.
    fn check(self, topic: Uuid, partition: i32, given: usize) -> Result<Partition, Refused> {
        let replicas = self.replicas().len();
        let directories = if given > 0 { given } else { self.directories.len() };
        match directories == replicas {
            true => Ok(self),
            false => Err(Refused::Directories { topic, partition, replicas, directories }),
        }
    }

    /// The partition after a change.
    pub(super) fn changed(&self, change: &PartitionChange) -> Result<Partition, Refused> {
        let mut lists = self.lists();
        for (at, new) in [
            (REPLICAS, &change.replicas),
            (ISR, &change.isr),
            (REMOVING, &change.removing_replicas),
            (ADDING, &change.adding_replicas),
            (ELR, &change.eligible_leader_replicas),
            (LAST_KNOWN_ELR, &change.last_known_elr),
        ] {
            lists[at] = new.as_deref().unwrap_or(lists[at]);
        }
        let given = change.directories.as_deref();
        let keeps = change.leader == NO_LEADER_CHANGE;
        let recovers = match change.leader_recovery_state {
            -1 => self.recovering,
            state => recovering(state)?,
        };
        let replicas = lists[REPLICAS].len();
        let (ids, ends) = joined(lists);
        let changed = Partition {
            ids,
            ends,
            directories: directories(given.unwrap_or(&self.directories), replicas),
            leader: if keeps { self.leader } else { change.leader },
            leader_epoch: self.leader_epoch.wrapping_add(i32::from(!keeps)),
            partition_epoch: self.partition_epoch.wrapping_add(1),
            recovering: recovers,
        };
        changed.check(change.topic_id, change.partition_id, given.map_or(0, <[Uuid]>::len))
    }

    /// Forgets who may lead though not in sync; a change like any other, if there is any.
    pub(super) fn without_elr(&self) -> Option<Partition> {
        let mut lists = self.lists();
        let any = !lists[ELR].is_empty() || !lists[LAST_KNOWN_ELR].is_empty();
        (lists[ELR], lists[LAST_KNOWN_ELR]) = (&[], &[]);
        any.then(|| {
            let (ids, ends) = joined(lists);
            let partition_epoch = self.partition_epoch.wrapping_add(1);
            Partition { ids, ends, partition_epoch, ..self.clone() }
        })
    }

    /// The record that describes it whole, at this version or a newer one if it does not fit.
    pub(super) fn record(
        &self,
        topic_id: Uuid,
        partition_id: i32,
        version: i16,
    ) -> (record::Partition, i16) {
        let some = |ids: &[i32]| (!ids.is_empty()).then(|| ids.to_vec());
        let (elr, last) = (some(self.elr()), some(self.last_known_elr()));
        let knows_directories = self.directories.iter().any(|id| *id != Uuid::ZERO);
        let needed = match (&elr, &last) {
            (None, None) => i16::from(knows_directories),
            (Some(_), _) | (_, Some(_)) => 2,
        };
        let version = version.max(needed);
        let record = record::Partition {
            partition_id,
            topic_id,
            replicas: self.replicas().to_vec(),
            isr: self.isr().to_vec(),
            removing_replicas: self.removing().to_vec(),
            adding_replicas: self.adding().to_vec(),
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
