//! An embedder's own machine in the world: what its clients may ask, and what must be true of the
//! answers.
//!
//! The world's checkers (equal machines at equal offsets, nothing committed is lost, and all
//! others) need nothing for this. What the answers mean only the embedder knows: [`Subject`] is a
//! model of the machine, and what was seen must be linearizable by it.

use crate::book::Book;
use crate::checkers::Failure;
use crate::clients::{Action, Broken, Call, Clients, QueryOf, REST, ReplyOf, Then};
use crate::desks::{Desks, Wanted, number_of};
use crate::linear::{Model, Timed, Verdict, check, shortest};
use crate::marks::{self, Marks};
use crate::network::Process;
use crate::plan::Ask;
use bytes::Bytes;
use quorate_base::{Offset, Rng, Span, Time};
use quorate_machine::{Answer, Machine, Request};
use quorate_node::ClientId;
use quorate_node::handle::Error;
use std::fmt::Debug;
use std::ops::RangeFrom;

/// At so many steps the search for an order gives up.
const STEPS_MAX: u64 = 1_000_000;
/// The same for one attempt to make a history shorter.
const SHORTENING_STEPS_MAX: u64 = 20_000;

/// A machine, its clients, and a model of what they may see.
pub trait Subject: Model<Call = SaidOf<Self>> {
    /// The machine.
    type Machine: Machine<Query: Clone + Debug, Reply: Clone + Debug>;

    /// An empty machine, as each process starts with; within [`quorate_machine::Sessioned`],
    /// because followers pass writes on to the leader under a session.
    fn machine(&self) -> Self::Machine;
    /// Something that a client may want written. Writes that differ tell more.
    fn write(&self, rng: &mut Rng) -> Bytes;
    /// Something that a client may want to know.
    fn read(&self, rng: &mut Rng) -> <Self::Machine as Machine>::Query;
    /// The model's state before anything was written.
    fn initial(&self) -> Self::State;
}

/// What clients of a subject say and hear.
pub type SaidOf<S> =
    Said<<<S as Subject>::Machine as Machine>::Query, <<S as Subject>::Machine as Machine>::Reply>;

/// What a client said and heard.
#[derive(Clone, Debug)]
pub enum Said<Q, R> {
    /// A write.
    Wrote {
        /// What it asked.
        body: Bytes,
        /// The machine's answer; `None` if nobody knows whether it was done.
        answer: Option<Answer>,
    },
    /// A linearizable read.
    Read {
        /// What it asked.
        query: Q,
        /// The machine's reply.
        reply: R,
    },
}

enum Wish<Q> {
    Write(Bytes),
    Read(Q),
}

/// What a client is at, and since when.
struct Asked<Q> {
    wish: Wish<Q>,
    at: Time,
}

/// One operation that ended.
struct Op<Q, R> {
    client: u32,
    asked: Time,
    /// What was said; `None` while it is not known, or if it was not done.
    said: Option<Timed<Said<Q, R>>>,
    ended: bool,
}

type OpOf<S> =
    Op<<<S as Subject>::Machine as Machine>::Query, <<S as Subject>::Machine as Machine>::Reply>;

type QueryBy<S> = <<S as Subject>::Machine as Machine>::Query;
type WishOf<S> = Wish<QueryBy<S>>;

/// The clients of an embedder's machine.
pub(crate) struct OwnClients<S: Subject> {
    subject: S,
    desks: Desks<WishOf<S>, Asked<QueryBy<S>>>,
    rng: Rng,
    history: Vec<OpOf<S>>,
}

impl<S: Subject> OwnClients<S> {
    pub fn new(subject: S, count: usize, nodes: usize, seed: u64) -> OwnClients<S> {
        let (rng, history) = (Rng::new(seed ^ 0x0ddb_a115), Vec::new());
        OwnClients { subject, desks: Desks::new(count, nodes), rng, history }
    }

    /// Ends an operation. `end` is `None` if it may yet be done.
    fn end(&mut self, number: u32, said: Option<SaidOf<S>>, end: Option<Time>) -> Then {
        let Some(flight) = self.desks.end(number) else { return Then::Nothing };
        let (begin, end) = (flight.about.at.0, end.map(|end| end.0));
        let op = &mut self.history[flight.op];
        op.said = said.map(|call| Timed { begin, end, call });
        op.ended = end.is_some();
        Then::GoOn(number, Span::ZERO)
    }

    /// Nobody knows whether it was done, or will be.
    fn lost(&mut self, number: u32, marks: &mut Marks) -> Then {
        let Some(flight) = self.desks.flight(number) else { return Then::Nothing };
        let Wish::Write(body) = &flight.about.wish else { return self.again(number, marks) };
        let said = Said::Wrote { body: body.clone(), answer: None };
        marks.hit("an outcome is unknown");
        self.end(number, Some(said), None)
    }

    /// It was not done: another node, perhaps.
    fn again(&mut self, number: u32, marks: &mut Marks) -> Then {
        if self.desks.turns_to_the_next(number) {
            return Then::GoOn(number, REST);
        }
        marks.hit("a write was not done");
        self.end(number, None, None)
    }
}

impl<S: Subject> Clients for OwnClients<S> {
    type Machine = S::Machine;

    fn machine(&self, _mutant: Broken) -> S::Machine {
        self.subject.machine()
    }

    fn has(&self, client: u32) -> bool {
        self.desks.has(client)
    }

    fn ask(&mut self, client: u32, ask: Ask, node: usize, patience: Span) {
        let wish = match ask {
            Ask::Put { .. } | Ask::Delete { .. } => Wish::Write(self.subject.write(&mut self.rng)),
            Ask::Get { .. } | Ask::Peek { .. } => Wish::Read(self.subject.read(&mut self.rng)),
        };
        self.desks.want(client, Wanted { wish, node, patience });
    }

