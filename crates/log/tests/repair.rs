//! The repair of damaged logs: every byte that can be wrong, files that are short, empty or gone,
//! several of them at once, and the power cut at every step of the repair.
//!
//! What must come out is always the same: a log that opens without a word the second time, that
//! holds nothing but what was written, and that has not forgotten what it lost.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test ends where a fact is missing; a test may use files, threads and clocks"
)]

mod common;

use bytes::Bytes;
use common::{Node, PARTITION, formatted, snapshot};
use quorate_base::{Epoch, Offset, OffsetEpoch, Rng};
use quorate_log::{
    Batches, ControlType, Damage, Disk, Error, MemoryDisk, Note, Options, OsDisk, Place, Recovery,
    control_batch, recover, repair, snapshot_name, verify,
};
use std::collections::BTreeMap;

const MUST_REACH: &str = "__cluster_metadata-0/quorate-must-reach";

fn id(offset: u64, epoch: u32) -> OffsetEpoch {
    OffsetEpoch::new(Offset(offset), Epoch(epoch))
}

fn options() -> Options {
    Options { index_interval_bytes: 100, ..common::options(400, 1 << 20) }
}

fn path(name: &str) -> String {
    format!("{PARTITION}/{name}")
}

/// The mark is not synced by itself; a system writes it within half a minute.
fn settle(disk: &MemoryDisk) {
    let mark = path("quorate-synced");
    disk.put(&mark, &disk.contents(&mark).unwrap());
    disk.kill();
}

/// A disk before it is damaged, and its batches by offset.
struct Sound {
    name: &'static str,
    disk: MemoryDisk,
    batches: BTreeMap<u64, Vec<u8>>,
}

/// Twelve batches of three epochs in three segments: alone, with a snapshot in the middle, and
/// begun at that snapshot.
fn sound() -> Vec<Sound> {
    ["whole", "with a snapshot", "trimmed"].map(sound_of).into()
}

/// The same, after a power loss that left a synced mark from the time of the fifth batch.
fn behind_its_mark() -> Vec<Sound> {
    ["whole, its mark lags", "with a snapshot, its mark lags"].map(sound_of).into()
}

fn sound_of(name: &'static str) -> Sound {
    let disk = formatted();
    let (mut node, _) = Node::open(disk.clone(), options()).unwrap();
    let mut mark = Vec::new();
    for number in 0..12 {
        if number == 5 {
            mark = disk.contents(&path("quorate-synced")).unwrap();
        }
        if number % 4 == 0 {
            node.elect(1 + number / 4);
        }
        node.append(1, 1 + number / 4, 20);
        node.run();
    }
    let bytes = node.read(0, 12, 1 << 20);
    let batches = Batches::new(bytes.into()).map(|batch| {
        let batch = batch.unwrap();
        (batch.base().0, batch.bytes.to_vec())
    });
    let batches: BTreeMap<u64, Vec<u8>> = batches.collect();
    assert_eq!(batches.len(), 12);
    if !name.starts_with("whole") {
        let held = snapshot(&disk, id(6, 2));
        assert_eq!(node.log.frozen(held), None);
    }
    if name == "trimmed" {
        node.jobs.push(node.log.trim(Offset(6), &[]));
        node.run();
    }
    settle(&disk);
    if name.ends_with("its mark lags") {
        disk.put(&path("quorate-synced"), &mark);
    }
    assert_eq!(segments(&disk).len(), if name == "trimmed" { 2 } else { 3 });
    Sound { name, disk, batches }
}

fn segments(disk: &MemoryDisk) -> Vec<String> {
    let names = disk.list(PARTITION).unwrap();
    let mut names: Vec<String> = names.into_iter().filter(|name| name.ends_with(".log")).collect();
    names.sort();
    names
}

