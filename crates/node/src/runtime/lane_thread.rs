//! The thread of the snapshot lane. Nothing waits for it: it ends with the node, in the middle of a
//! snapshot if need be, and start-up removes what it left half done.

use super::inbox::Inbox;
use crate::lane::{Errand, Report};
use crate::lane_work::Lane;
use quorate_log::Disk;
use quorate_machine::Machine;
use std::sync::mpsc;
use std::{io, thread};

/// The way to the thread. It ends when this is dropped, after the piece that it is at.
pub(crate) struct LaneThread<M> {
    errands: mpsc::Sender<Errand<M>>,
    reports: mpsc::Receiver<Report<M>>,
}

impl<M: Machine + Send + 'static> LaneThread<M> {
    pub fn start<D>(mut lane: Lane<M, D>, inbox: Inbox) -> io::Result<LaneThread<M>>
    where
        D: Disk + 'static,
        D::File: 'static,
    {
        let (errands, queue) = mpsc::channel();
        let (tell, reports) = mpsc::channel();
        let work = move || {
            while let Ok(errand) = queue.recv() {
                lane.push(errand);
                while !lane.is_idle() {
                    if let Some(report) = lane.step() {
                        // A loop that is gone wants to know nothing.
                        let _ = tell.send(report);
                        inbox.wake();
                    }
                    loop {
                        match queue.try_recv() {
                            Ok(errand) => lane.push(errand),
                            Err(mpsc::TryRecvError::Empty) => break,
                            Err(mpsc::TryRecvError::Disconnected) => return,
                        }
                    }
                }
            }
        };
        thread::Builder::new().name("quorate-snapshot".into()).spawn(work)?;
        Ok(LaneThread { errands, reports })
    }

    /// What came of errands since the last call.
    pub fn reports(&self) -> impl Iterator<Item = Report<M>> {
        self.reports.try_iter()
    }

    /// Queues an errand behind those before it.
    pub fn submit(&self, errand: Errand<M>) {
        // The thread is gone only if it panicked, and then no snapshot is made any more.
        let _ = self.errands.send(errand);
    }
}
