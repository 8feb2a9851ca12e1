//! The Raft dialect of Kafka's metadata quorum as one function over plain data.
//!
//! [`Quorum::step`] takes an [`Input`] and appends [`Effect`]s; nothing here reads a clock, a disk, a
//! socket or a source of entropy, and no record bytes pass through: the core sees offsets, epochs and
//! control records. Start at [`Quorum`], then [`Input`] and [`Effect`].
//!
//! | word | meaning |
//! |---|---|
//! | epoch | a leadership period; at most one leader each |
//! | end | one past the last offset of a log, durable or not |
//! | durable | one past the last offset that survives a crash of this node |
//! | high watermark | one past the last committed offset; `None` while unknown |
//! | voter, observer | a replica that the latest voter set names, or does not name |
//! | start | first offset of the log |

mod config;
mod effect;
mod message;

pub use config::{Config, ElectionState, Recovered};
pub use effect::{
    BatchMark, Call, ControlRecord, Destination, Effect, Features, Input, Loss, Refusal, Source,
    Ticket, Token, Write, WriteId,
};
pub use message::{
    BeginQuorumEpoch, EndQuorumEpoch, Endpoint, ErrorKind, Fetch, FetchAnswer, FetchHighWatermark,
    Fetched, LeaderView, Request, Response, Vote, VoteAnswer,
};
