//! Seeded fuzzing of everything that reads bytes from outside.
//!
//! A [`Target`] makes inputs, most of them valid ones that were damaged, and judges what the code
//! under test does with one. [`run()`] goes through many. Equal seeds give equal inputs, and an
//! input can be replayed from its file alone. To add a target: one entry in [`TARGETS`].

mod damage;
mod log;
mod machine;
mod node;
mod run;
mod server;
mod target;
mod wire;

pub use run::{Failure, Options, Report, check_one, run};
pub use target::{CANARY, TARGETS, Target, find};

/// Counts what is allocated, so that an input that makes us hold too much is found.
#[global_allocator]
static ALLOCATOR: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;
