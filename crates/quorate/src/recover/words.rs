//! What a person is told who cannot recover: what is wrong, what it means, what to do.

use super::{BadVoter, RecoverError};
use quorate_log::Error;
use std::fmt;

impl fmt::Display for RecoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecoverError::NoCopy(reasons) => {
                f.write_str("none of these directories can be recovered from:")?;
                for (directory, why) in reasons {
                    write!(f, "\n  {}: {why}", directory.display())?;
                }
                f.write_str("\nName the data directory of a node, as log.dirs has it, or a copy of one.")
            }
            RecoverError::NotUsable { directory, why } => {
                write!(f, "{} cannot be used: {why}", directory.display())
            }
            RecoverError::Clusters { one, other } => write!(
                f,
                "{} belongs to the cluster {} and {} to the cluster {}: name copies of one cluster only",
                one.0.display(),
                one.1,
                other.0.display(),
                other.1
            ),
            RecoverError::Undecided { whole, damaged } => write!(
                f,
                "{} is whole and ends at offset {}; {} is damaged, and what is right in it ends at {}, so it holds \
                 records that the other lacks: look at it with `quorate log verify`, then say which one counts with \
                 --use DIR",
                whole.0.display(),
                whole.1,
                damaged.0.display(),
                damaged.1
            ),
            RecoverError::NoDirectoryId { .. }
            | RecoverError::NoAddress { .. }
            | RecoverError::NotAVoter { .. }
            | RecoverError::UnknownDirectory { .. }
            | RecoverError::SeveralDirectories { .. }
            | RecoverError::SameVoter { .. } => self.of_voters(f),
            RecoverError::NoEpoch => f.write_str(
                "there is no epoch behind those that the copies know: epochs are numbers up to 2147483647",
            ),
            RecoverError::Files { directory, error, begun: false } => write!(
                f,
                "in {}: {}; the log is as it was. Mend that (where a disk is full, make room: each file that changes is \
                 kept beside itself), then run the same command again",
                directory.display(),
                error.fault()
            ),
            RecoverError::Files { directory, error, begun: true } => write!(
                f,
                "in {}: {}; the log is changed in part, and no node starts on it like that. Mend that (where a disk is \
                 full, make room), then run the same command again: it goes on, and what was kept stays as it is",
                directory.display(),
                error.fault()
            ),
        }
    }
}

impl RecoverError {
    fn of_voters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecoverError::NoDirectoryId { directory } => write!(
                f,
                "meta.properties in {} has no directory.id, and voters in the log are known by it: add the line \
                 directory.id=ID (`quorate random-uuid` makes one)",
                directory.display()
            ),
            RecoverError::NoAddress { node } => write!(
                f,
                "nothing in the log says where node {node} listens, so the new voters cannot be written: name them \
                 with --voters {node}@HOST:PORT"
            ),
            RecoverError::NotAVoter { node, directory } => write!(
                f,
                "the new voters must name node {node} with the directory {directory}, whose copy is to be used: \
                 without it nobody who has the records could lead; add {node}@HOST:PORT to --voters, or choose another \
                 copy with --use"
            ),
            RecoverError::UnknownDirectory { node } => write!(
                f,
                "nothing says which directory voter {node} has, and voters in the log are known by it: name its \
                 directory among the copies, or write {node}@HOST:PORT:DIRECTORY with the directory.id of its \
                 meta.properties"
            ),
            RecoverError::SeveralDirectories { node, found } => {
                write!(
                    f,
                    "voter {node} has copies of several directories here, and the log names none of them:"
                )?;
                for (directory, id) in found {
                    write!(f, "\n  {}: {id}", directory.display())?;
                }
                write!(
                    f,
                    "\nWrite {node}@HOST:PORT:DIRECTORY with the one that its node will run on: another would never vote"
                )
            }
            RecoverError::SameVoter { what, one, other } => write!(
                f,
                "the new voters {one} and {other} share {what}: they would be taken for each other; give each its own"
            ),
            RecoverError::NoCopy(_)
            | RecoverError::NotUsable { .. }
            | RecoverError::Clusters { .. }
            | RecoverError::Undecided { .. }
            | RecoverError::NoEpoch
            | RecoverError::Files { .. } => Ok(()),
        }
    }
}

impl std::error::Error for RecoverError {}

impl fmt::Display for BadVoter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is no voter: {}; write ID@HOST:PORT, such as 1@a.example:9093, with :DIRECTORY behind it only where \
             neither the log nor a copy says which directory it has",
            self.text, self.why
        )
    }
}

impl std::error::Error for BadVoter {}

/// Why nothing can be recovered from a directory: what helps a node that has others does not here.
pub(super) fn unusable(error: &Error) -> String {
    match error {
        Error::Io { .. } => format!(
            "{}; look at the disk and at who may read it, or name another copy",
            error.fault()
        ),
        Error::Lost { path, .. } | Error::Malformed { path, .. }
            if !path.ends_with("meta.properties") =>
        {
            format!("{}; put it back from a copy, or name another directory", error.fault())
        }
        Error::NotFormatted { .. }
        | Error::Lost { .. }
        | Error::AlreadyFormatted { .. }
        | Error::Malformed { .. }
        | Error::Damaged { .. }
        | Error::Uncovered { .. }
        | Error::Foreign { .. }
        | Error::NotABoundary { .. } => error.to_string(),
    }
}
