//! What [`verify`] finds in whole directories (nothing), in Kafka's (nothing), and in damaged ones:
//! each flipped bit that matters, with its file and its place; and that it never changes a byte.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test ends where a fact is missing; a test may use files, threads and clocks"
)]

mod common;

use common::{Node, PARTITION, formatted, kafka, options};
use quorate_base::{Epoch, Offset, OffsetEpoch};
use quorate_log::{
    Disk, Finding, MemoryDisk, Mode, Operation, Remedy, SnapshotWriter, files, recover, verify,
};

const CHANGES: [Operation; 6] = [
    Operation::Write,
    Operation::Truncate,
    Operation::Rename,
    Operation::Remove,
    Operation::CreateDir,
    Operation::Sync,
];

fn found(disk: &MemoryDisk) -> Vec<Finding> {
    let before = CHANGES.map(|change| disk.count(change));
    let findings = verify(&mut disk.clone(), "").unwrap();
    assert_eq!(CHANGES.map(|change| disk.count(change)), before, "it only reads");
    findings
}

#[test]
fn nothing_is_wrong_with_what_kafka_wrote_nor_with_what_recovery_makes_of_it() {
    for name in ["static/c1", "static/c2", "dynamic/c1", "dynamic/c3", "dynamic/c4"] {
        let mut disk = kafka(name);
        assert_eq!(found(&disk), [], "{name}");
        recover(&mut disk, &options(1 << 30, 0)).unwrap();
        assert_eq!(found(&disk), [], "{name} once opened");
    }
    // A broker, which has two directories; the log is in one of them.
    assert_eq!(found(&kafka("dynamic/b1/d1")), []);
    assert_eq!(found(&kafka("dynamic/b1/d2")), []);
}

/// Several segments and epochs.
fn written() -> MemoryDisk {
    let (mut node, _) = Node::open(formatted(), options(6_000, 0)).unwrap();
    for epoch in 1..5 {
        node.elect(epoch);
        node.append(1, epoch, 2_000);
        node.append(3, epoch, 300);
        node.run();
    }
    node.disk
}

#[test]
fn every_flipped_bit_of_a_log_is_found_in_its_file_and_no_other() {
    let disk = written();
    assert_eq!(found(&disk), []);
    let logs: Vec<String> =
        files(&disk, "").unwrap().into_iter().filter(|path| path.ends_with(".log")).collect();
    assert!(logs.len() > 1, "{logs:?}");
    let mut flips = 0;
    for path in &logs {
        let len = disk.contents(path).unwrap().len();
        for at in (0..len).filter(|at| at % 2_300 < 70 || at % 41 == 0) {
            let disk = disk.fork();
            disk.flip_bit(path, at, (at % 8) as u32);
            let findings = found(&disk);
            let damage: Vec<&Finding> = findings.iter().filter(|one| !one.mends()).collect();
            // An epoch lies outside of the checksum: only the epoch table contradicts it.
            let named = damage.iter().any(|one| one.path == *path || one.path.contains("epoch"));
            assert!(named, "{path} at byte {at}: {findings:?}");
            flips += 1;
        }
    }
    assert!(flips > 500, "{flips} flips");
}

#[test]
fn a_torn_tail_is_told_from_damage() {
    let disk = written();
    let path = {
        let paths = files(&disk, PARTITION).unwrap();
        paths.into_iter().rfind(|path| path.ends_with(".log")).unwrap()
    };
    let mut torn = disk.fork();
    let len = disk.contents(&path).unwrap().len() as u64;
    let mut file = torn.open(&path, Mode::Write).unwrap();
    torn.append(&mut file, &[vec![0; 30].into()]).unwrap();
    let findings = found(&torn);
    let line = format!(
        "{path}: at byte {len}: expected the batch at offset 16, found 30 bytes of 61 \
         (mended at the next start)"
    );
    assert_eq!(findings.iter().map(Finding::to_string).collect::<Vec<_>>(), [line]);
    recover(&mut torn, &options(6_000, 0)).unwrap();
    assert_eq!(found(&torn), []);

    let mut cut = disk.fork();
    let mut file = cut.open(&path, Mode::Write).unwrap();
    cut.truncate(&mut file, len - 1).unwrap();
    let findings = found(&cut);
    assert!(findings.iter().any(|one| !one.mends() && one.path == path), "{findings:?}");
    assert!(recover(&mut cut, &options(6_000, 0)).is_err(), "recovery agrees");
}

