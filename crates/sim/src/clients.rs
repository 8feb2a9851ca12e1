//! Clients of the store. Each has one request at a time and one session; it goes to another node
//! when one fails it, repeats what is stamped until it is decided, and believes every answer it
//! gets: what it saw becomes the history that the checkers judge.

use crate::book::Book;
use crate::checkers::{AcknowledgedNeverLost, Failure, Judgement, key_name, linear};
use crate::desks::{Desks, Flight, Wanted, number_of};
use crate::history::{Kind, Op, Seen};
use crate::marks::{self, Marks};
use crate::network::Process;
use crate::plan::{Ask, When};
use crate::trace::seconds;
use bytes::Bytes;
use quorate_base::{Offset, Span, Time};
use quorate_machine::kv::{Condition, Outcome, Query, Reply, Write};
use quorate_machine::{Answer, Kv, Machine, Request, SessionId, SessionRefusal, Sessioned, Stamp};
use quorate_node::ClientId;
use quorate_node::handle::Error;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::RangeFrom;

/// A client that was failed rests so long before it tries the next node.
pub(crate) const REST: Span = Span::ms(30);

/// The clients of a world: what they ask, what they make of the answers, and whether what they saw
/// makes sense.
pub(crate) trait Clients {
    /// The machine that they use.
    type Machine: Machine<Query: Debug, Reply: Debug>;

    /// An empty machine.
    fn machine(&self, mutant: Broken) -> Self::Machine;
    /// Whether a client of this number exists.
    fn has(&self, client: u32) -> bool;
    /// Gives a client something to ask.
    fn ask(&mut self, client: u32, ask: Ask, node: usize, patience: Span);
    /// Clients forget what they have not asked yet: on a slow network a queue outlasts the run.
    fn hush(&mut self);
    /// Whether nobody waits or has anything to ask.
    fn idle(&self) -> bool;
    /// The first operation that is not decided, in words.
    fn waiting(&self) -> Option<String>;
    /// What this client asks now, if it is free to ask.
    fn go_on(&mut self, now: Time, number: u32) -> Option<Call<QueryOf<Self>>>;
    /// The call was given to this process.
    fn called(&mut self, id: ClientId, process: Process, marks: &mut Marks);
    /// Nobody listens there.
    fn unreachable(&mut self, now: Time, id: ClientId, marks: &mut Marks) -> Then;
    /// A process died: those who wait for it see their connections close.
    fn died(&mut self, now: Time, process: Process, marks: &mut Marks) -> Vec<Then>;
    /// The operation of a call, if its client still waits for it.
    fn op_of(&self, id: ClientId) -> Option<usize>;
    /// A write was answered.
    fn answered(
        &mut self,
        now: Time,
        id: ClientId,
        answer: Result<Answer, Error>,
        marks: &mut Marks,
    ) -> Result<Then, Failure>;
    /// A read was answered.
    fn replied(
        &mut self,
        now: Time,
        id: ClientId,
        reply: Result<(ReplyOf<Self>, Offset), Error>,
        marks: &mut Marks,
    ) -> Result<Then, Failure>;
    /// What is known of an operation, in words, once it has ended.
    fn ended(&self, op: usize) -> Option<String>;
    /// An operation has just ended, and so much is committed.
    fn rests_on(&self, op: usize, committed: Offset) -> Result<(), Failure>;
    /// What to read at the end, to see all that there is.
    fn last_reads(&self) -> Vec<Ask>;
    /// Whether all that these clients wrote since a time was done.
    fn served(&self, clients: RangeFrom<u32>, since: Time) -> Result<(), Failure>;
    /// Judges all that was seen, beside all that was committed.
    fn judge(&self, ledger: &Book, marks: &mut Marks) -> Result<(), Failure>;
}

/// The queries and replies of the clients' machine.
pub(crate) type QueryOf<C> = <<C as Clients>::Machine as Machine>::Query;
pub(crate) type ReplyOf<C> = <<C as Clients>::Machine as Machine>::Reply;

/// The rule that the node's machine breaks.
#[cfg(mutants)]
pub(crate) type Broken = Option<quorate_node::Mutant>;
/// No rule is broken without `--cfg mutants`.
#[cfg(not(mutants))]
pub(crate) type Broken = Option<std::convert::Infallible>;

/// What a client asks of its node now.
pub(crate) enum Action<Q> {
    Write {
        request: Request,
    },
    Read {
        query: Q,
    },
    /// Answered by the node itself, at once.
    Peek {
        query: Q,
    },
}

/// An action, where it goes, and the name of its answer.
pub(crate) struct Call<Q> {
    pub node: usize,
    pub id: ClientId,
    pub action: Action<Q>,
    pub patience: Span,
}

