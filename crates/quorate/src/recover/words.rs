//! What a person is told who cannot recover: what is wrong, what it means, what to do.

use super::RecoverError;
use std::fmt;

impl fmt::Display for RecoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecoverError::Lock(error) => error.fmt(f),
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
            RecoverError::SameVoter(error) => error.fmt(f),
            RecoverError::NoEpoch => f.write_str(
                "there is no epoch behind those that the copies know: epochs are numbers up to 2147483647",
            ),
            RecoverError::Files { directory, error } => {
                write!(f, "in {}: {error}", directory.display())
            }
        }
    }
}

impl std::error::Error for RecoverError {}
