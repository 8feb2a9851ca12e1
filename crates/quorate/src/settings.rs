//! From Kafka's property names to a node's [`Config`]: every problem of a file in one go.
//!
//! The rule for names: ours are read, those that a Kafka node would know are passed over with one
//! note, all others are an error with the nearest name. Nothing here touches a file or the network.

mod membership;
mod names;
pub mod table;
mod useless;
mod values;

use crate::properties;
use quorate_base::{ReplicaId, Span};
use quorate_node::config::{Cleanup, Config, HostPort, Voter};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use table::Setting;
use values::{Given, Listener, Values};
pub use values::{host_port, unreachable};

/// What a file said, ready to start a node with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// For [`Node::open`](crate::Node::open).
    pub config: Config,
    /// `quorate.machine`: what the log is applied to.
    pub machine: MachineName,
    /// The other directories that the file names: of `log.dirs`, where Kafka's brokers keep logs.
    pub others: Vec<PathBuf>,
    /// What `quorate run` does with a directory that nobody has formatted.
    pub unformatted: Unformatted,
    /// What an operator should hear, a sentence each.
    pub notes: Vec<String>,
}

/// A machine that `quorate run` can replicate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MachineName {
    /// The versioned key-value store.
    Kv,
    /// The metadata of a Kafka cluster, whose controllers lead.
    Kafka,
}

/// How `quorate run` starts on a directory that nobody has formatted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unformatted {
    /// Not at all.
    Refuse,
    /// `quorate.bootstrap`: as the first node of a new cluster.
    Begin,
    /// `quorate.join`: as an observer of the cluster that these are of.
    Join(Vec<HostPort>),
}

/// Where a value stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Origin {
    /// A line of the file; the first is 1.
    Line(u32),
    /// The command line.
    Override,
    /// The value is missing.
    Nowhere,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Line(line) => write!(f, "line {line}"),
            Origin::Override => f.write_str("--override"),
            Origin::Nowhere => f.write_str("missing"),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Where.
    pub origin: Origin,
    /// Which setting.
    pub key: String,
    /// Its value, if it has one.
    pub value: Option<String>,
    /// What is wrong with it and what would be right.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.key)?;
        if let Some(value) = &self.value {
            write!(f, "={value}")?;
        }
        match self.key.is_empty() && self.value.is_none() {
            true => f.write_str(&self.what),
            false => write!(f, ": {}", self.what),
        }
    }
}

/// Reads a file's text; `overrides` are keys and values that win over it.
///
/// # Errors
/// Everything that is wrong, in the order of the file.
pub fn read(text: &str, overrides: &[(String, String)]) -> Result<Settings, Vec<Problem>> {
    let mut notes = Vec::new();
    let given = gather(text, overrides, &mut notes)?;
    let mut values = Values { given, problems: Vec::new() };
    judge_names(&mut values, &mut notes);
    let machine = machine(&mut values);
    let unformatted = membership::unformatted(&mut values, machine);
    let config = build(&mut values, machine, &unformatted, &mut notes);
    useless::judge(&mut values, &config, &mut notes);
    if values.problems.is_empty() {
        let others = others(&values, &config);
        return Ok(Settings { config, machine, others, unformatted, notes });
    }
    values.problems.sort_by_key(|problem| problem.origin);
    Err(values.problems)
}

/// The last value of each key wins, as in Java, but not in silence.
fn gather(
    text: &str,
    overrides: &[(String, String)],
    notes: &mut Vec<String>,
) -> Result<BTreeMap<String, Given>, Vec<Problem>> {
    let entries = properties::parse(text).map_err(|bad| {
        let problem = |escape: properties::BadEscape| Problem {
            origin: Origin::Line(escape.line),
            key: String::new(),
            value: None,
            what: "four hexadecimal digits must follow \\u".into(),
        };
        bad.into_iter().map(problem).collect::<Vec<_>>()
    })?;
    let mut given: BTreeMap<String, Given> = BTreeMap::new();
    for properties::Entry { key, value, line } in entries {
        let origin = Origin::Line(line);
        if let Some(earlier) = given.insert(key.clone(), Given { value, origin }) {
            notes.push(format!(
                "{key} is set at {} and again at {origin}; the last one counts",
                earlier.origin
            ));
        }
    }
    for (key, value) in overrides {
        given.insert(key.clone(), Given { value: value.clone(), origin: Origin::Override });
    }
    Ok(given)
}