/// What must hold of a repaired disk.
fn judge(sound: &Sound, disk: &MemoryDisk, what: &str) -> Recovery {
    let what = format!("{}, {what}", sound.name);
    let recovery = repair(&mut disk.clone(), &options(), |_| true);
    let recovery = recovery.unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut again = recover(&mut disk.clone(), &options()).unwrap();
    assert_eq!(again.notes, [], "{what}");
    again.notes = recovery.notes.clone();
    assert_eq!(again, recovery, "{what}");

    let (start, end) = (recovery.start, recovery.end);
    assert!(end <= Offset(12), "{what}");
    if start > Offset::ZERO {
        assert!(recovery.snapshots.iter().any(|held| held.id.offset >= start), "{what}");
    }
    if recovery.last().log_order() < id(12, 3).log_order() {
        let reach = recovery.must_reach.unwrap_or_else(|| panic!("{what}: forgotten, up to {end}"));
        assert!(reach.log_order() >= id(12, 3).log_order(), "{what}: {reach}");
    }
    if recovery.must_reach.is_some() {
        // Who takes the note away does not set the replica free to vote.
        let mut freed = disk.fork();
        freed.remove(MUST_REACH).unwrap();
        let found = verify(&mut freed, "").unwrap();
        assert!(found.iter().any(|found| found.path == MUST_REACH), "{found:?}");
        let error = recover(&mut freed, &options()).unwrap_err().to_string();
        assert!(error.contains("quorate-must-reach") && error.contains("no file"), "{error}");
    }
    // Not further than a log can get.
    let reach = recovery.must_reach.unwrap_or_default();
    assert!(reach.epoch <= Epoch(3) && reach.offset < Offset(1_000), "{what}: {reach}");

    // Nothing that was not written; and it goes on.
    let (mut node, _) = Node::open(disk.clone(), options()).unwrap();
    let kept = node.read(start.0, end.0, 1 << 20);
    let expected: Vec<u8> =
        sound.batches.range(start.0..end.0).flat_map(|(_, bytes)| bytes.clone()).collect();
    assert!(kept == expected, "{what}: [{start}..{end}) is not what was written");
    node.append(1, 9, 20);
    node.run();
    disk.lose_unsynced();
    assert_eq!(recover(&mut disk.clone(), &options()).unwrap().end, end + 1, "{what}");
    recovery
}

#[test]
fn whichever_bit_of_a_segment_is_wrong_it_is_repaired_and_not_forgotten() {
    for sound in sound().into_iter().chain(behind_its_mark()) {
        let mut set_aside = 0;
        let mut names = segments(&sound.disk);
        if sound.name.ends_with("its mark lags") {
            // Above it damage cannot be told from a write that was cut short.
            names.truncate(1);
        }
        for name in names {
            let bytes = sound.disk.contents(&path(&name)).unwrap();
            for bit in (0..bytes.len() * 8).step_by(3) {
                let disk = sound.disk.fork();
                disk.flip_bit(&path(&name), bit / 8, (bit % 8) as u32);
                let recovery = judge(&sound, &disk, &format!("bit {bit} of {name}"));
                let aside = |note: &Note| matches!(note, Note::SetAside { .. });
                set_aside += usize::from(recovery.notes.iter().any(aside));
                assert!(
                    recovery.must_reach.is_some() || recovery.last() == id(12, 3),
                    "bit {bit} of {name}"
                );
            }
        }
        assert!(set_aside > 200, "{}: {set_aside}", sound.name);
    }
}

#[test]
fn whichever_byte_of_the_epoch_table_is_wrong_the_log_opens() {
    for sound in sound() {
        let file = path("leader-epoch-checkpoint");
        let bytes = sound.disk.contents(&file).unwrap();
        let mut repaired = 0;
        for at in 0..bytes.len() {
            for digit in *b"0123456789\nx" {
                let disk = sound.disk.fork();
                let mut bytes = bytes.clone();
                bytes[at] = digit;
                disk.put(&file, &bytes);
                let recovery = judge(&sound, &disk, &format!("byte {at} becomes {digit}"));
                repaired += usize::from(recovery.must_reach.is_some());
            }
        }
        assert!(repaired > 10, "{}: {repaired}", sound.name);
    }
}

/// A wound: its name and how it is dealt.
type Wound = (String, Box<dyn Fn(&MemoryDisk)>);

/// What is left of a file of which only `keep` bytes are. What is gone already stays gone.
fn cut(disk: &MemoryDisk, file: &str, keep: usize) {
    if let Some(bytes) = disk.contents(file) {
        disk.put(file, &bytes[..keep.min(bytes.len())]);
    }
}