/// What the world is to do after an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Then {
    Nothing,
    /// The client goes on after this time.
    GoOn(u32, Span),
}

/// What a client is at.
struct Asked {
    stamped: bool,
    stamp: Option<Stamp>,
    /// An earlier attempt may take effect.
    maybe: bool,
    /// What it waits for is a session.
    opens: bool,
}

/// What a client knows.
#[derive(Default)]
struct Client {
    session: Option<SessionId>,
    sequence: u64,
    /// The version of each key that it saw last.
    seen: BTreeMap<u32, Option<Offset>>,
}

/// The clients of the key-value store, and their history.
pub(crate) struct StoreClients {
    desks: Desks<Ask, Asked>,
    clients: Vec<Client>,
    ttl: Span,
    value_bytes: usize,
    pub history: Vec<Op>,
}

impl StoreClients {
    /// Clients 1 to `count`.
    pub fn new(count: usize, nodes: usize, ttl: Span, value_bytes: usize) -> StoreClients {
        let clients = std::iter::repeat_with(Client::default).take(count).collect();
        let (desks, history) = (Desks::new(count, nodes), Vec::new());
        StoreClients { desks, clients, ttl, value_bytes, history }
    }

    fn client(&mut self, client: u32) -> &mut Client {
        &mut self.clients[client as usize - 1]
    }

    fn begin(&mut self, now: Time, number: u32, wanted: Wanted<Ask>) {
        let Wanted { wish, node, patience } = wanted;
        let op = self.history.len();
        let seen = |client: &Client, key: u32| client.seen.get(&key).copied().flatten();
        let condition = |client: &Client, key: u32, when: When| match when {
            When::Always => Condition::Always,
            When::Absent => Condition::IfAbsent,
            When::Present => Condition::IfPresent,
            When::Seen => seen(client, key).map_or(Condition::IfAbsent, Condition::IfVersion),
        };
        let mut value = format!("{op}.");
        while value.len() < self.value_bytes {
            value.push('x');
        }
        let client = self.client(number);
        let (key, kind, stamped) = match wish {
            Ask::Put { key, when, stamped } => {
                let condition = condition(client, key, when);
                (key, Kind::Put { value: Bytes::from(value), condition }, stamped)
            }
            Ask::Delete { key, when, stamped } => {
                (key, Kind::Delete { condition: condition(client, key, when) }, stamped)
            }
            Ask::Get { key } => (key, Kind::Get, false),
            Ask::Peek { key } => (key, Kind::Peek, false),
        };
        let about = Asked { stamped, stamp: None, maybe: false, opens: false };
        self.desks.begin(number, op, node, patience, about);
        let (asked, ended) = (now, None);
        self.history.push(Op { client: number, key, kind, asked, ended, seen: Seen::Unknown });
    }

    /// The answer that a client waits for will not come, or says that nobody knows.
    fn lost(&mut self, now: Time, number: u32, marks: &mut Marks) -> Then {
        let Some(flight) = self.desks.flight(number) else { return Then::Nothing };
        let (op, repeats, opens) = (flight.op, flight.about.stamped, flight.about.opens);
        let write = matches!(self.history[op].kind, Kind::Put { .. } | Kind::Delete { .. });
        if write && !opens && !repeats {
            return self.end(now, number, Seen::Unknown, marks);
        }
        self.again(now, number, write && !opens, marks)
    }

    /// Tries the next node, unless it has tried often enough.
    fn again(&mut self, now: Time, number: u32, maybe: bool, marks: &mut Marks) -> Then {
        let Some(flight) = self.desks.flight(number) else { return Then::Nothing };
        flight.about.maybe |= maybe;
        let (op, maybe) = (flight.op, flight.about.maybe);
        if self.desks.turns_to_the_next(number) {
            return Then::GoOn(number, REST);
        }
        let write = matches!(self.history[op].kind, Kind::Put { .. } | Kind::Delete { .. });
        let seen = if maybe || !write { Seen::Unknown } else { Seen::NotDone };
        self.end(now, number, seen, marks)
    }

    /// The client takes its operation for decided.
    fn end(&mut self, now: Time, number: u32, seen: Seen, marks: &mut Marks) -> Then {
        let Some(flight) = self.desks.end(number) else { return Then::Nothing };
        let op = &mut self.history[flight.op];
        marks.hit(match &seen {
            Seen::Unknown => "an outcome is unknown",
            Seen::NotDone => "a write was not done",
            Seen::Failed { .. } => "a condition failed",
            Seen::Found { .. } if op.kind == Kind::Peek => "a node answered from its own state",
            Seen::Found { .. } => "a linearizable read was answered",
            Seen::Written { .. } | Seen::Deleted { .. } | Seen::Absent if flight.about.maybe => {
                "a repeated write was acknowledged"
            }
            Seen::Written { .. } | Seen::Deleted { .. } | Seen::Absent => {
                "a write was acknowledged"
            }
        });
        let version = match &seen {
            Seen::Written { version } => Some(Some(*version)),
            Seen::Deleted { .. } | Seen::Absent => Some(None),
            Seen::Failed { current } => Some(*current),
            Seen::Found { found, .. } => Some(found.as_ref().map(|(_, version)| *version)),
            Seen::Unknown | Seen::NotDone => None,
        };
        // What is unknown may end after everything else.
        op.ended = (seen != Seen::Unknown).then_some(now);
        op.seen = seen;
        let key = op.key;
        if let Some(version) = version {
            self.client(number).seen.insert(key, version);
        }
        Then::GoOn(number, Span::ZERO)
    }
}

