//! Writes the new voters behind the chosen copy's log.
//!
//! First all of it is done on an [`Overlay`], which tells what changes; each such file is copied
//! under a name that ends in the new epoch, durably, and only then changed. Before that it is noted
//! what is about to be done, and a node does not start on it before it is done; cut short at any
//! place it is run again, in a higher epoch, with the loss that the first run found. The voters
//! come last in the log: whoever does not know the note, like Kafka's controllers, sees the old
//! ones until all versions are passed over.

use super::plan::OWN_RECORDS;
use super::survey::options;
use super::{Plan, RecoverError, Topic};
use crate::format::head;
use quorate_base::{Offset, ReplicaId, Uuid};
use quorate_log::{
    BatchBuilder, ControlType, Disk, Election, Error, Job, Log, Options, OsDisk, Overlay,
    RECOVERY_FILES, Salvage, Store, back_up, begin_recovery, finish_recovery, is_left_over,
    recoveries, salvage, unfinished_recovery,
};
use quorate_wire::record::control::{LeaderChange, Voter};
use quorate_wire::record::metadata::{MetadataRecord, NoOp};
use std::path::Path;

/// Records that fill up offsets, a batch.
const FILLERS: u64 = 100_000;

/// What was done, or would be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Done {
    /// The files that changed, each with the name of its copy, in the directory.
    pub kept: Vec<(String, String)>,
    /// Where the log ends now.
    pub end: Offset,
}

/// What is the same for every disk.
struct Work<'a> {
    plan: &'a Plan,
    options: Options,
    topic: Uuid,
    timestamp_ms: i64,
}

/// What of the plan is carried out: `really`, or only found out.
///
/// # Errors
/// [`RecoverError::Files`]; what was changed by then has its copy.
pub fn carry_out(
    plan: &Plan,
    topic: &Topic,
    timestamp_ms: i64,
    really: bool,
) -> Result<Done, RecoverError> {
    let directory = &plan.chosen.directory;
    let mut disk = OsDisk::new(directory);
    let work = Work { plan, options: options(topic), topic: topic.id, timestamp_ms };
    let done = if really { work.carry(&mut disk) } else { work.find_out(&disk) };
    done.map_err(|error| {
        let begun = unfinished_recovery(&mut disk, &work.options.partition);
        let begun = !matches!(begun, Ok(None));
        RecoverError::Files { directory: directory.clone(), error, begun }
    })
}

