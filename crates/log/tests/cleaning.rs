//! Rounds of cleaning over the real log: what goes, what stays, what the log says of itself, and
//! what readers get meanwhile.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

mod common;

use common::keyed::{
    KeyValue, State, TIME, fold, keyed, leftovers, now, open, records, settings, sweep,
};
use common::{Node, PARTITION, formatted};
use quorate_base::{Cleaned, Epoch, Offset};
use quorate_log::{
    Batches, Came, CleanSettings, Disk, Job, MemoryDisk, Options, Read, ToClean, read_cold,
};

fn options() -> Options {
    Options { index_interval_bytes: 100, ..common::options(400, 1 << 20) }
}

fn numbers(dirty: u64, clean: u64, horizon: u64) -> Cleaned {
    Cleaned { dirty: Offset(dirty), clean: Offset(clean), horizon: Offset(horizon) }
}

fn offsets(node: &mut Node<MemoryDisk>) -> Vec<u64> {
    node.records().into_keys().collect()
}

fn state(of: &[KeyValue<'_>]) -> State {
    of.iter().map(|(key, value)| (key.to_string(), value.unwrap().to_owned())).collect()
}

/// The worked example of the contract, up to offset 9.
const FIRST: [KeyValue<'_>; 9] = [
    ("k1", Some("a")),
    ("k2", Some("b")),
    ("k3", Some("c")),
    ("k4", Some("d")),
    ("k5", Some("e")),
    ("k5", Some("f")),
    ("k5", Some("g")),
    ("k1", Some("A")),
    ("k2", Some("B")),
];
const THEN: [KeyValue<'_>; 2] = [("k3", None), ("k6", Some("h"))];

/// Section 5 of the contract, on the side of the log.
#[test]
fn the_worked_example() {
    let disk = formatted();
    let mut node = open(&disk, &options());
    node.put_each(1, &FIRST);
    node.run();
    // The active segment is not cleaned; what comes after begins another.
    let roll = CleanSettings { max_lag_ms: Some(0), ..settings() };
    let done = node.clean(&now(TIME + 20, 9), &roll).unwrap();
    assert_eq!(
        done.iter().map(|swept| (swept.upto, swept.removed)).collect::<Vec<_>>(),
        [(Offset(9), 4)]
    );
    assert_eq!(offsets(&mut node), [2, 3, 6, 7, 8]);
    assert_eq!((node.log.numbers(), node.log.cleaner_end()), (numbers(9, 9, 0), Offset(9)));
    let at_7 = state(&[("k3", Some("c")), ("k4", Some("d")), ("k5", Some("g"))]);
    assert_eq!(fold(&node.records(), 7), at_7, "k1 and k2 are missing");

    node.put_each(1, &THEN);
    node.run();
    let at_11 = state(&[
        ("k1", Some("A")),
        ("k2", Some("B")),
        ("k4", Some("d")),
        ("k5", Some("g")),
        ("k6", Some("h")),
    ]);
    assert_eq!(fold(&node.records(), 11), at_11);
    // Round 2: the value goes, the tombstone stays until its horizon.
    node.clean(&now(TIME + 40, 11), &roll).unwrap();
    assert_eq!(offsets(&mut node), [3, 6, 7, 8, 9, 10]);
    assert_eq!(node.log.numbers(), numbers(11, 11, 0));
    assert_eq!(node.clean(&now(TIME + 139, 11), &roll).unwrap(), []);
    // The horizon passes.
    node.clean(&now(TIME + 140, 11), &roll).unwrap();
    assert_eq!(offsets(&mut node), [3, 6, 7, 8, 10]);
    assert_eq!(node.log.numbers(), numbers(11, 11, 10));
    assert_eq!(fold(&node.records(), 11), at_11);
    assert_eq!(node.clean(&now(TIME + 10_000, 11), &roll).unwrap(), [], "nothing is left to do");

    // All of it is durable, and found again.
    disk.lose_unsynced();
    let (mut node, recovery) = Node::open(disk.clone(), options()).unwrap();
    assert_eq!(recovery.notes, []);
    assert_eq!((node.log.numbers(), node.log.cleaner_end()), (numbers(11, 11, 10), Offset(11)));
    assert_eq!(offsets(&mut node), [3, 6, 7, 8, 10]);
    assert_eq!(leftovers(&disk), [""; 0]);
    let checkpoint = disk.contents("cleaner-offset-checkpoint").unwrap();
    assert_eq!(checkpoint, b"0\n1\n__cluster_metadata 0 11\n");
}

/// Everything at once: the last segment is rolled whatever its age.
fn all() -> CleanSettings {
    CleanSettings { max_lag_ms: Some(0), ..settings() }
}

/// Starts a round and does its work; nothing is in force yet.
fn begin(
    node: &mut Node<MemoryDisk>,
    at: &quorate_log::CleanNow,
) -> (Vec<quorate_log::CleanedGroup>, quorate_log::Swept) {
    loop {
        match node.log.to_clean(at, &all()).expect("a round is due") {
            ToClean::Roll(job) => {
                node.jobs.push(*job);
                node.run();
            }
            ToClean::Round(round) => return sweep(&node.disk, *round).unwrap(),
        }
    }
}

/// Many overwrites of a few keys over several epochs and segments.
fn overwritten(disk: &MemoryDisk, options: &Options) -> Node<MemoryDisk> {
    let mut node = open(disk, options);
    node.elect(1);
    for number in 0..60u32 {
        let (a, b) = (format!("k{}", number % 7), format!("k{}", number % 5));
        let value = format!("v{number}");
        let second = if number % 9 == 0 { None } else { Some(value.as_str()) };
        node.put(1 + number / 25, &[(&a, Some(&value)), (&b, second)]);
    }
    node.run();
    node
}

/// I5, I6, H11: offsets, epochs, ends and control batches are what they were, and every place has
/// a batch; a reader of any size from any batch's begin gets what is left, joined.
#[test]
fn cleaning_changes_nothing_but_the_records_that_are_superseded() {
    let disk = formatted();
    let mut node = overwritten(&disk, &options());
    let records_before = node.records();
    let bytes = node.read(0, 120, 1 << 20);
    let begins: Vec<u64> =
        Batches::new(bytes.clone().into()).map(|batch| batch.unwrap().base().0).collect();
    let (epochs, end) = (node.log.epochs().clone(), node.log.end());
    let logs = || {
        let names = disk.list(PARTITION).unwrap();
        names.iter().filter(|name| name.ends_with(".log")).count()
    };
    let logs_before = logs();
    node.clean(&now(TIME + 1_000, 120), &all()).unwrap();
    assert_eq!((node.log.epochs(), node.log.end(), node.log.start()), (&epochs, end, Offset(0)));
    assert_eq!(fold(&node.records(), 120), fold(&records_before, 120));
    let left = node.records();
    assert!(left.len() <= 8, "{} records of {}", left.len(), records_before.len());
    assert!(left.iter().all(|(at, record)| records_before[at] == *record));
    assert!((2..logs_before / 2).contains(&logs()), "small neighbours became one: {}", logs());
    // From each place at which a follower may stand, it gets batches that begin right there.
    for from in &begins {
        for max_bytes in [1, 200, 1 << 20] {
            let bytes = node.read(*from, 120, max_bytes);
            let first = Batches::new(bytes.clone().into()).next().unwrap().unwrap();
            assert_eq!(first.base(), Offset(*from), "{max_bytes} bytes a read");
            let expected: Vec<_> = left.range(from..).collect();
            assert_eq!(records(&bytes).iter().collect::<Vec<_>>(), expected);
        }
    }
    common::check_indexes(&disk, 100);
    // Kafka's indexes and everything else are as recovery would have them.
    let (_, recovery) = Node::open(disk.clone(), options()).unwrap();
    assert_eq!((&recovery.notes[..], &recovery.epochs), (&[][..], &epochs));
    assert_eq!(quorate_log::verify(&mut disk.clone(), "").unwrap(), []);
}

/// A follower that copied a part before the cleaning goes on in the cleaned log, from memory and
/// from the disk, and carries its numbers on.
#[test]
fn a_follower_goes_on_from_the_middle_of_an_empty_batch() {
    for tail_bytes in [0, 1 << 20] {
        let disk = formatted();
        let mut leader = overwritten(&disk, &options());
        let before: Vec<_> = Batches::new(leader.read(0, 120, 1 << 20).into()).collect();
        leader.clean(&now(TIME + 1_000, 120), &all()).unwrap();
        let whole = leader.records();
        let mut checked = 0;
        for copied in (0..60).step_by(7) {
            let own = formatted();
            let mut follower = open(&own, &common::options(400, tail_bytes));
            for batch in &before[..copied] {
                follower.jobs.extend(follower.log.inherit(Came::Fetched(Cleaned::default())));
                follower.copy(batch.as_ref().unwrap());
            }
            follower.run();
            let bytes = leader.read(copied as u64 * 2, 120, 1 << 20);
            follower.jobs.extend(follower.log.inherit(Came::Fetched(leader.log.numbers())));
            for batch in Batches::new(bytes.into()) {
                follower.copy(&batch.unwrap());
            }
            follower.run();
            assert_eq!(fold(&follower.records(), 120), fold(&whole, 120));
            // Its own log is read from any of its batches on, too.
            let copies = follower.read(copied as u64 * 2 + 2, 120, 1);
            if !copies.is_empty() {
                let first = Batches::new(copies.into()).next().unwrap().unwrap();
                assert_eq!(first.base(), Offset(copied as u64 * 2 + 2));
                checked += 1;
            }
            let clean = if copied == 0 { 120 } else { 0 };
            let expected = numbers(120, clean, leader.log.numbers().horizon.0);
            assert_eq!(follower.log.numbers(), expected);
            own.lose_unsynced();
            let (follower, _) = Node::open(own, common::options(400, tail_bytes)).unwrap();
            assert_eq!(follower.log.numbers(), expected, "durable before the records");
            assert_eq!(follower.log.reading().required, Offset(120));
        }
        assert!(checked > 5);
    }
}

/// H4, I10: a read that was planned before a swap is void after it; one that is planned after it
/// finds the new file under both of its names, and memory forgets what is older.
#[test]
fn a_read_is_of_one_generation() {
    for tail_bytes in [0, 1 << 20] {
        let disk = formatted();
        let options = Options { tail_bytes, ..options() };
        let mut node = overwritten(&disk, &options);
        let (groups, swept) = begin(&mut node, &now(TIME + 1_000, 120));
        assert!(groups.len() > 1);
        assert_eq!(node.log.numbers(), Cleaned::default(), "nothing is in force");
        let last = groups.len() - 1;
        for (number, group) in groups.into_iter().enumerate() {
            let first = number == 0;
            let old = node.log.read(Offset(0), Offset(120), 1);
            let generation = node.log.generation();
            let job = node.log.swap(group).unwrap();
            node.log.check();
            assert!(node.log.generation() > generation);
            if let Read::Cold(old) = old {
                assert!(old.generation < node.log.generation());
                assert_eq!(old.numbers.dirty, if first { Offset(0) } else { Offset(120) });
            }
            let Read::Cold(plan) = node.log.read(Offset(0), Offset(120), 1 << 20) else {
                panic!("memory holds what was there before")
            };
            // `dirty` is told from the first swap on, `clean` not before the last.
            assert_eq!(plan.numbers, numbers(120, 0, node.log.numbers().horizon.0));
            let before = read_cold(&mut node.disk, &plan).unwrap();
            node.jobs.push(job);
            node.run();
            assert_eq!(read_cold(&mut node.disk, &plan).unwrap(), before);
            if number == last {
                node.jobs.extend(node.log.finish_round(&swept));
                node.run();
            }
        }
        assert_eq!(node.log.numbers(), numbers(120, 120, node.log.numbers().horizon.0));
        match node.log.read(Offset(0), Offset(120), 1) {
            Read::Cold(plan) => assert_eq!(plan.numbers, node.log.numbers()),
            Read::Hot(..) | Read::Nothing => panic!("it is on the disk"),
        }
    }
}

/// The memory of a round is bounded: then it ends where the keys do not fit any more, and the next
/// goes on from there.
#[test]
fn a_round_ends_where_its_memory_does() {
    let disk = formatted();
    let mut node = open(&disk, &options());
    for number in 0..100u32 {
        node.put(1, &[(&format!("k{}", number % 40), Some("v"))]);
    }
    node.run();
    let expected = fold(&node.records(), 100);
    let few = CleanSettings { dedupe_buffer_bytes: 24 * 36, ..all() };
    let done = node.clean(&now(TIME + 1_000, 100), &few).unwrap();
    let ends: Vec<u64> = done.iter().map(|swept| swept.upto.0).collect();
    assert_eq!(ends, [18, 36, 54, 72, 90, 100]);
    assert_eq!(node.log.numbers(), numbers(100, 100, 0));
    assert_eq!(node.records().len(), 40);
    assert_eq!(fold(&node.records(), 100), expected);
    // One batch of more keys than that is taken all the same.
    let many: Vec<String> = (0..50).map(|n| format!("k{n}")).collect();
    let batch: Vec<KeyValue<'_>> = many.iter().map(|key| (key.as_str(), Some("w"))).collect();
    node.put(1, &batch);
    node.run();
    node.clean(&now(TIME + 2_000, 150), &few).unwrap();
    assert_eq!((node.records().len(), node.log.cleaner_end()), (50, Offset(150)));
}

/// U: nothing above the end of what is committed, applied and durable, of the last segment, or
/// younger than the lag.
#[test]
fn a_round_ends_below_what_may_change_or_is_young() {
    let disk = formatted();
    let mut node = overwritten(&disk, &options());
    let ends: Vec<u64> = disk
        .list(PARTITION)
        .unwrap()
        .iter()
        .filter_map(|name| name.strip_suffix(".log")?.parse().ok())
        .collect();
    let upto =
        |node: &mut Node<MemoryDisk>, at: &quorate_log::CleanNow, settings: &CleanSettings| {
            let Some(ToClean::Round(round)) = node.log.to_clean(at, settings) else { return 0 };
            node.log.abandon_round();
            sweep(&node.disk, *round).unwrap().1.upto.0
        };
    for committed in 0..=120 {
        let below = ends.iter().rfind(|end| **end <= committed).unwrap();
        assert_eq!(upto(&mut node, &now(TIME + 1_000, committed), &settings()), *below);
    }
    assert_eq!(upto(&mut node, &now(TIME + 1_000, 9_999), &settings()), *ends.last().unwrap());
    // Batches have the time of their offset.
    for lag in (0..140).step_by(10) {
        let lagging = CleanSettings { min_lag_ms: lag, ..settings() };
        let old = TIME as u64 + 120 - lag;
        let first = ends.windows(2).find(|pair| lag > 0 && TIME as u64 + pair[1] - 2 > old);
        let expected = first.map_or(*ends.last().unwrap(), |pair| pair[0]);
        assert_eq!(upto(&mut node, &now(TIME + 120, 120), &lagging), expected, "lag {lag}");
    }
    // Half of it must be new.
    let half = CleanSettings { min_dirty_ratio: 0.5, ..settings() };
    assert_eq!(node.clean(&now(TIME + 1_000, 120), &half).unwrap().len(), 1);
    let cleaned = node.log.sizes().0;
    let mut rounds = 0;
    for number in 0..200 {
        node.put(3, &[(&format!("n{number}"), Some("v"))]);
        node.run();
        let end = node.log.end().0;
        let clean_before = node.log.cleaner_end();
        if !node.clean(&now(TIME + 1_000, end), &half).unwrap().is_empty() {
            rounds += 1;
            assert!(node.log.cleaner_end() > clean_before);
        }
    }
    assert!((2..20).contains(&rounds), "{rounds} rounds; {cleaned} bytes were clean");
}

/// A log whose `clean` is below its horizon, as two leaders left it, is cleaned through that, even
/// if its last segment must be ended for it, and whatever its ratio; but not above what is
/// committed.
#[test]
fn a_log_that_is_clean_below_its_horizon_is_cleaned_through_it_first() {
    let disk = formatted();
    let mut node = open(&disk, &options());
    for number in 0..10u64 {
        // From two leaders: one collected a tombstone at 6, the other was never cleaned.
        let from = if number < 4 { numbers(8, 8, 7) } else { numbers(0, 0, 0) };
        node.jobs.extend(node.log.inherit(Came::Fetched(from)));
        let bytes = keyed(Offset(number), 1, &[(&format!("k{}", number % 3), Some("v"))]);
        node.copy(&Batches::new(bytes).next().unwrap().unwrap());
    }
    node.run();
    assert_eq!(node.log.numbers(), numbers(8, 0, 7));
    let lazy =
        CleanSettings { min_dirty_ratio: 1.1, min_lag_ms: 1_000_000, ..CleanSettings::default() };
    assert!(node.log.to_clean(&now(TIME + 1_000, 6), &lazy).is_none(), "not committed");
    let done = node.clean(&now(TIME + 1_000, 10), &lazy).unwrap();
    assert_eq!(done.len(), 1);
    assert!(node.log.numbers().clean >= Offset(7), "{:?}", node.log.numbers());
    assert!(node.clean(&now(TIME + 1_000, 10), &lazy).unwrap().is_empty());
}

/// A tombstone waits for every voter and for this node's own machine, however old it is.
#[test]
fn a_tombstone_goes_only_below_its_bound() {
    let disk = formatted();
    let mut node = open(&disk, &options());
    node.put_each(1, &[("a", Some("1")), ("b", Some("1")), ("a", None), ("b", None)]);
    node.run();
    let at = |wall_ms, bound| quorate_log::CleanNow {
        tombstone_bound: Offset(bound),
        ..now(TIME + wall_ms, 4)
    };
    node.clean(&at(1_000, 0), &all()).unwrap();
    assert_eq!(offsets(&mut node), [2, 3]);
    node.clean(&at(5_000, 2), &all()).unwrap();
    assert_eq!((offsets(&mut node), node.log.numbers()), (vec![2, 3], numbers(4, 4, 0)));
    assert!(node.log.to_clean(&at(6_000, 2), &all()).is_none(), "it is known what is waited for");
    node.clean(&at(6_000, 3), &all()).unwrap();
    assert_eq!((offsets(&mut node), node.log.numbers()), (vec![3], numbers(4, 4, 3)));
    node.clean(&at(6_000, 4), &all()).unwrap();
    assert_eq!((offsets(&mut node), node.log.numbers()), (vec![], numbers(4, 4, 4)));
    assert_eq!(node.log.end(), Offset(4));
}

/// What a round brings after the log was given up is void, and its files can go.
#[test]
fn a_round_over_a_log_that_is_gone_is_void() {
    let disk = formatted();
    let mut node = overwritten(&disk, &options());
    let (groups, swept) = begin(&mut node, &now(TIME + 1_000, 120));
    let jobs = node.log.start_over();
    common::keyed::each(&mut node, jobs).unwrap();
    assert_eq!((node.log.end(), node.log.numbers()), (Offset(0), Cleaned::default()));
    for group in groups {
        let paths = node.log.swap(group).unwrap_err();
        assert_eq!(paths.len(), 3);
        quorate_log::remove_deleted(&mut node.disk, &paths);
    }
    assert_eq!(node.log.finish_round(&swept), None);
    assert_eq!(leftovers(&disk), [""; 0]);
    // It can be filled and cleaned again.
    node.put_each(5, &FIRST);
    node.run();
    node.clean(&now(TIME + 1_000, 9), &all()).unwrap();
    assert_eq!(offsets(&mut node), [2, 3, 6, 7, 8]);
}

/// A snapshot below the horizon is of no use: replayed from there the log lacks a deletion.
#[test]
fn snapshots_below_a_collected_tombstone_go() {
    let disk = formatted();
    let mut node = open(&disk, &options());
    node.put_each(1, &[("a", Some("1")), ("b", Some("1")), ("a", None), ("b", Some("2"))]);
    node.run();
    let snapshot = |end| {
        let id = quorate_base::OffsetEpoch::new(Offset(end), Epoch(1));
        quorate_log::SnapshotWriter::create(disk.clone(), PARTITION, id, TIME, &[])
            .unwrap()
            .freeze()
    };
    assert_eq!(node.log.frozen(snapshot(2).unwrap()), None);
    assert_eq!(node.log.frozen(snapshot(3).unwrap()), None);
    node.clean(&now(TIME + 1_000, 4), &all()).unwrap();
    assert_eq!(node.log.snapshots().len(), 2, "the tombstone is still there");
    node.clean(&now(TIME + 2_000, 4), &all()).unwrap();
    assert_eq!(node.log.numbers().horizon, Offset(3));
    let held: Vec<u64> = node.log.snapshots().iter().map(|held| held.id.offset.0).collect();
    assert_eq!(held, [3]);
    // One that was under way comes too late, also for a start that finds it.
    let job = node.log.frozen(snapshot(2).unwrap()).expect("it is taken away");
    let (_, recovery) = Node::open(disk.fork(), options()).unwrap();
    assert_eq!(recovery.snapshots.len(), 1);
    assert!(matches!(job, Job::Trim(_)));
    node.jobs.push(job);
    node.run();
    let names = disk.list(PARTITION).unwrap();
    assert_eq!(names.iter().filter(|name| name.ends_with(".checkpoint")).count(), 1, "{names:?}");
}

/// Records without a key, and control batches, stay for ever (H10).
#[test]
fn what_has_no_key_stays() {
    let disk = formatted();
    let mut node = open(&disk, &options());
    for base in 0..20u64 {
        let bytes = if base % 4 == 0 {
            let value = Vec::from([0u8; 34]);
            let leader = [(quorate_log::ControlType::LeaderChange, value.into())];
            quorate_log::control_batch(Offset(base), Epoch(1), TIME, &leader)
        } else {
            let mut batch = quorate_log::BatchBuilder::new(Offset(base), Epoch(1), TIME);
            let key = (base % 2 == 0).then_some(&b"same"[..]);
            batch.record(key, Some(b"v"), &[]);
            batch.finish()
        };
        node.jobs.extend(node.log.inherit(Came::Own));
        node.copy(&Batches::new(bytes).next().unwrap().unwrap());
    }
    node.run();
    node.clean(&now(TIME + 1_000, 20), &all()).unwrap();
    let bytes = node.read(0, 20, 1 << 20);
    let batches: Vec<_> = Batches::new(bytes.into()).map(Result::unwrap).collect();
    let controls: Vec<u64> = batches.iter().filter(|b| b.control()).map(|b| b.base().0).collect();
    assert_eq!(controls, [0, 4, 8, 12, 16]);
    assert_eq!(offsets(&mut node), [1, 3, 5, 7, 9, 11, 13, 15, 17, 18, 19]);
}

/// Rounds come for other reasons meanwhile; the horizon is that of the first pass (KIP-534).
#[test]
fn a_tombstone_stays_until_its_horizon_whatever_else_is_cleaned() {
    let disk = formatted();
    let mut node = open(&disk, &options());
    node.put_each(1, &[("a", Some("1")), ("a", None)]);
    node.run();
    for (wall_ms, left) in [(1_000, 1), (1_050, 2), (1_099, 2), (1_100, 1), (1_101, 1)] {
        let end = node.log.end().0;
        node.clean(&now(TIME + wall_ms, end), &all()).unwrap();
        assert_eq!(node.records().len(), left, "{wall_ms} ms");
        node.put(1, &[("b", Some("1"))]);
        node.run();
    }
}

/// What `quorate log dump` prints of all this.
#[test]
fn the_dump_shows_numbers_empty_batches_and_horizons() {
    let disk = formatted();
    let mut node = open(&disk, &options());
    node.put_each(1, &FIRST);
    node.put_each(1, &THEN);
    node.run();
    node.clean(&now(TIME + 40, 11), &all()).unwrap();
    let mut lines = Vec::new();
    let paths = quorate_log::files(&disk, "").unwrap();
    for path in paths.iter().filter(|path| !path.ends_with(".deleted")) {
        quorate_log::dump(&mut disk.clone(), path, &mut |fact| lines.push(fact.to_string()))
            .unwrap();
    }
    let count = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
    let said = "dirty: 11 clean: 11 horizon: 0 cleanerEnd: 11 required: 0 dmin: 0";
    assert_eq!(count(said), 1, "{lines:#?}");
    assert_eq!(count("kind: numbers of a cleaned log size: 64"), 1, "{lines:#?}");
    assert_eq!(count("topic: __cluster_metadata partition: 0 cleanedTo: 11"), 1, "{lines:#?}");
    assert_eq!(count("baseOffset: 0 lastOffset: 2 count: 0 "), 1, "{lines:#?}");
    let horizon = format!("isControl: false deleteHorizonMs: OptionalLong[{}] ", TIME + 140);
    assert_eq!(count(&horizon), 1, "{lines:#?}");
    assert_eq!(count("damaged"), 0, "{lines:#?}");
}
