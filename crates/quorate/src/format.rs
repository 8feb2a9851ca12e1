//! Makes a directory that belongs to one node of one cluster, or finds that it does.
//!
//! Never writes into a directory that is in use or belongs to someone else.

use quorate_base::Uuid;
use quorate_log::{Error, LockError, Meta, OsDisk};
use quorate_node::config::Config;
use std::path::PathBuf;
use std::{fmt, fs, io};

/// The longest id of a cluster, in characters.
const CLUSTER_ID_MAX: usize = 64;

/// What [`format()`] made or found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Formatted {
    /// `cluster.id`.
    pub cluster: String,
    /// `directory.id`; `None` in directories that Kafka made before it knew them.
    pub directory: Option<Uuid>,
    /// Whether the directory was formatted before; then nothing was changed.
    pub already: bool,
}

/// Why a directory cannot be formatted.
#[derive(Debug)]
pub enum FormatError {
    /// No cluster may be called so.
    BadCluster(String),
    /// A directory belongs to a node, and the configuration has no id.
    NoId,
    /// The directory cannot be made.
    Directory {
        /// The directory.
        directory: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A process uses the directory.
    Lock(LockError),
    /// The directory is another's, damaged, or cannot be written.
    Files {
        /// The directory.
        directory: PathBuf,
        /// What is wrong in it.
        error: Error,
    },
    /// The operating system gives no random numbers.
    NoEntropy(getrandom::Error),
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FormatError::BadCluster(id) => write!(
                f,
                "'{id}' cannot be a cluster id: it must be 1 to {CLUSTER_ID_MAX} letters (a-z, A-Z), digits, \
                 '-', '_' and '.', and not begin with '-'; `quorate random-uuid` makes one"
            ),
            FormatError::NoId => f.write_str("a directory belongs to a node: set node.id"),
            FormatError::Directory { directory, source } => write!(
                f,
                "{} cannot be made: {source}; check log.dirs and the permissions above it",
                directory.display()
            ),
            FormatError::Lock(error) => error.fmt(f),
            FormatError::Files { directory, error } => {
                write!(f, "in {}: {error}", directory.display())
            }
            FormatError::NoEntropy(error) => {
                write!(
                    f,
                    "the operating system gives no random numbers for an id: {error}; try again"
                )
            }
        }
    }
}

impl std::error::Error for FormatError {}

/// Formats the configured directory for the configured node, in `cluster` or, without one, in a new
/// cluster. A directory that is already this node's is left as it is.
///
/// # Errors
/// See [`FormatError`]; the directory is as it was, or half formatted and can be formatted again.
pub fn format(config: &Config, cluster: Option<&str>) -> Result<Formatted, FormatError> {
    if let Some(cluster) = cluster {
        check_cluster_id(cluster)?;
    }
    let node = config.id.ok_or(FormatError::NoId)?;
    let root = &config.directory;
    fs::create_dir_all(root)
        .map_err(|source| FormatError::Directory { directory: root.clone(), source })?;
    let _lock = OsDisk::lock(root, &format!("format of node {node}")).map_err(FormatError::Lock)?;
    let files = |error| FormatError::Files { directory: root.clone(), error };
    let mut disk = OsDisk::new(root);
    match Meta::read(&mut disk).and_then(|meta| meta.check(cluster, node).map(|()| meta)) {
        Ok(Meta { cluster, directory, .. }) => {
            return Ok(Formatted { cluster, directory, already: true });
        }
        Err(Error::NotFormatted { .. }) => {}
        Err(error) => return Err(files(error)),
    }
    let cluster = match cluster {
        Some(cluster) => cluster.to_owned(),
        None => random_uuid()?.to_string(),
    };
    let directory = Some(random_uuid()?);
    let meta = Meta { cluster, node, directory };
    let partition = format!("{}-0", config.topic);
    quorate_log::format(&mut disk, &partition, &meta, config.topic_id).map_err(files)?;
    Ok(Formatted { cluster: meta.cluster, directory, already: false })
}

/// Whether a cluster may be called so: an id stands in shells, files and logs as it is.
///
/// # Errors
/// [`FormatError::BadCluster`].
pub fn check_cluster_id(id: &str) -> Result<(), FormatError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let fits = (1..=CLUSTER_ID_MAX).contains(&id.len()) && !id.starts_with('-');
    match fits && id.bytes().all(plain) {
        true => Ok(()),
        false => Err(FormatError::BadCluster(id.to_owned())),
    }
}

/// A random id in Kafka's form, which never starts with '-'.
///
/// # Errors
/// [`FormatError::NoEntropy`].
pub fn random_uuid() -> Result<Uuid, FormatError> {
    loop {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(FormatError::NoEntropy)?;
        if let Some(id) = Uuid::from_random(bytes) {
            return Ok(id);
        }
    }
}
