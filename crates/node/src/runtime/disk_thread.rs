//! The thread that writes and syncs the log: all jobs that are queued at once, then one report.
//!
//! Group commit is nothing more than that: while a sync runs, the next jobs gather. A failed write
//! or sync ends the node; it is never tried again.

use super::inbox::{Event, Inbox};
use quorate_log::{Disk, Job, Store};
use quorate_raft::WriteId;
use std::io;
use std::sync::mpsc;
use std::thread;

/// The way to the thread. It ends when this is dropped.
pub(crate) struct DiskThread {
    jobs: mpsc::Sender<(WriteId, Job)>,
    thread: Option<thread::JoinHandle<()>>,
}

impl DiskThread {
    pub fn start<D>(store: Store<D>, inbox: Inbox) -> io::Result<DiskThread>
    where
        D: Disk + 'static,
        D::File: 'static,
    {
        let (jobs, queue) = mpsc::channel();
        let work = move || run(store, &queue, &inbox);
        let thread = thread::Builder::new().name("quorate-disk".into()).spawn(work)?;
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

fn run<D: Disk>(mut store: Store<D>, queue: &mpsc::Receiver<(WriteId, Job)>, inbox: &Inbox) {
    let mut jobs = Vec::new();
    while let Ok((mut newest, job)) = queue.recv() {
        jobs.push(job);
        for (id, job) in queue.try_iter() {
            newest = id;
            jobs.push(job);
        }
        match store.run(&mut jobs) {
            Ok(written) => {
                if !written.deleted.is_empty() {
                    inbox.put(Event::Deleted(written.deleted));
                }
                inbox.put(Event::Durable(newest));
            }
            Err(error) => {
                inbox.put(Event::DiskFailed(error.to_string()));
                return;
            }
        }
        jobs.clear();
    }
}
