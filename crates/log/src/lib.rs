//! The log of a partition: record batches, segments, the files beside them, and recovery.
//!
//! Two halves, joined by plain values. [`Log`] lives with the replica: it knows marks and
//! positions, keeps the newest batches, and turns each change into a [`Job`]. [`Store`] lives on
//! the disk thread and carries jobs out on a [`Disk`]. [`recover()`] opens what they left, after
//! any crash. docs/FORMATS.md shows every file byte for byte. Nothing here knows of elections or
//! leaders beyond the numbers it stores, and only `os_disk.rs` touches the operating system.

mod back_up;
mod batch;
mod bootstrap_file;
mod builder;
mod claims;
mod cleaner;
mod cleaner_checkpoint;
mod codec;
mod cold;
mod control;
mod control_text;
mod disk;
mod dump;
mod election_file;
mod empty;
mod epoch_file;
mod error;
mod file;
mod follow;
mod format;
mod index;
mod index_files;
mod job;
mod json;
mod log;
mod log_cleaning;
mod log_snapshots;
mod memory_disk;
mod memory_inode;
mod meta_file;
mod must_reach_file;
mod mutants;
mod note;
mod numbers;
mod numbers_file;
mod offset_map;
mod os_disk;
mod overlay;
mod partial_snapshot;
mod partition_file;
mod reader;
mod recopy;
mod record;
mod recover;
mod recovered_file;
mod recovery;
mod reserve;
mod round;
mod salvage;
mod scan;
mod segment;
mod set_aside;
mod set_away;
mod sift;
mod siphash;
mod snapshot;
mod snapshot_name;
mod snapshot_reader;
mod snapshot_shelf;
mod snapshot_writer;
mod start_over;
mod store;
mod swap_files;
mod synced_file;
mod tail;
mod take_up;
mod text;
mod varint;
mod verify;

pub use back_up::back_up;
pub use batch::{BadBatch, Batch, Batches, Fault, HEADER_BYTES, Header};
pub use builder::BatchBuilder;
pub use cleaner::{CleanStep, Cleaner};
pub use codec::{Codec, INFLATED_MAX_BYTES};
pub use cold::{ColdRead, read_cold};
pub use control::{ControlType, control_batch};
pub use control_text::ControlText;
pub use disk::{Disk, Mode, Operation};
pub use dump::{Fact, FileKind, dump, files, show_records};
pub use election_file::Election;
pub use epoch_file::EpochTable;
pub use error::Error;
pub use follow::{Follow, Followed};
pub use format::{
    Founding, begin_log, complete_format, format, found, found_beside, is_without_log, lost_or_new,
    read_topic,
};
pub use index::{IndexBytes, OffsetEntry, TimeEntry};
pub use job::{Adopt, Append, Carry, Cut, Job, Roll, Swap, Trim, Truncate};
pub use log::{Log, Read};
pub use log_snapshots::{Retention, SnapshotRefusal};
pub use memory_disk::{MemoryDisk, MemoryFile};
pub use meta_file::Meta;
#[cfg(mutants)]
pub use mutants::Mutant;
pub use note::Note;
pub use numbers::{Came, Reading};
pub use os_disk::{Lock, LockError, OsDisk};
pub use overlay::{Overlay, OverlayFile};
pub use partial_snapshot::{PartialSnapshot, discard_checked};
pub use record::{BadRecord, Headers, RecordFault, RecordView, Records};
pub use recover::recover;
pub use recovered_file::{
    RECOVERY_FILES, Salvage, begin_recovery, finish_recovery, recoveries, show_recovered,
    unfinished_recovery,
};
pub use recovery::Recovery;
pub use reserve::{Reserved, ReservedFile, part_for_votes};
pub use round::{CleanNow, CleanSettings, CleanedGroup, Round, Swept, ToClean};
pub use salvage::{is_left_over, salvage};
pub use set_aside::{Damage, Place, repair, set_aside};
pub use set_away::remove_deleted;
pub use snapshot::{ChunkRead, Head, Snapshot, read_chunk};
pub use snapshot_name::{SnapshotName, snapshot_name};
pub use snapshot_reader::{SnapshotReader, check_snapshot, glance_at_snapshot};
pub use snapshot_shelf::set_aside_snapshot;
pub use snapshot_writer::{SnapshotRecord, SnapshotWriter, kept_offset};
pub use start_over::start_over;
pub use store::{Store, Written};
pub use verify::{Finding, Remedy, verify};

/// How a log is laid out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The partition's directory under the disk's root.
    pub partition: String,
    /// A segment that holds batches and would become larger is followed by a new one.
    pub segment_bytes: u64,
    /// So does one whose first batch is older than that, in milliseconds, than the batch to come.
    pub segment_ms: u64,
    /// Bytes between two entries of a segment's indexes, and what a cold read skips at most.
    pub index_interval_bytes: u64,
    /// How much of the newest batches stays in memory once durable.
    pub tail_bytes: u64,
    /// The rule that the store breaks.
    #[cfg(mutants)]
    pub mutant: Option<Mutant>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            partition: "__cluster_metadata-0".to_owned(),
            segment_bytes: 1 << 30,
            segment_ms: 7 * 24 * 3_600 * 1_000,
            index_interval_bytes: 4_096,
            tail_bytes: 16 << 20,
            #[cfg(mutants)]
            mutant: None,
        }
    }
}
