//! Why a metadata record cannot be applied: it contradicts the state, as a Kafka controller would
//! see it, too.
//!
//! A log that Kafka wrote has no such record. Facts only; what to do is the caller's.

use quorate_base::Uuid;
use std::fmt;

/// Why a record was left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// It changes a broker that is not registered.
    UnknownBroker {
        /// The broker.
        broker: i32,
    },
    /// It changes another registration of the broker than the present one.
    OtherBrokerEpoch {
        /// The broker.
        broker: i32,
        /// Of its registration.
        registered: i64,
        /// What the record says.
        found: i64,
    },
    /// It registers a broker with a listener that has no name.
    UnnamedListener {
        /// The broker.
        broker: i32,
    },
    /// It is about a topic that there is not.
    UnknownTopic {
        /// Its id.
        id: Uuid,
    },
    /// It names a topic that there is not.
    UnknownTopicName {
        /// Its name.
        name: String,
    },
    /// It creates a topic whose name or id is taken.
    TopicExists {
        /// Its name.
        name: String,
        /// Its id.
        id: Uuid,
    },
    /// It changes a partition that there is not.
    UnknownPartition {
        /// Its topic.
        topic: Uuid,
        /// The partition.
        partition: i32,
    },
    /// Not every replica has a directory, or more than one has.
    Directories {
        /// The topic.
        topic: Uuid,
        /// The partition.
        partition: i32,
        /// How many replicas there would be.
        replicas: usize,
        /// How many directories.
        directories: usize,
    },
    /// It removes an ACL that there is not.
    UnknownAcl {
        /// Its id.
        id: Uuid,
    },
    /// It removes a SCRAM credential that there is not.
    UnknownCredential {
        /// The user.
        user: String,
        /// The mechanism's number.
        mechanism: i8,
    },
    /// It hands out producer ids that were handed out before.
    ProducerIdsUsed {
        /// The first that is free.
        free: i64,
        /// What the record says is free.
        found: i64,
    },
    /// A value outside of the field's closed list.
    BadValue {
        /// The field.
        field: &'static str,
        /// What was found.
        found: i64,
    },
    /// A transaction begins inside of another.
    InTransaction,
    /// A transaction ends that never began.
    NoTransaction,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::UnknownBroker { broker } => write!(f, "broker {broker} is not registered"),
            Refused::OtherBrokerEpoch { broker, registered, found } => {
                write!(f, "broker {broker} is registered with epoch {registered}, not {found}")
            }
            Refused::UnnamedListener { broker } => {
                write!(f, "broker {broker} has a listener without a name")
            }
            Refused::UnknownTopic { id } => write!(f, "no topic has the id {id}"),
            Refused::UnknownTopicName { name } => write!(f, "no topic has the name {name:?}"),
            Refused::TopicExists { name, id } => {
                write!(f, "a topic has the name {name:?} or the id {id} already")
            }
            Refused::UnknownPartition { topic, partition } => {
                write!(f, "the topic {topic} has no partition {partition}")
            }
            Refused::Directories { topic, partition, replicas, directories } => write!(
                f,
                "partition {partition} of the topic {topic} would have {replicas} replicas in \
                 {directories} directories"
            ),
            Refused::UnknownAcl { id } => write!(f, "no ACL has the id {id}"),
            Refused::UnknownCredential { user, mechanism } => {
                write!(f, "the user {user:?} has no credential of mechanism {mechanism}")
            }
            Refused::ProducerIdsUsed { free, found } => {
                write!(f, "producer ids up to {free} are used, so that {found} cannot be the next")
            }
            Refused::BadValue { field, found } => {
                write!(f, "{field} has the unknown value {found}")
            }
            Refused::InTransaction => f.write_str("a transaction is open already"),
            Refused::NoTransaction => f.write_str("no transaction is open"),
        }
    }
}

impl std::error::Error for Refused {}
