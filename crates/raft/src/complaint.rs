//! What a human is told when a peer breaks the protocol: what happened, what it means, what to do.
//!
//! In each case the message was refused and nothing of it was taken.

use crate::decrees::BadDecree;
use crate::effect::Complaint;
use quorate_base::Offset;
use std::fmt;

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Complaint::TwoLeaders { epoch, known, told } => write!(
                f,
                "nodes {known} and {told} are both named as leader of epoch {epoch}: a node has lost its \
                 quorum-state file or two share an id; stop the one that was restored or copied last"
            ),
            Complaint::NamedAsLeader { epoch } => write!(
                f,
                "this node is named as leader of epoch {epoch}, in which it does not lead: another node has \
                 its id, or this directory is an older copy; look for a second node with this node.id"
            ),
            Complaint::SharesOurId { id } => write!(
                f,
                "another node has this node's id {id}: two nodes of one id cannot be told apart; stop one \
                 and give it its own node.id"
            ),
            Complaint::CopiedDirectory { id } => write!(f, "node {id} {COPIED}"),
            Complaint::RunsTwice { id } => write!(f, "node {id} {TWICE}"),
            Complaint::WrongVoterKey { id } => write!(
                f,
                "node {id} says that it is not the voter that was asked: its directory id is not the one in \
                 the voter set; its disk was replaced, or its address belongs to another node"
            ),
            Complaint::ChangedVote { id, epoch } => write!(
                f,
                "node {id} answered twice and differently to the vote of epoch {epoch}: it has lost what it \
                 stored; check its disk and that no second node has its id"
            ),
            Complaint::DivergedBelowCommitted { cut, committed } => write!(
                f,
                "the leader's log lacks records that are committed: following it would cut this log to \
                 {cut}, below {committed}. A majority of the voters has lost data; keep this directory, it \
                 may hold the only copy"
            ),
            Complaint::DivergedNowhere { told, ours } => write!(
                f,
                "the leader says that the logs part at {told}, and this log ends at {ours} all the same: \
                 the two disagree on the epochs of the log; compare their leader-epoch-checkpoint files"
            ),
            Complaint::RecordGap { end, base } => write!(
                f,
                "the leader sent records from offset {base} where this log ends at {end}; they are asked \
                 for again"
            ),
            Complaint::Unnumbered => f.write_str(UNNUMBERED),
            Complaint::TombstonesGone { end, horizon } => tombstones_gone(*end, *horizon, f),
            Complaint::EpochFell { last, next } => write!(
                f,
                "the leader sent records of epoch {next} behind records of epoch {last}: its log is damaged"
            ),
            Complaint::HighWatermarkFell { known, told } => write!(
                f,
                "the leader says that {told} is committed where {known} was committed before: it has lost \
                 data or shares its id with another node"
            ),
            Complaint::CalledInvalid => f.write_str(
                "the peer calls our request invalid (INVALID_REQUEST): the two do not agree on the protocol; \
                 compare their versions and the name and id of the topic",
            ),
            Complaint::NotAdded { error } => write!(
                f,
                "the leader does not make a voter of this node ({error:?}), which \
                 controller.quorum.auto.join.enable asks for: the leader's log or metrics say why, and \
                 `quorate quorum add` asks by hand"
            ),
            Complaint::Snapshot { id, ours } => write!(
                f,
                "the leader asks this node to start from the snapshot {id}, which is not ahead of its log \
                 that ends at {ours}, or ends below what is committed; the snapshot is not taken. The \
                 leader has lost data, or the two disagree on the epochs of the log: compare their \
                 leader-epoch-checkpoint files"
            ),
            Complaint::Decree { bad } => decree(*bad, f),
            Complaint::Malformed => f.write_str(
                "the peer's answer does not fit the question or has a field out of range: compare its version \
                 with this node's",
            ),
        }
    }
}

const COPIED: &str = "says in turn that it is here and there: two processes run with copies of one directory, \
    and one vote counts for both; stop one and let it begin with an empty directory";

const TWICE: &str = "runs twice, with two directories, and the one that does not vote asks for the other's place: \
    two machines have this node.id; stop one, or give it its own";

const UNNUMBERED: &str = "the leader sent records without saying what its log lacks; they were dropped, since \
    this node could not tell whether its state is complete with them: compare its version with this node's";

fn tombstones_gone(end: Offset, horizon: Offset, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(
        f,
        "the leader's log lacks deletions up to {horizon} that this voter, whose log ends at {end}, never \
         held: they were collected too early; keep this directory, and give the node a fresh one, from \
         which it copies the log anew"
    )
}

/// What the log says of the quorum itself and this node cannot obey.
fn decree(bad: BadDecree, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match bad {
            BadDecree::Version(version) => write!(
                f,
                "the quorum was moved to kraft.version {version}, which this node does not speak, so it \
                 follows no further; upgrade this node"
            ),
            BadDecree::Voters => f.write_str(
                "a record of the leader's log names no voters, or one id twice: it is not taken; compare \
                 what `quorate log dump` shows of KRaftVoters records on the leader and here",
            ),
    }
}
