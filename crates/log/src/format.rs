//! Makes the files of a new directory.

use crate::disk::{Disk, Mode, Operation};
use crate::file::{join, read_file, replace_file};
use crate::segment::{base_of, file_name};
use crate::synced_file::{self, Mark};
use crate::{EpochTable, Error, Meta, epoch_file, meta_file, partition_file};
use quorate_base::{Offset, Uuid};
use std::io;

/// Makes an empty log in `partition` and says whose it is. `meta.properties` comes last: a format
/// that was cut short can be run again. A directory with a `meta.properties` or with records is
/// refused.
pub fn format<D: Disk>(
    disk: &mut D,
    partition: &str,
    meta: &Meta,
    topic: Uuid,
) -> Result<(), Error> {
    refuse_used(disk, partition)?;
    disk.create_dir(partition).map_err(Error::io(Operation::CreateDir, partition))?;
    replace_file(disk, partition, partition_file::NAME, &partition_file::encode(topic))?;
    replace_file(disk, partition, epoch_file::NAME, &EpochTable::default().encode())?;
    let mark = Mark { segment: Offset::ZERO, end: Offset::ZERO, position: 0 };
    synced_file::create(disk, partition, mark)?;
    let segment = join(partition, &file_name(Offset::ZERO));
    disk.open(&segment, Mode::Create).map_err(Error::io(Operation::Open, &segment))?;
    disk.sync_dir(partition).map_err(Error::io(Operation::SyncDir, partition))?;
    // The partition's own name, before the file that says that all is there.
    disk.sync_dir("").map_err(Error::io(Operation::SyncDir, ""))?;
    replace_file(disk, "", meta_file::NAME, &meta.encode())
}

fn refuse_used<D: Disk>(disk: &mut D, partition: &str) -> Result<(), Error> {
    if read_file(disk, meta_file::NAME)?.is_some() {
        return Err(Error::AlreadyFormatted { path: meta_file::NAME.to_owned() });
    }
    let names = match disk.list(partition) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io(Operation::List, partition)(error)),
    };
    for name in names.iter().filter(|name| base_of(name).is_some()) {
        let path = join(partition, name);
        let file = disk.open(&path, Mode::Read).map_err(Error::io(Operation::Open, &path))?;
        if disk.len(&file).map_err(Error::io(Operation::Read, &path))? > 0 {
            return Err(Error::AlreadyFormatted { path });
        }
    }
    Ok(())
}

/// The topic id in `partition.metadata`.
pub fn read_topic<D: Disk>(disk: &mut D, partition: &str) -> Result<Uuid, Error> {
    let path = join(partition, partition_file::NAME);
    match read_file(disk, &path)? {
        Some(bytes) => partition_file::decode(&bytes).map_err(|bad| bad.at(&path)),
        None => Err(Error::NotFormatted { path }),
    }
}
