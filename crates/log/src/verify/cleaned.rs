//! What cleaning leaves in a folder: numbers, and swaps that are under way.
//!
//! Cleaned batches join like any others, so nothing else of a cleaned log needs to be known here.

use super::missing::Folder;
use super::walked::Walked;
use super::{Remedy, Verify};
use crate::disk::Disk;
use crate::file::{join, read_file};
use crate::numbers::Carried;
use crate::numbers_file::{self, Kept};
use crate::segment::file_name;
use crate::{Error, cleaner_checkpoint, swap_files, take_up};
use quorate_base::Offset;

impl<D: Disk> Verify<'_, D> {
    /// What the numbers say, if they can be read; that they cannot is told elsewhere.
    fn cleaned(&mut self, dir: &str) -> Result<Option<Result<Kept, ()>>, Error> {
        match read_file(self.disk, &join(dir, numbers_file::NAME)) {
            Ok(bytes) => Ok(bytes.map(|bytes| Kept::decode(&bytes).map_err(drop))),
            Err(Error::Malformed { .. }) => Ok(Some(Err(()))),
            Err(error) => Err(error),
        }
    }

    /// The segments of a folder, without those whose place a cleaned one has taken. `None` at the
    /// moment at which the cleaned one has none of both names.
    pub(super) fn bases(&mut self, folder: &Folder<'_>) -> Result<Option<Vec<Offset>>, Error> {
        let mut bases = folder.bases();
        let Some(Ok(Kept { swap: Some(swap), .. })) = self.cleaned(folder.dir)? else {
            return Ok(Some(bases));
        };
        let (path, expected) = (join(folder.dir, numbers_file::NAME), "no swap that is under way");
        let found = format!("one of the segments {:?}", swap.segments);
        self.find(&path, 0, expected, found, Remedy::NextStart);
        let first = swap.segments[0];
        let cleaned = swap_files::cleaned_path("", first, swap.round);
        if folder.has(&cleaned) {
            return Ok(folder.has(&file_name(first)).then_some(bases));
        }
        bases.retain(|base| *base == first || !swap.segments.contains(base));
        Ok(Some(bases))
    }

    /// A cleaned log has numbers, and they make sense.
    pub(super) fn numbers(&mut self, dir: &str, walked: &Walked) -> Result<(), Error> {
        let path = join(dir, numbers_file::NAME);
        match (self.cleaned(dir)?, walked.traces.first()) {
            (None, Some(base)) => self.damage(&path, 0, take_up::expected(base), "no file"),
            (Some(Ok(Kept { carried, .. })), _) => {
                let Carried { dirty, horizon, cleaner, .. } = carried;
                if horizon > dirty || cleaner > dirty {
                    let found = format!("horizon {horizon}, cleaner's end {cleaner}");
                    self.damage(&path, 8, format!("no number above dirty {dirty}"), found);
                }
            }
            (Some(Err(())) | None, _) => {}
        }
        Ok(())
    }

    /// Kafka's checkpoint: the next end of a round writes it anew.
    pub(super) fn checkpoint_of_ends(&mut self, path: &str) {
        let bytes = read_file(self.disk, path).ok().flatten().unwrap_or_default();
        if cleaner_checkpoint::decode(&bytes).is_none() {
            let expected = "version 0, a count, and so many lines";
            self.find(path, 0, expected, "other text", Remedy::NextStart);
        }
    }
}
