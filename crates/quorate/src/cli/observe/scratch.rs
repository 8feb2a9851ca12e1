//! Where an observer keeps its copy of the log: a directory that is named and stays, or one of its
//! own that goes with it. Nobody else may read it, for there are secrets in a cluster's metadata.

use crate::cli::{Outcome, failed, random_uuid};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The file without which a directory is no node's.
const META: &str = "meta.properties";
/// The folder of the log in it.
const PARTITION: &str = "__cluster_metadata-0";

/// A directory, removed when this is dropped if it is temporary.
pub(super) struct Scratch {
    path: PathBuf,
    temporary: bool,
}

impl Scratch {
    /// The directory that is named, or a new one.
    pub(super) fn new(named: Option<&Path>) -> Outcome<Scratch> {
        let path = match named {
            Some(path) => path.to_owned(),
            None => std::env::temp_dir().join(format!("quorate-observe-{}", random_uuid()?)),
        };
        let mut private = DirBuilder::new();
        private.recursive(named.is_some()).mode(0o700);
        if named.is_some() && is_foreign(&path) {
            return failed(format!(
                "{} is not empty and holds no copy of a log (it has no {META}); nothing was touched. Name an empty or new directory with --dir, or leave it out",
                path.display()
            ));
        }
        match private.create(&path) {
            Ok(()) => Ok(Scratch { path, temporary: named.is_none() }),
            Err(error) => failed(format!(
                "{} cannot be made: {error}; name a directory for the copy of the log with --dir",
                path.display()
            )),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Whether a directory holds what no observer put there. One that came no further than its first
/// files is gone on with.
fn is_foreign(path: &Path) -> bool {
    let Ok(entries) = fs::read_dir(path) else { return false };
    let names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    let began = |name: &str| name == ".lock" || name == PARTITION || name.starts_with(META);
    !names.iter().any(|name| name == META)
        && !names.iter().all(|name| name.to_str().is_some_and(began))
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.temporary {
            // What cannot be removed is the operating system's to remove some day.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
