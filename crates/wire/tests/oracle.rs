//! The crate `kafka-protocol` as a second opinion, both ways, for every message and version that
//! both know: what we write it reads, with the same values in the fields of the same names; what it
//! writes again is what we wrote; and what it wrote we read back as what we had.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

mod common;

use bytes::{Bytes, BytesMut};
use common::Survey;
use kafka_protocol::messages as theirs;
use kafka_protocol::protocol::{Decodable, Encodable, Message as TheirMessage};
use quorate_base::Rng;
use quorate_wire::message::{
    AddRaftVoterRequest, AllocateProducerIdsRequest, AlterPartitionRequest, ApiVersionsRequest,
    AssignReplicasToDirsRequest, BeginQuorumEpochRequest, BrokerHeartbeatRequest,
    BrokerRegistrationRequest, ControllerRegistrationRequest, CreateTopicsRequest,
    DescribeClusterRequest, DescribeQuorumRequest, EndQuorumEpochRequest, EnvelopeRequest,
    FetchRequest, FetchSnapshotRequest, RemoveRaftVoterRequest, UpdateFeaturesRequest,
    UpdateRaftVoterRequest, VoteRequest,
};
use quorate_wire::record::control::{KRaftVoters, LeaderChange, SnapshotFooter, SnapshotHeader};
use quorate_wire::{ApiKey, Decoder, Encoder, Message, Request, Walk, arbitrary, print};
use std::collections::BTreeMap;
use std::fmt::{Debug, Display};

const MESSAGES_PER_VERSION: u64 = 300;

fn check<R, Q, A>()
where
    R: Request,
    Q: TheirMessage + Encodable + Decodable + Debug,
    A: TheirMessage + Encodable + Decodable + Debug,
{
    check_half::<R, Q>();
    check_half::<R::Response, A>();
}

fn check_half<Ours: Message, Theirs: TheirMessage + Encodable + Decodable + Debug>() {
    let known =
        Theirs::VERSIONS.min.max(Ours::API.oldest())..=Theirs::VERSIONS.max.min(Ours::API.newest());
    // The newest versions of two are younger than their crate; vectors of Kafka's own cover them.
    let younger = [ApiKey::AddRaftVoter, ApiKey::BrokerHeartbeat].contains(&Ours::API);
    let newest = Ours::API.newest() - i16::from(younger);
    assert_eq!((*known.start(), *known.end()), (Ours::API.oldest(), newest), "not all is compared");
    let mut rng = Rng::new(595);
    for version in known {
        for _ in 0..MESSAGES_PER_VERSION {
            check_one::<Ours, Theirs>(&arbitrary::message(version, &mut rng), version);
        }
    }
}

fn check_one<Ours, Theirs>(message: &Ours, version: i16)
where
    Ours: Message,
    Theirs: Encodable + Decodable + Debug,
{
    let flexible = Ours::API.is_flexible(version);
    check_value::<Ours, Theirs>(message, version, version, flexible, &print(message, version));
}

/// `version` is what our walk is given, `their_version` what theirs is.
fn check_value<Ours, Theirs>(
    value: &Ours,
    version: i16,
    their_version: i16,
    flexible: bool,
    shown: &str,
) where
    Ours: Walk + Clone + PartialEq + Debug,
    Theirs: Encodable + Decodable + Debug,
{
    let mut encoder = Encoder::new(flexible);
    value.clone().walk(&mut encoder, version).unwrap();
    let written = encoder.finish().unwrap().into_payload();

    let mut rest = written.clone();
    let read = Theirs::decode(&mut rest, their_version)
        .unwrap_or_else(|error| panic!("they cannot read it: {error}: {shown}"));
    assert!(rest.is_empty(), "they leave bytes over: {shown}");
    let survey = Survey::of_value(value.clone(), version, flexible);
    assert_fields(&survey, &format!("{read:?}"), shown);

    let mut again = BytesMut::new();
    read.encode(&mut again, their_version).unwrap();
    assert_eq!(again, written, "they write it differently: {shown}");

    let mut decoder = Decoder::new(Bytes::from(again), flexible);
    let mut back = Ours::default();
    back.walk(&mut decoder, version).unwrap();
    decoder.finish().unwrap();
    assert_eq!(back, *value, "{shown}");
}

