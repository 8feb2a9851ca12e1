//! Cleaned files and the swap that puts one in the place of the segments that it was made of.
//!
//! A cleaned segment is written, with its indexes, under a temporary name that its round is part
//! of. The intent in `quorate-cleaned` is durable before the first file changes its name; from then
//! on the swap can be cut short anywhere and is done to the end by whoever comes next. Without
//! intent a cleaned file is a left-over.

use crate::Error;
use crate::disk::{Disk, Operation};
use crate::file::join;
use crate::index::{OFFSETS, TIMES};
use crate::numbers_file::Swap;
use crate::reader::BatchReader;
use crate::segment::file_name_with;
use crate::set_away::Away;
use quorate_base::Offset;
use std::io;

/// Ending of a file that is to take a segment's place.
pub(crate) const CLEANED: &str = ".cleaned";
/// What a segment consists of; the log is swapped last.
const ENDINGS: [&str; 3] = [OFFSETS, TIMES, ".log"];

/// The temporary name of a file of a segment, by its ending.
fn name(base: Offset, ending: &str, round: u64) -> String {
    format!("{}.{round}{CLEANED}", file_name_with(base, ending))
}

/// The path of a cleaned segment that has not yet its own.
pub(crate) fn cleaned_path(dir: &str, base: Offset, round: u64) -> String {
    join(dir, &name(base, ".log", round))
}

/// The paths of its indexes.
pub(crate) fn cleaned_indexes(dir: &str, base: Offset, round: u64) -> [String; 2] {
    [OFFSETS, TIMES].map(|ending| join(dir, &name(base, ending, round)))
}

/// All three.
pub(crate) fn cleaned_paths(dir: &str, base: Offset, round: u64) -> Vec<String> {
    ENDINGS.map(|ending| join(dir, &name(base, ending, round))).to_vec()
}

/// Carries out a swap whose intent is durable, or what is left of one. The files that are needed no
/// more are among those that `away` moved.
pub(crate) fn carry_out<D: Disk>(away: &mut Away<'_, D>, swap: &Swap) -> Result<(), Error> {
    let (first, others) = swap.segments.split_first().expect("a swap has a segment");
    for ending in ENDINGS {
        let from = join(away.dir, &name(*first, ending, swap.round));
        if exists(away.disk, &from)? {
            let to = join(away.dir, &file_name_with(*first, ending));
            away.file(&to)?;
            away.disk.rename(&from, &to).map_err(Error::io(Operation::Rename, &from))?;
        }
    }
    for base in others {
        away.segment(*base)?;
    }
    away.sync_dir()
}

fn exists<D: Disk>(disk: &mut D, path: &str) -> Result<bool, Error> {
    match disk.open(path, crate::Mode::Read) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::io(Operation::Open, path)(error)),
    }
}

/// Opens a segment that a round may have cleaned a moment ago: under its temporary name if it still
/// has that, else under its own.
pub(crate) fn open_segment<D: Disk>(
    disk: &D,
    dir: &str,
    base: Offset,
    cleaned_by: Option<u64>,
) -> Result<BatchReader<D>, Error> {
    let own = join(dir, &file_name_with(base, ".log"));
    let Some(round) = cleaned_by else { return BatchReader::open(disk, &own) };
    match BatchReader::open(disk, &cleaned_path(dir, base, round)) {
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            BatchReader::open(disk, &own)
        }
        opened => opened,
    }
}
