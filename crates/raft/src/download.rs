//! The follower's side of a snapshot: fetching it piece by piece, and putting it in the place of
//! the log [P59] [P60].
//!
//! Pieces are stored beside the log, on a lane that nothing waits for. Only when the whole file is
//! durable and checked does it replace the log, in one write of the log's own lane; the next fetch
//! acknowledges it, and waits for that. A download belongs to one stint of one leader.

use crate::decrees::Decree;
use crate::effect::{Call, Complaint, Effect, Write};
use crate::message::{ErrorKind, FetchSnapshot, LeaderView, Piece, Request, SnapshotAnswer};
use crate::mutants::mutant;
use crate::peers::{Node, Question};
use crate::quorum::Quorum;
use crate::role::Role;
use quorate_base::{OffsetEpoch, ReplicaId, Time};
use std::collections::VecDeque;

/// How many pieces may wait for the disk.
const UNSTORED: usize = 2;

/// A snapshot on its way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Download {
    snapshot: OffsetEpoch,
    /// Known from the first piece on.
    size: Option<u64>,
    /// How many bytes have come.
    came: u64,
    /// Pieces that are not durable yet. Invariant: at most `UNSTORED`.
    unstored: VecDeque<Call>,
    /// While nothing can be asked for: when the leader is to be heard again.
    idle_at: Time,
}

impl Download {
    fn blocked(&self) -> bool {
        self.unstored.len() >= UNSTORED || self.size == Some(self.came)
    }

    /// When it has to do something though nothing arrives.
    pub(crate) fn idle_until(&self) -> Time {
        if self.blocked() { self.idle_at } else { Time::NEVER }
    }

    pub(crate) fn check(&self, last: OffsetEpoch) {
        assert!(self.unstored.len() <= UNSTORED, "{} pieces wait", self.unstored.len());
        assert!(self.size.is_none_or(|size| self.came <= size), "more than all: {self:?}");
        assert!(
            self.snapshot.log_order() > last.log_order(),
            "loads {}, the log ends at {last}",
            self.snapshot
        );
    }
}

impl Quorum {
    /// What comes, how much of it is here, and of how much.
    pub(crate) fn progress_of_download(&self) -> Option<(OffsetEpoch, u64, Option<u64>)> {
        let Role::Follower(role) = &self.role else { return None };
        role.download.as_ref().map(|load| (load.snapshot, load.came, load.size))
    }

    /// Whether nothing but its own pause keeps a download from asking.
    pub(crate) fn may_fetch_from(&self, leader: ReplicaId) -> bool {
        self.peers.fetches() == 0 && self.peers.ready_at(Node::Replica(leader)) <= self.now
    }

    /// The leader says that our log is too old for its own.
    pub(crate) fn begin_download(
        &mut self,
        snapshot: OffsetEpoch,
        out: &mut Vec<Effect>,
    ) -> Result<(), Complaint> {
        let ours = self.last();
        let ahead = snapshot.log_order() > ours.log_order() && snapshot.offset >= self.settled();
        let sound = snapshot.epoch <= self.standing.epoch && snapshot.offset.0 < i64::MAX as u64;
        if !(ahead || mutant!(self, AdoptStale)) || !sound {
            return Err(Complaint::Snapshot { id: snapshot, ours });
        }
        let another = |role: &Role| match role {
            Role::Follower(role) => role.download.as_ref().is_none_or(|at| at.snapshot != snapshot),
            Role::Unattached(_)
            | Role::Prospective(_)
            | Role::Candidate(_)
            | Role::Leader(_)
            | Role::Resigned(_) => false,
        };
        if another(&self.role) {
            self.abandon(out);
            let Role::Follower(role) = &mut self.role else { return Ok(()) };
            role.download = Some(Download {
                snapshot,
                size: None,
                came: 0,
                unstored: VecDeque::new(),
                idle_at: self.now,
            });
        }
        Ok(())
    }

    /// Asks for the next piece of a download. False if there is none; true also if it waits.
    pub(crate) fn fetch_snapshot(&mut self, node: Node, out: &mut Vec<Effect>) -> bool {
        let (now, pause) = (self.now, self.config.fetch_max_wait);
        let Role::Follower(role) = &mut self.role else { return false };
        let Some(load) = &mut role.download else { return false };
        let idle = load.blocked();
        if idle && now < load.idle_at {
            return true;
        }
        load.idle_at = now + pause;
        // While it waits for the disk it asks for a byte that it has, so that both hear each other.
        let position = if idle { 0 } else { load.came };
        let max_bytes = if idle { 1 } else { self.config.snapshot_max_bytes };
        let body = Request::FetchSnapshot(FetchSnapshot {
            epoch: self.standing.epoch,
            replica: self.key,
            snapshot: load.snapshot,
            position,
            max_bytes,
        });
        self.ask(node, Question::Snapshot { position, idle }, self.shown(), body, out);
        true
    }

