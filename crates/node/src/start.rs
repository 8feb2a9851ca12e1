//! From a configuration and a formatted directory to a replica: what start-up reads, and why it may
//! refuse.
//!
//! Generic over the disk, so that the simulator's nodes start through the same code as the
//! server's.

use crate::config::{Cleanup, Config};
use crate::replica::{Replica, Settings, history};
use crate::seats::Seats;
use crate::translate::{self, Names};
use quorate_base::{Offset, ReplicaId, ReplicaKey, Span, Time, Uuid};
use quorate_log::{
    Disk, Election, FileKind, Log, Meta, Options, Recovery, Reserved, Retention, Store,
    lost_or_new, part_for_votes, repair,
};
use quorate_machine::Machine;
use quorate_raft::{ElectionState, Endpoint, OpenError, Quorum, Recovered};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::warn;

/// Why a node does not start.
#[derive(Debug)]
pub enum StartError {
    /// The directory is not formatted, is another's, or is damaged.
    Log {
        /// The directory, in which the paths of the error lie.
        directory: PathBuf,
        /// What is wrong.
        error: quorate_log::Error,
    },
    /// The log of the only voter is damaged: nobody else has what is missing.
    Alone {
        /// The directory, in which the paths of the error lie.
        directory: PathBuf,
        /// What is damaged.
        error: quorate_log::Error,
    },
    /// The partition's folder belongs to another topic.
    Topic {
        /// The directory that holds it.
        directory: PathBuf,
        /// What the configuration says.
        expected: Uuid,
        /// What `partition.metadata` says.
        found: Uuid,
    },
    /// `quorate recover` has begun to change this log and has not come to its end.
    Unfinished {
        /// The directory.
        directory: PathBuf,
        /// The new voters and their epoch, where that can be read.
        by: Option<quorate_log::Salvage>,
    },
    /// The disk is full, and nothing or next to nothing is put aside.
    NoRoom {
        /// Where the room is to be put aside.
        directory: PathBuf,
        /// How much, in bytes.
        wanted: u64,
        /// How much is.
        held: u64,
    },
    /// The configuration and the recovered state do not fit together.
    Quorum(OpenError),
    /// The directory is in use.
    Lock(quorate_log::LockError),
    /// The operating system gives no thread.
    Thread {
        /// Why.
        source: std::io::Error,
    },
    /// The listener cannot be opened.
    Bind {
        /// Where.
        at: String,
        /// Why.
        source: std::io::Error,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Log { directory, error } => {
                write!(f, "in {}: {error}", directory.display())
            }
            StartError::Alone { directory, error } => write!(
                f,
                "in {}: {}; this node is the only voter, so what is damaged is nowhere else, and it does not go \
                 on with less than it confirmed: keep the directory, look at all of it with `quorate log verify`, \
                 and {}",
                directory.display(),
                error.fault(),
                what_alone_does(error)
            ),
            StartError::Topic { directory, expected, found } => write!(
                f,
                "{} holds topic id {found}, the configuration says {expected}: it belongs to another quorum; check log.dirs",
                directory.display(),
            ),
            StartError::Unfinished { directory, by } => {
                write!(f, "`quorate recover` was cut short in {}", directory.display())?;
                if let Some(by) = by {
                    write!(
                        f,
                        ", which was to give it the voters {} in epoch {}",
                        by.voters, by.epoch
                    )?;
                }
                f.write_str(
                    ": its log has only a part of what that writes, and a node that started on it could give versions \
                     to other values than clients have seen; run the same `quorate recover` again, which goes on. If \
                     another directory was recovered in the place of this one, begin with an empty one here",
                )
            }
            StartError::NoRoom { directory, wanted, held } => write!(
                f,
                "the disk of {} has no room to put {wanted} bytes aside ({held} are), and without them this node could not even vote: make room, or set quorate.reserve.bytes to less; with 0 the node runs until the disk is full, and then stops",
                directory.display(),
            ),
            StartError::Quorum(error) => error.fmt(f),
            StartError::Lock(error) => error.fmt(f),
            StartError::Thread { source } => write!(
                f,
                "no thread can be had for the disk: {source}; look at the limits of this process"
            ),
            StartError::Bind { at, source } => {
                write!(
                    f,
                    "cannot listen at {at}: {source}; check listeners, or whether another process listens there"
                )
            }
        }
    }
}

