//! The disks: work that was given to one, work that is done, reads; and what a node goes down with
//! and finds when it comes back. The books are kept here.

use super::{Event, Last, Phase, World};
use crate::book::Book;
use crate::checkers::{Failure, Written, caretaker_takes_nothing, files_reopen};
use crate::clients::Clients;
use crate::network::{Host, Process};
use crate::node::Broke;
use bytes::Bytes;
use quorate_base::{Offset, Span};
use quorate_log::{Batches, Job, Recovery};
use quorate_node::{Errand, ReadId, Reading};
use quorate_raft::{RoleName, WriteId};

impl<C: Clients> World<C> {
    pub(super) fn disk_time(&mut self, node: usize) -> Span {
        let options = &self.plan.options;
        let jitter = Span(self.disk_rng.below(options.disk_jitter_us + 1));
        let slow = self.nodes[node].slow.iter().fold(Span::ZERO, |sum, span| sum + *span);
        Span(options.disk_us) + jitter + slow
    }

    pub(super) fn disk_job(&mut self, node: usize, id: WriteId, job: Job) -> Result<(), Failure> {
        let before = self.books[node].end();
        if let Job::Truncate(cut) = &job {
            self.marks.hit("a log was cut");
            let left = self.books[node].entries.partition_point(|entry| entry.base < cut.end);
            let epoch = self.nodes[node].running.as_ref().map(|r| r.replica.view().epoch);
            let epoch = epoch.unwrap_or_default();
            self.committed.cut(node, epoch, &self.books[node], left)?;
            self.durable[node] = self.durable[node].min(cut.end);
        }
        if let Job::Adopt(adopt) = &job {
            self.marks.hit("a snapshot was adopted");
            self.books[node].adopt(&self.committed.ledger, adopt.snapshot.offset);
            self.matched[node] = self.books[node].entries.len();
            self.durable[node] = Offset::ZERO;
        }
        if let Job::Append(append) = &job
            && self.nodes[node].never_leads()
            && self.seats.behind(&self.books[node].entries).len() > 1
            && self.nodes[node]
                .running
                .as_ref()
                .is_some_and(|running| running.replica.view().role == RoleName::Leader)
        {
            self.marks.hit("a caretaker led");
            caretaker_takes_nothing(node, &append.bytes)?;
        }
        if matches!(&job, Job::Trim(trim) if trim.epochs.is_some()) {
            self.marks.hit("a log was trimmed");
        }
        if let Job::Append(append) = &job
            && self.nodes[node].running.as_ref().is_some_and(|running| running.full)
            && Batches::checked_before(append.bytes.clone()).any(|batch| !batch.control())
        {
            let what = format!("node {} appends records to a log on a full disk", node + 1);
            return Err(Failure::new("full_disks_take_no_records", what));
        }
        if let Job::Append(append) = &job
            && append.rolls
        {
            self.marks.hit("a segment was closed");
        }
        if let Job::Replace { bytes, .. } = &job {
            self.elections[node].push((id, Some(bytes.clone())));
        }
        self.note_change(node, &job)?;
        self.note_level(node, &job)?;
        let kept = self.books[node].follow(&job);
        self.matched[node] = self.matched[node].min(kept);
        self.promises.given(node, id, &job, self.books[node].end());
        // What a leader made and did not store stays its own, also if it leads no more.
        if matches!(job, Job::Append(_)) && !self.leads(node) {
            self.match_log(node, self.books[node].entries.len())?;
        }
        let end = self.books[node].end();
        self.line(node, || match &job {
            Job::Append(append) => {
                let batches: Vec<String> = crate::book::entries(&append.bytes)
                    .map(|batch| format!("[{}..{})@{}", batch.base, batch.end, batch.epoch))
                    .collect();
                format!("append {}", batches.join(""))
            }
            Job::Truncate(_) => format!("truncate {before} -> {end}"),
            Job::Adopt(adopt) => format!("adopts the snapshot {}", adopt.snapshot),
            Job::Trim(trim) => {
                let (segments, snapshots) = (trim.segments.len(), trim.snapshots.len());
                format!("trims {segments} segments, {snapshots} snapshots")
            }
            Job::Roll(roll) => format!("begins a segment at {}", roll.segment),
            Job::Swap(_) => "swaps a cleaned segment in".to_owned(),
            Job::Carry(_) => "keeps the numbers of its log".to_owned(),
            Job::Remove { name } => format!("removes {name}"),
            Job::Replace { bytes, .. } => format!("remembers {}", String::from_utf8_lossy(bytes)),
        });
        if let Some((running, _)) = self.running(node) {
            running.queued.push((id, job));
        }
        Ok(())
    }

