//! The typed language: fields, filters, sorts, expressions and aggregates.

pub mod aggregate;
pub mod field;
pub mod query;
