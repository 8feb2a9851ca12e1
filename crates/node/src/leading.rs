//! The leader's side of clients' requests: judge them on the machine's tail, append what they add
//! as one batch, answer once it is committed.
//!
//! An answer that appends nothing is a linearizable read: it leaves only when the tail it was
//! judged on is committed and leadership was proved after the request arrived [P46].

use crate::clients::{Failure, Origin, Pending, Read, Settled, Waiting, Write};
use crate::handle::Error;
use crate::out::Out;
use crate::replica::Replica;
use crate::translate;
use bytes::Bytes;
use quorate_base::{Epoch, Offset, Time};
use quorate_log::BatchBuilder;
use quorate_machine::{Answer, Machine, Proposal, SessionRefusal};
use quorate_raft::{Input, Refusal, RoleName, Token};
use std::collections::VecDeque;
use tracing::warn;

/// A batch is closed once its records have so many bytes; a single request may take it further.
pub(crate) const BATCH_BYTES: usize = 1 << 20;
/// A write's own bytes may be so many: with what a machine adds it stays below Kafka's batch limit
/// of 8 MiB.
pub const WRITE_BYTES_MAX: usize = 4 << 20;

/// What a replica holds only while it leads.
pub(crate) struct Leading {
    /// The epoch in which requests are judged.
    pub serving: Option<Epoch>,
    /// Leadership that was gained but cannot be used before the machine has applied up to here.
    gaining: Option<(Epoch, Offset)>,
    /// It takes nothing new, and the core still commits what it has taken [P74].
    draining: bool,
    proposal: Proposal,
    /// The batch that the core is being asked to append.
    batch: Option<(Token, Bytes)>,
    /// Batches not yet committed: end and bytes.
    uncommitted: VecDeque<(Offset, u64)>,
    uncommitted_bytes: u64,
    /// Batches that are committed and not yet on the own disk: end and bytes.
    unstored: VecDeque<(Offset, u64)>,
    unstored_bytes: u64,
    /// Batches that are not yet on the own disk, committed or not: end and bytes.
    promised: VecDeque<(Offset, u64)>,
    promised_bytes: u64,
}

impl Leading {
    pub fn new() -> Leading {
        Leading {
            serving: None,
            gaining: None,
            draining: false,
            proposal: Proposal::new(),
            batch: None,
            uncommitted: VecDeque::new(),
            uncommitted_bytes: 0,
            unstored: VecDeque::new(),
            unstored_bytes: 0,
            promised: VecDeque::new(),
            promised_bytes: 0,
        }
    }

    /// This node leads; everything below `start` is committed.
    pub fn gained(&mut self, epoch: Epoch, start: Offset) {
        self.gaining = Some((epoch, start));
    }

    /// The core appends the batch it was asked to.
    pub fn take_batch(&mut self, token: Token) -> Bytes {
        let (asked, batch) =
            self.batch.take().expect("the core appends the batch it was just given");
        assert!(asked == token, "the core appends batch {token:?}, asked was {asked:?}");
        batch
    }
}

impl<M: Machine> Replica<M> {
    /// Begins to serve once the machine holds all that earlier leaders left.
    pub(crate) fn take_lead_when_due(&mut self) {
        let Some((epoch, start)) = self.leading.gaining else { return };
        if self.applied.upto < start {
            return;
        }
        // What is behind it already is the core's own: voters may change once a record of the epoch
        // is committed, and that says nothing to the machine.
        let (asked, end) = (self.leading.uncommitted.len(), self.log.end());
        assert!(asked == 0, "{asked} batches up to {end} were proposed before this leader serves");
        self.leading.gaining = None;
        self.leading.serving = Some(epoch);
        self.machine.lead(self.now, Some((epoch, start)));
        self.begin_levels();
    }

