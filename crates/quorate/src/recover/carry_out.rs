//! Writes the new voters behind the chosen copy's log.
//!
//! First all of it is done on an [`Overlay`], which tells what changes; each such file is copied
//! under a name that ends in the new epoch, durably, and only then changed. Cut short at any place
//! it can be run again: it then takes a higher epoch.

use super::survey::options;
use super::{Plan, RecoverError};
use crate::format::head;
use bytes::Bytes;
use quorate_base::{Offset, ReplicaId};
use quorate_log::{
    BatchBuilder, ControlType, Disk, Election, Error, Job, Log, Options, OsDisk, Overlay, Store,
    back_up, repair,
};
use quorate_wire::record::control::{LeaderChange, Voter};
use quorate_wire::record::metadata::{MetadataRecord, NoOp};
use std::path::Path;

/// The file that says that a log was recovered.
const MARKER: &str = "quorate-recovered";
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

/// What of the plan is carried out: `really`, or only found out.
///
/// # Errors
/// [`RecoverError::Files`]; what was changed by then has its copy.
pub fn carry_out(
    plan: &Plan,
    topic: &str,
    timestamp_ms: i64,
    really: bool,
) -> Result<Done, RecoverError> {
    let directory = &plan.chosen.directory;
    let files = |error| RecoverError::Files { directory: directory.clone(), error };
    let mut disk = OsDisk::new(directory);
    let options = options(topic);
    let mut overlay = Overlay::new(disk.clone());
    let end = write(&mut overlay, &options, plan, timestamp_ms).map_err(files)?;
    let kept = to_keep(&disk, &options.partition, &overlay.changed(), plan).map_err(files)?;
    if really {
        for (path, copy) in &kept {
            back_up(&mut disk, path, copy).map_err(files)?;
        }
        write(&mut disk, &options, plan, timestamp_ms).map_err(files)?;
    }
    Ok(Done { kept, end })
}

/// The files that change and are not kept under another name anyway.
fn to_keep<D: Disk>(
    disk: &D,
    partition: &str,
    changed: &[String],
    plan: &Plan,
) -> Result<Vec<(String, String)>, Error> {
    let there = quorate_log::files(disk, partition)?;
    let moved = |path: &str| changed.iter().any(|other| *other == format!("{path}.damaged"));
    let changed = changed.iter().filter(|path| there.contains(path) && !moved(path));
    let name = |path: &String| (path.clone(), format!("{path}.before-epoch-{}", plan.epoch));
    Ok(changed.map(name).collect())
}

fn write<D: Disk>(
    disk: &mut D,
    options: &Options,
    plan: &Plan,
    timestamp_ms: i64,
) -> Result<Offset, Error> {
    let recovery = repair(disk, options, |_| true)?;
    let mut log = Log::open(options.clone(), &recovery);
    let mut store = Store::open(disk.clone(), options, &recovery)?;
    let node = plan.chosen.facts.meta.node;
    let marker = marker(plan, recovery.end + 3 + plan.skip, timestamp_ms);
    // As if the node had been elected: it has led in this epoch and never will again.
    let election = Election { epoch: plan.epoch, leader: Some(node), voted: None, voters: vec![] };
    let mut jobs = vec![
        Job::Replace { name: MARKER, bytes: marker },
        log.election_dynamic(&election),
        append(&mut log, plan, first_batch(plan, recovery.end, timestamp_ms)),
    ];
    let mut left = plan.skip;
    while left > 0 {
        let count = left.min(FILLERS);
        left -= count;
        let mut batch = BatchBuilder::new(log.end(), plan.epoch, timestamp_ms);
        let nothing = MetadataRecord::from(NoOp::default()).encode(0);
        let nothing = nothing.expect("a record without fields encodes");
        (0..count).for_each(|_| batch.record(None, Some(&nothing), &[]));
        jobs.push(append(&mut log, plan, batch));
    }
    if recovery.must_reach.is_some() {
        // Last: until the records are there the node is not to vote.
        jobs.push(log.clear_must_reach());
    }
    store.run(&mut jobs)?;
    Ok(log.end())
}

fn append(log: &mut Log, plan: &Plan, batch: BatchBuilder) -> Job {
    let (base, end) = (log.end(), batch.end());
    log.append(base, end, plan.epoch, batch.finish())
}

/// What a new leader writes: that it leads, and who votes.
fn first_batch(plan: &Plan, base: Offset, timestamp_ms: i64) -> BatchBuilder {
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
    let mut records = vec![(ControlType::LeaderChange, change)];
    records.extend(head(&plan.listener, &plan.voters));
    for (kind, value) in records {
        batch.record(Some(&kind.key()), Some(&value), &[]);
    }
    batch
}

