//! Seeded random walks over one to seven cores: what scripts did not think of.
//!
//! A walk that fails names its seed; make a script of it. `WALKS=20000 cargo test` walks further.
#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]
#![allow(clippy::disallowed_methods, reason = "how far to walk is the caller's to say")]

mod cluster;
mod walk;

use cluster::Shape;

fn walks() -> u64 {
    std::env::var("WALKS").map_or(250, |walks| walks.parse().expect("WALKS is a number"))
}

#[test]
fn crashes_slow_disks_bad_links_and_strangers_break_no_law() {
    for seed in 0..walks() {
        let _told = Seed(seed);
        walk::honest(seed, &Shape::default());
    }
}

#[test]
fn whatever_peers_say_nobody_panics_or_breaks_a_promise() {
    for seed in 0..walks() {
        let _told = Seed(seed);
        walk::hostile(seed, &Shape::default());
    }
}

#[test]
fn voters_that_come_and_go_break_no_law() {
    for seed in 0..walks() {
        let _told = Seed(seed);
        walk::honest(seed, &Shape { changing: true, ..Shape::default() });
        walk::hostile(seed, &Shape { changing: true, ..Shape::default() });
    }
}

/// Says which seed failed.
struct Seed(u64);

impl Drop for Seed {
    #[allow(clippy::print_stderr, reason = "tests tell on stderr")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this was the walk of seed {}", self.0);
        }
    }
}
