//! Makes the files of a new directory.

use crate::disk::{Disk, Mode, Operation};
use crate::file::{TEMPORARY, join, read_file, replace_file};
use crate::segment::{base_of, file_name};
use crate::snapshot_name::{DAMAGED, SnapshotName, snapshot_name};
use crate::synced_file::{self, Mark};
use crate::{
    EpochTable, Error, Head, Meta, SnapshotWriter, bootstrap_file, election_file, epoch_file,
    meta_file, must_reach_file, partition_file, recovered_file,
};
use bytes::Bytes;
use quorate_base::{Offset, OffsetEpoch, Uuid};
use std::io;

/// Where a process that uses the directory says who it is.
const LOCK: &str = ".lock";
/// What the lock's file says of one that only formats.
const FORMATS: &str = "(format of ";

/// What a new directory holds besides an empty log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Founding {
    /// `kraft.version` and the first voters, for the bootstrap snapshot at offset 0; none of it if
    /// the voters are in the configuration, or to be learnt.
    pub voters: Head,
    /// The values of the records of `bootstrap.checkpoint`; without one there is no such file.
    pub bootstrap: Vec<Bytes>,
    /// The time of both, in milliseconds since 1970.
    pub timestamp_ms: i64,
}

/// Makes an empty log in `partition` and says whose it is. `meta.properties` comes last: a format
/// that was cut short can be run again. A directory with a `meta.properties` or with records is
/// refused.
pub fn format<D: Disk>(
    disk: &mut D,
    partition: &str,
    meta: &Meta,
    topic: Uuid,
) -> Result<(), Error> {
    found(disk, partition, meta, topic, &Founding::default())
}

/// The same for a directory that says more of its quorum.
pub fn found<D: Disk>(
    disk: &mut D,
    partition: &str,
    meta: &Meta,
    topic: Uuid,
    founding: &Founding,
) -> Result<(), Error> {
    refuse_used(disk, partition)?;
    disk.create_dir(partition).map_err(Error::io(Operation::CreateDir, partition))?;
    // A format that was cut short may have been one with other voters.
    let bootstrap = join(partition, &snapshot_name(OffsetEpoch::default()));
    for left in [bootstrap.as_str(), bootstrap_file::NAME] {
        match disk.remove(left) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io(Operation::Remove, left)(error));
            }
            Ok(()) | Err(_) => {}
        }
    }
    empty_log(disk, partition, topic)?;
    let Founding { voters, timestamp_ms, .. } = founding;
    if !voters.is_empty() {
        let zero = OffsetEpoch::default();
        SnapshotWriter::create(disk.clone(), partition, zero, *timestamp_ms, voters)?.freeze()?;
    }
    // The partition's own name, before the file that says that all is there.
    disk.sync_dir("").map_err(Error::io(Operation::SyncDir, ""))?;
    name(disk, meta, founding)
}

/// Another directory of the same node, in which Kafka's brokers keep other logs. One that has a
/// `meta.properties` is refused.
pub fn found_beside<D: Disk>(disk: &mut D, meta: &Meta, founding: &Founding) -> Result<(), Error> {
    match read_file(disk, meta_file::NAME)? {
        Some(_) => Err(Error::AlreadyFormatted { path: meta_file::NAME.to_owned() }),
        None => name(disk, meta, founding),
    }
}

/// The files of the directory itself.
fn name<D: Disk>(disk: &mut D, meta: &Meta, founding: &Founding) -> Result<(), Error> {
    if !founding.bootstrap.is_empty() {
        let bytes = bootstrap_file::encode(founding.timestamp_ms, &founding.bootstrap);
        replace_file(disk, "", bootstrap_file::NAME, &bytes)?;
    }
    replace_file(disk, "", meta_file::NAME, &meta.encode())
}

/// Whether this directory is as Kafka's storage tool leaves it where it makes nothing of the
/// partition: whose it is, what is to be written first, and no process has used it since. The same
/// files with the lock's file of a node beside them are a node that has lost its log.
pub fn is_without_log<D: Disk>(disk: &mut D, partition: &str) -> Result<bool, Error> {
    let names = disk.list("").map_err(Error::io(Operation::List, ""))?;
    let has = |name: &str| names.iter().any(|found| found == name);
    if !has(meta_file::NAME) || !has(bootstrap_file::NAME) {
        return Ok(false);
    }
    let formats = read_file(disk, LOCK)?;
    let formats = formats.map(|holder| String::from_utf8_lossy(&holder).contains(FORMATS));
    if !has(partition) {
        return Ok(formats.unwrap_or(true));
    }
    // A log whose making was cut short.
    let names = disk.list(partition).map_err(Error::io(Operation::List, partition))?;
    Ok(formats == Some(true) && names.iter().all(|name| is_half(name)))
}

/// Gives a directory that [`is_without_log`] an empty log. Cut short, it may be done again.
pub fn begin_log<D: Disk>(disk: &mut D, partition: &str, topic: Uuid) -> Result<(), Error> {
    disk.create_dir(partition).map_err(Error::io(Operation::CreateDir, partition))?;
    disk.sync_dir("").map_err(Error::io(Operation::SyncDir, ""))?;
    empty_log(disk, partition, topic)
}

