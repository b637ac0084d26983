//! The inbox.

pub mod alerts;
