//! How a node belongs to a quorum, by its file: the voters that the file names or where to ask for
//! them, and whether an empty directory begins a cluster or joins one.
//!
//! Never lets a file say two of these at once.

use super::table;
use super::values::Values;
use super::{MachineName, Unformatted};
use quorate_base::ReplicaId;
use quorate_node::config::{HostPort, Voter};

/// `quorate.bootstrap` and `quorate.join`.
pub(super) fn unformatted(values: &mut Values, machine: MachineName) -> Unformatted {
    values.word(&table::BEGIN);
    let begins = values.text(&table::BEGIN) == Some("true");
    let join = values.servers(&table::JOIN);
    let setting = match (begins, join.is_empty()) {
        (true, false) => {
            let why = "is for the first node of a new cluster and quorate.join for all later ones: a node is one of the two, so take one of the lines out";
            values.wrong(&table::BEGIN, why);
            return Unformatted::Refuse;
        }
        (true, true) => &table::BEGIN,
        (false, false) => &table::JOIN,
        (false, true) => return Unformatted::Refuse,
    };
    if values.is_given(&table::VOTERS) {
        let why = "is for clusters whose log names the voters, and controller.quorum.voters names them in the file: take one of the two out; with voters in the file `quorate format` prepares the directory";
        values.wrong(setting, why);
    }
    match (begins, machine) {
        (true, MachineName::Kafka) => {
            let why = "cannot be with quorate.machine=kafka: this node cannot act as the active controller of a Kafka cluster yet; begin the cluster with a controller of Kafka's, and let this node join it (quorate.join)";
            values.wrong(&table::BEGIN, why);
            Unformatted::Refuse
        }
        (true, MachineName::Kv) => Unformatted::Begin,
        (false, MachineName::Kv | MachineName::Kafka) => Unformatted::Join(join),
    }
}

/// Where to ask for the leader.
pub(super) fn bootstrap(values: &mut Values, unformatted: &Unformatted) -> Vec<HostPort> {
    let given = values.servers(&table::BOOTSTRAP);
    match unformatted {
        Unformatted::Join(servers) if given.is_empty() => servers.clone(),
        Unformatted::Join(_) | Unformatted::Refuse | Unformatted::Begin => given,
    }
}

/// Who votes, as far as the file says it.
pub(super) fn judge(
    values: &mut Values,
    id: ReplicaId,
    bind: &HostPort,
    voters: &[Voter],
    notes: &mut Vec<String>,
) {
    let begins = values.text(&table::BEGIN) != Some("false");
    let tried =
        [&table::VOTERS, &table::BOOTSTRAP, &table::JOIN].map(|setting| values.is_given(setting));
    if !begins && !tried.contains(&true) {
        let why = "is needed: all nodes that vote, such as 1@a:9093,2@b:9093,3@c:9093; or, where the log names them, controller.quorum.bootstrap.servers=a:9093,b:9093; or, to start without a format, quorate.bootstrap=true on the first node and quorate.join=a:9093 on the others";
        values.wrong(&table::VOTERS, why);
    }
    let own = voters.iter().find(|voter| voter.id == id);
    if own.is_none() && !voters.is_empty() {
        notes.push(format!(
            "node {id} is not among the voters: it will be an OBSERVER, which copies the log and never votes or \
             leads; if it shall vote, correct node.id or {}",
            table::VOTERS.name
        ));
    }
    if let Some(own) = own.filter(|own| bind.port != 0 && own.at.port != bind.port) {
        notes.push(format!(
            "the voters say that node {id} listens on port {}, its listener says {}: right only if something \
             between them translates",
            own.at.port, bind.port
        ));
    }
    let count = voters.len();
    if count > 0 && count.is_multiple_of(2) {
        notes.push(format!(
            "{count} voters survive the loss of {}, as {} would, and need one more to agree: \
             use an odd number",
            count / 2 - 1,
            count - 1
        ));
    }
}
