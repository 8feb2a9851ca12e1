//! Files that a node has and that are not there.
//!
//! What belongs to a log follows from the names beside it: a folder with any file that only a
//! quorum's log has must have all of them. Kafka's directories have none of ours, and what its
//! storage tool leaves to the first start is not missed.

use super::{Finding, Remedy, Verify, dir_of, snapshot_id};
use crate::disk::Disk;
use crate::dump::DEEPEST;
use crate::file::join;
use crate::format::made_by_kafkas_tool;
use crate::segment::{base_of, file_name};
use crate::snapshot_name::{DAMAGED, DELETED};
use crate::synced_file::{self, Found};
use crate::{
    Error, FileKind, election_file, epoch_file, meta_file, must_reach_file, partition_file,
    recovered_file, reserve,
};
use quorate_base::Offset;
use std::collections::BTreeSet;

/// How Kafka calls the folder of its metadata log.
const METADATA: &str = "__cluster_metadata-0";

/// The names in one folder.
pub(super) struct Folder<'a> {
    pub dir: &'a str,
    pub names: BTreeSet<&'a str>,
}

impl<'a> Folder<'a> {
    /// The folders of these files, that of the log of a quorum among them.
    pub fn all(paths: &'a [String]) -> Vec<Folder<'a>> {
        let dirs: BTreeSet<&str> = paths.iter().map(|path| dir_of(path)).collect();
        let named = |dir| {
            let inside = paths.iter().filter(move |path| dir_of(path) == dir);
            inside.map(|path| path.rsplit('/').next().unwrap_or(path)).collect()
        };
        dirs.into_iter().map(|dir| Folder { dir, names: named(dir) }).collect()
    }

    /// Base offsets of the segments, in order.
    pub fn bases(&self) -> Vec<Offset> {
        self.names.iter().filter_map(|name| base_of(name)).collect()
    }

    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Whether it is the folder of a quorum's log. A broker's other partitions are none.
    fn is_a_quorums(&self) -> bool {
        let own = [election_file::NAME, synced_file::NAME, must_reach_file::NAME, reserve::NAME];
        self.dir.rsplit('/').next() == Some(METADATA)
            || own.iter().any(|name| self.has(name))
            || self.names.iter().any(|name| snapshot_id(name).is_some())
    }

    /// Whether one of our nodes has run here.
    fn is_ours(&self) -> bool {
        let own = [must_reach_file::NAME, reserve::NAME];
        own.iter().any(|name| self.has(name)) || self.names.iter().any(|n| n.ends_with(DAMAGED))
    }
}

impl<D: Disk> Verify<'_, D> {
    fn miss(&mut self, path: String, expected: impl Into<String>, remedy: Remedy) {
        let (expected, found) = (expected.into(), "no file".to_owned());
        self.findings.push(Finding { path, position: 0, expected, found, remedy });
    }