    /// Leads no more, or leads anew: whatever is not committed has an unknown outcome here, unless
    /// the core still commits it.
    pub(crate) fn lose_lead(&mut self, draining: bool) {
        self.leading.gaining = None;
        self.leading.draining = draining;
        self.end_levels();
        #[cfg(mutants)]
        let keeps = self.settings.mutant == Some(crate::Mutant::KeepTail);
        #[cfg(not(mutants))]
        let keeps = false;
        if self.leading.serving.take().is_some() && !keeps {
            self.machine.lead(self.now, None);
        }
        self.leading.uncommitted.clear();
        self.leading.uncommitted_bytes = 0;
        self.leading.unstored.clear();
        self.leading.unstored_bytes = 0;
        self.leading.promised.clear();
        self.leading.promised_bytes = 0;
        if !draining {
            self.give_up_uncommitted();
        }
        for (_, waiting) in std::mem::take(&mut self.clients.unproved) {
            for waiting in waiting {
                self.unproved(waiting);
            }
        }
        self.judge_again();
    }

    /// What is committed has its outcome, and is answered once it is applied; the rest has none.
    fn give_up_uncommitted(&mut self) {
        let decided = |pending: &Pending| pending.end <= self.applied.commit;
        let (decided, open): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.clients.pending).into_iter().partition(decided);
        self.clients.pending = decided;
        for Pending { write, .. } in open {
            self.undecided(write);
        }
    }

    /// The core resigned before it had committed all that it was draining.
    pub(crate) fn end_of_draining(&mut self) {
        if self.leading.draining && self.quorum.view().role != RoleName::Leader {
            self.leading.draining = false;
            self.give_up_uncommitted();
        }
    }

    /// Answers that rest on records which the next leader may cut off are worth nothing, though
    /// leadership was proved: other records may take those offsets.
    fn judge_again(&mut self) {
        let uncertain = self.clients.unapplied.split_off(&(self.applied.commit + 1));
        for (upto, waiting) in uncertain {
            for waiting in waiting {
                match waiting {
                    // What it waits for is committed, if not yet here.
                    Waiting::Read(_) => self.wait_applied(upto, waiting),
                    Waiting::Judged { .. } => self.unproved(waiting),
                }
            }
        }
    }

    /// The outcome of a write that is in the log of a lost epoch: tried again where that is safe.
    fn undecided(&mut self, mut write: Write) {
        match (write.origin, write.request.stamp) {
            (Origin::Client(_), Some(_)) => {
                write.attempts += 1;
                self.clients.writes.push_back(write);
            }
            (Origin::Client(_) | Origin::Forwarded { .. } | Origin::Nobody, _) => {
                self.conclude(write, Err(Failure::Unknown));
            }
        }
    }

    /// Leadership was not proved: a read goes to whoever leads now, and so does a judged write,
    /// which added nothing.
    fn unproved(&mut self, waiting: Waiting<M::Query>) {
        match waiting {
            Waiting::Read(read) => self.clients.reads.push_back(read),
            Waiting::Judged { write, .. } => self.clients.writes.push_back(write),
        }
    }

    /// What another node forwarded here is not forwarded again: one hop.
    pub(crate) fn refuse_forwarded(&mut self) {
        let forwarded = |origin: Origin| match origin {
            Origin::Forwarded { .. } => true,
            Origin::Client(_) | Origin::Nobody => false,
        };
        let writes = self.clients.writes.take(|write| forwarded(write.origin));
        let writes = writes.into_iter().map(|write| write.origin);
        let mut reads = Vec::new();
        self.clients.reads.retain(|read| {
            if forwarded(read.origin) {
                reads.push(read.origin);
            }
            !forwarded(read.origin)
        });
        for origin in writes.chain(reads) {
            self.fail(origin, Failure::NotLeader);
        }
    }

    /// Whether writes wait that the next turn would take.
    pub(crate) fn has_batch(&self) -> bool {
        self.leading.serving.is_some()
            && !self.clients.writes.is_empty()
            && self.room_for_writes() > 0
    }

    /// How many bytes more may be proposed: what is not committed takes memory, and what is not on
    /// the own disk needs the room that is put aside, should the disk turn out to be full.
    fn room_for_writes(&self) -> u64 {
        let (leading, settings) = (&self.leading, &self.settings);
        let uncommitted = settings.uncommitted_max_bytes.saturating_sub(leading.uncommitted_bytes);
        uncommitted.min(settings.promised_max_bytes.saturating_sub(leading.promised_bytes))
    }

    /// Judges the waiting writes and appends what they add as one batch.
    pub(crate) fn close_batch(&mut self) {
        let Some(epoch) = self.leading.serving else { return };
        if self.refuses_writes() {
            return self.refuse_writes();
        }
        let base = self.log.end();
        let mut proposal = std::mem::take(&mut self.leading.proposal);
        let (mut appending, mut judged) = (Vec::new(), Vec::new());
        self.propose_level(base, &mut proposal);
        if self.machine.deadline() <= self.now {
            self.machine.wake(self.now, base + proposal.len() as u64, &mut proposal);
            proposal.finish();
        }
        let room = usize::try_from(self.room_for_writes()).unwrap_or(usize::MAX).min(BATCH_BYTES);
        while proposal.bytes() < room {
            let Some(write) = self.clients.writes.pop_front() else { break };
            let before = proposal.len();
            self.machine.propose(self.now, base + before as u64, &write.request, &mut proposal);
            let answer = proposal.finish().expect("a machine answers each request");
            let end = base + proposal.len() as u64;
            match proposal.len() == before {
                true => judged.push(Waiting::Judged { answer, tail: end, write }),
                false => appending.push(Pending { end, answer, write }),
            }
        }
        if !proposal.is_empty() {
            let mut batch = BatchBuilder::new(base, epoch, self.wall_ms());
            for record in proposal.records(base) {
                batch.record_encoded(
                    record.key,
                    record.value,
                    record.headers.count(),
                    record.headers.encoded(),
                );
            }
            let records = batch.records();
            let bytes = batch.finish();
            let token = self.token();
            let size = bytes.len() as u64;
            self.leading.batch = Some((token, bytes));
            self.step(Input::Propose { token, epoch, records });
            match self.leading.batch.take() {
                None => {
                    let end = base + u64::from(records);
                    assert!(
                        self.log.end() == end,
                        "the batch ends at {end}, the log at {}",
                        self.log.end()
                    );
                    self.leading.uncommitted.push_back((end, size));
                    self.leading.uncommitted_bytes += size;
                    self.leading.promised.push_back((end, size));
                    self.leading.promised_bytes += size;
                    self.clients.pending.extend(appending);
                }
                // Refused: the machine's tail holds what is not in the log. `refused` has dropped
                // it.
                Some(_) => {
                    for pending in appending.into_iter().rev() {
                        self.clients.writes.push_front(pending.write);
                    }
                }
            }
        }
        proposal.clear();
        self.leading.proposal = proposal;
        #[cfg(mutants)]
        if self.settings.mutant == Some(crate::Mutant::AnswerRefusalsAtOnce) {
            self.clients.unapplied.entry(Offset::ZERO).or_default().append(&mut judged);
        }
        if !judged.is_empty() {
            self.prove(judged);
        }
    }

    /// Asks for proof of leadership for the reads that arrived.
    pub(crate) fn prove_reads(&mut self) {
        if self.leading.serving.is_some() && !self.clients.reads.is_empty() {
            let reads =
                std::mem::take(&mut self.clients.reads).into_iter().map(Waiting::Read).collect();
            self.prove(reads);
        }
    }

    fn prove(&mut self, waiting: Vec<Waiting<M::Query>>) {
        let token = self.token();
        self.clients.unproved.insert(token, waiting);
        self.step(Input::Read { token });
    }

    /// Leadership was proved after these arrived: what they wait for now is that the machine has it
    /// all.
    pub(crate) fn proved(&mut self, token: Token, offset: Offset) {
        for waiting in self.clients.unproved.remove(&token).unwrap_or_default() {
            let upto = match &waiting {
                Waiting::Read(_) => offset,
                Waiting::Judged { tail, .. } => offset.max(*tail),
            };
            self.wait_applied(upto, waiting);
        }
    }

    /// Answers once the machine holds everything below `upto`.
    pub(crate) fn wait_applied(&mut self, upto: Offset, waiting: Waiting<M::Query>) {
        if let Waiting::Read(Read { origin: Origin::Client(client), .. }) = waiting
            && self.is_left_behind(upto)
        {
            return self.refuse_read(client);
        }
        self.clients.unapplied.entry(upto).or_default().push(waiting);
    }

    /// The core does not take a batch or a read: this node does not lead.
    pub(crate) fn refused(&mut self, token: Token, why: Refusal) {
        let Refusal::NotLeader { .. } = why;
        match self.clients.unproved.remove(&token) {
            Some(waiting) => waiting.into_iter().for_each(|waiting| self.unproved(waiting)),
            None => {
                self.lose_lead(self.quorum.view().role == RoleName::Leader);
                self.refuse_forwarded();
            }
        }
    }

    /// Sends the answers whose time has come.
    pub(crate) fn settle(&mut self) {
        let (applied, commit) = (self.applied.upto, self.applied.commit);
        #[cfg(mutants)]
        if self.settings.mutant == Some(crate::Mutant::AnswerUncommitted) {
            for pending in std::mem::take(&mut self.clients.pending) {
                self.conclude(pending.write, Ok(pending.answer));
            }
        }
        while let Some((end, bytes)) =
            self.leading.uncommitted.pop_front_if(|(end, _)| *end <= commit)
        {
            self.leading.uncommitted_bytes -= bytes;
            self.leading.unstored.push_back((end, bytes));
            self.leading.unstored_bytes += bytes;
        }
        let durable = self.quorum.view().durable;
        while let Some((_, bytes)) = self.leading.unstored.pop_front_if(|(end, _)| *end <= durable)
        {
            self.leading.unstored_bytes -= bytes;
        }
        while let Some((_, bytes)) = self.leading.promised.pop_front_if(|(end, _)| *end <= durable)
        {
            self.leading.promised_bytes -= bytes;
        }
        while let Some(pending) =
            self.clients.pending.pop_front_if(|pending| pending.end <= applied)
        {
            self.conclude(pending.write, Ok(pending.answer));
        }
        let version = self.is_version();
        while let Some(first) = self.clients.unapplied.first_entry() {
            if *first.key() > applied || !version {
                break;
            }
            for waiting in first.remove() {
                match waiting {
                    // The session was alive for an earlier attempt, and nobody knows what became of
                    // it.
                    Waiting::Judged {
                        answer: Answer::Session(SessionRefusal::Unknown),
                        write,
                        ..
                    } if write.attempts > 0 => self.conclude(write, Err(Failure::Unknown)),
                    Waiting::Judged { answer, write, .. } => self.conclude(write, Ok(answer)),
                    Waiting::Read(Read { origin, query, .. }) => self.answer_read(origin, query),
                }
            }
        }
    }

    /// A leader commits what a majority without it holds, and its own disk may take its time [P39],
    /// but not for ever: the memory that keeps it all is bounded, and another leader's disk is
    /// better than waiting for this one.
    pub(crate) fn hand_over_when_the_disk_lags(&mut self) {
        let (lag, most) = (self.leading.unstored_bytes, self.settings.unstored_max_bytes);
        if let Some(epoch) = self.leading.serving
            && lag >= most
        {
            warn!(
                lag,
                most,
                "this leader's disk has not stored what the others have: it hands over; look at what \
                 slows the disk"
            );
            self.step(Input::Resign { epoch });
        }
    }

    fn answer_read(&mut self, origin: Origin, query: Option<M::Query>) {
        match (origin, query) {
            (Origin::Client(client), Some(query)) => {
                let reply = Ok((self.machine.query(&query), self.applied.upto));
                self.push(Out::Reply { client, reply });
            }
            (Origin::Forwarded { gathering, index }, _) => {
                self.settle_forwarded(gathering, index, Settled::ReadAt(self.applied.upto));
            }
            (Origin::Client(_) | Origin::Nobody, _) => {}
        }
    }

    pub(crate) fn answer(&mut self, origin: Origin, answer: Answer) {
        match origin {
            Origin::Client(client) => self.push(Out::Answer { client, answer: Ok(answer) }),
            Origin::Forwarded { gathering, index } => {
                self.settle_forwarded(gathering, index, Settled::Answer(answer));
            }
            Origin::Nobody => {}
        }
    }

    pub(crate) fn fail(&mut self, origin: Origin, failure: Failure) {
        match origin {
            Origin::Client(client) => {
                self.push(Out::Answer { client, answer: Err(failure.error()) })
            }
            Origin::Forwarded { gathering, index } => {
                self.settle_forwarded(gathering, index, Settled::Failed(failure));
            }
            Origin::Nobody => {}
        }
    }

    fn settle_forwarded(&mut self, gathering: u64, index: usize, settled: Settled) {
        if let Some(done) = self.clients.settle(gathering, index, settled) {
            let place = done.place;
            let frame = translate::forward_answer(done, self.leader, self.epoch);
            self.answer_place(place, frame);
        }
    }

    /// Tells those whose time ran out.
    pub(crate) fn sweep(&mut self) {
        let now = self.now;
        let late = |due: &Time| *due <= now;
        let (mut failed, mut reads_failed, mut slots) = (Vec::new(), Vec::new(), Vec::new());
        for write in self.clients.writes.take(|write| late(&write.due)) {
            failed.push((write.origin, write.late()));
            slots.extend(write.slot);
        }
        self.clients.reads.retain(|read| {
            !late(&read.due) || {
                reads_failed.push((read.origin, read.least));
                false
            }
        });
        for pending in &mut self.clients.pending {
            if late(&pending.write.due) {
                failed.push((
                    std::mem::replace(&mut pending.write.origin, Origin::Nobody),
                    Failure::Unknown,
                ));
            }
        }
        let waiting = self.clients.unproved.values_mut().chain(self.clients.unapplied.values_mut());
        for waiting in waiting {
            waiting.retain_mut(|waiting| match waiting {
                Waiting::Read(read) => {
                    !late(&read.due) || {
                        reads_failed.push((read.origin, read.least));
                        false
                    }
                }
                // This attempt added nothing; the answer may be that of an earlier one, which did.
                Waiting::Judged { write, .. } => {
                    let late = late(&write.due);
                    if late {
                        failed.push((write.origin, write.late()));
                        slots.extend(write.slot);
                    }
                    !late
                }
            });
        }
        self.forwarder.free(slots);
        for (origin, failure) in failed {
            self.fail(origin, failure);
        }
        for (origin, least) in reads_failed {
            match (origin, least) {
                (Origin::Client(client), Some(asked)) => {
                    let has = self.version();
                    self.push(Out::Reply { client, reply: Err(Error::NotYet { asked, has }) });
                }
                (Origin::Client(_) | Origin::Forwarded { .. } | Origin::Nobody, _) => {
                    self.fail_read(origin);
                }
            }
        }
        self.sweep_flights();
    }

    pub(crate) fn fail_read(&mut self, origin: Origin) {
        match origin {
            Origin::Client(client) => self.push(Out::Reply { client, reply: Err(Error::NoLeader) }),
            Origin::Forwarded { gathering, index } => {
                self.settle_forwarded(gathering, index, Settled::Failed(Failure::NotInTime));
            }
            Origin::Nobody => {}
        }
    }
}