impl std::error::Error for StartError {}

/// What whoever runs the only voter does about this damage.
fn what_alone_does(error: &quorate_log::Error) -> &'static str {
    if let quorate_log::Error::Damaged { path, .. } = error
        && FileKind::of(path) == FileKind::Epochs
    {
        return "if it names no other file, remove this one: the next start makes it anew from the log";
    }
    "put the damaged file back from a copy"
}

/// What a leader may always keep for replicas that copy a snapshot.
const HELD_BYTES: u64 = 32 << 20;

/// What it may keep otherwise: as much again as retention allows, any number of bytes where that
/// has no limit; and a segment, since only whole ones go.
fn held_max_bytes(config: &Config) -> u64 {
    let Some(bytes) = config.retention_bytes else { return u64::MAX };
    bytes.max(HELD_BYTES).saturating_add(config.segment_bytes)
}

/// The log's settings in a node's configuration.
pub fn log_options(config: &Config) -> Options {
    Options {
        partition: format!("{}-0", config.topic),
        segment_bytes: config.segment_bytes,
        segment_ms: config.segment_ms,
        tail_bytes: config.tail_max_bytes,
        #[cfg(mutants)]
        mutant: config.mutant.and_then(crate::Mutant::log),
        ..Options::default()
    }
}

/// What start-up made: the replica and the half of its log that does the disk's work.
pub struct Started<M: Machine, D: Disk> {
    /// The replica.
    pub replica: Replica<M>,
    /// Its files.
    pub store: Store<Reserved<D>>,
    /// The disk that they lie on, with the room put aside on it: who runs `store` tells the replica
    /// when it becomes full or has room again, and refills it.
    pub disk: Reserved<D>,
    /// What recovery had to mend, one log line each.
    pub notes: Vec<quorate_log::Note>,
}