    /// Says which files are missing in and above a folder. Whether its log has records the caller
    /// knows.
    pub(super) fn missing(
        &mut self,
        folder: &Folder<'_>,
        folders: &[Folder<'_>],
        has_records: bool,
    ) -> Result<(), Error> {
        let dir = folder.dir;
        let names: Vec<String> = folder.names.iter().map(|name| (*name).to_owned()).collect();
        if !folder.is_a_quorums() || made_by_kafkas_tool(&names) {
            return Ok(());
        }
        if folder.has(recovered_file::BEGUN) {
            let (path, found) = (join(dir, recovered_file::BEGUN), "one that was cut short");
            self.find(&path, 0, "a recovery that came to its end", found, Remedy::Recover);
        }
        if folder.bases().is_empty() {
            self.no_segment(folder)?;
        }
        if !folder.has(election_file::NAME) && (has_records || folder.has(must_reach_file::NAME)) {
            let expected = "the epoch and the vote of a node that has records";
            self.miss(join(dir, election_file::NAME), expected, Remedy::Replace);
        }
        let owes = match synced_file::read(self.disk, dir)? {
            Found::Mark(_, _, owing) => owing,
            Found::Missing => folder.names.iter().any(|name| name.ends_with(DAMAGED)),
            Found::Unreadable => false,
        };
        if owes && !folder.has(must_reach_file::NAME) {
            let expected = "how far the log went before a part of it was set aside";
            self.miss(join(dir, must_reach_file::NAME), expected, Remedy::Replace);
        }
        if !folder.has(partition_file::NAME) {
            self.miss(join(dir, partition_file::NAME), "the topic's id", Remedy::Identity);
        }
        if !folder.has(synced_file::NAME) && folder.is_ours() {
            let expected = "a mark up to where the log was on disk; until there is one, nothing tells whether it ended further on";
            self.miss(join(dir, synced_file::NAME), expected, Remedy::NextStart);
        }
        // Who names the folder of the log alone does not show what is above.
        if !dir.is_empty() {
            let above = dir_of(dir);
            let of = folders.iter().find(|folder| folder.dir == above);
            if of.is_none_or(|of| !of.has(meta_file::NAME)) {
                let expected = "whose directory this is";
                self.miss(join(above, meta_file::NAME), expected, Remedy::Identity);
            }
        }
        Ok(())
    }

    /// A directory with an owner and without a log. Of those of Kafka, which have a bootstrap
    /// snapshot, one may never have been started, or be of a broker that has its log in another.
    pub(super) fn no_log(&mut self, folder: &Folder<'_>, folders: &[Folder<'_>]) {
        let below = |one: &&Folder<'_>| !one.dir.is_empty() && dir_of(one.dir) == folder.dir;
        let kafkas = folder.names.iter().any(|name| name.ends_with("checkpoint"));
        let has_log = folders.iter().filter(below).any(Folder::is_a_quorums);
        // Its own files are as deep as its path has parts, and one; those of a folder in it, one
        // more.
        let parts = folder.dir.split('/').filter(|part| !part.is_empty()).count() as u32;
        let seen = parts + 2 <= DEEPEST;
        if folder.has(meta_file::NAME) && seen && !kafkas && !has_log {
            let expected = "the folder of the log: how far it went, and the node's vote";
            self.miss(join(folder.dir, METADATA), expected, Remedy::Replace);
        }
    }

    fn no_segment(&mut self, folder: &Folder<'_>) -> Result<(), Error> {
        let mark = match synced_file::read(self.disk, folder.dir)? {
            Found::Mark(mark, ..) => Some(mark),
            Found::Missing | Found::Unreadable => None,
        };
        let first = file_name(mark.map(|mark| mark.segment).unwrap_or_default());
        let moved = [DAMAGED, DELETED].iter().any(|end| folder.has(&format!("{first}{end}")));
        let remedy = match mark.is_some_and(|mark| mark.end == mark.segment) && moved {
            // It was moved away, and the crash came before it was made anew.
            true => Remedy::NextStart,
            false => Remedy::Replace,
        };
        self.miss(join(folder.dir, &first), "the records of the log", remedy);
        Ok(())
    }

    /// Files of records that are missing: those from `from` to below `base`, where the next segment
    /// begins. Either a segment is gone, or the one before was cut.
    pub(super) fn gap(
        &mut self,
        folder: &Folder<'_>,
        before: Option<(String, u64)>,
        from: Offset,
        base: Offset,
    ) {
        let own = file_name(from);
        let indexed = folder.names.iter().any(|name| match FileKind::of(name) {
            FileKind::Offsets(of) | FileKind::Times(of) => of == from,
            FileKind::Segment(_)
            | FileKind::Checkpoint
            | FileKind::Epochs
            | FileKind::Election
            | FileKind::Topic
            | FileKind::Meta
            | FileKind::Synced
            | FileKind::MustReach
            | FileKind::Numbers
            | FileKind::CleanerEnds
            | FileKind::Other => false,
        });
        let expected = format!("the records from offset {from} to below {base}");
        match before.filter(|_| !indexed) {
            None => self.miss(join(folder.dir, &own), expected, Remedy::Leader),
            Some((path, end)) => {
                let found = format!(
                    "the end of the file: it was cut, or {own} is missing, and the next file begins at {base}"
                );
                self.damage(&path, end, expected, found);
            }
        }
    }

    /// The segments before the first one that is there, of which the epoch table speaks.
    pub(super) fn beheaded(&mut self, dir: &str, from: Offset, first: Offset) {
        let expected = format!(
            "the records from offset {from} to below {first}, which {} speaks of",
            epoch_file::NAME
        );
        self.miss(join(dir, &file_name(from)), expected, Remedy::Leader);
    }
}
