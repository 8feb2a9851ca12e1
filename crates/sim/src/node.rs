//! One node of the world: its disk, its clock, and while it is up its replica and the work its disk
//! has still to do. Starts through the same code as the server; what the server has threads for
//! happens here when the world says so.

use crate::book::Book;
use crate::clients::Broken;
use crate::options::Options;
use crate::seats::{Seats, first_directory, head};
use bytes::Bytes;
use quorate_base::{FormatLevel, Offset, ReplicaId, ReplicaKey, Rng, Span, Time, Uuid};
use quorate_log::{
    Disk, Founding, Head, Job, Log, MemoryDisk, Meta, Mode, Read, Reserved, Store, found, read_cold,
};
use quorate_machine::{Machine, NEWEST_FORMAT_LEVEL};
use quorate_node::config::{Cleanup, Config, Generation, HostPort, Voter};
use quorate_node::start::{Started, log_options, start};
use quorate_node::{ClientId, Lane, Replica};
use quorate_raft::{Endpoint, WriteId};
use quorate_wire::message::Listener;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Unix milliseconds at the beginning of the world.
const EPOCH_MS: u64 = 1_700_000_000_000;
/// Port of every node; its host name tells which.
const PORT: u16 = 9093;

/// A clock that starts with its process and runs at its own rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    booted: Time,
    /// Thousandths.
    rate: u64,
    /// How far it jumped.
    ahead: Span,
}

impl Clock {
    /// What it shows at a time of the world.
    pub fn local(self, world: Time) -> Time {
        Time(1 + world.since(self.booted).0 * self.rate / 1_000) + self.ahead
    }

    /// The first time of the world at which it shows this.
    pub fn world(self, local: Time) -> Time {
        match local {
            Time::NEVER => Time::NEVER,
            Time(us) => {
                let ran = us.saturating_sub(1 + self.ahead.0);
                self.booted + Span((ran * 1_000).div_ceil(self.rate))
            }
        }
    }

    /// It shows a later time from now on.
    pub fn jump(&mut self, by: Span) {
        self.ahead = self.ahead + by;
    }
}

/// Why a disk could not do its work.
pub(crate) struct Broke {
    /// Its files are not as they were written.
    pub damaged: bool,
    pub why: String,
}

/// A running process.
pub(crate) struct Running<M: Machine> {
    pub replica: Replica<M>,
    store: Store<Reserved<MemoryDisk>>,
    reserve: Reserved<MemoryDisk>,
    /// What the replica was told of its disk.
    pub full: bool,
    pub lane: Lane<M, MemoryDisk>,
    /// Not yet begun.
    pub queued: Vec<(WriteId, Job)>,
    /// What the disk is at.
    working: Vec<(WriteId, Job)>,
    pub clock: Clock,
    /// When the next turn is planned.
    pub turn_at: Option<Time>,
    /// A shutdown was asked for.
    pub stopping: bool,
    /// The versions that this process speaks.
    pub speaks: Generation,
    /// The newest format level that it speaks.
    pub newest_level: FormatLevel,
    /// Requests of clients that it has not answered, and until when it may take by its clock.
    pub asked: BTreeMap<ClientId, Time>,
}

/// A node, up or down.
pub(crate) struct Node<M: Machine> {
    pub disk: MemoryDisk,
    config: Config,
    pub running: Option<Running<M>>,
    pub life: u32,
    /// Files that its store has renamed for removal.
    pub deleted: Vec<String>,
    pub paused_until: Time,
    /// Added to each run of the disk, by the faults in force.
    pub slow: Vec<Span>,
    /// The rooms that faults in force leave on its disk, and their steps.
    pub full: Vec<(usize, u64)>,
    /// Its disk was filled again while its reserve was not whole: others took what it gave up.
    pub robbed: bool,
    /// A call of its disk will fail, and then it is down for so long.
    pub broken: Option<Span>,
    /// It does not come back.
    pub out: bool,
    /// A bit flipped on its disk, and no start has looked since.
    pub rotten: bool,
    /// A start has begun to repair its log; it may have been cut short.
    pub mending: bool,
    /// Its directory was formatted anew at least once.
    pub wiped: bool,
    /// The id of its directory.
    directory: Uuid,
    /// Milliseconds between its time of day and the world's.
    pub wall_ahead_ms: i64,
    index: usize,
    rate: u64,
    pub rng: Rng,
}

