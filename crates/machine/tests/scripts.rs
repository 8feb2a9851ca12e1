//! Runs `tests/scripts/*.txt`: what a store with sessions answers and logs, as a reader sees it.
//!
//! A script is blocks of commands and, below `---`, what they print. `UPDATE=1` writes what is
//! printed now; read the difference before you keep it. A new command is a new arm of `run`.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]
#![allow(clippy::disallowed_methods, reason = "scripts are files")]

mod harness;

use bytes::Bytes;
use harness::Quorum;
use quorate_base::{Offset, Span};
use quorate_machine::kv::{Condition, Outcome, Query, Reply, Write};
use quorate_machine::{Answer, Kv, Machine, Request, SessionId, Sessioned, Stamp};
use std::fmt::Write as _;
use std::path::Path;

type Store = Quorum<Sessioned<Kv>>;

#[test]
fn scripts_print_what_they_say() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut paths: Vec<_> = dir.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no scripts in {}", dir.display());
    for path in paths {
        let script = std::fs::read_to_string(&path).unwrap();
        let printed = run_script(&script);
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, printed).unwrap();
        } else {
            assert_eq!(printed, script, "{} (UPDATE=1 rewrites it)", path.display());
        }
    }
}

fn run_script(script: &str) -> String {
    let mut store = Store::new(|| Sessioned::new(Kv::new()));
    let mut printed = String::new();
    let mut in_output = false;
    let mut output = String::new();
    for line in script.lines().chain([""]) {
        match line {
            "---" => {
                writeln!(printed, "---\n{output}").unwrap();
                output.clear();
                in_output = true;
            }
            "" => in_output = false,
            _ if in_output => {}
            line => {
                writeln!(printed, "{line}").unwrap();
                if !line.starts_with('#') {
                    output += &run(&mut store, line);
                }
            }
        }
    }
    store.settle();
    store.check();
    printed.truncate(printed.trim_end().len());
    printed + "\n"
}

/// `verb argument... name=value...`
struct Command<'a> {
    verb: &'a str,
    arguments: Vec<&'a str>,
    options: Vec<(&'a str, &'a str)>,
}

impl<'a> Command<'a> {
    fn parse(line: &'a str) -> Command<'a> {
        let mut words = line.split(' ');
        let verb = words.next().unwrap();
        let (mut arguments, mut options) = (Vec::new(), Vec::new());
        for word in words {
            match word.split_once('=') {
                Some(option) => options.push(option),
                None => arguments.push(word),
            }
        }
        Command { verb, arguments, options }
    }

    fn option(&self, name: &str) -> Option<&'a str> {
        self.options.iter().find(|(option, _)| *option == name).map(|(_, value)| *value)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.option(name).map(|value| value.parse().unwrap())
    }

    fn session(&self) -> SessionId {
        SessionId(Offset(self.arguments[0].parse().unwrap()))
    }

    fn condition(&self) -> Condition {
        match self.option("if") {
            None => Condition::Always,
            Some("absent") => Condition::IfAbsent,
            Some("present") => Condition::IfPresent,
            Some(version) => Condition::IfVersion(Offset(version.parse().unwrap())),
        }
    }

    /// A write, stamped by `by=SESSION/SLOT/SEQUENCE`.
    fn write(&self, write: Write<'_>) -> Request {
        let bytes = write.encode().unwrap();
        let Some(by) = self.option("by") else { return Request::write(bytes) };
        let [session, slot, sequence] =
            by.split('/').map(|word| word.parse().unwrap()).collect::<Vec<u64>>()[..]
        else {
            panic!("by=SESSION/SLOT/SEQUENCE");
        };
        let session = SessionId(Offset(session));
        Request::stamped(Stamp { session, slot: slot.try_into().unwrap(), sequence }, bytes)
    }
}

