//! Copies and snapshots of fields of referenced documents.

pub mod copies;
pub mod fan_out;
pub mod snapshots;
