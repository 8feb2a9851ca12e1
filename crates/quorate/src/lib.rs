//! A replicated log and state machine in your process: Kafka's metadata quorum, in Rust.
//!
//! Three steps to a service that survives the loss of machines: implement [`Machine`], give each
//! node a [`Config`] and a formatted directory, start it with [`Embedded::start`]. Any node takes
//! any request; a write that was answered is on the disks of a majority. Wrap the machine in
//! [`Sessioned`], write through a [`Session`], and requests that were sent twice are applied once.
//! `examples/counter.rs` is a whole one, in one process by [`Embedded::cluster_in`].
//!
//! ```no_run
//! use quorate::{Config, Consistency, Embedded, HostPort, Kv, ReplicaId, Request, Span, Voter, kv};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let at = |port| HostPort { host: "127.0.0.1".into(), port };
//! let voters = (1..=3).map(|id| Voter { id: ReplicaId(id), at: at(9090 + id as u16) }).collect();
//! let config = Config::new(Some(ReplicaId(1)), "data/node-1".into(), voters, at(9091));
//!
//! quorate::format(&config, Some("our-cluster"))?;
//! let node = Embedded::start(config, Kv::new())?;
//!
//! let put = kv::Write::Put { key: b"greeting", value: b"hello", condition: Default::default() };
//! node.handle().write(Request::write(put.encode()?), Span::ms(5_000)).await?;
//!
//! let (get, fresh) = (kv::Query::Get { key: "greeting".into() }, Consistency::Linearizable);
//! let (reply, version) = node.handle().read(get, fresh, Span::ms(5_000)).await?;
//! println!("{reply:?} at {version}");
//! # Ok(())
//! # }
//! ```
//!
//! The binary `quorate` is this crate too: [`properties`] and [`settings`] read Kafka's files,
//! [`http`] serves the [`Kv`] machine, [`registration`] is for controllers of a Kafka cluster.

#[doc(hidden)]
pub mod cluster_facts;
mod embedded;
#[doc(hidden)]
pub mod exchange;
mod format;
pub mod http;
pub mod properties;
pub mod recover;
pub mod registration;
mod session;
pub mod settings;

pub use embedded::{EmbedError, Embedded};
pub use format::{
    Bootstrap, FormatError, Formatted, Formatting, Founders, InitialController, check_cluster_id,
    complete, feature, format, format_as, initial_controllers, random_uuid,
};
pub use quorate_base::{Epoch, FormatLevel, Offset, OffsetEpoch, ReplicaId, Rng, Span, Time, Uuid};
pub use quorate_machine::{
    Answer, Batch, Corrupt, Image, Kv, Machine, NEWEST_FORMAT_LEVEL, Operation, OwnedRecord,
    Proposal, Record, Records, Request, SessionId, SessionRefusal, Sessioned, Stamp, kv,
};
pub use quorate_node::config::{Cleanup, Config, HostPort, Voter};
pub use quorate_node::handle::{Consistency, Error, Handle};
pub use quorate_node::runtime::{Fatal, Node};
pub use quorate_node::start::StartError;
pub use quorate_node::status;
pub use session::{Session, SessionError};