    pub(crate) fn on_snapshot_answer(
        &mut self,
        call: Call,
        node: Node,
        (position, idle): (u64, bool),
        answer: &SnapshotAnswer,
        out: &mut Vec<Effect>,
    ) {
        let LeaderView { error, epoch, leader, .. } = answer.view;
        if !self.learn(node, &answer.view, out) {
            let ours = (epoch, leader) == (self.standing.epoch, self.standing.leader);
            let gone = matches!(error, ErrorKind::SnapshotNotFound | ErrorKind::PositionOutOfRange);
            if ours && gone {
                self.give_up(true, out); // It has a newer one: the next fetch tells.
            }
            return;
        }
        let leads = answer.view.leader.is_some() && answer.view.leader == self.standing.leader;
        if !matches!(self.role, Role::Follower(_)) || !leads {
            self.back_off(node);
            return;
        }
        if !self.take_piece(call, (position, idle), answer, out) {
            self.abandon(out);
            self.refuse(node, Complaint::Malformed, out);
            return;
        }
        self.heard();
    }

    /// False if the answer is not to the question.
    fn take_piece(
        &mut self,
        call: Call,
        (position, idle): (u64, bool),
        answer: &SnapshotAnswer,
        out: &mut Vec<Effect>,
    ) -> bool {
        let Role::Follower(role) = &mut self.role else { return true };
        let Some(load) = &mut role.download else { return true };
        let Piece::Received { size, bytes } = answer.piece else { return false };
        let fits = answer.snapshot == load.snapshot
            && answer.position == position
            && bytes > 0
            && position.checked_add(u64::from(bytes)).is_some_and(|end| end <= size)
            && load.size.is_none_or(|known| known == size);
        if !fits {
            return false;
        }
        if !idle {
            load.size = Some(size);
            load.came += u64::from(bytes);
            load.unstored.push_back(call);
            let (snapshot, last) = (load.snapshot, load.came == size);
            out.push(Effect::Store { snapshot, at: position, source: call, last });
        }
        true
    }

    /// A piece is durable; with the last one the snapshot takes the place of the log.
    pub(crate) fn on_stored(&mut self, source: Call, founded: &Decree, out: &mut Vec<Effect>) {
        let Role::Follower(role) = &mut self.role else { return };
        let Some(load) = &mut role.download else { return };
        let Some(at) = load.unstored.iter().position(|waits| *waits == source) else { return };
        load.unstored.drain(..=at);
        if !load.unstored.is_empty() || load.size != Some(load.came) {
            return;
        }
        let snapshot = load.snapshot;
        role.download = None;
        if let Err(bad) = self.decrees.begin(founded, false) {
            out.push(Effect::Abandon { snapshot, gone: false });
            let leader = self.standing.leader.expect("a follower knows its leader");
            self.refuse(Node::Replica(leader), Complaint::Decree { bad }, out);
            return;
        }
        self.adopt_snapshot(snapshot, out);
    }

    fn adopt_snapshot(&mut self, snapshot: OffsetEpoch, out: &mut Vec<Effect>) {
        let (end, ours) = (snapshot.offset, self.last());
        assert!(
            snapshot.log_order() > ours.log_order() || mutant!(self, AdoptStale),
            "the snapshot {snapshot} is not ahead of the log, which ends at {ours}"
        );
        self.start = end;
        self.end = end;
        self.epochs = crate::epochs::Epochs::behind(snapshot.epoch);
        self.snapshots = vec![snapshot];
        // A snapshot holds nothing that is superseded.
        self.clean = Some(end);
        // What a snapshot holds is committed.
        self.high_watermark = self.high_watermark.max(Some(end));
        let id = self.writes.adopt(end);
        if mutant!(self, AcknowledgeBeforeAdopted) {
            self.writes.report(id);
        }
        out.push(Effect::Write { id, write: Write::Adopt { snapshot } });
    }

    /// A piece could not be stored, or the file is no snapshot: from the start, after a pause.
    pub(crate) fn on_spoiled(&mut self, source: Call) {
        let Role::Follower(role) = &mut self.role else { return };
        if role.download.as_ref().is_some_and(|load| load.unstored.contains(&source)) {
            role.download = None;
            if let Some(leader) = self.standing.leader {
                self.back_off(Node::Replica(leader));
            }
        }
    }

    /// Gives up the download, if there is one.
    pub(crate) fn abandon(&mut self, out: &mut Vec<Effect>) {
        self.give_up(false, out);
    }

    fn give_up(&mut self, gone: bool, out: &mut Vec<Effect>) {
        if let Role::Follower(role) = &mut self.role
            && let Some(load) = role.download.take()
            && (load.came > 0 || gone)
        {
            out.push(Effect::Abandon { snapshot: load.snapshot, gone });
        }
    }
}
