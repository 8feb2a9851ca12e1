//! What start-up does about cleaning: ends a swap that a crash cut short, and says what the log may
//! say of itself.
//!
//! A log that shows a trace of cleaning and has no numbers is damaged: whatever was made up for
//! them could be too little (decision 11).

use crate::disk::Disk;
use crate::file::join;
use crate::numbers::Carried;
use crate::numbers_file::{self, Kept, NAME};
use crate::set_away::Away;
use crate::snapshot_name::DELETED;
use crate::{Error, Header, cleaner_checkpoint, swap_files};
use quorate_base::Offset;

/// What a scan of the log has seen of cleaning.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traces {
    /// The first batch that has fewer records than offsets.
    cleaned: Option<Offset>,
    /// When the first of the tombstones may go that have a horizon.
    pub next_ms: Option<i64>,
}

impl Traces {
    pub fn batch(&mut self, header: &Header) {
        if header.is_cleaned() {
            self.cleaned.get_or_insert(header.base);
        }
        if header.delete_horizon {
            let (next, own) = (&mut self.next_ms, header.timestamp_ms);
            *next = Some(next.map_or(own, |next| next.min(own)));
        }
    }

    /// What the log says of itself, which ends at `end` and whose file of numbers is this.
    pub fn judge(
        &self,
        found: Option<Carried>,
        dir: &str,
        (start, end): (Offset, Offset),
    ) -> Result<Carried, Error> {
        let carried = match (found, self.cleaned) {
            (Some(carried), _) => carried,
            (None, None) => Carried::default(),
            (None, Some(base)) => return Err(missing(dir, base)),
        };
        let carried = if start < end { carried.of_records() } else { carried };
        // What comes back in place of what was set aside has not been cleaned here.
        Ok(Carried { cleaner: carried.cleaner.min(end), ..carried })
    }

    /// The first batch that shows that the log was cleaned.
    pub fn first(&self) -> Option<Offset> {
        self.cleaned
    }
}

fn missing(dir: &str, base: Offset) -> Error {
    Error::Damaged {
        path: join(dir, NAME),
        position: 0,
        expected: expected(base),
        found: "no file".to_owned(),
    }
}

/// What belongs into the file of a log with this trace.
pub(crate) fn expected(base: Offset) -> String {
    format!("the numbers of a log that was cleaned, as its batch at offset {base} shows")
}

/// Reads the numbers; if a swap was under way, does what is left of it first.
pub(crate) fn take_up<D: Disk>(disk: &mut D, dir: &str) -> Result<Option<Carried>, Error> {
    cleaner_checkpoint::tidy(disk, dir)?;
    let Some(Kept { carried, swap }) = numbers_file::read(disk, dir)? else { return Ok(None) };
    if let Some(swap) = swap {
        let mut away = Away { disk, dir, ending: DELETED, moved: Vec::new() };
        swap_files::carry_out(&mut away, &swap)?;
        numbers_file::write(disk, dir, &Kept { carried, swap: None })?;
    }
    Ok(Some(carried))
}
