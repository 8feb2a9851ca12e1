//! `cargo xtask tidy` prints what breaks the rules of the repository, one line each;
//! `cargo xtask wrap` mends what it can: comments that are too wide; `cargo xtask interop` lets
//! real Kafka, and a checker of others, judge us.

use std::io;
use std::process::{Command, ExitCode};
use xtask::{File, Tree, tidy, wrap::wrap};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy             check the rules that no compiler checks
  wrap [PATH…]     break wide comments anew, in these files or in those below these folders
  interop [--minutes N] [NAME…]
                   let programs of others judge ours: Apache Kafka's, which need Java and Maven,
                   and a checker of histories, which needs Go; --minutes: how long the scenario with
                   random kills runs, 1 without it
  record …         stand between programs that speak Kafka's protocol and write down their frames
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => run(check),
        ["wrap", ref paths @ ..] => run(|tree| rewrap(tree, paths)),
        ["interop", ref names @ ..] => interop(names),
        ["record", ..] => interop(&arguments.iter().map(String::as_str).collect::<Vec<_>>()),
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

/// In a process of its own, which builds what it needs.
fn interop(names: &[&str]) -> ExitCode {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["run", "--quiet", "--locked", "--package", "quorate-interop", "--"];
    match Command::new(cargo).args(arguments).args(names).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            println!("cargo cannot be started: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: impl FnOnce(&Tree) -> io::Result<ExitCode>) -> ExitCode {
    Tree::read().and_then(|tree| command(&tree)).unwrap_or_else(|error| {
        println!("a file of the repository cannot be read or written: {error}");
        ExitCode::FAILURE
    })
}

fn check(tree: &Tree) -> io::Result<ExitCode> {
    let findings = tidy(tree);
    for finding in &findings {
        println!("{finding}");
    }
    println!("{} files, {} findings", tree.files.len(), findings.len());
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn rewrap(tree: &Tree, paths: &[&str]) -> io::Result<ExitCode> {
    let wanted = |file: &&File| paths.is_empty() || paths.iter().any(|p| file.path.starts_with(p));
    for file in tree.files.iter().filter(|file| file.is("rs")).filter(wanted) {
        let text = wrap(&file.text);
        if text != file.text {
            println!("{}", file.path);
            Tree::write(&File { path: file.path.clone(), text })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