fn wounds(sound: &Sound) -> Vec<Wound> {
    let mut wounds: Vec<Wound> = Vec::new();
    let mut wound = |what: String, deal: Box<dyn Fn(&MemoryDisk)>| wounds.push((what, deal));
    let mut files = segments(&sound.disk);
    let segments = files.len();
    if sound.name != "whole" {
        files.push(snapshot_name(id(6, 2)));
    }
    for (at, name) in files.into_iter().enumerate() {
        let file = path(&name);
        let len = sound.disk.contents(&file).unwrap().len();
        for keep in [0, len - 9] {
            let file = file.clone();
            let deal = move |disk: &MemoryDisk| cut(disk, &file, keep);
            wound(format!("{keep} bytes left of {name}"), Box::new(deal));
        }
        // An offset, an epoch, a length, a record.
        for flip in [3, 14, 102, len - 9] {
            let file = file.clone();
            let deal = move |disk: &MemoryDisk| {
                if disk.contents(&file).is_some_and(|bytes| bytes.len() > flip) {
                    disk.flip_bit(&file, flip, 5);
                }
            };
            wound(format!("a bit of byte {flip} of {name}"), Box::new(deal));
        }
        // Without any segment it is no log's directory.
        if at > 0 {
            let deal = move |disk: &MemoryDisk| drop(disk.clone().remove(&file));
            wound(format!("{name} is gone"), Box::new(deal));
        }
    }
    assert!(segments > 1);
    let table = path("leader-epoch-checkpoint");
    let deal = move |disk: &MemoryDisk| {
        let text = String::from_utf8(disk.contents(&table).unwrap()).unwrap();
        disk.put(&table, text.replace("\n3 8\n", "\n4 8\n").as_bytes());
    };
    wound("the table names another epoch".to_owned(), Box::new(deal));
    wounds
}

/// T3, T8, T16: one wound, and each two of them.
#[test]
fn files_that_are_short_empty_or_gone_are_repaired_two_at_once_too() {
    for sound in sound() {
        let wounds = wounds(&sound);
        for (first, wound) in &wounds {
            let disk = sound.disk.fork();
            wound(&disk);
            judge(&sound, &disk, first);
            for (second, other) in &wounds {
                let disk = sound.disk.fork();
                wound(&disk);
                other(&disk);
                judge(&sound, &disk, &format!("{first} and {second}"));
            }
        }
        assert!(wounds.len() > 12, "{}", wounds.len());
    }
}

/// The power goes after each step of the repair, in several ways, and again within the second one.
#[test]
fn a_repair_that_is_cut_short_anywhere_is_finished_by_the_next() {
    let mut rng = Rng::new(7);
    for (at, sound) in sound().into_iter().enumerate() {
        // Each second one, of each disk others.
        for (name, wound) in wounds(&sound).into_iter().skip(at % 2).step_by(2) {
            let wounded = sound.disk.fork();
            wound(&wounded);
            wounded.kill();
            let mut cuts = 0;
            for power in 0.. {
                let disk = wounded.fork();
                disk.limit_power(Some(power));
                let finished = repair(&mut disk.clone(), &options(), |_| true).is_ok();
                for way in 0..3 {
                    let disk = disk.fork();
                    match way {
                        0 => disk.kill(),
                        _ => disk.crash(&mut rng),
                    }
                    if way == 2 {
                        disk.limit_power(Some(rng.below(power + 8)));
                        let _ = repair(&mut disk.clone(), &options(), |_| true);
                        disk.crash(&mut rng);
                    }
                    judge(&sound, &disk, &format!("{name}, cut at {power}, way {way}"));
                }
                cuts += 1;
                if finished {
                    break;
                }
            }
            assert!(cuts > 2, "{name}: {cuts} cuts only");
        }
    }
}

/// A record of an epoch that no table names any more may have been confirmed: the epoch that the
/// election file knows is the least that can be trusted.
#[test]
fn without_an_epoch_table_the_election_file_says_how_far_the_epochs_went() {
    let sound = sound_of("whole");
    let disk = sound.disk.fork();
    // All of epoch 3, which begins in the last segment, and the only file that names it.
    let last = path(segments(&disk).last().unwrap());
    let bytes = disk.contents(&last).unwrap();
    let mut at = 0;
    while at < bytes.len() {
        disk.flip_bit(&last, at + 70, 2);
        at += 12 + u32::from_be_bytes(*bytes[at + 8..].first_chunk().unwrap()) as usize;
    }
    disk.put(&path("leader-epoch-checkpoint"), b"0\nrotten\n");
    let recovery = judge(&sound, &disk, "all of the last segment and the table");
    assert_eq!(recovery.must_reach, Some(id(12, 3)));
    assert!(recovery.last().epoch < Epoch(3), "{:?}", recovery.last());
}

#[test]
fn where_nobody_else_has_it_nothing_is_touched() {
    let sound = sound_of("with a snapshot");
    let disk = sound.disk.fork();
    disk.flip_bit(&path(&segments(&disk)[2]), 40, 1);
    let (before, mut asked) = (disk.list(PARTITION).unwrap(), 0);
    let refused = repair(&mut disk.clone(), &options(), |head| {
        asked += 1;
        !head.is_empty()
    });
    assert!(Damage::of(&refused.unwrap_err()).is_some());
    assert_eq!((asked, disk.list(PARTITION).unwrap()), (1, before));
}