/// The files of a log without a record. `partition.metadata` comes last.
fn empty_log<D: Disk>(disk: &mut D, partition: &str, topic: Uuid) -> Result<(), Error> {
    replace_file(disk, partition, epoch_file::NAME, &EpochTable::default().encode())?;
    let mark = Mark { segment: Offset::ZERO, end: Offset::ZERO, position: 0 };
    synced_file::create(disk, partition, mark)?;
    let segment = join(partition, &file_name(Offset::ZERO));
    disk.open(&segment, Mode::Create).map_err(Error::io(Operation::Open, &segment))?;
    disk.sync_dir(partition).map_err(Error::io(Operation::SyncDir, partition))?;
    replace_file(disk, partition, partition_file::NAME, &partition_file::encode(topic))
}

/// Makes the log that Kafka's storage tool leaves to the first start of an initial controller: of
/// the partition that tool makes the bootstrap snapshot alone. Nothing happens in any other
/// directory: one without its log and with anything else has lost it.
pub fn complete_format<D: Disk>(disk: &mut D, partition: &str, topic: Uuid) -> Result<(), Error> {
    let names = match disk.list(partition) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io(Operation::List, partition)(error)),
    };
    if !made_by_kafkas_tool(&names) || !is_empty(disk, partition, &names)? {
        return Ok(());
    }
    empty_log(disk, partition, topic)
}

/// Whether these names of a partition are what Kafka's storage tool leaves to the first start.
pub(crate) fn made_by_kafkas_tool(names: &[String]) -> bool {
    let bootstrap = snapshot_name(OffsetEpoch::default());
    names.contains(&bootstrap) && names.iter().all(|name| *name == bootstrap || is_half(name))
}

/// Whether the making of an empty log leaves a file of this name when it is cut short.
fn is_half(name: &str) -> bool {
    let first = file_name(Offset::ZERO);
    let made = [&*first, epoch_file::NAME, synced_file::NAME, partition_file::NAME];
    let whole = name.strip_suffix(TEMPORARY);
    made.iter().any(|made| whole.unwrap_or(name) == *made)
        && (whole.is_some() || name != partition_file::NAME)
}

/// Whether no segment holds a byte.
fn is_empty<D: Disk>(disk: &mut D, partition: &str, names: &[String]) -> Result<bool, Error> {
    for name in names.iter().filter(|name| base_of(name).is_some()) {
        let path = join(partition, name);
        let file = disk.open(&path, Mode::Read).map_err(Error::io(Operation::Open, &path))?;
        if disk.len(&file).map_err(Error::io(Operation::Read, &path))? > 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

fn refuse_used<D: Disk>(disk: &mut D, partition: &str) -> Result<(), Error> {
    if read_file(disk, meta_file::NAME)?.is_some() {
        return Err(Error::AlreadyFormatted { path: meta_file::NAME.to_owned() });
    }
    match used(disk, partition)? {
        None => Ok(()),
        Some(beside) => Err(Error::Lost { path: meta_file::NAME.to_owned(), beside }),
    }
}

/// A file in the partition that no format leaves, also none that was cut short: a node has run.
fn used<D: Disk>(disk: &mut D, partition: &str) -> Result<Option<String>, Error> {
    let names = match disk.list(partition) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io(Operation::List, partition)(error)),
    };
    let bootstrap = snapshot_name(OffsetEpoch::default());
    let tells = |name: &&String| {
        let own = [election_file::NAME, must_reach_file::NAME, recovered_file::BEGUN];
        let snapshot = match SnapshotName::parse(name.strip_suffix(DAMAGED).unwrap_or(name)) {
            // What is being written confirms nothing: that of a format that was cut short, too.
            None | Some(SnapshotName::Part(_)) => false,
            Some(SnapshotName::Whole(_) | SnapshotName::Deleted(_)) => **name != bootstrap,
        };
        own.contains(&name.as_str()) || snapshot
    };
    let found = names.iter().find(tells).cloned();
    let found = match found {
        None if !is_empty(disk, partition, &names)? => {
            names.iter().find(|name| base_of(name).is_some()).cloned()
        }
        found => found,
    };
    Ok(found.map(|name| join(partition, &name)))
}

/// What a missing file means: where others of a node are, [`Error::NotFormatted`] becomes
/// [`Error::Lost`], since formatting would be refused there. Any other error stays what it is.
pub fn lost_or_new<D: Disk>(disk: &mut D, partition: &str, error: Error) -> Error {
    let Error::NotFormatted { path } = error else { return error };
    let is_meta = path == meta_file::NAME;
    let has_meta = read_file(disk, meta_file::NAME).is_ok_and(|file| file.is_some());
    let meta = (!is_meta && has_meta).then(|| meta_file::NAME.to_owned());
    // What cannot be looked at is not there for whoever has to decide.
    let beside = meta.or_else(|| used(disk, partition).ok().flatten());
    let has_folder = disk.list(partition).is_ok();
    match beside {
        None => Error::NotFormatted { path },
        Some(beside) if is_meta || has_folder => Error::Lost { path, beside },
        Some(beside) => Error::Lost { path: partition.to_owned(), beside },
    }
}

/// The topic id in `partition.metadata`.
pub fn read_topic<D: Disk>(disk: &mut D, partition: &str) -> Result<Uuid, Error> {
    let path = join(partition, partition_file::NAME);
    match read_file(disk, &path)? {
        Some(bytes) => partition_file::decode(&bytes).map_err(|bad| bad.at(&path)),
        None => Err(Error::NotFormatted { path }),
    }
}
