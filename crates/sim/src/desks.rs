//! Clients that ask one thing at a time: what each wants asked, what it is at, and whose answer it
//! waits for. Knows nothing of what is asked, nor what an answer means.

use crate::network::Process;
use quorate_base::Span;
use quorate_node::ClientId;
use std::collections::VecDeque;

/// So often a client tries before it gives up.
const TRIES_MAX: u32 = 12;

/// Clients 1 to their number. `W` is what one may want, `F` what is kept of it while it is asked.
pub(crate) struct Desks<W, F> {
    desks: Vec<Desk<W, F>>,
    nodes: usize,
    calls: u64,
}

struct Desk<W, F> {
    queue: VecDeque<Wanted<W>>,
    flight: Option<Flight<F>>,
    waits: Option<(ClientId, Process)>,
}

/// Something to ask, which node first, and how long to wait for it.
pub(crate) struct Wanted<W> {
    pub wish: W,
    pub node: usize,
    pub patience: Span,
}

/// What a client is at.
pub(crate) struct Flight<F> {
    /// Its place in the history.
    pub op: usize,
    pub node: usize,
    pub patience: Span,
    pub about: F,
    tries: u32,
}

impl<W, F> Desks<W, F> {
    pub fn new(count: usize, nodes: usize) -> Desks<W, F> {
        let desk = || Desk { queue: VecDeque::new(), flight: None, waits: None };
        let desks = std::iter::repeat_with(desk).take(count).collect();
        Desks { desks, nodes, calls: 0 }
    }

    pub fn has(&self, number: u32) -> bool {
        (1..=self.desks.len()).contains(&(number as usize))
    }

    pub fn want(&mut self, number: u32, wanted: Wanted<W>) {
        self.desk(number).queue.push_back(wanted);
    }

    /// Forgets what was not asked yet.
    pub fn hush(&mut self) {
        self.desks.iter_mut().for_each(|desk| desk.queue.clear());
    }

    pub fn idle(&self) -> bool {
        self.desks.iter().all(|desk| desk.flight.is_none() && desk.queue.is_empty())
    }

    /// The first client that is at something.
    pub fn first(&self) -> Option<(u32, &Flight<F>)> {
        let desks = (1..).zip(&self.desks);
        desks.filter_map(|(number, desk)| Some((number, desk.flight.as_ref()?))).next()
    }

    /// Whether this client waits for no answer.
    pub fn is_free(&self, number: u32) -> bool {
        self.desks[number as usize - 1].waits.is_none()
    }

    /// What this client is at.
    pub fn flight(&mut self, number: u32) -> Option<&mut Flight<F>> {
        self.desk(number).flight.as_mut()
    }

    /// What this client wants next, if it is at nothing.
    pub fn next(&mut self, number: u32) -> Option<Wanted<W>> {
        let desk = self.desk(number);
        if desk.flight.is_some() { None } else { desk.queue.pop_front() }
    }

    pub fn begin(&mut self, number: u32, op: usize, node: usize, patience: Span, about: F) {
        self.desk(number).flight = Some(Flight { op, node, patience, about, tries: 0 });
    }

    /// A name for the answer to what this client asks now.
    pub fn call(&mut self, number: u32) -> ClientId {
        self.calls += 1;
        ClientId(self.calls << 16 | u64::from(number))
    }

    /// It was asked of this process.
    pub fn called(&mut self, id: ClientId, process: Process) {
        self.desk(number_of(id)).waits = Some((id, process));
    }

    /// Those who wait for an answer of this process.
    pub fn waiting_for(&self, process: Process) -> Vec<u32> {
        let waits = |desk: &Desk<W, F>| desk.waits.is_some_and(|(_, at)| at == process);
        (1..).zip(&self.desks).filter(|(_, desk)| waits(desk)).map(|(number, _)| number).collect()
    }

    /// The operation whose answer this is, if its client still waits for it.
    pub fn op_of(&self, id: ClientId) -> Option<usize> {
        let desk = &self.desks[number_of(id) as usize - 1];
        let waits = desk.waits.is_some_and(|(waits, _)| waits == id);
        desk.flight.as_ref().filter(|_| waits).map(|flight| flight.op)
    }

    /// This client waits for no answer any more.
    pub fn waits_no_more(&mut self, number: u32) {
        self.desk(number).waits = None;
    }

    /// Turns to the next node. False if this client has tried often enough.
    pub fn turns_to_the_next(&mut self, number: u32) -> bool {
        let nodes = self.nodes;
        self.waits_no_more(number);
        self.flight(number).is_some_and(|flight| {
            flight.tries += 1;
            flight.node = (flight.node + 1) % nodes;
            flight.tries < TRIES_MAX
        })
    }

    /// This client takes what it was at for decided.
    pub fn end(&mut self, number: u32) -> Option<Flight<F>> {
        self.waits_no_more(number);
        self.desk(number).flight.take()
    }

    fn desk(&mut self, number: u32) -> &mut Desk<W, F> {
        &mut self.desks[number as usize - 1]
    }
}

/// Whose call this is.
pub(crate) fn number_of(id: ClientId) -> u32 {
    (id.0 & 0xffff) as u32
}
