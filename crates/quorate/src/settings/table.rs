//! Every setting that Quorate reads, once: name, form, default and a line that explains it.
//!
//! `quorate run --help-config` prints this table and `settings` reads files by it, so a setting
//! that is not here does not exist. Names and defaults are Kafka's; our own begin with `quorate.`.

use std::fmt;

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// The name in the file.
    pub name: &'static str,
    /// What a value must look like.
    pub form: Form,
    /// The value when the file has none; `None` where there is no sensible one.
    pub default: Option<&'static str>,
    /// What it is for, in one line.
    pub meaning: &'static str,
}

/// What a value must look like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// A whole number in a range, both ends allowed.
    Number {
        /// The smallest allowed.
        least: u64,
        /// The largest allowed.
        most: u64,
    },
    /// A whole number from this one on, or -1 for none.
    Limit {
        /// The smallest allowed.
        least: u64,
    },
    /// A directory, or several with commas between.
    Directories,
    /// One directory.
    Directory,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Names with commas between.
    Names,
    /// `NAME://HOST:PORT`, several with commas between.
    Listeners,
    /// `NAME:PROTOCOL`, several with commas between.
    Protocols,
    /// `ID@HOST:PORT`, several with commas between.
    Voters,
    /// `HOST:PORT`, several with commas between.
    Servers,
    /// `HOST:PORT`.
    Server,
    /// A topic's name, which is a folder's name too.
    Topic,
    /// A uuid in Kafka's form, not zero.
    TopicId,
}

/// What is allowed, in words that complete "must be …".
impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Form::Number { least, most } => write!(f, "a whole number from {least} to {most}"),
            Form::Limit { least } => {
                write!(f, "a whole number from {least} to {}, or -1 for no limit", i64::MAX)
            }
            Form::Directories => f.write_str("a directory, or several with commas between"),
            Form::Directory => f.write_str("a directory"),
            Form::Word([word]) => write!(f, "{word}"),
            Form::Word(words) => write!(f, "one of {}", words.join(", ")),
            Form::Names => f.write_str("a name, or several with commas between"),
            Form::Listeners => f.write_str("NAME://HOST:PORT, or several with commas between"),
            Form::Protocols => f.write_str("NAME:PROTOCOL, or several with commas between"),
            Form::Voters => f.write_str("ID@HOST:PORT, or several with commas between"),
            Form::Servers => f.write_str("HOST:PORT, or several with commas between"),
            Form::Server => f.write_str("HOST:PORT"),
            Form::Topic => {
                f.write_str("1 to 249 letters, digits, '.', '_' and '-', and not just dots")
            }
            Form::TopicId => f.write_str(
                "a topic id: 22 letters, digits, '-' and '_', such as AAAAAAAAAAAAAAAAAAAAAQ; not zero",
            ),
        }
    }
}

const INT_MAX: u64 = i32::MAX as u64;

const fn number(least: u64, most: u64) -> Form {
    Form::Number { least, most }
}

const fn setting(
    name: &'static str,
    form: Form,
    default: Option<&'static str>,
    meaning: &'static str,
) -> Setting {
    Setting { name, form, default, meaning }
}

/// `node.id`.
pub static NODE_ID: Setting =
    setting("node.id", number(0, INT_MAX), None, "The number of this node, unique in the cluster.");
/// `process.roles`.
pub static ROLES: Setting = setting(
    "process.roles",
    Form::Word(&["controller"]),
    Some("controller"),
    "What this process is. Brokers are Kafka's own and run beside it.",
);
/// `metadata.log.dir`.
pub static METADATA_DIR: Setting = setting(
    "metadata.log.dir",
    Form::Directory,
    None,
    "Where this node keeps its data; the first of log.dirs when it is not set.",
);
/// `log.dirs`.
pub static LOG_DIRS: Setting =
    setting("log.dirs", Form::Directories, None, "Where Kafka keeps data; see metadata.log.dir.");
