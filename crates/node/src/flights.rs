//! Requests under way between this node and the leader, on both sides: those that this node passed
//! on, and those that others passed to it.

use crate::clients::{Failure, Origin, Read, Settled, Write};
use crate::forward::{Forwarded, Leave, REQUEST_BYTES_MAX, SESSION_TTL};
use crate::replica::{Asked, Replica};
use crate::translate::{self, ForwardAnswer, ForwardedRequest, Passed};
use quorate_base::Span;
use quorate_machine::{Answer, Machine, Operation, Request, SessionRefusal};
use quorate_raft::Loss;

/// However patient a client is, a leader keeps its forwarded request no longer than this.
const PATIENCE_MAX: Span = Span::ms(60_000);

impl<M: Machine> Replica<M> {
    /// Another node passed these on, believing that this one leads.
    pub(crate) fn take_forwarded(&mut self, asked: Asked, request: ForwardedRequest) {
        let view = self.quorum.view();
        let leads = view.leader.is_some() && view.leader == self.id && !self.is_stopping();
        let believed = request.epoch.is_none_or(|epoch| epoch == view.epoch);
        if !leads || !believed || request.operations.is_empty() {
            let frame =
                translate::forward_refusal(asked, view.leader, view.epoch, leads && believed);
            self.answer_place(asked.place, frame);
            return;
        }
        let due = self.now + request.patience.min(PATIENCE_MAX);
        let gathering = self.clients.gather(
            asked.place,
            asked.correlation,
            asked.version,
            request.operations.len(),
        );
        for (index, operation) in request.operations.into_iter().enumerate() {
            let origin = Origin::Forwarded { gathering, index };
            match operation {
                Passed::Write(request) => {
                    self.clients.writes.push_back(Write {
                        origin,
                        request,
                        due,
                        attempts: 0,
                        slot: None,
                    });
                }
                Passed::ReadOffset => {
                    self.clients.reads.push_back(Read { origin, query: None, least: None, due })
                }
            }
        }
    }

    /// Passes on what waits, if another node leads.
    pub(crate) fn forward(&mut self) {
        let Some(leader) = self.leader.filter(|leader| Some(*leader) != self.id) else { return };
        // One hop: what was forwarded to this node goes back instead.
        self.refuse_forwarded();
        if self.now < self.forwarder.rest_until {
            return;
        }
        loop {
            let (mut writes, mut bytes, mut opens_session) = (Vec::new(), 0, false);
            while bytes < REQUEST_BYTES_MAX {
                let Some(mut write) = self.clients.writes.pop_front() else { break };
                match self.forwarder.stamp(self.now, &mut write) {
                    Leave::Now => {
                        write.attempts += 1;
                        if let Operation::Write(body) = &write.request.operation {
                            bytes += body.len();
                        }
                        writes.push(write);
                    }
                    Leave::AfterSession(first) => {
                        opens_session = first;
                        self.clients.writes.push_front(write);
                        break;
                    }
                    Leave::AfterAnswer => {
                        self.clients.writes.push_front(write);
                        break;
                    }
                }
            }
            let reads: Vec<Read<M::Query>> = std::mem::take(&mut self.clients.reads).into();
            if writes.is_empty() && reads.is_empty() && !opens_session {
                return;
            }
            let dues =
                writes.iter().map(|write| write.due).chain(reads.iter().map(|read| read.due));
            let patience = dues.max().map_or(PATIENCE_MAX, |due| due.since(self.now));
            let mut operations = Vec::with_capacity(writes.len() + 2);
            if opens_session {
                operations.push(Passed::Write(Request::open_session(SESSION_TTL)));
            }
            operations.extend(writes.iter().map(|write| Passed::Write(write.request.clone())));
            if !reads.is_empty() {
                operations.push(Passed::ReadOffset);
            }
            let epoch = self.epoch;
            let request = translate::forward_request(ForwardedRequest {
                epoch: Some(epoch),
                patience,
                operations,
            });
            let flight = self.forwarder.departs(Forwarded { opens_session, writes, reads });
            self.ask_leader(leader, flight, request);
        }
    }