fn run(store: &mut Store, line: &str) -> String {
    let command = Command::parse(line);
    let condition = command.condition();
    let before = store.log.len();
    let mut output = String::new();
    let mut ask = |request: Request| {
        let answer = store.propose(&request);
        writeln!(output, "{}", show_answer(&answer)).unwrap();
    };
    match command.verb {
        "put" => {
            let (key, value) = (command.arguments[0].as_bytes(), command.arguments[1].as_bytes());
            ask(command.write(Write::Put { key, value, condition }));
        }
        "delete" => {
            let key = command.arguments[0].as_bytes();
            ask(command.write(Write::Delete { key, condition }));
        }
        "raw" => ask(Request::write(unhex(command.arguments[0]))),
        "open" => ask(Request::open_session(Span::ms(command.number("ttl").unwrap()))),
        "renew" => ask(Request::renew_session(command.session())),
        "close" => ask(Request::close_session(command.session())),
        "get" => {
            let key = Bytes::copy_from_slice(command.arguments[0].as_bytes());
            output = show_reply(&store.machine().query(&Query::Get { key }));
        }
        "list" => {
            let prefix = command.arguments.first().unwrap_or(&"").as_bytes();
            let query = Query::List {
                prefix: Bytes::copy_from_slice(prefix),
                after: command.option("after").map(|key| Bytes::copy_from_slice(key.as_bytes())),
                limit: command.number("limit").unwrap_or(100) as usize,
            };
            output = show_reply(&store.machine().query(&query));
        }
        "stat" => output = show_reply(&store.machine().query(&Query::Stat)),
        "wait" => store.wait(Span::ms(command.arguments[0].parse().unwrap())),
        "take-nothing" => store.take_nothing(Span::ms(command.arguments[0].parse().unwrap())),
        "commit" => store.commit(usize::MAX / 2),
        // The uncommitted batches that the new leader does not have are gone.
        "lead" => {
            let kept = command.number("kept").unwrap_or(0) as usize;
            store.elect(command.arguments[0].parse().unwrap(), kept);
            writeln!(output, "leader {} epoch {}", store.leader, store.epoch).unwrap();
            return output;
        }
        other => panic!("no command: {other}"),
    }
    for record in store.log[before..].iter().flat_map(|batch| &batch.records) {
        let value = record.value.as_deref().map_or("null".to_owned(), show_bytes);
        let key = show_bytes(record.key.as_deref().unwrap());
        writeln!(output, "  {} {key} = {value}", record.offset).unwrap();
    }
    output
}

fn show_answer(answer: &Answer) -> String {
    match answer {
        Answer::Done(bytes) if bytes.is_empty() => "done".to_owned(),
        Answer::Done(bytes) => format!("done {}", show_outcome(bytes)),
        Answer::Refused(bytes) => format!("refused {}", show_outcome(bytes)),
        Answer::Opened(session) => format!("opened {session}"),
        Answer::Session(why) => format!("{why:?}"),
    }
}

fn show_outcome(bytes: &[u8]) -> String {
    match Outcome::decode(bytes).unwrap() {
        Outcome::Written { version, previous: None } => format!("created {version}"),
        Outcome::Written { version, previous: Some(previous) } => {
            format!("written {version} over {previous}")
        }
        Outcome::Deleted { at, previous } => format!("deleted {previous} by {at}"),
        Outcome::Absent => "absent".to_owned(),
        Outcome::ConditionFailed { current: Some(version) } => format!("current {version}"),
        Outcome::ConditionFailed { current: None } => "current none".to_owned(),
        Outcome::Invalid(invalid) => format!("{}: {invalid}", invalid.field()),
    }
}

fn show_reply(reply: &Reply) -> String {
    match reply {
        Reply::Get(None) => "none\n".to_owned(),
        Reply::Get(Some(found)) => format!("{} @{}\n", show_bytes(&found.value), found.version),
        Reply::List { items, more } => {
            let mut output = String::new();
            for item in items {
                let (key, value) = (show_bytes(&item.key), show_bytes(&item.value));
                writeln!(output, "{key} = {value} @{}", item.version).unwrap();
            }
            output + if *more { "more\n" } else { "end\n" }
        }
        Reply::Stat(stat) => format!("{stat:?}\n"),
    }
}

/// Text as it is, other bytes in hex.
fn show_bytes(bytes: &[u8]) -> String {
    match bytes.iter().all(|byte| byte.is_ascii_graphic()) {
        true => String::from_utf8(bytes.to_vec()).unwrap(),
        false => bytes.iter().fold("x".to_owned(), |text, byte| format!("{text}{byte:02x}")),
    }
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}
