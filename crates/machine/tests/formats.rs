//! The hex examples of the kv part of docs/FORMATS.md are what this crate writes, and it reads them
//! back.

#![allow(clippy::unwrap_used, reason = "a test ends where a fact is missing")]

mod harness;

use harness::Quorum;
use quorate_base::{FormatLevel, Offset, Span};
use quorate_machine::kv::{Condition, Invalid, Outcome, Write};
use quorate_machine::{Answer, Kv, Request, SessionId, Sessioned, Stamp};

const PAGE: &str = include_str!("../../../docs/FORMATS.md");

/// The lines of the page's examples without spaces and names.
fn examples() -> Vec<String> {
    let mut examples = Vec::new();
    let mut inside = false;
    for line in PAGE.lines() {
        match line {
            "```text" => inside = true,
            "```" => inside = false,
            line if inside => {
                let bytes = line.trim_start_matches("key ").trim_start_matches("value ");
                examples.push(bytes.replace(' ', ""));
            }
            _ => {}
        }
    }
    examples
}

fn unhex(text: &str) -> Vec<u8> {
    let pairs = (0..text.len()).step_by(2).map(|at| &text[at..at + 2]);
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_pages_examples_are_what_is_written() {
    let mut expected = Vec::new();

    let mut founded = Quorum::new(|| Sessioned::new(Kv::new()));
    founded.raise(FormatLevel(1));
    let record = &founded.log[0].records[0];
    expected.extend([hex(record.key.as_ref().unwrap()), hex(record.value.as_ref().unwrap())]);

    // Session 1 opens for five seconds, then writes in slot 3.
    let mut store = Quorum::new(|| Sessioned::new(Kv::new()));
    let opened = store.propose(&Request::open_session(Span::ms(5_000)));
    let session = SessionId(Offset(1));
    assert_eq!(opened, Answer::Opened(session));
    let put = Write::Put { key: b"a", value: b"1", condition: Condition::Always };
    let stamp = Stamp { session, slot: 3, sequence: 1 };
    store.propose(&Request::stamped(stamp, put.encode().unwrap()));
    let records = store.log.iter().flat_map(|batch| &batch.records);
    for record in records.filter(|record| record.key.as_ref().unwrap()[0] == 0) {
        expected.extend([hex(record.key.as_ref().unwrap()), hex(record.value.as_ref().unwrap())]);
    }

    let key = b"name";
    let condition = Condition::IfVersion(Offset(258));
    for write in [
        Write::Put { key, value: b"quorate", condition },
        Write::Delete { key, condition: Condition::IfPresent },
    ] {
        let bytes = write.encode().unwrap();
        assert_eq!(Write::decode(&bytes), Ok(write));
        expected.push(hex(&bytes));
    }

    for (bytes, outcome) in [
        ("00000000000000000002", Outcome::Written { version: Offset(2), previous: None }),
        (
            "000100000000000000070000000000000002",
            Outcome::Written { version: Offset(7), previous: Some(Offset(2)) },
        ),
        ("00040000000000000102", Outcome::ConditionFailed { current: Some(Offset(258)) }),
        ("0005", Outcome::ConditionFailed { current: None }),
        ("000a0000000000000001", Outcome::Invalid(Invalid::UnknownFormat { format: 1 })),
    ] {
        assert_eq!(Outcome::decode(&unhex(bytes)), Ok(outcome));
        expected.push(bytes.to_owned());
    }

    let examples = examples();
    let found = examples.windows(expected.len()).any(|window| window == expected);
    assert!(found, "{examples:#?}\ndo not hold, one after another,\n{expected:#?}");
}

/// A kept answer is a format, so its bytes must not change with the code that makes them.
#[test]
fn answers_are_the_bytes_that_the_page_describes() {
    let mut store = Quorum::new(Kv::new);
    let mut ask = |bytes: &[u8]| match store.propose(&Request::write(bytes.to_vec())) {
        Answer::Done(bytes) => format!("done {}", hex(&bytes)),
        Answer::Refused(bytes) => format!("refused {}", hex(&bytes)),
        answer @ (Answer::Opened(_) | Answer::Session(_)) => panic!("{answer:?}"),
    };
    // Put, put if absent, put, delete, delete, put if present, then what is no write.
    assert_eq!(ask(b"\0\0\0\0\x01a1"), "done 00000000000000000001");
    assert_eq!(ask(b"\0\0\x02\0\x01a1"), "refused 00040000000000000001");
    assert_eq!(ask(b"\0\0\0\0\x01a2"), "done 000100000000000000020000000000000001");
    assert_eq!(ask(b"\0\x01\0\0\x01a"), "done 000200000000000000030000000000000002");
    assert_eq!(ask(b"\0\x01\0\0\x01a"), "done 0003");
    assert_eq!(ask(b"\0\0\x03\0\x01a1"), "refused 0005");
    assert_eq!(ask(b"\0\0\0\0\0"), "refused 0006");
    let long_key = [&b"\0\0\0\x04\x01"[..], &[b'k'; 1_025]].concat();
    assert_eq!(ask(&long_key), "refused 000700000000000004010000000000000400");
    assert_eq!(ask(b"\0\0\0\0\x01\0"), "refused 0008");
    let long_value = [&b"\0\0\0\0\x01a"[..], &vec![b'v'; 1_048_577]].concat();
    assert_eq!(ask(&long_value), "refused 000900000000001000010000000000100000");
    assert_eq!(ask(b"\x01"), "refused 000a0000000000000001");
    assert_eq!(ask(b"\0\x02"), "refused 000b0000000000000001");
}
