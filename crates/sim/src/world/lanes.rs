//! The snapshot lanes: errands that were given to one, and its pieces of work, each at a time of
//! its own, so that a node can go down between any two.

use super::{Event, World};
use crate::checkers::Failure;
use crate::clients::Clients;
use crate::network::Process;
use quorate_base::Span;
use quorate_log::Snapshot;
use quorate_node::{Errand, Report};

impl<C: Clients> World<C> {
    /// A replica gives its lane something to do.
    pub(super) fn errand(
        &mut self,
        node: usize,
        errand: Errand<C::Machine>,
    ) -> Result<(), Failure> {
        match &errand {
            Errand::Write { id, .. } => {
                let id = *id;
                self.line(node, || format!("begins the snapshot {id}"));
            }
            Errand::Load { id, .. } => {
                let id = *id;
                self.marks.hit("a snapshot was loaded");
                self.line(node, || format!("loads the snapshot {id}"));
                let Some((running, _)) = self.running(node) else { return Ok(()) };
                if running.replica.serves() {
                    let what = format!("node {} leads and loads {id}", node + 1);
                    return Err(Failure::new("leader_never_loads_snapshot", what));
                }
            }
            Errand::Abandon { .. } => {
                self.marks.hit("a download was given up");
                self.line(node, || "gives up a download".to_owned());
            }
            Errand::Store { .. } | Errand::Check { .. } | Errand::Remove { .. } => {}
        }
        let Some((running, _)) = self.running(node) else { return Ok(()) };
        let was_idle = running.lane.is_idle();
        running.lane.push(errand);
        if was_idle {
            self.plan_lane(node);
        }
        Ok(())
    }

    fn plan_lane(&mut self, node: usize) {
        let (process, at) = (self.life(node), self.now + self.disk_time(node));
        self.queue.push(at, Event::Lane(process));
    }

    /// The lane does its next piece.
    pub(super) fn lane(&mut self, process: Process) -> Result<(), Failure> {
        let Some(node) = self.process(process, || Event::Lane(process)) else { return Ok(()) };
        let Some((running, local)) = self.running(node) else { return Ok(()) };
        let report = running.lane.step();
        let idle = running.lane.is_idle();
        self.trace.mix(&[self.now.0, node as u64, 6]);
        if !idle {
            self.plan_lane(node);
        }
        let Some(report) = report else { return Ok(()) };
        let line = match &report {
            Report::Stored { whole: None, .. } => "has stored a piece of a snapshot".to_owned(),
            Report::Stored { whole: Some((whole, _)), .. } => {
                self.marks.hit("a snapshot was downloaded");
                format!("has the snapshot {}, {} bytes", whole.id, whole.bytes)
            }
            Report::Spoiled { why, .. } => format!("a download is no good: {why}"),
            Report::Written(Snapshot { id, bytes, .. }) => {
                self.marks.hit("a snapshot was written");
                if self.nodes[node].running.as_ref().is_some_and(|running| running.full) {
                    self.marks.hit("a snapshot was written on a full disk");
                }
                format!("has written the snapshot {id}, {bytes} bytes")
            }
            Report::NotWritten { id, why } => {
                self.marks.hit("a snapshot could not be written");
                format!("cannot write the snapshot {id}: {why}")
            }
            Report::Loaded { id, .. } => format!("has loaded the snapshot {id}"),
            Report::TooNew { id, level } => format!("finds level {level} in the snapshot {id}"),
            Report::Checked { id, fault: None } => format!("finds the snapshot {id} whole"),
            Report::Checked { id, fault: Some(why) } => {
                format!("finds the snapshot {id} damaged: {why}")
            }
            Report::Unreadable { id, why } => format!("cannot read the snapshot {id}: {why}"),
        };
        self.line(node, || line);
        if let Some((running, _)) = self.running(node) {
            running.replica.on_lane(local, report);
        }
        self.reported(node)
    }

    /// A node begins anew, because its files are damaged.
    pub(super) fn repair(&mut self, node: usize, why: &str) -> Result<(), Failure> {
        self.marks.hit("a running node found damage");
        self.line(node, || format!("begins anew: {why}"));
        self.end_process(node, false, false, Span::ms(1));
        Ok(())
    }
}
