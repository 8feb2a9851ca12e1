//! Empties a log that may hold what was deleted long ago, so that all of it is copied anew from the
//! leader [P82].
//!
//! Not damage: what goes is removed, not kept. But what was confirmed is not forgotten: until the
//! log is back where it was the replica has no say, as after a repair. Each step can be cut short;
//! what is left then is a shorter log, and whoever goes on with it is told to start over again.

use crate::disk::{Disk, Operation};
use crate::file::{join, read_file};
use crate::segment::{base_of, file_name};
use crate::set_aside::{Place, claim, walk};
use crate::set_away::Away;
use crate::snapshot_name::DELETED;
use crate::{EpochTable, Error, Options, epoch_file, must_reach_file, snapshot_shelf, synced_file};
use quorate_base::{Offset, OffsetEpoch};

/// Leaves a log that begins and ends at 0, without snapshots but that which says who founded the
/// quorum. Returns where it must get before the replica may vote again. The caller holds the
/// directory's lock and has no store open.
pub fn start_over<D: Disk>(disk: &mut D, options: &Options) -> Result<OffsetEpoch, Error> {
    let dir = options.partition.as_str();
    let names = disk.list(dir).map_err(Error::io(Operation::List, dir))?;
    let mut bases: Vec<Offset> = names.iter().filter_map(|name| base_of(name)).collect();
    bases.sort();
    if bases.is_empty() {
        return Err(Error::NotFormatted { path: join(dir, &file_name(Offset::ZERO)) });
    }
    let mut notes = Vec::new();
    let shelf = snapshot_shelf::read(disk, dir, &names, &mut notes)?;
    let table = read_file(disk, &join(dir, epoch_file::NAME))?;
    let table = table.and_then(|bytes| EpochTable::decode(&bytes).ok());
    let walked = walk(disk, dir, &bases, Place::Uncovered, None)?;
    let mut must_reach = claim(disk, dir, &bases, &walked, table.as_ref())?;
    // What only a snapshot holds was confirmed too.
    for held in &shelf.held {
        if held.id.log_order() > must_reach.log_order() {
            must_reach = held.id;
        }
    }
    must_reach_file::write(disk, dir, must_reach)?;
    synced_file::note_owing(disk, dir, true)?;

    let mut away = Away { disk, dir, ending: DELETED, moved: Vec::new() };
    for held in shelf.held.iter().rev() {
        away.snapshot(held.id)?;
        away.sync_dir()?;
    }
    let first = bases[0];
    let mut synced = away.empty(&bases)?;
    away.reset(&mut synced, &[first], None, &[])?;
    let moved = away.moved;
    crate::remove_deleted(disk, &moved);
    Ok(must_reach)
}
