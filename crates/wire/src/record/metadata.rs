//! Metadata records: what a Kafka controller writes into the log, its cluster's state.
//!
//! A record's value is a frame of three varints (the frame's own version, the record's type, its
//! version) and the record in flexible form; its key is null. One table here says which types and
//! versions there are; the structs lie beside, each with one walk. `docs/FORMATS.md` has the table
//! with its sources. What records mean together is the machine's; nothing here knows a state.

mod access;
mod brokers;
mod configs;
mod topics;
mod transactions;

pub use access::{
    AccessControlEntry, DelegationToken, RemoveAccessControlEntry, RemoveDelegationToken,
    RemoveUserScramCredential, UserScramCredential,
};
pub use brokers::{
    BrokerRegistrationChange, FenceBroker, RegisterBroker, RegisterController, RegisteredEndpoint,
    RegisteredFeature, UnfenceBroker, UnregisterBroker,
};
pub use configs::{ClientQuota, Config, FeatureLevel, ProducerIds, QuotaEntity};
pub use topics::{ClearElr, NO_LEADER_CHANGE, Partition, PartitionChange, RemoveTopic, Topic};
pub use transactions::{
    AbortTransaction, BeginTransaction, EndTransaction, NoOp, ZkMigrationState,
};

use crate::json::{fields_json, quoted};
use crate::primitive::{Varint, get_varint, put_varint};
use crate::{Coder, Decoder, Encoder, Error, Walk, print_fields};
use bytes::{Buf, Bytes, BytesMut};
use std::fmt;

/// The only version of the frame around a record.
pub const FRAME_VERSION: u32 = 1;

/// Makes the enum of all records, and what depends on the type of one.
macro_rules! metadata_records {
    ($($(#[$doc:meta])* $key:literal $name:ident $shown:literal up to $newest:literal;)*) => {
        /// A metadata record.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum MetadataRecord {
            $($(#[$doc])* $name($name),)*
        }

        impl MetadataRecord {
            /// Each type that is known: its number, Kafka's name and its newest version, ascending
            /// by number. The oldest version of each is 0.
            pub const TYPES: &'static [(u32, &'static str, i16)] =
                &[$(($key, $shown, $newest),)*];

            /// Its type's number: `apiKey` of Kafka's schema.
            pub fn api_key(&self) -> u32 {
                match self {
                    $(MetadataRecord::$name(_) => $key,)*
                }
            }

            /// Kafka's name of its type.
            pub fn type_name(&self) -> &'static str {
                match self {
                    $(MetadataRecord::$name(_) => $shown,)*
                }
            }

            /// The record with nothing but defaults, of this type.
            pub fn default_of(api_key: u32) -> Option<MetadataRecord> {
                match api_key {
                    $($key => Some(MetadataRecord::$name($name::default())),)*
                    _ => None,
                }
            }

            /// Visits every field, as [`Walk::walk`].
            pub fn walk<C: Coder>(&mut self, c: &mut C, version: i16) -> Result<(), Error> {
                match self {
                    $(MetadataRecord::$name(record) => record.walk(c, version),)*
                }
            }

            /// The record's fields as one JSON object on one line, by Kafka's names, in the form
            /// that Kafka's own dump tool gives them.
            pub fn fields_json(&self, version: i16) -> String {
                match self {
                    $(MetadataRecord::$name(record) => fields_json(record.clone(), version),)*
                }
            }

            /// Name and fields on one line, for traces.
            pub fn print(&self, version: i16) -> String {
                let out = format!("{} v{version}", self.type_name());
                match self {
                    $(MetadataRecord::$name(record) => {
                        print_fields(record.clone(), version, true, out)
                    })*
                }
            }
        }

        $(
            impl From<$name> for MetadataRecord {
                fn from(record: $name) -> MetadataRecord {
                    MetadataRecord::$name(record)
                }
            }
        )*
    };
}