#[test]
fn other_files_are_judged_too() {
    let check = |path: &str, bytes: &[u8], mends: bool, expect: &str| {
        let mut disk = written();
        let mut file = disk.open(path, Mode::Create).unwrap();
        disk.append(&mut file, &[bytes.to_vec().into()]).unwrap();
        let findings = found(&disk);
        assert_eq!(findings.len(), 1, "{path}: {findings:?}");
        assert_eq!((findings[0].path.as_str(), findings[0].mends()), (path, mends));
        let text = findings[0].to_string();
        assert!(text.starts_with(&format!("{path}: {expect}")), "{text}");
        assert_eq!(
            recover(&mut disk, &options(6_000, 0)).is_ok(),
            mends || path == "meta.properties"
        );
    };
    let inner = |name: &str| format!("{PARTITION}/{name}");
    check("meta.properties", b"version=1", false, "at byte 9: expected a line cluster.id=");
    check(&inner("quorum-state"), b"{", false, "at byte 1: expected a string");
    check(&inner("leader-epoch-checkpoint"), b"0\n", true, "at byte 2: expected the number");
    let epochs = b"0\n4\n1 0\n2 4\n3 9\n4 12\n";
    check(&inner("leader-epoch-checkpoint"), epochs, false, "at byte 0: expected epoch 3 from 8");
    check(
        &inner("quorate-synced"),
        b"",
        true,
        "at byte 0: expected a mark, found none that can be believed",
    );
    let index = [0, 0, 0, 1, 0, 0, 0, 9];
    check(&inner("00000000000000000000.index"), &index, true, "at byte 0: expected the place");

    let disk = MemoryDisk::default();
    disk.put("notes.txt", b"x");
    assert_eq!(found(&disk)[0].expected, "the files of a node");
}

#[test]
fn a_gap_between_segments_and_a_snapshot_without_its_end_are_found() {
    let mut disk = kafka("dynamic/c3");
    let name = format!("{PARTITION}/00000000000000000154-0000000001.checkpoint");
    let len = disk.contents(&name).unwrap().len() as u64;
    let mut file = disk.open(&name, Mode::Write).unwrap();
    // The footer's batch is the last 75 bytes.
    disk.truncate(&mut file, len - 75).unwrap();
    let findings = found(&disk);
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((finding.path.as_str(), finding.expected.as_str()), (&name[..], "SnapshotFooter"));
    // The log begins at 0 and is whole: nobody needs it.
    assert_eq!(finding.remedy, Remedy::NextStart);
    let mut started = disk.fork();
    recover(&mut started, &options(1 << 30, 0)).unwrap();
    assert_eq!(found(&started), []);
    // Without the log somebody would.
    let log = format!("{PARTITION}/00000000000000000000.log");
    let mut file = disk.open(&log, Mode::Write).unwrap();
    disk.write_at(&mut file, 100, b"x").unwrap();
    let all = found(&disk);
    assert!(all.len() == 2 && all.iter().all(|one| one.remedy == Remedy::Leader), "{all:?}");

    let mut disk = written();
    let logs: Vec<String> =
        files(&disk, "").unwrap().into_iter().filter(|path| path.ends_with(".log")).collect();
    assert!(logs.len() > 2);
    disk.remove(&logs[1]).unwrap();
    let findings = found(&disk);
    let [gap] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!(
        gap.to_string(),
        format!(
            "{}: at byte 0: expected the records from offset 5 to below 12, found no file",
            logs[1]
        )
    );
    assert!(!gap.mends());
}

/// Found by the fuzz target `log-verify`: without a mark nothing tells a torn tail from damage, so
/// recovery refuses both, and so does this.
#[test]
fn a_torn_tail_is_damage_where_no_mark_can_be_read() {
    let mut disk = written();
    let path = {
        let paths = files(&disk, PARTITION).unwrap();
        paths.into_iter().rfind(|path| path.ends_with(".log")).unwrap()
    };
    let mut file = disk.open(&path, Mode::Write).unwrap();
    disk.append(&mut file, &[vec![0; 30].into()]).unwrap();
    disk.put(&format!("{PARTITION}/quorate-synced"), &[0; 100]);
    let findings = found(&disk);
    assert!(findings.iter().any(|one| !one.mends() && one.path == path), "{findings:?}");
    assert!(recover(&mut disk, &options(6_000, 0)).is_err(), "recovery agrees");
}

