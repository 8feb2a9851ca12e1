//! Control records: what the quorum itself writes into the log.
//!
//! The key says which record it is; the value's own first field says its version. A value of a
//! version that is not known here is refused: what it says might change who votes.

use crate::coder::{Coder, Tags, Walk};
use crate::message::{KRaftVersionFeature, Listener};
use crate::{Decoder, Encoder, Error, print_fields};
use bytes::Bytes;
use quorate_base::Uuid;
use std::fmt;

/// The only version of control record keys.
const KEY_VERSION: i16 = 0;

/// Which control record, by its number in the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControlType {
    /// 0: a transaction was aborted; never in a metadata log.
    Abort,
    /// 1: a transaction was committed; never in a metadata log.
    Commit,
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
    /// Another, from the future.
    Unknown(i16),
}

impl ControlType {
    /// The number in the key.
    pub const fn number(self) -> i16 {
        match self {
            ControlType::Abort => 0,
            ControlType::Commit => 1,
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
            0 => ControlType::Abort,
            1 => ControlType::Commit,
            2 => ControlType::LeaderChange,
            3 => ControlType::SnapshotHeader,
            4 => ControlType::SnapshotFooter,
            5 => ControlType::KRaftVersion,
            6 => ControlType::KRaftVoters,
            other => ControlType::Unknown(other),
        }
    }

    /// The record key.
    pub const fn key(self) -> [u8; 4] {
        let ([a, b], [c, d]) = (KEY_VERSION.to_be_bytes(), self.number().to_be_bytes());
        [a, b, c, d]
    }

    /// Reads a record key. As in Kafka, keys of later versions may be longer.
    pub fn of_key(key: &[u8]) -> Result<ControlType, Error> {
        let Some([a, b, c, d]) = key.first_chunk() else {
            return Err(Error::Truncated { field: "Key", at: 0, needed: 4, left: key.len() });
        };
        let version = i16::from_be_bytes([*a, *b]);
        if version < KEY_VERSION {
            return Err(Error::BadValue { field: "Version", at: 2, found: version.into() });
        }
        Ok(ControlType::from_number(i16::from_be_bytes([*c, *d])))
    }
}

impl fmt::Display for ControlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControlType::Unknown(number) => write!(f, "Unknown({number})"),
            ControlType::Abort
            | ControlType::Commit
            | ControlType::LeaderChange
            | ControlType::SnapshotHeader
            | ControlType::SnapshotFooter
            | ControlType::KRaftVersion
            | ControlType::KRaftVoters => write!(f, "{self:?}"),
        }
    }
}

/// Reads and writes the values of control records, which carry their version themselves, and makes
/// the enum of them.
macro_rules! control_records {
    ($($(#[$doc:meta])* $name:ident up to $newest:literal;)*) => {
        /// A control record that is understood, or one that is not.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum ControlRecord {
            $($(#[$doc])* $name($name),)*
            /// Another: a transaction marker or one from the future.
            Other(ControlType, Bytes),
        }

        impl ControlRecord {
            /// Reads the value of a record with this type in its key, all of it.
            pub fn decode(kind: ControlType, value: Bytes) -> Result<ControlRecord, Error> {
                match kind {
                    $(ControlType::$name => $name::decode(value).map(ControlRecord::$name),)*
                    ControlType::Abort | ControlType::Commit | ControlType::Unknown(_) => {
                        Ok(ControlRecord::Other(kind, value))
                    }
                }
            }

            /// The record value.
            pub fn encode(self) -> Result<Bytes, Error> {
                match self {
                    $(ControlRecord::$name(record) => record.encode(),)*
                    ControlRecord::Other(_, value) => Ok(value),
                }
            }

            /// What its key says.
            pub fn kind(&self) -> ControlType {
                match self {
                    $(ControlRecord::$name(_) => ControlType::$name,)*
                    ControlRecord::Other(kind, _) => *kind,
                }
            }
        }

        impl fmt::Display for ControlRecord {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(ControlRecord::$name(record) => record.fmt(f),)*
                    ControlRecord::Other(kind, value) => {
                        write!(f, "{kind} <{} bytes>", value.len())
                    }
                }
            }
        }

        $(
            impl $name {
                /// The newest version.
                pub const NEWEST: i16 = $newest;

                /// The record value.
                pub fn encode(mut self) -> Result<Bytes, Error> {
                    let mut encoder = Encoder::new(true);
                    self.walk(&mut encoder, 0)?;
                    Ok(encoder.finish()?.into_payload())
                }

                /// Reads a record value, all of it.
                pub fn decode(value: Bytes) -> Result<$name, Error> {
                    let mut decoder = Decoder::new(value, true);
                    let mut record = $name::default();
                    record.walk(&mut decoder, 0)?;
                    decoder.finish().map(|()| record)
                }
            }

            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str(&print_fields(self.clone(), 0, true, stringify!($name).to_owned()))
                }
            }
        )*
    };
}

control_records! {
    /// A leader begins its epoch.
    LeaderChange up to 1;
    /// A snapshot begins.
    SnapshotHeader up to 0;
    /// A snapshot ends.
    SnapshotFooter up to 0;
    /// The quorum's feature level.
    KRaftVersion up to 0;
    /// The voters.
    KRaftVoters up to 0;
}

