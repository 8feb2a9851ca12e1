//! Reads a script and runs it: blocks of commands, and below each `---` the lines that they bring
//! about.
//!
//! `tests/README.md` lists the commands. Here one command is one arm of [`Script::command`]; what a
//! line looks like is up to `narrate.rs`.

mod narrate;
mod raw;
mod words;

use crate::cluster::{Cluster, Kept, Shape};
use narrate::Narrator;
use quorate_base::{Epoch, Offset, OffsetEpoch, ReplicaId, Span};
use quorate_raft::*;
use words::Words;

/// The text of the script with the lines that it brings about now. `shape` is what `cluster` fills
/// in.
pub fn run(text: &str, shape: Shape) -> String {
    let mut script = Script { cluster: None, shape, narrator: Narrator::default() };
    let (mut printed, mut expectation) = (String::new(), false);
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines().chain([""]) {
        match line {
            "---" => {
                printed += "---\n";
                for line in lines.drain(..) {
                    printed = printed + &line + "\n";
                }
                expectation = true;
            }
            "" => {
                assert!(lines.is_empty(), "a block without `---`: {lines:?}");
                printed += "\n";
                expectation = false;
            }
            _ if expectation => {}
            command => {
                printed = printed + command + "\n";
                if !command.starts_with('#') {
                    lines.extend(script.command(command));
                }
            }
        }
    }
    printed.truncate(printed.trim_end().len());
    printed + "\n"
}

struct Script {
    cluster: Option<Cluster>,
    shape: Shape,
    narrator: Narrator,
}

impl Script {
    fn command(&mut self, line: &str) -> Vec<String> {
        let mut words = Words::of(line);
        let verb = words.word();
        if verb == "cluster" {
            self.cluster(&mut words);
            words.end();
            return Vec::new();
        }
        let Some(cluster) = &mut self.cluster else {
            panic!("a script begins with `cluster`: {line}")
        };
        let mut lines = Vec::new();
        match verb {
            "open" => lines = open(cluster, &self.narrator, &mut words),
            "deliver" => match words.maybe_link() {
                Some(link) => while cluster.deliver(|flight| (flight.from, flight.to) == link) {},
                None => cluster.settle(),
            },
            "isolate" => cluster.isolate(words.id()),
            "cut" => drop(cluster.cuts.insert(words.link())),
            "heal" => cluster.cuts.clear(),
            "drop" => {
                let link = words.link();
                cluster.network.retain(|flight| (flight.from, flight.to) != link);
            }
            "lose" => {
                let (from, to) = words.link();
                cluster.lose(from, to, loss(words.word()));
            }
            "wait" => {
                let until = cluster.now + words.span();
                while cluster.wake(until) {}
            }
            "run" => {
                self.narrator.folding = true;
                let until = cluster.now + words.span();
                cluster.settle();
                while cluster.wake(until) {
                    cluster.settle();
                }
            }
            "elect" => {
                self.narrator.compact = true;
                cluster.elect(words.id());
            }
            "append" => {
                let (id, records) = (words.id(), words.number("records").unwrap_or(1) as u32);
                let epoch = words.epoch("epoch").unwrap_or(cluster.picture(id).epoch);
                let token = self.narrator.name("append", cluster.serial());
                cluster.step(id, Input::Propose { token, epoch, records });
            }
            "read" => {
                let token = self.narrator.name("read", cluster.serial());
                cluster.step(words.id(), Input::Read { token });
            }
            "resign" => {
                let id = words.id();
                let epoch = words.epoch("epoch").unwrap_or(cluster.picture(id).epoch);
                cluster.step(id, Input::Resign { epoch });
            }
            "hand-over" => {
                let id = words.id();
                let epoch = words.epoch("epoch").unwrap_or(cluster.picture(id).epoch);
                cluster.step(id, Input::HandOver { epoch });
            }
            "shutdown" => {
                let id = words.id();
                let until = cluster.time(id) + Span::ms(words.number("within").unwrap_or(5_000));
                cluster.step(id, Input::Shutdown { until });
            }
            "freeze" => {
                let (id, at) = (words.id(), words.number("at").expect("an end"));
                assert!(cluster.freeze(id, Offset(at)), "{id} makes no snapshot of {at}");
            }
            "trim" => {
                let (id, at) = (words.id(), words.option("at").expect("an id"));
                let snapshot = words.end_epoch(at);
                cluster.step(id, Input::Trim { snapshot });
            }
            "giveup" => {
                let id = words.id();
                let voters_too = words.option("voters") == Some("too");
                cluster.step(id, Input::GiveUpHolds { voters_too });
            }
            "holds" => {
                let id = words.id();
                lines = narrate::holds(cluster, id);
            }
            "spoil" => {
                let id = words.id();
                let source = cluster.node(id).pieces.pop_front().expect("a piece on its way");
                cluster.node(id).pieces.clear();
                cluster.step(id, Input::Spoiled { source });
            }
            "cleaned" => {
                let id = words.id();
                cluster.node(id).cleaned = raw::cleaned(words.option("to").expect("to=D/C/H"));
            }
            "hold" => cluster.node(words.disk()).held = true,
            "release" => cluster.release(words.disk()),
            "sync" => {
                let (id, writes) = (words.disk(), words.number("writes").unwrap_or(1));
                cluster.sync(id, writes as usize);
            }
            "crash" => cluster.crash(words.id()),
            "restart" => {
                let id = words.id();
                cluster.open(id).expect("the files fit together");
                lines = self.narrator.start(id, cluster);
            }
            "status" => {
                let id = words.id();
                lines = vec![narrate::status(id, &cluster.picture(id))];
            }
            "seats" => lines = vec![narrate::seats(cluster, words.id())],
            "progress" => lines = narrate::progress(cluster, words.id()),
            "flying" => lines = narrate::flying(cluster, &self.narrator),
            "peer" => {
                let (at, id) = words.arrow();
                let no = |word: Option<&str>| word == Some("no");
                let pre_vote = !no(words.option("prevote"));
                let rounds = !no(words.option("rounds"));
                let updates = words.option("updates") == Some("yes");
                let kraft_versions = words.option("kraft").map(raw::range);
                let joins = words.option("joins") == Some("yes");
                let speaks = Features { pre_vote, rounds, updates, joins, kraft_versions };
                cluster.step(at, Input::Peer { id, speaks });
            }
            "vote" | "prevote" | "begin" | "end" | "fetch" | "fetchsnapshot" | "update" | "add"
            | "remove" | "upgrade" => {
                let (to, from) = words.arrow();
                let body = raw::request(cluster, verb, to, from, &mut words);
                self.narrator.asked(to, from, &body);
                cluster.ask(to, from, body);
            }
            "answer" => {
                let (to, from) = words.arrow();
                let (body, records) = raw::answer(cluster, to, from, &mut words);
                cluster.forge(to, from, body, records);
            }
            other => panic!("no such command: {other}"),
        }
        words.end();
        for event in std::mem::take(&mut cluster.events) {
            self.narrator.tell(&event, &mut lines);
        }
        self.narrator.end_of_command();
        lines
    }