    /// The leader answered a request that this node passed on.
    pub(crate) fn flight_answered(&mut self, flight: u64, answer: ForwardAnswer) {
        let Some(Forwarded { opens_session, writes, reads }) =
            self.forwarder.flights.remove(&flight)
        else {
            return;
        };
        let asked = usize::from(opens_session) + writes.len() + usize::from(!reads.is_empty());
        if answer.results.len() != asked {
            // Refused as a whole, or an answer to something else: nothing was done under this
            // request.
            self.forwarder.rest_until = self.now + self.settings.retry_backoff;
            self.return_flight(opens_session, writes, reads, answer.results.is_empty());
            return;
        }
        let mut results = answer.results.into_iter();
        let opened = opens_session.then(|| results.next()).flatten();
        let no_room = opened == Some(Settled::Failed(Failure::OutOfRoom));
        if opens_session {
            self.session_answered(opened);
        }
        let mut again = Vec::new();
        for (mut write, result) in writes.into_iter().zip(&mut results) {
            match result {
                Settled::Answer(Answer::Session(SessionRefusal::Unknown))
                    if write.slot.is_some() || write.attempts > 1 =>
                {
                    if let Some(stamp) = write.request.stamp {
                        self.forwarder.expired(stamp);
                    }
                    match write.attempts {
                        1 => {
                            self.forwarder.unstamp(&mut write);
                            write.attempts = 0;
                            again.push(write);
                        }
                        // The session was alive for an earlier attempt, and nobody knows what
                        // became of it.
                        _ => self.conclude(write, Err(Failure::Unknown)),
                    }
                }
                Settled::Answer(answer) => self.conclude(write, Ok(answer)),
                Settled::Failed(Failure::NotLeader) => {
                    write.attempts -= 1;
                    again.push(write);
                }
                Settled::Failed(Failure::NotInTime) if write.attempts == 1 => {
                    self.conclude(write, Err(Failure::NotInTime));
                }
                Settled::Failed(Failure::OutOfRoom) => {
                    // Of this attempt nothing was done.
                    write.attempts -= 1;
                    let failure = write.without_room();
                    self.conclude(write, Err(failure));
                }
                Settled::Failed(_) | Settled::ReadAt(_) => again.extend(self.repeatable(write)),
            }
        }
        self.requeue(again);
        if no_room {
            // Those that wait for the session would wait for nothing.
            self.refuse_writes();
        }
        if !reads.is_empty() {
            match results.next() {
                Some(Settled::ReadAt(offset)) => {
                    for read in reads {
                        self.wait_applied(offset, crate::clients::Waiting::Read(read));
                    }
                }
                Some(Settled::Answer(_) | Settled::Failed(_)) | None => {
                    self.clients.reads.extend(reads)
                }
            }
        }
    }

    /// What the leader says of opening a session for this node.
    fn session_answered(&mut self, result: Option<Settled>) {
        match result {
            Some(Settled::Answer(Answer::Opened(id))) => self.forwarder.opened(self.now, Some(id)),
            // A machine that is not wrapped in sessions does not know what it was asked.
            Some(Settled::Answer(
                Answer::Session(SessionRefusal::Unsupported) | Answer::Done(_) | Answer::Refused(_),
            )) => self.forwarder.unsupported(),
            Some(Settled::Answer(_) | Settled::ReadAt(_) | Settled::Failed(_)) | None => {
                self.forwarder.opened(self.now, None);
                self.forwarder.rest_until = self.now + self.settings.retry_backoff;
            }
        }
    }

    /// A request that this node passed on will have no answer.
    pub(crate) fn flight_lost(&mut self, flight: u64, how: Loss) {
        let Some(Forwarded { opens_session, writes, reads }) =
            self.forwarder.flights.remove(&flight)
        else {
            return;
        };
        self.forwarder.rest_until = self.now + self.settings.retry_backoff;
        // Only a refused connection proves that nothing was sent.
        self.return_flight(opens_session, writes, reads, how == Loss::Refused);
    }

    fn return_flight(
        &mut self,
        opens_session: bool,
        writes: Vec<Write>,
        reads: Vec<Read<M::Query>>,
        untouched: bool,
    ) {
        if opens_session {
            self.forwarder.opened(self.now, None);
        }
        let mut again = Vec::new();
        for mut write in writes {
            if untouched {
                write.attempts -= 1;
                again.push(write);
            } else {
                again.extend(self.repeatable(write));
            }
        }
        self.requeue(again);
        self.clients.reads.extend(reads);
    }

    /// The write itself if it may be sent again: its stamp keeps it from being applied twice. Else
    /// its outcome is unknown and its client is told so.
    fn repeatable(&mut self, write: Write) -> Option<Write> {
        if write.request.stamp.is_some() && write.origin != Origin::Nobody {
            return Some(write);
        }
        self.conclude(write, Err(Failure::Unknown));
        None
    }

    /// Back to the head of the queue, in order.
    fn requeue(&mut self, writes: Vec<Write>) {
        for write in writes.into_iter().rev() {
            self.clients.writes.push_front(write);
        }
    }

    /// Ends a write: frees its slot and tells whoever waits.
    pub(crate) fn conclude(&mut self, write: Write, result: Result<Answer, Failure>) {
        // A refusal for the sake of this node's own session is no business of the client.
        let own_session = write.slot.is_some() && matches!(result, Ok(Answer::Session(_)));
        self.forwarder.free(write.slot);
        match result {
            Ok(_) if own_session => self.fail(write.origin, Failure::Unknown),
            Ok(answer) => self.answer(write.origin, answer),
            Err(failure) => self.fail(write.origin, failure),
        }
    }

    /// Tells the clients of requests under way whose time ran out.
    pub(crate) fn sweep_flights(&mut self) {
        let now = self.now;
        let (mut unknown, mut late_reads) = (Vec::new(), Vec::new());
        for flight in self.forwarder.flights.values_mut() {
            for write in flight.writes.iter_mut().filter(|write| write.due <= now) {
                unknown.push(std::mem::replace(&mut write.origin, Origin::Nobody));
            }
            for read in flight.reads.iter_mut().filter(|read| read.due <= now) {
                late_reads.push(std::mem::replace(&mut read.origin, Origin::Nobody));
            }
        }
        for origin in unknown {
            self.fail(origin, Failure::Unknown);
        }
        for origin in late_reads {
            self.fail_read(origin);
        }
    }
}