    /// Whether what a node appends is its own, and no one else has it yet.
    pub(super) fn leads(&self, node: usize) -> bool {
        let running = self.nodes[node].running.as_ref();
        running.is_some_and(|running| {
            matches!(running.replica.view().role, RoleName::Leader | RoleName::Resigned)
        })
    }

    /// Compares the batches of a log with all other logs.
    pub(super) fn match_log(&mut self, node: usize, until: usize) -> Result<(), Failure> {
        let known = self.matched[node];
        if known < until {
            self.logs.see(node, &self.books[node], known, until)?;
            self.changes.see(node, &self.books[node], &self.seats, known, until)?;
            self.matched[node] = until;
        }
        Ok(())
    }

    pub(super) fn disk_done(&mut self, process: Process) -> Result<(), Failure> {
        let Some(node) = self.process(process, || Event::Disk(process)) else { return Ok(()) };
        let done = match self.nodes[node].finish_disk() {
            Ok(done) => done,
            Err(broke) => return self.disk_broke(node, &broke),
        };
        self.notice_full(node);
        if let Some(upto) = done {
            self.trace.mix(&[self.now.0, node as u64, upto.0, 2]);
            let elections = &mut self.elections[node];
            let durable = elections.partition_point(|(id, _)| *id <= upto);
            for (_, state) in &elections[..durable] {
                state.as_ref().map_or(Ok(()), |state| self.remembered.see(node, state))?;
            }
            elections.drain(..durable.saturating_sub(1));
            self.promises.done(node, upto, &self.remembered);
            if let Some((running, local)) = self.running(node) {
                running.replica.on_durable(local, upto);
            }
            self.line(node, || "the disk is done".to_owned());
        }
        let paths = std::mem::take(&mut self.nodes[node].deleted);
        if !paths.is_empty() {
            self.errand(node, Errand::Remove { paths })?;
        }
        self.reported(node)
    }

    /// As the server has it: who others can copy begins anew on damaged files.
    fn disk_broke(&mut self, node: usize, broke: &Broke) -> Result<(), Failure> {
        let others = self.nodes[node].running.as_ref().is_some_and(|r| r.replica.has_others());
        match broke.damaged && self.nodes[node].rotten && others {
            true => self.repair(node, &broke.why),
            false => self.disk_failed(node, &broke.why),
        }
    }

    pub(super) fn read_done(
        &mut self,
        process: Process,
        id: ReadId,
        read: &Reading,
    ) -> Result<(), Failure> {
        let again = || Event::Read { process, id, read: read.clone() };
        let Some(node) = self.process(process, again) else { return Ok(()) };
        let records = read.run(&mut self.nodes[node].disk.clone());
        self.line(node, || match &records {
            Ok(records) => format!("{}: {} bytes", reading(read), records.len()),
            Err(bad) => format!("{}: {}", reading(read), bad.why),
        });
        if let Some((running, local)) = self.running(node) {
            running.replica.on_read(local, id, records);
        }
        self.reported(node)
    }

    pub(super) fn up(&mut self, node: usize) -> Result<(), Failure> {
        if self.nodes[node].running.is_some() || self.nodes[node].out {
            return Ok(());
        }
        let before = self.books[node].end();
        let damaged = self.finds_damage(node);
        if !damaged {
            self.reopen(node)?;
        }
        let end = self.books[node].end();
        if end < before {
            self.marks.hit("a crash lost records");
        }
        self.nodes[node].limit_room();
        let machine = self.clients.machine(self.nodes[node].mutant());
        if let Err(why) = self.nodes[node].start(self.now, machine) {
            if damaged && (self.repair_cut_short(node) || self.stays_down_alone(node))
                || self.start_refused(node)
            {
                return Ok(());
            }
            return Err(Failure::new("files_reopen", format!("node {}: {why}", node + 1)));
        }
        if damaged {
            self.repaired(node)?;
        }
        let end = self.books[node].end();
        self.spoke[node] = self.spoke[node].max(self.nodes[node].newest_level());
        self.starts_full(node);
        self.last[node] = Last::default();
        let process = self.life(node);
        self.network.host(self.now, node, Host::Up(process), &mut self.queue);
        self.trace.mix(&[self.now.0, node as u64, end.0, 3]);
        self.line(node, || format!("starts, its log had {before} and ends at {end}"));
        self.note_log_lines(node)?;
        self.plan_turn(node, self.now);
        Ok(())
    }

