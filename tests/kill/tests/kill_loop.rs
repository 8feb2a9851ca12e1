//! The kill loop in short: what CI runs of it. `cargo run -p quorate-kill -- --kills 200` is the long
//! form.

#![allow(clippy::unwrap_used)]

use quorate_kill::{Options, run};
use quorate_processes::{Profile, binary};
use std::path::Path;

#[test]
fn no_acknowledged_write_is_lost_and_every_answer_can_be_explained() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    // Each process has its own seed: many runs see more than one run often.
    let seed = number("QUORATE_SEED").unwrap_or(u64::from(std::process::id()));
    let kills = number("QUORATE_KILLS").unwrap_or(20) as u32;
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kill-{seed}"));
    let _ = std::fs::remove_dir_all(&root);
    let options = Options::new(binary(Profile::Dev).unwrap(), root, seed, kills);
    let summary = run(&options, |_| {}).unwrap();
    assert!(summary.failures.is_empty(), "{summary}");
    assert!(summary.kills >= kills && summary.acknowledged > 0 && summary.digests > 0, "{summary}");
}