metadata_records! {
    /// A broker registers, for the first time or again.
    0 RegisterBroker "REGISTER_BROKER_RECORD" up to 4;
    /// A broker is not part of the cluster any more.
    1 UnregisterBroker "UNREGISTER_BROKER_RECORD" up to 0;
    /// A topic is created.
    2 Topic "TOPIC_RECORD" up to 0;
    /// A partition is created, or described whole.
    3 Partition "PARTITION_RECORD" up to 2;
    /// A config is set or deleted.
    4 Config "CONFIG_RECORD" up to 0;
    /// A partition changes.
    5 PartitionChange "PARTITION_CHANGE_RECORD" up to 2;
    /// A broker is fenced; read, no longer written.
    7 FenceBroker "FENCE_BROKER_RECORD" up to 0;
    /// A broker is unfenced; read, no longer written.
    8 UnfenceBroker "UNFENCE_BROKER_RECORD" up to 0;
    /// A topic is deleted, with its partitions and configs.
    9 RemoveTopic "REMOVE_TOPIC_RECORD" up to 0;
    /// A delegation token is created or renewed.
    10 DelegationToken "DELEGATION_TOKEN_RECORD" up to 0;
    /// A user's SCRAM credential is set.
    11 UserScramCredential "USER_SCRAM_CREDENTIAL_RECORD" up to 0;
    /// A feature gets a level; 0 removes it.
    12 FeatureLevel "FEATURE_LEVEL_RECORD" up to 0;
    /// A client quota is set or removed.
    14 ClientQuota "CLIENT_QUOTA_RECORD" up to 0;
    /// Producer ids are handed out.
    15 ProducerIds "PRODUCER_IDS_RECORD" up to 0;
    /// A broker's registration changes.
    17 BrokerRegistrationChange "BROKER_REGISTRATION_CHANGE_RECORD" up to 3;
    /// An ACL is created.
    18 AccessControlEntry "ACCESS_CONTROL_ENTRY_RECORD" up to 0;
    /// An ACL is deleted.
    19 RemoveAccessControlEntry "REMOVE_ACCESS_CONTROL_ENTRY_RECORD" up to 0;
    /// Nothing, so that the high watermark moves.
    20 NoOp "NO_OP_RECORD" up to 0;
    /// How far the migration from ZooKeeper was; read, without effect.
    21 ZkMigrationState "ZK_MIGRATION_STATE_RECORD" up to 0;
    /// A user's SCRAM credential is deleted.
    22 RemoveUserScramCredential "REMOVE_USER_SCRAM_CREDENTIAL_RECORD" up to 0;
    /// A metadata transaction begins (KIP-868).
    23 BeginTransaction "BEGIN_TRANSACTION_RECORD" up to 0;
    /// A metadata transaction takes effect.
    24 EndTransaction "END_TRANSACTION_RECORD" up to 0;
    /// A metadata transaction has no effect.
    25 AbortTransaction "ABORT_TRANSACTION_RECORD" up to 0;
    /// A delegation token is deleted.
    26 RemoveDelegationToken "REMOVE_DELEGATION_TOKEN_RECORD" up to 0;
    /// A controller registers (KIP-919).
    27 RegisterController "REGISTER_CONTROLLER_RECORD" up to 0;
    /// Eligible leader replicas are forgotten, of one topic or of all (KIP-966).
    28 ClearElr "CLEAR_ELR_RECORD" up to 0;
}

/// What a record's value says of itself, before its fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordFrame {
    /// The type, `apiKey` of Kafka's schema.
    pub api_key: u32,
    /// The version.
    pub version: u32,
    /// Where the fields begin.
    pub bytes: usize,
}

impl RecordFrame {
    /// Reads the front of a record's value.
    pub fn parse(value: &[u8]) -> Result<RecordFrame, Error> {
        let mut at = 0;
        let frame = varint(value, &mut at, "FrameVersion")?;
        if frame != FRAME_VERSION {
            return Err(Error::BadValue { field: "FrameVersion", at, found: frame.into() });
        }
        let api_key = varint(value, &mut at, "ApiKey")?;
        let version = varint(value, &mut at, "Version")?;
        Ok(RecordFrame { api_key, version, bytes: at })
    }
}

fn varint(value: &[u8], at: &mut usize, field: &'static str) -> Result<u32, Error> {
    let left = value.len() - *at;
    match get_varint(&value[*at..]) {
        Varint::Value(number, width) => {
            *at += width;
            Ok(number)
        }
        Varint::Unfinished => Err(Error::Truncated { field, at: *at, needed: left + 1, left }),
        Varint::TooLarge => Err(Error::BadVarint { field, at: *at }),
    }
}

impl MetadataRecord {
    /// Reads a record's value, all of it: the record and its version. Positions in errors count
    /// from the end of the frame around it.
    pub fn decode(mut value: Bytes) -> Result<(MetadataRecord, i16), Error> {
        let RecordFrame { api_key, version, bytes } = RecordFrame::parse(&value)?;
        let unknown = Error::UnknownRecord { api_key, version };
        let newest = MetadataRecord::newest(api_key).ok_or(unknown)?;
        let version = i16::try_from(version).ok().filter(|version| *version <= newest);
        let version = version.ok_or(unknown)?;
        let mut record = MetadataRecord::default_of(api_key).ok_or(unknown)?;
        value.advance(bytes);
        let mut decoder = Decoder::new(value, true);
        record.walk(&mut decoder, version)?;
        decoder.finish().map(|()| (record, version))
    }

