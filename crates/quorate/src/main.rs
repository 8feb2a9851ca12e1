//! The binary `quorate`. All it does is in `cli`; this file only hands over the exit code.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
