//! How long the disk takes to store a little, asked once at each start. A disk on which a sync may
//! take a good part of a timeout makes leaders lose their office for no other reason, and that is
//! hard to guess from elections alone; so it is said in words. Never keeps a node from starting.

use crate::config::Config;
use bytes::Bytes;
use quorate_base::Span;
use quorate_log::{Disk, Mode};
use std::io;
use std::time::Instant;
use tracing::{debug, warn};

/// So often it is tried; the slowest counts.
const TRIES: usize = 8;
/// So much is written each time.
const BYTES: usize = 4 << 10;
/// A timeout is to hold so many of the slowest syncs.
const MARGIN: u64 = 10;
/// In the root directory, where nobody else looks for files; gone again when a probe is over.
const NAME: &str = "quorate-probe.tmp";

/// Measures the disk and warns if it is too slow for the timeouts.
pub(crate) fn probe<D: Disk>(config: &Config, disk: &mut D) {
    match slowest(disk) {
        Ok(slowest) => match too_slow(slowest, config.election_timeout, config.fetch_timeout) {
            Some(why) => {
                warn!(slowest_us = slowest.0, directory = %config.directory.display(), "{why}")
            }
            None => debug!(slowest_us = slowest.0, "the disk is fast enough for the timeouts"),
        },
        // A full or broken disk is found out, and handled, by those who need it.
        Err(error) => debug!(%error, "the speed of the disk could not be measured"),
    }
}

fn slowest<D: Disk>(disk: &mut D) -> io::Result<Span> {
    let mut file = disk.open(NAME, Mode::Create)?;
    let measured = measure(disk, &mut file);
    drop(file);
    disk.remove(NAME)?;
    measured
}

fn measure<D: Disk>(disk: &mut D, file: &mut D::File) -> io::Result<Span> {
    let bytes = [Bytes::from(vec![0; BYTES])];
    let mut slowest = Span::ZERO;
    for _ in 0..TRIES {
        let begun = Instant::now();
        disk.append(file, &bytes)?;
        disk.sync(file)?;
        slowest = slowest.max(Span(begun.elapsed().as_micros() as u64));
    }
    Ok(slowest)
}

/// What there is to say of a disk whose slowest sync took so long.
fn too_slow(slowest: Span, election_timeout: Span, fetch_timeout: Span) -> Option<String> {
    let timeout = election_timeout.min(fetch_timeout);
    let name = match timeout == election_timeout {
        true => "controller.quorum.election.timeout.ms",
        false => "controller.quorum.fetch.timeout.ms",
    };
    let wanted = slowest.0.saturating_mul(MARGIN);
    (wanted > timeout.0).then(|| {
        format!(
            "the disk took {} ms to store {BYTES} bytes, and {name} is {} ms: a few such pauses in a row look like a \
             dead leader, so there will be elections without need; use a faster disk, look at what else writes to \
             this one, or set the timeouts of all nodes to {} ms or more",
            slowest.0.div_ceil(1_000),
            timeout.as_ms(),
            wanted.div_ceil(1_000),
        )
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]
mod tests {
    use super::*;
    use quorate_log::{MemoryDisk, Operation};

    #[test]
    fn a_probe_syncs_each_write_and_leaves_nothing() {
        let mut disk = MemoryDisk::default();
        slowest(&mut disk).unwrap();
        assert_eq!((disk.count(Operation::Write), disk.count(Operation::Sync)), (8, 8));
        assert_eq!(disk.list("").unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_full_disk_ends_a_probe_and_nothing_is_left() {
        let mut disk = MemoryDisk::default();
        disk.limit_room(Some(5_000));
        assert_eq!(slowest(&mut disk).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(disk.list("").unwrap(), Vec::<String>::new());
    }

    #[test]
    fn the_shorter_timeout_must_hold_ten_of_the_slowest_syncs() {
        let (second, two) = (Span::ms(1_000), Span::ms(2_000));
        assert_eq!(too_slow(Span::ms(100), second, two), None);
        let why = too_slow(Span(100_001), second, two).unwrap();
        assert!(
            why.contains("took 101 ms") && why.contains("election.timeout.ms is 1000 ms"),
            "{why}"
        );
        assert!(why.contains("to 1001 ms or more"), "{why}");
        let why = too_slow(Span::ms(150), two, second).unwrap();
        assert!(why.contains("fetch.timeout.ms is 1000 ms"), "{why}");
    }
}
