//! The nouns that every crate of Quorate shares: offsets, epochs, replica keys, uuids, time.
//!
//! A closed list. A type belongs here only when two crates that must not know each other (see
//! docs/ARCHITECTURE.md) both speak of it. Nothing here reads a clock, a file or a random source.

mod cleaned;
mod level;
mod offset;
mod replica;
mod rng;
mod time;
mod uuid;

pub use cleaned::Cleaned;
pub use level::FormatLevel;
pub use offset::{Epoch, Offset, OffsetEpoch};
pub use replica::{ReplicaId, ReplicaKey};
pub use rng::Rng;
pub use time::{Span, Time};
pub use uuid::{BadUuid, Uuid};
