//! `quorum-state`: which epoch this replica has seen, who leads it, whom it voted for.
//!
//! Written before anything that rests on it leaves the node [P9] [P43]. Version 0 is Kafka's form
//! for static voters, version 1 that for voters in the log (kraft.version 1); both are written and
//! read. A missing file is a replica that has seen nothing; a file that cannot be read is an error
//! and never a fresh start, because a replica that forgets its vote may vote twice.

use crate::error::BadText;
use crate::json::Json;
use bytes::Bytes;
use quorate_base::{Epoch, ReplicaId, ReplicaKey, Uuid};
use std::fmt::Write;

/// Its name.
pub(crate) const NAME: &str = "quorum-state";

/// What a replica must not forget about elections.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Election {
    /// The highest epoch seen.
    pub epoch: Epoch,
    /// Its leader, if known.
    pub leader: Option<ReplicaId>,
    /// Who has this replica's vote in that epoch. Version 0 does not hold the directory.
    pub voted: Option<ReplicaKey>,
    /// The static voters; empty in version 1, where the log holds them.
    pub voters: Vec<ReplicaId>,
}

impl Election {
    /// The file, version 0: with the static voters.
    pub fn encode(&self) -> Bytes {
        let id = |id: Option<ReplicaId>| id.map_or(-1, |id| i64::from(id.0));
        let mut text = format!(
            r#"{{"clusterId":"","leaderId":{},"leaderEpoch":{},"votedId":{},"appliedOffset":0,"currentVoters":["#,
            id(self.leader),
            self.epoch,
            id(self.voted.map(|key| key.id)),
        );
        for (index, voter) in self.voters.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(text, r#"{comma}{{"voterId":{voter}}}"#).expect("a String takes all");
        }
        text.push_str(r#"],"data_version":0}"#);
        text.into()
    }

    /// The file, version 1: without the voters, with the directory that has the vote.
    pub fn encode_dynamic(&self) -> Bytes {
        let id = |id: Option<ReplicaId>| id.map_or(-1, |id| i64::from(id.0));
        let directory = self.voted.and_then(|key| key.directory).unwrap_or_default();
        format!(
            r#"{{"leaderId":{},"leaderEpoch":{},"votedId":{},"votedDirectoryId":"{directory}","data_version":1}}"#,
            id(self.leader),
            self.epoch,
            id(self.voted.map(|key| key.id)),
        )
        .into()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Election, BadText> {
        let json = Json::parse(bytes)?;
        let epoch = number(&json, "leaderEpoch", 0)?;
        let mut election = Election {
            epoch: Epoch(epoch),
            leader: replica(&json, "leaderId")?,
            voted: replica(&json, "votedId")?.map(|id| ReplicaKey::new(id, None)),
            voters: Vec::new(),
        };
        let version = field(&json, "data_version")?;
        match version.number() {
            Some(0) => election.voters = voters(&json)?,
            Some(1) => {
                let directory = directory(&json)?;
                if let Some(voted) = &mut election.voted {
                    voted.directory = directory;
                }
            }
            Some(_) | None => return Err(BadText::new(0, "data_version 0 or 1", print(version))),
        }
        Ok(election)
    }
}

fn field<'a>(json: &'a Json, name: &str) -> Result<&'a Json, BadText> {
    json.field(name).ok_or_else(|| BadText::new(0, format!("a field {name}"), "none"))
}

/// A whole number of 31 bits, at least `least`; -1 comes back as `u32::MAX`.
fn number(json: &Json, name: &str, least: i32) -> Result<u32, BadText> {
    let value = field(json, name)?;
    let number = value.number().and_then(|value| i32::try_from(value).ok());
    match number.filter(|value| *value >= least) {
        Some(value) => Ok(value as u32),
        None => {
            let expected = format!("{name} from {least} to 2147483647");
            Err(BadText::new(0, expected, print(value)))
        }
    }
}

fn replica(json: &Json, name: &str) -> Result<Option<ReplicaId>, BadText> {
    let id = number(json, name, -1)?;
    Ok((id != u32::MAX).then_some(ReplicaId(id)))
}

fn voters(json: &Json) -> Result<Vec<ReplicaId>, BadText> {
    let value = field(json, "currentVoters")?;
    match value.list() {
        Some(voters) => {
            voters.iter().map(|voter| Ok(ReplicaId(number(voter, "voterId", 0)?))).collect()
        }
        None => Err(BadText::new(0, "a list in currentVoters", print(value))),
    }
}

fn directory(json: &Json) -> Result<Option<Uuid>, BadText> {
    let value = field(json, "votedDirectoryId")?;
    let uuid = value.text().and_then(|text| text.parse::<Uuid>().ok());
    uuid.map(Uuid::known)
        .ok_or_else(|| BadText::new(0, "an id of 22 characters in votedDirectoryId", print(value)))
}

fn print(json: &Json) -> String {
    match json {
        Json::Number(value) => value.to_string(),
        Json::Text(text) => format!("{text:?}"),
        Json::List(_) => "a list".to_owned(),
        Json::Object(_) => "an object".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(id: u32) -> ReplicaId {
        ReplicaId(id)
    }

    #[test]
    fn version_0_is_written_as_kafka_writes_it() {
        let election = Election {
            epoch: Epoch(2),
            leader: Some(id(3)),
            voted: Some(ReplicaKey::new(id(3), None)),
            voters: vec![id(1), id(2), id(3)],
        };
        let text = r#"{"clusterId":"","leaderId":3,"leaderEpoch":2,"votedId":3,"appliedOffset":0,"currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}],"data_version":0}"#;
        assert_eq!(election.encode(), text);
        assert_eq!(Election::decode(text.as_bytes()).unwrap(), election);

        let nothing = Election::default();
        assert_eq!(Election::decode(&nothing.encode()).unwrap(), nothing);
    }

    #[test]
    fn version_1_is_read() {
        let directory = "czfJg4CDwHwVJjbT8tBdAg";
        let text = format!(
            r#"{{"leaderId":-1,"leaderEpoch":2,"votedId":4,"votedDirectoryId":"{directory}","data_version":1}}"#
        );
        let election = Election::decode(text.as_bytes()).unwrap();
        assert_eq!(election.leader, None);
        assert_eq!(election.voted, Some(ReplicaKey::new(id(4), Some(directory.parse().unwrap()))));
    }

    /// behaviours.md 16: no silent reset.
    #[test]
    fn whatever_cannot_be_understood_is_an_error() {
        let check = |text: &str, expected: &str, found: &str| {
            let bad = Election::decode(text.as_bytes()).unwrap_err();
            assert_eq!((bad.expected.as_str(), bad.found.as_str()), (expected, found), "{text}");
        };
        check("", "a value", "the end of the file");
        check("{}", "a field leaderEpoch", "none");
        check(r#"{"leaderEpoch":-1}"#, "leaderEpoch from 0 to 2147483647", "-1");
        check(r#"{"leaderEpoch":2147483648}"#, "leaderEpoch from 0 to 2147483647", "2147483648");
        check(r#"{"leaderEpoch":1,"leaderId":"x"}"#, "leaderId from -1 to 2147483647", "\"x\"");
        let head = r#"{"leaderEpoch":1,"leaderId":1,"votedId":-1"#;
        check(&format!("{head}}}"), "a field data_version", "none");
        check(&format!(r#"{head},"data_version":2}}"#), "data_version 0 or 1", "2");
        check(&format!(r#"{head},"data_version":0}}"#), "a field currentVoters", "none");
        check(&format!(r#"{head},"data_version":1}}"#), "a field votedDirectoryId", "none");
    }
}
