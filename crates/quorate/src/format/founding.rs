//! Who the first voters of a quorum are: what each of Kafka's ways to format a node writes of them.
//!
//! Judges before anything is written. An id or address that two voters share, and a list without
//! the node that it is given to, are refused, which Kafka's tool takes.

use super::FormatError;
use crate::settings;
use quorate_base::{ReplicaId, Uuid};
use quorate_log::{ControlType, Head};
use quorate_node::config::{Config, HostPort};
use quorate_wire::message::{KRaftVersionFeature, Listener};
use quorate_wire::record::control::{KRaftVersion, KRaftVoter, KRaftVoters};
use std::fmt;
use std::str::FromStr;

/// The newest `kraft.version`: voters that the log names (KIP-853).
pub const KRAFT_VERSION: i16 = 1;

/// How a node comes to know the voters of its quorum.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Founders {
    /// By `controller.quorum.voters`; without that it asks `controller.quorum.bootstrap.servers`
    /// and is an observer until the log names it.
    #[default]
    Configured,
    /// It is the only one (`--standalone`).
    Alone,
    /// These are (`--initial-controllers`).
    These(Vec<InitialController>),
    /// It asks, and the log will name it or not (`--no-initial-controllers`).
    Asked,
}

/// A voter of the first hour: `ID@HOST:PORT:DIRECTORY`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InitialController {
    /// `node.id`.
    pub id: ReplicaId,
    /// Where it listens.
    pub at: HostPort,
    /// `directory.id`.
    pub directory: Uuid,
}

impl fmt::Display for InitialController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HostPort { host, port } = &self.at;
        match host.contains(':') {
            true => write!(f, "{}@[{host}]:{port}:{}", self.id, self.directory),
            false => write!(f, "{}@{host}:{port}:{}", self.id, self.directory),
        }
    }
}

impl FromStr for InitialController {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<InitialController, FormatError> {
        let bad = |why: &str| FormatError::BadController { text: text.into(), why: why.into() };
        let (id, rest) = text.split_once('@').ok_or_else(|| bad("there is no '@'"))?;
        let number = id.parse::<u32>().ok().filter(|id| i32::try_from(*id).is_ok());
        let id =
            number.ok_or_else(|| bad("its node id is no whole number from 0 to 2147483647"))?;
        let (at, directory) = rest.rsplit_once(':').unwrap_or((rest, ""));
        let at =
            settings::host_port(at).ok_or_else(|| bad("HOST:PORT:DIRECTORY must follow '@'"))?;
        if let Some(why) = settings::unreachable(&at) {
            return Err(bad(&format!("its address {why}")));
        }
        if directory.starts_with('-') {
            return Err(bad("its directory id begins with '-', which no command line takes well"));
        }
        let directory = directory.parse::<Uuid>().map_err(|_| {
            bad("its directory id is not 22 letters, digits, '-' and '_'; `quorate random-uuid` makes one")
        })?;
        if directory.0[..15] == [0; 15] && directory.0[15] < 100 {
            return Err(bad("its directory id is one of those that Kafka has reserved"));
        }
        Ok(InitialController { id: ReplicaId(id), at, directory })
    }
}

/// A list of them, with commas between.
///
/// # Errors
/// [`FormatError::BadController`], [`FormatError::SameController`].
pub fn initial_controllers(text: &str) -> Result<Vec<InitialController>, FormatError> {
    let mut found: Vec<InitialController> = Vec::new();
    for part in text.split(',') {
        found.push(part.trim().parse()?);
    }
    judge_distinct(&found)?;
    Ok(found)
}

/// Two voters that cannot be told apart.
pub(crate) struct Alike {
    pub(crate) what: &'static str,
    pub(crate) one: String,
    pub(crate) other: String,
}

impl From<Alike> for FormatError {
    fn from(alike: Alike) -> FormatError {
        let Alike { what, one, other } = alike;
        FormatError::SameController { what, one, other }
    }
}

/// Whether each of them can be told from all others.
pub(crate) fn judge_distinct(voters: &[InitialController]) -> Result<(), Alike> {
    for (at, voter) in voters.iter().enumerate() {
        for known in &voters[..at] {
            let what = match voter {
                _ if known.id == voter.id => "the node id",
                _ if known.directory == voter.directory => "the directory id",
                _ if known.at == voter.at => "the address",
                _ => continue,
            };
            let (one, other) = (known.to_string(), voter.to_string());
            return Err(Alike { what, one, other });
        }
    }
    Ok(())
}

/// What a node's directory says of the voters, and its directory id where that is settled by it.
pub(super) struct Voters {
    pub(super) head: Head,
    pub(super) directory: Option<Uuid>,
}