/// The newest format level that a node speaks at first.
fn first_level(options: &Options, index: usize) -> FormatLevel {
    match (options.older | options.level_zero) >> index & 1 {
        1 => FormatLevel::ZERO,
        _ => NEWEST_FORMAT_LEVEL,
    }
}

/// The host name of a node.
fn host(node: usize) -> String {
    format!("n{}", node + 1)
}

/// How the host name of a node ends that has moved.
const MOVED: &str = "b";

/// The node of a host name.
pub(crate) fn node_of(at: &HostPort) -> usize {
    let name = at.host.strip_suffix(MOVED).unwrap_or(&at.host);
    let number = name.strip_prefix('n').and_then(|number| number.parse::<usize>().ok());
    number.expect("all endpoints are of this world") - 1
}

impl<M: Machine> Node<M> {
    /// A node with a formatted disk.
    pub fn new(
        index: usize,
        options: &Options,
        mut rng: Rng,
        #[cfg(mutants)] mutant: Option<quorate_node::Mutant>,
    ) -> Node<M> {
        let at = |node: usize| HostPort { host: host(node), port: PORT };
        let id = ReplicaId(index as u32 + 1);
        let voters = (0..options.voters as usize)
            .map(|node| Voter { id: ReplicaId(node as u32 + 1), at: at(node) })
            .collect();
        let everyone = options.voters + options.observers;
        let voter = (index as u64) < options.voters;
        let anonymous = !voter && index as u64 + options.anonymous >= everyone;
        let bootstrap: Vec<HostPort> = match options.bootstrap {
            _ if options.dynamic == 1 => (0..everyone as usize).map(at).collect(),
            0 => Vec::new(),
            1 | 2 => (0..everyone as usize).step_by(2).map(at).collect(),
            _ => vec![at(0)],
        };
        let asks = options.dynamic == 1 || options.bootstrap == 2 && !voter;
        let voters = if asks { Vec::new() } else { voters };
        let config = Config {
            bootstrap,
            segment_ms: options.segment_ms,
            election_timeout: Span::ms(options.election_ms),
            fetch_timeout: Span::ms(options.fetch_ms),
            election_backoff_max: Span::ms(options.election_ms),
            request_timeout: Span::ms(options.request_ms),
            fetch_max_bytes: options.fetch_bytes as u32,
            segment_bytes: options.segment_bytes,
            tail_max_bytes: options.tail_bytes,
            uncommitted_max_bytes: options.uncommitted_bytes,
            unstored_max_bytes: options.unstored_bytes,
            reserve_bytes: options.reserve_bytes,
            snapshot_bytes: options.snapshot_bytes,
            snapshot_interval: Span::ms(options.snapshot_ms),
            snapshot_max_bytes: options.piece_bytes as u32,
            cleanup: if options.compact == 1 { Cleanup::Compact } else { Cleanup::Delete },
            retention_bytes: Some(options.retention_bytes),
            speaks: match options.older >> index & 1 {
                1 => Generation::BeforePreVotes,
                _ => Generation::Now,
            },
            newest_level: first_level(options, index),
            // An older one has no such setting.
            auto_join: options.dynamic == 1 && options.auto_join == 1 && !anonymous,
            never_lead: voter && (options.never_lead & !options.older) >> index & 1 == 1,
            #[cfg(mutants)]
            mutant,
            ..Config::new((!anonymous).then_some(id), PathBuf::new(), voters, at(index))
        };
        let rate = 1_000 - options.drift + rng.below(2 * options.drift + 1);
        let mut node = Node {
            disk: MemoryDisk::default(),
            config,
            running: None,
            life: 0,
            deleted: Vec::new(),
            paused_until: Time(0),
            slow: Vec::new(),
            full: Vec::new(),
            robbed: false,
            broken: None,
            out: false,
            rotten: false,
            mending: false,
            wiped: false,
            directory: first_directory(index),
            wall_ahead_ms: 0,
            index,
            rate,
            rng,
        };
        let seats = Seats::new(options);
        let founders = (seats.dynamic && voter)
            .then(|| head(seats.behind(&[]), |id| node.listener_of(id.0 as usize - 1)));
        node.format(first_directory(index), founders.unwrap_or_default());
        node
    }