/// A node that founded a quorum alone is not alone for ever, and one among others may be in the
/// end.
#[test]
fn the_latest_voters_that_can_be_read_say_whether_others_have_it() {
    let disk = formatted();
    let (mut node, _) = Node::open(disk.clone(), options()).unwrap();
    node.elect(1);
    for round in 0..4_u8 {
        node.append(3, 1, 20);
        let voters = (ControlType::KRaftVoters, Bytes::from(vec![round; 4]));
        let base = node.log.end();
        let bytes = control_batch(base, Epoch(1), 0, &[voters]);
        node.jobs.push(node.log.append(base, base + 1, Epoch(1), bytes));
        node.run();
    }
    settle(&disk);
    let asked = |segment: usize, bytes: &[usize]| {
        let (disk, mut asked) = (disk.fork(), Vec::new());
        let segment = path(&segments(&disk)[segment]);
        bytes.iter().for_each(|at| disk.flip_bit(&segment, *at, 1));
        let refused = repair(&mut disk.clone(), &options(), |said| {
            asked.extend(said.iter().map(|(_, value)| value[0]));
            false
        });
        assert!(Damage::of(&refused.unwrap_err()).is_some());
        asked
    };
    // In front of the damage and behind it, but not what is damaged itself.
    assert_eq!(asked(0, &[40]), [0, 1, 2, 3]);
    let last = disk.contents(&path(segments(&disk).last().unwrap())).unwrap().len();
    assert_eq!(asked(segments(&disk).len() - 1, &[40, last - 2]), [0, 1, 2]);
}

#[test]
fn what_cannot_be_repaired_is_refused_and_nothing_is_touched() {
    let sound = sound_of("whole");
    for file in ["quorum-state", "quorate-must-reach"] {
        let disk = sound.disk.fork();
        disk.put(&path(file), b"rotten");
        disk.flip_bit(&path(&segments(&disk)[0]), 200, 1);
        let before: Vec<_> = disk.list(PARTITION).unwrap();
        let error = repair(&mut disk.clone(), &options(), |_| true).unwrap_err();
        let Error::Malformed { path: named, .. } = &error else { panic!("{error}") };
        assert!(named.ends_with(file), "{error}");
        assert!(Damage::of(&error).is_none());
        assert_eq!(disk.list(PARTITION).unwrap(), before);
    }
}

/// Told on one line: what was wrong, what was done, what that means, where the rest is.
#[test]
fn the_note_says_what_was_wrong_and_what_it_means() {
    let sound = sound_of("trimmed");
    let disk = sound.disk.fork();
    disk.put(&path(&snapshot_name(id(6, 2))), b"");
    let refused = recover(&mut disk.fork(), &options()).unwrap_err();
    let Error::Uncovered { start: Offset(6), newest: None, aside: Some(aside), .. } = &refused
    else {
        panic!("{refused}")
    };
    assert_eq!(**aside, *format!("{}.damaged", snapshot_name(id(6, 2))));
    assert_eq!(Damage::of(&refused).unwrap().place, Place::Uncovered);
    let recovery = repair(&mut disk.clone(), &options(), |_| true).unwrap();
    let told: Vec<String> = recovery.notes.iter().map(ToString::to_string).collect();
    let [first, second] = &told[..] else { panic!("{told:?}") };
    assert!(first.contains(".checkpoint") && first.contains("no whole snapshot"), "{first}");
    for part in ["begins at offset 6", "must-reach=12@3", "is not elected", ".damaged"] {
        assert!(second.contains(part), "{second}");
    }
    // The reason is still known at later starts, until the log is back.
    assert_eq!(disk.contents(MUST_REACH).map(|bytes| bytes.len()), Some(24));
    assert_eq!((recovery.start, recovery.end), (Offset(0), Offset(0)));
}

fn verified(disk: &MemoryDisk) -> Vec<String> {
    verify(&mut disk.clone(), "").unwrap().iter().map(ToString::to_string).collect()
}

