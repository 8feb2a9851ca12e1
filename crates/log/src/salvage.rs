//! Opens a log for `quorate recover`, where a start would refuse: whatever of the directory is
//! right is to be used, because there may be nothing better.
//!
//! What a start does not replace, since another node may know better, is replaced or set aside
//! here: what the node had promised (whoever recovers passes over epochs and offsets in its place),
//! the topic's id, the first voters, and the numbers of a cleaned log, of which the most that can
//! be true is said. Never called on a log that a quorum still counts on.

use crate::disk::{Disk, Mode, Operation};
use crate::file::{TEMPORARY, join, read_file, replace_file};
use crate::segment::{base_of, file_name};
use crate::set_aside::{Damage, ROUNDS};
use crate::set_away::is_deleted;
use crate::snapshot_name::{DAMAGED, SnapshotName};
use crate::snapshot_reader::check_path;
use crate::swap_files::CLEANED;
use crate::synced_file::{self, Found};
use crate::{
    Election, Error, Options, Recovery, election_file, must_reach_file, partition_file, repair,
    set_aside, set_aside_snapshot, snapshot_shelf,
};
use quorate_base::{Offset, OffsetEpoch, Uuid};
use std::io;

/// Whether a file of this name is what a crash left half done, which the next start removes.
pub fn is_left_over(name: &str) -> bool {
    let part = matches!(SnapshotName::parse(name), Some(SnapshotName::Part(_)));
    name.ends_with(TEMPORARY) || name.ends_with(CLEANED) || part || is_deleted(name)
}

/// Reads what is right of a log, and leaves a directory that a node starts with once its election
/// state is written; `topic` is the topic's id. Also returns what was replaced, a sentence each,
/// of which nothing depends that a node ever promised. The caller holds the directory's lock.
///
/// # Errors
/// As the disk's; [`Error::NotFormatted`] where there is neither a record nor a snapshot.
pub fn salvage<D: Disk>(
    disk: &mut D,
    options: &Options,
    topic: Uuid,
) -> Result<(Recovery, Vec<String>), Error> {
    let dir = options.partition.as_str();
    forget_election(disk, dir)?;
    let replaced = name_topic(disk, dir, topic)?;
    set_founders_aside(disk, dir)?;
    owe_what_is_known(disk, dir)?;
    begin_behind_snapshot(disk, dir)?;
    for round in 0.. {
        // As the only one, who says the most of numbers that are lost; a log is cut all the same.
        match repair(disk, options, |_| false) {
            Ok(recovery) => return Ok((recovery, replaced.into_iter().collect())),
            Err(error) => match Damage::of(&error) {
                Some(damage) if round < ROUNDS => drop(set_aside(disk, options, &damage)?),
                Some(_) | None => return Err(error),
            },
        }
    }
    unreachable!("the last round returns")
}

fn names<D: Disk>(disk: &D, dir: &str) -> Result<Vec<String>, Error> {
    match disk.list(dir) {
        Ok(names) => Ok(names),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(Error::NotFormatted { path: dir.to_owned() })
        }
        Err(error) => Err(Error::io(Operation::List, dir)(error)),
    }
}

/// Whether a small file is there and cannot be understood.
fn is_bad<T>(read: Result<T, Error>) -> Result<bool, Error> {
    match read {
        Ok(_) => Ok(false),
        Err(Error::Malformed { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

/// An election state that nobody can read is none.
fn forget_election<D: Disk>(disk: &mut D, dir: &str) -> Result<(), Error> {
    let path = join(dir, election_file::NAME);
    let read = read_file(disk, &path).and_then(|bytes| {
        bytes.map(|bytes| Election::decode(&bytes).map_err(|bad| bad.at(&path))).transpose()
    });
    if is_bad(read)? {
        disk.remove(&path).map_err(Error::io(Operation::Remove, &path))?;
        disk.sync_dir(dir).map_err(Error::io(Operation::SyncDir, dir))?;
    }
    Ok(())
}

/// The topic's id is the same on every node, and no record rests on it.
fn name_topic<D: Disk>(disk: &mut D, dir: &str, topic: Uuid) -> Result<Option<String>, Error> {
    names(disk, dir)?;
    let path = join(dir, partition_file::NAME);
    let bytes = read_file(disk, &path);
    let found = match bytes {
        Ok(Some(bytes)) => match partition_file::decode(&bytes) {
            Ok(_) => return Ok(None),
            Err(_) => "damaged",
        },
        Ok(None) => "missing",
        Err(Error::Malformed { .. }) => "damaged",
        Err(error) => return Err(error),
    };
    replace_file(disk, dir, partition_file::NAME, &partition_file::encode(topic))?;
    Ok(Some(format!("{path} is {found}, and written anew with the topic id {topic}")))
}

/// The first voters count no more where others are written.
fn set_founders_aside<D: Disk>(disk: &mut D, dir: &str) -> Result<(), Error> {
    for name in names(disk, dir)? {
        let Some(SnapshotName::Whole(id)) = SnapshotName::parse(&name) else { continue };
        if id.offset > Offset::ZERO {
            continue;
        }
        match check_path(&*disk, &join(dir, &name), id) {
            Err(Error::Damaged { .. }) => drop(set_aside_snapshot(disk, dir, id)?),
            Err(error) => return Err(error),
            Ok(_) => {}
        }
    }
    Ok(())
}

/// Where nobody can say how far a log went that lost a part, it owes what it has.
fn owe_what_is_known<D: Disk>(disk: &mut D, dir: &str) -> Result<(), Error> {
    let names = names(disk, dir)?;
    let owes = match synced_file::read(disk, dir)? {
        Found::Mark(_, _, owing) => owing,
        Found::Missing => names.iter().any(|name| name.ends_with(DAMAGED)),
        Found::Unreadable => false,
    };
    let read = must_reach_file::read(disk, dir);
    let missing = owes && matches!(read, Ok(None));
    if is_bad(read)? || missing {
        must_reach_file::write(disk, dir, OffsetEpoch::default())?;
    }
    Ok(())
}

/// A log without any segment goes on behind its newest snapshot: an empty one makes the rest of it
/// damage like any other.
fn begin_behind_snapshot<D: Disk>(disk: &mut D, dir: &str) -> Result<(), Error> {
    let names = names(disk, dir)?;
    if names.iter().any(|name| base_of(name).is_some()) {
        return Ok(());
    }
    let shelf = snapshot_shelf::read(disk, dir, &names, &mut Vec::new())?;
    if shelf.held.is_empty() {
        return Ok(());
    }
    let path = join(dir, &file_name(Offset::ZERO));
    disk.open(&path, Mode::Create).map_err(Error::io(Operation::Open, &path))?;
    disk.sync_dir(dir).map_err(Error::io(Operation::SyncDir, dir))
}
