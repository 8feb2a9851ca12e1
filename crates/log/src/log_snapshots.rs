//! The log's snapshots: which there are, where one may be made, what retention asks for, and the
//! moves of the log's start. Plans file work, does none; nothing here is on the append path.
//!
//! One rule rules: a log that does not begin at 0 has a snapshot that ends at its start or behind
//! it. So the start moves only to the end of a snapshot that is there, and the newest one stays.

use crate::job::{Adopt, Job, Trim};
use crate::segment::Segment;
use crate::snapshot_name::snapshot_name;
use crate::tail::Tail;
use crate::{ChunkRead, EpochTable, Log, Snapshot, must_reach_file};
use quorate_base::{Epoch, Offset, OffsetEpoch};
use std::fmt;

/// How much of the log and its snapshots is kept; the newest snapshot, and what follows it, always.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retention {
    /// `metadata.max.retention.bytes`: bytes of log and snapshots together; `None`: any number.
    pub bytes: Option<u64>,
    /// `metadata.max.retention.ms`: age of a snapshot's last record; `None`: any age.
    pub ms: Option<u64>,
}

impl Default for Retention {
    /// Kafka's: 100 MiB and 7 days.
    fn default() -> Retention {
        Retention { bytes: Some(100 << 20), ms: Some(7 * 24 * 3_600 * 1_000) }
    }
}

/// Why no snapshot is made at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SnapshotRefusal {
    /// It lies below the log's start. Nothing is wrong; there is a later one.
    BelowStart {
        /// The log's start.
        start: Offset,
    },
    /// There is one already. Nothing is wrong.
    Exists,
    /// Offset 0: nothing lies below it.
    Empty,
    /// What lies below it is not all on disk.
    NotDurable {
        /// What is.
        durable: Offset,
    },
    /// What lies below it is not all committed.
    NotCommitted {
        /// What is.
        committed: Offset,
    },
    /// The record before it has another epoch.
    WrongEpoch {
        /// That record's.
        expected: Epoch,
    },
    /// It lies within a batch: a follower could not go on from there.
    WithinBatch {
        /// Where that batch begins.
        base: Offset,
    },
}

impl SnapshotRefusal {
    /// Whether there is simply nothing to do, rather than a mistake of the caller's.
    pub fn is_harmless(&self) -> bool {
        match self {
            SnapshotRefusal::BelowStart { .. } | SnapshotRefusal::Exists => true,
            SnapshotRefusal::Empty
            | SnapshotRefusal::NotDurable { .. }
            | SnapshotRefusal::NotCommitted { .. }
            | SnapshotRefusal::WrongEpoch { .. }
            | SnapshotRefusal::WithinBatch { .. } => false,
        }
    }
}

impl fmt::Display for SnapshotRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotRefusal::BelowStart { start } => write!(f, "the log begins at {start} already"),
            SnapshotRefusal::Exists => f.write_str("it is there already"),
            SnapshotRefusal::Empty => f.write_str("nothing lies below offset 0"),
            SnapshotRefusal::NotDurable { durable } => write!(f, "durable only up to {durable}"),
            SnapshotRefusal::NotCommitted { committed } => {
                write!(f, "committed only up to {committed}")
            }
            SnapshotRefusal::WrongEpoch { expected } => {
                write!(f, "the record before is of epoch {expected}")
            }
            SnapshotRefusal::WithinBatch { base } => {
                write!(f, "it lies within the batch at {base}")
            }
        }
    }
}

impl std::error::Error for SnapshotRefusal {}

impl Log {
    /// The snapshots that there are, oldest first; never the bootstrap one, which ends at 0.
    pub fn snapshots(&self) -> &[Snapshot] {
        &self.snapshots
    }

    /// Bytes of all segments, those below the start too; and of all snapshots.
    pub fn sizes(&self) -> (u64, u64) {
        let segments = self.segments.iter().map(|segment| segment.size).sum();
        (segments, self.snapshots.iter().map(|snapshot| snapshot.bytes).sum())
    }

