//! The Raft dialect of Kafka's metadata quorum as one function over plain data.
//!
//! [`Quorum::step`] takes an [`Input`] and appends [`Effect`]s; nothing here reads a clock, a disk,
//! a socket or a source of entropy, and no record bytes pass through: the core sees offsets, epochs
//! and control records. Start at [`Quorum`], then [`Input`] and [`Effect`].
//!
//! | word | meaning |
//! |---|---|
//! | epoch | a leadership period; at most one leader each |
//! | end | one past the last offset of a log, durable or not |
//! | durable | one past the last offset that survives a crash of this node |
//! | high watermark | one past the last committed offset; `None` while unknown |
//! | voter, observer | a replica that the latest voter set names, or does not name |
//! | start | first offset of the log |

mod aside;
mod changes;
mod check;
mod cleaned;
mod complaint;
mod config;
mod damaged;
mod decrees;
mod download;
mod effect;
mod election;
mod epochs;
mod fetch;
mod follower;
mod holds;
mod join;
mod leader;
mod learn;
mod majority;
mod message;
mod mutants;
mod open;
mod outbox;
mod peers;
mod quorum;
mod reads;
mod resigned;
mod role;
mod snapshots;
#[cfg(test)]
mod tests;
mod twins;
mod unchanged;
mod update;
mod upgrade;
mod view;
mod voters;
mod writes;

pub use config::{Config, ElectionState, Recovered};
pub use decrees::{BadDecree, Decree};
pub use effect::{
    BatchMark, Call, Complaint, ControlRecord, Destination, Effect, Features, Input, Loss, Refusal,
    Source, Ticket, Token, Write, WriteId,
};
pub use holds::Hold;
pub use leader::Progress;
pub use majority::majority;
pub use message::{
    AddVoter, BeginQuorumEpoch, ChangeAnswer, EndQuorumEpoch, Endpoint, ErrorKind, Fetch,
    FetchAnswer, FetchHighWatermark, FetchSnapshot, Fetched, LeaderView, Piece, RemoveVoter,
    Request, Response, SnapshotAnswer, UpdateVoter, Upgrade, Vote, VoteAnswer,
};
#[cfg(mutants)]
pub use mutants::Mutant;
pub use open::OpenError;
pub use quorum::Quorum;
pub use unchanged::{NoUpgrade, Unchanged, Unfit};
pub use view::{RoleName, View};
pub use voters::{KRAFT_VERSIONS, Voter};
