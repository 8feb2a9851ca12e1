//! What control records say of the quorum itself, to the core's words and back: `kraft.version` and
//! the voters (KIP-853).
//!
//! The order of the voters in a record is anyone's; the core has them by id. A record that cannot
//! be read is an error and never passed over, since it might say who counts. Records of other kinds
//! say nothing of it. UpdateRaftVoter, which speaks of the same, is here too.

use super::inbound::{self, Refused, check_cluster};
use super::outbound::{leader_view, top_level};
use super::{Names, error_kind, key, wire_directory, wire_id};
use bytes::Bytes;
use quorate_log::{Batch, ControlType};
use quorate_raft::{Decree, Endpoint, LeaderView, UpdateVoter, Voter};
use quorate_wire::ErrorCode;
use quorate_wire::message::{
    KRaftVersionFeature, Listener, UpdateRaftVoterCurrentLeader, UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
};
use quorate_wire::record::control::{ControlRecord, KRaftVersion, KRaftVoter, KRaftVoters};

/// What a control batch says; `None` if nothing.
pub(crate) fn decree_of(batch: &Batch) -> Result<Option<Box<Decree>>, String> {
    if !batch.control() {
        return Ok(None);
    }
    let mut decree = Decree::default();
    for record in batch.records() {
        let record = record.map_err(|bad| bad.to_string())?;
        let kind = ControlType::of_key(record.key.unwrap_or_default());
        let value = Bytes::copy_from_slice(record.value.unwrap_or_default());
        add(&mut decree, kind.map_err(|bad| bad.to_string())?, value)?;
    }
    Ok((!decree.is_empty()).then(|| Box::new(decree)))
}

/// What the head of a snapshot says.
pub(crate) fn founded(head: &[(ControlType, Bytes)]) -> Result<Decree, String> {
    let mut decree = Decree::default();
    for (kind, value) in head {
        add(&mut decree, *kind, value.clone())?;
    }
    Ok(decree)
}

fn add(decree: &mut Decree, kind: ControlType, value: Bytes) -> Result<(), String> {
    let read = |value| ControlRecord::decode(kind, value).map_err(|bad| format!("{kind}: {bad}"));
    match kind {
        ControlType::KRaftVersion | ControlType::KRaftVoters => match read(value)? {
            ControlRecord::KRaftVersion(record) => {
                let version = u16::try_from(record.kraft_version);
                decree.version = Some(version.map_err(|_| format!("{kind}: below 0"))?);
            }
            ControlRecord::KRaftVoters(record) => decree.voters = Some(voters(&record)?),
            ControlRecord::LeaderChange(_)
            | ControlRecord::SnapshotHeader(_)
            | ControlRecord::SnapshotFooter(_)
            | ControlRecord::Other(..) => {}
        },
        ControlType::Abort
        | ControlType::Commit
        | ControlType::LeaderChange
        | ControlType::SnapshotHeader
        | ControlType::SnapshotFooter
        | ControlType::Unknown(_) => {}
    }
    Ok(())
}

fn voters(record: &KRaftVoters) -> Result<std::sync::Arc<[Voter]>, String> {
    let mut voters = Vec::with_capacity(record.voters.len());
    for entry in &record.voters {
        let key = key(entry.voter_id, entry.voter_directory_id);
        let key = key.ok_or_else(|| format!("a voter with the id {}", entry.voter_id))?;
        let level = |level: i16| {
            u16::try_from(level).map_err(|_| format!("voter {key} with the version {level}"))
        };
        let feature = &entry.kraft_version_feature;
        voters.push(Voter {
            key,
            endpoints: entry.endpoints.iter().map(endpoint).collect(),
            versions: (
                level(feature.min_supported_version)?,
                level(feature.max_supported_version)?,
            ),
        });
    }
    voters.sort_by_key(|voter| voter.key.id);
    Ok(voters.into())
}

pub(super) fn endpoint(at: &Listener) -> Endpoint {
    Endpoint { listener: at.name.clone(), host: at.host.clone(), port: at.port }
}

pub(super) fn listener(at: &Endpoint) -> Listener {
    let (name, host, port) = (at.listener.clone(), at.host.clone(), at.port);
    Listener { name, host, port, ..Listener::default() }
}

/// The records of a decree, in Kafka's order.
pub(crate) fn head(decree: &Decree) -> Vec<(ControlType, Bytes)> {
    let mut head = Vec::new();
    if let Some(version) = decree.version {
        let record = KRaftVersion { kraft_version: version as i16, ..KRaftVersion::default() };
        let value = record.encode().expect("a number fits in a record");
        head.push((ControlType::KRaftVersion, value));
    }
    if let Some(voters) = &decree.voters {
        let voters = voters.iter().map(entry).collect();
        let record = KRaftVoters { voters, ..KRaftVoters::default() };
        let value = record.encode().expect("a voter set fits in a record");
        head.push((ControlType::KRaftVoters, value));
    }
    head
}

fn entry(voter: &Voter) -> KRaftVoter {
    let (least, greatest) = voter.versions;
    KRaftVoter {
        voter_id: voter.key.id.0 as i32,
        voter_directory_id: wire_directory(Some(voter.key)),
        endpoints: voter.endpoints.iter().map(listener).collect(),
        kraft_version_feature: KRaftVersionFeature {
            min_supported_version: least as i16,
            max_supported_version: greatest as i16,
            ..KRaftVersionFeature::default()
        },
        ..KRaftVoter::default()
    }
}

