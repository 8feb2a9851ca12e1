//! Real nodes as child processes: the binary `quorate`, its files, its ports, its end.
//!
//! For whatever has to kill nodes the hard way: the kill loop and the benchmarks. [`Cluster`]
//! starts, kills and asks; [`http`] is the small client that both use. Nothing here ends a process
//! that it did not start, and a child ends with the process that started it, however that ends.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test ends where a fact is missing"))]

mod binary;
mod cluster;
mod error;
pub mod http;

pub use binary::{Profile, binary};
pub use cluster::{Cluster, Node, free_ports, poll};
pub use error::Error;
