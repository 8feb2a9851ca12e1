//! What arrives at a node from the network: frames, closed connections, and connections that were
//! made or not. A paused process gets it when its pause ends.

use super::{Event, World};
use crate::checkers::Failure;
use crate::clients::Clients;
use crate::network::{Arrival, Dial, Process};
use quorate_node::{ConnId, ConnectError};

impl<C: Clients> World<C> {
    pub(super) fn deliver(&mut self, conn: ConnId) -> Result<(), Failure> {
        // A paused process reads nothing; its kernel keeps what comes.
        let owner = self.network.owner(conn);
        let node = |owner: &Process| owner.node < self.nodes.len();
        if let Some(owner) = owner.filter(node).filter(|owner| self.network.owns(*owner, conn)) {
            let known = self.process(owner, || Event::Deliver(conn));
            if known.is_none() {
                return Ok(());
            }
        }
        let arrival = self.network.deliver(self.now, conn, &mut self.queue);
        let (process, conn, frame) = match arrival {
            Arrival::Nothing => return Ok(()),
            Arrival::Frame(process, conn, frame) => (process, conn, Some(frame)),
            Arrival::Closed(process, conn) => (process, conn, None),
        };
        if process.node == self.nodes.len() {
            return self.admin_hears(conn, frame);
        }
        self.trace.mix(&[self.now.0, process.node as u64, conn.0, 1]);
        let Some((running, local)) = self.running(process.node) else { return Ok(()) };
        match frame {
            Some(frame) => running.replica.on_frame(local, conn, frame),
            None => {
                running.replica.on_closed(local, conn);
                self.line(process.node, || "a connection was closed".to_owned());
            }
        }
        self.reported(process.node)
    }

    pub(super) fn dialed(
        &mut self,
        dial: Dial,
        result: Result<ConnId, ConnectError>,
    ) -> Result<(), Failure> {
        let from = dial.from;
        let alive = {
            let node = &self.nodes[from.node];
            node.running.is_some() && node.life == from.life
        };
        if !alive {
            if let Ok(conn) = result {
                self.network.close(self.now, conn, &mut self.queue);
            }
            return Ok(());
        }
        let Some(node) = self.process(from, || Event::Dialed { dial, result }) else {
            return Ok(());
        };
        if result == Err(ConnectError::Refused) {
            self.marks.hit("a connection was refused");
        }
        let Some((running, local)) = self.running(node) else { return Ok(()) };
        running.replica.on_connect(local, dial.link, result);
        let to = dial.to + 1;
        self.line(node, || match result {
            Ok(_) => format!("is connected to {to}"),
            Err(error) => format!("cannot connect to {to}: {error:?}"),
        });
        self.reported(node)
    }
}
