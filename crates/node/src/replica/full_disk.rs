//! What a node does while its disk is full (docs/decisions/0008): it takes on nothing new that has
//! to be stored, and goes on with all else, from the room that was put aside for that.
//!
//! A leader refuses the writes that wait, and proposes nothing of its own; so does one that knows,
//! from their fetches, that too many voters are full for anything to be committed. It hands over
//! where a majority has room. A replica that copies
//! takes an answer as one without records; it holds it back for a while first, or a leader with
//! news and a replica without room would ask and answer as fast as they can. Nothing is
//! acknowledged that is not stored, and nothing here looks at a disk: the driver says when it is
//! full.

use super::Replica;
use crate::handle::Error;
use crate::out::Out;
use quorate_base::{Offset, Span, Time};
use quorate_machine::Machine;
use quorate_raft::{Call, FetchAnswer, Fetched, Input, Progress, Response};
use tracing::{error, info, warn};

/// Whether the disk takes records, and what that holds up.
#[derive(Default)]
pub(crate) struct Room {
    full: bool,
    /// When that began.
    since: Time,
    /// Whether this node leads and refused writes in its last turn.
    refuses: bool,
    held_back: Option<HeldBack>,
    /// The newest high watermark that a leader told while the disk was full.
    told: Offset,
}

/// An answer to a fetch, as the core will be given it.
struct HeldBack {
    until: Time,
    call: Call,
    body: Response,
}

impl Room {
    /// Whether nothing new may be taken on.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Whether a leader refuses writes, for want of room here or elsewhere.
    pub fn refuses(&self) -> bool {
        self.full || self.refuses
    }

    /// When an answer that is held back has to be given to the core.
    pub fn deadline(&self) -> Time {
        self.held_back.as_ref().map_or(Time::NEVER, |held| held.until)
    }

    /// The connection it came by is gone, which the core must be able to notice.
    pub fn let_go(&mut self, now: Time) {
        if let Some(held) = &mut self.held_back {
            held.until = now;
        }
    }
}

impl<M: Machine> Replica<M> {
    /// The disk became full, so that only what was put aside is left, or has room again.
    pub fn on_room(&mut self, now: Time, full: bool) {
        self.now = now;
        if std::mem::replace(&mut self.room.full, full) == full {
            return;
        }
        (self.room.told, self.room.since) = (Offset::ZERO, now);
        if full {
            error!(
                "the disk of this node is full: it stores no new records, and while it leads all writes are \
                 refused; elections go on, and reads where this node has what they must see; make room, and it \
                 takes writes again by itself"
            );
            self.retain_at = now; // What is kept for others is room that it lacks.
            return;
        }
        info!("the disk of this node has room again: writes and records are taken as before");
        self.room.let_go(now);
        self.making.try_again(now);
    }

    /// Whether this leader can take no writes, because there is no room to commit them.
    pub(crate) fn refuses_writes(&mut self) -> bool {
        let refuses = self.room.full || self.too_many_are_full();
        if std::mem::replace(&mut self.room.refuses, refuses) == refuses {
            return refuses;
        }
        if !refuses {
            // Nobody could renew a session or do anything else that keeps one.
            self.machine.grant(self.now);
        } else if !self.room.full {
            let voters = self.full_voters();
            warn!(
                ?voters,
                "the disks of so many voters are full that all writes are refused; reads go on"
            );
        }
        refuses
    }

    /// Voters, without this one, whose disks were full when they last fetched.
    fn full_voters(&self) -> Vec<u32> {
        let voters = self.quorum.view().followers.iter();
        voters.filter(|voter| voter.no_room == Some(true)).map(|voter| voter.key.id.0).collect()
    }

    fn too_many_are_full(&self) -> bool {
        let voters = self.quorum.view().voters.len();
        voters - self.full_voters().len() <= voters / 2
    }

    /// A leader without room makes way for one with room, once those who have it hold all that it
    /// has itself. As long as its disk stays full, at most once a minute: it may be elected again
    /// for reasons of its own. That its disk is full again is another matter.
    pub(crate) fn hand_over_when_the_disk_is_full(&mut self) {
        let Some(epoch) = self.leading.serving.filter(|_| self.room.full) else { return };
        let (view, end) = (self.quorum.view(), self.log.end());
        let level = |voter: &&Progress| {
            // It has stored what this node's disk had no room for.
            let since = voter.fetched_at.is_some_and(|at| at > self.room.since);
            voter.no_room == Some(false) && voter.end == Some(end) && since
        };
        let level = view.followers.iter().filter(level).count();
        let since = self.room.since.0;
        let decided = self.clients.pending.is_empty() && self.applied.commit == end;
        if decided
            && level > view.voters.len() / 2
            && self.once.say(self.now, &format!("full disk {since}"))
        {
            warn!(
                "this leader's disk is full and a majority has room: it makes way for another leader"
            );
            self.step(Input::Resign { epoch });
        }
    }