/// The first field of every value.
fn walk_version<C: Coder>(c: &mut C, version: &mut i16, newest: i16) -> Result<(), Error> {
    c.i16("Version", version)?;
    match (0..=newest).contains(version) {
        true => Ok(()),
        false => Err(c.bad_value("Version", *version)),
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

impl Walk for LeaderChange {
    /// The record carries its version; the argument is not looked at.
    fn walk<C: Coder>(&mut self, c: &mut C, _: i16) -> Result<(), Error> {
        walk_version(c, &mut self.version, LeaderChange::NEWEST)?;
        let version = self.version;
        c.i32("LeaderId", &mut self.leader_id)?;
        c.array("Voters", &mut self.voters, version)?;
        c.array("GrantingVoters", &mut self.granting_voters, version)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// A voter at the beginning of an epoch.
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

/// The first record of a snapshot (KIP-630).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SnapshotHeader {
    /// 0.
    pub version: i16,
    /// Time of the last record that went into the snapshot, in milliseconds since 1970.
    pub last_contained_log_timestamp: i64,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for SnapshotHeader {
    fn walk<C: Coder>(&mut self, c: &mut C, _: i16) -> Result<(), Error> {
        walk_version(c, &mut self.version, SnapshotHeader::NEWEST)?;
        c.i64("LastContainedLogTimestamp", &mut self.last_contained_log_timestamp)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// The last record of a snapshot (KIP-630).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SnapshotFooter {
    /// 0.
    pub version: i16,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for SnapshotFooter {
    fn walk<C: Coder>(&mut self, c: &mut C, _: i16) -> Result<(), Error> {
        walk_version(c, &mut self.version, SnapshotFooter::NEWEST)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// The feature level from here on (KIP-853).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KRaftVersion {
    /// Of this record: 0.
    pub version: i16,
    /// The level: 0 with static voters, 1 with those of [`KRaftVoters`].
    pub kraft_version: i16,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for KRaftVersion {
    fn walk<C: Coder>(&mut self, c: &mut C, _: i16) -> Result<(), Error> {
        walk_version(c, &mut self.version, KRaftVersion::NEWEST)?;
        c.i16("KRaftVersion", &mut self.kraft_version)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// The voters from here on (KIP-853).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KRaftVoters {
    /// 0.
    pub version: i16,
    /// All of them.
    pub voters: Vec<KRaftVoter>,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for KRaftVoters {
    fn walk<C: Coder>(&mut self, c: &mut C, _: i16) -> Result<(), Error> {
        walk_version(c, &mut self.version, KRaftVoters::NEWEST)?;
        let version = self.version;
        c.array("Voters", &mut self.voters, version)?;
        c.unknown_tags(&mut self.tags)
    }
}

/// A voter and where it can be reached.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KRaftVoter {
    /// The node.
    pub voter_id: i32,
    /// Its directory.
    pub voter_directory_id: Uuid,
    /// Its controller listeners.
    pub endpoints: Vec<Listener>,
    /// The levels of `kraft.version` that it supports.
    pub kraft_version_feature: KRaftVersionFeature,
    /// Tagged fields that we do not know.
    pub tags: Tags,
}

impl Walk for KRaftVoter {
    fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
        c.i32("VoterId", &mut self.voter_id)?;
        c.uuid("VoterDirectoryId", &mut self.voter_directory_id)?;
        c.array("Endpoints", &mut self.endpoints, version)?;
        c.nested("KRaftVersionFeature", &mut self.kraft_version_feature, version)?;
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
            let kind = ControlType::from_number(number);
            assert_eq!((kind.number(), ControlType::of_key(&kind.key())), (number, Ok(kind)));
        }
        assert_eq!(ControlType::LeaderChange.key(), [0, 0, 0, 2]);
        let later = [0, 1, 0, 6, 9, 9];
        assert_eq!(ControlType::of_key(&later), Ok(ControlType::KRaftVoters));
        let expect = Error::BadValue { field: "Version", at: 2, found: -1 };
        assert_eq!(ControlType::of_key(&[0xff, 0xff, 0, 2]), Err(expect));
        let expect = Error::Truncated { field: "Key", at: 0, needed: 4, left: 3 };
        assert_eq!(ControlType::of_key(&[0, 0, 0]), Err(expect));
    }

    #[test]
    fn records_of_other_types_pass_through() {
        let value = Bytes::from_static(&[1, 2, 3]);
        for kind in [ControlType::Abort, ControlType::Commit, ControlType::Unknown(7)] {
            let record = ControlRecord::decode(kind, value.clone()).unwrap();
            assert_eq!(record.kind(), kind);
            assert_eq!(record.to_string(), format!("{kind} <3 bytes>"));
            assert_eq!(record.encode(), Ok(value.clone()));
        }
    }

    #[test]
    fn a_record_of_a_later_version_is_refused() {
        let check = |kind, bytes: &'static [u8]| {
            let found = ControlRecord::decode(kind, Bytes::from_static(bytes));
            assert_eq!(found, Err(Error::BadValue { field: "Version", at: 2, found: 1 }));
        };
        check(ControlType::SnapshotHeader, &[0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        check(ControlType::SnapshotFooter, &[0, 1, 0]);
        check(ControlType::KRaftVersion, &[0, 1, 0, 1, 0]);
        check(ControlType::KRaftVoters, &[0, 1, 1, 0]);
    }
}
