//! The voters that a recovered log gets: as they are asked for, each with the directory by which
//! the log is to know it.
//!
//! A directory that nobody runs on would be a voter that never votes; so where it is not said, and
//! neither a copy nor the log settles it, nothing is guessed.

use super::{Chosen, Facts, RecoverError, Wish};
use crate::format::{Alike, judge_distinct};
use crate::{FormatError, HostPort, InitialController};
use quorate_base::{ReplicaId, Uuid};
use quorate_wire::record::control::KRaftVoter;
use std::path::Path;
use std::str::FromStr;

/// A voter of the new set: `ID@HOST:PORT`, or with `:DIRECTORY` behind it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewVoter {
    /// `node.id`.
    pub id: ReplicaId,
    /// Where it listens.
    pub at: HostPort,
    /// Its directory, where nothing else says it.
    pub directory: Option<Uuid>,
}

/// A text that names no voter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadVoter {
    /// What was written.
    pub text: String,
    /// What is wrong with it.
    pub why: String,
}

impl FromStr for NewVoter {
    type Err = BadVoter;

    fn from_str(text: &str) -> Result<NewVoter, BadVoter> {
        let bad = |why: String| BadVoter { text: text.to_owned(), why };
        let short = text.split_once('@').and_then(|(id, at)| {
            let id = id.parse::<u32>().ok().filter(|id| i32::try_from(*id).is_ok())?;
            Some((ReplicaId(id), crate::settings::host_port(at)?))
        });
        if let Some((id, at)) = short {
            return match crate::settings::unreachable(&at) {
                Some(why) => Err(bad(format!("its address {why}"))),
                None => Ok(NewVoter { id, at, directory: None }),
            };
        }
        match text.parse() {
            Ok(InitialController { id, at, directory }) => {
                Ok(NewVoter { id, at, directory: Some(directory) })
            }
            Err(FormatError::BadController { why, .. }) => {
                Err(bad(why.replace("HOST:PORT:DIRECTORY", "HOST:PORT")))
            }
            Err(error) => Err(bad(error.to_string())),
        }
    }
}

/// The new voters, each with its directory.
pub(super) fn new_voters(
    usable: &[(usize, &Path, &Facts)],
    chosen: &Chosen,
    wish: &Wish,
) -> Result<Vec<InitialController>, RecoverError> {
    let Chosen { directory, facts, .. } = chosen;
    let node = facts.meta.node;
    let own = facts.meta.directory;
    let own = own.ok_or_else(|| RecoverError::NoDirectoryId { directory: directory.clone() })?;
    let entry = |id: ReplicaId| facts.voters.iter().find(|voter| voter.voter_id == id.0 as i32);
    if wish.voters.is_empty() {
        let at = entry(node).and_then(address).ok_or(RecoverError::NoAddress { node })?;
        return Ok(vec![InitialController { id: node, at, directory: own }]);
    }
    let mut voters = Vec::new();
    for voter in &wish.voters {
        let NewVoter { id, at, directory } = voter.clone();
        let logged = || entry(id).and_then(|voter| voter.voter_directory_id.known());
        let directory = match id == node {
            true => directory.or(Some(own)),
            false => match directory {
                Some(directory) => Some(directory),
                None => of_copies(usable, id, logged())?.or_else(logged),
            },
        };
        let directory = directory.ok_or(RecoverError::UnknownDirectory { node: id })?;
        voters.push(InitialController { id, at, directory });
    }
    let alike = |Alike { what, one, other }| RecoverError::SameVoter { what, one, other };
    judge_distinct(&voters).map_err(alike)?;
    match voters.iter().any(|voter| voter.id == node && voter.directory == own) {
        true => Ok(voters),
        false => Err(RecoverError::NotAVoter { node, directory: own.to_string() }),
    }
}

/// The directory of a voter by its copies: what the log names may be one that is gone, and a copy
/// is there. Of several the one that the log names; otherwise a person has to say which.
fn of_copies(
    usable: &[(usize, &Path, &Facts)],
    id: ReplicaId,
    logged: Option<Uuid>,
) -> Result<Option<Uuid>, RecoverError> {
    let of = usable.iter().filter(|(_, _, facts)| facts.meta.node == id);
    let found: Vec<(&Path, Uuid)> =
        of.filter_map(|(_, at, facts)| Some((*at, facts.meta.directory?))).collect();
    match &found[..] {
        [] => Ok(None),
        [(_, first), rest @ ..] if rest.iter().all(|(_, other)| other == first) => Ok(Some(*first)),
        _ if found.iter().any(|(_, own)| Some(*own) == logged) => Ok(logged),
        _ => {
            let found = found.iter().map(|(at, own)| (at.to_path_buf(), own.to_string()));
            Err(RecoverError::SeveralDirectories { node: id, found: found.collect() })
        }
    }
}

/// Where a voter of the log listens.
fn address(voter: &KRaftVoter) -> Option<HostPort> {
    let at = voter.endpoints.first()?;
    Some(HostPort { host: at.host.clone(), port: at.port })
}
