//! The snapshots of a directory at start-up: which can be believed, and which are set aside.
//!
//! The newest one that is wholly right is the one that start-up rests on, so it is read whole; of
//! those below it only header and footer are looked at, and a load that finds damage there later
//! says so. What is short, empty, without footer or damaged (T3, KAFKA-15312) is renamed, never
//! removed: a human may want it.

use crate::disk::{Disk, Operation};
use crate::file::join;
use crate::set_away::Away;
use crate::snapshot_name::{DAMAGED, SnapshotName, snapshot_name};
use crate::snapshot_reader::{check_path, glance_at_snapshot};
use crate::{Error, Head, Note, Snapshot};
use quorate_base::{Offset, OffsetEpoch};

/// The names of one directory, sorted out.
pub(crate) struct Shelf {
    /// Whole ones, oldest first; without the bootstrap one.
    pub held: Vec<Snapshot>,
    /// Whether there is the bootstrap snapshot, which ends at 0.
    pub bootstrap: Option<OffsetEpoch>,
    /// What the newest one says of version and voters; without any, the bootstrap snapshot.
    pub head: Head,
    /// Where snapshots end, those that were set aside too.
    pub ends: Vec<Offset>,
    /// Those that were set aside, now or before, oldest first.
    pub aside: Vec<OffsetEpoch>,
}

/// Reads what there is; renames what is not right and says so in `notes`.
pub(crate) fn read<D: Disk>(
    disk: &mut D,
    dir: &str,
    names: &[String],
    notes: &mut Vec<Note>,
) -> Result<Shelf, Error> {
    let mut ids: Vec<OffsetEpoch> = names.iter().filter_map(|name| id_of(name)).collect();
    ids.sort_by_key(|id| (id.offset, id.epoch));
    let bootstrap = ids.first().copied().filter(|id| id.offset == Offset::ZERO);
    ids.retain(|id| id.offset > Offset::ZERO);
    let mut aside: Vec<OffsetEpoch> =
        names.iter().filter_map(|name| id_of(name.strip_suffix(DAMAGED)?)).collect();
    let ends = ids.iter().chain(&aside).map(|id| id.offset).collect();

    let (mut held, mut head): (Vec<Snapshot>, Head) = (Vec::new(), Head::new());
    let mut away = Away { disk, dir, ending: DAMAGED, moved: Vec::new() };
    for id in ids.into_iter().rev() {
        let judged = match held.is_empty() {
            true => check_path(&*away.disk, &join(dir, &snapshot_name(id)), id).map(
                |(snapshot, found)| {
                    head = found;
                    snapshot
                },
            ),
            false => glance_at_snapshot(&*away.disk, dir, id),
        };
        match judged {
            Ok(snapshot) => held.push(snapshot),
            Err(Error::Damaged { path, position, expected, found }) => {
                away.file(&path)?;
                aside.push(id);
                let why = format!("byte {position}: expected {expected}, found {found}");
                notes.push(Note::SnapshotSetAside { path, why });
            }
            Err(other) => return Err(other),
        }
    }
    if !away.moved.is_empty() {
        away.sync_dir()?;
    }
    held.reverse();
    aside.sort_by_key(|id| (id.offset, id.epoch));
    // Of two with one end the later epoch counts; committed records have one epoch only.
    held.dedup_by(|later, earlier| {
        let same = later.id.offset == earlier.id.offset;
        if same {
            *earlier = *later;
        }
        same
    });
    if let (Some(id), []) = (bootstrap, &held[..]) {
        // Without it nobody would know who counts: damage there ends the start.
        head = check_path(&*disk, &join(dir, &snapshot_name(id)), id)?.1;
    }
    Ok(Shelf { held, bootstrap, head, ends, aside })
}

/// The snapshot that a file of this name is.
fn id_of(name: &str) -> Option<OffsetEpoch> {
    match SnapshotName::parse(name)? {
        SnapshotName::Whole(id) => Some(id),
        SnapshotName::Part(_) | SnapshotName::Deleted(_) => None,
    }
}

/// Sets a snapshot aside in which a load found damage: durably renamed, so that the next start does
/// not count on it. The node then starts anew ([`crate::recover()`]).
pub fn set_aside_snapshot<D: Disk>(
    disk: &mut D,
    partition: &str,
    id: OffsetEpoch,
) -> Result<Note, Error> {
    let path = join(partition, &snapshot_name(id));
    let mut away = Away { disk, dir: partition, ending: DAMAGED, moved: Vec::new() };
    away.snapshot(id)?;
    away.sync_dir()?;
    Ok(Note::SnapshotSetAside { path, why: "a load found damage in it".to_owned() })
}

/// Removes the snapshots that end below the start of the log: what a trim was about to do.
pub(crate) fn remove_below<D: Disk>(
    disk: &mut D,
    dir: &str,
    shelf: &mut Shelf,
    start: Offset,
) -> Result<(), Error> {
    let below = shelf.held.iter().map(|held| held.id).filter(|id| id.offset < start);
    let bootstrap = shelf.bootstrap.filter(|_| start > Offset::ZERO);
    for id in below.chain(bootstrap) {
        let path = join(dir, &snapshot_name(id));
        disk.remove(&path).map_err(Error::io(Operation::Remove, &path))?;
    }
    shelf.held.retain(|held| held.id.offset >= start);
    Ok(())
}

/// Removes the snapshots of a log that is whole from which it could not be replayed: tombstones
/// behind them are missing, below `horizon`; of no other log.
pub(crate) fn remove_stale<D: Disk>(
    disk: &mut D,
    dir: &str,
    shelf: &mut Shelf,
    horizon: Option<Offset>,
) -> Result<(), Error> {
    let Some(horizon) = horizon else { return Ok(()) };
    for id in shelf.held.iter().map(|held| held.id).filter(|id| id.offset < horizon) {
        let path = join(dir, &snapshot_name(id));
        disk.remove(&path).map_err(Error::io(Operation::Remove, &path))?;
    }
    let before = shelf.held.len();
    shelf.held.retain(|held| held.id.offset >= horizon);
    if shelf.held.is_empty() && before > 0 {
        let head = shelf.bootstrap.map(|id| check_path(&*disk, &join(dir, &snapshot_name(id)), id));
        shelf.head = head.transpose()?.map(|(_, head)| head).unwrap_or_default();
    }
    Ok(())
}

/// Renames the snapshots that end beyond the log and are not ahead of it: records of later epochs
/// stand where they should be.
pub(crate) fn set_aside_beyond<D: Disk>(
    disk: &mut D,
    dir: &str,
    shelf: &mut Shelf,
    end: Offset,
    notes: &mut Vec<Note>,
) -> Result<(), Error> {
    let mut away = Away { disk, dir, ending: DAMAGED, moved: Vec::new() };
    for held in shelf.held.iter().filter(|held| held.id.offset > end) {
        away.snapshot(held.id)?;
        let path = join(dir, &snapshot_name(held.id));
        let why = format!("it ends beyond the log, which ends at {end} in a later epoch");
        notes.push(Note::SnapshotSetAside { path, why });
    }
    if !away.moved.is_empty() {
        away.sync_dir()?;
    }
    shelf.held.retain(|held| held.id.offset <= end);
    Ok(())
}