    /// Ends all writes that wait, because the leader has no room for them.
    pub(crate) fn refuse_writes(&mut self) {
        for write in self.clients.writes.take(|_| true) {
            let failure = write.without_room();
            self.conclude(write, Err(failure));
        }
        #[cfg(mutants)]
        if self.settings.mutant == Some(crate::Mutant::RefuseWhatIsLogged) {
            for pending in std::mem::take(&mut self.clients.pending) {
                self.conclude(pending.write, Err(crate::clients::Failure::OutOfRoom));
            }
        }
    }

    /// What the core is told now of an answer from the leader; `None` if it is told later.
    pub(super) fn as_there_is_room(&mut self, call: Call, body: Response) -> Option<Response> {
        let Response::Fetch(mut answer) = body else { return Some(body) };
        if !self.room.full {
            return Some(Response::Fetch(answer));
        }
        self.room.told = self.room.told.max(answer.high_watermark.unwrap_or(Offset::ZERO));
        let Fetched::Batches(batches) = &mut answer.fetched else {
            return Some(Response::Fetch(answer));
        };
        #[cfg(mutants)]
        if self.settings.mutant == Some(crate::Mutant::StoreWhileFull) {
            return Some(Response::Fetch(answer));
        }
        // Records of the protocol are few, and without them no new leader could serve reads.
        let control = batches.iter().take_while(|batch| batch.control).count();
        if control > 0 || batches.is_empty() {
            batches.truncate(control);
            return Some(Response::Fetch(answer));
        }
        self.hold_back(call, answer);
        None
    }

    fn hold_back(&mut self, call: Call, answer: FetchAnswer) {
        if let Some(held) = self.room.held_back.take() {
            self.step(Input::Response { call: held.call, body: held.body });
        }
        let body = Response::Fetch(FetchAnswer { fetched: Fetched::Nothing, ..answer });
        // Well before the question counts as lost, or the silence of the leader as its death.
        let silence = self.settings.fetch_timeout.min(self.settings.request_timeout);
        let until = self.now + Span(silence.0 / 4);
        self.room.held_back = Some(HeldBack { until, call, body });
    }

    /// Gives the core the answer that was held back, once it is time.
    pub(super) fn release_held_back(&mut self) {
        let now = self.now;
        if let Some(held) = self.room.held_back.take_if(|held| held.until <= now) {
            self.step(Input::Response { call: held.call, body: held.body });
        }
    }

    /// Whether the state can not come to hold everything below `upto` before there is room.
    pub(crate) fn is_left_behind(&self, upto: Offset) -> bool {
        self.room.full && self.log.end() < upto
    }

    /// A read that would have to wait for room is refused at once.
    pub(crate) fn refuse_read(&mut self, client: crate::out::ClientId) {
        self.push(Out::Reply { client, reply: Err(Error::LeftBehind) });
    }

    /// Whether work that may make room may use up part of what is put aside: nothing of it is
    /// needed any more for what was promised before the disk was full.
    pub(super) fn may_use_the_reserve(&self) -> bool {
        self.room.full && self.quorum.view().durable == self.log.end()
    }

    /// Why writes are refused although this leader has room.
    pub(crate) fn too_many_full_in_words(&self) -> Option<String> {
        let refuses = self.leading.serving.is_some() && self.room.refuses && !self.room.full;
        refuses.then(|| {
            format!(
                "the disks of voters {:?} are full, so that no majority has room: all writes are refused; make room \
                 on them, and writes are taken again by themselves",
                self.full_voters()
            )
        })
    }

    /// What the full disk means for those who ask this node; `None` if it has room.
    pub(crate) fn full_disk_in_words(&self) -> Option<&'static str> {
        self.room.full.then_some(
            "the disk is full: no new records are stored, and while this node leads all writes are refused; \
             make room on the disk of log.dirs, and writes are taken again by themselves",
        )
    }

    /// Whether the leader has committed what this node could not store.
    pub(crate) fn lacks_for_want_of_room(&self) -> bool {
        self.is_left_behind(self.room.told)
    }
}
