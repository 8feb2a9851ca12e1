//! Whether another quorum of this node's cluster lives: two form when directories that name
//! different voters are formatted apart with one cluster id (T40).
//!
//! Keeps a founder from its first start where such a quorum answers, and says so loudly where both
//! run. Never ends a node that runs: which of the two is the right one only a person can know.

use crate::cli::Outcome;
use crate::cli::controllers::{Quorum, describe, shown};
use quorate::http::Served;
use quorate::{Config, HostPort, OffsetEpoch, Uuid};
use quorate_log::{Meta, OsDisk, snapshot_name};
use quorate_node::handle::Handle;
use quorate_node::status::Status;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// How long a founder waits at its first start for others that may be a quorum already.
const GLANCE: Duration = Duration::from_secs(2);

/// Refuses the first start of a node that would be a voter by what was formatted alone, where a
/// quorum of its cluster lives that does not count it.
pub(super) async fn judge_founder(config: &Config) -> Outcome {
    let mut disk = OsDisk::new(&config.directory);
    let Ok(meta) = Meta::read(&mut disk) else { return Ok(()) };
    if config.bootstrap.is_empty() || !is_founder(config) {
        return Ok(());
    }
    let Ok(Ok(quorum)) = timeout(GLANCE, describe(&config.bootstrap)).await else { return Ok(()) };
    let own = (meta.node.0 as i32, meta.directory.unwrap_or(Uuid::ZERO));
    let named = |voter: &quorate_wire::message::QuorumReplica| {
        (voter.replica_id, voter.replica_directory_id) == own
    };
    if quorum.cluster != meta.cluster || quorum.voters.iter().any(named) {
        return Ok(());
    }
    super::begin::refused(
        config,
        &format!(
            "{} was formatted as that of a first voter of the cluster {}, which has a quorum already: node {} leads its \
             epoch {}, and this directory is no voter there. It would be a second quorum. Move the directory away, write \
             quorate.join={} into the file, start the node, and add it with `quorate quorum add`",
            config.directory.display(),
            quorum.cluster,
            quorum.leader,
            quorum.epoch,
            config.bootstrap.iter().map(shown).collect::<Vec<_>>().join(","),
        ),
    )
}

/// Whether the directory names voters by itself and was never used since.
fn is_founder(config: &Config) -> bool {
    let partition = config.directory.join(format!("{}-0", config.topic));
    let empty =
        |name: &str| std::fs::metadata(partition.join(name)).map_or(true, |file| file.len() == 0);
    partition.join(snapshot_name(OffsetEpoch::default())).exists()
        && !partition.join("quorum-state").exists()
        && empty("00000000000000000000.log")
}

/// What two looks at both quorums have to show alike: own leader and epoch, then the other's.
type Pair = ((Option<u32>, u32), (i32, i32));

/// Looks now and then as long as the node runs.
pub(super) async fn watch<M: Served>(handle: Handle<M>, config: Config) {
    // Longer than a leader lasts that has lost its majority, so that a new one is no rival.
    let pause = Duration::from_millis(config.fetch_timeout.as_ms().saturating_mul(3));
    let mut seen: Option<Pair> = None;
    loop {
        sleep(pause).await;
        let Ok(own) = handle.status().await else { return };
        let other = match in_quorum(&own) {
            true => find(&own, &config.bootstrap).await,
            false => None,
        };
        let pair =
            other.as_ref().map(|(_, other)| ((own.leader, own.epoch), (other.leader, other.epoch)));
        if let Some((server, other)) = other.filter(|_| pair == seen) {
            tracing::error!(
                "TWO QUORUMS of the cluster {} run: here node {} leads epoch {}, and by {} node {} leads epoch {}. Both \
                 take writes, and neither has those of the other. A node was formatted with --standalone or \
                 --initial-controllers where it should have joined. Stop the nodes of the one that you do not want to \
                 keep, move their directories away, and let them join the other (quorate.join)",
                own.cluster,
                own.leader.unwrap_or_default(),
                own.epoch,
                shown(&server),
                other.leader,
                other.epoch,
            );
        }
        seen = pair;
    }
}

/// Whether this node leads, or follows as a voter.
fn in_quorum(own: &Status) -> bool {
    own.leader.is_some() && ["leader", "follower"].contains(&own.role.as_str())
}

/// A quorum of the same cluster with another leader, by servers that are none of the own voters.
async fn find(own: &Status, servers: &[HostPort]) -> Option<(HostPort, Quorum)> {
    let known = |server: &&HostPort| {
        let at = shown(server);
        own.voters.iter().any(|voter| voter.endpoint == at)
    };
    for server in servers.iter().filter(|server| !known(server)) {
        if let Ok(other) = describe(std::slice::from_ref(server)).await
            && other.cluster == own.cluster
            && (u32::try_from(other.leader).ok(), other.epoch.unsigned_abs())
                != (own.leader, own.epoch)
        {
            return Some((server.clone(), other));
        }
    }
    None
}