    fn cluster(&mut self, words: &mut Words<'_>) {
        let mut shape = self.shape.clone();
        shape.voters = words.numbers("voters");
        shape.observers = words.numbers("observers");
        shape.nameless = words.numbers("nameless");
        shape.old = words.numbers("old");
        shape.never_lead = words.numbers("neverlead");
        shape.auto_join = words.numbers("autojoin");
        shape.bootstrap = words.numbers("bootstrap");
        match words.option("directories") {
            None => {}
            Some("yes") => shape.directories = true,
            Some("zero") => shape.no_directory = true,
            Some(other) => panic!("no such directories: {other}"),
        }
        shape.compact = match words.option("policy") {
            None | Some("delete") => false,
            Some("compact") => true,
            Some(other) => panic!("no such policy: {other}"),
        };
        shape.endpoints = words.number("endpoints").unwrap_or(0) as usize;
        shape.founding = words.option("founding").map(|word| words.decree(word));
        self.narrator = Narrator::default();
        self.narrator.details = words.option("show") == Some("details");
        let mut cluster = Cluster::new(shape, 1);
        // Scripts that put words into voters' mouths.
        cluster.laws.peers_are_honest = words.option("peers") != Some("forged");
        if let Some(leader) = words.number("leader") {
            let epoch = Epoch(words.number("epoch").expect("an epoch") as u32);
            let end = Offset(words.number("end").expect("an end"));
            cluster.start(ReplicaId(leader as u32), OffsetEpoch::new(end, epoch));
            for event in std::mem::take(&mut cluster.events) {
                self.narrator.tell(&event, &mut Vec::new());
            }
        }
        self.cluster = Some(cluster);
    }
}

/// Starts nodes from files that the script describes.
fn open(cluster: &mut Cluster, narrator: &Narrator, words: &mut Words<'_>) -> Vec<String> {
    let ids = words.ids();
    let ends = words.ends("log");
    let election = ElectionState {
        epoch: words.epoch("epoch").unwrap_or_default(),
        leader: words.number("leader").map(|id| ReplicaId(id as u32)),
        voted: words.key("voted"),
    };
    let kept = Kept {
        start: Offset(words.number("start").unwrap_or(0)),
        snapshots: words.ends("snapshots"),
    };
    let must_reach = words.ends("reach").pop();
    let clean = words.number("clean").map(Offset);
    let founding = words.option("founding").map(|word| words.decree(word));
    if let Some(voters) = founding.iter().find_map(|decree| decree.voters.as_ref()) {
        cluster.laws.voters = voters.iter().map(|voter| voter.key.id).collect();
    }
    let mut lines = Vec::new();
    for id in ids {
        cluster.node(id).format(&ends, election.clone());
        cluster.node(id).durable_kept = kept.clone();
        cluster.node(id).must_reach = must_reach;
        cluster.node(id).clean = clean;
        cluster.node(id).founding.clone_from(&founding);
        match cluster.open(id) {
            Ok(()) => lines.extend(narrator.start(id, cluster)),
            Err(error) => lines.push(format!("{id} does not open: {error}")),
        }
    }
    lines
}

fn loss(word: &str) -> Loss {
    match word {
        "refused" => Loss::Refused,
        "closed" => Loss::Closed,
        "timeout" => Loss::TimedOut,
        "dropped" => Loss::Dropped,
        other => panic!("no such loss: {other}"),
    }
}