    /// Whether a snapshot of all below `id.offset` may be made, where all below `committed` is
    /// committed. A place that only the disk knows is taken for a batch's boundary: a machine that
    /// takes whole batches stands at one.
    pub fn can_snapshot_at(
        &self,
        id: OffsetEpoch,
        committed: Offset,
    ) -> Result<(), SnapshotRefusal> {
        let OffsetEpoch { offset, epoch } = id;
        if self.snapshots.iter().any(|snapshot| snapshot.id == id) {
            return Err(SnapshotRefusal::Exists);
        }
        if offset == Offset::ZERO {
            return Err(SnapshotRefusal::Empty);
        }
        if offset < self.start {
            return Err(SnapshotRefusal::BelowStart { start: self.start });
        }
        if offset > committed {
            return Err(SnapshotRefusal::NotCommitted { committed });
        }
        if offset > self.durable {
            return Err(SnapshotRefusal::NotDurable { durable: self.durable });
        }
        let expected = self.epoch_before(offset);
        if epoch != expected {
            return Err(SnapshotRefusal::WrongEpoch { expected });
        }
        match self.tail.find(offset).filter(|batch| batch.base < offset) {
            Some(batch) => Err(SnapshotRefusal::WithinBatch { base: batch.base }),
            None => Ok(()),
        }
    }

    /// The epoch of the record before `offset`, which lies in the log or at its start.
    fn epoch_before(&self, offset: Offset) -> Epoch {
        let below = self.epochs.below(offset).last().map(|(epoch, _)| *epoch);
        below.or_else(|| self.epochs.floor_epoch()).unwrap_or_default()
    }

    /// Notes a snapshot of this replica's own that is durable. If the log has moved beyond it
    /// meanwhile it is of no use; then the job takes it away.
    #[must_use = "a job, if there is one, is to be carried out"]
    pub fn frozen(&mut self, snapshot: Snapshot) -> Option<Job> {
        let id = snapshot.id;
        assert!(id.offset <= self.durable, "{id} is ahead of the log, durable to {}", self.durable);
        // Replayed from below the horizon the log lacks a deletion.
        let stale = self.start == Offset::ZERO && id.offset < self.numbers().horizon;
        if id.offset < self.start || stale {
            let snapshots = vec![id];
            return Some(Job::Trim(Trim { epochs: None, segments: Vec::new(), snapshots }));
        }
        self.snapshots.retain(|held| held.id != id);
        let at = self.snapshots.partition_point(|held| held.id.offset < id.offset);
        self.snapshots.insert(at, snapshot);
        None
    }

    /// Forgets all but the newest snapshots of a log that is not cut behind them, where they only
    /// spare a start its way. One at whose end the log begins stays: it stands for what was below.
    /// The files are the caller's to remove.
    pub fn keep_newest_snapshots(&mut self, count: usize) -> Vec<String> {
        let old = self.snapshots.len().saturating_sub(count);
        let (start, partition) = (self.start, &self.options.partition);
        let mut gone = self.snapshots[..old].to_vec();
        gone.retain(|held| start == Offset::ZERO || held.id.offset != start);
        self.snapshots.retain(|held| !gone.contains(held));
        let path = |held: &Snapshot| crate::file::join(partition, &snapshot_name(held.id));
        gone.iter().map(path).collect()
    }

    /// Gives up the whole log for a snapshot that was downloaded and checked
    /// ([`crate::PartialSnapshot::check`]): it begins and ends at the snapshot's end. Earlier plans
    /// of cold reads are void.
    pub fn adopt(&mut self, snapshot: Snapshot) -> Job {
        let id = snapshot.id;
        let (last, ahead) = (self.last(), id.log_order() > self.last().log_order());
        assert!(ahead, "the snapshot {id} is not ahead of the log, which ends at {last}");
        let segments = self.segments.iter().rev().map(|segment| segment.base).collect();
        let snapshots = self.snapshots.iter().map(|held| held.id).filter(|held| *held != id);
        let job = Adopt { snapshot: id, segments, snapshots: snapshots.collect() };
        self.segments = vec![Segment::new(id.offset, self.options.index_interval_bytes)];
        self.snapshots = vec![snapshot];
        self.epochs = EpochTable::behind(id);
        self.tail = Tail::default();
        (self.start, self.end, self.durable) = (id.offset, id.offset, id.offset);
        self.generation += 1;
        self.abandon_round();
        Job::Adopt(job)
    }

