//! Makes a directory that belongs to one node of one cluster, or finds that it does.
//!
//! Never writes into a directory that is in use or belongs to someone else.

mod features;
mod founded;
mod founding;
mod scram;
mod words;

use bytes::Bytes;
pub use features::feature;
pub(crate) use founding::{Alike, head, judge_distinct};
pub use founding::{Founders, InitialController, initial_controllers};
use quorate_base::{ReplicaId, Uuid};
use quorate_log::{Error, Founding, LockError, Meta, OsDisk};
use quorate_node::config::Config;
use quorate_wire::record::metadata::MetadataRecord;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
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
    /// The release whose features `bootstrap.checkpoint` begins with, if that was written.
    pub release: Option<&'static str>,
    /// How a directory that a node has used differs from what is asked for; nothing was changed.
    pub differs: Option<String>,
}

/// How a directory is to be formatted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Formatting {
    /// `cluster.id`; a new one without it.
    pub cluster: Option<String>,
    /// Who votes at first.
    pub founders: Founders,
    /// `--feature kraft.version=…`: has to be what `founders` leads to.
    pub kraft_version: Option<i16>,
    /// What the first active controller of a Kafka cluster is to write; `None` for other machines.
    pub bootstrap: Option<Bootstrap>,
    /// Other directories of the node, see [`Settings::others`](crate::settings::Settings::others);
    /// those that are this node's already are left as they are.
    pub others: Vec<PathBuf>,
    /// Whether those are formatted also where the node's own directory is already.
    pub complete: bool,
}

/// The first records of a Kafka cluster: `bootstrap.checkpoint`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bootstrap {
    /// `--release-version`; the newest without it.
    pub release: Option<String>,
    /// `--feature`: levels in place of the release's own, see [`feature`].
    pub features: Vec<(String, i16)>,
    /// `--add-scram`: credentials in Kafka's form.
    pub scram: Vec<String>,
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
    /// Voters by a flag and by the configuration.
    TwoVoterLists {
        /// The flag.
        flag: &'static str,
    },
    /// A `kraft.version` that does not go with who the voters are.
    KraftVersion {
        /// The level.
        level: i16,
        /// The flag that says who votes, if one does.
        flag: Option<&'static str>,
    },
    /// The directory was formatted for other voters, and nobody has used it.
    OtherVoters {
        /// The directory.
        directory: PathBuf,
        /// What it is, and what is asked for.
        how: String,
    },
    /// The list of initial controllers does not name the node.
    NotAmong {
        /// The node.
        node: ReplicaId,
    },
    /// No initial controller looks so.
    BadController {
        /// What was written.
        text: String,
        /// What is wrong.
        why: String,
    },
    /// Two initial controllers that cannot be told apart.
    SameController {
        /// What they share.
        what: &'static str,
        /// One.
        one: String,
        /// The other.
        other: String,
    },
    /// Others could not reach the node where it listens.
    NoAddress {
        /// The listener's name.
        listener: String,
        /// Where it listens.
        at: String,
        /// Why not.
        why: &'static str,
    },
    /// There is no such release.
    UnknownRelease {
        /// What was written.
        release: String,
        /// The oldest there is.
        least: &'static str,
        /// The newest.
        most: &'static str,
    },
    /// A release, and a level of `metadata.version` besides.
    TwoReleases,
    /// A feature that is not written as one.
    BadFeature {
        /// What was written.
        text: String,
    },
    /// There is no such feature.
    UnknownFeature {
        /// What was written.
        name: String,
        /// Those there are.
        known: Vec<&'static str>,
    },
    /// The feature has no such level.
    BadLevel {
        /// The feature.
        name: &'static str,
        /// The level.
        level: i16,
        /// Its lowest level.
        least: i16,
        /// Its highest.
        most: i16,
    },
    /// The feature needs a newer release.
    FeatureNeeds {
        /// The feature.
        name: &'static str,
        /// Its level.
        level: i16,
        /// The release that it needs.
        needs: &'static str,
        /// The one that was asked for.
        has: &'static str,
    },
    /// The release has no records for SCRAM credentials.
    NoScramYet {
        /// The release.
        has: &'static str,
        /// The first that has.
        needs: &'static str,
    },
    /// No SCRAM credential looks so. The text is not repeated, since it holds a password.
    BadScram {
        /// What is wrong.
        why: String,
    },
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
            FormatError::NoEntropy(error) => write!(
                f,
                "the operating system gives no random numbers for an id: {error}; try again"
            ),
            FormatError::TwoVoterLists { .. }
            | FormatError::KraftVersion { .. }
            | FormatError::NotAmong { .. }
            | FormatError::OtherVoters { .. }
            | FormatError::BadController { .. }
            | FormatError::SameController { .. }
            | FormatError::NoAddress { .. } => self.of_voters(f),
            FormatError::UnknownRelease { .. }
            | FormatError::TwoReleases
            | FormatError::BadFeature { .. }
            | FormatError::UnknownFeature { .. }
            | FormatError::BadLevel { .. }
            | FormatError::FeatureNeeds { .. }
            | FormatError::NoScramYet { .. }
            | FormatError::BadScram { .. } => self.of_records(f),
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
    let cluster = cluster.map(str::to_owned);
    format_as(config, &Formatting { cluster, ..Formatting::default() })
}