/// All that is damaged, a line each.
fn damage(disk: &MemoryDisk) -> Vec<String> {
    let findings = found(disk);
    findings.iter().filter(|one| !one.mends()).map(Finding::to_string).collect()
}

fn logs(disk: &MemoryDisk) -> Vec<String> {
    files(disk, "").unwrap().into_iter().filter(|path| path.ends_with(".log")).collect()
}

#[test]
fn one_damage_is_told_once() {
    let disk = written();
    let logs = logs(&disk);
    assert!(logs.len() > 2, "{logs:?}");
    let (mut flips, mut twice) = (0, Vec::new());
    for path in &logs {
        let len = disk.contents(path).unwrap().len();
        for at in (0..len).filter(|at| at % 2_300 < 70 || at % 41 == 0) {
            let disk = disk.fork();
            disk.flip_bit(path, at, (at % 8) as u32);
            let damage = damage(&disk);
            if damage.len() != 1 {
                twice.push((path, at, damage));
            }
            flips += 1;
        }
        // Cut anywhere, at the end of a batch too.
        for keep in (0..len as u64).filter(|keep| keep % 97 == 0) {
            let mut disk = disk.fork();
            let mut file = disk.open(path, Mode::Write).unwrap();
            disk.truncate(&mut file, keep).unwrap();
            let damage = damage(&disk);
            if damage.len() != 1 {
                twice.push((path, keep as usize, damage));
            }
        }
        let mut disk = disk.fork();
        disk.remove(path).unwrap();
        assert_eq!(damage(&disk).len(), 1, "without {path}: {:?}", damage(&disk));
    }
    assert!(flips > 500, "{flips} flips");
    assert!(twice.is_empty(), "{}: {:#?}", twice.len(), &twice[..twice.len().min(9)]);
}

#[test]
fn an_epoch_that_rotted_is_named_where_it_lies() {
    let disk = written();
    // In each epoch a batch of one record, then one of three.
    let logs = logs(&disk);
    let mut batches = Vec::new();
    for path in &logs {
        let bytes = disk.contents(path).unwrap();
        let mut at = 0;
        while at < bytes.len() {
            batches.push((path.clone(), at));
            let length = bytes[at + 8..at + 12].first_chunk().unwrap();
            at += 12 + u32::from_be_bytes(*length) as usize;
        }
    }
    assert_eq!(batches.len(), 8);
    for (index, (path, at)) in batches.iter().enumerate() {
        let disk = disk.fork();
        // The last byte of the epoch: far above all others.
        disk.flip_bit(path, at + 15, 6);
        let damage = damage(&disk);
        let epoch = index / 2 + 1;
        let line = format!(
            "{path}: at byte {at}: expected leader epoch {epoch}, as leader-epoch-checkpoint has it, found {}",
            epoch + 64
        );
        assert_eq!(damage, [line], "batch {index}");
    }
    // Where either of two bits may be the wrong one both are named.
    let table = format!("{PARTITION}/leader-epoch-checkpoint");
    let first_of_3 = &batches[4];
    disk.put(&table, b"0\n4\n1 0\n2 4\n3 9\n4 12\n");
    let line = format!(
        "{table}: at byte 0: expected epoch 3 from 8, found epoch 3 from 9; or the batch at byte {} of {} is wrong, which has epoch 3",
        first_of_3.1,
        first_of_3.0.rsplit('/').next().unwrap()
    );
    assert_eq!(damage(&disk), [line]);
    // No batch alone explains that.
    disk.put(&table, b"0\n4\n1 0\n2 4\n3 8\n6 12\n");
    let line = format!("{table}: at byte 0: expected epoch 4 from 12, found epoch 6 from 12");
    assert_eq!(damage(&disk), [line]);
}

