//! The loop: take what happened, one turn of the replica, do what it wants, sleep until the next.

use super::anew::Anew;
use super::clock::{self, Clock};
use super::disk_thread::DiskThread;
use super::inbox::{Event, Inbox};
use super::lane_thread::LaneThread;
use super::leaving::Leaving;
use super::net::{self, Connection};
use super::probe;
use crate::config::Config;
use crate::handle::{Ask, Consistency, Error, Handle};
use crate::lane::Errand;
use crate::lane_work::Lane;
use crate::once::Once;
use crate::out::{ClientId, ConnId, Out, ReadId, Reading};
use crate::replica::Replica;
use crate::start::{StartError, Started, log_options, start};
use quorate_base::{Offset, Span, Time};
use quorate_log::{Lock, OsDisk};
use quorate_machine::{Answer, Machine};
use quorate_raft::Endpoint;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tracing::{debug, error, info, warn};

/// A leader that is asked to stop waits so long for a successor.
const HANDOVER: Span = Span::ms(5_000);
/// Asks taken per turn, so that callers of this process cannot starve the network.
const ASKS_PER_TURN: usize = 4_096;

/// Reads of old batches at a time. More of them would wait in memory for the loop, not the disk.
const READS_AT_ONCE: usize = 16;

/// Why a running node stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fatal(pub String);

impl fmt::Display for Fatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Fatal {}

/// Someone in this process who waits for an answer.
enum Caller<M: Machine> {
    /// With when it asked.
    Write(oneshot::Sender<Result<Answer, Error>>, Time),
    Read(oneshot::Sender<Result<(M::Reply, Offset), Error>>),
}

/// A node that is ready to run.
pub struct Node<M: Machine> {
    replica: Replica<M>,
    config: Config,
    clock: Clock,
    inbox: Inbox,
    listener: TcpListener,
    address: SocketAddr,
    handle: Handle<M>,
    asks: mpsc::Receiver<Ask<M>>,
    disk: DiskThread,
    lane: LaneThread<M>,
    leaving: Leaving,
    /// The node must begin anew.
    anew: Option<Anew>,
    /// What it last began anew for because its disk could not go on.
    begun_for: Option<String>,
    files: OsDisk,
    conns: BTreeMap<ConnId, Connection>,
    callers: BTreeMap<ClientId, Caller<M>>,
    /// Connections with something to send.
    dirty: Vec<ConnId>,
    /// Reads that wait for others to end.
    reads: VecDeque<(ReadId, Reading)>,
    reading: usize,
    once: Once,
    next: u64,
    stopped: bool,
    /// Held as long as the node runs.
    _lock: Lock,
}

