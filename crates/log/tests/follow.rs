//! Who follows a log through its files sees every batch once, waits for what is half written, and
//! is told of cuts and of what was removed, whatever happened between two looks.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test ends where a fact is missing; a test may use files, threads and clocks"
)]

mod common;

use common::keyed::{TIME, now, records, settings};
use common::{Node, PARTITION, batch, formatted, kafka, options};
use quorate_base::{Epoch, Offset};
use quorate_log::{Disk, Follow, Followed, MemoryDisk, Mode, files, recover};

fn opened() -> Node<MemoryDisk> {
    let (mut node, _) = Node::open(formatted(), options(6_000, 0)).unwrap();
    node.elect(1);
    node.run();
    node
}

fn write(node: &mut Node<MemoryDisk>, epoch: u32, batches: u64) {
    for _ in 0..batches {
        node.append(2, epoch, 700);
    }
    node.run();
}

/// All that there is to tell: batches by base and epoch, the rest in words.
fn told(follow: &mut Follow<MemoryDisk>) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(told) = follow.next().unwrap() {
        all.push(match told {
            Followed::Batch(batch) => format!("{}@{}", batch.base(), batch.epoch()),
            Followed::Cut(end) => format!("cut {end}"),
            Followed::Gap(from, end) => format!("gap {from} {end}"),
            Followed::Damaged { path, position, fault } => format!("{path} {position} {fault}"),
        });
    }
    all
}

#[test]
fn every_batch_is_seen_once_over_all_segments() {
    let mut node = opened();
    let mut follow = Follow::from(&node.disk, PARTITION, Offset(0)).unwrap().unwrap();
    assert_eq!(told(&mut follow), [""; 0]);
    let mut all = Vec::new();
    for round in 0..30 {
        write(&mut node, 1 + round / 10, u64::from(round % 4));
        all.extend(told(&mut follow));
    }
    let batches = (0..all.len() as u64).map(|at| at * 2);
    let bases: Vec<u64> =
        all.iter().map(|told| told.split('@').next().unwrap().parse().unwrap()).collect();
    assert_eq!(bases, batches.collect::<Vec<_>>());
    assert!(all.len() > 40 && all.last().unwrap().ends_with("@3"), "{all:?}");
    let segments = files(&node.disk, "").unwrap();
    assert!(segments.iter().filter(|path| path.ends_with(".log")).count() > 5);

    // From anywhere: the batch that holds the offset, and all behind it.
    for from in 0..bases.len() as u64 * 2 {
        let mut follow = Follow::from(&node.disk, PARTITION, Offset(from)).unwrap().unwrap();
        assert_eq!(told(&mut follow), all[from as usize / 2..], "from {from}");
    }
    for records in [1, 2, 3, 17, 10_000] {
        let mut follow = Follow::newest(&node.disk, PARTITION, records).unwrap().unwrap();
        let batches = (records as usize).div_ceil(2).min(all.len());
        assert_eq!(follow.first().0, (all.len() as u64 * 2).saturating_sub(records));
        assert_eq!(told(&mut follow), all[all.len() - batches..], "the newest {records}");
    }
    assert!(Follow::newest(&MemoryDisk::default(), "", 3).unwrap().is_none());
}

#[test]
fn a_batch_is_told_when_it_is_whole() {
    let mut node = opened();
    write(&mut node, 1, 1);
    let path = format!("{PARTITION}/00000000000000000000.log");
    let mut follow = Follow::from(&node.disk, PARTITION, Offset(0)).unwrap().unwrap();
    assert_eq!(told(&mut follow), ["0@1"]);
    let bytes = batch(Offset(2), 3, Epoch(1), 50);
    let mut file = node.disk.open(&path, Mode::Write).unwrap();
    for piece in bytes.chunks(13) {
        assert_eq!(told(&mut follow), [""; 0]);
        node.disk.append(&mut file, &[bytes.slice_ref(piece)]).unwrap();
    }
    assert_eq!(told(&mut follow), ["2@1"]);
    // Room for batches to come.
    let mut file = node.disk.open(&path, Mode::Write).unwrap();
    node.disk.append(&mut file, &[vec![0; 500].into()]).unwrap();
    assert_eq!(told(&mut follow), [""; 0]);
    assert_eq!(told(&mut follow), [""; 0]);
}

