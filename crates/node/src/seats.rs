//! Who counts, as the directory of a node has it at start-up: from the head of the newest snapshot
//! and the control batches behind it.
//!
//! What lies before that snapshot is committed and never cut off, so its head says it all. A record
//! that this program does not know ends the start: it might say who counts.

use crate::translate;
use quorate_base::Offset;
use quorate_log::{Batches, Disk, Error, Log, Read, Recovery, read_cold};
use quorate_raft::Decree;

/// What the core is opened with.
pub(crate) struct Seats {
    /// The head of the newest snapshot, or of the bootstrap snapshot.
    pub founded: Decree,
    /// The control batches behind it that say something, by their bases.
    pub decrees: Vec<(Offset, Decree)>,
}

impl Seats {
    /// Reads what recovery found, a few batches.
    pub fn read<D: Disk>(log: &Log, disk: &mut D, recovery: &Recovery) -> Result<Seats, Error> {
        let unknown = |path: &str, found: String| Error::Malformed {
            path: path.to_owned(),
            position: 0,
            expected: "a kraft.version and voters that this program knows".to_owned(),
            found,
        };
        let founded = translate::founded(&recovery.head);
        let founded = founded.map_err(|found| unknown("the head of the newest snapshot", found))?;
        let newest = recovery.snapshots.last().map_or(Offset::ZERO, |newest| newest.id.offset);
        let mut decrees = Vec::new();
        for base in recovery.controls.iter().copied().filter(|base| *base >= newest) {
            let Read::Cold(plan) = log.read(base, recovery.end, 1) else { continue };
            let batches = Batches::checked_before(read_cold(disk, &plan)?);
            for batch in batches.filter(|batch| batch.base() == base) {
                let decree = translate::decree_of(&batch);
                let decree = decree.map_err(|found| {
                    unknown(&plan.path, format!("in the batch at offset {base}: {found}"))
                })?;
                decrees.extend(decree.map(|decree| (base, *decree)));
            }
        }
        Ok(Seats { founded, decrees })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]
#[allow(clippy::disallowed_methods, reason = "fixtures are files")]
mod tests {
    use super::*;
    use quorate_log::{MemoryDisk, Mode, Options, recover};
    use std::path::Path;

    /// The partition of a controller that Kafka 4.3.1 ran, but for files that `leave_out` names.
    fn read(node: &str, leave_out: fn(&str) -> bool) -> Seats {
        let options = Options::default();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../log/tests/fixtures/kafka-4.3.1/dynamic")
            .join(node)
            .join(&options.partition);
        let mut disk = MemoryDisk::default();
        disk.create_dir(&options.partition).unwrap();
        for file in folder.read_dir().unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            if !name.ends_with(".dump") && !leave_out(&name) {
                let path = format!("{}/{name}", options.partition);
                let mut file = disk.open(&path, Mode::Create).unwrap();
                disk.write_at(&mut file, 0, &std::fs::read(folder.join(&name)).unwrap()).unwrap();
            }
        }
        let recovery = recover(&mut disk, &options).unwrap();
        Seats::read(&Log::open(options, &recovery), &mut disk, &recovery).unwrap()
    }

    fn ids(decree: &Decree) -> Vec<u32> {
        assert_eq!(decree.version, Some(1).filter(|_| decree.version.is_some()));
        let voters = decree.voters.iter().flat_map(|voters| voters.iter());
        voters.map(|voter| voter.key.id.0).collect()
    }

    #[test]
    fn kafkas_newest_snapshot_names_the_voters_with_what_it_knows_of_each() {
        let seats = read("c3", |_| false);
        assert_eq!((ids(&seats.founded), seats.founded.version), (vec![1, 3, 4], Some(1)));
        let four = &seats.founded.voters.as_ref().unwrap()[2];
        let directory = "czfJg4CDwHwVJjbT8tBdAg".parse().ok();
        assert_eq!((four.key.directory, four.versions), (directory, (0, 1)));
        let at = &four.endpoints[0];
        assert_eq!((&*at.listener, &*at.host, at.port), ("CONTROLLER", "127.0.0.1", 29_094));
        assert_eq!(seats.decrees, []);
        assert_eq!(ids(&read("c4", |_| false).founded), [1, 3, 4]);
    }

    #[test]
    fn without_it_the_bootstrap_snapshot_and_the_batches_of_the_log_do() {
        let seats = read("c3", |name| {
            name.ends_with(".checkpoint") && !name.starts_with("00000000000000000000-")
        });
        assert_eq!(ids(&seats.founded), [1, 2, 3]);
        let decrees: Vec<_> =
            seats.decrees.iter().map(|(base, decree)| (base.0, ids(decree))).collect();
        let expected = [(0, vec![1, 2, 3]), (243, vec![1, 2, 3, 4]), (252, vec![1, 3, 4])];
        assert_eq!(decrees, expected);
    }
}
