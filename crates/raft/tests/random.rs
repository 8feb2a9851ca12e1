//! Seeded random walks over three to six cores: what scripts did not think of.
//!
//! A walk that fails names its seed in the panic; make a script of it.
#![allow(clippy::unwrap_used)]

mod cluster;
mod walk;

use cluster::Shape;

#[test]
fn crashes_slow_disks_bad_links_and_strangers_break_no_law() {
    for seed in 0..250 {
        let _told = Seed(seed);
        walk::honest(seed, &Shape::default());
    }
}

#[test]
fn whatever_peers_say_nobody_panics_or_breaks_a_promise() {
    for seed in 0..250 {
        let _told = Seed(seed);
        walk::hostile(seed, &Shape::default());
    }
}

/// Says which seed failed.
struct Seed(u64);

impl Drop for Seed {
    #[allow(clippy::print_stderr)] // tests tell on stderr
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this was the walk of seed {}", self.0);
        }
    }
}
