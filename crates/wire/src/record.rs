//! Keys and values of records. What surrounds them, batches, is the log's.

pub mod control;
pub mod metadata;
