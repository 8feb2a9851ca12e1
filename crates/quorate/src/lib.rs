//! Quorate.
pub mod http;
pub mod properties;
pub mod settings;
