//! `sim`: runs seeds and plans of the simulated world with the key-value store, and shows what
//! happened. All that it does is in `command.rs`, which is there for other machines as well.

use quorate_sim::{command, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    command("-p quorate-sim", run)
}