impl Clients for StoreClients {
    type Machine = Sessioned<Kv>;

    fn has(&self, client: u32) -> bool {
        self.desks.has(client)
    }

    fn ask(&mut self, client: u32, ask: Ask, node: usize, patience: Span) {
        self.desks.want(client, Wanted { wish: ask, node, patience });
    }

    fn hush(&mut self) {
        self.desks.hush();
    }

    fn idle(&self) -> bool {
        self.desks.idle()
    }

    fn waiting(&self) -> Option<String> {
        self.desks.first().map(|(_, flight)| format!("{:?}", self.history[flight.op]))
    }

    fn go_on(&mut self, now: Time, number: u32) -> Option<Call<Query>> {
        if !self.desks.is_free(number) {
            return None;
        }
        if let Some(wanted) = self.desks.next(number) {
            self.begin(now, number, wanted);
        }
        let op = self.desks.flight(number)?.op;
        let id = self.desks.call(number);
        let ttl = self.ttl;
        let (kind, key) = (self.history[op].kind.clone(), self.history[op].key);
        let client = &mut self.clients[number as usize - 1];
        let flight = self.desks.flight(number)?;
        let asked = &mut flight.about;
        let key_bytes = key_name(key);
        let action = match &kind {
            Kind::Get => Action::Read { query: Query::Get { key: key_bytes } },
            Kind::Peek => Action::Peek { query: Query::Get { key: key_bytes } },
            Kind::Put { .. } | Kind::Delete { .. } => {
                let write = match &kind {
                    Kind::Put { value, condition } => {
                        Write::Put { key: &key_bytes, value, condition: *condition }
                    }
                    Kind::Delete { condition } => {
                        Write::Delete { key: &key_bytes, condition: *condition }
                    }
                    Kind::Get | Kind::Peek => unreachable!("reads were taken above"),
                };
                let bytes = write.encode().expect("keys and values are short");
                let request = match (asked.stamped, asked.stamp, client.session) {
                    (false, _, _) => Request::write(bytes),
                    (true, Some(stamp), _) => Request::stamped(stamp, bytes),
                    (true, None, Some(session)) => {
                        client.sequence += 1;
                        let (slot, sequence) = (number as u16, client.sequence);
                        let stamp = Stamp { session, slot, sequence };
                        asked.stamp = Some(stamp);
                        Request::stamped(stamp, bytes)
                    }
                    (true, None, None) => Request::open_session(ttl),
                };
                Action::Write { request }
            }
        };
        Some(Call { node: flight.node, id, action, patience: flight.patience })
    }

    fn called(&mut self, id: ClientId, process: Process, marks: &mut Marks) {
        let Some(Flight { about: asked, .. }) = self.desks.flight(number_of(id)) else { return };
        asked.opens = asked.stamped && asked.stamp.is_none();
        if asked.maybe && !asked.opens {
            marks.hit("a stamped write was repeated");
        }
        self.desks.called(id, process);
    }

    fn unreachable(&mut self, now: Time, id: ClientId, marks: &mut Marks) -> Then {
        self.again(now, number_of(id), false, marks)
    }

