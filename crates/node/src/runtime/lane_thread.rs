//! The thread of the snapshot lane. Nothing waits for its work: it ends with the node, in the
//! middle of a snapshot if need be, and start-up removes what it left half done. A node that begins
//! anew waits for its end, or it would still be renaming files while they are read.

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
    thread: thread::JoinHandle<()>,
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
        let thread = thread::Builder::new().name("quorate-snapshot".into()).spawn(work)?;
        Ok(LaneThread { errands, reports, thread })
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

    /// Ends the thread after the piece that it is at, and waits for that: its files are left alone
    /// from then on.
    pub fn finish(self) {
        let LaneThread { errands, reports, thread } = self;
        drop((errands, reports));
        // If it panicked, it is over as well.
        let _ = thread.join();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]
mod tests {
    use super::*;
    use bytes::Bytes;
    use quorate_base::{Epoch, Offset, OffsetEpoch};
    use quorate_log::{MemoryDisk, Reserved};
    use quorate_machine::{Image, Kv, OwnedRecord, Sessioned};
    use std::sync::Arc;

    #[test]
    fn an_end_that_was_waited_for_leaves_nobody_at_the_files() {
        let mut disk = MemoryDisk::default();
        disk.create_dir("p").unwrap();
        let reserved = Reserved::open(disk.clone(), "p", 0).unwrap();
        let lane: Lane<Sessioned<Kv>, MemoryDisk> = Lane::new(&reserved, "p");
        let thread = LaneThread::start(lane, Inbox::default()).unwrap();
        // A snapshot without end, which tells that it is being written, and lives as long as that.
        let (begun, wait) = mpsc::channel();
        let alive = Arc::new(());
        let held = alive.clone();
        let records = std::iter::repeat_with(move || {
            let _ = (&held, begun.send(()));
            OwnedRecord {
                offset: Offset(1),
                key: Some(Bytes::from_static(b"key")),
                value: Some(Bytes::from_static(b"value")),
                header_count: 0,
                headers: Bytes::new(),
            }
        });
        let id = OffsetEpoch::new(Offset(5), Epoch(1));
        let image = Image::new(records);
        thread.submit(Errand::Write {
            id,
            timestamp_ms: 1,
            head: Vec::new(),
            image,
            reserve: false,
        });
        wait.recv().unwrap();
        thread.finish();
        assert_eq!(Arc::strong_count(&alive), 1);
        let left = disk.list("p").unwrap();
        assert!(left.iter().all(|name| !name.ends_with(".checkpoint")), "{left:?}");
    }
}
