//! What is in flight to whom: at most one question a node, at most one Fetch over all nodes [P5].
//!
//! A node that failed is left alone for `retry.backoff.ms` [P7]. Every change of role forgets all
//! questions in flight, so that a late answer finds no one who waits for it [P6].

use crate::effect::{Call, Features};
use quorate_base::{ReplicaId, ReplicaKey, Time};

/// Someone we can send to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Node {
    Replica(ReplicaId),
    Bootstrap(usize),
}

/// What was asked, as far as the answer alone does not say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Question {
    Vote {
        pre_vote: bool,
    },
    Begin {
        /// Sent when this read round was the newest.
        round: u64,
        /// Whom it meant.
        voter: ReplicaKey,
    },
    End,
    Fetch,
    /// What the voter set should say of this node.
    Update,
    /// That this node be a voter.
    Add,
    /// That its old directory be none.
    Remove,
    /// Bytes of a snapshot from this position on.
    Snapshot {
        position: u64,
        /// Only to be heard, while what came before is being stored [P59].
        idle: bool,
    },
}

#[derive(Clone, Copy, Debug)]
enum Link {
    Ready,
    Awaiting { call: Call, question: Question, expires_at: Time },
    BackingOff { until: Time },
}

#[derive(Clone, Copy, Debug)]
struct Peer {
    node: Node,
    link: Link,
    /// The last question brought nothing; ask someone else once before asking here again.
    doubted: bool,
}

/// All of them. A node that is not listed is ready.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peers {
    list: Vec<Peer>,
    /// What connections told; outlives changes of role.
    speaks: Vec<(ReplicaId, Features)>,
    calls: u64,
}

impl Peers {
    fn peer(&mut self, node: Node) -> &mut Peer {
        let at = match self.list.binary_search_by_key(&node, |peer| peer.node) {
            Ok(at) => at,
            Err(at) => {
                self.list.insert(at, Peer { node, link: Link::Ready, doubted: false });
                at
            }
        };
        &mut self.list[at]
    }

    fn find(&self, node: Node) -> Option<&Peer> {
        let at = self.list.binary_search_by_key(&node, |peer| peer.node).ok()?;
        self.list.get(at)
    }

    /// When the node may be asked: `now` or earlier if at once, `NEVER` while an answer is awaited
    /// (the expiry of that question is a timer of its own).
    pub(crate) fn ready_at(&self, node: Node) -> Time {
        match self.find(node).map(|peer| peer.link) {
            None | Some(Link::Ready) => Time(0),
            Some(Link::Awaiting { .. }) => Time::NEVER,
            Some(Link::BackingOff { until }) => until,
        }
    }

    /// Whether the last question to the node brought nothing, and no one else was asked since.
    pub(crate) fn doubted(&self, node: Node) -> bool {
        self.find(node).is_some_and(|peer| peer.doubted)
    }

    pub(crate) fn trust(&mut self, node: Node) {
        self.peer(node).doubted = false;
    }

    /// A question to a ready node; its time runs from [`Peers::sent`] on.
    pub(crate) fn ask(&mut self, node: Node, question: Question) -> Call {
        self.calls += 1;
        let call = Call(self.calls);
        self.peer(node).link = Link::Awaiting { call, question, expires_at: Time::NEVER };
        call
    }

    /// The question left the outbox.
    pub(crate) fn sent(&mut self, sent: Call, limit: Time) {
        for peer in &mut self.list {
            if let Link::Awaiting { call, expires_at, .. } = &mut peer.link
                && *call == sent
            {
                *expires_at = limit;
            }
        }
    }

    /// The question is over; `None` if nobody waits for it. The node is ready again.
    pub(crate) fn settle(&mut self, settled: Call) -> Option<(Node, Question)> {
        self.list.iter_mut().find_map(|peer| match peer.link {
            Link::Awaiting { call, question, .. } if call == settled => {
                peer.link = Link::Ready;
                Some((peer.node, question))
            }
            Link::Awaiting { .. } | Link::Ready | Link::BackingOff { .. } => None,
        })
    }

    /// The node gave no answer.
    pub(crate) fn doubt(&mut self, node: Node) {
        self.peer(node).doubted = true;
    }

    /// Leaves the node alone for a while.
    pub(crate) fn back_off(&mut self, node: Node, until: Time) {
        let peer = self.peer(node);
        peer.link = Link::BackingOff { until };
        peer.doubted = true;
    }

    /// Asks the node again at once if it was left alone.
    pub(crate) fn forgive(&mut self, node: Node) {
        let peer = self.peer(node);
        if matches!(peer.link, Link::BackingOff { .. }) {
            peer.link = Link::Ready;
        }
    }

    /// The first question whose time is over.
    pub(crate) fn expired(&self, now: Time) -> Option<Call> {
        self.in_flight().find(|(_, _, expires_at)| *expires_at <= now).map(|(call, _, _)| call)
    }

    /// When the first question's time is over.
    pub(crate) fn expires_at(&self) -> Time {
        self.in_flight().map(|(_, _, at)| at).min().unwrap_or(Time::NEVER)
    }

    /// How many fetches, of records or of a snapshot, are in flight.
    pub(crate) fn fetches(&self) -> usize {
        let fetches = |question| matches!(question, Question::Fetch | Question::Snapshot { .. });
        self.in_flight().filter(|(_, question, _)| fetches(*question)).count()
    }

    fn in_flight(&self) -> impl Iterator<Item = (Call, Question, Time)> + '_ {
        self.list.iter().filter_map(|peer| match peer.link {
            Link::Awaiting { call, question, expires_at } => Some((call, question, expires_at)),
            Link::Ready | Link::BackingOff { .. } => None,
        })
    }

    /// Forgets what is in flight and who is backing off.
    pub(crate) fn reset(&mut self) {
        self.list.clear();
    }

    /// What a connection to the peer told.
    pub(crate) fn learn(&mut self, id: ReplicaId, speaks: Features) {
        match self.speaks.binary_search_by_key(&id, |(id, _)| *id) {
            Ok(at) => self.speaks[at].1 = speaks,
            Err(at) => self.speaks.insert(at, (id, speaks)),
        }
    }

    pub(crate) fn speaks(&self, id: ReplicaId) -> Option<Features> {
        let at = self.speaks.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(self.speaks[at].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: Node = Node::Replica(ReplicaId(1));

    #[test]
    fn one_question_a_node_and_late_answers_find_nobody_b186() {
        let mut peers = Peers::default();
        assert_eq!(peers.ready_at(NODE), Time(0));
        let call = peers.ask(NODE, Question::Fetch);
        peers.sent(call, Time(50));
        assert_eq!((peers.ready_at(NODE), peers.fetches()), (Time::NEVER, 1));
        assert_eq!((peers.expired(Time(49)), peers.expired(Time(50))), (None, Some(call)));
        assert_eq!(peers.settle(Call(99)), None);
        assert_eq!(peers.settle(call), Some((NODE, Question::Fetch)));
        assert_eq!(peers.settle(call), None);
        assert_eq!(peers.ready_at(NODE), Time(0));
        peers.back_off(NODE, Time(70));
        assert_eq!(peers.ready_at(NODE), Time(70));
        peers.reset();
        assert_eq!(peers.ready_at(NODE), Time(0));
    }

    #[test]
    fn a_question_that_waits_in_the_outbox_does_not_expire() {
        let mut peers = Peers::default();
        peers.ask(NODE, Question::End);
        assert_eq!(peers.expires_at(), Time::NEVER);
    }
}