    fn died(&mut self, now: Time, process: Process, marks: &mut Marks) -> Vec<Then> {
        let numbers = self.desks.waiting_for(process);
        let lost = |number| self.lost(now, number, marks);
        numbers.into_iter().map(lost).collect()
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
        let client = &mut self.clients[number as usize - 1];
        let Some(flight) = self.desks.flight(number) else { return Ok(Then::Nothing) };
        let Asked { stamp, maybe, opens, .. } = &mut flight.about;
        Ok(match answer {
            Ok(Answer::Opened(opened)) if *opens => {
                client.session = Some(opened);
                self.desks.waits_no_more(number);
                Then::GoOn(number, Span::ZERO)
            }
            Ok(Answer::Done(bytes) | Answer::Refused(bytes)) if !*opens => {
                let outcome = Outcome::decode(&bytes);
                let seen = match outcome {
                    Ok(Outcome::Written { version, .. }) => Seen::Written { version },
                    Ok(Outcome::Deleted { at, .. }) => Seen::Deleted { at },
                    Ok(Outcome::Absent) => Seen::Absent,
                    Ok(Outcome::ConditionFailed { current }) => Seen::Failed { current },
                    Ok(Outcome::Invalid(_)) | Err(_) => {
                        let what = format!("a valid write was answered {outcome:?}");
                        return Err(Failure::new("answers_make_sense", what));
                    }
                };
                self.end(now, number, seen, marks)
            }
            Ok(Answer::Session(SessionRefusal::Unknown)) if stamp.is_some() => {
                marks.hit("a session expired");
                client.session = None;
                *stamp = None;
                match *maybe {
                    true => self.end(now, number, Seen::Unknown, marks),
                    false => self.again(now, number, false, marks),
                }
            }
            Err(Error::OutcomeUnknown) => self.lost(now, number, marks),
            Err(
                Error::NoLeader
                | Error::Overloaded
                | Error::OutOfRoom
                | Error::LeftBehind
                | Error::Stopped,
            ) => self.again(now, number, false, marks),
            Ok(Answer::Opened(_) | Answer::Done(_) | Answer::Refused(_) | Answer::Session(_))
            | Err(Error::TooLarge { .. } | Error::NotYet { .. }) => {
                let what = format!("{:?} was answered {answer:?}", self.waiting());
                return Err(Failure::new("answers_make_sense", what));
            }
        })
    }

    fn replied(
        &mut self,
        now: Time,
        id: ClientId,
        reply: Result<(Reply, Offset), Error>,
        marks: &mut Marks,
    ) -> Result<Then, Failure> {
        let number = number_of(id);
        if self.op_of(id).is_none() {
            return Ok(Then::Nothing);
        }
        Ok(match reply {
            Ok((Reply::Get(found), end)) => {
                let found = found.map(|found| (found.value, found.version));
                self.end(now, number, Seen::Found { found, end }, marks)
            }
            Err(_) => self.again(now, number, false, marks),
            Ok((Reply::List { .. } | Reply::Stat(_), _)) => {
                let what = format!("{:?} was answered {reply:?}", self.waiting());
                return Err(Failure::new("answers_make_sense", what));
            }
        })
    }

    fn machine(&self, mutant: Broken) -> Sessioned<Kv> {
        let machine = Sessioned::new(Kv::new());
        match mutant {
            #[cfg(mutants)]
            Some(quorate_node::Mutant::ForgetStamps) => machine.forgetting_stamps(),
            Some(_) | None => machine,
        }
    }

    fn ended(&self, op: usize) -> Option<String> {
        let op = &self.history[op];
        op.ended.map(|_| format!("client {} knows {op:?}", op.client))
    }

    fn rests_on(&self, op: usize, committed: Offset) -> Result<(), Failure> {
        AcknowledgedNeverLost::answered(&self.history[op], committed)
    }

    fn last_reads(&self) -> Vec<Ask> {
        let mut keys: Vec<u32> = self.history.iter().map(|op| op.key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.into_iter().map(|key| Ask::Get { key }).collect()
    }

    fn served(&self, clients: RangeFrom<u32>, since: Time) -> Result<(), Failure> {
        let late = |op: &&Op| clients.contains(&op.client) && op.asked >= since;
        let done = |op: &Op| matches!(op.seen, Seen::Written { .. });
        match self.history.iter().filter(late).find(|op| !done(op)) {
            Some(op) => Err(Failure::new("recovers", format!("in a healthy quorum: {op:?}"))),
            None => Ok(()),
        }
    }

    fn judge(&self, ledger: &Book, marks: &mut Marks) -> Result<(), Failure> {
        let records = AcknowledgedNeverLost::new(ledger);
        let mut by_key: BTreeMap<u32, Vec<Op>> = BTreeMap::new();
        for op in &self.history {
            records.see(op)?;
            by_key.entry(op.key).or_default().push(op.clone());
        }
        for (key, ops) in by_key {
            match linear(&ops) {
                Judgement::Linear => {}
                Judgement::NotLinear(ops) => {
                    let ops: Vec<String> = ops.iter().map(describe).collect();
                    let ops = ops.join("\n");
                    let what =
                        format!("no order explains this part of what was seen of k{key}:\n{ops}");
                    return Err(Failure::new("linear", what));
                }
                Judgement::Undecided => marks.hit(marks::UNDECIDED),
            }
        }
        Ok(())
    }
}

/// One operation on one line.
fn describe(op: &Op) -> String {
    let ended = op.ended.map_or("    ?".to_owned(), seconds);
    format!("  {} {ended} client {} {:?} {:?}", seconds(op.asked), op.client, op.kind, op.seen)
}
