//! Rollups of children, and computed fields.

pub mod averages;
pub mod computed;
pub mod rollups;
