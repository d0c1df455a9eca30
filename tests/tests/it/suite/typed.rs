//! The typed language: what an application sees.

pub mod copies;
pub mod counts;
pub mod snapshots;
