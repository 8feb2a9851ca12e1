//! `cargo xtask tidy`: prints what breaks the rules of the repository, one line each.

use std::process::ExitCode;
use xtask::{Tree, tidy};

const USAGE: &str = "usage: cargo xtask tidy\n\n  tidy   check the rules that no compiler checks\n";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => run_tidy(),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            print!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn run_tidy() -> ExitCode {
    let tree = match Tree::read() {
        Ok(tree) => tree,
        Err(error) => {
            println!("the repository cannot be read: {error}");
            return ExitCode::FAILURE;
        }
    };
    let findings = tidy(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    println!("{} files, {} findings", tree.files.len(), findings.len());
    match findings.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
