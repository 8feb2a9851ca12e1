//! Real nodes write many times what retention leaves them: their files never take more than that,
//! half-written ones and those on their way out included. The million is `quorate-bench`'s.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

use quorate_processes::http::Client;
use quorate_processes::{Cluster, Profile, binary, poll};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const LIMIT: u64 = 24 << 20;
const VALUE_BYTES: usize = 20_000;
/// Four times the limit, from four clients.
const CLIENTS: usize = 4;
const WRITES: usize = 4 * LIMIT as usize / VALUE_BYTES / CLIENTS;
const KEYS: usize = 10;

/// What the file system gave to the files of a node's log; the reserve for a full disk is not the
/// log's.
fn taken(cluster: &Cluster, id: u32) -> u64 {
    let folder = cluster.root().join(format!("node-{id}/data/__cluster_metadata-0"));
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let of_log = entries.filter(|entry| entry.file_name() != "quorate-reserve");
    // One that is gone since it was listed takes nothing.
    of_log.map(|entry| entry.metadata().map_or(0, |file| file.blocks() * 512)).sum()
}

#[test]
fn the_files_of_a_log_stay_within_its_retention_at_any_time() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("retention");
    let _ = std::fs::remove_dir_all(&root);
    let limit = format!("metadata.max.retention.bytes={LIMIT}");
    let settings = [
        "quorate.cleanup.policy=delete",
        "metadata.log.max.record.bytes.between.snapshots=1000000",
        &limit,
    ];
    let mut cluster = Cluster::format(&binary(Profile::Dev).unwrap(), &root, 3, &settings).unwrap();
    cluster.start_all().unwrap();
    let leader = cluster.wait_until_level(PATIENCE).unwrap();
    let http = cluster.node(leader).http;
    let done = AtomicBool::new(false);
    let most = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let (mut most, mut looks) = (0, 0);
            while !done.load(Ordering::Relaxed) {
                most = (1..=3).map(|id| taken(&cluster, id)).max().max(Some(most)).unwrap();
                looks += 1;
            }
            assert!(looks > 100, "it was hardly looked at");
            most
        });
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                scope.spawn(move || {
                    let mut connection = Client::new(http, PATIENCE);
                    for number in 0..WRITES {
                        let path = format!("/v1/kv/{client}/{}", number % KEYS);
                        let value = vec![number as u8; VALUE_BYTES];
                        let answer = connection.ask("PUT", &path, &[], &value).unwrap();
                        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        done.store(true, Ordering::Relaxed);
        watch.join().unwrap()
    });
    assert!(most <= LIMIT, "{most} bytes of at most {LIMIT}");
    assert!(most > LIMIT / 2, "{most} bytes: the limit was never near, nothing is shown");
    poll("a trimmed log everywhere", PATIENCE, || {
        let trimmed = |id| cluster.node(id).status().is_some_and(|status| status.log_start > 0);
        (1..=3).all(trimmed).then_some(())
    })
    .unwrap();
    drop(cluster);
    std::fs::remove_dir_all(root).unwrap();
}
