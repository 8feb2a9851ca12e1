//! What can go wrong around processes, in words that say where to look.

use std::fmt;
use std::path::PathBuf;

/// Why a process or its files could not be had.
#[derive(Debug)]
pub enum Error {
    /// A file or directory.
    File {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The binary could not be built.
    Build {
        /// What cargo printed.
        output: String,
    },
    /// A command of the binary failed.
    Command {
        /// Which.
        command: String,
        /// What it printed.
        output: String,
    },
    /// Something did not come about in time.
    Late {
        /// What was waited for.
        what: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::File { path, source } => write!(f, "{}: {source}", path.display()),
            Error::Build { output } => {
                write!(f, "the binary quorate cannot be built; cargo says:\n{output}")
            }
            Error::Command { command, output } => write!(f, "`{command}` failed:\n{output}"),
            Error::Late { what } => write!(f, "waited in vain: {what}"),
        }
    }
}

impl std::error::Error for Error {}
