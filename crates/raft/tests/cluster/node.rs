//! One node of the cluster: a core, the log of marks that its writes make, and the disk that may be
//! held.
//!
//! What the core wrote is there at once; what is durable follows write by write. A crash leaves the
//! durable.

use quorate_base::{Cleaned, Epoch, Offset, OffsetEpoch, ReplicaId, ReplicaKey, Span};
use quorate_raft::*;
use std::collections::{BTreeMap, VecDeque};

/// What lies at an offset. The nonce tells apart what two leaders wrote, and one batch from the
/// next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    pub epoch: Epoch,
    pub nonce: u64,
    /// What its batch says of the quorum; the few that a test makes are never freed.
    pub decree: Option<&'static Decree>,
}

impl Record {
    /// One that says nothing of the quorum.
    pub fn plain(epoch: Epoch, nonce: u64) -> Record {
        Record { epoch, nonce, decree: None }
    }
}

/// A write on its way to the disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Disk {
    Election(ElectionState),
    Append {
        base: Offset,
        records: Vec<Record>,
    },
    Truncate(Offset),
    /// With the records that the snapshot stands for.
    Adopt(OffsetEpoch, Vec<Record>),
    Trim(Kept),
    Reached,
}

/// How many bytes each snapshot has.
pub const SNAPSHOT_BYTES: u64 = 10;

/// Where a log begins, and the snapshots it has. The records below the start stay in the books:
/// they are what the snapshots say.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Kept {
    pub start: Offset,
    pub snapshots: Vec<OffsetEpoch>,
}

impl Kept {
    fn adopt(&mut self, snapshot: OffsetEpoch) {
        *self = Kept { start: snapshot.offset, snapshots: vec![snapshot] };
    }

    fn trim(&mut self, start: Offset, gone: &[OffsetEpoch]) {
        let there = |at: Offset| self.snapshots.iter().any(|kept| kept.offset == at);
        assert!(start == self.start || there(start), "no snapshot at {start}");
        assert!(gone.iter().all(|gone| self.snapshots.contains(gone)), "{gone:?} of {self:?}");
        self.start = start;
        self.snapshots.retain(|kept| !gone.contains(kept));
        assert!(self.snapshots.iter().all(|kept| kept.offset >= start), "below {start}: {self:?}");
    }
}

pub struct Node {
    pub id: ReplicaId,
    /// Whether its core knows its id.
    pub named: bool,
    pub quorum: Option<Quorum>,
    /// Counts restarts: what was meant for an earlier life is not delivered.
    pub life: u64,
    /// How far its clock is ahead of the others.
    pub ahead: Span,
    pub log: Vec<Record>,
    pub durable_log: Vec<Record>,
    pub kept: Kept,
    pub durable_kept: Kept,
    /// Pieces of a download that are not durable yet.
    pub pieces: VecDeque<Call>,
    /// What a damaged log has to reach again; on disk.
    pub must_reach: Option<OffsetEpoch>,
    /// What its log lacks: told with its records, and changed by the script alone.
    pub cleaned: Cleaned,
    /// What start-up finds of that.
    pub clean: Option<Offset>,
    /// What its bootstrap snapshot says.
    pub founding: Option<Decree>,
    pub durable_election: ElectionState,
    pub queue: VecDeque<(WriteId, Disk)>,
    pub held: bool,
    /// The records of the answer that is being delivered.
    pub answers: BTreeMap<Call, Vec<Record>>,
    /// What the core told to be committed in this life.
    pub told: Offset,
    /// The records of it: they must never change, whatever peers say.
    pub applied: Vec<Record>,
}

/// What can be seen of a node from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Picture {
    pub role: RoleName,
    pub epoch: Epoch,
    pub leader: Option<ReplicaId>,
    pub voted: Option<ReplicaKey>,
    pub high_watermark: Option<Offset>,
    pub start: Offset,
    pub end: Offset,
    pub durable: Offset,
    pub last_epoch: Epoch,
    pub told: Offset,
    pub parked: usize,
    pub reads: usize,
}

impl Picture {
    /// What only a change of role changes. A vote that is added in place is none.
    pub fn entered(&self) -> (RoleName, Epoch) {
        let role = match self.role {
            RoleName::UnattachedVoted => RoleName::Unattached,
            RoleName::ProspectiveVoted => RoleName::Prospective,
            RoleName::Unattached
            | RoleName::Prospective
            | RoleName::Candidate
            | RoleName::Leader
            | RoleName::Follower
            | RoleName::Observer
            | RoleName::Resigned => self.role,
        };
        (role, self.epoch)
    }
}

