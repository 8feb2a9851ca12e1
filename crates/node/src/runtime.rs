//! The replica on real sockets, files and clocks: one event loop, one disk thread, a pool for
//! reads.
//!
//! The loop is a single task on a current-thread tokio runtime with the replica inline; connection
//! tasks only read, cut frames and notify. The loop never waits for a disk. Nothing of the protocol
//! is decided here: what arrives goes to [`crate::Replica`], what it wants done is done.

mod anew;
mod clock;
mod disk_thread;
mod event_loop;
mod inbox;
mod lane_thread;
mod leaving;
mod net;
mod probe;

pub use event_loop::{Fatal, Node};