/// The value of a control record in all versions up to the newest.
fn check_record<Ours, Theirs>(newest: i16)
where
    Ours: Walk + Clone + PartialEq + Debug + Display,
    Theirs: TheirMessage + Encodable + Decodable + Debug,
{
    assert_eq!((Theirs::VERSIONS.min, Theirs::VERSIONS.max), (0, newest), "not all is compared");
    let mut rng = Rng::new(630);
    for version in 0..=newest {
        for _ in 0..MESSAGES_PER_VERSION {
            let record: Ours = arbitrary::record(version, &mut rng);
            check_value::<Ours, Theirs>(&record, 0, version, true, &record.to_string());
        }
    }
}

/// Every value of ours stands in theirs, under the same name, as many times. The order tells
/// nothing: tagged fields stand elsewhere in a struct than on the wire.
fn assert_fields(survey: &Survey, debug: &str, shown: &str) {
    let mut count: BTreeMap<(String, &str), i64> = BTreeMap::new();
    for (name, value) in debug_leaves(debug) {
        *count.entry((name.to_owned(), value)).or_default() += 1;
    }
    for (field, value) in &survey.leaves {
        let left = count.entry((snake_case(field), value)).or_default();
        *left -= 1;
        assert!(*left >= 0, "they have no {field}={value}: {shown}\n{debug}");
    }
}

