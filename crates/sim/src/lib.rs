//! A world in one thread: real replicas with codec, log, protocol and machine, on simulated
//! networks, disks and clocks, under faults.
//!
//! A seed gives a [`Plan`], a plan gives exactly one run, and [`run`] says what it met and which
//! checker objected. Nothing here reads a clock or has a thread, and only `command` talks to a
//! terminal and writes files. docs/TESTING.md tells how to use
//! it and how to read a trace.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test ends where a fact is missing"))]

mod admin;
mod book;
mod checkers;
mod clients;
mod command;
mod desks;
mod draw;
mod history;
pub mod linear;
mod log_lines;
pub mod marks;
mod near;
mod network;
mod node;
mod options;
mod own;
mod plan;
mod queue;
mod run;
mod seats;
mod shrink;
mod trace;
mod words;
mod world;

pub use checkers::Failure;
pub use command::command;
pub use marks::Marks;
pub use near::nearest;
pub use options::Options;
pub use own::{Said, SaidOf, Subject};
pub use plan::{
    Ask, BadPlan, Broken, Down, Fault, Garble, Naming, Plan, Step, When, parse_seed, parse_span,
};
pub use run::{How, Outcome, run, run_own};
pub use seats::Change;
pub use shrink::shrink;
