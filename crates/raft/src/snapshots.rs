//! The snapshots that this replica has, and whoever needs one because the log no longer reaches so
//! far back (KIP-630).
//!
//! The core knows ids, never bytes: sizes and positions are the caller's. A snapshot ends where
//! something is committed, so it never goes away by a truncation [P55].

use crate::effect::{Complaint, Effect, Ticket, Write};
use crate::message::{ErrorKind, FetchSnapshot, Piece, Response, SnapshotAnswer};
use crate::mutants::mutant;
use crate::quorum::Quorum;
use crate::role::Role;
use quorate_base::{Epoch, Offset, OffsetEpoch};

impl Quorum {
    /// The snapshot that a log which ends like this has to start from; `None` if ours reaches back
    /// far enough to serve it, or to say where the two part [P56].
    pub(crate) fn snapshot_for(&self, from: OffsetEpoch) -> Option<OffsetEpoch> {
        let (oldest, newest) = (self.snapshots.first()?, self.snapshots.last()?);
        if mutant!(self, ServeBelowStart) {
            return None;
        }
        // A later epoch than our snapshot has, and none of ours: cut back first, or the snapshot
        // would not be ahead of that log.
        let later = self.epochs.before().is_some_and(|before| from.epoch > before);
        if later && self.diverging(from).is_some_and(|own| own.epoch < from.epoch) {
            return None;
        }
        let trimmed = self.start > Offset::ZERO;
        let gone = from.offset < self.start
            // The record before our start is not the one before its end, or nobody can tell.
            || trimmed && from.offset == self.start && self.epochs.before() != Some(from.epoch)
            || trimmed && self.epochs.before().is_some_and(|before| from.epoch < before);
        let early = from.offset == Offset::ZERO || from.epoch < oldest.epoch;
        (gone || early && self.config.serve_snapshots).then_some(*newest)
    }

    /// A replica asks for bytes of a snapshot [P58].
    pub(crate) fn on_fetch_snapshot(
        &mut self,
        ticket: Ticket,
        ask: &FetchSnapshot,
        out: &mut Vec<Effect>,
    ) {
        let checked = self.may_serve(ask.epoch).and_then(|()| self.may_have(ask, out));
        let (error, piece) = match checked {
            Err(error) => (error, Piece::Nothing),
            Ok(()) => {
                if let Some(key) = ask.replica {
                    self.mark(key);
                }
                self.hold_snapshot(ask.replica, ask.snapshot);
                (ErrorKind::None, Piece::Served { max_bytes: ask.max_bytes })
            }
        };
        let body = Response::FetchSnapshot(SnapshotAnswer {
            view: self.leader_view(error),
            snapshot: ask.snapshot,
            position: ask.position,
            piece,
        });
        self.reply(ticket, self.shown(), body, out);
    }

    fn may_have(&self, ask: &FetchSnapshot, out: &mut Vec<Effect>) -> Result<(), ErrorKind> {
        if let Some(key) = ask.replica
            && Some(key.id) == self.id()
        {
            out.push(Effect::Complain { what: Complaint::SharesOurId { id: key.id } });
            return Err(ErrorKind::InvalidRequest);
        }
        // The one that holds only the first voters is for its own node.
        match ask.snapshot.offset == Offset::ZERO {
            true => Err(ErrorKind::SnapshotNotFound),
            false => Ok(()),
        }
    }

    /// What only the leader of the fetcher's epoch serves [P26].
    pub(crate) fn may_serve(&self, epoch: Epoch) -> Result<(), ErrorKind> {
        let leads = matches!(self.role, Role::Leader(_));
        if epoch < self.standing.epoch {
            Err(ErrorKind::FencedLeaderEpoch)
        } else if epoch > self.standing.epoch {
            Err(ErrorKind::UnknownLeaderEpoch)
        } else if !leads {
            Err(ErrorKind::NotLeaderOrFollower)
        } else if self.stops_leading() {
            Err(ErrorKind::BrokerNotAvailable)
        } else {
            Ok(())
        }
    }

    /// A snapshot of our own machine is whole and durable. It is not ahead of our log [P61].
    pub(crate) fn on_frozen(&mut self, snapshot: OffsetEpoch) {
        let newest = self.snapshots.last().map_or(Offset::ZERO, |newest| newest.offset);
        if snapshot.offset <= newest.max(self.start) {
            return; // A download overtook it, or it was made twice.
        }
        assert!(
            snapshot.offset <= self.committed,
            "a snapshot of {snapshot}, but {} is committed",
            self.committed
        );
        self.decrees.forget_below(snapshot.offset);
        if !self.config.serve_snapshots {
            // Older ones are of no use, but to who copies one.
            let copied = self.copied();
            self.snapshots.retain(|kept| kept.offset == self.start || copied.contains(kept));
        }
        self.snapshots.push(snapshot);
    }

    /// Retention wants the log to begin at this snapshot's end [P57]. For those who copy an older
    /// one it begins there, and what lies between the two goes [P67].
    pub(crate) fn on_trim(&mut self, wanted: OffsetEpoch, out: &mut Vec<Effect>) {
        // What is known is committed; after a download it is perhaps not durable yet.
        let safe = wanted.offset <= self.committed.min(self.writes.durable());
        if wanted.offset <= self.start || !safe || !self.snapshots.contains(&wanted) {
            return;
        }
        let held = self.current_holds().iter().map(|hold| hold.from).min();
        let bound = match mutant!(self, TrimBelowCopies) {
            true => wanted.offset,
            false => held.map_or(wanted.offset, |held| held.min(wanted.offset)),
        };
        let ends = self.snapshots.iter().rev();
        let begin = ends.copied().find(|kept| kept.offset > self.start && kept.offset <= bound);
        if let Some(begin) = begin {
            self.epochs.trim(begin.offset, begin.epoch, self.end);
            self.start = begin.offset;
        }
        let (start, copied) = (self.start, self.copied());
        let stays = |kept: &OffsetEpoch| {
            kept.offset == start || kept.offset >= wanted.offset || copied.contains(kept)
        };
        let gone: Vec<OffsetEpoch> = self.snapshots.extract_if(.., |kept| !stays(kept)).collect();
        if begin.is_some() || !gone.is_empty() {
            let id = self.writes.issue();
            out.push(Effect::Write { id, write: Write::Trim { start, snapshots: gone } });
        }
    }

    /// The snapshots that replicas copy.
    fn copied(&self) -> Vec<OffsetEpoch> {
        self.holds().iter().filter_map(|hold| hold.snapshot).collect()
    }
}