impl Node {
    pub fn new(id: ReplicaId) -> Node {
        Node {
            id,
            named: true,
            quorum: None,
            life: 1,
            ahead: Span::ZERO,
            log: Vec::new(),
            durable_log: Vec::new(),
            kept: Kept::default(),
            durable_kept: Kept::default(),
            pieces: VecDeque::new(),
            must_reach: None,
            cleaned: Cleaned::NEVER,
            clean: None,
            founding: None,
            durable_election: ElectionState::default(),
            queue: VecDeque::new(),
            held: false,
            answers: BTreeMap::new(),
            told: Offset::ZERO,
            applied: Vec::new(),
        }
    }

    /// Gives it files: each of `ends` closes what an epoch left in the log. Equal logs hold equal
    /// records.
    pub fn format(&mut self, ends: &[OffsetEpoch], election: ElectionState) {
        self.durable_election = election;
        self.durable_log.clear();
        self.durable_kept = Kept::default();
        self.must_reach = None;
        for end in ends {
            while (self.durable_log.len() as u64) < end.offset.0 {
                self.durable_log.push(Record::plain(end.epoch, 0));
            }
        }
    }

    pub fn reread(&mut self) {
        self.log = self.durable_log.clone();
        self.kept = self.durable_kept.clone();
        self.pieces.clear();
        self.queue.clear();
        self.answers.clear();
        self.told = Offset::ZERO;
        self.applied.clear();
    }

    /// What start-up finds.
    pub fn recovered(&self) -> Recovered {
        Recovered {
            election: self.durable_election.clone(),
            start: self.kept.start,
            end: Offset(self.log.len() as u64),
            epochs: self.epochs(),
            snapshots: self.kept.snapshots.clone(),
            founded: self.founded(self.kept.snapshots.last().map(|newest| newest.offset)),
            decrees: self.decrees(),
            clean: self.clean.or((!self.log.is_empty()).then_some(Offset::ZERO)),
            must_reach: self.must_reach,
        }
    }

    /// What the head of a snapshot of that end says; without one, of the bootstrap snapshot.
    pub fn founded(&self, snapshot: Option<Offset>) -> Decree {
        let below = snapshot.map_or(0, |end| end.0 as usize).min(self.log.len());
        let mut all = self.founding.clone().unwrap_or_default();
        for decree in self.log[..below].iter().filter_map(|record| record.decree) {
            all.version = decree.version.or(all.version);
            all.voters = decree.voters.clone().or(all.voters);
        }
        all
    }

    fn decrees(&self) -> Vec<(Offset, Decree)> {
        let batches = batches(Offset::ZERO, &self.log).into_iter();
        batches.filter_map(|batch| Some((batch.base, *batch.decree?))).collect()
    }

    /// The epoch table by definition.
    pub fn epochs(&self) -> Vec<(Epoch, Offset)> {
        let mut epochs: Vec<(Epoch, Offset)> = Vec::new();
        for (offset, record) in self.log.iter().enumerate().skip(self.kept.start.0 as usize) {
            if epochs.last().is_none_or(|last| last.0 != record.epoch) {
                epochs.push((record.epoch, Offset(offset as u64)));
            }
        }
        epochs
    }

    pub fn picture(&self) -> Picture {
        let Some(quorum) = &self.quorum else { panic!("node {} does not run", self.id) };
        let view = quorum.view();
        Picture {
            role: view.role,
            epoch: view.epoch,
            leader: view.leader,
            voted: view.voted,
            high_watermark: view.high_watermark,
            start: view.start,
            end: view.end,
            durable: view.durable,
            last_epoch: view.last_epoch,
            told: self.told,
            parked: view.parked,
            reads: view.reads,
        }
    }

    /// `committed` is what the whole cluster holds for that: what snapshots are made of.
    pub fn write(&mut self, id: WriteId, write: &Write, nonce: u64, committed: &[Record]) {
        let end = Offset(self.log.len() as u64);
        let disk = match write {
            Write::Election(state) => Disk::Election(state.clone()),
            Write::Append { base, end: upto, epoch, source } => {
                assert_eq!(*base, end, "an append of node {} leaves a gap", self.id);
                let records = match source {
                    Source::Proposed(_) => {
                        (base.0..upto.0).map(|_| Record::plain(*epoch, nonce)).collect()
                    }
                    Source::Control(ControlRecord::LeaderChange { decree, .. }) => {
                        let decree = decree.clone().map(|decree| &*Box::leak(Box::new(decree)));
                        let record = Record { epoch: *epoch, nonce, decree };
                        (base.0..upto.0).map(|_| record).collect()
                    }
                    Source::Control(ControlRecord::Voters { decree }) => {
                        let decree = Some(&*Box::leak(Box::new(decree.clone())));
                        let record = Record { epoch: *epoch, nonce, decree };
                        (base.0..upto.0).map(|_| record).collect()
                    }
                    Source::Fetched(call) => {
                        let fetched = self.answers.get(call).expect("the answer being delivered");
                        fetched[..(upto.0 - base.0) as usize].to_vec()
                    }
                };
                self.log.extend(&records);
                assert_eq!(upto.0, self.log.len() as u64);
                Disk::Append { base: *base, records }
            }
            Write::Truncate { end: cut } => {
                assert!(*cut < end, "node {} truncates {end} to {cut}", self.id);
                self.log.truncate(cut.0 as usize);
                Disk::Truncate(*cut)
            }
            Write::Adopt { snapshot } => {
                // Liars offer snapshots of what nobody wrote; where the core can see that, in the
                // offsets, it refuses them.
                let made_up = Record::plain(snapshot.epoch, nonce);
                let longer = committed.len() > self.applied.len();
                let mut records = if longer { committed } else { &self.applied }.to_vec();
                records.resize(snapshot.offset.0 as usize, made_up);
                self.log.clone_from(&records);
                self.kept.adopt(*snapshot);
                Disk::Adopt(*snapshot, records)
            }
            Write::Trim { start, snapshots } => {
                self.kept.trim(*start, snapshots);
                Disk::Trim(self.kept.clone())
            }
            Write::Reached => Disk::Reached,
        };
        self.queue.push_back((id, disk));
    }