/// Reads the directory and makes a replica of it. `own` is where this node can be reached.
pub fn start<M: Machine, D: Disk>(
    config: &Config,
    own: Endpoint,
    mut disk: D,
    machine: M,
    seed: u64,
    now: Time,
) -> Result<Started<M, D>, StartError> {
    let directory = &config.directory;
    let files = |error| StartError::Log { directory: directory.clone(), error };
    let options = log_options(config);
    let partition = options.partition.as_str();
    let meta = Meta::read(&mut disk);
    let meta = meta.map_err(|error| files(lost_or_new(&mut disk, partition, error)))?;
    meta.check(None, config.id.unwrap_or(meta.node)).map_err(files)?;
    refuse_unfinished(directory, &mut disk, partition)?;
    quorate_log::complete_format(&mut disk, partition, config.topic_id).map_err(files)?;
    let found = quorate_log::read_topic(&mut disk, partition);
    let found = found.map_err(|error| files(lost_or_new(&mut disk, partition, error)))?;
    if found != config.topic_id {
        let directory = directory.clone();
        return Err(StartError::Topic { directory, expected: config.topic_id, found });
    }
    let mut disk = put_aside(config, &options, disk)?;
    let recovery = read_log(config, &mut disk, &options)?;
    // It is written before the first record is. Without it a vote may be given a second time.
    let used = recovery.end > recovery.start || recovery.must_reach.is_some();
    if recovery.election.is_none() && used {
        return Err(files(quorate_log::Error::Malformed {
            path: format!("{}/quorum-state", options.partition),
            position: 0,
            expected: "the epoch and the vote of a node that has records".into(),
            found: "no file".into(),
        }));
    }
    compare_voters(config, &recovery);
    let log = Log::open(options.clone(), &recovery);
    let seats = Seats::read(&log, &mut disk, &recovery).map_err(files)?;
    let quorum = open_quorum(config, &meta, own, &recovery, seats, seed, now)?;
    let store = Store::open(disk.clone(), &options, &recovery).map_err(files)?;
    let settings = Settings {
        names: Names {
            cluster: meta.cluster,
            topic: config.topic.clone(),
            topic_id: config.topic_id,
            listener: config.listener.clone(),
            speaks: config.speaks,
        },
        directory: meta.directory.unwrap_or_default(),
        bootstrap: config.bootstrap.clone(),
        uncommitted_max_bytes: config.uncommitted_max_bytes,
        unstored_max_bytes: config.unstored_max_bytes.min(config.promised_max_bytes()),
        promised_max_bytes: config.promised_max_bytes(),
        request_timeout: config.request_timeout,
        retry_backoff: config.retry_backoff,
        fetch_timeout: config.fetch_timeout,
        snapshot_bytes: config.snapshot_bytes,
        snapshot_interval: config.snapshot_interval,
        newest_level: config.newest_level,
        trims: config.cleanup == Cleanup::Delete,
        retention: Retention { bytes: config.retention_bytes, ms: config.retention_ms },
        held_max_bytes: held_max_bytes(config),
        #[cfg(mutants)]
        mutant: config.mutant,
    };
    let history = history::of_log(&log, &mut disk).map_err(files)?;
    let mut replica = Replica::new(settings, config.id, quorum, log, machine, now);
    replica.begin_history(history);
    if disk.is_full() {
        replica.on_room(now, true);
    }
    Ok(Started { replica, store, disk, notes: recovery.notes })
}

/// Static voters that are not those of before.
fn compare_voters(config: &Config, recovery: &Recovery) {
    let mut configured: Vec<_> = config.voters.iter().map(|voter| voter.id).collect();
    configured.sort();
    let used = recovery.election.iter().map(|election| &election.voters);
    if let Some(used) = used.into_iter().find(|used| !used.is_empty() && **used != configured) {
        warn!(
            ?configured,
            ?used,
            "controller.quorum.voters names other nodes than this directory was last used with: that is \
             safe only if all nodes are changed alike, a single voter at a time"
        );
    }
}

/// A log that `quorate recover` has changed in part gives out versions that were given out before.
fn refuse_unfinished<D: Disk>(
    directory: &Path,
    disk: &mut D,
    partition: &str,
) -> Result<(), StartError> {
    let directory = directory.to_owned();
    match quorate_log::unfinished_recovery(disk, partition) {
        Ok(None) => Ok(()),
        Ok(by @ Some(_)) => Err(StartError::Unfinished { directory, by }),
        Err(quorate_log::Error::Malformed { .. }) => {
            Err(StartError::Unfinished { directory, by: None })
        }
        Err(error) => Err(StartError::Log { directory, error }),
    }
}

/// Room for when the disk is full. Without any of it a node could not vote.
fn put_aside<D: Disk>(
    config: &Config,
    options: &Options,
    disk: D,
) -> Result<Reserved<D>, StartError> {
    let directory = config.directory.clone();
    let disk = match Reserved::open(disk, &options.partition, config.reserve_bytes) {
        Ok(disk) => disk,
        Err(error) => return Err(StartError::Log { directory, error }),
    };
    let (wanted, held) = (config.reserve_bytes, disk.held_bytes());
    if held < part_for_votes(wanted) {
        return Err(StartError::NoRoom { directory, wanted, held });
    }
    if disk.is_full() {
        warn!(
            wanted,
            held,
            "there is no room to put aside as much as quorate.reserve.bytes says: the node starts as one \
             whose disk is full"
        );
    }
    Ok(disk)
}