/// A voter's request to the leader, in the protocol's words.
pub(super) fn update(
    request: UpdateRaftVoterRequest,
    names: &Names,
) -> Result<UpdateVoter, Refused> {
    check_cluster(request.cluster_id, names)?;
    let epoch = inbound::epoch(request.current_leader_epoch)?;
    let invalid = || inbound::partition_error(ErrorCode::InvalidRequest);
    let level = |level: i16| u16::try_from(level).map_err(|_| invalid());
    let feature = &request.kraft_version_feature;
    let voter = Voter {
        key: key(request.voter_id, request.voter_directory_id).ok_or_else(invalid)?,
        endpoints: request.listeners.iter().map(endpoint).collect(),
        versions: (level(feature.min_supported_version)?, level(feature.max_supported_version)?),
    };
    Ok(UpdateVoter { epoch, voter })
}

/// What the leader answers, with who leads.
pub(super) fn updated(error_code: ErrorCode, view: &LeaderView) -> UpdateRaftVoterResponse {
    let at = view.endpoints.first().filter(|_| view.leader.is_some());
    let leader = UpdateRaftVoterCurrentLeader {
        leader_id: wire_id(view.leader),
        leader_epoch: view.epoch.0 as i32,
        host: at.map_or_else(String::new, |at| at.host.clone()),
        port: at.map_or(0, |at| at.port.into()),
        ..UpdateRaftVoterCurrentLeader::default()
    };
    let current_leader = Some(leader);
    UpdateRaftVoterResponse { error_code, current_leader, ..UpdateRaftVoterResponse::default() }
}

/// Our own request.
pub(super) fn question(update: &UpdateVoter, names: &Names) -> UpdateRaftVoterRequest {
    let KRaftVoter { voter_id, voter_directory_id, endpoints, kraft_version_feature, .. } =
        entry(&update.voter);
    UpdateRaftVoterRequest {
        cluster_id: Some(names.cluster.clone()),
        current_leader_epoch: update.epoch.0 as i32,
        voter_id,
        voter_directory_id,
        listeners: endpoints,
        kraft_version_feature,
        ..UpdateRaftVoterRequest::default()
    }
}

/// The answer to it.
pub(super) fn heard(
    response: UpdateRaftVoterResponse,
    asked: &UpdateVoter,
    names: &Names,
) -> Result<LeaderView, String> {
    let code = response.error_code;
    let Some(leader) = response.current_leader else {
        if [ErrorCode::None, ErrorCode::InconsistentClusterId].contains(&code) {
            top_level(code)?;
            return Err("the answer does not say who leads".into());
        }
        // What goes wrong before the peer looks at the request says nothing of who leads.
        let (error, epoch) = (error_kind(code), asked.epoch);
        return Ok(LeaderView { error, epoch, leader: None, endpoints: [].into() });
    };
    let port = u16::try_from(leader.port).ok().filter(|port| *port > 0);
    let at = port.map(|port| (leader.host.as_str(), port));
    leader_view(code, leader.leader_id, leader.leader_epoch, at, names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_base::{Epoch, Offset, ReplicaId, ReplicaKey, Uuid};
    use quorate_log::{BatchBuilder, Batches};

    fn voter(id: u32) -> Voter {
        let at = Endpoint { listener: "CONTROLLER".into(), host: format!("h{id}"), port: 9093 };
        let key = ReplicaKey::new(ReplicaId(id), Some(Uuid([id as u8; 16])));
        Voter { key, endpoints: [at].into(), versions: (0, 1) }
    }

    fn batch(records: &[(ControlType, Bytes)]) -> Batch {
        let mut batch = BatchBuilder::control(Offset(3), Epoch(1), 0);
        for (kind, value) in records {
            batch.record(Some(&kind.key()), Some(value), &[]);
        }
        Batches::new(batch.finish()).next().expect("one").expect("right")
    }

    #[test]
    fn b051_a_decree_survives_the_log_and_a_snapshot() {
        let decree = Decree { version: Some(1), voters: Some([voter(1), voter(4)].into()) };
        assert_eq!(founded(&head(&decree)), Ok(decree.clone()));
        assert_eq!(decree_of(&batch(&head(&decree))), Ok(Some(Box::new(decree.clone()))));
        let version = Decree { version: Some(1), voters: None };
        assert_eq!(founded(&head(&version)), Ok(version));
        assert_eq!(founded(&[]), Ok(Decree::default()));
    }

    #[test]
    fn voters_in_any_order_are_taken_by_id_and_nonsense_is_refused() {
        let record = |voters: Vec<KRaftVoter>| {
            let record = KRaftVoters { voters, ..KRaftVoters::default() };
            [(ControlType::KRaftVoters, record.encode().expect("small"))]
        };
        let sorted = founded(&record(vec![entry(&voter(2)), entry(&voter(1))])).expect("voters");
        assert_eq!(sorted.voters.as_deref(), Some(&[voter(1), voter(2)][..]));
        let nobody = KRaftVoter { voter_id: -1, ..entry(&voter(1)) };
        assert!(founded(&record(vec![nobody])).is_err());
        let cut = [(ControlType::KRaftVoters, Bytes::from_static(&[0]))];
        assert!(decree_of(&batch(&cut)).is_err());
        let other = [(ControlType::Unknown(99), Bytes::from_static(&[0]))];
        assert_eq!(decree_of(&batch(&other)), Ok(None));
    }
}