    /// Fills a fetch answer from the log, as the log is now. It began at `began` when it was asked.
    pub fn fill(&self, body: &mut Response, began: Offset) -> Vec<Record> {
        if let Response::FetchSnapshot(answer) = body {
            self.fill_piece(answer);
        }
        let Response::Fetch(answer) = body else { return Vec::new() };
        let Fetched::Range { start, end, .. } = answer.fetched else { return Vec::new() };
        assert!(start >= began, "node {} serves {start}, which is gone", self.id);
        if start < self.kept.start {
            // Trimmed while the answer waited for a write: asked again, it names a snapshot.
            answer.fetched = Fetched::Batches(Vec::new());
            return Vec::new();
        }
        let records = self.log[start.0 as usize..end.0 as usize].to_vec();
        answer.cleaned = answer.round.map(|_| self.cleaned);
        answer.fetched = Fetched::Batches(batches(start, &records));
        records
    }

    fn fill_piece(&self, answer: &mut SnapshotAnswer) {
        let Piece::Served { max_bytes } = answer.piece else { return };
        let left = SNAPSHOT_BYTES.saturating_sub(answer.position);
        let bytes = left.min(max_bytes.into()) as u32;
        (answer.view.error, answer.piece) = match self.kept.snapshots.contains(&answer.snapshot) {
            false => (ErrorKind::SnapshotNotFound, Piece::Nothing),
            true if left == 0 => (ErrorKind::PositionOutOfRange, Piece::Nothing),
            true => (ErrorKind::None, Piece::Received { size: SNAPSHOT_BYTES, bytes }),
        };
    }

    /// The epoch of the last of the first records.
    pub fn epoch_below(&self, end: Offset) -> Epoch {
        self.log[end.0 as usize - 1].epoch
    }

    /// Makes the first write durable.
    pub fn sync_one(&mut self) -> Option<(WriteId, Disk)> {
        let (id, disk) = self.queue.pop_front()?;
        match &disk {
            Disk::Election(state) => self.durable_election = state.clone(),
            Disk::Append { records, .. } => self.durable_log.extend(records),
            Disk::Truncate(end) => self.durable_log.truncate(end.0 as usize),
            Disk::Adopt(snapshot, records) => {
                self.durable_log.clone_from(records);
                self.durable_kept.adopt(*snapshot);
            }
            Disk::Reached => self.must_reach = None,
            Disk::Trim(kept) => {
                // What was made since is there as well: only its start lags.
                self.durable_kept.snapshots.clone_from(&self.kept.snapshots);
                self.durable_kept.start = kept.start;
            }
        }
        Some((id, disk))
    }

    /// Makes all durable, unless the disk is held or there is nothing.
    pub fn sync_free(&mut self) -> Option<WriteId> {
        let mut last = None;
        while !self.held
            && let Some((id, _)) = self.sync_one()
        {
            last = Some(id);
        }
        last
    }
}

impl Node {
    /// The next piece of a download that becomes durable, unless the disk is held.
    pub fn store_free(&mut self) -> Option<Call> {
        if self.held { None } else { self.pieces.pop_front() }
    }
}

/// The batches that hold these records.
pub fn batches(base: Offset, records: &[Record]) -> Vec<BatchMark> {
    let mut marks: Vec<BatchMark> = Vec::new();
    for (at, record) in records.iter().enumerate() {
        let offset = base + at as u64;
        let joins = at > 0 && records[at - 1] == *record;
        match marks.last_mut() {
            Some(mark) if joins => mark.last = offset,
            Some(_) | None => marks.push(BatchMark {
                base: offset,
                last: offset,
                epoch: record.epoch,
                control: record.decree.is_some(),
                decree: record.decree.cloned().map(Box::new),
            }),
        }
    }
    marks
}