impl Work<'_> {
    /// What would change, and nothing does.
    fn find_out<D: Disk>(&self, disk: &D) -> Result<Done, Error> {
        let mut overlay = Overlay::new(disk.clone());
        let end = self.write(&mut overlay)?;
        Ok(Done { kept: self.to_keep(disk, &overlay.changed())?, end })
    }

    fn carry<D: Disk>(&self, disk: &mut D) -> Result<Done, Error> {
        let partition = &self.options.partition;
        let done = self.find_out(disk)?;
        let there = quorate_log::files(disk, partition)?;
        for (path, copy) in &done.kept {
            // What a run that was cut short has changed was kept by it, as it was before.
            if self.plan.continues.is_none() || !there.contains(copy) {
                back_up(disk, path, copy)?;
            }
        }
        let own = self.salvage();
        begin_recovery(disk, partition, &own)?;
        self.write(disk)?;
        let all: Vec<Salvage> = self.plan.before.iter().cloned().chain([own]).collect();
        finish_recovery(disk, partition, &all)?;
        Ok(done)
    }

    /// The files that change and are not kept under another name anyway.
    fn to_keep<D: Disk>(
        &self,
        disk: &D,
        changed: &[String],
    ) -> Result<Vec<(String, String)>, Error> {
        let there = quorate_log::files(disk, &self.options.partition)?;
        let counts = |path: &&String| {
            let name = path.rsplit('/').next().unwrap_or(path);
            let moved = changed.iter().any(|other| *other == format!("{path}.damaged"));
            // What a crash left half done goes at any start, and belongs to nothing.
            let worth = !is_left_over(name) && !RECOVERY_FILES.contains(&name);
            there.contains(path) && !moved && worth
        };
        let name =
            |path: &String| (path.clone(), format!("{path}.before-epoch-{}", self.plan.kept));
        Ok(changed.iter().filter(counts).map(name).collect())
    }

    /// What is noted of it.
    fn salvage(&self) -> Salvage {
        let voters: Vec<String> = self.plan.voters.iter().map(ToString::to_string).collect();
        Salvage {
            kept: self.plan.kept,
            epoch: self.plan.epoch,
            lost_from: self.plan.loss,
            resumes_at: self.plan.resumes(),
            time_ms: self.timestamp_ms,
            voters: voters.join(","),
        }
    }

    fn write<D: Disk>(&self, disk: &mut D) -> Result<Offset, Error> {
        let Work { plan, options, timestamp_ms, .. } = self;
        let (recovery, _) = salvage(disk, options, self.topic)?;
        let mut log = Log::open(options.clone(), &recovery);
        let mut store = Store::open(disk.clone(), options, &recovery)?;
        let node = plan.chosen.facts.meta.node;
        // As if the node had been elected: it has led in this epoch and never will again.
        let election =
            Election { epoch: plan.epoch, leader: Some(node), voted: None, voters: vec![] };
        let mut jobs = vec![
            log.election_dynamic(&election),
            append(&mut log, plan, leads(plan, recovery.end, *timestamp_ms)),
        ];
        let mut left = plan.resumes().0.saturating_sub(recovery.end.0 + OWN_RECORDS);
        while left > 0 {
            let count = left.min(FILLERS);
            left -= count;
            let mut batch = BatchBuilder::new(log.end(), plan.epoch, *timestamp_ms);
            let nothing = MetadataRecord::from(NoOp::default()).encode(0);
            let nothing = nothing.expect("a record without fields encodes");
            (0..count).for_each(|_| batch.record(None, Some(&nothing), &[]));
            jobs.push(append(&mut log, plan, batch));
        }
        let voters = votes(plan, log.end(), *timestamp_ms);
        jobs.push(append(&mut log, plan, voters));
        if recovery.must_reach.is_some() {
            // Last: until the records are there the node is not to vote.
            jobs.push(log.clear_must_reach());
        }
        store.run(&mut jobs)?;
        Ok(log.end())
    }
}

fn append(log: &mut Log, plan: &Plan, batch: BatchBuilder) -> Job {
    let (base, end) = (log.end(), batch.end());
    log.append(base, end, plan.epoch, batch.finish())
}

/// What a new leader writes first.
fn leads(plan: &Plan, base: Offset, timestamp_ms: i64) -> BatchBuilder {
    let voter = |id: ReplicaId| Voter { voter_id: id.0 as i32, ..Voter::default() };
    let node = plan.chosen.facts.meta.node;
    let change = LeaderChange {
        leader_id: node.0 as i32,
        voters: plan.voters.iter().map(|new| voter(new.id)).collect(),
        granting_voters: vec![voter(node)],
        ..LeaderChange::default()
    };
    let change = change.encode().expect("a command line fits in a record");
    let mut batch = BatchBuilder::control(base, plan.epoch, timestamp_ms);
    batch.record(Some(&ControlType::LeaderChange.key()), Some(&change), &[]);
    batch
}

/// Who votes from here on.
fn votes(plan: &Plan, base: Offset, timestamp_ms: i64) -> BatchBuilder {
    let mut batch = BatchBuilder::control(base, plan.epoch, timestamp_ms);
    for (kind, value) in head(&plan.listener, &plan.voters) {
        batch.record(Some(&kind.key()), Some(&value), &[]);
    }
    batch
}

/// What the recoveries of a directory's log may have lost, for the log of its node: a sentence
/// each, the oldest first.
pub fn recovered(directory: &Path, topic: &str) -> Vec<String> {
    let mut disk = OsDisk::new(directory);
    // What cannot be read is said where the node is opened; nothing but words rests on this.
    let all = recoveries(&mut disk, &format!("{topic}-0")).unwrap_or_default();
    let told = all.iter().map(|Salvage { epoch, lost_from, resumes_at, .. }| match lost_from {
        None => format!(
            "`quorate recover` gave this log new voters in epoch {epoch}, at offset {resumes_at}; nothing was lost by it"
        ),
        Some(loss) => format!(
            "`quorate recover` gave this log new voters in epoch {epoch}: records from offset {loss} on that only \
             lost nodes had are gone, and it goes on at offset {resumes_at}"
        ),
    });
    told.collect()
}

#[cfg(test)]
mod tests;