    /// A record's value, at this version.
    pub fn encode(mut self, version: i16) -> Result<Bytes, Error> {
        let api_key = self.api_key();
        let unsigned = u32::try_from(version).ok();
        let known = MetadataRecord::newest(api_key).is_some_and(|newest| version <= newest);
        let Some(unsigned) = unsigned.filter(|_| known) else {
            return Err(Error::NotInVersion { field: self.type_name(), version });
        };
        let mut encoder = Encoder::new(true);
        self.walk(&mut encoder, version)?;
        let body = encoder.finish()?.into_payload();
        let mut value = BytesMut::with_capacity(body.len() + 4);
        put_varint(FRAME_VERSION, &mut value);
        put_varint(api_key, &mut value);
        put_varint(unsigned, &mut value);
        value.extend_from_slice(&body);
        Ok(value.freeze())
    }

    /// The newest version of a type, if the type is known.
    pub fn newest(api_key: u32) -> Option<i16> {
        let types = MetadataRecord::TYPES;
        let at = types.binary_search_by_key(&api_key, |(key, ..)| *key).ok()?;
        Some(types[at].2)
    }

    /// Kafka's name of a type, if the type is known.
    pub fn name_of(api_key: u32) -> Option<&'static str> {
        let types = MetadataRecord::TYPES;
        let at = types.binary_search_by_key(&api_key, |(key, ..)| *key).ok()?;
        Some(types[at].1)
    }

    /// Type, version and fields as one JSON object on one line, as Kafka's dump tool prints them.
    pub fn json(&self, version: i16) -> String {
        let (name, fields) = (quoted(self.type_name()), self.fields_json(version));
        format!("{{\"type\":{name},\"version\":{version},\"data\":{fields}}}")
    }
}

