//! The kill loop: three processes, clients that record every call, a killer, and judges.
//!
//! [`run`] does all of it: [`workload`] asks random nodes and writes down what it was told,
//! [`killer`] kills and restarts, [`changer`] has others vote, and in the end [`judge`] holds the
//! record against what a linearizable store may do. One seed fixes what is drawn, not how the
//! machine schedules it: a failing run leaves its logs, its directories and its record behind.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test ends where a fact is missing"))]

pub mod changer;
pub mod history;
pub mod json;
pub mod judge;
pub mod killer;
pub mod register;
mod run;
pub mod workload;

pub use run::{Options, Summary, Voters, run};