    /// Reads a node's files and compares them with what was written; from then on they count.
    pub(super) fn reopen(&mut self, node: usize) -> Result<(), Failure> {
        let (recovery, found) = self.files(node)?;
        let states: Vec<_> = self.elections[node].iter().map(|(_, state)| state.clone()).collect();
        let (book, durable) = (&self.books[node], self.durable[node]);
        let written = Written { book, durable, elections: &states };
        files_reopen(node, &recovery, &found, &written)?;
        self.counts(node, recovery, found)
    }

    /// What is on a node's disk.
    pub(super) fn files(&self, node: usize) -> Result<(Recovery, Book), Failure> {
        let failed = |why| Failure::new("files_reopen", format!("node {}: {why}", node + 1));
        let (recovery, parts) = self.nodes[node].read_files().map_err(failed)?;
        let mut found = Book::read(&parts);
        if recovery.start > Offset::ZERO {
            found.put_before(&self.committed.ledger, recovery.start);
        }
        Ok((recovery, found))
    }

    /// From now on this is what a node has.
    pub(super) fn counts(
        &mut self,
        node: usize,
        recovery: Recovery,
        found: Book,
    ) -> Result<(), Failure> {
        self.books[node] = found;
        self.matched[node] = 0;
        self.match_log(node, self.books[node].entries.len())?;
        self.durable[node] = recovery.end;
        let dynamic = self.elections[node].iter().flat_map(|(_, state)| state).any(is_dynamic);
        let state = recovery.election.map(|election| match dynamic {
            true => election.encode_dynamic(),
            false => election.encode(),
        });
        state.as_ref().map_or(Ok(()), |state| self.remembered.see(node, state))?;
        self.elections[node] = vec![(WriteId(0), state)];
        self.promises.found(node, recovery.end, &self.remembered);
        Ok(())
    }

    /// A node goes down at once.
    pub(super) fn down(&mut self, node: usize, power: bool, lasts: Span) {
        if self.nodes[node].running.is_none() {
            return;
        }
        self.marks.hit(if power { "a node lost power" } else { "a node was killed" });
        self.line(node, || if power { "loses power" } else { "is killed" }.to_owned());
        self.end_process(node, power, power, lasts);
    }

    /// A process is gone. `lost`: so is part of what was not synced; `dark`: its machine is off.
    pub(super) fn end_process(&mut self, node: usize, lost: bool, dark: bool, lasts: Span) {
        let process = self.life(node);
        // What its last turn promised, nobody may have looked at.
        self.durable[node] = self.durable[node].max(self.promises.stored(node));
        self.nodes[node].die(lost);
        self.nodes[node].paused_until = self.now;
        let host = if dark { Host::NoPower } else { Host::NoProcess };
        self.gone(process, host, lasts);
    }

    /// An orderly stop is complete.
    pub(super) fn stopped(&mut self, node: usize) -> Result<(), Failure> {
        self.marks.hit("a node stopped in an orderly way");
        self.line(node, || "stops".to_owned());
        if let Err(broke) = self.nodes[node].finish_all() {
            return self.disk_broke(node, &broke);
        }
        let end = self.books[node].end();
        self.durable[node] = end;
        self.promises.found(node, end, &self.remembered);
        let states = &mut self.elections[node];
        states.drain(..states.len().saturating_sub(1));
        let lasts = self.stopping[node];
        self.gone(self.life(node), Host::NoProcess, lasts);
        Ok(())
    }

    pub(super) fn gone(&mut self, process: Process, host: Host, lasts: Span) {
        self.network.host(self.now, process.node, host, &mut self.queue);
        self.nodes[process.node].broken = None;
        self.trace.mix(&[self.now.0, process.node as u64, 4]);
        for then in self.clients.died(self.now, process, &mut self.marks) {
            self.then(then);
        }
        let lasts = if self.phase == Phase::Faults { lasts } else { Span::ms(1) };
        self.queue.push(self.now + lasts, Event::Up(process.node));
    }
}

/// Whether an election state has the form that it has once the log names the voters.
fn is_dynamic(state: &Bytes) -> bool {
    String::from_utf8_lossy(state).contains("votedDirectoryId")
}

fn reading(read: &Reading) -> String {
    match read {
        Reading::Records(plan) => format!("read [{}..{})", plan.from, plan.end),
        Reading::Piece(plan) => format!("read {} of the snapshot {}", plan.position, plan.id),
    }
}
