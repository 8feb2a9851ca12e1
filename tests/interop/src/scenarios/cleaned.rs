//! Kafka's `DumpLogSegments` reads segments that our cleaner wrote, with the horizons of their
//! tombstones and the batches that only stand for offsets; `quorate log dump` says the same of each
//! line, and the tool finds nothing wrong with the indexes.

use super::directories::quorate;
use crate::scenario::{Failure, Stage, ensure, files_ending};
use quorate_base::{Epoch, ReplicaId, Rng, Uuid};
use quorate_log::{
    BatchBuilder, Came, CleanNow, CleanSettings, CleanStep, Cleaner, Job, Log, Meta, Options,
    OsDisk, Store, ToClean, format, recover,
};
use std::path::Path;

const DUMP: &str = "org.apache.kafka.tools.DumpLogSegments";
const TIME: i64 = 1_790_000_000_000;
const KEYS: u64 = 300;
const BATCHES: u64 = 3_000;

pub fn segments(stage: &Stage, directory: &Path) -> Result<(), Failure> {
    let removed = write(&mut OsDisk::new(directory), directory)?;
    ensure(removed > BATCHES, || format!("{removed} records were cleaned away"))?;
    let folder = directory.join("__cluster_metadata-0");
    let of = |ending: &str| files_ending(&folder, ending);
    let logs = of(".log")?;
    ensure(logs.len() >= 3, || format!("at least three segments expected: {logs:?}"))?;
    let theirs = stage.kafka.run(DUMP, &["--files", &logs.join(","), "--print-data-log"])?;
    let mut ours = String::new();
    for log in &logs {
        ours += &quorate(stage, &["log", "dump", log])?;
    }
    let facts = |printed: &str| -> Vec<String> {
        let fact = |line: &&str| line.starts_with("baseOffset: ") || line.starts_with("| offset: ");
        let lines = printed.lines().filter(fact);
        lines.map(|line| line.replace(" deleteHorizonMs: OptionalLong.empty", "")).collect()
    };
    let (ours, theirs) = (facts(&ours), facts(&theirs));
    for (ours, theirs) in ours.iter().zip(&theirs) {
        ensure(ours == theirs, || format!("ours:    {ours}\nKafka's: {theirs}"))?;
    }
    ensure(ours.len() == theirs.len(), || format!("{} of {} lines", ours.len(), theirs.len()))?;
    let count = |what: &str| theirs.iter().filter(|line| line.contains(what)).count();
    let seen = [" count: 0 ", " deleteHorizonMs: OptionalLong[", "| offset: "].map(count);
    ensure(seen.iter().all(|seen| *seen > 20), || format!("seen: {seen:?}"))?;
    ensure(count("isvalid: false") == 0, || "a batch is not valid".to_owned())?;
    let both = [of(".index")?, of(".timeindex")?].concat();
    let sane = stage.kafka.run(DUMP, &["--index-sanity-check", "--files", &both.join(",")])?;
    // Of a segment of a few empty batches there is no entry.
    let fine = |line: &&str| line.contains("passed sanity check") || line.ends_with(" is empty.");
    let passed = sane.lines().filter(fine).count();
    ensure(passed == both.len(), || format!("{passed} of {} pass:\n{sane}", both.len()))?;
    let verified = stage.kafka.run(DUMP, &["--verify-index-only", "--files", &both.join(",")])?;
    let all_well = |line: &str| line.starts_with("Dumping ") || line.ends_with(" is empty.");
    let complaint = verified.lines().find(|line| !all_well(line));
    ensure(complaint.is_none(), || format!("the tool objects:\n{verified}"))
}

/// A log of random puts and deletes, cleaned twice; how many records went.
fn write(disk: &mut OsDisk, directory: &Path) -> Result<u64, Failure> {
    std::fs::create_dir_all(directory)?;
    let said = |error: quorate_log::Error| Failure(error.to_string());
    let meta = Meta { cluster: "cleaned".to_owned(), node: ReplicaId(1), directory: None };
    let options =
        Options { segment_bytes: 32 << 10, index_interval_bytes: 512, ..Options::default() };
    format(disk, &options.partition, &meta, Uuid::METADATA_TOPIC).map_err(said)?;
    let recovery = recover(disk, &options).map_err(said)?;
    let mut store = Store::open(disk.clone(), &options, &recovery).map_err(said)?;
    let mut log = Log::open(options, &recovery);
    let mut rng = Rng::new(9);
    let mut removed = 0;
    for number in 0..BATCHES {
        let (base, epoch) = (log.end(), Epoch(1 + number as u32 / 700));
        let mut batch = BatchBuilder::new(base, epoch, TIME + number as i64);
        for _ in 0..1 + rng.below(3) {
            let key = format!("key-{}", rng.below(KEYS));
            let value = (!rng.one_in(8)).then(|| "v".repeat(rng.below(60) as usize));
            batch.record(Some(key.as_bytes()), value.as_deref().map(str::as_bytes), &[]);
        }
        let end = batch.end();
        let mut jobs: Vec<Job> = log.inherit(Came::Own).into_iter().collect();
        jobs.push(log.append(base, end, epoch, batch.finish()));
        store.run(&mut jobs).map_err(said)?;
        log.durable(end);
        if [BATCHES / 2, BATCHES - 1].contains(&number) {
            removed += clean(&mut log, &mut store, disk, TIME + number as i64)?;
        }
    }
    Ok(removed)
}

/// A round over all but the last segment.
fn clean(
    log: &mut Log,
    store: &mut Store<OsDisk>,
    disk: &OsDisk,
    wall_ms: i64,
) -> Result<u64, Failure> {
    let said = |error: quorate_log::Error| Failure(error.to_string());
    let (applied, tombstone_bound) = (log.end(), log.end());
    let now = CleanNow { wall_ms, applied, tombstone_bound, seed: [7, 8] };
    let settings =
        CleanSettings { min_dirty_ratio: 0.0, delete_retention_ms: 1, ..Default::default() };
    let Some(ToClean::Round(round)) = log.to_clean(&now, &settings) else {
        return Err(Failure("a round was expected".to_owned()));
    };
    let mut cleaner = Cleaner::new(disk.clone(), *round);
    loop {
        let (jobs, swept) = match cleaner.step().map_err(said)? {
            CleanStep::Going => continue,
            CleanStep::Group(group) => {
                let swap = log.swap(*group);
                (Some(swap.map_err(|_| Failure("the round is void".to_owned()))?), None)
            }
            CleanStep::Done(swept) => (log.finish_round(&swept), Some(swept)),
        };
        store.run(&mut jobs.into_iter().collect()).map_err(said)?;
        if let Some(swept) = swept {
            return Ok(swept.removed);
        }
    }
}