/// `name: value` pairs of a `{:?}` text, the value without its newtypes: `Some(BrokerId(1))` is
/// `1`.
fn debug_leaves(debug: &str) -> Vec<(&str, &str)> {
    let name_of = |text| str::rsplit(text, [' ', '{', '[', '(']).next().unwrap_or_default();
    let pieces: Vec<&str> = debug.split(": ").collect();
    pieces
        .windows(2)
        .map(|pair| {
            let end = pair[1].find([',', '}']).unwrap_or(pair[1].len());
            let value = pair[1][..end].trim().trim_end_matches(')');
            (name_of(pair[0]), value.rsplit('(').next().unwrap_or_default())
        })
        .collect()
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

#[test]
fn fetch() {
    check::<FetchRequest, theirs::FetchRequest, theirs::FetchResponse>();
}

#[test]
fn api_versions() {
    check::<ApiVersionsRequest, theirs::ApiVersionsRequest, theirs::ApiVersionsResponse>();
}

#[test]
fn vote() {
    check::<VoteRequest, theirs::VoteRequest, theirs::VoteResponse>();
}

#[test]
fn begin_quorum_epoch() {
    check::<
        BeginQuorumEpochRequest,
        theirs::BeginQuorumEpochRequest,
        theirs::BeginQuorumEpochResponse,
    >();
}

#[test]
fn end_quorum_epoch() {
    check::<EndQuorumEpochRequest, theirs::EndQuorumEpochRequest, theirs::EndQuorumEpochResponse>();
}

#[test]
fn describe_quorum() {
    check::<DescribeQuorumRequest, theirs::DescribeQuorumRequest, theirs::DescribeQuorumResponse>();
}

#[test]
fn fetch_snapshot() {
    check::<FetchSnapshotRequest, theirs::FetchSnapshotRequest, theirs::FetchSnapshotResponse>();
}

#[test]
fn describe_cluster() {
    check::<DescribeClusterRequest, theirs::DescribeClusterRequest, theirs::DescribeClusterResponse>(
    );
}

#[test]
fn controller_registration() {
    check::<
        ControllerRegistrationRequest,
        theirs::ControllerRegistrationRequest,
        theirs::ControllerRegistrationResponse,
    >();
}

#[test]
fn create_topics() {
    check::<CreateTopicsRequest, theirs::CreateTopicsRequest, theirs::CreateTopicsResponse>();
}

#[test]
fn alter_partition() {
    check::<AlterPartitionRequest, theirs::AlterPartitionRequest, theirs::AlterPartitionResponse>();
}

#[test]
fn envelope() {
    check::<EnvelopeRequest, theirs::EnvelopeRequest, theirs::EnvelopeResponse>();
}

#[test]
fn broker_registration() {
    check::<
        BrokerRegistrationRequest,
        theirs::BrokerRegistrationRequest,
        theirs::BrokerRegistrationResponse,
    >();
}

#[test]
fn broker_heartbeat() {
    check::<BrokerHeartbeatRequest, theirs::BrokerHeartbeatRequest, theirs::BrokerHeartbeatResponse>(
    );
}

#[test]
fn allocate_producer_ids() {
    check::<
        AllocateProducerIdsRequest,
        theirs::AllocateProducerIdsRequest,
        theirs::AllocateProducerIdsResponse,
    >();
}

#[test]
fn assign_replicas_to_dirs() {
    check::<
        AssignReplicasToDirsRequest,
        theirs::AssignReplicasToDirsRequest,
        theirs::AssignReplicasToDirsResponse,
    >();
}

/// How a node that is not the active controller refuses, as their crate reads it.
#[test]
fn not_controller() {
    fn refused<A: TheirMessage + Decodable + Debug>(
        key: i16,
        versions: std::ops::RangeInclusive<i16>,
    ) {
        let announced = quorate_wire::only_active().find(|api| api.api_key == key).unwrap();
        assert_eq!(
            (announced.min_version, announced.max_version),
            (*versions.start(), *versions.end())
        );
        for version in versions {
            let mut request = Vec::new();
            request.extend_from_slice(&key.to_be_bytes());
            request.extend_from_slice(&version.to_be_bytes());
            request.extend_from_slice(&77i32.to_be_bytes());
            let answer = quorate_wire::not_controller(&request).unwrap().into_payload();
            assert_eq!(answer[..5], [0, 0, 0, 77, 0], "the header");
            let mut rest = answer.slice(5..);
            // What is newer than their crate has the same answer.
            let theirs = version.min(A::VERSIONS.max);
            let read = A::decode(&mut rest, theirs).unwrap();
            assert!(rest.is_empty(), "{key} {version}: {read:?}");
            assert!(format!("{read:?}").contains("error_code: 41"), "{read:?}");
            request[3] = 99;
            assert_eq!(quorate_wire::not_controller(&request), None, "a version beyond");
        }
    }
    refused::<theirs::AlterPartitionResponse>(56, 2..=3);
    refused::<theirs::EnvelopeResponse>(58, 0..=0);
    refused::<theirs::BrokerRegistrationResponse>(62, 0..=4);
    refused::<theirs::BrokerHeartbeatResponse>(63, 0..=2);
    refused::<theirs::AllocateProducerIdsResponse>(67, 0..=0);
    refused::<theirs::ControllerRegistrationResponse>(70, 0..=0);
    refused::<theirs::AssignReplicasToDirsResponse>(73, 0..=0);
    assert_eq!(quorate_wire::only_active().count(), 7);
    assert_eq!(quorate_wire::not_controller(&[0, 1, 0, 4, 0, 0, 0, 1]), None, "Fetch");
    assert_eq!(quorate_wire::not_controller(&[0, 63, 0, 0]), None, "no whole header");
}

#[test]
fn update_features() {
    check::<UpdateFeaturesRequest, theirs::UpdateFeaturesRequest, theirs::UpdateFeaturesResponse>();
}

#[test]
fn add_raft_voter() {
    check::<AddRaftVoterRequest, theirs::AddRaftVoterRequest, theirs::AddRaftVoterResponse>();
}

#[test]
fn remove_raft_voter() {
    check::<RemoveRaftVoterRequest, theirs::RemoveRaftVoterRequest, theirs::RemoveRaftVoterResponse>(
    );
}

#[test]
fn update_raft_voter() {
    check::<UpdateRaftVoterRequest, theirs::UpdateRaftVoterRequest, theirs::UpdateRaftVoterResponse>(
    );
}

/// All but KRaftVersion, which their crate does not have.
#[test]
fn control_records() {
    check_record::<LeaderChange, theirs::LeaderChangeMessage>(LeaderChange::NEWEST);
    check_record::<SnapshotHeader, theirs::SnapshotHeaderRecord>(SnapshotHeader::NEWEST);
    check_record::<SnapshotFooter, theirs::SnapshotFooterRecord>(SnapshotFooter::NEWEST);
    check_record::<KRaftVoters, theirs::VotersRecord>(KRaftVoters::NEWEST);
}
