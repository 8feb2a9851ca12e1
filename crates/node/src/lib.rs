//! One replica as a value, and the threads and sockets that drive it.
//!
//! [`Replica`] joins the protocol, the log and a machine without doing any I/O; the runtime and the
//! simulator drive it. Outside code talks to a running node through a [`handle::Handle`].

pub mod config;
pub mod handle;
pub mod metrics;
pub mod status;

mod apply;
mod check;
mod clients;
mod fetched;
mod flights;
mod forward;
mod inbound;
mod lane;
mod lane_work;
mod leading;
mod level;
mod links;
#[cfg(mutants)]
mod mutants;
mod once;
mod out;
mod published;
mod replica;
pub mod runtime;
mod seats;
mod snapshots;
pub mod start;
mod translate;

pub use lane::{Errand, Report};
pub use lane_work::Lane;
pub use leading::WRITE_BYTES_MAX;
pub use level::FORMAT_FEATURE;
#[cfg(mutants)]
pub use mutants::Mutant;
pub use out::{BadRead, ClientId, ConnId, ConnectError, LinkId, Out, ReadId, Reading};
pub use published::Published;
pub use replica::{Replica, Settings, Stays};
pub use translate::Names;
