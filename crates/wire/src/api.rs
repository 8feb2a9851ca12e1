//! The one table of APIs: key, name, the versions we speak, the first flexible version, how long
//! a request may be.
//!
//! To add an API: one line here, one file in `message/`, one line in `message::visit`. That a
//! message can be read and written does not yet make anyone answer it: a listener announces and
//! takes only what [`Served`] and [`OnlyActive`] name. Who has to tell APIs apart by what is to be
//! done matches such a list, and need not know of each message that can be read.

use std::fmt;

macro_rules! apis {
    ($(
        $(#[$doc:meta])*
        $name:ident = $key:literal, $oldest:literal, $newest:literal, $flexible:literal,
            $largest:expr;
    )*) => {
        /// An API whose messages we read and write.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[repr(i16)]
        pub enum ApiKey {
            $($(#[$doc])* $name = $key,)*
        }

        impl ApiKey {
            /// Every API, ascending by key.
            pub const ALL: &[ApiKey] = &[$(ApiKey::$name),*];

            /// Kafka's name of the API.
            pub const fn name(self) -> &'static str {
                match self { $(ApiKey::$name => stringify!($name),)* }
            }

            /// The oldest version that we speak.
            pub const fn oldest(self) -> i16 {
                match self { $(ApiKey::$name => $oldest,)* }
            }

            /// The newest version that we speak, inclusive.
            pub const fn newest(self) -> i16 {
                match self { $(ApiKey::$name => $newest,)* }
            }

            /// The longest request frame that is taken. What a peer has no reason to send it shall
            /// not make us hold: some messages take fifty times their length in memory.
            pub const fn max_request_bytes(self) -> usize {
                match self { $(ApiKey::$name => $largest,)* }
            }

            /// The first version with compact lengths and tagged fields (KIP-482).
            const fn first_flexible(self) -> i16 {
                match self { $(ApiKey::$name => $flexible,)* }
            }
        }
    };
}

apis! {
    // API            = key, oldest, newest, first flexible, longest request;
    /// Copies records, and thereby acknowledges those copied before.
    Fetch             =     1, 4, 18, 12, 1024 * 1024;
    /// Asks which APIs and versions the other side speaks.
    ApiVersions       =    18, 0,  4,  3, 64 * 1024;
    /// Creates topics; clients ask brokers, which pass it on.
    CreateTopics      =    19, 2,  7,  5, 1024 * 1024;
    /// Asks for a vote or, from version 2, for a pre-vote (KIP-595, KIP-996).
    Vote              =    52, 0,  2,  0, 64 * 1024;
    /// A new leader tells the voters of itself (KIP-595).
    BeginQuorumEpoch  =    53, 0,  1,  1, 64 * 1024;
    /// A leader gives up its epoch and proposes successors (KIP-595).
    EndQuorumEpoch    =    54, 0,  1,  1, 64 * 1024;
    /// Asks who leads, votes and observes (KIP-595).
    DescribeQuorum    =    55, 0,  2,  0, 64 * 1024;
    /// A broker that leads partitions says which replicas are in sync (KIP-497).
    AlterPartition    =    56, 2,  3,  0, 1024 * 1024;
    /// The level of a feature is to change (KIP-584).
    UpdateFeatures    =    57, 0,  2,  0, 64 * 1024;
    /// A broker passes on what a client asked (KIP-590).
    Envelope          =    58, 0,  0,  0, 1024 * 1024;
    /// Copies a snapshot (KIP-630).
    FetchSnapshot     =    59, 0,  1,  0, 64 * 1024;
    /// Asks for the cluster's id and nodes (KIP-700).
    DescribeCluster   =    60, 0,  2,  0, 64 * 1024;
    /// A broker tells the active controller of itself (KIP-631).
    BrokerRegistration =   62, 0,  4,  0, 1024 * 1024;
    /// A broker tells the active controller that it lives (KIP-631).
    BrokerHeartbeat   =    63, 0,  2,  0, 1024 * 1024;
    /// A broker takes a block of producer ids (KIP-730).
    AllocateProducerIds =  67, 0,  0,  0, 1024 * 1024;
    /// A controller tells the active one of itself (KIP-919).
    ControllerRegistration = 70, 0, 0, 0, 1024 * 1024;
    /// A broker says which of its directories hold which replicas (KIP-858).
    AssignReplicasToDirs = 73, 0,  0,  0, 1024 * 1024;
    /// Makes a voter of an observer (KIP-853).
    AddRaftVoter      =    80, 0,  1,  0, 64 * 1024;
    /// Takes its vote from a voter (KIP-853).
    RemoveRaftVoter   =    81, 0,  0,  0, 64 * 1024;
    /// A voter tells the leader of itself (KIP-853).
    UpdateRaftVoter   =    82, 0,  0,  0, 64 * 1024;
    /// Ours, between Quorate nodes only: operations that reached a node which does not lead.
    Forward           = 10595, 0,  0,  0, 8 * 1024 * 1024;
}

impl ApiKey {
    /// The API with this key, if we speak it.
    pub fn from_key(key: i16) -> Option<ApiKey> {
        ApiKey::ALL.iter().copied().find(|api| api.key() == key)
    }

    /// The number that stands for the API on the wire.
    pub const fn key(self) -> i16 {
        self as i16
    }

    /// Whether we speak this version.
    pub fn speaks(self, version: i16) -> bool {
        (self.oldest()..=self.newest()).contains(&version)
    }

    /// Whether the version has compact lengths and tagged fields.
    pub fn is_flexible(self, version: i16) -> bool {
        version >= self.first_flexible()
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Makes a closed list of some of the APIs.
macro_rules! some_of_them {
    ($(#[$doc:meta])* $list:ident: $($name:ident),* $(,)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $list {
            $(#[doc = concat!("[`ApiKey::", stringify!($name), "`]")] $name,)*
        }

        impl $list {
            /// Every one, ascending by key.
            pub const ALL: &[$list] = &[$($list::$name),*];

            /// The API, if it is one of these.
            pub fn of(api: ApiKey) -> Option<$list> {
                $list::ALL.iter().copied().find(|one| one.api() == api)
            }

            /// The API.
            pub const fn api(self) -> ApiKey {
                match self { $($list::$name => ApiKey::$name,)* }
            }
        }

        impl fmt::Display for $list {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.api().fmt(f)
            }
        }
    };
}

some_of_them! {
    /// What a listener of ours announces and takes, and all that our nodes ask each other.
    Served:
    Fetch,
    ApiVersions,
    Vote,
    BeginQuorumEpoch,
    EndQuorumEpoch,
    DescribeQuorum,
    UpdateFeatures,
    FetchSnapshot,
    DescribeCluster,
    AddRaftVoter,
    RemoveRaftVoter,
    UpdateRaftVoter,
    Forward,
}

some_of_them! {
    /// What only the active controller of a Kafka cluster does, as far as Kafka's nodes ask it of
    /// whoever leads: a listener of ours announces it and refuses it.
    OnlyActive:
    AlterPartition,
    Envelope,
    BrokerRegistration,
    BrokerHeartbeat,
    AllocateProducerIds,
    ControllerRegistration,
    AssignReplicasToDirs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_found_by_key() {
        assert!(ApiKey::ALL.windows(2).all(|pair| pair[0].key() < pair[1].key()));
        for api in ApiKey::ALL {
            assert_eq!(ApiKey::from_key(api.key()), Some(*api));
            assert!(api.oldest() <= api.newest());
        }
        assert!(Served::ALL.windows(2).all(|pair| pair[0].api() < pair[1].api()));
        assert!(OnlyActive::ALL.windows(2).all(|pair| pair[0].api() < pair[1].api()));
        for one in Served::ALL {
            assert_eq!(Served::of(one.api()), Some(*one));
            assert_eq!(OnlyActive::of(one.api()), None, "{one}: either is taken or refused");
        }
        for one in OnlyActive::ALL {
            assert_eq!(OnlyActive::of(one.api()), Some(*one));
            assert_eq!(Served::of(one.api()), None);
        }
        assert_eq!(Served::of(ApiKey::CreateTopics), None);
        assert_eq!(ApiKey::from_key(-1), None);
        assert_eq!(ApiKey::from_key(2), None);
    }
}