/// The marker's text.
fn marker(plan: &Plan, resumes: Offset, timestamp_ms: i64) -> Bytes {
    let voters: Vec<String> = plan.voters.iter().map(ToString::to_string).collect();
    let loss = plan.loss.map_or("none".to_owned(), |from| from.to_string());
    format!(
        "version=1\nepoch={}\nlost.from={loss}\nresumes.at={resumes}\ntime.ms={timestamp_ms}\nvoters={}\n",
        plan.epoch,
        voters.join(",")
    )
    .into()
}

/// What the marker of a directory says of a possible loss, for the log of its node.
pub fn recovered(directory: &Path, topic: &str) -> Option<String> {
    let path = directory.join(format!("{topic}-0")).join(MARKER);
    let text = std::fs::read_to_string(path).ok()?;
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let (epoch, loss) = (value("epoch=")?, value("lost.from=")?);
    let resumes = value("resumes.at=")?;
    Some(match loss {
        "none" => format!(
            "`quorate recover` gave this log new voters in epoch {epoch}, at offset {resumes}; nothing was lost by it"
        ),
        _ => format!(
            "`quorate recover` gave this log new voters in epoch {epoch}: records from offset {loss} on that only \
             lost nodes had are gone, and it goes on at offset {resumes}"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Chosen, Facts};
    use super::*;
    use crate::{HostPort, InitialController};
    use quorate_base::{Epoch, OffsetEpoch, Rng, Uuid};
    use quorate_log::{MemoryDisk, Meta, found};

    const RECORDS: u64 = 40;

    fn uuid(byte: u8) -> Uuid {
        Uuid([byte; 16])
    }

    /// A static voter of three, with a vote in epoch 5 and records of epoch 4.
    fn used(options: &Options) -> MemoryDisk {
        let mut disk = MemoryDisk::default();
        let meta = meta();
        let topic = Uuid::METADATA_TOPIC;
        found(&mut disk, &options.partition, &meta, topic, &Default::default()).unwrap();
        let recovery = repair(&mut disk, options, |_| false).unwrap();
        let mut log = Log::open(options.clone(), &recovery);
        let mut store = Store::open(disk.clone(), options, &recovery).unwrap();
        let voters: Vec<ReplicaId> = (1..=3).map(ReplicaId).collect();
        let election = Election { epoch: Epoch(4), leader: None, voted: None, voters };
        let mut batch = BatchBuilder::new(Offset::ZERO, Epoch(4), 1);
        (0..RECORDS).for_each(|_| batch.record(Some(b"key"), Some(b"value"), &[]));
        let end = batch.end();
        let mut jobs = vec![
            log.election(&election),
            log.append(Offset::ZERO, end, Epoch(4), batch.finish()),
            log.election(&Election { epoch: Epoch(5), ..election }),
        ];
        store.run(&mut jobs).unwrap();
        disk
    }

    fn meta() -> Meta {
        Meta { cluster: "c".into(), node: ReplicaId(1), directory: Some(uuid(1)) }
    }

    fn plan() -> Plan {
        let facts = Facts {
            meta: meta(),
            last: OffsetEpoch::new(Offset(RECORDS), Epoch(4)),
            committed: Offset::ZERO,
            election: None,
            epoch: Epoch(5),
            reached: Offset(RECORDS),
            version: 0,
            voters: Vec::new(),
            damage: Vec::new(),
        };
        let at = HostPort { host: "a".into(), port: 1 };
        Plan {
            chosen: Chosen { index: 0, directory: "unused".into(), facts },
            voters: vec![InitialController { id: ReplicaId(1), at, directory: uuid(1) }],
            listener: "CONTROLLER".into(),
            epoch: Epoch(1_006),
            loss: Some(Offset(RECORDS)),
            skip: 5,
            beyond: Vec::new(),
        }
    }

    #[test]
    fn the_marker_is_documented_and_told_at_a_start() {
        let mut plan = Plan { epoch: Epoch(1_000_006), ..plan() };
        plan.voters[0].at = HostPort { host: "a.example".into(), port: 9093 };
        plan.voters[0].directory = "dP9DCmJHzi2tQ-b3VuMiuw".parse().unwrap();
        let text = marker(&plan, Offset(1_000_043), 1_796_050_696_806);
        let text = std::str::from_utf8(&text).unwrap();
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/FORMATS.md");
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page.contains(&format!("```text\n{text}```\n")), "{text}");

        let folder = std::env::temp_dir().join(format!("quorate-marker-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("t-0")).unwrap();
        assert_eq!(recovered(&folder, "t"), None);
        let told = |text: &str| {
            std::fs::write(folder.join("t-0").join(MARKER), text).unwrap();
            recovered(&folder, "t")
        };
        let lossy = told(text).unwrap();
        assert!(
            lossy.contains("from offset 40 on") && lossy.contains("at offset 1000043"),
            "{lossy}"
        );
        let whole = told(&text.replace("=40", "=none")).unwrap();
        assert!(whole.contains("nothing was lost"), "{whole}");
        assert_eq!(told("version=1\n"), None, "half of it says nothing");
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// Cut short anywhere it leaves a log that a node starts with, none of the old records is
    /// missing, no record of the new epoch is there before the epoch is known; and it can be run
    /// again.
    #[test]
    fn a_recovery_that_is_cut_short_is_run_again() {
        let options = options("t");
        let (before, plan) = (used(&options), plan());
        let mut cuts = 0;
        for power in 0.. {
            let disk = before.fork();
            disk.limit_power(Some(power));
            let finished = write(&mut disk.clone(), &options, &plan, 2).is_ok();
            for seed in 0..4 {
                let mut disk = disk.fork();
                match seed {
                    0 => disk.lose_unsynced(),
                    1 => disk.kill(),
                    _ => disk.crash(&mut Rng::new(power * 4 + seed)),
                }
                let found = repair(&mut disk.fork(), &options, |_| false).unwrap();
                let epoch = found.election.as_ref().unwrap().epoch;
                assert!(found.end >= Offset(RECORDS) && found.last().epoch <= epoch, "{power}");
                assert!([Epoch(5), plan.epoch].contains(&epoch), "{power}: {epoch}");
                if finished {
                    assert_eq!(found.end, Offset(RECORDS + 3 + plan.skip));
                }
                let again = Plan { epoch: Epoch(plan.epoch.0 + 1), ..plan.clone() };
                let end = write(&mut disk, &options, &again, 3).unwrap();
                assert_eq!(end, found.end + 3 + plan.skip);
                let found = repair(&mut disk, &options, |_| false).unwrap();
                let knows = found.election.unwrap();
                assert_eq!((knows.epoch, knows.leader), (again.epoch, Some(ReplicaId(1))));
            }
            if finished {
                break;
            }
            cuts += 1;
        }
        assert!(cuts > 20, "{cuts} cuts");
    }

    /// Whatever byte of whatever file has changed: a survey ends, changes nothing, and does not
    /// call a log whole that is shorter than it was; what is damaged can be recovered from as far
    /// as it says.
    #[test]
    fn no_changed_byte_makes_a_copy_whole_and_short() {
        use super::super::survey::look;
        let options = options("t");
        let disk = used(&options);
        let whole = look(disk.fork(), &options).unwrap();
        assert_eq!((whole.last.offset, whole.damage.len()), (Offset(RECORDS), 0), "{whole:?}");
        let (mut looked, mut refused, mut damaged) = (0, 0, 0);
        for path in quorate_log::files(&disk, "").unwrap() {
            let mut reader = disk.clone();
            let file = reader.open(&path, quorate_log::Mode::Read).unwrap();
            let mut bytes = vec![0; reader.len(&file).unwrap() as usize];
            reader.read(&file, 0, &mut bytes).unwrap();
            // Most of the mark's file is room between its slots.
            for at in (0..bytes.len()).filter(|at| bytes.len() < 2_000 || at % 64 < 48) {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << (at % 8);
                let rotten = disk.fork();
                rotten.put(&path, &changed);
                looked += 1;
                match look(rotten.clone(), &options) {
                    Err(_) => refused += 1,
                    Ok(facts) if facts.damage.is_empty() => {
                        let same = facts.last == whole.last && facts.meta.node == whole.meta.node;
                        assert!(same || path == "meta.properties", "{path} {at}: {facts:?}");
                    }
                    Ok(facts) => {
                        damaged += 1;
                        let plan = plan();
                        let mut mended = rotten.fork();
                        let end = write(&mut mended, &options, &plan, 2).unwrap();
                        assert_eq!(end, facts.last.offset + 3 + plan.skip);
                        // Whoever starts on it finds nothing wrong, and may lead.
                        let found = repair(&mut mended, &options, |_| false).unwrap();
                        assert_eq!((found.end, found.must_reach), (end, None), "{path} {at}");
                    }
                }
                let mut after = rotten.clone();
                let file = after.open(&path, quorate_log::Mode::Read).unwrap();
                let mut left = vec![0; changed.len()];
                after.read(&file, 0, &mut left).unwrap();
                assert!(left == changed, "{path} was changed by a look");
            }
        }
        assert!(looked > 1_500 && refused > 50 && damaged > 300, "{looked} {refused} {damaged}");
    }
}