    fn hush(&mut self) {
        self.desks.hush();
    }

    fn idle(&self) -> bool {
        self.desks.idle()
    }

    fn waiting(&self) -> Option<String> {
        self.desks.first().map(|(number, _)| format!("client {number}"))
    }

    fn go_on(&mut self, now: Time, number: u32) -> Option<Call<QueryOf<Self>>> {
        if !self.desks.is_free(number) {
            return None;
        }
        if let Some(Wanted { wish, node, patience }) = self.desks.next(number) {
            let op = self.history.len();
            self.desks.begin(number, op, node, patience, Asked { wish, at: now });
            self.history.push(Op { client: number, asked: now, said: None, ended: false });
        }
        let flight = self.desks.flight(number)?;
        let action = match &flight.about.wish {
            Wish::Write(body) => Action::Write { request: Request::write(body.clone()) },
            Wish::Read(query) => Action::Read { query: query.clone() },
        };
        let (node, patience) = (flight.node, flight.patience);
        let id = self.desks.call(number);
        Some(Call { node, id, action, patience })
    }

    fn called(&mut self, id: ClientId, process: Process, _marks: &mut Marks) {
        self.desks.called(id, process);
    }

    fn unreachable(&mut self, _now: Time, id: ClientId, marks: &mut Marks) -> Then {
        self.again(number_of(id), marks)
    }

    fn died(&mut self, _now: Time, process: Process, marks: &mut Marks) -> Vec<Then> {
        let numbers = self.desks.waiting_for(process);
        numbers.into_iter().map(|number| self.lost(number, marks)).collect()
    }

    fn op_of(&self, id: ClientId) -> Option<usize> {
        self.desks.op_of(id)
    }

    fn answered(
        &mut self,
        now: Time,
        id: ClientId,
        answer: Result<Answer, Error>,
        marks: &mut Marks,
    ) -> Result<Then, Failure> {
        let number = number_of(id);
        if self.op_of(id).is_none() {
            return Ok(Then::Nothing);
        }
        let Some(flight) = self.desks.flight(number) else { return Ok(Then::Nothing) };
        Ok(match (answer, &flight.about.wish) {
            (Ok(answer), Wish::Write(body)) => {
                let said = Said::Wrote { body: body.clone(), answer: Some(answer) };
                marks.hit("a write was acknowledged");
                self.end(number, Some(said), Some(now))
            }
            (Err(Error::OutcomeUnknown), _) => self.lost(number, marks),
            (
                Err(
                    Error::NoLeader
                    | Error::Overloaded
                    | Error::OutOfRoom
                    | Error::LeftBehind
                    | Error::Stopped,
                ),
                _,
            ) => self.again(number, marks),
            (answer @ (Ok(_) | Err(Error::TooLarge { .. } | Error::NotYet { .. })), _) => {
                let what = format!("client {number} was answered {answer:?}");
                return Err(Failure::new("answers_make_sense", what));
            }
        })
    }

    fn replied(
        &mut self,
        now: Time,
        id: ClientId,
        reply: Result<(ReplyOf<Self>, Offset), Error>,
        marks: &mut Marks,
    ) -> Result<Then, Failure> {
        let number = number_of(id);
        if self.op_of(id).is_none() {
            return Ok(Then::Nothing);
        }
        let Some(flight) = self.desks.flight(number) else { return Ok(Then::Nothing) };
        Ok(match (reply, &flight.about.wish) {
            (Ok((reply, _)), Wish::Read(query)) => {
                let said = Said::Read { query: query.clone(), reply };
                marks.hit("a linearizable read was answered");
                self.end(number, Some(said), Some(now))
            }
            (Ok(_) | Err(_), _) => self.again(number, marks),
        })
    }

    fn ended(&self, op: usize) -> Option<String> {
        let op = &self.history[op];
        op.ended.then(|| format!("client {} knows {:?}", op.client, op.said))
    }

    fn rests_on(&self, _op: usize, _committed: Offset) -> Result<(), Failure> {
        Ok(())
    }

    fn last_reads(&self) -> Vec<Ask> {
        vec![Ask::Get { key: 0 }]
    }

    fn served(&self, clients: RangeFrom<u32>, since: Time) -> Result<(), Failure> {
        let late = |op: &&OpOf<S>| clients.contains(&op.client) && op.asked >= since;
        match self.history.iter().filter(late).find(|op| !op.ended) {
            Some(op) => {
                let what = format!("in a healthy quorum client {} has no answer", op.client);
                Err(Failure::new("recovers", what))
            }
            None => Ok(()),
        }
    }

    fn judge(&self, _ledger: &Book, marks: &mut Marks) -> Result<(), Failure> {
        let history: Vec<_> = self.history.iter().filter_map(|op| op.said.clone()).collect();
        let initial = self.subject.initial();
        match check(&self.subject, initial.clone(), &history, STEPS_MAX) {
            Verdict::Linearizable => Ok(()),
            Verdict::Undecided => {
                marks.hit(marks::UNDECIDED);
                Ok(())
            }
            Verdict::Not { .. } => {
                let short = shortest(&self.subject, &initial, &history, SHORTENING_STEPS_MAX);
                let short = short.map_or(history, |(short, _)| short);
                let lines: Vec<String> = short.iter().map(|timed| format!("  {timed:?}")).collect();
                let what = format!("no order explains what was seen:\n{}", lines.join("\n"));
                Err(Failure::new("linear", what))
            }
        }
    }
}