    /// A new, formatted disk. Founders know the first voters.
    pub fn format(&mut self, directory: Uuid, voters: Head) {
        self.disk = MemoryDisk::default();
        self.directory = directory;
        let meta = Meta {
            cluster: "simulated".to_owned(),
            node: ReplicaId(self.index as u32 + 1),
            directory: Some(directory),
        };
        let partition = log_options(&self.config).partition;
        let topic = self.config.topic_id;
        let founding = Founding { voters, ..Founding::default() };
        found(&mut self.disk, &partition, &meta, topic, &founding).expect("the disk is new");
    }

    /// Who it is to others; one without `node.id` is nobody's.
    pub fn key(&self) -> ReplicaKey {
        ReplicaKey::new(ReplicaId(self.index as u32 + 1), Some(self.directory))
    }

    /// Whether it has a `node.id`, and so may become a voter.
    pub fn has_id(&self) -> bool {
        self.config.id.is_some()
    }

    /// Where a node listens.
    pub fn listener_of(&self, node: usize) -> Listener {
        let own = self.config.bind.host.clone();
        let host = if node == self.index { own } else { host(node) };
        let name = self.config.listener.clone();
        Listener { name, host, port: PORT, ..Listener::default() }
    }

    /// `controller.quorum.fetch.timeout.ms`
    pub fn fetch_timeout(&self) -> Span {
        self.config.fetch_timeout
    }

    /// The rule that it breaks.
    pub fn mutant(&self) -> Broken {
        #[cfg(mutants)]
        return self.config.mutant;
        #[cfg(not(mutants))]
        None
    }

    /// Starts the process on whatever the disk holds. An error is what the server would end with.
    pub fn start(&mut self, now: Time, machine: M) -> Result<(), String> {
        let clock = Clock { booted: now, rate: self.rate, ahead: Span::ZERO };
        let bind = &self.config.bind;
        let own = Endpoint {
            listener: self.config.listener.clone(),
            host: bind.host.clone(),
            port: bind.port,
        };
        let (disk, seed) = (self.disk.clone(), self.rng.next());
        let Started { replica, store, disk: reserve, notes: _ } =
            start(&self.config, own, disk, machine, seed, clock.local(now))
                .map_err(|error| error.to_string())?;
        let lane = Lane::new(&reserve, &log_options(&self.config).partition);
        self.life += 1;
        self.running = Some(Running {
            replica,
            store,
            full: reserve.is_full(),
            reserve,
            lane,
            queued: Vec::new(),
            working: Vec::new(),
            clock,
            turn_at: None,
            stopping: false,
            speaks: self.config.speaks,
            newest_level: self.config.newest_level,
            asked: BTreeMap::new(),
        });
        Ok(())
    }

    /// Its next process will be as new as any. False if the present one, or without one the last,
    /// already was meant to be.
    pub fn upgrade(&mut self) -> bool {
        let newest = std::mem::replace(&mut self.config.newest_level, NEWEST_FORMAT_LEVEL);
        let speaks = std::mem::replace(&mut self.config.speaks, Generation::Now);
        (speaks, newest) != (Generation::Now, NEWEST_FORMAT_LEVEL)
    }

    /// Its next process speaks no format level. False if that was so before.
    pub fn downgrade(&mut self) -> bool {
        std::mem::take(&mut self.config.newest_level) != FormatLevel::ZERO
    }

    /// The newest format level that its next process speaks.
    pub fn newest_level(&self) -> FormatLevel {
        self.config.newest_level
    }

    /// Its next process has another host name.
    pub fn moves(&mut self) {
        let host = &mut self.config.bind.host;
        *host = match host.strip_suffix(MOVED) {
            Some(first) => first.to_owned(),
            None => format!("{host}{MOVED}"),
        };
    }

