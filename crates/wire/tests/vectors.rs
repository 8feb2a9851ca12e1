//! Frames that Apache Kafka wrote, `vectors/*.txt`: each is read completely, shows as the line
//! below it says, and encodes to the same bytes again.
//!
//! `UPDATE=1` rewrites the lines that show frames; look at the difference before you commit it.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test ends where a fact is missing; a test may use files, threads and clocks"
)]

use bytes::Bytes;
use quorate_wire::record::control::{ControlRecord, ControlType};
use quorate_wire::{ApiKey, Kind, RequestFrame, read_whole};
use std::collections::BTreeSet;
use std::{env, fs, path::PathBuf};

/// Reads a file of vectors: `read` gives what one line shows as, or nothing if it is no vector.
fn check_lines(file: &str, expect: usize, mut read: impl FnMut(&str) -> Option<String>) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(file);
    let text = fs::read_to_string(&path).unwrap();
    let (mut updated, mut found) = (String::new(), 0);
    // A line that shows a vector begins with the vector's name.
    for line in
        text.lines().filter(|line| !line.starts_with(|first: char| first.is_ascii_uppercase()))
    {
        updated += line;
        updated.push('\n');
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let shown = read(line).unwrap_or_else(|| panic!("{file}: not a vector: {line}"));
        updated += &shown;
        updated.push('\n');
        found += 1;
    }
    assert_eq!(found, expect, "{file}");
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, updated).unwrap();
    } else {
        assert_eq!(updated, text, "{file}: shows differently");
    }
}

fn check(file: &str, api: ApiKey, frames: usize) {
    check_lines(file, frames, |line| {
        let [version, kind, hex] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
        let version = version.strip_prefix('v')?.parse().ok()?;
        let kind = if kind == "request" { Kind::Request } else { Kind::Response };
        let frame = Bytes::from(unhex(hex));
        if kind == Kind::Request {
            assert_eq!(
                RequestFrame::parse(frame.clone()).unwrap().header.version,
                version,
                "{line}"
            );
        }
        let found = read_whole(api, kind, version, frame.clone());
        let whole = found.unwrap_or_else(|error| panic!("{file}: {error}: {line}"));
        assert_eq!(whole.written, frame, "{file}: written differently than read: {line}");
        Some(whole.shown)
    });
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().map(|digit| digit.to_digit(16).expect("a hex digit") as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// How many frames of each API Kafka's nodes, brokers and tools were recorded with, the same ones
/// of one kind of quorum once.
const RECORDED: [(ApiKey, usize); 20] = [
    (ApiKey::Fetch, 72),
    (ApiKey::ApiVersions, 22),
    (ApiKey::CreateTopics, 6),
    (ApiKey::Vote, 28),
    (ApiKey::BeginQuorumEpoch, 15),
    (ApiKey::EndQuorumEpoch, 6),
    (ApiKey::DescribeQuorum, 6),
    (ApiKey::AlterPartition, 12),
    (ApiKey::UpdateFeatures, 10),
    (ApiKey::Envelope, 48),
    (ApiKey::FetchSnapshot, 4),
    (ApiKey::DescribeCluster, 8),
    (ApiKey::BrokerRegistration, 12),
    (ApiKey::BrokerHeartbeat, 33),
    (ApiKey::AllocateProducerIds, 4),
    (ApiKey::ControllerRegistration, 9),
    (ApiKey::AssignReplicasToDirs, 30),
    (ApiKey::AddRaftVoter, 4),
    (ApiKey::RemoveRaftVoter, 4),
    (ApiKey::UpdateRaftVoter, 3),
];

/// `BeginQuorumEpoch` is in `begin_quorum_epoch.txt`.
fn file_of(api: ApiKey) -> String {
    let mut file = String::new();
    for letter in api.name().chars() {
        if letter.is_ascii_uppercase() && !file.is_empty() {
            file.push('_');
        }
        file.push(letter.to_ascii_lowercase());
    }
    file + ".txt"
}

#[test]
fn every_recorded_frame_is_read_to_its_end_and_written_alike() {
    for (api, frames) in RECORDED {
        check(&file_of(api), api, frames);
    }
}

/// An API that is left out of the table above, of the codec, or of the files is found here.
#[test]
fn every_api_and_every_file_is_checked() {
    let checked: Vec<ApiKey> = RECORDED.iter().map(|(api, _)| *api).collect();
    let kafkas: Vec<ApiKey> =
        ApiKey::ALL.iter().copied().filter(|api| *api != ApiKey::Forward).collect();
    assert_eq!(checked, kafkas, "every API is recorded but the one that is ours");
    assert_eq!(RECORDED.iter().map(|(_, frames)| frames).sum::<usize>(), 336);

    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let files = fs::read_dir(directory).unwrap();
    let found: BTreeSet<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    let expect = checked.iter().map(|api| file_of(*api)).chain(["control_records.txt".to_owned()]);
    assert_eq!(found, expect.collect(), "files of vectors");
}

#[test]
fn control_records() {
    check_lines("control_records.txt", 16, |line| {
        let (number, hex) = line.split_once(' ')?;
        let kind = ControlType::from_number(number.parse().ok()?);
        let value = Bytes::from(unhex(hex));
        let record = ControlRecord::decode(kind, value.clone())
            .unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(!matches!(record, ControlRecord::Other(..)), "{line}");
        assert_eq!(record.kind(), kind);
        let shown = record.to_string();
        assert_eq!(record.encode(), Ok(value), "written differently than read: {line}");
        Some(shown)
    });
}