fn judge_names(values: &mut Values, notes: &mut Vec<String>) {
    let mut passed_over = Vec::new();
    for (key, given) in &values.given {
        if table::ALL.iter().any(|setting| setting.name == key) {
            continue;
        }
        if names::is_kafkas(key) {
            passed_over.push(key.as_str());
            continue;
        }
        let what = match names::nearest(key) {
            Some(near) => format!("there is no such setting; did you mean {near}?"),
            None => "there is no such setting; `quorate run --help-config` lists them all".into(),
        };
        let (key, value) = (key.clone(), Some(given.value.clone()));
        values.problems.push(Problem { origin: given.origin, key, value, what });
    }
    if !passed_over.is_empty() {
        notes.push(format!(
            "Kafka's settings that Quorate does not use, ignored: {}",
            passed_over.join(", ")
        ));
    }
    if passed_over.contains(&"authorizer.class.name") {
        notes.push(
            "authorizer.class.name is NOT enforced: this node lets everyone in who can connect"
                .into(),
        );
    }
}

fn machine(values: &mut Values) -> MachineName {
    values.word(&table::MACHINE);
    match values.text(&table::MACHINE) {
        Some("kafka") => MachineName::Kafka,
        Some(_) | None => MachineName::Kv,
    }
}

fn build(
    values: &mut Values,
    machine: MachineName,
    unformatted: &Unformatted,
    notes: &mut Vec<String>,
) -> Config {
    roles(values);
    let id = ReplicaId(values.number32(&table::NODE_ID));
    let directory = directory(values);
    let listener = values.list(&table::LISTENER_NAMES).first().cloned().unwrap_or_default();
    let bind = bind(values, &listener, notes);
    let voters = values.voters(&table::VOTERS);
    membership::judge(values, id, &bind, &voters, notes);
    Config {
        bootstrap: membership::bootstrap(values, unformatted),
        advertised: advertised(values, &listener, id, &bind, &voters),
        http: values.server(&table::HTTP),
        topic: values.topic(&table::TOPIC),
        topic_id: values.topic_id(&table::TOPIC_ID),
        election_timeout: span(values, &table::ELECTION_TIMEOUT),
        fetch_timeout: span(values, &table::FETCH_TIMEOUT),
        election_backoff_max: span(values, &table::ELECTION_BACKOFF),
        request_timeout: span(values, &table::REQUEST_TIMEOUT),
        retry_backoff: span(values, &table::RETRY_BACKOFF),
        fetch_max_bytes: values.number32(&table::FETCH_MAX_BYTES),
        snapshot_max_bytes: values.number32(&table::SNAPSHOT_MAX_BYTES),
        segment_bytes: values.number(&table::SEGMENT_BYTES),
        segment_ms: values.number(&table::SEGMENT_MS),
        snapshot_bytes: values.number(&table::SNAPSHOT_BYTES),
        snapshot_interval: span(values, &table::SNAPSHOT_INTERVAL),
        retention_bytes: values.limit(&table::RETENTION_BYTES),
        retention_ms: values.limit(&table::RETENTION_MS),
        cleanup: cleanup(values, machine),
        request_max_bytes: values.number32(&table::REQUEST_MAX_BYTES),
        uncommitted_max_bytes: values.number(&table::UNCOMMITTED_MAX_BYTES),
        tail_max_bytes: values.number(&table::TAIL_MAX_BYTES),
        reserve_bytes: reserve(values),
        never_lead: never_lead(values, machine),
        auto_join: yes(values, &table::AUTO_JOIN),
        listener,
        ..Config::new(Some(id), directory, voters, bind)
    }
}

fn span(values: &mut Values, setting: &Setting) -> Span {
    Span::ms(values.number(setting))
}

/// Less than a few batches would not do what it is for.
fn reserve(values: &mut Values) -> u64 {
    const LEAST: u64 = 8 << 20;
    let bytes = values.number(&table::RESERVE_BYTES);
    if (1..LEAST).contains(&bytes) {
        values.wrong(&table::RESERVE_BYTES, format!("must be 0, or {LEAST} or more"));
    }
    bytes
}

fn yes(values: &mut Values, setting: &Setting) -> bool {
    values.word(setting);
    values.text(setting) == Some("true")
}

/// What a controller does besides is not in a machine that only listens.
fn never_lead(values: &mut Values, machine: MachineName) -> bool {
    let asked = yes(values, &table::NEVER_LEAD);
    match machine {
        MachineName::Kv => asked,
        MachineName::Kafka => {
            if values.is_given(&table::NEVER_LEAD) && !asked {
                let why = "must be true with quorate.machine=kafka: this node cannot act as the active controller of a Kafka cluster yet, so another voter has to lead";
                values.wrong(&table::NEVER_LEAD, why);
            }
            true
        }
    }
}

