//! The state that a Kafka controller's log describes: brokers, topics, configs and so on.
//!
//! [`MetadataImage`] is the state, a value: cheap to clone, equal if what it holds is equal, made
//! again by its own [`MetadataImage::records`]. [`Loader`] makes one out of a snapshot and the log
//! behind it, metadata transactions honoured, and [`Mirror`] is the machine of a node that follows
//! a cluster. [`Leaf`] shows a state as a tree. Nothing here decides anything for a cluster:
//! records are applied as they were written, and one that makes no sense is refused and told, never
//! a panic.

mod access;
mod brokers;
mod configs;
mod features;
mod image;
mod loader;
mod mirror;
mod partition;
mod quotas;
mod refused;
mod shared_map;
mod topics;
mod tree;

pub use access::{Acls, Credentials, Tokens};
pub use brokers::{Brokers, Controllers};
pub use configs::{ConfigResource, Configs, resource_type_name};
pub use features::{Features, KRAFT_VERSION, METADATA_VERSION};
pub use image::MetadataImage;
pub use loader::{Fault, Loader};
pub use mirror::{Counts, Mirror, Picture};
pub use partition::Partition;
pub use quotas::{QuotaEntity, Quotas};
pub use refused::Refused;
pub use shared_map::SharedMap;
pub use topics::{Topic, Topics};
pub use tree::{Leaf, Part, is_secret};