#[test]
fn a_cut_is_told_with_what_stands_there_now() {
    for again in [0, 1, 5, 9] {
        let mut node = opened();
        write(&mut node, 1, 8);
        let mut follow = Follow::from(&node.disk, PARTITION, Offset(0)).unwrap().unwrap();
        assert_eq!(told(&mut follow).len(), 8);
        node.truncate(6);
        node.elect(2);
        node.run();
        write(&mut node, 2, again);
        let mut expected = vec!["cut 6".to_owned()];
        expected.extend((0..again).map(|at| format!("{}@2", 6 + at * 2)));
        assert_eq!(told(&mut follow), expected, "{again} batches since");
    }
}

#[test]
fn what_was_removed_is_a_gap() {
    let mut node = opened();
    write(&mut node, 1, 1);
    let mut follow = Follow::from(&node.disk, PARTITION, Offset(0)).unwrap().unwrap();
    assert_eq!(told(&mut follow), ["0@1"]);
    write(&mut node, 1, 12);
    let bases: Vec<String> =
        files(&node.disk, "").unwrap().into_iter().filter(|path| path.ends_with(".log")).collect();
    assert!(bases.len() > 3, "{bases:?}");
    bases[..2].iter().for_each(|path| node.disk.remove(path).unwrap());
    let first: u64 = bases[2].rsplit('/').next().unwrap()[..20].parse().unwrap();
    let rest = told(&mut follow);
    assert_eq!(rest[..2], [format!("gap 2 {first}"), format!("{first}@1")]);
}

#[test]
fn damage_is_told_once_with_its_place_and_what_lies_behind_is_read() {
    let mut node = opened();
    write(&mut node, 1, 3);
    let path = format!("{PARTITION}/00000000000000000000.log");
    let len = node.disk.contents(&path).unwrap().len();
    node.disk.flip_bit(&path, len / 2, 0);
    let mut follow = Follow::from(&node.disk, PARTITION, Offset(0)).unwrap().unwrap();
    let first = told(&mut follow);
    assert_eq!(first, ["0@1"], "it may be a write on its way");
    let second = told(&mut follow);
    let [damage, last] = &second[..] else { panic!("{second:?}") };
    assert!(damage.starts_with(&format!("{path} {} expected checksum", len / 3)), "{damage}");
    assert_eq!(last, "4@1");
    assert_eq!(told(&mut follow), [""; 0]);
}

/// Kafka's files, and ours made of them.
#[test]
fn kafkas_logs_are_followed() {
    let mut disk = kafka("dynamic/c3");
    let mut follow = Follow::newest(&disk, PARTITION, 5).unwrap().unwrap();
    let newest = told(&mut follow);
    assert!(!newest.is_empty() && newest.iter().all(|told| told.contains('@')), "{newest:?}");
    let end = recover(&mut disk, &options(1 << 30, 0)).unwrap().end;
    let mut follow = Follow::from(&disk, PARTITION, Offset(end.0 - 1)).unwrap().unwrap();
    assert_eq!(told(&mut follow), newest[newest.len() - 1..]);
}

/// Cleaning is no cut: who has seen a part sees the rest of what is left, wherever he stood, and
/// nothing twice.
#[test]
fn a_log_that_is_cleaned_meanwhile_was_not_cut() {
    let mut went_on = 0;
    for seen in 0..40 {
        let (mut node, _) = Node::open(formatted(), options(300, 0)).unwrap();
        node.elect(1);
        for number in 0..40u64 {
            node.put(1, &[(&format!("k{}", number % 6), Some("v"))]);
            node.run();
        }
        let mut follow = Follow::from(&node.disk, PARTITION, Offset(0)).unwrap().unwrap();
        for number in 0..seen {
            let Some(Followed::Batch(batch)) = follow.next().unwrap() else { panic!("{number}") };
            assert_eq!(batch.base(), Offset(number));
        }
        node.clean(&now(TIME + 1_000, 40), &settings()).unwrap();
        let left = node.records();
        let mut told = common::keyed::Records::new();
        // The first look may only tell that something has changed.
        for _ in 0..3 {
            while let Some(next) = follow.next().unwrap() {
                let Followed::Batch(batch) = next else { panic!("seen {seen}: {next:?}") };
                told.extend(records(&batch.bytes));
            }
        }
        let missed: Vec<_> = left.range(seen..).filter(|(at, _)| !told.contains_key(at)).collect();
        assert!(missed.is_empty(), "seen {seen}: {missed:?}");
        assert!(told.keys().all(|at| *at >= seen), "seen {seen}: {told:?}");
        went_on += u64::from(!told.is_empty());
    }
    assert!(went_on > 30, "{went_on}");
}
