//! A node that finds no leader says so, and what to do, once that lasts: not while all nodes are
//! started for the first time, nor for an election.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

mod world;

use quorate_base::Span;
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use world::World;

/// Keeps what is said at WARN and ERROR.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<String>>>);

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

impl Subscriber for Said {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn a_missing_leader_is_worth_a_line_only_when_it_is_missing_for_long() {
    let said = Said::default();
    let lines = || -> Vec<String> { std::mem::take(&mut *said.0.lock().unwrap()) };
    tracing::subscriber::with_default(said.clone(), || {
        let mut world = World::new(3, |_| {});
        let wait = |world: &mut World, ms: u64| {
            let until = world.now + Span::ms(ms);
            world.until("time passes", |world| world.now > until);
        };
        // Started one by one by hand, a few seconds apart.
        world.start(1).unwrap();
        wait(&mut world, 5_000);
        world.start(2).unwrap();
        world.until("somebody leads", |world| world.leader().is_some());
        world.start(3).unwrap();
        wait(&mut world, 2_000);
        // An election.
        let leader = world.leader().unwrap();
        world.stop(leader);
        world.until("another one leads", |world| world.leader().is_some_and(|id| id != leader));
        wait(&mut world, 30_000);
        assert_eq!(lines(), [""; 0]);
        // Now one is left of three.
        let second = world.leader().unwrap();
        world.stop(second);
        wait(&mut world, 9_000);
        assert_eq!(lines(), [""; 0]);
        wait(&mut world, 10_000);
        let lines = lines();
        assert!(lines.len() == 1 && lines[0].contains("finds no leader"), "{lines:?}");
        assert!(lines[0].contains("start those that are down"), "{lines:?}");
    });
}
