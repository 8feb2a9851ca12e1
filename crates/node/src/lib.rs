//! One replica as a value, and the threads and sockets that drive it.

pub mod config;
pub mod handle;
pub mod status;
