//! Questions from outside and answers of our making, field by field: what no correct peer would say
//! too.
//!
//! What a script leaves out is what a correct peer of the receiver's epoch would say.

use super::words::Words;
use crate::cluster::{Cluster, Record, endpoints, key};
use quorate_base::{Cleaned, Epoch, FormatLevel, Offset, OffsetEpoch, ReplicaId, Span};
use quorate_raft::*;

pub fn request(
    cluster: &Cluster,
    verb: &str,
    to: ReplicaId,
    from: ReplicaId,
    words: &mut Words<'_>,
) -> Request {
    let picture = cluster.picture(to);
    let epoch = words.epoch("epoch").unwrap_or(picture.epoch);
    let whole = key(from);
    match verb {
        "vote" | "prevote" => Request::Vote(Vote {
            epoch,
            candidate: words.key("candidate").unwrap_or(whole),
            voter: words.key("voter"),
            last: last(words, "last").unwrap_or(OffsetEpoch::new(picture.end, picture.last_epoch)),
            pre_vote: verb == "prevote",
        }),
        "begin" => Request::BeginQuorumEpoch(BeginQuorumEpoch {
            epoch,
            leader: from,
            voter: words.key("voter"),
            endpoints: endpoints(from, words.number("endpoints").unwrap_or(0) as usize),
        }),
        "end" => {
            let list = words.option("successors").unwrap_or("");
            let list = list.split(',').filter(|word| !word.is_empty());
            Request::EndQuorumEpoch(EndQuorumEpoch {
                epoch,
                leader: from,
                successors: list.map(|word| words.key_of(word)).collect(),
                endpoints: endpoints(from, words.number("endpoints").unwrap_or(0) as usize),
            })
        }
        "fetch" => Request::Fetch(Fetch {
            epoch,
            replica: match words.option("replica") {
                None => Some(whole),
                Some("-") => None,
                Some(word) => Some(words.key_of(word)),
            },
            from: last(words, "from").unwrap_or(OffsetEpoch::new(picture.end, picture.last_epoch)),
            high_watermark: match words.option("hw") {
                None => FetchHighWatermark::Unsaid,
                Some("-") => FetchHighWatermark::Known(None),
                Some(word) => {
                    FetchHighWatermark::Known(Some(Offset(word.parse().expect("an offset"))))
                }
            },
            max_wait: Span::ms(words.number("wait").unwrap_or(500)),
            max_bytes: 1_000_000,
            round: words.number("round"),
            no_room: false,
            format_level: FormatLevel(words.number("level").unwrap_or(0) as u16),
            history: None,
            never_leads: false,
        }),
        "fetchsnapshot" => Request::FetchSnapshot(FetchSnapshot {
            epoch,
            replica: match words.option("replica") {
                None => Some(whole),
                Some("-") => None,
                Some(word) => Some(words.key_of(word)),
            },
            snapshot: last(words, "snapshot").expect("an id"),
            position: words.number("position").unwrap_or(0),
            max_bytes: words.number("max").unwrap_or(100) as u32,
        }),
        "update" => Request::UpdateVoter(UpdateVoter {
            epoch,
            voter: Voter {
                key: words.key("key").unwrap_or(whole),
                endpoints: words.option("at").map_or([].into(), endpoint),
                versions: match words.option("versions") {
                    None => KRAFT_VERSIONS,
                    Some(word) => range(word),
                },
            },
        }),
        "add" => Request::AddVoter(AddVoter {
            key: words.key("key").expect("whom"),
            endpoints: words.option("at").map_or([].into(), endpoint),
            when_committed: words.option("answer") != Some("early"),
            replaces: words.key("replaces").and_then(|key| key.directory),
        }),
        "upgrade" => Request::Upgrade(Upgrade {
            version: words.number("to").unwrap_or(1) as u16,
            validate_only: words.option("only") == Some("validate"),
        }),
        "remove" => Request::RemoveVoter(RemoveVoter { key: words.key("key").expect("whom") }),
        other => panic!("no such question: {other}"),
    }
}

/// `CONTROLLER/n1b`: a listener and a host.
fn endpoint(word: &str) -> std::sync::Arc<[Endpoint]> {
    let (listener, host) = word.split_once('/').expect("at=LISTENER/HOST");
    [Endpoint { listener: listener.to_owned(), host: host.to_owned(), port: 9_093 }].into()
}

/// `0..1`, with both ends.
pub fn range(word: &str) -> (u16, u16) {
    let (least, most) = word.split_once("..").expect("a range like 0..1");
    (least.parse().expect("a number"), most.parse().expect("a number"))
}

fn last(words: &mut Words<'_>, name: &str) -> Option<OffsetEpoch> {
    let word = words.option(name)?;
    Some(words.end_epoch(word))
}

