//! What recovery and repair mended, for one line each of the node's log.
//!
//! A note says what was found, what was done, and that it needs no hand; what needs one is an
//! [`crate::Error`].

use crate::snapshot_name::DAMAGED;
use quorate_base::{Offset, OffsetEpoch};
use std::fmt;

/// Something that recovery mended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Note {
    /// The last write was cut short by a crash. Nobody was promised what it held.
    TornTail {
        /// The segment.
        path: String,
        /// Where it was cut.
        position: u64,
        /// How much went.
        bytes: u64,
        /// The end of the log now.
        end: Offset,
        /// What was wrong with the first batch that went.
        fault: crate::Fault,
    },
    /// The epoch table did not follow the log and was written anew from it.
    EpochsRebuilt {
        /// The file.
        path: String,
        /// What was wrong with it.
        why: String,
    },
    /// A file that a crash left half written was removed.
    LeftOver {
        /// The file.
        path: String,
    },
    /// An index said what the log does not. One that only lagged is completed without a word.
    IndexRebuilt {
        /// The file.
        path: String,
        /// The first byte that was wrong.
        position: u64,
        /// What belongs there.
        expected: String,
        /// What was there.
        found: String,
    },
    /// A snapshot that cannot be used was renamed; it is not needed.
    SnapshotSetAside {
        /// The file, by its old name.
        path: String,
        /// What was wrong with it.
        why: String,
    },
    /// The log was emptied behind a snapshot that is ahead of it: a download whose adoption a crash
    /// had cut short.
    Reset {
        /// The snapshot: the log begins and ends there.
        snapshot: OffsetEpoch,
        /// Where the log had ended.
        end: Offset,
    },
    /// A damaged part of the log was set aside, see [`crate::set_aside`].
    SetAside {
        /// What was wrong with it.
        why: String,
        /// What the log begins with now.
        start: Offset,
        /// Where it ends now.
        end: Offset,
        /// Where it must get again before this replica may vote or stand.
        must_reach: OffsetEpoch,
        /// The files that were kept for a human.
        kept: Vec<String>,
    },
    /// What a cleaned log says of itself was lost. Nobody else votes, so the log holds all that was
    /// ever committed, and the most that can be true of it is said.
    NumbersRebuilt {
        /// The file.
        path: String,
        /// What was wrong with it.
        why: String,
        /// The end of the log.
        end: Offset,
    },
    /// The synced mark could not be read; the log held no damage, so a new one was made.
    MarkRebuilt {
        /// The file.
        path: String,
    },
}

impl Note {
    /// Whether something was damaged that a node had written for good: a human looks at the disk.
    pub fn is_damage(&self) -> bool {
        match self {
            Note::SetAside { .. } | Note::SnapshotSetAside { .. } | Note::NumbersRebuilt { .. } => {
                true
            }
            Note::TornTail { .. }
            | Note::EpochsRebuilt { .. }
            | Note::LeftOver { .. }
            | Note::IndexRebuilt { .. }
            | Note::Reset { .. }
            | Note::MarkRebuilt { .. } => false,
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::TornTail { path, position, bytes, end, fault } => write!(
                f,
                "file={path} position={position} cut={bytes} end={end} {fault}: cut off the torn \
                 tail of the last write, which was never confirmed"
            ),
            Note::EpochsRebuilt { path, why } => {
                write!(f, "file={path} {why}: written anew from the log")
            }
            Note::LeftOver { path } => {
                write!(f, "file={path}: removed what a crash left half written")
            }
            Note::IndexRebuilt { path, position, expected, found } => write!(
                f,
                "file={path} position={position} expected {expected}, found {found}: written anew \
                 from the log"
            ),
            Note::SnapshotSetAside { path, why } => write!(
                f,
                "file={path} {why}: no whole snapshot, so it was renamed to {path}{DAMAGED} and is \
                 not used; the file may be removed"
            ),
            Note::Reset { snapshot, end } => write!(
                f,
                "snapshot={snapshot} is ahead of the log, which ended at {end}: the log begins \
                 and ends there now, as a crash had kept it from doing"
            ),
            Note::SetAside { why, start, end, must_reach, kept } => write!(
                f,
                "start={start} end={end} must-reach={must_reach} {why}: set the damaged part of the log \
                 aside, to be copied from the leader again; until the log is back at {must_reach} this \
                 node votes only for one that holds as much, and is not elected; kept {}",
                if kept.is_empty() { "nothing".to_owned() } else { kept.join(", ") }
            ),
            Note::NumbersRebuilt { path, why, end } => write!(
                f,
                "file={path} end={end} {why}: made anew with what is true in any case; observers                  read the log once more from its start"
            ),
            Note::MarkRebuilt { path } => {
                write!(f, "file={path}: unreadable, made anew; the log itself is whole")
            }
        }
    }
}
