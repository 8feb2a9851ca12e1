//! The example is not only compiled: it runs, and its own assertions hold.

#[path = "../examples/counter.rs"]
mod counter;

#[test]
fn the_counter_counts_on_without_its_leader() {
    counter::main().expect("it runs to its end");
}