/// Recovers the log. Where others vote they have what was confirmed, so what is damaged is set
/// aside, to be copied from the leader again [P62].
fn read_log<D: Disk>(
    config: &Config,
    disk: &mut D,
    options: &Options,
) -> Result<Recovery, StartError> {
    let directory = config.directory.clone();
    let mut alone = false;
    let recovery = repair(disk, options, |head| {
        // Once the log names the voters, the configured ones count no more; the latest counts.
        let named = translate::founded(head).ok().and_then(|decree| decree.voters);
        let voters: Vec<ReplicaId> = match &named {
            Some(named) => named.iter().map(|voter| voter.key.id).collect(),
            None => config.voters.iter().map(|voter| voter.id).collect(),
        };
        // Who knows none is an observer.
        alone = !voters.is_empty() && voters.iter().all(|id| Some(*id) == config.id);
        !alone
    });
    recovery.map_err(|error| match alone {
        true => StartError::Alone { directory, error },
        false => StartError::Log { directory, error: lost_or_new(disk, &options.partition, error) },
    })
}

fn open_quorum(
    config: &Config,
    meta: &Meta,
    own: Endpoint,
    recovery: &Recovery,
    seats: Seats,
    seed: u64,
    now: Time,
) -> Result<Quorum, StartError> {
    let mut voters: Vec<(ReplicaKey, Arc<[Endpoint]>)> = Vec::new();
    for voter in &config.voters {
        let listener = config.listener.clone();
        let at = Endpoint { listener, host: voter.at.host.clone(), port: voter.at.port };
        // Static voters are known by id alone [P2].
        voters.push((ReplicaKey::new(voter.id, None), Arc::from([at])));
    }
    voters.sort_by_key(|(key, _)| key.id);
    let directory = meta.directory.unwrap_or_default();
    let raft = quorate_raft::Config {
        bootstrap: config.bootstrap.len(),
        endpoints: Arc::from([own]),
        election_timeout: config.election_timeout,
        fetch_timeout: config.fetch_timeout,
        election_backoff_max: config.election_backoff_max,
        request_timeout: config.request_timeout,
        retry_backoff: config.retry_backoff,
        fetch_max_wait: fetch_max_wait(config),
        fetch_max_bytes: config.fetch_max_bytes,
        snapshot_max_bytes: config.snapshot_max_bytes,
        serve_snapshots: config.cleanup == Cleanup::Delete,
        never_lead: config.never_lead,
        auto_join: config.auto_join,
        ..quorate_raft::Config::new(config.id, directory, voters)
    };
    let Election { epoch, leader, voted, .. } = recovery.election.clone().unwrap_or_default();
    let recovered = Recovered {
        election: ElectionState { epoch, leader, voted },
        start: recovery.start,
        end: recovery.end,
        epochs: recovery.epochs.entries().to_vec(),
        snapshots: recovery.snapshots.iter().map(|snapshot| snapshot.id).collect(),
        founded: seats.founded,
        decrees: seats.decrees,
        // Of records that no file says more of nothing was ever cleaned.
        clean: (recovery.end > recovery.start).then_some(Offset::ZERO),
        must_reach: recovery.must_reach,
    };
    #[cfg(mutants)]
    let quorum = {
        let mutant = config.mutant.and_then(crate::Mutant::core);
        Quorum::open_mutant(raft, recovered, seed, now, mutant)
    };
    #[cfg(not(mutants))]
    let quorum = Quorum::open(raft, recovered, seed, now);
    quorum.map_err(StartError::Quorum)
}

/// How long a leader may keep our fetch when it has no news: Kafka's half second, and well below
/// the times at which either side takes silence for death, or an idle quorum would elect for ever.
fn fetch_max_wait(config: &Config) -> Span {
    let silence = config.fetch_timeout.min(config.request_timeout);
    Span::ms(500).min(Span(silence.0 / 3))
}