/// The answer and the records in it.
pub fn answer(
    cluster: &Cluster,
    to: ReplicaId,
    from: ReplicaId,
    words: &mut Words<'_>,
) -> (Response, Vec<Record>) {
    let picture = cluster.picture(to);
    let leader = match words.maybe("leader") {
        None => picture.leader,
        Some(leader) => leader.map(|id| ReplicaId(id as u32)),
    };
    let view = LeaderView {
        error: error(words.option("error").unwrap_or("NONE")),
        epoch: words.epoch("epoch").unwrap_or(picture.epoch),
        leader,
        endpoints: endpoints(from, words.number("endpoints").unwrap_or(0) as usize),
    };
    if let Some(granted) = words.option("granted") {
        return (Response::Vote(VoteAnswer { view, granted: granted == "yes" }), Vec::new());
    }
    match words.option("to") {
        Some("begin") => return (Response::BeginQuorumEpoch(view), Vec::new()),
        Some("update") => return (Response::UpdateVoter(view), Vec::new()),
        Some("end") => return (Response::EndQuorumEpoch(view), Vec::new()),
        Some("fetchsnapshot") => {
            let position = words.number("position").unwrap_or(0);
            let piece = words.number("bytes").map_or(Piece::Nothing, |bytes| Piece::Received {
                size: words.number("size").unwrap_or(10),
                bytes: bytes as u32,
            });
            let snapshot = last(words, "snapshot").unwrap_or_default();
            let answer = SnapshotAnswer { view, snapshot, position, piece };
            return (Response::FetchSnapshot(answer), Vec::new());
        }
        Some(other) => panic!("no such question: {other}"),
        None => {}
    }
    let (mut fetched, mut records) = (Fetched::Nothing, Vec::new());
    if let Some(at) = last(words, "diverging") {
        fetched = Fetched::Diverging(at);
    }
    if let Some(at) = last(words, "snapshot") {
        fetched = Fetched::Snapshot(at);
    }
    if let Some(list) = words.option("batches") {
        let marks: Vec<BatchMark> = list.split(',').map(|word| batch(words, word)).collect();
        for mark in &marks {
            let nonce = mark.base.0 + 1;
            let count = (mark.last.0 + 1).saturating_sub(mark.base.0);
            let decree = mark.decree.clone().map(|decree| &*Box::leak(decree));
            records.extend((0..count).map(|_| Record { epoch: mark.epoch, nonce, decree }));
        }
        fetched = Fetched::Batches(marks);
    }
    let high_watermark = match words.maybe("hw") {
        None => picture.high_watermark,
        Some(offset) => offset.map(Offset),
    };
    let round = words.number("round");
    let cleaned = match words.option("cleaned") {
        None => round.map(|_| Cleaned::NEVER),
        Some("none") => None,
        Some(word) => Some(cleaned(word)),
    };
    let bound = words.number("bound").map(Offset);
    let start = Offset::ZERO;
    let answer =
        FetchAnswer { view, high_watermark, start, fetched, round, cleaned, bound, history: None };
    (Response::Fetch(answer), records)
}

/// `9/9/0`: dirty, clean, horizon.
pub fn cleaned(word: &str) -> Cleaned {
    let parts: Vec<u64> = word.split('/').map(|part| part.parse().expect("an offset")).collect();
    let [dirty, clean, horizon] = parts[..] else { panic!("`{word}` is no DIRTY/CLEAN/HORIZON") };
    Cleaned { dirty: Offset(dirty), clean: Offset(clean), horizon: Offset(horizon) }
}

/// `4..6@2`: half-open, with its epoch. `4..6@2/v1=1:own+2:own` has control records.
fn batch(words: &Words<'_>, word: &str) -> BatchMark {
    let (word, decree) = match word.split_once('/') {
        Some((word, decree)) => (word, Some(Box::new(words.decree(decree)))),
        None => (word, None),
    };
    let parts = word.split_once('@').and_then(|(range, epoch)| {
        let (base, end) = range.split_once("..")?;
        Some((base.parse().ok()?, end.parse::<u64>().ok()?, epoch.parse().ok()?))
    });
    let (base, end, epoch) = parts.unwrap_or_else(|| panic!("`{word}` is no batch"));
    BatchMark {
        base: Offset(base),
        last: Offset(end - 1),
        epoch: Epoch(epoch),
        control: decree.is_some(),
        decree,
    }
}

fn error(word: &str) -> ErrorKind {
    use super::narrate::{ERRORS, name_of};
    let found = ERRORS.iter().find(|kind| name_of(**kind) == word);
    *found.unwrap_or_else(|| panic!("no such error: {word}"))
}
