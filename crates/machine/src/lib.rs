//! State machines on a replicated log: the trait, exactly-once sessions and the key-value store.
//!
//! [`Machine`] is one of the two seams of Quorate, the one above the log: an embedder implements
//! it, and so do [`Kv`] and [`Sessioned`], which wraps any machine and applies a repeated request
//! once. Everything here is a pure function of the log and of the times passed in: no clock,
//! thread, file, socket or hash map. The bytes of records are decoded and encoded elsewhere; see
//! [`Batch`] for what comes in and [`Proposal`] for what goes out.

mod batch;
mod digest;
pub mod kafka;
pub mod kv;
mod leaves;
mod level_record;
mod machine;
mod proposal;
mod request;
mod session_record;
mod sessioned;
mod tail;

pub use batch::{Batch, Header, HeaderIter, Headers, Record};
pub use kv::Kv;
pub use level_record::NEWEST_FORMAT_LEVEL;
pub use machine::{Corrupt, Image, Machine, OwnedRecord, Records};
pub use proposal::{Group, MAX_ANSWER_BYTES, Proposal};
pub use request::{Answer, Operation, Request, SessionId, SessionRefusal, Stamp};
pub use sessioned::{MAX_SESSION_SLOTS, MAX_SESSION_TTL, MAX_SESSIONS, MIN_SESSION_TTL, Sessioned};
