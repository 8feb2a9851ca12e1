//! Control records: what the quorum itself writes into the log.
//!
//! The key says which record it is; the value's own first field says its version.

use crate::coder::{Coder, Tags, Walk};
use crate::{Decoder, Encoder, Error, print_fields};
use bytes::Bytes;
use quorate_base::Uuid;
use std::fmt;

/// The only version of control record keys.
const KEY_VERSION: i16 = 0;

/// Which control record, by its number in the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControlType {
    /// 2: a leader begins its epoch.
    LeaderChange,
    /// 3: a snapshot begins.
    SnapshotHeader,
    /// 4: a snapshot ends.
    SnapshotFooter,
    /// 5: the quorum's feature level (KIP-853).
    KRaftVersion,
    /// 6: the voters (KIP-853).
    KRaftVoters,
    /// Another: transaction markers (0, 1), or from the future.
    Unknown(i16),
}

impl ControlType {
    /// The number in the key.
    pub const fn number(self) -> i16 {
        match self {
            ControlType::LeaderChange => 2,
            ControlType::SnapshotHeader => 3,
            ControlType::SnapshotFooter => 4,
            ControlType::KRaftVersion => 5,
            ControlType::KRaftVoters => 6,
            ControlType::Unknown(number) => number,
        }
    }

    /// The type with this number. Total.
    pub const fn from_number(number: i16) -> ControlType {
        match number {
            2 => ControlType::LeaderChange,
            3 => ControlType::SnapshotHeader,
            4 => ControlType::SnapshotFooter,
            5 => ControlType::KRaftVersion,
            6 => ControlType::KRaftVoters,
            other => ControlType::Unknown(other),
        }
    }

    /// The record key: four bytes.
    pub fn encode_key(self) -> Bytes {
        let ([a, b], [c, d]) = (KEY_VERSION.to_be_bytes(), self.number().to_be_bytes());
        Bytes::copy_from_slice(&[a, b, c, d])
    }

    /// Reads a record key. As in Kafka, keys of later versions may be longer.
    pub fn decode_key(key: Bytes) -> Result<ControlType, Error> {
        let (mut version, mut number) = (0, 0);
        let mut decoder = Decoder::new(key, false);
        decoder.i16("Version", &mut version)?;
        decoder.i16("Type", &mut number)?;
        if version < KEY_VERSION {
            return Err(decoder.bad_value("Version", version));
        }
        Ok(ControlType::from_number(number))
    }
}

/// The first record of every epoch: its leader, the voters, and who of them voted for it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LeaderChange {
    /// 0, or 1 with directories (KIP-853).
    pub version: i16,
    /// The leader.
    pub leader_id: i32,
    /// The voters at the time.
    pub voters: Vec<Voter>,
    /// Those whose votes made it leader.
    pub granting_voters: Vec<Voter>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl LeaderChange {
    /// The newest version.
    pub const NEWEST: i16 = 1;

    /// The record value.
    pub fn encode(mut self) -> Result<Bytes, Error> {
        let mut encoder = Encoder::new(true);
        self.walk(&mut encoder, 0)?;
        Ok(encoder.finish()?.into_payload())
    }

    /// Reads a record value, all of it.
    pub fn decode(value: Bytes) -> Result<LeaderChange, Error> {
        let mut decoder = Decoder::new(value, true);
        let mut record = LeaderChange::default();
        record.walk(&mut decoder, 0)?;
        decoder.finish().map(|()| record)
    }
}

impl fmt::Display for LeaderChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print_fields(self.clone(), 0, true, "LeaderChange".to_owned()))
    }
}

impl Walk for LeaderChange {
    /// The record carries its version; the argument is not looked at.
    fn walk<C: Coder>(&mut self, c: &mut C, _: i16) -> Result<(), Error> {
        c.i16("Version", &mut self.version)?;
        let version = self.version;
        if !(0..=LeaderChange::NEWEST).contains(&version) {
            return Err(c.bad_value("Version", version));
        }
        c.i32("LeaderId", &mut self.leader_id)?;
        c.array("Voters", &mut self.voters, version)?;
        c.array("GrantingVoters", &mut self.granting_voters, version)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// A voter.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Voter {
    /// The node.
    pub voter_id: i32,
    /// Version 1: its directory.
    pub voter_directory_id: Uuid,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for Voter {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("VoterId", &mut self.voter_id)?;
        if version >= 1 {
            c.uuid("VoterDirectoryId", &mut self.voter_directory_id)?;
        }
        c.unknown_tags(&mut self.tags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value that Kafka 4.3.1 wrote.
    const VERSION_0: &[u8] = &[
        0, 0, 0, 0, 0, 2, 4, 0, 0, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 3, 0, 3, 0, 0, 0, 2, 0, 0, 0,
        0, 1, 0, 0,
    ];

    fn voter(voter_id: i32, directory: u8) -> Voter {
        Voter { voter_id, voter_directory_id: Uuid([directory; 16]), tags: Tags::new() }
    }

    #[test]
    fn leader_change_as_kafka_writes_it() {
        let record = LeaderChange::decode(Bytes::from_static(VERSION_0)).unwrap();
        let shown = "LeaderChange Version=0 LeaderId=2 Voters=[{VoterId=1} {VoterId=2} {VoterId=3}] \
                     GrantingVoters=[{VoterId=2} {VoterId=1}]";
        assert_eq!(record.to_string(), shown);
        assert_eq!(record.encode().unwrap(), VERSION_0);
    }

    #[test]
    fn version_1_adds_directories() {
        let record = LeaderChange {
            version: 1,
            leader_id: 1,
            voters: vec![voter(1, 7), voter(2, 8)],
            granting_voters: vec![voter(1, 7)],
            tags: Tags::new(),
        };
        let value = record.clone().encode().unwrap();
        assert_eq!(value.len(), 2 + 4 + (1 + 2 * 21) + (1 + 21) + 1);
        assert_eq!(LeaderChange::decode(value), Ok(record.clone()));

        let old = LeaderChange { version: 0, ..record };
        let read = LeaderChange::decode(old.encode().unwrap()).unwrap();
        assert_eq!(read.voters, [voter(1, 0), voter(2, 0)]);
    }

    #[test]
    fn what_is_not_a_leader_change_is_refused() {
        let check = |value: &'static [u8], expect| {
            assert_eq!(LeaderChange::decode(Bytes::from_static(value)), Err(expect));
        };
        check(&[0, 2], Error::BadValue { field: "Version", at: 2, found: 2 });
        check(&VERSION_0[..33], Error::Truncated { field: "TagCount", at: 33, needed: 1, left: 0 });
    }

    #[test]
    fn keys_come_back() {
        for number in -1..9 {
            let key = ControlType::from_number(number).encode_key();
            assert_eq!(ControlType::decode_key(key), Ok(ControlType::from_number(number)));
        }
        assert_eq!(ControlType::LeaderChange.encode_key()[..], [0, 0, 0, 2]);
        let key = Bytes::from_static(&[0xff, 0xff, 0, 2]);
        let expect = Error::BadValue { field: "Version", at: 4, found: -1 };
        assert_eq!(ControlType::decode_key(key), Err(expect));
    }
}
