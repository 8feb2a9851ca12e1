//! The thread that writes and syncs the log: all jobs that are queued at once, then one report.
//!
//! Group commit is nothing more than that: while a sync runs, the next jobs gather. A failed write
//! or sync ends the node; it is never tried again. A write that finds no room is none of these: it
//! goes on in the room that was put aside, and the loop is told that the disk is full before it is
//! told that the write is durable.

use super::inbox::{Event, Inbox};
use quorate_base::Span;
use quorate_log::{Disk, Job, Reserved, Store};
use quorate_raft::WriteId;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{io, thread};

/// While the disk is full it is looked whether there is room, once in so long.
const REFILL: Duration = Duration::from_secs(1);

/// The way to the thread. It ends when this is dropped.
pub(crate) struct DiskThread {
    jobs: mpsc::Sender<(WriteId, Job)>,
    thread: Option<thread::JoinHandle<()>>,
}

impl DiskThread {
    /// `disk` is the one on which `store` lies.
    pub fn start<D>(
        store: Store<Reserved<D>>,
        disk: Reserved<D>,
        inbox: Inbox,
    ) -> io::Result<DiskThread>
    where
        D: Disk + 'static,
        D::File: 'static,
    {
        let (jobs, queue) = mpsc::channel();
        let full_since = disk.is_full().then(Instant::now);
        let work = Work { store, disk, queue, inbox, jobs: Vec::new(), full_since };
        let thread = thread::Builder::new().name("quorate-disk".into()).spawn(|| work.run())?;
        Ok(DiskThread { jobs, thread: Some(thread) })
    }

    /// Queues a job behind those before it.
    pub fn submit(&self, id: WriteId, job: Job) {
        // A thread that is gone has reported why; the loop is about to end.
        let _ = self.jobs.send((id, job));
    }

    /// Waits until all that was submitted is done.
    pub fn finish(mut self) {
        let (jobs, _) = mpsc::channel();
        drop(std::mem::replace(&mut self.jobs, jobs));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Work<D: Disk> {
    store: Store<Reserved<D>>,
    disk: Reserved<D>,
    queue: mpsc::Receiver<(WriteId, Job)>,
    inbox: Inbox,
    jobs: Vec<Job>,
    /// Since when the disk is full, or the last look at it.
    full_since: Option<Instant>,
}

impl<D: Disk> Work<D> {
    fn run(mut self) {
        if let Err(error) = self.work() {
            let damaged = error.is_of_the_files();
            self.inbox.put(Event::DiskFailed { damaged, why: error.to_string() });
        }
    }

    /// Returns when nobody will submit anything any more.
    fn work(&mut self) -> Result<(), quorate_log::Error> {
        loop {
            // Also while jobs keep coming.
            if self.full_since.is_some_and(|since| since.elapsed() >= REFILL) {
                self.refill()?;
            }
            let next = match self.full_since {
                None => self.queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(since) => self.queue.recv_timeout(REFILL.saturating_sub(since.elapsed())),
            };
            match next {
                Ok((id, job)) => self.write(id, job)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    fn write(&mut self, mut newest: WriteId, job: Job) -> Result<(), quorate_log::Error> {
        self.jobs.push(job);
        for (id, job) in self.queue.try_iter() {
            newest = id;
            self.jobs.push(job);
        }
        let appends = self.jobs.iter().any(|job| matches!(job, Job::Append(_)));
        let begun = Instant::now();
        let written = self.store.run(&mut self.jobs)?;
        let took = appends.then(|| Span(begun.elapsed().as_micros() as u64));
        if self.full_since.is_none() && self.disk.is_full() {
            self.full_since = Some(Instant::now());
            self.inbox.put(Event::Room { full: true });
        }
        if !written.deleted.is_empty() {
            self.inbox.put(Event::Deleted(written.deleted, written.deleted_bytes));
        }
        self.inbox.put(Event::Durable(newest, took));
        Ok(())
    }

    fn refill(&mut self) -> Result<(), quorate_log::Error> {
        self.full_since = match self.disk.refill()? {
            false => Some(Instant::now()),
            true => {
                self.inbox.put(Event::Room { full: false });
                None
            }
        };
        Ok(())
    }
}