/// Kafka's controllers keep no log whole, and their records have no keys.
fn cleanup(values: &mut Values, machine: MachineName) -> Cleanup {
    values.word(&table::CLEANUP);
    let given = values.is_given(&table::CLEANUP);
    match (machine, values.text(&table::CLEANUP)) {
        (MachineName::Kafka, Some("compact")) if given => {
            let why = "must be delete with quorate.machine=kafka: Kafka's controllers trim their logs, and so do all nodes beside them";
            values.wrong(&table::CLEANUP, why);
            Cleanup::Delete
        }
        (MachineName::Kafka, Some(_) | None) | (MachineName::Kv, Some("delete")) => Cleanup::Delete,
        (MachineName::Kv, Some(_) | None) => Cleanup::Compact,
    }
}

fn roles(values: &mut Values) {
    match values.list(&table::ROLES).iter().any(|role| role == "broker") {
        true => values.wrong(
            &table::ROLES,
            "must be controller: a broker is Kafka's own process; run it with a file of its own",
        ),
        false => values.word(&table::ROLES),
    }
}

/// Kafka's order: metadata.log.dir, else the first of log.dirs, else the first of log.dir.
fn directory(values: &mut Values) -> PathBuf {
    let single = values.text(&table::METADATA_DIR).map(str::to_owned);
    let several = || {
        let lists = [&table::LOG_DIRS, &table::LOG_DIR].map(|setting| values.list(setting));
        lists.into_iter().flatten().next()
    };
    let directory = single.or_else(several);
    if directory.is_none() {
        values.wrong(&table::LOG_DIRS, "is needed: the directory where this node keeps its data");
    }
    directory.unwrap_or_default().into()
}

/// All that Kafka's storage tool would format besides.
fn others(values: &Values, config: &Config) -> Vec<PathBuf> {
    let lists = [&table::LOG_DIRS, &table::LOG_DIR].map(|setting| values.list(setting));
    let list = lists.into_iter().find(|list| !list.is_empty()).unwrap_or_default();
    let mut others: Vec<PathBuf> = list.into_iter().map(PathBuf::from).collect();
    others.retain(|other| *other != config.directory);
    others.sort();
    others.dedup();
    others
}

fn bind(values: &mut Values, name: &str, notes: &mut Vec<String>) -> HostPort {
    let known = values.problems.len();
    let listeners = values.listeners(&table::LISTENERS);
    let found = listeners.iter().find(|listener| listener.name == name);
    if found.is_none() && values.problems.len() == known {
        let why = match listeners.is_empty() {
            true => format!("is needed: where this node listens, such as {name}://127.0.0.1:9093"),
            false => {
                format!("must hold the listener {name}, the first of controller.listener.names")
            }
        };
        values.wrong(&table::LISTENERS, why);
    }
    let unused = listeners.iter().filter(|listener| listener.name != name);
    let unused: Vec<&str> = unused.map(|listener| listener.name.as_str()).collect();
    if !unused.is_empty() {
        notes.push(format!("listeners that Quorate does not open: {}", unused.join(", ")));
    }
    plaintext_only(values, name);
    let mut at =
        found.map_or(HostPort { host: String::new(), port: 0 }, |listener| listener.at.clone());
    if at.host.is_empty() {
        at.host = "0.0.0.0".into();
    }
    at
}

/// Serving in the clear where the file asks for TLS would be worse than not to start.
fn plaintext_only(values: &mut Values, name: &str) {
    let mapped = values.list(&table::PROTOCOLS);
    let mapped = mapped.iter().filter_map(|part| part.split_once(':'));
    let protocol =
        mapped.filter(|(listener, _)| *listener == name).map(|(_, protocol)| protocol).next_back();
    let implied = ["SSL", "SASL_PLAINTEXT", "SASL_SSL"].contains(&name).then_some(name);
    if let Some(protocol) = protocol.or(implied).filter(|protocol| *protocol != "PLAINTEXT") {
        let why = format!("{name} must be PLAINTEXT: {protocol} does not work yet");
        values.wrong(&table::PROTOCOLS, why);
    }
}

fn advertised(
    values: &mut Values,
    name: &str,
    id: ReplicaId,
    bind: &HostPort,
    voters: &[Voter],
) -> Option<HostPort> {
    let listeners: Vec<Listener> = values.listeners(&table::ADVERTISED);
    if let Some(listener) = listeners.into_iter().find(|listener| listener.name == name) {
        if let Some(why) = unreachable(&listener.at) {
            values.wrong(&table::ADVERTISED, format!("'{name}' {why}"));
        }
        return Some(listener.at);
    }
    // Bound to every interface, a node knows itself only by the name that the voter list gives it.
    let every = unreachable(bind).is_some();
    voters.iter().find(|voter| every && voter.id == id).map(|voter| voter.at.clone())
}