/// `log.dir`.
pub static LOG_DIR: Setting = setting(
    "log.dir",
    Form::Directories,
    None,
    "The older name of log.dirs, used when that is not set.",
);
/// `listeners`.
pub static LISTENERS: Setting = setting(
    "listeners",
    Form::Listeners,
    None,
    "Where this node listens for the other nodes. No host means all interfaces; port 0 takes a free one.",
);
/// `advertised.listeners`.
pub static ADVERTISED: Setting = setting(
    "advertised.listeners",
    Form::Listeners,
    None,
    "The address that others are told, where it is not that of listeners.",
);
/// `controller.listener.names`.
pub static LISTENER_NAMES: Setting = setting(
    "controller.listener.names",
    Form::Names,
    Some("CONTROLLER"),
    "Which of the listeners the quorum uses: the first name here.",
);
/// `listener.security.protocol.map`.
pub static PROTOCOLS: Setting = setting(
    "listener.security.protocol.map",
    Form::Protocols,
    None,
    "The protocol of each listener. Only PLAINTEXT works so far.",
);
/// `controller.quorum.voters`.
pub static VOTERS: Setting = setting(
    "controller.quorum.voters",
    Form::Voters,
    None,
    "The nodes that vote, the same list on every node. A node that is not in it only observes.",
);
/// `controller.quorum.bootstrap.servers`.
pub static BOOTSTRAP: Setting = setting(
    "controller.quorum.bootstrap.servers",
    Form::Servers,
    None,
    "Nodes to ask for the leader, for a node that knows no voters.",
);
/// `quorate.bootstrap`.
pub static BEGIN: Setting = setting(
    "quorate.bootstrap",
    Form::Word(&["false", "true"]),
    Some("false"),
    "true on the first node of a new cluster: an empty directory is formatted at the start, with new ids, and the node is the only voter until others are added. On a formatted one it does nothing.",
);
/// `quorate.join`.
pub static JOIN: Setting = setting(
    "quorate.join",
    Form::Servers,
    None,
    "Nodes of the cluster that this one is to join: an empty directory is formatted at the start, with the cluster id that they tell, and the node observes until it is made a voter. They also stand in for controller.quorum.bootstrap.servers.",
);
/// `controller.quorum.election.timeout.ms`.
pub static ELECTION_TIMEOUT: Setting = setting(
    "controller.quorum.election.timeout.ms",
    number(1, INT_MAX),
    Some("1000"),
    "How long a candidate waits for votes; up to twice that, at random.",
);
/// `controller.quorum.fetch.timeout.ms`.
pub static FETCH_TIMEOUT: Setting = setting(
    "controller.quorum.fetch.timeout.ms",
    number(1, INT_MAX),
    Some("2000"),
    "How long a follower does without an answer of the leader before it stands for election.",
);
/// `controller.quorum.election.backoff.max.ms`.
pub static ELECTION_BACKOFF: Setting = setting(
    "controller.quorum.election.backoff.max.ms",
    number(0, INT_MAX),
    Some("1000"),
    "The longest pause before the next election.",
);
/// `controller.quorum.request.timeout.ms`.
pub static REQUEST_TIMEOUT: Setting = setting(
    "controller.quorum.request.timeout.ms",
    number(1, INT_MAX),
    Some("2000"),
    "How long an answer of another node may take.",
);
/// `controller.quorum.retry.backoff.ms`.
pub static RETRY_BACKOFF: Setting = setting(
    "controller.quorum.retry.backoff.ms",
    number(0, INT_MAX),
    Some("20"),
    "The pause before a failed request to another node is sent again.",
);
/// `controller.quorum.fetch.max.bytes`.
pub static FETCH_MAX_BYTES: Setting = setting(
    "controller.quorum.fetch.max.bytes",
    number(1, INT_MAX),
    Some("1048576"),
    "How much a follower asks for at once; a larger batch still comes whole.",
);
/// `controller.quorum.fetch.snapshot.max.bytes`.
pub static SNAPSHOT_MAX_BYTES: Setting = setting(
    "controller.quorum.fetch.snapshot.max.bytes",
    number(1, INT_MAX),
    Some("1048576"),
    "How much of a snapshot a node asks its leader for at once.",
);
/// `metadata.log.segment.bytes`.
pub static SEGMENT_BYTES: Setting = setting(
    "metadata.log.segment.bytes",
    number(8 << 20, INT_MAX),
    Some("8388608"),
    "The size at which the log begins a new file.",
);
/// `metadata.log.segment.ms`.
pub static SEGMENT_MS: Setting = setting(
    "metadata.log.segment.ms",
    number(1, i64::MAX as u64),
    Some("604800000"),
    "The age at which the log begins a new file, whatever its size.",
);
/// `metadata.log.max.record.bytes.between.snapshots`.
pub static SNAPSHOT_BYTES: Setting = setting(
    "metadata.log.max.record.bytes.between.snapshots",
    number(1, i64::MAX as u64),
    Some("20971520"),
    "After so many new bytes in the log a node writes a snapshot of its state.",
);
/// `metadata.log.max.snapshot.interval.ms`.
pub static SNAPSHOT_INTERVAL: Setting = setting(
    "metadata.log.max.snapshot.interval.ms",
    number(0, i64::MAX as u64 / 1_000),
    Some("3600000"),
    "After so long it writes one for fewer bytes; 0: it does not.",
);
/// `metadata.max.retention.bytes`.
pub static RETENTION_BYTES: Setting = setting(
    "metadata.max.retention.bytes",
    Form::Limit { least: 0 },
    Some("104857600"),
    "With more in log and snapshots, what a newer snapshot covers is removed.",
);
/// `metadata.max.retention.ms`.
pub static RETENTION_MS: Setting = setting(
    "metadata.max.retention.ms",
    Form::Limit { least: 0 },
    Some("604800000"),
    "The same for what is older.",
);
/// `quorate.cleanup.policy`.
pub static CLEANUP: Setting = setting(
    "quorate.cleanup.policy",
    Form::Word(&["delete", "compact"]),
    Some("compact"),
    "compact: the log stays whole, snapshots only shorten a start, and the newest two are kept. delete: old records are removed once a snapshot covers them. The same on every node; delete with quorate.machine=kafka.",
);
/// `socket.request.max.bytes`.
pub static REQUEST_MAX_BYTES: Setting = setting(
    "socket.request.max.bytes",
    number(1, INT_MAX),
    Some("104857600"),
    "A longer request closes its connection.",
);
/// `quorate.machine`.
pub static MACHINE: Setting = setting(
    "quorate.machine",
    Form::Word(&["kv", "kafka"]),
    Some("kv"),
    "What the log is applied to. kv: a versioned key-value store. kafka: the metadata of a Kafka cluster; the node votes or observes beside Kafka's controllers, which lead, and takes no requests of clients.",
);
/// `quorate.topic`.
pub static TOPIC: Setting = setting(
    "quorate.topic",
    Form::Topic,
    Some("__cluster_metadata"),
    "Topic of the log, the same on every node; its folder is named for it. Kafka's admin tools know only the default.",
);
/// `quorate.topic.id`.
pub static TOPIC_ID: Setting = setting(
    "quorate.topic.id",
    Form::TopicId,
    Some("AAAAAAAAAAAAAAAAAAAAAQ"),
    "Id of that topic, the same on every node; the default is that of __cluster_metadata.",
);
/// `quorate.http.listen`.
pub static HTTP: Setting = setting(
    "quorate.http.listen",
    Form::Server,
    None,
    "Where this node serves HTTP. Not set, or empty: nowhere.",
);
/// `quorate.uncommitted.max.bytes`.
pub static UNCOMMITTED_MAX_BYTES: Setting = setting(
    "quorate.uncommitted.max.bytes",
    number(1 << 20, 1 << 40),
    Some("33554432"),
    "With this much proposed and not yet committed, clients are made to wait.",
);
/// `quorate.tail.max.bytes`.
pub static TAIL_MAX_BYTES: Setting = setting(
    "quorate.tail.max.bytes",
    number(1 << 20, 1 << 40),
    Some("16777216"),
    "How much of the log's end is kept in memory.",
);
/// `quorate.reserve.bytes`.
pub static RESERVE_BYTES: Setting = setting(
    "quorate.reserve.bytes",
    number(0, 1 << 40),
    Some("33554432"),
    "How much room on the disk is put aside for when it is full, so that votes and reads go on; at least 8388608, or 0 for none: then a full disk ends the node.",
);

