//! Rollups of children, and computed fields.

pub mod computed;
pub mod rollups;