    /// Whether it leaves leading to others.
    pub fn never_leads(&self) -> bool {
        self.config.never_lead
    }

    /// Its next process may lead.
    pub fn may_lead(&mut self) {
        self.config.never_lead = false;
    }

    /// `controller.quorum.request.timeout.ms`, at which connecting gives up as well.
    pub fn connect_timeout(&self) -> Span {
        self.config.request_timeout
    }

    /// Begins queued disk work, if there is some and the disk is free. True if it did. Mostly all
    /// of it; the disk's thread may also wake up before the last job was handed to it.
    pub fn begin_disk(&mut self) -> bool {
        let Some(running) = &mut self.running else { return false };
        if !running.working.is_empty() || running.queued.is_empty() {
            return false;
        }
        let count = running.queued.len();
        let taken =
            if self.rng.one_in(4) { 1 + self.rng.below(count as u64) as usize } else { count };
        running.working.extend(running.queued.drain(..taken));
        true
    }

    /// The disk work under way is done: the newest write that is durable now.
    pub fn finish_disk(&mut self) -> Result<Option<WriteId>, Broke> {
        let Some(running) = &mut self.running else { return Ok(None) };
        let newest = running.working.last().map(|(id, _)| *id);
        let mut jobs: Vec<Job> = running.working.drain(..).map(|(_, job)| job).collect();
        let broke = |error: quorate_log::Error| Broke {
            damaged: error.is_of_the_files(),
            why: error.to_string(),
        };
        let written = running.store.run(&mut jobs).map_err(broke)?;
        self.deleted.extend(written.deleted);
        Ok(newest)
    }

    /// The room on its disk is about to be taken anew, also what the reserve gave up for its own
    /// writes.
    pub fn note_theft(&mut self) {
        self.robbed |= match &self.running {
            Some(running) => running.reserve.held_bytes() < self.config.reserve_bytes,
            None => !self.full.is_empty(),
        };
    }

    /// Its disk became full since this was asked.
    pub fn fills(&mut self) -> bool {
        let Some(running) = &mut self.running else { return false };
        let full = running.reserve.is_full();
        full && !std::mem::replace(&mut running.full, true)
    }

    /// Looks whether its disk, which was full, has room again.
    pub fn refill(&mut self) -> Result<bool, String> {
        let Some(running) = &mut self.running else { return Ok(false) };
        running.full = !running.reserve.refill().map_err(|error| error.to_string())?;
        Ok(!running.full)
    }

    /// The process ends in an orderly way: what it handed to its disk is done first.
    pub fn finish_all(&mut self) -> Result<(), Broke> {
        self.finish_disk()?;
        while self.begin_disk() {
            self.finish_disk()?;
        }
        self.running = None;
        self.disk.kill();
        Ok(())
    }

    /// The process dies, and with `power` all that was not synced may go. The work that the disk
    /// was at is cut short anywhere.
    pub fn die(&mut self, power: bool) {
        let Some(mut running) = self.running.take() else { return };
        let mut jobs: Vec<Job> = running.working.drain(..).map(|(_, job)| job).collect();
        if !jobs.is_empty() && !self.rng.one_in(3) {
            let bytes: usize = jobs
                .iter()
                .map(|job| match job {
                    Job::Append(append) => append.bytes.len() + 20,
                    Job::Truncate(_) | Job::Adopt(_) | Job::Trim(_) | Job::Roll(_) => 200,
                    Job::Swap(_) | Job::Carry(_) => 300,
                    Job::Remove { .. } => 2,
                    Job::Replace { bytes, .. } => bytes.len() + 5,
                })
                .sum();
            self.disk.limit_power(Some(self.rng.below(bytes as u64 + 40)));
            // How far it came is the disk's to say at the next start.
            let _ = running.store.run(&mut jobs);
        }
        match power {
            true => self.disk.crash(&mut self.rng),
            false => self.disk.kill(),
        }
    }

    /// The faults of its disk are in force, or not any more. A restart of the process changes
    /// nothing.
    pub fn limit_room(&self) {
        self.disk.limit_room(self.full.iter().map(|(_, room)| *room).min());
    }

