//! An administrator, who asks for other voters: what was asked of whom, on which connection, and
//! what came of it. Speaks Kafka's AddRaftVoter and RemoveRaftVoter, as any tool does.
//!
//! Believes every answer; whether they are true is for `checkers/changes_as_answered.rs` to say.

use crate::seats::Change;
use bytes::Bytes;
use quorate_base::{Offset, ReplicaKey};
use quorate_node::ConnId;
use quorate_wire::message::{
    AddRaftVoterRequest, AddRaftVoterResponse, Listener, RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
};
use quorate_wire::{ApiKey, ErrorCode, RequestHeader, ResponseFrame, encode_request};
use std::collections::BTreeMap;

/// Names of reasons, by words in the answers.
const REASONS: [(&str, &str); 20] = [
    ("does not lead the quorum", "a change was refused: not the leader"),
    ("names no directory id", "a change was refused: no directory"),
    ("does not say where the node listens", "a change was refused: no listener"),
    ("was elected just now", "a change was refused: the leader is new"),
    ("are static", "a change was refused: static voters"),
    ("another change of the voters", "a change was refused: another one is not finished"),
    ("already, as", "a change was refused: a voter of that id"),
    ("with another directory, as", "a change was refused: a voter with another directory"),
    ("do not include that node", "a change was refused: no such voter"),
    ("it is the only voter", "a change was refused: the only voter"),
    ("did not answer where", "a change was refused: the new one is silent"),
    ("is not who answers there", "a change was refused: another replica answers"),
    ("does not copy the log", "a change was refused: the new one lacks records"),
    ("is behind the leader", "a change was refused: the new one lacks records"),
    ("copies the log at the same time", "a change was refused: both directories are alive"),
    ("follow this leader, too few", "a change was refused: too few would follow"),
    ("as a voter it would stop itself", "a change was refused: the new one is too old"),
    ("has not told this leader which", "a change was refused: the new one tells no level"),
    (PERHAPS[0], "a change was not committed in time"),
    (PERHAPS[1], "a change was lost with its leadership"),
];

/// In these answers the change may be in a log.
const PERHAPS: [&str; 3] = [
    "a majority of them has not stored that in time",
    "lost its leadership before the new voters were committed",
    "is no voter any more, and the new directory is none yet",
];
/// The same before anything was appended.
const LOST_BEFORE: &str = "lost its leadership; nothing was changed";

/// What is asked.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub change: Change,
    pub key: ReplicaKey,
    /// Whose place it is to take; of the same node.
    pub replaces: Option<ReplicaKey>,
    /// Whether the answer is to wait for the commit.
    pub when_committed: bool,
    /// Where the node listens.
    pub at: Option<Listener>,
    /// The part of a replacement that it is.
    pub errand: Option<usize>,
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    /// Nothing yet, or nobody knows.
    Perhaps,
    /// It is done; committed, if that was waited for.
    Done,
    /// Nothing was changed, nor ever will be by this request.
    Refused(ErrorCode),
}

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub wanted: Wanted,
    /// All of the log that was committed then.
    pub since: Offset,
    pub told: Told,
    version: i16,
}

/// All requests, in their order.
#[derive(Default)]
pub(crate) struct Admin {
    pub asked: Vec<Asked>,
    open: BTreeMap<ConnId, usize>,
}

/// An answer in words, and what it means.
pub(crate) struct Heard {
    pub asked: usize,
    pub told: Told,
    /// The mark of its reason; `None` for success and for words that no reason has.
    pub mark: Option<&'static str>,
    pub words: String,
}

impl Admin {
    /// A frame for a node that speaks this version of the request, to be sent on a new connection.
    pub fn ask(&mut self, wanted: Wanted, since: Offset, conn: ConnId, version: i16) -> Bytes {
        let frame = match wanted.change {
            Change::Add => {
                let request = AddRaftVoterRequest {
                    cluster_id: Some("simulated".to_owned()),
                    timeout_ms: 1_000,
                    voter_id: wanted.key.id.0 as i32,
                    voter_directory_id: wanted.key.directory.unwrap_or_default(),
                    listeners: wanted.at.iter().cloned().collect(),
                    ack_when_committed: wanted.when_committed,
                    replaces: wanted.replaces.and_then(|old| old.directory).unwrap_or_default(),
                    ..AddRaftVoterRequest::default()
                };
                let header = RequestHeader::new(ApiKey::AddRaftVoter, version, 0, None);
                encode_request(header, request)
            }
            Change::Remove => {
                let request = RemoveRaftVoterRequest {
                    cluster_id: Some("simulated".to_owned()),
                    voter_id: wanted.key.id.0 as i32,
                    voter_directory_id: wanted.key.directory.unwrap_or_default(),
                    ..RemoveRaftVoterRequest::default()
                };
                let header = RequestHeader::new(ApiKey::RemoveRaftVoter, version, 0, None);
                encode_request(header, request)
            }
        };
        self.open.insert(conn, self.asked.len());
        self.asked.push(Asked { wanted, since, told: Told::Perhaps, version });
        frame.expect("of a version that is spoken").into_payload()
    }

    /// Whether a connection is the administrator's, and an answer may come on it.
    pub fn waits_on(&self, conn: ConnId) -> bool {
        self.open.contains_key(&conn)
    }

    /// A connection closed without an answer.
    pub fn closed(&mut self, conn: ConnId) -> Option<usize> {
        self.open.remove(&conn)
    }

    /// An answer came.
    pub fn heard(&mut self, conn: ConnId, frame: Bytes) -> Result<Heard, String> {
        let index = self.open.remove(&conn).ok_or("nothing was asked")?;
        let asked = &mut self.asked[index];
        let response = ResponseFrame::parse(frame).map_err(|error| error.to_string())?;
        let (code, words) = match asked.wanted.change {
            Change::Add => response
                .decode(asked.version)
                .map(|answer: AddRaftVoterResponse| (answer.error_code, answer.error_message)),
            Change::Remove => response
                .decode(asked.version)
                .map(|answer: RemoveRaftVoterResponse| (answer.error_code, answer.error_message)),
        }
        .map_err(|error| error.to_string())?;
        let words = words.unwrap_or_default();
        let reason = REASONS.iter().find(|(phrase, _)| words.contains(phrase));
        let perhaps = PERHAPS.iter().any(|phrase| words.contains(phrase));
        let told = match (code == ErrorCode::None, perhaps) {
            (true, _) => Told::Done,
            (false, true) => Told::Perhaps,
            (false, false) => Told::Refused(code),
        };
        let unmarked = [LOST_BEFORE, PERHAPS[2]].iter().any(|phrase| words.contains(phrase));
        let known = reason.is_some() || unmarked;
        if (code == ErrorCode::None) == known {
            return Err(format!("{code} with the words {words:?}"));
        }
        asked.told = told;
        let words = if words.is_empty() { "done".to_owned() } else { words };
        Ok(Heard { asked: index, told, mark: reason.map(|(_, mark)| *mark), words })
    }
}
