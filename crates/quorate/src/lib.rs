//! Quorate.
pub mod properties;
pub mod settings;
