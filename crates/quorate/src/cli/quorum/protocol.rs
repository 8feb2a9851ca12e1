//! The quorum as its leader describes it over Kafka's protocol, so that it can be a Java one.
//!
//! The answers become the status that a leader of ours would give, and are shown by the same code:
//! what both know has the same words and fields.

use super::{show_replicas, whole};
use crate::cli::controllers::{self, Quorum, describe, replicas};
use crate::cli::{Outcome, failed, out};
use quorate::{HostPort, Uuid};
use quorate_node::status::{ReplicaStatus, Status, VoterStatus};
use serde_json::json;

/// The quorum as a whole.
pub(super) async fn status(servers: &[HostPort], as_json: bool) -> Outcome {
    let (status, _) = ask(servers).await?;
    if as_json {
        out::json(&json!({
            "cluster": status.cluster, "leader": status.leader, "leader_answers": true,
            "epoch": status.epoch, "high_watermark": status.high_watermark,
            "voters": status.voters, "replicas": status.replicas,
        }));
        return Ok(());
    }
    out::line(&whole(&status, status.leader.unwrap_or_default().to_string()));
    Ok(())
}

/// Every replica.
pub(super) async fn replication(servers: &[HostPort], as_json: bool) -> Outcome {
    let (status, now_ms) = ask(servers).await?;
    show_replicas(&status, now_ms, as_json);
    Ok(())
}

/// The leader's status as far as it tells it, and its time of day.
async fn ask(servers: &[HostPort]) -> Outcome<(Status, u64)> {
    match describe(servers).await {
        Ok(quorum) => Ok(as_status(&quorum)),
        Err(silence) => failed(silence.text()),
    }
}

fn as_status(quorum: &Quorum) -> (Status, u64) {
    let known = |number: i64| u64::try_from(number).ok();
    let rows = quorum.voters.iter().chain(&quorum.observers);
    let leader = quorum.voters.iter().find(|voter| voter.replica_id == quorum.leader);
    // A leader's own times are now.
    let now = leader.and_then(|leader| known(leader.last_fetch_timestamp)).unwrap_or_default();
    let ago = |then: i64| known(then).map(|then| now.saturating_sub(then));
    let replicas = replicas(quorum).zip(rows).map(|(replica, row)| ReplicaStatus {
        node: replica.node.into(),
        directory: (row.replica_directory_id != Uuid::ZERO)
            .then(|| row.replica_directory_id.to_string()),
        status: replica.status.to_lowercase(),
        log_end: replica.end,
        lag: replica.lag,
        last_fetch_ms: ago(row.last_fetch_timestamp),
        last_caught_up_ms: ago(row.last_caught_up_timestamp),
        newest_format_level: None,
    });
    let at = |id: i32| quorum.controllers.iter().find(|(known, _)| *known == id);
    let voters = quorum.voters.iter().map(|voter| VoterStatus {
        node: voter.replica_id.unsigned_abs(),
        endpoint: at(voter.replica_id).map_or("?".into(), |(_, at)| controllers::shown(at)),
    });
    let status = Status {
        cluster: quorum.cluster.clone(),
        role: "leader".into(),
        epoch: quorum.epoch.unsigned_abs(),
        leader: u32::try_from(quorum.leader).ok(),
        high_watermark: Some(quorum.high_watermark),
        voters: voters.collect(),
        replicas: replicas.collect(),
        ..Status::default()
    };
    (status, now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_wire::message::QuorumReplica;

    fn replica(replica_id: i32, log_end_offset: i64, fetched: i64) -> QuorumReplica {
        QuorumReplica {
            replica_id,
            log_end_offset,
            last_fetch_timestamp: fetched,
            last_caught_up_timestamp: fetched - 5,
            ..QuorumReplica::default()
        }
    }

    #[test]
    fn times_are_the_leaders_and_what_is_unknown_stays_so() {
        let mut leader = replica(2, 90, 1_000_000);
        leader.last_caught_up_timestamp = 1_000_000;
        let quorum = Quorum {
            cluster: "c".into(),
            leader: 2,
            epoch: 7,
            high_watermark: 88,
            voters: vec![replica(1, 80, 999_000), leader, replica(3, -1, -1)],
            observers: vec![replica(9, 90, 999_900)],
            controllers: vec![(1, HostPort { host: "a".into(), port: 1 })],
            listener: None,
        };
        let (status, now) = as_status(&quorum);
        assert_eq!((now, status.leader, status.epoch), (1_000_000, Some(2), 7));
        let rows: Vec<_> = status
            .replicas
            .iter()
            .map(|row| (row.node, row.status.as_str(), row.lag, row.last_fetch_ms))
            .collect();
        assert_eq!(
            rows,
            [
                (1, "follower", Some(10), Some(1_000)),
                (2, "leader", Some(0), Some(0)),
                (3, "follower", None, None),
                (9, "observer", Some(0), Some(100)),
            ]
        );
        assert_eq!(status.replicas[0].last_caught_up_ms, Some(1_005));
        let at: Vec<_> = status.voters.iter().map(|voter| voter.endpoint.as_str()).collect();
        assert_eq!(at, ["a:1", "?", "?"]);
    }
}
