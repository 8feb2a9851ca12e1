//! What the copies of a log hold, without a change to any of them.
//!
//! A copy is opened as a node would open it, on an [`Overlay`] that keeps all changes to itself: so
//! what is said of its end and its voters is what a start would find, torn writes and damage set
//! aside.

use super::{Topic, words};
use quorate_base::{Epoch, Offset, OffsetEpoch, ReplicaId, Uuid};
use quorate_log::{
    Batches, ControlType, Disk, Election, Error, Log, Meta, Options, OsDisk, Overlay, Read,
    Recovery, Remedy, Salvage, lost_or_new, read_cold, recoveries, salvage, unfinished_recovery,
    verify,
};
use quorate_wire::record::control::{ControlRecord, KRaftVoter};
use std::path::{Path, PathBuf};

/// A directory, and what it holds or why that cannot be told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Copied {
    /// The directory.
    pub directory: PathBuf,
    /// What it holds.
    pub found: Result<Facts, String>,
}

/// What one copy of the log says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Whose it is.
    pub meta: Meta,
    /// Its end, and the epoch of its last record.
    pub last: OffsetEpoch,
    /// What was committed for certain: the end of its newest snapshot.
    pub committed: Offset,
    /// What the node knew of elections; `None` if it has seen none or has lost it.
    pub election: Option<Election>,
    /// The highest epoch that anything in it names.
    pub epoch: Epoch,
    /// The highest end that anything in it names.
    pub reached: Offset,
    /// `kraft.version`.
    pub version: i16,
    /// The voters in its log; none if they are static.
    pub voters: Vec<KRaftVoter>,
    /// What is damaged in it, a sentence each; what a start mends by itself is not.
    pub damage: Vec<String>,
    /// What is written anew in it if it is recovered, a sentence each; no record rests on it.
    pub replaced: Vec<String>,
    /// What was done to it before, the oldest first.
    pub recovered: Vec<Salvage>,
    /// What was begun with it and has not come to its end.
    pub unfinished: Option<Salvage>,
}

impl Facts {
    /// The ids of the voters that it knows, in the log or static.
    pub fn voter_ids(&self) -> Vec<ReplicaId> {
        match (&self.voters[..], &self.election) {
            ([], Some(election)) => election.voters.clone(),
            ([], None) => Vec::new(),
            (voters, _) => voters.iter().map(|voter| ReplicaId(voter.voter_id as u32)).collect(),
        }
    }

    /// Whether the voters that it knows name its own node.
    pub fn votes(&self) -> bool {
        self.voter_ids().contains(&self.meta.node)
    }
}

/// The log's settings of a copy.
pub(super) fn options(topic: &Topic) -> Options {
    let topic = &topic.name;
    // As a node's own default: the log goes on in small segments.
    Options { partition: format!("{topic}-0"), segment_bytes: 8 << 20, ..Options::default() }
}

/// Looks at a directory and writes nothing. The caller holds its lock.
pub fn survey(directory: &Path, topic: &Topic) -> Copied {
    let found = look(OsDisk::new(directory), &options(topic), topic.id);
    Copied {
        directory: directory.to_owned(),
        found: found.map_err(|error| words::unusable(&error)),
    }
}

pub(super) fn look<D: Disk>(mut disk: D, options: &Options, topic: Uuid) -> Result<Facts, Error> {
    let partition = options.partition.as_str();
    let mut below = disk.clone();
    let mut lost = |error| lost_or_new(&mut below, partition, error);
    let meta = Meta::read(&mut disk).map_err(&mut lost)?;
    let findings = verify(&mut disk, "")?;
    // Whose the directory is, and of which topic, says nothing of what is in it. What was begun is
    // looked at below.
    let others = [Remedy::NextStart, Remedy::Identity, Remedy::Recover];
    let real = findings.iter().filter(|found| !others.contains(&found.remedy));
    let mut damage: Vec<String> = real.map(ToString::to_string).collect();
    let mut disk = Overlay::new(disk);
    let (recovery, replaced) = salvage(&mut disk, options, topic).map_err(lost)?;
    if recovery.election.is_none() && recovery.end > recovery.start && damage.is_empty() {
        damage
            .push("quorum-state is missing: the epochs and the vote that it knew are lost".into());
    }
    let unfinished = match unfinished_recovery(&mut disk, partition) {
        Ok(unfinished) => unfinished,
        Err(bad @ Error::Malformed { .. }) => {
            damage.push(bad.fault());
            None
        }
        Err(error) => return Err(error),
    };
    let recovered = recoveries(&mut disk, partition)?;
    let (version, voters) = voters(&mut disk, options, &recovery)?;
    let last = recovery.last();
    let claim = recovery.must_reach.unwrap_or_default();
    let known = recovery.election.as_ref().map(|election| election.epoch).unwrap_or_default();
    let taken = recovered.iter().chain(&unfinished).map(|by| by.epoch).max().unwrap_or_default();
    Ok(Facts {
        meta,
        last,
        committed: recovery.snapshots.last().map(|newest| newest.id.offset).unwrap_or_default(),
        epoch: known.max(last.epoch).max(claim.epoch).max(taken),
        reached: last.offset.max(claim.offset),
        election: recovery.election,
        version,
        voters,
        damage,
        replaced,
        recovered,
        unfinished,
    })
}

/// `kraft.version` and the voters in force at the end of the log.
fn voters<D: Disk>(
    disk: &mut D,
    options: &Options,
    recovery: &Recovery,
) -> Result<(i16, Vec<KRaftVoter>), Error> {
    let mut seats = (0, Vec::new());
    for (kind, value) in &recovery.head {
        obey(&mut seats, ControlRecord::decode(*kind, value.clone()), "the newest snapshot")?;
    }
    let log = Log::open(options.clone(), recovery);
    let newest = recovery.snapshots.last().map(|newest| newest.id.offset).unwrap_or_default();
    for base in recovery.controls.iter().copied().filter(|base| *base >= newest) {
        let Read::Cold(plan) = log.read(base, recovery.end, 1) else { continue };
        let batches = Batches::checked_before(read_cold(disk, &plan)?);
        for batch in batches.filter(|batch| batch.base() == base) {
            for record in batch.records().flatten() {
                let kind = ControlType::of_key(record.key.unwrap_or_default());
                let value = bytes::Bytes::copy_from_slice(record.value.unwrap_or_default());
                let record = kind.and_then(|kind| ControlRecord::decode(kind, value));
                obey(&mut seats, record, &plan.path)?;
            }
        }
    }
    Ok(seats)
}

fn obey(
    seats: &mut (i16, Vec<KRaftVoter>),
    record: Result<ControlRecord, quorate_wire::Error>,
    path: &str,
) -> Result<(), Error> {
    let unknown = |bad: quorate_wire::Error| Error::Malformed {
        path: path.to_owned(),
        position: 0,
        expected: "a kraft.version and voters that this program knows".to_owned(),
        found: bad.to_string(),
    };
    match record.map_err(unknown)? {
        ControlRecord::KRaftVersion(record) => seats.0 = record.kraft_version,
        ControlRecord::KRaftVoters(record) => seats.1 = record.voters,
        ControlRecord::LeaderChange(_)
        | ControlRecord::SnapshotHeader(_)
        | ControlRecord::SnapshotFooter(_)
        | ControlRecord::Other(..) => {}
    }
    Ok(())
}