    /// Moves the start to the end of a snapshot: older snapshots go and those of `gone`, and
    /// segments wholly below; the last segment stays. Reads below are refused from now on. Where
    /// the start is there already only snapshots go.
    pub fn trim(&mut self, start: Offset, gone: &[OffsetEpoch]) -> Job {
        let Log { durable, .. } = *self;
        assert!(start >= self.start, "trim to {start} below the start {}", self.start);
        assert!(start <= durable, "trim to {start} beyond what is durable, {durable}");
        let goes = |held: &Snapshot| held.id.offset < start || gone.contains(&held.id);
        let snapshots = self.snapshots.extract_if(.., |held| goes(held));
        let snapshots = snapshots.map(|held| held.id).collect();
        if start == self.start {
            return Job::Trim(Trim { epochs: None, segments: Vec::new(), snapshots });
        }
        let held = self.snapshots.iter().find(|held| held.id.offset == start);
        let id = held.map(|held| held.id);
        let id = id.unwrap_or_else(|| panic!("trim to {start}, where no snapshot ends"));

        let gone = self.first_kept(start);
        let segments = self.segments.drain(..gone).map(|segment| segment.base).collect();
        self.epochs.advance(id, self.end);
        self.start = start;
        self.tail.trim(start);
        // A planned read may be of a file that is gone when its turn comes.
        self.generation += 1;
        self.abandon_round();
        Job::Trim(Trim { epochs: Some(self.epochs.clone()), segments, snapshots })
    }

    /// The first segment that a log from `start` on needs.
    fn first_kept(&self, start: Offset) -> usize {
        self.segments.partition_point(|segment| segment.base <= start).saturating_sub(1)
    }

    /// What retention wants the log to begin at: the end of a snapshot that is there, to be given
    /// to [`Log::trim`] once the core agrees. While there are two snapshots the oldest goes if log
    /// and snapshots take too many bytes, or if it is too old. A soft limit: the newest stays.
    pub fn overdue(&self, wall_ms: i64, retention: &Retention) -> Option<OffsetEpoch> {
        let (mut first_segment, mut oldest) = (0, 0);
        let mut total = {
            let (segments, snapshots) = self.sizes();
            segments + snapshots
        };
        while let [this, next, ..] = &self.snapshots[oldest..] {
            let age = wall_ms.saturating_sub(this.timestamp_ms);
            let large = retention.bytes.is_some_and(|bytes| total > bytes);
            let old = retention.ms.is_some_and(|ms| age > 0 && age as u64 > ms);
            if !large && !old {
                break;
            }
            let kept = self.first_kept(next.id.offset).max(first_segment);
            let gone = &self.segments[first_segment..kept];
            total -= this.bytes + gone.iter().map(|segment| segment.size).sum::<u64>();
            (first_segment, oldest) = (kept, oldest + 1);
        }
        (oldest > 0).then(|| self.snapshots[oldest].id)
    }

    /// Bytes of what a log that begins at `start` does not need: snapshots and whole segments.
    pub fn bytes_below(&self, start: Offset) -> u64 {
        let below = self.snapshots.iter().filter(|held| held.id.offset < start);
        let segments = &self.segments[..self.first_kept(start)];
        let segments: u64 = segments.iter().map(|segment| segment.size).sum();
        segments + below.map(|held| held.bytes).sum::<u64>()
    }

    /// Plans the read of a piece of a snapshot; `None` if there is no such snapshot.
    pub fn snapshot_chunk(
        &self,
        id: OffsetEpoch,
        position: u64,
        max_bytes: u32,
    ) -> Option<ChunkRead> {
        let held = self.snapshots.iter().find(|held| held.id == id)?;
        let path = crate::file::join(&self.options.partition, &snapshot_name(id));
        Some(ChunkRead { id, path, size: held.bytes, position, max_bytes })
    }

    /// Forgets that the log must reach a place again (see [`crate::set_aside`]): it has.
    pub fn clear_must_reach(&self) -> Job {
        Job::Remove { name: must_reach_file::NAME }
    }

    pub(crate) fn check_snapshots(&self) {
        for pair in self.snapshots.windows(2) {
            let (this, next) = (pair[0].id, pair[1].id);
            assert!(this.offset < next.offset, "snapshots {this} and {next}");
        }
        for held in &self.snapshots {
            let offset = held.id.offset;
            assert!(self.start <= offset, "snapshot {} below {}", held.id, self.start);
            assert!(offset <= self.end, "snapshot {} beyond {}", held.id, self.end);
        }
        if self.start > Offset::ZERO {
            assert!(!self.snapshots.is_empty(), "a log from {} without a snapshot", self.start);
        }
    }
}