/// T8: whoever looks at the files is told the same.
#[test]
fn verify_knows_trimmed_logs_missing_snapshots_and_what_a_log_must_reach() {
    for sound in sound() {
        assert_eq!(verified(&sound.disk), [""; 0], "{}", sound.name);
        // A log that begins and ends behind a snapshot.
        let disk = sound.disk.fork();
        snapshot(&disk, id(40, 3));
        recover(&mut disk.clone(), &options()).unwrap();
        assert_eq!(verified(&disk), [""; 0], "{}", sound.name);
    }
    let trimmed = sound_of("trimmed").disk;
    trimmed.clone().remove(&path(&snapshot_name(id(6, 2)))).unwrap();
    let [told] = &verified(&trimmed)[..] else { panic!("{:?}", verified(&trimmed)) };
    assert!(told.contains("where the log begins"), "{told}");

    let disk = sound_of("trimmed").disk;
    disk.put(&path(&snapshot_name(id(6, 2))), b"");
    // That the log begins there follows from it, and is not told as well.
    let [told] = &verified(&disk)[..] else { panic!("{:?}", verified(&disk)) };
    assert!(
        told.contains(".checkpoint: at byte 0: expected SnapshotHeader, found nothing"),
        "{told}"
    );
    repair(&mut disk.clone(), &options(), |_| true).unwrap();
    let [told] = &verified(&disk)[..] else { panic!("{:?}", verified(&disk)) };
    assert!(told.contains("a log up to 12@3") && told.contains("its end at 0@0"), "{told}");
    // Its mark knows that there was such a file.
    disk.clone().remove(&path("quorate-must-reach")).unwrap();
    let [told] = &verified(&disk)[..] else { panic!("{:?}", verified(&disk)) };
    assert!(
        told.contains("quorate-must-reach: at byte 0") && told.ends_with("found no file"),
        "{told}"
    );
    assert!(recover(&mut disk.clone(), &options()).is_err(), "recovery agrees");
}

/// Found by somebody who took the mark away: whole batches behind damage were then cut as a torn
/// tail.
#[test]
fn without_a_mark_what_goes_on_behind_damage_is_no_torn_tail() {
    let sound = sound_of("whole");
    let mut disk = sound.disk.fork();
    let last = segments(&disk).pop().unwrap();
    disk.remove(&path("quorate-synced")).unwrap();
    assert_eq!(recover(&mut disk.fork(), &options()).unwrap().end, Offset(12), "nothing is wrong");

    disk.flip_bit(&path(&last), 100, 0);
    let found = verify(&mut disk.fork(), "").unwrap();
    let told = |found: &quorate_log::Finding| found.path == path(&last) && !found.mends();
    assert!(found.iter().any(told), "{found:?}");
    let error = recover(&mut disk.fork(), &options()).unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    let recovery = judge(&sound, &disk, "without a mark");
    assert_eq!(recovery.must_reach, Some(id(12, 3)));

    // Nor does it begin anew without both, beside what was set aside.
    disk.remove(&path("quorate-synced")).unwrap();
    disk.remove(MUST_REACH).unwrap();
    let error = recover(&mut disk.fork(), &options()).unwrap_err();
    assert!(error.to_string().contains("quorate-must-reach"), "{error}");
}

/// Frozen snapshots are read-only, which must not keep a damaged one from being set aside; and what
/// cannot be read at all is an error of the disk, never taken for damage.
#[test]
fn on_a_real_disk_a_read_only_snapshot_is_set_aside_and_an_unreadable_one_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let root = std::env::temp_dir().join(format!("quorate-repair-{}", std::process::id()));
    let sound = sound_of("trimmed");
    std::fs::create_dir_all(root.join(PARTITION)).unwrap();
    for name in sound.disk.list(PARTITION).unwrap() {
        let bytes = sound.disk.contents(&path(&name)).unwrap();
        std::fs::write(root.join(path(&name)), bytes).unwrap();
    }
    let mut disk = OsDisk::new(&root);
    recover(&mut disk, &options()).unwrap();
    let file = root.join(path(&snapshot_name(id(6, 2))));
    std::fs::write(&file, b"rotten").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o400)).unwrap();
    let recovery = repair(&mut disk, &options(), |_| true).unwrap();
    assert_eq!((recovery.end, recovery.must_reach), (Offset(0), Some(id(12, 3))));
    assert!(!file.exists());
    let aside = std::fs::read(file.with_extension("checkpoint.damaged")).unwrap();
    assert_eq!(aside, b"rotten");

    std::fs::create_dir(&file).unwrap();
    let error = repair(&mut disk, &options(), |_| true).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    assert!(error.to_string().contains(&snapshot_name(id(6, 2))), "{error}");
    std::fs::remove_dir_all(root).unwrap();
}