/// `quorate.election.never.lead`.
pub static NEVER_LEAD: Setting = setting(
    "quorate.election.never.lead",
    Form::Word(&["false", "true"]),
    Some("false"),
    "Replicate, acknowledge and vote, but leave leading to the other voters; where none of them can win, lead until one has caught up, and serve nobody meanwhile. true with quorate.machine=kafka.",
);

/// `controller.quorum.auto.join.enable`.
pub static AUTO_JOIN: Setting = setting(
    "controller.quorum.auto.join.enable",
    Form::Word(&["false", "true"]),
    Some("false"),
    "Become a voter by itself once it has copied the log, where the log names the voters; in the place of its own old directory too. One that an operator removes comes back until this is false.",
);

/// All of them, in the order in which they are explained.
pub static ALL: [&Setting; 37] = [
    &NODE_ID,
    &ROLES,
    &METADATA_DIR,
    &LOG_DIRS,
    &LOG_DIR,
    &LISTENERS,
    &ADVERTISED,
    &LISTENER_NAMES,
    &PROTOCOLS,
    &VOTERS,
    &BOOTSTRAP,
    &BEGIN,
    &JOIN,
    &AUTO_JOIN,
    &ELECTION_TIMEOUT,
    &FETCH_TIMEOUT,
    &ELECTION_BACKOFF,
    &REQUEST_TIMEOUT,
    &RETRY_BACKOFF,
    &FETCH_MAX_BYTES,
    &SNAPSHOT_MAX_BYTES,
    &SEGMENT_BYTES,
    &SEGMENT_MS,
    &SNAPSHOT_BYTES,
    &SNAPSHOT_INTERVAL,
    &RETENTION_BYTES,
    &RETENTION_MS,
    &CLEANUP,
    &REQUEST_MAX_BYTES,
    &MACHINE,
    &TOPIC,
    &TOPIC_ID,
    &HTTP,
    &UNCOMMITTED_MAX_BYTES,
    &TAIL_MAX_BYTES,
    &RESERVE_BYTES,
    &NEVER_LEAD,
];