/// Judges the way in the light of the configuration. `level` is the `kraft.version` asked for.
pub(super) fn judge(
    config: &Config,
    node: ReplicaId,
    founders: &Founders,
    level: Option<i16>,
    random: impl FnOnce() -> Result<Uuid, FormatError>,
) -> Result<Voters, FormatError> {
    let flag = match founders {
        Founders::Configured => None,
        Founders::Alone => Some("--standalone"),
        Founders::These(_) => Some("--initial-controllers"),
        Founders::Asked => Some("--no-initial-controllers"),
    };
    if let Some(flag) = flag.filter(|_| !config.voters.is_empty()) {
        return Err(FormatError::TwoVoterLists { flag });
    }
    let fits = match level {
        None => true,
        Some(0) => flag.is_none(),
        Some(level) => flag.is_some() && level == KRAFT_VERSION,
    };
    if let Some(level) = level.filter(|_| !fits) {
        return Err(FormatError::KraftVersion { level, flag });
    }
    let (voters, directory) = match founders {
        Founders::Configured | Founders::Asked => {
            return Ok(Voters { head: Head::new(), directory: None });
        }
        Founders::Alone => {
            let at = own_address(config)?;
            let directory = random()?;
            (vec![InitialController { id: node, at, directory }], directory)
        }
        Founders::These(voters) => {
            let own = voters.iter().find(|voter| voter.id == node);
            let own = own.ok_or(FormatError::NotAmong { node })?;
            (voters.clone(), own.directory)
        }
    };
    Ok(Voters { head: head(&config.listener, &voters), directory: Some(directory) })
}

/// Where others reach this node, which has to be settled before it runs.
fn own_address(config: &Config) -> Result<HostPort, FormatError> {
    let at = config.advertised.as_ref().unwrap_or(&config.bind);
    match settings::unreachable(at) {
        None => Ok(at.clone()),
        Some(why) => {
            let at = format!("{}:{}", at.host, at.port);
            Err(FormatError::NoAddress { listener: config.listener.clone(), at, why })
        }
    }
}

/// `kraft.version` and the voters as records.
pub(crate) fn head(listener: &str, voters: &[InitialController]) -> Head {
    let version = KRaftVersion { kraft_version: KRAFT_VERSION, ..KRaftVersion::default() };
    let voter = |InitialController { id, at, directory }: &InitialController| KRaftVoter {
        voter_id: id.0 as i32,
        voter_directory_id: *directory,
        endpoints: vec![Listener {
            name: listener.to_owned(),
            host: at.host.clone(),
            port: at.port,
            ..Listener::default()
        }],
        kraft_version_feature: KRaftVersionFeature {
            max_supported_version: KRAFT_VERSION,
            ..KRaftVersionFeature::default()
        },
        ..KRaftVoter::default()
    };
    let mut voters: Vec<KRaftVoter> = voters.iter().map(voter).collect();
    voters.sort_by_key(|voter| voter.voter_id);
    let voters = KRaftVoters { voters, ..KRaftVoters::default() };
    vec![
        (ControlType::KRaftVersion, version.encode().expect("a number fits in a record")),
        (ControlType::KRaftVoters, voters.encode().expect("a command line fits in a record")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(text: &str, says: &str) {
        let why = initial_controllers(text).unwrap_err().to_string();
        assert!(why.contains(says), "{text}: {why}");
    }

    #[test]
    fn a_list_of_initial_controllers_is_read_as_kafka_writes_it() {
        let text = "1@a.example:9093:Qmy_DlauSqSmlsg-3MzqEw,2@[::1]:9094:MvDxzVmcRsaTz33bUuRU6A";
        let found = initial_controllers(text).unwrap();
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(shown.join(","), text);
        refused("1a.example:9093:Qmy_DlauSqSmlsg-3MzqEw", "no '@'");
        refused("x@a:1:Qmy_DlauSqSmlsg-3MzqEw", "node id is no whole number");
        refused("1@a:1", "HOST:PORT:DIRECTORY must follow");
        refused("1@a:1:short", "not 22 letters");
        refused("1@a:1:-my_DlauSqSmlsg-3MzqEw", "begins with '-'");
        refused("1@a:1:AAAAAAAAAAAAAAAAAAAAAQ", "reserved");
        refused("1@0.0.0.0:1:Qmy_DlauSqSmlsg-3MzqEw", "every interface");
        let one = "1@a:1:Qmy_DlauSqSmlsg-3MzqEw";
        refused(&format!("{one},1@b:1:MvDxzVmcRsaTz33bUuRU6A"), "the node id");
        refused(&format!("{one},2@b:1:Qmy_DlauSqSmlsg-3MzqEw"), "the directory id");
        refused(&format!("{one},2@a:1:MvDxzVmcRsaTz33bUuRU6A"), "the address");
    }
}