impl<M: Machine + Send + 'static> Node<M> {
    /// Locks and reads the directory and opens the listener. `machine` is empty.
    pub async fn open(config: Config, machine: M) -> Result<Node<M>, StartError> {
        let holder = format!(
            "quorate node {}",
            config.id.map_or_else(|| "without id".into(), |id| id.to_string())
        );
        let lock = OsDisk::lock(&config.directory, &holder).map_err(StartError::Lock)?;
        let at = (config.bind.host.as_str(), config.bind.port);
        let bind = |source| StartError::Bind { at: format!("{}:{}", at.0, at.1), source };
        let listener = TcpListener::bind(at).await.map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        let (clock, inbox) = (Clock::start(), Inbox::default());
        let files = OsDisk::new(&config.directory);
        let (replica, disk, lane) = begin(&config, address, &files, machine, clock, &inbox)?;
        probe::probe(&config, &mut files.clone());
        let (handle, asks) = Handle::new();
        info!(%address, directory = %config.directory.display(), "node opened");
        Ok(Node {
            replica,
            config,
            clock,
            inbox,
            listener,
            address,
            handle,
            asks,
            disk,
            lane,
            leaving: Leaving::default(),
            anew: None,
            begun_for: None,
            files,
            conns: BTreeMap::new(),
            callers: BTreeMap::new(),
            dirty: Vec::new(),
            reads: VecDeque::new(),
            reading: 0,
            once: Once::default(),
            next: 0,
            stopped: false,
            _lock: lock,
        })
    }

    /// A way to talk to the node once it runs.
    pub fn handle(&self) -> Handle<M> {
        self.handle.clone()
    }

    /// Where the controller listener is bound.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Runs until a shutdown is complete or the node cannot go on. Needs a current-thread runtime
    /// with I/O and time, and has it to itself but for light tasks.
    pub async fn run(mut self) -> Result<(), Fatal> {
        let mut events = Vec::new();
        let mut out = Vec::new();
        let mut asks = Vec::new();
        loop {
            self.inbox.take(&mut events);
            for event in events.drain(..) {
                self.happened(event)?;
            }
            for report in self.lane.reports() {
                self.replica.on_lane(self.clock.now(), report);
            }
            while asks.len() < ASKS_PER_TURN && self.replica.has_room() {
                match self.asks.try_recv() {
                    Ok(ask) => asks.push(ask),
                    Err(_) => break,
                }
            }
            for ask in asks.drain(..) {
                self.asked(ask);
            }
            self.replica.turn(self.clock.now(), clock::wall_ms());
            self.replica.turned(self.clock.now());
            self.replica.take_out(&mut out);
            self.carry_out(&mut out)?;
            let paths = self.leaving.due(self.clock.now(), self.replica.room_for_removed());
            if !paths.is_empty() {
                self.lane.submit(Errand::Remove { paths });
            }
            if self.stopped {
                break;
            }
            if let Some(anew) = self.anew.take() {
                self = self.begin_again(anew)?;
            }
            // The loop must let the readers run, or nothing would ever arrive under load.
            tokio::task::yield_now().await;
            let idle = self.clock.now();
            self.sleep(&mut asks).await;
            self.replica.idled(self.clock.now().since(idle));
        }
        info!("node stopped");
        self.disk.finish();
        Ok(())
    }

    /// The node as after a restart of its process. Callers keep their handles; what they wait for
    /// ends as it does when a process dies.
    fn begin_again(mut self, anew: Anew) -> Result<Node<M>, Fatal> {
        self.disk.finish();
        self.lane.finish();
        anew.prepare(&self.config, &self.files)?;
        for (_, caller) in std::mem::take(&mut self.callers) {
            match caller {
                Caller::Write(caller, _) => drop(caller.send(Err(Error::OutcomeUnknown))),
                Caller::Read(caller) => drop(caller.send(Err(Error::NoLeader))),
            }
        }
        // Of what is under way for the old replica nothing may reach the new one.
        self.inbox = Inbox::default();
        (self.conns, self.dirty) = (BTreeMap::new(), Vec::new());
        (self.reads, self.reading) = (VecDeque::new(), 0);
        let machine = self.replica.machine().fresh();
        let (config, files) = (&self.config, &self.files);
        let begun = begin(config, self.address, files, machine, self.clock, &self.inbox);
        let (replica, disk, lane) = begun.map_err(|error| Fatal(error.to_string()))?;
        // What was to be removed is gone: the start did it.
        let published = std::mem::replace(&mut self.replica, replica).into_published();
        self.replica.go_on_showing(published);
        Ok(Node { disk, lane, leaving: Leaving::default(), ..self })
    }

    /// Returns when there is something to do.
    async fn sleep(&mut self, asks: &mut Vec<Ask<M>>) {
        let deadline = self.replica.deadline().min(self.leaving.deadline());
        if deadline <= self.clock.now() {
            return;
        }
        let at = self.clock.instant(deadline).map(tokio::time::Instant::from_std);
        let timer = async {
            match at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.inbox.filled() => {}
            ask = self.asks.recv(), if self.replica.has_room() => asks.extend(ask),
            accepted = self.listener.accept() => match accepted {
                Ok((stream, _)) => self.inbox.put(Event::Accepted(stream)),
                Err(error) => {
                    // Too many open files, usually. The pause keeps the loop from spinning on it.
                    if self.once.say(self.clock.now(), &error.to_string()) {
                        warn!(
                            %error,
                            connections = self.conns.len(),
                            "cannot accept a connection; others wait until some are closed: look for \
                             who opens so many, or raise the limit of open files"
                        );
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            },
            () = timer => {}
        }
    }

    fn happened(&mut self, event: Event) -> Result<(), Fatal> {
        let now = self.clock.now();
        match event {
            Event::Frames(conn, frames) => {
                for frame in frames {
                    // An earlier one may have had the connection closed.
                    if self.conns.contains_key(&conn) {
                        self.replica.on_frame(now, conn, frame);
                    }
                }
            }
            Event::Closed(conn, why) => {
                if self.conns.remove(&conn).is_some() {
                    debug!(?conn, why, "connection ended");
                    self.replica.on_closed(now, conn);
                }
            }
            Event::Accepted(stream) => {
                let limit = self.config.request_max_bytes as usize;
                let conn = self.conn();
                self.conns.insert(conn, Connection::accepted(conn, stream, limit, &self.inbox));
            }
            Event::Connected(link, Ok(stream)) => {
                let limit = response_limit(&self.config);
                let conn = self.conn();
                self.conns.insert(conn, Connection::made(conn, stream, limit, &self.inbox));
                self.replica.on_connect(now, link, Ok(conn));
            }
            Event::Connected(link, Err(error)) => self.replica.on_connect(now, link, Err(error)),
            Event::Writable(conn) => {
                if let Some(connection) = self.conns.get_mut(&conn) {
                    connection.writable();
                    connection.flush(conn, &self.inbox);
                }
            }
            Event::Durable(upto, took) => {
                took.into_iter().for_each(|took| self.replica.synced(took));
                self.replica.on_durable(now, upto);
            }
            Event::Room { full } => self.replica.on_room(now, full),
            Event::Deleted(paths, bytes) => self.leaving.add(now, paths, bytes),
            Event::Read(id, records) => {
                self.reading -= 1;
                self.read_on();
                self.replica.on_read(now, id, records);
            }
            // Were it not the files, start-up would change nothing, and the same would come again.
            Event::DiskFailed { damaged: true, why }
                if self.replica.has_others() && self.begun_for.as_ref() != Some(&why) =>
            {
                self.begun_for = Some(why.clone());
                self.anew = Some(Anew::Damaged(why));
            }
            Event::DiskFailed { why, .. } => {
                return Err(Fatal(format!("in {}: {why}", self.config.directory.display())));
            }
        }
        Ok(())
    }

    fn conn(&mut self) -> ConnId {
        self.next += 1;
        ConnId(self.next)
    }

    fn asked(&mut self, ask: Ask<M>) {
        let now = self.clock.now();
        match ask {
            Ask::Write { request, patience, answer } => {
                let client = self.client(Caller::Write(answer, now));
                self.replica.write(now, client, request, patience);
            }
            Ask::Read { query, consistency: Consistency::Linearizable, patience, answer } => {
                let client = self.client(Caller::Read(answer));
                self.replica.read(now, client, query, patience);
            }
            Ask::Read { query, consistency, patience, answer } => {
                let least = consistency.least();
                match self.replica.read_local(&query, least) {
                    Some(reply) => drop(answer.send(Ok(reply))),
                    None => {
                        let client = self.client(Caller::Read(answer));
                        self.replica.read_from(now, client, query, least, patience);
                    }
                }
            }
            Ask::Status(answer) => {
                let _ = answer.send(self.replica.status());
            }
            Ask::Metrics(answer) => {
                let _ = answer.send(self.replica.metrics());
            }
            Ask::HandOver(answer) => {
                let _ = answer.send(self.replica.hand_over());
            }
            Ask::Shutdown => self.replica.shutdown(now + HANDOVER),
        }
    }

    fn client(&mut self, caller: Caller<M>) -> ClientId {
        self.next += 1;
        let client = ClientId(self.next);
        self.callers.insert(client, caller);
        client
    }

    /// Frames first, so that followers copy while the disk works (docs/decisions/0004).
    fn carry_out(&mut self, out: &mut Vec<Out<M>>) -> Result<(), Fatal> {
        let mut jobs = Vec::new();
        for out in out.drain(..) {
            match out {
                Out::Frame { conn, frame } => self.send(conn, frame),
                Out::Disk { id, job } => jobs.push((id, job)),
                Out::Connect { link, to } => {
                    let timeout = Duration::from_micros(self.config.request_timeout.0);
                    tokio::spawn(net::connect(link, to, timeout, self.inbox.clone()));
                }
                Out::Pause { conn } => self.pause(conn, true),
                Out::Resume { conn } => self.pause(conn, false),
                Out::Close { conn, why } => {
                    debug!(?conn, why, "closing a connection");
                    if let Some(mut connection) = self.conns.remove(&conn) {
                        connection.flush(conn, &self.inbox);
                    }
                }
                Out::Read { id, read } => {
                    self.reads.push_back((id, read));
                    self.read_on();
                }
                // A caller that went away is told nothing.
                Out::Answer { client, answer } => {
                    if let Some(Caller::Write(caller, asked)) = self.callers.remove(&client) {
                        if answer.is_ok() {
                            self.replica.write_done(self.clock.now().since(asked));
                        }
                        let _ = caller.send(answer);
                    }
                }
                Out::Reply { client, reply } => {
                    if let Some(Caller::Read(caller)) = self.callers.remove(&client) {
                        let _ = caller.send(reply);
                    }
                }
                Out::Lane(errand) => self.lane.submit(errand),
                Out::BeginAnew { why } => self.anew = Some(Anew::Damaged(why)),
                Out::StartOver => self.anew = Some(Anew::StartOver),
                Out::TooOld { why } => {
                    return Err(Fatal(format!("in {}: {why}", self.config.directory.display())));
                }
                Out::Fatal { why } => return Err(Fatal(why)),
                Out::Stopped => self.stopped = true,
            }
        }
        let mut slow = false;
        for conn in std::mem::take(&mut self.dirty) {
            if let Some(connection) = self.conns.get_mut(&conn) {
                connection.dirty = false;
                connection.flush(conn, &self.inbox);
                slow |= connection.unsent_bytes() > 0;
            }
        }
        if slow {
            self.bound_unsent();
        }
        for (id, job) in jobs {
            self.disk.submit(id, job);
        }
        Ok(())
    }

    fn read_on(&mut self) {
        while self.reading < READS_AT_ONCE {
            let Some((id, read)) = self.reads.pop_front() else { return };
            self.reading += 1;
            let (mut files, inbox) = (self.files.clone(), self.inbox.clone());
            tokio::task::spawn_blocking(move || {
                let result = read.run(&mut files);
                inbox.put(Event::Read(id, result));
            });
        }
    }

    fn send(&mut self, conn: ConnId, frame: quorate_wire::Frame) {
        let Some(connection) = self.conns.get_mut(&conn) else { return };
        if !connection.push(frame) {
            self.cut_off(conn);
            return;
        }
        if !std::mem::replace(&mut connection.dirty, true) {
            self.dirty.push(conn);
        }
    }

    /// Many slow readers together hold no more than a few do.
    fn bound_unsent(&mut self) {
        let mut all: usize = self.conns.values().map(Connection::unsent_bytes).sum();
        while all > net::ALL_UNSENT_BYTES_MAX {
            let most = self.conns.iter().max_by_key(|(_, connection)| connection.unsent_bytes());
            let Some((conn, bytes)) = most.map(|(conn, most)| (*conn, most.unsent_bytes())) else {
                return;
            };
            self.cut_off(conn);
            all -= bytes;
        }
    }

    fn cut_off(&mut self, conn: ConnId) {
        warn!(?conn, "a peer reads too slowly and is cut off");
        self.conns.remove(&conn);
        self.replica.on_closed(self.clock.now(), conn);
    }

    fn pause(&mut self, conn: ConnId, paused: bool) {
        if let Some(connection) = self.conns.get_mut(&conn) {
            connection.pause(paused);
        }
    }
}

/// Reads the directory, and starts the threads that work on it.
fn begin<M: Machine + Send + 'static>(
    config: &Config,
    address: SocketAddr,
    files: &OsDisk,
    machine: M,
    clock: Clock,
    inbox: &Inbox,
) -> Result<(Replica<M>, DiskThread, LaneThread<M>), StartError> {
    let own = match &config.advertised {
        Some(told) => (told.host.clone(), told.port),
        None => (config.bind.host.clone(), address.port()),
    };
    let own = Endpoint { listener: config.listener.clone(), host: own.0, port: own.1 };
    let Started { replica, store, disk, notes } =
        start(config, own, files.clone(), machine, seed(config), clock.now())?;
    for note in notes {
        let directory = config.directory.display();
        match note.is_damage() {
            true => error!(%directory, "{note}"),
            false => warn!(%directory, "{note}"),
        }
    }
    let thread = |source| StartError::Thread { source };
    let lane = Lane::new(&disk, &log_options(config).partition);
    let disk = DiskThread::start(store, disk, inbox.clone()).map_err(thread)?;
    Ok((replica, disk, LaneThread::start(lane, inbox.clone()).map_err(thread)?))
}

/// An answer holds at most what we asked for, of the log or of a snapshot, or one batch that is
/// larger; Kafka's largest is 8 MiB.
fn response_limit(config: &Config) -> usize {
    let asked = config.fetch_max_bytes.max(config.snapshot_max_bytes);
    (asked as usize).max(8 << 20) * 2
}

/// Differs between nodes and between starts; only jitter depends on it.
fn seed(config: &Config) -> u64 {
    let id = config.id.map_or(0, |id| u64::from(id.0));
    let Time(start) = Time(clock::wall_ms() as u64);
    start.rotate_left(20) ^ id.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(std::process::id())
}
