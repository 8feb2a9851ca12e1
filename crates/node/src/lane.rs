//! The snapshot lane: work on snapshot files, in order but for removals, which come first; no
//! commit, vote or answer waits for it.
//!
//! Here is what the replica asks of it and what it is told; both are plain values, so that the
//! runtime can do the work on a thread of its own and the simulator at times of the world.

use bytes::Bytes;
use quorate_base::{FormatLevel, OffsetEpoch};
use quorate_log::{Head, Snapshot};
use quorate_machine::Image;
use quorate_raft::Call;

/// Something to do with snapshots.
pub enum Errand<M> {
    /// Keep a piece of a snapshot that is being downloaded. With the last byte all of it is
    /// checked.
    Store {
        /// The answer that brought it.
        source: Call,
        /// Which snapshot.
        id: OffsetEpoch,
        /// Where in it the piece begins: where the one before ended. 0 begins anew.
        position: u64,
        /// The piece.
        bytes: Bytes,
        /// Whether it is the last one.
        last: bool,
        /// Whether it may use room that is put aside.
        reserve: bool,
    },
    /// Forget what there is of a download.
    Abandon {
        /// Which.
        id: OffsetEpoch,
    },
    /// Write a snapshot of this node's machine.
    Write {
        /// Its id: where the machine stood.
        id: OffsetEpoch,
        /// The timestamp of the last batch in it, Unix milliseconds.
        timestamp_ms: i64,
        /// What it says of version and voters.
        head: Head,
        /// The state.
        image: Image,
        /// Whether it may use room that is put aside.
        reserve: bool,
    },
    /// Make a machine of a snapshot.
    Load {
        /// Which.
        id: OffsetEpoch,
        /// An empty machine.
        machine: Box<M>,
        /// The highest format level that it may have.
        newest: FormatLevel,
    },
    /// Read a snapshot that others copy, and see whether it is what was written.
    Check {
        /// Which.
        id: OffsetEpoch,
    },
    /// Remove files that were renamed for removal. Those that are gone already are no error.
    Remove {
        /// Their paths.
        paths: Vec<String>,
    },
}

/// What came of an errand.
pub enum Report<M> {
    /// A piece of a download, and all before it, is on disk.
    Stored {
        /// The answer that brought it.
        source: Call,
        /// The snapshot, once it is whole and checked, and the records that follow its header.
        whole: Option<(Snapshot, Head)>,
    },
    /// A download cannot be kept, or is no snapshot. Nothing is left of it.
    Spoiled {
        /// The answer that brought its last piece.
        source: Call,
        /// Why, for one log line.
        why: String,
    },
    /// A snapshot was written and is durable.
    Written(Snapshot),
    /// It could not be written; nothing is left of it.
    NotWritten {
        /// Which.
        id: OffsetEpoch,
        /// Why, for one log line.
        why: String,
    },
    /// A machine holds what the snapshot says.
    Loaded {
        /// Which.
        id: OffsetEpoch,
        /// The timestamp of the last batch in it.
        timestamp_ms: i64,
        /// The machine.
        machine: Box<M>,
    },
    /// The snapshot has a format level that is higher than the machine may have.
    TooNew {
        /// Which.
        id: OffsetEpoch,
        /// The level.
        level: FormatLevel,
    },
    /// A snapshot that others copy was read.
    Checked {
        /// Which.
        id: OffsetEpoch,
        /// Why it cannot be read, if so, for one log line.
        fault: Option<String>,
    },
    /// The snapshot cannot be read.
    Unreadable {
        /// Which.
        id: OffsetEpoch,
        /// Why, for one log line.
        why: String,
    },
}