impl fmt::Display for MetadataRecord {
    /// At the newest version, for traces.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let newest = MetadataRecord::newest(self.api_key()).unwrap_or_default();
        f.write_str(&self.print(newest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arbitrary;
    use quorate_base::{Rng, Uuid};

    fn unhex(text: &str) -> Bytes {
        let digits = text.bytes().filter_map(|digit| char::from(digit).to_digit(16));
        let digits: Vec<u8> = digits.map(|digit| digit as u8).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    /// Read whole, shown, and written back.
    #[track_caller]
    fn check(hex: &str, shown: &str) {
        let value = unhex(hex);
        let (record, version) = MetadataRecord::decode(value.clone()).unwrap();
        assert_eq!(record.json(version), shown);
        assert_eq!(record.encode(version), Ok(value));
    }

    /// Laid out by hand after Kafka's schemas: the types and versions that the directories written
    /// by Kafka 4.3.1, which the tests of the log read, do not have.
    #[test]
    fn old_and_rare_records_have_the_bytes_of_the_schemas() {
        const ID: &str = "00000000000000000000000000000001";
        check(
            "01 07 00 00000065 000000000000000b 00",
            r#"{"type":"FENCE_BROKER_RECORD","version":0,"data":{"id":101,"epoch":11}}"#,
        );
        check(
            "01 08 00 00000065 000000000000000b 00",
            r#"{"type":"UNFENCE_BROKER_RECORD","version":0,"data":{"id":101,"epoch":11}}"#,
        );
        check(
            "01 0a 00 02 6f 02 71 03 02 61 02 62 0000000000000001 0000000000000003 \
             0000000000000002 02 74 00",
            r#"{"type":"DELEGATION_TOKEN_RECORD","version":0,"data":{"owner":"o","requester":"q","renewers":["a","b"],"issueTimestamp":1,"maxTimestamp":3,"expirationTimestamp":2,"tokenId":"t"}}"#,
        );
        check(
            "01 1a 00 02 74 00",
            r#"{"type":"REMOVE_DELEGATION_TOKEN_RECORD","version":0,"data":{"tokenId":"t"}}"#,
        );
        check(
            "01 15 00 03 00",
            r#"{"type":"ZK_MIGRATION_STATE_RECORD","version":0,"data":{"zkMigrationState":3}}"#,
        );
        check(
            "01 19 00 01 00 03 03 6e 6f",
            r#"{"type":"ABORT_TRANSACTION_RECORD","version":0,"data":{"reason":"no"}}"#,
        );
        check("01 19 00 00", r#"{"type":"ABORT_TRANSACTION_RECORD","version":0,"data":{}}"#);
        check(
            "01 1c 00 02 74 00",
            r#"{"type":"CLEAR_ELR_RECORD","version":0,"data":{"topicName":"t"}}"#,
        );
        check(
            &format!("01 11 02 00000065 000000000000000b 02 00 01 01 02 11 02 {ID}"),
            r#"{"type":"BROKER_REGISTRATION_CHANGE_RECORD","version":2,"data":{"brokerId":101,"brokerEpoch":11,"fenced":1,"logDirs":["AAAAAAAAAAAAAAAAAAAAAQ"]}}"#,
        );
        // Leader recovery state, tag 0, shows where the schema has it.
        check(
            &format!(
                "01 03 00 00000002 {ID} 02 00000065 02 00000066 01 01 ffffffff 00000004 00000005 \
                 01 00 01 01"
            ),
            r#"{"type":"PARTITION_RECORD","version":0,"data":{"partitionId":2,"topicId":"AAAAAAAAAAAAAAAAAAAAAQ","replicas":[101],"isr":[102],"removingReplicas":[],"addingReplicas":[],"leader":-1,"leaderRecoveryState":1,"leaderEpoch":4,"partitionEpoch":5}}"#,
        );
        check(
            &format!("01 05 01 00000002 {ID} 03 01 04 00000065 05 01 00 08 11 02 {ID}"),
            r#"{"type":"PARTITION_CHANGE_RECORD","version":1,"data":{"partitionId":2,"topicId":"AAAAAAAAAAAAAAAAAAAAAQ","leader":101,"leaderRecoveryState":0,"directories":["AAAAAAAAAAAAAAAAAAAAAQ"]}}"#,
        );
        for (version, middle, end) in [(0, "", ""), (1, "", "00"), (2, "00", "01")] {
            let hex = format!(
                "01 00 {version:02} 00000065 {middle} {ID} 000000000000000b 01 01 00 01 {end} 00"
            );
            let (record, read) = MetadataRecord::decode(unhex(&hex)).unwrap();
            let expect = RegisterBroker {
                broker_id: 101,
                incarnation_id: Uuid::METADATA_TOPIC,
                broker_epoch: 11,
                in_controlled_shutdown: end == "01",
                ..RegisterBroker::default()
            };
            assert_eq!((record.clone(), read), (expect.into(), version));
            assert_eq!(record.encode(version), Ok(unhex(&hex)));
        }
    }

    #[test]
    fn what_is_not_known_says_what_it_is() {
        let decode = |hex| MetadataRecord::decode(unhex(hex)).unwrap_err();
        let found = Error::UnknownRecord { api_key: 29, version: 3 };
        assert_eq!(decode("01 1d 03 00"), found);
        let says = "no metadata record of type 29, here version 3, is known";
        assert_eq!(found.to_string(), says);
        let says = "PARTITION_RECORD version 3 is not known here; 0 to 2 are";
        assert_eq!(decode("01 03 03").to_string(), says);
        assert_eq!(
            decode("01 03 80 80 04").to_string(),
            says.replace("version 3", "version 65536")
        );
        assert_eq!(decode("02 03 00"), Error::BadValue { field: "FrameVersion", at: 1, found: 2 });
        assert_eq!(decode("01"), Error::Truncated { field: "ApiKey", at: 1, needed: 1, left: 0 });
        assert_eq!(decode("01 14 00 00 00"), Error::Trailing { at: 1, left: 1 });
        let record = MetadataRecord::from(NoOp::default());
        let refused = Error::NotInVersion { field: "NO_OP_RECORD", version: 1 };
        assert_eq!(record.clone().encode(1), Err(refused));
        assert!(record.encode(-1).is_err());
    }

    /// What a version cannot carry is never lost in silence.
    #[test]
    fn a_field_that_a_version_lacks_is_not_dropped() {
        let dirs = Some(vec![Uuid::METADATA_TOPIC]);
        let change = PartitionChange { directories: dirs, ..PartitionChange::default() };
        let change = MetadataRecord::from(change);
        let refused = Error::NotInVersion { field: "Directories", version: 0 };
        assert_eq!(change.clone().encode(0), Err(refused));
        assert!(change.encode(1).is_ok());
    }

    #[test]
    fn drawn_records_of_every_type_and_version_come_back() {
        assert!(MetadataRecord::TYPES.is_sorted());
        let mut rng = Rng::new(7);
        for (api_key, name, newest) in MetadataRecord::TYPES {
            for version in (0..=*newest).cycle().take(200) {
                let record = arbitrary::metadata(*api_key, version, &mut rng).unwrap();
                assert_eq!((record.api_key(), record.type_name()), (*api_key, *name));
                let value = record.clone().encode(version).unwrap();
                assert_eq!(MetadataRecord::decode(value.clone()), Ok((record.clone(), version)));
                // Cut anywhere it is an error, never a panic and never another record.
                for end in 0..value.len() {
                    assert!(MetadataRecord::decode(value.slice(..end)).is_err(), "{record}");
                }
            }
        }
    }
}
