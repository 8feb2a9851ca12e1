//! What every [`Disk`] must do, on the operating system's and on the one in memory; and that both
//! end up with the same bytes after the same work of a store.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test ends where a fact is missing; a test may use files, threads and clocks"
)]

mod common;

use bytes::Bytes;
use common::{Node, PARTITION, meta, options};
use quorate_base::Uuid;
use quorate_log::{Disk, MemoryDisk, Mode, OsDisk, format};
use std::io::ErrorKind;
use std::path::PathBuf;

/// A directory that goes with the test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("quorate-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn contents<D: Disk>(disk: &mut D, path: &str) -> Vec<u8> {
    let file = disk.open(path, Mode::Read).unwrap();
    let mut bytes = vec![0; disk.len(&file).unwrap() as usize + 10];
    let count = disk.read(&file, 0, &mut bytes).unwrap();
    bytes.truncate(count);
    bytes
}

fn suite<D: Disk>(mut disk: D) {
    let missing = |disk: &mut D, mode| disk.open("d/a", mode).err().unwrap().kind();
    assert_eq!(missing(&mut disk, Mode::Read), ErrorKind::NotFound);
    assert_eq!(missing(&mut disk, Mode::Create), ErrorKind::NotFound, "no directory yet");
    assert_eq!(disk.list("d").unwrap_err().kind(), ErrorKind::NotFound);
    disk.create_dir("d").unwrap();
    disk.create_dir("d").unwrap();
    assert_eq!(missing(&mut disk, Mode::Write), ErrorKind::NotFound);

    let parts = |parts: &[&'static str]| -> Vec<Bytes> {
        parts.iter().map(|part| Bytes::from_static(part.as_bytes())).collect()
    };
    let mut file = disk.open("d/a", Mode::Create).unwrap();
    disk.append(&mut file, &parts(&["one", "", "two"])).unwrap();
    disk.append(&mut file, &parts(&[])).unwrap();
    disk.append(&mut file, &parts(&["three"])).unwrap();
    disk.sync(&file).unwrap();
    assert_eq!(contents(&mut disk, "d/a"), b"onetwothree");
    let mut some = [0; 4];
    assert_eq!(disk.read(&file, 3, &mut some).unwrap(), 4);
    assert_eq!(&some, b"twot");
    assert_eq!(disk.read(&file, 9, &mut some).unwrap(), 2, "fewer at the end");
    assert_eq!(disk.read(&file, 99, &mut some).unwrap(), 0, "none beyond it");

    disk.truncate(&mut file, 4).unwrap();
    disk.append(&mut file, &parts(&["x"])).unwrap();
    assert_eq!(contents(&mut disk, "d/a"), b"onetx");
    drop(file);
    let mut file = disk.open("d/a", Mode::Write).unwrap();
    disk.append(&mut file, &parts(&["y"])).unwrap();
    assert_eq!(contents(&mut disk, "d/a"), b"onetxy");

    let many: Vec<Bytes> = (0..3_000u32).map(|n| Bytes::from(n.to_string())).collect();
    let mut file = disk.open("d/many", Mode::Create).unwrap();
    disk.append(&mut file, &many).unwrap();
    assert_eq!(contents(&mut disk, "d/many"), many.concat());

    let mut file = disk.open("d/slots", Mode::Create).unwrap();
    disk.write_at(&mut file, 3, b"b").unwrap();
    disk.write_at(&mut file, 0, b"a").unwrap();
    assert_eq!(contents(&mut disk, "d/slots"), b"a\0\0b");

    let mut file = disk.open("d/room", Mode::Create).unwrap();
    for bytes in [100_000, 300_000, 4_096, 0, 8_192] {
        disk.allocate(&mut file, bytes).unwrap();
        assert_eq!(disk.len(&file).unwrap(), bytes);
    }
    disk.remove("d/room").unwrap();

    disk.rename("d/a", "d/many").unwrap();
    disk.sync_dir("d").unwrap();
    assert_eq!(contents(&mut disk, "d/many"), b"onetxy");
    assert_eq!(disk.list("d").unwrap(), ["many", "slots"]);
    assert_eq!(disk.list("").unwrap(), ["d"]);
    disk.remove("d/slots").unwrap();
    assert_eq!(disk.remove("d/slots").unwrap_err().kind(), ErrorKind::NotFound);
    disk.sync_dir("d").unwrap();
    disk.sync_dir("").unwrap();
    assert_eq!(disk.list("d").unwrap(), ["many"]);

    let mut file = disk.open("d/many", Mode::Create).unwrap();
    assert_eq!(contents(&mut disk, "d/many"), b"", "created anew");
    disk.append(&mut file, &parts(&["z"])).unwrap();
    assert_eq!(contents(&mut disk.clone(), "d/many"), b"z", "clones see the same");
}

#[test]
fn the_operating_systems_disk() {
    let directory = Directory::new("suite");
    suite(OsDisk::new(&directory.0));
}

#[test]
fn the_disk_in_memory() {
    suite(MemoryDisk::default());
}

/// Only the disk in memory can forget.
#[test]
fn names_and_directories_that_were_not_synced_are_lost_with_what_is_in_them() {
    let mut disk = MemoryDisk::default();
    disk.create_dir("d").unwrap();
    let file = disk.open("d/a", Mode::Create).unwrap();
    disk.sync(&file).unwrap();
    disk.sync_dir("d").unwrap();
    let lost = disk.fork();
    lost.lose_unsynced();
    assert_eq!(lost.list("").unwrap(), [""; 0], "the directory's own name was not synced");
    assert_eq!(lost.list("d").unwrap_err().kind(), ErrorKind::NotFound);

    disk.sync_dir("").unwrap();
    disk.open("d/b", Mode::Create).unwrap();
    disk.lose_unsynced();
    assert_eq!(disk.list("").unwrap(), ["d"]);
    assert_eq!(disk.list("d").unwrap(), ["a"]);
}

fn work<D: Disk>(mut disk: D) -> Vec<(String, Vec<u8>)> {
    format(&mut disk, PARTITION, &meta(), Uuid::METADATA_TOPIC).unwrap();
    let options = options(2_000, 500);
    let (mut node, recovery) = Node::open(disk.clone(), options.clone()).unwrap();
    assert_eq!(recovery.notes, []);
    for epoch in 1..8 {
        node.elect(epoch);
        for records in 1..5 {
            node.append(records, epoch, 50 * epoch as usize);
        }
        node.run();
        // The last batch, or the last two; with so small a tail they are on disk only.
        node.truncate(node.log.end().0 - if epoch % 2 == 0 { 4 } else { 7 });
        node.run();
    }
    let (end, all) = (node.log.end(), node.read(0, u64::MAX, 100));
    let (mut node, recovery) = Node::open(disk.clone(), options).unwrap();
    assert_eq!((recovery.end, &recovery.notes[..]), (end, &[][..]));
    assert_eq!(node.read(0, u64::MAX, 10_000), all);
    let names = disk.list(PARTITION).unwrap();
    let mut files: Vec<_> = names.iter().map(|name| format!("{PARTITION}/{name}")).collect();
    files.push("meta.properties".to_owned());
    files.into_iter().map(|path| (path.clone(), contents(&mut disk, &path))).collect()
}

#[test]
fn the_same_work_leaves_the_same_files() {
    let directory = Directory::new("work");
    let found = work(OsDisk::new(&directory.0));
    assert!(found.len() > 8, "{} files: several segments", found.len());
    assert_eq!(found, work(MemoryDisk::default()));
}
