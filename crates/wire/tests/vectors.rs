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

#[test]
fn api_versions() {
    check("api_versions.txt", ApiKey::ApiVersions, 22);
}

#[test]
fn vote() {
    check("vote.txt", ApiKey::Vote, 28);
}

#[test]
fn begin_quorum_epoch() {
    check("begin_quorum_epoch.txt", ApiKey::BeginQuorumEpoch, 15);
}

#[test]
fn end_quorum_epoch() {
    check("end_quorum_epoch.txt", ApiKey::EndQuorumEpoch, 6);
}

#[test]
fn fetch() {
    check("fetch.txt", ApiKey::Fetch, 72);
}

#[test]
fn describe_quorum() {
    check("describe_quorum.txt", ApiKey::DescribeQuorum, 6);
}

#[test]
fn fetch_snapshot() {
    check("fetch_snapshot.txt", ApiKey::FetchSnapshot, 4);
}

#[test]
fn describe_cluster() {
    check("describe_cluster.txt", ApiKey::DescribeCluster, 8);
}

#[test]
fn controller_registration() {
    check("controller_registration.txt", ApiKey::ControllerRegistration, 9);
}

#[test]
fn add_raft_voter() {
    check("add_raft_voter.txt", ApiKey::AddRaftVoter, 4);
}

#[test]
fn remove_raft_voter() {
    check("remove_raft_voter.txt", ApiKey::RemoveRaftVoter, 4);
}

#[test]
fn update_raft_voter() {
    check("update_raft_voter.txt", ApiKey::UpdateRaftVoter, 3);
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