#[test]
fn a_file_that_is_not_there_is_missed() {
    let disk = written();
    let inner = |name: &str| format!("{PARTITION}/{name}");
    let found_without = |names: &[&str]| {
        let mut disk = disk.fork();
        names.iter().for_each(|name| disk.remove(name).unwrap());
        let found = found(&disk);
        let told: Vec<_> = found.iter().map(|one| (one.path.clone(), one.remedy)).collect();
        assert!(found.iter().all(|one| one.found == "no file"), "{found:?}");
        (told, recover(&mut disk, &options(6_000, 0)).is_ok())
    };
    let logs = logs(&disk);
    let all: Vec<&str> = logs.iter().map(String::as_str).collect();
    for (without, path, remedy, starts) in [
        (&["meta.properties"][..], "meta.properties", Remedy::Identity, true),
        (&[&inner("partition.metadata")], &inner("partition.metadata"), Remedy::Identity, true),
        // The caller of recovery refuses: see `start` of the node.
        (&[&inner("quorum-state")], &inner("quorum-state"), Remedy::Replace, true),
        (&all, all[all.len() - 1], Remedy::Replace, false),
        (&all[1..2], all[1], Remedy::Leader, false),
        (&all[..1], all[0], Remedy::Leader, false),
        (
            &[&inner("leader-epoch-checkpoint")],
            &inner("leader-epoch-checkpoint"),
            Remedy::NextStart,
            true,
        ),
        (
            &[&inner("00000000000000000000.index")],
            &inner("00000000000000000000.index"),
            Remedy::NextStart,
            true,
        ),
        (
            &[&inner("00000000000000000000.timeindex")],
            &inner("00000000000000000000.timeindex"),
            Remedy::NextStart,
            true,
        ),
    ] {
        let expected = (vec![(path.to_owned(), remedy)], starts);
        assert_eq!(found_without(without), expected, "without {without:?}");
    }
    // Who has no mark may be Kafka; who has a reserve as well is one of ours.
    let mut unmarked = disk.fork();
    unmarked.remove(&inner("quorate-synced")).unwrap();
    assert_eq!(found(&unmarked), []);
    unmarked.put(&inner("quorate-reserve"), b"");
    let missed = found(&unmarked);
    let [finding] = &missed[..] else { panic!("{missed:?}") };
    assert_eq!((&finding.path, finding.remedy), (&inner("quorate-synced"), Remedy::NextStart));
    // Of the whole folder nothing is left.
    let lost =
        found_without(&files(&disk, PARTITION).unwrap().iter().map(|n| &**n).collect::<Vec<_>>());
    assert_eq!(lost, (vec![(PARTITION.to_owned(), Remedy::Replace)], false));
    // Nothing was promised by a node that never had a record.
    assert_eq!(found(&formatted()), []);
}

/// Found by somebody who named the directory of all nodes of `quorate dev`: their logs lay too deep
/// to be seen, and were missed.
/// With a snapshot that stands for them, and without.
#[test]
fn a_start_and_verify_name_the_same_first_segment_that_is_not_there() {
    for snapshot in [true, false] {
        let disk = written();
        let first = logs(&disk)[0].clone();
        disk.clone().remove(&first).unwrap();
        if snapshot {
            let id = OffsetEpoch::new(Offset(16), Epoch(4));
            let writer = SnapshotWriter::create(disk.clone(), PARTITION, id, 1_000, &[]).unwrap();
            writer.freeze().unwrap();
        }
        let findings = found(&disk);
        assert_eq!(findings.iter().map(|one| &one.path).collect::<Vec<_>>(), [&first]);
        let error = recover(&mut disk.clone(), &options(6_000, 0)).unwrap_err().to_string();
        assert!(error.contains(&format!("{first} is missing")), "{error}");
    }
}

#[test]
fn a_log_that_lies_too_deep_to_be_seen_is_not_missed() {
    let disk = written();
    for above in ["node-1/data", "dev/node-1/data", "a/b/c"] {
        let deep = MemoryDisk::default();
        for path in quorate_log::files(&disk, "").unwrap() {
            deep.put(&format!("{above}/{path}"), &disk.contents(&path).unwrap());
        }
        assert_eq!(verify(&mut deep.clone(), "").unwrap(), [], "{above}");
    }
    let mut deep = MemoryDisk::default();
    deep.put("node-1/data/meta.properties", &disk.contents("meta.properties").unwrap());
    let [found] = &verify(&mut deep, "").unwrap()[..] else { panic!("nothing is missed") };
    assert_eq!(found.path, format!("node-1/data/{PARTITION}"));
}