/// [`format()`] in any of Kafka's ways.
///
/// # Errors
/// See [`FormatError`]; the directory is as it was, or half formatted and can be formatted again.
pub fn format_as(config: &Config, how: &Formatting) -> Result<Formatted, FormatError> {
    let cluster = how.cluster.as_deref();
    if let Some(cluster) = cluster {
        check_cluster_id(cluster)?;
    }
    let node = config.id.ok_or(FormatError::NoId)?;
    let voters = founding::judge(config, node, &how.founders, how.kraft_version, random_uuid)?;
    let (release, bootstrap) = match &how.bootstrap {
        Some(bootstrap) => records(bootstrap).map(|(release, all)| (Some(release), all))?,
        None => (None, Vec::new()),
    };
    let root = &config.directory;
    let _lock = take(root, node)?;
    let files = |error| FormatError::Files { directory: root.clone(), error };
    let mut disk = OsDisk::new(root);
    let known = known(&mut disk, cluster, node).map_err(files)?;
    let cluster = match (&known, cluster) {
        (Some(meta), _) => meta.cluster.clone(),
        (None, Some(cluster)) => cluster.to_owned(),
        (None, None) => random_uuid()?.to_string(),
    };
    let differs = match &known {
        Some(meta) => as_asked(&disk, config, meta, &how.founders)?,
        None => None,
    };
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let timestamp_ms = since.as_millis() as i64;
    let founding = Founding { voters: voters.head, bootstrap, timestamp_ms };
    let others = if known.is_none() || how.complete { &how.others[..] } else { &[] };
    for other in others {
        beside(other, &cluster, node, &founding)?;
    }
    if let Some(Meta { cluster, directory, .. }) = known {
        return Ok(Formatted { cluster, directory, already: true, release: None, differs });
    }
    let directory = Some(voters.directory.map_or_else(random_uuid, Ok)?);
    let meta = Meta { cluster, node, directory };
    let partition = format!("{}-0", config.topic);
    quorate_log::found(&mut disk, &partition, &meta, config.topic_id, &founding).map_err(files)?;
    Ok(Formatted { cluster: meta.cluster, directory, already: false, release, differs })
}

/// How a directory that is formatted already differs from what is asked for, where its node has a
/// history that may explain it. One without would begin as something else than it is taken for.
fn as_asked(
    disk: &OsDisk,
    config: &Config,
    meta: &Meta,
    founders: &Founders,
) -> Result<Option<String>, FormatError> {
    let directory = config.directory.clone();
    match founded::differs(disk, &format!("{}-0", config.topic), meta, founders) {
        Ok(None) => Ok(None),
        Ok(Some(founded::Differs { how, used: true })) => Ok(Some(how)),
        Ok(Some(founded::Differs { how, used: false })) => {
            Err(FormatError::OtherVoters { directory, how })
        }
        Err(error) => Err(FormatError::Files { directory, error }),
    }
}

/// Another directory of the node, unless it is formatted already.
fn beside(
    other: &Path,
    cluster: &str,
    node: ReplicaId,
    founding: &Founding,
) -> Result<(), FormatError> {
    let _lock = take(other, node)?;
    let files = |error| FormatError::Files { directory: other.to_owned(), error };
    let mut disk = OsDisk::new(other);
    if known(&mut disk, Some(cluster), node).map_err(files)?.is_some() {
        return Ok(());
    }
    let meta = Meta { cluster: cluster.to_owned(), node, directory: Some(random_uuid()?) };
    quorate_log::found_beside(&mut disk, &meta, founding).map_err(files)
}

/// What a directory that was formatted says; an error if it is not this node's.
fn known(disk: &mut OsDisk, cluster: Option<&str>, node: ReplicaId) -> Result<Option<Meta>, Error> {
    match Meta::read(disk).and_then(|meta| meta.check(cluster, node).map(|()| meta)) {
        Ok(meta) => Ok(Some(meta)),
        Err(Error::NotFormatted { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes a directory where there is none, and locks it.
fn take(directory: &Path, node: ReplicaId) -> Result<quorate_log::Lock, FormatError> {
    fs::create_dir_all(directory)
        .map_err(|source| FormatError::Directory { directory: directory.to_owned(), source })?;
    lock(directory, node)
}

/// Makes the empty log of a directory that Kafka's storage tool has formatted and nobody has used
/// yet, where that tool leaves it to the first start. Nothing happens in any other.
///
/// # Errors
/// [`FormatError::Lock`], [`FormatError::Files`].
pub fn complete(config: &Config) -> Result<(), FormatError> {
    let files = |error| FormatError::Files { directory: config.directory.clone(), error };
    let mut disk = OsDisk::new(&config.directory);
    let partition = format!("{}-0", config.topic);
    let Some(node) = config.id else { return Ok(()) };
    // Looked at before the lock, whose file would say that the directory was used.
    if !quorate_log::is_without_log(&mut disk, &partition).map_err(files)? {
        return Ok(());
    }
    let _lock = lock(&config.directory, node)?;
    quorate_log::begin_log(&mut disk, &partition, config.topic_id).map_err(files)
}

fn lock(directory: &Path, node: ReplicaId) -> Result<quorate_log::Lock, FormatError> {
    OsDisk::lock(directory, &format!("format of node {node}")).map_err(FormatError::Lock)
}

/// The release, and the values of the records: features, then credentials.
fn records(bootstrap: &Bootstrap) -> Result<(&'static str, Vec<Bytes>), FormatError> {
    let levels = features::levels(bootstrap.release.as_deref(), &bootstrap.features)?;
    let mut records: Vec<MetadataRecord> = levels.records();
    for text in &bootstrap.scram {
        levels.check_scram()?;
        let random = |salt: &mut [u8]| getrandom::fill(salt).map_err(FormatError::NoEntropy);
        records.push(scram::credential(text, random)?.into());
    }
    let encoded = |record: MetadataRecord| match record.encode(0) {
        Ok(value) => Ok(value),
        Err(error) => Err(FormatError::BadScram { why: error.to_string() }),
    };
    let values: Result<Vec<Bytes>, FormatError> = records.into_iter().map(encoded).collect();
    Ok((levels.release(), values?))
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