    /// Where the segments on its disk begin.
    fn segments(&self) -> Vec<Offset> {
        let partition = log_options(&self.config).partition;
        let names = self.disk.clone().list(&partition).expect("the disk does not fail");
        let base = |name: &String| name.strip_suffix(".log")?.parse().ok().map(Offset);
        names.iter().filter_map(base).collect()
    }

    /// Whether it has noted that its log must get somewhere before it may vote.
    pub fn must_reach(&self) -> bool {
        let partition = log_options(&self.config).partition;
        self.disk.contents(&format!("{partition}/quorate-must-reach")).is_some()
    }

    /// Flips one bit of a snapshot, and says which; `None` if there is no snapshot.
    pub fn rot_snapshot(&self, at: u64) -> Option<String> {
        let partition = log_options(&self.config).partition;
        let names = self.disk.clone().list(&partition).expect("the disk does not fail");
        let names: Vec<String> =
            names.into_iter().filter(|name| name.ends_with(".checkpoint")).collect();
        // Nobody else has what the bootstrap snapshot says for certain: damage there ends the
        // start.
        let names: Vec<String> =
            names.into_iter().filter(|name| !name.starts_with("00000000000000000000-")).collect();
        let count = names.len() as u64;
        let name = names.into_iter().nth(at.checked_rem(count)? as usize)?;
        let path = format!("{partition}/{name}");
        let bits = self.disk.contents(&path).map_or(0, |bytes| bytes.len() as u64 * 8);
        let bit = (at / count).checked_rem(bits)?;
        self.disk.flip_bit(&path, (bit / 8) as usize, (bit % 8) as u32);
        Some(name)
    }

    /// Makes the synced mark durable; false if there is none.
    pub fn sync_mark(&self) -> bool {
        let mut disk = self.disk.clone();
        let path = format!("{}/quorate-synced", log_options(&self.config).partition);
        let mark = disk.open(&path, Mode::Write);
        mark.is_ok_and(|mark| disk.sync(&mark).is_ok())
    }

    /// Flips one bit of the batch with this place in the book.
    pub fn rot(&mut self, book: &Book, at: usize, bit: u64) {
        let partition = log_options(&self.config).partition;
        let disk = self.disk.clone();
        let entry = &book.entries[at];
        let base = self.segments().into_iter().filter(|base| *base <= entry.base).max();
        let base = base.expect("a batch lies in a segment");
        let before = book.entries[..at].iter().filter(|entry| entry.base >= base);
        let position: usize = before.map(|entry| entry.bytes.len()).sum();
        let path = format!("{partition}/{:020}.log", base.0);
        let bits = entry.bytes.len() as u64 * 8;
        let bit = bit % bits;
        disk.flip_bit(&path, position + (bit / 8) as usize, (bit % 8) as u32);
    }

    /// Time of day as this node has it.
    pub fn wall_ms(&self, local: Time) -> i64 {
        (EPOCH_MS + local.0 / 1_000) as i64 + self.wall_ahead_ms
    }

    /// All batches on a copy of the disk, read and checked as any other process would.
    pub fn read_files(&self) -> Result<(quorate_log::Recovery, Vec<Bytes>), String> {
        let options = log_options(&self.config);
        let mut disk = self.disk.fork();
        disk.kill();
        let recovery =
            quorate_log::recover(&mut disk, &options).map_err(|error| error.to_string())?;
        let log = Log::open(options, &recovery);
        let (mut at, mut parts) = (log.start(), Vec::new());
        while at < log.end() {
            let Read::Cold(plan) = log.read(at, log.end(), 1 << 20) else {
                return Err(format!("nothing to read at {at}, the log ends at {}", log.end()));
            };
            let bytes = read_cold(&mut disk, &plan).map_err(|error| error.to_string())?;
            let last = quorate_log::Batches::checked_before(bytes.clone()).last();
            let last = last.ok_or_else(|| format!("no batch at {at}"))?;
            at = last.end();
            parts.push(bytes);
        }
        Ok((recovery, parts))
    }
}
