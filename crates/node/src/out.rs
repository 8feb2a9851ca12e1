//! What a replica asks of whoever drives it, and the names that the two use.
//!
//! Plain values: the runtime turns them into sockets and threads, the simulator into events.

use crate::config::HostPort;
use crate::handle::Error;
use crate::lane::Errand;
use bytes::Bytes;
use quorate_base::Offset;
use quorate_log::{ChunkRead, ColdRead, Disk, Job, read_chunk, read_cold};
use quorate_machine::{Answer, Machine};
use quorate_raft::WriteId;
use quorate_wire::Frame;

/// A connection, accepted or made; chosen by the driver, never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ConnId(pub u64);

/// A way to a peer that the replica wants to be connected; lives as long as the replica.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LinkId(pub u32);

/// A waiting caller in this process; chosen by the driver, never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ClientId(pub u64);

/// A read of records that are no longer in memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ReadId(pub u64);

/// Why a connection could not be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectError {
    /// Nobody listens there: the peer's process is gone.
    Refused,
    /// No answer, no route, no such name.
    Unreachable,
}

/// A read that needs no place in any order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reading {
    /// Batches of the log.
    Records(ColdRead),
    /// A piece of a snapshot, for a replica that copies it.
    Piece(ChunkRead),
}

impl Reading {
    /// Reads; blocks on the disk.
    pub fn run<D: Disk>(&self, disk: &mut D) -> Result<Bytes, BadRead> {
        let read = match self {
            Reading::Records(plan) => read_cold(disk, plan),
            Reading::Piece(plan) => read_chunk(disk, plan),
        };
        read.map_err(BadRead::from)
    }
}

/// Why records or a piece of a snapshot could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadRead {
    /// The bytes are not those that were written; otherwise the disk did not give any.
    pub damaged: bool,
    /// Where and how.
    pub why: String,
}

impl From<quorate_log::Error> for BadRead {
    fn from(error: quorate_log::Error) -> BadRead {
        let damaged = matches!(error, quorate_log::Error::Damaged { .. });
        // What is to be done about damage, the node knows.
        let why = if damaged { error.fault() } else { error.to_string() };
        BadRead { damaged, why }
    }
}

/// Something the driver must do.
pub enum Out<M: Machine> {
    /// Send these bytes. The order of frames on one connection is the order here.
    Frame {
        /// Where.
        conn: ConnId,
        /// What, its length prefix included.
        frame: Frame,
    },
    /// Connect, and report with `on_connect`.
    Connect {
        /// What to report.
        link: LinkId,
        /// Where to; the name is to be resolved now.
        to: HostPort,
    },
    /// Read no more from this connection: what it asked for is not yet done.
    Pause {
        /// Which.
        conn: ConnId,
    },
    /// Read from it again.
    Resume {
        /// Which.
        conn: ConnId,
    },
    /// Close; `on_closed` is not to be called for it.
    Close {
        /// Which.
        conn: ConnId,
        /// Why, for one log line.
        why: String,
    },
    /// Do this on the log lane, in order, and report the newest one that is durable.
    Disk {
        /// The number to report.
        id: WriteId,
        /// What to do.
        job: Job,
    },
    /// Read from the disk and report with `on_read`.
    Read {
        /// What to report.
        id: ReadId,
        /// What to read.
        read: Reading,
    },
    /// A caller's write is decided.
    Answer {
        /// Whose.
        client: ClientId,
        /// How.
        answer: Result<Answer, Error>,
    },
    /// A caller's read is answered, from the state with this end.
    Reply {
        /// Whose.
        client: ClientId,
        /// With what.
        reply: Result<(M::Reply, Offset), Error>,
    },
    /// Do this on the snapshot lane, in order, and report with `on_lane` what came of it.
    Lane(Errand<M>),
    /// Records on this node's disk are not as they were written, and others have them: begin anew
    /// on the same directory, as after a restart of the process, and read all of it.
    BeginAnew {
        /// What is damaged.
        why: String,
    },
    /// The log may hold what was deleted long ago: empty it ([`quorate_log::start_over`]), and then
    /// as with `BeginAnew`.
    StartOver,
    /// The node cannot go on: the store has a format level that its build does not speak. What it
    /// has on its disk is as it should be.
    TooOld {
        /// Where, what it means, and which build is needed.
        why: String,
    },
    /// The node cannot go on.
    Fatal {
        /// What happened, what it means.
        why: String,
    },
    /// Leadership is handed over as far as it will be: stop.
    Stopped,
}
