//! Values that have the form they must have and leave a node without any use: it would start, say
//! nothing, and never elect, copy or serve. Each is refused with what would come of it and what to
//! write instead; what only makes a node slow is a note.
//!
//! Only what a file or the command line gives is judged here, never the stand-in of a wrong value.

use super::table::{self, Setting};
use super::values::Values;
use quorate_node::config::{Config, HostPort};
use quorate_wire::ApiKey;

/// Below this an answer counts as lost while a disk stores what it promises.
const TIMEOUT_LEAST_MS: u64 = 50;
/// Beyond this nobody waits for what a node waits for; the value was meant to be in another unit.
const TIMEOUT_MOST_MS: u64 = 3_600_000;
/// Below this each batch begins a file of its own.
const SEGMENT_LEAST_MS: u64 = 1_000;
/// Below this a copy of a snapshot takes longer than anybody expects.
const PIECE_BYTES: u64 = 16 << 10;

pub(super) fn judge(values: &mut Values, config: &Config, notes: &mut Vec<String>) {
    let longest = ApiKey::Forward.max_request_bytes() as u64;
    if given(values, &table::REQUEST_MAX_BYTES).is_some_and(|bytes| bytes < longest) {
        let why = format!(
            "must be {longest} or more: nodes pass on what clients write in requests of up to that length, and a longer \
             request than this closes its connection, so that less cuts the node off; without this line it is 104857600"
        );
        values.wrong(&table::REQUEST_MAX_BYTES, why);
    }
    for (setting, what) in [
        (&table::ELECTION_TIMEOUT, "an election is over before votes are stored and counted"),
        (&table::FETCH_TIMEOUT, "a leader is taken for dead while it stores what it answers"),
        (&table::REQUEST_TIMEOUT, "an answer counts as lost while it is on its way"),
    ] {
        if given(values, setting).is_some_and(|ms| ms < TIMEOUT_LEAST_MS) {
            let default = setting.default.unwrap_or_default();
            let why = format!(
                "must be {TIMEOUT_LEAST_MS} or more, in milliseconds: with less {what}, and nobody leads for long; \
                 without this line it is {default}"
            );
            values.wrong(setting, why);
        }
    }
    for (setting, what) in [
        (&table::ELECTION_TIMEOUT, "nobody is elected"),
        (&table::FETCH_TIMEOUT, "a leader that died is not replaced"),
        (&table::ELECTION_BACKOFF, "a leader that resigned is not replaced"),
        (&table::REQUEST_TIMEOUT, "an answer that was lost is waited for"),
        (&table::RETRY_BACKOFF, "a node that was down for a moment is not asked again"),
    ] {
        if given(values, setting).is_some_and(|ms| ms > TIMEOUT_MOST_MS) {
            let default = setting.default.unwrap_or_default();
            let why = format!(
                "must be {TIMEOUT_MOST_MS} or less, in milliseconds: for as long {what}; without this line it is {default}"
            );
            values.wrong(setting, why);
        }
    }
    if given(values, &table::RETRY_BACKOFF) == Some(0) {
        let why = "must be 1 or more: with 0 a node that is down is asked without a pause, and there is time for nothing else; without this line it is 20";
        values.wrong(&table::RETRY_BACKOFF, why);
    }
    if given(values, &table::SEGMENT_MS).is_some_and(|ms| (1..SEGMENT_LEAST_MS).contains(&ms)) {
        let why = format!(
            "must be {SEGMENT_LEAST_MS} or more, in milliseconds: with less nearly every write begins a file, until the \
             file system takes no more of them; without this line it is 604800000"
        );
        values.wrong(&table::SEGMENT_MS, why);
    }
    if let Some(http) = config.http.as_ref().filter(|http| meet(http, &config.bind)) {
        let port = http.port;
        let why = format!(
            "has port {port}, at which this node listens for the other nodes: only one of the two can be opened; take \
             another port for HTTP"
        );
        values.wrong(&table::HTTP, why);
    }
    let piece = given(values, &table::SNAPSHOT_MAX_BYTES);
    if let Some(bytes) = piece.filter(|bytes| (1..PIECE_BYTES).contains(bytes)) {
        let questions = (1_u64 << 30).div_ceil(bytes);
        notes.push(format!(
            "{}={bytes}: a node that copies a snapshot asks its leader {questions} times for each gigabyte, one after the \
             other, and may never catch up with those that write; without that line it is 1048576",
            table::SNAPSHOT_MAX_BYTES.name
        ));
    }
}

/// A number that is given, and is one.
fn given(values: &Values, setting: &Setting) -> Option<u64> {
    let text = values.text(setting).filter(|_| values.is_given(setting))?;
    text.parse().ok()
}

/// Whether two addresses cannot both be listened at.
fn meet(one: &HostPort, other: &HostPort) -> bool {
    let every = |at: &HostPort| ["", "0.0.0.0", "::"].contains(&at.host.as_str());
    one.port == other.port
        && one.port != 0
        && (one.host == other.host || every(one) || every(other))
}
